"""The whole graph over the sample corpora: real Dagster instance, real encoder."""

import json
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shared import copy_folder

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.cli import verification
from mog_assets.documents.documents import bucket_of
from mog_assets.evaluate.measures import measure_names
from mog_assets.resources.errors import ConfigError
from mog_assets.search.methods import controls, named_methods
from mog_assets.serve import project as serving

EDITED = "tomato"
TWO_DOCUMENTS = [
    ("heron", "The grey heron stands still in shallow water. It waits for a fish. Then it strikes."),
    ("otter", "The otter swims at dusk. It eats fish and crayfish. Its holt is under a bank."),
]


def partitioned(settings):
    """What a corpus has of its own: topics, and the names that texts mention, are those of all corpora."""
    recipes = [recipe for recipe in plan.graph(settings).values() if recipe.partitioned and not recipe.on_demand]
    return [recipe.key for recipe in recipes if recipe.group != "topics" and recipe.key != "mentions"]


def stored(project, key, corpus=None):
    return Tools(project.settings).store.read(key, corpus)


def bytes_below(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def half_written(home):
    return [p for p in home.rglob("*") if p.name.startswith(".tmp") or p.name.endswith(".tmp")]


# A run over everything


def test_a_run_materialises_every_artefact_without_failures(sample_project):
    assert sample_project.report.failures == []
    settings, store = sample_project.settings, Tools(sample_project.settings).store
    expected = {
        (key, corpus)
        for key, recipe in plan.graph(settings).items()
        if not recipe.on_demand
        for corpus in (settings.corpora if recipe.partitioned else [None])
    }
    assert {(step["asset"], step["corpus"]) for step in sample_project.report.steps} == expected
    assert [place for place in sorted(expected, key=str) if store.find(*place) is None] == []
    assert half_written(sample_project.home) == []


def test_a_second_run_has_no_steps_and_changes_no_byte(sample_project, materialise_project):
    before = bytes_below(sample_project.home / "store")
    report = materialise_project(sample_project.settings)
    assert (report.steps, report.failures) == ([], [])
    assert bytes_below(sample_project.home / "store") == before


def test_unknown_corpora_and_selections_are_refused(sample_project, materialise_project):
    with pytest.raises(ConfigError, match="--corpus: expected one of garden, workshop, sky, got 'moor'"):
        materialise_project(sample_project.settings, corpora=["moor"])
    with pytest.raises(ConfigError, match="--select: expected .* got 'chunks/level_9'"):
        materialise_project(sample_project.settings, select=["chunks/level_9"])


# Scores


def test_scores_have_every_default_method_with_every_measure(sample_project):
    settings = sample_project.settings
    scores = pd.read_parquet(stored(sample_project, "scores").path("scores.parquet"))
    methods = [*(method.name for method in named_methods(settings)), *controls()]
    assert set(zip(scores["method"], scores["measure"], strict=True)) == {
        (method, measure) for method in methods for measure in measure_names(settings.k)
    }
    assert len(scores) == len(methods) * len(measure_names(settings.k))


@pytest.mark.whole
def test_the_split_that_was_trained_on_is_never_ranked_or_scored(sample_project):
    questions = (sample_project.folder / "samples/questions.jsonl").read_text(encoding="utf-8").splitlines()
    splits = {q["id"]: q["split"] for q in map(json.loads, questions)}
    dev = {identity for identity, split in splits.items() if split == "dev"}
    assert dev and dev != set(splits)
    runs = pd.read_parquet(stored(sample_project, "runs").path("runs.parquet"))
    per_question = pd.read_parquet(stored(sample_project, "scores").path("per_question.parquet"))
    scores = pd.read_parquet(stored(sample_project, "scores").path("scores.parquet"))
    assert set(runs["question"]) <= dev and set(per_question["question"]) == dev
    assert set(runs["split"]) == set(scores["split"]) == {"dev"}
    assert set(scores["n"]) == {len(dev)}
    labels = pd.read_parquet(stored(sample_project, "soft_labels").path("labels.parquet"))
    assert set(labels.loc[labels["train"], "split"]) == {"train"}


# One edited document


@pytest.fixture(scope="module")
def edited(sample_project, tmp_path_factory, materialise_project):
    """The sample project with one document of garden edited, then materialised up to the collections."""
    folder = tmp_path_factory.mktemp("edited") / "project"
    copy_folder(sample_project.folder, folder)
    source = folder / "samples/garden.jsonl"
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    row = next(row for row in rows if row["id"] == EDITED)
    row["text"] = "Pick the first ripe tomato in July. " + row["text"] + " A late frost ends the season."
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    from mog_assets import config

    settings = config.load(folder / "mog.yaml")
    report = materialise_project(settings, select=partitioned(settings))
    return Tools(settings), report


@pytest.fixture(scope="module")
def clean(edited, tmp_path_factory, make_project, materialise_project):
    """The edited corpus garden built from nothing in a home of its own."""
    source = edited[0].settings.corpora["garden"].path
    project = make_project(tmp_path_factory.mktemp("clean"), {"corpora": {"garden": {"path": str(source)}}})
    report = materialise_project(project.settings, select=partitioned(project.settings))
    assert report.failures == []
    return Tools(project.settings)


def test_an_edit_rebuilds_the_bucket_of_its_document_and_no_other(sample_project, edited):
    tools, report = edited
    assert report.failures == []
    bucket = f"bucket_{bucket_of(EDITED, tools.settings.buckets):04d}"
    for key in ("documents", "chunks/level_1", "tokens", "embeddings/level_1", "embeddings/level_3"):
        before = stored(sample_project, key, "garden").manifest.files
        after = tools.store.read(key, "garden").manifest.files
        assert before.keys() == after.keys()
        changed = {name.split(".")[0] for name in before if before[name]["file"] != after[name]["file"]}
        assert {name for name in changed if name.startswith("bucket")} == {bucket}, key
    recomputed = {step["asset"]: step["recomputed"] for step in report.steps}
    others = len(edited_ids(tools)) - 1
    assert recomputed["chunks/level_1"] == {"documents split": 1, "documents unchanged": others}
    assert recomputed["tokens"] == {"documents tokenised": 1, "documents unchanged": others}


def edited_ids(tools):
    documents = tools.store.read("documents", "garden")
    return [i for n in documents.names("bucket") for i in pq.read_table(documents.path(n))["id"].to_pylist()]


def test_an_edit_of_one_corpus_gives_the_others_no_steps(edited):
    _, report = edited
    # Where other texts name what the edited document is called now is searched for in all of them.
    assert {step["corpus"] for step in report.steps if step["asset"] != "mentions"} == {"garden"}


# Corpora that cannot be read


def small(make_project, write_documents, folder, other):
    good = write_documents(folder / "good.jsonl", TWO_DOCUMENTS)
    corpora = {"bad": {"path": str(other)}, "good": {"path": str(good)}}
    return make_project(folder, {"corpora": corpora, "levels": 2, "methods": ["default", "papers"]})


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "found nothing"), ('{"id": "a", "title": "a", "text": "  "}\nnot json\n', "at least one usable document")],
)
def test_a_corpus_that_cannot_be_read_fails_with_its_path_and_the_others_are_built(
    tmp_path, make_project, write_documents, materialise_project, text, said
):
    bad = tmp_path / "bad.jsonl"
    if text:
        bad.write_text(text, encoding="utf-8")
    project = small(make_project, write_documents, tmp_path, bad)
    (failure,) = materialise_project(project.settings).failures
    assert str(bad) in failure and said in failure
    store, own = Tools(project.settings).store, partitioned(project.settings)
    assert [key for key in own if store.find(key, "good") is None] == []
    assert [key for key in own if (store.folder(key, "bad") / "manifest.json").exists()] == []


