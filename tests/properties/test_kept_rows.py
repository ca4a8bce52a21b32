"""Rows that an edit does not touch are kept, and equal those of a rebuild with the same statistics."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from incremental import IN_MEMORY, Project, encoder, nothing_is_drawn  # noqa: F401
from shared import examples

from mog_assets import plan
from mog_assets.chunking.chunks import Layout
from mog_assets.materialising import materialise
from mog_assets.ranking.parts import Part, share_changed, sketch
from mog_assets.retrieval.bm25 import Bm25Index, TermCounts, statistics
from mog_assets.retrieval.changes import Change, DocumentStates
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.statistics import StoredStatistics, bound, changed, deviations, document_hashes, drifted

ANIMALS = ["heron", "otter", "newt", "kingfisher", "moorhen", "vole", "dragonfly", "pike", "toad", "swan"]
PLACES = ["pond", "river", "mill", "bank", "reeds", "weir", "meadow"]
HELD = ("statistics", "hop_statistics")


def text_about(number):
    """A text of some sentences, different for each number."""
    animal, place = ANIMALS[number % len(ANIMALS)], PLACES[number % len(PLACES)]
    return (
        f"The {animal} lives at the {place}. It eats what it finds near the {PLACES[(number + 3) % len(PLACES)]}. "
        f"In winter the {animal} rests for {number % 5 + 2} weeks. "
        f"People who see a {animal} or a {ANIMALS[(number * 7 + 1) % len(ANIMALS)]} should keep away. "
    ) * (1 + number % 3)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        yield Path(name)


def project_of(folder, encoder, **drift):
    """Two corpora of 16 documents and questions about them, a quarter of them test questions."""
    rows = []
    for number in range(16):
        corpus, doc = ("file", f"d{number:02}") if number < 8 else ("folder", f"d{number:02}.md")
        start = text_about(number).index("In winter")
        evidence = [{"corpus": corpus, "doc": doc, "start": start, "end": start + 30}]
        question = f"How long does the {ANIMALS[number % len(ANIMALS)]} of the {PLACES[number % len(PLACES)]} rest?"
        split = "test" if number % 4 == 3 else "train"
        rows.append({"id": str(number), "question": question, "split": split, "evidence": evidence})
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sets = {"ponds": {"path": "questions.jsonl", "corpora": ["file", "folder"], "train": ["train"], "test": ["test"]}}
    project = Project(folder, encoder, question_sets=sets, drift={"documents": 1, "training": 0.05, **drift}, k_r=1)
    for number in range(16):
        project.put("file" if number < 8 else "folder", f"d{number:02}", text_about(number))
    return project


def parts_of(project):
    stored = project.stored("candidates", None)
    return {name: Part.read(stored.path(name).read_bytes()) for name in stored.names("part_")}


def assert_rows_equal_those_of_a_rebuild(project):
    """Candidates and labels are what a home gets that is built from nothing with the statistics of this one."""
    other = Project(project.folder, project.encoder, "rebuilt", **project.options)
    shutil.rmtree(other.settings.home, ignore_errors=True)
    for key in HELD:
        shutil.copytree(project.stored(key, None).folder, other.tools.store.folder(key))
    other.run()
    for key in HELD:
        assert project.files(key, None) == other.files(key, None)
    ours, theirs = parts_of(project), parts_of(other)
    assert ours.keys() == theirs.keys()
    for name, part in ours.items():
        rebuilt = theirs[name]
        assert (part.digests, part.ids, part.documents) == (rebuilt.digests, rebuilt.ids, rebuilt.documents)
        for exact in ("question", "piece", "place"):
            np.testing.assert_array_equal(getattr(part.candidates, exact), getattr(rebuilt.candidates, exact))
        for near in ("scores", "beside", "floors"):
            np.testing.assert_allclose(getattr(part.candidates, near), getattr(rebuilt.candidates, near), atol=1e-5)
        for gold in ("gold", "taught"):
            for exact in ("characters", "row", "start", "end"):
                np.testing.assert_array_equal(
                    getattr(getattr(part, gold), exact), getattr(getattr(rebuilt, gold), exact)
                )
        np.testing.assert_array_equal(part.usable, rebuilt.usable)
    for key in ("soft_labels", "hop_soft_labels"):
        tables = [pd.read_parquet(p.stored(key, None).path("labels.parquet")) for p in (project, other)]
        pd.testing.assert_frame_equal(*tables)
    sketches = [np.load(p.stored("candidates", None).path("sketch_ponds.npy")) for p in (project, other)]
    np.testing.assert_array_equal(*sketches)


NUMBERS = st.integers(0, 15)
EDITS = st.one_of(
    st.tuples(st.just("edit"), NUMBERS, st.sampled_from(["The weir was mended. ", "A pike! ", "The otter rests. "])),
    st.tuples(st.just("add"), st.integers(16, 24)),
    st.tuples(st.just("remove"), NUMBERS),
)


EDITED = settings(
    max_examples=examples(2),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@given(st.lists(st.lists(EDITS, min_size=1, max_size=3), min_size=1, max_size=3))
@EDITED
def test_after_any_edits_rows_are_those_of_a_rebuild_with_the_same_statistics(encoder, steps):
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        project = project_of(Path(name), encoder)
        project.run()
        for edits in steps:
            for kind, number, *more in edits:
                corpus = "file" if number % 2 == 0 and kind == "add" or number < 8 else "folder"
                held = project.documents[corpus]
                if kind == "remove" and f"d{number:02}" in held and len(held) > 2:
                    project.take(corpus, f"d{number:02}")
                elif kind != "remove":
                    project.put(corpus, f"d{number:02}", (more[0] if more else "") + text_about(number))
            project.run()
        assert_rows_equal_those_of_a_rebuild(project)


def test_candidates_are_made_again_only_for_questions_that_a_document_may_concern(folder, encoder):
    project = project_of(folder, encoder)
    # So many near ones that a far one is among the best of no expert at any level.
    for number in range(16, 80):
        project.put("file", f"d{number:02}", text_about(number))
    assert project.run()["candidates"]["questions"] == 16
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    assert project.run()["candidates"]["questions"] == 0
    project.put("file", "d99", "Zinc and copper are metals that the heron of the pond melts in a furnace.")
    assert 0 < project.run()["candidates"]["questions"] < 16
    assert_rows_equal_those_of_a_rebuild(project)


@pytest.mark.full
def test_statistics_are_renewed_when_more_documents_changed_than_may(folder, encoder):
    project = project_of(folder, encoder, documents=0.1)
    project.run()
    first = project.stored("statistics", None).manifest
    project.put("file", "d01", "The pike waits. " + text_about(1))
    project.run()
    second = project.stored("statistics", None).manifest
    assert second.version == first.version and second.counts["documents changed since"] == 1
    project.put("file", "d02", "The pike waits. " + text_about(2))
    project.run()
    third = project.stored("statistics", None).manifest
    assert third.version != first.version and third.counts["documents changed since"] == 0
    assert third.info["renewed"] == "2 of 16 documents of file, folder changed, more than 10.00%"
    shown = project.stored("statistics", None).shown()["how far weights of terms were off before"]
    assert "99 % of occurrences" in shown and "hop" not in shown


def test_deviations_are_those_of_the_terms_most_weights_belong_to(folder, encoder):
    project = project_of(folder, encoder)
    project.run()
    path = project.stored("statistics", None).path
    held = StoredStatistics(path, ["file", "folder"])
    assert all(row["all, %"] == 0 for row in deviations(held, held, 0.75))
    # Of one corpus alone, everything is rarer or more common.
    for row in deviations(StoredStatistics(path, ["file"]), held, 0.75):
        assert 0 < row["half of occurrences, %"] <= row["99 % of occurrences, %"] <= row["all, %"]


def test_damaged_rows_are_made_again(folder, encoder):
    project = project_of(folder, encoder)
    project.run()
    stored = project.stored("candidates", None)
    path = stored.path(stored.names("part_")[0])
    data, state = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    # Nothing but its checksum tells.
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    assert project.run()["candidates"]["questions"] == 16
    assert_rows_equal_those_of_a_rebuild(project)


def test_held_statistics_are_off_by_no_more_than_their_bound(folder, encoder):
    project = project_of(folder, encoder)
    project.run()
    for number in (0, 3, 9, 12):
        corpus = "file" if number < 8 else "folder"
        project.put(
            corpus, f"d{number:02}", "The kingfisher and the swan rest at the weir in winter. " + text_about(number)
        )
    project.run()
    corpora = Corpora.open(project.tools.store.read, project.settings, ["file", "folder"])
    widest = 0.0
    for level in (1, 2):
        parts = corpora.counts(level)
        held, now = corpora.statistics().of(f"level_{level}"), statistics(parts)
        assert held.chunks != now.chunks
        for part in parts:
            with_held, with_now = (Bm25Index(part, own, 1.5, 0.75).arrays["data"] for own in (held, now))
            low, high = bound(held, now, part.terms, 0.75)
            sizes = part.frequencies
            factor = with_held / with_now
            assert (factor >= np.repeat(low, sizes) - 1e-5).all() and (factor <= np.repeat(high, sizes) + 1e-5).all()
            widest = max(widest, float(np.abs(factor - 1).max()))
            # A score is a sum of weights, so it is no further off than the widest of its terms.
            queries = [list(part.terms[first : first + 4]) for first in range(0, len(part.terms), 4)]
            scores = []
            for own in (held, now):
                found = np.zeros((len(queries), len(part.lengths)), np.float32)
                Bm25Index(part, own, 1.5, 0.75).add_scores(queries, found)
                scores.append(found)
            for row, first in enumerate(range(0, len(part.terms), 4)):
                least, most = low[first : first + 4].min(), high[first : first + 4].max()
                assert (scores[0][row] >= scores[1][row] * least - 1e-4).all()
                assert (scores[0][row] <= scores[1][row] * most + 1e-4).all()
    assert widest > 0.01


def trained(project):
    """Build the rankings and the choice; what each recomputed, and why."""
    recipes, found = plan.graph(project.settings), {}
    for key in ("tuned", "router", "mix", "known_items", "method", "router_paper"):
        outcome = materialise(recipes[key], None, project.tools, recipes)
        found[key] = (outcome.artefact.manifest.version, outcome.artefact.manifest.info["recomputed"])
    return found


@pytest.mark.full
def test_rankings_and_routers_stay_after_a_small_change_and_follow_a_great_one(folder, encoder):
    project = project_of(folder, encoder, training=0.3)
    project.run()
    first = trained(project)
    assert first["mix"][1]["models trained"] > 0
    project.put("file", "d99", "Zinc and copper are metals that smiths melt in a furnace.")
    assert "candidates" in project.run()
    second = trained(project)
    for key in ("router", "mix", "method", "router_paper"):
        assert second[key][0] == first[key][0], key
        # The labels of the paper's router are the same, so that it is not even looked at.
        assert key == "router_paper" or not any(second[key][1].values()), key
    shown = project.stored("mix", None).shown()["trained on"]
    assert "of the candidates it was trained on changed since, at most 30% may" in shown
    for number in range(16):
        project.put("file" if number < 8 else "folder", f"d{number:02}", "All is new here. " + text_about(number + 3))
    project.run()
    third = trained(project)
    assert third["mix"][1]["models trained"] > 0 and third["router"][1]["models trained"] > 0


def test_the_share_of_candidates_that_changed_is_known_from_their_sketches():
    rng = np.random.default_rng(0)
    documents = DocumentStates(rng.integers(0, 2**63, 400).astype(np.uint64), np.full(400, 10, np.int64))

    class Found:
        question = np.repeat(np.arange(50), 80)
        piece = np.concatenate([np.sort(rng.choice(4000, 80, replace=False)) for _ in range(50)])
        place = (piece % 10)[:, None]

    class Some:
        digests = [f"{value:016x}" for value in rng.integers(0, 2**62, 50)]
        candidates = Found

    before = sketch(Some, documents)
    for share in (0.0, 0.02, 0.1, 0.5):
        hashes = documents.hashes.copy()
        edited = rng.choice(400, round(400 * share), replace=False)
        hashes[edited] += np.uint64(1)
        now = sketch(Some, DocumentStates(hashes, documents.pieces))
        wanted = np.isin(Found.piece // 10, edited).mean()
        assert share_changed(before, now) == pytest.approx(wanted, abs=1e-9)


def test_a_change_says_what_is_new_and_where_the_rest_is_now():
    before = DocumentStates(np.array([5, 6, 7, 8], np.uint64), np.array([2, 1, 3, 4]))
    now = DocumentStates(np.array([5, 9, 7, 8, 4], np.uint64), np.array([2, 5, 3, 4, 1]))
    found = Change(before, now)
    assert found.fresh.tolist() == [1, 4]
    assert found.moved.tolist() == [0, -1, 2, 3]
    assert found.chunks(np.arange(10), 1).tolist() == [0, 1, -1, 7, 8, 9, 10, 11, 12, 13]
    assert found.chunks(np.array([-1, 0, 1, 2, 3, 4]), 2).tolist() == [-1, 0, -1, 4, 5, 6]


def test_a_document_is_another_if_its_text_or_its_cuts_are():
    layout = Layout("c", ["a", "b"], np.array([0, 1, 3]), np.array([[0, 9], [0, 4], [4, 9]]))
    own = document_hashes(layout, ["x", "y"])
    assert changed(own, document_hashes(layout, ["x", "z"])) == 1
    other = Layout("c", ["a", "b"], np.array([0, 1, 3]), np.array([[0, 9], [0, 5], [5, 9]]))
    assert changed(own, document_hashes(other, ["x", "y"])) == 1
    elsewhere = Layout("d", ["a", "b"], layout.offsets, layout.spans)
    assert changed(own, document_hashes(elsewhere, ["x", "y"])) == 2
    assert drifted({"c": own}, {"c": own, "d": own}, [["c"]], 1) == "other corpora"


def test_counts_of_some_chunks_are_those_of_the_whole():
    rng = np.random.default_rng(3)
    dense = rng.integers(0, 3, (9, 6))
    from scipy import sparse

    matrix = sparse.csc_matrix(dense)
    whole = TermCounts(list("abcdef"), matrix.indptr, matrix.indices, matrix.data, dense.sum(axis=1))
    rows = np.array([1, 4, 8])
    part = whole.of(rows)
    found = sparse.csc_matrix((part.counts, part.indices, part.indptr), (3, len(part.terms))).toarray()
    wanted = dense[rows][:, [list("abcdef").index(term) for term in part.terms]]
    np.testing.assert_array_equal(found, wanted)
    assert set(part.terms) == {t for t, c in zip("abcdef", dense[rows].sum(axis=0), strict=True) if c}
