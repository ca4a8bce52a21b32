"""Read a corpus: documents from folders and tables, normalised, with a reason for each that is skipped.

A document that cannot be used is skipped and recorded; it never stops a corpus. The outcomes of unchanged records are
taken from the memory of an earlier reading; the result is the same as without it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import sys
import time
import unicodedata
import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.corpus.archives import unpack_text
from mog_assets.corpus.decoding import decode, hidden_characters, other_encoding, parse_line, split_lines
from mog_assets.corpus.folders import FolderFile, Stamp, opened, scan, too_long
from mog_assets.corpus.formats import GZIP, format_of
from mog_assets.corpus.marks import MOST_MARKS, Mark
from mog_assets.corpus.memory import Journal, Memory, Outcome
from mog_assets.corpus.spool import Spool
from mog_assets.corpus.tables import Wrong, read_rows, record_of
from mog_assets.corpus.worker import Limits, Parser, Unsettled, check_reader
from mog_assets.resources.errors import MogError
from mog_assets.resources.payload import levels
from mog_assets.resources.printable import printable

# Raised when the same bytes give another document.
READER = "4"
# Key of the date of a document's file.
MODIFIED = "modified"
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
    ]
)
_SKIPPED_SCHEMA = pa.schema([("place", pa.string()), ("id", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True)
class Document:
    """A normalised document: NFC text, lines end in line feeds; `shifts` maps offsets in the original text.

    Attributes:
        sha256: Of title and text, in hexadecimal.
        metadata: JSON. Its key `mog` has the path of the file; for a file that is one document, its date when its
            content was read; the encoding of the text, if not UTF-8; and the hidden characters in it. These stay in the
            text, because evidence is given by offsets.
        shifts: Pairs (offset in the original text, characters gained so far); empty if nothing was changed. Front
            matter that was removed is a loss at offset 0.
        marks: Pages, slides and headings, sorted by offset into the normalised text.
    """

    id: str
    title: str
    text: str
    sha256: str
    metadata: str = "{}"
    shifts: tuple[tuple[int, int], ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of everything that is stored of it except the date of its file, in hexadecimal."""
        whole = json.dumps(
            [self.id, self.sha256, _undated(self.metadata), self.shifts, self.marks], separators=(",", ":")
        )
        return hashlib.sha256(whole.encode()).hexdigest()


def _undated(metadata: str) -> str:
    """Metadata without the date of the file: a checkout or a copy gives all files new dates, and changes nothing."""
    if f'"{MODIFIED}"' not in metadata:
        return metadata
    fields = json.loads(metadata)
    if isinstance(fields.get("mog"), dict):
        fields["mog"].pop(MODIFIED, None)
    return json.dumps(fields, sort_keys=True, ensure_ascii=False)


def _packed(document: Document) -> str:
    # No document contains a NUL.
    shifts = json.dumps(document.shifts) if document.shifts else "[]"
    marks = json.dumps(document.marks) if document.marks else "[]"
    return "\0".join((document.id, document.title, document.text, document.sha256, document.metadata, shifts, marks))


def _unpacked(packed: str) -> Document:
    identity, title, text, sha256, metadata, shifts, marks = packed.split("\0")
    marked = tuple(Mark(*mark) for mark in json.loads(marks))
    return Document(identity, title, text, sha256, metadata, _shifts(json.loads(shifts)), marked)


