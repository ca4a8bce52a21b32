"""Read files of questions: lines of JSON, rows of tables and Parquet become records of one form.

A record has `id`, `question`, and what else is given of: `split`, `kind`, `answer`, `long_answer` (texts), `aliases`
(texts), `options` (texts by letter), `evidence` (see `_piece`), `docs` (grades by name of document) and `corpus`. A
line or row that cannot be read never stops a file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import re
import unicodedata
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from mog_assets.documents.decoding import other_encoding, parse_line, split_lines
from mog_assets.documents.folders import LINES, ROWS, opened
from mog_assets.documents.tables import Row, read_rows
from mog_assets.registry import IMPORTERS, QUESTION_TABLES
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

# Fields that hold one text, and those that do not.
_LABELS = ("id", "question", "split", "kind", "answer", "long_answer")
_TEXTS = (*_LABELS, "quote", "prefix", "suffix", "doc", "corpus")
FIELDS = (*_TEXTS, "aliases", "options", "evidence", "start", "end", "docs")
# Other names of columns for a field, without blanks, hyphens and underscores.
_SYNONYMS = {
    "id": ("qid", "questionid", "queryid"),
    "question": ("query", "questiontext", "userinput"),
    "kind": ("type", "questiontype", "category"),
    "answer": ("expectedanswer", "referenceanswer", "reference", "groundtruth"),
    "quote": ("excerpt",),
    "doc": ("document", "docid", "documentid", "source", "file", "filename"),
    "docs": ("documents", "relevantdocuments"),
}
# Fields of which every row of a question may add more.
_ADDED = ("evidence", "docs", "corpus")
_SEPARATOR = "|"
_GRADED = re.compile(r"(.*\S)\s*=\s*(-?[0-9]{1,9})", re.DOTALL)
# Spreadsheets and data frames write integers with a decimal point if another row has none.
_INTEGER = re.compile(r"(-?[0-9]{1,15})(\.0*)?")
# Names of splits appear in table columns and messages, and grades in sums.
_LONGEST_SPLIT, _LARGEST_GRADE = 64, 1_000_000
# Bytes of a line, characters of a row.
MOST = 10_000_000
# Rows that are looked at for the names of columns.
_FIRST_ROWS = 64
# Names of columns in a message.
_SHOWN = 20
NAME_IT = "rename one, or name it, with `mog init --column question=NAME` or as `columns: {question: NAME}` in mog.yaml"
"""Remedy for a column of another name."""
Advance = Callable[[int], object]


@dataclass(frozen=True)
class QuestionTable:
    """A format of tables of questions beside those of the core, by its suffix in `QUESTION_TABLES`.

    Attributes:
        columns: Gives the names of the columns of a file.
        rows: Yields of each row its number, from 1, and the values of some columns by name, or what is wrong with it.
    """

    columns: Callable[[Path], list[str]]
    rows: Callable[[Path, Sequence[str]], Generator[tuple[int, dict[str, Any] | str], None, None]]


def suffixes() -> tuple[str, ...]:
    """Return those of files of questions, in lower case."""
    return (*LINES, *ROWS, *QUESTION_TABLES)


def _further(name: str) -> QuestionTable | None:
    return next((table for suffix, table in QUESTION_TABLES.items() if name.endswith(suffix)), None)


def made_id(question: str) -> str:
    """Return the id of a question that has none: `q-` and 12 hexadecimal digits, the same for the same text."""
    return f"q-{hashlib.sha256(unicodedata.normalize('NFC', question.strip()).encode()).hexdigest()[:12]}"


def record_of(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a question.

    `quote`, and `start` and `end`, with `doc` and `corpus` become evidence; if there are both, the offsets count. `doc`
    without either becomes a relevant document of grade 1.

    Args:
        cells: Values by field, as a line of JSON, a row of a table or of Parquet has them, or a record. None, NaN and
            blank texts are absent, and so are values of other names.

    Raises:
        ValueError: a value cannot be read; the message is the reason.
    """
    try:
        json.dumps(cells, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("lone surrogate, which is not valid text") from None
    cells = {field: value for field, value in cells.items() if field in FIELDS and not _absent(value)}
    record: dict[str, Any] = {field: _text(field, cells[field]) for field in (*_LABELS, "corpus") if field in cells}
    if not (split := record.get("split", "x")) == printable(split)[:_LONGEST_SPLIT]:
        raise ValueError(f"split: expected at most {_LONGEST_SPLIT} printable characters, got {split[:80]!r}")
    if "question" in record and "id" not in record:
        record = {"id": made_id(record["question"]), **record}
    if "aliases" in cells:
        record["aliases"] = _texts("aliases", cells["aliases"])
    if "options" in cells:
        options = _object("options", cells["options"])
        record["options"] = {str(k): _text("options", v) for k, v in options.items() if not _absent(v)}
    evidence, docs = _evidence(cells), _docs(cells)
    return record | ({"evidence": evidence} if evidence else {}) | ({"docs": docs} if docs else {})


def _absent(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(field: str, value: Any) -> str:
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(f"{field}: NUL character at {value.index(chr(0))}")
        # Blanks are part of what is quoted.
        return value if field in ("quote", "prefix", "suffix") else value.strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, int) or value.is_integer() else str(value)
    raise ValueError(f"{field}: expected a text, got {_short(value)}")


def _texts(field: str, value: Any) -> list[str]:
    parts = value.split(_SEPARATOR) if isinstance(value, str) else value
    if not isinstance(parts, list):
        raise ValueError(f"{field}: expected texts separated by {_SEPARATOR!r} or a list of texts, got {_short(value)}")
    return [_text(field, part) for part in parts if not _absent(part)]


def _integer(field: str, value: Any) -> int:
    if isinstance(value, bool) or not (match := _INTEGER.fullmatch(_text(field, value))):
        raise ValueError(f"{field}: expected an integer, got {_short(value)}")
    return int(match[1])


def _object(field: str, value: Any) -> dict[Any, Any]:
    """Return a struct, a map (a list of pairs), or an object as JSON."""
    value = _json(field, value)
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = dict(value)
    if not isinstance(value, dict):
        raise ValueError(f"{field}: expected an object as JSON, a struct or a map, got {_short(value)}")
    return value


def _json(field: str, value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        hint = "; a column of quotes is named `quote`" if field == "evidence" else ""
        raise ValueError(f"{field}: expected JSON, got {value[:40]!r} ({error}){hint}") from None


def _evidence(cells: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = _json("evidence", cells.get("evidence", []))
    if not isinstance(entries, list):
        raise ValueError(f"evidence: expected a list, got {_short(entries)}")
    pieces = [_piece(entry) for entry in entries]
    own = {key: cells[key] for key in ("corpus", "doc", "prefix", "suffix", "start", "end") if key in cells}
    if "start" in own or "end" in own:
        return [*pieces, _piece(own)]
    quote = cells.get("quote", [])
    if not isinstance(quote, str | list):
        raise ValueError(f"quote: expected a text or a list of texts, got {_short(quote)}")
    quotes = [text for text in ([quote] if isinstance(quote, str) else quote) if not _absent(text)]
    around = [key for key in ("prefix", "suffix") if key in own]
    if around and len(quotes) != 1:
        raise ValueError(f"{around[0]}: expected one quote beside it, got {len(quotes)}")
    return pieces + [_piece({"quote": text, **own}) for text in quotes]


def _piece(entry: Any) -> dict[str, Any]:
    """Return a piece of evidence: `quote`, maybe with `prefix` and `suffix`, or `start` and `end`; `corpus`, `doc`."""
    given = {k: v for k, v in entry.items() if not _absent(v)} if isinstance(entry, dict) else {}
    # What a search gives can be evidence as it is.
    if "document" in given:
        given.setdefault("doc", given["document"])
    # Offsets say more than the quote beside them, which may stand elsewhere too.
    if "start" in given or "end" in given:
        if missing := [key for key in ("start", "end", "doc") if key not in given]:
            raise ValueError(f"{missing[0]}: expected doc, start and end together, this one is missing")
        numbers = {key: _integer(key, given[key]) for key in ("start", "end")}
        return {key: _text(key, given[key]) for key in ("corpus", "doc") if key in given} | numbers
    if "quote" not in given:
        raise ValueError(f"evidence: expected objects with a quote, or with doc, start and end, got {str(entry)[:80]}")
    return {key: _text(key, given[key]) for key in ("quote", "corpus", "doc", "prefix", "suffix") if key in given}


def _docs(cells: Mapping[str, Any]) -> dict[str, int]:
    """Return grades by name of document."""
    value = cells.get("docs", [])
    if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], tuple)):
        pairs = [
            (str(name), _integer("docs", grade)) for name, grade in _object("docs", value).items() if not _absent(grade)
        ]
    else:
        names = _texts("docs", value)
        graded = ((name, _GRADED.fullmatch(name) if isinstance(value, str) else None) for name in names)
        pairs = [(match[1], int(match[2])) if match else (name, 1) for name, match in graded]
    grades: dict[str, int] = {}
    for name, grade in pairs:
        if abs(grade) > _LARGEST_GRADE or grades.setdefault(name, grade) != grade:
            raise ValueError(f"docs: expected one grade of {name[:60]!r}, got {grades.get(name, '')} and {grade}")
    if "doc" in cells and not {"quote", "start", "end", "evidence"} & cells.keys():
        grades.setdefault(_text("doc", cells["doc"]), 1)
    corpus = _text("corpus", cells["corpus"]) + "/" if "corpus" in cells else ""
    return {name if name.startswith(corpus) else corpus + name: grade for name, grade in grades.items()}


