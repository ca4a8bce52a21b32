"""One contract for the embedded engine and for a server."""

import os
import signal
import subprocess
import sys
import uuid

import numpy as np
import pytest
from qdrant_client import QdrantClient
from shared import ROOT

from mog_assets.plugins.qdrant.store import EmbeddedQdrant, QdrantServer, connect
from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.payload import storable

SIZE = 16
# Local mode of the client stands in for a server; it has no payload indexes and says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]


def make_store(kind, folder, vectors="int8"):
    if kind == "embedded":
        return EmbeddedQdrant(folder, vectors=vectors)
    return QdrantServer("memory", client=QdrantClient(":memory:"), vectors=vectors)


@pytest.fixture(params=["embedded", "server"])
def store(request, tmp_path):
    return make_store(request.param, tmp_path)


@pytest.fixture(params=["embedded", "server"])
def exact_store(request, tmp_path):
    """Vectors are stored as they are."""
    return make_store(request.param, tmp_path, "float32")


def points(n, corpus, seed=0):
    vectors = np.random.default_rng(seed).normal(size=(n, SIZE)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"{corpus}/{i}")) for i in range(n)]
    return ids, vectors, [{"corpus": corpus, "chunk": i} for i in range(n)]


def test_points_are_counted_and_listed_per_corpus(store):
    garden, sky = points(30, "garden"), points(20, "sky", 1)
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*garden)
        collection.upsert(*sky)
        assert (collection.count("garden"), collection.count("sky"), collection.count("sea")) == (30, 20, 0)
        assert collection.ids("garden") == set(garden[0])
        assert collection.ids("sky") == set(sky[0])
        assert collection.ids("sea") == set()


def test_search_is_filtered_by_topic_label_and_corpus(store):
    ids, vectors, payloads = points(12, "garden")
    topics = [i % 3 - 1 for i in range(12)]
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        named = [{"topic": t, "label": f"label {t}", "probability": 0.25 * (t + 1)} for t in topics]
        collection.set_payload(ids, named)
        for wanted in ({"topic": 1}, {"label": "label 1"}, {"topic": 1, "label": "label 1"}):
            (hits,) = collection.search("garden", vectors[:1], 12, [wanted])
            assert {identity for identity, _ in hits} == {i for i, t in zip(ids, topics, strict=True) if t == 1}
        assert collection.search("garden", vectors[:1], 12, [{"topic": 1, "label": "label 0"}]) == [[]]
        held = collection.payloads("garden", ("topic", "label", "probability"))
        assert held == dict(zip(ids, named, strict=True))
    assert store.counts("level_1", with_topic=True) == {"garden": 12}


def test_points_are_there_when_opened_again(store):
    ids, *rest = points(10, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, *rest)
    with store.open("level_1", SIZE) as collection:
        assert collection.ids("garden") == set(ids)


def test_points_of_all_corpora_are_counted_at_once(store):
    assert store.counts("level_1") == {}
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(30, "garden"))
        collection.upsert(*points(20, "sky", 1))
    assert store.counts("level_1") == {"garden": 30, "sky": 20}
    with store.open("level_1", SIZE) as collection:
        collection.delete(points(30, "garden")[0][:29])
        collection.delete(points(20, "sky")[0])
    assert store.counts("level_1") == {"garden": 1}
    store.drop("level_1")
    assert store.counts("level_1") == {}


def test_batches_lose_nothing(store):
    ids, *rest = points(2500, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, *rest)
        assert collection.count("garden") == 2500
        collection.delete(ids[:1200])
        assert collection.ids("garden") == set(ids[1200:])


def test_search_is_exact_and_within_one_corpus(exact_store):
    store = exact_store
    garden, sky = points(300, "garden"), points(300, "sky", 1)
    queries = points(70, "queries", 2)[1]
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*garden)
        collection.upsert(*sky)
        found = collection.search("sky", queries, 10)
    similarity = queries @ sky[1].T
    expected = np.argsort(-similarity, axis=1)[:, :10]
    for row, hits in enumerate(found):
        assert [i for i, _ in hits] == [sky[0][j] for j in expected[row]]
        np.testing.assert_allclose([s for _, s in hits], similarity[row, expected[row]], atol=1e-5)


