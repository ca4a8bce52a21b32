"""Methods by name, and the passages each of them ranks.

Rankings (`fused`, `multihop`, `tuned`, `mog`, `mogg`, `mix`, `rrf`, `umg`) order pieces by what all retrievers say of
all levels (see `mog_assets.ranking`), and `auto` is the method that the asset `method` has chosen. Others are written
`[retriever:]name[+topics]`, e.g. `mog-paper`, `fused-paper-2`, `hybrid:mog-paper`, `mogg-paper+topics`; without a
retriever, the configured one is used. `medrag` stands for `fixed-2`, `dense-2` for `dense:fixed-2`. `-paper` marks
rankings exactly as in the paper (Zhong et al. 2024).
Methods of the sentence graph (`hop-0` …, `mogg-paper`, `mogg-uniform`) retrieve by BM25, as in the paper. The controls
`random` and `gold` do not search: they give the scores of random passages and of the evidence itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol, cast

import numpy as np

from mog_assets.arrays import first_of_each, places, ranges, running
from mog_assets.chunking.chunks import Layout
from mog_assets.config import RetrieverName, Settings
from mog_assets.resources.errors import ConfigError
from mog_assets.retrieval.mix import Candidates, Granularities, candidates, emission_levels, emit, ranked
from mog_assets.retrieval.search import Hits, Searcher

RETRIEVERS: tuple[RetrieverName, ...] = ("bm25", "dense", "hybrid")
_PATTERN = re.compile(
    r"(?:(?P<retriever>bm25|dense|hybrid):)?"
    r"(?P<kind>fixed|(?:fused|mog|oracle)-paper|medrag|hop|mogg-uniform|mogg-paper)"
    r"(?:-(?P<level>\d+))?(?P<topics>\+topics)?"
)
_LEVELLED = ("fixed", "fused-paper", "hop")
_GRAPH = ("hop", "mogg-paper", "mogg-uniform")
CONTROLS = ("random", "gold")
# Rankings over the exact scores of all experts, those that are trained, and those that are compared with others only
# where `methods` names them: an edit changes them for nearly every question, or they are here to be compared with.
RANKINGS = ("fused", "multihop", "tuned", "mog", "mogg", "mix", "rrf", "umg")
LEARNED = ("tuned", "mog", "mogg", "mix")
NAMED = ("multihop", "mogg", "rrf", "umg")
# The method that the asset `method` names.
AUTO = "auto"
# Every value of `Method.kind`.
KINDS = (AUTO, *RANKINGS, "fixed", "fused-paper", "mog-paper", "oracle-paper", *_GRAPH, *CONTROLS)

# Context lengths, in characters, at which evidence recall is measured.
CONTEXTS = (1000, 2000, 4000, 8000)
# A run is deep enough for every measure: the characters of the longest context, and the documents of nDCG@10.
CONTEXT_CHARS = CONTEXTS[-1]
DOCUMENTS = 10
DEPTH = 50


@dataclass(frozen=True)
class Method:
    """How passages are ranked.

    Attributes:
        retriever: None for a ranking, which uses all, for `auto`, and for a control, which does not search.
        kind: `auto`; a ranking of pieces (one of `RANKINGS`); one granularity alone (`fixed`, `hop`), all
            with equal weights (`fused-paper`, `mogg-uniform`), or with those of a router (`mog-paper`, `mogg-paper`) or
            of the soft labels (`oracle-paper`); or a control (`random`, `gold`).
        level: Granularity of the passages, from 1, the finest (level 1, 0 hops); None if the weights choose it.
        topics: Whether passages are limited to the question's topic.
    """

    name: str
    retriever: RetrieverName | None
    kind: str
    level: int | None
    topics: bool = False

    @property
    def graph(self) -> bool:
        """Whether it ranks neighbourhoods of the sentence graph."""
        return self.kind in _GRAPH

    def within(self, topics: bool) -> Method:
        """The same method, within topics or not."""
        return replace(self, name=self.name.removesuffix("+topics") + ("+topics" if topics else ""), topics=topics)

    @property
    def ranking(self) -> bool:
        """Whether it ranks pieces by all experts."""
        return self.kind in RANKINGS

    @property
    def trained(self) -> bool:
        """Whether it needs a model that is trained on questions."""
        return self.routed or self.kind in LEARNED

    @property
    def routed(self) -> bool:
        """Whether a router weighs the granularities."""
        return self.kind in ("mog-paper", "mogg-paper")

    @property
    def control(self) -> bool:
        """Whether its measured values are known in advance."""
        return self.kind in CONTROLS

    @property
    def evaluation_only(self) -> bool:
        """Whether it cannot answer real questions: it needs gold evidence, or does not search."""
        return self.control or self.kind == "oracle-paper"


def parse(name: str, settings: Settings) -> Method:
    """A method by any of its names; its `name` is the canonical one.

    Raises:
        ConfigError: no such method.
    """
    default, levels, hops = settings.retriever, settings.levels, settings.graph.hops
    text = re.sub(r"^dense-(\d+)", r"dense:fixed-\1", name.strip())
    if text in (AUTO, *RANKINGS, *CONTROLS):
        return Method(text, None, text, None)
    match = _PATTERN.fullmatch(text)
    if match:
        kind, number, topics = match["kind"], match["level"], match["topics"] is not None
        if kind == "medrag" and number is None:
            kind, number = "fixed", "2"
        least, most = (0, hops) if kind == "hop" else (1, levels)
        numbered = (kind in _LEVELLED) == (number is not None) and (number is None or least <= int(number) <= most)
        if numbered and not (kind in _GRAPH and match["retriever"] not in (None, "bm25")):
            retriever: RetrieverName = "bm25" if kind in _GRAPH else cast(RetrieverName, match["retriever"] or default)
            full = _canonical(kind, number, retriever, default) + ("+topics" if topics else "")
            level = int(number) + (kind == "hop") if number else None
            return Method(full, retriever, kind, level, topics)
    papers = f"fused-paper-1..{levels}, mog-paper, oracle-paper"
    known = f"{AUTO}, {', '.join(RANKINGS)}, fixed-1..{levels}, {papers}, dense-1..{levels}, medrag"
    raise ConfigError(
        f"method: expected one of {known}, hop-0..{hops}, mogg-paper, mogg-uniform, or one of those of levels with a "
        f"retriever prefix (hybrid:mog-paper), any of these with the suffix +topics, or {' or '.join(CONTROLS)}, "
        f"got {name!r}"
    )


def _canonical(kind: str, number: str | None, retriever: str, default: str) -> str:
    name = kind if number is None else f"{kind}-{int(number)}"
    if retriever == default or kind in _GRAPH:
        return name
    return f"dense-{int(number or 0)}" if (retriever, kind) == ("dense", "fixed") else f"{retriever}:{name}"


def check_trained(key: str, method: Method, settings: Settings) -> None:
    """Reject a method that needs training in a project that has no questions for it.

    Args:
        key: Name of the option or setting.
        method: The method.
        settings: Of the project.

    Raises:
        ConfigError: the method needs training; the message names an alternative.
    """
    if method.trained and not settings.trains_routers:
        plain = "mogg-uniform" if method.graph else RANKINGS[0]
        raise ConfigError(
            f"{key}: {method.name!r} needs training, and no question set of this project has a train split: "
            f"name one under question_sets.NAME.train and run `mog run`, or use {plain!r}, which needs no training"
        )


def compared(settings: Settings) -> list[str]:
    """The rankings that are compared and, if they learn, trained."""
    named = {parse(name, settings).kind for name in settings.methods or () if name not in GROUPS}
    return [kind for kind in RANKINGS if kind not in NAMED or kind in named]


def _default(settings: Settings) -> list[str]:
    """Rankings and, of every retriever, the levels they are compared with."""
    levels = [f"{retriever}:fixed-{level}" for retriever in RETRIEVERS for level in settings.level_range]
    return [*(name for name in RANKINGS if name not in NAMED), *levels]


def _papers(settings: Settings) -> list[str]:
    """What Mix-of-Granularity and AT-RAG compare: levels with equal or learned weights, hops, filters by topic."""
    names = [*(f"fused-paper-{level}" for level in settings.level_range), "mog-paper"]
    hops = [*(f"hop-{hop}" for hop in range(settings.graph.hops + 1)), "mogg-uniform", "mogg-paper"]
    topics = [f"{name}+topics" for name in (f"fixed-{min(2, settings.levels)}", "mog-paper", "mogg-paper")]
    return [*(f"{retriever}:{name}" for retriever in RETRIEVERS for name in names), "oracle-paper", *hops, *topics]


# What a name in `methods` may stand for. Those that need training are left out where nothing can be trained.
GROUPS: dict[str, Callable[[Settings], list[str]]] = {"default": _default, "papers": _papers}


def named_methods(settings: Settings) -> list[Method]:
    """The methods that `methods` names, in order; a method named twice counts once.

    Raises:
        ConfigError: one is unknown, or needs training in a project that has no questions for it.
    """
    methods: dict[str, Method] = {}
    for name in settings.methods or ("default",):
        if name in GROUPS:
            group = [parse(member, settings) for member in GROUPS[name](settings)]
            methods |= {method.name: method for method in group if settings.trains_routers or not method.trained}
        else:
            method = parse(name, settings)
            check_trained("methods", method, settings)
            methods.setdefault(method.name, method)
    return list(methods.values())


def all_methods(settings: Settings) -> list[Method]:
    """Every method of a group or of the settings, whether it can be trained or not."""
    names = [name for group in GROUPS.values() for name in group(settings)]
    named = [name for name in settings.methods or () if name not in GROUPS]
    return list({method.name: method for method in (parse(name, settings) for name in [*names, *named])}.values())


@dataclass(frozen=True)
class LevelChunks:
    """Chunks of the levels of a layout, made of level-1 chunks.

    The last chunk of a short document is promoted to every coarser level and counts at each (Zhong et al. 2024).

    Attributes:
        layout: Of all corpora.
        count: Number of levels.
        first: First chunk of each corpus at a level.
    """

    layout: Layout
    count: int
    first: Callable[[int], np.ndarray]

    def starts(self, granularity: int) -> np.ndarray:
        """See `Granularities`."""
        return self.first(granularity)

    def spread(self, hits: Hits, granularity: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Granularities`."""
        first, last = self.layout.covered(hits.chunk, granularity)
        return np.repeat(np.arange(len(first)), last - first), ranges(first, last)

    def containing(self, pieces: np.ndarray, granularity: int) -> np.ndarray:
        """See `Granularities`."""
        return self.layout.containing(pieces, granularity)

    def passages(self, hits: Hits, granularities: np.ndarray) -> Passages:
        """One span each: see `Chunks`."""
        document, start, end = (np.empty(len(hits.chunk), np.int64) for _ in range(3))
        for level in np.unique(granularities):
            here = granularities == level
            document[here], start[here], end[here] = self.layout.chunk_spans(hits.chunk[here], int(level))
        return Passages(hits.question, places(hits.question), document, start, end, granularities, hits.score)


