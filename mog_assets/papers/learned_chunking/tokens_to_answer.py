"""How many tokens are read until an answer is found, in chunks of training documents. Good chunks keep it low.

Chunks are ranked for a question by vector similarity. The tokens to answer are those of all chunks, best first, up to
and including the one with the answer. Chunks of other documents, and of other parts of the document, are the same
distractors for every choice of the answer's chunk.

References: "Optimizing Retrieval Augmented Generation with Learned Chunking" (Markowitz and Galiya).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.papers.learned_chunking.articles import Article, packed

# A question's cost in a chunk is clipped to this factor above or below its mean over chunks.
_EXTREME = np.exp(3)
# Similarities of questions and chunks that are in memory at a time.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Distractors:
    """Chunks of other articles, for the questions of one article: sorted by similarity, with cumulative tokens.

    Attributes:
        similarity: float32 of shape (questions, chunks), descending.
        tokens: int64 of shape (questions, chunks + 1): tokens of the chunks before each place.
    """

    similarity: np.ndarray
    tokens: np.ndarray

    def before(self, question: int, similarity: np.ndarray) -> np.ndarray:
        """Return tokens of the chunks that are at least as similar to a question as each of these."""
        return self.tokens[question, np.searchsorted(-self.similarity[question], -similarity, side="right")]


def distractors(articles: Sequence[Article], cuts: Sequence[Sequence[int]]) -> Iterator[Distractors]:
    """Yield for each article the chunks of the others, ranked for its questions.

    Args:
        articles: The articles.
        cuts: How many units end with each chunk, for each article.
    """
    numbers = [article.numbers(taken) for article, taken in zip(articles, cuts, strict=True)]
    pairs = list(zip(articles, numbers, strict=True))
    vectors = np.concatenate([article.chunks[chunk_rows] for article, chunk_rows in pairs])
    tokens = np.concatenate([article.size(chunk_rows) for article, chunk_rows in pairs])
    first = 0
    for article, chunk_rows in pairs:
        here = slice(first, first + len(chunk_rows))
        others = np.delete(vectors, here, axis=0).astype(np.float32)
        similar = article.questions.astype(np.float32) @ others.T
        order = np.argsort(-similar, axis=1, kind="stable")
        summed = np.cumsum(np.pad(np.delete(tokens, here)[order], ((0, 0), (1, 0))), axis=1)
        yield Distractors(np.take_along_axis(similar, order, axis=1), summed)
        first = here.stop


def tokens_to_answer(articles: Sequence[Article], cuts: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Return tokens to answer of every question over chunks of all articles; infinite if none contains its answer.

    Args:
        articles: The articles.
        cuts: How many units end with each chunk, for each article.

    Returns:
        float64 of shape (questions,) for each article.
    """
    numbers = [article.numbers(taken) for article, taken in zip(articles, cuts, strict=True)]
    counts = [len(article.questions) for article in articles]
    questions = np.concatenate([article.questions.astype(np.float32) for article in articles])
    similarity, read = (np.concatenate(column) for column in zip(*map(_within, articles, numbers), strict=True))
    # The chunks of some articles at a time, for all questions.
    for some in _blocks([len(numbers_of) for numbers_of in numbers], _BLOCK // max(len(questions), 1)):
        pairs = list(zip(articles[some], numbers[some], strict=True))
        chunks = np.concatenate([article.chunks[numbers_of].astype(np.float32) for article, numbers_of in pairs])
        tokens = [article.size(numbers_of) for article, numbers_of in pairs]
        ahead = questions @ chunks.T >= similarity[:, None]
        _leave_out_article(ahead, some.start, counts, [len(of_one) for of_one in tokens])
        read += ahead @ np.concatenate(tokens).astype(np.float64)
    return np.split(read, np.cumsum(counts)[:-1])


def _blocks(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Yield consecutive items whose sizes sum to at most `most`, or single items."""
    start = total = 0
    for place, size in enumerate(sizes):
        if total + size > most and place > start:
            yield slice(start, place)
            start, total = place, 0
        total += size
    yield slice(start, len(sizes))


def _leave_out_article(ahead: np.ndarray, first: int, counts: Sequence[int], chunks: Sequence[int]) -> None:
    """Clear the entries of questions with chunks of their own articles; `first` is the number of the first chunk."""
    row, column = sum(counts[:first]), 0
    for questions, number in zip(counts[first:], chunks, strict=False):
        ahead[row : row + questions, column : column + number] = False
        row, column = row + questions, column + number


def _within(article: Article, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return similarity of the article's best chunk that contains each answer, and the tokens read in the article.

    −∞ and infinity if no chunk contains it.
    """
    similar = article.similarities[:, chunks]
    holds = article.holding(chunks)
    similarity = np.where(holds, similar, -np.inf).max(axis=1, initial=-np.inf)
    of_article = (article.size(chunks) * (similar >= similarity[:, None])).sum(axis=1)
    return similarity, np.where(holds.any(axis=1), of_article.astype(np.float64), np.inf)


def chunk_costs(articles: Sequence[Article], finest_chars: int) -> list[np.ndarray]:
    """Return costs of possible chunks for questions whose answers they contain: float64 (n, WINDOW) per article.

    The cost is the question's tokens to answer if its answer is in that chunk and all other text is packed, divided by
    their geometric mean over the chunks that could contain the answer: the difficulty of the question itself does not
    depend on the cuts. The costs of an article's questions are summed and scaled to one question per unit, so that
    articles with more questions do not count more.
    """
    cuts = [packed(article, finest_chars) for article in articles]
    parts = []
    for article, taken, other in zip(articles, cuts, distractors(articles, cuts), strict=True):
        numbers_of = article.numbers(taken)
        holds, every = article.holding(numbers_of), article.holding(np.arange(len(article.possible)))
        size = article.size(np.arange(len(article.possible)))
        total = np.zeros(len(article.possible))
        for question in range(len(article.questions)):
            could = np.flatnonzero(every[question])
            if not len(could):
                continue
            similar = article.similarities[question]
            # The possible chunk replaces the packed chunk with the answer.
            rivals = numbers_of[~holds[question]]
            order = np.argsort(-similar[rivals], kind="stable")
            summed = np.concatenate([[0], np.cumsum(article.size(rivals)[order])])
            ahead = np.searchsorted(-similar[rivals][order], -similar[could], side="right")
            read = other.before(question, similar[could]) + summed[ahead] + size[could]
            # White space has 0 tokens.
            cost = np.log(np.maximum(read, 1))
            total[could] += np.clip(np.exp(cost - cost.mean()), 1 / _EXTREME, _EXTREME)
        target = np.zeros(article.could.shape)
        target[article.could] = total * len(article.ends) / max(len(article.questions), 1)
        parts.append(target)
    return parts
