"""Whatever stands in `mog.yaml`: one line that names key, what was expected and what came, and never a traceback."""

import gzip
import math
import os
import subprocess
import sys
from typing import get_args

import pytest
import yaml
from click.testing import CliRunner
from shared import complaints

from mog_assets import config
from mog_assets.cli import main
from mog_assets.config import settings_model
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.settings import SettingsModel

NOTES = '{"id": "a", "title": "Bread", "text": "Bread dough rises. Yeast makes gas."}\n'
QUESTIONS = (
    '{"id": "q1", "question": "What rises?", "split": "train", "answer": "Bread"}\n'
    '{"id": "q2", "question": "What makes gas?", "split": "dev", "answer": "Yeast"}\n'
)
BASE = "home: home\ncorpora: {notes: {path: notes.jsonl}}\n"
SETS = "question_sets: {q: {path: questions.jsonl, corpora: [notes], train: [train], test: [dev]}}\n"


@pytest.fixture
def folder(tmp_path):
    """A project without settings, beside files and links of every wrong kind."""
    (tmp_path / "notes.jsonl").write_text(NOTES, encoding="utf-8")
    (tmp_path / "questions.jsonl").write_text(QUESTIONS, encoding="utf-8")
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    (tmp_path / "nowhere").symlink_to(tmp_path / "absent")
    os.mkfifo(tmp_path / "fifo")
    for name in ("docs", "empty", "bare", "garbage"):
        (tmp_path / name).mkdir()
    (tmp_path / "docs" / "note.txt").write_text("Bread dough rises.", encoding="utf-8")
    (tmp_path / "bare" / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "docs")
    return tmp_path


def refused(folder, text):
    """Return the message about a configuration, without the name of the file; empty where it is read."""
    path = folder / "mog.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        config.load(path)
    except ConfigError as error:
        said = str(error)
        assert "\n" not in said and len(said) < 1000 and said.isprintable()
        return said.removeprefix(f"configuration {path}: ")
    return ""


# Every setting


def settings_of(kind, key=()):
    """Where each setting stands, sections included; names of corpora and items of lists are ours."""
    for name, field in kind.model_fields.items():
        yield (*key, name)
        for option in (field.annotation, *get_args(field.annotation)):
            if isinstance(option, type) and issubclass(option, SettingsModel):
                of_names = str(field.annotation).startswith("dict")
                yield from settings_of(option, (*key, name, "notes") if of_names else (*key, name))


NONSENSE = [None, True, -1, 2.5, math.nan, math.inf, 10**400, "\ud800", "a\0b", "x" * 100_000, [[1]], {"a b": 1}]


@pytest.mark.parametrize("key", sorted(set(settings_of(settings_model()))), ids=".".join)
def test_nonsense_at_any_key_is_read_or_refused_by_key_expectation_and_value(folder, key):
    times = 0
    for value in NONSENSE:
        values = {"home": "home", "corpora": {"notes": {"path": "notes.jsonl"}}}
        values["question_sets"] = {"notes": {"path": "questions.jsonl", "corpora": ["notes"]}}
        values |= {"reranker": {"model": "x"}} if key[0] == "reranker" else {}
        place = values
        for part in key[:-1]:
            place = place.setdefault(part, {})
        place[key[-1]] = value
        if said := refused(folder, yaml.safe_dump(values, sort_keys=False)):
            times += 1
            assert said.startswith(".".join(key[:-1])) and key[-1] in said, value
            assert "expected " in said and ("got " in said or "'a b'" in said), value
    assert times > 2


# Files that are no settings


