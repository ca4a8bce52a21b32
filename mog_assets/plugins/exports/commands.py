"""The command `export`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from mog_assets import config
from mog_assets.cli.common import check_measured, config_option, echo, guarded, settings_of
from mog_assets.registry import COMMANDS
from mog_assets.resources.errors import ConfigError, MogError


@click.command()
@config_option
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Folder. [default: `export` next to mog.yaml]")
@click.option(
    "--vectors", is_flag=True, help="Write chunks with their vectors instead, a Parquet file for each corpus."
)
@click.option(
    "--level", type=click.IntRange(1), default=1, help="With --vectors: of the chunks; 1, the finest, by default."
)
@guarded
def export(path: str | None, folder: Path | None, vectors: bool, level: int) -> None:
    """Write TREC runs and qrels, and all scores as Parquet and CSV, and print the names of the files.

    With --vectors, write what other vector databases load: ids, places, texts, metadata and vectors of chunks.

    In TREC files and file names, characters that are not safe there are percent-encoded. In CSV, a text that a
    spreadsheet would read as a formula starts with an apostrophe.
    """
    from mog_assets.resources.files import atomic

    settings = settings_of(path)
    folder = folder or config.file().parent / "export"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--to: expected a folder or a path that does not exist, got the file {folder}")
    if vectors:
        files = _vectors(settings, level)
    else:
        check_measured(settings, "export")
        files = _exported(settings)
    try:
        for name, write in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic(target, private=False) as temporary:
                write(temporary)
            echo(target)
    except OSError as error:
        raise MogError(f"--to: expected a writable folder, got {folder} ({error})") from error
    if vectors:
        return
    # A tool that reads the whole folder must not mistake a method of an earlier export for one of this export.
    written = {
        file.relative_to(folder).as_posix() for kind in ("runs", "qrels") for file in (folder / kind).rglob("*.t*")
    }
    for name in sorted(written - set(files)):
        echo(f"mog: {folder / name} is not part of this export: left unchanged", err=True)


def _vectors(settings: config.Settings, level: int) -> dict[str, Callable[[Path], object]]:
    """Return the function that writes the file of each corpus, by its path in the folder.

    Raises:
        ConfigError: there is no such level.
    """
    from mog_assets.plugins.exports.vectors import write
    from mog_assets.resources.store import Store

    if level > settings.levels:
        raise ConfigError(f"--level: expected a level from 1 to {settings.levels}, got {level}")
    store = Store(settings.home)
    return {
        f"vectors/{corpus}.parquet": partial(write, partial(store.read, partition=corpus), settings, corpus, level)
        for corpus in settings.corpora
    }


def _exported(settings: config.Settings) -> dict[str, Callable[[Path], object]]:
    """Return the function that writes each file of the export, by its path in the folder."""
    from mog_assets.answer.rows import read_answers
    from mog_assets.plugins.exports.measures import answer_files, retrieval_files
    from mog_assets.questions.sets import load_questions
    from mog_assets.resources.store import Store

    store = Store(settings.home)
    runs, scores, stored = (store.read(key) for key in ("runs", "scores", "questions"))
    questions = {name: load_questions(stored.path(f"{name}.parquet")) for name in settings.question_sets}
    tables = (scores.path("per_question.parquet"), scores.path("scores.parquet"))
    files = retrieval_files(runs.path("runs.parquet"), *tables, questions)
    if (marked := store.find("answer_scores")) is not None and (answers := store.find("answers")) is not None:
        tables = (marked.path("per_question.parquet"), marked.path("scores.parquet"))
        files |= answer_files(read_answers(answers.path, answers.names()), *tables)
    return files


COMMANDS.register("export", export)
