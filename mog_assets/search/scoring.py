"""Scores of texts for a question by every expert, exactly, whatever was retrieved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mog_assets.index.postings import Matches
from mog_assets.resources.arrays import distinct, ranges
from mog_assets.resources.lazy import cached_property
from mog_assets.search.index import Index, Query


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

    def places(self, pieces: np.ndarray) -> np.ndarray:
        """Return where some of the pieces are among these."""
        return np.searchsorted(self.pieces, pieces)

    def joined(self, others: Texts) -> Texts:
        """Return these and others."""
        pieces = np.concatenate([self.pieces, others.pieces])
        order = np.argsort(pieces)
        return Texts(
            np.sort(np.concatenate([self.sections, others.sections])),
            pieces[order],
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
        return self.index.corpora.statistics.weights.of(self.words.terms)

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
        return self.index.corpora.vectors.products(pieces, self.query.vector)

    def sections(self, pieces: np.ndarray) -> np.ndarray:
        """Return the sections of some pieces, ascending, each once."""
        return distinct(np.searchsorted(self.index.sections, pieces, side="right") - 1)

    def of_sections(self, sections: np.ndarray) -> Texts:
        """Score the texts of sections, ascending, by every expert of texts."""
        index, layout, levels = self.index, self.index.corpora.layout, self.index.levels
        pieces = ranges(index.sections[sections], index.sections[sections + 1])
        document = layout.document_of[pieces]
        scores = np.empty((len(index.text_experts), len(pieces)), np.float32)
        scores[0], scores[-1] = self.words_of_pieces[pieces], self.of_titles[document]
        scores[levels] = self.products(pieces)
        if levels > 1 and len(pieces):
            self._score_coarse(sections, pieces, document, scores)
        return Texts(sections, pieces, document, pieces - layout.offsets[document], scores)

    def _score_coarse(self, sections: np.ndarray, pieces: np.ndarray, document: np.ndarray, scores: np.ndarray) -> None:
        """Score texts of level 2 and above, those of all levels together: each is a run of pieces."""
        index, coarse, levels, count = self.index, self.index.coarse, self.index.levels, len(pieces)
        rows = ranges(coarse.first[:, sections].ravel(), coarse.first[:, sections + 1].ravel())
        # Where texts are in the pieces repeated for every level.
        widths = coarse.widths[rows]
        ends = np.cumsum(widths)
        starts = ends - widths
        level = starts // count
        begin = starts - level * count

        # A piece was counted with its title, a text is counted with one.
        up_to = np.zeros((len(self.words.terms), count + 1))
        np.cumsum(self.words.counts_in(pieces), axis=1, out=up_to[:, 1:])
        counts = up_to.take(begin + widths, axis=1) - up_to.take(begin, axis=1)
        counts -= (widths - 1) * self.titles.counts_in(document[begin])
        weights = np.array([self.weights[f"level_{number}"] for number in range(2, levels + 1)])
        weights *= self.words.times
        by_words = (weights.T.take(level, axis=1) * counts / (counts + coarse.norms[rows])).sum(axis=0)
        scores[1:levels] = np.repeat(by_words, widths).reshape(levels - 1, count)

        if self.query.vector is None:
            # Vectors may not have been made yet.
            scores[levels + 1 : -1] = 0
            return
        # A sum depends on its own pieces alone, to the bit.
        weighted = scores[levels] * index.sizes[pieces]
        sums = np.add.reduceat(np.tile(weighted, levels - 1), starts)
        scores[levels + 1 : -1] = np.repeat(sums / index.pooled[rows], widths).reshape(levels - 1, count)
