"""Training and test questions with their candidates and evidence, as files; and what tells how many changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import LEVELS, Question, asked_of
from mog_assets.resources.arrays import mixed
from mog_assets.resources.tensors import decode, encode
from mog_assets.search.candidates import COLUMNS, OF_QUESTIONS, Candidates, concatenated
from mog_assets.search.relations import reads_mentions
from mog_assets.search.relevance import Relevance
from mog_assets.search.retrieval import Retrieval
from mog_assets.text.chunks import Layout


@dataclass(frozen=True)
class DocumentStates:
    """The documents of some corpora, in order.

    Attributes:
        hashes: What is ranked of each as a number, see `document_hashes`: uint64 of shape (documents,).
        pieces: Level-1 chunks of each, int64 of shape (documents,).
    """

    hashes: np.ndarray
    pieces: np.ndarray

    @classmethod
    def of(cls, corpora: Corpora, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
        """Those of some corpora, from the hashes of each."""
        each = [hashes[name] for name in corpora.names]
        return cls(np.concatenate([np.zeros(0, np.uint64), *each]), np.diff(corpora.layout.offsets))


def document_hashes(layout: Layout, digests: Sequence[str]) -> np.ndarray:
    """A number for each document that changes with its id, its title or text, or where it is cut.

    Args:
        layout: Of the documents.
        digests: Hash of title, text and language of each.

    Returns:
        uint64 array of shape (documents,); two documents share a number with a probability of 2^−64.
    """
    cuts = np.ascontiguousarray(layout.spans, np.int64)
    hashes = np.empty(len(layout.documents), np.uint64)
    bounds = zip(layout.documents, digests, layout.offsets[:-1].tolist(), layout.offsets[1:].tolist(), strict=True)
    for row, (name, digest, first, last) in enumerate(bounds):
        facts = f"{layout.corpus}\0{name}\0{digest}\0".encode() + cuts[first:last].tobytes()
        hashes[row] = int.from_bytes(hashlib.blake2b(facts, digest_size=8).digest(), "little")
    return hashes


# Arrays of candidates, of their evidence, and of questions; and texts of questions.
_CANDIDATES = (*COLUMNS, *OF_QUESTIONS)
_EVIDENCE = ("characters", "row", "start", "end")
_NUMBERS, _TEXTS = ("vectors", "words", "levels", "made", "usable"), ("digests", "ids", "documents")
# Candidates whose hashes are compared to say how many changed.
_SKETCH = 1 << 15


@dataclass(frozen=True)
class Part:
    """Questions with their candidates.

    Attributes:
        gold, taught: See `training.Examples`.
        vectors, words, levels, made: Of the questions, see `training.Examples`.
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
    ) -> Part:
        """A part of these questions; `arrays` are those that do not follow from them."""
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
    def training(self) -> Part:
        """The questions that a ranking learns from."""
        return self.of(np.flatnonzero(self.usable))

    def encoded(self) -> bytes:
        """The part as a file: a third of the bytes of its arrays."""
        arrays = {name: getattr(self.candidates, name) for name in _CANDIDATES}
        for what, gold in (("gold", self.gold), ("taught", self.taught)):
            arrays |= {f"{what} {name}": getattr(gold, name) for name in _EVIDENCE}
        arrays |= {name: getattr(self, name) for name in _NUMBERS}
        whole = {name: a.astype(np.int32) if a.dtype == np.int64 else a for name, a in arrays.items()}
        texts = {name: list(getattr(self, name)) for name in _TEXTS}
        plain = encode({name: np.ascontiguousarray(array) for name, array in whole.items()}, texts)
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(plain)
        compressed: bytes = sink.getvalue().to_pybytes()
        return compressed

    @classmethod
    def read(cls, data: bytes) -> Part:
        """What `encoded` gave."""
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            arrays, texts = decode(stream.read())
        arrays = {name: a.astype(np.int64) if a.dtype == np.int32 else a for name, a in arrays.items()}
        candidates = Candidates(**{name: arrays[name] for name in _CANDIDATES})
        gold, taught = (
            Relevance(candidates, *(arrays[f"{what} {name}"] for name in _EVIDENCE)) for what in ("gold", "taught")
        )
        columns: dict[str, Any] = {name: arrays[name] for name in _NUMBERS}
        return cls(gold, taught, **columns, **{name: texts[name] for name in _TEXTS})

    def of(self, questions: np.ndarray) -> Part:
        """Some questions, by position, in this order."""
        columns: dict[str, Any] = {name: getattr(self, name)[questions] for name in _NUMBERS}
        columns |= {name: [getattr(self, name)[i] for i in questions.tolist()] for name in _TEXTS}
        return Part(self.gold.of(questions), self.taught.of(questions), **columns)


def joined(parts: Sequence[Part]) -> Part:
    """The questions of several parts, one part after the other."""
    rows = np.cumsum([0, *(len(part.candidates.question) for part in parts)])
    candidates, golds = concatenated([part.candidates for part in parts], 0), []
    for what in ("gold", "taught"):
        these = [getattr(part, what) for part in parts]
        arrays = {name: np.concatenate([getattr(gold, name) for gold in these]) for name in _EVIDENCE}
        arrays["row"] = np.concatenate([gold.row + row for gold, row in zip(these, rows, strict=False)])
        golds.append(Relevance(candidates, **arrays))
    numbers: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in _NUMBERS}
    texts = {name: [text for part in parts for text in getattr(part, name)] for name in _TEXTS}
    return Part(golds[0], golds[1], **numbers | texts)


def sketch(part: Part, documents: DocumentStates) -> np.ndarray:
    """Hashes of a sample of the candidates: uint64, ascending, at most `_SKETCH`.

    A hash changes with what is known of the question, with the document, and with the piece. The smallest hashes of a
    set are a sample that does not depend on the order, and two samples say how much of two sets is common (bottom-k
    MinHash, Broder 1997).
    """
    candidates = part.candidates
    digests = np.array([int(digest, 16) for digest in part.digests], np.uint64)
    ends = np.cumsum(documents.pieces)
    of = documents.hashes[np.searchsorted(ends, candidates.piece, side="right")]
    hashes = mixed(digests[candidates.question] ^ mixed(of ^ mixed(candidates.place[:, 0].astype(np.uint64))))
    return np.unique(hashes)[:_SKETCH]


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


def documents_of(retrieval: Retrieval, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
    """What rankings of pieces know of documents: their texts and what they name.

    Args:
        retrieval: The corpora.
        hashes: Of the documents of each corpus, see `document_hashes`.
    """
    documents = DocumentStates.of(retrieval.corpora, hashes)
    if not reads_mentions(retrieval.corpora.settings.ranking.experts):
        return documents
    return replace(documents, hashes=mixed(documents.hashes ^ retrieval.index.mentions.signature()))