def _short(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


class Columns(NamedTuple):
    """The columns of a table that are used, by field, and those that are not."""

    used: dict[str, str]
    unused: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [f if f == name else f"{f} = {printable(name[:60])!r}" for f, name in self.used.items()]
        unused = f"; not used: {listed(self.unused)}" if self.unused else ""
        return f"columns: {', '.join(shown)}{unused}"


def check_fields(given: Mapping[str, str]) -> None:
    """Raise MogError if a mapping names something that is not a field of a question."""
    for field in given:
        if field not in FIELDS:
            raise MogError(f"columns: expected fields of a question ({', '.join(FIELDS)}), got {field[:60]!r}")


def _match(path: Path, names: Sequence[str], given: Mapping[str, str]) -> Columns:
    """Find the columns of a table: those that are given, else those with the name of a field, else the only synonym."""
    used: dict[str, str] = {}
    for field in sorted(FIELDS, key=lambda field: field not in given):
        plain = _plain(given.get(field, field))
        free = [name for name in names if field in given or name not in used.values()]
        matches = [name for name in free if name == given.get(field, field)] or [n for n in free if _plain(n) == plain]
        if field not in given:
            matches = matches or [name for name in free if _plain(name) in _SYNONYMS.get(field, ())]
        elif len(matches) != 1:
            raise MogError(
                f"{path}: columns.{field}: expected a column of the file ({listed(names)}), got "
                f"{printable(given[field])[:60]!r}"
            )
        if len(matches) == 1:
            used[field] = matches[0]
    if "question" not in used:
        raise MogError(f"{path}: expected a column `question`, found {listed(names)}: {NAME_IT}")
    in_order = {field: used[field] for field in FIELDS if field in used}
    return Columns(in_order, tuple(name for name in names if name not in used.values()))


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.lower())


