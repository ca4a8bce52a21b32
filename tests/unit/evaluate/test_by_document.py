"""Questions about one document are not independent: what is resampled and permuted are documents, everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from by_document import DOCUMENTS, EFFECTS, NAMES, measured, table_of
from scipy import stats

from mog_assets.evaluate.answers import mark, score_answers
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.scores import compare, score
from mog_assets.evaluate.significance import (
    bootstrap_interval,
    by_document,
    detectable,
    effect_size,
    least_p,
    permutation_p,
)
from mog_assets.questions.sets import Evidence, Question


def by_question(values):
    return by_document(values, np.arange(len(values)))


def test_the_example_is_clear_by_question_and_not_by_document():
    assert permutation_p(by_question(EFFECTS))[0] < 0.001
    assert permutation_p(by_document(EFFECTS, DOCUMENTS))[0] > 0.05


# What a document is


def asked(identity, *documents):
    return Question(identity, "?", "", "test", evidence=tuple(Evidence("c", d, 0, 9) for d in documents))


def test_a_question_is_about_the_document_of_its_first_evidence_or_about_none_but_itself():
    assert asked("q", "b", "a").document == "c/b"
    alone = {asked("c/b").document, asked("d").document, asked("q", "b").document}
    assert len(alone) == 3


def test_per_question_measures_and_marks_say_what_each_question_is_about():
    questions = {"set": [asked("q", "b", "a"), asked("r", "a")]}
    runs = pd.DataFrame(
        [("set", "m", q, 1, "c", "a", 0, 9, 2) for q in ("q", "r")],
        columns=["question_set", "method", "question", "rank", "corpus", "doc", "start", "end", "tokens"],
    )
    table = evaluate(runs, questions, 2)
    assert dict(zip(table["question"], table["document"], strict=True)) == {"q": "c/b", "r": "c/a"}


# The functions


@pytest.mark.parametrize("times", [2, 5])
def test_asking_every_question_again_tells_nothing_new(times):
    values, documents = np.stack([EFFECTS, EFFECTS**2], axis=1), DOCUMENTS
    once, often = by_document(values, documents), by_document(np.tile(values, (times, 1)), np.tile(documents, times))
    assert np.allclose(bootstrap_interval(once), bootstrap_interval(often))
    assert (permutation_p(once) == permutation_p(often)).all()
    assert np.allclose(effect_size(once), effect_size(often))
    assert np.allclose(detectable(once), detectable(often))


def test_means_are_means_over_questions_and_not_over_documents():
    values, documents = np.array([1.0, 1, 1, 1, 0, 0]), list("aaaabc")
    totals = by_document(values, documents)
    assert totals.mean[0] == pytest.approx(4 / 6) and totals.questions == 6
    low, high = bootstrap_interval(totals)
    assert low[0] < 4 / 6 < high[0] and low[0] >= 0 and high[0] <= 1


def test_totals_are_refused_where_a_question_is_about_nothing():
    with pytest.raises(ValueError, match="expected one for each of 3 questions, got 2"):
        by_document(np.ones(3), ["a", "b"])


def test_resampling_documents_is_what_enumerating_all_resamples_gives():
    values, documents = np.array([0.1, 0.3, 0.9, 0.5, 0.4, 0.2, 0.8]), np.array(list("aabbbcd"))
    totals = by_document(values, documents)
    every = []
    for drawn in itertools.product("abcd", repeat=4):
        chosen = np.concatenate([values[documents == d] for d in drawn])
        every.append(chosen.mean())
    degrees = 7**2 / (4 + 9 + 1 + 1) - 1
    tail = stats.norm.cdf(-stats.t.ppf(0.9, degrees) * np.sqrt((degrees + 1) / degrees))
    low, high = bootstrap_interval(totals, samples=40_000, level=0.8)
    assert (low[0], high[0]) == pytest.approx(np.quantile(every, [tail, 1 - tail]), abs=0.015)


def test_signs_of_documents_are_enumerated_and_p_is_exact():
    values, documents = np.array([0.4, 0.1, -0.2, 0.5, 0.3, 0.2, 0.05]), np.array(list("aabbcde"))
    sums = [values[documents == d].sum() for d in "abcde"]
    means = [abs(np.dot(signs, sums)) for signs in itertools.product((-1, 1), repeat=5)]
    expected = np.mean(np.array(means) >= abs(sum(sums)) - 1e-12)
    for seed in (0, 1):
        assert permutation_p(by_document(values, documents), seed=seed)[0] == pytest.approx(expected)


def test_p_is_never_below_the_least_that_documents_allow():
    for documents in (1, 2, 5, 14, 15, 40):
        values, names = np.ones(3 * documents), np.repeat(np.arange(documents), 3)
        assert permutation_p(by_document(values, names))[0] == pytest.approx(least_p(documents))
    assert least_p(5) > 0.05 > least_p(6)


def test_one_document_has_no_interval_no_effect_and_nothing_to_detect():
    totals = by_document(np.array([[0.1, 0.0], [0.5, 0.0]]), ["a", "a"])
    assert np.isnan(bootstrap_interval(totals)).all() and np.isnan(detectable(totals)).all()
    assert effect_size(totals) == pytest.approx([np.nan, 0], nan_ok=True)
    assert permutation_p(totals).tolist() == [1, 1]


def clustered(sizes, studies, seed, correlation=0.3):
    """Values with a correlation within documents, and the documents: (questions, studies), (questions,)."""
    random, documents = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    shared = random.normal(size=(len(sizes), studies))[documents]
    own = random.normal(size=(len(documents), studies))
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own, documents


SIZES = {
    "19 of 2 to 10": np.tile([2, 4, 6, 8, 10], 4)[:19],
    "as the samples": np.array([1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 9, 10, 11, 12, 17]),
    "8 of 1 to 10": np.array([3, 6, 4, 9, 7, 1, 7, 4]),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_intervals_cover_and_tests_reject_as_often_as_they_say(sizes):
    values, documents = clustered(sizes, 600, 1)
    totals = by_document(values, documents)
    low, high = bootstrap_interval(totals, samples=1000)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=0.025)
    assert np.mean(permutation_p(totals, samples=999) <= 0.05) == pytest.approx(0.05, abs=0.025)
    # What was reported before: questions resampled and permuted one by one.
    low, high = bootstrap_interval(by_question(values), samples=1000)
    assert np.mean((low <= 0) & (high >= 0)) < 0.85


def test_a_difference_as_large_as_the_detectable_one_is_shown_four_times_in_five():
    values, documents = clustered(SIZES["as the samples"], 600, 2)
    least = detectable(by_document(values, documents)).mean()
    shown = permutation_p(by_document(clustered(SIZES["as the samples"], 600, 3)[0] + least, documents), samples=999)
    assert np.mean(shown <= 0.05) == pytest.approx(0.8, abs=0.06)


# Where they are used


def test_scores_have_intervals_and_tests_by_document_and_say_how_many():
    kinds = {"base": ("bm25", "fixed"), "mog-paper": ("bm25", "mog-paper")}
    found = score(measured(EFFECTS), 2, 0, kinds).set_index(["method", "measure"]).loc[("mog-paper", "ER")]
    assert (found["n"], found["documents"]) == (90, 9)
    assert found["p_vs_best_fixed"] > 0.05 and found["difference_low"] < 0 < found["difference_high"]
    apart = score(measured(EFFECTS, document=[*NAMES, *NAMES]), 2, 0, kinds).set_index(["method", "measure"])
    assert apart.loc[("mog-paper", "ER"), "p_vs_best_fixed"] < 0.001


def test_answers_are_scored_by_document_and_one_without_evidence_is_its_own():
    questions = [
        Question(q, "?", "", "test", answer="yes", evidence=(Evidence(*d.split("/"), 0, 1),))
        for q, d in zip(NAMES, DOCUMENTS, strict=True)
    ]
    right = {"cot": 0 * EFFECTS, "one-step": EFFECTS > 0}
    rows = [
        {"question_set": "s", "question": q, "method": way, "reader": "r", "failure": "", "raw": ""}
        | {"answer": "yes" if good else "no", "token_unit": "tokens"}
        | dict.fromkeys(("rounds", "calls", "tokens_in", "tokens_out", "cost"), 1)
        for way, values in right.items()
        for q, good in zip(NAMES, values, strict=True)
    ]
    answers = pd.DataFrame(rows)
    found = score_answers(mark(answers, {"s": questions}), 0).set_index(["method", "measure"])
    row = found.loc[("one-step", "exact match")]
    assert (row["n"], row["documents"]) == (90, 9) and row["p_vs_cot"] > 0.05
    bare = [Question(q.id, "?", "", "test", answer="yes") for q in questions]
    row = score_answers(mark(answers, {"s": bare}), 0).set_index(["method", "measure"]).loc[("one-step", "exact match")]
    assert row["documents"] == 90 and row["p_vs_cot"] < 0.001


def test_a_question_lacks_no_document():
    with pytest.raises(KeyError, match="document"):
        compare(table_of(EFFECTS).drop(columns="document"), ["ER"], "base", 0)
