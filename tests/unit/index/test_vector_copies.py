"""Vectors lie on disk once: in an artefact, or in the encoder's cache if no artefact holds them."""

import os
import sqlite3

import numpy as np
import pytest
from incremental import HERON, NEWT, OTTER, Project, nothing_is_drawn  # noqa: F401

from mog_assets.index.encoding import bucket_texts
from mog_assets.index.layouts import bucket_layout
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.files import interrupt_with
from mog_assets.resources.vector_cache import VectorCache, lookup, text_hashes

pytestmark = pytest.mark.full


@pytest.fixture
def ponds(tmp_path):
    """A file of four documents and a folder of one, built, with a cache of its own."""
    project = Project(tmp_path / "ponds", Encoder(EncoderSettings(), tmp_path / "cache"))
    for name, text in {"a": HERON, "b": OTTER, "c": HERON + OTTER, "d": OTTER + HERON}.items():
        project.put("file", name, text, title="Ponds")
    project.put("folder", "e", NEWT)
    project.run()
    return project


def cached(project):
    with sqlite3.connect(VectorCache(project.encoder.cache, project.encoder.fingerprint).path) as cache:
        return {bytes(key) for (key,) in cache.execute("SELECT key FROM vectors")}


def held(project):
    """Key and vector of every text in the artefacts of level 1."""
    found = {}
    for corpus in ("file", "folder"):
        stored = project.stored("embeddings/level_1", corpus)
        for name in stored.names("texts-"):
            rows = zip(np.load(stored.path(name)), np.load(stored.path(name.removeprefix("texts-"))), strict=True)
            found |= {bytes(key): vector.tobytes() for key, vector in rows}
    return found


def encoded(project):
    before = project.encoder.encoded
    project.run()
    return project.encoder.encoded - before


def test_vectors_of_an_artefact_are_in_no_cache(ponds):
    assert held(ponds) and not cached(ponds)
    ponds.put("file", "a", HERON + "The kingfisher dives. ", title="Ponds")
    before = set(held(ponds))
    assert encoded(ponds) == len(set(held(ponds)) - before) > 0
    # What the edit removed, and nothing else.
    assert cached(ponds) == before - set(held(ponds))


def test_hashes_beside_vectors_are_those_of_their_texts(ponds):
    keys, fresh = held(ponds), Encoder(EncoderSettings())
    stored, spans = (ponds.stored(key, "folder") for key in ("documents", "chunks/level_1"))
    assert stored.names("bucket")
    for name in stored.names("bucket"):
        own = bucket_texts(stored.path(name), bucket_layout(stored.path(name), spans.path(name)), 1)
        for key, vector in zip(text_hashes(own), fresh.encode(own), strict=True):
            assert keys[bytes(key)] == vector.tobytes()


@pytest.mark.parametrize(
    ("other", "own"), [({"finest_chars": 100}, {"finest_chars": 60}), ({"encoder": {"max_length": 8}}, {"encoder": {}})]
)
def test_a_setting_that_changes_and_changes_back_encodes_nothing_again(ponds, other, own):
    before = held(ponds)
    ponds.set(**other)
    assert encoded(ponds) > 0
    ponds.set(**own)
    assert encoded(ponds) == 0
    assert held(ponds) == before


def test_a_document_that_moves_to_a_corpus_that_is_built_later_is_not_encoded_again(tmp_path):
    project = Project(tmp_path / "ponds", Encoder(EncoderSettings(), tmp_path / "cache"))
    project.put("file", "a", HERON)
    project.put("file", "b", OTTER)
    project.put("folder", "e", NEWT)
    project.put("folder", "f", "A moorhen nests among the reeds.")
    project.run()
    # A file of the folder has a title of its own: only what has the same text and title is the same.
    wanted = held(project)
    document = project.take("file", "b")
    project.put("folder", "b", document["text"])
    project.run()
    again = held(project)
    assert {key: again[key] for key in wanted.keys() & again.keys()} == {
        key: wanted[key] for key in wanted.keys() & again.keys()
    }
    assert project.encoder.encoded == len(wanted.keys() | again.keys())


@pytest.mark.parametrize("point", ["vectors cached", "file moved", "manifest moved"])
def test_an_interrupted_run_encodes_nothing_twice(ponds, monkeypatch, point):
    before, compute, computed = set(held(ponds)), ponds.encoder.model._group_vectors, []
    monkeypatch.setattr(
        ponds.encoder.model, "_group_vectors", lambda *group: computed.extend(group[0]) or compute(*group)
    )
    for name in "abcd":
        ponds.put("file", name, ponds.documents["file"][name]["text"] + f"The kingfisher {name} dives. ", title="Ponds")
    for occurrence in range(1, 12, 2):
        ponds.run(at=(point, occurrence))
    interrupt_with(None)
    ponds.run()
    assert len(computed) == len(set(held(ponds)) - before) > 0
    assert not cached(ponds) & set(held(ponds))


def test_damaged_vectors_do_not_get_into_the_cache(ponds):
    stored = ponds.stored("embeddings/level_1", "file")
    right, damaged = held(ponds), []
    for name in stored.names("bucket"):
        path = stored.path(name)
        if path.stat().st_size > 1000:
            data, times = bytearray(path.read_bytes()), path.stat()
            data[-5] ^= 64
            path.write_bytes(data)
            # As a disk does it: the time of the file stays.
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            damaged.append(name)
    assert damaged
    for name in "abcd":
        ponds.put("file", name, "A moorhen nests. " + ponds.documents["file"][name]["text"], title="Ponds")
    ponds.run()
    again = held(ponds)
    assert all(again[key] == right[key] for key in right.keys() & again.keys())
    ponds.set(finest_chars=100)
    ponds.run()
    ponds.set(finest_chars=60)
    ponds.run()
    assert held(ponds) == again


def test_cache_stays_within_its_bytes(tmp_path):
    cache, keys = VectorCache(tmp_path, "abc"), text_hashes(f"text {n}" for n in range(5000))
    vectors = np.random.default_rng(0).normal(size=(5000, 384)).astype(np.float16)

    def there():
        with cache.open() as opened:
            return {key for key, _ in lookup(opened, list(map(bytes, keys)))}

    cache.drop(keys, 0)
    assert not cache.path.exists()
    cache.add(keys, vectors)
    assert len(there()) == 5000
    full = cache.path.stat().st_size
    cache.drop(keys[:1000], 1 << 30)
    assert there() == set(map(bytes, keys[1000:]))
    most = 1000 * (32 + 768)
    cache.drop(keys[:0], most)
    assert len(there()) == 1000
    assert cache.path.stat().st_size < full / 3


def test_the_cache_of_questions_that_are_encoded_otherwise_stays_within_its_limit(tmp_path):
    settings = EncoderSettings(query_prompt="query: ", cache_mb=1)
    project = Project(tmp_path / "ponds", Encoder(settings, tmp_path / "cache"))
    project.put("file", "a", HERON, title="Ponds")
    project.put("folder", "e", NEWT)
    questions = project.encoder.questions
    assert questions is not project.encoder
    cache = VectorCache(tmp_path / "cache", questions.fingerprint)
    cache.add(
        np.random.default_rng(0).integers(0, 256, (2000, 32), np.uint8), np.ones((2000, questions.size), np.float16)
    )
    project.run()
    with sqlite3.connect(cache.path) as opened:
        # A vector takes 800 bytes with its key, and a MiB is 1,048,576.
        assert opened.execute("SELECT count(*) FROM vectors").fetchone()[0] == 1_048_576 // 800
