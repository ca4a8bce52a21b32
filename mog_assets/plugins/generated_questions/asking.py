"""Ask a language model for questions: what was asked before is not asked again, what fails stays open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from mog_assets.answer.replies import MAX_CHARS, Unparsable, encodable, failure
from mog_assets.plugins.generated_questions import filters
from mog_assets.plugins.generated_questions.candidates import ANSWERED, OPEN, REFUSED, Candidate, Dropped, ModelRequest
from mog_assets.plugins.generated_questions.model import FORM, NothingToAsk, request, written
from mog_assets.plugins.generated_questions.windows import Extract
from mog_assets.resources import tracing
from mog_assets.resources.chat import AnswerForm, ChatMessage, Completion, NoResponse, RequestFailed, SpendCapReached
from mog_assets.resources.llm import OpenAIModel
from mog_assets.resources.progress import Advance
from mog_assets.resources.store import digest

# Requests after which it is seen whether there is anybody who answers.
_BATCH = 64


@dataclass(frozen=True)
class Failure:
    """Reason why a request has no answer.

    Attributes:
        reason: In one sentence.
        unanswered: Whether there was no response after all attempts, so that a later run may get one.
    """

    reason: str
    unanswered: bool = False


@dataclass(frozen=True)
class Replies:
    """Outcome of all requests.

    Attributes:
        rows: One for each window, in order.
        settled: Number of requests that were open before and are not any more.
        stopped: Why not everything was asked; empty if it was.
    """

    rows: list[ModelRequest]
    settled: int
    stopped: str


def ask(
    llm: OpenAIModel, windows: Sequence[Extract], model: str, answered: Mapping[str, ModelRequest], advance: Advance
) -> Replies:
    """Ask for one question for each window.

    Args:
        llm: The model.
        windows: What questions are made from.
        model: Everything besides the messages that decides an answer.
        answered: Answers of earlier runs, by key; open ones are asked again.
        advance: Called with the number of windows done.

    Raises:
        MogError: no request can succeed: key, model, endpoint or cache cannot be used.
    """
    requests = [request(window) for window in windows]
    keys = [digest(model, chat) for chat in requests]
    messages = dict(zip(keys, requests, strict=True))
    settled = {key: (row.state, row.said) for key, row in answered.items() if row.state != OPEN}
    missing = [key for key in messages if key not in settled]
    advance(sum(key in settled for key in keys))
    stopped = ""
    for first in range(0, len(missing), _BATCH):
        batch = missing[first : first + _BATCH]
        if stopped:
            settled |= {key: (OPEN, stopped) for key in batch}
            continue
        try:
            responses = complete_many(llm, [messages[key] for key in batch], advance, FORM)
        except SpendCapReached as error:
            stopped = str(error)
            # Answers that arrived before, and those of earlier runs, are in the cache.
            responses = [_cached(llm, messages[key], stopped) for key in missing[first:]]
            settled |= {key: _state(reply) for key, reply in zip(missing[first:], responses, strict=True)}
            break
        settled |= {key: _state(reply) for key, reply in zip(batch, responses, strict=True)}
        lost = [reply for reply in responses if isinstance(reply, Failure) and reply.unanswered]
        if len(lost) == len(batch):
            stopped = f"none of {len(lost)} requests got a response, so no more were sent; the first: {lost[0].reason}"
    rows = [
        ModelRequest(key, window.document, window.number, *settled[key])
        for key, window in zip(keys, windows, strict=True)
    ]
    return Replies(rows, sum(settled[key][0] != OPEN for key in missing), stopped)


def complete_many(
    llm: OpenAIModel,
    requests: Sequence[Sequence[ChatMessage]],
    advance: Advance | None = None,
    form: AnswerForm | None = None,
) -> list[Completion | Failure]:
    """Answer chats concurrently, in order; a failed one does not stop the others, and equal ones are one request.

    `advance` is called with the number of requests done since the last call, from this thread.

    Raises:
        SpendCapReached: as `OpenAIModel.complete`; requests in progress have ended and are in the cache.
        MogError: as `OpenAIModel.complete`, except failures of single requests.
    """

    def answer(messages: Sequence[ChatMessage]) -> Completion | Failure:
        try:
            return llm.complete(messages, form)
        except RequestFailed as error:
            return Failure(str(error), isinstance(error, NoResponse))

    try:
        with ThreadPoolExecutor(llm.settings.concurrency, "llm") as pool:
            keys = [digest(list(messages)) for messages in requests]
            # Each is paid for.
            distinct, times = dict(zip(keys, requests, strict=True)), Counter(keys)
            futures = {pool.submit(tracing.carried(answer), distinct[key]): key for key in distinct}
            answers = dict[str, Completion | Failure]()
            try:
                for future in as_completed(futures):
                    key = futures[future]
                    answers[key] = future.result()
                    if advance:
                        advance(times[key])
            except BaseException:
                # Requests in progress end, and their answers are cached.
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except SpendCapReached:
        # Raised anew, because the requests in progress have added to the cost.
        raise llm.cap_reached() from None
    return [answers[key] for key in keys]


def _cached(llm: OpenAIModel, messages: Sequence[ChatMessage], stopped: str) -> Completion | Failure:
    try:
        return llm.complete(messages, FORM)
    except SpendCapReached:
        return Failure(stopped, unanswered=True)


def _state(reply: Completion | Failure) -> tuple[str, str]:
    if isinstance(reply, Failure):
        return (OPEN if reply.unanswered else REFUSED), encodable(reply.reason)
    # One character more than is read: it stays too long.
    return ANSWERED, encodable(reply.text[: MAX_CHARS + 1])


def read(window: Extract, row: ModelRequest) -> Candidate | Dropped | None:
    """Return what a request gave: a candidate, or what is wrong with it; None if it is open."""
    if row.state == OPEN:
        return None
    if row.state == REFUSED:
        return filters.dropped(window, "", filters.REFUSED, row.said)
    try:
        writing = written(row.said)
    except Unparsable as error:
        return filters.dropped(window, "", filters.UNPARSABLE, failure(error, row.said))
    except NothingToAsk:
        return filters.dropped(window, "", filters.NOTHING)
    return Candidate(window, writing.question, writing.answer, writing.quotes)
