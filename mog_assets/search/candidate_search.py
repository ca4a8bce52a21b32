"""Choosing candidates: the pieces of the best texts by any expert, of what is typed exactly, and of what those name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np

from mog_assets.index.postings import Words
from mog_assets.resources.arrays import greatest, pairs, places, ranges, unpaired
from mog_assets.resources.lazy import cached_property
from mog_assets.search.candidates import Candidates, looked_up
from mog_assets.search.experts import Expert
from mog_assets.text.chunks import Layout

# Pieces of each document that relations add to the candidates.
MORE = 2

Weigh = Callable[[Candidates, Sequence[str]], np.ndarray]
"""Weights of experts, by name, for each question: float32 of shape (questions, experts); see `blend.Blend.weights`."""


class Source(Protocol):
    """Chooses the texts that candidates may be of; see `sources`."""

    @property
    def words(self) -> Words:
        """BM25 of level 1."""

    def blocks(self, questions: int) -> Iterator[slice]:
        """Rows of questions whose scores are in memory together."""

    def experts(self, rows: slice, pieces: np.ndarray) -> Sequence[Expert]:
        """The experts of texts for a block of questions.

        Args:
            rows: The block.
            pieces: Those that must be covered by their texts, whatever a search says.
        """


class Exact(Protocol):
    """Finds what of questions stands exactly in few texts; see `exact.Typed`."""

    def pieces(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Of some questions, `arrays.pairs` of question and piece, ascending; and the values of `Candidates.rare`."""

    def named(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Documents whose title a question has all words of, ascending, and how many words."""


class Related(Protocol):
    """Experts that score candidates by their relations to others; see `relations`."""

    @property
    def names(self) -> Sequence[str]:
        """Of the experts, in the order of their scores."""

    def more(self, candidates: Candidates, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Questions and documents whose best pieces are to be candidates, too."""

    def scores(self, candidates: Candidates, value: np.ndarray, rows: slice) -> np.ndarray:
        """The scores of all candidates of some questions, float32 of shape (n, experts).

        Args:
            candidates: The candidates; questions are numbered from 0.
            value: How good each is by the experts of texts, shape (n,).
            rows: Which of all questions these are.
        """


def find(
    source: Source,
    finest: Sequence[int],
    layout: Layout,
    corpora: np.ndarray,
    questions: int,
    weigh: Weigh,
    vocabulary: np.ndarray | float,
    advance: Callable[[int], object] = lambda done: None,
    allowed: np.ndarray | None = None,
    related: Related | None = None,
    exact: Exact | None = None,
) -> Candidates:
    """The candidates of all questions.

    Args:
        source: Gives the experts of texts.
        finest: Positions of those that score pieces themselves.
        layout: Of all corpora.
        corpora: Number of the corpus of each document.
        questions: How many.
        weigh: Weighs the experts of texts, whose sum decides which candidates `related` begins with.
        vocabulary: See `Candidates`; a number if it is that of all questions.
        advance: Called with the number of questions done.
        allowed: Documents that candidates may be of, bool of shape (documents,); None if all.
        related: Further experts, whose scores come after those of texts.
        exact: Finds what is typed exactly; pieces with rare words are candidates whatever the experts say.
    """
    parts, vocabulary = [], np.broadcast_to(np.float32(vocabulary), questions)
    for rows in source.blocks(questions):
        block = _Block(source, finest, layout, corpora, rows, weigh, vocabulary, allowed, related, exact)
        parts.append(block.candidates)
        advance(rows.stop - rows.start)
    return Candidates(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Candidates)))


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k greatest scores above 0 of every row, as a mask; of equal ones those of smaller columns."""
    return greatest(scores, k) & (scores > 0)


def _texts(expert: Expert, layout: Layout, allowed: np.ndarray) -> np.ndarray:
    """Which texts of an expert belong to documents that are allowed, as a mask."""
    first, _ = expert.covered(np.arange(expert.count))
    mask: np.ndarray = allowed[layout.document_of[first]]
    return mask


@dataclass(frozen=True)
class _Block:
    """Questions whose scores of texts are in memory together; see `find`.

    Attributes:
        rows: The questions.
        given: The experts of texts; None asks the source.
    """

    source: Source
    finest: Sequence[int]
    layout: Layout
    corpora: np.ndarray
    rows: slice
    weigh: Weigh
    vocabulary: np.ndarray
    allowed: np.ndarray | None
    related: Related | None
    exact: Exact | None
    given: Sequence[Expert] | None = None

    @property
    def candidates(self) -> Candidates:
        """Their candidates."""
        keys, floors = self._best
        candidates = self._around(keys)._made(keys, floors)
        if self.related is not None:
            question, document = self.related.more(candidates, self._value(candidates))
            if len(document):
                offsets = self.layout.offsets
                knowing = self._knowing(ranges(offsets[document], offsets[document + 1]))
                keys = np.union1d(keys, knowing._added(candidates, question, document))
                candidates = knowing._around(keys)._made(keys, floors)
            scores = self.related.scores(candidates, self._value(candidates), self.rows)
            none = np.zeros((len(floors), scores.shape[1]), np.float32)
            candidates = replace(
                candidates,
                scores=np.concatenate([candidates.scores, scores], 1),
                floors=np.concatenate([floors, none], 1),
            )
        return replace(candidates, question=candidates.question + self.rows.start)

    @cached_property
    def experts(self) -> Sequence[Expert]:
        """Those of texts."""
        return self.source.experts(self.rows, self._typed) if self.given is None else self.given

    @property
    def _typed(self) -> np.ndarray:
        return unpaired(self._rare[0])[1]

    def _knowing(self, pieces: np.ndarray) -> _Block:
        """The same with scores of the texts of some pieces."""
        experts = self.source.experts(self.rows, np.concatenate([self._typed, pieces]))
        return self if experts is self.experts else replace(self, given=experts)

    def _around(self, keys: np.ndarray) -> _Block:
        """The same with scores of pieces and of those beside them; keys are `arrays.pairs` of question and piece."""
        _, piece = unpaired(keys)
        beside = np.clip([piece - 1, piece + 1], 0, self.layout.count(1) - 1)
        beside = beside[self.layout.document_of[beside] == self.layout.document_of[piece]]
        return self._knowing(np.concatenate([piece, beside]))

    @cached_property
    def _scores(self) -> list[np.ndarray]:
        return [expert.scores(self.rows) for expert in self.experts]

    @cached_property
    def _rare(self) -> tuple[np.ndarray, np.ndarray]:
        if self.exact is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int8)
        return self.exact.pieces(self.rows)

    @cached_property
    def _named(self) -> tuple[np.ndarray, np.ndarray]:
        """Question and document as `arrays.pairs`, ascending, and the words of the title; see `Exact.named`."""
        keys, words = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
        if self.exact is not None:
            for number, question in enumerate(range(self.rows.start, self.rows.stop)):
                documents, many = self.exact.named(question)
                keys.append(pairs(np.full(len(documents), number), documents))
                words.append(np.minimum(many, np.iinfo(np.int8).max).astype(np.int8))
        return np.concatenate(keys), np.concatenate(words)

    def _weights(self, candidates: Candidates) -> np.ndarray:
        return self.weigh(candidates, [expert.name for expert in self.experts])

    def _value(self, candidates: Candidates) -> np.ndarray:
        """How good candidates are by the experts of texts."""
        return np.einsum("ij,ij->i", candidates.relative, self._weights(candidates)[candidates.question])

    @property
    def _best(self) -> tuple[np.ndarray, np.ndarray]:
        """Question and piece of the best texts by any expert, as `arrays.pairs`; and see `Candidates.floors`."""
        keys, floors = [], np.zeros((self.rows.stop - self.rows.start, len(self.experts)), np.float32)
        for column, (expert, scores) in enumerate(zip(self.experts, self._scores, strict=True)):
            if not (expert.depth and scores.size):
                continue
            open_to = scores if self.allowed is None else np.where(_texts(expert, self.layout, self.allowed), scores, 0)
            chosen = best(open_to, expert.depth)
            full = chosen.sum(axis=1) == expert.depth
            floors[full, column] = np.where(chosen[full], scores[full], np.inf).min(axis=1)
            question, text = np.divmod(np.flatnonzero(chosen), max(scores.shape[1], 1))
            first, last = expert.covered(text)
            keys.append(pairs(np.repeat(question, last - first), ranges(first, last)))
        typed, _ = self._rare
        _, piece = unpaired(typed)
        keys.append(typed if self.allowed is None else typed[self.allowed[self.layout.document_of[piece]]])
        return np.unique(np.concatenate(keys)), floors

    def _added(self, candidates: Candidates, question: np.ndarray, document: np.ndarray) -> np.ndarray:
        """The best pieces of some documents by the experts of texts, as `arrays.pairs`."""
        if self.allowed is not None:
            kept = self.allowed[document]
            question, document = question[kept], document[kept]
        first, last = self.layout.offsets[document], self.layout.offsets[document + 1]
        group, piece = np.repeat(np.arange(len(document)), last - first), ranges(first, last)
        least, span = candidates.bounds
        of = question[group]
        relative = (self._columns(of, piece) - least[of]) / span[of]
        value = np.einsum("ij,ij->i", relative, self._weights(candidates)[of])
        order = np.lexsort((piece, -value, group))
        order = order[places(group[order]) < MORE]
        return pairs(of[order], piece[order])

    def _columns(self, question: np.ndarray, piece: np.ndarray) -> np.ndarray:
        """Scores of pieces by every expert of texts, float32 of shape (n, experts)."""
        columns = zip(self.experts, self._scores, strict=True)
        return np.stack([scores[question, expert.containing(piece)] for expert, scores in columns], axis=1)

    def _made(self, keys: np.ndarray, floors: np.ndarray) -> Candidates:
        """Candidates, given questions and pieces."""
        question, piece = unpaired(keys)
        layout = self.layout
        document = layout.document_of[piece]
        beside = np.zeros((len(piece), 2, len(self.finest)), np.float32)
        for side, step in enumerate((-1, 1)):
            other = np.clip(piece + step, 0, layout.count(1) - 1)
            present = (layout.document_of[other] == document) & (other != piece)
            for column, number in enumerate(self.finest):
                text = self.experts[number].containing(other[present])
                beside[present, side, column] = self._scores[number][question[present], text]
        sizes = layout.spans[piece, 1] - layout.spans[piece, 0]
        place = [piece - layout.offsets[document], np.diff(layout.offsets)[document], sizes, self.corpora[document]]
        places_of = np.stack(place, axis=1).astype(np.int32)
        vocabulary = self.vocabulary[self.rows]
        rare = looked_up(keys, *self._rare)
        title = looked_up(pairs(question, document), *self._named)
        return Candidates(
            question, piece, self._columns(question, piece), beside, places_of, rare, title, floors, vocabulary
        )
