"""What a changed document touches, and that an updated project equals one built from nothing."""

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, event, example, given, note, seed, settings
from hypothesis import strategies as st
from incremental import (  # noqa: F401 (fixtures)
    HERON,
    IN_MEMORY,
    NEWT,
    OTTER,
    Project,
    corpora,
    encoder,
    folder,
    nothing_is_drawn,
    title_of,
    two_corpora,
)
from shared import copy_folder, examples

from mog_assets.build.materialising import is_fresh
from mog_assets.documents.documents import into_buckets, write_documents
from mog_assets.documents.reading import read_corpus
from mog_assets.index.layouts import open_layout
from mog_assets.index.tokens import count_bucket
from mog_assets.registry import VECTOR_STORES
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.files import POINTS
from mog_assets.text.chunkers import split_bucket

# Whether a vector store has points; its plugin adds to `POINTS` when it is read.
POINTED = bool(VECTOR_STORES)
TEXTS = [HERON, OTTER, NEWT, HERON + OTTER, NEWT + HERON + "Both like ponds.", OTTER * 3, "The of and."]


def assert_equal_to_a_rebuild(project):
    """Everything of a project is, byte for byte, what another home gets from nothing."""
    other = Project(project.folder, project.encoder, "rebuilt", **project.options)
    shutil.rmtree(other.settings.home, ignore_errors=True)
    other.run()
    for recipe, corpus, recipes in project.places():
        label = f"{recipe.key} of {corpus}"
        ours, theirs = project.stored(recipe.key, corpus), other.stored(recipe.key, corpus)
        assert project.files(recipe.key, corpus) == other.files(recipe.key, corpus), label
        assert ours.manifest.version == theirs.manifest.version, label
        assert ours.manifest.counts == theirs.manifest.counts, label
        assert project.tools.store.verify(ours) == [], label
        assert is_fresh(recipe, corpus, project.tools, recipes), label
    assert project.scores() == other.scores()
    assert project.passages() == other.passages()
    assert project.points() == other.points()


# The property


# Another one every time; a failure prints it with the example.
SEED = int(os.environ.get("MOG_TEST_SEED") or random.SystemRandom().randrange(2**32))
NAMES = st.sampled_from("abcd")
CORPORA = st.sampled_from(["file", "folder"])
# The first is what it was at the start; the second gives the same vectors of short texts.
SAME = {"max_length": 300}
ENCODERS = st.sampled_from([{"max_length": 256}, SAME, {"max_length": 8}])
CHANGES = st.one_of(
    st.tuples(st.just("put"), CORPORA, NAMES, st.sampled_from(TEXTS)),
    st.tuples(st.just("remove"), CORPORA, NAMES),
    st.tuples(st.just("rename"), CORPORA, NAMES, NAMES),
    st.tuples(st.just("move"), CORPORA, NAMES),
    st.tuples(st.just("bring back"), CORPORA, NAMES),
    st.tuples(st.just("set"), st.just("encoder"), ENCODERS),
    st.tuples(st.just("set"), st.just("finest_chars"), st.sampled_from([60, 90])),
)
# A number that a run does not come to leaves it uninterrupted.
INTERRUPTIONS = st.tuples(st.sampled_from(sorted(POINTS)), st.sampled_from([1, 2, 3, 5, 8, 13]))


def change(project, removed, kind, corpus, name, *more):
    """Apply a change to the settings, or to the sources where it can be: a corpus always keeps a document."""
    if kind == "set":
        project.set(**{corpus: name})
        event(f"set {corpus}")
        return
    here, there = project.documents[corpus], {"file": "folder", "folder": "file"}[corpus]
    if kind == "put":
        project.put(corpus, name, more[0], title=title_of(more[0]))
    elif kind == "bring back" and (corpus, name) in removed:
        project.put(corpus, name, removed[corpus, name])
    elif kind == "rename" and name in here and more[0] not in here:
        project.put(corpus, more[0], project.take(corpus, name)["text"])
    elif kind in ("remove", "move") and name in here and len(here) > 1:
        removed[corpus, name] = project.take(corpus, name)["text"]
        if kind == "move":
            project.put(there, name, removed[corpus, name])
    else:
        return
    event(kind)