@pytest.mark.parametrize("kind", ["embedded", "server"])
@pytest.mark.parametrize(("vectors", "tolerance"), [("float32", 1e-5), ("float16", 1e-3), ("int8", 0.02)])
def test_rounded_vectors_are_found_with_nearly_the_cosine(tmp_path, kind, vectors, tolerance):
    store, queries = make_store(kind, tmp_path, vectors), points(20, "queries", 2)[1]
    ids, rows, payloads = points(300, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, rows, payloads)
    with store.open("level_1", SIZE) as collection:
        found = collection.search("garden", queries, 20)
    for query, hits in zip(queries @ rows.T, found, strict=True):
        cosines = query[[ids.index(identity) for identity, _ in hits]]
        np.testing.assert_allclose([score for _, score in hits], cosines, atol=tolerance)
        assert cosines.min() >= np.sort(query)[-20] - 2 * tolerance
        assert ids[query.argmax()] in [identity for identity, _ in hits]


@pytest.mark.parametrize("kind", ["embedded", "server"])
def test_collection_that_is_stored_otherwise_is_dropped_before_it_is_filled_again(tmp_path, kind):
    store = make_store(kind, tmp_path)
    store.prepare("level_1", SIZE)
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
    store.prepare("level_1", SIZE)
    assert store.counts("level_1") == {"garden": 5}
    other = (
        make_store(kind, tmp_path, "float16")
        if kind == "embedded"
        else QdrantServer("memory", client=store._client, vectors="float16")
    )
    # Only who fills it drops it.
    with other.open("level_1", SIZE) as collection:
        assert collection.count("garden") == 5
    other.prepare("level_1", SIZE)
    assert other.counts("level_1") == {}
    with other.open("level_1", SIZE) as collection:
        collection.upsert(*points(3, "garden"))
    other.prepare("level_1", 2 * SIZE)
    assert other.counts("level_1") == {}


def written(folder):
    """Bytes of vectors that are not zero; files have holes, which not every file system counts alike."""
    return sum(
        np.count_nonzero(np.fromfile(file, np.uint8)) for file in folder.glob("segments/*/vector_storage/*/*.mmap")
    )


