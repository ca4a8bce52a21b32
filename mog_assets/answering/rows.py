"""Answer rows: one per question and way of answering, whether it was answered or not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AnswerRow:
    """How a question was answered; everything is a JSON value.

    Attributes:
        question: Id.
        method: Way of answering, e.g. `at-rag`.
        reader: Name and version of what answered.
        answer: The letter of an option or a text; None where there is none.
        failure: Why there is no answer; empty where there is one.
        raw: What the reader put out for the answer, before it was parsed.
        passages: Those the answer rests on, best first: `corpus`, `doc`, `title`, `text`, `spans`, `level`.
        rounds: Rounds of retrieval and answering; 1 where the method has no loop.
        graded: Whether the answer passed both graders; False where the rounds ran out before one did (the answer is the
            last and ungraded); None where the method does not grade, or gave no answer.
        grades: Per round `usefulness` and `support`: a verdict, `failed`, or None where it was not asked for.
        queries: Per round `query`, `topic`, `label`, `fallback`: topic is None where none was asked for; fallback tells
            that the filter on the topic was dropped.
        thoughts: Chains of thought, in order.
        preflight: `iou` and `map_reduce` (whether the map-reduce ran); None where the method has none.
        extractions: Per partition what was extracted, empty where nothing was; None where no map-reduce ran.
        route: What the classifier of `adaptive` chose.
        judgement: Marks of the judge, 0 to 10 (`correctness`, `completeness`, `relevance`, and `overall`, their mean),
            or `failure`: why there are none; None where nobody was asked.
        failures: Calls that failed: `role`, `round`, `reason`. A call that failed need not cost the answer.
        calls: Number of calls.
        tokens_in: Tokens read by all calls, in `token_unit`.
        tokens_out: Tokens written.
        token_unit: `tokens` of the model, or `words`.
        cost: Dollars.
        seconds: Time of all calls, added up; in what is stored, of a reader whose replies are kept.
    """

    question: str
    method: str
    reader: str
    answer: str | None
    failure: str
    raw: str
    passages: list[dict[str, Any]] = field(default_factory=list)
    rounds: int = 1
    graded: bool | None = None
    grades: list[dict[str, str | None]] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    preflight: dict[str, Any] | None = None
    extractions: list[str] | None = None
    route: str | None = None
    judgement: dict[str, Any] | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    token_unit: str = "tokens"
    cost: float = 0.0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def answer_table(question_set: str, method: str, rows: Sequence[AnswerRow]) -> pd.DataFrame:
    """A row per answer; what has parts is JSON.

    Args:
        question_set: Name of the question set.
        method: What the column `method` says of all of them.
        rows: The answers.
    """
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
    """Answers of all question sets and ways, as `answer_table` gives them.

    Args:
        path: Where a file of the asset `answers` lies, by its name.
        names: Of its files.
    """
    import pandas as pd

    parts = [pd.read_parquet(path(name)) for name in names]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"failure": []})
