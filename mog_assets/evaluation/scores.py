"""Means over questions, how sure they are, and how they compare with the best single level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.evaluation.measures import measure_names
from mog_assets.significance import bootstrap_interval, holm, permutation_p

COLUMNS = (
    "question_set",
    "split",
    "method",
    "retriever",
    "kind",
    "measure",
    "value",
    "low",
    "high",
    "n",
    "coverage",
    "baseline",
    "p_vs_best_fixed",
)


def score(per_question: pd.DataFrame, k: int, seed: int, kinds: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Mean of every measure for every method, with its interval and its comparison with the best single level.

    Args:
        per_question: As `measures.evaluate` gives it with the same `k`.
        k: Number of passages that are passed on.
        seed: Of the resamples.
        kinds: Retriever and kind of each method; kind `fixed` marks a single level.

    Returns:
        A row per question set, split, method and measure, in the order of `COLUMNS`: value with its 95 % bootstrap
        interval low … high, n questions, coverage (the share of them with any passage), baseline (the method of one
        level with the greatest mean under the same retriever; empty where none ran) and p_vs_best_fixed, the two-sided
        p-value against it, Holm-corrected over the methods of the question set (NaN for the baseline itself).
    """
    names = list(measure_names(k))
    tables = []
    for (question_set, split), part in per_question.groupby(["question_set", "split"], sort=False):
        methods = list(dict.fromkeys(part["method"]))
        table = _compare(part, methods, names, seed, kinds)
        tables.append(table.assign(question_set=str(question_set), split=str(split)))
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(tables, ignore_index=True)[list(COLUMNS)]


def _compare(
    part: pd.DataFrame, methods: list[str], names: list[str], seed: int, kinds: Mapping[str, tuple[str, str]]
) -> pd.DataFrame:
    """`score` of one question set and split."""
    cells = part.set_index(["question", "method"])[names].unstack("method")
    # (questions, methods, measures); tests are paired, so a question that a method lacks would be an error upstream.
    values = np.stack([cells.xs(m, axis=1, level="method")[names].to_numpy(np.float64) for m in methods], axis=1)
    if np.isnan(values).any():
        raise ValueError("per_question: expected a row for every question and method of a question set")
    n = len(values)
    means = values.mean(axis=0)
    low, high = (ends.reshape(means.shape) for ends in bootstrap_interval(values.reshape(n, -1), seed=seed))

    baselines = np.full(means.shape, -1)
    for i, method in enumerate(methods):
        retriever, _ = kinds.get(method, ("", ""))
        fixed = [j for j, other in enumerate(methods) if retriever and kinds.get(other) == (retriever, "fixed")]
        if fixed:
            baselines[i] = np.array(fixed)[means[fixed].argmax(axis=0)]
    tested = (baselines >= 0) & (baselines != np.arange(len(methods))[:, None])
    p = np.full(means.shape, np.nan)
    method_at, measure_at = np.nonzero(tested)
    differences = values[:, method_at, measure_at] - values[:, baselines[tested], measure_at]
    p[tested] = permutation_p(differences, seed=seed)
    p = np.stack([holm(column) for column in p.T], axis=1)

    coverage = part.groupby("method")["answered"].mean()
    return pd.DataFrame(
        [
            {
                "method": method,
                "retriever": kinds.get(method, ("", ""))[0],
                "kind": kinds.get(method, ("", ""))[1],
                "measure": name,
                "value": means[i, j],
                "low": low[i, j],
                "high": high[i, j],
                "n": n,
                "coverage": float(coverage[method]),
                "baseline": methods[baselines[i, j]] if baselines[i, j] >= 0 else "",
                "p_vs_best_fixed": p[i, j],
            }
            for i, method in enumerate(methods)
            for j, name in enumerate(names)
        ]
    )


def leaderboard(
    scores: pd.DataFrame, question_set: str, measures: Sequence[str], order_by: str = "ER"
) -> list[dict[str, Any]]:
    """A question set's methods, best first, as text to print.

    Returns:
        A dict per method: method, each measure as `value [low, high]`, p (of `order_by` against the best single level,
        empty where there is no test) and coverage. A method with several splits has a row for each.
    """
    here = scores[scores["question_set"] == question_set]
    rows = []
    for _, part in here.groupby(["split", "method"], sort=False):
        by_measure = part.set_index("measure")
        if order_by not in by_measure.index:
            continue
        leading = by_measure.loc[order_by]
        shown = {name: interval(*by_measure.loc[name, ["value", "low", "high"]]) for name in measures}
        row = {"method": leading["method"], **shown, "p": p_text(leading["p_vs_best_fixed"])}
        rows.append((leading["value"], {**row, "coverage": f"{leading['coverage']:.0%}"}))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def interval(value: float, low: float, high: float) -> str:
    """`0.512 [0.480, 0.544]`."""
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


def p_text(p: float) -> str:
    """A p-value to three places; empty for none."""
    if np.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def compare(per_question: pd.DataFrame, measures: Sequence[str], baseline: str | None, seed: int) -> pd.DataFrame:
    """Temporary; a colleague writes it."""
    rows = []
    cells = list(dict.fromkeys(per_question["cell"]))
    for measure in measures:
        wide = per_question.pivot(index="question", columns="cell", values=measure)[cells]
        values = wide.to_numpy(float)
        low, high = bootstrap_interval(values, seed=seed)
        others = [i for i, c in enumerate(cells) if baseline is not None and c != baseline]
        found = {}
        if others:
            d = values[:, others] - values[:, [cells.index(baseline)]]
            p = holm(permutation_p(d, seed=seed))
            dl, dh = bootstrap_interval(d, seed=seed)
            sd = d.std(axis=0, ddof=1)
            for j, i in enumerate(others):
                found[i] = dict(
                    difference=d[:, j].mean(),
                    difference_low=dl[j],
                    difference_high=dh[j],
                    effect=d[:, j].mean() / sd[j] if sd[j] else 0.0,
                    p=p[j],
                    detectable=2.8 * sd[j] / np.sqrt(len(d)),
                )
        none = dict.fromkeys(("difference", "difference_low", "difference_high", "effect", "p", "detectable"), np.nan)
        for i, cell in enumerate(cells):
            rows.append(
                dict(
                    cell=cell,
                    measure=measure,
                    value=values[:, i].mean(),
                    low=low[i],
                    high=high[i],
                    n=len(values),
                    **found.get(i, none),
                )
            )
    return pd.DataFrame(rows)
