"""Checks of runs and scores."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mog_assets.build.recipe import Check, Work
from mog_assets.evaluate.measures import range_of
from mog_assets.evaluate.runs import read_runs
from mog_assets.search.methods import controls

# Scores that differ by less, absolutely or relatively, are the same.
_ROUNDING = 1e-5


def _in_range(work: Work) -> str | None:
    scores = pd.read_parquet(work.draft.path("scores.parquet"))
    least, most = (scores["measure"].map(lambda name, end=end: range_of(name)[end]) for end in (0, 1))
    inside = (scores["low"] >= least - 1e-6) & (scores["low"] <= scores["value"] + 1e-6)
    inside &= (scores["value"] <= scores["high"] + 1e-6) & (scores["high"] <= most + 1e-6)
    # One document has no interval.
    inside |= (
        (scores["documents"] < 2) & scores["value"].between(least, most) & scores[["low", "high"]].isna().all(axis=1)
    )
    if inside.all():
        return None
    row = scores[~inside].iloc[0]
    return f"{row['measure']} of {row['method']} is {row['value']} with interval {row['low']} to {row['high']}"


MEASURES_IN_RANGE = Check(
    "measures_in_range",
    "Every measure is within its range (0 … 1; 1 … 2,000 for tokens to answer) and its interval.",
    _in_range,
)


def _same_again(work: Work) -> str | None:
    before = work.repeats
    if before is None:
        return None
    name = "runs.parquet"
    if work.draft.path(name).read_bytes() == before.path(name).read_bytes():
        return None
    return _difference(read_runs(before.path(name)), read_runs(work.draft.path(name)))


def _difference(before: pd.DataFrame, now: pd.DataFrame) -> str | None:
    place, names = ["question_set", "question", "method", "rank"], ["corpus", "doc"]
    # Names as text: categories of two files can be compared only if they are the same.
    texts = dict.fromkeys([*place[:3], *names], object)
    old, new = (runs.astype(texts) for runs in (before, now))
    # A passage may have several spans.
    old["span"], new["span"] = (runs.groupby(place).cumcount() for runs in (old, new))
    both = old.merge(new, on=[*place, "span"], how="outer", suffixes=("", "_now"))
    other = pd.concat([both[name] != both[f"{name}_now"] for name in [*names, "start", "end"]], axis=1).any(axis=1)
    # The last bits of a score depend on the questions that are asked with it, and with them the order of equal ones.
    rescored = ~np.isclose(both["score"], both["score_now"], rtol=_ROUNDING, atol=_ROUNDING)
    moved = other & (rescored | both["method"].isin(controls()))
    rankings = both[place[:3]].assign(moved=moved, rescored=rescored & ~moved)
    changed = rankings.groupby(place[:3])[["moved", "rescored"]].any()
    if not changed.any(axis=None):
        return None
    return (
        f"of {len(changed)} rankings, {int(changed['moved'].sum())} have other passages and "
        f"{int((changed['rescored'] & ~changed['moved']).sum())} other scores than before, from the same inputs and "
        "settings: ranking is not deterministic"
    )


SAME_AGAIN = Check(
    "same_again",
    "Ranking again from the same inputs and settings gives the same passages.",
    _same_again,
    blocking=False,
)
