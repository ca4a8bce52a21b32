"""Read the documents of a corpus: files, lines and rows, those that are skipped with the reason."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, cast

from mog_assets.documents.decoding import decode, other_encoding, parse_line, split_lines
from mog_assets.documents.documents import (
    MODIFIED,
    NormalisedDocument,
    Skipped,
    document_of,
    make_document,
    packed,
    unpacked,
)
from mog_assets.documents.folders import FolderFile, Stamp, opened, scan, too_long
from mog_assets.documents.formats.archives import unpack_text
from mog_assets.documents.formats.kinds import CONTAINERS, GZIP, check_reader, format_of
from mog_assets.documents.memory import Journal, Memory, Outcome, Spool
from mog_assets.documents.tables import Wrong, read_rows, record_of
from mog_assets.documents.worker import Limits, Parser, Unsettled
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

# What else the text of a line is called.
_TEXTS = ("content", "body", "page_content", "contents")


@dataclass
class CorpusReading:
    """The result of reading a corpus.

    Attributes:
        used: Outcomes of the documents of the corpus, in reading order.
        normalised: Documents that were read now, by digest: all that the memory did not have. Their texts are on disk.
        unread: Files that are not read, by kind.
        journal: The memory for the next reading.
    """

    used: list[Outcome] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)
    normalised: Spool = field(default_factory=Spool)
    journal: Journal = field(default_factory=Journal)

    @property
    def documents(self) -> list[NormalisedDocument]:
        """All documents of a corpus that was read without a memory, loaded at once."""
        return [self.document(outcome.digest) for outcome in self.used]

    def document(self, digest: str) -> NormalisedDocument:
        """Return a document that was read now, by its digest."""
        return unpacked(self.normalised[digest])


@dataclass(frozen=True)
class _Context:
    """Hold what all files of a corpus are read with: limits, the memory, the spool, and what ends the parser."""

    limit: int
    limits: Limits
    memory: Memory
    spool: Spool
    closing: ExitStack

    @cached_property
    def parser(self) -> Parser:
        """Return the parser of files that are no text, which is started for the first."""
        return self.closing.enter_context(closing(Parser(self.limits, self.limit)))


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
) -> CorpusReading:
    """Read a corpus.

    If several documents have the same id, or ids that are equal under NFC, the first is used.

    Args:
        path: A `.jsonl`, `.csv` or `.tsv` file, any of them with `.gz`, a container, or a folder.
        limit: Bytes that a document may have: a file, a line of a `.jsonl` file, or a row of a table.
        memory: Memory of an earlier reading with the same limits.
        folder: Folder for the documents until the reading is released; None for the system's temporary folder.
        limits: Of parsing files that are no text.
        questions: Real paths of files of questions, which are not read if they are in the folder.

    Raises:
        MogError: the path is missing, or has no usable document, or the reader or the disk cannot be used.
    """
    limits = limits or Limits()
    if missing := check_reader(limits.reader):
        raise MogError(f"{path}: {missing}")
    with ExitStack() as closing:
        files = scan(path, limit, questions)
        return _read_corpus(path, files, _Context(limit, limits, memory or Memory(), Spool(folder), closing))


def _read_corpus(path: Path, entries: Sequence[FolderFile], context: _Context) -> CorpusReading:
    reading = CorpusReading(normalised=context.spool)
    seen: dict[str, tuple[str, str]] = {}
    for entry in entries:
        if entry.refusal:
            reading.skipped.append(Skipped(entry.place, entry.place, entry.refusal, entry.kinds.total()))
            reading.unread.update(entry.kinds)
            continue
        stamp, records = _read_file(entry, context)
        complete = all(record.raw for record in records)
        for record in records:
            place = f"{entry.place}:{record.line}" if record.line else entry.place
            outcome = record.outcome
            if record.raw:
                reading.journal.rows.append((entry.name, record.line, record.raw, stamp if complete else None, outcome))
            reason = outcome.reason
            if not reason:
                name = outcome.id.removeprefix(f"{entry.place}:") if entry.many == "parts" else outcome.id
                # A part is one document, in however many containers it is; a number names it in one alone.
                name = outcome.id if name.isdigit() else name
                key = unicodedata.normalize("NFC", name)
                if key not in seen:
                    seen[key] = place, name
                else:
                    first, other = seen[key]
                    difference = "" if other == name else ", composed differently (NFC),"
                    reason = (
                        f"duplicate id: {outcome.id!r}{difference} occurs at {first} and at {place}; the first is used"
                    )
            if reason:
                reading.skipped.append(Skipped(place, printable(outcome.id), printable(reason), int(not record.line)))
                reading.unread.update({} if record.line else entry.kinds)
                continue
            reading.used.append(outcome)
    if not reading.used:
        first_reason = "".join(f"; the first: {q.place}: {q.reason}" for q in reading.skipped[:1])
        raise MogError(
            f"{path}: expected at least one usable document, found none ({len(reading.skipped)} skipped{first_reason})"
        )
    return reading


def _read_file(file: FolderFile, context: _Context) -> tuple[Stamp | None, Sequence[_Record]]:
    """Return the records of a file, and its stamp if it can be trusted from now on; its documents go to the spool.

    Those of a file that changes while it is read may stay there unused.
    """
    assert file.status is not None
    now, stamp = time.time_ns(), Stamp.of(file.status)
    remembered = context.memory.of_file(file.name, stamp)
    if remembered is not None:
        return stamp, [_Record(line, raw, context.memory.outcomes[raw]) for line, raw in remembered]
    try:
        for _ in range(2):
            with opened(file.path) as stream:
                stamp = Stamp.of(os.fstat(stream.fileno()))
                records = list(_records(file, stream, context))
                if Stamp.of(os.fstat(stream.fileno())) == stamp:
                    return stamp if stamp.settled(now) else None, records
    except OSError as error:
        return None, [_refused(0, b"", file.place, f"cannot be read: {error.strerror}")]
    return None, [_refused(0, b"", file.place, "changed twice while it was read")]


_Items = Iterator[tuple[int, str, bytes, Callable[[], NormalisedDocument] | str]]
"""Of each record its number (0: the whole file), its id or a substitute, the hash of its bytes (b"": none), and what
makes it a document, or why it is none. What makes it raises ValueError with the reason, and perhaps its id."""


def _records(file: FolderFile, stream: BinaryIO, context: _Context) -> Iterator[_Record]:
    packed_kind = "table" if file.many == "rows" else "JSON Lines file"
    try:
        for number, identity, raw, make in _READERS[file.many](file, stream, context):
            if isinstance(make, str):
                yield _refused(number, raw, identity, make)
            elif raw in context.memory.outcomes:
                yield _Record(number, raw, context.memory.outcomes[raw])
            else:
                try:
                    yield _read(number, raw, make(), context.spool)
                except ValueError as error:
                    reason, own = error.args if len(error.args) == 2 else (error, "")
                    settled = b"" if isinstance(error, Unsettled) else raw
                    yield _refused(number, settled, own or identity, str(reason))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        yield _refused(0, b"", "", f"expected a readable {packed_kind}, got: {error}")
    except ValueError as error:
        yield _refused(0, b"", file.place, str(error))


def _file_at_once(file: FolderFile, stream: BinaryIO, context: _Context) -> _Items:
    content = stream.read(context.limit + 1)
    status = os.fstat(stream.fileno())

    def make() -> NormalisedDocument:
        notes = {"path": file.place, **_modified(status)}
        # A site may give it under any address.
        place = file.place if not content.startswith(b"%PDF-") else f"{file.place.removesuffix('.pdf')}.pdf"
        form = format_of(place)
        if not form.text:
            parsed = context.parser.parse(place, content)
        else:
            packed = file.name.lower().endswith(GZIP)
            text, encoding = decode(unpack_text(content, context.limit) if packed else content, context.limits.encoding)
            parsed = form.read(file.place[: -len(GZIP)] if packed else file.place, text)
            notes |= {} if encoding == "utf-8" else {"encoding": encoding}
        notes |= parsed.notes
        return make_document(
            file.place, parsed.title, parsed.text, parsed.metadata, notes, parsed.marks, parsed.removed
        )

    if len(content) > context.limit:
        yield 0, file.place, b"", too_long(status.st_size, context.limit)
    else:
        yield 0, file.place, _hashed(file.name, content), make


def _hashed(*parts: str | bytes) -> bytes:
    """Return a digest; parts before the last contain no NUL."""
    return hashlib.sha256(b"\0".join(os.fsencode(part) for part in parts)).digest()


def _modified(status: os.stat_result) -> dict[str, str]:
    """Return UTC time of a file's last change in seconds; empty if no calendar has it, or it is 0, which means none."""
    if not status.st_mtime_ns:
        return {}
    try:
        time_of = datetime.fromtimestamp(status.st_mtime_ns // 1_000_000_000, UTC)
    except (ValueError, OverflowError, OSError):
        return {}
    return {MODIFIED: time_of.isoformat().replace("+00:00", "Z")}


def _lines(file: FolderFile, stream: BinaryIO, context: _Context) -> _Items:
    lines = gzip.open(stream) if file.name.lower().endswith(GZIP) else stream  # noqa: SIM115
    for number, line, size in split_lines(lines, context.limit):
        if number == 1 and (encoding := other_encoding(line)):
            yield 0, file.place, b"", f"expected UTF-8, got {encoding.upper()}: save it as UTF-8"
            return
        if size > context.limit:
            yield number, "", b"", too_long(size, context.limit)
            continue

        def make(line: bytes = line) -> NormalisedDocument:
            record = _with_fields(parse_line(line, context.limits.encoding), dict(context.limits.columns))
            return _document(file, record)

        # No file name starts with NUL, so a line is never mistaken for a file.
        yield number, "", _hashed("", file.name, line), make


def _rows(file: FolderFile, stream: BinaryIO, context: _Context) -> _Items:
    name = file.name.lower()
    table = gzip.open(stream) if name.endswith(GZIP) else stream  # noqa: SIM115
    for row in read_rows(
        cast(BinaryIO, table), name.removesuffix(GZIP), context.limit, encoding=context.limits.encoding
    ):
        if isinstance(row, Wrong):
            raw = _hashed("", "", "", file.name, json.dumps(row[1:]))
            yield row.number, "".join(row.fields[:1])[:100], raw, row.reason
            continue
        record = record_of(row, file.place, dict(context.limits.columns))
        raw = _hashed("", "", file.name, json.dumps([record, row.literal], ensure_ascii=True))
        notes = {"quotation marks not closed": 1} if row.literal else {}
        yield row.number, "", raw, partial(_document, file, record, notes)


def _container(file: FolderFile, stream: BinaryIO, context: _Context) -> _Items:
    container = CONTAINERS[os.path.splitext(file.name)[1].lower()]
    for number, name, content, size in container.split(stream, context.limits, context.limit):
        identity = f"{file.place}:{name or number}"
        if size > context.limit:
            yield number, "", b"", too_long(size, context.limit)
        elif not container.suffix:
            record = parse_line(content)
            if isinstance(record, dict):
                record["id"] = record.get("id") or f"{file.place}:{number}"
            # With its id, which may be that of its place.
            raw = _hashed("", "", "", "", "", file.name, json.dumps(record))
            yield number, "", raw, partial(_document, file, record)
        else:

            def make(number: int = number, content: bytes = content, identity: str = identity) -> NormalisedDocument:
                # As a file of this part alone would be read.
                parsed = context.parser.parse(f"{file.place}-{number}{container.suffix}", content)
                notes = {"path": file.place, **parsed.notes}
                return make_document(identity, parsed.title, parsed.text, parsed.metadata, notes, parsed.marks)

            # With its id: one without a name may have moved to another place.
            yield number, identity, _hashed("", "", "", "", file.name, identity, content), make


_READERS = {"lines": _lines, "rows": _rows, "records": _container, "parts": _container, "": _file_at_once}


def _with_fields(record: dict[str, Any] | str, columns: dict[str, str]) -> dict[str, Any] | str:
    """Return a line with our names of its keys: those that are given, and others of a text that are usual."""
    if isinstance(record, str):
        return record
    other = next((key for key in _TEXTS if isinstance(record.get(key), str)), None)
    usual = {"text": other} if other and record.get("text") is None else {}
    return record | {field: record[key] for field, key in (usual | columns).items() if key in record}


def _document(
    file: FolderFile, record: dict[str, Any] | str, notes: Mapping[str, Any] = MappingProxyType({})
) -> NormalisedDocument:
    if isinstance(record, str):
        raise ValueError(record)
    try:
        return document_of(record, {"path": file.place, **notes})
    except ValueError as error:
        named = "" if "text" in record and "id" in record else "; name other keys under `columns` of the corpus"
        raise ValueError(f"{error}{named}", str(record.get("id") or "")[:100]) from None


def _read(line: int, raw: bytes, document: NormalisedDocument, spool: Spool) -> _Record:
    outcome = Outcome(document.id, document.digest, len(document.text), len(document.text.encode()))
    spool.add(outcome.digest, packed(document))
    return _Record(line, raw, outcome)


def _refused(line: int, raw: bytes, identity: str, reason: str) -> _Record:
    return _Record(line, raw, Outcome(printable(identity), reason=printable(reason)))
