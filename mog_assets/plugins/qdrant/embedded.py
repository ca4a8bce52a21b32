"""The Qdrant engine in this process (`qdrant-edge-py`)."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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
from mog_assets.resources.files import make_folder
from mog_assets.resources.holding import hold
from mog_assets.resources.points import reach
from mog_assets.resources.writing import FULL, atomic, disk_full

_log = logging.getLogger(__name__)
_MOST_CORPORA = 100_000
_RESERVE = 64 << 20
# Qdrant's types by the values of `QdrantSettings.vectors`.
_DATATYPES = {"float32": "float32", "float16": "float16", "int8": "turbo8"}
# Kilobytes of vectors from which the engine indexes them.
_NEVER = 1 << 40

_Known = tuple[list[list[Any]], dict[bool, dict[str, int]]]
"""State of the files of a collection, and its points by corpus: all, and those with a topic."""


class EmbeddedQdrant:
    """Qdrant's engine in this process, one folder per collection; one process at a time can open a collection.

    Args:
        folder: Folder of the collections.
        lock_seconds: How long to wait for another process.
        vectors: See `QdrantSettings`.
    """

    def __init__(self, folder: Path, lock_seconds: float = 600.0, vectors: str = QdrantSettings().vectors) -> None:
        self.folder = folder
        self._datatype = _DATATYPES[vectors]
        self.lock_seconds = lock_seconds
        self.place = "embedded Qdrant engine"
        self._counted: dict[str, _Known] = {}

    @contextmanager
    def open(self, name: str, size: int) -> Iterator[Collection]:
        """See `Collections.open`."""
        with self._held(name):
            path = self.folder / name
            if not path.exists():
                with _engine(path):
                    self._create(path, size)
            self._counted.pop(name, None)
            with _loaded(path) as shard:
                if (stored := _stored(path).size) != size:
                    raise size_mismatch(name, stored, size)
                collection = _EmbeddedCollection(shard, path, self._counts_of(name))
                yield collection
                with _engine(path):
                    if collection.deleted and _has_room(path, _bytes(path)):
                        # Deleted points leave the disk once they are a fifth of a segment.
                        shard.optimize()
                    shard.flush()
                reach("points flushed")

    @contextmanager
    def _held(self, name: str) -> Iterator[None]:
        """Lock the collection; a damaged one is discarded, so that the next run rebuilds it."""
        make_folder(self.folder, self.folder.parent)
        # The engine writes beside what it reads.
        if not os.access(self.folder, os.W_OK):
            copy = Path(tempfile.mkdtemp(prefix="mog-qdrant-"))
            atexit.register(shutil.rmtree, copy, ignore_errors=True)
            _log.warning("%s cannot be written: its collections are read from a copy, %s", self.folder, copy)
            self.folder = shutil.copytree(self.folder, copy / "qdrant")
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
        datatype = getattr(edge.VectorStorageDatatype, self._datatype.capitalize())
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(size=size, distance=edge.Distance.Dot, datatype=datatype),
            # Every search compares all vectors: no graph of neighbours is built.
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=_NEVER),
            # A write that was not flushed is found by its ids, and repeated: a log would only hold everything twice,
            # as text of float32.
            wal_enabled=False,
        )
        shard = edge.EdgeShard.create(str(temporary), config)
        for key, kind in _indexes().items():
            shard.update(edge.UpdateOperation.create_field_index(key, kind))
        shard.flush()
        shard.close()
        reach("collection created")
        temporary.replace(path)
        reach("collection moved")

    def prepare(self, name: str, size: int) -> None:
        """See `Collections.prepare`."""
        path = self.folder / name
        with self._held(name):
            if path.exists() and _stored(path) != _Stored(size, self._datatype, log=False):
                self._counted.pop(name, None)
                self._discard(name)

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """See `Collections.counts`."""
        import qdrant_edge as edge

        path = self.folder / name
        if not path.exists():
            return {}
        # Opening takes tenths of a second, and the planner asks once per corpus, in every process.
        if name not in self._counted and (counted := _read_counts(self._counts_of(name))):
            self._counted[name] = counted
        if name in self._counted and self._counted[name][0] == _stamp(path):
            return self._counted[name][1][with_topic]
        topic = edge.Filter(must_not=[edge.IsEmptyCondition(TOPIC)])
        with self._held(name):
            counts, path = {}, self.folder / name
            with _loaded(path) as shard, _engine(path):
                for only, filter_of in ((False, None), (True, topic)):
                    request = edge.FacetRequest("corpus", limit=_MOST_CORPORA, exact=True, filter=filter_of)
                    counts[only] = {str(hit.value): int(hit.count) for hit in shard.facet(request).hits if hit.count}
            self._counted[name] = (_stamp(path), counts)
            stored = {"stamp": self._counted[name][0], "points": counts[False], "with topic": counts[True]}
            # Nothing but time is lost without them.
            with contextlib.suppress(OSError, MogError), atomic(self._counts_of(name)) as temporary:
                temporary.write_text(json.dumps(stored), encoding="utf-8")
        return counts[with_topic]

    def _counts_of(self, name: str) -> Path:
        """The file with the counts of a collection, and the state of its files that they are of."""
        return self.folder / f"{name}.counts.json"

    def drop(self, name: str) -> None:
        """See `Collections.drop`."""
        with hold(self.folder / f"{name}.lock", f"collection {name!r}", self.lock_seconds):
            self._counted.pop(name, None)
            self._discard(name)

    def _discard(self, name: str) -> None:
        self._counts_of(name).unlink(missing_ok=True)
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


class _Stored(NamedTuple):
    """How a collection stores vectors."""

    size: int
    datatype: str
    log: bool


def _stored(path: Path) -> _Stored:
    try:
        config = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))
        vectors = config["vectors"][""]
        # What is not in the file is the engine's default.
        return _Stored(int(vectors["size"]), vectors.get("datatype", "float32"), config.get("wal_enabled", True))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _Damaged(f"its configuration cannot be read: {error}") from error


@contextmanager
def _loaded(path: Path) -> Iterator[Any]:
    """The engine's collection at a path."""
    import qdrant_edge as edge

    # The engine would replace a configuration that it cannot read.
    _stored(path)
    with _engine(path):
        shard = edge.EdgeShard.load(str(path))
    try:
        yield shard
    finally:
        with _engine(path):
            shard.close()


