"""Read TREC collections: topics, judgements (qrels) and documents.

References: Voorhees & Harman 2005, TREC: Experiment and Evaluation in Information Retrieval; the formats of
https://trec.nist.gov/data.html.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click
from lxml import etree

from mog_assets.corpus.decoding import parse_line, split_lines
from mog_assets.corpus.folders import LINES, scan
from mog_assets.corpus.tables import Row, read_rows, record_of
from mog_assets.questions.foreign import (
    LONGEST,
    Found,
    Ids,
    Importer,
    Judged,
    Notes,
    add_judgement,
    judged_questions,
    texts_of_lines,
)
from mog_assets.questions.streams import Advance, lines_of, unpacked, whole
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import ConfigError, MogError

Part = Literal["title", "description"]
SPLIT = "test"

_MOST_TOPICS = 50_000_000
_BLOCK = 1 << 20
_TSV = (".tsv", ".tsv.gz")
# Elements of a topic by what is asked for, most usual first.
_ASKED = {"title": ("title", "query", "summary"), "description": ("desc", "description", "question")}
_NUMBER = ("num", "number", "id")
_TOPIC = re.compile(r"<top>(.*?)(?=</top>|<top>|\Z)", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(r"<([A-Za-z]+)>([^<]*)")
_LABEL = re.compile(r"\s*(number|topic|description)\s*:", re.IGNORECASE)
_END = re.compile(rb"</doc>", re.IGNORECASE)
_START = re.compile(r"<doc>", re.IGNORECASE)
_PART = re.compile(r"<(/?)(docno|text|title|headline|hl|ti)\b[^<>]{0,200}>", re.IGNORECASE)
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,500}>")
_KEYS = {
    "id": ("id", "_id", "docno", "docid", "doc_id"),
    "title": ("title", "headline"),
    "text": ("text", "contents", "body", "abstract"),
}
_TOPIC_KEYS = {"id": ("id", "_id", "qid", "query_id", "number"), "text": ("text", "query", "title", "question")}


class Trec:
    """A TREC collection.

    Args:
        topics: SGML (`<top> <num> <title>`), XML (`<topic number="1">`), lines `id<TAB>text`, or JSON Lines.
        qrels: Lines `topic iteration document grade`.
        documents: A file or folder of SGML (`<DOC> <DOCNO> <TEXT>`), `.jsonl` and `.tsv` files (`id<TAB>text`), any of
            them with `.gz`; None if the documents are those of a corpus.
        part: Of a topic, what is the question.
        encoding: Of topics and SGML documents.
        notes: What is wrong with judgements is added to them.

    Raises:
        MogError: a file cannot be read, or is in no such format.
    """

    def __init__(
        self, topics: Path, qrels: Path, documents: Path | None, part: Part, encoding: str, notes: Notes
    ) -> None:
        self._encoding = encoding
        self._topics = list(_topics(topics, part, encoding))
        self._judged: dict[str, Judged] = {}
        for number, line, wrong in lines_of(qrels, "file of judgements", LONGEST):
            fields = line.decode("utf-8-sig", "replace").split()
            place = f"{qrels.name}:{number}"
            if wrong or len(fields) != 4:
                notes.add("judgements skipped", f"{place}: {wrong or f'expected 4 columns, got {len(fields)}'}")
            else:
                add_judgement(self._judged, SPLIT, (fields[0], fields[2], fields[3]), place, notes)
        if not self._judged:
            raise MogError(f"{qrels}: expected judgements, `topic iteration document grade`, found none")
        self._files = [] if documents is None else _files(documents)
        self._base = documents
        self.size = sum(path.stat().st_size for path in self._files)

    def documents(self, advance: Advance) -> Iterator[Found]:
        """See `Dataset`."""
        for path in self._files:
            if path.name.lower().endswith(LINES):
                records = texts_of_lines(path, _KEYS, advance)
            elif path.name.lower().endswith(_TSV):
                records = _tab_lines(path, advance)
            else:
                records = _sgml(path, self._encoding, advance)
            try:
                yield from records
            except MogError as error:
                # One file of a folder does not stop the others.
                if path == self._base:
                    raise
                yield path.name, str(error)

    def questions(self, ids: Ids, corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """See `Dataset`."""
        return judged_questions(self._numbered(), self._judged, ids, notes)

    def _numbered(self) -> Iterator[Found]:
        """The topics; `051` is the topic 51 of judgements that have no 051."""
        for place, topic in self._topics:
            if isinstance(topic, dict) and isinstance(topic["id"], str) and topic["id"] not in self._judged:
                short = topic["id"].lstrip("0")
                topic = {**topic, "id": short} if short in self._judged else topic
            yield place, topic


def check_encoding(name: str) -> str:
    """The name of an encoding of text.

    Raises:
        ValueError: there is none of this name.
    """
    try:
        b"aaaa".decode(name, "replace")
    except (LookupError, ValueError):
        raise ValueError(f"expected an encoding such as utf-8, latin-1 or cp1252, got {name[:40]!r}") from None
    return name


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except UnicodeError as error:
        raise ValueError(
            f"expected {encoding.upper()}, got other bytes ({error}): name the encoding with --encoding"
        ) from None


def _topics(path: Path, part: Part, encoding: str) -> Iterator[Found]:
    if path.name.lower().endswith(LINES):
        yield from texts_of_lines(path, _TOPIC_KEYS)
        return
    try:
        text = _decoded(whole(path, "file of topics", _MOST_TOPICS), encoding)
    except ValueError as error:
        raise MogError(f"{path}: {error}") from error
    topics_of: Iterator[dict[str, str]]
    if re.search("<top>", text, re.IGNORECASE):
        topics_of = (_sgml_topic(match[1], part) for match in _TOPIC.finditer(text))
    elif text.lstrip().startswith("<"):
        topics_of = _xml_topics(path, text, part)
    else:
        lines = (line.partition("\t") for line in text.split("\n") if line.strip())
        topics_of = ({"id": identity.strip(), "text": " ".join(said.split())} for identity, _, said in lines)
    for number, topic in enumerate(topics_of, start=1):
        yield f"{path.name}: topic {number}", topic if topic["id"] else "expected a topic with a number and a text"


def _sgml_topic(text: str, part: Part) -> dict[str, str]:
    fields: dict[str, str] = {}
    for match in _FIELD.finditer(text):
        fields.setdefault(match[1].lower(), " ".join(html.unescape(_LABEL.sub("", match[2], count=1)).split()))
    return _topic(fields, part)


def _topic(fields: Mapping[str, str], part: Part) -> dict[str, str]:
    number, text = (next((fields[n] for n in names if fields.get(n)), "") for names in (_NUMBER, _ASKED[part]))
    return {"id": number, "text": text}


def _xml_topics(path: Path, text: str, part: Part) -> Iterator[dict[str, str]]:
    # Nothing outside the file is read, and entities are not expanded.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(text.encode(), parser) if "encoding=" not in text[:200] else _declared(text, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise MogError(f"{path}: expected topics as SGML, XML, or lines of id, tab and text, got: {error}") from error
    for element in root.iter("topic", "top", "TOPIC"):
        fields = {str(name).lower(): str(value).strip() for name, value in element.attrib.items()}
        fields |= {
            str(c.tag).lower(): " ".join("".join(c.itertext()).split()) for c in element if isinstance(c.tag, str)
        }
        topic = _topic(fields, part)
        yield topic if len(element) else {**topic, "text": " ".join("".join(element.itertext()).split())}


def _declared(text: str, parser: Any) -> Any:
    """The XML of a decoded text that declares an encoding, which is no longer its own."""
    return etree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text, count=1).encode(), parser)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(folder, name) for name in sorted(names) if not name.startswith(".")]
    files = [file for file in files if file.is_file()]
    if not files:
        raise MogError(f"{path}: expected a file of documents or a folder of such files, found none")
    return files


def _tab_lines(path: Path, advance: Advance) -> Iterator[Found]:
    for number, line, wrong in lines_of(path, "file of documents", LONGEST, advance):
        place = f"{path.name}:{number}"
        try:
            identity, tab, text = line.decode("utf-8-sig").partition("\t")
        except UnicodeDecodeError as error:
            yield place, f"expected UTF-8, got byte 0x{line[error.start]:02x} at byte {error.start} of the line"
            continue
        if wrong or not tab:
            yield place, wrong or "expected an id, a tab and a text"
        else:
            yield place, {"id": identity.strip(), "title": "", "text": text}


def _sgml(path: Path, encoding: str, advance: Advance) -> Iterator[Found]:
    number = 0
    for number, raw in enumerate(_until_end(path, advance), start=1):
        place = f"{path.name}: document {number}"
        try:
            yield place, raw if isinstance(raw, str) else _sgml_document(_decoded(raw, encoding))
        except ValueError as error:
            yield place, str(error)
    if not number:
        yield path.name, "expected documents, <DOC> … </DOC>, or a .jsonl or .tsv file, found none"


def _until_end(path: Path, advance: Advance) -> Iterator[bytes | str]:
    """What is before each `</DOC>`, or what is wrong with it."""
    too_long = f"expected at most {LONGEST} bytes per document, got more: not read"
    with unpacked(path, "file of documents") as (stream, raw):
        buffer, skipping, at = bytearray(), False, 0
        while block := stream.read(_BLOCK):
            # The end may be cut in two.
            start = max(0, len(buffer) - len(b"</doc"))
            buffer += block
            while match := _END.search(buffer, start):
                yield too_long if skipping or match.start() > LONGEST else bytes(buffer[: match.start()])
                del buffer[: match.end()]
                start, skipping = 0, False
            if len(buffer) > LONGEST:
                del buffer[: -len(b"</doc")]
                skipping = True
            if (now := raw.tell()) != at:
                advance(now - at)
                at = now
        if skipping or b"<doc>" in buffer.lower():
            yield too_long if skipping else "expected </DOC>, the file ends before"


def _sgml_document(text: str) -> dict[str, str]:
    """The document after the last `<DOC>` of a text.

    Raises:
        ValueError: there is none, or it has no id.
    """
    starts = [match.end() for match in _START.finditer(text)]
    if not starts:
        raise ValueError("expected <DOC> before </DOC>")
    text = text[starts[-1] :]
    parts: dict[str, list[str]] = {}
    rest: list[str] = []
    name, start = "", 0
    for match in _PART.finditer(text):
        tag = match[2].lower()
        if not name and not match[1]:
            rest.append(text[start : match.start()])
            name, start = tag, match.end()
        elif name == tag and match[1]:
            parts.setdefault(name, []).append(text[start : match.start()])
            name, start = "", match.end()
    parts.setdefault(name, []).append(text[start:])
    identity = next((" ".join(text_of.split()) for text_of in parts.get("docno", ())), "")
    if not identity:
        raise ValueError("expected a <DOCNO>, found none")
    title = next(
        (t for tag in ("title", "headline", "hl", "ti") for text_of in parts.get(tag, ()) if (t := _plain(text_of))), ""
    )
    body = parts.get("text") or [*rest, *parts.get("", ())]
    return {"id": identity, "title": " ".join(title.split()), "text": "\n\n".join(filter(None, map(_plain, body)))}


def _plain(text: str) -> str:
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", html.unescape(_TAG.sub("", text))).strip()


def ids_of_corpus(path: Path, limit: int) -> Ids:
    """The ids that documents of a corpus have; no document is parsed, so some of them may turn out unusable.

    Args:
        path: Of the corpus.
        limit: Bytes that a document may have.

    Raises:
        MogError: the corpus is missing.
    """
    ids = Ids()
    for identity in _ids(path, limit):
        ids.add(identity)
    return ids


def _ids(path: Path, limit: int) -> Iterable[str]:
    for file_of in scan(path, limit):
        if file_of.refusal:
            continue
        file = Path(file_of.path)
        if file_of.many not in ("lines", "rows"):
            yield file_of.place
            continue
        with unpacked(file, "corpus") as (stream, _):
            if file_of.many == "rows":
                try:
                    rows = (
                        record_of(row, file_of.place)
                        for row in read_rows(stream, file_of.name, limit)
                        if isinstance(row, Row)
                    )
                    yield from (record["id"] for record in rows)
                except ValueError:
                    # The reader of corpora says what is wrong with it.
                    continue
                continue
            for _, line, _ in split_lines(stream, limit):
                record = parse_line(line)
                if isinstance(record, dict) and isinstance(record.get("id"), str):
                    yield record["id"]


def _check(documents: Path | None, corpus: str | None, encoding: str, **others: Any) -> None:
    if (documents is None) == (corpus is None):
        raise ConfigError("mog import trec: expected either --documents or --corpus, got both or neither")
    try:
        check_encoding(encoding)
    except ValueError as error:
        raise ConfigError(f"--encoding: {error}") from error


_PATH = click.Path(path_type=Path)
IMPORTERS.register(
    "trec",
    Importer(
        "Import a TREC collection: topics, judgements and documents.",
        [
            click.Option(["--topics"], required=True, type=_PATH, help="SGML, XML, or lines of id, tab, text."),
            click.Option(["--qrels"], required=True, type=_PATH, help="Lines of topic, iteration, document, grade."),
            click.Option(["--documents"], type=_PATH, help="File or folder: SGML, .jsonl, or .tsv of id and text."),
            click.Option(["--corpus"], help="A corpus of the project that has the documents, instead of --documents."),
            click.Option(
                ["--part"],
                type=click.Choice(["title", "description"]),
                default="title",
                help="Of a topic: the question.",
            ),
            click.Option(["--encoding"], default="utf-8", show_default=True, help="Of topics and SGML documents."),
        ],
        named=lambda topics, documents, **others: topics.with_suffix("") if documents is None else documents,
        open=lambda notes, topics, qrels, documents, corpus, part, encoding: Trec(
            topics, qrels, documents, part, encoding, notes
        ),
        check=_check,
    ),
)
