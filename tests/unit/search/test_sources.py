"""Candidate sources: the same contract, whichever of them finds the documents."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from shared import copy_folder, run_alone

from mog_assets import config
from mog_assets.build.plan import graph
from mog_assets.build.tools import Tools
from mog_assets.index import corpora, neighbours, piece_counts
from mog_assets.index.neighbours import Neighbours, write_graph
from mog_assets.index.piece_counts import Sections
from mog_assets.index.vectors import VectorTable
from mog_assets.resources.arrays import pairs
from mog_assets.resources.errors import MogError
from mog_assets.search import section_search
from mog_assets.search.methods import parse
from mog_assets.search.rankings import Rankings
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.sources import EXHAUSTIVE, INDEXED, source_name

QUESTIONS = [
    "When should garlic be planted and harvested?",
    "garlic garlic bulbs",
    "How is a plane iron sharpened, and what is a spectral class?",
    "zzqx",
    "the of and",
]


SCANNED, LINKED = "scanned", "linked"
EITHER = pytest.mark.parametrize("source", [SCANNED, LINKED])


@pytest.fixture(scope="module")
def linked(sample_project, tmp_path_factory):
    """The settings of a copy of the samples with graphs of their vectors."""
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("linked") / "copy")
    values = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8")) | {"ranking": {"candidates": INDEXED}}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    settings = config.load(folder / "mog.yaml")
    assert not run_alone(settings, select=["neighbours"]).failures
    return settings


@pytest.fixture
def opened(sample_project, linked, monkeypatch):
    """Opens the sample corpora with a source, and other values of settings.

    `scanned` is `indexed` where no corpus has graphs, `linked` asks them, however few vectors there are.
    """

    def open_with(source, **sections):
        settings = linked if source == LINKED else sample_project.settings
        ranking = {"candidates": {SCANNED: "auto", LINKED: INDEXED}.get(source, source)}
        if source in (SCANNED, LINKED):
            monkeypatch.setattr(corpora, "LARGE", 1)
            monkeypatch.setattr(neighbours, "FEW", 0)
            # Documents of the samples have few pieces.
            monkeypatch.setattr(piece_counts, "_PIECES", 1)
        sections = {"ranking": ranking, **sections}
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


@EITHER
def test_a_text_has_the_same_score_by_every_expert_whatever_found_it(opened, source, monkeypatch):
    monkeypatch.setattr(section_search, "NEAREST", 3)
    exhaustive, indexed = (opened(name) for name in (EXHAUSTIVE, source))
    # What the best texts name depends on which texts there are.
    of_texts = slice(0, 2 * exhaustive.corpora.settings.levels + 1)
    some = candidates(indexed)
    assert len(indexed.corpora.sections.document) > len(indexed.corpora.layout.documents)
    assert 0.2 < same_scores(some, candidates(exhaustive), of_texts) < 1
    # Few documents are touched.
    documents = exhaustive.corpora.layout.document_of[some.piece[some.question == 0]]
    assert len(np.unique(documents)) < len(exhaustive.corpora.layout.documents) / 2


@EITHER
def test_with_every_piece_among_the_nearest_both_give_the_same(opened, source, monkeypatch):
    monkeypatch.setattr(section_search, "NEAREST", 1 << 20)
    exhaustive, indexed = opened(EXHAUSTIVE), opened(source)
    assert same_scores(candidates(indexed), candidates(exhaustive)) == 1
    assert len(candidates(indexed).piece) == len(candidates(exhaustive).piece)
    assert np.allclose(candidates(indexed).floors, candidates(exhaustive).floors, rtol=1e-5, atol=1e-6)
    assert passages(indexed) == passages(exhaustive)


@EITHER
def test_a_filter_goes_into_the_searches_and_loses_nothing(opened, source, monkeypatch):
    monkeypatch.setattr(section_search, "NEAREST", 3)
    exhaustive, indexed = opened(EXHAUSTIVE), opened(source)
    allowed = np.zeros(len(exhaustive.corpora.layout.documents), bool)
    # Documents that are among the nearest of no question.
    document_of = exhaustive.corpora.layout.document_of
    far = np.setdiff1d(np.arange(len(allowed)), document_of[candidates(indexed).piece])[:3]
    allowed[far] = True
    monkeypatch.setattr(section_search, "NEAREST", int(allowed[document_of].sum()))
    some, wanted = (candidates(retrieval.among(allowed)) for retrieval in (indexed, exhaustive))
    assert set(document_of[some.piece].tolist()) == set(far.tolist())
    assert same_scores(some, wanted) == 1 and len(some.piece) == len(wanted.piece)


@pytest.mark.parametrize("levels", [1, 3, 7])
def test_no_chunk_is_of_two_sections(opened, levels, monkeypatch):
    monkeypatch.setattr(piece_counts, "_PIECES", 4)
    layout = opened(EXHAUSTIVE).corpora.layout
    sections = Sections.of(layout, levels)
    assert (layout.document_of == sections.document[sections.layout.document_of]).all()
    for level in range(1, levels + 1):
        every = np.arange(layout.count(level))
        assert sections.layout.count(level) == layout.count(level)
        assert (np.array(sections.layout.covered(every, level)) == layout.covered(every, level)).all()
        assert (sections.chunks(np.arange(len(sections.document)), level) == every).all()


@EITHER
def test_no_question_and_a_question_of_unknown_words_are_answered_alike(opened, source):
    exhaustive, indexed = opened(EXHAUSTIVE), opened(source)
    assert not len(candidates(indexed.again([])).piece)
    assert candidates(indexed.again([])).scores.shape == candidates(exhaustive.again([])).scores.shape
    alone = indexed.again(["zzqx"])
    assert len(candidates(alone).piece) and not candidates(alone).scores[:, 0].any()


@EITHER
def test_a_question_asked_alone_has_the_candidates_that_it_has_among_others(opened, source, monkeypatch):
    monkeypatch.setattr(section_search, "NEAREST", 3)
    indexed = opened(source)
    together = candidates(indexed)
    for number, question in enumerate(QUESTIONS):
        alone = candidates(indexed.again([question]))
        assert alone.piece.tolist() == together.piece[together.question == number].tolist()


def test_the_source_follows_from_the_number_of_pieces(opened, monkeypatch):
    assert source_name(opened("auto").corpora) == EXHAUSTIVE
    monkeypatch.setattr(corpora, "LARGE", 10)
    assert source_name(opened("auto").corpora) == INDEXED
    assert source_name(opened(EXHAUSTIVE).corpora) == EXHAUSTIVE


# Graphs of vectors


def unused():
    raise AssertionError("expected graphs to be asked, got all vectors compared")


def written(folder, *parts):
    paths = []
    for number, rows in enumerate(parts):
        paths.append(str(folder / f"bucket_{number}.npy"))
        np.save(paths[-1], rows)
    return paths


def unit(count, seed, size=32):
    rows = np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def test_a_graph_of_the_same_vectors_has_the_same_bytes(tmp_path):
    parts = [unit(300, 1), unit(0, 2), unit(200, 3)]
    for name in ("one", "two"):
        assert write_graph(written(tmp_path, *parts), str(tmp_path / name)) == 500
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_nearly_all_of_the_nearest_are_near(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "FEW", 0)
    rows, recalls = unit(900, 1), []
    write_graph(written(tmp_path, rows), str(tmp_path / "graph"))
    shard, open_to = Neighbours(tmp_path / "graph", unused, 900), np.arange(900) % 3 == 0
    for question in unit(50, 4).astype(np.float32):
        order = np.argsort(-(rows.astype(np.float32) @ question), kind="stable")
        for few in (None, open_to):
            near = shard.near(question, 20, few)
            assert (np.diff(near) > 0).all() and near.min() >= 0 and near.max() < 900
            assert len(near) <= (60 if few is None else 180) and (few is None or few[near].all())
            recalls.append(np.isin(order[:20] if few is None else order[few[order]][:20], near).mean())
    assert np.mean(recalls) > 0.99


def test_a_damaged_graph_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "graph_0000.usearch"
    for data in (b"", b"no graph", bytes(5000)):
        path.write_bytes(data)
        with pytest.raises(MogError, match="graph_0000.usearch of neighbours: expected a graph of 7 vectors"):
            Neighbours(path, unused, 7)


def test_a_graph_of_other_vectors_is_an_error(tmp_path):
    write_graph(written(tmp_path, unit(30, 1)), str(tmp_path / "graph"))
    with pytest.raises(MogError, match="expected a graph of 31 vectors, got another .it has 30 vectors"):
        Neighbours(tmp_path / "graph", unused, 31)


@pytest.mark.parametrize("few", [0, 16_000])
def test_without_a_graph_the_nearest_are_those_of_all_that_are_allowed(tmp_path, monkeypatch, few):
    monkeypatch.setattr(neighbours, "FEW", few)
    rows, question = unit(60, 1), unit(1, 2).astype(np.float32)[0]
    shard = Neighbours(None, lambda: VectorTable([Path(path) for path in written(tmp_path, rows)]), 60)
    order = np.argsort(-(rows.astype(np.float32) @ question), kind="stable")
    assert shard.near(question, 5).tolist() == sorted(order[:5].tolist())
    open_to = np.arange(60) % 2 == 0
    near = shard.near(question, 5, open_to)
    assert set(order[open_to[order]][:5].tolist()) <= set(near.tolist()) and open_to[near].all()
    assert shard.near(question, 100).tolist() == list(range(60))


def test_graphs_are_made_anew_for_shards_that_changed_and_equal_those_of_a_rebuild(linked, sample_project):
    tools = Tools(linked)
    stored = tools.store.read("neighbours", "garden")
    assert (
        stored.manifest.counts["vectors"] == tools.store.read("embeddings/level_1", "garden").manifest.counts["vectors"]
    )
    assert not run_alone(linked, select=["neighbours"]).failures
    assert tools.store.read("neighbours", "garden").manifest.version == stored.manifest.version


def test_small_corpora_have_graphs_only_if_the_settings_say_so(linked, sample_project):
    graphs = Tools(sample_project.settings).store.read("neighbours", "garden").manifest.counts["graphs"]
    assert graphs == 0 < Tools(linked).store.read("neighbours", "garden").manifest.counts["graphs"]
    exhaustive = linked.model_copy(update={"ranking": linked.ranking.model_copy(update={"candidates": EXHAUSTIVE})})
    assert "neighbours" not in graph(exhaustive)
