"""The scores of two projects side by side, such as one with another setting."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mog_assets.evaluate.measures import KNOWN_BY, Board, boards
from mog_assets.evaluate.scores import compare
from mog_assets.search.methods import controls

# Name of the baseline.
_NO_CHANGE = "no change"


def side_by_side(
    ours: pd.DataFrame, theirs: pd.DataFrame, measures: Sequence[str], seed: int
) -> dict[str, pd.DataFrame]:
    """Return the methods that two projects scored on the same questions, such as one with another setting.

    Args:
        ours: A row for each question set, split, method and question: those columns, document, and the measures.
        theirs: The same table of the other project; its documents are ignored.
        measures: Names of the measures.
        seed: Of resamples and random signs.

    Returns:
        By question set and split: a row per method and measure with the columns of `compare` (cell is the method),
        where value is our mean and `other` theirs; differences are theirs minus ours, Holm-corrected over methods.
    """
    keys = [*Board._fields, "method", "question"]
    both = ours[[*keys, "document", *measures]].merge(theirs[[*keys, *measures]], on=keys, suffixes=("", " theirs"))
    both = both[~both["method"].isin(controls())]
    tables = {}
    for board, part in boards(both):
        measures = [name for name in measures if part[[name, f"{name} theirs"]].notna().all(axis=None)]
        # A question that some method lacks is left out for all methods.
        counts = part.groupby("question")["method"].nunique()
        part = part[part["question"].isin(counts[counts == part["method"].nunique()].index)]
        if part.empty or not measures:
            continue
        changes = part[["question", "document"]].assign(
            cell=part["method"], **{m: part[f"{m} theirs"] - part[m] for m in measures}
        )
        nothing = changes.drop_duplicates("question").assign(cell=_NO_CHANGE, **dict.fromkeys(measures, 0.0))
        table = compare(pd.concat([changes, nothing], ignore_index=True), measures, _NO_CHANGE, seed)
        table = table[table["cell"] != _NO_CHANGE].reset_index(drop=True)
        means = part.groupby("method")[[*measures, *(f"{m} theirs" for m in measures)]].mean()
        pairs = list(zip(table["cell"], table["measure"], strict=True))
        tables[f"{board.question_set}, {board.split}{KNOWN_BY[board.evidence]}"] = table.assign(
            value=[means.loc[cell, m] for cell, m in pairs], other=[means.loc[cell, f"{m} theirs"] for cell, m in pairs]
        ).drop(columns=["low", "high"])
    return tables
