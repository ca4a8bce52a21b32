"""Length normalisation across levels: for each level BM25's k1 and b, and a scale, fitted on training questions.

Every level is a collection of its own, of chunks twice as long as those of the level below. k1 and b say how much the
length of a chunk counts within a level, the scale how much a score of the level counts beside one of another where
levels are mixed: t(c)·w adds them up.

References: Zhong et al. 2024 (Mix-of-Granularity), section 5, names the lack of it as a limit; Lipani et al. 2015,
Verboseness Fission for BM25 Document Length Normalization, for a b that depends on the collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np

from mog_assets.arrays import places
from mog_assets.config import Settings
from mog_assets.corpus.questions import Question, validation_rows
from mog_assets.errors import ConfigError
from mog_assets.retrieval.bm25 import Bm25Index, Parameters
from mog_assets.retrieval.controls import gold_passages, pieces
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import DEPTH, LevelChunks, Passages
from mog_assets.retrieval.mix import Candidates, candidates, emit, ranked
from mog_assets.retrieval.recall import evidence_recall
from mog_assets.retrieval.search import Bm25Searcher, Hits
from mog_assets.retrieval.tokens import query_terms
from mog_assets.significance import holm, permutation_p

# What is tried for every level: of each k1 every b.
K1 = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2, 1.6, 2.4)
B = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
# Scales are powers of √2. Exponents that are tried, from that of a level's unit on (see `units`), and how often all
# levels are gone over.
STEPS = tuple(range(-6, 7))
SWEEPS = 3
# At most so many questions are fitted on, and as many validated on.
SAMPLE = 2000
# Share of the documents whose questions are validated on.
VALIDATION = 0.2
# What was fitted is used where it is better on validation questions with a smaller p-value.
ALPHA = 0.05


@dataclass(frozen=True)
class Asked:
    """Questions with evidence of one question set, and its corpora."""

    corpora: Corpora
    questions: Sequence[Question]

    @cached_property
    def _terms(self) -> list[list[str]]:
        return query_terms([q.question for q in self.questions])

    @cached_property
    def _gold(self) -> Passages:
        return gold_passages(self.questions, self.corpora)

    @property
    def _chunks(self) -> LevelChunks:
        return LevelChunks(self.corpora.layout, self.corpora.settings.level_count, self.corpora.starts)

    def search(self, indexes: Sequence[Bm25Index], level: int) -> Hits:
        """The best chunks of a level, as runs have them."""
        return Bm25Searcher(self._terms, lambda _: indexes, self.corpora.starts).search(level, DEPTH)

    def recall(self, hits: Hits, levels: np.ndarray) -> np.ndarray:
        """`evidence_recall` of hits, given the level of each."""
        return evidence_recall(self._chunks.passages(hits, levels), self._gold, len(self.questions))

    def candidates(self, hits: Sequence[Hits]) -> Candidates:
        """What enters the mix of hits of all levels."""
        k_r, chunks = self.corpora.settings.k_r, self._chunks
        best = [found.best_per_corpus(k_r, chunks.starts(level)) for level, found in enumerate(hits, 1)]
        return candidates(best, chunks)

    def mixed(self, found: Candidates, scales: Sequence[float], level: int = 1) -> np.ndarray:
        """`evidence_recall` of the mix with equal weights that emits chunks of a level, scores of levels scaled."""
        count = len(self.questions)
        order = ranked(found, np.tile(np.asarray(scales, np.float64), (count, 1)))
        hits, levels = emit(found, *order, np.full(count, level), self._chunks)
        return self.recall(hits, levels)


class Cached(Protocol):
    """Keeps arrays."""

    def __call__(self, key: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The array of this key (JSON values), made where it is not kept yet."""


Progress = Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
"""Shows how far something is: number of steps, and what they are."""


@dataclass(frozen=True)
class Verdict:
    """What was fitted against what it would take the place of, on questions that it was not fitted on.

    Attributes:
        before, after: Mean `evidence_recall` without and with it.
        p: Two-sided paired permutation test over documents.
    """

    before: float
    after: float
    p: float

    @property
    def better(self) -> bool:
        """Whether it is used."""
        return self.after > self.before and self.p < ALPHA


@dataclass(frozen=True)
class Fitted:
    """What came of fitting.

    Attributes:
        levels: What each level is weighted with.
        grid: By level the mean `evidence_recall` of the questions fitted on: shape (len(K1), len(B)).
        default: By level the same with k1 and b of the settings.
        best: By level the best k1 and b of the grid, used or not.
        verdicts: By level on validation questions; p is corrected by Holm over the levels.
        scales: Fitted scales, finest level first, used or not.
        mixed: Mean `evidence_recall` of `fused-1` on the questions fitted on, without and with these scales.
        mix: The verdict on the scales.
    """

    levels: Mapping[int, Parameters]
    grid: Mapping[int, np.ndarray]
    default: Mapping[int, float]
    best: Mapping[int, Parameters]
    verdicts: Mapping[int, Verdict]
    scales: Sequence[float]
    mixed: tuple[float, float]
    mix: Verdict


