"""The experiments on retrieval, all done once on a copy of the sample project; figures are those of `scores`."""

import json
import shutil
import sqlite3
from contextlib import closing, nullcontext
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from test_encoder import tiny_encoder

from mog_assets import automation, config
from mog_assets.cli import main
from mog_assets.experiments import granularity, labels, retrievers
from mog_assets.experiments.conclusions import over_sets
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import LevelChunks
from resources.encoder import Encoder
from resources.recipe import Tools
from resources.store import Store

NAMES = (
    "k_r",
    "router",
    "oracle-gap",
    "retrievers",
    "soft-labels",
    "label-values",
    "training-corpus",
    "router-weights",
    "time",
    "storage",
)
LEVELS = range(1, 6)


def do(settings, materialise, *names):
    keys = [f"experiments/{name}" for name in names]
    return materialise(settings, select=automation.needed(automation.graph(settings), keys))


@pytest.fixture(scope="module")
def done(sample_project, tmp_path_factory, materialise_project):
    """A copy of the sample project with every experiment done; two encoders of random weights stand for MedCPT."""
    folder = tmp_path_factory.mktemp("experiments") / "copy"
    shutil.copytree(sample_project.folder, folder)
    for number, name in enumerate(("article", "query")):
        tiny_encoder(folder / name, seed=number)
    path = folder / "mog.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    pair = {"model": str(folder / "article"), "query_model": str(folder / "query"), "pooling": "cls", "device": "cpu"}
    values["experiments"] = {
        "k_r": [3, 8],
        "repeats": 1,
        "encoders": {"minilm": {"model": "all-MiniLM-L6-v2"}, "tiny": pair},
    }
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    settings = config.load(path)
    with pytest.MonkeyPatch.context() as patch:
        # The sample corpora have 15 to 17 labelled training questions each: one of them has enough.
        patch.setattr(labels, "FEWEST", 16)
        report = do(settings, materialise_project, *NAMES)
    assert report.failures == []
    store = Store(settings.home)
    artefacts = {name: store.read(f"experiments/{name}") for name in NAMES}
    found = {name: json.loads(a.path("findings.json").read_text(encoding="utf-8")) for name, a in artefacts.items()}
    scores = pd.read_parquet(store.read("scores").path("scores.parquet"))
    return SimpleNamespace(
        settings=settings,
        config=path,
        store=store,
        report=report,
        artefacts=artefacts,
        found=found,
        tables={name: pd.read_parquet(a.path("scores.parquet")) for name, a in artefacts.items()},
        scores=scores.set_index(["method", "measure"])["value"],
    )


def values(done, name, question_set, cell):
    """Value by measure of a cell."""
    table = done.tables[name]
    here = table[(table["question_set"] == question_set) & (table["cell"] == cell)]
    assert len(here) > 5
    return here.set_index("measure")["value"]


def assert_equals_method(found, done, method):
    expected = done.scores[method]
    shared = [measure for measure in found.index if measure in expected.index]
    assert {"ER", "ER@2000", "nDCG@10"} <= set(shared)
    # The same figures for every question; their mean may be added up in another order.
    np.testing.assert_allclose(found[shared], expected[shared], rtol=1e-12)


def cell(done, name, title):
    """A cell of an experiment, by question."""
    (only,) = [n for n in done.artefacts[name].names(title) if n.startswith(f"{title}-")]
    return pd.read_parquet(done.artefacts[name].path(only)).set_index("question")


def test_command_lists_every_experiment(done):
    result = CliRunner().invoke(main, ["experiment", "--config", str(done.config), "--json"])
    assert result.exit_code == 0, result.output
    listed = {row["name"]: row for row in json.loads(result.output)}
    assert set(NAMES) <= set(listed)
    assert {listed[name]["state"] for name in NAMES[1:]} == {"up to date"}
    assert "table 6" in listed["retrievers"]["asks"]


def test_three_chunks_in_the_mix_are_mog(done):
    assert done.settings.k_r == 3
    assert_equals_method(values(done, "k_r", "samples", "k_r = 3"), done, "mog")
    other = values(done, "k_r", "samples", "k_r = 8")
    assert (other != values(done, "k_r", "samples", "k_r = 3")).any()


