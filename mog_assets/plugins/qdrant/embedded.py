"""The Qdrant engine in this process (`qdrant-edge-py`)."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

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
from mog_assets.resources.files import FULL, FileLock, Timeout, atomic, disk_full, hold, make_folder, reach

_log = logging.getLogger(__name__)
_RESERVE = 64 << 20
# Qdrant's types by the values of `QdrantSettings.vectors`.
_DATATYPES = {"float32": "float32", "float16": "float16", "int8": "turbo8"}
# Kilobytes of vectors from which the engine indexes them.
_NEVER = 1 << 40

_Known = tuple[list[list[Any]], int]
"""State of the files of a collection, and how many points it has."""


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
    def open(self, name: str, size: int, to_search: bool = False) -> Iterator[Collection]:
        """See `Collections.open`."""
        with self._searched(name) if to_search else self._locked(name):
            path = self.folder / name
            if not path.exists():
                if to_search:
                    raise missing(name)
                with _engine(path):
                    self._create(path, size)
            self._counted.pop(name, None)
            with _loaded(path) as shard:
                if (stored := _stored(path).size) != size:
                    raise size_mismatch(name, stored, size)
                collection = _EmbeddedCollection(shard, path, self._counts_of(name))
                yield collection
                if to_search:
                    return
                with _engine(path):
                    if collection.deleted and _has_room(path, _bytes(path)):
                        # Deleted points leave the disk once they are a fifth of a segment.
                        shard.optimize()
                    shard.flush()
                reach("points flushed")

    @contextmanager
    def _searched(self, name: str) -> Iterator[None]:
        """Lock the collection as `_held`, unless it is in use or its folder cannot be written.

        Raises:
            MissingArtefact: it cannot be locked now.
        """
        # The engine writes beside what it reads.
        if not os.access(self.folder, os.W_OK):
            raise missing(name)
        lock = FileLock(self.folder / f"{name}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise missing(name) from None
        try:
            yield
        except _Damaged as error:
            self._discard(name)
            raise missing(name) from error
        finally:
            lock.release()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Lock the collection; a damaged one is discarded, so that the next run rebuilds it."""
        make_folder(self.folder)
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
        with extras.needed("qdrant"):
            import qdrant_edge as edge

        # Under a temporary name, then renamed: a folder with the final name has its configuration and its index.
        temporary = self._temporary(path.name)
        _require_room(path)
        temporary.mkdir()
        datatype = getattr(edge.VectorStorageDatatype, self._datatype.capitalize())
        config = edge.EdgeConfig(
            vectors={DENSE: edge.EdgeVectorParams(size=size, distance=edge.Distance.Dot, datatype=datatype)},
            sparse_vectors={WORDS: edge.EdgeSparseVectorParams()},
            # Every search compares all vectors: no graph of neighbours is built.
            optimizers=edge.EdgeOptimizersConfig(default_segment_number=1, indexing_threshold=_NEVER),
            # A write that was not flushed is found by its ids, and repeated: a log would only hold everything twice,
            # as text of float32.
            wal_enabled=False,
        )
        shard = edge.EdgeShard.create(str(temporary), config)
        shard.flush()
        shard.close()
        reach("collection created")
        temporary.replace(path)
        reach("collection moved")

    def prepare(self, name: str, size: int) -> None:
        """See `Collections.prepare`."""
        path = self.folder / name
        with self._locked(name):
            if path.exists() and _stored(path) != _Stored(size, self._datatype, log=False):
                self._counted.pop(name, None)
                self._discard(name)

    def count(self, name: str) -> int:
        """See `Collections.count`."""
        import qdrant_edge as edge

        path = self.folder / name
        if not path.exists():
            return 0
        # Opening takes tenths of a second, and the planner asks in every process.
        if name not in self._counted and (counted := _read_counts(self._counts_of(name))):
            self._counted[name] = counted
        if name in self._counted and self._counted[name][0] == _stamp(path):
            return self._counted[name][1]
        with self._locked(name):
            path = self.folder / name
            with _loaded(path) as shard, _engine(path):
                count = int(shard.count(edge.CountRequest(exact=True)))
            self._counted[name] = (_stamp(path), count)
            stored = {"stamp": self._counted[name][0], "points": count}
            # Nothing but time is lost without them.
            with contextlib.suppress(OSError, MogError), atomic(self._counts_of(name)) as temporary:
                temporary.write_text(json.dumps(stored), encoding="utf-8")
        return count

    def names(self) -> list[str]:
        """See `Collections.names`."""
        return [path.name for path in self.folder.glob("[!.]*") if path.is_dir()]

    def _counts_of(self, name: str) -> Path:
        """Return the file with the number of points of a collection, and the state of its files that it is of."""
        return self.folder / f"{name}.counts.json"

    def drop(self, name: str) -> None:
        """See `Collections.drop`."""
        if not (self.folder / name).exists():
            return
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
        """Return a free temporary path next to a collection."""
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
    """Form in which a collection stores vectors."""

    size: int
    datatype: str
    log: bool


