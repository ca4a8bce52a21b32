"""Recover the intact part of a damaged history, because past evaluations cannot be repeated.

The history is stored twice: as a table, and as lines of JSON, one per evaluation, each with its own checksum. Damage to
one file loses nothing; damage to both loses the evaluations whose lines are damaged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from mog_assets.resources.manifest import decode, digest

TABLE, LINES, ACCEPTED = "history.parquet", "history.jsonl", "accepted.parquet"


@dataclass
class Remains:
    """The intact part of a history.

    Attributes:
        table: Its evaluations in order of time, from `history.rows`; None if none is left.
        accepted: Result of `history.leading` for the last accepted evaluation; None if it is lost.
        basis: Time, scores and configuration of that evaluation; None if they are lost.
        known: Times of all evaluations known to have been in it, ISO 8601.
        broken: Number of lines that cannot be read.
    """

    table: pd.DataFrame | None = None
    accepted: pd.DataFrame | None = None
    basis: dict[str, str] | None = None
    known: set[str] = field(default_factory=set)
    broken: int = 0

    def lost(self, table: pd.DataFrame) -> list[str]:
        """The lost parts, one phrase each."""
        missing = sorted(self.known - set(times(table)))
        if not missing and self.broken and not self.known:
            missing = [f"{self.broken} of unknown date"]
        lost = [f"the evaluation of {time}" for time in missing]
        there = self.table is not None or self.known
        return [*lost, *(["the last accepted scores"] if there and (self.accepted is None or not self.basis) else [])]


def times(table: pd.DataFrame) -> list[str]:
    """Times of the evaluations of a table, ISO 8601, in order."""
    return [pd.Timestamp(time).isoformat() for time in table["time"].unique()]


def lines(table: pd.DataFrame, basis: Mapping[str, str]) -> str:
    """A history as lines of JSON; the last line is the last accepted evaluation."""
    dtypes = {name: str(dtype) for name, dtype in table.dtypes.items()}
    found: list[dict[str, Any]] = []
    for time, part in table.groupby("time", sort=False):
        iso = pd.Timestamp(str(time)).isoformat()
        rows = part.drop(columns="time").astype(object).to_dict("records")
        found.append({"evaluation": iso, "dtypes": dtypes, "rows": rows})
    found.append({"accepted": dict(basis)})
    # Seal the values exactly as a reader gets them.
    plain = [json.loads(json.dumps(one)) for one in found]
    return "".join(json.dumps({**one, "seal": digest(one)}, ensure_ascii=False) + "\n" for one in plain)


def remains(folder: Path) -> Remains:
    """The intact part of the files in the folder of a history, including files moved aside."""
    found = Remains()
    sums: dict[str, str] = {}
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime)
    for path in files:
        if path.name == "manifest.json":
            _of_manifest(path, found, sums)
    tables: list[pd.DataFrame] = []
    for path in files:
        if path.match("history-*.jsonl"):
            tables += _of_lines(path, found)
        elif path.suffix == ".parquet" and (table := _of_parquet(path, sums)) is not None:
            if path.match("history-*"):
                tables.append(table)
            elif path.match("accepted-*"):
                found.accepted = table
    seen: set[str] = set()
    kept = []
    # The table first: it has every evaluation as originally written.
    for table in sorted(tables, key=len, reverse=True):
        new = table[[pd.Timestamp(time).isoformat() not in seen for time in table["time"]]]
        seen |= set(times(table))
        kept.append(new)
    if seen:
        found.table = pd.concat(kept).sort_values("time", kind="stable").reset_index(drop=True)
        found.known |= seen
    return found


def _of_manifest(path: Path, found: Remains, sums: dict[str, str]) -> None:
    try:
        manifest = decode(path.read_bytes())
    except (OSError, ValueError):
        return
    found.known |= set(manifest.info.get("evaluations", []))
    found.basis = manifest.info.get("accepted", found.basis)
    sums |= {entry["file"]: entry["sha256"] for entry in manifest.files.values()}


def _of_parquet(path: Path, sums: Mapping[str, str]) -> pd.DataFrame | None:
    """A table whose bytes match its manifest, or that is in no manifest."""
    try:
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sums.get(path.name, hashlib.sha256(data).hexdigest()):
            return None
        return pd.read_parquet(path)
    except (OSError, ValueError):
        return None


def _of_lines(path: Path, found: Remains) -> Iterator[pd.DataFrame]:
    try:
        data = path.read_bytes()
    except OSError:
        return
    for line in data.splitlines():
        try:
            one = json.loads(line)
            seal = one.pop("seal")
        except (ValueError, TypeError, AttributeError, KeyError):
            found.broken += 1
            continue
        if seal != digest(one):
            found.broken += 1
        elif "accepted" in one:
            found.basis = found.basis or one["accepted"]
        else:
            table = pd.DataFrame(one["rows"]).assign(time=one["evaluation"])[list(one["dtypes"])]
            yield table.astype(one["dtypes"])
