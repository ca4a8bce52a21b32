"""Read files of questions: JSON Lines, tables, Parquet. A line that cannot be read never stops a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.documents.decoding import parse_line
from mog_assets.documents.folders import LINES, ROWS
from mog_assets.documents.tables import Row, Wrong, read_rows
from mog_assets.questions.columns import Columns, check_fields, match_columns
from mog_assets.questions.rows import Joined, made_id
from mog_assets.questions.streams import lines_of, unpacked
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import MogError

# Bytes of a line or of a row of Parquet, characters of a row of another table.
MOST = 10_000_000
_PARQUET = ".parquet"
SUFFIXES = (*LINES, *ROWS, _PARQUET)
# Of Parquet: rows that are unpacked at once, and bytes that the used columns of a row group may have.
_BATCH_ROWS, _MOST_GROUP = 64, 2 << 30

Found = tuple[str, dict[str, Any] | str]


def read_records(path: Path, columns: Mapping[str, str] | None = None) -> Iterator[Found]:
    """Read a file of questions.

    Rows of a table with the same id, or without an id column the same question, are one question: later rows add
    evidence and documents. A question without an id gets one that is made from its text.

    Args:
        path: A `.jsonl`, `.csv` or `.tsv` file, any of them with `.gz`, or a `.parquet` file.
        columns: Names of columns in the file (in JSON Lines: of keys) by field of a question, for those whose names
            `match_columns` would not find.

    Yields:
        Place, such as `questions.csv:7` (the header is row 1; the rows of Parquet count from 1), and the record, or
        what is wrong there. Records of JSON Lines are as they are in the file: nothing but the id is checked or made.

    Raises:
        MogError: the file cannot be read, is of another kind, or lacks a column.
    """
    given = dict(columns or {})
    check_fields(given)
    name = _checked(path)
    if name.endswith(LINES):
        return _read_lines(path, given)
    return iter(_read_parquet(path, given) if name.endswith(_PARQUET) else _read_table(path, given))


def used_columns(path: Path, columns: Mapping[str, str] | None = None) -> Columns:
    """The columns that `read_records` uses of a file; of JSON Lines, those that are given.

    Raises:
        MogError: as `read_records`.
    """
    given = dict(columns or {})
    check_fields(given)
    name = _checked(path)
    if name.endswith(LINES):
        return Columns(given)
    if name.endswith(_PARQUET):
        with _parquet(path) as file:
            return match_columns(file.schema_arrow.names, given)
    if not (rows := first_rows(path, _BATCH_ROWS)):
        raise MogError(f"{path}: expected a header and rows below it that can be read, found none")
    return _matched(path, list(rows[0]), given)


def first_rows(path: Path, most: int) -> list[dict[str, Any]]:
    """The first rows of a file that can be read, at most so many, by the names of its columns or keys.

    Raises:
        MogError: as `read_records`.
    """
    name = _checked(path)
    if name.endswith(LINES):
        return [record for _, record in islice(_read_lines(path, {}), most) if isinstance(record, dict)]
    if name.endswith(_PARQUET):
        with _parquet(path) as file:
            return [row for batch in islice(file.iter_batches(most), 1) for row in batch.to_pylist()]
    with _table(path) as stream, closing(read_rows(stream, name.removesuffix(".gz"), MOST, "")) as rows:
        return [row.values for row in islice(rows, most) if isinstance(row, Row)]


def _remedy(importer: str, path: Path, before: str) -> str:
    return f"{before}`mog import {importer} {path}` reads it" if importer in IMPORTERS else ""


def _checked(path: Path) -> str:
    """The name of a file in lower case.

    Raises:
        MogError: no file of this kind is read.
    """
    name = path.name.lower()
    if path.is_dir():
        inside = {entry.name for entry in path.iterdir()}
        if inside & {"corpus.jsonl", "corpus.jsonl.gz", "queries.jsonl", "queries.jsonl.gz", "qrels"}:
            raise MogError(f"{path}: expected a file of questions, got a BEIR folder{_remedy('beir', path, ': ')}")
        raise MogError(f"{path}: expected a file of questions ({', '.join(SUFFIXES)}), got a folder")
    if name.endswith((".json", ".json.gz")):
        raise MogError(
            f"{path}: expected one JSON object per line in a .jsonl file, got a .json file"
            + _remedy("squad", path, ": if it is SQuAD's format, ")
        )
    if not name.endswith(SUFFIXES):
        raise MogError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}; save a spreadsheet as .csv")
    return name


def _read_lines(path: Path, given: Mapping[str, str]) -> Iterator[Found]:
    missing, objects = set(given.values()), 0
    for number, line, wrong in lines_of(path, "JSON Lines file", MOST):
        record: dict[str, Any] | str = wrong or parse_line(line)
        if isinstance(record, dict):
            missing -= record.keys()
            objects += 1
            record = _named(record, given)
        yield f"{path.name}:{number}", record
    for field, key in given.items():
        if key in missing and objects:
            raise MogError(f"{path}: columns.{field}: expected a key that lines of the file have, got {key[:60]!r}")


def _named(record: dict[str, Any], given: Mapping[str, str]) -> dict[str, Any] | str:
    """A record with the names of our fields and with an id, or what is wrong with it."""
    if given:
        taken = {field: record[key] for field, key in given.items() if key in record}
        others = {key: v for key, v in record.items() if key not in given and key not in given.values()}
        record = others | taken
    question = record.get("question")
    if record.get("id") is None and isinstance(question, str) and question.strip():
        try:
            return {**record, "id": made_id(question)}
        except UnicodeEncodeError:
            return "lone surrogate, which is not valid text"
    return record


@contextmanager
def _table(path: Path) -> Iterator[BinaryIO]:
    with unpacked(path, "table") as (stream, _):
        try:
            yield stream
        except ValueError as error:
            raise MogError(f"{path}: expected a table of questions, got: {error}") from error


def _matched(path: Path, names: list[str], given: Mapping[str, str]) -> Columns:
    try:
        return match_columns(names, given)
    except MogError as error:
        raise MogError(f"{path}: {error}") from error


def _read_table(path: Path, given: Mapping[str, str]) -> Joined:
    joined = Joined()
    used: dict[str, str] = {}
    last = 0
    with _table(path) as stream:
        try:
            for row in read_rows(stream, path.name.lower().removesuffix(".gz"), MOST, ""):
                last = row.number
                place = f"{path.name}:{row.number}"
                if isinstance(row, Wrong):
                    joined.wrong(place, row.reason)
                    continue
                values = row.values
                used = used or _matched(path, list(values), given).used
                joined.add(place, {field: values[column] for field, column in used.items()})
        except ValueError as error:
            if not used:
                raise
            joined.wrong(f"{path.name}:{last + 1}", f"{error}; no row from here on is read")
    return joined


@contextmanager
def _parquet(path: Path) -> Iterator[pq.ParquetFile]:
    with unpacked(path, "Parquet file") as (stream, _):
        try:
            with pq.ParquetFile(stream) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise MogError(f"{path}: expected a readable Parquet file, got: {reason}") from error


def _read_parquet(path: Path, given: Mapping[str, str]) -> Joined:
    joined = Joined()
    with _parquet(path) as file:
        used = _matched(path, file.schema_arrow.names, given).used
        _check_size(path, file, set(used.values()))
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(dict.fromkeys(used.values()))):
            for row in (batch.slice(at, 1) for at in range(len(batch))):
                number += 1
                place = f"{path.name}:{number}"
                if row.nbytes > MOST:
                    joined.wrong(place, f"expected at most {MOST} bytes per row, got {row.nbytes}: not read")
                    continue
                try:
                    (values,) = row.to_pylist()
                except UnicodeDecodeError as error:
                    joined.wrong(place, f"expected UTF-8, got byte 0x{error.object[error.start]:02x}")
                    continue
                joined.add(place, {field: values[column] for field, column in used.items()})
    return joined


def _check_size(path: Path, file: pq.ParquetFile, used: set[str]) -> None:
    """Reject a row group that would not fit into memory; one group is unpacked at a time."""
    for g in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(g)
        chunks = (group.column(c) for c in range(group.num_columns))
        size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in used)
        if size > _MOST_GROUP:
            raise MogError(
                f"{path}: expected row groups of at most {_MOST_GROUP} bytes in the columns of questions, got {size}: "
                "write it with smaller row groups"
            )
