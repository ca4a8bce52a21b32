"""From foreign data sets to files of a corpus and of questions; what is left out is counted and told."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from mog_assets.config import CorpusSettings
from mog_assets.corpus.decoding import parse_line
from mog_assets.corpus.documents import make_document
from mog_assets.questions.streams import Advance, lines_of
from mog_assets.resources.printable import printable

if TYPE_CHECKING:
    import click

# Bytes of a document; the reader of corpora skips a longer line.
LONGEST = int(CorpusSettings.model_fields["max_document_mb"].default * 1_000_000)
_GRADE = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")

Found = tuple[str, dict[str, Any] | str]


@dataclass
class Notes:
    """What was left out or changed: how often each thing happened, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, where: str) -> None:
        """Count something."""
        self.counts[what] += 1
        self.first.setdefault(what, printable(where)[:300])

    def __iter__(self) -> Iterator[str]:
        for what, count in self.counts.items():
            yield f"{what}: {count:,}; the first: {self.first[what]}"


class Ids:
    """Ids of documents, as hashes of 64 bits: 16 to 32 bytes each, whatever their length.

    Of ten million ids, two have the same hash with a probability of 3 in a million.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 << 10))
        self._count = 0

    def _place(self, key: int) -> int:
        mask = len(self._slots) - 1
        at = key & mask
        while self._slots[at] not in (0, key):
            at = (at + 1) & mask
        return at

    def __contains__(self, identity: str) -> bool:
        return bool(self._slots[self._place(_hash(identity))])

    def add(self, identity: str) -> bool:
        """Add an id; whether it is new."""
        key = _hash(identity)
        at = self._place(key)
        if self._slots[at]:
            return False
        self._slots[at] = key
        self._count += 1
        if self._count * 2 > len(self._slots):
            kept = self._slots
            self._slots = array("Q", bytes(16 * len(kept)))
            for key_kept in kept:
                if key_kept:
                    self._slots[self._place(key_kept)] = key_kept
        return True


def _hash(identity: str) -> int:
    digest = hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # 0 is a free slot.
    return int.from_bytes(digest) or 1


@dataclass(slots=True)
class Judged:
    """The judgements of one question: its split, and grades by id of document."""

    split: str
    grades: dict[str, int] = field(default_factory=dict)


@dataclass
class ImportCounts:
    """What was written of a data set: documents, questions by split, grades of judgements, and evidence."""

    documents: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    grades: Counter[int] = field(default_factory=Counter)
    spans: int = 0
    without: int = 0


class Dataset(Protocol):
    """A foreign data set. `documents` are read before `questions`; the bytes of their files are for the progress."""

    size: int

    def documents(self, advance: Advance) -> Iterator[Found]:
        """Place, and id, title, text and metadata of a document, or what is wrong there."""

    def questions(self, ids: Ids, corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """Question records; `ids` has the ids of the documents of the corpus."""


@dataclass(frozen=True)
class Importer:
    """Reads a foreign data set: the command `mog import NAME`.

    Attributes:
        help: What the command says of itself.
        parameters: Its arguments and options, but those of all imports. One called `corpus` names a corpus of the
            project that has the documents already.
        named: The path that gives the corpus and the question set their name, given the parameters.
        open: The data set, given the notes and the parameters.
        check: Raises a `ConfigError` if the parameters do not fit together.
    """

    help: str
    parameters: Sequence[click.Parameter]
    named: Callable[..., Path]
    open: Callable[..., Dataset]
    check: Callable[..., None] = lambda **parameters: None


def write_documents(documents: Iterable[Found], stream: BinaryIO, ids: Ids, notes: Notes) -> int:
    """Write documents as the JSON lines of a corpus, one at a time; returns how many.

    Documents that the reader of corpora would skip are left out, and of several with one id all but the first.

    Args:
        documents: Of `Dataset.documents`.
        stream: Where to.
        ids: The ids that are written are added to it.
        notes: What was left out or changed is added to them.
    """
    count = 0
    for place, record in documents:
        if isinstance(record, str):
            notes.add("documents skipped", f"{place}: {record}")
            continue
        try:
            line = _document_line(record)
        except ValueError as error:
            notes.add("documents skipped", f"{place}: {error}")
            continue
        if not record["text"].strip():
            notes.add("documents with a title alone, which is also their text", place)
        identity = record["id"]
        normal = unicodedata.normalize("NFC", identity)
        if not ids.add(normal) or (normal != identity and not ids.add(identity)):
            notes.add("documents skipped that repeat an id", f"{place}: {identity[:100]!r}")
            continue
        stream.write(line)
        count += 1
    return count


def _document_line(record: Mapping[str, Any]) -> bytes:
    """The line of a corpus file.

    Raises:
        ValueError: the reader of corpora would skip it.
    """
    identity, title, text = (record.get(key) for key in ("id", "title", "text"))
    if not (isinstance(identity, str) and identity.strip() and isinstance(title, str) and isinstance(text, str)):
        wrong = {"id": identity, "title": title, "text": text}
        given = ", ".join(f"{k}={str(v)[:40]!r}" for k, v in wrong.items() if not isinstance(v, str) or k == "id")
        raise ValueError(f"expected strings id, title and text, got {given}")
    text = text if text.strip() else title
    metadata = record.get("metadata")
    make_document(identity, title, text, metadata or {}, {})
    kept = {"metadata": metadata} if metadata else {}
    line = json.dumps({"id": identity, "title": title, "text": text, **kept}, ensure_ascii=False).encode() + b"\n"
    if len(line) > LONGEST:
        raise ValueError(f"expected at most {LONGEST} bytes per document, got {len(line)}")
    return line


def write_questions(records: Iterable[Mapping[str, Any]], stream: BinaryIO, notes: Notes) -> ImportCounts:
    """Write question records as JSON lines; of several with one id, all but the first are left out."""
    written = ImportCounts()
    seen = Ids()
    for record in records:
        try:
            line = json.dumps(record, ensure_ascii=False).encode()
            if "\0" in record["question"]:
                raise ValueError("NUL character")
        except ValueError as error:
            notes.add("questions skipped", f"{record['id'][:100]!r}: {error}")
            continue
        if not seen.add(record["id"]):
            notes.add("questions skipped that repeat an id", repr(record["id"][:100]))
            continue
        stream.write(line + b"\n")
        written.splits[record["split"]] += 1
        written.grades.update(record.get("docs", {}).values())
        written.spans += len(record.get("evidence", ()))
        written.without += not (record.get("docs") or record.get("evidence"))
    return written


def texts_of_lines(path: Path, keys: Mapping[str, tuple[str, ...]], advance: Advance | None = None) -> Iterator[Found]:
    """The objects of a JSON Lines file with texts under our names.

    Args:
        path: A `.jsonl[.gz]` file.
        keys: Names in the file by name here, the first that a line has; numbers become texts, what is missing "".
        advance: See `lines_of`.
    """
    for number, line, wrong in lines_of(path, "JSON Lines file", LONGEST, advance):
        record = wrong or parse_line(line)
        if isinstance(record, dict):
            given = {key: next((record[name] for name in names if name in record), "") for key, names in keys.items()}
            texts = {k: str(v) if type(v) is int else "" if v is None else v for k, v in given.items()}
            record = {**texts, "metadata": record.get("metadata")}
        yield f"{path.name}:{number}", record


def grade_of(text: str) -> int | None:
    """The grade of a judgement, at least 0; None if it is no integer. Negative grades say `not relevant`, or worse."""
    return max(0, int(float(text))) if _GRADE.fullmatch(text) else None


def add_judgement(judged: dict[str, Judged], split: str, given: tuple[str, str, str], place: str, notes: Notes) -> None:
    """Add a judgement.

    Args:
        judged: Judgements by id of the question.
        split: Split of the question; one that already has another keeps that.
        given: Ids of question and document, and the grade, as texts.
        place: Of the judgement.
        notes: What is wrong with it is added to them.
    """
    query, document, text = given
    grade = grade_of(text)
    if not (query and document) or grade is None:
        notes.add("judgements skipped", f"{place}: expected ids and an integer, got {', '.join(given)[:200]!r}")
        return
    if text.startswith("-") and float(text) < 0:
        notes.add("judgements with a negative grade, imported as 0", f"{place}: {text}")
    question = judged.setdefault(query, Judged(split))
    if question.split != split:
        notes.add(f"judgements of {split} skipped, whose question is in {question.split}", f"{place}: {query[:100]!r}")
    elif question.grades.setdefault(document, grade) != grade:
        notes.add("judgements skipped that contradict an earlier one", f"{place}: {query[:100]!r}")


def judged_questions(
    queries: Iterable[Found], judged: dict[str, Judged], ids: Ids, notes: Notes
) -> Iterator[dict[str, Any]]:
    """Records of the queries that have a relevant document.

    Args:
        queries: Places, and id and text, or what is wrong there.
        judged: Judgements by id of the query; those that are used are removed.
        ids: Ids of the documents.
        notes: What is left out is added to them.
    """
    for place, query in queries:
        if isinstance(query, str) or not isinstance(query["id"], str) or not isinstance(query["text"], str):
            notes.add("queries skipped", f"{place}: {query if isinstance(query, str) else 'expected texts'}")
            continue
        question = judged.pop(query["id"], None)
        if question is None:
            notes.add("queries without judgements, left out", f"{place}: {query['id'][:100]!r}")
            continue
        if not query["text"].strip():
            notes.add("queries skipped that are empty", f"{place}: {query['id'][:100]!r}")
            continue
        docs = {}
        for document, grade in question.grades.items():
            if document in ids:
                docs[document] = grade
            else:
                notes.add("judgements skipped of unknown documents", f"{query['id'][:100]!r}: {document[:100]!r}")
        if not any(docs.values()):
            notes.add("queries without a relevant document, left out", f"{place}: {query['id'][:100]!r}")
            continue
        yield {"id": query["id"], "question": query["text"], "split": question.split, "docs": docs}
    for identity in judged:
        notes.add("judged questions without a query, or with one that repeats an id", repr(identity[:100]))
