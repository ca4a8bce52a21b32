"""What chunkers are compared on: articles with questions, and the chunkers with their costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import evaluate
from mog_assets.index.corpora import Corpora
from mog_assets.papers.experiments.lab import (
    Lab,
    NothingToMeasure,
    about,
)
from mog_assets.papers.learned_chunking.articles import Article, ArticleSource, encode_articles, sources, within
from mog_assets.papers.learned_chunking.learned import Shape, bisected, costs, network, penalty_for, scores, set_weights
from mog_assets.papers.learned_chunking.settings import CHUNKER, ChunkerTraining
from mog_assets.papers.learned_chunking.training import train
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.questions.sets import Evidence, Question
from mog_assets.search.depth import DEPTH
from mog_assets.text.chunkers import CHUNKERS, Options
from mog_assets.text.chunks import chunk_text
from mog_assets.text.cuts import Spans, least, spans_to, token_starts, unit_chars, units

TOKENS = "tokens_to_answer, all chunks"

MEASURES = (TOKENS, "tokens_to_answer", "ER", "ER@1000", "ER@2000", "ER@4000", "ER@8000")


def measured(lab: Lab, question_set: str, ground: Ground, cuts: Cuts) -> pd.DataFrame:
    """Return what a chunker is measured at: a row a question."""
    texts = [
        chunk_text(source.title, source.text[start:end])
        for source, spans in zip(ground.sources, cuts, strict=True)
        for start, end in spans.tolist()
    ]
    vectors = ground.encode(texts).astype(np.float32)
    owner = np.repeat(np.arange(len(cuts)), [len(spans) for spans in cuts])
    spans = np.concatenate(cuts)
    tokens = np.concatenate(
        [
            np.diff(np.searchsorted(token_starts(source.text), [0, *cuts_of[:, 1]]))
            for source, cuts_of in zip(ground.sources, cuts, strict=True)
        ]
    )
    first = np.searchsorted(owner, np.arange(len(cuts)))
    document = np.repeat(np.arange(len(cuts)), [len(source.questions) for source in ground.sources])
    answers = np.concatenate([source.answers for source in ground.sources])
    to_answer = np.zeros(len(answers))
    runs = []
    for low in range(0, len(answers), 1000):
        rows = np.arange(low, min(low + 1000, len(answers)))
        similar = ground.vectors[rows].astype(np.float32) @ vectors.T
        for row, values in zip(rows.tolist(), similar, strict=True):
            cuts_of = cuts[document[row]]
            begin, behind = np.searchsorted(cuts_of[:, 1], answers[row] - [0, 1], side="right") + first[document[row]]
            # An answer that was split is complete when the later of its chunks has been read.
            to_answer[row] = tokens[values >= values[begin : behind + 1].min()].sum()
        best = np.argsort(-similar, axis=1, kind="stable")[:, :DEPTH]
        runs.append(
            pd.DataFrame(
                {
                    "question": np.repeat([ground.questions[row].id for row in rows.tolist()], best.shape[1]),
                    "rank": np.tile(np.arange(1, best.shape[1] + 1), len(rows)),
                    "chunk": best.ravel(),
                }
            )
        )
    run = pd.concat(runs, ignore_index=True)
    names = [key_of(source) for source in ground.sources]
    chunk = run["chunk"].to_numpy()
    run = run.assign(
        question_set=question_set,
        method="",
        corpus=np.array([corpus for corpus, _ in names], object)[owner[chunk]],
        doc=np.array([doc for _, doc in names], object)[owner[chunk]],
        start=spans[chunk, 0],
        end=spans[chunk, 1],
        tokens=tokens[chunk],
    )
    measured = evaluate(run, {question_set: ground.questions}, lab.settings.k)
    return measured[["question", *MEASURES[1:]]].assign(
        **{TOKENS: measured["question"].map(dict(zip([q.id for q in ground.questions], to_answer, strict=True)))}
    )


# Every document is split by a chunker trained on the documents of the other folds.
FOLDS = 3
# With fewer documents there are too few for training and validation.
_FEWEST = 3 * FOLDS
# Mean lengths count as equal if they differ by at most this share.
EQUAL = 0.05
# Texts encoded between two progress updates.
_AT_ONCE = 4096
Cuts = list[Spans]
"""Spans of each document, in order."""


@dataclass(frozen=True)
class Ground:
    """Documents and questions on which chunkers are compared.

    Attributes:
        sources: The documents.
        articles: The encoded documents.
        questions: One question for each answer, in order of the documents.
        vectors: Their unit vectors, in the same order.
        encode: Texts to unit vectors.
    """

    sources: Sequence[ArticleSource]
    articles: Sequence[Article]
    questions: Sequence[Question]
    vectors: np.ndarray
    encode: Callable[[Sequence[str]], np.ndarray]

    @property
    def characters(self) -> int:
        """Total of all documents."""
        return sum(len(source.text) for source in self.sources)

    def folds(self) -> np.ndarray:
        """Return the fold of each document: int64 of shape (documents,)."""
        places = [hashlib.sha256(f"fold {source.name}".encode()).digest() for source in self.sources]
        rows_of = np.empty(len(places), np.int64)
        rows_of[sorted(range(len(places)), key=places.__getitem__)] = np.arange(len(places)) % FOLDS
        return rows_of


def grounds_of(lab: Lab) -> dict[str, Ground]:
    """Return the usable data of each question set: training questions with answers that fit into a chunk."""
    longest, sources_of = unit_chars(lab.settings.finest_chars), {}
    for name, questions in lab.trained_on().items():
        wanted = {(span.corpus, span.doc) for question in questions for span in question.evidence}
        most = CHUNKER.of(lab.settings).training.spans
        chosen = within(sources(_texts(lab, wanted), questions, longest), longest, most)
        if len(chosen) < _FEWEST:
            continue
        ready = encode_articles(chosen, longest, _encoded(lab))
        members = [
            Question(f"{source.name}#{i}", text, "", "train", evidence=(Evidence(*key_of(source), start, end),))
            for source in chosen
            for i, (text, (start, end)) in enumerate(zip(source.questions, source.answers.tolist(), strict=True))
        ]
        vectors = np.concatenate([article.questions for article in ready])
        sources_of[name] = Ground(chosen, ready, members, vectors, _encoded(lab))
    if not sources_of:
        raise NothingToMeasure(
            f"no question set has training questions with evidence of at most {longest} characters in {_FEWEST} "
            "documents"
        )
    return sources_of


def key_of(source: ArticleSource) -> tuple[str, str]:
    """Return corpus and id."""
    corpus, document = source.name.split("/", 1)
    return corpus, document


def _encoded(lab: Lab) -> Callable[[Sequence[str]], np.ndarray]:
    def encode(texts: Sequence[str]) -> np.ndarray:
        parts = [texts[first : first + _AT_ONCE] for first in range(0, len(texts), _AT_ONCE)]
        rows_of = []
        with lab.progress(len(texts), "texts encoded") as advance:
            for part in parts:
                rows_of.append(lab.encode(part))
                advance(len(part))
        return np.concatenate(rows_of)

    return encode


def _texts(lab: Lab, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    texts_of = {}
    for corpus in sorted({corpus for corpus, _ in wanted}):
        corpora = Corpora.open(lab.read, lab.settings, [corpus])
        positions = {i: key for key, i in corpora.position.items() if key in wanted}
        texts_of.update({positions[i]: texts for i, texts in corpora.texts(positions).items()})
    return texts_of


def mean_of(ground: Ground, cuts: Cuts) -> float:
    """Return mean length of a chunk, in characters."""
    return ground.characters / sum(map(len, cuts))


def heuristic_row(ground: Ground, name: str, mean: float) -> Cuts:
    """Return a chunker's cuts at the size whose mean chunk length is closest to a target."""

    def cut(chars: int) -> Cuts:
        split = CHUNKERS[name].make(Options(chars))
        if not CHUNKERS[name].sentence_vectors:
            return [split(source.text, None) for source in ground.sources]
        ends = [units(source.text, unit_chars(chars)) for source in ground.sources]
        texts = [s.text[a:b] for s, e in zip(ground.sources, ends, strict=True) for a, b in spans_to(e).tolist()]
        vectors = np.split(ground.encode(texts), np.cumsum([len(e) for e in ends])[:-1])
        return [split(source.text, cuts_of) for source, cuts_of in zip(ground.sources, vectors, strict=True)]

    low, high = 1, int(16 * mean)
    tried: dict[int, Cuts] = {}
    while high - low > 1:
        middle = (low + high) // 2
        tried[middle] = cut(middle)
        now = mean_of(ground, tried[middle])
        if abs(now - mean) < EQUAL / 20 * mean:
            break
        low, high = (middle, high) if now < mean else (low, middle)
    return min(tried.values(), key=lambda cuts: abs(mean_of(ground, cuts) - mean))


