"""A small project with one method: what its first run says and builds, and where what people ask of it is left."""

import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import time
import urllib.request
from types import SimpleNamespace

import pytest
import yaml
from chat_server import ChatServer
from click.testing import CliRunner
from served import Served, command, environment

import mog_assets
from mog_assets import config
from mog_assets.build.plan import graph
from mog_assets.build.runner import run, selected
from mog_assets.cli import main
from mog_assets.config import QuestionSetSettings
from mog_assets.resources import progress
from mog_assets.resources.console import displayed
from mog_assets.resources.files import atomic, make_home
from mog_assets.resources.sqlite import connect
from mog_assets.resources.store import Store

# Its project has a log of use, and what it need not build is of papers.
pytestmark = [pytest.mark.full, pytest.mark.whole]

# In no document: wherever it stands in the home, a question brought it there.
MARKER = "zeppelinquark"
QUESTION = f"Which {MARKER} is planted in October?"
OPTIONS = {"A": f"garlic {MARKER}", "B": "the moon"}
NOT_NEEDED = {"known_items", "sentence_graph", "hop_statistics", "topics/model", "topics/assigned", "qdrant"}


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """A project of two documents, which others cannot read, after a run without a terminal."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "docs").mkdir()
    for name, text in (("garlic", "Garlic is planted in October."), ("apples", "Apples keep in the cellar.")):
        (folder / "docs" / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
        (folder / "docs" / f"{name}.md").chmod(0o600)
    file = folder / "mog.yaml"
    values = {"home": "home", "corpora": {"notes": {"path": "docs"}}, "methods": ["fused"], "levels": 2}
    file.write_text(yaml.safe_dump({**values, "use": {"log": True}}, sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        command("run", "--config", file), env=environment(), capture_output=True, text=True, timeout=300, umask=0o022
    )
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(file=file, settings=config.load(file), home=folder / "home", said=done.stderr.splitlines())


# What is built, and in which order


def test_a_run_builds_nothing_that_no_configured_method_needs(first_run):
    recipes, store = graph(first_run.settings), Store(first_run.home)
    built = {key for key, recipe in recipes.items() if store.find(key, "notes" if recipe.partitioned else None)}
    needed = {key for key, recipe in recipes.items() if not recipe.on_demand}
    assert built == needed
    assert set(recipes) - needed == NOT_NEEDED


def test_what_a_method_or_a_selection_names_is_built_with_its_inputs(first_run):
    of_graph = first_run.settings.model_copy(update={"methods": ["fused", "hop-1"]})
    on_demand = {key for key, recipe in graph(of_graph).items() if recipe.on_demand}
    assert on_demand & NOT_NEEDED == {"known_items", "topics/model", "topics/assigned", "qdrant"}
    recipes = graph(first_run.settings)
    chosen = selected(first_run.settings, recipes, ["topics/assigned"])
    # What it rests on, and nothing beside it.
    assert {"documents", "chunks/level_1", "embeddings/level_1", "topics/model", "topics/assigned"} < chosen
    assert not chosen & {"mentions", "statistics", "scores", "answers"}


@pytest.mark.parametrize("methods", [["fused"], None])
def test_words_come_first_then_what_every_search_needs_then_the_rest(first_run, methods):
    recipes = graph(first_run.settings.model_copy(update={"methods": methods}))
    words, first, rest = ({key for key, recipe in recipes.items() if recipe.turn == turn} for turn in range(3))
    assert {"chunks/level_1", "bm25/level_1", "statistics"} <= words
    assert {"embeddings/level_2", "mentions", "method"} <= first
    assert NOT_NEEDED & set(recipes) <= rest
    order = list(recipes)
    for earlier, later in ((words, first), (first, rest)):
        assert max(map(order.index, earlier)) < min(map(order.index, later))
    assert all(order.index(dep) < order.index(key) for key, recipe in recipes.items() for dep in recipe.deps)


def test_what_a_search_needs_waits_for_no_pool_of_what_measures(first_run):
    asked = {"q": QuestionSetSettings(path=first_run.file, corpora=["notes"], train=["train"], test=["test"])}
    recipes = graph(first_run.settings.model_copy(update={"question_sets": asked, "methods": None}))
    pools = [
        {r.pool for r in recipes.values() if r.pool and not r.on_demand and (r.turn < 2) == first}
        for first in (True, False)
    ]
    assert pools == [{"gpu"}, {"measuring"}]


def test_steps_of_one_run_are_in_that_order_too(first_run):
    ends = [line.partition(":")[0] for line in first_run.said if ": done in" in line]
    assert ends.index("statistics") < ends.index("embeddings/level_1 of corpus notes")


def test_words_are_searched_while_a_run_makes_the_first_vectors(tmp_path):
    for corpus, text in (("roots", "Garlic is planted in October."), ("fruit", "Apples keep in the cellar.")):
        (tmp_path / corpus).mkdir()
        (tmp_path / corpus / "one.md").write_text(text, encoding="utf-8")
    values = {"home": "home", "corpora": {"roots": {"path": "roots"}, "fruit": {"path": "fruit"}}, "methods": ["fused"]}
    file = tmp_path / "mog.yaml"
    file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    search = ["search", "When is garlic planted?", "--config", str(file)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command("run", "--config", file), env=environment(), **pipes) as run:
        said = next(line for line in run.stderr if line.startswith("Words can be searched from now on"))
        # It makes nothing more while it is asked.
        run.send_signal(signal.SIGSTOP)
        try:
            method = re.search(r"--method (\S+)", said)[1]
            words = CliRunner().invoke(main, [*search, "--method", method])
            every = CliRunner().invoke(main, search)
            answer = CliRunner().invoke(main, ["ask", *search[1:]])
            way = re.search(r"with method (\S+ → \S+)", " ".join(answer.stderr.split()))[1]
            answered = CliRunner().invoke(main, ["ask", *search[1:], "--method", way])
        finally:
            run.send_signal(signal.SIGCONT)
        run.stderr.read()
    assert run.returncode == 0
    assert (words.exit_code, every.exit_code) == (0, 1)
    assert "planted in October" in words.stdout
    assert (answer.exit_code, answered.exit_code) == (1, 0) and "October" in answered.stdout
    assert f"words can be searched, with method {method}" in " ".join(every.stderr.split())
    assert "planted in October" in CliRunner().invoke(main, search).stdout
    # What only a further run makes is another matter.
    topic = CliRunner().invoke(main, [*search, "--where", '{"topic": 0}'])
    assert topic.exit_code == 1 and "until then" not in topic.stderr


def test_a_server_waits_for_the_first_run_then_answers_by_words_then_as_usual(tmp_path):
    (tmp_path / "roots").mkdir()
    (tmp_path / "roots/one.md").write_text("Garlic is planted in October.", encoding="utf-8")
    file = tmp_path / "mog.yaml"
    values = {"home": "home", "corpora": {"roots": {"path": "roots"}}, "methods": ["fused"], "levels": 2}
    file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    serve = [*command("serve"), "--config", str(file), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment()}
    with subprocess.Popen(serve, **pipes) as server, subprocess.Popen(command("run", "--config", file), **pipes) as run:
        try:
            waiting = server.stderr.readline()
            assert "waiting for the first run, which `mog run` or `mog ui` starts: documents of corpus roots" in waiting
            next(line for line in run.stderr if line.startswith("Words can be searched from now on"))
            # It makes nothing more while the server is asked.
            run.send_signal(signal.SIGSTOP)
            url = server.stdout.readline().strip()
            assert asked(url)["method"] == "fixed-2"
            assert "words alone are searched until the first run is done" in server.stderr.readline()
            run.send_signal(signal.SIGCONT)
            run.stderr.read()
            until = time.monotonic() + 120
            while asked(url)["method"] != "fused":
                assert time.monotonic() < until
                time.sleep(0.5)
        finally:
            for process in (run, server):
                process.kill()


def asked(url):
    body = json.dumps({"question": "When is garlic planted?"}).encode()
    request = urllib.request.Request(f"{url}/v1/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found = json.load(response)
    assert "planted in October" in found["passages"][0]["text"]
    return found


# What a run says


def test_a_run_also_sweeps_artefacts_that_it_does_not_build(first_run, tmp_path):
    shutil.copytree(first_run.home, tmp_path / "home")
    settings = first_run.settings.model_copy(update={"home": tmp_path / "home"})
    assert run(settings, select=["sentence_graph"]).failures == []
    left = [Store(settings.home).folder(key, "notes") / ".tmp-left" for key in ("documents", "sentence_graph")]
    for path in left:
        path.touch()
    assert run(settings).steps == [] and not any(path.exists() for path in left)


def test_a_run_without_a_terminal_tells_when_each_asset_starts_and_ends(first_run):
    started = [line.partition(": started")[0] for line in first_run.said if ": started (new)" in line]
    ended = [found[1] for line in first_run.said if (found := re.fullmatch(r"(.+): done in [\d.]+ s", line))]
    assert started == ended and {"documents of corpus notes", "statistics"} < set(started)
    count = len(started)
    assert re.match(rf"{count} assets to check or build, {count} of them for the first time", first_run.said[0])


def test_long_work_tells_how_far_it_is_and_how_long_it_still_takes(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_FIRST", 0.01)
    monkeypatch.setattr(progress, "_EVERY", 0.01)
    logged = []
    with displayed(), progress.stage("embeddings of notes", "new", logged.append):
        wait_for(logged, "so far")
        with progress.track(12, "texts · embeddings of notes") as advance:
            # The first takes longer than all others: a model is loaded before it.
            time.sleep(1)
            advance(2)
            time.sleep(0.05)
            advance(1)
            wait_for(logged, "left")
    assert logged[0] == "embeddings of notes: started (new)"
    said = [re.fullmatch(r"texts · embeddings of notes: 3 of 12, about (\d\.\d) s left", line) for line in logged]
    # Nine at a twentieth of a second each, not at a third.
    assert next(float(one[1]) for one in said if one) < 1.5
    assert re.fullmatch(r"embeddings of notes: done in .+", logged[-1])
    assert capsys.readouterr().err.splitlines() == logged
    with pytest.raises(ZeroDivisionError), progress.stage("it", "new", logged.append):
        1 / 0  # noqa: B018
    assert logged[-1].startswith("it: failed after")


def wait_for(lines, what):
    until = time.monotonic() + 60
    while not any(what in line for line in list(lines)):
        assert time.monotonic() < until, lines
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.04, "0.0 s"), (9.9, "9.9 s"), (42.4, "42 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_times_are_written_for_people(seconds, words):
    assert progress.duration(seconds) == words


# What people ask


def holding(home):
    """Files of a home that hold the marker."""
    files = (path for path in home.rglob("*") if path.is_file())
    return {str(path.relative_to(home)) for path in files if MARKER.encode() in path.read_bytes()}


def cached(home):
    """Keys of all vectors and replies that are stored."""
    found = set()
    for path in (home / "cache").glob("*.sqlite"):
        opened = sqlite3.connect(path)
        table = "answers" if path.name == "llm.sqlite" else "vectors"
        found |= {(path.name, key) for (key,) in opened.execute(f"SELECT key FROM {table}")}
        opened.close()
    return found


def test_what_people_ask_is_kept_in_the_log_alone_and_nowhere_after_it_is_forgotten(first_run, tmp_path, monkeypatch):
    home, file = first_run.home, first_run.file
    before = cached(home)
    with mog_assets.open(file) as project:
        project.search(QUESTION)
        answer = project.ask(QUESTION, options=OPTIONS)
        project.sentences(QUESTION, answer.passages[0])
        project.used(QUESTION, answer.passages[0])
    openai = tmp_path / "openai.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    values |= {"home": str(home), "corpora": {"notes": {"path": str(file.parent / "docs")}}}
    openai.write_text(
        yaml.safe_dump({**values, "answering": {"reader": "openai"}, "llm": {"model": "m"}}, sort_keys=False)
    )
    with ChatServer(lambda messages: f"Answer: the {MARKER}") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "loopback")
        served = Served(openai, tmp_path)
        try:
            assert served.call("/v1/search", {"question": QUESTION})[0] == 200
            assert served.call("/v1/ask", {"question": QUESTION, "options": OPTIONS})[0] == 200
        finally:
            served.end()
        told = CliRunner().invoke(main, ["ask", QUESTION, "--config", str(openai)])
        assert told.exit_code == 0 and MARKER in told.output
        assert len(server.calls) >= 2
    assert MARKER not in served.log.read_text(encoding="utf-8")
    assert cached(home) == before
    assert holding(home) and holding(home) <= {"use/use.sqlite", "use/use.sqlite-wal"}
    forgotten = CliRunner().invoke(main, ["use", "forget", "--question", QUESTION, "--config", str(file)])
    assert forgotten.output == "deleted 6 entries\n"
    assert holding(home) == set()


def test_others_can_read_neither_the_home_nor_a_copy_in_it(first_run):
    assert stat.S_IMODE(first_run.home.stat().st_mode) == 0o700
    files = [*(first_run.home / "store").rglob("*.*"), *(first_run.home / "cache").rglob("*")]
    copies = [path for path in files if path.is_file() and ".lock" not in path.name]
    assert copies and {oct(stat.S_IMODE(path.stat().st_mode)) for path in copies} == {oct(0o600)}


def test_a_home_that_others_can_read_is_closed_to_them_and_that_is_said_once(tmp_path, caplog):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    make_home(home)
    make_home(home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (said,) = [record.getMessage() for record in caplog.records]
    assert str(home) in said and "its owner alone" in said


def test_what_is_written_into_the_home_is_for_its_owner_alone_and_other_files_are_as_the_user_says(tmp_path):
    before = os.umask(0o022)
    try:
        for name, private in (("copy", True), ("mog.yaml", False)):
            with atomic(tmp_path / name, private=private) as temporary:
                temporary.write_text("text", encoding="utf-8")
        opened = connect(tmp_path / "cache" / "a.sqlite")
        opened.execute("CREATE TABLE words (word TEXT)")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
        opened.close()
    finally:
        os.umask(before)
    sqlite = {f"a.sqlite{suffix}": 0o600 for suffix in ("", "-wal", "-shm")}
    assert modes == {"copy": 0o600, "mog.yaml": 0o644, **sqlite}


def test_forgetting_says_where_question_sets_copy_questions_of_the_log(tmp_path, make_project):
    from mog_assets.plugins.feedback.use import log_path, note_used

    (tmp_path / "docs").mkdir()
    sets = {"asked": {"source": "use", "corpora": ["notes"]}}
    project = make_project(tmp_path, {"corpora": {"notes": {"path": "docs"}}, "question_sets": sets})
    note_used(log_path(project.home), QUESTION, [], "fused", "v1")
    words = ["use", "forget", "--question", QUESTION, "--config", str(project.config)]
    told = CliRunner().invoke(main, words).output.splitlines()
    assert told == ["deleted 1 entries", "asked copies questions of the log: run `mog run`, then `mog prune --answers`"]
    assert CliRunner().invoke(main, words).output == "deleted 0 entries\n"
