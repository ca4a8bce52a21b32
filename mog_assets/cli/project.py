"""`mog init`: a commented mog.yaml for folders of documents and files of questions."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path

import click

from mog_assets import config
from mog_assets.cli.common import guarded
from mog_assets.config_text import Entry, block, scalar
from resources.errors import ConfigError, MogError

_LIMIT = config.CorpusSettings.model_fields["max_document_mb"].default * 1_000_000
# Lines read from a file to tell questions from documents.
_PEEKED = 20
_SAMPLES = ("garden.jsonl", "workshop", "sky", "questions.jsonl")

_TOP = """\
# The settings of `mog run`. Paths are relative to this file. A setting that is left out has its default.

# Everything the project builds is kept here. You can delete it: `mog run` rebuilds all but the history of scores.
home: .mog

# Your documents: a folder of .txt, .md, .html, .pdf, .docx, .pptx, .epub, .csv or .jsonl files, or one .jsonl[.gz] file
# with an object of id, title and text on each line.
corpora:
"""

_QUESTIONS = """
# Your questions, with the places in the documents that answer them. The router is trained on the splits under `train`;
# methods are measured on those under `test`. No split may be in both.
"""

_NO_QUESTIONS = """\
# Without questions you can search. With them, `mog run` trains the router and shows which method suits your documents.
# A question is a line {"id", "question", "split", "evidence": [{"corpus", "doc", "start", "end"}]} of a .jsonl file.
# question_sets:
#   support:
#     path: questions.jsonl
#     corpora: [CORPORA]
#     train: [train]
#     test: [test]
"""

_MORE = """
# Further settings, with their defaults. Remove the `#` in front of those that you change.

# The retriever of methods that name none: bm25 (words), dense (meaning) or hybrid (both).
# retriever: bm25

# Characters of text that `mog retrieve` prints and that answers are based on.
# budget: 4000

# Characters of the finest chunks, and number of levels: each level joins two chunks of the one below.
# finest_chars: 500
# levels: 5

# The sentence encoder: the one that is installed with mog, a Hugging Face model id, or a local folder.
# encoder:
#   model: all-MiniLM-L6-v2

