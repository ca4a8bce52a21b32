"""Topics: what is found, when it is found again, and what every chunk and its point is given."""

import multiprocessing
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from shared import copy_folder

from mog_assets import config
from mog_assets.build.materialising import is_fresh, materialise
from mog_assets.build.plan import graph
from mog_assets.build.tools import Tools
from mog_assets.index import chunk_assets
from mog_assets.index.corpora import Corpora
from mog_assets.index.encoding import vector_buckets
from mog_assets.index.layouts import open_layout
from mog_assets.papers.topics import assets, checks, model
from mog_assets.papers.topics import fitting as topic_fitting
from mog_assets.papers.topics.assign import document_topics, read_topics
from mog_assets.papers.topics.model import OUTLIER, TopicModel, open_model
from mog_assets.papers.topics.settings import TopicSettings
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.publishing import remove
from mog_assets.resources.sets import open_set
from mog_assets.search.where import Fields

pytestmark = pytest.mark.full

WORDS = {
    "sky": "telescope galaxy planet comet orbit nebula asteroid moon star eclipse meteor astronomer",
    "bread": "flour yeast dough oven loaf sourdough baker crust knead rye bake starter",
    "law": "court judge lawyer verdict appeal statute jury trial lawsuit prosecutor plaintiff hearing",
}
VOCABULARIES = {name: words.split() for name, words in WORDS.items()}
DOCUMENTS = 12


def sentences(words, seed, number=6):
    chosen = random.Random(seed)
    return " ".join(
        "The {} and the {} come with a {} near the {}.".format(*chosen.sample(words, 4)) for _ in range(number)
    )


def majority(topics):
    topics = np.asarray(topics)
    return int(np.bincount(topics[topics != OUTLIER]).argmax())


def planted():
    return {f"{name}{i}": sentences(words, i) for name, words in VOCABULARIES.items() for i in range(DOCUMENTS)}


@pytest.fixture(scope="module")
def fitting():
    """One further process for all fits: UMAP's functions are compiled once, and none of its threads are here."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        yield lambda arguments: pool.submit(topic_fitting.fit_buckets, **arguments).result()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Encoder(EncoderSettings(), tmp_path_factory.mktemp("vectors"))


@pytest.fixture(autouse=True, scope="module")
def no_histogram_is_drawn():
    """They take most of the time, and are no part of this."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunk_assets, "length_histogram", lambda *_: b"")
        yield


class Project:
    """Corpora `one` (all planted documents but the last of each topic) and `two` (those)."""

    def __init__(self, folder, write, encoder):
        self.folder, self.write, self.encoder = folder, write, encoder
        self.settings = config.load(folder / "mog.yaml")
        self.recipes = graph(self.settings)

    @property
    def tools(self):
        tools = Tools(self.settings)
        vars(tools)["encoder"] = self.encoder
        return tools

    def put(self, corpus, documents):
        self.write(self.folder / f"{corpus}.jsonl", sorted(documents.items()))

    def make(self, key, corpus=None, force=False):
        return materialise(self.recipes[key], corpus, self.tools, self.recipes, force=force)

    def index(self, corpus):
        """What topics of a corpus are made from."""
        for key in self.recipes:
            if key.startswith(("documents", "chunks", "embeddings")):
                self.make(key, corpus)

    def run(self, force=False):
        """Bring everything up to date; returns the outcomes of the model and of what it gives each corpus."""
        for corpus in self.settings.corpora:
            self.index(corpus)
        fitted = self.make("topics/model", force=force)
        return fitted, {corpus: self.make("topics/assigned", corpus) for corpus in self.settings.corpora}

    def fresh(self, key, corpus=None):
        return is_fresh(self.recipes[key], corpus, self.tools, self.recipes)

    def model(self):
        return open_model(self.tools.store.read("topics/model"))

    def topics(self, corpus, level):
        """Topics of a corpus' chunks, by document."""
        read = self.tools.store.read
        layout = open_layout(corpus, read("documents", corpus), read("chunks/level_1", corpus))
        topics = read_topics(read("topics/assigned", corpus), level)
        offsets = layout.level_offsets(level)
        return {document: topics[offsets[i] : offsets[i + 1]].tolist() for i, document in enumerate(layout.documents)}

    def buckets(self):
        found = []
        for corpus in self.settings.corpora:
            for each in vector_buckets(partial(self.tools.store.read, partition=corpus), 2):
                found.append(asdict(model.Bucket(each.documents, each.spans, each.vectors, None, each.pooled)))
        return found


