"""Marks of answers by a judge: those of AT-RAG (section 4.2), and by a language model those of RAGAS.

RAGAS: Es et al. 2024, arXiv:2309.15217, section 3; its documentation, version 0.4. *Faithfulness* is the share of an
answer's claims that its passages bear out; *context recall* the share of the reference answer's claims that they bear
out; *context precision* the mean, over the passages that contribute to the reference answer, of the share of such
passages up to their rank. All are in [0, 1]. What the model does not judge, or says so that it cannot be read, has no
mark and is counted as a failure.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from mog_assets.answer.extractive import Extractive, read_of, share, terms_in
from mog_assets.answer.prompted import Prompted, documents, numbered
from mog_assets.answer.replies import VERSION, Unparsable, only, shown, worded
from mog_assets.answer.roles import AnswerRequest, Reply, RetrievedPassage, Role, Roles, Usage
from mog_assets.answer.rows import AnswerRow, Judge
from mog_assets.papers.at_rag.roles import answer_piece
from mog_assets.registry import JUDGES
from mog_assets.resources.chat import AnswerForm, schema
from mog_assets.text.languages import of_texts

MARK = "judge"
FAITHFULNESS, PRECISION, RECALL = "faithfulness", "context precision", "context recall"
_CRITERIA = ("correctness", "completeness", "relevance")
MAX_CLAIMS = 200


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


def _guessed(*_: Any) -> Reply[Any]:
    raise AssertionError("rules and the neural reader would have to guess")


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


def claims(text: str) -> list[str]:
    """Read the texts `claims` of the only object.

    Raises:
        Unparsable: there is none, there are more than `MAX_CLAIMS`, or one is no text, blank or a refusal.
    """
    values = only(text, "claims")
    if not isinstance(values, list) or not 0 < len(values) <= MAX_CLAIMS:
        raise Unparsable(f"expected claims, a list of 1 to {MAX_CLAIMS} texts, got {shown(str(values))}")
    return [worded(value, "a claim") for value in values]


def verdicts(text: str, count: int) -> list[bool]:
    """Read the verdicts of the only object, by number from 1 to `count`.

    Raises:
        Unparsable: a number is missing, is there twice or is another one, or a verdict is neither true nor false.
    """
    values = only(text, "verdicts")
    pairs = [(v.get("number"), v.get("verdict")) for v in values if isinstance(v, dict)] if type(values) is list else []
    by_number = {number: verdict for number, verdict in pairs if type(number) is int and type(verdict) is bool}
    if not isinstance(values, list) or len(values) != count or by_number.keys() != set(range(1, count + 1)):
        raise Unparsable(
            f"expected verdicts, true or false for each number from 1 to {count}, got {shown(json.dumps(values))}"
        )
    return [by_number[number] for number in range(1, count + 1)]


_VERDICT = {"number": {"type": "integer"}, "reason": {"type": "string"}, "verdict": {"type": "boolean"}}
_VERDICTS = AnswerForm("verdicts", {"verdicts": {"type": "array", "items": schema(_VERDICT)}})

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
# The claims of an answer, at least one.
CLAIMS: Role[list[str]] = Role(
    name="claims",
    package=__package__,
    prompt="claims",
    pieces=lambda request, answer: {"answer": answer_piece(request, answer)},
    rules=_guessed,
    parse=claims,
    form=AnswerForm("claims", {"claims": {"type": "array", "items": {"type": "string"}}}),
)
_ATTRIBUTION: Role[list[bool]] = Role(
    name="attribution",
    package=__package__,
    prompt="attribution",
    pieces=lambda request, passages, claims: {"documents": documents(passages), "claims": numbered("claim", claims)},
    rules=_guessed,
    form=_VERDICTS,
)
_CONTRIBUTION: Role[list[bool]] = Role(
    name="contribution",
    package=__package__,
    prompt="contribution",
    pieces=lambda request, passages, reference: {
        "documents": documents(passages),
        "reference": [("reference answer", request.spelled(reference))],
    },
    rules=_guessed,
    form=_VERDICTS,
)


def attribution(count: int) -> Role[list[bool]]:
    """Return the role that says of each of so many claims whether passages bear it out."""
    return replace(_ATTRIBUTION, parse=partial(verdicts, count=count))


def contribution(count: int) -> Role[list[bool]]:
    """Return the role that says of each of so many passages whether it helps to arrive at the reference answer."""
    return replace(_CONTRIBUTION, parse=partial(verdicts, count=count))


def fingerprint() -> str:
    """Return what changes with the prompts of a judge and with the way in which its replies are read."""
    prompts = [role.load_prompt() for role in (JUDGE, CLAIMS, _ATTRIBUTION, _CONTRIBUTION)]
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
        """Return them as JSON values, without times: equal answers must give equal files."""
        spent = {key: value for key, value in asdict(self.usage).items() if key != "seconds"}
        return {**self.values, "failures": self.failures, **spent}


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
        marks = marks_of(roles, question, row.answer, references[question.id], row.passages)
        return replace(row, judgement=marks.to_json())

    return list(side_by_side(one, list(zip(requests, rows, strict=True))))


def marks_of(
    roles: Roles, question: AnswerRequest, answer: str, reference: str, passages: Sequence[RetrievedPassage]
) -> Marks:
    """Return the marks of an answer to an open question.

    A judge that is no language model gives only those of `Judgement`; so does one without passages, which come best
    first.
    """
    marks = Marks()
    reply = roles.play(JUDGE, question, answer, reference)
    marks.usage += reply.usage
    if reply.value is None:
        marks.failures[MARK] = reply.failure
    else:
        marks.values |= {**asdict(reply.value), MARK: reply.value.overall}
    if not isinstance(roles, Prompted) or not passages:
        return marks
    verdicts = {PRECISION: roles.play(contribution(len(passages)), question, passages, reference)}
    for measure, text in ((FAITHFULNESS, answer), (RECALL, reference)):
        claims = roles.play(CLAIMS, question, text)
        if claims.value is None:
            marks.failures[measure] = claims.failure
        else:
            verdicts[measure] = roles.play(attribution(len(claims.value)), question, passages, claims.value)
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
    """Return the context precision of ranked verdicts, best rank first; 0 if none is true."""
    at = [sum(verdicts[:rank]) / rank for rank, verdict in enumerate(verdicts, 1) if verdict]
    return sum(at) / len(at) if at else 0.0


# In the order in which they are shown.
JUDGES.register(MARK, Judge((MARK, FAITHFULNESS, PRECISION, RECALL), judged, fingerprint))