@pytest.mark.whole
def test_a_corpus_that_vanishes_keeps_its_artefacts_and_the_others_are_updated(
    tmp_path, make_project, write_documents, materialise_project
):
    other = write_documents(tmp_path / "other.jsonl", TWO_DOCUMENTS[:1])
    project = small(make_project, write_documents, tmp_path, other)
    assert materialise_project(project.settings, select=["chunks/level_1", "documents"]).failures == []
    before = stored(project, "chunks/level_1", "bad").manifest
    other.unlink()
    write_documents(tmp_path / "good.jsonl", [*TWO_DOCUMENTS, ("newt", "The newt lives in the pond.")])
    report = materialise_project(project.settings, select=["chunks/level_1", "documents"])
    assert len(report.failures) == 1 and str(other) in report.failures[0]
    assert stored(project, "documents", "good").manifest.counts["documents"] == 3
    assert stored(project, "chunks/level_1", "bad").manifest == before


# Blocking checks


def test_spans_that_do_not_tile_leave_the_previous_chunks_in_place(copied_project):
    tools = Tools(copied_project.settings)
    recipes = plan.graph(copied_project.settings)
    genuine = recipes["chunks/level_1"]

    def tampered(work):
        documents = work.input("documents")
        for name in documents.names("bucket"):
            table = pq.read_table(tools.store.read("chunks/level_1", "garden").path(name))
            path, _ = work.file(name, "tampered", name)
            with work.writing(path) as temporary:
                # The second character of every document belongs to no span.
                start = [s + (s == 0) for s in table["start"].to_pylist()]
                pq.write_table(table.set_column(1, "start", pa.array(start, pa.int32())), temporary)

    before = tools.store.read("chunks/level_1", "garden")
    bad = replace(genuine, build=tampered, version="tampered")
    outcome = materialise(bad, "garden", tools, {**recipes, bad.key: bad})
    assert list(outcome.faults) == ["spans_tile"]
    assert "do not tile their documents, first at row 0" in outcome.faults["spans_tile"]
    assert outcome.artefact.manifest == before.manifest
    assert tools.store.read("chunks/level_1", "garden").manifest == before.manifest
    assert tools.store.verify(before) == []


