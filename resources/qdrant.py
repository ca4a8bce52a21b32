"""The vector store: Qdrant's engine in this process, or a Qdrant server, behind one small protocol.

With `QDRANT_URL` set everything goes to that server (with `QDRANT_API_KEY` where set), else to the embedded engine
under the home folder. Neither ever stands in for the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mog_assets.errors import MogError
from resources.store import hold

Hit = tuple[str, float]
"""Point id and cosine similarity."""

_UPSERT_BATCH = 1000
_SEARCH_BATCH = 64
_SCROLL_PAGE = 5000


class Collection(Protocol):
    """Vectors of one level. Every operation is about one corpus, the tenant of the collection's payload index."""

    def ids(self, corpus: str) -> set[str]:
        """Ids of all points of a corpus."""

    def count(self, corpus: str) -> int:
        """Number of points of a corpus, exact."""

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        """Add points, or replace those with the same ids. `vectors` has shape (n, size)."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points; ids that are not there are no error."""

    def search(self, corpus: str, vectors: np.ndarray, k: int) -> list[list[Hit]]:
        """The k nearest points of a corpus for each row of `vectors`, exact, nearest first."""


class VectorStore(Protocol):
    """Opens collections by name."""

    place: str
    """Where the vectors are, for people to read."""

    def open(self, name: str, size: int) -> AbstractContextManager[Collection]:
        """A collection of unit vectors with `size` entries, made if there is none.

        Raises:
            MogError: it holds vectors of another size, is in use by another process, or cannot be reached.
        """

    def drop(self, name: str) -> None:
        """Delete a collection; one that is not there is no error."""


def connect(home: Path) -> VectorStore:
    """The vector store that the environment asks for."""
    url = os.environ.get("QDRANT_URL")
    return QdrantServer(url, os.environ.get("QDRANT_API_KEY")) if url else EmbeddedQdrant(home / "qdrant")


def size_mismatch(name: str, held: int, given: int) -> MogError:
    """The error for a collection made with another encoder."""
    return MogError(
        f"collection {name!r} holds vectors of size {held}, the encoder gives {given}: "
        f"rematerialise embeddings and collections of every corpus (`mog run` does)"
    )


class EmbeddedQdrant:
    """Qdrant's engine in this process, a folder a collection; one process at a time has a collection open.

    Args:
        folder: Holds the collections.
        lock_seconds: How long to wait for another process.
    """

    def __init__(self, folder: Path, lock_seconds: float = 600.0) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.place = "embedded Qdrant engine"

    @contextmanager
    def open(self, name: str, size: int) -> Iterator[Collection]:
        """See `VectorStore.open`."""
        path = self.folder / name
        with hold(self.folder / f"{name}.lock", f"collection {name!r}", self.lock_seconds):
            shard = self._load(path, size)
            try:
                held = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))["vectors"][""]["size"]
                if held != size:
                    raise size_mismatch(name, held, size)
                yield _EmbeddedCollection(shard)
                shard.flush()
            finally:
                shard.close()

    def _load(self, path: Path, size: int) -> Any:
        import qdrant_edge as edge

        if (path / "edge_config.json").exists():
            return edge.EdgeShard.load(str(path))
        path.mkdir(parents=True, exist_ok=True)
        vectors = edge.EdgeVectorParams(size=size, distance=edge.Distance.Dot)
        shard = edge.EdgeShard.create(str(path), edge.EdgeConfig(vectors=vectors))
        shard.update(edge.UpdateOperation.create_field_index("corpus", edge.KeywordIndexParams(is_tenant=True)))
        return shard

    def drop(self, name: str) -> None:
        """See `VectorStore.drop`."""
        import shutil

        with hold(self.folder / f"{name}.lock", f"collection {name!r}", self.lock_seconds):
            shutil.rmtree(self.folder / name, ignore_errors=True)


