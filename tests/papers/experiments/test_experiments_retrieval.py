"""The experiments on retrieval, all done once on a copy of the sample project; figures are those of `scores`."""

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pandas as pd
import pytest
import yaml
from shared import called, copy_folder
from tiny_encoder import tiny_encoder

from mog_assets import config
from mog_assets.build import automation, markdown, plan
from mog_assets.build.materialising import materialise
from mog_assets.build.names import Names
from mog_assets.build.tools import Tools
from mog_assets.evaluate.measures import headline_measures
from mog_assets.evaluate.significance import by_document, ends, resampled_means
from mog_assets.papers.experiments import results
from mog_assets.papers.experiments.assets import PREFIX, build_experiment, findings, offered, recipes
from mog_assets.papers.experiments.conclusions import denied, over_sets, turned
from mog_assets.papers.experiments.lab import Claim, Findings, NothingToMeasure, Verdict, equivalence, greater
from mog_assets.papers.experiments.settings import ExperimentSettings
from mog_assets.papers.mix_of_granularity.experiments import granularity, label_cells, labels
from mog_assets.registry import EXPERIMENTS
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store, digest

# Every experiment is run for all.
pytestmark = pytest.mark.full

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
    return materialise(settings, select=plan.needed(plan.graph(settings), keys))


