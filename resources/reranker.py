"""Rerankers: how well a text answers a question, by a model that reads both together; with a cache.

A model is a cross-encoder that `transformers` loads here, or is served elsewhere in the form of Jina (also vLLM),
Cohere, Voyage, or TEI (text-embeddings-inference), after their public references of 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from mog_assets.resources.errors import MogError
from mog_assets.resources.settings import Count, NamedSettings, ServedSettings
from mog_assets.resources.store import digest
from mog_assets.resources.vector_cache import VectorCache, add, lookup, text_hash

_CHARS_PER_TOKEN = 4
# Bytes that are read of an answer: its numbers, and the texts that some servers send back.
_BYTES_PER_CHAR, _ENVELOPE_BYTES = 12, 1 << 20


class RerankEndpointSettings(ServedSettings):
    """A rerank endpoint, in the form of `jina` (also vLLM), `cohere`, `voyage` or `tei`.

    The key is read from JINA_API_KEY, COHERE_API_KEY, VOYAGE_API_KEY or TEI_API_KEY; a `url` of your own needs none.
    """

    main: ClassVar[str] = "form"

    form: Literal["jina", "cohere", "voyage", "tei"] = "jina"


class RerankerSettings(NamedSettings):
    """A model that reads a question with each of the texts of its best `pieces` pieces.

    A Hugging Face id or a local folder of a cross-encoder; with an `endpoint`, a model that is served elsewhere. Of
    question and text `max_length` tokens are read.
    """

    main: ClassVar[str] = "model"

    model: Annotated[str, Field(min_length=1)]
    endpoint: RerankEndpointSettings | None = None
    pieces: Annotated[int, Field(ge=1, le=1000)] = 20
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_length: Count = 512


@dataclass(frozen=True)
class Reading:
    """A question with texts that may answer it."""

    question: str
    texts: Sequence[str]


class Model(Protocol):
    """What reads."""

    @property
    def fingerprint(self) -> str:
        """Changes with everything that changes a score."""

    @property
    def said(self) -> str:
        """Where and how it reads, for people."""

    def scores(self, readings: Sequence[Reading]) -> Generator[tuple[int, np.ndarray]]:
        """Yield the number of a reading with the scores of its texts, float32 in [0, 1], in any order."""


class Reranker:
    """Scores texts for questions; what was read before is not read again.

    Args:
        settings: Which model, and how.
        cache: Folder of the cache; None reads every time.
        keep: Whether scores are added to the cache; False only reads it.
    """

    def __init__(self, settings: RerankerSettings, cache: Path | None = None, keep: bool = True) -> None:
        self.settings, self.cache, self.keep = settings, cache, keep

    @cached_property
    def identity(self) -> list[Any]:
        """Shows without reading weights whether scores may have changed: settings, files of a local folder, address."""
        chosen, endpoint = self.settings.model_dump(exclude={"device", "endpoint"}), self.settings.endpoint
        folder = Path(self.settings.model).expanduser()
        files = sorted(folder.iterdir()) if endpoint is None and folder.is_dir() else []
        states = [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in files]
        return [chosen, states, [] if endpoint is None else [endpoint.form, endpoint.url]]

    @cached_property
    def model(self) -> Model:
        """What reads."""
        endpoint = self.settings.endpoint
        return CrossEncoder(self.settings) if endpoint is None else Served(self.settings, endpoint)

    def scores(self, readings: Sequence[Reading]) -> list[np.ndarray]:
        """How well each text answers its question: float32 arrays in [0, 1], one a reading, 1 is best.

        Raises:
            MogError: the model cannot be loaded or asked.
        """
        if self.cache is None:
            return self._scores(readings, {}, lambda scores: None)
        cache = VectorCache(self.cache, self.model.fingerprint)

        def read() -> list[np.ndarray]:
            with cache.open() as connection:
                keys = [_key(reading.question, text) for reading in readings for text in reading.texts]
                stored = dict(lookup(connection, keys))

                def store(scores: list[tuple[bytes, bytes]]) -> None:
                    if self.keep:
                        with connection:
                            add(connection, scores)

                return self._scores(readings, stored, store)

        return cache.using(read)

    def _scores(
        self,
        readings: Sequence[Reading],
        stored: dict[bytes, bytes],
        store: Callable[[list[tuple[bytes, bytes]]], None],
    ) -> list[np.ndarray]:
        wanted = []
        for reading in readings:
            texts = [text for text in dict.fromkeys(reading.texts) if _key(reading.question, text) not in stored]
            if texts:
                wanted.append(Reading(reading.question, texts))
        with closing(self.model.scores(wanted)) as done:
            for number, scores in done:
                keys = [_key(wanted[number].question, text) for text in wanted[number].texts]
                rows = [(key, score.tobytes()) for key, score in zip(keys, scores.astype(np.float32), strict=True)]
                store(rows)
                stored.update(rows)
        return [
            np.frombuffer(b"".join(stored[_key(reading.question, text)] for text in reading.texts), np.float32)
            for reading in readings
        ]


def _key(question: str, text: str) -> bytes:
    return text_hash(f"{question}\0{text}")


class CrossEncoder:
    """A cross-encoder that is loaded here; a pair at a time, so that its score depends on nothing else."""

    def __init__(self, settings: RerankerSettings) -> None:
        self.settings = settings

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the files of a folder, or the commit of a hub model, and with `max_length`."""
        # Here, because it imports transformers where a model is downloaded.
        from mog_assets.resources.transformer import model_files

        return digest("cross-encoder", model_files(self.settings.model, "reranker.model"), self.settings.max_length)[
            :16
        ]

    @property
    def said(self) -> str:
        """Where and how it reads, for people."""
        return f"{self.settings.model} on {self._loaded[2]}"

    def scores(self, readings: Sequence[Reading]) -> Generator[tuple[int, np.ndarray]]:
        """See `Model.scores`: the logistic function of the only output, or the share of the last of two."""
        if not readings:
            return
        import torch

        tokenizer, model, device = self._loaded
        for number, reading in enumerate(readings):
            scores = []
            for text in reading.texts:
                pair = tokenizer(
                    reading.question, text, truncation=True, max_length=self.settings.max_length, return_tensors="pt"
                ).to(device)
                with torch.inference_mode():
                    logits = model(**pair).logits[0].float()
                share = torch.sigmoid(logits[0]) if len(logits) == 1 else torch.softmax(logits, 0)[-1]
                scores.append(float(share))
            yield number, np.array(scores, np.float32)

    @cached_property
    def _loaded(self) -> tuple[Any, Any, str]:
        import torch
        import transformers

        device = self.settings.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        transformers.utils.logging.disable_progress_bar()
        source = self.settings.model
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(source)
            model = transformers.AutoModelForSequenceClassification.from_pretrained(
                source, use_safetensors=True, trust_remote_code=False
            )
            if model.config.num_labels > 2:
                raise ValueError(f"its model has {model.config.num_labels} outputs where 1 or 2 are expected")
            return tokenizer, model.eval().to(device), device
        # transformers raises whatever its many loaders raise; the message below includes it.
        except Exception as error:
            raise MogError(
                "reranker.model: expected a cross-encoder: a Hugging Face id that can be downloaded, or a local folder "
                f"with config.json, tokenizer.json and model.safetensors; {source!r} does not load "
                f"({' '.join(str(error).split())[:300]})"
            ) from error