class _EmbeddedCollection:
    def __init__(self, shard: Any) -> None:
        self._shard = shard

    @staticmethod
    def _of(corpus: str) -> Any:
        import qdrant_edge as edge

        return edge.Filter(must=[edge.FieldCondition(key="corpus", match=edge.MatchValue(value=corpus))])

    def ids(self, corpus: str) -> set[str]:
        import qdrant_edge as edge

        found: set[str] = set()
        offset = None
        while True:
            records, offset = self._shard.scroll(
                edge.ScrollRequest(offset=offset, limit=_SCROLL_PAGE, filter=self._of(corpus), with_payload=False)
            )
            found.update(str(record.id) for record in records)
            if offset is None:
                return found

    def count(self, corpus: str) -> int:
        import qdrant_edge as edge

        return int(self._shard.count(edge.CountRequest(exact=True, filter=self._of(corpus))))

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        import qdrant_edge as edge

        for start in range(0, len(ids), _UPSERT_BATCH):
            part = slice(start, start + _UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            points = [edge.Point(*point) for point in zip(ids[part], rows, payloads[part], strict=True)]
            self._shard.update(edge.UpdateOperation.upsert_points(points))

    def delete(self, ids: Sequence[str]) -> None:
        import qdrant_edge as edge

        for start in range(0, len(ids), _UPSERT_BATCH):
            self._shard.update(edge.UpdateOperation.delete_points(list(ids[start : start + _UPSERT_BATCH])))

    def search(self, corpus: str, vectors: np.ndarray, k: int) -> list[list[Hit]]:
        import qdrant_edge as edge

        params = edge.SearchParams(exact=True)
        requests = [
            edge.QueryRequest(limit=k, query=edge.Query.Nearest(row), filter=self._of(corpus), params=params)
            for row in np.asarray(vectors, np.float32).tolist()
        ]
        hits: list[list[Hit]] = []
        for start in range(0, len(requests), _SEARCH_BATCH):
            batch = edge.QueryBatchRequest(requests[start : start + _SEARCH_BATCH])
            hits += [[(str(p.id), float(p.score)) for p in found] for found in self._shard.query_batch(batch)]
        return hits


class QdrantServer:
    """A Qdrant server, through qdrant-client.

    Args:
        url: Address of the server.
        api_key: Its key, where it asks for one.
        client: A client to use instead of connecting.
    """

    def __init__(self, url: str, api_key: str | None = None, client: Any = None) -> None:
        self.url = url
        self.api_key = api_key
        self.place = f"Qdrant server at {url}"
        self._client = client

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
                f"QDRANT_URL: the Qdrant server at {self.url} did not do what was asked "
                f"({' '.join(str(error).split())[:300]}): start it, or unset QDRANT_URL for the embedded engine"
            ) from error

    @contextmanager
    def open(self, name: str, size: int) -> Iterator[Collection]:
        """See `VectorStore.open`."""
        from qdrant_client import models

        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                client.create_collection(
                    name, vectors_config=models.VectorParams(size=size, distance=models.Distance.DOT)
                )
                client.create_payload_index(
                    name, "corpus", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                )
            held = client.get_collection(name).config.params.vectors.size
            if held != size:
                raise size_mismatch(name, held, size)
            yield _ServerCollection(client, name)

    def drop(self, name: str) -> None:
        """See `VectorStore.drop`."""
        with self._errors():
            client = self._connected()
            if client.collection_exists(name):
                client.delete_collection(name)


class _ServerCollection:
    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    @staticmethod
    def _of(corpus: str) -> Any:
        from qdrant_client import models

        return models.Filter(must=[models.FieldCondition(key="corpus", match=models.MatchValue(value=corpus))])

    def ids(self, corpus: str) -> set[str]:
        found: set[str] = set()
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, self._of(corpus), limit=_SCROLL_PAGE, offset=offset, with_payload=False
            )
            found.update(str(record.id) for record in records)
            if offset is None:
                return found

    def count(self, corpus: str) -> int:
        return int(self._client.count(self._name, self._of(corpus), exact=True).count)

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), _UPSERT_BATCH):
            part = slice(start, start + _UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            batch = models.Batch(ids=list(ids[part]), vectors=rows, payloads=list(payloads[part]))
            self._client.upsert(self._name, batch, wait=True)

    def delete(self, ids: Sequence[str]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), _UPSERT_BATCH):
            points = models.PointIdsList(points=list(ids[start : start + _UPSERT_BATCH]))
            self._client.delete(self._name, points, wait=True)

    def search(self, corpus: str, vectors: np.ndarray, k: int) -> list[list[Hit]]:
        from qdrant_client import models

        requests = [
            models.QueryRequest(query=row, filter=self._of(corpus), limit=k, params=models.SearchParams(exact=True))
            for row in np.asarray(vectors, np.float32).tolist()
        ]
        hits: list[list[Hit]] = []
        for start in range(0, len(requests), _SEARCH_BATCH):
            answers = self._client.query_batch_points(self._name, requests[start : start + _SEARCH_BATCH])
            hits += [[(str(p.id), float(p.score)) for p in answer.points] for answer in answers]
        return hits