def _stored(path: Path) -> _Stored:
    try:
        config = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))
        # Of another form: it is made again.
        vectors = config["vectors"].get(DENSE) or {"size": 0}
        # What is not in the file is the engine's default.
        return _Stored(int(vectors["size"]), vectors.get("datatype", "float32"), config.get("wal_enabled", True))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _Damaged(f"its configuration cannot be read: {error}") from error


@contextmanager
def _loaded(path: Path) -> Iterator[Any]:
    """Yield the engine's collection at a path."""
    with extras.needed("qdrant"):
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


def _bytes(path: Path) -> int:
    """Return bytes of a collection on disk; its files have holes."""
    files = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return sum(os.lstat(file).st_blocks * 512 for file in files)


def _stamp(path: Path) -> list[list[Any]]:
    """Return a value that changes with the files of a collection."""
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    return [[os.path.relpath(file, path), *_state(os.lstat(file))] for file in files]


def _state(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ino


def _read_counts(path: Path) -> _Known | None:
    """Read what another process counted; None if there is nothing to use."""
    try:
        stored = json.loads(path.read_bytes())
        if isinstance(stored["points"], int):
            return list(stored["stamp"]), stored["points"]
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

    def pages(self) -> Iterator[list[str]]:
        import qdrant_edge as edge

        offset = None
        while True:
            with _engine(self._path):
                records, offset = self._shard.scroll(edge.ScrollRequest(offset=offset, limit=SCROLL_PAGE))
            yield [str(record.id) for record in records]
            if offset is None:
                return

    def count(self) -> int:
        import qdrant_edge as edge

        with _engine(self._path):
            return int(self._shard.count(edge.CountRequest(exact=True)))

    def upsert(self, points: Points) -> None:
        import qdrant_edge as edge

        for ids, vectors, payloads in points.batches():
            for vector in vectors:
                if words := vector.get(WORDS):
                    vector[WORDS] = edge.SparseVector(*words)
            batch = [edge.Point(*point) for point in zip(ids, vectors, payloads, strict=True)]
            self._update(edge.UpdateOperation.upsert_points(batch))
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

    def nearest(self, vectors: np.ndarray, k: int, only: Only | None = None) -> list[list[Hit]]:
        rows = np.asarray(vectors, np.float32).tolist()
        return self._search(rows, DENSE, k, only)

    def matching(self, queries: Sequence[Sparse], k: int, only: Only | None = None) -> list[list[Hit]]:
        import qdrant_edge as edge

        # A question without words matches nothing.
        results = iter(self._search([edge.SparseVector(*query) for query in queries if query.indices], WORDS, k, only))
        return [next(results) if query.indices else [] for query in queries]

    def _search(self, queries: Sequence[Any], name: str, k: int, only: Only | None) -> list[list[Hit]]:
        import qdrant_edge as edge

        params, within = edge.SearchParams(exact=True), None
        if only is not None:
            condition: Any = [edge.HasIdCondition(set(only.ids))]
            within = edge.Filter(must_not=condition) if only.others else edge.Filter(must=condition)
        requests = [
            edge.QueryRequest(k, query=edge.Query.Nearest(query, name), filter=within, params=params)
            for query in queries
        ]
        results: list[list[Hit]] = []
        for start in range(0, len(requests), SEARCH_BATCH):
            with _engine(self._path):
                answers = self._shard.query_batch(edge.QueryBatchRequest(requests[start : start + SEARCH_BATCH]))
            results += [[(str(p.id), float(p.score)) for p in answer] for answer in answers]
        return results
