"""The reranker: how well a text answers a question, by a model that reads both; with a cache.

A model is loaded here (`local_rerankers`), or served elsewhere (`served_rerankers`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.plugins.models.local_rerankers import CrossEncoder
from mog_assets.plugins.models.reranker_settings import RerankerSettings, RerankModel, RerankRequest
from mog_assets.resources import extras, tracing
from mog_assets.resources.vector_cache import VectorCache, add, lookup, text_hash

# What the time of a question is measured on.
_SAMPLE_CHARS = 500
_SAMPLE = "Bulbs of garlic are planted three inches deep in autumn, and their leaves turn yellow in summer. " * 6


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
        files = sorted(f for f in folder.rglob("*") if f.is_file()) if endpoint is None and folder.is_dir() else []
        states = [[f.relative_to(folder).as_posix(), f.stat().st_size, f.stat().st_mtime_ns] for f in files]
        return [chosen, states, [] if endpoint is None else [endpoint.form, endpoint.url]]

    @cached_property
    def model(self) -> RerankModel:
        """Return what reads."""
        endpoint = self.settings.endpoint
        if endpoint is None:
            return CrossEncoder(self.settings)
        # Here, because it imports an HTTP client.
        with extras.needed("reranker.endpoint"):
            from mog_assets.plugins.models.served_rerankers import RerankEndpoint

        return RerankEndpoint(self.settings, endpoint)

    def scores(self, readings: Sequence[RerankRequest]) -> list[np.ndarray]:
        """Return how well each text answers its question: float32 arrays in [0, 1], one a reading, 1 is best.

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

    def seconds(self) -> float:
        """Return how long the model reads the pieces of a question; they are of 500 characters, and nothing is kept."""
        texts = [f"{number}. {_SAMPLE}"[:_SAMPLE_CHARS] for number in range(self.settings.pieces)]
        reading = [RerankRequest("How long does it read?", texts)]
        list(self.model.scores([RerankRequest(reading[0].question, texts[:1])]))
        start = time.perf_counter()
        list(self.model.scores(reading))
        return time.perf_counter() - start

    def _scores(
        self,
        readings: Sequence[RerankRequest],
        stored: dict[bytes, bytes],
        store: Callable[[list[tuple[bytes, bytes]]], None],
    ) -> list[np.ndarray]:
        wanted = []
        for reading in readings:
            texts = [text for text in dict.fromkeys(reading.texts) if _key(reading.question, text) not in stored]
            if texts:
                wanted.append(RerankRequest(reading.question, texts))
        texts_read = sum(len(reading.texts) for reading in wanted)
        attributes = {"texts": texts_read, "model": self.settings.model}
        with tracing.span("rerank", **attributes), closing(self.model.scores(wanted)) as done:
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
