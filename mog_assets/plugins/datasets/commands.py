"""`mog import`: a foreign data set becomes a corpus and a question set of a project."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from mog_assets import config
from mog_assets.build.stopping import on_stop, stoppable
from mog_assets.cli.common import CONFIG_HELP, echo, guarded
from mog_assets.cli.found_questions import Questions
from mog_assets.cli.init import (
    CorpusFiles,
    block,
    corpus_entry,
    name_of,
    questions_entry,
    write_configuration,
    written,
)
from mog_assets.registry import COMMANDS, IMPORTERS
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.files import is_being_written
from mog_assets.resources.printable import printable

if TYPE_CHECKING:
    from mog_assets.plugins.datasets.foreign import Dataset, ImportCounts, Importer, Notes

# Of gzip: packing takes no longer than the rest.
_LEVEL = 5
# Splits to measure on, the first that exists; and all in the order of their use, others first.
_MEASURED = ("test", "dev", "validation", "valid", "val")
_ORDER = ("train", *reversed(_MEASURED))
# Of all imports, after their own.
_COMMON = [
    click.Option(["--name"], help="Name of the corpus and the question set, if not that of the folder or file."),
    click.Option(["--replace"], is_flag=True, help="Replace what an earlier import of this name wrote."),
    click.Option(["--config", "path"], help=CONFIG_HELP),
]


@dataclass(frozen=True)
class _Target:
    """The place of a data set: a configuration file, which may not exist yet, a name, and the files to write.

    Attributes:
        settings: Those of the file; None if it does not exist.
        documents: The file of the documents.
        questions: The file of the questions.
    """

    file: Path
    settings: config.Settings | None
    name: str
    documents: Path
    questions: Path

    @classmethod
    def of(cls, path: str | None, name: str, replace: bool) -> _Target:
        """Return the target of an import; a name that is not allowed or taken is a `ConfigError`."""
        file = config.file(path)
        try:
            config.check_name(name)
        except ValueError as error:
            raise ConfigError(f"--name: expected {error}, got {printable(name)[:80]!r}") from error
        settings = config.load(file) if os.path.lexists(file) else None
        documents = file.parent / "corpora" / f"{name}.jsonl.gz"
        questions = file.parent / f"{name}.questions.jsonl.gz"
        target = cls(file, settings, name, documents, questions)
        target._check_free("question_sets", questions, replace)
        target._check_free("corpora", documents, replace)
        return target

    def _check_free(self, section: str, path: Path, replace: bool) -> None:
        """Reject a name that is taken, and a place that would be read as a document of another corpus."""
        taken = getattr(self.settings, section, {}).get(self.name)
        elsewhere = f" at {taken.path}" if taken and taken.path != path.resolve() else ""
        if elsewhere or ((taken or path.exists()) and not replace):
            remedy = "choose another --name" + ("" if elsewhere else ", or replace it with --replace")
            what = f"{section}.{self.name}" if taken else path
            raise ConfigError(f"{what}: expected none yet, found one{elsewhere}: {remedy}")
        for other, corpus in self.settings.corpora.items() if self.settings else ():
            if corpus.path.is_dir() and path.resolve().is_relative_to(corpus.path):
                raise ConfigError(
                    f"{path} would be read as a document of the corpus {other!r}, which is the folder "
                    f"{corpus.path}: import into a project in another folder with --config FOLDER/mog.yaml"
                )

    def configure(self, splits: dict[str, int]) -> None:
        """Write the configuration; if there is one, say what it does not have yet: its text is the user's."""
        measured = next((s for s in _MEASURED if s in splits), list(splits)[-1])
        base = self.file.parent
        documents = CorpusFiles(self.name, self.documents, {}, [])
        questions = Questions(self.name, self.questions, splits, [self.name], measured)
        if self.settings is None:
            write_configuration(self.file, written([documents], [questions], base))
            echo(f"Wrote {self.file.name}. Next: `mog run`.")
            return
        entries = {"corpora": corpus_entry(documents, base)}
        entries["question_sets"] = questions_entry(questions, [self.name], base)
        absent = {
            section: entry for section, entry in entries.items() if self.name not in getattr(self.settings, section)
        }
        echo(f"Add to {self.file.name}, then `mog run`:" if absent else "Next: `mog run`.")
        for section, entry in absent.items():
            echo(f"{section}:\n{block(self.name, entry)}".rstrip())


