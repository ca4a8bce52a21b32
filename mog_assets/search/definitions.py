"""Where texts define a name that is typed: below a heading, in a definition list, in the document of that name.

Mentions of an option or a function are many, and lists of links have its name most often for their length. What defines
it has it where a line begins, or as the title, whatever the format was: readers give headings and defined terms a line
of their own.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from mog_assets.text.cuts import alone, leads

# How a piece has a name, best first: it begins a heading or a term above text, or the document is of that name; a
# declaration, or a line that goes on after it, defines it; a heading has it among others, or a sentence that begins a
# line; it is mentioned.
HEADED, DECLARED, NAMED, MENTIONED = 1, 2, 3, 4
# What may stand before a name at the start of a line: marks of headings, lists and code, numbers of sections.
_BEFORE = r"(?:[#>*+`'\"•·\[(-]+[ \t]*)?(?:\(?[A-Z]?\d+(?:\.\d+)*[.)]?[ \t\xa0]+)?[`*'\"(\[]*"
_SET = re.compile(r"[ \t]+[:=]|=['\"]")
_SENTENCE = re.compile(r"[^\n]{20,}[.!?:][\s)]*")
# Words of a declaration: types, `def`, `#define`.
_TYPES = r"#?[A-Za-z_][\w:<>,]*(?:[ \t*&]+[A-Za-z_][\w:<>,]*){0,4}[ \t*&]+"


class Definitions:
    """Tells how texts have a name.

    Args:
        name: As it is typed.
    """

    def __init__(self, name: str) -> None:
        name = name.strip().removesuffix("()")
        bounded = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
        after = r"[`'\"*\])]*"
        self._has = re.compile(bounded, re.IGNORECASE)
        self._begins = re.compile(_BEFORE + bounded, re.IGNORECASE)
        declared = rf"#define[ \t]+{bounded}.*|{_TYPES}{bounded}[ \t]*[(\[=<{{:;](?:[^\n]*[;{{)(:=])?(?:[ \t]*/\*.*)?"
        self._declares = re.compile(declared, re.IGNORECASE)
        parted = r"(?:[ \t]*[:—–]|[ \t][-=])[ \t]+\S|[ ]{2,}\S"
        self._goes_on = re.compile(
            rf"{_BEFORE}{bounded}{after}(?:[^\n.|,]|,[ ](?=-)){{0,60}}?(?:{parted})", re.IGNORECASE
        )
        self._title = re.compile(rf"(?:.*[:—–|][ \t]*)?{bounded}{after}(?:\(\w*\))?(?:[ \t]*[:—–|-].*)?", re.IGNORECASE)

    def named(self, title: str, document: str) -> bool:
        """Return whether a document is of that name, by its title or its file."""
        return any(self._title.fullmatch(text) for text in (title.strip(), PurePosixPath(document).stem))

    def rank(self, text: str, start: int, end: int) -> int:
        """Return how a piece of a text has it, of the values above; 0 if it does not."""
        best = 0
        for match in self._has.finditer(text, start, end):
            first = text.rfind("\n", 0, match.start()) + 1
            last = text.find("\n", match.end())
            last = len(text) if last < 0 else last
            kind, begins = MENTIONED, self._begins.match(text, first)
            # `name = value` is an example.
            if begins and not _SET.match(text, begins.end()) and leads(text, first, last):
                kind = HEADED
            elif self._declares.fullmatch(text, first, last) or self._goes_on.match(text, first, last):
                kind = DECLARED
            elif (begins and _SENTENCE.fullmatch(text, begins.end(), last)) or (
                alone(text, first, last) and leads(text, first, last)
            ):
                kind = NAMED
            best = min(best or kind, kind)
        return best
