"""`mog doctor`: each thing that may be missing is a line with a remedy; real endpoints, folders and limits."""

import json
import os
import resource
import subprocess
import sys
from importlib import metadata

import fsspec
import pytest
import yaml
from pages_server import nobody, server  # noqa: F401 (fixtures)
from shared import called

from mog_assets import config
from mog_assets.cli.findings import run_check
from mog_assets.plugins.upkeep import doctor, forecast
from mog_assets.registry import VECTOR_STORES

pytestmark = pytest.mark.full

KEY = "sk-right"
HEADER = "Authorization"


PAGES = {"/v1/models": {"data": [{"id": "small"}, {"id": "gpt-4o-mini"}]}}


@pytest.fixture
def project(tmp_path, make_project, write_documents):
    source = write_documents(tmp_path / "notes.jsonl", [("a", "Bread dough rises.")])
    return make_project(tmp_path, {"corpora": {"notes": {"path": str(source)}}})


def states(findings):
    return {finding.item: finding.state for finding in findings}


def only(findings):
    (finding,) = findings
    return finding


def test_a_sound_installation_without_a_configuration_has_no_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = called("doctor", "--json")
    found = {row["item"]: row for row in json.loads(result.stdout)}
    assert result.exit_code == 0, result.stdout
    assert found.pop("configuration") == {
        "item": "configuration",
        "state": "warning",
        "found": "no mog.yaml here",
        "remedy": "`mog init FOLDER` writes one",
    }
    assert list(found) == ["packages", "torch", "encoder", "home", *VECTOR_STORES, "model", "dagster", "open files"]
    assert {row["state"] for row in found.values()} == {"ok"}
    assert os.listdir(tmp_path) == []


@pytest.mark.whole
def test_a_vector_store_that_is_not_installed_is_no_problem_where_nothing_uses_it(tmp_path, monkeypatch):
    def version(package):
        if package == "qdrant-edge-py":
            raise metadata.PackageNotFoundError(package)
        return "1"

    monkeypatch.chdir(tmp_path)
    for check in ("packages", "torch_build", "encoder", "model", "dagster", "open_files"):
        monkeypatch.setattr(doctor, check, lambda *settings: ())
    assert "qdrant" in states(doctor.examine())
    monkeypatch.setattr(doctor.metadata, "version", version)
    assert list(states(doctor.examine())) == ["configuration", "home"]


def test_a_problem_is_a_line_with_a_remedy_and_exit_code_one(project):
    project.config.write_text("corpora: {notes: {path: gone.jsonl}}\nretreiver: bm25\n", encoding="utf-8")
    result = called("doctor", "--config", project.config)
    assert result.exit_code == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("problem"))
    assert "configuration" in line and "did you mean 'retriever'?" in line and line.endswith(": correct the file")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"methods": ["fuzed"]}, "got 'fuzed'"),
        ({"answering": {"methods": ["best"]}}, "'best'"),
    ],
)
def test_what_a_run_refuses_is_a_problem(project, setting, said):
    values = yaml.safe_load(project.config.read_text(encoding="utf-8"))
    project.config.write_text(yaml.safe_dump(values | setting, sort_keys=False), encoding="utf-8")
    refused = called("run", "--config", project.config)
    assert refused.exit_code == 2
    _, finding = doctor.configuration(str(project.config))
    assert finding.state == "problem" and said in finding.found and f"mog: {finding.found}" == refused.stderr.strip()


def test_a_question_file_without_a_question_is_a_problem(project):
    (project.folder / "asked.csv").write_text("Frage;Antwort\nWas?;Das.\n", encoding="utf-8")
    with project.config.open("a", encoding="utf-8") as stream:
        stream.write("question_sets: {asked: {path: asked.csv, corpora: [notes]}}\n")
    finding = only(doctor.documents(config.load(project.config)))
    assert finding.state == "problem" and "expected a column `question`, found Frage, Antwort" in finding.found


def test_a_corpus_that_is_not_there_is_a_problem(project):
    (project.folder / "notes.jsonl").unlink()
    finding = only(doctor.documents(project.settings))
    assert finding.state == "problem" and str(project.folder / "notes.jsonl") in finding.found


@pytest.mark.whole
def test_what_comes_from_elsewhere_is_looked_at_and_not_sought_among_local_files(tmp_path, make_project, nobody):
    """A new project: nothing has been copied yet."""
    store = fsspec.filesystem("memory")
    store.pipe("/doctor/a.txt", b"Five hens.")
    store.pipe("/doctor/b.txt", b"Nine ducks.")
    corpora = {"shelf": {"source": "memory://doctor"}}
    corpora["site"] = {"source": f"{nobody}/pages.txt"}
    settings = make_project(tmp_path, {"corpora": corpora}).settings
    assert only(doctor.documents(settings)).state == "ok"
    shelf, site = doctor.sources(settings)
    assert shelf.state == "ok" and shelf.found.startswith("corpora.shelf: 2 items to read from memory://doctor (")
    assert site.state == "problem" and "refused" in site.found


def test_missing_and_old_packages_are_named_with_the_command(monkeypatch):
    asked = ["numpy>=999", "no-such-package>=1", "click>=8", "nothing-either; extra == 'dev'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: asked)
    old, missing = doctor.packages()
    assert old.state == missing.state == "problem"
    assert old.found.startswith("numpy ") and old.remedy == "pip install 'numpy>=999'"
    assert missing.found == "no-such-package is missing" and missing.remedy == "pip install 'no-such-package>=1'"


def test_packages_of_extras_are_compared_where_they_are_there(monkeypatch):
    asked = ["click>=8", "dagster>=999; extra == 'build'", "nothing-either; extra == 'local'"]
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: asked)
    finding = only(doctor.packages())
    assert finding.state == "problem" and finding.found.startswith("dagster ")


