"""The samples' graph and plan are as they were: `benchmarks/goldens.py small --write` takes new ones."""

import runpy
import subprocess
import sys

import pytest
from shared import ROOT

GOLDENS = runpy.run_path(str(ROOT / "benchmarks" / "goldens.py"))


@pytest.mark.whole
def test_the_samples_have_the_graph_and_the_plan_of_the_goldens():
    # In a process of its own: other tests register what they add to the graph.
    words = [sys.executable, str(ROOT / "benchmarks" / "goldens.py"), "small"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_lower_recall_and_other_passages_are_seen():
    of = {"questions": ["a", "b"], "documents": ["d", "e"], "peak MiB": 1}
    passages = [[["c", "d", 0, 9, 0.5]], [["c", "e", 0, 9, 0.5]]]
    before = of | {"methods": {"fused": {"passages": passages, "er": [1.0, 1.0], "ms": [1, 1]}}}
    worse = [passages[0], [["c", "e", 1, 9, 0.5]]]
    after = of | {"methods": {"fused": {"passages": worse, "er": [1.0, 0.9], "ms": [1, 1]}}}
    (same,), (row,) = (GOLDENS["compare_measurements"]("c", before, other) for other in (before, after))
    assert (same["verdict"], same["other scores"]) == ("equal", "0")
    assert (row["verdict"], row["other passages"], row["other scores"]) == ("LOWER", "1", "1")
