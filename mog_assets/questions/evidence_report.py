"""What was found of each question: the file that the asset `questions` has beside the question sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.parquet as pq

from mog_assets.resources.store import Artefact

# A row per question: how its evidence was found, and what was not. No question set has a name like this.
REPORT = "_evidence.parquet"


def report_rows(stored: Artefact, question_set: str) -> list[dict[str, Any]]:
    """What was found of the questions of a set, and which of them are not used.

    Returns:
        A dict per question: id, question (its text), split (both empty if it is not used), level (see
        `Question.level`), found (`offsets`, `exact`, `normalised`, `fuzzy`, or empty), places (their number), score of
        the worst place (0 … 1; None without a place), `not found` (what was not), and skipped: why the question is not
        used, empty if it is. First those that could be read, in the order of their file, then the others, of which
        nothing was looked for: the asset keeps at most 1,000 of these.
    """
    table = pq.read_table(stored.path(REPORT), filters=[("question set", "=", question_set)])
    columns = pq.read_table(stored.path(f"{question_set}.parquet"), columns=["id", "question", "split"])
    by_id = {row["id"]: row for row in columns.to_pylist()}
    problems = [p for p in stored.manifest.info["problems"] if p["question set"] == question_set]
    # Others have a place in the file.
    left_out = {p["id"]: p["reason"] for p in problems if not _unread(p)}
    rows = []
    for row in table.to_pylist():
        question = by_id.get(row["id"], {})
        row_of = {key: row[key] for key in ("level", "found", "places", "score")}
        # A row of a table may have no id of its own, so it is named by its place.
        lost = f"{row['place']}: {row['not found']}" if row["not found"] and row["place"] else row["not found"]
        row_of["not found"] = lost
        # Without a place there is no worst one.
        row_of["score"] = row["score"] if row["found"] else None
        skipped = left_out.get(row["id"], "" if question else "another kind of question than `kinds` names")
        rows.append(
            {"id": row["id"], "question": question.get("question", ""), "split": question.get("split", ""), **row_of}
        )
        rows[-1]["skipped"] = "" if question else skipped
    nothing = {"question": "", "split": "", "level": "", "found": "", "places": 0, "score": None, "not found": ""}
    rows += [{"id": p["id"], **nothing, "skipped": f"{p['place']}: {p['reason']}"} for p in unread(problems)]
    return rows


def unread(problems: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The problems of questions that could not be read, of those of a question set that the asset lists."""
    return [problem for problem in problems if _unread(problem)]


def _unread(problem: Mapping[str, str]) -> bool:
    # What was left out later is in no place of a file: the question set stands for it.
    return problem["place"] != problem["question set"]
