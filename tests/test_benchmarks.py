"""Benchmarks start: what they import of the project is there."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmark_says_how_it_is_run(path):
    answer = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "Usage:" in answer.stdout
