"""The vector store: Qdrant's engine in this process, or a Qdrant server, behind one small protocol.

With `QDRANT_URL` set, everything goes to that server (with `QDRANT_API_KEY` if set), otherwise to the embedded engine
under the home folder. There is no fallback from one to the other.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from resources.errors import MissingArtefact, MogError
from resources.files import make_folder
from resources.points import reach
from resources.store import FULL, disk_full, hold

Hit = tuple[str, float]
"""Point id and cosine similarity."""

Where = Sequence[Mapping[str, str | int] | None]
"""Per query the payload that hits must have, value by key; None for no filter."""


# Payload key of a point's topic.
TOPIC = "topic"

_UPSERT_BATCH = 1000
_SEARCH_BATCH = 64
_SCROLL_PAGE = 5000
_MOST_CORPORA = 100_000
_RESERVE = 64 << 20
# Payload indexes besides that of the tenant.
_SERVER_INDEXES = {TOPIC: "integer", "kind": "keyword", "date": "datetime"}


class Collection(Protocol):
    """Vectors of one level. Every operation is about one corpus, the tenant of the collection's payload index."""

    def ids(self, corpus: str) -> set[str]:
        """Ids of all points of a corpus."""

    def count(self, corpus: str) -> int:
        """Number of points of a corpus, exact."""

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        """Add points, or replace those with the same ids. `vectors` has shape (n, size)."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points; unknown ids are ignored."""

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The `keys` in the payload of every point of a corpus, by id; missing keys are left out."""

    def set_payload(self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any]]) -> None:
        """Set keys of the payload of existing points; their vectors and other keys stay."""

    def search(self, corpus: str, vectors: np.ndarray, k: int, where: Where | None = None) -> list[list[Hit]]:
        """The k nearest points of a corpus for each row of `vectors`, exact, nearest first.

        Args:
            corpus: Its name.
            vectors: Of the queries, shape (n, size).
            k: Number of points; fewer, or none, may match a `where`.
            where: One entry per query.

        Raises:
            MissingArtefact: the corpus has no points.
        """


class VectorStore(Protocol):
    """Opens collections by name."""

    place: str
    """Where the vectors are, as readable text."""

    def open(self, name: str, size: int) -> AbstractContextManager[Collection]:
        """A collection of unit vectors with `size` entries, created if it does not exist.

        Raises:
            MogError: it holds vectors of another size, is in use by another process, cannot be reached, or was damaged
                (an embedded one is then discarded: it can be rebuilt from the store).
        """

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """Exact number of points (with a topic) of every corpus in a collection; empty if it does not exist."""

    def drop(self, name: str) -> None:
        """Delete a collection if it exists."""


def connect(home: Path) -> VectorStore:
    """The vector store that the environment selects."""
    url = os.environ.get("QDRANT_URL")
    return QdrantServer(url, os.environ.get("QDRANT_API_KEY")) if url else EmbeddedQdrant(home / "qdrant")


def size_mismatch(name: str, held: int, given: int) -> MogError:
    """The error for a collection made with another encoder."""
    return MogError(
        f"collection {name!r} holds vectors of size {held}, the encoder gives {given}: "
        f"rematerialise embeddings and collections of every corpus (`mog run` does)"
    )


def _some(hits: list[list[Hit]], where: Where, name: str, corpus: str) -> list[list[Hit]]:
    # Every corpus has chunks, and the search is exact: no hits means that the collection was lost.
    if not all(found or wanted for found, wanted in zip(hits, where, strict=True)):
        raise MissingArtefact(f"collection {name!r} has no points of corpus {corpus}: run `mog run`")
    return hits


class EmbeddedQdrant:
    """Qdrant's engine in this process, one folder per collection; one process at a time can open a collection.

    Args:
        folder: Folder of the collections.
        lock_seconds: How long to wait for another process.
    """

    def __init__(self, folder: Path, lock_seconds: float = 600.0) -> None:
        self.folder = folder
        self.lock_seconds = lock_seconds
        self.place = "embedded Qdrant engine"
        self._counted: dict[str, tuple[list[tuple[str, int, int]], dict[bool, dict[str, int]]]] = {}

    @contextmanager
    def open(self, name: str, size: int) -> Iterator[Collection]:
        """See `VectorStore.open`."""
        import qdrant_edge as edge

        path = self.folder / name
        with self._held(name):
            if not path.exists():
                with _engine(path):
                    self._create(path, size)
            self._counted.pop(name, None)
            with _loaded(path) as (shard, held):
                if held != size:
                    raise size_mismatch(name, held, size)
                # The collection may be older than topics.
                with _engine(path):
                    if TOPIC not in shard.info().payload_schema:
                        shard.update(edge.UpdateOperation.create_field_index(TOPIC, edge.IntegerIndexParams()))
                yield _EmbeddedCollection(shard, path)
                with _engine(path):
                    shard.flush()
                reach("points flushed")

    @contextmanager
    def _held(self, name: str) -> Iterator[None]:
        """Lock the collection; a damaged one is discarded, so that the next run rebuilds it."""
        make_folder(self.folder, self.folder.parent)
        with hold(self.folder / f"{name}.lock", f"collection {name!r}", self.lock_seconds):
            try:
                yield
            except _Damaged as error:
                self._discard(name)
                raise MogError(
                    f"collection {name!r} was damaged ({error}) and has been discarded: run `mog run` "
                    "to rebuild it from the stored vectors"
                ) from error

    def _create(self, path: Path, size: int) -> None:
        import qdrant_edge as edge

        # Under a temporary name, then renamed: a folder with the final name has its configuration and its index.
        temporary = self._temporary(path.name)
        _require_room(path)
        temporary.mkdir()
        vectors = edge.EdgeVectorParams(size=size, distance=edge.Distance.Dot)
        shard = edge.EdgeShard.create(str(temporary), edge.EdgeConfig(vectors=vectors))
        shard.update(edge.UpdateOperation.create_field_index("corpus", edge.KeywordIndexParams(is_tenant=True)))
        shard.flush()
        shard.close()
        reach("collection created")
        temporary.replace(path)
        reach("collection moved")

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """See `VectorStore.counts`."""
        import qdrant_edge as edge

        path = self.folder / name
        if not path.exists():
            return {}
        # Opening takes tenths of a second, and the planner asks once per corpus.
        if name in self._counted and self._counted[name][0] == _stamp(path):
            return self._counted[name][1][with_topic]
        topic = edge.Filter(must_not=[edge.IsEmptyCondition(TOPIC)])
        with self._held(name):
            counts = {}
            with _loaded(path) as (shard, _), _engine(path):
                for only, asked in ((False, None), (True, topic)):
                    request = edge.FacetRequest("corpus", limit=_MOST_CORPORA, exact=True, filter=asked)
                    counts[only] = {str(hit.value): int(hit.count) for hit in shard.facet(request).hits if hit.count}
            self._counted[name] = (_stamp(path), counts)
        return counts[with_topic]

    def drop(self, name: str) -> None:
        """See `VectorStore.drop`."""
        with hold(self.folder / f"{name}.lock", f"collection {name!r}", self.lock_seconds):
            self._counted.pop(name, None)
            self._discard(name)

    def _discard(self, name: str) -> None:
        # Renamed first: a folder with the final name is always complete, even if this is interrupted.
        temporary = self._temporary(name)
        with contextlib.suppress(FileNotFoundError):
            (self.folder / name).replace(temporary)
            shutil.rmtree(temporary)

    def _temporary(self, name: str) -> Path:
        """A free temporary path next to a collection."""
        path = self.folder / f".tmp-{name}"
        if path.exists():
            shutil.rmtree(path)
        return path


class _Damaged(Exception):
    """The engine cannot read its own files."""


@contextmanager
def _engine(path: Path) -> Iterator[None]:
    """Translate the engine's errors: a full disk, or files that it cannot read."""
    try:
        yield
    except BaseException as error:
        # It raises plain Exception; a panic of its Rust code arrives as a BaseException.
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        text = " ".join(str(error).split())[:200]
        if any(f"(os error {number})" in text for number in FULL):
            raise disk_full(path, _RESERVE, text) from error
        raise _Damaged(text) from error


