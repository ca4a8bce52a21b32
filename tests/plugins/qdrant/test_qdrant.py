"""One contract for the embedded engine and for a server.

With `QDRANT_URL` set, the server is that one; else qdrant-client's local mode stands in for it.
"""

import os
import signal
import subprocess
import sys
import uuid

import numpy as np
import pytest
from qdrant_client import QdrantClient
from shared import ROOT

from mog_assets.plugins.qdrant.collections import Only, Points, Sparse
from mog_assets.plugins.qdrant.store import EmbeddedQdrant, QdrantServer, connect
from mog_assets.resources.errors import MogError

SIZE = 16
# Read before tests are kept from the variables of the shell.
URL, KEY = os.environ.get("QDRANT_URL"), os.environ.get("QDRANT_API_KEY")
NAMES = ("mog_test", "mog_other")
pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")


def make_store(kind, folder, vectors="int8"):
    if kind == "embedded":
        return EmbeddedQdrant(folder, vectors=vectors)
    if URL is None:
        return QdrantServer("memory", client=QdrantClient(":memory:"), vectors=vectors)
    return emptied(QdrantServer(URL, KEY, vectors=vectors))


def emptied(store):
    for name in NAMES:
        store.drop(name)
    return store


@pytest.fixture(params=["embedded", "server"])
def store(request, tmp_path):
    yield (made := make_store(request.param, tmp_path))
    emptied(made)


@pytest.fixture(params=["embedded", "server"])
def exact_store(request, tmp_path):
    """Vectors are stored as they are."""
    yield (made := make_store(request.param, tmp_path, "float32"))
    emptied(made)


