"""Training data of the learned chunker: encoded documents whose questions have known answer spans.

References: "Train the Chunker End-to-End on Question Answering" (Markowitz and Galiya).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from mog_assets.papers.learned_chunking.learned import Windows, windows
from mog_assets.questions.sets import Question
from mog_assets.text.chunks import chunk_text
from mog_assets.text.cuts import WINDOW, candidates, token_starts, units


@dataclass(frozen=True)
class Article:
    """A training document.

    Attributes:
        name: Name of corpus and document.
        text: Its text.
        ends: Offsets of the ends of its n units.
        vectors: Their unit vectors, float of shape (n, size).
        longest: Characters of the longest chunk.
        questions: Unit vectors of its questions, float of shape (questions, size).
        answers: int64 array of shape (questions, 2): first and last unit of each answer.
        chunks: Unit vectors of its possible chunks in order of `possible`, float of shape (possible chunks, size).
    """

    name: str
    text: str
    ends: np.ndarray
    vectors: np.ndarray
    longest: int
    questions: np.ndarray
    answers: np.ndarray
    chunks: np.ndarray

    @cached_property
    def windows(self) -> Windows:
        """The scorer's input."""
        return windows(self.text, self.ends, self.vectors, self.longest)

    @cached_property
    def could(self) -> np.ndarray:
        """Return which starts and ends are those of a possible chunk: bool array of shape (n, WINDOW)."""
        return candidates(self.ends, self.longest)[1]

    @cached_property
    def possible(self) -> np.ndarray:
        """int64 array of shape (possible chunks, 2): first unit, and the one after the last."""
        start, place = np.nonzero(self.could)
        return np.stack([start, start + place + 1], axis=1)

    @cached_property
    def number(self) -> np.ndarray:
        """int64 array of shape (n, WINDOW): number of the possible chunk of each start and end."""
        mask = self.could
        return np.where(mask, np.cumsum(mask).reshape(mask.shape) - 1, -1)

    @cached_property
    def tokens(self) -> np.ndarray:
        """int64 array of shape (n + 1,): tokens before each unit."""
        return np.searchsorted(token_starts(self.text), np.concatenate([[0], self.ends]))

    @cached_property
    def similarities(self) -> np.ndarray:
        """float32 of shape (questions, possible chunks)."""
        return self.questions.astype(np.float32) @ self.chunks.astype(np.float32).T

    def numbers(self, taken: Sequence[int]) -> np.ndarray:
        """Return numbers of the chunks that end with these many units."""
        after = np.asarray(taken, np.int64)
        start = np.concatenate([[0], after[:-1]])
        return self.number[start, after - start - 1]

    def size(self, chunks: np.ndarray) -> np.ndarray:
        """Return tokens of some possible chunks."""
        return self.tokens[self.possible[chunks, 1]] - self.tokens[self.possible[chunks, 0]]

    def holding(self, chunks: np.ndarray) -> np.ndarray:
        """Return which of some possible chunks contain which answer completely: bool of shape (questions, chunks)."""
        first, behind = self.possible[chunks].T
        return (first <= self.answers[:, :1]) & (behind > self.answers[:, 1:])


def packed(article: Article, chars: int) -> list[int]:
    """Return whole units packed up to `chars` characters, as numbers of units that chunks end with."""
    taken: list[int] = []
    start = 0
    ends = article.ends
    for unit in range(1, len(ends)):
        if ends[unit] - start > chars or unit - (taken[-1] if taken else 0) >= WINDOW:
            taken.append(unit)
            start = int(ends[unit - 1])
    return [*taken, len(ends)]


@dataclass(frozen=True)
class ArticleSource:
    """A document that chunkers may be trained on: its name, title and text, and texts and answers of its questions.

    Attributes:
        questions: Texts of the n questions.
        answers: int64 array of shape (n, 2): start and end of each answer in the text.
    """

    name: str
    title: str
    text: str
    questions: Sequence[str]
    answers: np.ndarray


