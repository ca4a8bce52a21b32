"""Read PowerPoint presentations: of every slide the title, the texts and tables, and the notes."""

from __future__ import annotations

from typing import Any

from mog_assets.documents.formats.marks import MarkedText, Parsed
from mog_assets.documents.formats.office_text import outermost, rows, text_of
from mog_assets.documents.formats.packages import CHART, DIAGRAM, DRAWING, RELATED, SLIDE, Package

_TABLE, _TEXT, _SHAPE = f"{DRAWING}tbl", f"{SLIDE}txBody", f"{SLIDE}sp"


def read_pptx(parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a presentation.

    Args:
        parts: The files of the archive.
        fallback: Title of a presentation without title and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    package = Package(parts, ".pptx", f"{SLIDE}presentation")
    draft, charts = MarkedText(limit), 0
    names = package.related(package.name, "slide")
    named = (names.get(one.get(f"{RELATED}id", "")) for one in package.main.iter(f"{SLIDE}sldId"))
    for number, name in enumerate(filter(None, named), start=1):
        slide = package.tree(name)
        charts += sum(1 for _ in slide.iter(f"{CHART}chart", f"{DIAGRAM}relIds"))
        draft.start("slide", str(number))
        title = next((shape for shape in slide.iter(_SHAPE) if _placeholder(shape).lower().endswith("title")), None)
        if title is not None:
            draft.add(" ".join(text_of(title).split()), depth=1)
        for element in outermost(slide, _TABLE, _TEXT):
            if element.tag == _TABLE:
                for at, cells in enumerate(rows(element, f"{DRAWING}tr", f"{DRAWING}tc")):
                    draft.add(" | ".join(cells) if any(cells) else "", "\n" if at else "\n\n")
            elif element.getparent() is not title:
                draft.add(text_of(element).strip())
        for notes in map(package.tree, package.related(name, "notesSlide").values()):
            for shape in notes.iter(_SHAPE):
                draft.add(text_of(shape).strip() if _placeholder(shape) == "body" else "")
    return draft.parsed(package.title, fallback, {"charts not read": charts} if charts else {})


def _placeholder(shape: Any) -> str:
    """What a shape is in the layout of its slide, such as `title`; empty if it is none of it."""
    found = shape.find(f"{SLIDE}nvSpPr/{SLIDE}nvPr/{SLIDE}ph")
    return "" if found is None else found.get("type", "")
