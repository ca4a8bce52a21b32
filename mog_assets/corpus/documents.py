"""Read a corpus: documents from `.jsonl[.gz]` files or folders, normalised, with what could not be used and why.

A document that cannot be used is recorded and passed over; it never stops a corpus.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
import unicodedata
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.errors import MogError

SUFFIXES = (".txt", ".md", ".html", ".jsonl", ".jsonl.gz")

_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("characters", pa.int64()),
        ("sha256", pa.string()),
        ("metadata", pa.string()),
        ("shifts", pa.list_(pa.list_(pa.int64(), 2))),
    ]
)
_QUARANTINE_SCHEMA = pa.schema([("place", pa.string()), ("id", pa.string()), ("reason", pa.string())])


@dataclass(frozen=True)
class Document:
    """A document as the project works on it: NFC text; `shifts` maps offsets into the text as it was given.

    Attributes:
        sha256: Of title and text, in hexadecimal.
        metadata: JSON.
        shifts: Pairs (offset in the given text, characters gained so far); empty when the text was NFC already.
        place: File and line it came from.
    """

    id: str
    title: str
    text: str
    sha256: str
    metadata: str = "{}"
    shifts: tuple[tuple[int, int], ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Quarantined:
    """A document that was passed over: where it lies, its id where it has one, and why."""

    place: str
    id: str
    reason: str


@dataclass
class Reading:
    """What came of reading a corpus."""

    documents: list[Document] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)


def source_files(path: Path) -> list[Path]:
    """The files of a corpus, sorted: the file itself, or the regular files of a folder that have a known suffix.

    Raises:
        MogError: nothing is there, or the file has an unknown suffix.
    """
    known = ", ".join(SUFFIXES)
    if path.is_dir():
        root = path.resolve()
        inside = (p for p in path.rglob("*") if p.is_file() and p.resolve().is_relative_to(root))
        return sorted(p for p in inside if p.name.lower().endswith(SUFFIXES) and not p.name.startswith("."))
    if not path.exists():
        raise MogError(f"{path}: expected a file ({known}) or a folder of such files, found nothing")
    if not path.name.lower().endswith((".jsonl", ".jsonl.gz")):
        raise MogError(f"{path}: expected a folder, or a file that ends in .jsonl or .jsonl.gz")
    return [path]


def source_state(path: Path) -> list[list[Any]]:
    """Name, size and time of change of every file of a corpus: equal as long as nothing was touched."""
    root = path if path.is_dir() else path.parent
    states = []
    for file in source_files(path):
        status = file.stat()
        states.append([file.relative_to(root).as_posix(), status.st_size, status.st_mtime_ns])
    return states


def read_corpus(path: Path) -> Reading:
    """Read every document of a corpus.

    Raises:
        MogError: the path is missing, or holds no usable document.
    """
    reading = Reading()
    seen: dict[str, str] = {}
    root = path if path.is_dir() else path.parent
    for file in source_files(path):
        for found in _read_file(file, file.relative_to(root).as_posix()):
            if isinstance(found, Quarantined):
                reading.quarantined.append(found)
            elif found.id in seen:
                reason = (
                    f"duplicate id: {found.id!r} stands at {seen[found.id]} and at {found.place}; the first is used"
                )
                reading.quarantined.append(Quarantined(found.place, found.id, reason))
            else:
                seen[found.id] = found.place
                reading.documents.append(found)
    if not reading.documents:
        first = "".join(f"; the first: {q.place}: {q.reason}" for q in reading.quarantined[:1])
        raise MogError(
            f"{path}: expected at least one usable document, found none ({len(reading.quarantined)} passed over{first})"
        )
    return reading


def _read_file(file: Path, name: str) -> Iterator[Document | Quarantined]:
    if file.name.lower().endswith((".jsonl", ".jsonl.gz")):
        yield from _read_jsonl(file, name)
        return
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Quarantined(name, name, f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at {error.start}")
        return
    except OSError as error:
        yield Quarantined(name, name, f"cannot be read: {error.strerror}")
        return
    title = file.stem
    if file.suffix.lower() == ".html":
        title, text = _html_text(text, title)
    elif heading := re.match(r"\s*#\s+(.+)", text):
        title = heading[1].strip()
    elif (first := text.lstrip().split("\n", 1))[0].strip() and len(first[0]) <= 120:
        title = first[0].strip()
    yield _document(name, name, title, text, {})


def _html_text(html: str, fallback: str) -> tuple[str, str]:
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(html, "html.parser")
    for unseen in soup(["script", "style", "noscript", "template"]):
        unseen.decompose()
    heading = soup.title or soup.h1
    title = heading.get_text(" ", strip=True) if heading else fallback
    body = soup.body or soup
    return title or fallback, re.sub(r"\n\s*\n+", "\n\n", body.get_text("\n")).strip()


def read_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Line number (from 1) and bytes of every line of a `.jsonl[.gz]` file that is not blank.

    Raises:
        MogError: the file is missing, or is not the gzip file that its name promises.
    """
    try:
        with gzip.open(file) if file.name.endswith(".gz") else file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MogError(f"{file}: expected a readable JSON Lines file, got: {reason}") from error


