"""Models that are served elsewhere: requests with a key, limits of time, retries, and a budget.

Calls that fail for a temporary reason are repeated, with exponential backoff and full jitter (M. Brooker, "Exponential
Backoff And Jitter", AWS Architecture Blog 2015).
"""

from __future__ import annotations

import email.utils
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import httpx2
import tenacity

from mog_assets.plugins.models.served_settings import ServedSettings
from mog_assets.resources import tracing
from mog_assets.resources.chat import SpendCapReached
from mog_assets.resources.errors import MogError

ItemT = TypeVar("ItemT")
ReadT = TypeVar("ReadT")

_PASSING = (408, 409, 425, 429)
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
# Also 424, by which Text Embeddings Inference says that the model failed.
_OF_CONTENT = (400, 413, 422, 424)
# How endpoints say that there is too much in a request.
_SIZE = re.compile(r"token|length|long|size|large|big|less than|at most|max|limit|exceed|[超长長]", re.IGNORECASE)


class Retry(Exception):
    """A call failed for a temporary reason, or for what it asks for (`of_content`).

    `wait` is the number of seconds that the endpoint asked for, if any.
    """

    def __init__(self, reason: str, wait: float | None = None, of_content: bool = False) -> None:
        super().__init__(reason if wait is None else f"{reason}, and asked for a wait of {wait:.3g} s")
        self.wait, self.of_content = wait, of_content


class ContentFault(MogError):
    """A request failed, maybe for what it asks for; `names_size` if the endpoint says that this is too much."""

    def __init__(self, message: str, names_size: bool = False) -> None:
        super().__init__(message)
        self.names_size = names_size


@dataclass(frozen=True)
class Provider:
    """A provider of models.

    Attributes:
        url: Where; empty for programs that people run themselves.
        path: Behind the URL.
        key: Name of the environment variable.
    """

    url: str
    path: str
    key: str


@dataclass(frozen=True)
class Spent:
    """Count of what a process has sent: requests, those that repeated another, tokens or searches, and their price."""

    calls: int = 0
    retries: int = 0
    units: int = 0
    usd: float = 0.0


