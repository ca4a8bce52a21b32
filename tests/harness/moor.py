"""A project of one corpus of six documents."""

import json
from types import SimpleNamespace

import pytest
from shared import copy_folder

from mog_assets import config
from mog_assets.build.plan import graph
from mog_assets.resources.store import Store

ANIMALS = ["heron", "otter", "newt", "badger", "kestrel", "adder"]
TEXT = "The {0} rests at noon. A {0} eats early in the day. Its young leave after {1} weeks. Winter is hard for it."


@pytest.fixture(scope="module")
def moor(tmp_path_factory, make_project, write_documents, materialise_project):
    """One corpus of six documents, with a question on each, materialised. Not to be changed."""
    folder = tmp_path_factory.mktemp("moor")
    documents = [(animal, TEXT.format(animal, weeks)) for weeks, animal in enumerate(ANIMALS, 3)]
    write_documents(folder / "moor.jsonl", documents)
    lines = []
    for animal, text in documents:
        evidence = [{"corpus": "moor", "doc": animal, "start": 0, "end": text.index(".") + 1}]
        row = {"id": animal, "question": f"When does the {animal} rest?", "split": "dev", "evidence": evidence}
        lines.append(json.dumps(row))
    (folder / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    values = {
        "corpora": {"moor": {"path": "moor.jsonl"}},
        "question_sets": {"animals": {"path": "questions.jsonl", "corpora": ["moor"], "test": ["dev"]}},
        "levels": 2,
        "finest_chars": 50,
        "buckets": 2,
        "methods": ["fixed-1", "fixed-2"],
        "encoder": {"device": "cpu"},
    }
    project = make_project(folder, values)
    assert materialise_project(project.settings).failures == []
    return SimpleNamespace(folder=folder, versions=versions(project.settings))


@pytest.fixture
def copied(moor, tmp_path):
    """Settings and store of a copy of that project."""
    copy_folder(moor.folder, tmp_path / "moor")
    settings = config.load(tmp_path / "moor" / "mog.yaml")
    return SimpleNamespace(settings=settings, store=Store(settings.home), folder=tmp_path / "moor")


def versions(settings):
    """Version of every artefact by asset and corpus."""
    store = Store(settings.home)
    found = {
        (recipe.key, corpus): store.find(recipe.key, corpus)
        for recipe in graph(settings).values()
        for corpus in (settings.corpora if recipe.partitioned else [None])
    }
    return {place: artefact.manifest.version for place, artefact in found.items() if artefact}
