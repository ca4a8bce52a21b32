"""Read Word documents and PowerPoint presentations: paragraphs, headings, lists, tables and notes, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from mog_assets.corpus.archives import packed
from mog_assets.corpus.marks import MarkedText, Parsed, clean

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
# Not text: the same content again, for older programs; properties; what was moved away.
_SKIPPED = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_WORD}moveFrom"}
_SKIPPED |= {f"{namespace}{name}" for namespace in (_WORD, _DRAWING) for name in ("pPr", "rPr", "tblPr", "tcPr")}
_BREAKS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}


def read_docx(parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a Word document. Headers, footers, footnotes and comments are left out.

    Args:
        parts: The files of the archive.
        fallback: Title of a document without title, heading and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    import docx

    document = _opened(docx.Document, parts, ".docx")
    draft, styles, title, item = MarkedText(limit), _styles(document), _property_title(document), False
    for block in _blocks(document.element.body):
        if block.tag == f"{_WORD}tbl":
            for number, row in enumerate(_rows(block, f"{_WORD}tr", f"{_WORD}tc")):
                cells = [" ".join(_text(cell, _WORD).split()) for cell in row]
                draft.add(" | ".join(cells) if any(cells) else "", "\n" if number else "\n\n")
            item = False
            continue
        depth, listed = _kind(block, styles)
        text = clean(_text(block, _WORD)).strip()
        if depth and not title:
            title = text
        draft.add(f"- {text}" if listed and text else text, "\n" if listed and item else "\n\n", depth)
        item = listed
    return draft.parsed(title, fallback)


def _opened(open_file: Callable[[BytesIO], Any], parts: dict[str, bytes], kind: str) -> Any:
    archive = packed(parts)
    try:
        return open_file(archive)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"damaged: expected a {kind} file, got an archive of another kind or with missing parts"
        ) from error


def _property_title(document: Any) -> str:
    try:
        return (document.core_properties.title or "").strip()
    # The properties may be damaged in a document that is fine.
    except Exception:
        return ""


def _blocks(parent: Any) -> Iterator[Any]:
    """Paragraphs and tables in order; content controls are opened."""
    for child in parent:
        if child.tag in (f"{_WORD}p", f"{_WORD}tbl"):
            yield child
        elif child.tag in (f"{_WORD}sdt", f"{_WORD}sdtContent", f"{_WORD}customXml"):
            yield from _blocks(child)


def _rows(table: Any, row: str, cell: str) -> Iterator[list[Any]]:
    # A table of the library takes time quadratic in its size.
    for line in table:
        if line.tag == row:
            yield [part for part in line.iter(cell) if next(part.iterancestors(row)) is line]


def _text(element: Any, namespace: str) -> str:
    """The text below an element; paragraphs inside it end in a line break."""
    pieces: list[str] = []
    waiting = [element]
    while waiting:
        node = waiting.pop()
        if not isinstance(node.tag, str) or node.tag in _SKIPPED:
            continue
        if node.tag.startswith(namespace):
            name = node.tag[len(namespace) :]
            if name == "t":
                pieces.append(node.text or "")
            elif name in _BREAKS:
                pieces.append(_BREAKS[name])
            elif name in ("p", "tc") and pieces:
                pieces.append("\n")
        waiting += reversed(node)
    return clean("".join(pieces))


def _styles(document: Any) -> dict[str, tuple[int, bool]]:
    """Depth of a heading (0: none) and whether it is a list, of each paragraph style by its id."""
    styles_of: dict[str, tuple[int, bool, str | None]] = {}
    for style in document.styles.element.iter(f"{_WORD}style"):
        name = (_value(style, "name") or "").lower()
        depth = int(name[8:]) if name.startswith("heading ") and name[8:].isdecimal() else int(name == "title")
        level = _value(style.find(f"{_WORD}pPr"), "outlineLvl")
        if not depth and level and level.isdecimal() and int(level) < 9:
            depth = int(level) + 1
        styles_of[style.get(f"{_WORD}styleId", "")] = min(depth, 6), name.startswith("list "), _value(style, "basedOn")
    levels = {}
    for key in styles_of:
        depth, listed, base = styles_of[key]
        for _ in range(10):
            if depth or listed or base not in styles_of:
                break
            depth, listed, base = styles_of[base]
        levels[key] = depth, listed
    return levels


def _value(element: Any, name: str) -> str | None:
    child = None if element is None else element.find(f"{_WORD}{name}")
    return None if child is None else child.get(f"{_WORD}val")


def _kind(paragraph: Any, styles: dict[str, tuple[int, bool]]) -> tuple[int, bool]:
    """Depth of a heading, 0 for other paragraphs; whether it is an item of a list."""
    properties = paragraph.find(f"{_WORD}pPr")
    depth, listed = styles.get(_value(properties, "pStyle") or "", (0, False))
    level = _value(properties, "outlineLvl")
    if level and level.isdecimal() and int(level) < 9:
        depth = min(int(level) + 1, 6)
    numbered = properties is not None and properties.find(f"{_WORD}numPr") is not None
    return depth, not depth and (listed or numbered)


def read_pptx(parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a presentation: of every slide the title, the texts and tables, and the notes.

    Args:
        parts: The files of the archive.
        fallback: Title of a presentation without title and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    import pptx

    presentation = _opened(pptx.Presentation, parts, ".pptx")
    draft = MarkedText(limit)
    for number, slide in enumerate(presentation.slides, start=1):
        draft.start("slide", str(number))
        title = slide.shapes.title
        if title is not None:
            draft.add(" ".join(_drawn(title._element).split()), depth=1)
        for shape in slide.shapes._spTree.iterchildren():
            if title is None or shape is not title._element:
                _add_shape(draft, shape)
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
            draft.add(_drawn(notes._element).strip())
    return draft.parsed(_property_title(presentation), fallback)


def _add_shape(draft: MarkedText, shape: Any) -> None:
    """Add the tables and texts of a shape, which may be a group."""
    waiting = [shape]
    while waiting:
        element = waiting.pop()
        if element.tag == f"{_DRAWING}tbl":
            for number, row in enumerate(_rows(element, f"{_DRAWING}tr", f"{_DRAWING}tc")):
                cells = [" ".join(_drawn(cell).split()) for cell in row]
                draft.add(" | ".join(cells) if any(cells) else "", "\n" if number else "\n\n")
        elif isinstance(element.tag, str) and element.tag.endswith("}txBody"):
            draft.add(_drawn(element).strip())
        elif element.tag not in _SKIPPED:
            waiting += reversed(element)


def _drawn(element: Any) -> str:
    return _text(element, _DRAWING)
