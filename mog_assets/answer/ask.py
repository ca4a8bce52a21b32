"""Answer questions with a reader over a retrieval, with parallel calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from mog_assets.answer.answerers import ONE_STEP_K, WAYS, Each, Means, Retrieve, RetrievedPassages, serial
from mog_assets.answer.notation import Combination
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.readers import ANSWER_READERS
from mog_assets.answer.roles import ANSWER_STEP, AnswerRequest, Reply, RetrievedPassage, Role, Roles
from mog_assets.answer.rows import AnswerRow
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import Question
from mog_assets.resources import tracing
from mog_assets.resources.arrays import ranges
from mog_assets.search.controls import gold_passages, random_passages
from mog_assets.search.groups import grouped
from mog_assets.search.methods import Method, ungrouped
from mog_assets.search.multihop import passages_after
from mog_assets.search.passages import pieces_in, texts
from mog_assets.search.retrieval import Retrieval

S = TypeVar("S")

R = TypeVar("R")

# The budget is what so many passages share.
PASSAGES = 5


def reader(tools: Tools) -> Roles:
    """Return the configured reader."""
    return ANSWER_READERS[tools.settings.answering.reader].open(tools)


def reader_name(tools: Tools) -> str:
    """Return what decides the answers of the configured reader, beside the encoder and the assets it is read from."""
    return ANSWER_READERS[tools.settings.answering.reader].name(tools)


def side_by_side(tools: Tools) -> Each:
    """Return what runs the calls of a round, as many at once as the endpoint's concurrency limit allows."""
    if tools.settings.answering.reader != "openai":
        return serial

    def each(work: Callable[[S], R], items: Sequence[S]) -> list[R]:
        with ThreadPoolExecutor(tools.settings.llm.concurrency) as pool:
            futures = [pool.submit(tracing.carried(work), item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    return each


def answer(
    tools: Tools,
    retrieval: Retrieval,
    how: Combination,
    requests: Sequence[AnswerRequest],
    tell: OnStep | None = None,
    queries: Mapping[str, str] | None = None,
) -> list[AnswerRow]:
    """Answer questions; `tell` hears every step (`watched`), `queries` are searched by in their place."""
    options: dict[str, Any] = {}
    retrieve: Retrieve = _nothing
    if how.retrieval is not None:
        retrieve = _replaced(retrieve_by(how.retrieval, retrieval), queries or {})
        options["limit"] = how.retrieval.limit
    roles = reader(tools)
    if tell is not None and isinstance(roles, Prompted) and WAYS[how.way].single_round:
        heard = tell
        roles = replace(roles, heard=lambda text: heard("token", {"text": text}))
    means = Means(traced(roles), retrieve, side_by_side(tools))
    if how.retrieval is not None:
        means = replace(means, retriever=retrieval.resolved(how.retrieval).retriever, encode=tools.encoder.encode)
    return WAYS[how.way].answer(requests, means if tell is None else watched(means, tell), **options)


def _replaced(retrieve: Retrieve, others: Mapping[str, str]) -> Retrieve:
    return lambda queries, *how, **named: retrieve([others.get(query, query) for query in queries], *how, **named)


def control(
    tools: Tools,
    retrieval: Retrieval,
    how: Combination,
    questions: Sequence[Question],
    requests: Sequence[AnswerRequest],
) -> list[AnswerRow]:
    """Answer from gold evidence, or as many random passages as one-step uses: `how` is one of `notation.controls`."""
    assert how.retrieval is not None
    if how.retrieval.kind == "gold":
        passages = gold_passages(questions, retrieval.corpora)
    else:
        passages = random_passages(questions, retrieval.corpora)
        passages = passages.at(passages.rank < ONE_STEP_K)
    retrieve = given(texts(retrieval.corpora, passages, len(questions)))
    return WAYS[how.way].answer(requests, Means(reader(tools), retrieve, side_by_side(tools)))


def _nothing(*how: Any, **named: Any) -> list[RetrievedPassages]:
    raise AssertionError("an answering method without retrieval tried to retrieve")


T = TypeVar("T")

OnStep = Callable[[str, dict[str, Any]], object]
"""Called with the name of a step and what it gave."""


def watched(means: Means, tell: OnStep) -> Means:
    """Return the same means, which tell each step when it is done.

    Where an answer is written piece by piece, `ask.answer` tells these as `token` besides.

    Steps are `passages` (`query`, `passages`), `answer`, and those of the roles of a way, see `Role.step`; a step of a
    reader has its `role`, a `title` for people, `failure` if it failed, and `certain` if the reader says how sure it is
    of an answer.
    """

    def retrieve(queries: Sequence[str], *how: Any, **named: Any) -> Sequence[RetrievedPassages]:
        results = means.retrieve(queries, *how, **named)
        for query, result in zip(queries, results, strict=True):
            tell("passages", {"query": query, "passages": result.passages})
        return results

    def watch(role: str, step: tuple[str, str, str], call: Callable[[], Reply[T]]) -> Reply[T]:
        reply = call()
        name, what, title = step
        event = {"role": role, "title": title, what: reply.value}
        event |= {"failure": reply.failure} if reply.failure else {}
        tell(name, event | ({"certain": reply.span.certain} if reply.span else {}))
        return reply

    return replace(means, roles=cast(Roles, _Calls(means.roles, watch)), retrieve=retrieve)


def traced(roles: Roles) -> Roles:
    """Return the same roles, each of whose calls is a span, if anybody collects them."""

    def spanned(role: str, step: tuple[str, str, str], call: Callable[[], Reply[T]]) -> Reply[T]:
        with tracing.span(role, reader=roles.reader):
            reply = call()
            tracing.note(failed=True if reply.failure else None)
            return reply

    return cast(Roles, _Calls(roles, spanned))


class _Calls:
    """Roles whose calls a function makes, given the name of the role, its step, and the call."""

    def __init__(self, roles: Roles, make: Callable[..., Reply[Any]]) -> None:
        self._roles, self._make = roles, make

    def __getattr__(self, name: str) -> Any:
        return getattr(self._roles, name)

    def answer(self, *read: Any) -> Reply[str]:
        return self._make("answer", ANSWER_STEP, partial(self._roles.answer, *read))

    def play(self, role: Role[T], *read: Any) -> Reply[T]:
        return self._make(role.name, role.step, partial(self._roles.play, role, *read))


def retrieve_by(method: Method, opened: Retrieval) -> Retrieve:
    """Return retrieval by a method, for any queries.

    A ranking gives passages of any length: as many as fit into the budget of the settings, for each `PASSAGES` that are
    asked for.
    """
    budget = Budget.of(opened.corpora.settings.budget)

    def retrieve(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[RetrievedPassage]] = ()
    ) -> list[RetrievedPassages]:
        retrieval = opened.with_queries(queries)
        used = retrieval.resolved(method.within(limit))
        if used.ranking and any(read):
            ranked = passages_after(retrieval, *_pieces(opened.corpora, read), budget.share(k, PASSAGES))
        elif used.ranking:
            ranked = retrieval.passages(used, budget=budget.share(k, PASSAGES))
        else:
            ranked = retrieval.rank(used, k)
            ranked = ranked.at(ranked.rank < k)
        passages = texts(retrieval.corpora, ranked, len(queries))
        return [
            RetrievedPassages(passages_of, {name: value for name, value in group.items() if name in ungrouped()})
            for passages_of, group in zip(passages, grouped(retrieval, used, k), strict=True)
        ]

    return retrieve


def given(passages: Sequence[Sequence[RetrievedPassage]]) -> Retrieve:
    """Return a retrieval that returns preselected passages for each query, in order."""
    return lambda queries, *how, **named: [RetrievedPassages(of) for _, of in zip(queries, passages, strict=True)]


def _pieces(corpora: Corpora, read: Sequence[Sequence[RetrievedPassage]]) -> tuple[np.ndarray, np.ndarray]:
    """Return query and piece of passages that were read, in their order."""
    spans = [
        (query, corpora.position[corpus, document], start, end)
        for query, passages in enumerate(read)
        for passage in passages
        for corpus, document, start, end in passage.spans
    ]
    query, document, start, end = np.array(spans, np.int64).reshape(-1, 4).T
    first, last = pieces_in(corpora.layout, document, start, end)
    return np.repeat(query, last - first), ranges(first, last)
