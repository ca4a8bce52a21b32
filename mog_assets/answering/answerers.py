"""Answering methods, each over any retrieval and any reader.

All questions advance together, round by round, so that retrieval works in batches and the calls of a round can run in
parallel. A failure of one question is recorded in its row and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from mog_assets import registry
from mog_assets.answering.preflight import THRESHOLD, TOP, Rerank, by_bm25, overlap
from mog_assets.answering.roles import AnswerSpan, Asked, Passage, Reply, Roles, Route, Usage
from mog_assets.answering.rows import AnswerRow
from mog_assets.registry import Registry

S = TypeVar("S")
R = TypeVar("R")

ONE_STEP_K = 5
BRIEF_K = 16
PARTITIONS = 4
ROUNDS = 5


@dataclass(frozen=True)
class Retrieved:
    """The passages of a query.

    Attributes:
        passages: Best first.
        topic: Topic of the query, −1 for an outlier; None without topics.
        label: Label of the topic.
        fallback: Whether the topic filter was dropped: an outlier, or too few results.
    """

    passages: Sequence[Passage]
    topic: int | None = None
    label: str = ""
    fallback: bool = False


class Retrieve(Protocol):
    """Finds passages."""

    def __call__(
        self, queries: Sequence[str], k: int, topics: bool, read: Sequence[Sequence[Passage]] = ()
    ) -> Sequence[Retrieved]:
        """The k best passages for each query; with `topics`, of its topic only.

        Args:
            queries: The queries.
            k: How many.
            topics: Whether passages must be of the query's topic.
            read: What was found in the round before, for each query; nothing in the first round.
        """


class Each(Protocol):
    """Maps a function over items in order; several calls may run at once."""

    def __call__(self, work: Callable[[S], R], items: Sequence[S]) -> Sequence[R]:
        """The result for each item."""


def serial(work: Callable[[S], R], items: Sequence[S]) -> list[R]:
    """One after the other."""
    return [work(item) for item in items]


@dataclass(frozen=True)
class Means:
    """What every answering method uses.

    Attributes:
        roles: The reader.
        retrieve: The retrieval.
        each: Runs the calls of a round.
    """

    roles: Roles
    retrieve: Retrieve
    each: Each = serial


@dataclass
class _Progress:
    """The state of a question while it is being answered."""

    asked: Asked
    query: str
    found: Retrieved = Retrieved(())
    # Passages that the answer was read from, if others were found since.
    read: Sequence[Passage] | None = None
    answer: str | None = None
    failure: str = ""
    raw: str = ""
    span: AnswerSpan | None = None
    rounds: int = 1
    graded: bool | None = None
    grades: list[dict[str, str | None]] = field(default_factory=list)
    queries: list[dict[str, Any]] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    preflight: dict[str, Any] | None = None
    extractions: list[str] | None = None
    route: str | None = None
    failures: list[dict[str, Any]] = field(default_factory=list)
    usage: Usage = Usage()

    def take(self, role: str, reply: Reply[R]) -> R | None:
        """The value of a call; records its cost and, if it failed, the failure."""
        self.usage += reply.usage
        if reply.failure:
            self.failures.append({"role": role, "round": self.rounds, "reason": reply.failure})
        return reply.value

    def take_answer(self, role: str, reply: Reply[str]) -> Reply[str]:
        """As `take`; if the call failed, the question has no answer."""
        self.answer, self.raw, self.span = self.take(role, reply), reply.raw, reply.span
        self.failure = f"{role}: {reply.failure}" if reply.failure else ""
        return reply

    def retrieved(self, found: Retrieved) -> None:
        """Record the results of a query."""
        self.found = found
        self.queries.append(
            {"query": self.query, "topic": found.topic, "label": found.label, "fallback": found.fallback}
        )

    def row(self, method: str, roles: Roles) -> AnswerRow:
        """The finished row."""
        return AnswerRow(
            question=self.asked.id,
            method=method,
            reader=roles.reader,
            answer=self.answer,
            failure=self.failure,
            raw=self.raw,
            span=asdict(self.span) if self.span else None,
            passages=[
                {**asdict(passage), "spans": [list(span) for span in passage.spans]}
                for passage in (self.found.passages if self.read is None else self.read)
            ],
            rounds=self.rounds,
            graded=self.graded if self.answer is not None else None,
            grades=self.grades,
            queries=self.queries,
            thoughts=self.thoughts,
            preflight=self.preflight,
            extractions=self.extractions,
            route=self.route,
            failures=self.failures,
            calls=self.usage.calls,
            tokens_in=self.usage.tokens_in,
            tokens_out=self.usage.tokens_out,
            token_unit=roles.token_unit,
            cost=self.usage.cost,
            seconds=self.usage.seconds,
        )


def cot(questions: Sequence[Asked], means: Means) -> list[AnswerRow]:
    """Chain of thought: no retrieval."""
    active = _start(questions)
    means.each(lambda p: p.take_answer("answer", means.roles.answer(p.asked, ())), active)
    return [p.row("cot", means.roles) for p in active]


def one_step(questions: Sequence[Asked], means: Means, k: int = ONE_STEP_K, topics: bool = False) -> list[AnswerRow]:
    """One-Step RAG: k passages, one answer (AT-RAG, section 3.1.1)."""
    active = _start(questions)
    _search(active, means, k, topics)
    means.each(lambda p: p.take_answer("answer", means.roles.answer(p.asked, p.found.passages)), active)
    return [p.row("one-step", means.roles) for p in active]


def briefcontext(
    questions: Sequence[Asked],
    means: Means,
    k: int = BRIEF_K,
    partitions: int = PARTITIONS,
    rerank: Rerank = by_bm25,
    preflight: bool = True,
    topics: bool = False,
) -> list[AnswerRow]:
    """Map-reduce over partitions of the passages if two rankings disagree on the top (BriefContext, section 5.2).

    A partition whose extraction fails is left out and recorded; if every extraction fails, the question has no answer.
    If no partition has relevant information, the reader answers without extractions.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        k: Number of passages.
        partitions: Number of partitions: contiguous, in retrieval order, with sizes that differ by at most one.
        rerank: The second ranking, of another kind than the retrieval.
        preflight: Whether to run the preflight check; without it, the map-reduce always runs.
        topics: Whether retrieval filters by topic.
    """
    active = _start(questions)
    _search(active, means, k, topics)
    for progress, order in zip(active, [rerank(p.query, p.found.passages) for p in active], strict=True):
        iou = overlap(range(len(order)), order, TOP)
        reduces = bool(progress.found.passages) and (not preflight or iou <= THRESHOLD)
        progress.preflight = {"iou": iou, "map_reduce": reduces}
    brief = [p for p in active if p.preflight and p.preflight["map_reduce"]]
    direct = [p for p in active if not (p.preflight and p.preflight["map_reduce"])]
    parts = [(p, part) for p in brief for part in split(p.found.passages, partitions)]
    replies = means.each(lambda part: means.roles.extract(part[0].asked, part[1]), parts)
    for progress in brief:
        values = [
            progress.take("extract", reply)
            for (owner, _), reply in zip(parts, replies, strict=True)
            if owner is progress
        ]
        progress.extractions = [value for value in values if value is not None]
        if not progress.extractions:
            progress.failure = "extract: no partition could be read: " + progress.failures[0]["reason"]

    def conclude(p: _Progress) -> None:
        if p.extractions is None:
            p.take_answer("answer", means.roles.answer(p.asked, p.found.passages))
        else:
            p.take_answer("reduce", means.roles.reduce(p.asked, [text for text in p.extractions if text]))

    means.each(conclude, [*direct, *(p for p in brief if not p.failure)])
    return [p.row("briefcontext", means.roles) for p in active]


def at_rag(
    questions: Sequence[Asked], means: Means, rounds: int = ROUNDS, k: int = ONE_STEP_K, topics: bool = True
) -> list[AnswerRow]:
    """Retrieve by topic, think, answer, grade, rewrite, until an answer passes (AT-RAG, Algorithm 1).

    From the second round on, rankings search for the query together with the best passage that was read, and what they
    find comes in turn with what was read: see `ranking.multihop`. Methods of the papers search for the query alone.

    If no answer passes, the last one is used and marked as ungraded. A failed grade does not pass. After a failed
    thought or rewrite, the loop continues with the earlier ones; a failed answer ends the question without an answer,
    unless the reader found that the passages have none: then the loop goes on.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        rounds: N, at least 1.
        k: Passages per round.
        topics: Whether retrieval filters by topic.
    """
    every = _start(questions)
    active = every
    for number in range(1, rounds + 1):
        for progress in active:
            progress.rounds = number
        _search(active, means, k, topics, again=number > 1)
        last = number == rounds
        passed = means.each(lambda p: _round(p, means.roles, rewrite=not last), active)  # noqa: B023
        active = [p for p, done in zip(active, passed, strict=True) if not done]
    return [p.row("at-rag", means.roles) for p in every]


def _round(p: _Progress, roles: Roles, rewrite: bool) -> bool:
    """Lines 7 to 14 of Algorithm 1 for one question; returns whether it is done."""
    passages = p.found.passages
    thought = p.take("think", roles.think(p.asked, p.query, passages, tuple(p.thoughts)))
    if thought is not None:
        p.thoughts.append(thought)
    before = p.answer, p.raw, p.span
    reply = p.take_answer("answer", roles.answer(p.asked, passages, tuple(p.thoughts)))
    if reply.declined:
        # Passages of the next round may have the answer that these lack; an earlier answer stays the last one.
        p.grades.append({"usefulness": None, "support": None})
        if before[0] is not None:
            (p.answer, p.raw, p.span), p.failure = before, ""
    elif p.answer is None:
        return True
    else:
        p.read = passages
        _grade(p, roles, p.answer)
    if not p.graded and rewrite:
        p.query = p.take("rewrite", roles.rewrite(p.asked, p.query, p.answer or "", tuple(p.thoughts))) or p.query
    return bool(p.graded)


def _grade(p: _Progress, roles: Roles, answer: str) -> None:
    """Whether the answer passes both graders."""
    useful = p.take("grade usefulness", roles.grade_usefulness(p.asked, answer))
    grades: dict[str, str | None] = {"usefulness": useful or "failed", "support": None}
    if useful == "useful":
        grades["support"] = p.take("grade support", roles.grade_support(p.asked, p.found.passages, answer)) or "failed"
    p.grades.append(grades)
    p.graded = grades["support"] == "supported"


def adaptive(questions: Sequence[Asked], means: Means, topics: bool = True) -> list[AnswerRow]:
    """Adaptive-RAG: a classifier picks `cot`, `one_step` or `at_rag` for each question.

    A question that could not be classified has no answer.

    Args:
        questions: The questions to answer.
        means: Reader and retrieval.
        topics: Whether retrieval filters by topic.
    """
    active = _start(questions)
    routes = means.each(lambda p: p.take("classify", means.roles.classify(p.asked)), active)
    answered: dict[int, AnswerRow] = {}
    ways: dict[Route, Callable[[Sequence[Asked]], list[AnswerRow]]] = {
        "none": lambda some: cot(some, means),
        "single": lambda some: one_step(some, means, topics=topics),
        "iterative": lambda some: at_rag(some, means, topics=topics),
    }
    for route, answer in ways.items():
        chosen = [i for i, found in enumerate(routes) if found == route]
        for i, row in zip(chosen, answer([questions[i] for i in chosen]), strict=True):
            answered[i] = row
    return [_routed(p, routes[i], answered.get(i), means.roles) for i, p in enumerate(active)]


def _routed(p: _Progress, route: Route | None, row: AnswerRow | None, roles: Roles) -> AnswerRow:
    """The row of the chosen method, including the cost of the classifier's call."""
    if row is None:
        p.failure = f"classify: {p.failures[0]['reason']}"
        return p.row("adaptive", roles)
    spent = p.usage + Usage(row.calls, row.tokens_in, row.tokens_out, row.cost, row.seconds)
    return replace(
        row,
        method="adaptive",
        route=route,
        calls=spent.calls,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost=spent.cost,
        seconds=spent.seconds,
    )