def test_deleted_points_leave_the_disk(tmp_path):
    store, size = EmbeddedQdrant(tmp_path), 384
    vectors = np.random.default_rng(0).normal(size=(6000, size)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ids, _, payloads = points(6000, "garden")
    with store.open("level_1", size) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.set_payload(ids[5000:5001], [{"topic": 3}])
    full = written(tmp_path / "level_1")
    with store.open("level_1", size) as collection:
        collection.delete(ids[:5000])
    assert written(tmp_path / "level_1") < full / 3
    with store.open("level_1", size) as collection:
        assert collection.ids("garden") == set(ids[5000:])
        assert collection.payloads("garden", ["topic", "chunk"])[ids[5000]] == {"topic": 3, "chunk": 5000}
        assert collection.search("garden", vectors[5500:5501], 1)[0][0][0] == ids[5500]
        collection.upsert(ids[:10], vectors[:10], payloads[:10])
    assert store.counts("level_1") == {"garden": 1010}
    assert store.counts("level_1", with_topic=True) == {"garden": 1}


def test_search_of_a_corpus_without_points_says_how_to_make_them(store):
    vectors = points(3, "garden")[1]
    with (
        store.open("level_1", SIZE) as collection,
        pytest.raises(MissingArtefact, match="collection 'level_1' has no points of corpus garden: run `mog run`"),
    ):
        collection.search("garden", vectors[:1], 5)


def test_search_gives_what_there_is(store):
    ids, vectors, payloads = points(3, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        assert len(collection.search("garden", vectors[:1], 5)[0]) == 3
        assert collection.search("garden", vectors[:0], 5) == []


def test_upsert_replaces_the_vector_of_an_id(store):
    ids, vectors, payloads = points(5, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.upsert(ids[:1], -vectors[:1], payloads[:1])
        assert collection.count("garden") == 5
        assert collection.search("garden", -vectors[:1], 1)[0][0][0] == ids[0]


def test_deleted_point_is_found_no_more(store):
    ids, vectors, payloads = points(5, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.delete([ids[0], str(uuid.uuid4())])
        assert collection.ids("garden") == set(ids[1:])
        assert ids[0] not in {i for i, _ in collection.search("garden", vectors[:1], 5)[0]}


def test_nothing_to_add_or_delete_is_no_error(store):
    with store.open("level_1", SIZE) as collection:
        collection.upsert([], np.zeros((0, SIZE)), [])
        collection.delete([])
        assert collection.count("garden") == 0


def test_collection_of_another_size_is_refused(store):
    with store.open("level_1", SIZE):
        pass
    with (
        pytest.raises(MogError, match="collection 'level_1' holds vectors of size 16, the encoder gives 32: remat"),
        store.open("level_1", 32),
    ):
        pass


def test_dropped_collection_is_empty_and_may_have_another_size(store):
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
    store.drop("level_1")
    store.drop("never_made")
    with store.open("level_1", 32) as collection:
        assert collection.count("garden") == 0


def test_collections_do_not_touch_each_other(store):
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
    with store.open("level_2", SIZE) as collection:
        assert collection.count("garden") == 0


def test_embedded_collection_in_use_names_the_holder(tmp_path):
    with (
        EmbeddedQdrant(tmp_path).open("level_1", SIZE),
        pytest.raises(MogError, match=f"collection 'level_1' .* by process {os.getpid()}"),
        EmbeddedQdrant(tmp_path, lock_seconds=0.1).open("level_1", SIZE),
    ):
        pass


def test_counts_see_what_another_store_wrote(tmp_path):
    mine, other = EmbeddedQdrant(tmp_path), EmbeddedQdrant(tmp_path)
    with mine.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
    assert mine.counts("level_1") == {"garden": 5}
    with other.open("level_1", SIZE) as collection:
        collection.upsert(*points(7, "garden"))
    assert mine.counts("level_1") == {"garden": 7}


# A folder is a cache: what cannot be read is discarded, and the error says that it will be made again.


def test_counts_are_known_to_another_process_without_opening_the_collection(tmp_path, monkeypatch):
    import qdrant_edge

    def refused(path):
        raise AssertionError("opened")

    with EmbeddedQdrant(tmp_path).open("level_1", SIZE) as collection:
        collection.upsert(*points(30, "garden"))
    assert EmbeddedQdrant(tmp_path).counts("level_1") == {"garden": 30}
    with monkeypatch.context() as patched:
        patched.setattr(qdrant_edge.EdgeShard, "load", refused)
        assert EmbeddedQdrant(tmp_path).counts("level_1") == {"garden": 30}
        assert EmbeddedQdrant(tmp_path).counts("level_1", with_topic=True) == {}
    kept = tmp_path / "level_1.counts.json"
    stored = kept.read_bytes()
    for broken in (b"", b"[]", b'{"stamp": []}', stored.replace(b'{"garden": 30}', b'{"garden": "many"}')):
        kept.write_bytes(broken)
        assert EmbeddedQdrant(tmp_path).counts("level_1") == {"garden": 30}
    with EmbeddedQdrant(tmp_path).open("level_1", SIZE) as collection:
        collection.delete(points(30, "garden")[0][:29])
    # As another program could leave it: the counts are of other files.
    kept.write_bytes(stored)
    assert EmbeddedQdrant(tmp_path).counts("level_1") == {"garden": 1}


def filled(folder):
    store = EmbeddedQdrant(folder)
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
    return store


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        ("edge_config.json", "truncated"),
        ("edge_config.json", "missing"),
        ("segments/*/segment.json", "truncated"),
        ("segments/*/payload_storage/page_0.dat", "missing"),
        # These make the engine panic.
        ("segments/*/vector_storage/tq_vectors/status.dat", "truncated"),
        ("segments/*/payload_index/*-corpus-map/tracker.dat", "overwritten"),
    ],
)
@pytest.mark.parametrize("use", ["open", "counts"])
def test_damaged_embedded_collection_is_discarded_with_a_clear_error(tmp_path, pattern, damage, use):
    store = filled(tmp_path)
    (file,) = (tmp_path / "level_1").glob(pattern)
    if damage == "truncated":
        os.truncate(file, file.stat().st_size // 2)
    elif damage == "missing":
        file.unlink()
    else:
        with file.open("r+b") as stream:
            stream.write(np.random.default_rng(0).bytes(4096))
    with pytest.raises(
        MogError, match=r"collection 'level_1' was damaged \(.+\) and has been discarded: run `mog run`"
    ):
        if use == "counts":
            store.counts("level_1")
        else:
            with store.open("level_1", SIZE) as collection:
                collection.ids("garden")
    assert store.counts("level_1") == {}
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
        assert collection.count("garden") == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["level_1", "level_1.lock"]


def test_error_within_an_open_collection_is_no_damage(tmp_path):
    store = filled(tmp_path)
    with pytest.raises(Exception, match="^mine$"), store.open("level_1", SIZE):
        raise Exception("mine")
    assert store.counts("level_1") == {"garden": 5}


def test_collection_whose_making_was_interrupted_is_made_again(tmp_path):
    (tmp_path / ".tmp-level_1" / "wal").mkdir(parents=True)
    store = filled(tmp_path)
    assert store.counts("level_1") == {"garden": 5}
    assert not (tmp_path / ".tmp-level_1").exists()


WRITER = """
import os, signal, sys, numpy as np
from pathlib import Path
sys.path[:0] = ["tests/harness", "tests/plugins/qdrant"]
from test_qdrant import SIZE, points
from mog_assets.plugins.qdrant.store import EmbeddedQdrant
with EmbeddedQdrant(Path(sys.argv[1])).open("level_1", SIZE) as collection:
    collection.upsert(*points(5, "flushed"))
with EmbeddedQdrant(Path(sys.argv[1])).open("level_1", SIZE) as collection:
    collection.upsert(*points(7, "pending"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_writer_loses_no_flushed_point(tmp_path):
    killed = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    store = EmbeddedQdrant(tmp_path, lock_seconds=0.1)
    assert store.counts("level_1")["flushed"] == 5
    # What was not flushed is there whole or is counted as missing.
    with store.open("level_1", SIZE) as collection:
        assert len(collection.ids("pending")) == store_count(collection) <= 7


def store_count(collection):
    return collection.count("pending")


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
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "garden"))
        (small_disk / "other").write_bytes(bytes(100 << 20))
        with pytest.raises(
            MogError, match=r"no room to write .*level_1: expected at least 67108864 bytes, \d+ are free"
        ):
            collection.upsert(*points(5, "sky"))
    assert store.counts("level_1") == {"garden": 5}
    with pytest.raises(MogError, match="no room to write .*level_2"), store.open("level_2", SIZE):
        pass
    (small_disk / "other").unlink()
    with store.open("level_1", SIZE) as collection:
        collection.upsert(*points(5, "sky"))
    assert store.counts("level_1") == {"garden": 5, "sky": 5}


def test_unreachable_server_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    store = connect(tmp_path)
    assert store.place == "Qdrant server at http://127.0.0.1:9"
    with (
        pytest.raises(
            MogError,
            match=r"QDRANT_URL: a request to the Qdrant server at http://127\.0\.0\.1:9 failed .*unset QDRANT_URL",
        ),
        store.open("level_1", SIZE),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_the_variable_the_engine_is_embedded(tmp_path, monkeypatch):
    monkeypatch.delenv("QDRANT_URL", raising=False)
    assert isinstance(connect(tmp_path), EmbeddedQdrant)


# Payloads


def nested(levels):
    value = "end"
    for _ in range(levels):
        value = {"in": value}
    return value


def test_what_is_storable_is_given_back_as_it_was_by_a_collection_that_is_opened_again(store):
    values = {
        "deep": nested(99),
        "numbers": [2**64 - 1, -(2**63), 1e308, 5e-324, -0.5, True, None],
        "": {"a.b[0]": ["\0", "\u202e", "\U0001f600"]},
        "full": "x" * 9_000,
    }
    kept, left_out = storable(values)
    assert (kept, left_out) == (values, {})
    ids, vectors, payloads = points(2, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, [{**payload, "metadata": kept} for payload in payloads])
    with store.open("level_1", SIZE) as collection:
        assert collection.payloads("garden", ["metadata"]) == {identity: {"metadata": values} for identity in ids}


def test_what_an_engine_would_refuse_or_change_is_not_storable():
    wrong = {
        "deep": nested(101),
        "endless": nested(50_000),
        "long": [10**310],
        "above": 2**64,
        "below": {"x": -(2**63) - 1},
        "infinite": float("inf"),
        "half": {"\ud800": 1},
        "bytes": b"x",
        "large": "x" * 10_000,
        "k" * 10_000: 1,
    }
    kept, left_out = storable({"by": "me", **wrong, "n": 1})
    assert kept == {"by": "me", "n": 1}
    assert left_out.keys() == wrong.keys()
    assert left_out["deep"] == left_out["endless"] == "expected at most 100 levels of nesting, got more"
    assert left_out["long"] == left_out["above"] == "expected integers of 64 bits, got a larger one"
    assert left_out["large"].startswith("expected at most 10,000 bytes of metadata, got 10,0")


# Topics: payloads that are set after vectors, and searches within them.


def with_topics(n, corpus, seed=0):
    ids, vectors, payloads = points(n, corpus, seed)
    return (
        ids,
        vectors,
        payloads,
        [{"topic": i % 3 - 1, "label": f"label {i % 3}", "probability": 0.25} for i in range(n)],
    )


def test_payload_is_set_beside_what_is_there_and_read_back(store):
    ids, vectors, payloads, topics = with_topics(1200, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.set_payload(ids[:1100], topics[:1100])
        collection.set_payload(ids[:1], [{"label": "another"}])
    with store.open("level_1", SIZE) as collection:
        held = collection.payloads("garden", ["topic", "label", "probability", "chunk"])
        assert collection.payloads("sky", ["topic"]) == {}
        assert collection.search("garden", vectors[5:6], 1)[0][0][0] == ids[5]
    assert held[ids[0]] == {"chunk": 0, **topics[0], "label": "another"}
    assert held[ids[1099]] == {"chunk": 1099, **topics[1099]}
    assert held[ids[1100]] == {"chunk": 1100}
    assert len(held) == 1200


def test_upsert_of_a_point_replaces_its_payload(store):
    ids, vectors, payloads, topics = with_topics(3, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.set_payload(ids, topics)
        collection.upsert(ids[:1], vectors[:1], payloads[:1])
        held = collection.payloads("garden", ["topic"])
    assert held == {ids[0]: {}, ids[1]: {"topic": 0}, ids[2]: {"topic": 1}}


def test_points_with_a_topic_are_counted_per_corpus(store):
    ids, vectors, payloads, topics = with_topics(9, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.upsert(*points(4, "sky", 1))
    assert store.counts("level_1", with_topic=True) == {}
    with store.open("level_1", SIZE) as collection:
        collection.set_payload(ids[:7], topics[:7])
    assert store.counts("level_1", with_topic=True) == {"garden": 7}
    assert store.counts("level_1") == {"garden": 9, "sky": 4}


def test_search_is_exact_within_the_topic_of_each_query(exact_store):
    store = exact_store
    ids, vectors, payloads, topics = with_topics(300, "garden")
    sky = with_topics(300, "sky", 1)
    queries = points(70, "queries", 2)[1]
    where = [None if i % 4 == 3 else {"topic": i % 4 - 1} for i in range(70)]
    with store.open("level_1", SIZE) as collection:
        for identities, rows, bare, found in ((ids, vectors, payloads, topics), sky):
            collection.upsert(identities, rows, bare)
            collection.set_payload(identities, found)
        found = collection.search("garden", queries, 5, where)
        both = collection.search("garden", queries[:1], 300, [{"topic": 1, "label": "label 2"}])[0]
        neither = collection.search("garden", queries[:1], 300, [{"topic": 1, "label": "label 1"}])[0]
    similarity = queries @ vectors.T
    of = np.array([t["topic"] for t in topics])
    for row, hits in enumerate(found):
        allowed = np.ones(300, bool) if where[row] is None else of == where[row]["topic"]
        expected = np.argsort(-np.where(allowed, similarity[row], -2))[:5]
        assert [i for i, _ in hits] == [ids[j] for j in expected]
    assert len(both) == 100 and neither == []


def test_search_in_a_topic_without_points_finds_nothing_and_in_a_lost_corpus_fails(store):
    ids, vectors, payloads, topics = with_topics(5, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, vectors, payloads)
        collection.set_payload(ids, topics)
        assert collection.search("garden", vectors[:2], 5, [{"topic": 7}, {"topic": 1}])[0] == []
        with pytest.raises(MissingArtefact, match="has no points of corpus sky"):
            collection.search("sky", vectors[:2], 5, [{"topic": 1}, None])


def test_server_is_asked_for_indexes_of_all_that_is_filtered_by(monkeypatch):
    client, made = QdrantClient(":memory:"), []
    monkeypatch.setattr(client, "create_payload_index", lambda name, key, schema: made.append((name, key)))
    with QdrantServer("memory", client=client).open("level_1", SIZE):
        pass
    assert made == [("level_1", key) for key in ("corpus", "topic", "path", "page")]
