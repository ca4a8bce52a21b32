"""Methods by name, and the passages each of them ranks.

A method is written `[retriever:]name`, e.g. `mog`, `fused-2`, `hybrid:mog`; without a retriever the configured one is
meant. `medrag` stands for `fixed-2`, `dense-2` for `dense:fixed-2`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from mog_assets.config import RetrieverName
from mog_assets.corpus.chunks import Layout
from mog_assets.errors import ConfigError
from mog_assets.retrieval.mix import Candidates, candidates, emission_level, first_of_each, mix
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
        layouts: Per corpus of the question set.
        levels: Number of levels.
        k_r: Chunks per level and corpus that enter the mix.
    """

    searcher: Searcher
    layouts: Sequence[Layout]
    levels: int
    k_r: int

    @cached_property
    def _candidates(self) -> list[Candidates]:
        per_level = [self.searcher.search(level, DEPTH) for level in range(1, self.levels + 1)]
        questions = zip(*per_level, strict=True)
        return [candidates([hits.best_per_corpus(self.k_r) for hits in found], self.layouts) for found in questions]

    def rank(self, method: Method, weights: np.ndarray | None = None) -> Iterator[Passages]:
        """The passages of every question, best first.

        Args:
            method: One of this retriever.
            weights: float array of shape (questions, levels) for `mog` and `oracle`; a row of zeros gives no passage.
        """
        if method.kind == "fixed":
            assert method.level is not None
            for hits in self.searcher.search(method.level, DEPTH):
                yield passages(method.level, hits, self.layouts)
            return
        if method.kind == "fused":
            weights = np.ones((len(self._candidates), self.levels))
        assert weights is not None
        for found, row in zip(self._candidates, weights, strict=True):
            level = method.level or emission_level(row)
            if level is None:
                nothing = np.zeros(0, np.int64)
                yield passages(1, Hits(nothing, nothing, np.zeros(0)), self.layouts)
            else:
                yield passages(level, mix(found, row, level, self.layouts), self.layouts)


@dataclass(frozen=True)
class Passages:
    """Ranked passages of one question: arrays of equal length, best first."""

    corpus: np.ndarray
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    level: int
    score: np.ndarray

    def head(self, n: int) -> Passages:
        """The n best."""
        return Passages(self.corpus[:n], self.document[:n], self.start[:n], self.end[:n], self.level, self.score[:n])


def passages(level: int, hits: Hits, layouts: Sequence[Layout]) -> Passages:
    """Document and span of each chunk."""
    document, start, end = (np.empty(len(hits.chunk), np.int64) for _ in range(3))
    for corpus in np.unique(hits.corpus):
        here = hits.corpus == corpus
        document[here], start[here], end[here] = layouts[corpus].chunk_spans(hits.chunk[here], level)
    return Passages(hits.corpus, document, start, end, level, hits.score)


def cut(found: Passages, k: int) -> Passages:
    """As many passages as the measures can see: `CONTEXT_CHARS` characters, `DOCUMENTS` documents, k passages."""
    filled = int(np.searchsorted(np.cumsum(found.end - found.start), CONTEXT_CHARS)) + 1
    documents = first_of_each(found.corpus, found.document)
    seen = int(documents[DOCUMENTS - 1]) + 1 if len(documents) >= DOCUMENTS else len(found.corpus)
    return found.head(max(filled, seen, k))
