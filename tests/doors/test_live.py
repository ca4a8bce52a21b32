"""A real `dagster dev` that is left alone: documents come and go, and what `mog search` finds follows."""

import json
import time

import pytest
import yaml
from click.testing import CliRunner

from mog_assets import cli, config
from mog_assets.build import runner

# Far above what is needed: about 15 s to start, and for a change 5 s to see it and 10 s to run.
FOLLOW_SECONDS = 240


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A corpus of two documents, built by `mog run`."""
    folder = tmp_path / "birds"
    folder.mkdir()
    (folder / "heron.txt").write_text("The grey heron waits for a fish. Then it strikes.", encoding="utf-8")
    (folder / "owl.txt").write_text("The owl hunts mice at night.", encoding="utf-8")
    values = {
        "home": "home",
        "levels": 1,
        "buckets": 4,
        "corpora": {"birds": {"path": "birds"}},
        "automation": {"interval_seconds": 1},
    }
    (tmp_path / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(tmp_path / "mog.yaml"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    assert runner.run(config.load()).failures == []
    return tmp_path


def found(question):
    """Documents that `mog search` finds."""
    answer = CliRunner().invoke(cli.main, ["search", question, "--method", "fixed-1", "--json"])
    # While a run replaces artefacts one after the other, an error may stand in for passages.
    return [passage["document"] for passage in json.loads(answer.stdout)] if answer.exit_code == 0 else None


def wait_until_found(question, expected, dagster):
    deadline = time.monotonic() + FOLLOW_SECONDS
    while (documents := found(question)) != expected:
        if dagster.process.poll() is not None or time.monotonic() > deadline:
            said = dagster.log.read_text(encoding="utf-8", errors="replace")[-4000:]
            pytest.fail(f"{question!r} finds {documents}, not {expected}, within {FOLLOW_SECONDS} s:\n{said}")
        time.sleep(0.5)


@pytest.mark.full
def test_a_copied_file_is_found_and_a_deleted_one_is_gone_without_a_click(project, start_dagster):
    question = "Who migrates to the Sargasso?"
    assert found(question) == []
    dagster = start_dagster()
    late = project / "birds" / "tern.txt"
    late.write_text("The tern rests on weed of the Sargasso sea.", encoding="utf-8")
    wait_until_found(question, ["tern.txt"], dagster)
    late.unlink()
    wait_until_found(question, [], dagster)
