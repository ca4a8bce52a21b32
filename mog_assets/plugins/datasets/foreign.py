"""Write foreign data sets as files of a corpus and of questions; count what is left out."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from mog_assets.config import CorpusSettings
from mog_assets.documents.documents import document_of
from mog_assets.questions.records import Advance, unpacked
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

if TYPE_CHECKING:
    import click

# Bytes of a document; the reader of corpora skips a longer line.
LONGEST = int(CorpusSettings.model_fields["max_document_mb"].default * 1_000_000)

ForeignRecord = tuple[str, dict[str, Any] | str]
"""A place in a file, and the record there, or the reason why there is none."""


@dataclass
class Notes:
    """Count what is left out or changed, with the first place of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, where: str) -> None:
        """Count one occurrence."""
        self.counts[what] += 1
        self.first.setdefault(what, printable(where)[:300])

    def __iter__(self) -> Iterator[str]:
        return (f"{what}: {count:,}; the first: {self.first[what]}" for what, count in self.counts.items())


@dataclass
class ImportCounts:
    """Count what is written: documents, questions by split, judgements by grade, places, questions without evidence."""

    documents: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    grades: Counter[int] = field(default_factory=Counter)
    spans: int = 0
    without: int = 0


class Dataset(Protocol):
    """Give the documents of a foreign data set, then its questions; `size` is in bytes, for the progress."""

    size: int

    def documents(self, advance: Advance) -> Iterator[ForeignRecord]:
        """Yield records with id, title, text and metadata."""

    def questions(self, ids: Collection[str], corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """Yield records of questions; `ids` are those of the documents of the corpus."""


@dataclass(frozen=True)
class Importer:
    """Read a foreign data set: the command `mog import NAME`.

    Attributes:
        help: The help text of the command.
        parameters: Its own arguments and options.
        named: Returns the path that names the corpus and the question set, given the parameters; raises a `ConfigError`
            if they cannot be combined.
        open: Returns the data set, given the notes and the parameters.
    """

    help: str
    parameters: Sequence[click.Parameter]
    named: Callable[..., Path]
    open: Callable[..., Dataset]


def write_documents(documents: Iterable[ForeignRecord], stream: BinaryIO, ids: set[str], notes: Notes) -> int:
    """Write documents as the JSON lines of a corpus, one at a time; return how many.

    Documents that the reader of corpora would skip are left out, and of several with one id all but the first. `ids`
    receives the ids that are written.
    """
    count = 0
    for place, record in documents:
        try:
            if isinstance(record, str):
                raise ValueError(record)
            fields = {name: record.get(name) for name in ("id", "title", "text")}
            title_alone = isinstance(fields["text"], str) and not fields["text"].strip()
            fields |= {"text": fields["title"]} if title_alone else {}
            fields |= {"metadata": record["metadata"]} if record.get("metadata") else {}
            document_of(fields, {}, language="")
            line = json.dumps(fields, ensure_ascii=False).encode() + b"\n"
            if len(line) > LONGEST:
                raise ValueError(f"expected at most {LONGEST} bytes per document, got {len(line)}")
        except ValueError as error:
            notes.add("documents skipped", f"{place}: {error}")
            continue
        if title_alone:
            notes.add("documents with a title alone, which is also their text", place)
        identity = str(fields["id"])
        if (normal := unicodedata.normalize("NFC", identity)) in ids:
            notes.add("documents skipped that repeat an id", f"{place}: {identity[:100]!r}")
            continue
        ids |= {normal, identity}
        stream.write(line)
        count += 1
    return count


def write_questions(records: Iterable[Mapping[str, Any]], stream: BinaryIO, notes: Notes) -> ImportCounts:
    """Write records of questions as JSON lines; of several with one id, all but the first are left out."""
    written = ImportCounts()
    seen: set[str] = set()
    for record in records:
        try:
            line = json.dumps(record, ensure_ascii=False).encode()
            if "\0" in record["question"]:
                raise ValueError("NUL character")
        except ValueError as error:
            notes.add("questions skipped", f"{record['id'][:100]!r}: {error}")
            continue
        if record["id"] in seen:
            notes.add("questions skipped that repeat an id", repr(record["id"][:100]))
            continue
        seen.add(record["id"])
        stream.write(line + b"\n")
        written.splits[record["split"]] += 1
        written.grades.update(record.get("docs", {}).values())
        written.spans += len(record.get("evidence", ()))
        written.without += not (record.get("docs") or record.get("evidence"))
    return written


def read_at_once(path: Path, kind: str, limit: int) -> bytes:
    """Return the content of a file that is read at once.

    Raises:
        MogError: it cannot be read, or has more than `limit` bytes.
    """
    with unpacked(path, kind) as (stream, _):
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise MogError(f"{path}: expected a {kind} of at most {limit:,} bytes, got more")
    return content
