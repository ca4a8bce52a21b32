"""From the rows of a table to question records; rows of one question are joined."""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mog_assets.questions.columns import TEXTS

_SEPARATOR = "|"
_GRADED = re.compile(r"(.*\S)\s*=\s*(-?[0-9]{1,9})", re.DOTALL)
# Spreadsheets and data frames write integers with a decimal point if another row has none.
_INTEGER = re.compile(r"(-?[0-9]{1,15})(\.0*)?")
# Fields of which every row may add more.
_ADDED = ("evidence", "docs")
# Texts that are kept as they are: blanks are part of what is quoted.
_VERBATIM = ("quote", "prefix", "suffix")


def made_id(question: str) -> str:
    """The id of a question that has none: `q-` and 12 hexadecimal digits, the same for the same text."""
    return f"q-{hashlib.sha256(unicodedata.normalize('NFC', question.strip()).encode()).hexdigest()[:12]}"


def record_of(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The question record of a row.

    `quote`, and `start` and `end`, with `doc` and `corpus` become evidence; if a row has both, the offsets count. `doc`
    without either becomes a relevant document of grade 1.

    Args:
        cells: Values by field: texts, or what Parquet has: numbers, lists, structs and maps. None, NaN and blank texts
            are absent.

    Raises:
        ValueError: a cell cannot be read; the message is the reason.
    """
    cells = {field: value for field, value in cells.items() if not _absent(value)}
    texts = {field: _text(field, cells[field]) for field in TEXTS if field in cells and field != "quote"}
    texts = {field: text for field, text in texts.items() if text.strip()}
    about: dict[str, str] = {
        field: texts.pop(field) for field in ("corpus", "doc", "prefix", "suffix") if field in texts
    }
    record: dict[str, Any] = dict(texts)
    if "aliases" in cells:
        record["aliases"] = _texts("aliases", cells["aliases"])
    if "options" in cells:
        options = _object("options", cells["options"])
        record["options"] = {str(k): _text("options", v) for k, v in options.items() if not _absent(v)}
    evidence = [*_evidence(cells), *_pieces(cells, about)]
    docs = _docs(cells.get("docs"))
    if "doc" in about and not evidence:
        docs.setdefault("/".join(about[key] for key in ("corpus", "doc") if key in about), 1)
    return record | ({"evidence": evidence} if evidence else {}) | ({"docs": docs} if docs else {})


def _absent(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and math.isnan(value))


def _text(field: str, value: Any) -> str:
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(f"{field}: NUL character at {value.index(chr(0))}")
        return value if field in _VERBATIM else value.strip()
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
    """A struct, a map (a list of pairs), or an object as JSON."""
    value = _json(field, value)
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        value = dict(value)
    if not isinstance(value, dict):
        raise ValueError(f"{field}: expected an object as JSON, a struct or a map, got {_short(value)}")
    return value


def _json(field: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if "\0" in value:
        raise ValueError(f"{field}: NUL character at {value.index(chr(0))}")
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        hint = "; a column of quotes is named `quote`" if field == "evidence" else ""
        raise ValueError(f"{field}: expected JSON, got {value[:40]!r} ({error}){hint}") from None


def _evidence(cells: Mapping[str, Any]) -> list[Any]:
    if "evidence" not in cells:
        return []
    entries = _json("evidence", cells["evidence"])
    if not isinstance(entries, list):
        raise ValueError(f"evidence: expected a list, got {_short(entries)}")
    # A list of structs has every field in every struct.
    return [{k: v for k, v in e.items() if v is not None} if isinstance(e, dict) else e for e in entries]


def _pieces(cells: Mapping[str, Any], about: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The evidence that a row has in columns of its own."""
    document = {key: about[key] for key in ("corpus", "doc") if key in about}
    if "start" in cells or "end" in cells:
        if missing := [key for key in ("start", "end", "doc") if key not in cells]:
            raise ValueError(f"{missing[0]}: expected doc, start and end together, this one is missing")
        yield document | {key: _integer(key, cells[key]) for key in ("start", "end")}
        return
    quote = cells.get("quote", [])
    quotes = [quote] if isinstance(quote, str) else quote
    if not isinstance(quotes, list):
        raise ValueError(f"quote: expected a text or a list of texts, got {_short(quote)}")
    around = {key: about[key] for key in ("prefix", "suffix") if key in about}
    if around and len(quotes) != 1:
        raise ValueError(f"{next(iter(around))}: expected one quote beside it, got {len(quotes)}")
    for text in quotes:
        if not _absent(text):
            yield {"quote": _text("quote", text)} | document | around


def _docs(value: Any) -> dict[str, int]:
    """Grades by name of document."""
    if value is None:
        return {}
    if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], tuple)):
        pairs = [
            (str(name), _integer("docs", grade)) for name, grade in _object("docs", value).items() if grade is not None
        ]
    else:
        names = _texts("docs", value)
        pairs = [(name, 1) for name in names]
        if isinstance(value, str):
            graded = ((name, _GRADED.fullmatch(name)) for name in names)
            pairs = [(match[1], int(match[2])) if match else (name, 1) for name, match in graded]
    grades_of: dict[str, int] = {}
    for name, grade in pairs:
        if grades_of.setdefault(name, grade) != grade:
            raise ValueError(f"docs: expected one grade of {name[:60]!r}, got {grades_of[name]} and {grade}")
    return grades_of


