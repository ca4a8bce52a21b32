"""Marks of answers by a judge: those of AT-RAG (section 4.2), and by a language model those of RAGAS.

RAGAS: Es et al. 2024, arXiv:2309.15217, section 3; its documentation, version 0.4. *Faithfulness* is the share of an
answer's claims that its passages bear out; *context recall* the share of the reference answer's claims that they bear
out; *context precision* the mean, over the passages that contribute to the reference answer, of the share of such
passages up to their rank. All are in [0, 1]. What the model does not judge, or says so that it cannot be read, has no
mark and is counted as a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from mog_assets.answer.prompted import load_prompt
from mog_assets.answer.replies import VERSION
from mog_assets.answer.roles import AnswerRequest, Passage, Reply, Roles, Usage
from mog_assets.answer.rows import AnswerRow

MARK = "judge"
FAITHFULNESS, PRECISION, RECALL = "faithfulness", "context precision", "context recall"
# In the order in which they are shown.
MEASURES = (MARK, FAITHFULNESS, PRECISION, RECALL)


@runtime_checkable
class Judge(Protocol):
    """A reader that can check claims: a language model. Rules and the neural reader would guess."""

    def claims(self, request: AnswerRequest, answer: str) -> Reply[list[str]]:
        """The claims of an answer, at least one."""

    def attributed(
        self, request: AnswerRequest, passages: Sequence[Passage], claims: Sequence[str]
    ) -> Reply[list[bool]]:
        """Of each claim, whether the passages bear it out."""

    def contributing(self, request: AnswerRequest, passages: Sequence[Passage], reference: str) -> Reply[list[bool]]:
        """Of each passage, whether it helps to arrive at the reference answer."""


def fingerprint() -> str:
    """Changes with the prompts of a judge and with the way in which its replies are read."""
    prompts = [load_prompt(name) for name in ("judge", "claims", "attribution", "contribution")]
    return hashlib.sha256(repr([VERSION, *prompts]).encode()).hexdigest()[:8]


@dataclass
class Marks:
    """Marks of one answer.

    Attributes:
        values: By measure, and the criteria that `judge` is the mean of.
        failures: Why a measure has no mark.
        usage: The cost of judging, which is not that of answering.
    """

    values: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    usage: Usage = Usage()

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without times: equal answers must give equal files."""
        spent = {key: value for key, value in asdict(self.usage).items() if key != "seconds"}
        return {**self.values, "failures": self.failures, **spent}


def judged(
    roles: Roles,
    requests: Sequence[AnswerRequest],
    rows: Sequence[AnswerRow],
    references: Mapping[str, str],
    side_by_side: Callable[..., Any],
) -> list[AnswerRow]:
    """Rows, with marks of answers to open questions."""

    def one(pair: tuple[AnswerRequest, AnswerRow]) -> AnswerRow:
        question, row = pair
        if row.answer is None or question.kind != "open":
            return row
        passages = [Passage(p["corpus"], p["doc"], p["title"], p["text"]) for p in row.passages]
        marks = marks_of(roles, question, row.answer, references[question.id], passages)
        return replace(row, judgement=marks.to_json())

    return list(side_by_side(one, list(zip(requests, rows, strict=True))))


def marks_of(roles: Roles, question: AnswerRequest, answer: str, reference: str, passages: Sequence[Passage]) -> Marks:
    """The marks of an answer to an open question.

    A judge that is no `Judge` gives only those of `Judgement`; so does one without passages, which come best first.
    """
    marks = Marks()
    reply = roles.judge(question, answer, reference)
    marks.usage += reply.usage
    if reply.value is None:
        marks.failures[MARK] = reply.failure
    else:
        marks.values |= {**asdict(reply.value), MARK: reply.value.overall}
    if not isinstance(roles, Judge) or not passages:
        return marks
    verdicts = {PRECISION: roles.contributing(question, passages, reference)}
    for measure, text in ((FAITHFULNESS, answer), (RECALL, reference)):
        claims = roles.claims(question, text)
        if claims.value is None:
            marks.failures[measure] = claims.failure
        else:
            verdicts[measure] = roles.attributed(question, passages, claims.value)
        marks.usage += claims.usage
    for measure, given in verdicts.items():
        marks.usage += given.usage
        if given.value is None:
            marks.failures[measure] = given.failure
        else:
            marks.values[measure] = (precision if measure == PRECISION else _share)(given.value)
    return marks


def _share(verdicts: Sequence[bool]) -> float:
    return sum(verdicts) / len(verdicts)


def precision(verdicts: Sequence[bool]) -> float:
    """Context precision of ranked verdicts, best rank first; 0 if none is true."""
    at = [sum(verdicts[:rank]) / rank for rank, verdict in enumerate(verdicts, 1) if verdict]
    return sum(at) / len(at) if at else 0.0
