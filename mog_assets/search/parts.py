"""Training and test questions with their candidates and evidence, as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.questions.sets import LEVELS, Question, asked_of
from mog_assets.resources.tensors import decode, encode
from mog_assets.search.candidates import COLUMNS, OF_QUESTIONS, Candidates, concatenated
from mog_assets.search.relevance import Relevance

# Arrays of candidates, of their evidence, and of questions; and texts of questions.
_CANDIDATES = (*COLUMNS, *OF_QUESTIONS)
_EVIDENCE = ("characters", "row", "start", "end")
_NUMBERS, _TEXTS = ("vectors", "words", "levels", "made", "usable"), ("digests", "ids", "documents")


@dataclass(frozen=True)
class QuestionPart:
    """Questions with their candidates.

    Attributes:
        gold, taught: See `training.Examples`.
        vectors, words, levels, made: Of the questions, see `training.Examples`, where `made` is `is_synthetic`.
        usable: Whether a ranking learns from a question: its split trains, and its evidence is known or guessed.
        digests: A digest of all that is known of each question.
        ids, documents: Of the questions.
    """

    gold: Relevance
    taught: Relevance
    vectors: np.ndarray
    words: np.ndarray
    levels: np.ndarray
    made: np.ndarray
    usable: np.ndarray
    digests: Sequence[str]
    ids: Sequence[str]
    documents: Sequence[str]

    @property
    def candidates(self) -> Candidates:
        """The candidates."""
        return self.gold.candidates

    @classmethod
    def of_questions(
        cls,
        questions: Sequence[Question],
        gold: Relevance,
        taught: Relevance,
        **arrays: np.ndarray,
    ) -> QuestionPart:
        """Return a part of these questions; `arrays` are those that do not follow from them."""
        return cls(
            gold,
            taught,
            levels=np.array([LEVELS.index(q.level) for q in questions], np.int64),
            made=np.array([q.origin != "given" for q in questions], np.int64),
            digests=[asked_of(q) for q in questions],
            ids=[q.id for q in questions],
            documents=[q.document for q in questions],
            **arrays,
        )

    @property
    def training(self) -> QuestionPart:
        """The questions that a ranking learns from."""
        return self.of(np.flatnonzero(self.usable))

    def encoded(self) -> bytes:
        """Return the part as a file: a third of the bytes of its arrays."""
        arrays = {name: getattr(self.candidates, name) for name in _CANDIDATES}
        for what, gold in (("gold", self.gold), ("taught", self.taught)):
            arrays |= {f"{what} {name}": getattr(gold, name) for name in _EVIDENCE}
        arrays |= {name: getattr(self, name) for name in _NUMBERS}
        narrowed = {name: a.astype(np.int32) if a.dtype == np.int64 else a for name, a in arrays.items()}
        texts = {name: list(getattr(self, name)) for name in _TEXTS}
        plain = encode({name: np.ascontiguousarray(array) for name, array in narrowed.items()}, texts)
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(plain)
        compressed: bytes = sink.getvalue().to_pybytes()
        return compressed

    @classmethod
    def read(cls, data: bytes) -> QuestionPart:
        """Return what `encoded` gave."""
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            arrays, texts = decode(stream.read())
        arrays = {name: a.astype(np.int64) if a.dtype == np.int32 else a for name, a in arrays.items()}
        candidates = Candidates(**{name: arrays[name] for name in _CANDIDATES})
        gold, taught = (
            Relevance(candidates, *(arrays[f"{what} {name}"] for name in _EVIDENCE)) for what in ("gold", "taught")
        )
        columns: dict[str, Any] = {name: arrays[name] for name in _NUMBERS}
        return cls(gold, taught, **columns, **{name: texts[name] for name in _TEXTS})

    def of(self, questions: np.ndarray) -> QuestionPart:
        """Return some questions, by position, in this order."""
        columns: dict[str, Any] = {name: getattr(self, name)[questions] for name in _NUMBERS}
        columns |= {name: [getattr(self, name)[i] for i in questions.tolist()] for name in _TEXTS}
        return QuestionPart(self.gold.of(questions), self.taught.of(questions), **columns)


def joined(parts: Sequence[QuestionPart]) -> QuestionPart:
    """Return the questions of several parts, one part after the other."""
    rows = np.cumsum([0, *(len(part.candidates.question) for part in parts)])
    candidates, golds = concatenated([part.candidates for part in parts], 0), []
    for what in ("gold", "taught"):
        these = [getattr(part, what) for part in parts]
        arrays = {name: np.concatenate([getattr(gold, name) for gold in these]) for name in _EVIDENCE}
        arrays["row"] = np.concatenate([gold.row + row for gold, row in zip(these, rows, strict=False)])
        golds.append(Relevance(candidates, **arrays))
    numbers: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _NUMBERS}
    texts = {name: [text for part in parts for text in getattr(part, name)] for name in _TEXTS}
    return QuestionPart(golds[0], golds[1], **numbers | texts)