@dataclass(frozen=True)
class Form:
    """How an endpoint is asked, and what it answers.

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


def _documents(model: str, question: str, texts: list[str]) -> dict[str, Any]:
    return {"model": model, "query": question, "documents": texts}


def _tokens(answer: Any) -> int:
    return int((answer.get("usage") or {}).get("total_tokens", 0))


FORMS = {
    "jina": Form(
        "https://api.jina.ai/v1",
        "/rerank",
        "JINA_API_KEY",
        lambda model, question, texts: {**_documents(model, question, texts), "return_documents": False},
        lambda answer: (answer["results"], _tokens(answer)),
    ),
    "cohere": Form(
        "https://api.cohere.com",
        "/v2/rerank",
        "COHERE_API_KEY",
        _documents,
        lambda answer: (
            answer["results"],
            int(((answer.get("meta") or {}).get("billed_units") or {}).get("search_units", 0)),
        ),
        per=1_000,
    ),
    "voyage": Form(
        "https://api.voyageai.com/v1",
        "/rerank",
        "VOYAGE_API_KEY",
        lambda model, question, texts: {**_documents(model, question, texts), "truncation": True},
        lambda answer: (answer["data"], _tokens(answer)),
    ),
    "tei": Form(
        "",
        "/rerank",
        "TEI_API_KEY",
        lambda model, question, texts: {"query": question, "texts": texts, "truncate": True, "raw_scores": False},
        lambda answer: (answer, 0),
        score="score",
    ),
}


class Served:
    """Asks a rerank endpoint, a question at a time, several at once."""

    def __init__(self, settings: RerankerSettings, endpoint: RerankEndpointSettings) -> None:
        from mog_assets.resources.served import Provider, Service

        self.settings, self.endpoint, self.form = settings, endpoint, FORMS[endpoint.form]
        provider = Provider(self.form.url, self.form.path, self.form.key)
        self.service = Service(endpoint, provider, settings.model, "reranker", self.form.per)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with form, address, model and length of texts."""
        return digest(
            "served reranker", self.endpoint.form, self.service.url, self.settings.model, self.settings.max_length
        )[:16]

    @property
    def said(self) -> str:
        """Where and how it reads, for people."""
        return self.service.said

    def scores(self, readings: Sequence[Reading]) -> Generator[tuple[int, np.ndarray]]:
        """See `Model.scores`."""
        if len(readings) < 2:
            for number, reading in enumerate(readings):
                yield number, self._asked(reading)
            return
        fault: BaseException | None = None
        with ThreadPoolExecutor(self.endpoint.concurrency, "reranker") as pool:
            futures = {pool.submit(self._asked, reading): number for number, reading in enumerate(readings)}
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    if (error := future.exception()) is None:
                        yield futures[future], future.result()
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

    def _asked(self, reading: Reading) -> np.ndarray:
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