def parse_line(line: bytes) -> dict[str, Any] | str:
    """The JSON object on a line, or what is wrong with it."""
    try:
        record = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return f"expected UTF-8, got byte 0x{error.object[error.start]:02x} at byte {error.start} of the line"
    except (ValueError, RecursionError) as error:
        return f"malformed JSON: {error}"
    return record if isinstance(record, dict) else f"expected a JSON object, got {type(record).__name__}"


def _read_jsonl(file: Path, name: str) -> Iterator[Document | Quarantined]:
    lines = read_lines(file)
    while True:
        try:
            number, line = next(lines)
        except StopIteration:
            return
        except MogError as error:
            yield Quarantined(name, "", str(error))
            return
        place = f"{name}:{number}"
        record = parse_line(line)
        if isinstance(record, str):
            yield Quarantined(place, "", record)
            continue
        wrong = [key for key in ("id", "text") if not isinstance(record.get(key), str)]
        wrong += [key for key in ("title",) if not isinstance(record.get(key, ""), str)]
        if wrong or not record["id"].strip():
            given = ", ".join(f"{key}={str(record.get(key))[:40]!r}" for key in wrong or ["id"])
            yield Quarantined(place, str(record.get("id", "")), f"expected strings id, title and text, got {given}")
            continue
        yield _document(place, record["id"], record.get("title", ""), record["text"], record.get("metadata") or {})


def _document(place: str, identity: str, title: str, text: str, metadata: Any) -> Document | Quarantined:
    noted = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    try:
        f"{identity}{title}{text}{noted}".encode()
    except UnicodeEncodeError as error:
        return Quarantined(place, repr(identity), f"half of a surrogate pair at {error.start}, not valid text")
    if not text.strip():
        return Quarantined(place, identity, "empty document")
    title = unicodedata.normalize("NFC", title)
    normal, shifts = normalise(text)
    sha256 = hashlib.sha256(f"{title}\0{normal}".encode()).hexdigest()
    return Document(identity, title, normal, sha256, noted, shifts, place)


@cache
def _composed() -> re.Pattern[str]:
    """Matches a character with all that may compose with it: NFC never looks across the end of such a match."""
    follows = {chr(c) for c in range(0x1160, 0x1200)}  # the vowels and finals of Hangul syllables
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.combining(character):
            follows.add(character)
        parts = unicodedata.decomposition(character).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            follows.add(chr(int(parts[1], 16)))
    return re.compile(f"(?s:.)[{re.escape(''.join(sorted(follows)))}]*")


def normalise(text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """NFC of a text, and how offsets move: pairs (offset in `text`, characters gained up to there)."""
    if unicodedata.is_normalized("NFC", text):
        return text, ()
    shifts, pieces, gained = [], [], 0
    for match in _composed().finditer(text):
        piece = unicodedata.normalize("NFC", match.group())
        pieces.append(piece)
        if len(piece) != len(match.group()):
            gained += len(piece) - len(match.group())
            shifts.append((match.end(), gained))
    return "".join(pieces), tuple(shifts)


def shifted(offset: int, shifts: Any) -> int:
    """An offset into the given text as an offset into the NFC text."""
    gained = 0
    for position, total in shifts or ():
        if offset < position:
            break
        gained = total
    return offset + gained


def bucket_of(identity: str, buckets: int) -> int:
    """The bucket that a document belongs to, 0 … buckets − 1, by a hash of its id."""
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8]) % buckets


def into_buckets(documents: list[Document], buckets: int) -> dict[int, list[Document]]:
    """Documents by bucket, buckets and documents in order; empty buckets are left out."""
    result: dict[int, list[Document]] = {}
    for document in documents:
        result.setdefault(bucket_of(document.id, buckets), []).append(document)
    return {bucket: sorted(result[bucket], key=lambda d: d.id) for bucket in sorted(result)}


def write_documents(documents: list[Document], path: Path) -> None:
    """Write one bucket of documents as Parquet."""
    rows = [
        {
            "id": d.id,
            "title": d.title,
            "text": d.text,
            "characters": len(d.text),
            "sha256": d.sha256,
            "metadata": d.metadata,
            "shifts": [list(pair) for pair in d.shifts],
        }
        for d in documents
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path, compression="zstd")


def printable(text: str) -> str:
    """A text with halves of surrogate pairs, which no UTF-8 file can hold, written out."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_quarantine(quarantined: list[Quarantined], path: Path) -> None:
    """Write the documents that were passed over as Parquet."""
    rows = [{name: printable(value) for name, value in vars(q).items()} for q in quarantined]
    pq.write_table(pa.Table.from_pylist(rows, schema=_QUARANTINE_SCHEMA), path)
