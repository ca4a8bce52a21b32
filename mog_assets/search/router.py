"""`fused`: what every expert says of a piece, weighed for each question by weights learned on many collections.

A piece's score is a sum over features that mean the same in every collection. Of each retriever at each level: its
score, from 0, the question's worst candidate, to 1, its best; the same times how sure the expert is of this question;
the rank of the text; and the share of a distribution over the candidates, weighed by its certainty (Jung and Wang 2026,
UMG, arXiv 2606.13550). Of the piece's document: how good its best piece is. Beside them the weights by rule
(`rule.Rule`), from which learning started: vectors whose encoder does not know the language count less in all of them.

So an expert that is sure counts more for this question than for another. What else a question is like is not asked:
networks that were told of it were up to .04 worse than the rule on collections that they had not seen, where this sum
is .010 better (benchmarks/README.md, "The router"). What texts name is added by rule: nothing else helps questions over
several documents, and few collections have them.

The weights come with the package; `router.md` tells what they were learned on, and how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.registry import EXPERTS
from mog_assets.resources.tensors import decode
from mog_assets.search.candidates import Candidates, Inputs
from mog_assets.search.exact import boosted
from mog_assets.search.rule import FOREIGN, NATIVE, Rule, of_texts

FILE = Path(__file__).parent / "router.safetensors"
# Features of an expert of texts, and of a piece.
FORMS = ("score", "sure score", "rank", "share")
FURTHER = (
    "title",
    "shares",
    "best of document",
    "best shares of document",
    "best of document by words",
    "best of document by vectors",
)
# What features that are no expert's are called in an explanation.
DOCUMENT = "document"
# Weight of the rule: what is learned changes it.
_RULE = 6.0
# What a weight of 1 in `FurtherExpert.weight` is in scores from 0 to 1, and the weight of what texts name.
_UNIT, _RELATION = 0.075, 2.0
# Confidence from which an expert of what texts name counts, and from which it counts in full. Below, where many
# documents are named, questions about one document would lose.
_FAINT, _CLEAR = 1.5, 4.0
_RELATIONS = ("mention", "pagerank")
# Ranks enter as 1 / (1 + rank / _RANKS).
_RANKS = 5


@dataclass(frozen=True)
class Columns:
    """Experts by kind.

    Attributes:
        texts: Columns of the retrievers at levels, BM25 first.
        levels: Number of levels.
        title: Column of the titles; None without.
        relations: Columns of what texts name.
        added: Columns of other experts, with what they are.
    """

    texts: np.ndarray
    levels: int
    title: int | None
    relations: Sequence[int]
    added: Sequence[tuple[int, Any]]

    @classmethod
    @cache
    def of(cls, experts: tuple[str, ...]) -> Columns:
        """Return the columns of experts, given their names."""
        texts = np.flatnonzero(of_texts(experts))
        relations = [experts.index(name) for name in _RELATIONS if name in experts]
        title = experts.index("title") if "title" in experts else None
        others = set(range(len(experts))) - {*texts.tolist(), *relations}
        added = [(column, EXPERTS[experts[column]]) for column in sorted(others) if experts[column] in EXPERTS]
        return cls(texts, len(texts) // 2, title, relations, added)


class Features:
    """Features of candidates: all that the router knows.

    Args:
        candidates: The candidates.
        experts: Names of the experts, by column of the scores.

    Attributes:
        rule: Score by rule from 0 to 1, float64 of shape (n,).
        of_experts: See `FORMS`: float32 of shape (n, forms, experts of texts).
        further: See `FURTHER`: float32 of shape (n, further).
    """

    def __init__(self, candidates: Candidates, experts: Sequence[str]) -> None:
        self.candidates, columns = candidates, Columns.of(tuple(experts))
        self.columns, question = columns, candidates.question
        words, texts = slice(0, columns.levels), columns.texts
        # An encoder that does not know the language is not asked.
        known = np.interp(candidates.vocabulary, (0, FOREIGN, NATIVE), (0, 0.5, 1))
        gate = np.ones((candidates.count, len(texts)))
        gate[:, columns.levels :] = known[:, None]
        self.weights = Rule().weights(candidates, experts)[:, texts]
        relative = candidates.relative[:, texts]
        rule = np.einsum("ij,ij->i", relative, self.weights[question])
        self.rule, self.span = scaled(candidates, rule)
        sure = gate * np.sqrt(np.maximum(candidates.confidence[:, texts], 1e-9))
        sure /= sure.mean(axis=1, keepdims=True) + 1e-9
        self.certainty = gate * candidates.certainty[:, texts]
        chances = candidates.chances[:, texts] * self.certainty[question]
        shares = chances.sum(axis=1)
        self.most = np.maximum(candidates.reduced(np.maximum, shares[:, None])[:, 0], 1e-9)
        shares = shares / self.most[question]
        gated = gate[question]
        ranks = gated / (1 + distinct_ranks(candidates, texts) / _RANKS)
        forms = [relative * gated, relative * sure[question], ranks, chances]
        self.of_experts = np.stack(forms, axis=1).astype(np.float32)

        # Pieces of a document stand together.
        document = candidates.piece - candidates.place[:, 0]
        new = np.concatenate([[True], (np.diff(document) != 0) | (np.diff(question) != 0)])[: len(question)]
        first = np.flatnonzero(new)
        group = np.cumsum(new) - 1
        by_words, by_vectors = relative[:, words].mean(axis=1), relative[:, columns.levels :].mean(axis=1)
        values = np.stack([self.rule, shares, by_words, by_vectors], axis=1)
        best = np.maximum.reduceat(values, first)[group] if len(first) else values
        best[:, 3] *= gated[:, -1]
        title = np.zeros(len(question)) if columns.title is None else candidates.relative[:, columns.title]
        self.further = np.column_stack([title, shares, best]).astype(np.float32)

    @property
    def table(self) -> np.ndarray:
        """All features but the rule, float32 of shape (n, features), of experts form by form."""
        of_experts = self.of_experts.reshape(len(self.rule), self.of_experts.shape[1] * self.of_experts.shape[2])
        return np.concatenate([of_experts, self.further], axis=1)


def scaled(candidates: Candidates, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores from 0, the question's worst, to 1, its best, and how far these are apart, shape (questions,)."""
    least, most = (candidates.reduced(function, scores[:, None])[:, 0] for function in (np.minimum, np.maximum))
    span = np.maximum(most - least, 1e-9)
    return (scores - least[candidates.question]) / span[candidates.question], span


