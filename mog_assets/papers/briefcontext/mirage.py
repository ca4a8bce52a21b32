"""Recorded outputs scored exactly as the MIRAGE benchmark does, so that accuracies can be compared with its own.

References: Xiong et al. 2024 (Benchmarking Retrieval-Augmented Generation for Medicine), `evaluate.py` of MIRAGE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mog_assets.documents.decoding import parse_line
from mog_assets.papers.briefcontext.letters import choice
from mog_assets.questions.records import lines_of, read_records
from mog_assets.resources.errors import MogError

AVERAGE = "average"
# Bytes of a line.
_LONGEST = 20_000_000


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers.

    Attributes:
        set: Name of the question set, or `average`: the unweighted mean over sets.
        n: Number of questions.
        accuracy: In [0, 1].
        se: Standard error, √(p (1 − p) / n); for the average, that of a mean of independent shares.
    """

    set: str
    n: int
    accuracy: float
    se: float


def score(outputs: Mapping[str, str | None], answers: Mapping[str, str]) -> list[Accuracy]:
    """Return accuracy of recorded outputs, per question set in order of name, then the average.

    Args:
        outputs: Raw output by question id, `set/…`; only these questions are scored.
        answers: Right letter by question id.
    """
    right: dict[str, list[bool]] = {}
    for identity, output in outputs.items():
        right.setdefault(identity.split("/")[0], []).append(choice(output) == answers[identity])
    rows = []
    for name in sorted(right):
        n, p = len(right[name]), sum(right[name]) / len(right[name])
        rows.append(Accuracy(name, n, p, math.sqrt(p * (1 - p) / n)))
    if rows:
        mean = sum(a.accuracy for a in rows) / len(rows)
        se = math.sqrt(sum(a.se**2 for a in rows)) / len(rows)
        rows.append(Accuracy(AVERAGE, sum(a.n for a in rows), mean, se))
    return rows


def read_outputs(path: Path, answers: Mapping[str, str]) -> dict[str, str | None]:
    """Return recorded outputs: lines `{"id": "medqa/0000", "output": str|null}`.

    Raises:
        MogError: the file cannot be read, or a line is not such an object, names an unknown question, or repeats one.
    """
    outputs: dict[str, str | None] = {}
    for number, line, wrong in lines_of(path, "file of outputs", _LONGEST):
        record = wrong or parse_line(line)
        if not isinstance(record, dict) or not isinstance(record.get("output", 0), str | None):
            got = record if isinstance(record, str) else str(record)[:80]
            raise MogError(f'{path.name}:{number}: expected {{"id": …, "output": a text or null}}, got {got}')
        identity = str(record.get("id"))
        if identity not in answers or identity in outputs:
            got = f"{identity[:80]!r}{' twice' if identity in outputs else ''}"
            raise MogError(f"{path.name}:{number}: id: expected that of a question with a known answer, got {got}")
        outputs[identity] = record["output"]
    if not outputs:
        raise MogError(f"{path}: expected at least one line, found none")
    return outputs


def read_answers(path: Path) -> dict[str, str]:
    """Return the right letters of multiple choice by question id, of a file of a question set.

    Raises:
        MogError: the file cannot be read.
    """
    records = [record for _, record in read_records(path) if isinstance(record, dict)]
    return {str(r["id"]): str(r["answer"]) for r in records if r.get("id") and r.get("options") and r.get("answer")}
