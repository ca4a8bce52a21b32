"""Answering methods, each over any retrieval and any reader.

All questions advance together, round by round, so that retrieval works in batches and the calls of a round can run in
parallel. A failure of one question is recorded in its row and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from mog_assets import registry
from mog_assets.answer.roles import AnswerRequest, AnswerSpan, Reply, RetrievedPassage, Role, Roles, Usage
from mog_assets.answer.rows import AnswerRow
from mog_assets.registry import Registry
from mog_assets.search.methods import ungrouped

if TYPE_CHECKING:
    import pandas as pd

    from mog_assets.answer.extractive import Encode
    from mog_assets.questions.sets import Question

S = TypeVar("S")
R = TypeVar("R")

ONE_STEP_K = 5


@dataclass(frozen=True)
class RetrievedPassages:
    """The passages of a query.

    Attributes:
        passages: Best first.
        group: What is told of the query by the limit that was asked for: the number of its group, by the group's name,
            its `label`, and whether passages of all groups were used (`fallback`).
    """

    passages: Sequence[RetrievedPassage]
    group: Mapping[str, Any] = field(default_factory=dict)


class Retrieve(Protocol):
    """Finds passages."""

    def __call__(
        self, queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[RetrievedPassage]] = ()
    ) -> Sequence[RetrievedPassages]:
        """Find the k best passages for each query; with a limit, of its group only.

        Args:
            queries: The queries.
            k: How many.
            limit: A name in `search.methods.LIMITS`, or empty.
            read: What was found in the round before, for each query; nothing in the first round.
        """


class Each(Protocol):
    """Maps a function over items in order; several calls may run at once."""

    def __call__(self, work: Callable[[S], R], items: Sequence[S]) -> Sequence[R]:
        """Return the result for each item."""


def serial(work: Callable[[S], R], items: Sequence[S]) -> list[R]:
    """Return one after the other."""
    return [work(item) for item in items]


@dataclass(frozen=True)
class Means:
    """Resources that every answering method uses.

    Attributes:
        roles: The reader.
        retrieve: The retrieval.
        each: Runs the calls of a round.
        retriever: What finds the passages, `bm25` or another; None if several do.
        encode: Texts to vectors; None if nothing is retrieved.
    """

    roles: Roles
    retrieve: Retrieve
    each: Each = serial
    retriever: str | None = None
    encode: Encode | None = None


@dataclass
class Progress:
    """The state of a question while it is being answered; `row` gives the result."""

    request: AnswerRequest
    query: str
    results: RetrievedPassages = RetrievedPassages(())
    # Passages that the answer was read from, if others were found since.
    read: Sequence[RetrievedPassage] | None = None
    answer: str | None = None
    failure: str = ""
    raw: str = ""
    span: AnswerSpan | None = None
    rounds: int = 1
    queries: list[dict[str, Any]] = field(default_factory=list)
    failures: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = Usage()
    details: dict[str, Any] = field(default_factory=dict)

    def take(self, role: str, reply: Reply[R]) -> R | None:
        """Return the value of a call; records its cost and, if it failed, the failure."""
        self.usage += reply.usage
        if reply.failure:
            self.failures.append({"role": role, "round": self.rounds, "reason": reply.failure})
        return reply.value

    def take_answer(self, role: str, reply: Reply[str]) -> Reply[str]:
        """Do as `take`; if the call failed, the question has no answer."""
        self.answer, self.raw, self.span = self.take(role, reply), reply.raw, reply.span
        self.failure = f"{role}: {reply.failure}" if reply.failure else ""
        return reply

    def retrieved(self, results: RetrievedPassages) -> None:
        """Record the results of a query."""
        self.results = results
        self.queries.append({"query": self.query, **ungrouped(), **results.group})

    def row(self, method: str, roles: Roles) -> AnswerRow:
        """Return the finished row."""
        return AnswerRow(
            question=self.request.id,
            method=method,
            reader=roles.reader,
            answer=self.answer,
            failure=self.failure,
            raw=self.raw,
            span=self.span,
            passages=self.results.passages if self.read is None else self.read,
            rounds=self.rounds,
            queries=self.queries,
            failures=self.failures,
            usage=self.usage,
            token_unit=roles.token_unit,
            details=self.details,
        )


def cot(questions: Sequence[AnswerRequest], means: Means) -> list[AnswerRow]:
    """Answer by chain of thought: no retrieval."""
    active = start(questions)
    means.each(lambda p: p.take_answer("answer", means.roles.answer(p.request, ())), active)
    return [p.row("cot", means.roles) for p in active]


def one_step(questions: Sequence[AnswerRequest], means: Means, k: int = ONE_STEP_K, limit: str = "") -> list[AnswerRow]:
    """Answer by One-Step RAG: k passages, one answer (AT-RAG, section 3.1.1)."""
    active = start(questions)
    search(active, means, k, limit)
    means.each(lambda p: p.take_answer("answer", means.roles.answer(p.request, p.results.passages)), active)
    return [p.row("one-step", means.roles) for p in active]


@dataclass(frozen=True)
class AnswerTable:
    """A table of answers, shown with their marks.

    Attributes:
        name: Its key in the artefact of marks.
        title: Its heading.
        note: What it shows, as a sentence.
        rows: Gives the rows, given the table of the asset `answers` and the questions by question set.
    """

    name: str
    title: str
    note: str
    rows: Callable[[pd.DataFrame, Mapping[str, Sequence[Question]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Way:
    """A way of answering.

    Attributes:
        answer: Answers questions: called with them, `Means`, and, if it retrieves, the `limit` of its
            retrieval.
        retrieves: Whether it reads passages.
        single_round: Whether its first answer is its last, which can be shown while it is written.
        version: Raised when it gives other answers to the same.
        roles: What it asks readers for beside answers.
        details: Fields that its rows have beside those of `AnswerRow`, with their values in rows of other ways.
        tell: Tells people how an answer was found: lines, given the fields of its row and a line for each round.
        table: Shows something else of its answers.
    """

    answer: Callable[..., list[AnswerRow]]
    retrieves: bool = True
    single_round: bool = False
    version: str = "1"
    roles: Sequence[Role[Any]] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    tell: Callable[[Mapping[str, Any], list[str]], list[str]] = lambda details, rounds: rounds
    table: AnswerTable | None = None


WAYS: Registry[Way] = registry.WAYS
"""Ways of answering by the names used in notation, settings and scores."""


def answer_tables() -> list[AnswerTable]:
    """Return the tables of all ways."""
    return [way.table for way in WAYS.values() if way.table]


WAYS.register("cot", Way(cot, retrieves=False, single_round=True))
WAYS.register("one-step", Way(one_step, single_round=True))


def start(questions: Sequence[AnswerRequest]) -> list[Progress]:
    """Return questions before the first round."""
    return [Progress(request, request.question) for request in questions]


def search(active: Sequence[Progress], means: Means, k: int, limit: str, rewritten: bool = False) -> None:
    """Retrieve once; the query is the question without its options until it is rewritten."""
    if active:
        read = [p.results.passages for p in active] if rewritten else []
        for progress, results in zip(active, means.retrieve([p.query for p in active], k, limit, read), strict=True):
            progress.retrieved(results)