@pytest.fixture(scope="module")
def done(sample_project, tmp_path_factory, materialise_project):
    """A copy of the sample project with every experiment done; two encoders of random weights stand for MedCPT."""
    folder = tmp_path_factory.mktemp("experiments") / "copy"
    copy_folder(sample_project.folder, folder)
    for number, name in enumerate(("article", "query")):
        tiny_encoder(folder / name, seed=number)
    path = folder / "mog.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    pair = {"model": str(folder / "article"), "query_model": str(folder / "query"), "pooling": "cls", "device": "cpu"}
    values["experiments"] = {
        "k_r": [3, 8],
        "repeats": 1,
        "encoders": {"minilm": {"model": "all-MiniLM-L6-v2", "levels": "pooled"}, "tiny": pair},
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
    result = called("experiment", "--config", done.config, "--json")
    assert result.exit_code == 0, result.output
    listed = {row["name"]: row for row in json.loads(result.output)}
    assert set(NAMES) <= set(listed)
    assert {listed[name]["state"] for name in NAMES[1:]} == {"up to date"}
    assert "table 6" in listed["retrievers"]["asks"]


def test_three_chunks_in_the_mix_are_mog(done):
    assert done.settings.k_r == 3
    assert_equals_method(values(done, "k_r", "samples", "k_r = 3"), done, "mog-paper")
    other = values(done, "k_r", "samples", "k_r = 8")
    assert (other != values(done, "k_r", "samples", "k_r = 3")).any()


def test_router_experiment_shows_the_figures_of_scores(done):
    table = done.tables["router"]
    levels = {"mog-paper", "fixed-2", *(f"fused-paper-{level}" for level in LEVELS)}
    graph = {"mogg-paper", "mogg-uniform", *(f"hop-{hop}" for hop in range(5))}
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
    assert rows[0]["gap"].startswith(f"{er['oracle-paper'] - level:.3f} [")
    share = f"{(er['mog-paper'] - level) / (er['oracle-paper'] - level):.0%} ["
    assert rows[0]["closed"] == "the gap may be zero" or rows[0]["closed"].startswith(share)


def test_bm25_and_the_configured_encoder_are_the_methods_of_scores(done):
    own = "all-MiniLM-L6-v2"
    for label, retriever, method in (
        ("MedRAG", "BM25", "fixed-2"),
        ("MoG", "BM25", "mog-paper"),
        ("MedRAG", own, "dense-2"),
        ("MoG", own, "dense:mog-paper"),
    ):
        assert_equals_method(values(done, "retrievers", f"samples, {label}", retriever), done, method)


@pytest.mark.parametrize(
    ("name", "baseline", "cells"),
    [
        ("soft-labels", "embedding, trained on all", 3),
        ("label-values", "0.8/0.2", 2),
        ("training-corpus", "all", 3),
    ],
)
def test_router_trained_as_the_asset_does_gives_mog(done, name, baseline, cells):
    assert_equals_method(values(done, name, "samples", baseline), done, "mog-paper")
    table = done.tables[name]
    here = table[(table["question_set"] == "samples") & (table["measure"] == "ER")].set_index("cell")
    assert len(here) == cells
    assert np.isnan(here.loc[baseline, "p"]) and here["p"].drop(baseline).between(0, 1).all()
    training = done.found[name]["tables"]["training"]
    assert len(training) == cells
    stored = done.store.read("router_paper").manifest.counts
    assert training[0]["questions"] == stored["questions"] + stored["validation questions"]
    assert training[0]["best epoch"] == stored["best epoch"]
    assert len({row["validation loss"] for row in training}) > 1


def test_weights_are_shares_and_every_question_chooses_a_level(done):
    weights, tests = done.found["router-weights"]["tables"].values()
    assert weights[0]["questions"] == "samples" and weights[0]["n"] == 32
    assert sum(map(int, weights[0]["chosen"].split(" / "))) == 32
    means = np.array([[row[f"level {level}"] for level in LEVELS] for row in weights])
    assert ((means >= 0) & (means <= 1)).all()
    sizes = np.array([row["n"] for row in weights[1:]])
    assert sizes.sum() == 32 and len(sizes) > 1
    # Each pair of kinds once.
    assert len({row["questions"] for row in tests}) == len(tests) == len(sizes) * (len(sizes) - 1) / 2
    np.testing.assert_allclose(sizes @ means[1:] / 32, means[0], rtol=1e-6)


def test_storage_adds_up_to_the_files_on_disk(done):
    (rows,) = done.found["storage"]["tables"].values()
    size = {row["what"]: row["bytes"] for row in rows}
    folder = done.settings.home / "store"
    for level in LEVELS:
        files = (folder / "embeddings" / f"level_{level}").rglob("*.npy")
        assert size[f"vectors, level {level}"] == sum(file.stat().st_size for file in files) > 0
    files = (folder / "bm25" / "level_1").rglob("counts*")
    assert size["term counts of level 1"] == sum(file.stat().st_size for file in files) > 0
    documents = [done.store.read("documents", corpus) for corpus in done.settings.corpora]
    tables = [pd.read_parquet(a.path(name)) for a in documents for name in a.names("bucket")]
    text = sum(len(value.encode()) for table in tables for key in ("title", "text") for value in table[key])
    assert size["text and titles, UTF-8"] == text
    vectors = sum(size[f"vectors, level {level}"] for level in LEVELS)
    (claim,) = done.found["storage"]["claims"]
    assert claim["because"].startswith(f"{(text + vectors) / text:.2f} times")
    assert claim["verdict"] == ("seen" if (text + vectors) / text <= 2.7 else "not seen")


def test_claims_stand_with_the_figures_that_decide_them(done):
    for name in NAMES:
        for claim in done.found[name]["claims"]:
            assert claim["verdict"] in get_args(Verdict)
            assert claim["because"] and "Mix-of-Granularity" in claim["paper"]
    table = done.tables["k_r"]
    row = table[(table["cell"] == "k_r = 8") & (table["measure"] == "ER")].iloc[0]
    better, as_well = done.found["k_r"]["claims"]
    assert (better["verdict"], as_well["verdict"]) == (greater(row), equivalence(row))
    assert f"{row['difference']:+.3f}" in better["because"] and f"{row['difference']:+.3f}" in as_well["because"]
    pairs = done.found["soft-labels"]["tables"]["samples: methods on the same training questions, two by two (ER)"]
    sound = next(c for c in done.found["soft-labels"]["claims"] if "across the board: no other" in c["claim"])
    others = [row["difference"] for row in pairs if row["against"].startswith("embedding,")]
    assert len(pairs) == 3 and len(others) == 2 and all(figures in sound["because"] for figures in others)


def test_claim_is_seen_only_where_every_question_set_shows_it():
    both = over_sets("paper", "claim", {"a": ("seen", "p = 0.01"), "b": ("not seen", "p = 0.4")})
    assert [(c.verdict, c.because) for c in both] == [("not seen", "a (seen): p = 0.01; b (not seen): p = 0.4")]
    assert over_sets("paper", "claim", {"a": ("seen", "x"), "b": ("undecided", "y")})[0].verdict == "undecided"
    assert over_sets("paper", "claim", {"a": ("seen", "x"), "b": ("seen", "y")})[0].verdict == "seen"
    assert over_sets("paper", "claim", {}) == []


def cells_of(means, n=400, spread=0.2, shared=0.3, seed=5):
    """A cell of n questions for each name, with about these means of ER."""
    random = np.random.default_rng(seed)
    level, names = shared * random.normal(size=n), [f"q{i}" for i in range(n)]
    return [
        pd.DataFrame(
            {"question": names, "document": names, "ER": level + mean + spread * random.normal(size=n)}
        ).assign(cell=name)
        for name, mean in means.items()
    ]


def test_baseline_is_better_where_a_row_turned_is():
    (row,) = labels._pairwise("set", cells_of({"a": 0.5, "b": 0.3}), [("a", "b")], 0)
    assert (greater(row), greater(turned(row))) == ("not seen", "seen")
    back = turned(turned(row))
    assert back.equals(row) and turned(row)["difference_low"] < turned(row)["difference"]
    assert [denied(v) for v in ("seen", "not seen", "undecided")] == ["not seen", "seen", "undecided"]


def test_pairs_have_one_family():
    cells = cells_of({"a": 0.5, "b": 0.475, "c": 0.5, "d": 0.52})
    (alone,) = labels._pairwise("set", cells, [("a", "b")], 0)
    rows = labels._pairwise("set", cells, [("a", "b"), ("a", "c"), ("c", "d")], 0)
    assert [(row["cell"], row["against"]) for row in rows] == [("b", "a"), ("c", "a"), ("d", "c")]
    assert rows[0]["difference"] == alone["difference"] == pytest.approx(cells[1]["ER"].mean() - cells[0]["ER"].mean())
    assert alone["p"] < rows[0]["p"] <= 3 * alone["p"] + 1e-12


@pytest.mark.parametrize(
    ("first", "second", "n", "verdict"),
    [
        ((0.5, 0.4), (0.4, 0.5), 400, "seen"),
        ((0.5, 0.4), (0.5, 0.4), 400, "not seen"),
        ((0.5, 0.5), (0.5, 0.5), 400, "undecided"),
        ((0.5, 0.4), (0.4, 0.5), 2, "undecided"),
    ],
)
def test_no_best_labels_needs_each_method_beaten_somewhere(first, second, n, verdict):
    rows = []
    for number, (one, other) in enumerate((first, second)):
        cells = cells_of({"embedding, trained on all": one, "tfidf, trained on all": other}, n, seed=number)
        rows += labels._pairwise(f"set {number}", cells, [tuple(c["cell"].iloc[0] for c in cells)], 0)
    claim = labels._no_best("paper", ["embedding", "tfidf"], rows)
    assert claim.verdict == verdict
    assert ("set 1" in claim.because) == (verdict in ("seen", "not seen"))


def lab_of_weights(**sets):
    """A lab of question sets: for each kind of question, for how many questions the router chooses each level."""
    questions, weights = {}, {}
    for name, kinds in sets.items():
        questions[name] = [
            SimpleNamespace(kind=kind, document=f"{kind} {i}")
            for kind, counts in kinds.items()
            for i in range(sum(counts))
        ]
        chosen = np.concatenate([np.repeat(np.arange(len(c)), c) for c in kinds.values()])
        weights[name] = np.full((len(chosen), 3), 0.1) + 0.6 * np.eye(3)[chosen]
    return SimpleNamespace(seed=0, tested=lambda: questions, retrieval=weights.get)


@pytest.fixture
def weights_known(monkeypatch):
    monkeypatch.setattr(labels.ranker, "router_weights", lambda retrieval, kind: retrieval)


def test_kinds_are_the_question_sets_of_figure_4_where_a_set_has_several(weights_known):
    lab = lab_of_weights(mirage={"pubmedqa": (8, 0, 92), "bioasq": (60, 20, 20)})
    found = labels.router_weights(lab)
    (row,) = found.tables["do they choose alike? total variation distance, permutation test over documents, Holm"]
    assert row["questions"] == "mirage: pubmedqa against mirage: bioasq"
    assert row["distance"] == pytest.approx(0.72)
    # One pair is one test.
    assert float(row["p"].lstrip("<= ")) <= 1e-3
    verdicts = {claim.claim: claim for claim in found.claims}
    assert verdicts["Question sets get different levels."].verdict == "seen"
    finest = verdicts["On PubMedQA the finest level is chosen most often."]
    assert finest.verdict == "not seen" and "8 questions, level 3 for 92" in finest.because


def test_levels_are_not_said_to_differ_or_be_the_finest_without_questions_that_show_it(weights_known):
    found = labels.router_weights(lab_of_weights(pubmedqa={"a": (6, 4, 0)}, other={"b": (5, 5, 0)}))
    assert [claim.verdict for claim in found.claims[1:]] == ["undecided", "undecided"]
    found = labels.router_weights(lab_of_weights(other={"b": (5, 5, 0)}))
    assert [claim.verdict for claim in found.claims[1:]] == ["not testable here", "not testable here"]


@pytest.fixture
def scores_of(done, tmp_path):
    """A lab whose asset `scores` has some figures of ER; every other measure is 0."""

    def make(by_method):
        cells = cells_of(by_method)
        for cell in cells:
            others = [name for name in headline_measures(done.settings.k) if name != "ER"]
            cell[others] = 0.0
        table = pd.concat(cells).rename(columns={"cell": "method"}).assign(question_set="set")
        table.to_parquet(tmp_path / "per_question.parquet")
        stored = SimpleNamespace(path=lambda name: tmp_path / name)
        return SimpleNamespace(settings=done.settings, seed=0, read=lambda key, corpus: stored), table

    return make


def test_router_is_not_said_to_be_like_or_better_without_questions_that_show_it(scores_of):
    base = {"mog-paper": 0.5, "fixed-2": 0.4, "mogg-paper": 0.5, "mogg-uniform": 0.41}
    lab, _ = scores_of(base | {f"fused-paper-{level}": 0.5 for level in LEVELS})
    claims = {claim.claim: claim for claim in granularity.router(lab).claims}
    assert claims["MoG finds more than MedRAG, which has one level."].verdict == "seen"
    assert claims["MoGG is better with its router than without."].verdict == "seen"
    # An interval of some ±.03 about .01: neither within ±.02 nor outside.
    assert claims["MoGG without its router is as good as MedRAG."].verdict == "undecided"
    equal = next(claim for name, claim in claims.items() if "equal weights" in name)
    assert equal.verdict in ("undecided", "not seen") and equal.paper.startswith("Ours")


def test_best_level_is_chosen_anew_in_every_resample(scores_of):
    lab, table = scores_of({"fixed-1": 0.4, "fixed-2": 0.4, "mog-paper": 0.5, "oracle-paper": 0.7})
    ((row,),) = granularity.oracle_gap(lab).tables.values()
    wide = table.pivot(index="question", columns="method", values="ER")
    totals = by_document(wide.to_numpy(), wide.index.to_numpy(str))
    means = resampled_means(totals, 2000, 0)
    drawn = pd.DataFrame(means, columns=wide.columns)
    best = drawn[["fixed-1", "fixed-2"]].max(axis=1)
    low, high = ends((drawn["oracle-paper"] - best).to_numpy(), totals)
    assert row["gap"].endswith(f" [{low:.3f}, {high:.3f}]")
    low, high = ends(((drawn["mog-paper"] - best) / (drawn["oracle-paper"] - best)).to_numpy(), totals)
    assert row["closed"].endswith(f" [{low:.0%}, {high:.0%}]")
    assert (best > drawn[row["best level"]]).any()


@pytest.mark.parametrize(
    "name", ["k_r", "retrievers", "soft-labels", "label-values", "training-corpus", "router-weights"]
)
def test_experiment_without_questions_that_have_evidence_says_so(name):
    experiment = EXPERIMENTS[name]
    with pytest.raises(NothingToMeasure, match="has evidence"):
        experiment.run(SimpleNamespace(tested=dict))


def test_training_without_questions_is_refused_by_name(done):
    lab = SimpleNamespace(trained_on=dict, settings=done.settings)
    with pytest.raises(MogError, match="question_sets: expected training questions"):
        label_cells.soft_labels_of(lab, "embedding", (0.8, 0.2))
    with pytest.raises(MogError, match="question_sets: expected training questions"):
        label_cells.trained_router(lab, "all", pd.DataFrame(columns=["text", "label", "group"]))


def test_order_and_files_of_encoders_make_retrievers_out_of_date(done, tmp_path):
    tiny_encoder(tmp_path / "local", seed=2)

    def options(encoders):
        chosen = done.settings.model_copy(
            update={"experiments": ExperimentSettings.model_validate({"encoders": encoders})}
        )
        (recipe,) = [r for r in recipes(chosen) if r.key == "experiments/retrievers"]
        return digest(recipe.settings(Tools(chosen)))

    minilm, local = {"model": "all-MiniLM-L6-v2"}, {"model": str(tmp_path / "local")}
    first = options({"a": minilm, "b": local})
    assert first == options({"a": minilm | {"device": "cpu"}, "b": local})
    assert first != options({"b": local, "a": minilm})
    assert first != options({"a": minilm | {"levels": "pooled"}, "b": local})
    with (tmp_path / "local" / "config.json").open("a") as file:
        file.write(" ")
    assert first != options({"a": minilm, "b": local})
    # As the model of the questions as well.
    asked = minilm | {"query_model": str(tmp_path / "local")}
    first = options({"a": asked})
    (tmp_path / "local" / "vocab.extra").write_text("new", encoding="utf-8")
    assert first != options({"a": asked})


# The frame of the experiments: made on demand, kept cell by cell, told as one page


KEY = f"{PREFIX}k_r"


def made_alone(project, materialise_project, values):
    """Does `k_r` with these values; returns how many cells were made."""
    import yaml

    raw = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    raw["experiments"] = {"k_r": values}
    project.config.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    settings = config.load(project.config)
    recipes = plan.graph(settings)
    report = materialise_project(settings, select=plan.needed(recipes, [KEY]))
    assert report.failures == []
    assert {step["asset"] for step in report.steps} <= {KEY}, "nothing else was stale"
    (step,) = report.steps
    return step["recomputed"].get("cells", 0)


def test_mog_run_and_automation_make_no_experiment(sample_project):
    recipes = plan.graph(sample_project.settings)
    keys = [key for key in recipes if key.startswith(PREFIX)]
    assert keys == [f"{PREFIX}{experiment.name}" for experiment in offered(sample_project.settings)] and KEY in keys
    store = Store(sample_project.home)
    assert not any(store.find(key) for key in keys)
    assert not set(keys) & {step["asset"] for step in sample_project.report.steps}
    assert all(automation._condition(recipes[key], recipes, Names()) is None for key in keys)
    definitions = automation.build(sample_project.settings)
    nightly = definitions.resolve_job_def("evaluate").asset_layer.selected_asset_keys
    on_demand = definitions.resolve_job_def("experiments").asset_layer.selected_asset_keys
    assert {"/".join(key.path) for key in on_demand} == set(keys)
    assert not nightly & on_demand


def test_a_further_value_costs_one_cell_and_a_repeated_one_none(copied_project, materialise_project):
    assert made_alone(copied_project, materialise_project, [3, 8]) == 2
    assert made_alone(copied_project, materialise_project, [3, 8, 16]) == 1
    assert made_alone(copied_project, materialise_project, [3, 16]) == 0


@pytest.mark.full
def test_cells_of_an_interrupted_experiment_are_kept(copied_project, materialise_project, monkeypatch):
    from mog_assets.papers.mix_of_granularity.ranker import Ranker

    weighted, asked = Ranker.weighted, []

    def failing(self, *arguments):
        asked.append(self.k_r)
        if self.k_r == 16:
            raise KeyboardInterrupt
        return weighted(self, *arguments)

    monkeypatch.setattr(Ranker, "weighted", failing)
    with pytest.raises(BaseException):  # noqa: B017  # however Dagster hands the interrupt on
        made_alone(copied_project, materialise_project, [3, 8, 16])
    assert asked == [3, 8, 16]
    assert Store(copied_project.home).find(KEY) is None
    monkeypatch.setattr(Ranker, "weighted", weighted)
    assert made_alone(copied_project, materialise_project, [3, 8, 16]) == 1


def test_mog_experiment_lists_does_and_tells(copied_project):
    listed = json.loads(called("experiment", "--json", "--config", copied_project.config).stdout)
    assert {row["name"]: row["state"] for row in listed}["k_r"] == "never done"
    shown = called("experiment", "k_r", "--config", copied_project.config)
    assert shown.exit_code == 0 and "k_r = 32" in shown.stdout and "figure 5" in shown.stdout
    listed = json.loads(called("experiment", "--json", "--config", copied_project.config).stdout)
    assert {row["name"]: row["state"] for row in listed}["k_r"] == "up to date"
    to = copied_project.folder / "docs" / "results.md"
    assert called("results", copied_project.config, "--to", to).exit_code == 0
    page = to.read_text(encoding="utf-8")
    told = json.loads(called("experiment", "k_r", "--json", "--config", copied_project.config).stdout)[0]
    for rows in told["tables"].values():
        for row in rows:
            assert row["ER"] in page
    assert all(claim["because"] in page for claim in told["claims"]) and told["claims"]


def test_experiment_that_can_ask_nothing_says_so_and_fails_nothing(copied_project):
    (asked,) = [found for found in offered(copied_project.settings) if found.name == "router"]

    def run(lab):
        raise NothingToMeasure("no question")

    tools, recipes = Tools(copied_project.settings), plan.graph(copied_project.settings)
    recipe = replace(recipes[f"{PREFIX}router"], build=partial(build_experiment, replace(asked, run=run)))
    assert materialise(recipe, None, tools, recipes).built
    assert findings(tools.store, "router").tables == {"questions": [{"asked": "none", "because": "no question"}]}


def test_unknown_experiment_is_named(sample_project):
    found = called("experiment", "kr", "--config", sample_project.config)
    assert found.exit_code == 2 and "k_r" in found.stderr and "'kr'" in found.stderr


@pytest.mark.full
def test_results_are_not_told_of_another_configuration(copied_project):
    import yaml

    config = copied_project.config
    assert called("experiment", "router", "--config", config).exit_code == 0
    assert called("results", config).exit_code == 0
    raw = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))
    copied_project.config.write_text(yaml.safe_dump(raw | {"seed": 7}, sort_keys=False), encoding="utf-8")
    found = called("results", config)
    assert found.exit_code == 1 and "mog experiment router" in found.stderr


