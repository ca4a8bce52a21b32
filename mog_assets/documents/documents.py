"""Read a corpus: documents from folders and tables, normalised, with a reason for each that is skipped.

A document that cannot be used is skipped and recorded; it never stops a corpus. The outcomes of unchanged records are
taken from the memory of an earlier reading; the result is the same as without it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.documents.decoding import REPLACED, hidden_characters
from mog_assets.documents.formats.marks import MOST_MARKS, Mark, noted
from mog_assets.text.languages import detected


@dataclass(frozen=True)
class Skipped:
    """A skipped document: its place, its id if it has one, and the reason, all printable; files it stands for."""

    place: str
    id: str
    reason: str
    files: int = 0


@cache
def changing() -> re.Pattern[str]:
    """Return a pattern of everything that `normalise` may change; NFC never crosses the ends of such a match."""
    # What may compose with a character before it: marks, and the vowels and finals of Hangul syllables.
    follows = {chr(c) for c in range(0x1160, 0x1200)}
    alone = set()
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.combining(character):
            follows.add(character)
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            follows.add(chr(int(parts[1], 16)))
        if not unicodedata.is_normalized("NFC", character):
            alone.add(character)
    followed, changed = (re.escape("".join(sorted(characters))) for characters in (follows, alone))
    return re.compile(f"\\r\\n?|(?s:.)[{followed}]+|[{changed}]")


# Raised when the same bytes give another document.
READER = "8"
# Changed when the same documents give other files.
LAYOUT = "2"
# Documents that are unpacked together: a passage costs those of its document. Fewer would make files larger.
_UNPACKED = 64
# Key of the date of a document's file.
MODIFIED = "modified"
_NUMBERS = (int, float)
# A longer id is a text in the wrong field, and every passage of a document repeats its id.
_LONGEST_ID = 1000
# What is nested deeper than the interpreter recurses could be read here and nowhere else.
_METADATA_LEVELS = 200

_MARK = pa.struct([("offset", pa.int64()), ("kind", pa.string()), ("depth", pa.int32()), ("text", pa.string())])
_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("characters", pa.int64()),
        ("sha256", pa.string()),
        ("metadata", pa.string()),
        ("shifts", pa.list_(pa.list_(pa.int64(), 2))),
        ("marks", pa.list_(_MARK)),
        ("language", pa.string()),
    ]
)
_SKIPPED_SCHEMA = pa.schema(
    [("place", pa.string()), ("id", pa.string()), ("reason", pa.string()), ("files", pa.int64())]
)


@dataclass(frozen=True)
class NormalisedDocument:
    """A normalised document: NFC text, lines end in line feeds; `shifts` maps offsets in the original text.

    Attributes:
        sha256: Of title and text, in hexadecimal.
        metadata: JSON. Its key `mog` has the path of the file; for a file that is one document, its date when its
            content was read; the encoding of the text, if not UTF-8; and the hidden and unreadable characters in it.
            These stay in the text, because evidence is given by offsets.
        shifts: Pairs (offset in the original text, characters gained so far); empty if nothing was changed. Front
            matter that was removed is a loss at offset 0.
        marks: Pages, slides and headings, sorted by offset into the normalised text.
        language: Code of the language of title and text, empty if it is not certain; see `text.languages`.
    """

    id: str
    title: str
    text: str
    sha256: str
    metadata: str = "{}"
    shifts: tuple[tuple[int, int], ...] = ()
    marks: tuple[Mark, ...] = ()
    language: str = ""

    @property
    def digest(self) -> str:
        """Digest of everything that is stored of it except the date of its file, in hexadecimal."""
        content = json.dumps(
            [self.id, self.sha256, _undated(self.metadata), self.shifts, self.marks], separators=(",", ":")
        )
        return hashlib.sha256(content.encode()).hexdigest()


def notes_of(metadata: str) -> dict[str, Any]:
    """Return what reading noted of a document, such as what it left out; without path and date of the file."""
    return {name: note for name, note in noted(json.loads(metadata)).items() if name not in ("path", MODIFIED)}


def _undated(metadata: str) -> str:
    """Return metadata without the date of the file: a checkout or copy gives files new ones, and changes nothing."""
    if f'"{MODIFIED}"' not in metadata:
        return metadata
    fields = json.loads(metadata)
    if isinstance(fields.get("mog"), dict):
        fields["mog"].pop(MODIFIED, None)
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def packed(document: NormalisedDocument) -> str:
    """Return a document as a text, for the memory of what was read."""
    return json.dumps(list(vars(document).values()), ensure_ascii=False)


def unpacked(text_of: str) -> NormalisedDocument:
    """Return the document of a text that `packed` made."""
    identity, title, text, sha256, metadata, shifts, marks, language = json.loads(text_of)
    marked = tuple(Mark(*mark) for mark in marks)
    return NormalisedDocument(identity, title, text, sha256, metadata, _shifts(shifts), marked, language)


def _shifts(stored: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((position, gained) for position, gained in stored)


def document_of(record: Mapping[str, Any], notes: dict[str, Any], language: str | None = None) -> NormalisedDocument:
    """Return document of a record with `id`, `text` and, if it has them, `title` and `metadata`; see `make_document`.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    identity, text, title = record.get("id"), record.get("text"), record.get("title")
    title = "" if title is None else str(title) if type(title) in _NUMBERS else title
    identity = str(identity) if type(identity) in _NUMBERS else identity
    if not (isinstance(identity, str) and identity.strip() and isinstance(text, str) and isinstance(title, str)):
        fields = {"id": identity, "text": text, "title": title}
        wrong = {key: value for key, value in fields.items() if not isinstance(value, str)} or {"id": identity}
        given = ", ".join(f"{key}={str(value)[:40]!r}" for key, value in wrong.items())
        raise ValueError(f"expected strings id, title and text, got {given}")
    return make_document(identity, title, text, record.get("metadata") or {}, notes, language=language)


