"""The example of a Dagster project: an asset before the retrieval, one behind it, built in one instance."""

import importlib
import shutil
import sys
from pathlib import Path

import dagster as dg
import pytest
from shared import ROOT

pytestmark = pytest.mark.full
OURS = dg.AssetKey(["search", "documents"])


@pytest.fixture
def example(tmp_path, monkeypatch):
    """A copy of the example, loaded as Dagster loads it, and an instance."""
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / "dagster", folder, ignore=shutil.ignore_patterns(".mog", "exports"))
    monkeypatch.syspath_prepend(str(folder / "src"))
    for name in [name for name in sys.modules if name.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        yield importlib.import_module("support.definitions").defs(), instance


def test_what_an_asset_of_theirs_writes_is_searched_by_another_of_theirs(example):
    defs, instance = example
    everything = defs.resolve_implicit_global_asset_job_def()

    def built(*keys, job=None, partition=None):
        chosen = [dg.AssetKey(key) for key in keys] or None
        job = defs.resolve_job_def(job) if job else everything
        assert job.execute_in_process(asset_selection=chosen, instance=instance, partition_key=partition).success

    built(["support", "tickets"])
    instance.add_dynamic_partitions("search_corpus", ["tickets"])
    # What only one corpus has, then the names of all, then what needs these.
    built(job="search_build", partition="tickets")
    built(["search", "corpus_registry"], ["search", "names"])
    built(["search", "mentions"], partition="tickets")
    built(job="search_evaluate")
    built(["support", "answers"])
    event = instance.get_latest_materialization_event(dg.AssetKey(["support", "answers"]))
    said = event.asset_materialization.metadata["answers"].value
    for question, number in (("router restart", 1041), ("sound switched on", 1042), ("invoice sent twice", 1043)):
        (line,) = (line for line in said.splitlines() if question in line)
        assert line.endswith(f"(tickets/{number})")


def test_assets_have_owners_code_checks_and_tags_that_dagster_shows(example):
    defs, _ = example
    graph = defs.resolve_asset_graph()
    node = graph.get(OURS)
    assert node.owners == ["team:support"]
    (theirs, *ours) = sorted(
        node.metadata["dagster/code_references"].code_references, key=lambda one: "mog_assets" in one.file_path
    )
    assert theirs.file_path.endswith("defs/search/defs.yaml")
    assert Path(ours[0].file_path).read_text("utf-8").splitlines()[ours[0].line_number - 1].startswith("def ")
    assert defs.resolve_job_def("search_build").run_tags == {"team": "support"}
    assert dg.AssetKey(["search", "chunks", "level_1"]) in {key.asset_key for key in graph.asset_check_keys}
    assert graph.get(dg.AssetKey(["search", "documents"])).parent_keys >= {dg.AssetKey(["support", "tickets"])}


def test_measures_are_not_fresh_for_ever(make_project, tmp_path):
    import mog_assets

    project = make_project(
        tmp_path,
        {
            "corpora": {"birds": {"path": "birds.jsonl"}},
            "automation": {"measured_within_hours": 36, "owners": ["ann@example.com"]},
        },
    )
    graph = mog_assets.build.automation.build(project.settings).resolve_asset_graph()
    windows = {key.to_user_string(): graph.get(key).freshness_policy for key in graph.materializable_asset_keys}
    assert windows["documents"] is None
    assert windows["method"].fail_window.to_timedelta().total_seconds() == 36 * 3600
    assert graph.get(dg.AssetKey("method")).owners == ["ann@example.com"]