def halves(documents):
    last = {name: text for name, text in documents.items() if name.endswith(str(DOCUMENTS - 1))}
    return {name: text for name, text in documents.items() if name not in last}, last


@pytest.fixture(scope="module")
def built(tmp_path_factory, make_project, write_documents, encoder, fitting):
    """Materialised once. Not to be changed."""
    folder = tmp_path_factory.mktemp("topics")
    for corpus, documents in zip(("one", "two"), halves(planted()), strict=True):
        write_documents(folder / f"{corpus}.jsonl", sorted(documents.items()))
    values = {
        "corpora": {name: {"path": f"{name}.jsonl"} for name in ("one", "two")},
        "levels": 2,
        "finest_chars": 130,
        "buckets": 3,
        "topics": {"min_topic_size": 8, "sample": 500},
    }
    make_project(folder, values)
    project = Project(folder, write_documents, encoder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(assets, "fit_apart", fitting)
        project.fitted, project.assigned = project.run()
    return project


@pytest.fixture
def project(built, tmp_path, monkeypatch, fitting):
    """A copy of the project that is built."""
    monkeypatch.setattr(assets, "fit_apart", fitting)
    copy_folder(built.folder, tmp_path / "copy")
    return Project(tmp_path / "copy", built.write, built.encoder)


def test_planted_topics_are_found_and_named_by_their_words(built):
    topics = built.topics("one", 2)
    found = {}
    for name, words in VOCABULARIES.items():
        given = np.array([t for document, ts in topics.items() if document.startswith(name) for t in ts])
        found[name] = majority(given)
        assert (given == found[name]).mean() >= 0.8
        assert set(built.model().labels[found[name]].split(", ")) & set(words)
    assert len(set(found.values())) == 3


def test_question_gets_the_topic_of_the_chunks_it_is_about_and_none_where_none_is(built, encoder):
    questions = [f"Why does the {a} come with the {b} near a {c}?" for a, b, c, *_ in VOCABULARIES.values()]
    topics, probabilities = built.model().assign(encoder.encode([*questions, "How long does a goldfish live?"]))
    given = built.topics("one", 2)
    assert topics.tolist()[:3] == [
        majority([t for document, ts in given.items() if document.startswith(name) for t in ts])
        for name in VOCABULARIES
    ]
    assert topics[3] == OUTLIER and probabilities[3] == 0
    assert ((probabilities[:3] > 0.2) & (probabilities[:3] <= 1)).all()


def test_chunks_of_every_level_get_topics_of_their_own_vectors(built):
    read = built.tools.store.read
    for corpus in built.settings.corpora:
        for level in built.settings.level_range:
            found = vector_buckets(partial(read, partition=corpus), level)
            expected, _ = built.model().assign(np.concatenate([bucket.open() for bucket in found]))
            np.testing.assert_array_equal(read_topics(read("topics/assigned", corpus), level), expected)


def test_what_is_shown_has_labels_counts_and_shares_by_corpus(built):
    shown, counts = built.fitted.artefact.shown(), built.fitted.artefact.manifest.counts
    assert counts["topics"] == len(built.model().centroids) >= 3
    assert counts["sample"] == len(built.model().seen)
    assert 0.7 * counts["sample"] <= counts["sample: assigned as by HDBSCAN"] <= counts["sample"]
    assert built.model().labels[0] in shown["topics"]
    assert "share of one" in shown["topics"] and "share of two" in shown["topics"]
    assert built.fitted.artefact.manifest.info["fitted"] == "fitted: there was no model, or a damaged one"


def test_same_chunks_give_the_same_bytes_in_whatever_buckets(built, fitting, tmp_path):
    made = {
        "level": 2,
        "settings": built.settings.topics.model_dump(),
        "seed": built.settings.seed,
        "encoder": built.model().facts["encoder"],
        "made_by": built.model().facts["made_by"],
    }
    fitting({"buckets": built.buckets()[::-1], **made, "out": str(tmp_path / "again")})
    stored = built.tools.store.read("topics/model").path(model.MODEL)
    assert (tmp_path / "again").read_bytes() == stored.read_bytes()


def test_larger_corpora_are_sampled_by_their_vectors(built, fitting, tmp_path):
    settings = built.settings.topics.model_copy(update={"sample": 15}).model_dump()
    made = {"level": 2, "settings": settings, "seed": 0, "encoder": "e", "made_by": "m", "out": str(tmp_path / "out")}
    fitting({"buckets": built.buckets(), **made})
    found = model.decoded((tmp_path / "out").read_bytes(), tmp_path / "out")
    assert found.facts["sample"] == 15
    np.testing.assert_array_equal(found.seen, built.model().seen)


def test_nothing_stored_needs_pickle(built):
    folders = [built.tools.store.folder("topics/model"), built.tools.store.folder("topics/assigned", "one")]
    files = [path for folder in folders for path in folder.iterdir() if path.is_file() and path.name[0] != "."]
    assert {path.suffix for path in files} == {".json", ".safetensors", ".npy"}
    for path in files:
        if path.suffix == ".npy":
            assert np.load(path, allow_pickle=False).dtype.names == ("topic", "probability")
        elif path.suffix == ".safetensors":
            assert set(load_file(path)) == {"centroids", "thresholds", "seen"}


# What topics are called.


def test_equal_labels_of_topics_are_told_apart():
    words = [["oak", "ash", "elm"], ["oak", "ash", "yew"], [], ["oak"], ["oak"]]
    labels = ["Trees", "trees", "", "outlier", "outlier"]
    assert model.distinct(labels, words) == ["Trees (elm)", "trees (yew)", "topic 2", "outlier (2)", "outlier (3)"]


# Topics in filters.


def test_filters_find_documents_by_topic_label_and_probability(built):
    corpora = Corpora.open(built.tools.store.read, built.settings, ["one", "two"])
    fields = Fields(corpora)
    topics = [own for corpus in ("one", "two") for own in built.topics(corpus, 1).values()]
    labels = built.model().labels
    for topic in range(-1, len(labels) - 1):
        expected = [topic in own for own in topics]
        assert fields.mask({"topic": topic}).tolist() == expected
        assert fields.mask({"topic.label": labels[topic]}).tolist() == expected
    assert fields.mask({"topic": 0, "corpus": "two"}).sum() == sum(0 in own for own in topics[-3:])
    held = [row for corpus in ("one", "two") for row in expected_payloads(built, corpus, 1).items()]
    least = sorted(probability for _, (*_, probability) in held)[-10]
    high = {document for (document, _), (*_, probability) in held if probability >= least}
    assert 0 < len(high) < len(topics)
    assert fields.mask({"topic.probability": {"gte": least}}).sum() == len(high)


def test_filter_by_topics_that_are_missing_or_of_other_chunks_names_the_remedy(project):
    stale = Corpora.open(project.tools.store.read, project.settings, ["one", "two"])
    project.put("one", {"sky0": sentences(VOCABULARIES["law"], 77)})
    project.index("one")
    new = Corpora.open(project.tools.store.read, project.settings, ["one"])
    with pytest.raises(
        MissingArtefact, match=r"of corpus one, got topics/assigned .* of an earlier state: run `mog run`"
    ):
        document_topics(new)
    sources = [("documents", name) for name in ("one", "two")]
    opened = open_set(project.tools.store, sources, [("topics/assigned", name) for name in ("one", "two")])
    with pytest.raises(MissingArtefact, match=r"^topics/assigned of corpus one has not .*--select topics/assigned"):
        opened.read("topics/assigned", "one")
    assert opened.read("topics/assigned", "two").manifest
    remove(project.tools.store, "topics/assigned", "two")
    with pytest.raises(MissingArtefact, match=r"where.topic: expected topics of corpus two, got none: .*run `mog run`"):
        document_topics(stale)


# The model, by hand.


def by_hand(thresholds=(0.9, 0.5)):
    facts = {"words": [["ash", "oak"], ["sea"]], "size": [3, 4], "encoder": "e"}
    return TopicModel(np.eye(2, 4, dtype=np.float32), np.array(thresholds, np.float32), np.array([], np.uint64), facts)


def test_vector_is_of_the_nearest_topic_or_an_outlier_beyond_its_threshold():
    vectors = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0.5, 0, 0.866], [0, 0.49, 0.87, 0], [-1, 0, 0, 0]])
    topics, probabilities = by_hand().assign(vectors)
    assert topics.tolist() == [0, OUTLIER, 1, OUTLIER, OUTLIER]
    np.testing.assert_allclose(probabilities, [1, 0, 0.5, 0, 0], atol=1e-6)
    assert by_hand().labels == {OUTLIER: "outlier", 0: "ash, oak", 1: "sea"}