def test_router_experiment_shows_the_figures_of_scores(done):
    table = done.tables["router"]
    levels = {"mog", "fixed-2", *(f"fused-{level}" for level in LEVELS)}
    graph = {"mogg", "mogg-uniform", *(f"hop-{hop}" for hop in range(5))}
    groups = {name: set(part["cell"]) for name, part in table.groupby("question_set")}
    assert groups == {
        "samples, levels": levels,
        "samples, sentence graph": graph,
        "samples, graph without router": {"fixed-2", "mogg-uniform"},
    }
    for name, cells in groups.items():
        for method in cells:
            assert_equals_method(values(done, "router", name, method), done, method)


def test_share_of_the_gap_follows_from_scores(done):
    (rows,) = done.found["oracle-gap"]["tables"].values()
    er = done.scores.xs("ER", level="measure")
    level = max(er[f"fixed-{level}"] for level in LEVELS)
    assert rows[0]["level"] == pytest.approx(level)
    assert rows[0]["gap"].startswith(f"{er['oracle'] - level:.3f} [")
    share = f"{(er['mog'] - level) / (er['oracle'] - level):.0%} ["
    assert rows[0]["closed"] == "the gap may be none" or rows[0]["closed"].startswith(share)


def test_bm25_and_the_configured_encoder_are_the_methods_of_scores(done):
    own = "all-MiniLM-L6-v2"
    for label, retriever, method in (
        ("MedRAG", "BM25", "fixed-2"),
        ("MoG", "BM25", "mog"),
        ("MedRAG", own, "dense-2"),
        ("MoG", own, "dense:mog"),
    ):
        assert_equals_method(values(done, "retrievers", f"samples, {label}", retriever), done, method)


def test_another_encoder_with_the_same_weights_finds_the_same_passages(done):
    for label in ("MedRAG", "MoG"):
        same, own = (cell(done, "retrievers", f"samples_{label}_by_{n}") for n in ("minilm", "all-MiniLM-L6-v2"))
        # Qdrant multiplies in another order: chunks whose cosines agree to six digits may change places.
        equal = np.isclose(same["ER"], own["ER"][same.index])
        assert equal.mean() > 0.9
        assert same["ER"].mean() > 0.3


def test_rrf_is_named_by_how_many_it_fuses(done):
    cells = list(dict.fromkeys(done.tables["retrievers"]["cell"]))
    assert cells == ["BM25", "all-MiniLM-L6-v2", "minilm", "tiny", "RRF-2", "RRF-3"]
    # The first of the encoders has the weights of the graph's own: with BM25 it is `hybrid`, up to ties.
    fused = values(done, "retrievers", "samples, MedRAG", "RRF-2")
    assert fused["ER"] == pytest.approx(done.scores["hybrid:fixed-2", "ER"], abs=0.03)


def test_questions_have_the_cache_of_the_query_model(done):
    chosen = done.settings.experiments.encoders["tiny"]
    tools = Tools(done.settings)
    rows = {}
    for name, one in (("chunks", chosen), ("questions", chosen.of_questions)):
        path = done.settings.home / "cache" / f"vectors-{Encoder(one).fingerprint}.sqlite"
        with closing(sqlite3.connect(path)) as cache:
            rows[name] = cache.execute("SELECT count(*) FROM vectors").fetchone()[0]
    asked = set(cell(done, "retrievers", "samples_MedRAG_by_tiny").index)
    corpora = Corpora.open(tools.store.read, done.settings, list(done.settings.corpora))
    assert rows["questions"] == len(asked) == 32
    assert 0 < rows["chunks"] <= corpora.layout.count(1)
    assert rows["chunks"] > 100


def test_encoder_of_random_weights_is_worse_than_a_trained_one(done):
    tiny, trained = (values(done, "retrievers", "samples, MedRAG", name)["ER"] for name in ("tiny", "minilm"))
    assert tiny < trained - 0.1


