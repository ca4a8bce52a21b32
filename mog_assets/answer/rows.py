"""Answer rows: one per question and answering method, answered or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from mog_assets.answer.roles import AnswerSpan, RetrievedPassage, Usage
from mog_assets.registry import JUDGES, WAYS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AnswerRow:
    """Record of how a question was answered.

    Attributes:
        question: Id of the question.
        method: Answering method, e.g. `one-step`.
        reader: Name and version of the reader.
        answer: The letter of an option or a text; None if there is none.
        failure: Why there is no answer; empty if there is one.
        raw: The reader's output for the answer before parsing.
        span: Where the answer stands in the passages and how sure the reader is; None if the reader does not say.
        passages: Passages the answer is based on, best first.
        rounds: Rounds of retrieval and answering; 1 if the method has no loop.
        queries: Per round `query`, and what is told of its group, see `answerers.RetrievedPassages`.
        judgement: Marks of the judge by name, and `failures`: why there is none; None without a judge.
        failures: Failed calls: `role`, `round`, `reason`. There may still be an answer.
        usage: Cost of all calls; `seconds` are stored only for a reader whose replies are cached.
        token_unit: `tokens` of the model, or `words`.
        details: What else the way of answering tells, by the names of `Way.details`.
    """

    question: str
    method: str
    reader: str
    answer: str | None
    failure: str
    raw: str
    span: AnswerSpan | None = None
    passages: Sequence[RetrievedPassage] = ()
    rounds: int = 1
    queries: list[dict[str, Any]] = field(default_factory=list)
    judgement: dict[str, Any] | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = Usage()
    token_unit: str = "tokens"
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values, also those in `usage` and `details`; all rows have all of every way."""
        fields = json.loads(json.dumps(asdict(self)))
        usage, details = fields.pop("usage"), fields.pop("details")
        unset = {name: value for way in WAYS.values() for name, value in way.details.items()}
        return {**fields, **usage, **deepcopy(unset), **details}


@dataclass(frozen=True)
class Judge:
    """Marks answers where `answering.judge` is set.

    Attributes:
        measures: Names of the marks, in the order in which they are shown.
        judged: Gives rows of answers with their `judgement`, given the reader, the requests, their rows, the reference
            answers by id of the question, and what runs calls side by side.
        fingerprint: Gives what changes with the way of judging.
    """

    measures: Sequence[str]
    judged: Callable[..., list[AnswerRow]]
    fingerprint: Callable[[], str]


def judge_measures() -> list[str]:
    """Return the names of the marks of all judges."""
    return [name for judge in JUDGES.values() for name in judge.measures]


def answer_table(question_set: str, method: str, rows: Sequence[AnswerRow]) -> pd.DataFrame:
    """Return one row per answer; nested values are JSON."""
    import pandas as pd

    values = [{**row.to_json(), "question_set": question_set, "method": method} for row in rows]
    nested = {key for row in values for key, value in row.items() if isinstance(value, list | dict)}
    return pd.DataFrame(
        [
            {key: json.dumps(value, ensure_ascii=False) if key in nested else value for key, value in row.items()}
            for row in values
        ]
    )


def read_answers(path: Callable[[str], Any], names: Sequence[str]) -> pd.DataFrame:
    """Return answers of all question sets and methods, in the format of `answer_table`."""
    import pandas as pd

    parts = [pd.read_parquet(path(name)) for name in names]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"failure": []})
