"""Marks in a text: where its pages, slides and headings start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Kind = Literal["page", "slide", "heading"]
# Every passage below a heading repeats it.
_LONGEST_HEADING = 200
# A text of more is a made-up one; the first are kept.
MOST_MARKS = 100_000
# Neither printable nor white space; no reader of office documents gives them a meaning.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Mark(NamedTuple):
    """The start of a page, a slide, or the text under a heading.

    Attributes:
        offset: In characters; of a heading, where its line starts.
        depth: 1 to 6 of a heading; 0 otherwise.
        text: Of a heading; the number, from 1, of a page or slide.
    """

    offset: int
    kind: Kind
    depth: int
    text: str


class Parsed(NamedTuple):
    """Content of a file that is one document.

    Attributes:
        marks: Offsets count characters of `text`.
        metadata: That the file gives.
        notes: From reading it. A key goes on from "documents with": `footnotes not read`; a value is a number, names or
            a text. `mog run`, `mog documents` and `mog doctor` count the documents by key, or by key and text.
        removed: Characters of the file that precede `text`.
    """

    title: str
    text: str
    marks: tuple[Mark, ...] = ()
    metadata: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    removed: int = 0


def heading(offset: int, depth: int, text: str) -> Mark:
    """Return a heading, its white space joined and its text cut to at most 200 characters."""
    return Mark(offset, "heading", min(max(depth, 1), 6), " ".join(text.split())[:_LONGEST_HEADING])


def clean(text: str) -> str:
    """Return a text without control characters (except tab and line ends) and lone surrogates."""
    return _CONTROL.sub("", text)


class MarkedText:
    """A text that grows by paragraphs, with its marks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[str] = []
        self._length = 0
        self._marks: list[Mark] = []
        # A page starts where its first paragraph does, not before the empty line above that.
        self._waiting: list[tuple[Kind, int, str]] = []

    def start(self, kind: Kind, text: str, depth: int = 0) -> None:
        """Mark the start of the next paragraph."""
        self._waiting.append((kind, depth, text))

    def add(self, text: str, join: str = "\n\n", depth: int = 0, marks: Sequence[Mark] = ()) -> None:
        """Add a paragraph, if it is not blank.

        Raises:
            ValueError: the text is longer than the limit.
        """
        if not text.strip():
            return
        if self._parts:
            self._parts.append(join)
            self._length += len(join)
        self._mark()
        if depth:
            self._marks.append(heading(self._length, depth, text))
        self._marks += [mark._replace(offset=mark.offset + self._length) for mark in marks]
        self._parts.append(text)
        self._length += len(text)
        if self._length > self._limit:
            raise ValueError(f"expected at most {self._limit} characters of text (max_document_mb), got more: not read")

    def _mark(self) -> None:
        for kind, depth, text in self._waiting:
            self._marks.append(heading(self._length, depth, text) if depth else Mark(self._length, kind, 0, text))
        self._waiting.clear()

    def parsed(self, title: str, fallback: str, notes: dict[str, Any] | None = None) -> Parsed:
        """Return the whole; without a title, the first line if it has at most 120 characters, else the fallback."""
        self._mark()
        text = "".join(self._parts)
        title = " ".join(clean(title).split()) or first_line(text) or fallback
        return Parsed(title, text, tuple(self._marks), notes=notes or {})


def first_line(text: str) -> str:
    """Return the first line that is not blank, if it has at most 120 characters; else an empty string."""
    line = text.lstrip()[:121].split("\n", 1)[0]
    return line.strip() if len(line) <= 120 else ""


def noted(metadata: Any) -> dict[str, Any]:
    """Return what reading noted of a document: `path` and `modified` of its file, its encoding."""
    notes = metadata.get("mog") if isinstance(metadata, dict) else None
    return notes if isinstance(notes, dict) else {}