def encode_articles(
    sources: Sequence[ArticleSource], longest: int, encode: Callable[[Sequence[str]], np.ndarray]
) -> list[Article]:
    """Encode what training needs of documents: units, questions, and every possible chunk.

    Args:
        sources: The documents, each with at least one question whose answer fits into a chunk.
        longest: Characters of the longest chunk.
        encode: Texts to unit vectors.
    """
    ends = [units(source.text, longest) for source in sources]
    starts = [np.concatenate([[0], behind]) for behind in ends]
    possible = []
    for behind in ends:
        first, place = np.nonzero(candidates(behind, longest)[1])
        possible.append((first, first + place + 1))
    unit_texts = [
        source.text[start:end]
        for source, begin in zip(sources, starts, strict=True)
        for start, end in pairwise(begin.tolist())
    ]
    chunk_texts = [
        chunk_text(source.title, source.text[begin[first] : begin[behind]])
        for source, begin, chunks in zip(sources, starts, possible, strict=True)
        for first, behind in zip(*chunks, strict=True)
    ]
    question_texts = [text for source in sources for text in source.questions]

    def vectors(texts: list[str], counts: list[int]) -> list[np.ndarray]:
        return np.split(encode(texts), np.cumsum(counts)[:-1])

    of_units = vectors(unit_texts, [len(behind) for behind in ends])
    of_chunks = vectors(chunk_texts, [len(first) for first, _ in possible])
    of_questions = vectors(question_texts, [len(source.questions) for source in sources])
    return [
        Article(
            source.name,
            source.text,
            behind,
            of_units[i],
            longest,
            of_questions[i],
            np.searchsorted(behind, source.answers - [0, 1], side="right"),
            of_chunks[i],
        )
        for i, (source, behind) in enumerate(zip(sources, ends, strict=True))
    ]


def sources(
    texts: Mapping[tuple[str, str], tuple[str, str]], questions: Iterable[Question], longest: int
) -> list[ArticleSource]:
    """Return the documents that have questions with an answer that fits into a chunk, by name.

    Args:
        texts: Title and text of documents, by corpus and id.
        questions: With their evidence; each of its spans is an answer. Answers that fit into no chunk are skipped, and
            so are questions with evidence in several documents: training and held-out articles would share them.
        longest: Characters of the longest chunk.
    """
    by_document: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for question in questions:
        documents = {(span.corpus, span.doc) for span in question.evidence}
        if len(documents) == 1 and documents <= texts.keys():
            spans = sorted({(span.start, span.end) for span in question.evidence})
            by_document.setdefault(documents.pop(), []).extend((question.question, *span) for span in spans)
    sources_of = []
    for key, members in sorted(by_document.items()):
        title, text = texts[key]
        answers = np.array([span for _, *span in members], np.int64)
        ends = units(text, longest)
        first, last = np.searchsorted(ends, answers - [0, 1], side="right").T
        fits = (last >= first) & (last - first < WINDOW) & (last < len(ends))
        possible = candidates(ends, longest)[1]
        fits[fits] = possible[first[fits], (last - first)[fits]]
        if fits.any():
            fitting = [members[i][0] for i in np.flatnonzero(fits)]
            sources_of.append(ArticleSource("/".join(key), title, text, fitting, answers[fits]))
    return sources_of


def within(articles: Sequence[ArticleSource], longest: int, spans: int) -> list[ArticleSource]:
    """Return documents with at most `spans` possible chunks in all, at least two, in an order unrelated to their names.

    A document that would exceed the limit is skipped; later ones may still fit.
    """
    chosen: list[ArticleSource] = []
    total = 0
    for source in sorted(articles, key=lambda one: hashlib.sha256(one.name.encode()).digest()):
        units_of = int(candidates(units(source.text, longest), longest)[1].sum())
        if total + units_of <= spans or len(chosen) < 2:
            total += units_of
            chosen.append(source)
    return sorted(chosen, key=lambda one: one.name)
