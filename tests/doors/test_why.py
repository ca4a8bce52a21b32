"""A run says why it builds what it builds."""

import dataclasses
from types import SimpleNamespace

import pytest

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.cli.build import _print_steps
from mog_assets.resources.store import Store

KEYS = ("documents", "chunks/level_1", "tokens", "bm25/level_1")


@pytest.fixture
def project(tmp_path, make_project, write_documents):
    write_documents(tmp_path / "pond.jsonl", [("heron", "A heron eats fish."), ("newt", "A newt eats worms.")])
    return make_project(tmp_path, {"corpora": {"pond": {"path": "pond.jsonl"}}, "levels": 1, "buckets": 1})


def reasons(settings, force=False, **versions):
    """Why each of a few artefacts was built."""
    tools, recipes = Tools(settings), plan.graph(settings)
    found = {}
    for key in KEYS:
        recipe = dataclasses.replace(recipes[key], version=versions.get(key, recipes[key].version))
        found[key] = materialise(recipe, "pond", tools, recipes, force=force).why
    return SimpleNamespace(**{key.partition("/")[0]: why for key, why in found.items()})


def test_new_then_nothing_then_what_has_changed(project, make_project, write_documents):
    first = reasons(project.settings)
    assert vars(first) == dict.fromkeys(vars(first), "new")
    assert vars(reasons(project.settings)) == dict.fromkeys(vars(first), "")

    changed = make_project(
        project.folder,
        {"corpora": {"pond": {"path": "pond.jsonl"}}, "levels": 1, "buckets": 1, "chunker": "paragraphs"},
    )
    assert reasons(changed.settings).chunks == "changed: settings"

    write_documents(project.folder / "pond.jsonl", [("heron", "A heron eats frogs."), ("newt", "A newt eats worms.")])
    edited = reasons(changed.settings)
    assert edited.documents == "changed: files"
    assert edited.tokens == "changed: chunks/level_1, documents"

    assert reasons(changed.settings, tokens="another").tokens == "changed: code"
    assert reasons(changed.settings, force=True).bm25 == "forced"


def test_damage_and_artefacts_of_earlier_versions_are_said(project):
    reasons(project.settings)
    store = Store(project.settings.home)
    tokens = store.read("tokens", "pond")
    tokens.path("terms_0000.arrow").unlink()
    assert reasons(project.settings).tokens == "damaged"

    tokens = store.read("tokens", "pond")
    info = {name: value for name, value in tokens.manifest.info.items() if name != "made of"}
    store._write_manifest(tokens.folder, dataclasses.replace(tokens.manifest, info=info, recipe="of another time"))
    assert reasons(project.settings).tokens == "made by an earlier version"


def test_the_table_of_a_run_names_each_reason_once(capsys):
    steps = [
        {"asset": "tokens", "corpus": corpus, "seconds": 1.0, "why": why, "recomputed": {}}
        for corpus, why in (("pond", "new"), ("hill", "new"), ("moor", "changed: documents"), ("lake", ""))
    ]
    _print_steps(steps, 4.0)
    assert "new; changed: documents" in capsys.readouterr().out
