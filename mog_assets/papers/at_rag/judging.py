"""Marks of answers by a judge (AT-RAG, section 4.2). What cannot be read has no mark and is counted as a failure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mog_assets.answer.extractive import Extractive, read_of, share, terms_in
from mog_assets.answer.replies import VERSION, Unparsable, only, shown
from mog_assets.answer.roles import AnswerRequest, Reply, Role, Roles
from mog_assets.answer.rows import AnswerRow, Judge
from mog_assets.papers.at_rag.roles import answer_piece
from mog_assets.registry import JUDGES
from mog_assets.resources.chat import AnswerForm
from mog_assets.text.languages import of_texts

MARK = "judge"
_CRITERIA = ("correctness", "completeness", "relevance")


@dataclass(frozen=True)
class Judgement:
    """Marks of a judge, each in [0, 10] (AT-RAG, section 4.2)."""

    correctness: float
    completeness: float
    relevance: float

    @property
    def overall(self) -> float:
        """Mean of the three marks, computed here instead of by the judge."""
        return (self.correctness + self.completeness + self.relevance) / 3


def _by_rules(reader: Extractive, request: AnswerRequest, answer: str, reference: str) -> Reply[Judgement]:
    """Mark by overlap with the reference, ten times each.

    Correctness: the cosine of the two; completeness: the share of the reference's terms that the answer has;
    relevance: the cosine of answer and question.
    """

    def mark() -> Judgement:
        text, expected = request.spelled(answer), request.spelled(reference)
        a, r, q = reader.vectors([text, expected, request.question])
        language = of_texts([expected])
        overlap = share(terms_in(expected, language), terms_in(text, language))
        complete = 1.0 if text.strip().lower() == expected.strip().lower() else overlap
        marks = (float(a @ r), complete, float(a @ q))
        return Judgement(*(round(10 * min(max(mark, 0.0), 1.0), 3) for mark in marks))

    return reader.reply([*read_of(request), answer, reference], mark)


def judgement(text: str) -> Judgement:
    """Read three marks of the only object.

    Raises:
        Unparsable: a mark is missing, not a number, or outside [0, 10].
    """
    marks = {}
    for name in _CRITERIA:
        value = only(text, name)
        if type(value) not in (int, float) or not (math.isfinite(value) and 0 <= value <= 10):
            raise Unparsable(f"expected {name}, a number from 0 to 10, got {shown(str(value))}")
        marks[name] = float(value)
    return Judgement(**marks)


# Marks of an answer beside the reference answer.
JUDGE: Role[Judgement] = Role(
    name="judge",
    package=__package__,
    prompt="judge",
    pieces=lambda request, answer, reference: {
        "answer": answer_piece(request, answer),
        "reference": [("reference answer", request.spelled(reference))],
    },
    rules=_by_rules,
    parse=judgement,
    form=AnswerForm("marks", {name: {"type": "number"} for name in _CRITERIA}),
)


def fingerprint() -> str:
    """Return what changes with the prompt of a judge and with the way in which its replies are read."""
    return hashlib.sha256(repr([VERSION, JUDGE.load_prompt()]).encode()).hexdigest()[:8]


def judged(
    roles: Roles,
    requests: Sequence[AnswerRequest],
    rows: Sequence[AnswerRow],
    references: Mapping[str, str],
    side_by_side: Callable[..., Any],
) -> list[AnswerRow]:
    """Return rows with marks of answers to open questions."""

    def one(pair: tuple[AnswerRequest, AnswerRow]) -> AnswerRow:
        question, row = pair
        if row.answer is None or question.kind != "open":
            return row
        return replace(row, judgement=marks_of(roles, question, row.answer, references[question.id]))

    return list(side_by_side(one, list(zip(requests, rows, strict=True))))


def marks_of(roles: Roles, question: AnswerRequest, answer: str, reference: str) -> dict[str, Any]:
    """Return the marks of an answer to an open question and their cost, which is not that of answering, as JSON values.

    Times are left out: equal answers must give equal files.
    """
    reply = roles.play(JUDGE, question, answer, reference)
    marks = {} if reply.value is None else {**asdict(reply.value), MARK: reply.value.overall}
    spent = {key: value for key, value in asdict(reply.usage).items() if key != "seconds"}
    return {**marks, "failures": {MARK: reply.failure} if reply.value is None else {}, **spent}


JUDGES.register(MARK, Judge((MARK,), judged, fingerprint))
