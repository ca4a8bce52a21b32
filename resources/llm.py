"""Language models: the protocol every one answers to, and a client of the chat-completions protocol.

The client pays for an answer once: it is committed to a SQLite cache before anybody sees it, by what was asked. Calls
that fail for a reason that passes are repeated with exponential backoff and full jitter (M. Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog 2015).
"""

from __future__ import annotations

import email.utils
import json
import math
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict
from urllib.parse import urlsplit

import tenacity
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError, model_validator

from resources.errors import MogError
from resources.progress import Advance
from resources.settings import SettingsModel
from resources.sqlite import connect
from resources.store import digest, disk_full

_DEFAULT_URL = "https://api.openai.com/v1"
_CACHE = "llm.sqlite"
# Of every language that models write, a token is at most this many characters but for runs of white space.
_CHARS_PER_TOKEN = 16
_SLACK_CHARS = 1000
# A character may come as two JSON escapes of six bytes; around the answer an endpoint may tell what it likes to.
_BYTES_PER_CHAR = 12
_ENVELOPE_BYTES = 2**20
_PASSING = (408, 409, 425, 429)
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")


class LlmSettings(SettingsModel):
    """An OpenAI-compatible endpoint; base URL and key come from OPENAI_BASE_URL and OPENAI_API_KEY.

    `timeout` is of one attempt, in seconds; `price_in` and `price_out` are USD per million tokens, 0 where they are not
    known. A run that has spent `budget_usd` asks nothing more.
    """

    model: str = "gpt-4o-mini"
    temperature: float = Field(0.0, ge=0)
    max_tokens: PositiveInt = 1024
    timeout: float = Field(60.0, gt=0)
    concurrency: PositiveInt = 8
    attempts: PositiveInt = 5
    budget_usd: float | None = Field(None, ge=0)
    price_in: float = Field(0.0, ge=0)
    price_out: float = Field(0.0, ge=0)

    @model_validator(mode="after")
    def _priced(self) -> LlmSettings:
        if self.budget_usd is not None and not self.price_in + self.price_out:
            raise ValueError("price_in or price_out above 0 beside budget_usd, else the spend is not known")
        return self


class Message(TypedDict):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Completion:
    """What a model answered.

    Attributes:
        text: The answer, never empty.
        model: As the endpoint names it.
        tokens_in: Tokens of the chat; 0 where the endpoint does not say.
        tokens_out: Tokens of the answer; 0 where the endpoint does not say.
        finish_reason: Why it ended: `stop`, `length` (cut after `max_tokens`), ….
        cost: USD that the answer cost when it was given, by the prices of the settings.
        seconds: That the call took which gave the answer; earlier attempts and waits are not in it.
        cached: Whether this time nothing was paid: the answer was there, or another request brought it.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    finish_reason: str
    cost: float = 0.0
    seconds: float = 0.0
    cached: bool = False


@dataclass(frozen=True)
class Failure:
    """Why a request has no answer."""

    reason: str


@dataclass(frozen=True)
class Usage:
    """What a client has done since it was made.

    Attributes:
        calls: HTTP requests sent, repeated ones too.
        cached: Requests answered without a call.
        retries: Calls that repeated one.
        failures: Requests given up.
        unanswered: Those of them that had no answer after all attempts, and may have one later.
        tokens_in: Of all answers that the endpoint gave now and counted, also of those that could not be used.
        tokens_out: As `tokens_in`.
        usd: What these tokens cost, by the prices of the settings.
    """

    calls: int = 0
    cached: int = 0
    retries: int = 0
    failures: int = 0
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0

    def __sub__(self, earlier: Usage) -> Usage:
        """What was done since an earlier state of the same client."""
        return Usage(**{f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)})


class RequestFailed(MogError):
    """One request has no answer; others may have one."""


class SpendCapReached(MogError):
    """A request was not sent because `llm.budget_usd` is spent."""


class LanguageModel(Protocol):
    """Anything that completes a chat."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a chat.

        Raises:
            MogError: the model cannot be reached, refused, or answered nothing that can be used.
        """


class _Again(Exception):
    """A call failed for a reason that passes; `wait` is how many seconds the endpoint asked for, if it did."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason if wait is None else f"{reason}, and asked for a wait of {wait:.3g} s")
        self.wait = wait