# What answers questions: extractive needs no key; openai is any OpenAI-compatible endpoint (OPENAI_BASE_URL,
# OPENAI_API_KEY), used with the model under llm.
# answering:
#   reader: extractive
# llm:
#   model: gpt-4o-mini
"""


@dataclass(frozen=True)
class Documents:
    """A corpus that was found: name, path, number of readable files by suffix, and why other files are not read."""

    name: str
    path: Path
    readable: dict[str, int]
    refused: list[str]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {suffix}" for suffix, count in self.readable.items())
        refused = f"; not read: {'; '.join(self.refused[:3])}" if self.refused else ""
        more = f" and {len(self.refused) - 3:,} more" if len(self.refused) > 3 else ""
        return f"documents {self.name}: {os.path.relpath(self.path)} ({counts}{refused}{more})"


@dataclass(frozen=True)
class Questions:
    """A question set: name, path, number of questions by split, and the corpora of its evidence.

    `measured` names the only split to measure on, if that was chosen.
    """

    name: str
    path: Path
    splits: dict[str, int]
    corpora: list[str]
    measured: str | None = None

    @property
    def train(self) -> list[str]:
        """Splits to train on; none if no split would be left to measure on."""
        if self.measured is not None:
            return [split for split in self.splits if split != self.measured]
        return ["train"] if "train" in self.splits and len(self.splits) > 1 else []

    @property
    def test(self) -> list[str]:
        """Splits to measure on."""
        return [split for split in self.splits if split not in self.train]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {split}" for split, count in self.splits.items())
        return f"questions {self.name}: {os.path.relpath(self.path)} ({counts})"


def find_documents(path: Path, name: str) -> Documents:
    """The readable files of a corpus.

    Raises:
        ConfigError: no file can be read.
    """
    from mog_assets.corpus.folders import SUFFIXES, scan

    try:
        found = scan(path, int(_LIMIT))
    except MogError as error:
        raise ConfigError(f"FOLDERS: {error}") from error
    refused = [f"{entry.place} ({entry.refusal})" for entry in found if entry.refusal]
    # Longest first: .jsonl.gz is not .gz.
    kinds = sorted(SUFFIXES, key=len, reverse=True)
    names = [entry.name.lower() for entry in found if not entry.refusal]
    readable = Counter(next(kind for kind in kinds if name.endswith(kind)) for name in names)
    if not readable:
        first = f"; the first: {refused[0]}" if refused else ""
        raise ConfigError(
            f"FOLDERS: expected documents ({', '.join(SUFFIXES)}) in {path}, found none{first}: convert them to text"
        )
    return Documents(name, path, dict(readable.most_common()), refused)


def holds_questions(path: Path) -> bool:
    """Whether the first objects of a `.jsonl[.gz]` file are questions rather than documents."""
    from mog_assets.corpus.documents import parse_line, read_lines

    try:
        records = [parse_line(line) for _, line in islice(read_lines(path), _PEEKED)]
    # A corpus may contain files that cannot be read; `mog run` lists them.
    except MogError:
        return False
    return any(isinstance(record, dict) and "question" in record and "text" not in record for record in records)


def find_questions(path: Path, name: str) -> Questions:
    """The splits of a question file, and the corpora of its evidence.

    Raises:
        ConfigError: it cannot be read, or contains no question.
    """
    from mog_assets.corpus.documents import parse_line, read_lines

    splits: Counter[str] = Counter()
    corpora: dict[str, None] = {}
    try:
        for _, line in read_lines(path):
            record = parse_line(line)
            if isinstance(record, dict) and record.get("question"):
                splits[str(record.get("split"))] += 1
                spans = record.get("evidence")
                for span in spans if isinstance(spans, list) else ():
                    if isinstance(span, dict) and isinstance(span.get("corpus"), str):
                        corpora[span["corpus"]] = None
    except MogError as error:
        raise ConfigError(f"--questions: {error}") from error
    if not splits:
        raise ConfigError(f"--questions: expected lines with id, question and split in {path}, found none")
    return Questions(name, path, dict(splits.most_common()), list(corpora))


def name_of(path: Path, taken: Sequence[str] = ()) -> str:
    """A name, valid and not yet taken, for the corpus or question set at a path."""
    stem = path.resolve().name.removesuffix(".gz").removesuffix(".jsonl")
    stem = stem.removesuffix(".csv").removesuffix(".tsv")
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-_.")[:60] or "documents"
    return next(name for n in range(1, len(taken) + 2) if (name := stem if n == 1 else f"{stem}-{n}") not in taken)


def written(corpora: Sequence[Documents], questions: Sequence[Questions], base: Path) -> str:
    """The text of a mog.yaml in the folder `base`."""
    parts = [_TOP]
    for corpus in corpora:
        parts.append(block(corpus.name, corpus_entry(corpus, base)))
    parts.append(_QUESTIONS)
    if not questions:
        parts.append(_NO_QUESTIONS.replace("CORPORA", ", ".join(scalar(corpus.name) for corpus in corpora)))
    else:
        parts.append("question_sets:\n")
    for found in questions:
        asked = [corpus.name for corpus in corpora if corpus.name in found.corpora] or [c.name for c in corpora]
        parts.append(block(found.name, questions_entry(found, asked, base)))
    return "".join([*parts, _MORE])


def corpus_entry(found: Documents, base: Path) -> Entry:
    """The keys and values of a corpus in a mog.yaml in the folder `base`."""
    return {"path": _path(found.path, base)}


def questions_entry(found: Questions, corpora: Sequence[str], base: Path) -> Entry:
    """The keys and values of a question set in a mog.yaml in the folder `base`."""
    return {"path": _path(found.path, base), "corpora": list(corpora), "train": found.train, "test": found.test}


def _path(path: Path, base: Path) -> str:
    path = path.resolve()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def _beside(folders: Sequence[Path]) -> Iterator[Path]:
    """The question files in some folders, each once."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.glob("*.jsonl*")):
            if path.name.endswith((".jsonl", ".jsonl.gz")) and path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                if holds_questions(path):
                    yield path


def _named_as_asked(corpora: list[Documents], questions: Sequence[Questions]) -> list[Documents]:
    """Give a single corpus the name that the evidence of the questions uses."""
    asked = {name for found in questions for name in found.corpora}
    if len(corpora) == len(asked) == 1 and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name := asked.pop()):
        return [replace(corpora[0], name=name)]
    return corpora