def _shifts(stored: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((position, gained) for position, gained in stored)


@dataclass(frozen=True)
class Skipped:
    """A skipped document: its place, its id if it has one, and the reason. All three are printable."""

    place: str
    id: str
    reason: str


@dataclass
class Reading:
    """The result of reading a corpus.

    Attributes:
        used: Outcomes of the documents of the corpus, in reading order.
        normalised: Documents that were read now, by digest: all that the memory did not have. Their texts are on disk.
        journal: The memory for the next reading.
    """

    used: list[Outcome] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    normalised: Spool = field(default_factory=Spool)
    journal: Journal = field(default_factory=Journal)

    @property
    def documents(self) -> list[Document]:
        """All documents of a corpus that was read without a memory, loaded at once."""
        return [self.document(outcome.digest) for outcome in self.used]

    def document(self, digest: str) -> Document:
        """A document that was read now, by its digest."""
        return _unpacked(self.normalised[digest])


@dataclass(frozen=True)
class _Context:
    """What all files of a corpus are read with: the limit of a document, the memory, the spool and the parser."""

    limit: int
    memory: Memory
    spool: Spool
    parser: Parser


@dataclass(frozen=True)
class _Record:
    """A record of a file: its line (0: the whole file), the hash of its bytes (b"": none), and its outcome."""

    line: int
    raw: bytes
    outcome: Outcome


def read_corpus(
    path: Path,
    limit: int = 20_000_000,
    memory: Memory | None = None,
    folder: Path | None = None,
    limits: Limits | None = None,
    questions: Collection[str] = (),
) -> Reading:
    """Read a corpus.

    If several documents have the same id, or ids that are equal under NFC, the first is used.

    Args:
        path: A `.jsonl`, `.csv` or `.tsv` file, any of them with `.gz`, or a folder.
        limit: Bytes that a document may have: a file, a line of a `.jsonl` file, or a row of a table.
        memory: Memory of an earlier reading with the same limits.
        folder: Folder for the documents until the reading is released; None for the system's temporary folder.
        limits: Of parsing PDF, Word, PowerPoint and EPUB files.
        questions: Real paths of files of questions, which are not read if they are in the folder.

    Raises:
        MogError: the path is missing, or has no usable document, or the reader or the disk cannot be used.
    """
    limits = limits or Limits()
    if missing := check_reader(limits.reader):
        raise MogError(f"{path}: {missing}")
    with Parser(limits, limit) as parser:
        files = scan(path, limit, questions)
        return _read_corpus(path, files, _Context(limit, memory or Memory(), Spool(folder), parser))


def _read_corpus(path: Path, entries: Sequence[FolderFile], context: _Context) -> Reading:
    reading = Reading(normalised=context.spool)
    seen: dict[str, tuple[str, str]] = {}
    for found in entries:
        if found.refusal:
            reading.skipped.append(Skipped(found.place, found.place, found.refusal))
            continue
        stamp, records = _read_file(found, context)
        whole = all(record.raw for record in records)
        for record in records:
            place = f"{found.place}:{record.line}" if record.line else found.place
            outcome = record.outcome
            if record.raw:
                reading.journal.rows.append((found.name, record.line, record.raw, stamp if whole else None, outcome))
            reason = outcome.reason
            if not reason:
                key = unicodedata.normalize("NFC", outcome.id)
                if key not in seen:
                    seen[key] = place, outcome.id
                else:
                    first, other = seen[key]
                    same = "" if other == outcome.id else ", composed differently (NFC),"
                    reason = f"duplicate id: {outcome.id!r}{same} occurs at {first} and at {place}; the first is used"
            if reason:
                reading.skipped.append(Skipped(place, printable(outcome.id), printable(reason)))
                continue
            reading.used.append(outcome)
    if not reading.used:
        first_reason = "".join(f"; the first: {q.place}: {q.reason}" for q in reading.skipped[:1])
        raise MogError(
            f"{path}: expected at least one usable document, found none ({len(reading.skipped)} skipped{first_reason})"
        )
    return reading


def _read_file(file: FolderFile, context: _Context) -> tuple[Stamp | None, Sequence[_Record]]:
    """The records of a file, and its stamp if it can be trusted from now on; its documents go to the spool.

    Those of a file that changes while it is read may stay there unused.
    """
    assert file.status is not None
    now, stamp = time.time_ns(), Stamp.of(file.status)
    remembered = context.memory.of_file(file.name, stamp)
    if remembered is not None:
        return stamp, [_Record(line, raw, context.memory.outcomes[raw]) for line, raw in remembered]
    read = _read_lines if file.lines else _read_table if file.rows else _read_whole
    try:
        for _ in range(2):
            with opened(file.path) as stream:
                stamp = Stamp.of(os.fstat(stream.fileno()))
                records = list(read(file, stream, context))
                if Stamp.of(os.fstat(stream.fileno())) == stamp:
                    return stamp if stamp.settled(now) else None, records
    except OSError as error:
        return None, [_refused(0, b"", file.place, f"cannot be read: {error.strerror}")]
    return None, [_refused(0, b"", file.place, "changed twice while it was read")]


def _read_whole(file: FolderFile, stream: BinaryIO, context: _Context) -> Iterator[_Record]:
    content = stream.read(context.limit + 1)
    status = os.fstat(stream.fileno())
    if len(content) > context.limit:
        yield _refused(0, b"", file.place, too_long(status.st_size, context.limit))
        return
    notes = {"path": file.place, **_modified(status)}
    raw = _hashed(file.name, content)
    if raw in context.memory.outcomes:
        yield _Record(0, raw, context.memory.outcomes[raw])
        return
    try:
        form = format_of(file.name)
        if not form.text:
            parsed = context.parser.parse(file.place, content)
        else:
            packed = file.name.lower().endswith(GZIP)
            text, encoding = decode(unpack_text(content, context.limit) if packed else content)
            parsed = form.read(file.place[: -len(GZIP)] if packed else file.place, text)
            notes |= {} if encoding == "utf-8" else {"encoding": encoding}
        notes |= parsed.notes
        document = make_document(
            file.place, parsed.title, parsed.text, parsed.metadata, notes, parsed.marks, parsed.removed
        )
        yield _read(0, raw, document, context.spool)
    except Unsettled as error:
        yield _refused(0, b"", file.place, str(error))
    except ValueError as error:
        yield _refused(0, raw, file.place, str(error))


def _hashed(*parts: str | bytes) -> bytes:
    """A digest; parts before the last contain no NUL."""
    return hashlib.sha256(b"\0".join(os.fsencode(part) for part in parts)).digest()


def _modified(status: os.stat_result) -> dict[str, str]:
    """The UTC time of a file's last change in seconds; empty if no calendar has it."""
    try:
        time_of = datetime.fromtimestamp(status.st_mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return {}
    return {MODIFIED: time_of.isoformat().replace("+00:00", "Z")}


def _read_lines(file: FolderFile, stream: BinaryIO, context: _Context) -> Iterator[_Record]:
    try:
        lines = gzip.open(stream) if file.name.lower().endswith(GZIP) else stream  # noqa: SIM115
        for number, line, size in split_lines(lines, context.limit):
            if number == 1 and (encoding := other_encoding(line)):
                yield _refused(0, b"", file.place, f"expected UTF-8, got {encoding.upper()}: save it as UTF-8")
                return
            if size > context.limit:
                yield _refused(number, b"", "", too_long(size, context.limit))
                continue
            # No file name starts with NUL, so a line is never mistaken for a file.
            raw = _hashed("", file.name, line)
            if raw in context.memory.outcomes:
                yield _Record(number, raw, context.memory.outcomes[raw])
            else:
                yield _read_line(file, number, raw, parse_line(line), context.spool)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        yield _refused(0, b"", "", f"expected a readable JSON Lines file, got: {error}")


def _read_table(file: FolderFile, stream: BinaryIO, context: _Context) -> Iterator[_Record]:
    name = file.name.lower()
    try:
        table = gzip.open(stream) if name.endswith(GZIP) else stream  # noqa: SIM115
        for row in read_rows(cast(BinaryIO, table), name.removesuffix(GZIP), context.limit):
            if isinstance(row, Wrong):
                raw = _hashed("", "", "", file.name, json.dumps(row[1:]))
                yield _refused(row.number, raw, "".join(row.fields[:1])[:100], row.reason)
                continue
            record = record_of(row, file.place)
            raw = _hashed("", "", file.name, json.dumps(record, ensure_ascii=True))
            if raw in context.memory.outcomes:
                yield _Record(row.number, raw, context.memory.outcomes[raw])
            else:
                yield _read_line(file, row.number, raw, record, context.spool)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        yield _refused(0, b"", "", f"expected a readable table, got: {error}")
    except ValueError as error:
        yield _refused(0, b"", file.place, str(error))


def _read_line(file: FolderFile, number: int, raw: bytes, record: dict[str, Any] | str, spool: Spool) -> _Record:
    if isinstance(record, str):
        return _refused(number, raw, "", record)
    identity, text, title = record.get("id"), record.get("text"), record.get("title", "")
    if not (isinstance(identity, str) and identity.strip() and isinstance(text, str) and isinstance(title, str)):
        fields = {"id": identity, "text": text, "title": title}
        wrong = {key: value for key, value in fields.items() if not isinstance(value, str)} or {"id": identity}
        given = ", ".join(f"{key}={str(value)[:40]!r}" for key, value in wrong.items())
        reason = f"expected strings id, title and text, got {given}"
        return _refused(number, raw, "" if identity is None else str(identity)[:100], reason)
    try:
        document = make_document(identity, title, text, record.get("metadata") or {}, {"path": file.place})
        return _read(number, raw, document, spool)
    except ValueError as error:
        return _refused(number, raw, identity[:100], str(error))


def _read(line: int, raw: bytes, document: Document, spool: Spool) -> _Record:
    outcome = Outcome(document.id, document.digest, len(document.text), len(document.text.encode()))
    spool.add(outcome.digest, _packed(document))
    return _Record(line, raw, outcome)


def _refused(line: int, raw: bytes, identity: str, reason: str) -> _Record:
    return _Record(line, raw, Outcome(printable(identity), reason=printable(reason)))


def make_document(
    identity: str,
    title: str,
    text: str,
    metadata: Any,
    notes: dict[str, Any],
    marks: Sequence[Mark] = (),
    removed: int = 0,
) -> Document:
    """Make a normalised document.

    Args:
        identity: Its id; kept as given.
        title: Normalised as the text.
        text: Normalised to NFC and line feeds; nothing else is changed in it.
        metadata: JSON value.
        notes: Notes from reading, for its metadata.
        marks: Sorted by offset into `text`; the first 100,000 are kept.
        removed: Characters of the original that precede `text`; evidence in them is outside the text.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    if len(identity) > _LONGEST_ID:
        raise ValueError(f"expected an id of at most {_LONGEST_ID} characters, got {len(identity)}")
    if hidden := hidden_characters(text):
        notes = {**notes, "hidden characters": hidden}
    if next(islice(levels(metadata), _METADATA_LEVELS + 1, None), None):
        raise ValueError(f"metadata: expected at most {_METADATA_LEVELS} levels of nesting, got more")
    if notes:
        metadata = {**(metadata if isinstance(metadata, dict) else {"metadata": metadata}), "mog": notes}
    try:
        noted = json.dumps(metadata, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"metadata: {error}") from error
    try:
        f"{identity}{title}{text}{noted}".encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"lone surrogate at {error.start}, not valid text") from error
    if (position := f"{identity}{title}{text}".find("\0")) >= 0:
        # Title and text are hashed with a NUL between them.
        raise ValueError(f"NUL character, the first at {position} of id, title and text")
    if not text.strip():
        raise ValueError("empty document")
    title, _ = normalise(title)
    normal, shifts = normalise(text)
    marks = tuple(_moved(marks[:MOST_MARKS], shifts))
    if removed:
        shifts = ((0, -removed), *((position + removed, gained - removed) for position, gained in shifts))
    return Document(identity, title, normal, _sha256(title, normal), noted, shifts, marks)


def _moved(marks: Sequence[Mark], shifts: tuple[tuple[int, int], ...]) -> Iterator[Mark]:
    """Marks of the original text as marks of the NFC text."""
    at = gained = 0
    for mark in marks:
        while at < len(shifts) and shifts[at][0] <= mark.offset:
            gained = shifts[at][1]
            at += 1
        yield mark._replace(offset=mark.offset + gained, text=unicodedata.normalize("NFC", mark.text))


def _sha256(title: str, text: str) -> str:
    return hashlib.sha256(f"{title}\0{text}".encode()).hexdigest()


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Line number (from 1) and bytes of every line of a `.jsonl[.gz]` file that is not blank.

    Raises:
        MogError: the file is missing, or is named `.gz` but is not a gzip file.
    """
    try:
        with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as stream:
            for number, line, _ in split_lines(stream):
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MogError(f"{file}: expected a readable JSON Lines file, got: {reason}") from error


@cache
def _changing() -> re.Pattern[str]:
    """Matches everything that `normalise` may change; NFC never crosses the ends of such a match."""
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


def normalise(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A text in NFC whose lines end in line feeds.

    Returns:
        The text, and the shifts of offsets: pairs (offset in `text`, characters gained up to there).
    """
    if "\r" not in text and unicodedata.is_normalized("NFC", text):
        return text, ()
    shifts, pieces, end, gained = [], [], 0, 0
    for match in _changing().finditer(text):
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
    """The bucket that a document belongs to, 0 … buckets − 1, by a hash of its id."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) % buckets


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


_I = TypeVar("_I", bound=_Identified)


def into_buckets(documents: Sequence[_I], buckets: int) -> dict[int, list[_I]]:
    """Documents (or their outcomes) by bucket, buckets and documents in order; empty buckets are left out."""
    result: dict[int, list[_I]] = {}
    for document in documents:
        result.setdefault(bucket_of(document.id, buckets), []).append(document)
    return {bucket: sorted(result[bucket], key=lambda d: d.id) for bucket in sorted(result)}


def write_documents(documents: list[Document], path: Path) -> None:
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
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path, compression="zstd")


def load_documents(path: Path) -> dict[str, Document]:
    """The documents of a bucket by digest, with recomputed hashes; empty if it cannot be read."""
    try:
        rows = pq.read_table(path, columns=["id", "title", "text", "metadata", "shifts", "marks"]).to_pylist()
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return {}
    loaded = []
    for row in rows:
        shifts = _shifts(row.pop("shifts"))
        marks = tuple(Mark(**mark) for mark in row.pop("marks") or ())
        loaded.append(Document(**row, sha256=_sha256(row["title"], row["text"]), shifts=shifts, marks=marks))
    return {document.digest: document for document in loaded}


def write_skipped(skipped: list[Skipped], path: Path) -> None:
    """Write the skipped documents as Parquet."""
    pq.write_table(pa.Table.from_pylist([vars(q) for q in skipped], schema=_SKIPPED_SCHEMA), path)