def test_nearest_is_brute_force_with_ties_to_the_smaller_number(monkeypatch):
    random = np.random.default_rng(3)
    vectors = random.normal(size=(40, 8))
    vectors[25:] = vectors[:15]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    queries = vectors[[3, 30, 7, 20]]
    products = np.round(queries.astype(np.float32) @ vectors.astype(np.float32).T, 6)
    expected = [sorted(range(40), key=lambda i, row=row: (-row[i], i))[:5] for row in products]
    for at_once in (1 << 26, 41):
        monkeypatch.setattr(retrievers, "_PRODUCTS", at_once)
        found, scores = retrievers.nearest(queries, vectors, 5)
        assert found.tolist() == expected
        assert found[0, :2].tolist() == [3, 28]
        assert scores[:, 0] == pytest.approx(1, abs=1e-2)
    found, scores = retrievers.nearest(queries, vectors[:3], 5)
    assert (found[:, 3:] == -1).all() and (found[:, :3] >= 0).all() and (scores[:, 3:] == 0).all()


def test_coarser_vectors_of_another_encoder_are_those_of_the_graph(done):
    tools = Tools(done.settings)
    corpora = Corpora.open(tools.store.read, done.settings, list(done.settings.corpora))
    encoder = tools.encoder
    lab = SimpleNamespace(progress=lambda total, what: nullcontext(lambda n: None))
    other = retrievers.OtherVectors(corpora, done.settings.experiments.encoders["minilm"], encoder.encode, lab)
    for level in (1, 3):
        vectors = np.concatenate([other.of(corpus, level) for corpus in range(3)])
        assert (vectors == corpora.vectors(level).rows(np.arange(len(vectors)))).all()
        assert len(vectors) == LevelChunks(corpora.layout, 5, corpora.starts).layout.count(level)


@pytest.mark.parametrize(
    ("name", "baseline", "cells"),
    [
        ("soft-labels", "embedding, trained on all", 3),
        ("label-values", "0.8/0.2", 2),
        ("training-corpus", "all", 2),
    ],
)
def test_router_trained_as_the_asset_does_gives_mog(done, name, baseline, cells):
    assert_equals_method(values(done, name, "samples", baseline), done, "mog")
    table = done.tables[name]
    here = table[(table["question_set"] == "samples") & (table["measure"] == "ER")].set_index("cell")
    assert len(here) == cells
    assert np.isnan(here.loc[baseline, "p"]) and here["p"].drop(baseline).between(0, 1).all()
    training = done.found[name]["tables"]["training"]
    assert len(training) == cells
    stored = done.store.read("router").manifest.counts
    assert training[0]["questions"] == stored["questions"] + stored["validation questions"]
    assert training[0]["best epoch"] == stored["best epoch"]
    assert len({row["validation loss"] for row in training}) > 1


def test_training_on_one_corpus_is_shown_by_corpus_of_the_evidence(done):
    table = done.tables["training-corpus"]
    parts = table[(table["measure"] == "ER") & (table["cell"] == "all")].set_index("question_set")["n"]
    corpora = ("garden", "workshop", "sky")
    assert set(parts.index) == {"samples", *(f"samples, evidence in {corpus}" for corpus in corpora)}
    assert parts["samples"] == sum(parts[f"samples, evidence in {corpus}"] for corpus in corpora) == 32
    counts = {
        r["trained on questions about"]: r["questions"] for r in done.found["training-corpus"]["tables"]["training"]
    }
    # Garden and sky have too few.
    assert list(counts) == ["all", "workshop"] and 16 <= counts["workshop"] < counts["all"] / 2


def test_weights_are_shares_and_levels_chosen_those_of_runs(done):
    weights, tests = done.found["router-weights"]["tables"].values()
    chosen = done.store.read("runs").manifest.info["levels chosen"]["samples, mog"]["test"]
    assert weights[0]["questions"] == "samples" and weights[0]["n"] == 32
    assert weights[0]["chosen"] == " / ".join(str(count) for count in chosen)
    means = np.array([[row[f"level {level}"] for level in LEVELS] for row in weights])
    assert ((means >= 0) & (means <= 1)).all()
    sizes = np.array([row["n"] for row in weights[1:]])
    assert sizes.sum() == 32 and len(tests) == len(sizes) > 1
    np.testing.assert_allclose(sizes @ means[1:] / 32, means[0], rtol=1e-6)


def test_time_has_a_row_for_every_number_of_levels_and_says_when_it_was_measured(done):
    ((title, rows),) = done.found["time"]["tables"].items()
    assert "measured when the experiment was done" in title
    levels = ["1 without router", *(str(level) for level in LEVELS)]
    assert [(row["retriever"], row["levels"]) for row in rows] == [(r, n) for r in ("bm25", "dense") for n in levels]
    assert all(row["retrieval, ms"] > 0 and row["questions"] == 32 for row in rows)
    without = [row for row in rows if "without" in row["levels"]]
    assert [row["router, ms"] for row in without] == [0, 0]
    assert [row["encoding the question, ms"] > 0 for row in without] == [False, True]


