"""BM25 of every level for the texts of some sections, from the counts of level 1: a question pays for these alone.

A chunk of a coarser level has the words of its pieces, and those of the title once; so its counts are sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mog_assets.index.bm25 import Statistics, term_weights
from mog_assets.index.postings import Postings
from mog_assets.resources.arrays import ranges
from mog_assets.text.chunks import Layout

# Pieces of a section, if its chunks of all levels have no more.
_PIECES = 64


@dataclass(frozen=True)
class Sections:
    """Documents cut into sections, whose chunks of every level are those of the documents.

    A section has so many pieces that no chunk of any level is of two; a document of fewer pieces is one section.

    Attributes:
        layout: With a section in the place of a document.
        document: Of every section.
    """

    layout: Layout
    document: np.ndarray

    @classmethod
    def of(cls, layout: Layout, levels: int) -> Sections:
        """The sections of a layout whose chunks have so many levels."""
        width = max(_PIECES, 1 << (levels - 1))
        many = -(-np.diff(layout.offsets) // width)
        document = np.repeat(np.arange(len(many)), many)
        place = np.arange(len(document)) - np.repeat(np.cumsum(many) - many, many)
        offsets = np.append(layout.offsets[document] + place * width, layout.count(1))
        return cls(Layout(layout.corpus, range(len(document)), offsets, layout.spans), document)  # type: ignore[arg-type]

    def containing(self, pieces: np.ndarray) -> np.ndarray:
        """The sections of some pieces, ascending, each once."""
        return np.unique(np.searchsorted(self.layout.offsets, pieces, side="right") - 1)

    def chunks(self, sections: np.ndarray, level: int) -> np.ndarray:
        """The chunks of a level in some sections, ascending."""
        offsets = self.layout.level_offsets(level)
        return ranges(offsets[sections], offsets[sections + 1])


@dataclass(frozen=True)
class PieceCounts:
    """How often pieces with their titles, and titles alone, have each term.

    Attributes:
        sections: Of all corpora.
        words, titles: Postings of pieces with their titles, and of titles, over all corpora.
    """

    sections: Sections
    words: Postings
    titles: Postings

    def within(self, terms: Sequence[str], sections: np.ndarray) -> SectionCounts:
        """Counts of a question's terms in some sections, ascending; terms that no piece has are left out."""
        distinct = list(dict.fromkeys(terms))
        distinct = [term for term, held in zip(distinct, self.words.holds(distinct).tolist(), strict=True) if held]
        pieces, documents = self.sections.chunks(sections, 1), self.sections.document[sections]
        number = {term: row for row, term in enumerate(distinct)}
        return SectionCounts(
            self.sections.layout,
            sections,
            distinct,
            [number[term] for term in terms if term in number],
            self.words.counts_in(distinct, pieces),
            self.titles.counts_in(distinct, documents),
            self.words.lengths_of(pieces),
            self.titles.lengths_of(documents),
        )


@dataclass(frozen=True)
class SectionCounts:
    """Counts of a question's terms in some sections.

    Attributes:
        layout: Of all sections.
        sections: Ascending.
        terms: Different ones.
        order: Rows of `terms` as the question has them, repetitions included.
        counts: Of each term in each piece of the sections, with its title: float64 of shape (terms, pieces).
        of_titles: Of each term in the title of each section's document: float64 of shape (terms, sections).
        lengths, title_lengths: Tokens of every piece with its title, and of the title of every section's document.
    """

    layout: Layout
    sections: np.ndarray
    terms: Sequence[str]
    order: Sequence[int]
    counts: np.ndarray
    of_titles: np.ndarray
    lengths: np.ndarray
    title_lengths: np.ndarray

    @cached_property
    def _starts(self) -> np.ndarray:
        """First piece of each section, among these."""
        sizes = np.diff(self.layout.offsets)[self.sections]
        return np.cumsum(sizes) - sizes

    def firsts(self, level: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The chunks of a level in these sections.

        Returns:
            Numbers of the chunks, ascending; the place of each one's section; and its first piece and how many it
            has, the pieces of these sections numbered from 0.
        """
        layout = self.layout
        offsets = layout.level_offsets(level)
        first_chunk, last_chunk = offsets[self.sections], offsets[self.sections + 1]
        chunks = ranges(first_chunk, last_chunk)
        owner = np.repeat(np.arange(len(self.sections)), last_chunk - first_chunk)
        width = 1 << (level - 1)
        within = (chunks - first_chunk[owner]) * width
        sizes = np.diff(layout.offsets)[self.sections][owner]
        return chunks, owner, self._starts[owner] + within, np.minimum(width, sizes - within)

    def scores(self, level: int, over: Statistics, k1: float, b: float) -> np.ndarray:
        """BM25 of the chunks of a level in these sections: the same numbers as from an index of all chunks.

        Args:
            level: The level.
            over: Statistics of the level.
            k1: Term frequency saturation.
            b: Length normalisation.

        Returns:
            float32 array of shape (chunks,), in their order.
        """
        _, owner, first, count = self.firsts(level)
        result = np.zeros(len(owner), np.float32)
        if not (len(owner) and len(self.terms)):
            return result
        # A title was counted with each of the pieces.
        again = count - 1
        counts = np.add.reduceat(self.counts, first, axis=1) - again * self.of_titles[:, owner]
        titles = self.title_lengths[owner]
        lengths = np.add.reduceat(self.lengths, first) - again * titles
        weights = np.zeros(counts.shape, np.float32)
        row, column = np.nonzero(counts > 0)
        frequencies = over.frequencies_of(self.terms)[row]
        weights[row, column] = term_weights(
            counts[row, column], frequencies, lengths[column], over.chunks, over.mean_length, k1, b
        )
        for place in self.order:
            result += weights[place]
        return result
