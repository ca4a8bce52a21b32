"""Rankings that a change does not touch are kept, and are those that ranking everything again gives."""

import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_incremental import IN_MEMORY, Project, encoder, nothing_is_drawn  # noqa: F401
from test_kept_rows import ANIMALS, EDITED, EDITS, PLACES

from mog_assets import plan
from mog_assets.evaluation import reach
from mog_assets.evaluation.reach import Reach, Search
from mog_assets.evaluation.runs import read_runs
from mog_assets.ranking import experts
from mog_assets.recipe import materialise
from mog_assets.topics.model import MODEL, TopicModel, encoded

METHODS = [
    *("fused", "fixed-1", "fixed-3", "dense-2", "hybrid:fixed-1", "hybrid:fused-paper-1", "fused-paper-2"),
    *("oracle-paper", "hop-0", "hop-1", "mogg-uniform", "fixed-2+topics", "hop-1+topics", "mogg-uniform+topics"),
]
WHERE = ["question_set", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens", "level"]


def text_about(number):
    """A text for each number in which no sentence occurs twice: equal scores may come in any order."""
    draw, animal, place = random.Random(number), ANIMALS[number % len(ANIMALS)], PLACES[number % len(PLACES)]
    found = [f"The {animal} lives at the {place}.", f"In winter the {animal} rests for {number + 2} weeks."]
    for year in draw.sample(range(1900, 2000), 3 + number % 5):
        other = draw.choice(ANIMALS)
        found.append(
            f"A {other} was seen at the {draw.choice(PLACES)} in {year}, with {draw.randint(2, 90)} of its kind."
        )
    return " ".join(found)


def two_topics(work):
    """Topics of two animals, whatever there is: what is fitted changes with the texts."""
    encoder = work.tools.encoder  # noqa: F811
    centroids = encoder.encode([f"The {animal} lives at the pond." for animal in ANIMALS[:2]]).astype(np.float32)
    facts = {"words": [[animal] for animal in ANIMALS[:2]], "size": [3, 3], "encoder": encoder.fingerprint}
    model = TopicModel(centroids, np.full(2, 0.35, np.float32), np.array([], np.uint64), facts)
    path, there = work.file(MODEL, "by hand")
    if not there:
        with work.writing(path) as temporary:
            temporary.write_bytes(encoded(model))


def project_of(folder, encoder, documents=24, **options):  # noqa: F811
    """Two corpora and questions about them, half of them to test on."""
    rows = []
    for number in range(16):
        corpus, doc = ("file", f"d{number:02}") if number % 2 else ("folder", f"d{number:02}.md")
        start = text_about(number).index("In winter")
        evidence = [{"corpus": corpus, "doc": doc, "start": start, "end": start + 30}]
        question = f"How long does the {ANIMALS[number % len(ANIMALS)]} of the {PLACES[number % len(PLACES)]} rest?"
        split = "dev" if number % 4 < 2 else "train"
        rows.append({"id": str(number), "question": question, "split": split, "evidence": evidence})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    corpora = ["file", "folder"]
    sets = {"ponds": {"path": "questions.jsonl", "corpora": corpora, "train": ["train"], "test": ["dev"]}}
    values = {"question_sets": sets, "drift": {"documents": 1}, "k_r": 2, "levels": 3, "methods": METHODS}
    project = Project(folder, encoder, **values | options)
    for number in range(documents):
        put(project, number)
    return project


def put(project, number, before=""):
    """Add or change a document, which has the name of an animal: other texts name it."""
    animal, text = ANIMALS[number % len(ANIMALS)], before + text_about(number)
    if number % 2:
        project.put("file", f"d{number:02}", text, title=animal)
    else:
        project.put("folder", f"d{number:02}", text)


def ranked(project, force=False, **versions):
    """Bring `runs` up to date with everything before it, some of it by code of another version; the artefact."""
    return outcome_of(project, force, **versions).artefact


def outcome_of(project, force=False, **versions):
    recipes = plan.graph(project.settings)
    recipes |= {key: replace(recipes[key], version=version) for key, version in versions.items()}
    recipes["topics/model"] = replace(recipes["topics/model"], build=two_topics, checks=())
    for key in plan.needed(recipes, ["runs"]):
        recipe = recipes[key]
        for corpus in project.settings.corpora if recipe.partitioned else [None]:
            outcome = materialise(recipe, corpus, project.tools, recipes, force=force and key == "runs")
    return outcome


def rows_of(artefact):
    return read_runs(artefact.path("runs.parquet"))


def assert_those_of_ranking_again(project):
    """What is kept equals what ranking everything from nothing gives, with the same topics and statistics."""
    kept = ranked(project)
    ours, counted = rows_of(kept), pd.read_parquet(kept.path("shares.parquet"))
    outcome = outcome_of(project, force=True)
    assert outcome.faults == {}
    again = outcome.artefact
    theirs = rows_of(again)
    asked, methods = again.manifest.counts["ponds: questions"], again.manifest.counts["methods"]
    assert again.manifest.info["recomputed"]["rankings"] == asked * methods
    pd.testing.assert_frame_equal(ours[WHERE].astype(str), theirs[WHERE].astype(str))
    np.testing.assert_allclose(ours["score"], theirs["score"], atol=1e-5)
    pd.testing.assert_series_equal(ours["why"].astype(str), theirs["why"].astype(str))
    pd.testing.assert_frame_equal(counted, pd.read_parquet(again.path("shares.parquet")), atol=1e-5)
    assert len(counted)
    backs = [{name: n for name, n in own.manifest.counts.items() if "fallbacks" in name} for own in (kept, again)]
    assert backs[0] == backs[1]


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


@given(st.lists(st.lists(EDITS, min_size=1, max_size=2), min_size=1, max_size=3))
@EDITED
def test_after_any_edits_rankings_are_those_of_ranking_all_again(encoder, steps):  # noqa: F811
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        project = project_of(Path(name), encoder)
        ranked(project)
        for edits in steps:
            for kind, number, *more in edits:
                corpus = "file" if number % 2 else "folder"
                if (
                    kind == "remove"
                    and f"d{number:02}" in project.documents[corpus]
                    and len(project.documents[corpus]) > 2
                ):
                    project.take(corpus, f"d{number:02}")
                elif kind != "remove":
                    put(project, number, more[0] if more else "")
            ranked(project)
        assert_those_of_ranking_again(project)


@pytest.mark.full
def test_a_text_that_no_question_is_near_to_leaves_most_rankings_as_they_are(folder, encoder, monkeypatch):  # noqa: F811
    # So few documents are all among the best: with less depth most are not.
    for module in ("mog_assets.evaluation.reach", "mog_assets.retrieval.methods"):
        monkeypatch.setattr(f"{module}.DEPTH", 4)
    project = project_of(folder, encoder, 40)
    first = ranked(project).manifest
    assert first.info["recomputed"]["rankings"] == 8 * (len(METHODS) + 2)
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    second = ranked(project).manifest
    controls = 8 * 2
    assert controls <= second.info["recomputed"]["rankings"] < first.info["recomputed"]["rankings"] / 2
    assert_those_of_ranking_again(project)


def test_a_question_that_changed_is_ranked_again(folder, encoder):  # noqa: F811
    project = project_of(folder, encoder)
    ranked(project)
    path = folder / "questions.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("the heron of the pond rest", "a heron rest at the pond"))
    after = ranked(project).manifest
    # Candidates and labels of training questions are others, but no text changed.
    assert after.info["recomputed"]["rankings"] == 8 * 2 + len(METHODS)
    assert_those_of_ranking_again(project)


def test_a_new_text_with_a_rare_word_of_a_question_is_ranked_whatever_it_scores(folder, encoder, monkeypatch):  # noqa: F811
    monkeypatch.setattr(experts, "DEPTHS", (1, 1, 1))
    project = project_of(folder, encoder, methods=["fused"])
    path = folder / "questions.jsonl"
    asked = "How long does the heron of the pond rest?"
    path.write_text(path.read_text(encoding="utf-8").replace(asked, "heron grebe otter zander"), encoding="utf-8")
    # The best text by words and by meaning.
    project.put("file", "d97", "The heron, the grebe and the otter. Heron, grebe, otter.")
    ranked(project)
    project.put("file", "d99", "Nails are made of iron wire. " * 12 + "The word zander is one of many here.")
    after = ranked(project)
    first = rows_of(after).query("question == '0' and rank < 3")
    assert "d99" in first["doc"].tolist()
    assert_those_of_ranking_again(project)


@pytest.mark.full
def test_renewed_statistics_rank_everything_again(folder, encoder):  # noqa: F811
    project = project_of(folder, encoder, drift={"documents": 0})
    ranked(project)
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    assert ranked(project).manifest.info["recomputed"]["rankings"] == 8 * (len(METHODS) + 2)


def asking(folder, words):
    """Let some test questions be others: words by id."""
    path = folder / "questions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["question"] = words.get(row["id"], row["question"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.mark.full
def test_what_auto_stands_for_is_ranked_again_with_the_texts_there_are(folder, encoder):  # noqa: F811
    sets = {"ponds": {"path": "questions.jsonl", "corpora": ["file", "folder"], "test": ["dev"]}}
    project = project_of(folder, encoder, methods=["auto", "hop-0"], question_sets=sets)
    ranked(project)
    project.take("file", "d01")
    assert not ((rows_of(ranked(project))["doc"] == "d01") & (rows_of(ranked(project))["corpus"] == "file")).any()
    assert_those_of_ranking_again(project)


@pytest.mark.full
def test_questions_that_find_nothing_are_kept_and_joined_with_others(folder, encoder):  # noqa: F811
    project = project_of(folder, encoder, methods=["fused", "fixed-1", "hop-0", "hop-1"])
    ranked(project)
    # Words of no text, first of one question, then of all.
    asking(folder, {"0": "Qwrtz xyzzy?"})
    assert_those_of_ranking_again(project)
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    assert_those_of_ranking_again(project)
    asking(folder, {str(number): f"Qwrtz{number} xyzzy?" for number in range(16) if number % 4 < 2})
    ranked(project)
    asking(folder, {"2": "Where do the pikes go?"})
    assert_those_of_ranking_again(project)


@pytest.mark.full
def test_a_name_that_stands_for_another_retriever_is_ranked_again(folder, encoder):  # noqa: F811
    project = project_of(folder, encoder, methods=["fused", "fixed-1", "hybrid:fixed-2"])
    before = rows_of(ranked(project))
    project.set(retriever="dense")
    after = rows_of(ranked(project))
    first = [rows[rows["method"] == "fixed-1"]["score"].max() for rows in (before, after)]
    assert first[0] > 1 >= first[1]


def test_texts_that_other_code_made_are_ranked_again_even_if_they_look_the_same(folder, encoder):  # noqa: F811
    project = project_of(folder, encoder, methods=["fixed-1", "hop-0"])
    before = ranked(project).manifest.info["basis"]
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    after = ranked(project, sentence_graph="other").manifest.info
    assert [after["basis"][family] == before[family] for family in ("levels", "graph")] == [True, False]
    # Controls, and the method of the graph.
    assert after["recomputed"]["rankings"] >= 8 * 3


def test_interrupted_after_ranking_it_goes_on_with_the_same_facts(folder, encoder, monkeypatch):  # noqa: F811
    from mog_assets.evaluation import runs_assets

    class Interrupted(BaseException):
        pass

    def interrupt(*_):
        raise Interrupted

    project = project_of(folder, encoder)
    with monkeypatch.context() as patched:
        patched.setattr(runs_assets, "_show_topics", interrupt)
        with pytest.raises(Interrupted):
            ranked(project)
    after = ranked(project).manifest
    assert after.info["recomputed"]["rankings"] == 0
    assert any(count for name, count in after.counts.items() if "fallbacks" in name)
    assert_those_of_ranking_again(project)


def test_what_rankings_depend_on_is_read_as_it_was_written(tmp_path):
    texts = {1: np.array([0 << 32 | 5, 0 << 32 | 9, 2 << 32 | 1]), 3: np.array([1 << 32 | 7])}
    floors = {Search("bm25", 1): np.zeros((3, 2), np.float32), Search("dense", 3, True): np.full((3, 1), -np.inf)}
    held = Reach(["a", "b", "c"], texts, floors)
    held.write(tmp_path / "numbers", tmp_path / "texts")
    read = Reach.read(tmp_path / "numbers", tmp_path / "texts")
    for own in (read, reach.joined([read.of(np.array([1])), read.of(np.array([0, 2]))], np.array([1, 0, 2]))):
        assert own.digests == held.digests and own.floors.keys() == floors.keys()
        for granularity, numbers in texts.items():
            np.testing.assert_array_equal(own.texts[granularity], numbers)
        for search, wanted in floors.items():
            np.testing.assert_array_equal(own.floors[search], wanted)
