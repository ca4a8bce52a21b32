"""The history of scores, and its alarm."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from by_document import EFFECTS, measured
from made_runs import KINDS, made_scores, question, run_of
from shared import called, one_line

from mog_assets.build.materialising import materialise
from mog_assets.build.plots import MAX_BYTES
from mog_assets.build.recipe import Recipe
from mog_assets.build.tools import Tools
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.scores import score
from mog_assets.plugins.report import assets, history, plots
from mog_assets.plugins.report.comparing import side_by_side
from mog_assets.plugins.report.history_assets import configuration


def dated(table: pd.DataFrame) -> pd.DataFrame:
    """The history of two evaluations, the second with a drop of every method."""
    nights = []
    for night, dropped in ((1, False), (2, True)):
        methods = (
            table[["question_set", "split", "evidence", "method"]].drop_duplicates().assign(p=0.01, dropped=dropped)
        )
        nights.append(history.rows(table, ["ER"], datetime(2026, 1, night, 3, tzinfo=UTC), "v", "c", methods))
    return history.joined(*nights)


def evaluation(level: dict[str, float], questions: int = 60, seed: int = 0, question_set: str = "set") -> pd.DataFrame:
    """Evidence recall of every question: normal around a mean for each method, the same noise for the same seed."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.05, questions)
    return pd.DataFrame(
        [
            (question_set, "test", "spans", method, f"q{i}", f"c/d{i}", float(np.clip(mean + noise[i], 0, 1)))
            for method, mean in level.items()
            for i in range(questions)
        ],
        columns=["question_set", "split", "evidence", "method", "question", "document", "leading"],
    )


def test_only_the_method_that_fell_has_dropped():
    before = evaluation({"mog-paper": 0.6, "fixed-1": 0.5, "fused-paper-1": 0.5, "only before": 0.5})
    now = evaluation({"mog-paper": 0.5, "fixed-1": 0.5, "fused-paper-1": 0.6, "only now": 0.5})
    noisy = now.assign(leading=now["leading"] + np.random.default_rng(1).normal(0, 0.02, len(now)))
    found = history.compare(noisy, before, 0).set_index("method")
    assert found["dropped"].to_dict() == {"mog-paper": True, "fixed-1": False, "fused-paper-1": False}
    assert found.loc["fused-paper-1", "p"] < 0.05
    assert found.loc["mog-paper", ["before", "now"]].tolist() == pytest.approx([0.6, 0.5], abs=0.02)
    assert (found["n"] == 60).all()


def test_comparison_is_of_common_questions_and_says_nothing_without_any():
    before, now = evaluation({"mog-paper": 0.9}, 30), evaluation({"mog-paper": 0.2}, 60)
    # The thirty that are new are the bad ones.
    now.loc[:29, "leading"] = before["leading"].to_numpy()
    found = history.compare(now, before, 0)
    assert (found["n"].tolist(), found["p"].tolist(), found["dropped"].tolist()) == ([30], [1.0], [False])
    other = history.compare(now, before.assign(question_set="other"), 0)
    assert other.empty and history.drops(other) == []


def test_drops_are_corrected_for_the_number_of_methods_of_all_question_sets():
    # Six questions that all fell: p = 2/64 for one method alone.
    before = pd.concat([evaluation({"mog-paper": 0.6}, 6, question_set=f"set {i}") for i in range(2)])
    now = before.assign(leading=before["leading"] - 0.01 * (before["question_set"] == "set 0"))
    alone = history.compare(now[now["question_set"] == "set 0"], before, 0)
    assert alone["p"].tolist() == pytest.approx([2 / 64], abs=0.01) and alone["dropped"].all()
    both = history.compare(now, before, 0).set_index("question_set")
    assert both.loc["set 0", "p"] == pytest.approx(2 * alone["p"].iloc[0])
    assert not both["dropped"].any()


def test_worst_drop_is_named_first_with_its_figures():
    before = evaluation({"a": 0.6, "b": 0.6})
    found = history.drops(history.compare(evaluation({"a": 0.55, "b": 0.4}), before, 0))
    assert [text.split(":")[0] for text in found] == ["set/test b", "set/test a"]
    assert "ER 0.6" in found[0] and " to 0.4" in found[0] and "on 60 questions on 60 documents (p = 0.000" in found[0]


