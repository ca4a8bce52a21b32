"""Statistics against scipy and against simulation: intervals, tests, effect sizes, and the families they stand in."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mog_assets.evaluate import scores as scores_module
from mog_assets.evaluate.measures import lower_is_better, measure_names
from mog_assets.evaluate.scores import compare, leaderboard, score
from mog_assets.evaluate.significance import (
    bootstrap_interval,
    by_document,
    detectable,
    effect_size,
    holm,
    permutation_p,
)
from mog_assets.search.methods import controls

COMPARED = ["difference", "difference_low", "difference_high", "effect", "p", "detectable"]


def differences_of(n=80, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(np.linspace(0, 0.6, columns), 1, (n, columns))


def each(values):
    """Every question on a document of its own."""
    return by_document(values, np.arange(len(values)))


# Against scipy


def test_permutation_p_is_that_of_scipy():
    differences = differences_of()
    ours = permutation_p(each(differences), samples=20_000)
    for column, p in zip(differences.T, ours, strict=True):
        theirs = stats.permutation_test(
            (column,), np.mean, permutation_type="samples", n_resamples=20_000, vectorized=True, rng=1
        )
        # Both draw: four standard errors of the difference of two shares.
        assert p == pytest.approx(theirs.pvalue, abs=4 * np.sqrt(2 * 0.25 / 20_000))
    assert ours[0] > 0.05 > ours[-1]


def test_interval_is_the_percentile_bootstrap_of_scipy_at_the_level_that_student_t_asks_for():
    values = np.random.default_rng(3).exponential(1, (60, 3))
    low, high = bootstrap_interval(each(values), samples=20_000)
    level = 1 - 2 * stats.norm.cdf(-np.sqrt(60 / 59) * stats.t.ppf(0.975, 59))
    options = {"method": "percentile", "n_resamples": 20_000, "confidence_level": level, "rng": 4}
    for j, column in enumerate(values.T):
        theirs = stats.bootstrap((column,), np.mean, **options).confidence_interval
        assert (low[j], high[j]) == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_effect_size_is_the_t_statistic_of_scipy_over_root_n():
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=(2, 40, 4))
    t = stats.ttest_rel(first, second).statistic
    assert effect_size(each(first - second)) == pytest.approx(t / np.sqrt(40))


def test_effect_and_detectable_difference_know_when_there_is_no_spread():
    n = 9
    columns = np.stack([np.zeros(n), np.full(n, 0.1), np.linspace(-1, 1, n)], axis=1)
    assert effect_size(each(columns)) == pytest.approx([0, np.nan, 0], nan_ok=True)
    assert np.isnan(detectable(each(columns))).tolist() == [True, True, False]
    alone = each(np.ones((1, 1)))
    assert np.isnan(effect_size(alone)).all() and np.isnan(detectable(alone)).all()
    assert np.isnan(detectable(each(np.empty((0, 2))))).all()


# Against simulation


def test_detectable_difference_shrinks_with_the_root_of_n_and_grows_with_demands():
    differences = np.tile(differences_of(columns=1), (4, 1))
    quarter = detectable(each(differences[:80]))
    differences = each(differences)
    assert detectable(differences) == pytest.approx(quarter / 2, rel=0.02)
    assert detectable(differences, alpha=0.01) > detectable(differences, alpha=0.05)
    assert detectable(differences, power=0.9) > detectable(differences, power=0.8)
    both = detectable(differences.columns(np.array([0, 0])), alpha=np.array([0.05, 0.01]))
    assert both == pytest.approx([detectable(differences, 0.05)[0], detectable(differences, 0.01)[0]])


# Comparison with a baseline


def per_question(n=60, seed=7):
    """An experiment of three cells, `small` the baseline; `same` has its values, `large` more of them."""
    rng = np.random.default_rng(seed)
    small, names = rng.random((n, 2)) * 0.5, [f"q{i}" for i in range(n)]
    cells = {"large": small + rng.random((n, 2)) * 0.2, "small": small, "same": small}
    tables = [
        pd.DataFrame({"question": names, "document": names, "cell": name, "ER": v[:, 0], "MRR": v[:, 1]})
        for name, v in cells.items()
    ]
    return pd.concat(tables, ignore_index=True)


def test_cells_are_compared_with_the_baseline_on_the_same_questions():
    table = per_question()
    found = compare(table.sample(frac=1, random_state=0), ["ER", "MRR"], "small", seed=3)
    assert set(found["cell"]) == {"large", "small", "same"} and (found[["n", "documents"]] == 60).all(axis=None)
    wide = table.pivot(index="question", columns="cell")
    for measure in ("ER", "MRR"):
        rows = found[found["measure"] == measure].set_index("cell")
        assert rows.loc["small", COMPARED].isna().all()
        difference = (wide[measure]["large"] - wide[measure]["small"]).to_numpy()[:, None]
        large = rows.loc["large"]
        assert large["value"] == pytest.approx(wide[measure]["large"].mean())
        assert large["difference"] == pytest.approx(difference.mean())
        # The same resamples and signs as if the differences were alone.
        low, high = bootstrap_interval(each(difference), seed=3)
        assert (large["difference_low"], large["difference_high"]) == pytest.approx((low[0], high[0]))
        assert large["effect"] == pytest.approx(effect_size(each(difference))[0])
        p = permutation_p(each(np.hstack([difference, np.zeros_like(difference)])), seed=3)
        assert [large["p"], rows.loc["same", "p"]] == pytest.approx(holm(p))
        assert large["detectable"] == pytest.approx(detectable(each(difference), 0.05 / 2)[0])
        assert (rows.loc["same", "difference"], rows.loc["same", "effect"], rows.loc["same", "p"]) == (0, 0, 1)


def test_cells_are_described_without_a_baseline_and_without_a_second_cell():
    table = per_question()
    found = compare(table, ["ER"], None, seed=0)
    assert found[COMPARED].isna().all(axis=None) and found["value"].notna().all()
    assert (found["low"] < found["value"]).all() and (found["value"] < found["high"]).all()
    alone = compare(table[table["cell"] == "small"], ["ER"], "small", seed=0)
    assert len(alone) == 1 and alone[COMPARED].isna().all(axis=None)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t[:-1], "got 0 of question 'q59' in 'same'"),
        (lambda t: pd.concat([t, t[:1]]), "got 2 of question 'q0' in 'large'"),
        (lambda t: t.assign(ER=t["ER"].where(t.index != 61)), "got none for 'ER' of question 'q1' in 'small'"),
        (lambda t: t[:0], "at least one question"),
    ],
)
def test_an_experiment_with_gaps_is_refused_with_the_place(spoil, message):
    with pytest.raises(ValueError, match=message):
        compare(spoil(per_question()), ["ER", "MRR"], "small", seed=0)


def test_a_baseline_that_is_no_cell_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="baseline: expected one of the cells large, small, same, or None, got 'tiny'"):
        compare(per_question(), ["ER"], "tiny", seed=0)


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    table = per_question()
    first, again, other = (compare(table, ["ER"], "small", seed=s) for s in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first["low"].equals(other["low"])


# Families of the leaderboard

KINDS = {
    "fixed-1": ("bm25", "fixed"),
    "fixed-2": ("bm25", "fixed"),
    "mog-paper": ("bm25", "mog-paper"),
    "random": ("bm25", "random"),
    "gold": ("bm25", "gold"),
}


def measured(methods, n=60):
    """Every measure of every question: `fixed-2` best of the levels, `random` and `gold` at the ends."""
    levels = {"fixed-1": 0.4, "fixed-2": 0.5, "mog-paper": 0.55, "random": 0.05, "gold": 0.95}
    names, rng = list(measure_names(2)), np.random.default_rng(8)
    noise = rng.normal(0, 0.1, (n, len(names)))
    tables = []
    for method in methods:
        values = np.clip(levels[method] + noise + rng.normal(0, 0.05, noise.shape), 0, 1)
        frame = pd.DataFrame(values, columns=names)
        keys = {"question_set": "s", "split": "dev", "method": method, "question": [f"q{i}" for i in range(n)]}
        keys["document"] = keys["question"]
        tables.append(frame.assign(**keys, answered=True))
    return pd.concat(tables, ignore_index=True)


def test_controls_are_measured_and_take_no_part_in_any_test():
    assert {"random", "gold"} == set(controls())
    with_controls = score(measured(KINDS), 2, 0, KINDS)
    without = score(measured(["fixed-1", "fixed-2", "mog-paper"]), 2, 0, KINDS)
    control = with_controls[with_controls["kind"].isin(controls())]
    assert (control["baseline"] == "").all()
    columns = ["difference", "difference_low", "difference_high", "effect", "p_vs_best_fixed", "detectable"]
    assert control[columns].isna().all(axis=None) and control["value"].notna().all()
    rest = with_controls[~with_controls["kind"].isin(controls())].reset_index(drop=True)
    pd.testing.assert_frame_equal(rest, without)
    tested = without[without["p_vs_best_fixed"].notna() & ~without["measure"].map(lower_is_better)]
    assert set(tested["method"]) == {"fixed-1", "mog-paper"} and tested[columns].notna().all(axis=None)


def test_the_best_level_of_a_measure_where_less_is_better_has_the_least_mean(monkeypatch):
    monkeypatch.setattr(scores_module, "lower_is_better", lambda name: name == "MRR" or lower_is_better(name))
    found = score(measured(["fixed-1", "fixed-2", "mog-paper"]), 2, 0, KINDS)
    mog = found[found["method"] == "mog-paper"].set_index("measure")
    assert mog.loc["MRR", "baseline"] == "fixed-1" and mog.loc["ER", "baseline"] == "fixed-2"
    assert [row["method"] for row in leaderboard(found, ["MRR"], "MRR")] == ["fixed-1", "fixed-2", "mog-paper"]
    assert [row["method"] for row in leaderboard(found, ["ER"], "ER")] == ["mog-paper", "fixed-2", "fixed-1"]


# Two projects
