"""What the best texts name, and walks along it, against their definitions."""

from dataclasses import dataclass

import numpy as np
import pytest
from candidate_rows import candidates_of, layout_of
from hypothesis import given
from hypothesis import strategies as st

from mog_assets.build.tools import Tools
from mog_assets.search import relations, search
from mog_assets.search.relations import Mentioned, PageRank
from mog_assets.search.retrieval import Retrieval

NOTHING = []
QUESTION = "When should garlic be planted and harvested?"


@dataclass
class Named:
    """Edges given as (piece, document, weight)."""

    edges: list

    def of_pieces(self, pieces):
        rows = [(row, d, w) for row, p in enumerate(pieces.tolist()) for q, d, w in self.edges if q == p]
        row, document, weight = (np.array([r[i] for r in rows]) for i in range(3))
        return row.astype(np.int64), document.astype(np.int64), weight.astype(np.float32)


def short(*pieces):
    """Documents with so many pieces of 100 characters."""
    return layout_of([[100] * count for count in pieces])


def asked(layout, rows):
    """Candidates, given (question, piece) in order."""
    question, piece = np.array(rows, np.int64).reshape(-1, 2).T
    place = np.zeros((len(piece), 4), np.int32)
    place[:, 0] = piece - layout.offsets[layout.document_of[piece]]
    return candidates_of(question, piece, np.zeros(len(piece)), place)


def test_a_document_that_the_best_candidates_name_scores_in_all_its_pieces():
    layout = short(1, 2, 1)
    found = asked(layout, [(0, 0), (0, 1), (0, 2), (0, 3)])
    value = np.array([10.0, 1, 1, 5])
    given = Mentioned(Named([(0, 1, 0.5), (3, 1, 0.9)]), layout).scores(found, value, NOTHING)
    # The best names it with half a weight; the second, half as good, with .9.
    assert given == pytest.approx([0, 0.5, 0.5, 0])


def test_what_only_worse_candidates_name_does_not_score():
    layout = short(*[1] * 8)
    found = asked(layout, [(0, i) for i in range(8)])
    value = 8.0 - np.arange(8)
    beyond = Named([(relations.NAMING, 7, 1.0)])
    assert not Mentioned(beyond, layout).scores(found, value, NOTHING).any()


EDGES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4), st.sampled_from([0.25, 0.5, 1.0])), max_size=12)
PIECES = [1, 3, 2, 1, 2]


@given(EDGES, st.data())
def test_questions_do_not_change_each_others_scores(edges, data):
    layout, named = short(*PIECES), Named(list({(p, d): (p, d, w) for p, d, w in edges}.values()))
    chosen = [sorted(data.draw(st.sets(st.integers(0, 8), min_size=1))) for _ in range(3)]
    rows = [(question, piece) for question, own in enumerate(chosen) for piece in own]
    value = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows))), float)
    for relation in (Mentioned(named, layout), PageRank(named, layout)):
        together = relation.scores(asked(layout, rows), value, NOTHING)
        first = 0
        for own in chosen:
            here = slice(first, first + len(own))
            alone = relation.scores(asked(layout, [(0, piece) for piece in own]), value[here], NOTHING)
            assert together[here] == pytest.approx(alone, abs=1e-6)
            first += len(own)


@given(EDGES, st.data())
def test_a_walk_is_that_of_a_dense_matrix(edges, data):
    layout, edges = short(*PIECES), list({(p, d): (p, d, w) for p, d, w in edges}.values())
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


def test_the_best_pieces_of_a_named_document_become_candidates(sample_project, monkeypatch):
    monkeypatch.setattr(search, "NEAREST", 3)
    tools = Tools(sample_project.settings)
    retrieval = Retrieval.open(tools, tools.store.read, list(sample_project.settings.corpora), [QUESTION])
    layout = retrieval.corpora.layout
    monkeypatch.setattr(search, "mentioned_by", lambda index: None)
    alone = search.search(retrieval.index, *retrieval.searched)
    _, value = search.weighed(alone, retrieval.index)
    far = int(np.setdiff1d(np.flatnonzero(np.diff(layout.offsets) > 4), layout.document_of[alone.piece])[0])
    mentioned = Mentioned(Named([(int(alone.piece[value.argmax()]), far, 1.0)]), layout)
    monkeypatch.setattr(search, "mentioned_by", lambda index: mentioned)
    found = search.search(retrieval.index, *retrieval.searched)
    added = np.setdiff1d(found.piece, alone.piece)
    assert layout.document_of[added].tolist() == [far, far] and np.isin(alone.piece, found.piece).all()
    # Where only some documents may be found, a name does not lead to others.
    others = np.arange(len(layout.documents)) != far
    kept = search.search(retrieval.index, *retrieval.restricted_to(others).searched)
    assert far not in layout.document_of[kept.piece]


def test_no_more_documents_give_candidates_than_are_read():
    count = relations.NAMED + 5
    layout = short(*[1] * (count + 1))
    mentioned = Mentioned(Named([(0, d, 1 / d) for d in range(1, count + 1)]), layout)
    assert mentioned.more(asked(layout, [(0, 0)]), np.ones(1)).tolist() == list(range(1, relations.NAMED + 1))