class _Importers(click.Group):
    """A command for each registered importer."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return their names, sorted."""
        return sorted(IMPORTERS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return one of them; None if there is none."""
        if importer := IMPORTERS.get(name):
            parameters = [*importer.parameters, *_COMMON]
            return click.Command(name, params=parameters, callback=partial(_import, importer), help=importer.help)
        return None


@click.command("import", cls=_Importers)
def import_() -> None:
    """Turn a public data set into a corpus and a question set of the project.

    Nothing is downloaded: docs/import.md says where the public sets are. Documents are written to
    `corpora/NAME.jsonl.gz` and questions to `NAME.questions.jsonl.gz`, next to mog.yaml, which is written if there is
    none; else the lines to add to it are printed.
    """


@guarded
def _import(importer: Importer, name: str | None, replace: bool, path: str | None, **given: Any) -> None:
    named = importer.named(**given)
    target = _Target.of(path, name or name_of(named), replace)
    work = partial(_work, target, lambda notes: importer.open(notes, **given))
    home = target.settings.home if target.settings else target.file.parent / ".mog"
    stoppable(work, home, "mog import", "starts again")


def _sweep_halves(path: Path) -> None:
    """Delete what ended processes left half-written of one file; the folder may be a user's own."""
    for entry in path.parent.glob(".tmp-*"):
        if re.fullmatch(rf"\.tmp-\d+-{re.escape(path.name)}", entry.name) and not is_being_written(entry.name):
            entry.unlink(missing_ok=True)


def _work(target: _Target, read: Callable[[Notes], Dataset]) -> None:
    from mog_assets.plugins.datasets.foreign import Notes
    from mog_assets.resources.console import clear, displayed

    def sweep() -> None:
        for path in (target.documents, target.questions, target.file):
            _sweep_halves(path)

    notes = Notes()
    with displayed(), on_stop(sweep), on_stop(clear):
        # What an import that was killed left half-written.
        sweep()
        counts = _write(target, read(notes), notes)
    order = sorted(counts.splits, key=lambda split: (_ORDER.index(split) if split in _ORDER else 0, split))
    splits = {split: counts.splits[split] for split in order}
    echo(f"documents {target.name}: {os.path.relpath(target.documents)} ({counts.documents:,})")
    questions = ", ".join(f"{count:,} {split}" for split, count in splits.items())
    echo(f"questions {target.name}: {os.path.relpath(target.questions)} ({questions})")
    if counts.grades:
        grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in sorted(counts.grades.items()))
        echo(f"evidence: {counts.grades.total():,} judgements of documents ({grades})")
    if counts.spans:
        echo(f"evidence: {counts.spans:,} places in documents; {counts.without:,} questions without")
    for line in notes:
        echo(f"mog: {line}", err=True)
    target.configure(splits)


def _write(target: _Target, data: Dataset, notes: Notes) -> ImportCounts:
    """Write the files of a data set; none is there before all are complete."""
    from mog_assets.plugins.datasets.foreign import write_documents, write_questions
    from mog_assets.resources.progress import followed, track

    ids: set[str] = set()
    what = f"documents of {target.name}"
    # The last one that is opened is moved into place first.
    with _packed(target.questions) as questions, _packed(target.documents) as documents:
        with followed(what), track(data.size, f"bytes · {what}") as advance:
            count = write_documents(data.documents(advance), documents, ids, notes)
        _expect(count, "document", notes)
        counts = write_questions(data.questions(ids, target.name, notes), questions, notes)
        _expect(counts.splits.total(), "question", notes)
    counts.documents = count
    return counts


@contextmanager
def _packed(path: Path) -> Iterator[BinaryIO]:
    """Open a gzip file to write; it is there when it is complete. The same content gives the same bytes."""
    from mog_assets.resources.files import atomic

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            atomic(path, private=False) as temporary,
            temporary.open("wb") as raw,
            gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as stream,
        ):
            yield cast(BinaryIO, stream)
    except OSError as error:
        raise MogError(f"{path}: expected a path that can be written ({error.strerror or error})") from error


def _expect(count: int, what: str, notes: Notes) -> None:
    if not count:
        raise MogError(f"expected at least one {what} that can be used, found none ({'; '.join(notes) or 'empty'})")


COMMANDS.register("import", import_)