def learned_row(
    lab: Lab,
    question_set: str,
    ground: Ground,
    what: str,
    training: ChunkerTraining,
    mean: float,
    blind: bool = False,
    greedy: bool = False,
) -> pd.DataFrame:
    """Return a learned chunker: every document is split by one trained on the documents of the other folds.

    Args:
        lab: The lab.
        question_set: Name of the question set.
        ground: Documents and questions.
        what: Name of the cell.
        training: How it is trained.
        mean: Target mean length of its chunks, in characters.
        blind: Whether to withhold the vectors of units.
        greedy: Whether to take the end with the lowest cost per length, window by window, as in the paper.
    """

    def cut() -> Cuts:
        articles = [_blinded(article) for article in ground.articles] if blind else ground.articles
        folds, cuts = ground.folds(), [np.zeros((0, 2), np.int64)] * len(articles)
        for fold in range(FOLDS):
            fitted = trained_scorer(lab, [a for a, f in zip(articles, folds, strict=True) if f != fold], training)
            model = network(Shape(**fitted.scorer.facts["shape"]))
            set_weights(model, fitted.scorer.weights)
            rows_of = np.flatnonzero(folds == fold).tolist()
            tried = [articles[i] for i in rows_of]
            cost = [costs(scores(model, a.windows, a.vectors), a.windows.possible) for a in tried]
            characters = [int(articles[i].ends[-1]) for i in rows_of]
            # Questions are not used here: only lengths are made equal.
            cut_by = _greedily if greedy else least
            if greedy:
                penalty = bisected(partial(_chunks, cost), sum(characters) / mean, 100.0, 40)
            else:
                penalty = penalty_for(mean, characters, cost)
            for i, values in zip(rows_of, cost, strict=True):
                taken = cut_by(values, penalty)
                cuts[i] = spans_to(articles[i].ends[np.asarray(taken) - 1])
        return cuts

    return cell_of(lab, question_set, ground, what, [mean, training.model_dump(), blind, greedy], cut)


