"""The command `mog push`."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from mog_assets.cli.common import config_option, echo, guarded, settings_of
from mog_assets.registry import COMMANDS
from mog_assets.resources.errors import ConfigError

# Documents that are put at a time.
_BATCH = 1000


@click.command()
@click.argument("corpus")
@click.argument("file", type=click.File("rb"), required=False)
@config_option
@click.option("--delete", multiple=True, metavar="ID", help="Delete this document; may be given several times.")
@guarded
def push(corpus: str, file: BinaryIO | None, path: str | None, delete: tuple[str, ...]) -> None:
    """Put the documents of FILE into CORPUS, for the next run.

    CORPUS is one whose source is `pushed://FILE`. FILE has an object of id, title, text and metadata on each
    line; `-` is standard input.
    """
    settings = settings_of(path)
    from mog_assets.documents.decoding import parse_line, split_lines
    from mog_assets.plugins.pushing.pushed import files_of
    from mog_assets.plugins.pushing.pushed import push as pushed

    files = files_of(settings)
    if corpus not in files:
        raise ConfigError(
            f"CORPUS: expected one whose source is `pushed://FILE` ({', '.join(files) or 'none'}), got {corpus!r}"
        )
    limit = settings.corpora[corpus].max_document_bytes
    count = changed = 0
    records: list[dict[str, Any]] = []
    places: list[str] = []

    def put() -> None:
        nonlocal count, changed
        changed += pushed(files[corpus], records, (), limit, places)
        count += len(records)
        records.clear()
        places.clear()

    try:
        for number, line, _ in split_lines(file) if file is not None else ():
            record = parse_line(line)
            if isinstance(record, str):
                raise ConfigError(f"line {number}: {record}")
            records.append(record)
            places.append(f"line {number}")
            if len(records) == _BATCH:
                put()
        put()
    except ConfigError as error:
        raise ConfigError(
            f"{error}: {count:,} documents before were put; mend the line, and push the file again"
        ) from error
    changed += pushed(files[corpus], [], delete)
    echo(f"{corpus}: {count:,} put, {len(delete):,} deleted, {changed:,} changed; `mog run` makes them searched")


COMMANDS.register("push", push)
