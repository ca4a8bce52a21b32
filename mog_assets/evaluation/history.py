"""The history of evaluations, and whether scores are significantly lower than the accepted ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd

from mog_assets.evaluation.measures import LEADS, Board, boards
from mog_assets.evaluation.scores import on_documents
from mog_assets.significance import by_document, holm, permutation_p

# A method has dropped if its evidence recall fell with a p-value below this, corrected for the number of methods.
ALPHA = 0.05
# The column of the measure by which evaluations are compared: `ER`, or `nDCG@10` where only documents are known.
LEADING = "leading"
COLUMNS = (
    "time",
    "scores",
    "configuration",
    "question_set",
    "split",
    "evidence",
    "method",
    "measure",
    "value",
    "low",
    "high",
    "n",
    "documents",
    "p_vs_accepted",
    "dropped",
)
_GROUP = [*Board._fields, "method"]
_KEYS = [*_GROUP, "question"]


def leading(per_question: pd.DataFrame) -> pd.DataFrame:
    """The leading measure of every question from `measures.evaluate`, with which later evaluations are compared."""
    by_document = per_question["evidence"] != "spans"
    found = per_question.assign(**{LEADING: per_question["ER"].mask(by_document, per_question["nDCG@10"])})
    return found[[*_KEYS, "document", LEADING]].reset_index(drop=True)


def compare(now: pd.DataFrame, accepted: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compare every method with itself in the accepted evaluation, on the questions of both.

    Args:
        now: Result of `leading`.
        accepted: Likewise, of the accepted evaluation; its documents are ignored.
        seed: Seed of the permutations.

    Returns:
        A row per board and method that both have: n questions, number of documents, before and now
        (means of the leading measure), p (paired permutation test over documents, two-sided, Holm-corrected over all
        rows) and dropped.
    """
    both = now.merge(accepted[[*_KEYS, LEADING]], on=_KEYS, suffixes=("_now", "_before"))
    parts = []
    for board, part in boards(both):
        part = part.assign(difference=part[f"{LEADING}_now"] - part[f"{LEADING}_before"])
        # Every method has a row for every question of its set, so the matrix has no gaps.
        differences = part.pivot(index=["question", "document"], columns="method", values="difference")
        values = differences.to_numpy(np.float64)
        p = np.ones(values.shape[1])
        moved = np.flatnonzero(values.any(axis=0))
        documents = differences.index.get_level_values("document").to_numpy(str)
        p[moved] = permutation_p(by_document(values[:, moved], documents), seed=seed)
        means = part.groupby("method")[[f"{LEADING}_before", f"{LEADING}_now"]].mean().loc[differences.columns]
        means.columns = ["before", "now"]
        counts = {"n": len(values), "documents": len(np.unique(documents))}
        parts.append(means.reset_index().assign(**board._asdict(), **counts, p=p))
    columns = [*_GROUP, "n", "documents", "before", "now", "p", "dropped"]
    if not parts:
        return pd.DataFrame(columns=columns).astype({"dropped": bool, "p": float})
    table = pd.concat(parts, ignore_index=True)
    table["p"] = holm(table["p"].to_numpy())
    table["dropped"] = (table["now"] < table["before"]) & (table["p"] < ALPHA)
    return table[columns]


def rows(
    scores: pd.DataFrame,
    measures: Sequence[str],
    when: datetime,
    version: str,
    configuration: str,
    comparison: pd.DataFrame,
) -> pd.DataFrame:
    """The rows of an evaluation in the history, with columns `COLUMNS`.

    Args:
        scores: Result of `scores.score`.
        measures: Measures to keep.
        when: Time of the evaluation, with a time zone.
        version: Version of the scores.
        configuration: Digest of the settings they were measured with.
        comparison: Result of `compare`; p_vs_accepted and dropped are in the rows of the leading measure.
    """
    kept = scores[scores["measure"].isin(list(measures))]
    found = comparison.rename(columns={"p": "p_vs_accepted"})
    found = found.assign(measure=found["evidence"].map(LEADS))
    table = kept.merge(found[[*_GROUP, "measure", "p_vs_accepted", "dropped"]], on=[*_GROUP, "measure"], how="left")
    table = table.assign(
        time=pd.Timestamp(when).tz_convert("UTC").as_unit("us"),
        scores=version,
        configuration=configuration,
        dropped=table["dropped"].eq(True),
    )
    return table[list(COLUMNS)]


def appended(earlier: pd.DataFrame | None, new: pd.DataFrame) -> pd.DataFrame:
    """The table with another evaluation appended."""
    if earlier is None or earlier.empty:
        return new
    return pd.concat([earlier, new], ignore_index=True) if len(new) else earlier


def drops(comparison: pd.DataFrame) -> list[str]:
    """The methods that dropped, worst first, with figures, as text."""
    found = comparison[comparison["dropped"]]
    found = found.assign(change=found["now"] - found["before"]).sort_values("change", kind="stable")
    return [
        f"{row.question_set}/{row.split} {row.method}: {LEADS[row.evidence]} {row.before:.3f} to {row.now:.3f} on "
        f"{on_documents(row.n, row.documents)} (p = {row.p:.4f})"
        for row in found.itertuples()
    ]
