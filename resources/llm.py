"""A language model client with a cache and a budget; `endpoint.py` sends the requests.

An answer is committed to the cache, keyed by the request, before it is returned, unless it is to what people ask.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mog_assets.resources import extras, tracing
from mog_assets.resources.chat import (
    AnswerForm,
    ChatMessage,
    Completion,
    LlmSettings,
    NoResponse,
    RequestFailed,
    SpendCapReached,
)
from mog_assets.resources.chat_parameters import FORMAT, SYSTEM, ParameterRefused, Parameters
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import disk_full
from mog_assets.resources.progress import stored_counts
from mog_assets.resources.sqlite import connect
from mog_assets.resources.store import digest

if TYPE_CHECKING:
    from mog_assets.resources.endpoint import Endpoint, Heard

_log = logging.getLogger(__name__)
_DEFAULT_URL = "https://api.openai.com/v1"
# The setting, and what is done instead of what a model rejects.
_INSTEAD = {
    FORMAT: ("llm.structured", "it is asked in words"),
    SYSTEM: ("llm", "its instructions are sent before the question"),
}


@dataclass(frozen=True)
class Tally:
    """Counts of what a client has done since it was created.

    Attributes:
        calls: HTTP requests sent, including retries.
        cached: Requests answered without a call.
        retries: Calls that repeated a failed one.
        failures: Requests given up.
        unanswered: Failures without an answer after all attempts; a later run may get one.
        tokens_in: Input tokens that the endpoint reported, including those of answers that could not be used.
        tokens_out: Output tokens, likewise.
        usd: Cost of these tokens at the prices of the settings.
    """

    calls: int = 0
    cached: int = 0
    retries: int = 0
    failures: int = 0
    unanswered: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0

    def __sub__(self, earlier: Tally) -> Tally:
        """Return what was done since an earlier state of the same client."""
        return Tally(**{f.name: getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)})


class OpenAIModel:
    """Any OpenAI-compatible endpoint; base URL and key are read from OPENAI_BASE_URL and OPENAI_API_KEY.

    At most `concurrency` requests run at a time, over all threads. The spend cap is compared with the cost of the
    answers so far, so the last `concurrency` of them may exceed it. Incomplete answers are not counted, because their
    cost is not known.

    A parameter that the model rejects is sent under its other name, or left out, from then on; the cache key is made
    from what was really sent.

    Args:
        settings: Model, temperature, answer length in tokens, limits.
        seed: Sent with every request; endpoints that honour it give reproducible answers.
        cache: Folder of the answer cache and of the rejected parameters; None stores nothing.
        keep: Whether answers are added to the cache; False only reads it.
    """

    def __init__(self, settings: LlmSettings, seed: int = 0, cache: Path | None = None, keep: bool = True) -> None:
        self.settings, self.seed, self.keep = settings, seed, keep
        self.cache = ChatCache(cache)
        self.tally = Tally()
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._lock = threading.Lock()

    @cached_property
    def endpoint(self) -> str:
        """URL of the endpoint without credentials: scheme, host, port and path."""
        try:
            url = urlsplit(os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL)
            host, port = url.hostname, url.port
        except ValueError:
            url, host, port = urlsplit(""), None, None
        if url.scheme not in ("http", "https") or not host:
            raise MogError(
                "llm: expected OPENAI_BASE_URL to be a URL such as http://localhost:8000/v1, got another text"
            )
        return f"{url.scheme}://{host}{f':{port}' if port else ''}{url.path.rstrip('/')}"

    @cached_property
    def _http(self) -> Endpoint:
        # It imports what takes longer than answers from the cache.
        with extras.needed("llm"):
            from mog_assets.resources.endpoint import Endpoint
        url = os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL
        return Endpoint(self.settings, self.endpoint, url, self._before, self._charge)

    @cached_property
    def parameters(self) -> Parameters:
        """The parameters, besides the messages, that the model accepts."""
        settings = self.settings
        wanted: dict[str, Any] = {
            "temperature": settings.temperature,
            "max_tokens": settings.max_tokens,
            "seed": self.seed,
            SYSTEM: None,
        }
        if settings.structured != "off":
            wanted[FORMAT] = None
        return Parameters(wanted, f"{settings.model} at {self.endpoint}", self.cache.folder)

    def complete(
        self, messages: Sequence[ChatMessage], form: AnswerForm | None = None, heard: Heard | None = None
    ) -> Completion:
        """Answer a chat, from the cache if it was asked before; in a form if the endpoint accepts one.

        `heard` is called with each piece of the answer. One that breaks off after its first piece is not asked for
        again: what was heard cannot be taken back.

        Raises:
            RequestFailed: the model refused, gave no usable answer, or every attempt failed.
            SpendCapReached: the answer is not in the cache and `llm.budget_usd` is spent.
            MogError: no request can succeed: key, model, endpoint or cache cannot be used.
        """
        while True:
            sent = self.parameters.with_format(form.response_format if form else None)
            messages = self.parameters.fitted(messages)
            key = self._key(messages, sent)
            if completion := self.cache.find(key):
                self._count(cached=1)
                heard and heard(completion.text)
                return completion
            try:
                return self._ask(key, messages, sent, heard)
            except ParameterRefused as refusal:
                # Each rejection removes a name for good, so the loop ends.
                self._learn(refusal)

    def _learn(self, refusal: ParameterRefused) -> None:
        if refusal.name == FORMAT and self.settings.structured == "on":
            raise MogError(
                f"llm.structured: expected an endpoint that accepts {FORMAT}, got a rejection from "
                f"{self.settings.model} at {self.endpoint} ({refusal.message}): set it to auto"
            )
        if self.parameters.learn(refusal.name) and refusal.name in _INSTEAD:
            (setting, instead), model = _INSTEAD[refusal.name], f"{self.settings.model} at {self.endpoint}"
            _log.warning(
                "%s: %s rejects %s (%s): %s from now on", setting, model, refusal.name, refusal.message, instead
            )

    def _ask(
        self, key: str, messages: Sequence[ChatMessage], sent: Mapping[str, Any], heard: Heard | None
    ) -> Completion:
        model = self.settings.model
        attributes = {"gen_ai__operation__name": "chat", "gen_ai__request__model": model}
        with self._slots, tracing.span(f"chat {model}", **attributes, server__address=self.endpoint):
            try:
                completion = self._http.ask(messages, sent, heard)
            except RequestFailed as error:
                self._count(failures=1, unanswered=int(isinstance(error, NoResponse)))
                raise
            tokens = {"input": completion.tokens_in, "output": completion.tokens_out}
            tracing.note(**{f"gen_ai__usage__{side}_tokens": count for side, count in tokens.items()})
            if self.keep:
                self.cache.keep(key, completion)
        if self.settings.budget_usd is not None and not completion.tokens_in + completion.tokens_out:
            raise MogError(
                "llm.budget_usd: expected an endpoint that reports token usage, got none from "
                f"{self.endpoint}: the cost is not known; remove the cap"
            )
        return completion

    def _before(self, repeats: bool) -> None:
        if self.settings.budget_usd is not None and self.tally.usd >= self.settings.budget_usd:
            raise self.cap_reached()
        self._count(calls=1, retries=int(repeats))

    def _charge(self, read: int, written: int) -> None:
        usd = (read * self.settings.price_in + written * self.settings.price_out) / 1_000_000
        self._count(tokens_in=read, tokens_out=written, usd=usd)

    def cap_reached(self) -> SpendCapReached:
        """Return the error of a spent budget, with what has been spent by now."""
        return SpendCapReached(
            f"llm.budget_usd: this run has spent {self.tally.usd:.6g} USD, the cap is {self.settings.budget_usd:.6g}: "
            "raise it and run again; all answers so far are cached and cost nothing again"
        )

    def _count(self, **more: float) -> None:
        with self._lock:
            self.tally = replace(self.tally, **{name: getattr(self.tally, name) + n for name, n in more.items()})

    def _key(self, messages: Sequence[ChatMessage], sent: Mapping[str, Any]) -> str:
        return digest("chat", self.endpoint, self.settings.model, dict(sent), list(messages))


_FILE = "llm.sqlite"


class ChatCache:
    """Answers by key, in a folder; without a folder nothing is stored.

    Raises:
        MogError: from any method: the file cannot be read or written.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def find(self, key: str) -> Completion | None:
        """Return the answer of a key; None if there is none."""
        if self.folder is None:
            return None
        with _opened(self.folder / _FILE) as connection:
            row = connection.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return Completion(**json.loads(row[0]), cached=True) if row else None

    def keep(self, key: str, completion: Completion) -> None:
        """Store an answer; it is on disk when this returns."""
        if self.folder is None:
            return
        answer = json.dumps({name: value for name, value in asdict(completion).items() if name != "cached"})
        with _opened(self.folder / _FILE, len(answer)) as connection:
            connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))
        stored_counts["answers"] += 1


@contextmanager
def _opened(path: Path, wanted: int = 1) -> Iterator[sqlite3.Connection]:
    """Open the cache for a transaction that writes `wanted` bytes; a connection each: processes cannot share one."""
    try:
        with closing(connect(path)) as connection:
            # Not NORMAL: a power cut could lose the last answers, which were paid for.
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT) WITHOUT ROWID")
            with connection:
                yield connection
    except sqlite3.DatabaseError as error:
        code = error.sqlite_errorcode
        if code == sqlite3.SQLITE_FULL or code & 0xFF == sqlite3.SQLITE_IOERR:
            raise disk_full(path, wanted, f"answer cache: {error}") from error
        raise MogError(
            f"the answer cache {path} cannot be used ({error}): give this process the right to write it, or restore a "
            "copy; without it, every answer must be paid for again"
        ) from error