def test_storage_adds_up_to_the_files_on_disk(done):
    (rows,) = done.found["storage"]["tables"].values()
    size = {row["what"]: row["bytes"] for row in rows}
    folder = done.settings.home / "store"
    for level in LEVELS:
        files = (folder / "embeddings" / f"level_{level}").rglob("*.npy")
        assert size[f"vectors, level {level}"] == sum(file.stat().st_size for file in files) > 0
        files = (folder / "bm25" / f"level_{level}").rglob("counts*")
        assert size[f"term counts, level {level}"] == sum(file.stat().st_size for file in files) > 0
        assert size[f"Qdrant collection, level {level} (blocks on disk)"] > 0
    documents = [done.store.read("documents", corpus) for corpus in done.settings.corpora]
    tables = [pd.read_parquet(a.path(name)) for a in documents for name in a.names("bucket")]
    text = sum(len(value.encode()) for table in tables for key in ("title", "text") for value in table[key])
    assert size["text and titles, UTF-8"] == text
    vectors = sum(size[f"vectors, level {level}"] for level in LEVELS)
    (claim,) = done.found["storage"]["claims"]
    assert claim["because"].startswith(f"{(text + vectors) / text:.2f} times")
    assert claim["verdict"] == ("seen" if (text + vectors) / text <= 2.7 else "not seen")


def test_claims_are_decided_by_p_values(done):
    for name in NAMES:
        for claim in done.found[name]["claims"]:
            assert claim["verdict"] in ("seen", "not seen", "not testable here")
            assert claim["because"] and "Mix-of-Granularity" in claim["paper"]
    table = done.tables["k_r"]
    row = table[(table["cell"] == "k_r = 8") & (table["measure"] == "ER")].iloc[0]
    (claim,) = done.found["k_r"]["claims"]
    assert claim["verdict"] == ("not seen" if row["p"] < 0.05 and row["difference"] > 0 else "seen")
    assert f"{row['difference']:+.3f}" in claim["because"]
    if row["p"] >= 0.05:
        assert f"{row['detectable']:.3f} would have shown" in claim["because"]


def test_claim_is_seen_only_where_every_question_set_shows_it():
    both = over_sets("paper", "claim", {"a": (True, "p = 0.01"), "b": (False, "p = 0.4")})
    assert [(c.verdict, c.because) for c in both] == [("not seen", "a (seen): p = 0.01; b (not seen): p = 0.4")]
    assert over_sets("paper", "claim", {"a": (True, "x"), "b": (True, "y")})[0].verdict == "seen"
    assert over_sets("paper", "claim", {}) == []


def test_cells_of_an_interrupted_experiment_are_not_made_again(done, materialise_project, monkeypatch):
    chosen = done.settings.experiments.model_copy(update={"k_r": [3, 8, 16]})
    settings = done.settings.model_copy(update={"experiments": chosen})
    folder = done.store.folder("experiments/k_r")
    before = set(folder.glob("samples_k_r*"))
    assert len(before) == 2

    def stops(*_):
        raise RuntimeError("stopped after the last cell")

    with monkeypatch.context() as patch:
        patch.setattr(granularity, "score_rows", stops)
        report = do(settings, materialise_project, "k_r")
    assert "stopped after the last cell" in report.failures[0]
    made = set(folder.glob("samples_k_r*"))
    assert before < made and len(made) == 3
    report = do(settings, materialise_project, "k_r")
    assert report.failures == []
    (step,) = [step for step in report.steps if step["asset"] == "experiments/k_r"]
    assert step["seconds"] > 0 and "cells" not in step["recomputed"]
    assert set(folder.glob("samples_k_r*")) == made


def test_first_run_made_every_cell(done):
    made = {step["asset"]: step["recomputed"].get("cells", 0) for step in done.report.steps}
    assert made["experiments/k_r"] == 2
    assert made["experiments/retrievers"] == 12
    # Similarities, routers and rankings.
    assert made["experiments/soft-labels"] == 3 * 3
    assert made["experiments/time"] == 1
