"""Candidate sources: the same contract, whichever of them finds the documents."""

import numpy as np
import pytest

from mog_assets.arrays import pairs
from mog_assets.ranking import sources
from mog_assets.ranking.rankings import Rankings
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.ranking.sources import EXHAUSTIVE, INDEXED, source_name
from mog_assets.retrieval.methods import parse
from mog_assets.tools import Tools

QUESTIONS = [
    "When should garlic be planted and harvested?",
    "garlic garlic bulbs",
    "How is a plane iron sharpened, and what is a spectral class?",
    "zzqx",
    "the of and",
]


@pytest.fixture(scope="module")
def opened(sample_project):
    """Opens the sample corpora with a source, and other values of settings."""

    def open_with(source, **sections):
        settings = sample_project.settings
        sections = {"ranking": {"candidates": source}, **sections}
        changed = {name: getattr(settings, name).model_copy(update=values) for name, values in sections.items()}
        tools = Tools(settings.model_copy(update=changed))
        return Retrieval.open(tools, tools.store.read, list(settings.corpora), QUESTIONS, keep=True)

    return open_with


def candidates(retrieval):
    return retrieval.once(Rankings).inputs.candidates


def passages(retrieval):
    ranked = retrieval.rank(parse("fused", retrieval.corpora.settings), 10)
    return np.stack([ranked.question, ranked.document, ranked.start, ranked.end], 1).tolist()


def same_scores(some, others, columns=slice(None)):
    """Compares the candidates that both have; returns the share of `others` that they are."""
    keys, wanted = (pairs(these.question, these.piece) for these in (some, others))
    _, here, there = np.intersect1d(keys, wanted, return_indices=True)
    assert np.allclose(some.scores[here, columns], others.scores[there, columns], rtol=1e-5, atol=1e-6)
    for name in ("beside", "place", "rare", "title"):
        assert np.allclose(getattr(some, name)[here], getattr(others, name)[there], rtol=1e-5, atol=1e-6)
    return len(here) / len(wanted)


@pytest.mark.parametrize("statistics", ["all", "corpus"])
def test_a_text_has_the_same_score_by_every_expert_whatever_found_it(opened, monkeypatch, statistics):
    monkeypatch.setattr(sources, "NEAREST", 3)
    exhaustive, indexed = (opened(name, bm25={"statistics": statistics}) for name in (EXHAUSTIVE, INDEXED))
    # What the best texts name depends on which texts there are.
    of_texts = slice(0, 2 * exhaustive.corpora.settings.levels + 1)
    some = candidates(indexed)
    assert 0.2 < same_scores(some, candidates(exhaustive), of_texts) < 1
    # Few documents are touched.
    documents = exhaustive.corpora.layout.document_of[some.piece[some.question == 0]]
    assert len(np.unique(documents)) < len(exhaustive.corpora.layout.documents) / 2


def test_with_every_piece_among_the_nearest_both_give_the_same(opened, monkeypatch):
    monkeypatch.setattr(sources, "NEAREST", 1 << 20)
    exhaustive, indexed = opened(EXHAUSTIVE), opened(INDEXED)
    assert same_scores(candidates(indexed), candidates(exhaustive)) == 1
    assert len(candidates(indexed).piece) == len(candidates(exhaustive).piece)
    assert np.allclose(candidates(indexed).floors, candidates(exhaustive).floors, rtol=1e-5, atol=1e-6)
    assert passages(indexed) == passages(exhaustive)


def test_vectors_of_levels_that_were_encoded_are_compared_like_those_that_follow(opened, monkeypatch):
    # The samples' levels follow from the first; here they stand for encoded ones.
    monkeypatch.setattr(sources, "NEAREST", 3)
    pooled, encoded = opened(INDEXED), opened(INDEXED)
    monkeypatch.setattr(type(encoded.corpora), "pooling", lambda self, level: None)
    assert same_scores(candidates(encoded), candidates(pooled), slice(0, pooled.corpora.settings.levels)) == 1
    levels = pooled.corpora.settings.levels
    assert np.allclose(candidates(encoded).scores[:, levels : 2 * levels].max(), 1, atol=0.6)


def test_a_filter_goes_into_the_searches_and_loses_nothing(opened, monkeypatch):
    monkeypatch.setattr(sources, "NEAREST", 3)
    exhaustive, indexed = opened(EXHAUSTIVE), opened(INDEXED)
    allowed = np.zeros(len(exhaustive.corpora.layout.documents), bool)
    # Documents that are among the nearest of no question.
    document_of = exhaustive.corpora.layout.document_of
    far = np.setdiff1d(np.arange(len(allowed)), document_of[candidates(indexed).piece])[:3]
    allowed[far] = True
    monkeypatch.setattr(sources, "NEAREST", int(allowed[document_of].sum()))
    some, wanted = (candidates(retrieval.among(allowed)) for retrieval in (indexed, exhaustive))
    assert set(document_of[some.piece].tolist()) == set(far.tolist())
    assert same_scores(some, wanted) == 1 and len(some.piece) == len(wanted.piece)


def test_no_question_and_a_question_of_unknown_words_are_answered_alike(opened):
    exhaustive, indexed = opened(EXHAUSTIVE), opened(INDEXED)
    assert not len(candidates(indexed.again([])).piece)
    assert candidates(indexed.again([])).scores.shape == candidates(exhaustive.again([])).scores.shape
    alone = indexed.again(["zzqx"])
    assert len(candidates(alone).piece) and not candidates(alone).scores[:, 0].any()


def test_a_question_asked_alone_has_the_candidates_that_it_has_among_others(opened, monkeypatch):
    monkeypatch.setattr(sources, "NEAREST", 3)
    indexed = opened(INDEXED)
    together = candidates(indexed)
    for number, question in enumerate(QUESTIONS):
        alone = candidates(indexed.again([question]))
        assert alone.piece.tolist() == together.piece[together.question == number].tolist()


def test_the_source_follows_from_the_number_of_pieces(opened, monkeypatch):
    assert source_name(opened("auto").corpora) == EXHAUSTIVE
    monkeypatch.setattr(sources, "LARGE", 10)
    assert source_name(opened("auto").corpora) == INDEXED
    assert source_name(opened(EXHAUSTIVE).corpora) == EXHAUSTIVE