def alike_row(low, high):
    return {"difference": (low + high) / 2, "difference_low": low, "difference_high": high, "p": 0.5, "documents": 100}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-0.01, 0.02, "seen"), (0.001, 0.004, "seen"), (0.03, 0.05, "not seen"), (-0.3, -0.1, "not seen")]
    + [(-0.3, 0.1, "undecided"), (0.01, 0.03, "undecided")],
)
def test_likeness_is_decided_by_the_interval_and_not_by_the_want_of_significance(low, high, verdict):
    assert equivalence(alike_row(low, high)) == verdict
    assert equivalence(alike_row(low, high) | {"documents": 5}) == "undecided"


def test_better_is_seen_ruled_out_or_undecided():
    assert greater(alike_row(0.01, 0.05) | {"p": 0.01}) == "seen"
    assert greater(alike_row(-0.05, 0.01)) == "not seen"
    assert greater(alike_row(-0.05, -0.01) | {"p": 0.01}) == "not seen"
    assert greater(alike_row(-0.05, 0.2)) == "undecided"


def test_tables_have_the_columns_of_every_row_and_make_no_link_or_picture():
    lines = markdown.table([{"a": "![x](http://example.org/x.png)"}, {"a": "[0.1, 0.2]", "b": "y" * 9}], 5).splitlines()
    assert lines[0] == "| a | b |" and lines[3] == "| [0.1… | yyyy… |"
    assert "](" not in markdown.table([{"a": "![x](http://example.org/x.png)"}])
    assert "![" not in markdown.table([{"a": "![x](http://example.org/x.png)"}])


