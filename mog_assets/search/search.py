"""How a question is searched: read this file from the top, `search` first.

Level 1 is searched twice, by words and by vectors. The texts of the sections of the best pieces are scored by every
expert, exactly, whatever was retrieved: BM25 and vectors of every level, and titles. The pieces of the best texts by
any expert are the candidates, with what is typed exactly and few texts have, and what the best of them name.
Rankings order candidates (`rankings`), and passages are joined from them (`passages`).

What two searches of level 1 may miss is a text whose section has no piece among the `NEAREST` of either: evidence
recall by 100 was within .0006 of that from all texts; by 64 it is within .0003 of that by 100, or more, on six
collections (docs/growth.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mog_assets.index.postings import Matches
from mog_assets.index.vector_stores import CandidateStore
from mog_assets.index.vectors import near
from mog_assets.registry import EXPERTS
from mog_assets.resources.arrays import distinct, greatest, greatest_of, places, ranges
from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.lazy import cached_property, remembered
from mog_assets.search.candidates import DEPTHS, NEAREST, Candidates, concatenated
from mog_assets.search.exact import Typed, find_typed
from mog_assets.search.experts import mentioned_by, relations_of
from mog_assets.search.index import Index, Query
from mog_assets.search.rule import Rule

_log = logging.getLogger(__name__)
# Pieces of each document that relations add to the candidates.
MORE = 2


def search_all(index: Index, queries: Iterable[Query], reads: bool) -> Candidates:
    """Find the candidates of questions, with their score by every expert.

    Args:
        index: What is searched.
        queries: The questions, which are taken one after the other: each may have a mask of all pieces.
        reads: Whether experts are asked that read texts together with the question.
    """
    parts, searched = [], []
    for query in queries:
        parts.append(search(index, query))
        searched.append(query if query.allowed is None else replace(query, allowed=None))
    return related(index, searched, concatenated(parts, len(index.text_experts)), reads)


def search(index: Index, query: Query) -> Candidates:
    """Find the candidates of a question, with their score by every expert of texts."""
    words, titles = index.corpora.words.matches(query.terms), index.corpora.titles.matches(query.terms)
    scoring = Scoring(index, query, words, titles)
    typed = find_typed(index.corpora, query, words, titles, scoring.words_of_pieces)
    texts = scoring.of_sections(scoring.sections(np.concatenate([*nearest(scoring), typed.pieces])))
    pieces = distinct(np.concatenate([best_pieces(texts, index, query.allowed), typed.restricted_to(query.allowed)]))
    candidates = scored(scoring, texts, typed, pieces)
    return follow_mentions(scoring, texts, typed, candidates)


def nearest(scoring: Scoring) -> list[np.ndarray]:
    """Find the best pieces of level 1 by words, and by vectors."""
    index, allowed, vector, store = scoring.index, scoring.query.allowed, scoring.query.vector, scoring.index.store()
    if store is not None:
        try:
            return _nearest_in(store, scoring)
        except MissingArtefact as error:
            # A run is replacing what it has: the files are those that are searched.
            _log.info("%s; files are searched meanwhile", error)
    words = scoring.words_of_pieces if allowed is None else np.where(allowed, scoring.words_of_pieces, 0)
    by_words = greatest_of(words, NEAREST)
    by_words = by_words[words[by_words] > 0]
    if vector is None:
        return [by_words]
    return [by_words, _best_products(scoring, near(index.corpora.neighbours, vector, NEAREST, allowed))]


def _nearest_in(store: CandidateStore, scoring: Scoring) -> list[np.ndarray]:
    """Find the best pieces in a vector store.

    Raises:
        MissingArtefact: it has other pieces now.
    """
    allowed, words, vector = scoring.query.allowed, scoring.words_of_pieces, scoring.query.vector
    ((matching, _),) = store.matching([scoring.weights_of_terms], NEAREST, allowed)
    by_words = np.sort(matching)
    by_words = by_words[greatest_of(words[by_words], NEAREST)]
    parts = [by_words[words[by_words] > 0]]
    if vector is not None:
        ((nearest_of, _),) = store.nearest(vector[None], NEAREST, allowed)
        parts.append(_best_products(scoring, np.sort(nearest_of)))
    return parts


def _best_products(scoring: Scoring, pieces: np.ndarray) -> np.ndarray:
    """Return those of some pieces whose vectors are nearest."""
    products = scoring.products(pieces)
    best = greatest_of(products, NEAREST)
    return pieces[best[products[best] > 0]]


def best_pieces(texts: Texts, index: Index, allowed: np.ndarray | None) -> np.ndarray:
    """Return the pieces of the best texts by any expert, ascending."""
    chosen, count = np.zeros(len(texts.pieces), bool), len(texts.pieces)
    open_to = None if allowed is None else allowed[texts.pieces]
    for level in range(1, index.levels + 1) if count else ():
        # No text is of two sections.
        begins = (texts.place & ((1 << (level - 1)) - 1)) == 0
        starts = np.flatnonzero(begins)
        scores = texts.scores[[[level - 1], [index.levels + level - 1]], starts]
        if open_to is not None:
            scores = np.where(np.logical_or.reduceat(open_to, starts), scores, 0)
        best = greatest(scores, DEPTHS[min(level, len(DEPTHS)) - 1]) & (scores > 0)
        chosen |= (best[0] | best[1])[np.cumsum(begins) - 1]
    return texts.pieces[chosen if open_to is None else chosen & open_to]


def follow_mentions(scoring: Scoring, texts: Texts, typed: Typed, candidates: Candidates) -> Candidates:
    """Add the best pieces of the documents that the best candidates name, if an expert reads what texts name."""
    index, layout, allowed = scoring.index, scoring.index.corpora.layout, scoring.query.allowed
    mentioned = None if scoring.query.vector is None else mentioned_by(index)
    if mentioned is None:
        return candidates
    weights, value = weighed(candidates, index)
    documents = mentioned.more(candidates, value)
    if not len(documents):
        return candidates
    pieces = ranges(layout.offsets[documents], layout.offsets[documents + 1])
    sections = scoring.sections(pieces)
    at = np.minimum(np.searchsorted(texts.sections, sections), len(texts.sections) - 1)
    if len(missing := sections[texts.sections[at] != sections]):
        texts = texts.joined(scoring.of_sections(missing))
    pieces = pieces if allowed is None else pieces[allowed[pieces]]
    least, span = candidates.bounds
    worth = ((texts.scores[:, texts.places(pieces)].T - least) / span) @ weights[0]
    document = layout.document_of[pieces]
    order = np.lexsort((pieces, -worth, document))
    added = pieces[order[places(document[order]) < MORE]]
    every = distinct(np.concatenate([candidates.piece, added]))
    return scored(scoring, texts, typed, every) if len(every) > len(candidates.piece) else candidates


def scored(scoring: Scoring, texts: Texts, typed: Typed, pieces: np.ndarray) -> Candidates:
    """Describe pieces of texts, ascending, as candidates."""
    layout, index = scoring.index.corpora.layout, scoring.index
    at = texts.places(pieces)
    document, place = texts.document[at], texts.place[at]
    of_document = layout.offsets[document + 1] - layout.offsets[document]
    columns = [place, of_document, index.sizes[pieces], index.corpus_of[document]]
    return Candidates(
        np.zeros(len(pieces), np.int64),
        pieces,
        np.ascontiguousarray(texts.scores[:, at].T),
        _beside(scoring, texts, at, of_document),
        np.stack(columns, axis=1).astype(np.int32),
        typed.values_of(pieces),
        typed.title_words(document),
        np.array([scoring.query.vocabulary], np.float32),
    )


def _beside(scoring: Scoring, texts: Texts, at: np.ndarray, of_document: np.ndarray) -> np.ndarray:
    """Return `Candidates.beside` of pieces at some places of texts, whose documents have so many pieces."""
    place, levels, last = texts.place[at], scoring.index.levels, len(texts.pieces) - 1
    present = np.array([place > 0, place + 1 < of_document])
    near = np.array([np.maximum(at - 1, 0), np.minimum(at + 1, last)])
    other = np.where(present, np.array([texts.pieces[at] - 1, texts.pieces[at] + 1]), 0)
    products = texts.scores[levels, near]
    # A piece of the next section of a long document.
    if (missing := present & (texts.pieces[near] != other)).any():
        products[missing] = scoring.products(other[missing])
    return np.where(present, np.array([scoring.words_of_pieces[other], products]), 0).T.astype(np.float32)


@remembered
def weighed(candidates: Candidates, index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight of each expert of texts for each question by rule, and how good candidates are by these."""
    weights = Rule().weights(candidates, index.text_experts)
    return weights, np.einsum("ij,ij->i", candidates.relative, weights[candidates.question])


def related(index: Index, queries: Sequence[Query], candidates: Candidates, reads: bool) -> Candidates:
    """Add the scores by relations of candidates to others, and by experts that read."""
    relations = relations_of(index)
    if not relations:
        return candidates
    (_, value), columns = weighed(candidates, index), []
    for name, relation in relations.items():
        scores = np.zeros(len(value), np.float32)
        if reads or not index.reads or not EXPERTS[name].reads:
            scores = relation.scores(candidates, value, queries)
        columns.append(scores)
    return candidates.with_scores(np.stack(columns, axis=1))


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
