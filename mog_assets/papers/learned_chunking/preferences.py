"""Preferences between two ends of one chunk: training data of the learned chunker's objective `preference`.

References: "Train the Chunker End-to-End on Question Answering" (Markowitz and Galiya).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.chunking.cuts import WINDOW
from mog_assets.papers.learned_chunking.articles import Article
from mog_assets.papers.learned_chunking.learned import bisected
from mog_assets.papers.learned_chunking.tokens_to_answer import Distractors, tokens_of_some


@dataclass(frozen=True)
class Pair:
    """Two ends of one chunk; the first gave fewer tokens to answer."""

    article: int
    start: int
    better: int
    worse: int


def preferences(
    articles: Sequence[Article],
    scored: Sequence[np.ndarray],
    others: Sequence[Distractors],
    bonus: float,
    every: bool,
    rng: np.random.Generator,
) -> list[Pair]:
    """One preference per question: between the greedy end of a chunk and a randomly drawn end.

    An article is cut greedily up to the chunk with the question's answer. There another end is drawn from the softmax
    of the scores; after either end, the rest of the article is cut greedily. Ties are skipped.

    Args:
        articles: The articles.
        scored: Their scores, from `learned.scores`.
        others: The chunks of other articles, as distractors for the questions of each.
        bonus: Added to a score for each full length of the longest chunk, so that chunks keep their mean length.
        every: Compare the tokens of all questions from there on, not only those of the one.
        rng: Draws the ends.
    """
    pairs_of = []
    for place, (article, score, other) in enumerate(zip(articles, scored, others, strict=True)):
        values = _biased(article, score, bonus)
        following = np.arange(len(values)) + values.argmax(axis=1) + 1
        for question in range(len(article.questions)):
            path = [0]
            while following[path[-1]] <= article.answers[question, 1]:
                path.append(int(following[path[-1]]))
            start, taken = path[-1], int(following[path[-1]]) - path[-1] - 1
            if start > article.answers[question, 0]:
                continue
            chances = np.where(np.isfinite(values[start]), np.exp(values[start] - values[start].max()), 0)
            chances[taken] = 0
            if not chances.sum() > 0:
                continue
            drawn = int(rng.choice(WINDOW, p=chances / chances.sum()))
            questions_asked = np.flatnonzero(article.answers[:, 0] >= start) if every else np.array([question])
            # If a cut splits an answer, the number of tokens is set above that of any article.
            either = [
                np.minimum(tokens_of_some(article, article.numbers(cut), other, questions_asked), 1e6).sum()
                for cut in (_onward(path[1:], start + end + 1, following) for end in (taken, drawn))
            ]
            if either[0] != either[1]:
                better, worse = (taken, drawn) if either[0] < either[1] else (drawn, taken)
                pairs_of.append(Pair(place, start, better, worse))
    return pairs_of


def _biased(article: Article, score: np.ndarray, bonus: float) -> np.ndarray:
    starts = np.concatenate([[0], article.ends[:-1]])
    last = np.minimum(np.arange(len(score))[:, None] + np.arange(WINDOW), len(score) - 1)
    share = (article.ends[last] - starts[:, None]) / article.longest
    return np.where(article.windows.possible, score + bonus * share, -np.inf)


def _onward(path: Sequence[int], end: int, following: np.ndarray) -> list[int]:
    taken = [*path, end]
    while taken[-1] < len(following):
        taken.append(int(following[taken[-1]]))
    return taken


def bonus_for(articles: Sequence[Article], scored: Sequence[np.ndarray], chars: int) -> float:
    """The bonus that gives greedy chunks this mean length."""

    def chunks(bonus: float) -> int:
        count = 0
        for article, score in zip(articles, scored, strict=True):
            values = _biased(article, score, bonus)
            following = np.arange(len(values)) + values.argmax(axis=1) + 1
            count += len(_onward([], int(following[0]), following))
        return count

    return bisected(chunks, sum(int(a.ends[-1]) for a in articles) / chars, 200.0, 20)
