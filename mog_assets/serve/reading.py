"""From what a retrieval found to what callers get: passages with what is known of their documents."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mog_assets.answer import roles
from mog_assets.documents.formats.marks import Mark
from mog_assets.index.corpora import Corpora
from mog_assets.search.passages import Passages, texts
from mog_assets.search.retrieval import Retrieval
from mog_assets.serve.results import Passage, Span


@dataclass(frozen=True)
class Sight:
    """The part of a project that somebody sees.

    Attributes:
        documents: Which documents, bool of shape (documents,); None: all.
        known: Names of metadata that a filter may use; None: all.
        hidden: Keys of metadata that are not shown.
    """

    documents: np.ndarray | None = None
    known: tuple[str, ...] | None = None
    hidden: frozenset[str] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Tell whether nothing is kept from view."""
        return self.documents is None and self.known is None and not self.hidden

    def shown(self, metadata: Any, name: str = "") -> Any:
        """Return metadata without what is not shown."""
        if not self.hidden or not isinstance(metadata, dict):
            return metadata
        places = {key: f"{name}.{key}".lstrip(".") for key in metadata}
        return {
            key: self.shown(value, places[key]) for key, value in metadata.items() if places[key] not in self.hidden
        }


EVERYTHING = Sight()
# Kinds of marks that have a number.
_NUMBERED = ("page", "slide")


def rows(
    opened: Corpora, positions: Sequence[int], columns: Sequence[str] = ("title", "text", "metadata", "marks")
) -> dict[int, dict[str, Any]]:
    """Return title, text, metadata and marks of documents, or the last two alone, and what reading noted: `notes`."""
    fields = opened.stored.rows(positions, columns)
    for row in fields.values():
        metadata = json.loads(row["metadata"])
        row["notes"] = metadata.pop("mog", None) if isinstance(metadata, dict) else None
        row["metadata"] = metadata if isinstance(metadata, dict) else {"metadata": metadata}
        row["marks"] = tuple(Mark(**mark) for mark in row.get("marks") or ())
    return fields


def source_of(id: str, notes: Any) -> str | None:
    """Return path of the file that a document is; None if it is a line or a row of one."""
    path = notes.get("path") if isinstance(notes, dict) else None
    return path if path == id else None


def passages(
    retrieval: Retrieval,
    ranked: Passages,
    questions: int,
    reasons: Sequence[str] | None,
    sight: Sight = EVERYTHING,
) -> list[list[Passage]]:
    """Return the passages of every question, with what is known of their documents."""
    result, documents = [], rows(retrieval.corpora, ranked.document.tolist())
    first = np.searchsorted(ranked.question, np.arange(questions + 1))
    for number, members in enumerate(texts(retrieval.corpora, ranked, questions, documents)):
        _, best = np.unique(ranked.rank[first[number] : first[number + 1]], return_index=True)
        passages_of = with_documents(retrieval, members, sight, documents)
        result.append(
            [
                replace(p, score=float(ranked.score[row]), explanation="" if reasons is None else reasons[row])
                for p, row in zip(passages_of, (best + first[number]).tolist(), strict=True)
            ]
        )
    return result


def with_documents(
    retrieval: Retrieval,
    passages: Sequence[roles.RetrievedPassage],
    sight: Sight = EVERYTHING,
    documents: Mapping[int, Mapping[str, Any]] | None = None,
) -> list[Passage]:
    """Return passages for callers, without scores; `documents` are the result of `rows` for theirs, if it is known."""
    opened = retrieval.corpora
    if documents is None:
        documents = rows(opened, [opened.position[p.corpus, p.doc] for p in passages], ("metadata", "marks"))
    result = []
    for passage in passages:
        row = documents[opened.position[passage.corpus, passage.doc]]
        start = passage.spans[0][2] if passage.spans else 0
        result.append(
            Passage(
                passage.text,
                passage.title,
                passage.corpus,
                passage.doc,
                tuple(Span(*span) for span in passage.spans),
                page_at(row["marks"], start),
                headings_at(row["marks"], start),
                source_of(passage.doc, row["notes"]),
                sight.shown(row["metadata"]),
                None,
                passage.level,
            )
        )
    return result


def page_at(marks: Sequence[Mark], offset: int) -> int | None:
    """Return the number of the page or slide at an offset; None before the first, and in a text without pages."""
    for at in range(bisect_right(marks, offset, key=lambda mark: mark.offset) - 1, -1, -1):
        if marks[at].kind in _NUMBERED:
            return int(marks[at].text)
    return None


def headings_at(marks: Sequence[Mark], offset: int) -> tuple[str, ...]:
    """Return the headings that an offset is under, outermost first."""
    path: list[str] = []
    above = 7
    for at in range(bisect_right(marks, offset, key=lambda mark: mark.offset) - 1, -1, -1):
        if marks[at].kind == "heading" and marks[at].depth < above:
            path.append(marks[at].text)
            above = marks[at].depth
            if above == 1:
                break
    return tuple(reversed(path))