class Chunks(Granularities, Protocol):
    """Chunks that can be converted to passages."""

    def passages(self, hits: Hits, granularities: np.ndarray) -> Passages:
        """Documents and spans of hits, given the granularity of each."""


@dataclass(frozen=True)
class Ranker:
    """Ranks passages by every method of one retriever; shared work is done once.

    Attributes:
        searcher: The retriever.
        chunks: The chunks that it finds.
        k_r: Chunks per granularity and corpus that enter the mix.
    """

    searcher: Searcher
    chunks: Chunks
    k_r: int

    @cached_property
    def _candidates(self) -> Candidates:
        hits = [
            self.searcher.search(granularity, DEPTH).best_per_corpus(self.k_r, self.chunks.starts(granularity))
            for granularity in range(1, self.chunks.count + 1)
        ]
        return candidates(hits, self.chunks)

    @cached_property
    def _equally(self) -> tuple[np.ndarray, np.ndarray]:
        return ranked(self._candidates, np.ones((self._questions, self.chunks.count)))

    @property
    def _questions(self) -> int:
        return int(self._candidates.question.max(initial=-1)) + 1

    def rank(self, method: Method, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question; arguments as those of `emitted`."""
        return self.chunks.passages(*self.emitted(method, weights))

    def emitted(self, method: Method, weights: np.ndarray | None = None) -> tuple[Hits, np.ndarray]:
        """The chunks that become the passages of every question, and the granularity of each.

        Args:
            method: One of this retriever.
            weights: float array of shape (questions, granularities) for `mog-paper`, `mogg-paper` and `oracle-paper`;
                a row of zeros gives no passage.
        """
        if method.kind in ("fixed", "hop"):
            assert method.level is not None
            found = self.searcher.search(method.level, DEPTH)
            return found, np.full(len(found.chunk), method.level)
        if weights is None:
            # Equal weights: the finest granularity, unless the method names one.
            order, levels = self._equally, np.full(self._questions, method.level or 1)
        else:
            order, levels = ranked(self._candidates, weights), emission_levels(weights)
        return emit(self._candidates, *order, levels, self.chunks)


@dataclass(frozen=True)
class Passages:
    """Ranked passages of questions: one row per span, by question and rank; spans of a passage in reading order.

    Attributes:
        question: Position of the question.
        rank: Of the passage, from 0.
        document: Position of the document over all corpora, in their order.
        start, end: Offsets in its text, in characters.
        level: Level of the chunk, or hops of the neighbourhood.
        score: The ranking score of the passage.
    """

    question: np.ndarray
    rank: np.ndarray
    document: np.ndarray
    start: np.ndarray
    end: np.ndarray
    level: np.ndarray
    score: np.ndarray

    def at(self, rows: np.ndarray) -> Passages:
        """Some rows: a mask, or positions in order."""
        return Passages(*(getattr(self, field.name)[rows] for field in fields(self)))


def cut(found: Passages, k: int) -> Passages:
    """Only the passages that measures use: `CONTEXT_CHARS` characters, `DOCUMENTS` documents, k passages."""
    return found.at(seen(found.question, found.rank, found.document, found.end - found.start, k))


def seen(question: np.ndarray, rank: np.ndarray, document: np.ndarray, length: np.ndarray, k: int) -> np.ndarray:
    """Mask of the rows that any measure uses; a passage is used as a whole."""
    new = np.zeros(len(question), np.int64)
    new[first_of_each(question, document)] = 1
    filling = running(length, question) < CONTEXT_CHARS
    rows = (running(new, question) < DOCUMENTS) | filling | (rank < k)
    last = np.full(int(question.max(initial=-1)) + 1, -1)
    np.maximum.at(last, question[rows], rank[rows])
    return rank <= last[question]
