"""`mog import`: a foreign data set becomes a corpus and a question set of a project."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from mog_assets.cli.common import CONFIG_HELP, echo, guarded
from mog_assets.cli.import_target import Target, in_order
from mog_assets.cli.project import name_of, write_configuration
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import MogError
from mog_assets.stopping import on_stop, stoppable

if TYPE_CHECKING:
    from mog_assets.questions.foreign import Dataset, ImportCounts, Importer, Notes

# Of gzip: packing takes no longer than the rest.
_LEVEL = 5

# Of all imports, after their own.
_COMMON = [
    click.Option(["--name"], help="Name of the corpus and the question set, if not that of the folder or file."),
    click.Option(["--replace"], is_flag=True, help="Replace what an earlier import of this name wrote."),
    click.Option(["--config", "path"], help=CONFIG_HELP),
]


class _Importers(click.Group):
    """A command for each registered importer."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Their names, sorted."""
        return sorted(IMPORTERS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """One of them; None if there is none."""
        importer = IMPORTERS.get(name)
        if importer is None:
            return None
        parameters = [*importer.parameters, *_COMMON]
        return click.Command(name, params=parameters, callback=partial(_import, importer), help=importer.help)


@click.command("import", cls=_Importers)
def import_() -> None:
    """Turn a public data set into a corpus and a question set of the project.

    Nothing is downloaded: docs/import.md says where the public sets are. Documents are written to
    `corpora/NAME.jsonl.gz` and questions to `NAME.questions.jsonl.gz`, next to mog.yaml, and both are added to it.
    """


@guarded
def _import(importer: Importer, name: str | None, replace: bool, path: str | None, **given: Any) -> None:
    importer.check(**given)
    target = Target.of(path, name or name_of(importer.named(**given)), replace, given.get("corpus"))
    work = partial(_work, target, lambda notes: importer.open(notes, **given))
    stoppable(work, target.home, "mog import", "starts again")


def _work(target: Target, read: Callable[[Notes], Dataset]) -> None:
    from mog_assets.questions.foreign import Notes
    from mog_assets.resources import progress

    notes = Notes()
    with progress.displayed(), on_stop(lambda: _sweep(target)), on_stop(progress.clear):
        _sweep(target)
        result = _write(target, read(notes), notes)
    splits = {split: result.splits[split] for split in in_order(result.splits)}
    write_configuration(target.file, target.text(splits))
    _tell(target, result, splits, notes)


def _sweep(target: Target) -> None:
    """Delete what an import that was killed left half-written."""
    from mog_assets.resources.holding import sweep_halves

    for path in (target.documents, target.questions, target.file):
        sweep_halves(path)


def _write(target: Target, data: Dataset, notes: Notes) -> ImportCounts:
    """Write the files of a data set; none is there before all are complete."""
    from mog_assets.questions.foreign import Ids, write_documents, write_questions
    from mog_assets.questions.foreign_trec import ids_of_corpus
    from mog_assets.resources.progress import followed, track

    ids, count = Ids(), 0
    with ExitStack() as files:
        # The last one that is opened is moved into place first.
        stream_of_questions = files.enter_context(_packed(target.questions))
        if target.imports_corpus:
            stream = files.enter_context(_packed(target.documents))
            what = f"documents of {target.name}"
            with followed(what), track(data.size, f"bytes · {what}") as advance:
                count = write_documents(data.documents(advance), stream, ids, notes)
            _expect(count, "document", notes)
        else:
            assert target.settings is not None
            corpus = target.settings.corpora[target.corpus]
            ids = ids_of_corpus(corpus.path, corpus.max_document_bytes)
        result = write_questions(data.questions(ids, target.corpus, notes), stream_of_questions, notes)
        _expect(sum(result.splits.values()), "question", notes)
    result.documents = count
    return result


@contextmanager
def _packed(path: Path) -> Iterator[BinaryIO]:
    """A gzip file to write; it is there when it is complete. The same content gives the same bytes."""
    from mog_assets.resources.writing import atomic

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


def _tell(target: Target, result: ImportCounts, splits: dict[str, int], notes: Notes) -> None:
    if target.imports_corpus:
        echo(f"documents {target.corpus}: {os.path.relpath(target.documents)} ({result.documents:,})")
    counts = ", ".join(f"{count:,} {split}" for split, count in splits.items())
    echo(f"questions {target.name}: {os.path.relpath(target.questions)} ({counts})")
    if result.grades:
        grades = ", ".join(f"{count:,} of grade {grade}" for grade, count in sorted(result.grades.items()))
        echo(f"evidence: {result.grades.total():,} judgements of documents ({grades})")
    if result.spans:
        echo(f"evidence: {result.spans:,} places in documents; {result.without:,} questions without")
    for line in notes:
        echo(f"mog: {line}", err=True)
    for line in target.unused(splits):
        echo(f"mog: {line}", err=True)
    echo(f"Wrote {target.file.name}. Next: `mog run`.")
