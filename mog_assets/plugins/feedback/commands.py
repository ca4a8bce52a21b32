"""The commands `mog use …`: what the log of use holds, and deleting it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from mog_assets.cli.common import config_option, echo, guarded, settings_of
from mog_assets.config import Settings
from mog_assets.plugins.feedback.settings import USE
from mog_assets.registry import COMMANDS
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable


@click.group()
def use() -> None:
    """Read and delete the log of use: what was asked, and which passage answered it."""


@use.command("list")
@config_option
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Most entries.")
@guarded
def list_(path: str | None, limit: int) -> None:
    """Print the latest entries, newest first: time (UTC), question, and the passage that answered it."""
    from mog_assets.plugins.feedback.use import entries, log_path

    settings = settings_of(path)
    _expire(settings)
    rows = entries(log_path(settings.home), limit)
    for entry in rows:
        when = datetime.fromtimestamp(entry.time, UTC).strftime("%Y-%m-%d %H:%M")
        places = ", ".join(f"{q.corpus}/{q.doc} {q.start}-{q.end}" for q in entry.quotes)
        # A question may hold what moves the cursor of a terminal.
        echo(printable(f"{when}  {entry.question}" + (f"  → {places}" if places else "")))
    if not rows:
        echo("nothing is noted" + ("" if USE.of(settings).log else ": `use: {log: true}` in mog.yaml switches it on"))


@use.command()
@config_option
@click.option("--question", help="Delete what was noted of this question.")
@click.option("--document", metavar="CORPUS/ID", help="Delete what was noted with a passage of this document.")
@click.option("--before", type=click.DateTime(["%Y-%m-%d"]), help="Delete what is older than this day (UTC).")
@click.option("--all", "everything", is_flag=True, help="Delete everything.")
@guarded
def forget(
    path: str | None, question: str | None, document: str | None, before: datetime | None, everything: bool
) -> None:
    """Delete entries, so that their bytes are gone from the file."""
    from mog_assets.plugins.feedback import use as log

    settings = settings_of(path)
    named = [value for value in (question, document, before, everything or None) if value is not None]
    if len(named) != 1:
        raise ConfigError(
            f"mog use forget: expected one of --question, --document, --before and --all, got {len(named) or 'none'}"
        )
    corpus, slash, doc = (document or "").partition("/")
    if document is not None and not (corpus and doc):
        raise ConfigError(f"--document: expected CORPUS/ID, got {printable(document)!r}")
    number = log.forget(
        log.log_path(settings.home),
        question=question,
        document=(corpus, doc) if slash else None,
        before=None if before is None else before.replace(tzinfo=UTC).timestamp(),
        everything=everything,
    )
    echo(f"deleted {number:,} entries")
    copies = [name for name, question_set in settings.question_sets.items() if question_set.source == "use"]
    if number and copies:
        echo(f"{', '.join(copies)} copies questions of the log: run `mog run`, then `mog prune --answers`")


@use.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@config_option
@click.option("--asked", "unanswered", is_flag=True, help="Also questions for which no passage was named.")
@guarded
def export(file: Path, path: str | None, unanswered: bool) -> None:
    """Write the questions and the passages that answered them to FILE, as a question set (JSONL).

    FILE can be read by you alone. Nothing deletes its lines when the log forgets them.
    """
    from mog_assets.plugins.feedback.use import log_path, use_records
    from mog_assets.resources.files import atomic

    settings = settings_of(path)
    _expire(settings)
    records = [record for _, record in use_records(log_path(settings.home), unanswered)]
    try:
        with atomic(file) as temporary:
            temporary.touch(0o600)
            with temporary.open("wb") as stream:
                stream.writelines(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)
    except OSError as error:
        raise ConfigError(
            f"FILE: expected a file that can be written, got {printable(file)} ({error.strerror})"
        ) from error
    echo(f"wrote {len(records):,} questions to {printable(file)}")


def _expire(settings: Settings) -> None:
    from mog_assets.plugins.feedback.use import expire, log_path

    expire(log_path(settings.home), USE.of(settings).days)


COMMANDS.register("use", use)