def listed(names: Sequence[str]) -> str:
    """Return the first names of columns, for a message."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(printable(name[:60]) for name in names[:_SHOWN]) + more


def read_records(path: Path, columns: Mapping[str, str] | None = None) -> list[tuple[str, dict[str, Any] | str]]:
    """Read a file of questions.

    Lines or rows with the same id, or without ids the same question, are one question: later ones add evidence and
    documents. A question without an id gets one that is made from its text.

    Args:
        path: A `.jsonl`, `.csv` or `.tsv` file, any of them with `.gz`, or a `.parquet` file.
        columns: Names of columns in the file (in JSON Lines: of keys) by field, for those with other names.

    Returns:
        Places, such as `questions.csv:7` (the header is row 1; the rows of Parquet count from 1), and the record, or
        what is wrong there.

    Raises:
        MogError: the file cannot be read, is of another kind, or lacks a column.
    """
    given = dict(columns or {})
    check_fields(given)
    entries: list[tuple[str, dict[str, Any] | str]] = []
    first: dict[str, tuple[str, dict[str, Any]]] = {}
    for number, cells in _cells(path, given):
        place = f"{path.name}:{number}"
        try:
            record = cells if isinstance(cells, str) else record_of(cells)
            if isinstance(record, dict) and (identity := record.get("id", "")) in first:
                _join(*first[identity], record)
                continue
            if isinstance(record, dict):
                if not identity:
                    raise ValueError("question: expected a text, the cell is empty")
                first[identity] = place, record
            entries.append((place, record))
        except ValueError as error:
            entries.append((place, str(error)))
    blank = "question: expected a text, the cell is empty"
    return [(place, blank if isinstance(r, dict) and "question" not in r else r) for place, r in entries]


def _join(place: str, merged: dict[str, Any], record: dict[str, Any]) -> None:
    """Add to the record of a question, which stands at `place`, what another row says of it."""
    for field in record.keys() - set(_ADDED):
        if merged.get(field, record[field]) != record[field]:
            raise ValueError(
                f"{field}: expected the same as in {place}, which has the same id {record['id'][:60]!r}: "
                f"{str(merged[field])[:60]!r}, got {str(record[field])[:60]!r}"
            )
    grades: dict[str, int] = merged.get("docs", {})
    for name, grade in record.get("docs", {}).items():
        if grades.get(name, grade) != grade:
            raise ValueError(f"docs: expected the grade of {name[:60]!r} in {place}, {grades[name]}, got {grade}")
    more = [piece for piece in record.get("evidence", ()) if piece not in merged.get("evidence", ())]
    new_docs = {name: grade for name, grade in record.get("docs", {}).items() if name not in grades}
    new = {field: value for field, value in record.items() if field not in merged and field not in _ADDED}
    if not (more or new_docs or new):
        raise ValueError(f"duplicate row: expected more than {place} has, with the same id, got the same")
    merged |= new
    if more:
        merged["evidence"] = [*merged.get("evidence", ()), *more]
    if new_docs:
        merged["docs"] = grades | new_docs
        if merged.get("corpus") != record.get("corpus"):
            # It is not that of all documents; those of a row that names one have it before their names.
            merged.pop("corpus", None)


def used_columns(path: Path, columns: Mapping[str, str] | None = None) -> Columns:
    """Return the columns that `read_records` uses of a file; of JSON Lines, those that are given.

    Raises:
        MogError: as `read_records`.
    """
    given = dict(columns or {})
    check_fields(given)
    name = _checked(path)
    if name.endswith(LINES):
        return Columns(given)
    if table := _further(name):
        return _match(path, table.columns(path), given)
    if not (rows := first_rows(path, _FIRST_ROWS)):
        raise MogError(f"{path}: expected a header and rows below it that can be read, found none")
    return _match(path, list(rows[0]), given)


def first_rows(path: Path, most: int) -> list[dict[str, Any]]:
    """Return the first rows of a file that can be read, at most so many, by the names of its columns or keys.

    Raises:
        MogError: as `read_records`.
    """
    name = _checked(path)
    table = _further(name)
    every = (
        table.rows(path, table.columns(path)) if table else _lines(path, {}) if name.endswith(LINES) else _table(path)
    )
    with closing(every) as rows:
        return [row for _, row in islice(rows, most) if isinstance(row, dict)]


def _checked(path: Path) -> str:
    """Return the name of a file in lower case.

    Raises:
        MogError: no file of this kind is read.
    """

    def remedy(importer: str, before: str) -> str:
        return f"{before}`mog import {importer} {path}` reads it" if importer in IMPORTERS else ""

    name = path.name.lower()
    if path.is_dir():
        inside = {entry.name for entry in path.iterdir()}
        if inside & {"corpus.jsonl", "corpus.jsonl.gz", "queries.jsonl", "queries.jsonl.gz", "qrels"}:
            raise MogError(f"{path}: expected a file of questions, got a BEIR folder{remedy('beir', ': ')}")
        raise MogError(f"{path}: expected a file of questions ({', '.join(suffixes())}), got a folder")
    if name.endswith((".json", ".json.gz")):
        raise MogError(
            f"{path}: expected one JSON object per line in a .jsonl file, got a .json file"
            + remedy("squad", ": if it is SQuAD's format, ")
        )
    if not name.endswith(suffixes()):
        raise MogError(f"{path}: expected a file that ends in {', '.join(suffixes())}; save a spreadsheet as .csv")
    return name


def _cells(path: Path, given: Mapping[str, str]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield number and values by field of every line or row, or what is wrong with it."""
    name = _checked(path)
    if name.endswith(LINES):
        yield from _lines(path, given)
        return
    table = _further(name)
    used = _match(path, table.columns(path), given).used if table else dict[str, str]()
    for number, row in table.rows(path, list(dict.fromkeys(used.values()))) if table else _table(path):
        if isinstance(row, dict):
            used = used or _match(path, list(row), given).used
            yield number, {field: row[column] for field, column in used.items()}
        else:
            yield number, row


