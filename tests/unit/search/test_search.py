"""Candidates: their scores are those of their texts, whatever found them."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import yaml
from shared import copy_folder, run_alone

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.index import assets, vectors
from mog_assets.resources.arrays import pairs
from mog_assets.search import exact, search
from mog_assets.search import index as opened_index
from mog_assets.search.methods import parse
from mog_assets.search.passages import pieces_in
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.search import Scoring
from mog_assets.text.chunks import chunk_text
from mog_assets.text.terms import terms_of

QUESTIONS = [
    "When should garlic be planted and harvested?",
    "garlic garlic bulbs",
    "How is a plane iron sharpened, and what is a spectral class?",
    "zzqx",
    "the of and",
]
EVERY = 1 << 20
ROUNDED, LINKED = "rounded", "linked"
EITHER = pytest.mark.parametrize("neighbours_are", [ROUNDED, LINKED])


@pytest.fixture(scope="module")
def linked(sample_project, tmp_path_factory):
    """The settings of a copy of the samples with graphs of their vectors."""
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("linked") / "copy")
    values = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8")) | {"seed": 5}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    settings = config.load(folder / "mog.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assets, "LINKED", 1)
        shutil.rmtree(folder / "home" / "store" / "neighbours")
        assert not run_alone(settings, select=["neighbours"]).failures
    stored = [Tools(settings).store.read("neighbours", corpus) for corpus in settings.corpora]
    assert all(name.endswith(".usearch") for artefact in stored for name in artefact.names())
    return settings


@pytest.fixture
def opened(sample_project, linked, monkeypatch):
    """Opens the sample corpora with rounded vectors, or with graphs of them, however few there are."""

    def open_with(neighbours_are=ROUNDED):
        # Documents of the samples have few pieces.
        monkeypatch.setattr(opened_index, "_SECTION", 1)
        monkeypatch.setattr(vectors, "FEW", 0)
        settings = linked if neighbours_are == LINKED else sample_project.settings
        tools = Tools(settings)
        return Retrieval.open(tools, tools.store.read, list(settings.corpora), QUESTIONS)

    return open_with


def candidates(retrieval):
    return retrieval.read.candidates


def same_scores(some, others, columns=slice(None)):
    """Compares the candidates that both have; returns the share of `others` that they are."""
    keys, wanted = (pairs(these.question, these.piece) for these in (some, others))
    _, here, there = np.intersect1d(keys, wanted, return_indices=True)
    assert np.allclose(some.scores[here, columns], others.scores[there, columns], rtol=1e-5, atol=1e-6)
    for name in ("beside", "place", "rare", "title"):
        assert np.allclose(getattr(some, name)[here], getattr(others, name)[there], rtol=1e-5, atol=1e-6)
    return len(here) / len(wanted)


def bm25_of(corpora, level, questions):
    """BM25 of all chunks of a level by its definition, from their texts: an array of shape (questions, chunks)."""
    layout, (k1, b) = corpora.layout, (corpora.settings.bm25.k1, corpora.settings.bm25.b)
    texts = corpora.texts(range(len(layout.documents)))
    spans = zip(*layout.chunk_spans(np.arange(layout.count(level)), level), strict=True)
    counts = [Counter(terms_of([chunk_text(texts[d][0], texts[d][1][s:e])], "en")[0]) for d, s, e in spans]
    lengths = np.array([sum(own.values()) for own in counts])
    scores = np.zeros((len(questions), len(counts)))
    for row, terms in enumerate(questions):
        for term in terms:
            times = np.array([own[term] for own in counts])
            having = max(np.count_nonzero(times), 1)
            idf = np.log1p((len(counts) - having + 0.5) / (having + 0.5))
            scores[row] += idf * times / (times + k1 * (1 - b + b * lengths / lengths.mean()))
    return scores


def test_candidates_have_the_scores_of_the_texts_that_they_lie_in(opened):
    retrieval = opened()
    found, corpora = candidates(retrieval), retrieval.corpora
    vectors = corpora.vectors.rows(np.arange(len(corpora.vectors))).astype(np.float32)
    sizes = np.diff(corpora.layout.spans, axis=1)
    for level in corpora.settings.level_range:
        chunk = corpora.layout.containing(found.piece, level)
        by_words = bm25_of(corpora, level, retrieval.terms)
        assert np.allclose(found.scores[:, level - 1], by_words[found.question, chunk], rtol=1e-4, atol=1e-5)
        first, _ = corpora.layout.covered(np.arange(corpora.layout.count(level)), level)
        pooled = np.add.reduceat(vectors * sizes, first)
        pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        products = (pooled[chunk] * retrieval.vectors[found.question]).sum(axis=1)
        column = corpora.settings.levels + level - 1
        assert np.allclose(found.scores[:, column], products, atol=2e-3)


def test_the_best_texts_of_every_expert_give_candidates(opened, monkeypatch):
    monkeypatch.setattr(search, "NEAREST", EVERY)
    retrieval = opened()
    found, corpora = candidates(retrieval), retrieval.corpora
    for level, depth in zip(corpora.settings.level_range, search.DEPTHS, strict=False):
        by_words = bm25_of(corpora, level, retrieval.terms)
        for question in range(3):
            best = np.argsort(-by_words[question], kind="stable")[:depth]
            # Of nearly equal ones the last may be another.
            best = best[by_words[question, best] > by_words[question, best[-1]] + 1e-6]
            pieces = found.piece[found.question == question]
            assert np.isin(best, corpora.layout.containing(pieces, level)).all()


@EITHER
def test_a_text_has_the_same_score_by_every_expert_whatever_found_it(opened, neighbours_are, monkeypatch):
    monkeypatch.setattr(search, "NEAREST", EVERY)
    every = candidates(opened(neighbours_are))
    monkeypatch.setattr(search, "NEAREST", 3)
    retrieval = opened(neighbours_are)
    layout = retrieval.corpora.layout
    # What the best texts name depends on which texts there are.
    assert 0.2 < same_scores(candidates(retrieval), every, slice(0, 2 * retrieval.index.levels + 1)) < 1
    assert len(retrieval.index.sections) > len(layout.documents)
    # Few documents are touched.
    few = candidates(retrieval)
    assert len(np.unique(layout.document_of[few.piece[few.question == 0]])) < len(layout.documents) / 2


def test_graphs_lead_to_what_all_products_do(opened):
    some, others = candidates(opened(LINKED)), candidates(opened(ROUNDED))
    assert same_scores(some, others, slice(0, 11)) > 0.99


@EITHER
def test_a_filter_goes_into_the_searches_and_loses_nothing(opened, neighbours_are, monkeypatch):
    monkeypatch.setattr(search, "NEAREST", 3)
    retrieval = opened(neighbours_are)
    layout = retrieval.corpora.layout
    # Documents that are among the nearest of no question.
    far = np.setdiff1d(np.arange(len(layout.documents)), layout.document_of[candidates(retrieval).piece])[:3]
    allowed = np.isin(np.arange(len(layout.documents)), far)
    monkeypatch.setattr(search, "NEAREST", int(allowed[layout.document_of].sum()))
    some = candidates(retrieval.restricted_to(allowed))
    assert set(layout.document_of[some.piece].tolist()) == set(far.tolist())
    for query in retrieval.restricted_to(allowed).searched:
        words, titles = (part.matches(query.terms) for part in (retrieval.corpora.words, retrieval.corpora.titles))
        for pieces in search.nearest(Scoring(retrieval.index, query, words, titles)):
            assert allowed[layout.document_of[pieces]].all()


@pytest.mark.parametrize("levels", [1, 3, 7])
def test_no_chunk_is_of_two_sections(opened, levels, monkeypatch):
    index = opened().index
    monkeypatch.setattr(opened_index, "_SECTION", 4)
    monkeypatch.setattr(opened_index.Index, "levels", levels)
    layout, bounds = index.corpora.layout, index.sections
    assert (np.diff(bounds) > 0).all() and bounds[0] == 0 and bounds[-1] == layout.count(1)
    assert np.isin(layout.offsets, bounds).all()
    for level in range(1, levels + 1):
        first, last = layout.covered(np.arange(layout.count(level)), level)
        assert (np.searchsorted(bounds, first, "right") == np.searchsorted(bounds, last - 1, "right")).all()


@EITHER
def test_no_question_and_a_question_of_unknown_words_are_answered(opened, neighbours_are):
    retrieval = opened(neighbours_are)
    assert candidates(retrieval.with_queries([])).scores.shape == (0, candidates(retrieval).scores.shape[1])
    alone = retrieval.with_queries(["zzqx"])
    assert len(candidates(alone).piece) and not candidates(alone).scores[:, 0].any()


@EITHER
def test_a_question_asked_alone_has_the_candidates_that_it_has_among_others(opened, neighbours_are, monkeypatch):
    monkeypatch.setattr(search, "NEAREST", 3)
    retrieval = opened(neighbours_are)
    together = candidates(retrieval)
    for number, question in enumerate(QUESTIONS):
        alone = candidates(retrieval.with_queries([question]))
        assert alone.piece.tolist() == together.piece[together.question == number].tolist()


def test_words_are_searched_without_a_vector(opened):
    retrieval = opened()

    def unused(texts):
        raise AssertionError("expected words alone to be searched, got a question to encode")

    retrieval.index.__dict__["encode"] = unused
    ranked = retrieval.rank(parse("fixed-2", retrieval.corpora.settings), 10)
    assert len(np.unique(ranked.question)) == 3
    assert not len(retrieval.with_queries([]).rank(parse("fixed-2", retrieval.corpora.settings), 10).question)


def test_of_a_quote_in_many_pieces_the_best_by_words_are_candidates(opened, monkeypatch):
    monkeypatch.setattr(exact, "_READ", 5)
    retrieval = opened()
    every = np.arange(retrieval.corpora.layout.count(1))
    query = replace(next(retrieval.searched), quoted=every)
    found = search.search(retrieval.index, query)
    assert np.count_nonzero(found.rare == exact.LITERAL) == 5
    allowed = every % 7 == 0
    restricted = search.search(retrieval.index, replace(query, allowed=allowed))
    assert allowed[restricted.piece].all()


def test_a_fixed_level_has_the_best_chunks_of_the_level_in_order(opened):
    retrieval = opened()
    layout = retrieval.corpora.layout
    for level in (1, 3):
        ranked = retrieval.rank(parse(f"fixed-{level}", retrieval.corpora.settings), 10)
        by_words = bm25_of(retrieval.corpora, level, retrieval.terms)
        for question in range(3):
            rows = np.flatnonzero(ranked.question == question)[:8]
            first, _ = pieces_in(layout, ranked.document[rows], ranked.start[rows], ranked.end[rows])
            best = np.sort(by_words[question])[::-1][: len(rows)]
            assert np.allclose(by_words[question, layout.containing(first, level)], best, rtol=1e-5)