def make_document(
    identity: str,
    title: str,
    text: str,
    metadata: Any,
    notes: dict[str, Any],
    marks: Sequence[Mark] = (),
    removed: int = 0,
    language: str | None = None,
) -> NormalisedDocument:
    """Make a normalised document.

    Args:
        identity: Its id; kept as given.
        title: Normalised as the text.
        text: Normalised to NFC and line feeds; nothing else is changed in it.
        metadata: JSON value.
        notes: Notes from reading, for its metadata.
        marks: Sorted by offset into `text`; the first 100,000 are kept.
        removed: Characters of the original that precede `text`; evidence in them is outside the text.
        language: Its code; None to detect it, which takes longer than all else.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    if len(identity) > _LONGEST_ID:
        raise ValueError(f"expected an id of at most {_LONGEST_ID} characters, got {len(identity)}")
    if hidden := hidden_characters(text):
        notes = {**notes, "hidden characters": hidden}
    if unreadable := text.count(REPLACED):
        notes = {**notes, "unreadable characters": unreadable}
    if _is_deeper(metadata, _METADATA_LEVELS + 1):
        raise ValueError(f"metadata: expected at most {_METADATA_LEVELS} levels of nesting, got more")
    if notes:
        metadata = {**(metadata if isinstance(metadata, dict) else {"metadata": metadata}), "mog": notes}
    try:
        stored = json.dumps(metadata, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"metadata: {error}") from error
    try:
        f"{identity}{title}{text}{stored}".encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"lone surrogate at {error.start}, not valid text") from error
    if (position := f"{identity}{title}{text}".find("\0")) >= 0:
        # Title and text are hashed with a NUL between them.
        raise ValueError(f"NUL character, the first at {position} of id, title and text")
    if not text.strip():
        others = [f"{name}: {note}" for name, note in notes.items() if name not in ("path", MODIFIED)]
        raise ValueError("; ".join(["empty document", *others]))
    title, _ = normalise(title)
    normal, shifts = normalise(text)
    marks = tuple(_moved(marks[:MOST_MARKS], shifts))
    if removed:
        shifts = ((0, -removed), *((position + removed, gained - removed) for position, gained in shifts))
    language = detected(f"{title}\n{normal}") if language is None else language
    return NormalisedDocument(identity, title, normal, _sha256(title, normal), stored, shifts, marks, language)


def _moved(marks: Sequence[Mark], shifts: tuple[tuple[int, int], ...]) -> Iterator[Mark]:
    """Yield marks of the original text as marks of the NFC text."""
    at = gained = 0
    for mark in marks:
        while at < len(shifts) and shifts[at][0] <= mark.offset:
            gained = shifts[at][1]
            at += 1
        yield mark._replace(offset=mark.offset + gained, text=unicodedata.normalize("NFC", mark.text))


def _sha256(title: str, text: str) -> str:
    return hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()


def normalise(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a text in NFC whose lines end in line feeds.

    Returns:
        The text, and the shifts of offsets: pairs (offset in `text`, characters gained up to there).
    """
    if "\r" not in text and unicodedata.is_normalized("NFC", text):
        return text, ()
    shifts, pieces, end, gained = [], [], 0, 0
    for match in changing().finditer(text):
        changed = match[0]
        piece = "\n" if changed.startswith("\r") else unicodedata.normalize("NFC", changed)
        pieces += [text[end : match.start()], piece]
        end = match.end()
        if len(piece) != len(changed):
            gained += len(piece) - len(changed)
            shifts.append((end, gained))
    return "".join([*pieces, text[end:]]), tuple(shifts)