Sets = Mapping[str, Sequence[Question]]
"""Questions by question set."""


def divided(trained_on: Sets, seed: int) -> tuple[Sets, Sets]:
    """Questions to fit on and others to validate on, `SAMPLE` of each at most; none without evidence.

    Questions on one document are never divided.

    Args:
        trained_on: The training questions of every question set that has some.
        seed: Of the samples.

    Raises:
        ConfigError: no question has evidence.
        MogError: all evidence lies in one document.
    """
    every = [(name, q) for name, questions in trained_on.items() for q in questions if pieces(q)]
    if not every:
        raise ConfigError(
            "bm25.length_norm: expected training questions with evidence to fit it on, got none among "
            f"{sum(map(len, trained_on.values()))}: add evidence to the questions of a split under train, or set it "
            "to false"
        )
    held_out = validation_rows([group_of(q) for _, q in every], VALIDATION, "bm25.length_norm")

    def drawn(rows: np.ndarray) -> Sets:
        most = min(SAMPLE, len(rows))
        found: dict[str, list[Question]] = {}
        for row in sorted(np.random.default_rng(seed).choice(rows, most, replace=False)):
            name, question = every[row]
            found.setdefault(name, []).append(question)
        return found

    return drawn(np.flatnonzero(~held_out)), drawn(np.flatnonzero(held_out))


def group_of(question: Question) -> str:
    """What a question has in common with others: the document of its first piece of evidence."""
    return f"{question.evidence[0].corpus}/{question.evidence[0].doc}"


def fit(
    on: Sequence[Asked], held_out: Sequence[Asked], settings: Settings, cached: Cached, progress: Progress
) -> Fitted:
    """Fit k1 and b of every level, then the scales of all levels together.

    The objective is `evidence_recall`: for k1 and b that of the level alone (`fixed-j`), for scales that of the mix
    with equal weights (`fused-1`). What is not better on `held_out` (`Verdict.better`) is not used: then a level keeps
    k1 and b of the settings, and all levels keep the scale 1.

    Scales are looked for level by level, from those on at which the best scores of every level have a mean of about 1
    (`units`), that of the finest level fixed: only their ratios count. Scores in another unit give the same mix.

    Args:
        on: The questions to fit on, by question set.
        held_out: The questions to validate on.
        settings: Of the project.
        cached: Keeps what was measured, so that an interrupted search goes on where it was.
        progress: Shows how far it is.
    """
    default = Parameters(settings.bm25.k1, settings.bm25.b)
    groups = [group_of(q) for part in held_out for q in part.questions]
    grid: dict[int, np.ndarray] = {}
    best, before, raw = {}, {}, {}
    with progress(settings.level_count * len(K1) * len(B), "parameters tried") as advance:
        for level in settings.level_range:
            fitted, validated = recalls(on, level, cached, "fit"), recalls(held_out, level, cached, "validation")
            grid[level] = np.empty((len(K1), len(B)))
            for row, column in np.ndindex(grid[level].shape):
                grid[level][row, column] = fitted(Parameters(K1[row], B[column])).mean()
                advance(1)
            row, column = np.unravel_index(grid[level].argmax(), grid[level].shape)
            best[level], before[level] = Parameters(K1[row], B[column]), float(fitted(default).mean())
            raw[level] = verdict(validated(default), validated(best[level]), groups, settings.seed)
    adjusted = holm(np.array([found.p for found in raw.values()]))
    verdicts = {level: replace(found, p=float(p)) for (level, found), p in zip(raw.items(), adjusted, strict=True)}
    levels = {level: best[level] if verdicts[level].better else default for level in settings.level_range}

    fused, validated_mix = (mixes(part, levels, cached, what) for part, what in ((on, "fit"), (held_out, "validation")))
    with progress(SWEEPS * (settings.level_count - 1) * len(STEPS), "scales tried (at most)") as advance:
        scales = powers(balanced(fused, units(on, levels, cached), advance))
    ones = [1.0] * settings.level_count
    mix = verdict(validated_mix(ones), validated_mix(scales), groups, settings.seed)
    return Fitted(
        levels={
            level: replace(found, scale=scale if mix.better else 1.0)
            for (level, found), scale in zip(levels.items(), scales, strict=True)
        },
        grid=grid,
        default=before,
        best=best,
        verdicts=verdicts,
        scales=scales,
        mixed=(float(fused(ones).mean()), float(fused(scales).mean())),
        mix=mix,
    )