class Nights:
    """A home whose scores are replaced; the history is made by its own recipe from what is in the store."""

    def __init__(self, settings):
        self.settings = settings

    def evaluate(self, level, night, **changes):
        """Scores of a night, then the history as a forced run makes it."""
        tools = Tools(self.settings.model_copy(update=changes))
        share = {method: round(1000 * mean) for method, mean in level.items()}
        ranked = {(m, f"q{i}"): [("c", f"d{i}", 0, length - i)] for m, length in share.items() for i in range(30)}
        members = {"set": [question(f"q{i}", ("c", f"d{i}", 0, 1000)) for i in range(30)]}
        measured = evaluate(run_of(ranked), members, 2)

        def build(work):
            for name, frame in (("per_question", measured), ("scores", score(measured, 2, 0, KINDS))):
                path, there = work.file(f"{name}.parquet", level)
                if not there:
                    with work.writing(path) as temporary:
                        frame.to_parquet(temporary)

        scores = Recipe("scores", build, "", "evaluation", partitioned=False, settings=lambda tools: level)
        recipes = {r.key: r for r in assets.recipes(tools.settings)} | {"scores": scores}
        materialise(scores, None, tools, recipes, force=night)
        outcome = materialise(recipes["history"], None, tools, recipes, force=night)
        assert outcome.artefact is not None
        return outcome, pd.read_parquet(outcome.artefact.path("history.parquet"))


@pytest.fixture
def nights(tmp_path, make_project):
    values = {
        "corpora": {"c": {"path": "c"}},
        "question_sets": {"set": {"path": "set.jsonl", "corpora": ["c"], "test": ["test"]}},
        "levels": 2,
    }
    return Nights(make_project(tmp_path, values).settings)


GOOD, BAD = {"fixed-1": 0.5, "mog-paper": 0.8}, {"fixed-1": 0.5, "mog-paper": 0.6}


def test_every_evaluation_adds_a_row_for_each_method_and_none_is_lost(nights):
    _, table = nights.evaluate(GOOD, False)
    assert list(table.columns) == list(history.COLUMNS)
    assert len(table) == 2 * 7 and set(table["measure"]) >= {"ER", "ER@1000", "nDCG@10"}
    assert abs(table["time"].iloc[0] - datetime.now(UTC)) < timedelta(minutes=5)
    again, same = nights.evaluate(GOOD, False)
    assert not again.built and same.equals(table)
    outcome, longer = nights.evaluate(GOOD, True)
    assert outcome.faults == {} and longer["time"].nunique() == 2
    assert longer["scores"].nunique() == longer["configuration"].nunique() == 1
    pd.testing.assert_frame_equal(longer.head(len(table)), table)
    _, three = nights.evaluate(BAD, True)
    pd.testing.assert_frame_equal(three.head(len(longer)), longer)
    assert three["time"].is_monotonic_increasing and three["scores"].nunique() == 2


def test_drop_is_flagged_until_scores_recover_and_is_not_accepted(nights):
    nights.evaluate(GOOD, False)
    for _ in range(2):
        outcome, table = nights.evaluate(BAD, True)
        assert list(outcome.faults) == ["no_significant_drop"]
        said = outcome.faults["no_significant_drop"]
        assert (
            "set/test mog-paper: ER 0.7" in said and "fixed-1" not in said and "until the configuration changes" in said
        )
        last = table[table["time"] == table["time"].max()]
        assert last.loc[last["dropped"], ["method", "measure"]].values.tolist() == [["mog-paper", "ER"]]
        assert outcome.artefact.manifest.info["accepted"]["scores"] == table["scores"].iloc[0]
    outcome, table = nights.evaluate(GOOD, True)
    assert outcome.faults == {} and not table[table["time"] == table["time"].max()]["dropped"].any()
    # Better scores are accepted, so that falling back from them is a drop.
    nights.evaluate({"fixed-1": 0.5, "mog-paper": 0.9}, True)
    assert "ER 0.8" in nights.evaluate(GOOD, True)[0].faults["no_significant_drop"]


def test_drop_after_a_change_of_the_configuration_is_told_once_and_accepted(nights):
    nights.evaluate(GOOD, False)
    outcome, table = nights.evaluate(BAD, True, finest_chars=200)
    assert "are the accepted ones from now on" in outcome.faults["no_significant_drop"]
    assert table["configuration"].nunique() == 2
    assert nights.evaluate(BAD, True, finest_chars=200)[0].faults == {}