@given(
    INTERRUPTIONS, st.lists(st.tuples(st.lists(CHANGES, min_size=1, max_size=3), INTERRUPTIONS), min_size=2, max_size=3)
)
# Interrupted with points of the edit in Qdrant, then undone: the manifests of before hold again, the points do not.
@example(None, [([("put", "file", "a", OTTER)], ("points upserted", 1)), ([("put", "file", "a", HERON)], None)])
@example(None, [([("remove", "folder", "a")], ("points deleted", 1)), ([("bring back", "folder", "a")], ("swept", 1))])
# Settings of the encoder that change every vector, then others, which change none of most texts.
@example(None, [([("set", "encoder", {"max_length": 8})], ("points upserted", 1)), ([("set", "encoder", SAME)], None)])
@example(("points flushed", 1), [([("move", "file", "b"), ("rename", "folder", "a", "c")], ("manifest moved", 2))])
@seed(SEED)
@settings(
    max_examples=examples(1),
    deadline=None,
    print_blob=True,
    derandomize=False,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_changes_interrupted_anywhere_end_as_a_rebuild_from_nothing(encoder, first, steps):
    note(f"seed: run again with MOG_TEST_SEED={SEED}")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        project = two_corpora(Path(folder), encoder)
        project.run(first)
        removed = {}
        for changes, at in steps:
            for one in changes:
                change(project, removed, *one)
            event("interrupted" if project.run(at) is None else "not interrupted")
        assert project.run() is not None
        assert project.run() == {}
        assert_equal_to_a_rebuild(project)


# What a change costs


@pytest.fixture(scope="module")
def built(tmp_path_factory, encoder):
    """A file of six documents and a folder of one, built, without questions."""
    project = Project(tmp_path_factory.mktemp("ponds"), encoder)
    texts = {"a": HERON, "b": OTTER, "c": NEWT, "d": HERON + OTTER, "e": OTTER + NEWT, "f": NEWT + HERON + OTTER}
    for name, text in texts.items():
        project.put("file", name, text, title="Ponds")
    project.put("folder", "a", NEWT)
    project.run()
    return project


@pytest.fixture
def ponds(built, folder, encoder):
    """A copy of what was built."""
    return built.copied(folder / "ponds", encoder)


def chunk_texts(project, corpus, level):
    """Counter of (document, text) of the chunks of a level."""
    texts = {}
    stored = project.stored("documents", corpus)
    for name in stored.names("bucket"):
        texts |= {row["id"]: row["text"] for row in pq.read_table(stored.path(name)).to_pylist()}
    layout = open_layout(corpus, stored, project.stored("chunks/level_1", corpus))
    spans = zip(*(column.tolist() for column in layout.chunk_spans(np.arange(layout.count(level)), level)), strict=True)
    names = layout.documents
    return Counter((names[document], texts[names[document]][start:end]) for document, start, end in spans)


def test_an_edit_recomputes_its_document_alone(ponds):
    before = chunk_texts(ponds, "file", 1)
    ponds.put("file", "f", NEWT + HERON + "The kingfisher dives. " + OTTER, title="Ponds")
    recomputed = ponds.run()
    after = chunk_texts(ponds, "file", 1)
    assert recomputed["chunks/level_1"] == {"documents split": 1, "documents unchanged": 5}
    assert recomputed["tokens"] == {"documents tokenised": 1, "documents unchanged": 5}
    known = {text for _, text in before}
    new = {text for _, text in after} - known
    assert recomputed["embeddings/level_1"] == {"texts encoded": len(new)} and new
    assert set(document for document, _ in after - before) == {"f"}
    if POINTED:
        upserted, deleted = (after - before).total(), (before - after).total()
        counted = recomputed["qdrant"]
        # A chunk whose text is the same and lies elsewhere in the document is another point.
        assert counted["points upserted"] - counted["points deleted"] == upserted - deleted
        assert upserted <= counted["points upserted"] <= sum(n for (d, _), n in after.items() if d == "f")
    assert_equal_to_a_rebuild(ponds)


def test_an_added_and_a_removed_document_touch_their_own_points_alone(ponds):
    ponds.put("file", "g", "A moorhen nests among the reeds.", title="Ponds")
    recomputed = ponds.run()
    assert recomputed["chunks/level_1"] == {"documents split": 1, "documents unchanged": 6}
    assert recomputed["tokens"] == {"documents tokenised": 1, "documents unchanged": 6}
    if POINTED:
        assert recomputed["qdrant"] == {"points upserted": 1, "points deleted": 0}
    ponds.take("file", "g")
    recomputed = ponds.run()
    assert recomputed["chunks/level_1"]["documents split"] == recomputed["tokens"]["documents tokenised"] == 0
    assert recomputed["embeddings/level_1"] == {"texts encoded": 0}
    if POINTED:
        assert recomputed["qdrant"] == {"points upserted": 0, "points deleted": 1}


def test_a_renamed_document_is_not_encoded_again(ponds):
    document = ponds.take("file", "d")
    ponds.put("file", "z", **document)
    recomputed = ponds.run()
    assert recomputed["embeddings/level_1"] == {"texts encoded": 0}
    if POINTED:
        counted = recomputed["qdrant"]
        assert counted["points upserted"] == counted["points deleted"] > 0
    assert_equal_to_a_rebuild(ponds)


def test_other_metadata_rewrites_nothing_that_follows_from_texts(ponds):
    keys = ("chunks/level_1", "tokens", "bm25/level_1", "neighbours", "embeddings/level_1", "embeddings/level_2")
    before = {key: ponds.stored(key, "file").manifest.files for key in keys}
    ponds.put("file", "c", NEWT, title="Ponds", metadata={"seen": "2024"})
    recomputed = ponds.run()
    assert "documents" in recomputed
    assert {key: ponds.stored(key, "file").manifest.files for key in keys} == before
    assert recomputed["chunks/level_1"] == {"documents split": 0, "documents unchanged": 6}


def test_an_untouched_corpus_is_not_built(ponds):
    def manifests():
        return {recipe.key: ponds.stored(recipe.key, "file").manifest for recipe, corpus, _ in ponds.places() if corpus}

    before = manifests()
    ponds.put("folder", "a", HERON)
    assert "documents" in ponds.run()
    assert manifests() == before


@pytest.mark.parametrize("as_a_disk_does_it", [False, True])
def test_damaged_rows_are_not_reused(ponds, as_a_disk_does_it):
    from mog_assets.documents.documents import bucket_of

    name = f"bucket_{bucket_of('c', 2):04d}.parquet"
    path = ponds.stored("chunks/level_1", "file").path(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    before = path.stat()
    path.write_bytes(content)
    if as_a_disk_does_it:
        # The time of the file stays: nothing but its checksum tells.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ponds.put("file", "c", NEWT + OTTER, title="Ponds")
    bucket = sum(bucket_of(document, 2) == bucket_of("c", 2) for document in ponds.documents["file"])
    assert ponds.run()["chunks/level_1"]["documents split"] == bucket > 1
    assert_equal_to_a_rebuild(ponds)


@pytest.mark.whole
@pytest.mark.parametrize("point", ["points upserted", pytest.param("points deleted", marks=pytest.mark.full)])
def test_an_interrupted_change_of_points_goes_on_where_it_stopped(ponds, monkeypatch, point):
    from mog_assets.plugins.qdrant import collections, embedded

    for module in (collections, embedded):
        monkeypatch.setattr(module, "UPSERT_BATCH", 2)
    for name in "def":
        ponds.put("file", name, "The kingfisher dives. " + ponds.documents["file"][name]["text"], title="Ponds")
    wanted = SimpleNamespace(folder=ponds.folder / "uninterrupted")
    copy_folder(ponds.settings.home, wanted.folder)
    assert ponds.run((point, 2)) is None
    undisturbed = Project(ponds.folder, ponds.encoder, "uninterrupted").run()["qdrant"]
    rest = ponds.run()["qdrant"]
    whole = {"points upserted": undisturbed["points upserted"], "points deleted": undisturbed["points deleted"]}
    whole[point] -= 4
    # New points are written before old ones go.
    if point == "points deleted":
        whole["points upserted"] = 0
    assert rest == whole
    assert_equal_to_a_rebuild(ponds)


@pytest.mark.whole
def test_another_encoder_replaces_every_point(ponds):
    before = ponds.points()
    ponds.encoder = Encoder(EncoderSettings(max_length=8), ponds.folder / "vectors")
    ponds.settings = ponds.settings.model_copy(update={"encoder": ponds.encoder.settings})
    recomputed = ponds.run()
    after = ponds.points()
    assert before.keys() == after.keys() == {"mog_file", "mog_folder"}
    assert all(before[name].keys().isdisjoint(after[name]) for name in before)
    upserted, deleted = (sum(map(len, points.values())) for points in (after, before))
    assert recomputed["qdrant"] == {"points upserted": upserted, "points deleted": deleted}


# Rows of buckets


@given(corpora, corpora)
@settings(deadline=None, max_examples=40)
def test_reused_rows_are_byte_for_byte_those_computed_from_nothing(earlier, later):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        root = Path(folder)
        made = {}
        for state, held in (("earlier", earlier), ("later", later)):
            lines = [json.dumps({"id": i, "title": title, "text": text}) for i, (title, text) in held.items()]
            (root / f"{state}.jsonl").write_text("\n".join(lines), encoding="utf-8")
            documents = into_buckets(read_corpus(root / f"{state}.jsonl").documents, 1)[0]
            paths = {kind: str(root / f"{state}-{kind}") for kind in ("documents", "spans", "terms")}
            write_documents(documents, Path(paths["documents"]))
            split_bucket(paths["documents"], paths["spans"], "sentences", 60)
            count_bucket(paths["documents"], paths["spans"], paths["terms"])
            made[state] = paths, {(title, text) for title, text in held.values()}
        (old, had), (new, has) = made["earlier"], made["later"]
        again = [str(root / kind) for kind in ("spans", "terms")]
        changed = sum((title, text) not in had for title, text in later.values())
        assert split_bucket(new["documents"], again[0], "sentences", 60, old["spans"]) == changed
        assert count_bucket(new["documents"], again[0], again[1], old["terms"]) == changed
        assert Path(again[0]).read_bytes() == Path(new["spans"]).read_bytes()
        assert Path(again[1]).read_bytes() == Path(new["terms"]).read_bytes()
        assert has or not later