def test_an_encoder_folder_without_a_model_is_a_problem(project):
    (project.folder / "empty").mkdir()
    encoder = project.settings.encoder.model_copy(update={"model": str(project.folder / "empty")})
    settings = project.settings.model_copy(update={"encoder": encoder})
    finding = only(run_check("encoder", doctor.encoder, settings))
    assert finding.state == "problem" and "encoder.model: expected" in finding.found


def test_an_encoder_that_would_be_fetched_is_not_fetched(project, monkeypatch):
    encoder = project.settings.encoder.model_copy(update={"model": "nobody/has-this"})
    settings = project.settings.model_copy(update={"encoder": encoder})
    assert only(doctor.encoder(settings)).state == "warning"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    finding = only(doctor.encoder(settings))
    assert finding.state == "problem" and finding.remedy.startswith("unset HF_HUB_OFFLINE")


def test_a_home_in_a_file_or_without_room_is_a_problem(project, monkeypatch):
    inside = project.settings.model_copy(update={"home": project.folder / "notes.jsonl" / "home"})
    finding = only(doctor.home(inside, project.folder))
    assert finding.state == "problem" and "is not writable (Not a directory)" in finding.found
    monkeypatch.setattr(forecast, "_BYTES_OF_A_PROJECT", 2**60)
    finding = only(doctor.home(project.settings, project.folder))
    assert finding.state == "problem" and "of text take about" in finding.found
    (project.home / "store").mkdir(parents=True)
    assert only(doctor.home(project.settings, project.folder)).state == "warning"


def test_the_room_that_documents_take_is_that_of_their_text(project):
    folder = project.folder / "notes"
    folder.mkdir()
    for name, size in (("a.txt", 1_000_000), ("b.pdf", 5_000_000), ("movie.mp4", 50_000_000), (".git", 9_000_000)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    corpora = {"notes": project.settings.corpora["notes"].model_copy(update={"path": folder})}
    text = forecast.characters(project.settings.model_copy(update={"corpora": corpora}), corpora)
    # A tenth of a PDF is text; what is not read has none.
    assert text == 1_500_000 and forecast.disk(text) < 2**25 * 1.2


def test_the_key_of_a_model_endpoint_is_checked_without_asking_anything(project, server, nobody, monkeypatch):
    answering = project.settings.answering.model_copy(update={"reader": "openai"})
    settings = project.settings.model_copy(update={"answering": answering})
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server}/v1")
    assert only(doctor.model(settings)).remedy.startswith("set OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    finding = only(doctor.model(settings))
    assert finding.state == "problem" and "does not accept OPENAI_API_KEY (401)" in finding.found
    assert "sk-wrong" not in str(finding)
    # Nobody asks it with this configuration.
    assert only(doctor.model(project.settings)).state == "warning"
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert only(doctor.model(settings)).state == "ok"
    other = settings.model_copy(update={"llm": settings.llm.model_copy(update={"model": "large"})})
    assert only(doctor.model(other)).remedy == "set llm.model to one of gpt-4o-mini, small"
    monkeypatch.setenv("OPENAI_BASE_URL", server)
    assert only(doctor.model(settings)).remedy == "OPENAI_BASE_URL usually ends in /v1"
    monkeypatch.setenv("OPENAI_BASE_URL", nobody)
    assert only(doctor.model(settings)).state == "problem"


def records():
    return only(run_check("dagster", doctor.dagster))


def test_a_dagster_home_must_be_there_and_its_postgres_must_answer(tmp_path, monkeypatch, nobody):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "none"))
    assert records().state == "problem"
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert records().state == "ok"
    port = int(nobody.rsplit(":", 1)[1])
    database = {"hostname": "127.0.0.1", "port": port, "username": {"env": "PG_USER"}, "db_name": "dagster"}
    database |= {"scheme": "postgresql+psycopg2", "password": "secret"}
    text = yaml.safe_dump({"storage": {"postgres": {"postgres_db": database}}})
    (tmp_path / "dagster.yaml").write_text(text, encoding="utf-8")
    assert records().state == "problem" and "PG_USER" in records().found
    monkeypatch.setenv("PG_USER", "dagster")
    finding = records()
    assert finding.state == "problem" and "refused" in finding.found and "secret" not in str(finding)


def test_a_check_that_fails_unforeseen_is_a_finding():
    def broken():
        yield doctor.Finding("torch", "ok", "so far")
        raise ValueError("libcudart.so: cannot open")

    assert [str(finding) for finding in run_check("torch", broken)] == [
        "ok       torch          so far",
        "problem  torch          ValueError: libcudart.so: cannot open",
    ]


@pytest.mark.parametrize(
    ("soft", "hard", "said"),
    [
        (200, 4096, "warning  open files     200 per process, expected at least 1,024: ulimit -n 1024"),
        (1024, 4096, "ok       open files     1,024 per process; `mog serve` raises it to 1,352"),
        (
            1024,
            1024,
            "warning  open files     1,024 per process: `mog serve` answers 672 requests at a time, not 1,000: "
            "ask for a hard limit of 1,352",
        ),
    ],
)
def test_the_connections_that_a_limit_of_open_files_leaves_room_for_are_told(soft, hard, said):
    code = "from mog_assets.plugins.upkeep import doctor as m; print(*m.open_files())"
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))  # noqa: E731
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=limit, check=True)
    assert done.stdout.strip() == said
