"""Rerankers that are served, in the form of Jina (also vLLM) or of another provider that is registered.

Jina's is after its public reference of 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mog_assets.plugins.models.reranker_settings import RerankEndpointSettings, RerankerSettings, RerankRequest
from mog_assets.plugins.models.served import Provider, Service, together
from mog_assets.resources.errors import MogError
from mog_assets.resources.registry import RERANKER_FORMS
from mog_assets.resources.store import digest

_CHARS_PER_TOKEN = 4
# Bytes that are read of an answer: its numbers, and the texts that some servers send back.
_BYTES_PER_CHAR, _ENVELOPE_BYTES = 12, 1 << 20


@dataclass(frozen=True)
class RerankForm:
    """Form of requests to an endpoint, and of its answers.

    Attributes:
        url, path, key: See `served.Provider`.
        body: What is sent, of model, question and texts.
        read: Rows with `index` and a score, and units that are paid for, of an answer.
        score: Name of the score.
        per: Units that a price is of.
    """

    url: str
    path: str
    key: str
    body: Callable[[str, str, list[str]], dict[str, Any]]
    read: Callable[[Any], tuple[list[Any], int]]
    score: str = "relevance_score"
    per: int = 1_000_000


def documents(model: str, question: str, texts: list[str]) -> dict[str, Any]:
    """Return what most forms send."""
    return {"model": model, "query": question, "documents": texts}


def tokens(answer: Any) -> int:
    """Return how many tokens an answer says that were read; 0 if it does not."""
    return int((answer.get("usage") or {}).get("total_tokens", 0))


RERANKER_FORMS.register(
    "jina",
    RerankForm(
        "https://api.jina.ai/v1",
        "/rerank",
        "JINA_API_KEY",
        lambda model, question, texts: {**documents(model, question, texts), "return_documents": False},
        lambda answer: (answer["results"], tokens(answer)),
    ),
)


class RerankEndpoint:
    """Asks a rerank endpoint, a question at a time, several at once."""

    def __init__(self, settings: RerankerSettings, endpoint: RerankEndpointSettings) -> None:
        self.settings, self.endpoint, self.form = settings, endpoint, RERANKER_FORMS[endpoint.form]
        provider = Provider(self.form.url, self.form.path, self.form.key)
        self.service = Service(endpoint, provider, settings.model, "reranker", self.form.per)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with form, address, model and length of texts."""
        return digest(
            "served reranker", self.endpoint.form, self.service.url, self.settings.model, self.settings.max_length
        )[:16]

    @property
    def description(self) -> str:
        """Return where and how it reads, for people."""
        return self.service.description

    def scores(self, readings: Sequence[RerankRequest]) -> Generator[tuple[int, np.ndarray]]:
        """See `reranker_settings.Model.scores`."""
        yield from together(self._request, readings, self.endpoint.concurrency)

    def _request(self, reading: RerankRequest) -> np.ndarray:
        most = self.settings.max_length * _CHARS_PER_TOKEN
        texts = [text[:most].encode("utf-8", "replace").decode("utf-8") or " " for text in reading.texts]
        question = reading.question[:most].encode("utf-8", "replace").decode("utf-8") or " "

        def read(answer: Any) -> tuple[np.ndarray, int]:
            rows, units = self.form.read(answer)
            scores = np.full(len(texts), np.nan, np.float32)
            for row in rows:
                scores[row["index"]] = row[self.form.score]
            if len(rows) != len(texts) or not np.isfinite(scores).all():
                raise ValueError(f"expected a score of each of {len(texts)} texts, got {len(rows)}")
            if not ((scores >= 0) & (scores <= 1)).all():
                raise MogError(
                    f"reranker: expected scores from 0 to 1 of {self.settings.model} at {self.service.url}, got "
                    f"{float(scores.min()):.3g} to {float(scores.max()):.3g}: set the server to normalised scores"
                )
            return scores, units

        size = sum(map(len, texts)) * _BYTES_PER_CHAR + _ENVELOPE_BYTES
        return self.service.ask(self.form.body(self.settings.model, question, texts), size, read)
