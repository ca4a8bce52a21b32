"""Methods by name, and the passages each of them ranks.

A method is written `[retriever:]name`, e.g. `mog`, `fused-2`, `hybrid:mog`; without a retriever the configured one is
meant. `medrag` stands for `fixed-2`, `dense-2` for `dense:fixed-2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import cast

import numpy as np

from mog_assets.arrays import first_of_each, places, running
from mog_assets.config import RetrieverName
from mog_assets.corpus.chunks import Layout
from mog_assets.errors import ConfigError
from mog_assets.retrieval.mix import Candidates, candidates, emission_levels, emit, mix
from mog_assets.retrieval.search import Hits, Searcher

RETRIEVERS: tuple[RetrieverName, ...] = ("bm25", "dense", "hybrid")
_PATTERN = re.compile(
    r"(?:(?P<retriever>bm25|dense|hybrid):)?(?P<kind>fixed|fused|mog|oracle|medrag)(?:-(?P<level>\d+))?"
)
_LEVELLED = ("fixed", "fused")

# A run is deep enough for every measure: as many characters as the longest context, as many documents as nDCG@10 sees.
CONTEXT_CHARS = 8000
DOCUMENTS = 10
DEPTH = 50


@dataclass(frozen=True)
class Method:
    """How passages are ranked.

    Attributes:
        kind: `fixed` (one level alone), `fused` (all levels, equal weights), `mog` (router), `oracle` (soft labels).
        level: Level of the passages; None where the weights choose it.
    """

    name: str
    retriever: RetrieverName
    kind: str
    level: int | None


def parse(name: str, default: RetrieverName, levels: int) -> Method:
    """A method by any of its names; its `name` is the canonical one.

    Raises:
        ConfigError: no such method.
    """
    text = re.sub(r"^dense-(\d+)$", r"dense:fixed-\1", name.strip())
    match = _PATTERN.fullmatch(text)
    if match:
        kind, number = match["kind"], match["level"]
        if kind == "medrag" and number is None:
            kind, number = "fixed", "2"
        if (kind in _LEVELLED) == (number is not None) and (number is None or 1 <= int(number) <= levels):
            retriever = cast(RetrieverName, match["retriever"] or default)
            level = int(number) if number else None
            return Method(_canonical(kind, level, retriever, default), retriever, kind, level)
    known = f"fixed-1..{levels}, fused-1..{levels}, mog, oracle, dense-1..{levels}, medrag"
    raise ConfigError(f"method: expected one of {known}, or one with a retriever before it (hybrid:mog), got {name!r}")


def _canonical(kind: str, level: int | None, retriever: str, default: str) -> str:
    name = kind if level is None else f"{kind}-{level}"
    if retriever == default:
        return name
    return f"dense-{level}" if (retriever, kind) == ("dense", "fixed") else f"{retriever}:{name}"


def default_methods(default: RetrieverName, levels: int) -> list[str]:
    """Everything under the default retriever, and fixed, fused and mog under the others."""
    level_names = [f"{kind}-{level}" for kind in _LEVELLED for level in range(1, levels + 1)]
    names = [*level_names, "mog", "oracle"]
    for retriever in RETRIEVERS:
        if retriever != default:
            names += [f"{retriever}:{name}" for name in [*level_names, "mog"]]
    return [parse(name, default, levels).name for name in names]


@dataclass(frozen=True)
class Ranker:
    """Ranks passages by every method of one retriever; what the methods share is computed once.

    Attributes:
        searcher: The retriever.
        layout: Of all corpora of the question set.
        starts: First chunk of each corpus at a level.
        levels: Number of levels.
        k_r: Chunks per level and corpus that enter the mix.
    """

    searcher: Searcher
    layout: Layout
    starts: Callable[[int], np.ndarray]
    levels: int
    k_r: int

    @cached_property
    def _candidates(self) -> Candidates:
        levels = range(1, self.levels + 1)
        hits = [self.searcher.search(level, DEPTH).best_per_corpus(self.k_r, self.starts(level)) for level in levels]
        return candidates(hits, self.layout)

    @cached_property
    def _fused(self) -> Hits:
        questions = int(self._candidates.question.max(initial=-1)) + 1
        return mix(self._candidates, np.ones((questions, self.levels)))

    def rank(self, method: Method, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question.

        Args:
            method: One of this retriever.
            weights: float array of shape (questions, levels) for `mog` and `oracle`; a row of zeros gives no passage.
        """
        if method.kind == "fixed":
            assert method.level is not None
            found = self.searcher.search(method.level, DEPTH)
            return passages(found, np.full(len(found.chunk), method.level), self.layout)
        if method.kind == "fused":
            ranked = self._fused
            levels = np.full(int(ranked.question.max(initial=-1)) + 1, method.level)
        else:
            assert weights is not None
            ranked, levels = mix(self._candidates, weights), emission_levels(weights)
        return passages(*emit(ranked, levels, self.layout), self.layout)


@dataclass(frozen=True)
class Passages:
    """Ranked passages of questions: arrays of equal length, ordered by question, best first.

    Attributes:
        question: Position of the question.
        document: Position of the document over all corpora, in their order.
        start, end: Offsets in its text, in characters.
        level: Level of the chunk.
        score: What it was ranked by.
    """

    question: np.ndarray
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    level: np.ndarray
    score: np.ndarray

    def at(self, rows: np.ndarray) -> Passages:
        """Some of them: a mask, or positions in order."""
        return Passages(*(getattr(self, field.name)[rows] for field in fields(self)))


def passages(hits: Hits, levels: np.ndarray, layout: Layout) -> Passages:
    """Document and span of each chunk, given the level of each."""
    document, start, end = (np.empty(len(hits.chunk), np.int64) for _ in range(3))
    for level in np.unique(levels):
        here = levels == level
        document[here], start[here], end[here] = layout.chunk_spans(hits.chunk[here], int(level))
    return Passages(hits.question, document, start, end, levels, hits.score)


def cut(found: Passages, k: int) -> Passages:
    """As many passages as the measures can see: `CONTEXT_CHARS` characters, `DOCUMENTS` documents, k passages."""
    new = np.zeros(len(found.question), np.int64)
    new[first_of_each(found.question, found.document)] = 1
    seen = running(new, found.question) < DOCUMENTS
    filling = running(found.end - found.start, found.question) < CONTEXT_CHARS
    return found.at(seen | filling | (places(found.question) < k))
