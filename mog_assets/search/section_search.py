"""A question's search of level 1, and its scores of the texts of sections by every expert, for `sources.Indexed`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.statistics import idf
from mog_assets.index.vector_stores import CandidateStore
from mog_assets.index.vectors import Pooling, VectorTable
from mog_assets.resources.arrays import greatest_of
from mog_assets.resources.lazy import cached_property

# Pieces of each of the two searches whose documents a question's candidates may be of.
NEAREST = 100
# Of a shard more are asked for than four times its share of them.
_SPARE = 20


@dataclass(frozen=True)
class Hits:
    """The best pieces of a search that have a score above 0, at most `NEAREST`.

    Attributes:
        pieces: Their numbers, ascending.
        scores: Of each.
    """

    pieces: np.ndarray
    scores: np.ndarray

    @classmethod
    def best(cls, pieces: np.ndarray, scores: np.ndarray) -> Hits:
        """Of some pieces, ascending; of equal ones those of smaller numbers."""
        chosen = greatest_of(scores, NEAREST)
        chosen = chosen[scores[chosen] > 0]
        return cls(pieces[chosen], scores[chosen])


def expert_texts(corpora: Corpora, sections: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of the texts of some sections that every expert scores: BM25 and vectors of every level, and titles."""
    levels = [corpora.sections.chunks(sections, level) for level in corpora.settings.level_range]
    yield from (*levels, *levels, np.unique(corpora.sections.document[sections]))


@dataclass(frozen=True)
class SectionSearch:
    """A question's search in mapped indexes.

    Attributes:
        corpora: What is searched.
        terms: Of the question.
        vector: Of the question, shape (size,).
        allowed: Documents that may be found, bool of shape (documents,); None if all.
        store: What is searched in place of the files.
    """

    corpora: Corpora
    terms: Sequence[str]
    vector: np.ndarray
    allowed: np.ndarray | None
    store: CandidateStore | None = None

    def nearest(self) -> list[Hits]:
        """Find the best pieces by words, and by vectors; what a filter leaves is found whatever else is nearer."""
        words = self._words if self._allowed is None else np.where(self._allowed, self._words, 0)
        if self.store is None:
            best, near = greatest_of(words, NEAREST), self._near
        else:
            ((best, _),) = self.store.matching([self._weights], NEAREST, self._allowed)
            ((near, _),) = self.store.nearest(self.vector[None], NEAREST, self._allowed)
            best, near = np.sort(best), np.sort(near)
        return [Hits.best(best, words[best]), Hits.best(near, self._products(near))]

    def values(self, sections: np.ndarray) -> list[np.ndarray]:
        """Score the texts of some sections, ascending, by every expert, in the order of `expert_texts`."""
        documents = np.unique(self.corpora.sections.document[sections])
        return [*self._by_words(sections), *self._by_vectors(sections), self._titles[documents]]

    @cached_property
    def _allowed(self) -> np.ndarray | None:
        """Pieces that may be found."""
        return None if self.allowed is None else self.allowed[self.corpora.layout.document_of]

    @cached_property
    def _words(self) -> np.ndarray:
        """Scores of all pieces by words."""
        scores = np.zeros((1, self.corpora.layout.count(1)), np.float32)
        self.corpora.piece_counts.words.add_scores([self.terms], scores)
        return scores[0]

    @property
    def _weights(self) -> dict[str, float]:
        """Weight of each term."""
        over, times = self.corpora.statistics().of("level_1"), Counter(self.terms)
        weights = idf(over.chunks, over.frequencies_of(list(times))).tolist()
        return {term: many * weight for (term, many), weight in zip(times.items(), weights, strict=True)}

    @cached_property
    def _titles(self) -> np.ndarray:
        scores = np.zeros((1, len(self.corpora.layout.documents)), np.float32)
        self.corpora.title_postings.add_scores([sorted(set(self.terms))], scores)
        return scores[0]

    @property
    def _near(self) -> np.ndarray:
        """Pieces near the question, the nearest among them, ascending."""
        pieces, first = [np.zeros(0, np.int64)], 0
        vector, owners = np.asarray(self.vector, np.float32), self.corpora.shard_owners
        for shard, corpus in zip(self.corpora.neighbours, owners, strict=True):
            open_to = None if self._allowed is None else self._allowed[first : first + shard.count]
            # Documents of a corpus are spread over its shards by chance.
            wanted = min(NEAREST, 4 * NEAREST // owners.count(corpus) + _SPARE)
            pieces.append(shard.near(vector, wanted, open_to) + first)
            first += shard.count
        return np.concatenate(pieces)

    @cached_property
    def _vectors(self) -> VectorTable:
        return self.corpora.vectors(1)

    @cached_property
    def _pooling(self) -> dict[int, Pooling]:
        return {level: self.corpora.pooling(level) for level in self.corpora.settings.level_range[1:]}

    def _products(self, pieces: np.ndarray) -> np.ndarray:
        """Products with the vectors of some pieces."""
        # Row by row: the result of one does not depend, to the bit, on which others there are.
        products: np.ndarray = np.vecdot(self._vectors.float_rows(pieces), np.asarray(self.vector, np.float32))
        return products

    def _by_words(self, sections: np.ndarray) -> Iterator[np.ndarray]:
        corpora, options = self.corpora, self.corpora.settings.bm25
        yield self._words[corpora.sections.chunks(sections, 1)]
        counts = corpora.piece_counts.within(self.terms, sections)
        for level in corpora.settings.level_range[1:]:
            yield counts.scores(level, corpora.statistics().of(f"level_{level}"), options.k1, options.b)

    def _by_vectors(self, sections: np.ndarray) -> Iterator[np.ndarray]:
        corpora, pieces = self.corpora, self.corpora.sections.chunks(sections, 1)
        of_pieces = self._products(pieces)
        yield of_pieces
        for level in corpora.settings.level_range[1:]:
            numbers, pooling = corpora.sections.chunks(sections, level), self._pooling[level]
            first = np.searchsorted(pieces, pooling.first[numbers])
            yield pooling.within(numbers, first, pieces).pooled(of_pieces[None])[0]