def _lines(path: Path, given: Mapping[str, str]) -> Generator[tuple[int, dict[str, Any] | str], None, None]:
    missing, objects = set(given.values()), 0
    for number, line, wrong in lines_of(path, "JSON Lines file", MOST):
        record: dict[str, Any] | str = wrong or parse_line(line)
        if isinstance(record, dict):
            missing -= record.keys()
            objects += 1
            others = {key: v for key, v in record.items() if key not in given and key not in given.values()}
            record = others | {field: record[key] for field, key in given.items() if key in record}
        yield number, record
    for field, key in given.items():
        if key in missing and objects:
            raise MogError(f"{path}: columns.{field}: expected a key that lines of the file have, got {key[:60]!r}")


def _table(path: Path) -> Generator[tuple[int, dict[str, Any] | str], None, None]:
    """Yield number and values by column of every row, or what is wrong with it."""
    last = 0
    with unpacked(path, "table") as (stream, _):
        try:
            for row in read_rows(stream, path.name.lower().removesuffix(".gz"), MOST, ""):
                last = row.number
                yield row.number, row.values if isinstance(row, Row) else row.reason
        except ValueError as error:
            if not last:
                raise MogError(f"{path}: expected a table of questions, got: {error}") from error
            yield last + 1, f"{error}; no row from here on is read"


