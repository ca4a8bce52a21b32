"""Where texts define a name that is typed: below a heading, in a list of terms, after `def`, in the document so named.

Mentions of an option or a function are many, and lists of links have its name most often for their length. What defines
it has it where a line begins, or as the title, whatever the format was: readers give headings and defined terms a line
of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from mog_assets.index.analysis import QUALIFIED
from mog_assets.text.cuts import alone, leads

# How a piece has a name, best first: it begins a heading or a term above text, follows a keyword such as `def`, or the
# document is of that name; a declaration, or a line that goes on after it, defines it; a heading has it among others,
# or a sentence that begins a line; it is mentioned.
HEADED, DECLARED, NAMED, MENTIONED = 1, 2, 3, 4
# What may stand before a name at the start of a line: marks of headings, lists and code, numbers of sections, other
# spellings of an option.
_BEFORE = (
    r"[ \t]*(?:[#>*+`'\"•·\[(-]+[ \t]*)?(?:\(?[A-Z]?\d+(?:\.\d+)*[.)]?[ \t\xa0]+)?[`*'\"(\[]*"
    r"(?:-[\w-]+(?:[ =][\w<>]+)?,[ ]){0,2}"
)
_AFTER = r"[`'\"*\])]*"
_SET = re.compile(r"[ \t]+[:=]|=['\"]")
_SENTENCE = re.compile(r"[^\n]{20,}[.!?:][\s)]*")
# A keyword defines what follows it, unless a sentence goes on after that.
_DEFINED = (
    r"[ \t]*(?:(?:abstract|add|alter[ ]table[ ]\S+|async|constexpr|create|data|declare|default|export|extern|final"
    r"|global|inline|internal|materialized|open|or|override|private|protected|pub(?:\([\w: ]+\))?|public|replace|sealed"
    r"|static|temp|temporary|unique|unsafe|virtual)[ \t]+)*(?:class|column|def|enum|fn|fun|func|function|index"
    r"|interface|macro|macro_rules!|mod|module|namespace|procedure|protocol|record|struct|sub|table|trait|trigger|type"
    r"|typedef|union|view|(?:const|let|var)(?=.*(?:=>|\bfunction\b|=[ \t]*(?:async[ \t]*)?\()))(?:[ ]*\([^()\n]*\)"
    r"|[ ]if not exists)?[ \t*&]+[`\"\[]?(?:\w+(?:::|\.))*NAME[`\"\]]?[ \t]*(?:[^\w\s.,].*|(?:extends|implements|as|on"
    r"|before|after|(?-i:[A-Z]{2,}))\b.*|\S+[ \t]*[{(]?)?"
)
# So do types, parameters and a brace, a type in capitals, brackets of a table, a colon; what uses it looks the same.
_TYPE = r"[@#]?[A-Za-z_<](?:[\w<>,?\[\]]|::|\(crate\))*"
_USES = r"(?:assert|await|case|delete|drop|elif|else|from|go|if|import|in|new|not|raise|return|throw|use|while|yield)\b"
_DECLARED = (
    rf"#define[ \t]+NAME.*|[ \t]*(?!{_USES})(?:{_TYPE}(?:[ \t*&]+{_TYPE}){{0,4}}[ \t*&]+(?:[\w<>]+::)*NAME[ \t]*"
    r"[(\[=<{:;](?:[^\n]*[;{)(:=,])?(?:[ \t]*/[/*].*)?|(?:[\w<>]+::)*NAME(?:<[^\n]*>)?[ \t]*\([^;\n]*\)[^;()\n]*\{"
    r"|NAME[ \t]+(?-i:[A-Z]{3,})\b.*|\[+(?:[\w-]+\.)*NAME\]+|[\"']?NAME[\"']?[ \t]*:[ \t]*)"
)
_GOES_ON = rf"{_BEFORE}NAME{_AFTER}(?:[^\n.|,]|,[ ](?=-)){{0,60}}?(?:(?:[ \t]*[:—–]|[ \t][-=])[ \t]+\S|[ ]{{2,}}\S)"
_TITLE = rf"(?:.*[:—–|][ \t]*)?NAME{_AFTER}(?:\(\w*\))?(?:[ \t]*[:—–|-].*)?"
# What defines a name has it so near to the start of a line; a line of minified code has it many times.
_WITHIN = 200
# How far above a method its class is looked for; labels and brackets enclose nothing.
_FAR, _ENCLOSES = 20_000, re.compile(r"\s*(?!(?:public|private|protected)\b.*:$)\W*\w")


class Definitions:
    """Tells how texts have a name.

    Args:
        name: As it is typed.
        texts: That may have it. If one has it with the same capitals, those with others do not count.
    """

    def __init__(self, name: str, texts: Sequence[str] = ()) -> None:
        name = name.strip().removesuffix("()")
        *above, last = re.split(r"\.|::|->|#", name) if QUALIFIED.fullmatch(name) else [name]
        self._last = Definitions(last, texts) if above else None
        self._above = re.compile(rf"(?<!\w){re.escape(above[-1] if above else name)}(?!\w)", re.IGNORECASE)
        parts = r"(?:\.|::|->|#)".join(map(re.escape, [*above, last]))
        case = "" if name.islower() or not any(last in text for text in texts) else "-i"
        bounded = rf"(?<![\w-])(?{case}:{parts})(?![\w-])"
        forms = ("NAME", _BEFORE + "NAME", _DEFINED, _DECLARED, _GOES_ON, _TITLE)
        patterns = [re.compile(form.replace("NAME", bounded), re.IGNORECASE) for form in forms]
        self._has, self._begins, self._defines, self._declares, self._goes_on, self._title = patterns

    def named(self, title: str, document: str) -> bool:
        """Return whether a document is of that name, by its title or its file."""
        return any(self._title.fullmatch(text) for text in (title.strip(), PurePosixPath(document).stem))

    def rank(self, text: str, start: int, end: int, document: str = "") -> int:
        """Return how a piece of a text has it, of the values above; 0 if it does not.

        A piece that has `method` in or below `Class`, or in a document of that name, defines `Class.method`.
        """
        best = 0
        for match in self._has.finditer(text, start, end):
            first = text.rfind("\n", 0, match.start()) + 1
            if match.start() - first > _WITHIN:
                best = best or MENTIONED
                continue
            last = text.find("\n", match.end())
            last = len(text) if last < 0 else last
            kind, begins = MENTIONED, self._begins.match(text, first)
            # `name = value` is an example, and a call may go on in the next line.
            is_term = begins and not _SET.match(text, begins.end()) and text[last - 1] not in "(="
            if (is_term and leads(text, first, last)) or self._defines.fullmatch(text, first, last):
                kind = HEADED
            elif self._declares.fullmatch(text, first, last) or self._goes_on.match(text, first, last):
                kind = DECLARED
            elif (begins and _SENTENCE.fullmatch(text, begins.end(), last)) or (
                alone(text, first, last) and leads(text, first, last)
            ):
                kind = NAMED
            best = min(best or kind, kind)
        if self._last and not HEADED <= best <= DECLARED:
            for match in self._last._has.finditer(text, start, end):
                kind = self._last.rank(text, *match.span())
                if kind <= DECLARED and (self._above.search(document) or self._encloses(text, match.start())):
                    best = min(best or kind, kind)
        return best

    def _encloses(self, text: str, start: int) -> bool:
        """Return whether what is before the last part stands before a place, or in a line that it is below."""
        own, *lines = reversed(text[max(start - _FAR, 0) : start].split("\n"))
        depth, enclosing = len(own) - len(own.lstrip()), [own]
        # Indented lines of code are below no heading, but below comments that look so.
        marks = () if depth else ("#",)
        for line in lines:
            indented = -1 if line.startswith("[") else len(line) - len(line.lstrip())
            if line.startswith(marks):
                enclosing.append(line)
            elif indented < depth and _ENCLOSES.match(line):
                enclosing.append(line)
                depth = indented
        return any(map(self._above.search, enclosing))