def test_topic_of_a_vector_does_not_depend_on_what_is_assigned_with_it():
    vectors, centroids = random_vectors(500, 384), random_vectors(40, 384)[::-1].astype(np.float32)
    centroids = np.roll(centroids, 7, axis=1)
    many = TopicModel(centroids, np.full(40, 0.12, np.float32), np.array([], np.uint64), {})
    together = many.assign(vectors)
    alone = [many.assign(vectors[i : i + 1]) for i in range(500)]
    np.testing.assert_array_equal(together[0], np.concatenate([topics for topics, _ in alone]))
    np.testing.assert_array_equal(together[1], np.concatenate([probabilities for _, probabilities in alone]))
    assert 0 < (together[0] == OUTLIER).sum() < 500


def test_vectors_of_another_size_are_refused():
    with pytest.raises(MogError, match="topics/model: expected vectors of size 4, got size 3: run `mog run`"):
        by_hand().assign(np.eye(3))


def test_model_without_topics_gives_outliers_only():
    none = TopicModel(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.array([], np.uint64), {"words": []})
    topics, probabilities = none.assign(np.eye(4))
    assert topics.tolist() == [OUTLIER] * 4 and probabilities.tolist() == [0] * 4


def test_model_of_another_encoder_is_refused(built):
    stored = built.tools.store.read("topics/model")
    assert open_model(stored, built.encoder.fingerprint).facts["encoder"] == built.encoder.fingerprint
    with pytest.raises(MogError, match="expected a model for vectors of encoder other, got one for"):
        open_model(stored, "other")


