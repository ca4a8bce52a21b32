"""Training questions with their candidates and evidence, as files of which only the touched rows are made anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.arrays import mixed
from mog_assets.questions.sets import LEVELS, Question, asked_of
from mog_assets.ranking.candidates import COLUMNS, OF_QUESTIONS, Candidates
from mog_assets.ranking.gold import Gold
from mog_assets.ranking.known import rare_words
from mog_assets.retrieval.bm25 import Bm25Index, Statistics
from mog_assets.retrieval.changes import Documents, chunks_of, multiplied, reached, scored
from mog_assets.retrieval.corpora import Corpora
from mog_assets.tensors import decode, encode

_ARRAYS = (*COLUMNS, *OF_QUESTIONS)
_GOLD = ("characters", "row", "start", "end")
_OWN = ("vectors", "words", "levels", "made", "usable")
# Candidates whose hashes are compared to say how many changed.
_SKETCH = 1 << 15


@dataclass(frozen=True)
class Part:
    """Questions with their candidates.

    Attributes:
        gold, taught: See `training.Examples`.
        vectors, words, levels, made: Of the questions, see `training.Examples`.
        usable: Whether a ranking learns from a question: its split trains, and its evidence is known or guessed.
        asked: A digest of all that is known of each question.
        ids, documents: Of the questions.
    """

    gold: Gold
    taught: Gold
    vectors: np.ndarray
    words: np.ndarray
    levels: np.ndarray
    made: np.ndarray
    usable: np.ndarray
    asked: Sequence[str]
    ids: Sequence[str]
    documents: Sequence[str]

    @property
    def found(self) -> Candidates:
        """The candidates."""
        return self.gold.found

    @classmethod
    def of_questions(cls, questions: Sequence[Question], gold: Gold, taught: Gold, **own: np.ndarray) -> Part:
        """A part of these questions; `own` are the arrays that do not follow from them."""
        return cls(
            gold,
            taught,
            levels=np.array([LEVELS.index(q.level) for q in questions], np.int64),
            made=np.array([q.origin != "given" for q in questions], np.int64),
            asked=[asked_of(q) for q in questions],
            ids=[q.id for q in questions],
            documents=[q.document for q in questions],
            **own,
        )

    @property
    def training(self) -> Part:
        """The questions that a ranking learns from."""
        return self.of(np.flatnonzero(self.usable))

    def encoded(self) -> bytes:
        """The part as a file: a third of the bytes of its arrays."""
        arrays = {name: getattr(self.found, name) for name in _ARRAYS}
        for what, gold in (("gold", self.gold), ("taught", self.taught)):
            arrays |= {f"{what} {name}": getattr(gold, name) for name in _GOLD}
        arrays |= {name: getattr(self, name) for name in _OWN}
        whole = {name: a.astype(np.int32) if a.dtype == np.int64 else a for name, a in arrays.items()}
        facts = {"asked": list(self.asked), "questions": list(self.ids), "documents": list(self.documents)}
        plain = encode({name: np.ascontiguousarray(array) for name, array in whole.items()}, facts)
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(plain)
        found: bytes = sink.getvalue().to_pybytes()
        return found

    @classmethod
    def read(cls, data: bytes) -> Part:
        """What `encoded` gave."""
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            arrays, known = decode(stream.read())
        arrays = {name: a.astype(np.int64) if a.dtype == np.int32 else a for name, a in arrays.items()}
        found = Candidates(**{name: arrays[name] for name in _ARRAYS})
        gold, taught = (Gold(found, *(arrays[f"{what} {name}"] for name in _GOLD)) for what in ("gold", "taught"))
        own = {name: arrays[name] for name in _OWN}
        return cls(gold, taught, asked=known["asked"], ids=known["questions"], documents=known["documents"], **own)

    def of(self, questions: np.ndarray) -> Part:
        """Some questions, by position, ascending."""
        own: dict[str, Any] = {name: getattr(self, name)[questions] for name in _OWN}
        told = {n: [getattr(self, n)[i] for i in questions.tolist()] for n in ("asked", "ids", "documents")}
        return Part(self.gold.of(questions), self.taught.of(questions), **own | told)

    def renumbered(self, pieces: np.ndarray) -> Part:
        """With other numbers of the candidates' pieces; the order of documents is the same."""
        found = replace(self.found, piece=pieces)
        moved: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for what in ("gold", "taught"):
            own: Gold = moved[what]
            moved[what] = Gold(found, *(getattr(own, name) for name in _GOLD))
        return Part(**moved)