def _indexes() -> dict[str, Any]:
    import qdrant_edge as edge

    # Topics are only compared for equality.
    return {
        "corpus": edge.KeywordIndexParams(is_tenant=True),
        TOPIC: edge.IntegerIndexParams(lookup=True, range=False),
    }


def _bytes(path: Path) -> int:
    """Bytes of a collection on disk; its files have holes."""
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_blocks * 512 for file in files)


def _stamp(path: Path) -> list[list[Any]]:
    """A value that changes with the files of a collection."""
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return [[os.path.relpath(file, path), *_state(os.lstat(file))] for file in files]


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _read_counts(path: Path) -> _Known | None:
    """Counts that another process stored; None if there are none to use."""
    try:
        stored = json.loads(path.read_bytes())
        counts = {False: dict(stored["points"]), True: dict(stored["with topic"])}
        if all(isinstance(count, int) for of_corpus in counts.values() for count in of_corpus.values()):
            return list(stored["stamp"]), counts
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return None


def _has_room(path: Path, wanted: int = 0) -> bool:
    return shutil.disk_usage(path.parent).free >= _RESERVE + wanted


def _require_room(path: Path) -> None:
    # The engine writes through mapped memory: on a full disk the kernel would kill this process (SIGBUS).
    if not _has_room(path):
        raise disk_full(path, _RESERVE, "the embedded Qdrant engine needs that much room to write safely")


class _EmbeddedCollection:
    def __init__(self, shard: Any, path: Path, counts: Path) -> None:
        self._shard = shard
        self._path = path
        self._counts = counts
        self.deleted = False

    @staticmethod
    def _of(corpus: str, wanted: Mapping[str, str | int] | None = None) -> Any:
        import qdrant_edge as edge

        must = {"corpus": corpus, **(wanted or {})}
        return edge.Filter(
            must=[edge.FieldCondition(key=key, match=edge.MatchValue(value=value)) for key, value in must.items()]
        )

    def _scroll(self, corpus: str, with_payload: Any) -> Iterator[list[Any]]:
        import qdrant_edge as edge

        offset = None
        while True:
            request = edge.ScrollRequest(
                offset=offset, limit=SCROLL_PAGE, filter=self._of(corpus), with_payload=with_payload
            )
            with _engine(self._path):
                records, offset = self._shard.scroll(request)
            yield records
            if offset is None:
                return

    def pages(self, corpus: str) -> Iterator[list[str]]:
        for records in self._scroll(corpus, False):
            yield [str(record.id) for record in records]

    def ids(self, corpus: str) -> set[str]:
        return set(chain.from_iterable(self.pages(corpus)))

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        import qdrant_edge as edge

        pages = self._scroll(corpus, edge.PayloadSelector.Include(list(keys)))
        return {str(record.id): record.payload or {} for records in pages for record in records}

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

        for start in range(0, len(ids), UPSERT_BATCH):
            part = slice(start, start + UPSERT_BATCH)
            rows = np.asarray(vectors[part], np.float32).tolist()
            points = [edge.Point(*point) for point in zip(ids[part], rows, payloads[part], strict=True)]
            self._update(edge.UpdateOperation.upsert_points(points))
            reach("points upserted")

    def delete(self, ids: Sequence[str]) -> None:
        import qdrant_edge as edge

        for start in range(0, len(ids), UPSERT_BATCH):
            self._update(edge.UpdateOperation.delete_points(list(ids[start : start + UPSERT_BATCH])))
            self.deleted = True
            reach("points deleted")

    def _update(self, operation: Any) -> None:
        _require_room(self._path)
        self._counts.unlink(missing_ok=True)
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
        for start in range(0, len(requests), SEARCH_BATCH):
            batch = edge.QueryBatchRequest(requests[start : start + SEARCH_BATCH])
            with _engine(self._path):
                answers = self._shard.query_batch(batch)
            hits += [[(str(p.id), float(p.score)) for p in answer] for answer in answers]
        return matching(hits, where, self._path.name, corpus)
