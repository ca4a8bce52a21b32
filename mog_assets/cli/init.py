"""`mog init`: a commented mog.yaml for folders of documents and files of questions."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path
from string import Template

import click
import yaml

from mog_assets import config, registry
from mog_assets.cli.common import echo, guarded
from mog_assets.cli.found_questions import (
    Questions,
    files_in,
    find_questions,
    given_columns,
    look_at,
)
from mog_assets.registry import COMMANDS, QUESTION_SOURCES
from mog_assets.resources.encoder_settings import encoders_of_languages
from mog_assets.resources.errors import ConfigError, MogError

# Files whose language is detected, and bytes of each.
_TEXTS, _SAMPLED, _BEGINNING = (".txt", ".md", ".html", ".csv", ".jsonl"), 20, 20_000
_LIMIT = config.CorpusSettings.model_fields["max_document_mb"].default * 1_000_000
_SAMPLES = ("garden.jsonl", "workshop", "sky", "questions.jsonl")
_NO_QUESTIONS = """\
# You have none yet: you can search, but nothing is measured or trained. Save a spreadsheet with the columns `question`,
# `answer` and `quote` as questions.csv, and remove the `#`:
# question_sets:
#   support:
#     path: questions.csv
#     corpora: [CORPORA]
"""

_FOREIGN = """
# Most of your documents are {language}: an encoder that knows {languages}
# ({command}).
{mark}encoder: {name}
"""


@dataclass(frozen=True)
class CorpusFiles:
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


def foreign(corpora: Sequence[CorpusFiles]) -> str:
    """Return language of most documents if it is not English, by the beginnings of some files of text; else empty."""
    from mog_assets.documents.folders import scan
    from mog_assets.text.languages import DEFAULT, detected, name_of

    codes: Counter[str] = Counter()
    for corpus in corpora:
        entries = (entry for entry in scan(corpus.path, int(_LIMIT)) if not entry.refusal)
        for entry in islice((e for e in entries if e.name.endswith(_TEXTS)), _SAMPLED):
            with open(entry.path, "rb") as stream:
                text = stream.read(_BEGINNING).decode("utf-8", "ignore")
            # JSON may write letters as numbers; tags and keys are English.
            plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text)
            codes[detected(re.sub(r"<[^>]*>|\"\w+\":", " ", plain))] += 1
    del codes[""]
    most = max(codes, key=lambda code: codes[code], default=DEFAULT)
    return "" if most == DEFAULT else name_of(most)


def find_documents(path: Path, name: str, questions: Sequence[Path] = ()) -> CorpusFiles:
    """Return the readable files of a corpus, without files of questions among them."""
    from mog_assets.documents.folders import scan, suffix_of, suffixes

    try:
        taken = {os.path.realpath(file) for file in questions}
        entries = [entry for entry in scan(path, int(_LIMIT)) if entry.path not in taken or not path.is_dir()]
    except MogError as error:
        raise ConfigError(f"FOLDERS: {error}") from error
    refused = [f"{entry.place} ({entry.refusal})" for entry in entries if entry.refusal]
    readable = Counter(suffix_of(entry.name) for entry in entries if not entry.refusal)
    if not readable:
        first = f"; the first: {refused[0]}" if refused else ""
        raise ConfigError(
            f"FOLDERS: expected documents ({', '.join(suffixes())}) in {path}, found none{first}: convert them to text"
        )
    return CorpusFiles(name, path, dict(readable.most_common()), refused)


def name_of(path: Path, taken: Sequence[str] = ()) -> str:
    """Return a name, valid and not yet taken, for the corpus or question set at a path."""
    stem = path.resolve().name.removesuffix(".gz").removesuffix(".jsonl")
    stem = stem.removesuffix(".csv").removesuffix(".tsv").removesuffix(".parquet")
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-_.")[:60] or "documents"
    return next(name for n in range(1, len(taken) + 2) if (name := stem if n == 1 else f"{stem}-{n}") not in taken)


def written(corpora: Sequence[CorpusFiles], questions: Sequence[Questions], base: Path, language: str = "") -> str:
    """Return the text of a mog.yaml in `base`; `language` is that of most documents if it is not English."""
    names, others = [corpus.name for corpus in corpora], encoders_of_languages()
    if questions:
        sets = "question_sets:\n"
        for each in questions:
            used = [name for name in names if name in each.corpora] or names
            sets += block(each.name, questions_entry(each, used, base))
    else:
        sets = _NO_QUESTIONS + "".join(source.example for source in QUESTION_SOURCES.values())
        sets = sets.replace("CORPORA", ", ".join(map(scalar, names)))
    encoder = ""
    if language and others:
        # What is not installed yet cannot be chosen.
        mark = "" if others[0].is_installed else "# "
        known = {"languages": others[0].languages, "command": others[0].command, "name": others[0].name}
        encoder = _FOREIGN.format(language=language, mark=mark, **known)
    template = Template((files("mog_assets.cli") / "mog.yaml.template").read_text(encoding="utf-8"))
    return template.substitute(
        corpora="".join(block(corpus.name, corpus_entry(corpus, base)) for corpus in corpora),
        imports=" `mog import` reads BEIR, TREC and SQuAD data sets." if "import" in COMMANDS else "",
        questions=sets,
        encoder=encoder,
        named="".join(f", `{other.name}`" for other in others),
    )


def corpus_entry(files: CorpusFiles, base: Path) -> Entry:
    """Return the keys and values of a corpus in a mog.yaml in the folder `base`."""
    return {"path": _path(files.path, base)}


def questions_entry(questions: Questions, corpora: Sequence[str], base: Path) -> Entry:
    """Return the keys and values of a question set in a mog.yaml in the folder `base`."""
    columns = {"columns": questions.columns} if questions.columns else {}
    splits = {} if questions.divided else {"train": questions.train, "test": questions.test}
    return {"path": _path(questions.path, base), "corpora": list(corpora), **columns, **splits}


def _path(path: Path, base: Path) -> str:
    path = path.resolve()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def _named_as_questions_say(corpora: list[CorpusFiles], questions: Sequence[Questions]) -> list[CorpusFiles]:
    """Give a single corpus the name that the evidence of the questions uses."""
    names_wanted = {name for one in questions for name in one.corpora}
    if len(corpora) == len(names_wanted) == 1 and re.fullmatch(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name := names_wanted.pop()
    ):
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
    "--questions",
    "question_files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of questions: .csv, .tsv, .parquet or .jsonl.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="FIELD=NAME",
    help="With --questions: what a column is called, if not as its field (question=Frage).",
)
@click.option("--samples", is_flag=True, help="Copy the sample documents and questions to `samples` and use them.")
@click.option("--config", "path", help="Configuration file to write instead of mog.yaml (or MOG_CONFIG).")
@click.option("--force", is_flag=True, help="Overwrite an existing configuration and existing samples.")
@guarded
def init(
    folders: tuple[Path, ...],
    question_files: tuple[Path, ...],
    columns: tuple[str, ...],
    samples: bool,
    path: str | None,
    force: bool,
) -> None:
    """Write a mog.yaml for documents: FOLDERs of text, HTML, PDF and office files, or .jsonl[.gz], .csv or .tsv files.

    Files of questions (.csv, .tsv, .parquet, .jsonl) have a column `question` and none called `text`: those in the
    FOLDERs and next to mog.yaml are found.
    """
    target = config.file(path)
    base = target.parent
    if target.exists() and not force:
        raise ConfigError(f"{target}: expected no configuration yet, found one: edit it, or replace it with --force")
    if samples and (folders or question_files):
        raise ConfigError("--samples: cannot be combined with FOLDER or --questions")
    if samples:
        folders = tuple(_copy_samples(base / "samples", force))
    if columns and not question_files:
        raise ConfigError("--column: expected a file of questions (--questions FILE), got none")
    named = given_columns(columns)
    if not folders:
        raise ConfigError(_which_folder(base))
    given = [*question_files, *(f for f in folders if f.is_file() and look_at(f)[0])]
    sources = [folder for folder in folders if folder not in given]
    # Where files of questions were named, no others are looked for.
    beside = [] if given else list(files_in([base, *(f for f in sources if f.is_dir())]))
    looks = {file: look_at(file) for file in (*beside, *(f for f in sources if f.is_file()))}
    candidates = given or [file for file in beside if looks[file][0]]
    unused = [reason for _, reason in looks.values() if reason]
    corpora: list[CorpusFiles] = []
    for source in sources:
        corpora.append(find_documents(source, name_of(source, [c.name for c in corpora]), candidates))
    if not corpora:
        raise ConfigError(
            f"FOLDERS: expected documents, got only files of questions ({', '.join(map(str, given))}): name the folder "
            "of the documents too"
        )
    questions: list[Questions] = []
    for file in candidates:
        # The name of its folder says more than `questions.jsonl`.
        source = file.resolve().parent if file.name.startswith("questions.") else file
        fields = named if file in question_files else {}
        questions.append(find_questions(file, name_of(source, [q.name for q in questions]), fields))
    corpora = _named_as_questions_say(corpora, questions)
    language = foreign(corpora)
    write_configuration(target, written(corpora, questions, base, language))
    for one in (*corpora, *questions):
        echo(one)
    for other in encoders_of_languages()[:1] if language else ():
        if not other.is_installed:
            echo(
                f"mog: most documents are {language}, which the encoder does not know: `{other.command}` and take the "
                f"`#` from `encoder: {other.name}` in mog.yaml",
                err=True,
            )
    _warn(corpora, questions)
    for reason in unused:
        echo(f"mog: {reason}", err=True)
    echo(f'Wrote {target.name}. Next: `mog run`, then `mog search "a question"`.')


def write_configuration(target: Path, text: str) -> None:
    """Write a configuration, which is checked first."""
    from mog_assets.resources.files import atomic

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic(target, private=False) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
            # The text must be a valid configuration.
            config.load(temporary)
    except OSError as error:
        raise MogError(f"{target}: expected a writable path ({error.strerror})") from error


def _warn(corpora: Sequence[CorpusFiles], questions: Sequence[Questions]) -> None:
    names = {corpus.name for corpus in corpora}
    for set_of in questions:
        if missing := [name for name in set_of.corpora if name not in names]:
            echo(
                f"mog: {set_of.path}: evidence lies in {', '.join(missing)}, but no corpus has that name: rename a "
                "corpus in mog.yaml, otherwise these questions are left out",
                err=True,
            )
        for corpus in corpora:
            if corpus.path.is_dir() and set_of.path.resolve().is_relative_to(corpus.path.resolve()):
                echo(
                    f"mog: {set_of.path} is in the folder of the corpus {corpus.name}: it is read as questions, not as "
                    "documents",
                    err=True,
                )


def _which_folder(base: Path) -> str:
    """Return the error message if no folder is named, with the folders to choose from."""
    from mog_assets.documents.folders import suffixes

    folders = [
        entry.name
        for entry in sorted(base.iterdir())
        if entry.is_dir()
        and not entry.name.startswith(".")
        and any(f.name.endswith(suffixes()) for f in entry.iterdir())
    ]
    hint = f" (here: {', '.join(f'`mog init {name}`' for name in folders[:5])})" if folders else ""
    return f"FOLDERS: expected a folder of documents{hint}, or --samples for sample documents, got neither"


Entry = Mapping[str, str | Sequence[str] | Mapping[str, str]]
STEP = "  "


def scalar(value: str | Sequence[str] | Mapping[str, str]) -> str:
    """Return a value as YAML on one line, for any place: quoted where YAML would read something else (`no`, `1.10`)."""
    options = {"allow_unicode": True, "width": 2**16, "default_flow_style": True, "sort_keys": False}
    return yaml.safe_dump([value], **options).strip()[1:-1]


def block(name: str, entry: Entry, indent: str = STEP) -> str:
    """Return the lines of a corpus or question set."""
    inner = "".join(f"{indent}{STEP}{key}: {scalar(value)}\n" for key, value in entry.items())
    return f"{indent}{scalar(name)}:\n{inner}"


registry.COMMANDS.register("init", init)
