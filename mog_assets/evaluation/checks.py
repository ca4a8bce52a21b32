"""What must hold of scores before they are shown."""

from __future__ import annotations

import pandas as pd

from resources.recipe import Check, Work


def _in_range(work: Work) -> str | None:
    scores = pd.read_parquet(work.draft.path("scores.parquet"))
    inside = (scores["low"] >= 0) & (scores["low"] <= scores["value"] + 1e-6)
    inside &= (scores["value"] <= scores["high"] + 1e-6) & (scores["high"] <= 1 + 1e-6)
    if inside.all():
        return None
    row = scores[~inside].iloc[0]
    return f"{row['measure']} of {row['method']} is {row['value']} with interval {row['low']} to {row['high']}"


MEASURES_IN_RANGE = Check("measures_in_range", "Every measure lies in 0 … 1 and inside its interval.", _in_range)