def joined(parts: Sequence[Part]) -> Part:
    """The questions of several parts, one part after the other."""
    questions = np.cumsum([0, *(len(part.ids) for part in parts)])
    rows = np.cumsum([0, *(len(part.found.question) for part in parts)])
    columns: dict[str, Any] = {name: np.concatenate([getattr(part.found, name) for part in parts]) for name in _ARRAYS}
    columns["question"] = np.concatenate([p.found.question + q for p, q in zip(parts, questions, strict=False)])
    found = Candidates(**columns)
    golds = []
    for what in ("gold", "taught"):
        these = [getattr(part, what) for part in parts]
        arrays = {name: np.concatenate([getattr(gold, name) for gold in these]) for name in _GOLD}
        arrays["row"] = np.concatenate([gold.row + row for gold, row in zip(these, rows, strict=False)])
        golds.append(Gold(found, **arrays))
    told = {name: [entry for part in parts for entry in getattr(part, name)] for name in ("asked", "ids", "documents")}
    own: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _OWN}
    return Part(golds[0], golds[1], **own | told)


def arranged(part: Part, order: np.ndarray) -> Part:
    """The questions in another order: `order` are their positions."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    rows = np.lexsort((part.found.piece, place[part.found.question]))
    at = np.empty(len(rows), np.int64)
    at[rows] = np.arange(len(rows))
    columns: dict[str, Any] = {name: getattr(part.found, name)[rows] for name in COLUMNS}
    columns["question"] = place[part.found.question][rows]
    found, golds = Candidates(**columns, **{name: getattr(part.found, name)[order] for name in OF_QUESTIONS}), []
    for gold in (part.gold, part.taught):
        lines = np.lexsort((gold.start, at[gold.row]))
        golds.append(Gold(found, gold.characters[order], at[gold.row][lines], gold.start[lines], gold.end[lines]))
    own: dict[str, Any] = {name: getattr(part, name)[order] for name in _OWN}
    told = {name: [getattr(part, name)[i] for i in order.tolist()] for name in ("asked", "ids", "documents")}
    return Part(golds[0], golds[1], **own | told)


@dataclass(frozen=True)
class Fresh:
    """The texts of some documents, to find the questions whose candidates they may be among.

    Attributes:
        corpora: All corpora that are searched together.
        documents: Positions of the documents, ascending.
    """

    corpora: Corpora
    documents: np.ndarray

    @cached_property
    def _texts(self) -> list[tuple[Bm25Index, np.ndarray]]:
        """By level, an index and the vectors of the chunks of these documents."""
        found = []
        for level in self.corpora.settings.level_range:
            chunks = chunks_of(self.corpora, self.documents, level)
            vectors = self.corpora.vectors(level).rows(chunks).astype(np.float32)
            found.append((self.corpora.bm25_of(level, chunks), vectors))
        return found

    def touched(
        self, terms: Sequence[Sequence[str]], statistics: Statistics, vectors: np.ndarray, floors: np.ndarray
    ) -> np.ndarray:
        """Questions with one of the texts among the best of an expert, or nearly, or with a rare word in one.

        Args:
            terms: Of the questions.
            statistics: Those that say which words are rare, see `known.rare_words`.
            vectors: Of the questions, shape (questions, size).
            floors: See `Candidates`; experts in the order of `expert_names`.

        Returns:
            bool array of shape (questions,).
        """
        found = np.zeros(len(terms), bool)
        if len(self.documents):
            finest = self._texts[0][0]
            found |= [any(len(finest.chunks_of(word)) for word in rare_words(own, statistics)) for own in terms]
        for column, (index, table) in enumerate(self._texts if len(self.documents) else []):
            for rows, scores in scored(index, terms):
                found[rows] |= reached(scores, floors[rows, column])
            for rows, products in multiplied(vectors, table):
                found[rows] |= reached(products, floors[rows, len(self._texts) + column])
        return found


def sketch(part: Part, documents: Documents) -> np.ndarray:
    """Hashes of a sample of the candidates: uint64, ascending, at most `_SKETCH`.

    A hash changes with what is known of the question, with the document, and with the piece. The smallest hashes of a
    set are a sample that does not depend on the order, and two samples say how much of two sets is common (bottom-k
    MinHash, Broder 1997).
    """
    found = part.found
    asked = np.array([int(own, 16) for own in part.asked], np.uint64)
    ends = np.cumsum(documents.pieces)
    of = documents.hashes[np.searchsorted(ends, found.piece, side="right")]
    own = mixed(asked[found.question] ^ mixed(of ^ mixed(found.place[:, 0].astype(np.uint64))))
    return np.unique(own)[:_SKETCH]


def joined_sketch(sketches: Sequence[np.ndarray]) -> np.ndarray:
    """The sketch of several parts together."""
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *sketches]))[:_SKETCH]


def share_changed(before: np.ndarray, now: np.ndarray) -> float:
    """Estimated share of the candidates that changed, from two sketches."""
    both = np.union1d(before, now)[:_SKETCH]
    common = np.isin(both, before) & np.isin(both, now)
    alike = float(common.mean()) if len(both) else 1.0
    # Of n candidates f · n are replaced: (1 − f) n of (1 + f) n are common.
    return (1 - alike) / (1 + alike)
