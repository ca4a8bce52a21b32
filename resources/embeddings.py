"""Vectors of texts by an embeddings endpoint, in the form of OpenAI, Cohere or Voyage.

What is sent and read follows their public references of 2026: `POST /v1/embeddings` (OpenAI, Voyage), `POST /v2/embed`
(Cohere). Vectors are yielded when their request is answered, so that whoever stores them pays for no text twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from mog_assets.resources.encoder_settings import EmbeddingsSettings, EncoderSettings, Hashed, Role, Vectors
from mog_assets.resources.errors import MogError
from mog_assets.resources.served import Provider, Service, together
from mog_assets.resources.store import digest

# Of English. A text is cut by characters; batches are filled by bytes.
_CHARS_PER_TOKEN = 4
# Digits of a number in JSON, and the most numbers of a vector, which bound what is read of an answer.
_DIGITS, _MOST_NUMBERS, _ENVELOPE_BYTES = 32, 16_384, 1 << 20


@dataclass(frozen=True)
class Form:
    """How an endpoint is asked, and what it answers.

    Attributes:
        provider: Whose form it is.
        most: Texts in a request.
        dimensions: Name of the parameter for the size of vectors.
        body: What is sent beside the model, of texts and their role.
        read: Vectors in order of the texts, and tokens, of an answer.
    """

    provider: Provider
    most: int
    dimensions: str
    body: Callable[[Sequence[str], Role], dict[str, Any]]
    read: Callable[[Any], tuple[list[Any], int]]


def _listed(answer: Any) -> tuple[list[Any], int]:
    rows = sorted(answer["data"], key=lambda row: row["index"])
    return [row["embedding"] for row in rows], int((answer.get("usage") or {}).get("total_tokens", 0))


_COHERE: dict[Role, str] = {"passage": "search_document", "query": "search_query"}
_VOYAGE: dict[Role, str] = {"passage": "document", "query": "query"}

FORMS = {
    "openai": Form(
        Provider("https://api.openai.com/v1", "/embeddings", "OPENAI_API_KEY"),
        2048,
        "dimensions",
        lambda texts, role: {"input": list(texts), "encoding_format": "float"},
        _listed,
    ),
    "cohere": Form(
        Provider("https://api.cohere.com", "/v2/embed", "COHERE_API_KEY"),
        96,
        "output_dimension",
        lambda texts, role: {
            "texts": list(texts),
            "input_type": _COHERE[role],
            "embedding_types": ["float"],
            "truncate": "END",
        },
        lambda answer: (
            answer["embeddings"]["float"],
            int(((answer.get("meta") or {}).get("billed_units") or {}).get("input_tokens", 0)),
        ),
    ),
    "voyage": Form(
        Provider("https://api.voyageai.com/v1", "/embeddings", "VOYAGE_API_KEY"),
        1000,
        "output_dimension",
        lambda texts, role: {"input": list(texts), "input_type": _VOYAGE[role], "truncation": True},
        _listed,
    ),
}


class Served:
    """Asks an endpoint for unit vectors of float16.

    Args:
        settings: Model, prompts, dimensions, and `max_length`: of longer texts the first 4 characters a token are sent.
        endpoint: Form, URL, limits, price.
    """

    def __init__(self, settings: EncoderSettings, endpoint: EmbeddingsSettings) -> None:
        self.settings, self.endpoint, self.form = settings, endpoint, FORMS[endpoint.form]
        self.service = Service(endpoint, self.form.provider, settings.model, "encoder")
        self.size = settings.dimensions
        self._lock = Lock()

    @cached_property
    def identity(self) -> list[Any]:
        """What decides vectors beside the model and the prompts."""
        return [self.endpoint.form, self.service.url]

    @cached_property
    def fingerprint(self) -> str:
        """Changes with form, address, model and length of texts."""
        return digest("served", *self.identity, self.settings.model, self.settings.max_length)[:16]

    def prompt(self, role: Role) -> str:
        """What is put before a text."""
        return self.settings.prompt(role) or ""

    @property
    def said(self) -> str:
        """Where and how it computes, for people."""
        return self.service.said

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
        texts_of = [texts for _, texts in batches]
        for number, vectors in together(lambda texts: self._asked(texts, role), texts_of, self.endpoint.concurrency):
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
            if batch and (size + length > limit or len(batch) == self.form.most):
                yield batch, texts
                batch, texts, size = [], [], 0
            batch.append((key, text))
            texts.append(sent)
            size += length
        if batch:
            yield batch, texts

    def _asked(self, texts: Sequence[str], role: Role) -> Vectors:
        body: dict[str, Any] = {"model": self.settings.model, **self.form.body(texts, role)}
        if self.settings.dimensions is not None:
            body[self.form.dimensions] = self.settings.dimensions

        def read(answer: Any) -> tuple[Vectors, int]:
            rows, tokens = self.form.read(answer)
            return self._checked(np.array(rows, np.float32), len(texts)), tokens

        return self.service.ask(body, len(texts) * _DIGITS * _MOST_NUMBERS + _ENVELOPE_BYTES, read)

    def _checked(self, vectors: np.ndarray, texts: int) -> Vectors:
        """Unit vectors; all of a process have one size."""
        if vectors.ndim != 2 or len(vectors) != texts:
            raise ValueError(f"expected {texts} vectors of numbers, got an array of shape {vectors.shape}")
        with self._lock:
            self.size = self.size or vectors.shape[1]
        if vectors.shape[1] != self.size:
            raise MogError(
                f"encoder: expected vectors of size {self.size} from {self.settings.model} at {self.service.url}, got "
                f"{vectors.shape[1]}: correct encoder.dimensions, or name the model by its version"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise ValueError("expected vectors that are finite and not zero, got others")
        return (vectors / norms).astype(np.float16)


def _hashed(batch: Hashed, vectors: Vectors) -> Hashed:
    return [(key, row.tobytes()) for (key, _), row in zip(batch, vectors, strict=True)]