@contextmanager
def _loaded(path: Path) -> Iterator[tuple[Any, int]]:
    """The engine's collection at a path, and the size of its vectors."""
    import qdrant_edge as edge

    try:
        size = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))["vectors"][""]["size"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _Damaged(f"its configuration cannot be read: {error}") from error
    with _engine(path):
        shard = edge.EdgeShard.load(str(path))
    try:
        yield shard, int(size)
    finally:
        with _engine(path):
            shard.close()


def _stamp(path: Path) -> list[tuple[str, int, int]]:
    """A value that changes with the files of a collection."""
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return [(file, found.st_size, found.st_mtime_ns) for file in files for found in [os.lstat(file)]]


def _require_room(path: Path) -> None:
    # The engine writes through mapped memory: on a full disk the kernel would kill this process (SIGBUS).
    if shutil.disk_usage(path.parent).free < _RESERVE:
        raise disk_full(path, _RESERVE, "the embedded Qdrant engine needs that much room to write safely")


class _EmbeddedCollection:
    def __init__(self, shard: Any, path: Path) -> None:
        self._shard = shard
        self._path = path

    @staticmethod
    def _of(corpus: str, wanted: Mapping[str, str | int] | None = None) -> Any:
        import qdrant_edge as edge

        must = {"corpus": corpus, **(wanted or {})}
        return edge.Filter(
            must=[edge.FieldCondition(key=key, match=edge.MatchValue(value=value)) for key, value in must.items()]
        )

    def _scroll(self, corpus: str, with_payload: Any) -> Iterator[Any]:
        import qdrant_edge as edge

        offset = None
        while True:
            request = edge.ScrollRequest(
                offset=offset, limit=_SCROLL_PAGE, filter=self._of(corpus), with_payload=with_payload
            )
            with _engine(self._path):
                records, offset = self._shard.scroll(request)
            yield from records
            if offset is None:
                return

    def ids(self, corpus: str) -> set[str]:
        return {str(record.id) for record in self._scroll(corpus, False)}

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        import qdrant_edge as edge

        records = self._scroll(corpus, edge.PayloadSelector.Include(list(keys)))
        return {str(record.id): record.payload or {} for record in records}

    def set_payload(self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any]]) -> None:
        import qdrant_edge as edge

        for identity, payload in zip(ids, payloads, strict=True):
            self._update(edge.UpdateOperation.set_payload([identity], dict(payload)))
        reach("payloads set")

    def count(self, corpus: str) -> int:
        import qdrant_edge as edge

        with _engine(self._path):
            return int(self._shard.count(edge.CountRequest(exact=True, filter=self._of(corpus))))

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        import qdrant_edge as edge

        for start in range(0, len(ids), _UPSERT_BATCH):
            part = slice(start, start + _UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            points = [edge.Point(*point) for point in zip(ids[part], rows, payloads[part], strict=True)]
            self._update(edge.UpdateOperation.upsert_points(points))
            reach("points upserted")

    def delete(self, ids: Sequence[str]) -> None:
        import qdrant_edge as edge

        for start in range(0, len(ids), _UPSERT_BATCH):
            self._update(edge.UpdateOperation.delete_points(list(ids[start : start + _UPSERT_BATCH])))
            reach("points deleted")

    def _update(self, operation: Any) -> None:
        _require_room(self._path)
        with _engine(self._path):
            self._shard.update(operation)

    def search(self, corpus: str, vectors: np.ndarray, k: int, where: Where | None = None) -> list[list[Hit]]:
        import qdrant_edge as edge

        where = [None] * len(vectors) if where is None else where
        params = edge.SearchParams(exact=True)
        requests = [
            edge.QueryRequest(limit=k, query=edge.Query.Nearest(row), filter=self._of(corpus, wanted), params=params)
            for row, wanted in zip(np.asarray(vectors, np.float32).tolist(), where, strict=True)
        ]
        hits: list[list[Hit]] = []
        for start in range(0, len(requests), _SEARCH_BATCH):
            batch = edge.QueryBatchRequest(requests[start : start + _SEARCH_BATCH])
            with _engine(self._path):
                answers = self._shard.query_batch(batch)
            hits += [[(str(p.id), float(p.score)) for p in found] for found in answers]
        return _some(hits, where, self._path.name, corpus)


class QdrantServer:
    """A Qdrant server, through qdrant-client.

    Args:
        url: Address of the server.
        api_key: Its key, if it requires one.
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
                f"QDRANT_URL: a request to the Qdrant server at {self.url} failed "
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
            # Checked every time: a process may have been killed between the two steps.
            there = client.get_collection(name).payload_schema
            if "corpus" not in there:
                client.create_payload_index(
                    name, "corpus", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                )
            for key, kind in _SERVER_INDEXES.items():
                if key not in there:
                    client.create_payload_index(name, key, models.PayloadSchemaType(kind))
            held = client.get_collection(name).config.params.vectors.size
            if held != size:
                raise size_mismatch(name, held, size)
            yield _ServerCollection(client, name)

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """See `VectorStore.counts`."""
        from qdrant_client import models

        topic = models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=TOPIC))])
        with self._errors():
            client = self._connected()
            if not client.collection_exists(name):
                return {}
            asked = topic if with_topic else None
            hits = client.facet(name, "corpus", facet_filter=asked, limit=_MOST_CORPORA, exact=True).hits
            return {str(hit.value): int(hit.count) for hit in hits}

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
    def _of(corpus: str, wanted: Mapping[str, str | int] | None = None) -> Any:
        from qdrant_client import models

        must = {"corpus": corpus, **(wanted or {})}
        return models.Filter(
            must=[models.FieldCondition(key=key, match=models.MatchValue(value=value)) for key, value in must.items()]
        )

    def _scroll(self, corpus: str, with_payload: Any) -> Iterator[Any]:
        offset = None
        while True:
            records, offset = self._client.scroll(
                self._name, self._of(corpus), limit=_SCROLL_PAGE, offset=offset, with_payload=with_payload
            )
            yield from records
            if offset is None:
                return

    def ids(self, corpus: str) -> set[str]:
        return {str(record.id) for record in self._scroll(corpus, False)}

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        return {str(record.id): record.payload or {} for record in self._scroll(corpus, list(keys))}

    def set_payload(self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any]]) -> None:
        from qdrant_client import models

        operations = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload=dict(payload), points=[identity]))
            for identity, payload in zip(ids, payloads, strict=True)
        ]
        for start in range(0, len(operations), _UPSERT_BATCH):
            self._client.batch_update_points(self._name, operations[start : start + _UPSERT_BATCH], wait=True)
            reach("payloads set")

    def count(self, corpus: str) -> int:
        return int(self._client.count(self._name, self._of(corpus), exact=True).count)

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), _UPSERT_BATCH):
            part = slice(start, start + _UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            batch = models.Batch(ids=list(ids[part]), vectors=rows, payloads=list(payloads[part]))
            self._client.upsert(self._name, batch, wait=True)
            reach("points upserted")

    def delete(self, ids: Sequence[str]) -> None:
        from qdrant_client import models

        for start in range(0, len(ids), _UPSERT_BATCH):
            points = models.PointIdsList(points=list(ids[start : start + _UPSERT_BATCH]))
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
        for start in range(0, len(requests), _SEARCH_BATCH):
            answers = self._client.query_batch_points(self._name, requests[start : start + _SEARCH_BATCH])
            hits += [[(str(p.id), float(p.score)) for p in answer.points] for answer in answers]
        return _some(hits, where, self._name, corpus)