def points(n, seed=0, size=SIZE):
    """Points with three words of ten each, and one that no other has."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(n, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{seed}/{i}")) for i in range(n)]
    words = []
    for i in range(n):
        places, values = sorted(draw.choice(10, 3, replace=False).tolist()), draw.random(3).astype(np.float32)
        words.append(Sparse([*places, 2**32 - 1 - i], [*values.tolist(), 0.5]))
    return Points(ids, vectors, words, [{"document": f"d{i}", "start": i, "end": i + 1} for i in range(n)])


def part(points, first, last):
    return points.at(np.arange(first, last))


def ids_of(collection):
    return {identity for page in collection.pages() for identity in page}


def products(queries, points):
    """Products of sparse vectors, of shape (queries, points)."""
    own = [dict(zip(*words, strict=True)) for words in points.words]
    return np.array([[sum(v * o.get(i, 0) for i, v in zip(*q, strict=True)) for o in own] for q in queries])


def test_points_are_counted_and_listed(store):
    garden, sky = points(30), points(20, 1)
    assert store.count("mog_test") == 0
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(garden)
        assert collection.count() == 30 and ids_of(collection) == set(garden.ids)
    with store.open("mog_other", SIZE) as collection:
        collection.upsert(sky)
    assert (store.count("mog_test"), store.count("mog_other")) == (30, 20)
    assert set(NAMES) <= set(store.names())


def test_batches_lose_nothing(store):
    given = points(2500)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(given)
        assert collection.count() == 2500
        collection.delete([*given.ids[:1200], str(uuid.uuid4())])
    assert store.count("mog_test") == 1300
    with store.open("mog_test", SIZE) as collection:
        assert ids_of(collection) == set(given.ids[1200:])
        assert given.ids[0] not in {i for i, _ in collection.nearest(given.vectors[:1], 5)[0]}
    for name in ("mog_test", "mog_never_made"):
        store.drop(name)
    assert store.count("mog_test") == 0 and "mog_test" not in store.names()
    with store.open("mog_test", 2 * SIZE) as collection:
        assert collection.count() == 0


def assert_best(results, expected, ids, k, allowed=None):
    """Results are the k best of the allowed ones, by ids and scores."""
    for hits, row in zip(results, expected, strict=True):
        open_to = row if allowed is None else np.where(allowed, row, -np.inf)
        best = np.argsort(-open_to, kind="stable")[:k]
        best = best[open_to[best] > -np.inf]
        assert [i for i, _ in hits] == [ids[j] for j in best]
        np.testing.assert_allclose([score for _, score in hits], row[best], atol=1e-5)


def test_search_by_words_is_exact_and_gives_nothing_without_a_common_word(store):
    given, queries = points(300), [*points(70, 2).words, Sparse([], []), Sparse([77], [1.0])]
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(given)
        results = collection.matching(queries, 10)
    assert results[-2:] == [[], []]
    assert_best(results[:-2], products(queries[:-2], given), given.ids, 10)


@pytest.mark.parametrize("allowed", [slice(40, 55), slice(250, 300), slice(3, 4), slice(0, 0)])
def test_search_is_within_some_points_or_all_others(exact_store, allowed):
    given, queries = points(300), points(5, 2)
    chosen = np.zeros(300, bool)
    chosen[allowed] = True
    near, words = queries.vectors @ given.vectors.T, products(queries.words, given)
    with exact_store.open("mog_test", SIZE) as collection:
        collection.upsert(given)
        for only, mask in ((Only(given.ids[allowed]), chosen), (Only(given.ids[allowed], others=True), ~chosen)):
            assert_best(collection.nearest(queries.vectors, 20, only), near, given.ids, 20, mask)
            for hits, row in zip(collection.matching(queries.words, 20, only), words, strict=True):
                best = np.sort(row[mask & (row > 0)])[::-1][:20]
                assert {identity for identity, _ in hits} <= {given.ids[i] for i in np.flatnonzero(mask)}
                np.testing.assert_allclose([score for _, score in hits], best, atol=1e-5)


@pytest.mark.parametrize("kind", ["embedded", "server"])
@pytest.mark.parametrize(("vectors", "tolerance"), [("float32", 1e-5), ("float16", 1e-3), ("int8", 0.02)])
def test_rounded_vectors_are_found_with_nearly_the_cosine(tmp_path, kind, vectors, tolerance):
    store, queries, given = make_store(kind, tmp_path, vectors), points(20, 2).vectors, points(300)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(given)
    with store.open("mog_test", SIZE) as collection:
        results = collection.nearest(queries, 20)
    for query, hits in zip(queries @ given.vectors.T, results, strict=True):
        cosines = query[[given.ids.index(identity) for identity, _ in hits]]
        np.testing.assert_allclose([score for _, score in hits], cosines, atol=tolerance)
        assert cosines.min() >= np.sort(query)[-20] - 2 * tolerance
        assert given.ids[query.argmax()] in [identity for identity, _ in hits]


@pytest.mark.parametrize("kind", ["embedded", "server"])
def test_collection_that_is_stored_otherwise_is_dropped_before_it_is_filled_again(tmp_path, kind):
    store = make_store(kind, tmp_path)
    store.prepare("mog_test", SIZE)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(points(5))
    store.prepare("mog_test", SIZE)
    assert store.count("mog_test") == 5
    other = (
        make_store(kind, tmp_path, "float16")
        if kind == "embedded"
        else QdrantServer("memory", client=store._connected(), vectors="float16")
    )
    # Only who fills it drops it.
    with other.open("mog_test", SIZE) as collection:
        assert collection.count() == 5
    other.prepare("mog_test", SIZE)
    assert other.count("mog_test") == 0
    with other.open("mog_test", SIZE) as collection:
        collection.upsert(points(3))
    other.prepare("mog_test", 2 * SIZE)
    assert other.count("mog_test") == 0


def written(folder):
    """Bytes of vectors that are not zero; files have holes, which not every file system counts alike."""
    return sum(
        np.count_nonzero(np.fromfile(file, np.uint8)) for file in folder.glob("segments/*/vector_storage-*/*/*.mmap")
    )


def test_deleted_points_leave_the_disk(tmp_path):
    store, size = EmbeddedQdrant(tmp_path), 384
    given = points(6000, size=size)
    with store.open("mog_test", size) as collection:
        collection.upsert(given)
    full = written(tmp_path / "mog_test")
    with store.open("mog_test", size) as collection:
        collection.delete(given.ids[:5000])
    assert written(tmp_path / "mog_test") < full / 3
    with store.open("mog_test", size) as collection:
        assert ids_of(collection) == set(given.ids[5000:])
        assert collection.nearest(given.vectors[5500:5501], 1)[0][0][0] == given.ids[5500]
        assert collection.matching([Sparse(given.words[5500].indices[-1:], [1.0])], 2) == [[(given.ids[5500], 0.5)]]
        collection.upsert(part(given, 0, 10))
    assert store.count("mog_test") == 1010


def test_search_gives_what_there_is(store):
    given = points(3)
    with store.open("mog_test", SIZE) as collection:
        assert collection.nearest(given.vectors[:1], 5) == [[]]
        collection.upsert(given)
        assert len(collection.nearest(given.vectors[:1], 5)[0]) == 3
        assert collection.nearest(given.vectors[:0], 5) == [] == collection.matching([], 5)


def test_upsert_replaces_vectors_and_words_of_an_id(store):
    given = points(5)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(given)
        collection.upsert(part(given, 0, 1)._replace(vectors=-given.vectors[:1], words=[Sparse([777], [1.0])]))
        assert collection.count() == 5
        assert collection.nearest(-given.vectors[:1], 1)[0][0][0] == given.ids[0]
        assert collection.matching([Sparse([777], [2.0])], 5) == [[(given.ids[0], 2.0)]]
        assert collection.matching([Sparse(given.words[0].indices[-1:], [1.0])], 5) == [[]]


def test_nothing_to_add_or_delete_is_no_error_and_a_text_may_have_no_words(store):
    given = points(2)._replace(words=[Sparse([], []), Sparse([3], [1.0])])
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(part(given, 0, 0))
        collection.delete([])
        assert collection.count() == 0
        collection.upsert(given)
        assert collection.count() == 2
        assert collection.matching([Sparse([3], [1.0])], 5) == [[(given.ids[1], 1.0)]]


def test_collection_of_another_size_is_refused(store):
    with store.open("mog_test", SIZE):
        pass
    with (
        pytest.raises(MogError, match="collection 'mog_test' holds vectors of size 16, the encoder gives 32: remat"),
        store.open("mog_test", 32),
    ):
        pass


def test_embedded_collection_in_use_names_the_holder(tmp_path):
    with (
        EmbeddedQdrant(tmp_path).open("mog_test", SIZE),
        pytest.raises(MogError, match=f"collection 'mog_test' .* by process {os.getpid()}"),
        EmbeddedQdrant(tmp_path, lock_seconds=0.1).open("mog_test", SIZE),
    ):
        pass


# A folder is a cache: what cannot be read is discarded, and the error says that it will be made again.


def test_counts_are_known_to_another_process_without_opening_the_collection(tmp_path, monkeypatch):
    import qdrant_edge

    def refused(path):
        raise AssertionError("opened")

    with EmbeddedQdrant(tmp_path).open("mog_test", SIZE) as collection:
        collection.upsert(points(30))
    assert EmbeddedQdrant(tmp_path).count("mog_test") == 30
    with monkeypatch.context() as patched:
        patched.setattr(qdrant_edge.EdgeShard, "load", refused)
        assert EmbeddedQdrant(tmp_path).count("mog_test") == 30
    kept = tmp_path / "mog_test.counts.json"
    stored = kept.read_bytes()
    for broken in (b"", b"[]", b'{"stamp": []}', stored.replace(b": 30}", b': "many"}')):
        kept.write_bytes(broken)
        assert EmbeddedQdrant(tmp_path).count("mog_test") == 30
    with EmbeddedQdrant(tmp_path).open("mog_test", SIZE) as collection:
        collection.delete(points(30).ids[:29])
    # As another program could leave it: the counts are of other files.
    kept.write_bytes(stored)
    assert EmbeddedQdrant(tmp_path).count("mog_test") == 1


def filled(folder):
    store = EmbeddedQdrant(folder)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(points(5))
    return store


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("edge_config.json", "missing"),
        ("segments/*/payload_storage/page_0.dat", "missing"),
        # This makes the engine panic.
        ("segments/*/vector_storage-dense/tq_vectors/status.dat", "truncated"),
    ],
)
@pytest.mark.parametrize("use", ["open", "count"])
def test_damaged_embedded_collection_is_discarded_with_a_clear_error(tmp_path, pattern, damage, use):
    store = filled(tmp_path)
    (file,) = (tmp_path / "mog_test").glob(pattern)
    if damage == "truncated":
        os.truncate(file, file.stat().st_size // 2)
    else:
        file.unlink()
    with pytest.raises(
        MogError, match=r"collection 'mog_test' was damaged \(.+\) and has been discarded: run `mog run`"
    ):
        if use == "count":
            store.count("mog_test")
        else:
            with store.open("mog_test", SIZE) as collection:
                ids_of(collection)
    assert store.count("mog_test") == 0
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(points(5))
        assert collection.count() == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mog_test", "mog_test.lock"]


def test_error_within_an_open_collection_is_no_damage(tmp_path):
    store = filled(tmp_path)
    with pytest.raises(Exception, match="^mine$"), store.open("mog_test", SIZE):
        raise Exception("mine")
    assert store.count("mog_test") == 5


def test_collection_whose_making_was_interrupted_is_made_again(tmp_path):
    (tmp_path / ".tmp-mog_test" / "wal").mkdir(parents=True)
    store = filled(tmp_path)
    assert store.count("mog_test") == 5 and store.names() == ["mog_test"]
    assert not (tmp_path / ".tmp-mog_test").exists()


WRITER = """
import os, signal, sys, numpy as np
from pathlib import Path
sys.path[:0] = ["tests/harness", "tests/plugins/qdrant"]
from test_qdrant import SIZE, points
from mog_assets.plugins.qdrant.store import EmbeddedQdrant
with EmbeddedQdrant(Path(sys.argv[1])).open("mog_test", SIZE) as collection:
    collection.upsert(points(5))
