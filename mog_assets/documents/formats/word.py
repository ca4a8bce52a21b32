"""Read Word documents: paragraphs, headings and lists with their numbers, formulas and tables, in their order."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.archives import unpack
from mog_assets.documents.formats.marks import MarkedText, Parsed, clean
from mog_assets.documents.formats.office import CHART, DIAGRAM, MATH, RELATED, WORD, Package, outermost, rows, text_of
from mog_assets.registry import FORMATS

BULLET = "-"
_ROMAN = dict(m=1000, cm=900, d=500, cd=400, c=100, xc=90, l=50, xl=40, x=10, ix=9, v=5, iv=4, i=1)
_CHINESE = "〇一二三四五六七八九"
# Names of formats that write 12 as 十二.
_COUNTED = re.compile("chineseCount|taiwaneseCount|japaneseCount|chineseLegal|koreanDigital2")


def value(element: Any, name: str) -> str | None:
    """Return the value of a child of an element; None if it has none."""
    child = None if element is None else element.find(f"{WORD}{name}")
    return None if child is None else child.get(f"{WORD}val")


def integer(text: str | None, otherwise: int) -> int:
    """Return a whole number, or what stands for one that is missing or damaged."""
    return int(text) if text and text.isdecimal() else otherwise


class Numbering:
    """Counts the paragraphs of lists, in the order in which they are asked for."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, Any]] = {}
        # Of each list: the levels that it counts by, those that it counts anew, and the first number of each.
        self._lists: dict[str, tuple[str, dict[int, int], dict[int, int]]] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[tuple[str, int]] = set()
        links, named = dict[str, str | None](), dict[str | None, str]()
        for abstract in () if root is None else root.iter(f"{WORD}abstractNum"):
            key = abstract.get(f"{WORD}abstractNumId", "")
            levels = ((integer(level.get(f"{WORD}ilvl"), 0), level) for level in abstract.iter(f"{WORD}lvl"))
            self._levels[key] = dict(levels)
            links[key], named[value(abstract, "styleLink")] = value(abstract, "numStyleLink"), key
        for one in () if root is None else root.iter(f"{WORD}num"):
            key = value(one, "abstractNumId") or ""
            if link := links.get(key):
                key = named.get(link, key)
            starts = {
                integer(changed.get(f"{WORD}ilvl"), 0): integer(value(changed, "startOverride"), 1)
                for changed in one.iter(f"{WORD}lvlOverride")
                if value(changed, "startOverride")
            }
            first = {at: integer(value(level, "start"), 1) for at, level in self._levels.get(key, {}).items()}
            self._lists[one.get(f"{WORD}numId", "")] = key, starts, first | starts

    def label(self, number: str, level: int | None, style: str) -> str | None:
        """Return what stands before the next paragraph of a list; None if there is no such list.

        Args:
            number: Of the list.
            level: From 0; None for the one that belongs to the paragraph's style.
            style: Id of the paragraph's style.
        """
        key, starts, first = self._lists.get(number, ("", {}, {}))
        levels, counts = self._levels.get(key, {}), self._counts.setdefault(key, {})
        if level is None:
            level = next((at for at, one in levels.items() if value(one, "pStyle") == style), 0)
        if level not in levels:
            return None
        if level in starts and (number, level) not in self._begun:
            self._begun.add((number, level))
            counts.pop(level, None)
        counts[level] = counts[level] + 1 if level in counts else first[level]
        for deeper in [at for at in counts if at > level]:
            del counts[deeper]
        here = levels[level]
        if value(here, "numFmt") == "bullet":
            return BULLET
        decimal = here.find(f"{WORD}isLgl") is not None

        def shown(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            form = "" if decimal else value(levels.get(at), "numFmt") or ""
            return _number(counts.setdefault(at, first.get(at, 1)), form)

        return re.sub("%([1-9])", shown, value(here, "lvlText") or "").strip()


def _number(count: int, form: str) -> str:
    if form.endswith("Roman"):
        roman, left = "", min(count, 9999)
        for letters, worth in _ROMAN.items():
            times, left = divmod(left, worth)
            roman += letters * times
        return roman.upper() if form.startswith("upper") else roman
    if form.endswith("Letter") and count:
        letters = chr(ord("a") + (count - 1) % 26) * ((count - 1) // 26 + 1)
        return letters.upper() if form.startswith("upper") else letters
    if form == "decimalEnclosedCircle" and 0 < count <= 20:
        return chr(ord("①") + count - 1)
    if _COUNTED.match(form) and 0 < count < 100:
        tens, ones = divmod(count, 10)
        return (_CHINESE[tens] if tens > 1 else "") + "十" * (tens > 0) + (_CHINESE[ones] if ones else "")
    return "" if form == "none" else f"{count:02}" if form == "decimalZero" else str(count)


_PARAGRAPH, _TABLE, _INSERTED = f"{WORD}p", f"{WORD}tbl", f"{WORD}altChunk"
_PICTURE = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
# A large first letter is a paragraph of its own.
_INITIAL = f"{WORD}pPr/{WORD}framePr[@{WORD}dropCap]"
# What is left out, by the elements that refer to it.
_UNREAD = {
    "footnotes not read": (f"{WORD}footnoteReference", f"{WORD}endnoteReference"),
    "comments not read": (f"{WORD}commentReference",),
    "charts not read": (f"{CHART}chart", f"{DIAGRAM}relIds"),
    "embedded objects not read": ("{urn:schemas-microsoft-com:office:office}OLEObject",),
}


def read_docx(parts: dict[str, bytes], fallback: str, limit: int, unpacked: int = 0) -> Parsed:
    """Read a Word document. Headers, footers, footnotes and comments are left out.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    package = Package(parts, ".docx", f"{WORD}document")
    body, styles = package.main, _Styles(package)
    draft, title, item = MarkedText(limit), package.title, False
    inserted, unread = package.related(package.name, "aFChunk"), list[str]()
    for block in outermost(body, _PARAGRAPH, f"{MATH}oMathPara", _TABLE, _INSERTED):
        if block.tag == _TABLE:
            for paragraph in block.iter(_PARAGRAPH):
                label = styles.of(paragraph)[1]
                _prefix(paragraph, f"{label} " if label and label != BULLET else "")
            for number, cells in enumerate(rows(block, f"{WORD}tr", f"{WORD}tc")):
                draft.add(" | ".join(cells) if any(cells) else "", "\n" if number else "\n\n")
            item = False
            continue
        if block.tag == _INSERTED:
            name = inserted.get(block.get(f"{RELATED}id", ""), "")
            page = _inserted(name, package.parts.get(name, b""), limit, unpacked)
            draft.add(page.text, marks=page.marks)
            unread += [] if page.text.strip() else [name]
            continue
        text, after = text_of(block).strip(), block.getnext()
        if block.find(_INITIAL) is not None and after is not None and after.tag == _PARAGRAPH:
            _prefix(after, text)
            continue
        depth, label = styles.of(block)
        if depth and not title:
            title = text
        listed = bool(text) and not depth and label is not None
        draft.add(f"{label} {text}".strip() if label and text else text, "\n" if listed and item else "\n\n", depth)
        item = listed
    notes: dict[str, Any] = {name: sum(1 for _ in body.iter(*tags)) for name, tags in _UNREAD.items()}
    notes["alternative texts not read"] = sum(bool(one.get("descr")) for one in body.iter(_PICTURE))
    notes["inserted documents not read"] = unread
    return draft.parsed(title, fallback, {name: note for name, note in notes.items() if note})


def _prefix(paragraph: Any, text: str) -> None:
    """Put a text before that of a paragraph."""
    before = paragraph.makeelement(f"{WORD}t")
    before.text = text
    paragraph.insert(int(paragraph.find(f"{WORD}pPr") is not None), before)


def _inserted(name: str, content: bytes, limit: int, unpacked: int) -> Parsed:
    """Return the text of a document of another kind that stands in a document; blank if it cannot be read."""
    archive = re.match(rb"(?i)\s*(mime-version|from|content-type):", content)
    suffix = ".mht" if archive else PurePosixPath(name).suffix
    if content.startswith(b"PK"):
        return read_docx(unpack(content, ".docx", unpacked), name, limit) if unpacked else Parsed("", "")
    form = FORMATS.get(suffix)
    if form is not None and archive:
        return form.read(name, content, {"text_bytes": limit})
    return form.read(name, clean(decode(content)[0])) if form is not None and form.text else Parsed("", "")


class _Style(NamedTuple):
    depth: int
    listed: bool
    number: str
    level: int | None


class _Styles:
    """Tells of each paragraph, in order, whether it is a heading or an item of a list, and its number."""

    def __init__(self, package: Package) -> None:
        self._numbering = Numbering(next(package.trees("numbering"), None))
        styles = [style for root in package.trees("styles") for style in root.iter(f"{WORD}style")]
        self._elements = {style.get(f"{WORD}styleId", ""): style for style in styles}
        self._styles: dict[str, _Style] = {}

    def of(self, paragraph: Any) -> tuple[int, str | None]:
        """Return depth of a heading, 0 for other paragraphs; what stands before it, None if it is no item of a list."""
        properties = paragraph.find(f"{WORD}pPr")
        key = value(properties, "pStyle") or ""
        style = self._styles.get(key) or self._styles.setdefault(key, self._style(key))
        depth = _outline(properties) or style.depth
        number, level = _numbered(properties)
        listed = style.listed or number is not None
        number, level = (style.number, style.level) if number is None else (number, level or 0)
        label = self._numbering.label(number, level, key) if number else None
        if label is None:
            return depth, BULLET if listed and number != "0" and not depth else None
        return depth, "" if depth and label == BULLET else label

    def _style(self, key: str) -> _Style:
        """Return a style with what it inherits."""
        depth, listed, number, level = 0, False, "", None
        for _ in range(10):
            style = self._elements.get(key)
            if style is None:
                break
            properties, name = style.find(f"{WORD}pPr"), (value(style, "name") or "").lower()
            if not (depth or listed):
                named = int(name[8:]) if name.startswith("heading ") and name[8:].isdecimal() else int(name == "title")
                depth, listed = min(named or _outline(properties), 6), name.startswith("list ")
            own, at = _numbered(properties)
            if own is not None and not number:
                number, level = own, at
            key = value(style, "basedOn") or ""
        return _Style(depth, listed, number, level)


def _outline(properties: Any) -> int:
    """Return depth of a heading by its level in the outline; 0 for none."""
    level = integer(value(properties, "outlineLvl"), 9)
    return min(level + 1, 6) if level < 9 else 0


def _numbered(properties: Any) -> tuple[str | None, int | None]:
    """Return the list and the level in it that properties of a paragraph or style name."""
    named = None if properties is None else properties.find(f"{WORD}numPr")
    level = value(named, "ilvl")
    return value(named, "numId"), None if level is None else integer(level, 0)