def recalls(part: Sequence[Asked], level: int, cached: Cached, what: str) -> Callable[[Parameters], np.ndarray]:
    """A function from parameters to the `evidence_recall` of each question by the chunks of a level.

    Args:
        part: Questions, by question set.
        level: The level; its counts are read once, and not where all that is asked for is kept.
        cached: Keeps the recalls.
        what: Which questions they are, for the key.
    """
    counts = cache(lambda: [asked.corpora.counts(level) for asked in part])

    def under(by: Parameters) -> np.ndarray:
        def make() -> np.ndarray:
            found = []
            for asked, terms in zip(part, counts(), strict=True):
                hits = asked.search(asked.corpora.weighted(terms, by), level)
                found.append(asked.recall(hits, np.full(len(hits.chunk), level)))
            return np.concatenate(found)

        return cached([what, level, by.k1, by.b], make)

    return under


def mixes(
    part: Sequence[Asked], levels: Mapping[int, Parameters], cached: Cached, what: str
) -> Callable[[Sequence[float]], np.ndarray]:
    """A function from scales, finest level first, to the `evidence_recall` of each question by `fused-1`.

    Args:
        part: Questions, by question set.
        levels: What each level is weighted with.
        cached: Keeps the recalls.
        what: Which questions they are, for the key.
    """
    entering = cache(lambda: [asked.candidates(_hits(asked, levels)) for asked in part])
    key = [what, *_keys(levels)]

    def under(scales: Sequence[float]) -> np.ndarray:
        def make() -> np.ndarray:
            return np.concatenate([a.mixed(found, scales) for a, found in zip(part, entering(), strict=True)])

        return cached([*key, list(scales)], make)

    return under


def _keys(levels: Mapping[int, Parameters]) -> list[list[float]]:
    return [[by.k1, by.b, by.scale] for by in levels.values()]


def _hits(asked: Asked, levels: Mapping[int, Parameters]) -> list[Hits]:
    corpora = asked.corpora
    return [asked.search(corpora.weighted(corpora.counts(level), by), level) for level, by in levels.items()]


def powers(exponents: Sequence[int]) -> list[float]:
    """Powers of √2."""
    return [2.0 ** (exponent / 2) for exponent in exponents]


def units(part: Sequence[Asked], levels: Mapping[int, Parameters], cached: Cached) -> list[int]:
    """The powers of √2 by which the best scores of a level get a mean of about 1 over questions: their exponents.

    Powers, so that a mean that changes a little changes no scale, and nothing has to be made again for it.

    Args:
        part: Questions, by question set.
        levels: What each level is weighted with.
        cached: Keeps them.

    Returns:
        An exponent for each level, finest first; 0 where a level finds nothing.
    """

    def make() -> np.ndarray:
        tops = [[hits.score[places(hits.question) == 0] for hits in _hits(asked, levels)] for asked in part]
        best = [np.concatenate(scores) for scores in zip(*tops, strict=True)]
        return np.array([np.round(-2 * np.log2(scores.mean())) if len(scores) else 0 for scores in best], np.int64)

    found: list[int] = cached(["units", *_keys(levels)], make).tolist()
    return found


def balanced(
    fused: Callable[[Sequence[float]], np.ndarray], begin: Sequence[int], advance: Callable[[int], None]
) -> list[int]:
    """The exponents of the best scales, by coordinate search over `STEPS`; of equals those that were met first.

    Args:
        fused: Recalls under scales, see `mixes`.
        begin: Exponents to begin with, finest level first; the first one stays.
        advance: Called with 1 for all scales that were tried.
    """
    chosen, reached = list(begin), float(fused(powers(begin)).mean())
    for _ in range(SWEEPS):
        before = list(chosen)
        for place in range(1, len(begin)):
            for step in STEPS:
                tried = [*chosen[:place], begin[place] + step, *chosen[place + 1 :]]
                recall = float(fused(powers(tried)).mean())
                if recall > reached:
                    chosen, reached = tried, recall
                advance(1)
        if chosen == before:
            break
    return chosen


def verdict(before: np.ndarray, after: np.ndarray, groups: Sequence[str], seed: int) -> Verdict:
    """Compare recalls of the same questions; signs are permuted by group, because questions on one document are alike.

    Args:
        before: Without what is tested, float array of shape (n,).
        after: With it, likewise.
        groups: Group of each question.
        seed: Of the signs.
    """
    distinct, member = np.unique(np.asarray(groups, str), return_inverse=True)
    sums = np.bincount(member, weights=after - before, minlength=len(distinct))
    return Verdict(float(before.mean()), float(after.mean()), float(permutation_p(sums[:, None], seed=seed)[0]))
