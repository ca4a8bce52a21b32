"""Experiments resample and permute documents, not questions, which are not independent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from by_document import DOCUMENTS, EFFECTS, NAMES, table_of
from scipy import stats

from mog_assets.evaluate.significance import by_document
from mog_assets.papers.at_rag import experiments as loop
from mog_assets.papers.briefcontext.experiments import conflicts, preflight
from mog_assets.papers.briefcontext.preflight_quality import preflight_cases, preflight_quality
from mog_assets.papers.experiments.answers import flip_rows, paired_rows
from mog_assets.papers.experiments.lab import board, equivalence, greater, score_rows
from mog_assets.papers.experiments.shares import share_interval
from mog_assets.papers.mix_of_granularity.experiments import labels
from mog_assets.papers.mix_of_granularity.shifts import shift

rng = np.random.default_rng(0)


def test_experiments_claim_nothing_that_documents_do_not_show():
    cells = [part for _, part in table_of(EFFECTS).groupby("cell", sort=False)]
    rows = score_rows("s", cells, ["ER"], "base", 0).set_index("cell")
    assert rows.loc["mog-paper", "documents"] == 9
    assert greater(rows.loc["mog-paper"]) == "undecided" and equivalence(rows.loc["mog-paper"]) == "undecided"
    assert board(rows.reset_index(), "s")[1]["documents"] == "9"
    table = paired_rows("s", [tuple(cells)], ["ER"], 0).set_index("cell")
    assert table.loc["mog-paper", "p"] > 0.05
    (row,) = labels._pairwise("s", cells, [("base", "mog-paper")], 0)
    assert greater(row) == "undecided"
    apart = [cell.assign(document=cell["question"]) for cell in cells]
    assert greater(score_rows("s", apart, ["ER"], "base", 0).set_index("cell").loc["mog-paper"]) == "seen"


def test_few_documents_show_no_likeness_however_many_questions():
    row = {"difference_low": -0.001, "difference_high": 0.001, "n": 1000}
    assert [equivalence(row | {"documents": n}) for n in (5, 6)] == ["undecided", "seen"]


def test_flips_conflicts_and_rounds_are_tested_by_document():
    good = EFFECTS > 0
    marks = pd.concat(
        [
            pd.DataFrame({"question": NAMES, "document": DOCUMENTS, "method": way, "exact match": right})
            for way, right in (("cot", 0.0), ("mog-paper", good.astype(float)))
        ]
    ).assign(answered=True)
    (row,) = flip_rows(marks, dict.fromkeys(NAMES, "k"), 0)
    assert (row["improved"], row["degraded"], row["documents"]) == (50, 0, 9) and row["p value"] > 0.05
    found = pd.DataFrame({"document": DOCUMENTS, "map-reduce": good, "one prompt": False, "top_k": 8, "position": 0})
    *_, whole = conflicts.conflict_rows(found, 0)
    assert whole["win"] == 50 and whole["p value"] > 0.05 and whole["documents"] == 9
    hits = pd.DataFrame({"document": DOCUMENTS, "first": good.astype(float), "any": 1.0, "chance": 0.3})
    (claim,) = loop._topic_claim("s", "w", hits, 0)
    assert claim.verdict == "not seen" and "90 questions on 9 documents" in claim.because


def test_the_preflight_is_judged_by_document():
    cases = pd.DataFrame({"question_set": "s", "method": "m", "document": DOCUMENTS})
    cases = cases.assign(foreseen=np.repeat([True] * 5 + [False] * 4, 10), below=True)
    assert preflight_quality(cases)[0]["documents"] == 9
    low, high = preflight.preflight_intervals(cases, 0)
    apart_low, apart_high = preflight.preflight_intervals(cases.assign(document=NAMES), 0)
    assert high[1] - low[1] > 2 * (apart_high[1] - apart_low[1])
    foresees, _ = preflight._preflight_claims("s", cases.assign(foreseen=cases["foreseen"] | (NAMES > "q75")), 0)
    assert foresees.verdict == "undecided" and "90 questions on 9 documents" in foresees.because
    none, _ = preflight._preflight_claims("s", cases.assign(foreseen=NAMES == "q0"), 0)
    assert none.verdict == "not seen"
    found = preflight._preflight_claims("s", cases.assign(below=False), 0)
    assert [claim.verdict for claim in found] == ["not testable here"] * 2
    assert preflight_cases(pd.DataFrame(), {}).empty


def test_shares_near_zero_have_an_interval_and_documents_widen_it():
    none, documents = np.zeros(60), np.repeat(np.arange(12), 5)
    assert share_interval(none, documents) == pytest.approx((0, 1 - 0.025 ** (1 / 12)))
    # Questions on documents of their own: Clopper and Pearson.
    hits = np.arange(60) < 9
    exact = stats.binomtest(9, 60).proportion_ci()
    assert share_interval(hits, np.arange(60)) == pytest.approx((exact.low, exact.high), abs=0.005)
    low, high = share_interval(hits, documents)
    assert low < exact.low and high > exact.high
    assert np.isnan(share_interval(np.zeros(0), [])).all()


def test_documents_and_not_questions_decide_whether_choices_have_shifted():
    early, late = np.eye(2)[np.repeat([0, 0, 1, 0], 20)], np.eye(2)[np.repeat([1, 1, 0, 1], 20)]
    names = np.repeat(list("abcd"), 20)
    distance, p = shift(by_document(early, names), by_document(late, names))
    assert distance == pytest.approx(0.5) and p > 0.05
    assert shift(each(early), each(late))[1] < 0.001


def each(values):
    """Every question on a document of its own."""
    return by_document(values, np.arange(len(values)))


def chosen(counts):
    """So many questions of each class, every one on a document of its own."""
    return each(np.repeat(np.eye(len(counts)), counts, axis=0))


def test_shift_is_the_share_that_would_change_class_and_knows_chance():
    distance, p = shift(chosen([60, 30, 10]), chosen([10, 30, 60]))
    assert distance == pytest.approx(0.5)
    assert p == 1 / 10001
    assert shift(chosen([50, 50]), chosen([5, 5])) == (0, 1)
    assert shift(chosen([9, 9]), chosen([0, 0])) == (0, 1)
    # Three questions that differ altogether prove nothing.
    distance, p = shift(chosen([3, 0]), chosen([0, 3]))
    assert distance == 1 and p == pytest.approx(0.1, abs=0.02)
    rng = np.random.default_rng(6)
    drawn = [rng.multinomial(80, [0.5, 0.3, 0.2], size=2) for _ in range(150)]
    chance = [shift(chosen(one), chosen(other), samples=400)[1] for one, other in drawn]
    assert np.mean(np.array(chance) < 0.05) < 0.12
