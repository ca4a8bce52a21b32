"""The command `mog documents`, and what `mog run` and `mog doctor` say of what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from mog_assets import registry
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
        shown = [{name: counted(v) if isinstance(v, dict) else v for name, v in row.items()} for row in rows]
        print_table("skipped documents" if skipped else "documents", shown)
    else:
        echo("No document was skipped.")


def skipped_rows(settings: Settings, corpus: str) -> list[dict[str, Any]]:
    """Return skipped documents of a corpus: corpus, place (file, line or row), id, reason, number of files."""
    import pyarrow.parquet as pq

    from mog_assets.resources.store import Store

    stored = Store(settings.home).read("documents", corpus)
    return [{"corpus": corpus, **row} for row in pq.read_table(stored.path("skipped.parquet")).to_pylist()]


def _rows(settings: Settings, corpus: str) -> Iterator[dict[str, Any]]:
    """Return the documents of a corpus, in order of their ids."""
    import pyarrow.parquet as pq

    from mog_assets.documents.documents import notes_of
    from mog_assets.resources.store import Store

    stored = Store(settings.home).read("documents", corpus)
    columns = ["id", "title", "characters", "language", "metadata"]
    tables = [pq.read_table(stored.path(name), columns=columns) for name in stored.names("bucket")]
    rows = sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["id"])
    return ({"corpus": corpus, "notes": notes_of(row.pop("metadata")), **row} for row in rows)


def _summary(settings: Settings, corpus: str) -> dict[str, Any]:
    from mog_assets.resources.store import Store

    stored = Store(settings.home).read("documents", corpus)
    counts = {name: int(stored.manifest.counts.get(name, 0)) for name in ("documents", "characters", "skipped")}
    notes = {name: stored.manifest.info.get(name, {}) for name in ("files not read", "notes")}
    if settings.encoder.served:
        vectors = Store(settings.home).find("embeddings/level_1", corpus)
        notes["texts without vector"] = int(vectors.manifest.counts.get("without vector", 0)) if vectors else 0
    return {"corpus": corpus, **counts, **notes}


def counted(values: Mapping[str, Any], most: int = 8) -> str:
    """Return counts, most first, or notes by their names as a text."""
    items = sorted(values.items(), key=lambda item: -item[1] if isinstance(item[1], int) else 0)
    parts = [f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}" for name, value in items]
    return ", ".join(parts[:most]) + (f" and {len(parts) - most:,} more kinds" if len(parts) > most else "")


def left_out(settings: Settings, corpora: Sequence[str] = ()) -> Iterator[str]:
    """Yield of each corpus how many files and documents were skipped, why the first was, and what was left out."""
    from mog_assets.resources.store import Store

    for corpus in corpora or settings.corpora:
        artefact = Store(settings.home).find("documents", corpus)
        if artefact is None:
            continue
        facts, parts = artefact.manifest.info, []
        files = sum(facts.get("files not read", {}).values())
        if files:
            parts.append(f"{files:,} {'file' if files == 1 else 'files'} not read ({counted(facts['files not read'])})")
        if rows := int(artefact.manifest.counts.get("skipped", 0)) - files:
            parts.append(f"{rows:,} {'document' if rows == 1 else 'documents'} skipped")
        if parts:
            # One that somebody meant to be read, before a kind that is not.
            first = min(skipped_rows(settings, corpus), key=lambda row: row["files"] > 1)
            all_of_them = "" if files + rows == 1 else "; `mog documents --skipped` lists all"
            yield f"{corpus}: {' and '.join(parts)}; the first: {first['place']}: {first['reason']}{all_of_them}"
        if notes := facts.get("notes"):
            yield f"{corpus}: documents with {counted(notes)}; `mog documents --list` names them"


registry.COMMANDS.register("documents", documents)
