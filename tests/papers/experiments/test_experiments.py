"""The frame of the experiments: made on demand, kept cell by cell, told as one page."""

import json
from dataclasses import replace
from functools import partial

import pytest
from click.testing import CliRunner

from mog_assets import config
from mog_assets.build import automation, markdown, plan
from mog_assets.build.materialising import materialise
from mog_assets.build.names import Names
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.papers.experiments import results
from mog_assets.papers.experiments.assets import PREFIX, build_experiment, findings, offered
from mog_assets.papers.experiments.lab import Claim, Findings, NothingToMeasure, equivalence, greater
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

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
    run = CliRunner().invoke
    listed = json.loads(run(main, ["experiment", "--json", "--config", str(copied_project.config)]).stdout)
    assert {row["name"]: row["state"] for row in listed}["k_r"] == "never done"
    shown = run(main, ["experiment", "k_r", "--config", str(copied_project.config)])
    assert shown.exit_code == 0 and "k_r = 32" in shown.stdout and "figure 5" in shown.stdout
    listed = json.loads(run(main, ["experiment", "--json", "--config", str(copied_project.config)]).stdout)
    assert {row["name"]: row["state"] for row in listed}["k_r"] == "up to date"
    to = copied_project.folder / "docs" / "results.md"
    assert run(main, ["results", str(copied_project.config), "--to", str(to)]).exit_code == 0
    page = to.read_text(encoding="utf-8")
    told = json.loads(run(main, ["experiment", "k_r", "--json", "--config", str(copied_project.config)]).stdout)[0]
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
    found = CliRunner().invoke(main, ["experiment", "kr", "--config", str(sample_project.config)])
    assert found.exit_code == 2 and "k_r" in found.stderr and "'kr'" in found.stderr


@pytest.mark.full
def test_results_are_not_told_of_another_configuration(copied_project):
    import yaml

    run, config = CliRunner().invoke, str(copied_project.config)
    assert run(main, ["experiment", "router", "--config", config]).exit_code == 0
    assert run(main, ["results", config]).exit_code == 0
    raw = yaml.safe_load(copied_project.config.read_text(encoding="utf-8"))
    copied_project.config.write_text(yaml.safe_dump(raw | {"seed": 7}, sort_keys=False), encoding="utf-8")
    found = run(main, ["results", config])
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
    found = CliRunner().invoke(main, ["results", str(sample_project.config)])
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
