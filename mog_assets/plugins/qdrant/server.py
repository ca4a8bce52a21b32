"""A Qdrant server (`qdrant-client`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mog_assets.plugins.qdrant.collections import (
    DENSE,
    SCROLL_PAGE,
    SEARCH_BATCH,
    UPSERT_BATCH,
    WORDS,
    Collection,
    Hit,
    Only,
    Points,
    Sparse,
    missing,
    size_mismatch,
)
from mog_assets.plugins.qdrant.settings import QdrantSettings
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import reach

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
            with extras.needed("QDRANT_URL"):
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
    def open(self, name: str, size: int, to_search: bool = False) -> Iterator[Collection]:
        """See `Collections.open`."""
        from qdrant_client import models

        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                if to_search:
                    raise missing(name)
                stored = models.VectorParams(
                    size=size, distance=models.Distance.DOT, datatype=models.Datatype(self._datatype)
                )
                client.create_collection(
                    name,
                    vectors_config={DENSE: stored},
                    sparse_vectors_config={WORDS: models.SparseVectorParams()},
                    on_disk_payload=True,
                )
            if (size_there := self._stored(client, name)[0]) != size:
                raise size_mismatch(name, size_there, size)
            yield _ServerCollection(client, name)

    def prepare(self, name: str, size: int) -> None:
        """See `Collections.prepare`."""
        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                return
            if self._stored(client, name) != (size, self._datatype):
                client.delete_collection(name)

    @staticmethod
    def _stored(client: Any, name: str) -> tuple[int, str]:
        """Return size and type of the vectors of a collection; 0 for one of another form."""
        vectors = client.get_collection(name).config.params.vectors
        own = vectors.get(DENSE) if isinstance(vectors, dict) else None
        return (own.size, own.datatype or _DATATYPES["float32"]) if own else (0, "")

    def count(self, name: str) -> int:
        """See `Collections.count`."""
        with self._errors():
            client = self._connected()
            return int(client.count(name, exact=True).count) if client.collection_exists(name) else 0

    def names(self) -> list[str]:
        """See `Collections.names`."""
        with self._errors():
            return [collection.name for collection in self._connected().get_collections().collections]

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

    def pages(self) -> Iterator[list[str]]:
        offset = None
        while True:
            records, offset = self._client.scroll(self._name, limit=SCROLL_PAGE, offset=offset, with_payload=False)
            yield [str(record.id) for record in records]
            if offset is None:
                return

    def count(self) -> int:
        return int(self._client.count(self._name, exact=True).count)

    def upsert(self, points: Points) -> None:
        from qdrant_client import models

        for ids, vectors, payloads in points.batches():
            for vector in vectors:
                if words := vector.get(WORDS):
                    vector[WORDS] = models.SparseVector(indices=words.indices, values=words.values)
            batch = [
                models.PointStruct(id=identity, vector=vector, payload=payload)
                for identity, vector, payload in zip(ids, vectors, payloads, strict=True)
            ]
            self._client.upsert(self._name, batch, wait=True)
            reach("points upserted")

    def delete(self, ids: Sequence[str]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), UPSERT_BATCH):
            points = models.PointIdsList(points=list(ids[start : start + UPSERT_BATCH]))
            self._client.delete(self._name, points, wait=True)
            reach("points deleted")

    def nearest(self, vectors: np.ndarray, k: int, only: Only | None = None) -> list[list[Hit]]:
        rows = np.asarray(vectors, np.float32).tolist()
        return self._search(rows, DENSE, k, only)

    def matching(self, queries: Sequence[Sparse], k: int, only: Only | None = None) -> list[list[Hit]]:
        from qdrant_client import models

        # A question without words matches nothing.
        vectors = [models.SparseVector(indices=q.indices, values=q.values) for q in queries if q.indices]
        results = iter(self._search(vectors, WORDS, k, only))
        return [next(results) if query.indices else [] for query in queries]

    def _search(self, queries: Sequence[Any], name: str, k: int, only: Only | None) -> list[list[Hit]]:
        from qdrant_client import models

        within = None
        if only is not None:
            condition: Any = [models.HasIdCondition(has_id=list(only.ids))]
            within = models.Filter(must_not=condition) if only.others else models.Filter(must=condition)
        # A large collection has a graph (HNSW): more of it is visited than are wanted.
        params = models.SearchParams(hnsw_ef=2 * k) if name == DENSE else None
        requests = [
            models.QueryRequest(query=query, using=name, filter=within, limit=k, params=params) for query in queries
        ]
        results: list[list[Hit]] = []
        for start in range(0, len(requests), SEARCH_BATCH):
            answers = self._client.query_batch_points(self._name, requests[start : start + SEARCH_BATCH])
            results += [[(str(p.id), float(p.score)) for p in answer.points] for answer in answers]
        return results
