"""Configurations that people, templates and accidents write: what `mog run` must say of each, in one line."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shared import complaints

NOTES = '{"id": "a", "title": "Bread", "text": "Bread dough rises. Yeast makes gas."}\n'
QUESTIONS = (
    '{"id": "q1", "question": "What rises?", "split": "train", "answer": "Bread"}\n'
    '{"id": "q2", "question": "What makes gas?", "split": "dev", "answer": "Yeast"}\n'
)
CORPORA = "corpora: {notes: {path: notes.jsonl}}\n"
BASE = "home: home\n" + CORPORA
SETS = "question_sets: {q: {path: questions.jsonl, corpora: [notes], train: [train], test: [dev]}}\n"
# The cheapest asset: these configurations are about being read, not about what is then done.
CHEAPEST = ("run", "--select", "corpus_registry")


@dataclass(frozen=True)
class Case:
    """A configuration.

    Attributes:
        text: Of `mog.yaml`; bytes as they are.
        says: Every one of these stands in the one line on standard error.
        code: Exit code; 0 for configurations that are odd and nevertheless right.
        prepare: Makes what else lies in the folder.
        command: What is called.
    """

    text: str | bytes
    says: tuple[str, ...] = ()
    code: int = 2
    prepare: Callable[[Path], None] = lambda folder: None
    command: tuple[str, ...] = CHEAPEST


def keyed(text: str, *says: str) -> Case:
    """A project that is right but for the lines of `text`."""
    return Case(BASE + text, says)


def home(text: str, *says: str, prepare: Callable[[Path], None] = lambda folder: None, code: int = 2) -> Case:
    """A project with this home."""
    return Case(f"home: {text}\n" + CORPORA, ("home: expected ", *says), code, prepare)


def corpus(text: str, *says: str, prepare: Callable[[Path], None] = lambda folder: None, code: int = 2) -> Case:
    """A project whose corpus lies here."""
    value = f"home: home\ncorpora: {{notes: {{path: {text}}}}}\n"
    # What only reading it shows is said of the path, not of the key.
    key = ("corpora.notes.path: expected ",) if code == 2 else ()
    return Case(value, (*key, *says), code, prepare, ("run", "--select", "documents"))


def questions(text: str, *says: str) -> Case:
    """A project whose question set lies here."""
    return Case(
        BASE + f"question_sets: {{q: {{path: {text}, corpora: [notes]}}}}\n",
        ("question_sets.q.path: expected ", *says),
    )


def a_file(folder: Path) -> None:
    (folder / "taken").write_text("a file", encoding="utf-8")


def links_in_a_loop(folder: Path) -> None:
    (folder / "one").symlink_to(folder / "two")
    (folder / "two").symlink_to(folder / "one")


def dangling_link(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "nowhere")


def a_fifo(folder: Path) -> None:
    os.mkfifo(folder / "fifo")


def a_folder_of_notes(folder: Path) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "note.txt").write_text("Bread dough rises.", encoding="utf-8")


def an_empty_folder(folder: Path) -> None:
    (folder / "empty").mkdir()


def an_encoder_without_weights(folder: Path) -> None:
    (folder / "encoder").mkdir()
    (folder / "encoder" / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")


def an_encoder_of_garbage(folder: Path) -> None:
    (folder / "encoder").mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / "encoder" / name).write_bytes(b"\x00\xff garbage")


def a_bomb(levels: int) -> str:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(rows) + "\n"


HUGE = "9" * 400
CASES = {
    # A file that is no YAML, or not text
    "nothing": Case("", ("expected keys with values", "got nothing")),
    "only comments": Case("# home: .mog\n", ("expected keys with values",)),
    "a list": Case("[1, 2]", ("expected keys with values",)),
    "words": Case("just words", ("expected keys with values",)),
    "null document": Case("null\n", ("expected keys with values",)),
    "unclosed brace": Case("corpora: {notes", ("expected YAML", "line")),
    "tab": Case("corpora:\n\tnotes:\n\t\tpath: x\n", ("expected YAML", "'\\t'")),
    "bad indent": Case("home: home\n corpora: {}\n", ("expected YAML", "line")),
    "two documents": Case(BASE + "---\n" + BASE, ("expected", "single document")),
    "unknown alias": Case(BASE + "seed: *x\n", ("expected YAML", "alias")),
    "unknown tag": Case(BASE + "seed: !!python/object/apply:os.system [ls]\n", ("seed: expected", "tag")),
    "own tag": Case(BASE + "seed: !mine 3\n", ("seed: expected", "tag")),
    "set": Case(BASE + "methods: !!set {mog}\n", ("methods: expected", "tag")),
    "binary": Case(BASE + "retriever: !!binary aGVsbG8=\n", ("retriever: expected", "tag")),
    "tag that does not fit": Case(BASE + "seed: !!int five\n", ("seed: expected", "'five'")),
    "tag of a mapping at a text": Case(BASE + "bm25: !!map 3\n", ("bm25: expected", "!!map")),
    "tag of a text at a list": Case(BASE + "methods: !!str [fused]\n", ("methods: expected", "!!str")),
    "bool that does not fit": Case(BASE + "seed: !!bool five\n", ("seed: expected", "'five'")),
    "float that does not fit": Case(BASE + "seed: !!float five\n", ("seed: expected", "'five'")),
    "timestamp that does not fit": Case(BASE + "seed: !!timestamp five\n", ("seed: expected",)),
    "date out of range": Case(BASE + "seed: 2024-99-99\n", ("seed: expected", "2024-99-99")),
    "date": Case(BASE + "retriever: 2024-01-01\n", ("retriever: expected", "2024-01-01")),
    "merge of a number": Case(BASE + "<<: 3\n", ("<<: expected", "merge")),
    "key that is a list": Case(BASE + "? [a, b]\n: 3\n", ("expected", "key")),
    "key that is a mapping": Case(BASE + "? {a: b}\n: 3\n", ("expected", "key")),
    "equals sign": Case(BASE + "seed: =\n", ("seed: expected", "'='")),
    "Latin-1": Case("home: home\n# caf\xe9\n".encode("latin-1") + CORPORA.encode(), ("UTF-8",)),
    "UTF-16": Case(BASE.encode("utf-16"), ("UTF-8",)),
    "UTF-16 without mark": Case(BASE.encode("utf-16-le"), ("UTF-8",)),
    "UTF-32": Case(BASE.encode("utf-32"), ("UTF-8",)),
    "UTF-8 with mark": Case(BASE.encode("utf-8-sig"), code=0),
    "gzip": Case(gzip.compress(BASE.encode()), ("UTF-8",)),
    "NUL bytes": Case(b"\x00" * 64, ("NUL",)),
    "NUL in a line": Case(BASE + "seed: \x00\n", ("NUL",)),
    "control character": Case(BASE + "seed: \x07\n", ("expected YAML",)),
    "deep lists": Case(BASE + "methods: " + "[" * 5000 + "]" * 5000, ("nested", "deep")),
    "deep mappings": Case(BASE + "encoder: " + "{a: " * 3000 + "1" + "}" * 3000, ("nested", "deep")),
    "deep block": Case(BASE + "".join(" " * i + "a:\n" for i in range(600)), ("nested", "deep")),
    "alias bomb": Case(BASE + a_bomb(9), ("aliases",)),
    "alias bomb as a value": Case(a_bomb(9) + BASE + "methods: *a8\n", ("aliases",)),
    "alias of itself": Case(BASE + "methods: &a [*a]\n", ("methods", "itself")),
    "alias that is right": Case(BASE + "methods: &m [fixed-1]\nanswering: {methods: [cot]}\n", code=0),
    "huge file": Case(BASE + "# " + "x" * 2_000_000 + "\n", ("at most", "bytes")),
    "key given twice": Case(BASE + "levels: 2\nlevels: 3\n", ("levels: expected", "once", "line")),
    "corpus given twice": Case(
        "home: home\ncorpora:\n  notes: {path: notes.jsonl}\n  notes: {path: other.jsonl}\n",
        ("corpora.notes: expected", "once"),
    ),
    # Keys
    "unknown key": keyed("retreiver: bm25\n", "retreiver: expected a known key", "did you mean 'retriever'?"),
    "unknown key of an experiment's encoder": keyed(
        "experiments: {encoders: {mine: {modle: x}}}\n", "experiments.encoders.mine.modle: expected", "'model'"
    ),
    "unknown key within a list": keyed("answering: {methods: [{way: cot}]}\n", "answering.methods.0: expected"),
    "unknown key of the chunker": keyed(
        "chunker: {name: learned, training: {epoch: 3}}\n" + SETS, "chunker.training.epoch: expected", "'epochs'"
    ),
    "unknown key of automation": keyed("automation: {nightli: x}\n", "automation.nightli: expected", "'nightly'"),
    "number as key": keyed("1: 2\n", "1: expected", "quotes"),
    "null as key": keyed("null: 2\n", "null: expected", "quotes"),
    "number as key of a section": keyed("encoder: {5: x}\n", "encoder.5: expected", "quotes"),
    # Names
    "date as name": Case("home: home\ncorpora: {2024-01-01: {path: notes.jsonl}}\n", code=0),
    "number as name": Case(
        "home: home\ncorpora: {2024: {path: notes.jsonl}}\n", ("corpora.2024: expected", "'2024'", "quotes")
    ),
    "boolean as name": Case(
        "home: home\ncorpora: {no: {path: notes.jsonl}}\n", ("corpora.no: expected", "'no'", "quotes")
    ),
    "null as name": Case("home: home\ncorpora: {~: {path: notes.jsonl}}\n", ("corpora.~: expected", "quotes")),
    "float as name": Case(
        "home: home\ncorpora: {1.5: {path: notes.jsonl}}\n", ("corpora.1.5: expected", "'1.5'", "quotes")
    ),
    "name with a slash": Case("home: home\ncorpora: {a/b: {path: x}}\n", ("corpora.a/b: expected a name",)),
    "dots as name": Case("home: home\ncorpora: {..: {path: x}}\n", ("corpora...: expected a name",)),
    "name of 65 characters": Case(
        f"home: home\ncorpora: {{{'x' * 65}: {{path: x}}}}\n", ("expected a name of 1 to 64",)
    ),
    "name with a surrogate": Case(
        'home: home\ncorpora: {"a\\ud800": {path: x}}\n', ("corpora.a\\ud800: expected", "surrogate")
    ),
    "name of an unknown corpus that is a boolean": keyed(
        "question_sets: {q: {path: questions.jsonl, corpora: [yes]}}\n", "question_sets.q.corpora.0: expected", "True"
    ),
    # Values
    "string for a number": keyed('levels: "5"\n', "levels: expected", "'5'"),
    "word for a number": keyed("levels: five\n", "levels: expected", "'five'"),
    "boolean for a number": keyed("levels: true\n", "levels: expected", "True"),
    "fraction for a number": keyed("levels: 2.5\n", "levels: expected", "2.5"),
    "number for a boolean": keyed("automation: {enabled: 1}\n", "automation.enabled: expected", "1"),
    "word for a boolean": keyed('automation: {enabled: "yes"}\n', "automation.enabled: expected", "'yes'"),
    "list for a number": keyed("k: [3]\n", "k: expected", "[3]"),
    "number for a list": keyed("methods: 3\n", "methods: expected", "3"),
    "word for a list": keyed("methods: mog\n", "methods: expected", "'mog'"),
    "number in a list of names": keyed("methods: [1]\n", "methods.0: expected", "1"),
    "not a number": keyed("bm25: {k1: .nan}\n", "bm25.k1: expected", "nan"),
    "infinity": keyed("bm25: {k1: .inf}\n", "bm25.k1: expected", "inf"),
    "infinite rate": keyed("router: {learning_rate: .inf}\n", "router.learning_rate: expected", "inf"),
    "infinite size": Case(
        "home: home\ncorpora: {notes: {path: notes.jsonl, max_document_mb: .inf}}\n",
        ("corpora.notes.max_document_mb: expected", "inf"),
        command=("run", "--select", "documents"),
    ),
    "minus infinity": keyed("llm: {temperature: -.inf}\n", "llm.temperature: expected", "inf"),
    "infinity for a whole number": keyed("k: .inf\n", "k: expected", "inf"),
    "not a number for a whole number": keyed("buckets: .nan\n", "buckets: expected", "nan"),
    "huge whole number": keyed(f"k_r: {HUGE}\n", "k_r: expected", "999"),
    "whole number of 5000 digits": keyed(f"k_r: {'9' * 5000}\n", "k_r: expected"),
    "huge seed": keyed(f"seed: {HUGE}\n", "seed: expected"),
    "negative seed": keyed("seed: -1\n", "seed: expected", "-1"),
    "huge fraction": keyed("llm: {timeout: 1.0e+308}\n", "llm.timeout: expected", "1e+308"),
    "fraction beyond floats": keyed("llm: {timeout: 1.0e+999}\n", "llm.timeout: expected", "inf"),
    "huge width": keyed("router: {hidden: [99999999999999999999]}\n", "router.hidden.0: expected"),
    "huge number of threads": keyed("llm: {concurrency: 1000000000}\n", "llm.concurrency: expected"),
    "huge number of workers": keyed("engine: {workers: 1000000000}\n", "engine.workers: expected"),
    "zero levels": keyed("levels: 0\n", "levels: expected", "0"),
    "negative k": keyed("k: -1\n", "k: expected", "-1"),
    "surrogate in a value": keyed('retriever: "bm\\ud800"\n', "retriever: expected", "surrogate"),
    "NUL in a value": keyed('encoder: {model: "a\\0b"}\n', "encoder.model: expected", "NUL"),
    "very long value": keyed(f"retriever: {'x' * 100_000}\n", "retriever: expected", "..."),
    "unknown method": Case(BASE + SETS + "methods: [mogg-9]\n", ("method", "got 'mogg-9'"), command=("run",)),
    "unknown way of answering": Case(
        BASE + SETS + "answering: {methods: [guess]}\n", ("got 'guess'",), command=("run",)
    ),
    "five stars are no cron": keyed('automation: {nightly: "99 * * * *"}\n', "automation.nightly: expected", "minute"),
    "unknown zone": keyed("automation: {timezone: Mars/Olympus}\n", "automation.timezone: expected", "Mars"),
    "zone that leads out": keyed("automation: {timezone: ../../etc/passwd}\n", "automation.timezone: expected"),
    # Null
    "home of null": Case("home: null\n" + CORPORA, ("home: expected", "nothing", "leave the key out")),
    "corpora of null": Case("home: home\ncorpora:\n", ("corpora: expected", "nothing")),
    "corpus of null": Case("home: home\ncorpora: {notes: }\n", ("corpora.notes: expected", "nothing")),
    "path of null": Case("home: home\ncorpora: {notes: {path: }}\n", ("corpora.notes.path: expected", "nothing")),
    "question sets of null": keyed("question_sets:\n", "question_sets: expected", "leave the key out"),
    "test of null": keyed(
        "question_sets: {q: {path: questions.jsonl, corpora: [notes], test: }}\n",
        "question_sets.q.test: expected",
        "leave the key out",
    ),
    "levels of null": keyed("levels:\n", "levels: expected", "leave the key out"),
    "encoder of null": keyed("encoder:\n", "encoder: expected", "leave the key out"),
    "chunker of null": keyed("chunker:\n", "chunker: expected", "leave the key out"),
    "retriever of null": keyed("retriever: ~\n", "retriever: expected", "leave the key out"),
    "nothing at night": Case(BASE + "automation: {nightly: null}\nmethods: null\n", code=0),
    # What does not go together
    "learned chunker without question sets": keyed(
        "chunker: learned\n", "chunker.name: expected", "'learned'", "question_sets", "train"
    ),
    "learned chunker without training questions": Case(
        BASE + SETS.replace("train: [train], ", "") + "chunker: learned\n",
        ("chunker.name: expected", "'learned'", "question_sets", "train"),
    ),
    "unknown corpus": keyed(
        "question_sets: {q: {path: questions.jsonl, corpora: [nots]}}\n",
        "question_sets.q.corpora: expected names of corpora (notes), got 'nots'",
    ),
    "no corpora": Case("home: home\ncorpora: {}\n", ("corpora: expected", "{}")),
    "trained router asked for without training questions": Case(
        BASE + SETS.replace("train: [train], ", "") + "methods: [mog-paper]\n",
        ("methods: ", "'mog-paper'", "train"),
        command=("run",),
    ),
    "answers by a router without training questions": Case(
        BASE + SETS.replace("train: [train], ", "") + "answering: {methods: [mog-paper → one-step]}\n",
        ("answering.methods: ", "mog-paper → one-step", "train"),
        command=("run",),
    ),
    "split both trained on and scored": Case(
        BASE + SETS.replace("[dev]", "[train]"), ("question_sets.q: expected splits", "not for both (train)")
    ),
    # Home
    "home that is a file": home("taken", "taken", "file", prepare=a_file),
    "home under a file": home("taken/home", "taken", "file", prepare=a_file),
    "home far under a file": home("taken/a/b/home", "taken", "file", prepare=a_file),
    "home of nobody": home("~nobody-of-that-name/mog", "~nobody-of-that-name"),
    "home with NUL": home('"a\\0b"', "NUL"),
    "home with a surrogate": home('"a\\ud800b"', "surrogate"),
    "home with a long name": home("x" * 300, "long"),
    "home with a long path": home("/".join(["x" * 200] * 30), "long"),
    "home in a loop of links": home("one/home", "links", prepare=links_in_a_loop),
    "home that is a loop of links": home("one", "links", prepare=links_in_a_loop),
    "home that is a FIFO": home("fifo", "fifo", prepare=a_fifo),
    "home that is a device": home("/dev/null", "/dev/null"),
    "home that cannot be written": home("/proc/mog-home", "/proc/mog-home", code=1),
    "home that cannot be written at all": home("/sys/mog-home/a", "/sys/mog-home", code=1),
    "home that is a corpus": Case(
        "home: docs\ncorpora: {notes: {path: docs}}\n",
        ("home: expected", "corpora.notes.path"),
        prepare=a_folder_of_notes,
    ),
    "home in a corpus": Case(
        "home: docs/made\ncorpora: {notes: {path: docs}}\n",
        ("home: expected", "corpora.notes.path"),
        prepare=a_folder_of_notes,
    ),
    "hidden home in a corpus": Case(
        "home: docs/.mog\ncorpora: {notes: {path: docs}}\n", code=0, prepare=a_folder_of_notes
    ),
    "home by way of a link in a corpus": Case(
        "home: link/made\ncorpora: {notes: {path: docs}}\n",
        ("home: expected", "corpora.notes.path"),
        prepare=lambda folder: (a_folder_of_notes(folder), (folder / "link").symlink_to(folder / "docs")),
    ),
    "home that is a list": home("[a]", "['a']"),
    "home that is a number": home("3", "3"),
    "home that is empty": home('""', "''"),
    # Corpora and question sets
    "corpus that is not there": corpus("absent.jsonl", "absent.jsonl", code=1),
    "corpus under a file": corpus("taken/notes.jsonl", "taken", prepare=a_file, code=1),
    "corpus of nobody": corpus("~nobody-of-that-name/notes.jsonl", "~nobody-of-that-name"),
    "corpus with NUL": corpus('"a\\0b.jsonl"', "NUL"),
    "corpus with a surrogate": corpus('"a\\ud800.jsonl"', "surrogate"),
    "corpus with a long name": corpus("x" * 300 + ".jsonl", "long", code=2),
    "corpus in a loop of links": corpus("one", "links", prepare=links_in_a_loop, code=2),
    "corpus that leads nowhere": corpus("link", "nothing", prepare=dangling_link, code=1),
    "corpus that is a FIFO": corpus("fifo", "fifo", prepare=a_fifo, code=1),
    "corpus of another kind": corpus("taken", "taken", prepare=a_file, code=1),
    "corpus with nothing in it": corpus("empty", "empty", prepare=an_empty_folder, code=1),
    "two corpora of one path": Case(
        "home: home\ncorpora: {one: {path: notes.jsonl}, two: {path: notes.jsonl}}\n", code=0
    ),
    "questions of nobody": questions("~nobody-of-that-name/q.jsonl", "~nobody-of-that-name"),
    "questions with NUL": questions('"a\\0b.jsonl"', "NUL"),
    "questions with a surrogate": questions('"a\\ud800.jsonl"', "surrogate"),
    "questions with a long name": questions("x" * 300 + ".jsonl", "long"),
    "questions in a loop of links": Case(
        BASE + "question_sets: {q: {path: one, corpora: [notes]}}\n",
        ("question_sets.q.path: expected", "links"),
        prepare=links_in_a_loop,
    ),
    "questions that are not there": Case(
        BASE + SETS.replace("questions.jsonl", "absent.jsonl"),
        ("question_sets.q.path: ", "absent.jsonl"),
        1,
        command=("run", "--select", "+questions"),
    ),
    "unknown split": Case(
        BASE + SETS.replace("[dev]", "[validation]"),
        ("question_sets.q.test: expected", "'validation'", "train: 1", "dev: 1"),
        1,
        command=("run", "--select", "+questions"),
    ),
    # Encoders
    "encoder of an empty folder": Case(
        BASE + "encoder: {model: ./empty}\n",
        ("encoder.model: expected", "empty", "config.json"),
        2,
        an_empty_folder,
    ),
    "encoder without weights": Case(
        BASE + "encoder: {model: ./encoder}\n",
        ("encoder.model: expected", "model.safetensors"),
        2,
        an_encoder_without_weights,
    ),
    "encoder of garbage": Case(
        BASE + "encoder: {model: ./encoder}\n",
        ("encoder.model: expected", "encoder", "does not load"),
        1,
        an_encoder_of_garbage,
        ("run", "--select", "+embeddings/level_1"),
    ),
    "encoder that is a file": Case(
        BASE + "encoder: {model: ./taken}\n", ("encoder.model: expected", "taken", "file"), 2, a_file
    ),
    "encoder of nobody": keyed("encoder: {model: ~nobody-of-that-name/x}\n", "encoder.model: expected", "~nobody"),
    "encoder of an empty name": keyed('encoder: {model: ""}\n', "encoder.model: expected", "''"),
    "experiment's encoder of an empty folder": Case(
        BASE + SETS + "experiments: {encoders: {mine: {model: ./empty}}}\n",
        ("experiments.encoders.mine.model: expected", "empty", "config.json"),
        2,
        an_empty_folder,
    ),
}


# Those with keys and methods of papers.
OF_PAPERS = {
    "unknown key of an experiment's encoder",
    "unknown key of the chunker",
    "infinite rate",
    "huge width",
    "learned chunker without question sets",
    "learned chunker without training questions",
    "trained router asked for without training questions",
    "answers by a router without training questions",
    "experiment's encoder of an empty folder",
}


def made(case: Case, folder: Path) -> Path:
    """The project of a case in a folder; returns its `mog.yaml`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.jsonl").write_text(NOTES, encoding="utf-8")
    (folder / "questions.jsonl").write_text(QUESTIONS, encoding="utf-8")
    case.prepare(folder)
    path = folder / "mog.yaml"
    path.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    return path


def complaint(case: Case, code: int, out: str, error: str) -> str:
    """What is wrong with what the command did; empty where nothing is."""
    if "Traceback" in out + error:
        return "a traceback: " + (error.strip().splitlines() or [""])[-1][:160]
    if code != case.code:
        return f"exit code {code}, not {case.code}: {error.strip()[:300]}"
    lines = complaints(error)
    if case.code == 0:
        return f"complains: {error[:160]}" if lines else ""
    if len(lines) != 1 or not lines[0].startswith("mog: "):
        return f"{len(lines)} lines on standard error: {error.strip()[:160]}"
    if len(lines[0]) > 1000:
        return f"a line of {len(lines[0])} characters"
    missing = [text for text in case.says if text not in lines[0]]
    return f"does not say {missing}: {lines[0][:300]}" if missing else ""


def called(name: str, base: Path) -> str:
    """A case through the real command."""
    case, folder = CASES[name], base / f"{list(CASES).index(name):03d}"
    path = made(case, folder)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mog_assets.cli", *case.command, "--config", path],
            capture_output=True,
            cwd=folder,
            timeout=60,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    text = (done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
    if done.returncode < 0:
        return f"killed by signal {-done.returncode}"
    return complaint(case, done.returncode, *text)