def trained_scorer(lab: Lab, articles: Sequence[Article], training: ChunkerTraining) -> Any:
    """Return a scorer that is trained on some articles."""
    held_out = validation_rows([article.name for article in articles], training.validation, "chunker")
    with lab.progress(training.epochs, "epochs trained (at most)") as advance:
        return train(articles, held_out, lab.settings.finest_chars, training, lab.seed, advance)


def _blinded(article: Article) -> Article:
    return replace(article, vectors=np.zeros_like(article.vectors))


def _greedily(cost: np.ndarray, penalty: float) -> list[int]:
    """Return the end with the lowest cost per unit, window by window; `penalty` is divided by the units of a chunk."""
    taken = [0]
    while taken[-1] < len(cost):
        share = (cost[taken[-1]] + penalty) / np.arange(1, cost.shape[1] + 1)
        taken.append(taken[-1] + int(share.argmin()) + 1)
    return taken[1:]


def _chunks(scores_of: Sequence[np.ndarray], penalty: float) -> int:
    return sum(len(_greedily(cost, penalty)) for cost in scores_of)


def cell_of(lab: Lab, question_set: str, ground: Ground, what: str, key: Any, cut: Callable[[], Cuts]) -> pd.DataFrame:
    """Return measures of every question with one chunker: question, document, cell, characters, and measures."""

    def make() -> pd.DataFrame:
        cuts = cut()
        return measured(lab, question_set, ground, cuts).assign(characters=mean_of(ground, cuts))

    result = lab.cached(f"{question_set} {what}", ["chunker", lab.settings.finest_chars, key], make)
    return about(result, ground.questions).assign(cell=what)