def test_change_of_the_configuration_accepts_the_scores_that_are_there(nights):
    nights.evaluate(GOOD, False)
    assert nights.evaluate(BAD, True)[0].faults
    outcome, table = nights.evaluate(BAD, False, seed=1)
    assert outcome.built and "from now on" in outcome.faults["no_significant_drop"]
    # The evaluation was there already.
    assert table["time"].nunique() == 2
    assert nights.evaluate(BAD, True, seed=1)[0].faults == {}


@pytest.mark.parametrize("kept", [1, 0.5])
def test_a_table_of_the_history_that_cannot_be_read_is_made_again_from_the_file(nights, kept):
    outcome, before = nights.evaluate(GOOD, False)
    path = outcome.artefact.path("history.parquet")
    path.write_bytes(b"x" * int(kept * path.stat().st_size))
    _, after = nights.evaluate(BAD, True)
    pd.testing.assert_frame_equal(after.head(len(before)), before)
    assert after["time"].nunique() == 2
    # Who removes both wants a new one.
    shutil.rmtree(path.parent)
    (nights.settings.home / history.FILE).unlink()
    assert nights.evaluate(BAD, True)[1]["time"].nunique() == 1


def test_plots_of_the_history_are_small_pngs():
    table = dated(made_scores("a $strange$ <set>"))
    for name in ("a $strange$ <set>", "absent"):
        data = plots.er_over_time(table, name)
        assert data.startswith(b"\x89PNG") and len(data) < MAX_BYTES


def test_where_and_when_things_run_is_no_change_of_the_configuration(tmp_path, make_project):
    settings = make_project(tmp_path, {"corpora": {"c": {"path": "c"}}}).settings
    automation_settings = settings.automation.model_copy(update={"nightly": "5 4 * * *", "interval_seconds": 7})
    encoder = settings.encoder.model_copy(update={"device": "cpu"})
    same = settings.model_copy(update={"automation": automation_settings, "encoder": encoder})
    assert configuration(same) == configuration(settings)
    other = settings.model_copy(update={"k": 3})
    assert configuration(other) != configuration(settings)


# `mog compare`, and what is compared with the evaluation before: by document


def test_a_project_compared_with_itself_differs_in_nothing(sample_project, tmp_path):
    page = tmp_path / "page.md"
    result = called("compare", sample_project.config, sample_project.config, "--measure", "ER", "--to", page)
    assert result.exit_code == 0
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| fused |")]
    assert len(rows) == 1 and "+0.000 [+0.000, +0.000], 1.000" in rows[0]
    result = called("compare", sample_project.config, sample_project.config, "--measure", "accuracy")
    assert result.exit_code == 1 and "expected measures of" in one_line(result.stderr)


def test_projects_without_questions_cannot_be_compared(tmp_path, make_project, write_documents):
    notes = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises.")])
    project = make_project(tmp_path, {"corpora": {"notes": {"path": str(notes)}}})
    result = called("compare", project.config, project.config)
    assert result.exit_code == 2 and "no question set with a test split" in one_line(result.stderr)


def test_two_projects_are_compared_by_document():
    ours, theirs = measured(0 * EFFECTS), measured(EFFECTS)
    mog = side_by_side(ours, theirs, ["ER"], 0)["s, dev"].set_index("cell").loc["mog-paper"]
    assert (mog["n"], mog["documents"]) == (90, 9) and mog["p"] > 0.05
    apart = ours.assign(document=ours["question"])
    assert side_by_side(apart, theirs, ["ER"], 0)["s, dev"].set_index("cell").loc["mog-paper", "p"] < 0.001


def test_a_drop_on_a_few_documents_raises_no_alarm():
    now, before = history.leading(measured(0 * EFFECTS)), history.leading(measured(EFFECTS))
    found = history.compare(now, before, 0)
    assert not found["dropped"].any() and history.drops(found) == []
    assert set(found["documents"]) == {9}
    apart = now.assign(document=now["question"])
    (said,) = history.drops(history.compare(apart, before, 0))
    assert "on 90 questions on 90 documents" in said