@dataclass(frozen=True)
class Way:
    """A way of answering.

    Attributes:
        answer: Answers questions: called with them, `Means`, and, if it retrieves, `topics`.
        retrieves: Whether it reads passages.
        reranks: Whether it is also given a second ranking of passages, as `rerank`.
        version: Raised when it gives other answers to the same.
    """

    answer: Callable[..., list[AnswerRow]]
    retrieves: bool = True
    reranks: bool = False
    version: str = "1"


WAYS: Registry[Way] = registry.WAYS
"""Ways of answering by the names used in notation, settings and scores."""

WAYS.register("cot", Way(cot, retrieves=False))
WAYS.register("one-step", Way(one_step))
WAYS.register("briefcontext", Way(briefcontext, reranks=True))
WAYS.register("at-rag", Way(at_rag))
WAYS.register("adaptive", Way(adaptive))


def _start(questions: Sequence[Asked]) -> list[_Progress]:
    return [_Progress(asked, asked.question) for asked in questions]


def _search(active: Sequence[_Progress], means: Means, k: int, topics: bool, again: bool = False) -> None:
    """One batch of retrieval; the query is the question without its options until it is rewritten."""
    if active:
        read = [p.found.passages for p in active] if again else []
        for progress, found in zip(active, means.retrieve([p.query for p in active], k, topics, read), strict=True):
            progress.retrieved(found)


def split(passages: Sequence[Passage], parts: int) -> list[Sequence[Passage]]:
    """Contiguous parts with sizes that differ by at most one; fewer parts if there are fewer passages."""
    parts = min(parts, len(passages))
    cuts = [len(passages) * i // parts for i in range(parts + 1)]
    return [passages[a:b] for a, b in pairwise(cuts)]