class Service:
    """Asks a served model.

    Args:
        settings: Where, and limits.
        provider: Whose protocol it speaks.
        model: Its name.
        section: Of the settings, for messages: `encoder`.
        per: Units that `price` is of.
        backoff: Longest wait in seconds before the first retry, and before any retry.
    """

    def __init__(
        self,
        settings: ServedSettings,
        provider: Provider,
        model: str,
        section: str,
        per: int = 1_000_000,
        backoff: tuple[float, float] = (0.5, 30.0),
    ) -> None:
        self.settings, self.provider, self.model, self.section, self._per = settings, provider, model, section, per
        self.spent = Spent()
        self._jitter: Callable[[tenacity.RetryCallState], float]
        self._jitter = tenacity.wait_random_exponential(multiplier=backoff[0], max=backoff[1])
        self._lock = threading.Lock()

    @cached_property
    def url(self) -> str:
        """Return where requests are sent, without the path."""
        other = os.environ.get("OPENAI_BASE_URL") if self.provider.key == "OPENAI_API_KEY" else None
        url = self.settings.url or other or self.provider.url
        if not url:
            raise MogError(f"{self.section}.endpoint.url: expected the address of your server, got none")
        return url.rstrip("/")

    @property
    def description(self) -> str:
        """The model, where it is, and what was spent, for people."""
        cost = f", {self.spent.usd:.4g} USD" if self.settings.price else ""
        return f"{self.model} at {self.url}: {self.spent.calls:,} requests{cost}"

    def ask(self, body: Any, most: int, read: Callable[[Any], tuple[ReadT, int]], attempts: int | None = None) -> ReadT:
        """Send a request, again if it fails for a temporary reason.

        Args:
            body: As JSON.
            most: Bytes of the answer that are read.
            read: The result, and units to be paid for, of an answer; it may raise whatever a strange answer makes it.
            attempts: How often at most; None for that of the settings.

        Raises:
            SpendCapReached: `budget_usd` is spent.
            ContentFault: the endpoint refuses what the request asks for, or fails for it.
            MogError: the endpoint refuses, does not answer, or answers something else.
        """
        attempts = attempts or self.settings.attempts
        repeated = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Retry),
            stop=tenacity.stop_after_attempt(attempts),
            wait=self._wait,
            before_sleep=lambda state: self._count(retries=1),
        )
        try:
            return repeated(self._call, body, most, read)
        except tenacity.RetryError as error:
            last = error.last_attempt.exception()
            fault = (ContentFault if getattr(last, "of_content", False) else MogError)(
                f"{self.section}.endpoint: {self.model} at {self.url} did not answer (attempts: "
                f"{attempts}; last error: {last}): what was answered before is kept, so run again later"
            )
        raise fault

    def _wait(self, state: tenacity.RetryCallState) -> float:
        assert state.outcome is not None
        return self._jitter(state) + (getattr(state.outcome.exception(), "wait", None) or 0)

    def _call(self, body: Any, most: int, read: Callable[[Any], tuple[ReadT, int]]) -> ReadT:
        budget = self.settings.budget_usd
        if budget is not None and self.spent.usd >= budget:
            raise SpendCapReached(
                f"{self.section}.endpoint.budget_usd: this run has spent {self.spent.usd:.6g} USD, the cap is "
                f"{budget:.6g}: raise it and run again; what was answered before is kept and costs nothing again"
            )
        self._count(calls=1)
        with tracing.span(f"request {self.section}", model=self.model, server__address=self.url):
            answer = self._post(body, most)
        try:
            result, units = read(answer)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Retry(
                f"expected an answer of the form that was asked for, got another ({error!r:.200})", None, True
            ) from None
        self._count(units=units, usd=units * self.settings.price / self._per)
        if budget is not None and not units:
            raise MogError(
                f"{self.section}.endpoint.budget_usd: expected an endpoint that reports what is paid for, got none "
                f"from {self.url}: the cost is not known; remove the cap"
            )
        return result

    @cached_property
    def _client(self) -> httpx2.Client:
        key, name = os.environ.get(self.provider.key, ""), self.provider.key
        if not key and self.url == self.provider.url:
            raise MogError(f"{self.section}.endpoint: expected {name} in the environment, got none for {self.url}")
        if key and (not (key.isascii() and key.isprintable()) or " " in key):
            raise MogError(f"{self.section}.endpoint: expected {name} to be ASCII without blanks, got another text")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(headers=headers, timeout=self.settings.timeout)

    def _post(self, body: Any, most: int) -> Any:
        fault: Exception
        deadline, data = time.monotonic() + self.settings.timeout, bytearray()
        try:
            address = self.url + self.provider.path
            with self._client.stream("POST", address, json=body, headers=tracing.headers()) as response:
                for part in response.iter_bytes():
                    data += part
                    if len(data) > most:
                        raise MogError(f"{self.section}.endpoint: expected at most {most:,} bytes, got a longer answer")
                    # The client's timeout is of single reads: an answer sent byte by byte could take for ever.
                    if time.monotonic() > deadline:
                        raise Retry(f"no complete answer within {self.settings.timeout:.3g} s")
            if response.status_code == 200:
                return json.loads(data)
            fault = self._status_fault(response.status_code, response.headers.get("retry-after"), bytes(data))
        except httpx2.TimeoutException:
            fault = Retry(f"no answer within {self.settings.timeout:.3g} s")
        except httpx2.RequestError as error:
            fault = Retry(f"the connection failed: {self._line(str(error) or type(error).__name__)}")
        except ValueError:
            fault = Retry("expected JSON, got another body")
        # Raised outside the handlers: the library's error may show headers, and logs print the cause of an error.
        raise fault

    def _status_fault(self, status: int, wait: str | None, body: bytes) -> Exception:
        reply = self._line(body.decode("utf-8", "replace"))
        section, where = f"{self.section}.endpoint", f"{self.url}{self.provider.path}"
        if status == 402 or (status == 429 and any(code in reply for code in _NO_CREDIT)):
            return MogError(f"{section}: {self.url} has no credit for {self.provider.key}: add some ({reply})")
        if status in _PASSING or status >= 500:
            return Retry(f"HTTP {status}: {reply}", retry_after(wait), status == 500)
        if status in (401, 403):
            # The endpoint's message may quote the key.
            return MogError(f"{section}: {self.url} does not accept the key ({status}): set {self.provider.key}")
        if status == 404:
            return MogError(
                f"{section}: {where} has no model {self.model!r}, or another form: check {self.section}.model and "
                f"{section}.url (404: {reply})"
            )
        message = f"{section}: {self.model} at {where} rejected the request ({status}: {reply})"
        return (
            ContentFault(message, status == 413 or bool(_SIZE.search(reply)))
            if status in _OF_CONTENT
            else MogError(message)
        )

    def _line(self, text: str) -> str:
        """Return an endpoint's text as one line of a message, without the key."""
        key = os.environ.get(self.provider.key)
        return " ".join((text.replace(key, "…") if key else text).split())[:300]

    def _count(self, calls: int = 0, retries: int = 0, units: int = 0, usd: float = 0.0) -> None:
        with self._lock:
            now = self.spent
            self.spent = replace(
                now, calls=now.calls + calls, retries=now.retries + retries, units=now.units + units, usd=now.usd + usd
            )


def retry_after(header: str | None) -> float | None:
    """Return seconds that a Retry-After header asks to wait, given as seconds or as a date (RFC 9110, section 10.2.3).

    None if the header is missing or not valid.
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


def together(ask: Callable[[ItemT], ReadT], items: Sequence[ItemT], concurrency: int) -> Generator[tuple[int, ReadT]]:
    """Yield the number of an item with its answer, in the order in which answers come, several under way at once.

    More is sent when an answer was taken: whoever stores it loses no more than is under way. After a failure nothing
    else is sent; what is under way is paid for, so its answers are given before the error.

    Args:
        ask: Sends a request and waits for its answer.
        items: What to ask.
        concurrency: How many requests are under way together.
    """
    if len(items) < 2:
        yield from enumerate(map(ask, items))
        return
    fault: BaseException | None = None
    waiting, futures = iter(enumerate(items)), dict[Future[ReadT], int]()
    with ThreadPoolExecutor(concurrency, "served") as pool:

        def send(most: int) -> None:
            for number, item in islice(waiting, most):
                futures[pool.submit(tracing.carried(ask), item)] = number

        send(concurrency)
        try:
            while futures:
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    number = futures.pop(future)
                    if (error := future.exception()) is None:
                        yield number, future.result()
                        if fault is None:
                            send(1)
                    else:
                        fault = fault or error
        finally:
            for future in futures:
                future.cancel()
    if fault is not None:
        raise fault
