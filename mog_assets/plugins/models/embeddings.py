"""Vectors of texts by an embeddings endpoint, in the form of OpenAI or of another provider that is registered.

What is sent and read follows OpenAI's public reference of 2026: `POST /v1/embeddings`. Vectors are yielded when their
request is answered, so that whoever stores them pays for no text twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from mog_assets.plugins.models.served import ContentFault, Provider, Service, together
from mog_assets.plugins.models.served_settings import EmbeddingsSettings
from mog_assets.resources.encoder_settings import EncoderSettings, Hashed, Role, Vectors
from mog_assets.resources.errors import MogError
from mog_assets.resources.registry import ENCODER_FORMS
from mog_assets.resources.store import digest

# Of English. A text is cut by characters; batches are filled by bytes.
_CHARS_PER_TOKEN = 4
# Digits of a number in JSON, and the most numbers of a vector, which bound what is read of an answer.
_DIGITS, _MOST_NUMBERS, _ENVELOPE_BYTES = 32, 16_384, 1 << 20
# Encoded to see whether an endpoint answers at all.
_PLAIN = "text"
# Characters of a text that is not cut further where an endpoint calls it too long.
_SHORTEST = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EmbeddingForm:
    """Form of requests to an endpoint, and of its answers.

    Attributes:
        provider: Whose form it is.
        most: Texts in a request.
        dimensions: Name of the parameter for the size of vectors.
        body: What is sent beside the model, of texts and their role.
        read: Vectors in order of the texts, and tokens, of an answer.
        by_role: Whether questions and passages are told apart.
    """

    provider: Provider
    most: int
    dimensions: str
    body: Callable[[Sequence[str], Role], dict[str, Any]]
    read: Callable[[Any], tuple[list[Any], int]]
    by_role: bool = False


def listed(answer: Any) -> tuple[list[Any], int]:
    """Return rows in the order of their `index`, and tokens; some servers give none, or only for some."""
    numbered = [(place if row.get("index") is None else row["index"], row) for place, row in enumerate(answer["data"])]
    rows = [row.get("embedding") for _, row in sorted(numbered, key=lambda one: one[0])]
    return rows, int((answer.get("usage") or {}).get("total_tokens") or 0)


ENCODER_FORMS.register(
    "openai",
    EmbeddingForm(
        Provider("https://api.openai.com/v1", "/embeddings", "OPENAI_API_KEY"),
        2048,
        "dimensions",
        lambda texts, role: {"input": list(texts), "encoding_format": "float"},
        listed,
    ),
)


class EmbeddingEndpoint:
    """Asks an endpoint for unit vectors of float16.

    Args:
        settings: Model, prompts, dimensions, and `max_length`: of longer texts the first 4 characters a token are sent.
        endpoint: Form, URL, limits, price.
    """

    def __init__(self, settings: EncoderSettings, endpoint: EmbeddingsSettings) -> None:
        self.settings, self.endpoint, self.form = settings, endpoint, ENCODER_FORMS[endpoint.form]
        self.service = Service(endpoint, self.form.provider, settings.model, "encoder")
        self.size, self.by_role = settings.dimensions, self.form.by_role
        # Texts in a request; fewer once the endpoint took the halves of what it had refused.
        self._most = min(self.form.most, endpoint.batch_texts or self.form.most)
        self._faults = 0
        self._lock = Lock()

    @cached_property
    def identity(self) -> list[Any]:
        """Return what decides vectors beside the model and the prompts."""
        return [self.endpoint.form, self.service.url]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with form, address, model and length of texts."""
        return digest("served", *self.identity, self.settings.model, self.settings.max_length)[:16]

    def prompt(self, role: Role) -> str:
        """Return what is put before a text."""
        return self.settings.prompt(role) or ""

    @property
    def description(self) -> str:
        """Return where and how it computes, for people."""
        return self.service.description

    def is_token(self, words: Sequence[str]) -> np.ndarray:
        """Return all: which words a served model knows is not known, and most know those of many languages."""
        return np.ones(len(words), bool)

    def vectors(self, items: Hashed, role: Role) -> Generator[Hashed]:
        """Yield keys and vectors of texts, a request's worth at a time, in the order in which answers come.

        The vector of a text that the endpoint has none for is zero: it is near to no question, and a warning names it.

        Raises:
            SpendCapReached: `budget_usd` is spent.
            MogError: the endpoint refuses, does not answer, or answers something else.
        """
        batches = list(self._batches(items, role))
        texts_of = [texts for _, texts in batches]
        for number, vectors in together(lambda texts: self._request(texts, role), texts_of, self.endpoint.concurrency):
            yield _hashed(batches[number][0], vectors)

    def _batches(self, items: Hashed, role: Role) -> Iterator[tuple[Hashed, list[str]]]:
        prompt, most = self.prompt(role), self.settings.max_length * _CHARS_PER_TOKEN
        batch: Hashed = []
        texts: list[str] = []
        size, limit = 0, self.endpoint.batch_tokens * _CHARS_PER_TOKEN
        for key, text in items:
            # Endpoints refuse nothing, and halves of surrogate pairs are no UTF-8.
            sent = prompt + (text[:most].encode("utf-8", "replace").decode("utf-8") or " ")
            # In bytes: a character of Chinese is about a token, as three of its bytes nearly are.
            length = len(sent.encode())
            if batch and (size + length > limit or len(batch) == self._most):
                yield batch, texts
                batch, texts, size = [], [], 0
            batch.append((key, text))
            texts.append(sent)
            size += length
        if batch:
            yield batch, texts

    def _request(self, texts: Sequence[str], role: Role) -> Vectors:
        rows = self._rows(texts, role)
        return np.stack([np.zeros(self.size or 0, np.float16) if row is None else row for row in rows])

    def _rows(self, texts: Sequence[str], role: Role) -> list[np.ndarray | None]:
        """Return the unit vector of each text, None if there is none."""
        rows: list[np.ndarray | None] = []
        while len(rows) < len(texts):
            rows += self._tried(texts[len(rows) : len(rows) + self._most], role)
        return rows

    def _tried(self, texts: Sequence[str], role: Role, last: bool = False) -> list[np.ndarray | None]:
        """Do as `_rows`, of a request's worth; `last` if one text is asked for again."""
        try:
            rows = self._sent(texts, role)
        except ContentFault as fault:
            self._check_alive(role, fault)
            if len(texts) > 1:
                return self._halved(texts, role)
            if fault.names_size and len(texts[0]) > _SHORTEST:
                _log.warning("encoder: the first half of %s is sent, because %s", _shown(texts[0]), fault)
                return self._tried([texts[0][: len(texts[0]) // 2]], role)
            self._leave_out(texts[0], str(fault))
            return [None]
        for place, row in enumerate(rows):
            if row is None and not last:
                rows[place] = self._tried([texts[place]], role, last=True)[0]
            elif row is None:
                why = f"{self.settings.model} at {self.service.url} gave no vector of finite numbers that are not all 0"
                self._check_alive(role, MogError(f"encoder.endpoint: {why}"))
                self._leave_out(texts[place], why)
        return rows

    def _halved(self, texts: Sequence[str], role: Role) -> list[np.ndarray | None]:
        half, before = -(-len(texts) // 2), self._faults
        rows = self._rows(texts[:half], role) + self._rows(texts[half:], role)
        with self._lock:
            # It was too much, and no text was at fault.
            if self._faults == before:
                self._most = min(self._most, half)
            self._faults += 1
        return rows

    def _check_alive(self, role: Role, fault: MogError) -> None:
        """Raise a fault that another text meets, too: then it is none of a text."""
        try:
            rows = self._sent([_PLAIN], role, attempts=1)
        except MogError:
            rows = [None]
        if rows[0] is None:
            raise fault from None

    def _leave_out(self, text: str, why: str) -> None:
        self._faults += 1
        _log.warning("encoder: %s has no vector and is found by its words alone, because %s", _shown(text), why)

    def _sent(self, texts: Sequence[str], role: Role, attempts: int | None = None) -> list[np.ndarray | None]:
        body: dict[str, Any] = {"model": self.settings.model, **self.form.body(texts, role)}
        if self.settings.dimensions is not None:
            body[self.form.dimensions] = self.settings.dimensions

        def read(answer: Any) -> tuple[list[np.ndarray | None], int]:
            rows, tokens = self.form.read(answer)
            if len(rows) != len(texts):
                raise ValueError(f"expected {len(texts)} vectors, got {len(rows)}")
            return list(map(self._unit, rows)), tokens

        return self.service.ask(body, len(texts) * _DIGITS * _MOST_NUMBERS + _ENVELOPE_BYTES, read, attempts)

    def _unit(self, row: Any) -> np.ndarray | None:
        """Return a vector of length 1; None if it is no vector, or has no direction. All of a process have one size."""
        try:
            vector = np.array([row], np.float32)
        except (TypeError, ValueError):
            return None
        norm = np.linalg.norm(vector, axis=-1, keepdims=True)
        if vector.ndim != 2 or not (np.isfinite(norm) & (norm > 0)).all():
            return None
        with self._lock:
            self.size = self.size or vector.shape[1]
        if vector.shape[1] != self.size:
            raise MogError(
                f"encoder: expected vectors of size {self.size} from {self.settings.model} at {self.service.url}, got "
                f"{vector.shape[1]}: correct encoder.dimensions, or name the model by its version"
            )
        unit: np.ndarray = (vector / norm).astype(np.float16)[0]
        return unit


def _shown(text: str) -> str:
    return f"the text {text[:80]!r}{'…' if len(text) > 80 else ''} ({len(text):,} characters)"


def _hashed(batch: Hashed, vectors: Vectors) -> Hashed:
    return [(key, row.tobytes()) for (key, _), row in zip(batch, vectors, strict=True)]
