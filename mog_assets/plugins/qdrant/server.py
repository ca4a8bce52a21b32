"""A Qdrant server (`qdrant-client`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from mog_assets.plugins.qdrant.collections import (
    SCROLL_PAGE,
    SEARCH_BATCH,
    TOPIC,
    UPSERT_BATCH,
    Collection,
    Hit,
    Where,
    matching,
    size_mismatch,
)
from mog_assets.plugins.qdrant.settings import QdrantSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.points import reach

_MOST_CORPORA = 100_000
# Payload indexes besides that of the tenant: what filters of other programs name. The embedded engine, which only this
# project asks, has none of them but the topic's: each takes megabytes on disk.
_INDEXES = {TOPIC: "integer", "path": "keyword", "page": "integer"}

# Qdrant's types by the values of `QdrantSettings.vectors`.
_DATATYPES = {"float32": "float32", "float16": "float16", "int8": "turbo8"}


class QdrantServer:
    """A Qdrant server, through qdrant-client.

    Args:
        url: Address of the server.
        api_key: Its key, if it requires one.
        client: A client to use instead of connecting.
        vectors: See `QdrantSettings`.
    """

    def __init__(
        self, url: str, api_key: str | None = None, client: Any = None, vectors: str = QdrantSettings().vectors
    ) -> None:
        self.url = url
        self.api_key = api_key
        self.place = f"Qdrant server at {url}"
        self._client = client
        self._datatype = _DATATYPES[vectors]

    def _connected(self) -> Any:
        if self._client is None:
            from qdrant_client import QdrantClient

            self._client = QdrantClient(url=self.url, api_key=self.api_key, timeout=60, check_compatibility=False)
        return self._client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from qdrant_client.http.exceptions import ApiException

        try:
            yield
        except ApiException as error:
            raise MogError(
                f"QDRANT_URL: a request to the Qdrant server at {self.url} failed "
                f"({' '.join(str(error).split())[:300]}): start it, or unset QDRANT_URL for the embedded engine"
            ) from error

    @contextmanager
    def open(self, name: str, size: int) -> Iterator[Collection]:
        """See `Collections.open`."""
        from qdrant_client import models

        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                stored = models.VectorParams(
                    size=size, distance=models.Distance.DOT, datatype=models.Datatype(self._datatype)
                )
                client.create_collection(name, vectors_config=stored, on_disk_payload=True)
            # Checked every time: a process may have been killed between the two steps.
            indexed = client.get_collection(name).payload_schema
            if "corpus" not in indexed:
                client.create_payload_index(
                    name, "corpus", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                )
            for key, kind in _INDEXES.items():
                if key not in indexed:
                    client.create_payload_index(name, key, models.PayloadSchemaType(kind))
            size_there = client.get_collection(name).config.params.vectors.size
            if size_there != size:
                raise size_mismatch(name, size_there, size)
            yield _ServerCollection(client, name)

    def prepare(self, name: str, size: int) -> None:
        """See `Collections.prepare`."""
        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                return
            vectors = client.get_collection(name).config.params.vectors
            if (vectors.size, vectors.datatype or _DATATYPES["float32"]) != (size, self._datatype):
                client.delete_collection(name)

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """See `Collections.counts`."""
        from qdrant_client import models

        topic = models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=TOPIC))])
        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                return {}
            wanted_topic = topic if with_topic else None
            hits = client.facet(name, "corpus", facet_filter=wanted_topic, limit=_MOST_CORPORA, exact=True).hits
            return {str(hit.value): int(hit.count) for hit in hits}

    def drop(self, name: str) -> None:
        """See `Collections.drop`."""
        with self._errors():
            client = self._connected()
            if client.collection_exists(name):
                client.delete_collection(name)


class _ServerCollection:
    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    @staticmethod
    def _of(corpus: str, wanted: Mapping[str, str | int] | None = None) -> Any:
        from qdrant_client import models

        must = {"corpus": corpus, **(wanted or {})}
        return models.Filter(
            must=[models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in must.items()]
        )

    def _scroll(self, corpus: str, with_payload: Any) -> Iterator[list[Any]]:
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, self._of(corpus), limit=SCROLL_PAGE, offset=offset, with_payload=with_payload
            )
            yield records
            if offset is None:
                return

    def pages(self, corpus: str) -> Iterator[list[str]]:
        for records in self._scroll(corpus, False):
            yield [str(record.id) for record in records]

    def ids(self, corpus: str) -> set[str]:
        return set(chain.from_iterable(self.pages(corpus)))

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {str(r.id): r.payload or {} for records in self._scroll(corpus, list(keys)) for r in records}

    def set_payload(self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any]]) -> None:
        from qdrant_client import models

        operations = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload=dict(payload), points=[identity]))
            for identity, payload in zip(ids, payloads, strict=True)
        ]
        for start in range(0, len(operations), UPSERT_BATCH):
            self._client.batch_update_points(self._name, operations[start : start + UPSERT_BATCH], wait=True)
            reach("payloads set")

    def count(self, corpus: str) -> int:
        return int(self._client.count(self._name, self._of(corpus), exact=True).count)

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), UPSERT_BATCH):
            part = slice(start, start + UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            batch = models.Batch(ids=list(ids[part]), vectors=rows, payloads=list(payloads[part]))
            self._client.upsert(self._name, batch, wait=True)
            reach("points upserted")

    def delete(self, ids: Sequence[str]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), UPSERT_BATCH):
            points = models.PointIdsList(points=list(ids[start : start + UPSERT_BATCH]))
            self._client.delete(self._name, points, wait=True)
            reach("points deleted")

    def search(self, corpus: str, vectors: np.ndarray, k: int, where: Where | None = None) -> list[list[Hit]]:
        from qdrant_client import models

        where = [None] * len(vectors) if where is None else where
        params = models.SearchParams(exact=True)
        requests = [
            models.QueryRequest(query=row, filter=self._of(corpus, wanted), limit=k, params=params)
            for row, wanted in zip(np.asarray(vectors, np.float32).tolist(), where, strict=True)
        ]
        hits: list[list[Hit]] = []
        for start in range(0, len(requests), SEARCH_BATCH):
            answers = self._client.query_batch_points(self._name, requests[start : start + SEARCH_BATCH])
            hits += [[(str(p.id), float(p.score)) for p in answer.points] for answer in answers]
        return matching(hits, where, self._name, corpus)
