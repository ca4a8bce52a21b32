"""Scores of texts for a question by every expert of texts, exactly, whatever was retrieved.

An expert is a retriever at a level, or `title`, which scores documents by their titles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mog_assets.index.postings import Matches, idf, saturation
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
        place: Of each piece in its document, from 0.
        scores: Of the text that each piece lies in, float32 of shape (experts, pieces).
    """

    sections: np.ndarray
    pieces: np.ndarray
    place: np.ndarray
    scores: np.ndarray

    def starts(self, level: int) -> np.ndarray:
        """Return first piece of each text of a level, among these: no text is of two sections."""
        return np.flatnonzero((self.place & ((1 << (level - 1)) - 1)) == 0)

    def of_pieces(self, pieces: np.ndarray) -> np.ndarray:
        """Return scores of some of the pieces, of shape (pieces, experts)."""
        return np.ascontiguousarray(self.scores[:, np.searchsorted(self.pieces, pieces)].T)

    def joined(self, others: Texts) -> Texts:
        """Return these and others."""
        order = np.argsort(np.concatenate([self.pieces, others.pieces]))
        return Texts(
            np.union1d(self.sections, others.sections),
            np.concatenate([self.pieces, others.pieces])[order],
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
    def frequencies(self) -> dict[str, np.ndarray]:
        """By kind of text, in how many of all corpora each term occurs."""
        return self.index.corpora.statistics.frequencies(self.words.terms)

    def weights(self, kind: str) -> np.ndarray:
        """Return weight of each term in texts of a kind, float64."""
        return idf(self.index.corpora.statistics.texts[kind], self.frequencies[kind])

    @property
    def weights_of_terms(self) -> dict[str, float]:
        """Weight of each term in pieces, as often as the question has it."""
        return dict(zip(self.words.terms, (self.weights("level_1") * self.words.times).tolist(), strict=True))

    @cached_property
    def words_of_pieces(self) -> np.ndarray:
        """BM25 of all pieces, float32 of shape (pieces,)."""
        return self.words.scores(self.weights("level_1"), self.index.norms)

    @cached_property
    def of_titles(self) -> np.ndarray:
        """Weights of the words that the question shares with the title of every document, float32."""
        return self.titles.scores(self.weights("title"), None)

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

    def products_in(self, texts: Texts, pieces: np.ndarray) -> np.ndarray:
        """As `products`, without computing anew those of pieces of texts."""
        at = np.minimum(np.searchsorted(texts.pieces, pieces), len(texts.pieces) - 1)
        products = texts.scores[self.index.levels, at]
        if len(missing := np.flatnonzero(texts.pieces[at] != pieces)):
            products[missing] = self.products(pieces[missing])
        return products

    def of_sections(self, sections: np.ndarray) -> Texts:
        """Score the texts of sections, ascending, by every expert of texts."""
        index, layout = self.index, self.index.corpora.layout
        first, last = index.sections[sections], index.sections[sections + 1]
        pieces = ranges(first, last)
        document = layout.document_of[first] if len(first) else first
        documents = np.repeat(document, last - first)
        texts = Texts(
            sections,
            pieces,
            pieces - layout.offsets[documents],
            np.empty((len(index.text_experts), len(pieces)), np.float32),
        )
        products = np.zeros(len(pieces), np.float32)
        if self.query.vector is not None:
            products = np.vecdot(index.corpora.vectors.float_runs(first, last), self.query.vector)
        counts, lengths = self.words.counts_in(pieces), index.corpora.words.lengths[pieces].astype(np.float64)
        # A piece was counted with its title.
        distinct, number = np.unique(documents, return_inverse=True)
        in_titles, title_lengths = self.titles.counts_in(distinct)[:, number], index.corpora.titles.lengths[documents]
        texts.scores[0], texts.scores[index.levels] = self.words_of_pieces[pieces], products
        texts.scores[-1] = self.of_titles[documents]
        weighted = products * index.sizes[pieces]
        for level in index.settings.level_range[1:]:
            starts = texts.starts(level)
            widths = np.diff(np.append(starts, len(pieces)))
            repeats = widths - 1
            of_level = _sums(counts, starts) - repeats * in_titles[:, starts]
            tokens = _sums(lengths, starts) - repeats * title_lengths[starts]
            texts.scores[level - 1] = np.repeat(self._bm25(level, of_level, tokens), widths)
            sums = _sums(weighted, starts)
            if self.query.vector is not None:
                sums = sums / index.corpora.pooled_lengths[level][layout.containing(pieces[starts], level)]
            texts.scores[index.levels + level - 1] = np.repeat(sums, widths)
        return texts

    def _bm25(self, level: int, counts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return BM25 of texts of a level from the counts of each term: float32 of shape (texts,)."""
        statistics, options = self.index.corpora.statistics, self.index.settings.bm25
        kind = f"level_{level}"
        norms = saturation(lengths, statistics.mean_lengths[kind], options.k1, options.b)
        return np.asarray((self.weights(kind) * self.words.times) @ (counts / (counts + norms)), np.float32)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Add up the values of the pieces of each text, along the last axis; `starts` are the first pieces."""
    return np.add.reduceat(values, starts, axis=-1) if len(starts) else values