class OpenAIModel:
    """Any OpenAI-compatible endpoint; base URL and key are read from OPENAI_BASE_URL and OPENAI_API_KEY.

    A request ends within `attempts * timeout` seconds, waits included; one whose endpoint asks for a longer wait fails
    at once. At most `concurrency` requests are under way, whichever threads make them; equal ones at the same time are
    one call. The spend cap is compared with what answers have cost so far, so the last `concurrency` of them may exceed
    it, and answers that did not arrive whole are not in it, as nobody knows what they cost.

    Args:
        settings: Model, temperature, answer length in tokens, limits.
        seed: Sent with every request; endpoints that honour it answer reproducibly.
        cache: Folder of the cache of answers; None keeps none.
        backoff: Longest wait in seconds before the first repetition, and before any.
    """

    def __init__(
        self,
        settings: LlmSettings,
        seed: int = 0,
        cache: Path | None = None,
        backoff: tuple[float, float] = (0.5, 30.0),
    ) -> None:
        self.settings = settings
        self.seed = seed
        self.cache = cache
        self.usage = Usage()
        self._jitter = tenacity.wait_random_exponential(multiplier=backoff[0], max=backoff[1])
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Completion]] = {}

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a chat, from the cache where it was asked before.

        Raises:
            RequestFailed: the model refused, answered nothing that can be used, or every attempt failed.
            SpendCapReached: the answer is not in the cache and `llm.budget_usd` is spent.
            MogError: no request can succeed: key, model, endpoint or cache are not usable.
        """
        return self._complete_once(self._key(messages), messages)

    def complete_many(
        self, requests: Sequence[Sequence[Message]], advance: Advance | None = None
    ) -> list[Completion | Failure]:
        """Answer chats concurrently, each once however often it occurs; a failed one does not stop the others.

        Args:
            requests: n chats.
            advance: Called with the number of requests done since the last call, from this thread.

        Returns:
            n answers or failures, in the order of the requests.

        Raises:
            SpendCapReached: as `complete`; what was under way has ended and is in the cache.
            MogError: as `complete`, but for failures of single requests.
        """
        keys = [self._key(messages) for messages in requests]
        times = Counter(keys)
        answers: dict[str, Completion | Failure] = {**self._find(times)}
        self._count(cached=len(answers))
        if advance and answers:
            advance(sum(times[key] for key in answers))
        missing = {key: messages for key, messages in zip(keys, requests, strict=True) if key not in answers}
        try:
            with ThreadPoolExecutor(self.settings.concurrency, "llm") as pool:
                futures = {pool.submit(self._complete_once, key, messages): key for key, messages in missing.items()}
                try:
                    for future in as_completed(futures):
                        key = futures[future]
                        try:
                            answers[key] = future.result()
                        except RequestFailed as error:
                            answers[key] = Failure(str(error))
                        if advance:
                            advance(times[key])
                except BaseException:
                    # What is under way ends, and is kept.
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        except SpendCapReached:
            # Said anew: what was under way has been paid by now.
            raise self._cap_reached() from None
        results = []
        for key in keys:
            answer = answers[key]
            results.append(answer)
            if isinstance(answer, Completion) and times[key] > 1:
                answers[key] = replace(answer, cached=True)
        self._count(cached=sum(times[key] - 1 for key, answer in answers.items() if isinstance(answer, Completion)))
        return results

    def _complete_once(self, key: str, messages: Sequence[Message]) -> Completion:
        with self._lock:
            other = self._under_way.get(key)
            mine: Future[Completion] = Future()
            self._under_way.setdefault(key, mine)
        if other is not None:
            completion = replace(other.result(), cached=True)
            self._count(cached=1)
            return completion
        try:
            # A thread that was here just before may have left the answer.
            found = self._find([key]).get(key)
            if found:
                self._count(cached=1)
            completion = found or self._ask(key, messages)
            mine.set_result(completion)
            return completion
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._under_way[key]

    def _ask(self, key: str, messages: Sequence[Message]) -> Completion:
        with self._slots:
            seconds = self.settings.attempts * self.settings.timeout
            attempts = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(_Again),
                stop=tenacity.stop_after_attempt(self.settings.attempts) | tenacity.stop_before_delay(seconds),
                wait=self._wait,
                before_sleep=lambda state: self._count(retries=1),
            )
            try:
                completion = attempts(self._call, messages, time.monotonic() + seconds)
            except tenacity.RetryError as error:
                last = error.last_attempt
                self._count(unanswered=1)
                fault = RequestFailed(
                    f"llm: {self.settings.model} at {self.endpoint} did not answer, attempts: {last.attempt_number}, "
                    f"limit: {self.settings.attempts} within {seconds:.4g} s; the last one: {last.exception()}"
                )
            except RequestFailed as error:
                fault = error
            else:
                self._keep(key, completion)
                if self.settings.budget_usd is not None and not completion.tokens_in + completion.tokens_out:
                    raise MogError(
                        f"llm.budget_usd: expected an endpoint that counts tokens, got no usage from {self.endpoint}: "
                        "the spend cannot be known; remove the cap"
                    )
                return completion
            self._count(failures=1)
            raise fault

    def _wait(self, state: tenacity.RetryCallState) -> float:
        assert state.outcome is not None
        asked = getattr(state.outcome.exception(), "wait", None)
        return self._jitter(state) + (asked or 0)

    def _call(self, messages: Sequence[Message], deadline: float) -> Completion:
        if self.settings.budget_usd is not None and self.usage.usd >= self.settings.budget_usd:
            raise self._cap_reached()
        self._count(calls=1)
        started = time.monotonic()
        body = self._post(messages, min(started + self.settings.timeout, deadline))
        seconds = time.monotonic() - started
        try:
            answer = _Answer.model_validate_json(body)
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            where = ".".join(map(str, detail["loc"]))
            raise _Again(f"expected a chat completion as JSON, got another body ({where} {detail['msg']})") from None
        usage = answer.usage or _Usage()
        million = 1_000_000
        cost = (
            usage.prompt_tokens * self.settings.price_in + usage.completion_tokens * self.settings.price_out
        ) / million
        self._count(tokens_in=usage.prompt_tokens, tokens_out=usage.completion_tokens, usd=cost)
        if not answer.choices:
            said = f" but an error: {json.dumps(answer.error)}" if answer.error else ""
            raise _Again(self._line(f"expected an answer, got no choices{said}"))
        choice = answer.choices[0]
        text, reason = choice.message.content or "", choice.finish_reason or ""
        if choice.message.refusal:
            raise RequestFailed(f"llm: {self.settings.model} refused: {self._line(choice.message.refusal)}")
        if reason == "content_filter":
            raise RequestFailed(
                f"llm: {self.settings.model} refused: the endpoint's content filter held the answer back"
            )
        if not text.strip():
            remedy = "raise llm.max_tokens" if reason == "length" else "choose another model"
            raise RequestFailed(f"llm: {self.settings.model} answered without text (it ended by {reason!r}): {remedy}")
        if len(text) > self._most_chars:
            raise self._too_long()
        return Completion(
            text=text,
            model=answer.model or self.settings.model,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            finish_reason=reason,
            cost=cost,
            seconds=seconds,
        )

    def _post(self, messages: Sequence[Message], deadline: float) -> bytes:
        import httpx2
        import openai

        fault: Exception
        body = bytearray()
        left = max(deadline - time.monotonic(), 0.001)
        try:
            with self._client.chat.completions.with_streaming_response.create(
                model=self.settings.model, messages=list(messages), timeout=left, **self._parameters
            ) as response:
                # The client's timeout is of single reads: byte by byte, an answer could take for ever.
                for part in response.iter_bytes():
                    body += part
                    if len(body) > _BYTES_PER_CHAR * self._most_chars + _ENVELOPE_BYTES:
                        raise self._too_long()
                    if time.monotonic() > deadline:
                        raise _Again(f"no whole answer within {left:.3g} s")
            return bytes(body)
        except openai.APIStatusError as error:
            fault = self._status_fault(error)
        except (openai.APITimeoutError, httpx2.TimeoutException):
            fault = _Again(f"no answer within {left:.3g} s")
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            cause = error.__cause__ or error
            fault = _Again(f"the connection failed: {self._line(str(cause) or type(cause).__name__)}")
        except UnicodeEncodeError as error:
            fault = RequestFailed(f"llm: expected messages that UTF-8 can write, got one with {error.reason}")
        # Not within the handlers: what the library raised may show headers, and logs print what an error came from.
        raise fault

    def _status_fault(self, error: Any) -> Exception:
        status, said = error.status_code, self._line(str(error))
        model, endpoint = self.settings.model, self.endpoint
        if status == 402 or (status == 429 and error.code in _NO_CREDIT):
            return MogError(f"llm: {endpoint} has no credit for OPENAI_API_KEY: add some, then run again ({said})")
        if status in _PASSING or status >= 500:
            return _Again(said, retry_after(error.response.headers.get("retry-after")))
        if status == 401:
            # What the endpoint says may quote the key.
            return MogError(f"llm: {endpoint} does not accept the key (401): set OPENAI_API_KEY to one of its keys")
        if status == 403:
            return MogError(
                f"llm: {endpoint} does not let OPENAI_API_KEY use {model!r}: choose another llm.model, or a key "
                f"that may use it ({said})"
            )
        if status == 404:
            return MogError(
                f"llm: {endpoint} has no model {model!r}, or is no chat-completions endpoint: check llm.model and "
                f"OPENAI_BASE_URL (it mostly ends in /v1) ({said})"
            )
        return RequestFailed(f"llm: {model} at {endpoint} does not take the request ({said})")

    @cached_property
    def endpoint(self) -> str:
        """Where answers come from, without credentials: scheme, host, port and path.

        Raises:
            MogError: OPENAI_BASE_URL is no URL of the web.
        """
        try:
            url = urlsplit(self._base_url)
            host, port = url.hostname, url.port
        except ValueError:
            url, host, port = urlsplit(""), None, None
        if url.scheme not in ("http", "https") or not host:
            raise MogError(
                "llm: expected OPENAI_BASE_URL to be a URL such as http://localhost:8000/v1, got another text"
            )
        return f"{url.scheme}://{host}{f':{port}' if port else ''}{url.path.rstrip('/')}"

    @cached_property
    def _base_url(self) -> str:
        return os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL

    @cached_property
    def _client(self) -> Any:
        import openai

        # Naming the endpoint first reports a URL that is none.
        endpoint, key = self.endpoint, os.environ.get("OPENAI_API_KEY", "")
        if not key:
            raise MogError(
                "llm: expected OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint) in the environment, got none "
                f"for {endpoint}"
            )
        # HTTP libraries quote a header that they cannot send.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise MogError("llm: expected OPENAI_API_KEY to be ASCII without white space, got another text")
        return openai.OpenAI(api_key=key, base_url=self._base_url, max_retries=0, timeout=self.settings.timeout)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {
            "temperature": self.settings.temperature,
            "max_tokens": self.settings.max_tokens,
            "seed": self.seed,
        }

    @property
    def _most_chars(self) -> int:
        return _CHARS_PER_TOKEN * self.settings.max_tokens + _SLACK_CHARS

    def _too_long(self) -> RequestFailed:
        return RequestFailed(
            f"llm: expected an answer of at most {self._most_chars} characters ({self.settings.max_tokens} tokens), "
            f"got a longer one from {self.settings.model}: choose an endpoint that honours max_tokens"
        )

    def _cap_reached(self) -> SpendCapReached:
        return SpendCapReached(
            f"llm.budget_usd: this run has spent {self.usage.usd:.6g} USD, the cap is {self.settings.budget_usd:.6g}: "
            "raise it and run again; every answer so far is kept, and none is paid for again"
        )

    def _line(self, text: str) -> str:
        """A text of the endpoint as a line of a message, without the key."""
        key = os.environ.get("OPENAI_API_KEY")
        return " ".join((text.replace(key, "…") if key else text).split())[:300]

    def _count(self, **more: float) -> None:
        with self._lock:
            self.usage = replace(self.usage, **{name: getattr(self.usage, name) + n for name, n in more.items()})

    def _key(self, messages: Sequence[Message]) -> str:
        return digest("chat", self.endpoint, self.settings.model, self._parameters, list(messages))

    def _find(self, keys: Iterable[str]) -> dict[str, Completion]:
        if self.cache is None:
            return {}
        found = {}
        with _opened(self.cache / _CACHE) as connection:
            for key in keys:
                row = connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
                if row:
                    found[key] = Completion(**json.loads(row[0]), cached=True)
        return found

    def _keep(self, key: str, completion: Completion) -> None:
        if self.cache is None:
            return
        answer = json.dumps({name: value for name, value in asdict(completion).items() if name != "cached"})
        with _opened(self.cache / _CACHE, len(answer)) as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait, given as seconds or as a date (RFC 9110, section 10.2.3).

    None where there is no header, or none that says so.
    """
    try:
        seconds = float(header or "nan")
    except ValueError:
        date = email.utils.parsedate_tz(header)
        try:
            seconds = email.utils.mktime_tz(date) - time.time() if date else math.nan
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


@contextmanager
def _opened(path: Path, wanted: int = 1) -> Iterator[sqlite3.Connection]:
    """The cache in a transaction that writes `wanted` bytes; each has its connection, as processes cannot share one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(connect(path)) as connection:
            # Not NORMAL, which can lose the last answers to a power cut: they were paid for.
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT) WITHOUT ROWID")
            with connection:
                yield connection
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode
        if code == sqlite3.SQLITE_FULL or code & 0xFF == sqlite3.SQLITE_IOERR:
            raise disk_full(path, wanted, f"cache of answers: {error}") from error
        raise MogError(
            f"the cache of answers {path} cannot be used ({error}): see that this process may write it, or put a copy "
            "back; without it, every answer has to be paid for again"
        ) from error


class _Said(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0


class _Answer(BaseModel):
    """What is read of a chat completion; some endpoints send `error` in place of `choices`, with status 200."""

    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None