def shifted(offset: int, shifts: Any) -> int:
    """Convert an offset in the original text to one in the normalised text."""
    at = bisect_right(shifts or (), offset, key=lambda shift: shift[0])
    return offset + (shifts[at - 1][1] if at else 0)


def bucket_of(identity: str, buckets: int) -> int:
    """Return the bucket that a document belongs to, 0 … buckets − 1, by a hash of its id."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) % buckets


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


_I = TypeVar("_I", bound=_Identified)


def into_buckets(documents: Sequence[_I], buckets: int) -> dict[int, list[_I]]:
    """Return documents (or their outcomes) by bucket, buckets and documents in order; empty buckets are left out."""
    result: dict[int, list[_I]] = {}
    for document in documents:
        result.setdefault(bucket_of(document.id, buckets), []).append(document)
    return {bucket: sorted(result[bucket], key=lambda d: d.id) for bucket in sorted(result)}


def write_documents(documents: list[NormalisedDocument], path: Path) -> None:
    """Write one bucket of documents as Parquet."""
    rows = [
        {
            **vars(document),
            "characters": len(document.text),
            "shifts": [list(pair) for pair in document.shifts],
            "marks": [mark._asdict() for mark in document.marks],
        }
        for document in documents
    ]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    pq.write_table(table, path, compression="zstd", row_group_size=_UNPACKED)


def load_documents(path: Path) -> dict[str, NormalisedDocument]:
    """Return the documents of a bucket by digest, with recomputed hashes; empty if it cannot be read."""
    try:
        rows = pq.read_table(
            path, columns=["id", "title", "text", "metadata", "shifts", "marks", "language"]
        ).to_pylist()
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return {}
    loaded = []
    for row in rows:
        shifts = _shifts(row.pop("shifts"))
        marks = tuple(Mark(**mark) for mark in row.pop("marks") or ())
        loaded.append(NormalisedDocument(**row, sha256=_sha256(row["title"], row["text"]), shifts=shifts, marks=marks))
    return {document.digest: document for document in loaded}


def write_skipped(skipped: list[Skipped], path: Path) -> None:
    """Write the skipped documents as Parquet."""
    pq.write_table(pa.Table.from_pylist([vars(q) for q in skipped], schema=_SKIPPED_SCHEMA), path)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether a JSON value has more levels of nesting, itself the first."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)
