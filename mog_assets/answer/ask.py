"""Answer questions with a reader over a retrieval, with parallel calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from mog_assets.answer import conversation
from mog_assets.answer.answerers import ONE_STEP_K, WAYS, Each, Means, Retrieve, RetrievedPassages, serial
from mog_assets.answer.notation import Combination
from mog_assets.answer.prompted import Prompted
from mog_assets.answer.readers import ANSWER_READERS
from mog_assets.answer.retrieve import given, retrieve_by, texts
from mog_assets.answer.roles import AnswerRequest, Passage, Roles
from mog_assets.answer.rows import AnswerRow
from mog_assets.answer.watching import Told, traced, watched
from mog_assets.build.tools import Tools
from mog_assets.questions.sets import Question
from mog_assets.resources import tracing
from mog_assets.resources.errors import MogError
from mog_assets.search.controls import gold_passages, random_passages
from mog_assets.search.retrieval import Retrieval

S = TypeVar("S")

R = TypeVar("R")


def reader(tools: Tools) -> Roles:
    """The configured reader."""
    return ANSWER_READERS[tools.settings.answering.reader].open(tools)


def reader_name(tools: Tools) -> str:
    """What decides the answers of the configured reader, beside the encoder and the assets that it is read from."""
    return ANSWER_READERS[tools.settings.answering.reader].name(tools)


def side_by_side(tools: Tools) -> Each:
    """Runs the calls of a round, as many at once as the endpoint's concurrency limit allows."""
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
    tell: Told | None = None,
    queries: Mapping[str, str] | None = None,
) -> list[AnswerRow]:
    """Answer questions.

    Args:
        tools: The resources.
        retrieval: The corpora.
        how: The answering method with its retrieval.
        requests: The questions.
        tell: Called with every step while it works; see `watching.watched`.
        queries: By question, what passages are retrieved by in its place.
    """
    options: dict[str, Any] = {}
    retrieve: Retrieve = _nothing
    if how.retrieval is not None:
        retrieve = _replaced(retrieve_by(how.retrieval, retrieval), queries or {})
        options["limit"] = how.retrieval.limit
    roles = reader(tools)
    if tell is not None and isinstance(roles, Prompted) and WAYS[how.way].once:
        heard = tell
        roles = replace(roles, heard=lambda text: heard("token", {"text": text}))
    means = Means(traced(roles), retrieve, side_by_side(tools))
    if how.retrieval is not None:
        means = replace(means, retriever=retrieval.resolved(how.retrieval).retriever, encode=tools.encoder.encode)
    return WAYS[how.way].answer(requests, means if tell is None else watched(means, tell), **options)


def _replaced(retrieve: Retrieve, others: Mapping[str, str]) -> Retrieve:
    def by_others(
        queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
    ) -> Sequence[RetrievedPassages]:
        return retrieve([others.get(query, query) for query in queries], k, limit, read)

    return by_others


def standalone(tools: Tools, question: str, earlier: Sequence[tuple[str, str]]) -> str:
    """A question of a conversation as one that stands alone: by the language model, or without one by its words.

    Args:
        tools: The resources.
        question: The question.
        earlier: The questions before it and their answers, in order.

    Raises:
        MogError: the model gave none.
    """
    if not earlier:
        return question
    role = reader(tools)
    if not isinstance(role, Prompted):
        return conversation.standalone(question, [before for before, _ in earlier])
    reply = role.standalone(AnswerRequest("question", question), earlier)
    if reply.value is None:
        raise MogError(f"the follow-up could not be made a question that stands alone: {reply.failure}")
    return reply.value


def control(
    tools: Tools,
    retrieval: Retrieval,
    how: Combination,
    questions: Sequence[Question],
    requests: Sequence[AnswerRequest],
) -> list[AnswerRow]:
    """Answer questions from gold or random passages instead of retrieved ones.

    Args:
        tools: The resources.
        retrieval: The corpora.
        how: One of `notation.controls`: all gold evidence (nothing if there is none), or as many random passages as
            one-step uses.
        questions: The questions.
        requests: The same questions, as `AnswerRequest`.
    """
    assert how.retrieval is not None
    if how.retrieval.kind == "gold":
        passages = gold_passages(questions, retrieval.corpora)
    else:
        passages = random_passages(questions, retrieval.corpora)
        passages = passages.at(passages.rank < ONE_STEP_K)
    retrieve = given(texts(retrieval.corpora, passages, len(questions)))
    return WAYS[how.way].answer(requests, Means(reader(tools), retrieve, side_by_side(tools)))


def _nothing(
    queries: Sequence[str], k: int, limit: str, read: Sequence[Sequence[Passage]] = ()
) -> list[RetrievedPassages]:
    raise AssertionError("an answering method without retrieval tried to retrieve")
