"""The ways of answering `at-rag` and `adaptive`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from mog_assets.answer.answerers import ONE_STEP_K, WAYS, Means, Progress, Way, cot, one_step, search, start
from mog_assets.answer.roles import AnswerRequest, Roles
from mog_assets.answer.rows import AnswerRow
from mog_assets.papers.at_rag.roles import CLASSIFY, GRADE_SUPPORT, GRADE_USEFULNESS, REWRITE, THINK, Route

ROUNDS = 5


def at_rag(
    questions: Sequence[AnswerRequest], means: Means, rounds: int = ROUNDS, k: int = ONE_STEP_K, limit: str = "topics"
) -> list[AnswerRow]:
    """Retrieve by topic, think, answer, grade, rewrite, until an answer passes (AT-RAG, Algorithm 1).

    From the second round on, rankings search for the query together with the best passage that was read, and what they
    find comes in turn with what was read: see `search.multihop`. Methods of the papers search for the query alone.

    If no answer passes, the last one is used and marked as ungraded. A failed grade does not pass. After a failed
    thought or rewrite, the loop continues with the earlier ones; a failed answer ends the question without an answer,
    unless the reader found that the passages have none: then the loop goes on.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        rounds: N, at least 1.
        k: Passages per round.
        limit: See `answerers.Retrieve`.
    """
    every = start(questions)
    for progress in every:
        progress.details |= deepcopy(_DETAILS)
    active = every
    for number in range(1, rounds + 1):
        for progress in active:
            progress.rounds = number
        search(active, means, k, limit, rewritten=number > 1)
        last = number == rounds
        passed = means.each(lambda p: _round(p, means.roles, rewrite=not last), active)  # noqa: B023
        active = [p for p, done in zip(active, passed, strict=True) if not done]
    for progress in every:
        if progress.answer is None:
            progress.details["graded"] = None
    return [p.row("at-rag", means.roles) for p in every]


def _round(p: Progress, roles: Roles, rewrite: bool) -> bool:
    """Follow lines 7 to 14 of Algorithm 1 for one question; return whether it is done."""
    passages, thoughts = p.results.passages, p.details["thoughts"]
    thought = p.take("think", roles.play(THINK, p.request, p.query, passages, tuple(thoughts)))
    if thought is not None:
        thoughts.append(thought)
    before = p.answer, p.raw, p.span
    reply = p.take_answer("answer", roles.answer(p.request, passages, tuple(thoughts)))
    if reply.declined:
        # Passages of the next round may have the answer that these lack; an earlier answer stays the last one.
        p.details["grades"].append({"usefulness": None, "support": None})
        if before[0] is not None:
            (p.answer, p.raw, p.span), p.failure = before, ""
    elif p.answer is None:
        return True
    else:
        p.read = passages
        _grade(p, roles, p.answer)
    if not p.details["graded"] and rewrite:
        p.query = p.take("rewrite", roles.play(REWRITE, p.request, p.query, p.answer or "", tuple(thoughts))) or p.query
    return bool(p.details["graded"])


def _grade(p: Progress, roles: Roles, answer: str) -> None:
    """Grade the answer by both graders."""
    useful = p.take("grade usefulness", roles.play(GRADE_USEFULNESS, p.request, answer))
    grades: dict[str, str | None] = {"usefulness": useful or "failed", "support": None}
    if useful == "useful":
        grades["support"] = (
            p.take("grade support", roles.play(GRADE_SUPPORT, p.request, p.results.passages, answer)) or "failed"
        )
    p.details["grades"].append(grades)
    p.details["graded"] = grades["support"] == "supported"


def adaptive(questions: Sequence[AnswerRequest], means: Means, limit: str = "topics") -> list[AnswerRow]:
    """Answer as Adaptive-RAG: a classifier picks `cot`, `one_step` or `at_rag` for each question.

    A question that could not be classified has no answer.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        limit: See `answerers.Retrieve`.
    """
    active = start(questions)
    routes = means.each(lambda p: p.take("classify", means.roles.play(CLASSIFY, p.request)), active)
    answered: dict[int, AnswerRow] = {}
    ways: dict[Route, Callable[[Sequence[AnswerRequest]], list[AnswerRow]]] = {
        "none": lambda some: cot(some, means),
        "single": lambda some: one_step(some, means, limit=limit),
        "iterative": lambda some: at_rag(some, means, limit=limit),
    }
    for route, answer in ways.items():
        chosen = [i for i, named in enumerate(routes) if named == route]
        for i, row in zip(chosen, answer([questions[i] for i in chosen]), strict=True):
            answered[i] = row
    return [_routed(p, routes[i], answered.get(i), means.roles) for i, p in enumerate(active)]


def _routed(p: Progress, route: Route | None, row: AnswerRow | None, roles: Roles) -> AnswerRow:
    """Return the row of the chosen method, including the cost of the classifier's call."""
    if row is None:
        p.failure = f"classify: {p.failures[0]['reason']}"
        return p.row("adaptive", roles)
    return replace(row, method="adaptive", details={**row.details, "route": route}, usage=p.usage + row.usage)


def _report(row: Mapping[str, Any], rounds: list[str]) -> list[str]:
    """See `answerers.Way.tell`: the route, the grades of each round, and whether an answer passed."""
    lines = [f"route: {row['route']}"] if row.get("route") else []
    for number, line in enumerate(rounds):
        grades = row.get("grades") or []
        verdicts = grades[number].values() if number < len(grades) else ()
        lines.append(line + "".join(f"  {verdict}" for verdict in verdicts if verdict))
    return [*lines, "no answer passed both grades: showing the last one"] if row.get("graded") is False else lines


# Whether the answer passed both graders: False if no round did (it is the last one, ungraded), None if it was not
# graded; per round `usefulness` and `support`, a verdict, `failed`, or None if not graded; thoughts, in order.
_DETAILS: dict[str, Any] = {"graded": None, "grades": [], "thoughts": []}

_ROLES = (THINK, GRADE_USEFULNESS, GRADE_SUPPORT, REWRITE)

WAYS.register("at-rag", Way(at_rag, roles=_ROLES, details=_DETAILS, tell=_report))
# What the classifier chose.
WAYS.register("adaptive", Way(adaptive, roles=(CLASSIFY,), details={**_DETAILS, "route": None}, tell=_report))
