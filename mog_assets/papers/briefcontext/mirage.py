"""Recorded outputs scored exactly as the MIRAGE benchmark does, so that accuracies can be compared with its own.

References: Xiong et al. 2024 (Benchmarking Retrieval-Augmented Generation for Medicine), `evaluate.py` of MIRAGE.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mog_assets.documents.decoding import split_lines
from mog_assets.papers.briefcontext.letters import choice
from mog_assets.resources.errors import MogError

AVERAGE = "average"


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
    for number, line in read_lines(path):
        place = f"{path.name}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise MogError(f'{place}: expected {{"id": …, "output": …}} as JSON ({error})') from error
        if not isinstance(record, dict) or not isinstance(record.get("id"), str) or "output" not in record:
            raise MogError(f'{place}: expected {{"id": …, "output": …}}, got {str(record)[:80]}')
        identity, output = record["id"], record["output"]
        if output is not None and not isinstance(output, str):
            raise MogError(f"{place}: output: expected a text or null, got {type(output).__name__}")
        if identity not in answers:
            raise MogError(f"{place}: id: expected a question with a known answer, got {identity[:80]!r}")
        if identity in outputs:
            raise MogError(f"{place}: id: {identity!r} is in the file twice")
        outputs[identity] = output
    if not outputs:
        raise MogError(f"{path}: expected at least one line, found none")
    return outputs


def read_answers(path: Path) -> dict[str, str]:
    """Yield right letters by question id, of a question set in the project's format.

    Raises:
        MogError: the file cannot be read.
    """

    def records(lines: Iterable[tuple[int, bytes]]) -> Iterable[dict[str, object]]:
        for number, line in lines:
            try:
                record = json.loads(line)
            except ValueError as error:
                raise MogError(f"{path.name}:{number}: expected a question as JSON ({error})") from error
            if isinstance(record, dict):
                yield record

    return {
        str(record["id"]): str(record["answer"])
        for record in records(read_lines(path))
        if record.get("id") and record.get("options") and record.get("answer")
    }


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield line number (from 1) and bytes of every line of a `.jsonl[.gz]` file that is not blank.

    Raises:
        MogError: the file is missing, or is named `.gz` but is not a gzip file.
    """
    try:
        with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as stream:
            for number, line, _ in split_lines(stream):
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MogError(f"{file}: expected a readable JSON Lines file, got: {reason}") from error
