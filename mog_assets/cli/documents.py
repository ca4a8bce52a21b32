"""The command `mog documents`, and what `mog run` says of documents that were skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click

from mog_assets.cli.common import config_option, echo, guarded, print_table, settings_of
from mog_assets.config import Settings, check_corpora
from mog_assets.resources.errors import ConfigError


@click.command()
@config_option
@click.option("--corpus", "corpora", multiple=True, help="Only this corpus; may be given several times.")
@click.option("--list", "each", is_flag=True, help="List every document.")
@click.option("--skipped", is_flag=True, help="List the documents that were skipped, each with the reason.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def documents(path: str | None, corpora: tuple[str, ...], each: bool, skipped: bool, as_json: bool) -> None:
    """Print how many documents every corpus has, or which, and which were skipped."""
    if each and skipped:
        raise ConfigError("--list: expected it without --skipped, got both: choose one")
    settings = settings_of(path)
    check_corpora(settings, corpora)
    chosen = corpora or tuple(settings.corpora)
    if skipped:
        rows = [row for corpus in chosen for row in skipped_rows(settings, corpus)]
    elif each:
        rows = [row for corpus in chosen for row in _rows(settings, corpus)]
    else:
        rows = [_summary(settings, corpus) for corpus in chosen]
    if as_json:
        echo(json.dumps(rows, ensure_ascii=False, indent=1))
    elif rows:
        print_table("skipped documents" if skipped else "documents", rows)
    else:
        echo("No document was skipped.")


def skipped_rows(settings: Settings, corpus: str) -> list[dict[str, str]]:
    """The skipped documents of a corpus: corpus, place (file, and line or row in it), id if it has one, and reason.

    Raises:
        MissingArtefact: the corpus has not been read.
    """
    import pyarrow.parquet as pq

    from mog_assets.resources.store import Store

    stored = Store(settings.home).read("documents", corpus)
    return [{"corpus": corpus, **row} for row in pq.read_table(stored.path("skipped.parquet")).to_pylist()]


def _rows(settings: Settings, corpus: str) -> Iterator[dict[str, Any]]:
    """The documents of a corpus, in order of their ids."""
    import pyarrow.parquet as pq

    from mog_assets.resources.store import Store

    stored = Store(settings.home).read("documents", corpus)
    columns = ["id", "title", "characters", "language"]
    tables = [pq.read_table(stored.path(name), columns=columns) for name in stored.names("bucket")]
    rows = (row for table in tables for row in table.to_pylist())
    return ({"corpus": corpus, **row} for row in sorted(rows, key=lambda row: row["id"]))


def _summary(settings: Settings, corpus: str) -> dict[str, Any]:
    from mog_assets.resources.store import Store
    from mog_assets.retrieval.points import read_payloads

    stored = Store(settings.home).read("documents", corpus)
    left_out = sum(
        bool(document.left_out) for name in stored.names("bucket") for document in read_payloads(stored.path(name))
    )
    counts = {name: int(stored.manifest.counts.get(name, 0)) for name in ("documents", "characters", "skipped")}
    return {"corpus": corpus, **counts, "with metadata left out of Qdrant": left_out}


def print_skipped(settings: Settings, corpora: Sequence[str]) -> None:
    """Print how many documents of each corpus were skipped, and why the first one was."""
    from mog_assets.resources.store import Store

    for corpus in corpora or settings.corpora:
        artefact = Store(settings.home).find("documents", corpus)
        if artefact is not None and (count := int(artefact.manifest.counts.get("skipped", 0))):
            first = skipped_rows(settings, corpus)[0]
            documents = "document" if count == 1 else "documents"
            all_of_them = "" if count == 1 else "; `mog documents --skipped` lists all"
            echo(
                f"{corpus}: {count:,} {documents} skipped; the first: {first['place']}: {first['reason']}{all_of_them}"
            )