def test_file_that_is_no_model_is_refused(tmp_path):
    data = model.encoded(by_hand())
    assert model.decoded(data, tmp_path).labels[0] == "ash, oak"
    with pytest.raises(MogError, match="expected a safetensors file of a topic model"):
        model.decoded(data[:50], tmp_path)
    facts = {"words": [["ash"]], "size": [3], "encoder": "e"}
    with pytest.raises(MogError, match="expected as many centroids as thresholds and words"):
        model.decoded(model.encoded(replace(by_hand(), facts=facts)), tmp_path)


# The process of a fit.


def bucket_of(folder, write_documents, texts, vectors):
    """A bucket of documents with a chunk each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    rows = range(len(texts))
    documents = pa.table({"id": [str(i) for i in rows], "title": [""] * len(texts), "text": texts})
    spans = pa.table({"document": pa.array(rows, pa.int32()), "start": [0] * len(texts), "end": list(map(len, texts))})
    pq.write_table(documents, folder / "documents")
    pq.write_table(spans, folder / "spans")
    np.save(folder / "vectors.npy", vectors)
    return {"documents": str(folder / "documents"), "spans": str(folder / "spans"), "vectors": f"{folder}/vectors.npy"}


def arguments_for(bucket, out, **options):
    settings = TopicSettings(**options).model_dump()
    made = {"level": 1, "settings": settings, "seed": 0, "encoder": "e", "made_by": "m"}
    return {"buckets": [bucket], **made, "out": str(out)}


def random_vectors(n, size=16):
    vectors = np.random.default_rng(0).normal(size=(n, size))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


@pytest.mark.parametrize("n", [1, 3, 19])
def test_too_few_chunks_for_two_topics_are_all_outliers(tmp_path, write_documents, n):
    bucket = bucket_of(tmp_path / "b", write_documents, [f"text {i}" for i in range(n)], random_vectors(n))
    topic_fitting.fit_buckets(**arguments_for(bucket, tmp_path / "out"))
    found = model.decoded((tmp_path / "out").read_bytes(), tmp_path / "out")
    assert found.facts["sample"] == found.facts["outliers"] == found.facts["agreeing"] == len(found.seen) == n
    assert found.assign(random_vectors(n))[0].tolist() == [OUTLIER] * n


@pytest.mark.parametrize("texts", ["no words", "one of a kind", "equal"])
def test_least_chunks_that_may_have_topics_need_no_words(tmp_path, write_documents, fitting, texts):
    made = {"no words": ["..."] * 4, "one of a kind": ["the", "of", "日本", "и"], "equal": ["same text"] * 4}[texts]
    bucket = bucket_of(tmp_path / "b", write_documents, made, random_vectors(4))
    fitting(arguments_for(bucket, tmp_path / "out", min_topic_size=2))
    found = model.decoded((tmp_path / "out").read_bytes(), tmp_path / "out")
    assert len(found.centroids) == len(found.facts["words"]) and found.facts["sample"] == 4
    assert all(np.linalg.norm(found.centroids, axis=1) > 0.99)


def test_fit_in_a_process_of_its_own_writes_the_model(tmp_path, write_documents):
    bucket = bucket_of(tmp_path / "b", write_documents, ["one", "two"], random_vectors(2))
    topic_fitting.fit_apart(arguments_for(bucket, tmp_path / "out"))
    assert model.decoded((tmp_path / "out").read_bytes(), tmp_path / "out").facts["sample"] == 2


def test_what_goes_wrong_in_that_process_is_told(tmp_path):
    bucket = {"documents": "d", "spans": "s", "vectors": str(tmp_path / "missing.npy")}
    with pytest.raises(MogError, match=r"topics/model could not be fitted: FileNotFoundError: .*missing\.npy"):
        topic_fitting.fit_apart(arguments_for(bucket, tmp_path / "out"))


def test_process_that_is_ended_from_outside_is_told(tmp_path, monkeypatch):
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    monkeypatch.setattr(topic_fitting, "python", lambda module, given: killed)
    with pytest.raises(MogError, match="its process ended with exit code -9; where that is -9, lower topics.sample"):
        topic_fitting.fit_apart({})


# When it is fitted again.


def test_few_new_chunks_keep_the_model_and_touch_no_other_corpus(project):
    before = project.tools.store.read("topics/model").manifest
    documents, _ = halves(planted())
    project.put("one", {**documents, "sky0": documents["sky0"] + " A comet came by."})
    fitted, assigned = project.run()
    assert fitted.built and fitted.artefact.manifest.version == before.version
    assert fitted.artefact.manifest.info["fitted"].startswith("kept: ")
    assert fitted.artefact.manifest.info["recomputed"]["chunks fitted on"] == 0
    assert assigned["one"].built and not assigned["two"].built
    assert project.fresh("topics/model") and not project.run()[0].built


def test_many_new_chunks_fit_it_again(project):
    before = project.tools.store.read("topics/model").manifest
    documents, _ = halves(planted())
    project.put("one", documents | {f"new{i}": sentences(VOCABULARIES["sky"], 100 + i) for i in range(12)})
    fitted, assigned = project.run()
    assert fitted.artefact.manifest.version != before.version
    assert "of chunks are new since the last fit, more than 20%" in fitted.artefact.manifest.info["fitted"]
    assert fitted.artefact.manifest.info["recomputed"]["chunks fitted on"] == len(project.model().seen)
    assert all(outcome.built and not outcome.faults for outcome in assigned.values())


def test_it_is_fitted_again_on_demand_and_then_is_the_same(project, built):
    fitted, assigned = project.run(force=True)
    assert fitted.artefact.manifest.info["fitted"] == "fitted again on demand"
    assert fitted.artefact.manifest.version == built.fitted.artefact.manifest.version
    assert not any(outcome.built for outcome in assigned.values())


def test_other_settings_fit_it_again_but_not_another_share(project):
    text = project.folder / "mog.yaml"
    text.write_text(text.read_text().replace("sample: 500", "sample: 500\n  refit_share: 0.5"))
    project = Project(project.folder, project.write, project.encoder)
    assert project.run()[0].artefact.manifest.info["fitted"] == "kept: 0.0% of chunks are new since the fit"
    text.write_text(text.read_text().replace("min_topic_size: 8", "min_topic_size: 70"))
    project = Project(project.folder, project.write, project.encoder)
    assert project.run()[0].artefact.manifest.info["fitted"] == "fitted again: other settings"
    assert len(project.model().centroids) == 0


def test_damaged_model_is_made_again_as_it_was(project, built):
    path = project.tools.store.read("topics/model").path(model.MODEL)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    assert not project.fresh("topics/model")
    fitted, assigned = project.run()
    assert "a damaged one" in fitted.artefact.manifest.info["fitted"]
    assert fitted.artefact.manifest.version == built.fitted.artefact.manifest.version
    assert not any(outcome.built for outcome in assigned.values())


# Updates, and what points of Qdrant tell.


def expected_payloads(project, corpus, level):
    """Topic, label and probability by document and start of the chunk."""
    read = project.tools.store.read
    layout = open_layout(corpus, read("documents", corpus), read("chunks/level_1", corpus))
    stored = read("topics/assigned", corpus)
    rows = [row for name in stored.names(f"level_{level}-") for row in np.load(stored.path(name)).tolist()]
    document, start, _ = layout.chunk_spans(np.arange(layout.count(level)), level)
    labels = [*stored.manifest.info["labels"], "outlier"]
    return {
        (layout.documents[d], int(s)): (t, labels[t], round(p, 4))
        for d, s, (t, p) in zip(document, start, rows, strict=True)
    }


@pytest.mark.whole
def test_points_tell_the_topics_that_methods_ask_for(project):
    import qdrant_edge as edge

    text = (project.folder / "mog.yaml").read_text(encoding="utf-8")
    (project.folder / "mog.yaml").write_text(f"{text}qdrant: {{}}\nmethods: [fixed-1]\n", encoding="utf-8")
    project = Project(project.folder, project.write, project.encoder)
    assert "topics/assigned" not in project.recipes["qdrant"].deps
    (project.folder / "mog.yaml").write_text(f"{text}qdrant: {{}}\nmethods: [fixed-1+topics]\n", encoding="utf-8")
    project = Project(project.folder, project.write, project.encoder)
    assert "topics/assigned" in project.recipes["qdrant"].deps and not project.recipes["qdrant"].on_demand
    for key in ("tokens", "bm25/level_1", "qdrant"):
        for corpus in ("one", "two"):
            outcome = project.make(key, corpus)
            assert outcome.faults == {}
    for corpus in ("one", "two"):
        shard = edge.EdgeShard.load(str(project.settings.home / "qdrant" / f"mog_{corpus}"))
        records, _ = shard.scroll(edge.ScrollRequest(limit=10_000, with_payload=True))
        shard.close()
        payloads = [record.payload for record in records]
        assert {
            (p["document"], p["start"]): (p["topic"], p["topic_label"], p["topic_probability"]) for p in payloads
        } == expected_payloads(project, corpus, 1)
    assert {p["topic"] for p in payloads} >= {0, 1, 2}
    # Of an edit, its own points change.
    documents, _ = halves(planted())
    project.put("one", {**documents, "sky0": sentences(VOCABULARIES["law"], 77)})
    project.run()
    for key in ("tokens", "bm25/level_1", "qdrant"):
        outcome = project.make(key, "one")
    recomputed = outcome.artefact.manifest.info["recomputed"]
    assert 0 < recomputed["points upserted"] <= len(project.topics("one", 1)["sky0"]) + 1


def test_edited_document_has_its_own_chunks_assigned_alone(project):
    documents, _ = halves(planted())
    project.put("one", {**documents, "sky0": sentences(VOCABULARIES["law"], 77)})
    _, assigned = project.run()
    recomputed = assigned["one"].artefact.manifest.info["recomputed"]
    every = sum(len(ts) for level in project.settings.level_range for ts in project.topics("one", level).values())
    assert 0 < recomputed["chunks assigned"] < every


def test_updated_topics_equal_those_made_from_nothing_with_the_same_model(project):
    documents, _ = halves(planted())
    documents |= {"bread1": sentences(VOCABULARIES["sky"], 55), "law5": documents["law5"] + " A judge spoke."}
    del documents["sky3"]
    project.put("one", documents)
    _, assigned = project.run()
    remove(project.tools.store, "topics/assigned", "one")
    _, again = project.run()
    assert again["one"].artefact.manifest.version == assigned["one"].artefact.manifest.version
    assert again["one"].artefact.manifest.files == assigned["one"].artefact.manifest.files


def test_check_finds_topics_that_the_model_has_not(built):
    stored = built.tools.store.read("topics/assigned", "one")
    files = {name: entry["file"] for name, entry in stored.manifest.files.items()}
    draft = SimpleNamespace(files=files, path=stored.path)
    work = SimpleNamespace(
        settings=built.settings,
        tools=built.tools,
        draft=draft,
        input=lambda key: built.tools.store.read(key, "one"),
    )
    assert checks.EVERY_CHUNK.run(work) is None
    work.draft.files = {name: file for name, file in files.items() if not name.startswith("level_2-")}
    assert "chunks, 0 have a topic" in checks.EVERY_CHUNK.run(work)
