"""From what a retrieval found to what callers get: passages with what is known of their documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mog_assets.answer import roles
from mog_assets.documents.formats.marks import Mark, headings_at, noted, page_at
from mog_assets.index.corpora import Corpora
from mog_assets.search.exact import phrases
from mog_assets.search.methods import LIMITS, Method
from mog_assets.search.passages import Passages, texts
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.where import Fields
from mog_assets.serve.results import CorpusInfo, Passage, Span
from mog_assets.text.languages import name_of


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
    def whole(self) -> bool:
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


def rows(
    opened: Corpora, positions: Sequence[int], columns: Sequence[str] = ("title", "text", "metadata", "marks")
) -> dict[int, dict[str, Any]]:
    """Title, text, metadata and marks of documents, or the last two alone."""
    fields = opened.rows(positions, columns)
    for row in fields.values():
        row["metadata"] = json.loads(row["metadata"])
        row["marks"] = tuple(Mark(**mark) for mark in row.get("marks") or ())
    return fields


def source_of(id: str, metadata: Any) -> str | None:
    """Path of the file that a document is; None if it is a line or a row of one."""
    path = noted(metadata).get("path")
    return path if path == id else None


def own_metadata(metadata: Any) -> dict[str, Any]:
    """The document's own metadata, without what reading noted."""
    if not isinstance(metadata, dict):
        return {"metadata": metadata}
    return {key: value for key, value in metadata.items() if key != "mog"}


def corpora(opened: Corpora, fields: Fields, sight: Sight) -> list[CorpusInfo]:
    """The corpora of which a document may be seen, with what may be seen of them."""
    infos, (characters, languages) = [], opened.sizes
    pieces = np.bincount(opened.layout.document_of, minlength=len(characters))
    for number, name in enumerate(opened.names):
        mask = opened.owners == number
        mask = mask if sight.documents is None else mask & sight.documents
        if sight.documents is not None and not mask.any():
            continue
        spoken = Counter(languages[position] for position in np.flatnonzero(mask).tolist())
        named = {name_of(code): count for code, count in sorted(spoken.items(), key=lambda item: (-item[1], item[0]))}
        names = tuple(field for field in fields.names(mask) if sight.known is None or field in sight.known)
        size, count = int(characters[mask].sum()), int(pieces[mask].sum())
        infos.append(CorpusInfo(name, int(mask.sum()), size, count, names, named))
    return infos


def passages(
    retrieval: Retrieval,
    ranked: Passages,
    questions: int,
    why: Sequence[str] | None,
    sight: Sight = EVERYTHING,
) -> list[list[Passage]]:
    """The passages of every question, with what is known of their documents."""
    result, documents = [], rows(retrieval.corpora, ranked.document.tolist())
    first = np.searchsorted(ranked.question, np.arange(questions + 1))
    for number, members in enumerate(texts(retrieval.corpora, ranked, questions, documents)):
        _, best = np.unique(ranked.rank[first[number] : first[number + 1]], return_index=True)
        made = with_documents(retrieval, members, sight, documents)
        result.append(
            [
                replace(p, score=float(ranked.score[row]), why="" if why is None else why[row])
                for p, row in zip(made, (best + first[number]).tolist(), strict=True)
            ]
        )
    return result


def with_documents(
    retrieval: Retrieval,
    passages: Sequence[roles.Passage],
    sight: Sight = EVERYTHING,
    documents: Mapping[int, Mapping[str, Any]] | None = None,
) -> list[Passage]:
    """Passages for callers, without scores; `documents` are the result of `rows` for theirs, if it is known."""
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
                source_of(passage.doc, row["metadata"]),
                sight.shown(own_metadata(row["metadata"])),
                None,
                passage.level,
            )
        )
    return result


def nothing(method: Method, given: dict[str, float] | None, question: str, filtered: bool) -> str:
    """The reason why a method found no passage."""
    if wanted := phrases(question):
        texts = " and ".join(f"“{text}”" for text in wanted)
        return f"No document that may be searched has {texts} as it stands: leave out the quotation marks."
    if filtered:
        return "No passage of the corpora and documents that were asked for."
    if reason := method.of.nothing(given):
        return reason
    if method.retriever == "bm25":
        return "No passage has a word in common with the question."
    return "No passage: there are no vectors to compare the question with."


def groups(retrieval: Retrieval, method: Method, k: int) -> list[dict[str, Any]]:
    """Tell the group of each question, see `Retrieved.details`; nothing if the method has no limit."""
    if not method.limit:
        return [{} for _ in retrieval.queries]
    limit, rows = LIMITS[method.limit], retrieval.grouped(method, k)
    return [{limit.group: {**row, f"all {method.limit}": row.pop("fallback")}} for row in rows]
