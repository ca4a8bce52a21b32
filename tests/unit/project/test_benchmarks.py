"""Benchmarks start: what they import of the project is there."""

import runpy
import sys

import pytest
from shared import ROOT

# They compare all parts.
pytestmark = pytest.mark.whole

BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmark_says_how_it_is_run(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    monkeypatch.syspath_prepend(path.parent)
    # In this process, which has imported what they import.
    with pytest.raises(SystemExit, match="^0$"):
        runpy.run_path(str(path), run_name="__main__")
    assert "Usage:" in capsys.readouterr().out
