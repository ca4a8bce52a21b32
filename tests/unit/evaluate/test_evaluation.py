"""Measures, intervals, tests, scores and plots."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_runs import made_scores, question, run_of
from shared import copy_folder

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.plots import MAX_BYTES
from mog_assets.build.tools import Tools
from mog_assets.evaluate import assets as evaluation_assets
from mog_assets.evaluate import plots
from mog_assets.evaluate.measures import boards as of_boards
from mog_assets.evaluate.measures import evaluate, headline_measures, measure_names
from mog_assets.evaluate.scores import COLUMNS, leaderboard, score
from mog_assets.evaluate.significance import by_document, holm
from mog_assets.index.chunk_assets import length_histogram
from mog_assets.index.corpora import Corpora
from mog_assets.resources.arrays import places
from mog_assets.resources.errors import ConfigError
from mog_assets.search.controls import gold_passages, random_passages
from mog_assets.search.methods import controls, named_methods
from mog_assets.serve import project as serving


def test_no_runs_give_an_empty_table_and_empty_scores():
    table = evaluate(run_of({}), {"set": [question("q", ("c", "d", 0, 1))]}, 3)
    assert table.empty
    assert set(measure_names(3)) <= set(table.columns)
    assert list(score(table, 3, 0, {}).columns) == list(COLUMNS)


def test_holm_by_hand():
    assert holm(np.array([0.04, 0.01, np.nan, 0.03, 0.9])) == pytest.approx(
        [0.09, 0.04, np.nan, 0.09, 0.9], nan_ok=True
    )
    assert holm(np.array([0.6, 0.7])) == pytest.approx([1, 1])
    assert np.isnan(holm(np.array([np.nan]))).all()


def each(values):
    """Every question on a document of its own."""
    return by_document(values, np.arange(len(values)))


def test_scores_compare_with_the_best_level_of_all_retrievers():
    table = made_scores()
    assert list(table.columns) == list(COLUMNS)
    er = table[table["measure"] == "ER"].set_index("method")
    assert set(er["baseline"]) == {"fixed-2"}
    assert np.isnan(er.loc["fixed-2", "p_vs_best_fixed"])
    assert er.loc["mog-paper", "p_vs_best_fixed"] == pytest.approx(5 / 10001)
    assert er.loc["hybrid:mog-paper", "p_vs_best_fixed"] == pytest.approx(5 / 10001)
    assert er.loc["fixed-1", "coverage"] == pytest.approx(39 / 40)
    assert (er["low"] <= er["value"]).all()
    assert (er["value"] <= er["high"]).all()
    assert (er["n"] == 40).all()


def test_leaderboard_is_sorted_and_shows_intervals():
    rows = leaderboard(made_scores(), ["ER", "MRR"])
    assert [row["method"] for row in rows][-2:] == ["fixed-2", "fixed-1"]
    assert rows[0]["p"] == "<0.001"
    assert rows[-2]["p"] == ""
    assert rows[0]["MRR"] == "1.000 [1.000, 1.000]"


@pytest.mark.whole
def test_plots_are_small_pngs(drawn):
    table = made_scores("a $strange$ <set>")
    pictures = [
        length_histogram(np.arange(1000), 2),
        plots.er_against_cost(table, "a $strange$ <set>"),
        plots.er_against_cost(table, "absent"),
    ]
    assert all(data.startswith(b"\x89PNG") and len(data) < MAX_BYTES for data in pictures)


# The graph over a tiny corpus

ANIMALS = ["heron", "otter", "newt", "badger", "kestrel", "adder"]
TEXT = (
    "The {0} rests at noon. A {0} eats early in the day. Its young leave after {1} weeks. Winter is hard for the {0}."
)


@pytest.fixture(scope="module")
def moor(tmp_path_factory, make_project, write_documents):
    """One corpus of seven documents with questions on six of them, materialised. Not to be changed."""
    folder = tmp_path_factory.mktemp("moor")
    documents = [(animal, TEXT.format(animal, weeks)) for weeks, animal in enumerate(ANIMALS, 3)]
    write_documents(folder / "moor.jsonl", [*documents, ("weather", "Fog is common. It lifts before ten.")])
    lines = []
    for animal, text in documents:
        asked = {
            "rest": ("train", "The"),
            "eat": ("train", "A "),
            "leave": ("train", "Its"),
            "suffer": ("dev", "Winter"),
        }
        for verb, (split, first) in asked.items():
            start = text.index(first)
            evidence = [{"corpus": "moor", "doc": animal, "start": start, "end": text.index(".", start) + 1}]
            question = f"When does the {animal} {verb}?"
            lines.append(
                json.dumps({"id": f"{animal} {verb}", "question": question, "split": split, "evidence": evidence})
            )
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    values = {
        "corpora": {"moor": {"path": "moor.jsonl"}},
        "question_sets": {
            "animals": {"path": "questions.jsonl", "corpora": ["moor"], "train": ["train"], "test": ["dev"]}
        },
        "levels": 2,
        "finest_chars": 50,
        "buckets": 2,
        "methods": ["fixed-1", "mog-paper", "oracle-paper"],
        "router": {"hidden": [8], "epochs": 3, "validation": 0.3},
    }
    project = make_project(folder, values)
    outcomes = bring_up_to_date(project.settings)
    assert all(outcome.built for outcome in outcomes.values())
    return SimpleNamespace(settings=project.settings, folder=folder, outcomes=outcomes)


@pytest.fixture
def copied(moor, tmp_path):
    """Settings of a copy of that project."""
    from mog_assets import config

    copy_folder(moor.folder, tmp_path / "moor")
    return config.load(tmp_path / "moor" / "mog.yaml")


def bring_up_to_date(settings, force=(), **replaced):
    """Materialise every artefact that is not up to date, in order; outcomes by asset."""
    tools = Tools(settings)
    recipes = plan.graph(settings) | replaced
    return {
        key: materialise(recipe, "moor" if recipe.partitioned else None, tools, recipes, force=key in force)
        for key, recipe in recipes.items()
        if not recipe.on_demand or key in force
    }


@pytest.mark.whole
@pytest.mark.full
def test_edit_of_a_document_without_labels_does_not_train_the_router_again(moor, copied):
    path = copied.corpora["moor"].path
    path.write_text(path.read_text(encoding="utf-8").replace("before ten", "before eleven"), encoding="utf-8")
    outcomes = bring_up_to_date(copied)
    assert outcomes["documents"].built and outcomes["soft_labels"].built
    before, now = moor.outcomes["router_paper"].artefact.manifest, outcomes["router_paper"].artefact.manifest
    # Its labels are the same, byte for byte. It only says of which documents that is.
    assert not outcomes["router_paper"].built
    assert now.info["measured"] != before.info["measured"]
    assert replace(now, info={**now.info, "measured": before.info["measured"]}) == before


@pytest.mark.whole
@pytest.mark.full
def test_edit_of_a_document_with_labels_can_train_the_router_again(copied):
    # Without its evidence a question has no label, and the router one question less.
    path = copied.corpora["moor"].path
    path.write_text("\n".join(path.read_text(encoding="utf-8").splitlines()[1:]), encoding="utf-8")
    outcomes = bring_up_to_date(copied)
    assert outcomes["router_paper"].built
    assert outcomes["router_paper"].artefact.manifest.info["router"]["training"]["animals"] == 15


@pytest.mark.whole
def test_forced_run_ranks_and_measures_again_and_gives_the_same(moor, copied):
    forced = [recipe.key for recipe in plan.graph(copied).values() if recipe.repeatable and not recipe.on_demand]
    assert set(forced) >= {"runs", "scores", "history"}
    # The file of questions has a new time, being a copy.
    bring_up_to_date(copied)
    outcomes = bring_up_to_date(copied, forced)
    assert {key for key, outcome in outcomes.items() if outcome.built} == set(forced)
    for key in ("runs", "scores"):
        before, now = moor.outcomes[key].artefact.manifest, outcomes[key].artefact.manifest
        assert now.version == before.version and now.created > before.created
        assert now.info["recomputed"] == before.info["recomputed"] and sum(now.info["recomputed"].values()) > 0
    assert outcomes["runs"].faults == {}
    assert outcomes["history"].artefact.manifest.counts["evaluations"] == 2


@pytest.mark.whole
def test_forced_run_that_ranks_otherwise_is_flagged(copied, monkeypatch):
    from mog_assets.evaluate import runs

    def best(passages):
        return passages.at(places(passages.question) == 0)

    cut = runs.cut
    monkeypatch.setattr(runs, "cut", lambda passages, k: cut(best(passages), k))
    outcomes = bring_up_to_date(copied, ["runs"])
    assert list(outcomes["runs"].faults) == ["same_again"]
    # Three methods and two controls for six questions; each has one piece of evidence, which stays the best.
    assert "of 30 rankings, 24 have other passages and 0 other scores" in outcomes["runs"].faults["same_again"]
    monkeypatch.setattr(runs, "cut", lambda passages, k: replace(best(passages), score=best(passages).score + 1))
    again = bring_up_to_date(copied, ["runs"])["runs"]
    assert "of 30 rankings, 0 have other passages and 30 other scores" in again.faults["same_again"]


@pytest.mark.whole
def test_forced_run_that_measures_what_cannot_be_is_refused(copied):
    recipe = plan.graph(copied)["scores"]

    def build(work, value):
        recipe.build(work)
        scores = pd.read_parquet(work.draft.path("scores.parquet"))
        scores.loc[scores["measure"] == "tokens_to_answer", ["low", "value", "high"]] = value
        with work.writing(work.draft.path("scores.parquet")) as temporary:
            scores.to_parquet(temporary)

    for value, fault in ((1.0, None), (2000.0, None), (0.5, "tokens_to_answer of gold is 0.5"), (2000.5, "is 2000.5")):
        stand_in = replace(recipe, build=lambda work, value=value: build(work, value), version=str(value))
        outcome = materialise(stand_in, None, Tools(copied), plan.graph(copied) | {"scores": stand_in})
        assert list(outcome.faults) == (["measures_in_range"] if fault else [])
        assert not fault or fault in outcome.faults["measures_in_range"]


# Controls


def boards(project):
    """The leaderboard of every question set, as rows by method, best first."""
    artefact = Tools(project.settings).store.read("scores")
    scores = pd.read_parquet(artefact.path("scores.parquet"))
    names = headline_measures(project.settings.k)
    return scores, {
        board.question_set: {row["method"]: row for row in leaderboard(own, names)} for board, own in of_boards(scores)
    }


def test_gold_leads_every_leaderboard_and_random_ends_it(sample_project):
    scores, found = boards(sample_project)
    assert set(found) == set(sample_project.settings.question_sets)
    for name, rows in found.items():
        values = scores[scores["question_set"] == name].pivot(index="method", columns="measure", values="value")
        assert len(rows) == len(named_methods(sample_project.settings)) + 2
        assert (list(rows)[0], list(rows)[-1]) == ("gold", "random")
        for measure in ("ER", "ER@1000", "ER@8000", "hit@2", "nDCG@10"):
            assert rows["gold"][measure] == "1.000 [1.000, 1.000]"
            assert values.loc["random", measure] < values[measure].drop("random").min()
        assert rows["gold"]["p"] == rows["random"]["p"] == ""
        tokens = values["tokens_to_answer"]
        assert tokens.idxmin() == "gold" and tokens.idxmax() == "random"


@pytest.fixture
def few(tmp_path, make_project):
    """Settings of a project with test questions."""
    values = {
        "corpora": {"c": {"path": "c"}},
        "question_sets": {"set": {"path": "set.jsonl", "corpora": ["c"], "test": ["test"]}},
        "levels": 2,
    }
    return make_project(tmp_path, values).settings


@pytest.mark.parts("named1", "named2")
@pytest.mark.parametrize("named", [None, ["fused-paper-1"], ["random", "fused-paper-1", "gold", "gold"]])
def test_controls_are_compared_whatever_methods_are_named(few, named):
    settings = few.model_copy(update={"methods": named})
    names = [method.name for method in evaluation_assets.methods_of(settings)]
    assert (names[0], names[-1], len(names)) == ("gold", "random", len(set(names)))


@pytest.mark.parametrize("control", controls())
def test_no_control_answers_what_people_ask(few, control):
    with pytest.raises(ConfigError, match=f"method: expected a method that searches .* got '{control}'"):
        serving.open(few, ["c"], keep=False).search("Where do otters sleep?", method=control, k=2)


def sample_corpora(project, **changes):
    settings = project.settings.model_copy(update=changes)
    return Corpora.open(Tools(settings).store.read, settings, list(settings.corpora))


def drawn(passages, number):
    """The passages of a question, in order."""
    own = passages.at(passages.question == number)
    return list(zip(own.rank.tolist(), own.document.tolist(), own.start.tolist(), own.end.tolist(), strict=True))


def test_random_passages_follow_from_seed_and_question_alone(sample_project):
    corpora = sample_corpora(sample_project)
    asked = [question(name) for name in ("a", "b", "c")]
    passages = random_passages(asked, corpora)
    again = random_passages([asked[2], asked[0]], sample_corpora(sample_project))
    assert [drawn(again, 0), drawn(again, 1)] == [drawn(passages, 2), drawn(passages, 0)]
    assert drawn(passages, 0) != drawn(passages, 1)
    other = random_passages(asked, sample_corpora(sample_project, seed=sample_project.settings.seed + 1))
    assert drawn(other, 0) != drawn(passages, 0)


def test_random_passages_are_different_chunks_of_level_2_of_all_corpora(sample_project):
    corpora = sample_corpora(sample_project)
    passages = random_passages([question(f"q{i}") for i in range(40)], corpora)
    layout = corpora.layout
    chunks = set(zip(*(c.tolist() for c in layout.chunk_spans(np.arange(layout.count(2)), 2)), strict=True))
    for number in range(40):
        own = [place[1:] for place in drawn(passages, number)]
        assert len(set(own)) == len(own) == 50 and set(own) <= chunks
    # Each chunk is drawn for about as many questions as any other.
    times = pd.Series([place[1:] for n in range(40) for place in drawn(passages, n)]).value_counts()
    assert set(times.index) == chunks and times.max() < 40
    # One level of long chunks is all there is.
    single = random_passages([question("q")], sample_corpora(sample_project, levels=1))
    assert set(single.level) == {1}


def test_gold_passages_are_the_pieces_of_evidence_in_their_order(sample_project):
    corpora = sample_corpora(sample_project)
    (first, *_, last) = corpora.position
    asked = [question("none"), question("q", (*last, 30, 40), (*first, 5, 9), (*last, 35, 50), (*last, 0, 10))]
    passages = gold_passages(asked, corpora)
    end = len(corpora.position) - 1
    assert drawn(passages, 1) == [(0, end, 30, 50), (1, 0, 5, 9), (2, end, 0, 10)]
    assert drawn(passages, 0) == []


def test_tokens_of_spans_that_tile_a_text_are_those_of_the_text(sample_project):
    corpora = sample_corpora(sample_project)
    cuts = np.array([0, 7, 7, 8, 60, 61, 150])
    document = np.full(len(cuts) - 1, 3)
    parts = corpora.tokens_in(document, cuts[:-1], cuts[1:])
    text = corpora.texts([3])[3][1]
    assert parts.sum() == len(re.findall(r"\w+|[^\w\s]", text[:150]))
    assert parts[1] == 0
    # Documents that are asked for later stand between those that are known.
    later = corpora.tokens_in(np.array([5, 1, 3]), np.zeros(3, np.int64), np.array([150, 150, 150]))
    assert later[2] == parts.sum()
    assert len(corpora.tokens_in(document[:0], cuts[:0], cuts[:0])) == 0