def distinct_ranks(candidates: Candidates, columns: np.ndarray) -> np.ndarray:
    """Return how many texts of the question an expert puts before each candidate's; pieces of a text share its score.

    Args:
        candidates: The candidates.
        columns: Of the experts.

    Returns:
        int64 array of shape (n, columns).
    """
    scores, question = candidates.scores[:, columns], candidates.question[:, None]
    order = np.lexsort((-scores, np.broadcast_to(question, scores.shape)), axis=0)
    ordered = np.take_along_axis(scores, order, axis=0)
    # Rows of a question stay together.
    new = np.ones(scores.shape, bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (question[1:] != question[:-1])
    count = np.cumsum(new, axis=0)
    first = candidates.offsets[candidates.question]
    ranks = np.empty(scores.shape, np.int64)
    np.put_along_axis(ranks, order, count - count[first], axis=0)
    return ranks


@dataclass(frozen=True, eq=False)
class Router:
    """Weights of features.

    Attributes:
        of_experts: float32 array of shape (forms, retrievers, levels): of `FORMS`, for BM25 and vectors.
        further: float32 array of shape (further,): of `FURTHER`.
        deviations: float32 array of shape (features,): standard deviation of each, of experts first.
        rule: Weight of the score by rule.
        names: Factor of the weights of what texts name.
        reads: Whether experts count that read texts together with the question.
    """

    of_experts: np.ndarray
    further: np.ndarray
    deviations: np.ndarray
    rule: float = _RULE
    names: float = 1.0
    reads: bool = False

    @classmethod
    @cache
    def shipped(cls) -> Router:
        """Return that of the package."""
        arrays, _ = decode(FILE.read_bytes())
        return cls.of(arrays)

    @staticmethod
    @cache
    def version() -> str:
        """Return what changes with the weights of the package."""
        return hashlib.sha256(FILE.read_bytes()).hexdigest()[:16]

    @classmethod
    def reading(cls) -> Router:
        """Return the same with experts that read texts together with the question."""
        return replace(cls.shipped(), reads=True)

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], names: float = 1.0) -> Router:
        """Return that of some `arrays`."""
        return cls(arrays["of experts"], arrays["further"], arrays["deviations"], names=names)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Weights and deviations, as they are stored."""
        return {"of experts": self.of_experts, "further": self.further, "deviations": self.deviations}

    def at_levels(self, levels: int) -> Router:
        """Return the same for so many levels.

        Where there are more or fewer than the weights were learned with, theirs are between those of the nearest, and
        sum to the same.
        """
        known = self.of_experts.shape[-1]
        if levels == known:
            return self
        at = np.linspace(0, known - 1, levels)

        def between(values: np.ndarray) -> np.ndarray:
            rows = [np.interp(at, np.arange(known), row) for row in values.reshape(-1, known)]
            return np.stack(rows).astype(np.float32).reshape(len(FORMS), 2, levels)

        experts = self.of_experts.size
        deviations = np.append(between(self.deviations[:experts]), self.deviations[experts:])
        return replace(self, of_experts=between(self.of_experts) * np.float32(known / levels), deviations=deviations)

    def moved(self, steps: np.ndarray, names: float) -> Router:
        """Return other weights.

        Args:
            steps: What is added to each, times the deviation of its feature; in the order of `Features.table`.
            names: Factor of the weights of what texts name.
        """
        added, experts = (steps / self.deviations).astype(np.float32), self.of_experts.size
        of_experts = self.of_experts + added[:experts].reshape(self.of_experts.shape)
        return replace(self, of_experts=of_experts, further=self.further + added[experts:], names=names)

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Return how much more each expert gives its best candidate of each question than its worst.

        Args:
            candidates: Of the questions.
            experts: Names of the experts, by column of the scores.

        Returns:
            float32 array of shape (questions, experts).
        """
        parts = self.parts(candidates, experts, np.arange(len(candidates.question)))[:, : len(experts)]
        return (candidates.reduced(np.maximum, parts) - candidates.reduced(np.minimum, parts)).astype(np.float32)

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, known items first, float64 of shape (n,); arguments as those of `weights`."""
        features = Features(candidates, experts)
        scores, _ = scaled(candidates, self.of_texts(features))
        return boosted(candidates, scores + self.of_others(features).sum(axis=1))

    def of_texts(self, features: Features) -> np.ndarray:
        """Return the sum of rule and features, float64 of shape (n,)."""
        own = self.at_levels(features.columns.levels)
        weights = np.append(own.of_experts.ravel(), own.further)
        return np.asarray(self.rule * features.rule + features.table @ weights, np.float64)

    def of_others(self, features: Features) -> np.ndarray:
        """Return what experts weighed by rule give, beside texts from 0 to 1: float64 of shape (n, experts)."""
        candidates, columns = features.candidates, features.columns
        weights = np.zeros(candidates.shape)
        for column in columns.relations:
            clear = np.interp(candidates.confidence[:, column], (_FAINT, _CLEAR), (0, _RELATION * self.names))
            weights[:, column] = clear
        for column, expert in columns.added:
            if self.reads or not expert.reads:
                weights[:, column] = expert.weight
        return candidates.relative * (_UNIT * weights)[candidates.question]

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Return what every expert, and at last the piece's document, give to the scores of some candidates.

        Args:
            candidates: Of the questions.
            experts: See `weights`.
            rows: Rows of the candidates.

        Returns:
            float64 array of shape (rows, experts + 1).
        """
        features = Features(candidates, experts)
        columns, question, own = features.columns, candidates.question[rows], self.at_levels(features.columns.levels)
        texts, (title, of_shares) = columns.texts, own.further[:2]
        _, span = scaled(candidates, self.of_texts(features))
        parts = np.zeros((len(rows), len(experts) + 1))
        forms = np.einsum("nfe,fe->ne", features.of_experts[rows], own.of_experts.reshape(len(FORMS), -1))
        by_rule = candidates.relative[rows][:, texts] * (features.weights / features.span[:, None])[question]
        shares = candidates.chances[rows][:, texts] * (features.certainty / features.most[:, None])[question]
        parts[:, texts] = self.rule * by_rule + forms + of_shares * shares
        if columns.title is not None:
            parts[:, columns.title] = title * features.further[rows, 0]
        parts[:, -1] = features.further[rows, 2:] @ own.further[2:]
        parts /= span[question][:, None]
        parts[:, :-1] += self.of_others(features)[rows]
        return parts


@dataclass(frozen=True)
class Routed:
    """A ranking by a router: `fused`, `tuned` and `multihop`. `experts` are the names of the experts."""

    router: Router
    experts: Sequence[str]

    def weights(self, inputs: Inputs) -> np.ndarray:
        """Return how much more each expert gives its best candidate of each question than its worst."""
        return self.router.weights(inputs.candidates, self.experts)

    def parts(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """Return what every expert, and at last the piece's document, give to the scores of some candidates."""
        return self.router.parts(inputs.candidates, self.experts, rows)

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate."""
        return self.router.scores(inputs.candidates, self.experts)