def a_bomb(levels):
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected keys with values, got nothing"),
        ("[1, 2]", "expected keys with values, got [1, 2]"),
        ("corpora:\n\tnotes:\n\t\tpath: x\n", "expected YAML, got: "),
        (BASE + "---\n" + BASE, "single document"),
        (BASE + "seed: !!python/object/apply:os.system [ls]\n", "seed: expected plain YAML, got the tag !!python"),
        (BASE + "methods: !!str [fused]\n", "methods: expected plain YAML, got the tag !!str in line 3"),
        (BASE + "seed: !!int five\n", "seed: expected a value of type int, got 'five'"),
        (BASE + "seed: 2024-99-99\n", "seed: expected a valid integer, got '2024-99-99'"),
        (BASE + f"k_r: {'9' * 5000}\n", "k_r: expected "),
        (BASE + "<<: 3\n", "<<: expected a key that is a text, got one that YAML reads as merge"),
        (BASE + "? [a, b]\n: 3\n", "keys: expected keys that are texts, got a list"),
        (BASE + "null: 2\n", "null: expected a key that is a text, got one that YAML reads as null"),
        (BASE.encode("utf-16"), "UTF-8"),
        (b"home: home\n# caf\xe9\n", "expected a readable UTF-8 YAML file, got other bytes"),
        (gzip.compress(BASE.encode()), "UTF-8"),
        (b"\x00" * 64, "got NUL bytes (perhaps UTF-16); save it as UTF-8"),
        (BASE + "methods: " + "[" * 5000 + "]" * 5000, "nested at most 50 deep"),
        (BASE + "".join(" " * i + "a:\n" for i in range(600)), "nested at most 50 deep"),
        (BASE + a_bomb(9), "after expanding aliases"),
        (BASE + "methods: &a [*a]\n", "or an alias that contains itself"),
        (BASE + "# " + "x" * 2_000_000 + "\n", "expected a file of at most 1,000,000 bytes, got more"),
        (BASE + "levels: 2\nlevels: 3\n", "levels: expected the key once, got it twice, again in line 4: remove one"),
    ],
    ids=range(22),
)
def test_a_file_that_is_no_settings_is_refused(folder, text, says):
    assert says in refused(folder, text)


@pytest.mark.parametrize(
    "text",
    [
        BASE.encode("utf-8-sig"),
        BASE + "methods: &m [fixed-1]\nanswering: {methods: [cot]}\n",
        "home: home\ncorpora: {2024-01-01: {path: notes.jsonl}}\n",
        "home: home\ncorpora: {one: {path: notes.jsonl}, two: {path: notes.jsonl}}\n",
        BASE + "automation: {nightly: null}\nmethods: null\n",
        "home: docs/.mog\ncorpora: {notes: {path: docs}}\n",
    ],
)
def test_what_is_odd_and_right_is_read(folder, text):
    assert refused(folder, text) == ""


# Names and paths


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("2024", "corpora.2024: expected a key that is a text, got one that YAML reads as int in line 2: write it in "),
        (
            "no",
            "corpora.no: expected a key that is a text, got one that YAML reads as bool in line 2: write it in quot",
        ),
        ("a/b", "corpora.a/b: expected a name of 1 to 64 letters"),
        ("..", "corpora...: expected a name of 1 to 64 letters"),
        ("x" * 65, "expected a name of 1 to 64 letters"),
        ('"a\\ud800"', "corpora.a\\ud800: expected text, got 'a\\\\ud800' with NUL or half of a surrogate pair"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(folder, name, says):
    assert says in refused(folder, f"home: home\ncorpora: {{{name}: {{path: notes.jsonl}}}}\n")


@pytest.mark.parametrize("key", ["home", "corpora.notes.path", "question_sets.q.path"])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("~nobody-of-that-name/x", "~nobody-of-that-name is not the home of a user of this machine"),
        ('"a\\0b"', "NUL"),
        ('"a\\ud800b"', "half of a surrogate pair"),
        ("x" * 300, "it is too long for this system"),
        ("one", "its links lead in a circle"),
    ],
)
def test_a_path_that_no_system_has_is_refused_wherever_it_stands(folder, key, path, says):
    paths = {"home": "home", "corpora.notes.path": "notes.jsonl", "question_sets.q.path": "questions.jsonl", key: path}
    home, corpus, questions = paths.values()
    said = refused(
        folder,
        f"home: {home}\ncorpora: {{notes: {{path: {corpus}}}}}\n"
        f"question_sets: {{q: {{path: {questions}, corpora: [notes]}}}}\n",
    )
    assert said.startswith(f"{key}: expected ") and says in said