@contextmanager
def unpacked(path: Path, kind: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Yield the content of a file, unpacked if its name ends in `.gz`, and the file, whose position says what was read.

    Raises:
        MogError: it is no regular file or cannot be read, here or inside the context; `kind` says what it should be.
    """
    try:
        with opened(os.path.realpath(path)) as raw:
            if path.name.lower().endswith(".gz"):
                with gzip.open(raw) as stream:
                    yield cast(BinaryIO, stream), raw
            else:
                yield raw, raw
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MogError(f"{path}: expected a readable {kind}, got: {reason}") from error


def lines_of(path: Path, kind: str, limit: int, advance: Advance | None = None) -> Iterator[tuple[int, bytes, str]]:
    """Yield number, bytes, and what is wrong with every line that is not blank; a line over the limit is not kept.

    Raises:
        MogError: it cannot be read, or its byte order mark is not that of UTF-8.
    """
    with unpacked(path, kind) as (stream, raw):
        at = 0
        for number, line, size in split_lines(stream, limit):
            if number == 1 and (encoding := other_encoding(line)):
                raise MogError(f"{path}: expected UTF-8, got {encoding.upper()}: save it as UTF-8")
            wrong = "" if size <= limit else f"expected at most {limit} bytes per line, got {size}: not read"
            yield number, line, wrong
            if advance is not None and (now := raw.tell()) != at:
                advance(now - at)
                at = now
