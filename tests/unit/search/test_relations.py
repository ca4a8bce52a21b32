"""What the best texts name, and walks along it, against their definitions."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.search import relations
from mog_assets.search.blend import Blend
from mog_assets.search.candidate_search import find
from mog_assets.search.candidates import Candidates
from mog_assets.search.relations import Mentioned, PageRank, Queries, Relations
from mog_assets.search.sources import Exhaustive
from mog_assets.text.chunks import Layout

NOTHING = Queries([""], np.zeros((1, 2), np.float32), [[]])


@dataclass
class Named:
    """Edges given as (piece, document, weight)."""

    edges: list

    def of_pieces(self, pieces):
        rows = [(row, d, w) for row, p in enumerate(pieces.tolist()) for q, d, w in self.edges if q == p]
        row, document, weight = (np.array([r[i] for r in rows]) for i in range(3))
        return row.astype(np.int64), document.astype(np.int64), weight.astype(np.float32)


def layout_of(pieces):
    """Documents with so many pieces of 100 characters."""
    spans = [(100 * i, 100 * i + 100) for count in pieces for i in range(count)]
    offsets = np.concatenate([[0], np.cumsum(pieces)])
    return Layout("", [f"d{i}" for i in range(len(pieces))], offsets, np.array(spans, np.int64).reshape(-1, 2))


def asked(layout, rows):
    """Candidates, given (question, piece) in order."""
    question, piece = np.array(rows, np.int64).reshape(-1, 2).T
    n, questions = len(piece), int(question.max(initial=-1)) + 1
    document = layout.document_of[piece]
    place = np.zeros((n, 4), np.int32)
    place[:, 0] = piece - layout.offsets[document]
    scores, beside = np.zeros((n, 1), np.float32), np.zeros((n, 2, 1), np.float32)
    floors = np.zeros((questions, 1), np.float32)
    return Candidates(
        question, piece, scores, beside, place, np.zeros(n, np.int8), np.zeros(n, np.int8), floors, np.ones(questions)
    )


def test_a_document_that_the_best_candidates_name_scores_in_all_its_pieces():
    layout = layout_of([1, 2, 1])
    found = asked(layout, [(0, 0), (0, 1), (0, 2), (0, 3)])
    value = np.array([10.0, 1, 1, 5])
    given = Mentioned(Named([(0, 1, 0.5), (3, 1, 0.9)]), layout).scores(found, value, NOTHING)
    # The best names it with half a weight; the second, half as good, with .9.
    assert given == pytest.approx([0, 0.5, 0.5, 0])


def test_what_only_worse_candidates_name_does_not_score():
    layout = layout_of([1] * 8)
    found = asked(layout, [(0, i) for i in range(8)])
    value = 8.0 - np.arange(8)
    beyond = Named([(relations.NAMING, 7, 1.0)])
    assert not Mentioned(beyond, layout).scores(found, value, NOTHING).any()


EDGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4), st.sampled_from([0.25, 0.5, 1.0])), max_size=12)
PIECES = [1, 3, 2, 1, 2]


@given(EDGES, st.data())
def test_questions_do_not_change_each_others_scores(edges, data):
    layout, named = layout_of(PIECES), Named(list({(p, d): (p, d, w) for p, d, w in edges}.values()))
    chosen = [sorted(data.draw(st.sets(st.integers(0, 8), min_size=1))) for _ in range(3)]
    rows = [(question, piece) for question, own in enumerate(chosen) for piece in own]
    value = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows))), float)
    for relation in (Mentioned(named, layout), PageRank(named, layout)):
        together = relation.scores(asked(layout, rows), value, Queries([""] * 3, np.zeros((3, 2)), [[]] * 3))
        first = 0
        for own in chosen:
            here = slice(first, first + len(own))
            alone = relation.scores(asked(layout, [(0, piece) for piece in own]), value[here], NOTHING)
            assert together[here] == pytest.approx(alone, abs=1e-6)
            first += len(own)


@given(EDGES, st.data())
def test_a_walk_is_that_of_a_dense_matrix(edges, data):
    layout, edges = layout_of(PIECES), list({(p, d): (p, d, w) for p, d, w in edges}.values())
    pieces = sorted(data.draw(st.sets(st.integers(0, 8), min_size=1)))
    value = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(pieces), max_size=len(pieces))), float)
    documents = sorted(set(layout.document_of[pieces].tolist()))
    links = np.zeros((len(documents), len(documents)))
    for piece, document, weight in edges:
        if piece in pieces and document in documents:
            links[documents.index(document), documents.index(layout.document_of[piece])] += weight
    leaving = links.sum(axis=0)
    stuck, links = leaving == 0, links / np.maximum(leaving, 1e-12)
    start = np.zeros(len(documents))
    for piece, own in sorted(zip(pieces, value, strict=True), key=lambda x: (-x[1], x[0]))[: relations.SEEDS]:
        start[documents.index(layout.document_of[piece])] += own**2
    start /= start.sum()
    mass = start
    for _ in range(relations.STEPS):
        mass = (1 - relations.RESTART) * (links @ mass + mass[stuck].sum() * start) + relations.RESTART * start
    wanted = [(links @ mass)[documents.index(layout.document_of[piece])] for piece in pieces]
    given = PageRank(Named(edges), layout).scores(asked(layout, [(0, p) for p in pieces]), value, NOTHING)
    assert given == pytest.approx(wanted, abs=1e-6)


@dataclass
class Fixed:
    """An expert of pieces with given scores."""

    table: np.ndarray
    name: str = "dense-1"
    depth: int = 1

    @property
    def count(self):
        return self.table.shape[1]

    def scores(self, rows):
        return self.table[rows]

    def containing(self, pieces):
        return pieces

    def covered(self, texts):
        return texts, texts + 1


def every(scores):
    """A source of all texts, with one expert."""
    return Exhaustive(None, [Fixed(scores)])


def test_the_best_pieces_of_a_named_document_become_candidates():
    layout = layout_of([1, 4, 1])
    scores = np.array([[0.9, 0.1, 0.3, 0.05, 0.2, 0.8]], np.float32)
    mentioned = Mentioned(Named([(0, 1, 1.0)]), layout)
    related = Relations([mentioned], NOTHING, mentioned)
    alone = find(every(scores), [0], layout, np.zeros(3, np.int64), 1, Blend().weights, 1.0)
    found = find(every(scores), [0], layout, np.zeros(3, np.int64), 1, Blend().weights, 1.0, related=related)
    assert alone.piece.tolist() == [0] and found.piece.tolist() == [0, 2, 4]
    assert found.scores[:, 1].tolist() == [0, 1, 1] and found.floors.shape == (1, 2)
    # Where only some documents may be found, a name does not lead to others.
    only = np.array([True, False, True])
    assert find(
        every(scores), [0], layout, np.zeros(3, np.int64), 1, Blend().weights, 1.0, allowed=only, related=related
    ).piece.tolist() == [0]


def test_no_more_documents_give_candidates_than_are_read():
    count = relations.NAMED + 5
    layout = layout_of([1] * (count + 1))
    scores = np.zeros((1, count + 1), np.float32)
    scores[0, 0] = 1
    mentioned = Mentioned(Named([(0, d, 1 / d) for d in range(1, count + 1)]), layout)
    related = Relations([mentioned], NOTHING, mentioned)
    found = find(every(scores), [0], layout, np.zeros(count + 1, np.int64), 1, Blend().weights, 1.0, related=related)
    assert found.piece.tolist() == list(range(relations.NAMED + 1))
