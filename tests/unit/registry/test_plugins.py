"""What another package registers works as what comes with mog, without a change in the package."""

import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest
import yaml
from served import Served, command
from shared import PAPERS, ROOT

from mog_assets import config
from mog_assets.documents.sources import SOURCES, Source, forgotten, synchronised
from mog_assets.registry import Registry
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

BIRDS = ("heron", "kite", "wren", "owl", "swift", "robin", "crane", "gull", "tern", "dove", "lark", "rook")
PLACES = ("reeds", "cliffs", "hedges", "barns", "towers", "gardens", "marshes")


def installed(folder, module, code):
    """A folder for PYTHONPATH with a package that names its module as a plugin."""
    folder.mkdir()
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[mog_assets.plugins]\n{module} = {module}\n", encoding="utf-8")
    return folder


def mog(folder, plugins, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(plugins)}
    command = [sys.executable, "-m", "mog_assets.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project whose settings name what the toy package registers, built with it; and the folder of the package."""
    folder = tmp_path_factory.mktemp("project")
    plugins = folder / "site"
    package = shutil.copytree(ROOT / "examples" / "plugin", folder / "plugin")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(plugins), str(package)], check=True, timeout=300)
    documents, questions = [], []
    for number, bird in enumerate(BIRDS):
        lines = [f"The {bird} nests in {PLACES[(number + i) % len(PLACES)]} in year {i}.\n" for i in range(4)]
        documents.append({"id": bird, "title": bird, "text": "".join(lines)})
        for i in range(4):
            evidence = [{"corpus": "birds", "doc": bird, "start": 0, "end": len(lines[0])}]
            asked = {"id": f"{bird}-{i}", "question": f"Where does the {bird} nest in year {i}?", "answer": "reeds"}
            questions.append({**asked, "split": "test" if number % 4 == 3 else "train", "evidence": evidence})
    for name, rows in (("birds", documents), ("questions", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    books = {"nests.txt": "Nests are made of twigs.", "eggs/eggs.md": "# Eggs\n\nEggs are warm."}
    (folder / "books.json").write_text(json.dumps(books), encoding="utf-8")
    (folder / "poems").mkdir()
    (folder / "poems" / "owl.rtl").write_text("lwo ehT\n.thgin yb stnuh lwo ehT\n", encoding="utf-8")
    (folder / "poems" / "none.rtl").touch()
    values = {
        "home": "home",
        "corpora": {
            "birds": {"path": "birds.jsonl"},
            "poems": {"path": "poems"},
            "books": {"source": "toy://books.json"},
        },
        "question_sets": {"q": {"path": "questions.jsonl", "corpora": ["birds"], "train": ["train"], "test": ["test"]}},
        "chunker": "verses",
        "shelf": {"characters": 500},
        "levels": 2,
        "ranking": {"experts": ["mention", "length"]},
        "methods": ["fused", "mog" if PAPERS else "mix", "last"],
        "answering": {"reader": "extractive", "methods": ["fused → shout"]},
    }
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    done = mog(folder, plugins, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, plugins


def test_a_format_of_another_package_is_read_and_its_refusals_are_recorded(project):
    folder, plugins = project
    opened = mog(folder, plugins, "search", "What hunts by night?", "--method", "fused", "--json", "--k", 1)
    passage = json.loads(opened.stdout)[0]
    told = (passage["document"], passage["title"], passage["text"].strip())
    assert told == ("owl.rtl", "The owl", "The owl hunts by night.")
    skipped = json.loads(mog(folder, plugins, "documents", "--skipped", "--json").stdout)
    assert [(row["place"], row["reason"]) for row in skipped] == [("none.rtl", "expected lines, got an empty file")]


def test_a_source_of_another_package_is_followed_item_by_item(project):
    folder, plugins = project
    read = Store(folder / "home").read("documents", "books").manifest
    assert read.info["recomputed"]["items copied"] == read.counts["documents"] == 2
    passages = json.loads(mog(folder, plugins, "search", "What are nests made of?", "--json", "--k", 1).stdout)
    assert (passages[0]["corpus"], passages[0]["document"]) == ("books", "nests.txt")
    books = {"nests.txt": "Nests are made of twigs and moss.", "wings.txt": "Wings carry birds."}
    (folder / "books.json").write_text(json.dumps(books), encoding="utf-8")
    done = mog(folder, plugins, "run", "--select", "documents")
    assert done.returncode == 0, done.stderr
    read = Store(folder / "home").read("documents", "books").manifest
    assert read.info["recomputed"]["items copied"] == read.info["recomputed"]["documents read"] == 2
    assert read.counts["documents"] == 2
    # A source that fails changes nothing.
    (folder / "books.json").write_text("no shelf", encoding="utf-8")
    done = mog(folder, plugins, "run", "--select", "documents")
    assert (
        done.returncode == 1 and "corpora.books.source: expected a list of items from toy://books.json" in done.stderr
    )
    assert Store(folder / "home").read("documents", "books").manifest == read


@pytest.mark.parametrize("name", ["../out.txt", "/etc/hosts", ".hidden", "a\\b.txt", "a//b.txt", ""])
def test_a_source_cannot_name_a_file_outside_its_folder(tmp_path, monkeypatch, name):
    list(SOURCES)  # Filled, so that nothing comes later.
    monkeypatch.setattr(SOURCES, "_values", {"odd": Source(lambda _: {name: "1"}, lambda *_: b"")})
    with pytest.raises(MogError, match="corpora.c.source: expected odd://x to list relative paths"):
        synchronised("c", "odd://x", tmp_path / "copies")
    assert not (tmp_path / "copies").exists()


def test_what_a_source_cannot_be_copied_as_is_told_and_the_rest_stays(tmp_path, monkeypatch):
    folder, items = tmp_path / "copies", {"a": "1", "b": "1"}
    list(SOURCES)  # Filled, so that nothing comes later.
    monkeypatch.setattr(SOURCES, "_values", {"odd": Source(lambda _: items, lambda _, name: name.encode())})
    assert synchronised("c", "odd://x", folder).read == 2 and synchronised("c", "odd://x", folder).read == 0
    items |= {"b/c": "1"}
    with pytest.raises(MogError, match="corpora.c.source: expected to copy 'b/c' from odd://x"):
        synchronised("c", "odd://x", folder)
    assert (folder / "a").read_bytes() == b"a" and (folder / "b").read_bytes() == b"b"
    del items["b"], items["a"]
    assert synchronised("c", "odd://x", folder).read == 1
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*")] == ["b", "b/c"]
    forgotten(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.whole
def test_an_importer_of_another_package_is_a_command(project, tmp_path):
    _, plugins = project
    (tmp_path / "nests.json").write_text(json.dumps({"nests": "Twigs.", "eggs": "Eggs are warm."}), encoding="utf-8")
    assert "shelf  " in mog(tmp_path, plugins, "import", "--help").stdout
    done = mog(tmp_path, plugins, "import", "shelf", "nests.json")
    assert done.returncode == 0, done.stderr
    values = yaml.safe_load((tmp_path / "mog.yaml").read_text(encoding="utf-8"))
    assert "nests" in values["corpora"] and values["question_sets"]["nests"]["corpora"] == ["nests"]


def test_a_chunker_of_another_package_cuts(project):
    folder, _ = project
    stored = Store(folder / "home").read("chunks/level_1", "birds")
    spans = pd.concat(pd.read_parquet(stored.path(name)) for name in stored.manifest.files if name.endswith(".parquet"))
    assert len(spans) == 4 * len(BIRDS)


@pytest.mark.whole
def test_an_expert_of_another_package_is_trained_with_and_explained(project):
    folder, plugins = project
    question = "Where does the heron nest?"
    result = mog(folder, plugins, "search", question, "--method", "mog", "--explain", "--json")
    assert result.returncode == 0, result.stderr
    assert any("it is long" in passage["explanation"] for passage in json.loads(result.stdout))


def test_a_measure_and_a_method_of_another_package_stand_on_the_leaderboard(project):
    folder, plugins = project
    rows = json.loads(mog(folder, plugins, "scores", "--all", "--json").stdout)
    values = {row["method"]: row["value"] for row in rows if row["measure"] == "first@1"}
    assert {"fused", "mog" if PAPERS else "mix", "last"} <= set(values)
    assert all(0 < value <= 1 for value in values.values())
    asked = mog(folder, plugins, "search", "Where does the wren nest in year 0?", "--method", "last", "--json")
    assert asked.returncode == 0 and json.loads(asked.stdout), asked.stderr


def test_a_section_and_a_command_of_another_package_are_read_and_run(project, tmp_path):
    folder, plugins = project
    assert mog(folder, plugins, "shelf").stdout == "books: toy://books.json, 500 characters\n"
    (tmp_path / "mog.yaml").write_text("corpora: {c: {path: c.jsonl}}\nshelf: {characters: 0}\n", encoding="utf-8")
    done = mog(tmp_path, plugins, "shelf")
    assert done.returncode == 2 and "shelf.characters: expected greater than 0, got 0" in done.stderr
    (tmp_path / "mog.yaml").write_text("corpora: {c: {path: c.jsonl}}\nshelf: {}\n", encoding="utf-8")
    done = mog(tmp_path, tmp_path / "nothing", "run")
    assert done.returncode == 2 and "shelf: expected a known key, got 'shelf'" in done.stderr


def test_a_route_of_another_package_is_answered(project):
    folder, plugins = project
    start = ["env", f"PYTHONPATH={ROOT}{os.pathsep}{plugins}", *command("serve")]
    server = Served(folder / "mog.yaml", folder, program=start)
    try:
        assert server.call("/v1/shelf")[2] == {"birds": len(BIRDS), "poems": 1, "books": 2}
    finally:
        server.end()


def test_a_way_of_answering_of_another_package_is_measured_and_asked(project):
    folder, plugins = project
    rows = json.loads(mog(folder, plugins, "scores", "--answers", "--json").stdout)
    assert "fused → shout" in {row["method"] for row in rows}
    asked = mog(folder, plugins, "ask", "Where does the wren nest in year 0?", "--method", "shout", "--json")
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["answer"].isupper()


def test_without_the_package_its_names_are_unknown_and_those_there_are_listed(project, tmp_path):
    folder, _ = project
    done = mog(folder, tmp_path, "run")
    assert done.returncode == 2
    assert "chunker.name: expected 'sentences'" in done.stderr and "got 'verses'" in done.stderr


def test_a_package_that_cannot_be_imported_is_named(project, tmp_path):
    folder, _ = project
    done = mog(folder, installed(tmp_path / "site", "broken", "import nothing_of_the_kind\n"), "run")
    assert done.returncode == 2
    assert "plugin 'broken'" in done.stderr and "nothing_of_the_kind" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_another_value_has_or_that_is_reserved_is_refused():
    names = Registry[int]("number", reserved=("zero",))
    assert names.register("one", 1) == names.register("one", 1) == names["one"] == 1
    with pytest.raises(ConfigError, match="number: expected a name that no other has, got 'one' twice"):
        names.register("one", 2)
    for name in ("zero", "zero-1"):
        with pytest.raises(ConfigError, match=f"number: expected a name without zero, got '{name}'"):
            names.register(name, 0)
    assert names.register("zeros", 0) == names["zeros"] == 0


def test_settings_say_which_names_there_are(tmp_path):
    path = tmp_path / "mog.yaml"
    path.write_text("corpora: {c: {path: c.jsonl}}\nranking: {experts: [mention, rank]}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="ranking.experts.1: expected 'mention'.* 'pagerank'.*, got 'rank'"):
        config.load(path)
