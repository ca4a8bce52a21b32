"""Pages, slides and headings of a document, as offsets into its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """The beginning of a page, a slide or a section.

    Attributes:
        offset: Where it begins in the text, in characters.
        kind: `page`, `slide` or `heading`.
        depth: Of a heading, from 1; 0 for the others.
        text: The heading, or the number of the page or slide.
    """

    offset: int
    kind: str
    depth: int
    text: str


def page_at(marks: Sequence[Mark], offset: int) -> int | None:
    """The page or slide that an offset lies on; None if the document has none."""
    numbers = [mark.text for mark in marks if mark.kind in ("page", "slide") and mark.offset <= offset]
    return int(numbers[-1]) if numbers else None


def headings_at(marks: Sequence[Mark], offset: int) -> tuple[str, ...]:
    """The headings that an offset stands under, outermost first."""
    path: list[Mark] = []
    for mark in marks:
        if mark.kind == "heading" and mark.offset <= offset:
            path = [*(own for own in path if own.depth < mark.depth), mark]
    return tuple(mark.text for mark in path)