def _copy_samples(folder: Path, force: bool) -> list[Path]:
    if folder.exists() and not force:
        raise ConfigError(f"--samples: expected nothing at {folder}, found something: --force writes into it")
    with as_file(files("mog_assets") / "samples") as samples:
        for name in _SAMPLES:
            source = samples / name
            if source.is_dir():
                shutil.copytree(source, folder / name, dirs_exist_ok=True)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, folder / name)
    return [folder / name for name in _SAMPLES]


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER]...")
@click.option(
    "--questions", "asked", multiple=True, type=click.Path(path_type=Path), help="A .jsonl file of questions."
)
@click.option("--samples", is_flag=True, help="Copy the sample documents and questions to `samples` and use them.")
@click.option("--config", "path", help="Configuration file to write instead of mog.yaml (or MOG_CONFIG).")
@click.option("--force", is_flag=True, help="Overwrite an existing configuration and existing samples.")
@guarded
def init(folders: tuple[Path, ...], asked: tuple[Path, ...], samples: bool, path: str | None, force: bool) -> None:
    """Write a mog.yaml for documents: FOLDERs of text, HTML, PDF and office files, or .jsonl[.gz], .csv or .tsv files.

    Question files are .jsonl files whose lines have a `question`: those in the FOLDERs and next to mog.yaml are found.
    """
    target = config.file(path)
    base = target.parent
    if target.exists() and not force:
        raise ConfigError(f"{target}: expected no configuration yet, found one: edit it, or replace it with --force")
    if samples and (folders or asked):
        raise ConfigError("--samples: cannot be combined with FOLDER or --questions")
    if samples:
        folders = tuple(_copy_samples(base / "samples", force))
    if not folders:
        raise ConfigError(_which_folder(base))
    given = [*asked, *(f for f in folders if f.is_file() and holds_questions(f))]
    sources = [folder for folder in folders if folder not in given]
    found = given if given else list(_beside([base, *(f for f in sources if f.is_dir())]))
    corpora: list[Documents] = []
    for source in sources:
        corpora.append(find_documents(source, name_of(source, [c.name for c in corpora])))
    if not corpora:
        raise ConfigError("FOLDERS: expected documents, got only question files")
    questions: list[Questions] = []
    for file in found:
        # The name of its folder says more than `questions.jsonl`.
        named = file.resolve().parent if file.name.startswith("questions.") else file
        questions.append(find_questions(file, name_of(named, [q.name for q in questions])))
    corpora = _named_as_asked(corpora, questions)
    write_configuration(target, written(corpora, questions, base))
    for told in (*corpora, *questions):
        click.echo(told)
    _warn(corpora, questions)
    click.echo(f'Wrote {target.name}. Next: `mog run`, then `mog retrieve "a question"`.')


def write_configuration(target: Path, text: str) -> None:
    """Write a configuration, which is checked first.

    Raises:
        ConfigError: it is not valid.
        MogError: the path cannot be written.
    """
    from resources.store import atomic

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic(target) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
            # The text must be a valid configuration.
            config.load(temporary)
    except OSError as error:
        raise MogError(f"{target}: expected a writable path ({error.strerror})") from error


def _warn(corpora: Sequence[Documents], questions: Sequence[Questions]) -> None:
    names = {corpus.name for corpus in corpora}
    for found in questions:
        if missing := [name for name in found.corpora if name not in names]:
            click.echo(
                f"mog: {found.path}: evidence lies in {', '.join(missing)}, but no corpus has that name: rename a "
                "corpus in mog.yaml, otherwise these questions are left out",
                err=True,
            )
        for corpus in corpora:
            if corpus.path.is_dir() and found.path.resolve().is_relative_to(corpus.path.resolve()):
                click.echo(
                    f"mog: {found.path} is in the folder of the corpus {corpus.name}, where its lines are skipped: "
                    "move it out of the folder",
                    err=True,
                )


def _which_folder(base: Path) -> str:
    """The error message if no folder is named, with the folders to choose from."""
    from mog_assets.corpus.folders import SUFFIXES

    there = [
        entry.name
        for entry in sorted(base.iterdir())
        if entry.is_dir() and not entry.name.startswith(".") and any(f.name.endswith(SUFFIXES) for f in entry.iterdir())
    ]
    known = f" (here: {', '.join(f'`mog init {name}`' for name in there[:5])})" if there else ""
    return f"FOLDERS: expected a folder of documents{known}, or --samples for sample documents, got neither"