@pytest.mark.whole
def test_a_failed_check_is_reported_by_the_run_and_stops_what_follows(
    tmp_path, make_project, write_documents, materialise_project, monkeypatch
):
    from mog_assets.text.chunkers import CHUNKERS, Chunker, sentences

    source = write_documents(tmp_path / "birds.jsonl", TWO_DOCUMENTS)
    values = {"corpora": {"birds": {"path": str(source)}}, "levels": 2, "methods": ["default", "papers"]}
    project = make_project(tmp_path, values)
    shifted = Chunker(lambda options: lambda text, _: sentences(text, options.finest_chars) + 1)
    monkeypatch.setitem(CHUNKERS._values, "sentences", shifted)
    report = materialise_project(project.settings)
    assert len(report.failures) == 1
    assert "chunks/level_1 of corpus birds" in report.failures[0] and "do not tile" in report.failures[0]
    store = Tools(project.settings).store
    assert [key for key in partitioned(project.settings) if store.find(key, "birds")] == ["documents", "sentence_graph"]


# Passages


QUESTION = "What makes the bottom of my tomatoes go dark and sunken?"
EVERYWHERE = ["garden", "workshop", "sky"]


@pytest.mark.parts("paper")
@pytest.mark.parametrize("method", ["fixed-5", "fused-paper-3", "mog-paper", "dense-2", "hybrid:mog-paper"])
def test_passages_are_exact_slices_of_their_documents(sample_project, method):
    tools = Tools(sample_project.settings)
    found = serving.open(sample_project.settings, EVERYWHERE, keep=False).search(QUESTION, method=method, k=4)
    assert 0 < len(found.passages) <= 4
    for passage in found.passages:
        documents = tools.store.read("documents", passage.corpus)
        tables = [pq.read_table(documents.path(n), columns=["id", "text"]) for n in documents.names("bucket")]
        texts = {row["id"]: row["text"] for table in tables for row in table.to_pylist()}
        assert passage.text == texts[passage.document][passage.start : passage.end] != ""
    scores = [passage.score for passage in found.passages]
    assert scores == sorted(scores, reverse=True)
    assert (found.weights is None) == ("mog-paper" not in method)


def test_only_the_corpora_that_are_asked_for_are_searched(sample_project):
    for method in ("fixed-2", "dense-2", "hybrid:fixed-2"):
        found = serving.open(sample_project.settings, ["sky"], keep=False).search(QUESTION, method=method, k=5)
        assert {passage.corpus for passage in found.passages} == {"sky"}


# Verify


def test_verify_finds_no_fault_in_what_was_just_made(sample_project):
    checked, faults = verification.verify(sample_project.settings)
    assert (checked, faults) == (len(sample_project.report.steps), [])


# Again though it is up to date


@pytest.mark.whole
@pytest.mark.full
def test_what_is_forced_is_made_again_and_nothing_else(copied_project, materialise_project):
    report = materialise_project(copied_project.settings, force=["topics/model"])
    assert report.failures == []
    assert [step["asset"] for step in report.steps] == ["topics/model"]
    assert report.steps[0]["recomputed"]["chunks fitted on"] > 0


@pytest.mark.whole
def test_what_cannot_be_forced_is_refused_with_what_can(sample_project, materialise_project):
    with pytest.raises(ConfigError, match="--force: expected one of .*topics/model, .*, got 'tokens'"):
        materialise_project(sample_project.settings, force=["tokens"])
