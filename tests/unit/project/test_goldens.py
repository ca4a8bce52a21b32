"""The samples' graph and plan are as they were: `benchmarks/goldens.py small --write` takes new ones."""

import runpy

import pytest
from shared import ROOT

GOLDENS = runpy.run_path(str(ROOT / "benchmarks" / "goldens.py"))


@pytest.mark.parametrize("name", GOLDENS["SNAPSHOTS"])
def test_the_samples_have_the_graph_and_the_plan_of_the_goldens(name):
    stored = (GOLDENS["SMALL"] / f"{name}.json").read_text(encoding="utf-8")
    assert GOLDENS["as_text"](GOLDENS["SNAPSHOTS"][name]()) == stored


def test_a_lower_recall_and_other_passages_are_seen():
    of = {"questions": ["a", "b"], "documents": ["d", "e"], "peak MiB": 1}
    passages = [[["c", "d", 0, 9, 0.5]], [["c", "e", 0, 9, 0.5]]]
    before = of | {"methods": {"fused": {"passages": passages, "er": [1.0, 1.0], "ms": [1, 1]}}}
    worse = [passages[0], [["c", "e", 1, 9, 0.5]]]
    after = of | {"methods": {"fused": {"passages": worse, "er": [1.0, 0.9], "ms": [1, 1]}}}
    (same,), (row,) = (GOLDENS["compared"]("c", before, other) for other in (before, after))
    assert (same["verdict"], same["other scores"]) == ("equal", "0")
    assert (row["verdict"], row["other passages"], row["other scores"]) == ("LOWER", "1", "1")
