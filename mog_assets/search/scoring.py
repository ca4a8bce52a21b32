"""Scores of texts for a question by every expert of texts, exactly, whatever was retrieved.

An expert is a retriever at a level, or `title`, which scores documents by their titles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mog_assets.index.postings import Matches, saturation
from mog_assets.resources.arrays import ranges
from mog_assets.resources.lazy import cached_property
from mog_assets.search.index import Index, Query

# Vectors that are unpacked at a time.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Texts:
    """Sections of documents with the scores of their texts by every expert of texts.

    Attributes:
        sections: Ascending.
        pieces: Theirs, ascending.
        document: Of each piece.
        place: Of each piece in its document, from 0.
        scores: Of the text that each piece lies in, float32 of shape (experts, pieces).
    """

    sections: np.ndarray
    pieces: np.ndarray
    document: np.ndarray
    place: np.ndarray
    scores: np.ndarray

    @classmethod
    def of(cls, index: Index, sections: np.ndarray) -> Texts:
        """Take the pieces of sections, ascending; scores are to be written."""
        pieces, layout = ranges(index.sections[sections], index.sections[sections + 1]), index.corpora.layout
        document = layout.document_of[pieces]
        scores = np.empty((len(index.text_experts), len(pieces)), np.float32)
        return cls(sections, pieces, document, pieces - layout.offsets[document], scores)

    def starts(self, level: int) -> np.ndarray:
        """Return first piece of each text of a level, among these: no text is of two sections."""
        return np.flatnonzero((self.place & ((1 << (level - 1)) - 1)) == 0)

    def places(self, pieces: np.ndarray) -> np.ndarray:
        """Return where some of the pieces are among these."""
        return np.searchsorted(self.pieces, pieces)

    def joined(self, others: Texts) -> Texts:
        """Return these and others."""
        order = np.argsort(np.concatenate([self.pieces, others.pieces]))
        return Texts(
            np.union1d(self.sections, others.sections),
            np.concatenate([self.pieces, others.pieces])[order],
            np.concatenate([self.document, others.document])[order],
            np.concatenate([self.place, others.place])[order],
            np.concatenate([self.scores, others.scores], axis=1)[:, order],
        )


@dataclass(frozen=True)
class Scoring:
    """Scores texts for a question: its postings are read once.

    Attributes:
        index: The texts.
        query: The question.
        words, titles: Its terms in pieces with their titles, and in titles.
    """

    index: Index
    query: Query
    words: Matches
    titles: Matches

    @cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """By kind of text, the weight of each term in texts of all corpora, float64 of shape (terms,)."""
        return self.index.corpora.statistics.weights(self.words.terms)

    @property
    def weights_of_terms(self) -> dict[str, float]:
        """Weight of each term in pieces, as often as the question has it."""
        return dict(zip(self.words.terms, (self.weights["level_1"] * self.words.times).tolist(), strict=True))

    @cached_property
    def words_of_pieces(self) -> np.ndarray:
        """BM25 of all pieces, float32 of shape (pieces,)."""
        return self.words.scores(self.weights["level_1"], self.index.norms)

    @cached_property
    def of_titles(self) -> np.ndarray:
        """Weights of the words that the question shares with the title of every document, float32."""
        return self.titles.scores(self.weights["title"], None)

    def products(self, pieces: np.ndarray) -> np.ndarray:
        """Return products with the vectors of pieces, float32.

        Row by row: that of one does not depend, to the bit, on which others there are.
        """
        if self.query.vector is None:
            return np.zeros(len(pieces), np.float32)
        vectors, products = self.index.corpora.vectors, np.empty(len(pieces), np.float32)
        # A filter may leave hundreds of thousands.
        for first in range(0, len(pieces), _BLOCK):
            rows = slice(first, first + _BLOCK)
            products[rows] = np.vecdot(vectors.float_rows(pieces[rows]), self.query.vector)
        return products

    def of_sections(self, sections: np.ndarray) -> Texts:
        """Score the texts of sections, ascending, by every expert of texts."""
        index, texts = self.index, Texts.of(self.index, sections)
        pieces, scores, levels = texts.pieces, texts.scores, self.index.levels
        scores[0], scores[-1] = self.words_of_pieces[pieces], self.of_titles[texts.document]
        scores[levels : 2 * levels] = 0
        if self.query.vector is not None:
            first, last = index.sections[sections], index.sections[sections + 1]
            scores[levels] = np.vecdot(index.corpora.vectors.float_runs(first, last), self.query.vector)
        if levels > 1 and len(pieces):
            self._score_coarse(texts)
        return texts

    def _score_coarse(self, texts: Texts) -> None:
        """Score texts of level 2 and above, those of all levels together: each is a run of pieces."""
        index, pieces, scores, levels = self.index, texts.pieces, texts.scores, self.index.levels
        # What begins after the last piece ends the last text of a level: it has no pieces.
        starts_of = [np.append(texts.starts(level), len(pieces)) for level in index.settings.level_range[1:]]
        starts = np.concatenate(starts_of)
        level = np.repeat(np.arange(levels - 1), [len(of_level) for of_level in starts_of])
        widths = np.maximum(np.diff(starts, append=0), 0)
        at, repeats = np.minimum(starts, len(pieces) - 1), np.maximum(widths - 1, 0)
        document = texts.document[at]

        def spread(values: np.ndarray) -> np.ndarray:
            return np.repeat(values, widths).reshape(levels - 1, len(pieces))

        # A piece was counted with its title, a text is counted with one.
        distinct, number = np.unique(texts.document, return_inverse=True)
        in_titles, title_lengths = (
            self.titles.counts_in(distinct)[:, number[at]],
            index.corpora.titles.lengths[document],
        )
        ends = starts + widths
        counts = _whole_sums(self.words.counts_in(pieces), starts, ends) - repeats * in_titles
        lengths = _whole_sums(index.corpora.words.lengths[pieces], starts, ends) - repeats * title_lengths
        scores[1:levels] = spread(self._bm25(level, counts, lengths))
        if self.query.vector is not None:
            # A sum depends on its own pieces alone, to the bit.
            weighted = np.append(scores[levels] * index.sizes[pieces], np.float32(0))
            sums = np.add.reduceat(weighted, starts)
            scores[levels + 1 : 2 * levels] = spread(sums / index.pooled_length(level, document, texts.place[at]))

    def _bm25(self, level: np.ndarray, counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return BM25 of texts, given the count of each term in each: float64 of shape (texts,); level 2 is 0."""
        statistics, options = self.index.corpora.statistics, self.index.settings.bm25
        kinds = [f"level_{number}" for number in self.index.settings.level_range[1:]]
        means = np.array([statistics.mean_lengths[kind] for kind in kinds])
        weights = np.array([self.weights[kind] for kind in kinds]) * self.words.times
        norms = saturation(lengths, means[level], options.k1, options.b)
        scores: np.ndarray = (weights.T[:, level] * counts / (counts + norms)).sum(axis=0)
        return scores


def _whole_sums(values: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Add up whole numbers from each start to each end, along the last axis: float64."""
    up_to = np.zeros((*values.shape[:-1], values.shape[-1] + 1))
    np.cumsum(values, axis=-1, out=up_to[..., 1:])
    sums: np.ndarray = up_to[..., ends] - up_to[..., starts]
    return sums
