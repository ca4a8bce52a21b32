"""Rankings are trained again when many documents changed, or a question did, and not before."""

import json
import tempfile
from pathlib import Path

import pytest
from incremental import IN_MEMORY, Project, encoder, nothing_is_drawn  # noqa: F401

from mog_assets.build import plan
from mog_assets.build.materialising import materialise

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
    assert "of the documents it was trained on changed since, at most 30% may" in shown
    for number in range(16):
        project.put("file" if number < 8 else "folder", f"d{number:02}", "All is new here. " + text_about(number + 3))
    project.run()
    third = trained(project)
    assert third["mix"][1]["models trained"] > 0 and third["router"][1]["models trained"] > 0
