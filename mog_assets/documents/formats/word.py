"""Read Word documents: paragraphs, headings and lists with their numbers, formulas and tables, in their order."""

from __future__ import annotations

import email
import email.policy
import re
from typing import Any, NamedTuple

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.archives import unpack
from mog_assets.documents.formats.html_page import read_html
from mog_assets.documents.formats.marks import MarkedText, Parsed, clean
from mog_assets.documents.formats.mime import page_of, texts
from mog_assets.documents.formats.numbering import BULLET, Numbering, value, whole
from mog_assets.documents.formats.office_text import outermost, rows, text_of
from mog_assets.documents.formats.packages import CHART, DIAGRAM, MATH, RELATED, WORD, Package

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

    Args:
        parts: The files of the archive.
        fallback: Title of a document without title, heading and first line.
        limit: Maximum characters of the text.
        unpacked: Bytes that a document inside the document may have when it is unpacked; 0 to read none.

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
            for page in _inserted(name, package.parts.get(name, b""), limit, unpacked) or [Parsed("", "")]:
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


def _inserted(name: str, content: bytes, limit: int, unpacked: int) -> list[Parsed]:
    """The texts of a document of another kind that stands in a document; none if it cannot be read."""
    if content.startswith(b"PK"):
        return [read_docx(unpack(content, ".docx", unpacked), name, limit)] if unpacked else []
    if re.match(rb"(?i)\s*(mime-version|from|content-type):", content):
        return list(map(page_of, texts(email.message_from_bytes(content, policy=email.policy.default), [])))
    text = clean(decode(content)[0].replace("\r\n", "\n"))
    return [Parsed("", text) if name.endswith(".txt") else read_html(text, name)]


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
        """Depth of a heading, 0 for other paragraphs; what stands before it, None if it is no item of a list."""
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
        """A style with what it inherits."""
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
    """Depth of a heading by its level in the outline; 0 for none."""
    level = whole(value(properties, "outlineLvl"), 9)
    return min(level + 1, 6) if level < 9 else 0


def _numbered(properties: Any) -> tuple[str | None, int | None]:
    """The list and the level in it that properties of a paragraph or style name."""
    named = None if properties is None else properties.find(f"{WORD}numPr")
    level = value(named, "ilvl")
    return value(named, "numId"), None if level is None else whole(level, 0)