with EmbeddedQdrant(Path(sys.argv[1])).open("mog_test", SIZE) as collection:
    collection.upsert(points(7, 1))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_writer_loses_no_flushed_point(tmp_path):
    killed = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    # What was not flushed is there or is counted as missing.
    with EmbeddedQdrant(tmp_path, lock_seconds=0.1).open("mog_test", SIZE) as collection:
        assert set(points(5).ids) <= ids_of(collection) <= {*points(5).ids, *points(7, 1).ids}
        assert len(ids_of(collection)) == collection.count()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 160 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_embedded_engine_stops_before_the_disk_is_full(small_disk):
    store = EmbeddedQdrant(small_disk)
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(points(5))
        (small_disk / "other").write_bytes(bytes(100 << 20))
        with pytest.raises(
            MogError, match=r"no room to write .*mog_test: expected at least 67108864 bytes, \d+ are free"
        ):
            collection.upsert(points(5, 1))
    assert store.count("mog_test") == 5
    with pytest.raises(MogError, match="no room to write .*mog_other"), store.open("mog_other", SIZE):
        pass
    (small_disk / "other").unlink()
    with store.open("mog_test", SIZE) as collection:
        collection.upsert(points(5, 1))
    assert store.count("mog_test") == 10


def test_unreachable_server_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    store = connect(tmp_path)
    assert store.place == "Qdrant server at http://127.0.0.1:9"
    with (
        pytest.raises(
            MogError,
            match=r"QDRANT_URL: a request to the Qdrant server at http://127\.0\.0\.1:9 failed .*unset QDRANT_URL",
        ),
        store.open("mog_test", SIZE),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_the_variable_the_engine_is_embedded(tmp_path, monkeypatch):
    monkeypatch.delenv("QDRANT_URL", raising=False)
    assert isinstance(connect(tmp_path), EmbeddedQdrant)