def _short(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:40]!r}"


@dataclass
class _Entry:
    """A place, and the record that starts there or what is wrong there."""

    place: str
    record: dict[str, Any] | str


class Joined:
    """Questions of the rows of a table: rows with one id are one question."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._questions: dict[str, _Entry] = {}

    def wrong(self, place: str, reason: str) -> None:
        """Add a row that cannot be read."""
        self._entries.append(_Entry(place, reason))

    def add(self, place: str, cells: Mapping[str, Any]) -> None:
        """Add a row; see `record_of`."""
        try:
            record = record_of(cells)
            if "id" not in record:
                if "question" not in record:
                    raise ValueError("question: expected a text, the cell is empty")
                record = {"id": made_id(record["question"]), **record}
            first = self._questions.get(record["id"])
            if first is not None:
                self._join(first, record)
                return
        except UnicodeEncodeError:
            self.wrong(place, "lone surrogate, which is not valid text")
        except ValueError as error:
            self.wrong(place, str(error))
        else:
            self._questions[record["id"]] = entry = _Entry(place, record)
            self._entries.append(entry)

    def _join(self, first: _Entry, record: dict[str, Any]) -> None:
        merged = first.record
        assert isinstance(merged, dict)
        for field in record.keys() - set(_ADDED):
            if merged.get(field, record[field]) != record[field]:
                raise ValueError(
                    f"{field}: expected the same as in {first.place}, which has the same id {record['id'][:60]!r}: "
                    f"{str(merged[field])[:60]!r}, got {str(record[field])[:60]!r}"
                )
        grades: dict[str, int] = merged.get("docs", {})
        for name, grade in record.get("docs", {}).items():
            if grades.get(name, grade) != grade:
                raise ValueError(
                    f"docs: expected the grade of {name[:60]!r} in {first.place}, {grades[name]}, got {grade}"
                )
        more = [piece for piece in record.get("evidence", ()) if piece not in merged.get("evidence", ())]
        new_docs = {name: grade for name, grade in record.get("docs", {}).items() if name not in grades}
        new = {field: value for field, value in record.items() if field not in merged and field not in _ADDED}
        if not (more or new_docs or new):
            raise ValueError(f"duplicate row: expected more than {first.place} has, with the same id, got the same")
        merged |= new
        if more:
            merged["evidence"] = [*merged.get("evidence", ()), *more]
        if new_docs:
            merged["docs"] = grades | new_docs

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any] | str]]:
        """Places, and records or reasons, in the order of the rows."""
        for entry in self._entries:
            blank = isinstance(entry.record, dict) and "question" not in entry.record
            yield entry.place, "question: expected a text, the cell is empty" if blank else entry.record