def test_results_without_experiments_say_what_to_do(sample_project):
    found = called("results", sample_project.config)
    assert found.exit_code == 1 and "mog experiment --all" in found.stderr


def test_results_put_projects_side_by_side_and_break_out_of_no_cell():
    def told(verdict):
        claim = Claim("A paper, table 1", "More is better.", verdict, "by 3 | 4 <b>")
        rows = [{"cell": "a | b", "ER": 0.5}, {"cell": "<script>"}]
        return results.StoredFindings.of(
            "x", "Title", "What?", {"seed": "0"}, Findings(tables={"T": rows}, claims=[claim])
        )

    projects = [results.ProjectResults("one", [told("seen")] * 2), results.ProjectResults("two", [told("not seen")])]
    page = results.markdown(projects, "mog results one two")
    line = next(line for line in page.splitlines() if line.startswith("| A paper, table 1"))
    seen = "seen: by 3 \\| 4 &lt;b>"
    assert line == f"| A paper, table 1 | More is better. | {seen}; {seen} | not {seen} |"
    assert page.count("**one**: seed 0") == 1
    assert "| a \\| b | 0.5 |" in page and "| &lt;script> |  |" in page and "<script" not in page
    assert page.count("## Title") == 1 and page.count("**one: T**") == 2 and "**two: T**" in page
