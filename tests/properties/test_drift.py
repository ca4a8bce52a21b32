"""Rankings are trained again when the candidates of their questions changed, and not before."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from incremental import IN_MEMORY, Project, encoder, nothing_is_drawn  # noqa: F401

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.search.parts import DocumentStates, document_hashes, share_changed, sketch
from mog_assets.text.chunks import Layout

ANIMALS = ["heron", "otter", "newt", "kingfisher", "moorhen", "vole", "dragonfly", "pike", "toad", "swan"]
PLACES = ["pond", "river", "mill", "bank", "reeds", "weir", "meadow"]


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
    project = Project(folder, encoder, question_sets=sets, drift={"training": 0.05, **drift}, k_r=1)
    for number in range(16):
        project.put("file" if number < 8 else "folder", f"d{number:02}", text_about(number))
    return project


def trained(project):
    """Build the rankings and the choice; what each recomputed, and why."""
    recipes, found = plan.graph(project.settings), {}
    for key in ("tuned", "router", "mix", "known_items", "method", "router_paper"):
        outcome = materialise(recipes[key], None, project.tools, recipes)
        found[key] = (outcome.artefact.manifest.version, outcome.artefact.manifest.info["recomputed"])
    return found


@pytest.mark.whole
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


def test_a_document_is_another_if_its_text_or_its_cuts_are():
    layout = Layout("c", ["a", "b"], np.array([0, 1, 3]), np.array([[0, 9], [0, 4], [4, 9]]))
    own = document_hashes(layout, ["x", "y"])
    assert (own == document_hashes(layout, ["x", "z"])).tolist() == [True, False]
    other = Layout("c", ["a", "b"], np.array([0, 1, 3]), np.array([[0, 9], [0, 5], [5, 9]]))
    assert (own == document_hashes(other, ["x", "y"])).tolist() == [True, False]
    elsewhere = Layout("d", ["a", "b"], layout.offsets, layout.spans)
    assert not (own == document_hashes(elsewhere, ["x", "y"])).any()
