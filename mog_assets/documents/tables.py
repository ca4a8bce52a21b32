"""Rows that are documents, and files of comma- or tab-separated values."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from mog_assets.documents.decoding import REPLACED, decode, other_encoding

OWN = ("id", "title", "text")
"""Columns that are not metadata."""
_BYTES = (bytes, bytearray, memoryview)
# The last is in no text: a table of one column has no delimiter.
_DELIMITERS = ";\t|,\x1f"
# Of a file: what its encoding, delimiter and head are told by.
_SAMPLE_BYTES, _SAMPLE_ROWS = 1_000_000, 50
# Excel is told the delimiter by a first line.
_SEPARATOR = re.compile(r'"?sep=(.)"?[ \t]*\r?\n?', re.IGNORECASE)


class Row(NamedTuple):
    """A row that is a document.

    Attributes:
        number: The first row of the file is 1.
        pairs: Names of columns, which may occur several times, and values.
        literal: A quotation mark in it is not closed, or not well: it was read as it is written.
    """

    number: int
    pairs: list[tuple[str, str]]
    literal: bool = False

    @property
    def values(self) -> dict[str, str]:
        """Values by column; those of columns of one name as lines."""
        result: dict[str, str] = {}
        for name, value in self.pairs:
            result[name] = f"{result[name]}\n{value}" if result.get(name) and value else result.get(name) or value
        return result


class Wrong(NamedTuple):
    """A row that is none: its number, its fields as far as they could be read, and the reason."""

    number: int
    fields: list[str]
    reason: str


class _TooLong(Exception):
    """A row is longer than the limit."""


class _Lines:
    """The lines of a table: what a row has taken can be given back."""

    def __init__(self, stream: io.TextIOBase, limit: int) -> None:
        self._stream, self._limit = stream, limit
        self._back: deque[str] = deque()
        self.start()

    def start(self) -> None:
        """Start a row."""
        self.taken: list[str] = []
        self._characters = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._back.popleft() if self._back else self._stream.readline(self._limit + 1)
        if not line:
            raise StopIteration
        self.taken.append(line)
        self._characters += len(line)
        if self._characters > self._limit:
            raise _TooLong
        return line

    def give_back(self) -> None:
        """Give back all lines of the row but the first."""
        self._back.extendleft(reversed(self.taken[1:]))

    def skip(self) -> None:
        """Skip the rest of a row that is too long: it ends with a line, but not inside a quoted field."""
        line, quotes = self.taken[-1], sum(line.count('"') for line in self.taken)
        while line and not (line.endswith(("\n", "\r")) and quotes % 2 == 0):
            line = self._back.popleft() if self._back else self._stream.readline(1 << 20)
            quotes += line.count('"')


def read_rows(
    stream: BinaryIO, name: str, limit: int, setting: str = " (max_document_mb)", encoding: str = ""
) -> Generator[Row | Wrong, None, None]:
    """Yield the rows of a table that is not empty, each with as many fields as the header: omitted last ones are empty.

    Lines above the header are told as rows that are not read.

    Args:
        stream: The file.
        name: Of the file; in `.tsv` files the delimiter is the tab, in others that of a first line `sep=;`, or the most
            likely of `,;|` and tab.
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
        beginning = text.read(_SAMPLE_BYTES // 10)
        declared = _SEPARATOR.match(beginning)
        delimiters = declared[1] if declared else "\t" if name.lower().endswith(".tsv") else _DELIMITERS
        delimiter, head = _form(beginning[declared.end() if declared else 0 :], delimiters)
        text.seek(0)
        lines, number = _Lines(text, limit), 0
        if declared:
            number += len(next(lines, "")) > 0
        yield from _rows(lines, delimiter, head + number, number, limit, setting)
    except UnicodeError as error:
        raise ValueError(
            f"expected {encoding.upper()}, got other bytes in one of the following rows: {error}"
        ) from error
    finally:
        # The file stays open: its status is checked after it was read.
        text.detach()


def _form(sample: str, delimiters: str) -> tuple[str, int]:
    """Return the delimiter with most rows of one width, of several that with most columns; rows above the header."""
    best, form = (0, 0), (delimiters[-1], 0)
    decimal = len(re.findall(r"\d,\d", sample)) >= 0.9 * sample.count(",")
    for delimiter in delimiters:
        if delimiter == "," and decimal and best > (0, 0):
            continue
        lines, rows = _Lines(io.StringIO(sample, newline=""), len(sample)), list[list[str]]()
        while len(rows) < _SAMPLE_ROWS and (row := _fields(lines, delimiter, 0)) is not None:
            # Spreadsheets fill rows with empty cells.
            rows.append(_trimmed(row[0]))
        head = _head(rows)
        widths = [len(row) for row in rows[head:] if row]
        columns = max(Counter(widths).items(), key=lambda item: (item[1], item[0]))[0] if widths else 0
        fit = sum(width == columns for width in widths)
        # Texts have commas, too: a header of one column is one if it says so.
        if columns > 1 and (fit, columns) >= best and (len(rows[head]) > 1 or len(delimiters) == 1):
            best, form = (fit, columns), (delimiter, head)
    return form


def _head(rows: Sequence[list[str]]) -> int:
    """Return how many rows are above the header: titles, of few cells, and blank ones, where rows have more."""
    full = [at for at, row in enumerate(rows) if row]
    counts = Counter(len(rows[at]) for at in full)
    usual = max(counts, key=lambda width: counts[width] * width, default=0)
    first = next((at for at in full if len(rows[at]) >= usual), 0)
    above = [rows[at] for at in full if at < first]
    below = [len(rows[at]) for at in full if at > first]
    blank = first > 0 and not rows[first - 1]
    sparse = all(len(row) < usual if blank else len(row) <= max(usual // 2, 1) for row in above)
    named = any(cell.strip().lower() in OWN for row in above for cell in row)
    stable = below and sum(usual / 2 < width <= len(rows[first]) for width in below) >= 0.8 * len(below)
    return first if usual > 1 and sparse and stable and not named else (full or [0])[0]


def _trimmed(fields: list[str]) -> list[str]:
    """Return a row without its empty last cells."""
    width = next((n for n in range(len(fields), 0, -1) if fields[n - 1].strip()), 0)
    return fields[:width]


def _fields(lines: _Lines, delimiter: str, width: int) -> tuple[list[str], bool] | None:
    """Return the next row, and whether it was read as it is written; None at the end.

    Raises:
        csv.Error: it is malformed.
        _TooLong: it is longer than the limit.
    """
    lines.start()
    first = next(lines, None)
    if first is None:
        return None
    plain = first.rstrip("\r\n").split(delimiter)
    if '"' not in first:
        return plain, False
    try:
        fields: list[str] = next(csv.reader(chain((first,), lines), delimiter=delimiter, strict=True))
        # A tab divides cells of a table that takes no notice of quotation marks.
        misread = delimiter == "\t" and len(lines.taken) == 1 and len(fields) < len(plain) == width
        if not misread and not _are_rows(lines.taken, delimiter, width, closed=True):
            return fields, False
        fault = "a quotation mark closes in another row"
    except (csv.Error, _TooLong) as error:
        fault, long = str(error), isinstance(error, _TooLong)
        stray = not (long or "unexpected end" in fault) or _are_rows(lines.taken, delimiter, width, closed=False)
        if not stray:
            raise (
                error if long else csv.Error(f"{fault}: a quotation mark opens {len(lines.taken):,} lines above")
            ) from None
    lines.give_back()
    if width and len(plain) > width:
        raise csv.Error(fault)
    return plain, True


def _are_rows(lines: Sequence[str], delimiter: str, width: int, closed: bool) -> bool:
    """Return whether what a quotation mark took after its line are rows: it is a stray one, such as that of inches.

    Args:
        lines: Of what was read as one row.
        delimiter: Of the table.
        width: Number of columns; 0 while it is not known.
        closed: Whether another one closes it. Then more must speak for rows: texts have lines, too.
    """
    if width < 2 or len(lines) == 1:
        return not closed
    first, *rows = [line.split(delimiter) for line in lines if line.strip()]
    fit = [row for row in rows if len(row) == width]
    if len(fit) < 0.9 * len(rows) or (closed and len(first) != width):
        return False
    similar = sum(_shape(row[0]) == _shape(first[0]) for row in fit)
    return 0 < 0.9 * len(rows) <= similar or len(rows) * (width - 1) >= (30 if closed else 6)


def _shape(cell: str) -> str:
    """Return what kind of text a cell is: `Q0017` is like `Q12`."""
    return re.sub(r"\d+", "0", re.sub(r"[^\W\d_]+", "a", cell.strip()))


def _rows(lines: _Lines, delimiter: str, head: int, number: int, limit: int, setting: str) -> Iterator[Row | Wrong]:
    # The limit of the module is less than a long text; the length of rows is limited anyway.
    csv.field_size_limit(max(csv.field_size_limit(), limit))
    columns: list[str] = []
    while True:
        number += 1
        try:
            row = _fields(lines, delimiter, len(columns))
        except _TooLong:
            lines.skip()
            yield Wrong(number, [], f"expected at most {limit} characters per row{setting}, got more: not read")
            continue
        except csv.Error as error:
            yield Wrong(number, [], f"malformed row: {error}")
            continue
        if row is None:
            return
        fields, literal = row
        if not any(field.strip() for field in fields):
            continue
        if number <= head:
            yield Wrong(number, fields, "a line above the names of the columns: not read")
        elif not columns:
            columns = _columns(fields)
        elif len(fields := fields if len(fields) <= len(columns) else _trimmed(fields)) > len(columns):
            yield Wrong(number, fields, f"expected at most {len(columns)} columns as in the header, got {len(fields)}")
        else:
            yield Row(number, list(zip_longest(columns, fields, fillvalue="")), literal)


def _columns(fields: list[str]) -> list[str]:
    """Return names of the columns; `id`, `title` and `text` in lower case."""
    names = [field.strip() or f"column {n}" for n, field in enumerate(fields, start=1)]
    return [name.lower() if name.lower() in OWN else name for name in names]


def record_of(row: Row, file: str, columns: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return the document of a row as id, title, text and metadata.

    Args:
        row: The row.
        file: Its file.
        columns: Names of columns by field (`id`, `title`, `text`), where they are others.
    """
    pairs = renamed(row.pairs, columns) if columns else row.pairs
    first: dict[str, Any] = dict(reversed(pairs))
    if len(first) < len(pairs):
        given: dict[str, list[str]] = {}
        for name, value in pairs:
            given.setdefault(name, []).append(value)
        first |= {name: [v for v in values if v.strip()] for name, values in given.items() if len(values) > 1}
        first |= {name: "\n".join(first[name]) for name in OWN if isinstance(first.get(name), list)}
    return {
        "id": first.get("id", "").strip().partition("\n")[0] or f"{file}:{row.number}",
        "title": first.get("title", "").strip(),
        "text": first["text"] if "text" in first else lines_of(pairs),
        "metadata": {name: value for name, value in first.items() if name not in OWN},
    }


def lines_of(pairs: Iterable[tuple[str, Any]]) -> str:
    """Return a line `name: value` for every value that is not blank."""
    return "\n".join(
        f"{name}: {str(value).strip()}" for name, value in pairs if value is not None and str(value).strip()
    )


def renamed(pairs: Iterable[tuple[str, Any]], columns: Mapping[str, str]) -> list[tuple[str, Any]]:
    """Return names and values with the names of fields for those of columns, and others for columns that have those."""
    fields = {column: field for field, column in columns.items()}
    return [(fields.get(name) or (f"column {name}" if name in columns else name), value) for name, value in pairs]


def record_of_values(row: Mapping[str, Any], columns: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """Return the document of a row of typed values, as id (empty if it has none), title, text and metadata.

    Numbers stay numbers, dates become text (`2026-05-01`), bytes are left out, and what is no number of JSON is null.
    """
    values = {name: _plain(value) for name, value in renamed(row.items(), columns) if not isinstance(value, _BYTES)}
    identity, title, text = (values.get(name) for name in OWN)
    return {
        "id": "" if identity is None else str(identity),
        "title": "" if title is None else str(title),
        "text": lines_of(values.items()) if "text" not in values else "" if text is None else str(text),
        "metadata": {name: value for name, value in values.items() if name not in OWN},
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
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
