"""Measures, intervals, tests, scores, plots and the report."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mog_assets.corpus.plots import MAX_BYTES, length_histogram
from mog_assets.corpus.questions import Evidence, Question
from mog_assets.evaluation import plots
from mog_assets.evaluation.measures import CONTEXTS, MEASURES, evaluate, measure_names
from mog_assets.evaluation.report import render
from mog_assets.evaluation.scores import COLUMNS, leaderboard, score
from mog_assets.evaluation.significance import bootstrap_interval, holm, permutation_p
from mog_assets.routing.plots import loss_curve, weights_by_kind

RUN_COLUMNS = ["question_set", "split", "question", "method", "rank", "corpus", "doc", "start", "end", "level", "score"]


def question(identity: str, *spans: tuple[str, str, int, int]) -> Question:
    return Question(identity, "?", "kind", "test", evidence=tuple(Evidence(*span) for span in spans))


def run_of(ranked: dict[tuple[str, str], list[tuple[str, str, int, int]]], question_set: str = "set") -> pd.DataFrame:
    """Runs from (method, question) to passages, best first."""
    rows = [
        (question_set, "test", identity, method, rank, *span, 1, -float(rank))
        for (method, identity), spans in ranked.items()
        for rank, span in enumerate(spans, start=1)
    ]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def brute(gold: list, ranked: list, k: int) -> dict[str, float]:
    """The character measures from sets of characters."""
    wanted = {(corpus, doc, at) for corpus, doc, start, end in gold for at in range(start, end)}
    stream = [(corpus, doc, at) for corpus, doc, start, end in ranked for at in range(start, end)]
    found = {f"ER@{c}": len(wanted & set(stream[:c])) / min(len(wanted), c) for c in CONTEXTS}
    found["ER"] = sum(found.values()) / len(CONTEXTS)
    top = {(corpus, doc, at) for corpus, doc, start, end in ranked[:k] for at in range(start, end)}
    found[f"char_recall@{k}"] = len(wanted & top) / len(wanted)
    found[f"char_precision@{k}"] = len(wanted & top) / len(top) if top else 0.0
    found[f"char_iou@{k}"] = len(wanted & top) / len(wanted | top)
    return found


spans = st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(0, 3000), st.integers(1, 1500)).map(
    lambda s: (s[0], s[1], s[2], s[2] + s[3])
)
cases = st.lists(
    st.tuples(st.lists(spans, min_size=1, max_size=4), st.lists(spans, max_size=9)), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(cases=cases, k=st.integers(1, 4), repeat=st.booleans(), shuffle=st.randoms())
def test_character_measures_equal_sets_of_characters(cases, k, repeat, shuffle):
    # The second method repeats passages and finds the gold itself, so that overlaps are common.
    ranked = {}
    for i, (gold, found) in enumerate(cases):
        ranked["m", f"q{i}"] = found
        ranked["n", f"q{i}"] = found[:2] + gold + (found if repeat else gold)
    runs = run_of(ranked)
    order = list(range(len(runs)))
    shuffle.shuffle(order)
    table = evaluate(runs.iloc[order], {"set": [question(f"q{i}", *gold) for i, (gold, _) in enumerate(cases)]}, k)
    methods = set(runs["method"])
    assert len(table) == len(cases) * len(methods)
    for row in table.to_dict("records"):
        gold, _ = cases[int(row["question"][1:])]
        expected = brute(gold, ranked[row["method"], row["question"]], k)
        assert {name: row[name] for name in expected} == pytest.approx(expected)
        assert row["answered"] == bool(ranked[row["method"], row["question"]])


def test_perfect_run_gives_one_and_wrong_run_zero():
    gold = [("c", "d", 100, 400), ("c", "e", 0, 200)]
    runs = run_of({("right", "q"): gold, ("wrong", "q"): [("c", "d", 400, 900), ("b", "e", 0, 200)]})
    table = evaluate(runs, {"set": [question("q", *gold)]}, 2).set_index("method")
    assert list(table.columns) == ["question_set", "split", "question", *MEASURES, "answered"]
    assert (table.loc["right", list(MEASURES)] == 1).all()
    characters = [name for name in MEASURES if name.startswith(("ER", "char"))]
    assert (table.loc["wrong", characters] == 0).all()
    other = evaluate(run_of({("wrong", "q"): [("c", "f", 0, 100)]}), {"set": [question("q", *gold)]}, 2)
    assert (other[list(MEASURES)] == 0).all(axis=None)


def test_gold_is_capped_at_the_context():
    gold = ("c", "d", 0, 5000)
    table = evaluate(run_of({("m", "q"): [gold]}), {"set": [question("q", gold, gold)]}, 2)
    assert table.loc[0, "ER"] == 1


def test_questions_without_passages_count_zero_and_those_without_evidence_are_left_out():
    gold = ("c", "d", 0, 10)
    questions = {
        "set": [question("q", gold), question("silent", gold), question("unknown")],
        "other": [question("q", gold)],
    }
    runs = run_of({("m", "q"): [gold], ("m", "unknown"): [gold], ("m", "stranger"): [gold]})
    ticks: list[int] = []
    table = evaluate(runs, questions, 2, ticks.append).set_index("question")
    assert sorted(table.index) == ["q", "silent"]
    assert set(table["question_set"]) == {"set"}
    assert not table.loc["silent", "answered"]
    assert (table.loc["silent", list(MEASURES)].astype(float) == 0).all()
    assert ticks == [1]


def test_no_runs_give_an_empty_table_and_empty_scores():
    table = evaluate(run_of({}), {"set": [question("q", ("c", "d", 0, 1))]}, 3)
    assert table.empty
    assert set(measure_names(3)) <= set(table.columns)
    assert list(score(table, 3, 0, {}).columns) == list(COLUMNS)


def test_document_measures_follow_ir_measures():
    # Documents in order of their first passage: x, d, e; gold: d and f.
    ranked = [
        ("c", "x", 0, 5),
        ("c", "x", 5, 9),
        ("c", "d", 0, 5),
        ("c", "x", 9, 12),
        ("c", "e", 0, 5),
        ("c", "d", 5, 9),
    ]
    questions = {"set": [question("q", ("c", "d", 50, 60), ("c", "f", 0, 9))]}
    row = evaluate(run_of({("m", "q"): ranked}), questions, 2).iloc[0]
    assert row["MRR"] == 0.5
    assert row["Recall@10"] == 0.5
    assert row["nDCG@10"] == pytest.approx((1 / np.log2(3)) / (1 + 1 / np.log2(3)))
    assert row["hit@2"] == 0
    assert evaluate(run_of({("m", "q"): ranked}), questions, 3).iloc[0]["hit@3"] == 1


def test_same_document_id_in_another_corpus_is_another_document():
    row = evaluate(run_of({("m", "q"): [("b", "d", 0, 9)]}), {"set": [question("q", ("c", "d", 0, 9))]}, 1).iloc[0]
    assert row["MRR"] == row["ER"] == row["hit@1"] == 0


def test_holm_by_hand():
    assert holm(np.array([0.04, 0.01, np.nan, 0.03, 0.9])) == pytest.approx(
        [0.09, 0.04, np.nan, 0.09, 0.9], nan_ok=True
    )
    assert holm(np.array([0.6, 0.7])) == pytest.approx([1, 1])
    assert np.isnan(holm(np.array([np.nan]))).all()


def test_permutation_p_knows_nothing_something_and_chance():
    rng = np.random.default_rng(1)
    clear = rng.normal(1, 0.5, 200)
    p = permutation_p(np.stack([np.zeros(200), clear, -clear], axis=1), samples=2000, seed=3)
    assert p[0] == 1
    assert p[1] == p[2] == 1 / 2001
    chance = permutation_p(rng.normal(size=(60, 300)), samples=999, seed=4)
    assert chance.mean() == pytest.approx(0.5, abs=0.06)
    assert (chance < 0.05).mean() < 0.1


def test_permutation_p_is_exact_for_one_question():
    # One question: either sign is as extreme as the other.
    assert permutation_p(np.array([[0.3]]), samples=100) == pytest.approx([1])


def test_interval_contains_the_mean_and_shrinks():
    rng = np.random.default_rng(2)
    widths = []
    for n in (30, 3000):
        values = rng.random((n, 4))
        low, high = bootstrap_interval(values, seed=5)
        assert (low <= values.mean(axis=0)).all()
        assert (values.mean(axis=0) <= high).all()
        widths.append(high - low)
    assert (widths[1] < widths[0] / 5).all()
    low, high = bootstrap_interval(np.ones((7, 1)))
    assert (low[0], high[0]) == pytest.approx((1, 1))


KINDS = {
    "fixed-1": ("bm25", "fixed"),
    "fixed-2": ("bm25", "fixed"),
    "fused-1": ("bm25", "fused"),
    "mog": ("bm25", "mog"),
    "oracle": ("bm25", "oracle"),
    "hybrid:mog": ("hybrid", "mog"),
}


def made_scores(name: str = "set", questions: int = 40) -> pd.DataFrame:
    """Scores of runs where mog finds everything, level 2 most, level 1 some."""
    gold = ("c", "d", 0, 1000)
    share = {"fixed-1": 200, "fixed-2": 500, "fused-1": 600, "mog": 1000, "oracle": 1000, "hybrid:mog": 900}
    ranked = {
        (method, f"q{i}"): [("c", "d", 0, length - i)]
        for method, length in share.items()
        for i in range(questions)
        if (method, i) != ("fixed-1", 0)
    }
    members = [question(f"q{i}", gold) for i in range(questions)]
    return score(evaluate(run_of(ranked, name), {name: members}, 2), 2, 0, KINDS)


def test_scores_compare_with_the_best_level_of_the_same_retriever():
    table = made_scores()
    assert list(table.columns) == list(COLUMNS)
    er = table[table["measure"] == "ER"].set_index("method")
    assert er.loc["mog", "baseline"] == er.loc["fixed-1", "baseline"] == er.loc["fixed-2", "baseline"] == "fixed-2"
    assert np.isnan(er.loc["fixed-2", "p_vs_best_fixed"])
    assert er.loc["mog", "p_vs_best_fixed"] == pytest.approx(4 / 10001)
    assert er.loc["hybrid:mog", "baseline"] == ""
    assert np.isnan(er.loc["hybrid:mog", "p_vs_best_fixed"])
    assert er.loc["fixed-1", "coverage"] == pytest.approx(39 / 40)
    assert (er["low"] <= er["value"]).all()
    assert (er["value"] <= er["high"]).all()
    assert (er["n"] == 40).all()


def test_leaderboard_is_sorted_and_shows_intervals():
    rows = leaderboard(made_scores(), "set", ["ER", "MRR"])
    assert [row["method"] for row in rows][-2:] == ["fixed-2", "fixed-1"]
    assert rows[0]["p"] == "<0.001"
    assert rows[-2]["p"] == ""
    assert rows[0]["MRR"] == "1.000 [1.000, 1.000]"
    assert leaderboard(made_scores(), "absent", ["ER"]) == []


def test_plots_are_small_pngs():
    table = made_scores("a $strange$ <set>")
    curve = [{"epoch": e, "train_loss": 1 / e, "validation_loss": 1.2 / e} for e in range(1, 30)]
    pictures = [
        length_histogram(np.arange(1000), 2),
        loss_curve(curve, 20),
        weights_by_kind(["yes/no", "", "a $b$"], np.random.default_rng(0).random((3, 5))),
        plots.er_against_cost(table, "a $strange$ <set>"),
        plots.leaderboard_bars(table, "a $strange$ <set>"),
        plots.er_against_cost(table, "absent"),
        plots.leaderboard_bars(table, "absent"),
    ]
    assert all(data.startswith(b"\x89PNG") and len(data) < MAX_BYTES for data in pictures)


def test_report_escapes_and_asks_nothing_of_the_network():
    page = render(made_scores("<script>alert(1)</script>"), {'"><img src=x>': b"\x89PNG"}, ["1 < 2 & <b>bold</b>"])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<img src=x>" not in page
    assert "1 &lt; 2 &amp; &lt;b&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "data:image/png;base64," in page
    assert page.count('aria-sort="descending"') == 1
    assert "No question with evidence" in render(pd.DataFrame(columns=list(COLUMNS)), {}, [])
