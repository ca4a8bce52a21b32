"""Rows that are documents, and files of comma- or tab-separated values."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from itertools import zip_longest
from typing import Any, BinaryIO, NamedTuple

from mog_assets.corpus.decoding import REPLACED, decode, other_encoding

OWN = ("id", "title", "text")
"""Columns that are not metadata."""
_BYTES = (bytes, bytearray, memoryview)
_DELIMITERS = ",;\t|"
# Of a file: what its encoding and delimiter are told by.
_SAMPLE_BYTES, _SAMPLE_ROWS = 1_000_000, 50


class Row(NamedTuple):
    """A row that is a document: its number in the file (the header is row 1), and its values by column."""

    number: int
    values: dict[str, str]


class Wrong(NamedTuple):
    """A row that is none: its number, its fields as far as they could be read, and the reason."""

    number: int
    fields: list[str]
    reason: str


class _TooLong(Exception):
    """A row is longer than the limit."""


class _Lines:
    """The lines of a table; ends a row that is too long."""

    def __init__(self, stream: io.TextIOBase, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self.start()

    def start(self) -> None:
        """Start a row."""
        self._characters, self._quotes = 0, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._stream.readline(self._limit + 1)
        if not line:
            raise StopIteration
        self._characters += len(line)
        self._quotes += line.count('"')
        if self._characters > self._limit:
            # The row ends with a line, but not inside a quoted field.
            while line and not (line.endswith(("\n", "\r")) and self._quotes % 2 == 0):
                line = self._stream.readline(1 << 20)
                self._quotes += line.count('"')
            raise _TooLong
        return line


def read_rows(
    stream: BinaryIO, name: str, limit: int, setting: str = " (max_document_mb)", encoding: str = ""
) -> Generator[Row | Wrong, None, None]:
    """The rows of a table that is not empty, each with as many fields as the header: omitted last ones are empty.

    Args:
        stream: The file.
        name: Of the file; in `.tsv` files the delimiter is the tab, in others the most likely of `,;|` and tab.
        limit: Maximum characters of a row.
        setting: What the message about a row that is longer says of the limit.
        encoding: See `decode`.

    Raises:
        ValueError: no row of the file, or none of those that follow, can be read; the message is the reason.
    """
    sample = stream.read(_SAMPLE_BYTES)
    if len(sample) == _SAMPLE_BYTES:
        # A character may be cut in two.
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    marked = other_encoding(sample)
    beginning, encoding = ("", marked) if marked else decode(sample, encoding)
    stream.seek(0)
    errors = "replace" if encoding == "utf-8" and REPLACED in beginning else "strict"
    text = io.TextIOWrapper(stream, "utf-8-sig" if encoding == "utf-8" else encoding, errors, newline="")
    try:
        delimiter = "\t" if name.lower().endswith(".tsv") else _delimiter(text.read(_SAMPLE_BYTES // 10))
        text.seek(0)
        yield from _rows(_Lines(text, limit), delimiter, limit, setting)
    except UnicodeError as error:
        raise ValueError(
            f"expected {encoding.upper()}, got other bytes in one of the following rows: {error}"
        ) from error
    finally:
        # The file stays open: its status is checked after it was read.
        text.detach()


def _delimiter(sample: str) -> str:
    """The delimiter that most rows have as often as the header; of several, the one that gives most columns."""

    def fit(delimiter: str) -> tuple[int, int]:
        counts: list[int] = []
        try:
            for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
                if row:
                    counts.append(len(row))
                if len(counts) == _SAMPLE_ROWS:
                    break
        except csv.Error:
            pass
        columns = counts[0] if counts else 0
        return (sum(count == columns for count in counts), columns) if columns > 1 else (0, 0)

    return max(_DELIMITERS, key=fit)


def _rows(lines: _Lines, delimiter: str, limit: int, setting: str) -> Iterator[Row | Wrong]:
    # The limit of the module is less than a long text; the length of rows is limited anyway.
    csv.field_size_limit(max(csv.field_size_limit(), limit))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    columns: list[str] = []
    number = 0
    while True:
        lines.start()
        try:
            fields = next(reader, None)
        except _TooLong:
            number += 1
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            yield Wrong(number, [], f"expected at most {limit} characters per row{setting}, got more: not read")
            continue
        except csv.Error as error:
            number += 1
            yield Wrong(number, [], f"malformed row: {error}")
            continue
        if fields is None:
            return
        number += 1
        if not any(field.strip() for field in fields):
            continue
        if not columns:
            columns = _columns(fields)
        elif len(fields) > len(columns):
            yield Wrong(number, fields, f"expected at most {len(columns)} columns as in the header, got {len(fields)}")
        else:
            yield Row(number, dict(zip_longest(columns, fields, fillvalue="")))


def _columns(fields: list[str]) -> list[str]:
    """Names of the columns; `id`, `title` and `text` in lower case.

    Raises:
        ValueError: a name occurs twice.
    """
    names = [field.strip() or f"column {n}" for n, field in enumerate(fields, start=1)]
    names = [name.lower() if name.lower() in OWN else name for name in names]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"expected different names of columns, got {twice[:40]!r} twice")
    return names


def record_of(row: Row, file: str) -> dict[str, Any]:
    """The document of a row as id, title, text and metadata."""
    values = row.values
    lines = "\n".join(f"{name}: {value.strip()}" for name, value in values.items() if value.strip())
    return {
        "id": values.get("id", "").strip() or f"{file}:{row.number}",
        "title": values.get("title", "").strip(),
        "text": values.get("text", lines),
        "metadata": {name: value for name, value in values.items() if name not in OWN},
    }


def record_of_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a row of typed values, as id (empty if it has none), title, text and metadata.

    Numbers stay numbers, dates become text (`2026-05-01`), bytes are left out, and what is no number of JSON is null.
    """
    values = {name: _plain(value) for name, value in row.items() if not isinstance(value, _BYTES)}
    lines = "\n".join(f"{name}: {value}" for name, value in values.items() if value not in (None, ""))
    identity, title, text = (values.get(name) for name in OWN)
    return {
        "id": "" if identity is None else str(identity),
        "title": "" if title is None else str(title),
        "text": lines if "text" not in values else "" if text is None else str(text),
        "metadata": {name: value for name, value in values.items() if name not in OWN},
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Decimal):
        value = float(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, _BYTES) else str(value)