@pytest.mark.parametrize("home", ["taken", "taken/a/b/home", "fifo", "/dev/null", "docs", "docs/made", "link/made"])
def test_a_home_that_is_a_file_or_in_a_corpus_is_refused(folder, home):
    said = refused(folder, f"home: {home}\ncorpora: {{notes: {{path: docs}}}}\n")
    assert said.startswith("home: expected a folder") and ("corpora.notes.path" in said) == (home[0] in "dl")


# What does not go together


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("retreiver: bm25\n", "retreiver: expected a known key, got 'retreiver'; did you mean 'retriever'?"),
        ("levels: five\n", "levels: expected a valid integer, got 'five'"),
        ("levels:\n", "levels: expected a valid integer, got nothing; give it a value, or leave the key out"),
        ('automation: {nightly: "99 * * * *"}\n', "automation.nightly: expected "),
        ("automation: {timezone: ../../etc/passwd}\n", "automation.timezone: expected "),
        (SETS.replace("[dev]", "[train]"), "question_sets.q: expected splits"),
        (SETS.replace("[notes]", "[nots]"), "question_sets.q.corpora: expected names of corpora (notes), got 'nots'"),
        (SETS.replace("[notes]", "[yes]"), "question_sets.q.corpora.0: expected a valid string, got True"),
        ("encoder: {model: ./empty}\n", "encoder.model: expected a folder with config.json, tokenizer.json and model."),
        ("encoder: {model: ./bare}\n", "where there is a folder with 1 other files, got './bare'"),
        ("encoder: {model: ./taken}\n", "or a model without a path, where there is a file, got './taken'"),
        pytest.param("chunker: learned\n", "chunker.name: expected a chunker that needs no", marks=pytest.mark.whole),
    ],
)
def test_settings_that_people_get_wrong_are_refused_with_a_remedy(folder, text, says):
    assert says in refused(folder, BASE + text)


def run(folder, text, *command):
    (folder / "mog.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, [*command, "--config", str(folder / "mog.yaml")])


@pytest.mark.parametrize(
    ("text", "assets", "code", "says"),
    [
        (BASE + SETS + "methods: [mogg-9]\n", "", 2, "got 'mogg-9'"),
        (BASE + SETS + "answering: {methods: [guess]}\n", "", 2, "got 'guess'"),
        (BASE + SETS.replace("questions.jsonl", "absent.jsonl"), "+questions", 1, "question_sets.q.path: "),
        (BASE + SETS.replace("[dev]", "[validation]"), "+questions", 1, "(dev: 1, train: 1), got 'validation'"),
        (BASE.replace("home: home", "home: /proc/mog-home"), "corpus_registry", 1, "home: expected "),
        *((BASE.replace("notes.jsonl", name), "documents", 1, name) for name in ("absent.jsonl", "taken/a.jsonl")),
        *((BASE.replace("notes.jsonl", name), "documents", 1, name) for name in ("fifo", "taken", "empty")),
        (BASE.replace("notes.jsonl", "nowhere"), "documents", 1, "absent: expected a file"),
        pytest.param(
            BASE + SETS.replace("train: [train], ", "") + "methods: [mog-paper]\n",
            *("", 2, "methods: 'mog-paper' needs training"),
            marks=pytest.mark.whole,
        ),
    ],
)
def test_a_run_of_what_cannot_be_run_ends_in_one_line(folder, text, assets, code, says):
    result = run(folder, text, "run", *(["--select", assets] if assets else []))
    assert result.exit_code == code and "Traceback" not in result.output
    (line,) = complaints(result.stderr)
    assert line.startswith("mog: ") and says in line and len(line) < 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE + "encoder: " + "{a: " * 3000 + "1" + "}" * 3000, "nested at most 50 deep"),
        (a_bomb(9) + BASE + "methods: *a8\n", "after expanding aliases"),
        (BASE.replace("home: home", "home: taken/home"), "taken is a file: choose another path"),
    ],
    ids=["deep", "bomb", "home"],
)
def test_a_real_process_ends_in_one_line(folder, text, says):
    (folder / "mog.yaml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mog_assets.cli", "run", "--select", "corpus_registry"]
    done = subprocess.run(command, capture_output=True, cwd=folder, timeout=60, text=True)
    (line,) = complaints(done.stderr)
    assert done.returncode == 2 and line.startswith("mog: ") and says in line
