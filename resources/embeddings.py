"""Vectors of texts by an embeddings endpoint, in the form of OpenAI, Cohere or Voyage.

What is sent and read follows their public references of 2026: `POST /v1/embeddings` (OpenAI, Voyage), `POST /v2/embed`
(Cohere). Calls that fail for a temporary reason are repeated, with exponential backoff and full
jitter. Vectors are yielded when their request is answered, so that whoever stores them pays for no text twice.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx2
import numpy as np
import tenacity

from mog_assets.resources.chat import SpendCapReached
from mog_assets.resources.encoder_settings import EmbeddingsSettings, EncoderSettings, Hashed, Role, Vectors
from mog_assets.resources.endpoint import NO_CREDIT, PASSING, Again, retry_after
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest

# A token of any language has about as many characters or more; texts are cut and batches are filled by them.
_CHARS_PER_TOKEN = 4
# Digits of a number in JSON, and the most numbers of a vector, which bound what is read of an answer.
_DIGITS, _MOST_NUMBERS, _ENVELOPE_BYTES = 32, 16_384, 1 << 20


@dataclass(frozen=True)
class Form:
    """How an endpoint is asked, and what it answers.

    Attributes:
        url: Of the provider.
        path: Behind the URL.
        key: Name of the environment variable.
        most: Texts in a request.
        dimensions: Name of the parameter for the size of vectors.
        body: What is sent beside the model, of texts and their role.
        read: Vectors in order of the texts, and tokens, of an answer.
    """

    url: str
    path: str
    key: str
    most: int
    dimensions: str
    body: Callable[[Sequence[str], Role], dict[str, Any]]
    read: Callable[[Any], tuple[list[Any], int]]


def _listed(answer: Any) -> list[Any]:
    rows = answer["data"]
    return [row["embedding"] for row in sorted(rows, key=lambda row: row["index"])]


_ROLES: dict[str, dict[Role, str]] = {
    "cohere": {"passage": "search_document", "query": "search_query"},
    "voyage": {"passage": "document", "query": "query"},
}

FORMS = {
    "openai": Form(
        "https://api.openai.com/v1",
        "/embeddings",
        "OPENAI_API_KEY",
        2048,
        "dimensions",
        lambda texts, role: {"input": list(texts), "encoding_format": "float"},
        lambda answer: (_listed(answer), int((answer.get("usage") or {}).get("total_tokens", 0))),
    ),
    "cohere": Form(
        "https://api.cohere.com",
        "/v2/embed",
        "COHERE_API_KEY",
        96,
        "output_dimension",
        lambda texts, role: {
            "texts": list(texts),
            "input_type": _ROLES["cohere"][role],
            "embedding_types": ["float"],
            "truncate": "END",
        },
        lambda answer: (
            answer["embeddings"]["float"],
            int(((answer.get("meta") or {}).get("billed_units") or {}).get("input_tokens", 0)),
        ),
    ),
    "voyage": Form(
        "https://api.voyageai.com/v1",
        "/embeddings",
        "VOYAGE_API_KEY",
        1000,
        "output_dimension",
        lambda texts, role: {"input": list(texts), "input_type": _ROLES["voyage"][role], "truncation": True},
        lambda answer: (_listed(answer), int((answer.get("usage") or {}).get("total_tokens", 0))),
    ),
}


@dataclass
class Spent:
    """What a process has sent: requests, those that repeated a failed one, tokens, and their price in USD."""

    calls: int = 0
    retries: int = 0
    tokens: int = 0
    usd: float = 0.0


class Served:
    """Asks an endpoint for unit vectors of float16.

    Args:
        settings: Model, prompts, dimensions, and `max_length`: of longer texts the first 4 characters a token are sent.
        endpoint: Form, URL, limits, price.
        backoff: Longest wait in seconds before the first retry, and before any retry.
    """

    def __init__(
        self, settings: EncoderSettings, endpoint: EmbeddingsSettings, backoff: tuple[float, float] = (0.5, 30.0)
    ) -> None:
        self.settings, self.endpoint, self.form = settings, endpoint, FORMS[endpoint.form]
        self.spent = Spent()
        self.size = settings.dimensions
        self._jitter = tenacity.wait_random_exponential(multiplier=backoff[0], max=backoff[1])
        self._lock = threading.Lock()

    @cached_property
    def url(self) -> str:
        """Where requests are sent, without the path."""
        other = os.environ.get("OPENAI_BASE_URL") if self.endpoint.form == "openai" else None
        return (self.endpoint.url or other or self.form.url).rstrip("/")

    @cached_property
    def identity(self) -> list[Any]:
        """What decides vectors beside the model and the prompts."""
        return [self.endpoint.form, self.url]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with form, address, model and length of texts."""
        return digest("served", *self.identity, self.settings.model, self.settings.max_length)[:16]

    @property
    def said(self) -> str:
        """Where and how it computes, for people."""
        spent = self.spent
        cost = f", {spent.usd:.4g} USD" if self.endpoint.price else ""
        return f"{self.settings.model} at {self.url}: {spent.calls:,} requests, {spent.tokens:,} tokens{cost}"

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """All: which words a served model knows is not known, and most know those of many languages."""
        return np.ones(len(words), bool)

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Yield keys and vectors of texts, a request's worth at a time, in the order in which answers come.

        Raises:
            SpendCapReached: `budget_usd` is spent.
            MogError: the endpoint refuses, does not answer, or answers something else.
        """
        batches = list(self._batches(items, role))
        if len(batches) < 2:
            for batch, texts in batches:
                yield _hashed(batch, self._asked(texts, role))
            return
        fault: BaseException | None = None
        with ThreadPoolExecutor(self.endpoint.concurrency, "embeddings") as pool:
            futures = {pool.submit(self._asked, texts, role): batch for batch, texts in batches}
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    if (error := future.exception()) is None:
                        yield _hashed(futures[future], future.result())
                    elif fault is None:
                        # What is under way is paid for, and kept; nothing else is sent.
                        fault = error
                        for other in futures:
                            other.cancel()
            finally:
                for future in futures:
                    future.cancel()
        if fault is not None:
            raise fault

    def _batches(self, items: Hashed, role: Role) -> Iterator[tuple[Hashed, list[str]]]:
        prompt, most = self.settings.prompt(role), self.settings.max_length * _CHARS_PER_TOKEN
        batch: Hashed = []
        texts: list[str] = []
        size, limit = 0, self.endpoint.batch_tokens * _CHARS_PER_TOKEN
        for key, text in items:
            # Endpoints refuse nothing, and halves of surrogate pairs are no UTF-8.
            sent = prompt + (text[:most].encode("utf-8", "replace").decode("utf-8") or " ")
            if batch and (size + len(sent) > limit or len(batch) == self.form.most):
                yield batch, texts
                batch, texts, size = [], [], 0
            batch.append((key, text))
            texts.append(sent)
            size += len(sent)
        if batch:
            yield batch, texts

    def _asked(self, texts: Sequence[str], role: Role) -> Vectors:
        attempts = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Again),
            stop=tenacity.stop_after_attempt(self.endpoint.attempts),
            wait=self._wait,
            before_sleep=lambda state: self._count(retries=1),
        )
        try:
            return attempts(self._call, texts, role)
        except tenacity.RetryError as error:
            last = error.last_attempt.exception()
            fault = MogError(
                f"encoder.endpoint: {self.settings.model} at {self.url} did not answer (attempts: "
                f"{self.endpoint.attempts}; last error: {last}): what was answered before is kept, so run again later"
            )
        raise fault

    def _wait(self, state: tenacity.RetryCallState) -> float:
        assert state.outcome is not None
        return self._jitter(state) + (getattr(state.outcome.exception(), "wait", None) or 0)

    def _call(self, texts: Sequence[str], role: Role) -> Vectors:
        budget = self.endpoint.budget_usd
        if budget is not None and self.spent.usd >= budget:
            raise SpendCapReached(
                f"encoder.endpoint.budget_usd: this run has spent {self.spent.usd:.6g} USD, the cap is {budget:.6g}: "
                "raise it and run again; what was answered before is kept and costs nothing again"
            )
        self._count(calls=1)
        body: dict[str, Any] = {"model": self.settings.model, **self.form.body(texts, role)}
        if self.settings.dimensions is not None:
            body[self.form.dimensions] = self.settings.dimensions
        answer = self._post(body, len(texts))
        try:
            rows, tokens = self.form.read(answer)
            vectors = np.array(rows, np.float32)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise Again(f"expected embeddings as JSON, got another body ({type(error).__name__}: {error})") from None
        self._count(tokens=tokens, usd=tokens * self.endpoint.price / 1e6)
        if budget is not None and not tokens:
            raise MogError(
                f"encoder.endpoint.budget_usd: expected an endpoint that reports tokens, got none from {self.url}: the "
                "cost is not known; remove the cap"
            )
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: np.ndarray, texts: int) -> Vectors:
        """Unit vectors; all of a process have one size."""
        if vectors.ndim != 2 or len(vectors) != texts:
            raise Again(f"expected {texts} vectors of numbers, got an array of shape {vectors.shape}")
        with self._lock:
            self.size = self.size or vectors.shape[1]
        if vectors.shape[1] != self.size:
            raise MogError(
                f"encoder: expected vectors of size {self.size} from {self.settings.model} at {self.url}, got "
                f"{vectors.shape[1]}: correct encoder.dimensions, or name the model by its version"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise Again("expected vectors that are finite and not zero, got others")
        return (vectors / norms).astype(np.float16)

    @cached_property
    def _client(self) -> httpx2.Client:
        key = os.environ.get(self.form.key, "")
        if not key and self.url == self.form.url:
            raise MogError(f"encoder.endpoint: expected {self.form.key} in the environment, got none for {self.url}")
        if key and (not (key.isascii() and key.isprintable()) or " " in key):
            raise MogError(
                f"encoder.endpoint: expected {self.form.key} to be ASCII without white space, got another text"
            )
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx2.Client(headers=headers, timeout=self.endpoint.timeout)

    def _post(self, body: Any, texts: int) -> Any:
        fault: Exception
        deadline = time.monotonic() + self.endpoint.timeout
        most, data = texts * _DIGITS * _MOST_NUMBERS + _ENVELOPE_BYTES, bytearray()
        try:
            with self._client.stream("POST", self.url + self.form.path, json=body) as response:
                for part in response.iter_bytes():
                    data += part
                    if len(data) > most:
                        raise MogError(
                            f"encoder.endpoint: expected an answer of at most {most:,} bytes, got a longer one"
                        )
                    # The client's timeout is of single reads: an answer sent byte by byte could take for ever.
                    if time.monotonic() > deadline:
                        raise Again(f"no complete answer within {self.endpoint.timeout:.3g} s")
            if response.status_code == 200:
                return json.loads(data)
            fault = self._status_fault(response.status_code, response.headers.get("retry-after"), bytes(data))
        except httpx2.TimeoutException:
            fault = Again(f"no answer within {self.endpoint.timeout:.3g} s")
        except httpx2.RequestError as error:
            fault = Again(f"the connection failed: {self._line(str(error) or type(error).__name__)}")
        except ValueError:
            fault = Again("expected embeddings as JSON, got another body")
        # Raised outside the handlers: the library's error may show headers, and logs print the cause of an error.
        raise fault

    def _status_fault(self, status: int, wait: str | None, body: bytes) -> Exception:
        said = self._line(body.decode("utf-8", "replace"))
        model, where = self.settings.model, f"{self.url}{self.form.path}"
        if status == 402 or (status == 429 and any(code in said for code in NO_CREDIT)):
            return MogError(f"encoder.endpoint: {self.url} has no credit for {self.form.key}: add some ({said})")
        if status in PASSING or status >= 500:
            return Again(f"HTTP {status}: {said}", retry_after(wait))
        if status in (401, 403):
            # The endpoint's message may quote the key.
            return MogError(f"encoder.endpoint: {self.url} does not accept the key ({status}): set {self.form.key}")
        if status == 404:
            return MogError(
                f"encoder.endpoint: {where} has no model {model!r}, or is no embeddings endpoint: check encoder.model "
                f"and encoder.endpoint.url (404: {said})"
            )
        return MogError(f"encoder.endpoint: {model} at {where} rejected the request ({status}: {said})")

    def _line(self, text: str) -> str:
        """An endpoint's text as one line of a message, without the key."""
        key = os.environ.get(self.form.key)
        return " ".join((text.replace(key, "…") if key else text).split())[:300]

    def _count(self, calls: int = 0, retries: int = 0, tokens: int = 0, usd: float = 0.0) -> None:
        with self._lock:
            spent = self.spent
            self.spent = Spent(spent.calls + calls, spent.retries + retries, spent.tokens + tokens, spent.usd + usd)


def _hashed(batch: Hashed, vectors: Vectors) -> Hashed:
    return [(key, row.tobytes()) for (key, _), row in zip(batch, vectors, strict=True)]
