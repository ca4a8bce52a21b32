"""One contract for the embedded engine and for a server."""

import uuid

import numpy as np
import pytest
from qdrant_client import QdrantClient

from mog_assets.errors import MogError
from resources.qdrant import EmbeddedQdrant, QdrantServer, connect

SIZE = 16
# Local mode of the client stands in for a server; it has no payload indexes and says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]


@pytest.fixture(params=["embedded", "server"])
def store(request, tmp_path):
    if request.param == "embedded":
        return EmbeddedQdrant(tmp_path)
    return QdrantServer("memory", client=QdrantClient(":memory:"))


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


def test_points_are_there_when_opened_again(store):
    ids, *rest = points(10, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, *rest)
    with store.open("level_1", SIZE) as collection:
        assert collection.ids("garden") == set(ids)


def test_batches_lose_nothing(store):
    ids, *rest = points(2500, "garden")
    with store.open("level_1", SIZE) as collection:
        collection.upsert(ids, *rest)
        assert collection.count("garden") == 2500
        collection.delete(ids[:1200])
        assert collection.ids("garden") == set(ids[1200:])


def test_search_is_exact_and_within_one_corpus(store):
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


def test_search_gives_what_there_is(store):
    ids, vectors, payloads = points(3, "garden")
    with store.open("level_1", SIZE) as collection:
        assert collection.search("garden", vectors[:1], 5) == [[]]
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
    import os

    with (
        EmbeddedQdrant(tmp_path).open("level_1", SIZE),
        pytest.raises(MogError, match=f"collection 'level_1' .* by process {os.getpid()}"),
        EmbeddedQdrant(tmp_path, lock_seconds=0.1).open("level_1", SIZE),
    ):
        pass


def test_unreachable_server_is_an_error_that_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    store = connect(tmp_path)
    assert store.place == "Qdrant server at http://127.0.0.1:9"
    with (
        pytest.raises(MogError, match=r"QDRANT_URL: the Qdrant server at http://127\.0\.0\.1:9 .*unset QDRANT_URL"),
        store.open("level_1", SIZE),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_the_variable_the_engine_is_embedded(tmp_path, monkeypatch):
    monkeypatch.delenv("QDRANT_URL", raising=False)
    assert isinstance(connect(tmp_path), EmbeddedQdrant)
