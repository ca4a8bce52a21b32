"""The history of evaluations, and whether scores are significantly lower than the accepted ones.

Past evaluations cannot be repeated, so they are kept in one file of the home that is only ever appended to: a line of
JSON for each evaluation, with a checksum of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import LEADS, Board, boards
from mog_assets.evaluate.scores import on_documents
from mog_assets.evaluate.significance import by_document, holm, permutation_p
from mog_assets.resources.manifest import digest

# A method has dropped if its evidence recall fell with a p-value below this, corrected for the number of methods.
ALPHA = 0.05
# The column of the measure by which evaluations are compared: `ER`, or `nDCG@10` where only documents are known.
LEADING = "leading"
FILE = "history.jsonl"
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
_NUMBERS = {name: "float64" for name in ("value", "low", "high", "p_vs_accepted")}
_TYPES = {"time": "datetime64[us, UTC]", **_NUMBERS, "n": "int64", "documents": "int64", "dropped": "bool"}
_GROUP = [*Board._fields, "method"]
_KEYS = [*_GROUP, "question"]


def leading(per_question: pd.DataFrame) -> pd.DataFrame:
    """Return leading measure of every question from `measures.evaluate`, with which later evaluations are compared."""
    by_document = per_question["evidence"] != "spans"
    measured = per_question.assign(**{LEADING: per_question["ER"].mask(by_document, per_question["nDCG@10"])})
    return measured[[*_KEYS, "document", LEADING]].reset_index(drop=True)


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
    """Return the rows of an evaluation in the history, with columns `COLUMNS`.

    Args:
        scores: Result of `scores.score`.
        measures: Measures to keep.
        when: Time of the evaluation, with a time zone.
        version: Version of the scores.
        configuration: Digest of the settings they were measured with.
        comparison: Result of `compare`; p_vs_accepted and dropped are in the rows of the leading measure.
    """
    selected = scores[scores["measure"].isin(list(measures))]
    compared = comparison.rename(columns={"p": "p_vs_accepted"})
    compared = compared.assign(measure=compared["evidence"].map(LEADS))
    table = selected.merge(
        compared[[*_GROUP, "measure", "p_vs_accepted", "dropped"]], on=[*_GROUP, "measure"], how="left"
    )
    table = table.assign(
        time=pd.Timestamp(when).tz_convert("UTC").as_unit("us"),
        scores=version,
        configuration=configuration,
        dropped=table["dropped"].eq(True),
    )
    return table[list(COLUMNS)]


def read(path: Path) -> tuple[pd.DataFrame, int]:
    """Return the evaluations of a file, in order of time, and how many lines cannot be read.

    Returns:
        Rows with columns `COLUMNS`; none if there is no file.
    """
    parts, unreadable = [], 0
    for line in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            evaluation = json.loads(line)
            if evaluation.pop("seal") != digest(evaluation):
                raise ValueError("it has changed since it was written")
            parts.append(pd.DataFrame(evaluation["rows"], columns=list(COLUMNS)).astype(_TYPES))
        except (ValueError, TypeError, AttributeError, KeyError):
            unreadable += 1
    return _in_order(parts), unreadable


def append(path: Path, evaluations: pd.DataFrame) -> None:
    """Add evaluations to a file, a line each; it is on disk when this returns."""
    lines = []
    for _, rows in evaluations.groupby("time", sort=True):
        # As a reader gets them.
        evaluation = json.loads(json.dumps({"rows": rows.astype({"time": str}).to_dict("records")}))
        lines.append(json.dumps({**evaluation, "seal": digest(evaluation)}, ensure_ascii=False) + "\n")
    with path.open("ab+") as stream:
        if stream.seek(0, os.SEEK_END) and (stream.seek(-1, os.SEEK_END), stream.read())[1] != b"\n":
            # A process was killed in the middle of a line.
            stream.write(b"\n")
        stream.write("".join(lines).encode())
        stream.flush()
        os.fsync(stream.fileno())


def joined(table: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return evaluations with those of `others` that are of another time."""
    return _in_order([table, others[~others["time"].isin(table["time"])]])


def times(table: pd.DataFrame) -> list[str]:
    """Return times of the evaluations, ISO 8601, in order."""
    return [pd.Timestamp(time).isoformat() for time in table["time"].unique()]


def _in_order(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)]
    table = pd.concat(filled) if filled else pd.DataFrame(columns=list(COLUMNS)).astype(_TYPES)
    return table.sort_values("time", kind="stable").reset_index(drop=True)


def drops(comparison: pd.DataFrame) -> list[str]:
    """Return the methods that dropped, worst first, with figures, as text."""
    lower = comparison[comparison["dropped"]]
    lower = lower.assign(change=lower["now"] - lower["before"]).sort_values("change", kind="stable")
    return [
        f"{row.question_set}/{row.split} {row.method}: {LEADS[row.evidence]} {row.before:.3f} to {row.now:.3f} on "
        f"{on_documents(row.n, row.documents)} (p = {row.p:.4f})"
        for row in lower.itertuples()
    ]
