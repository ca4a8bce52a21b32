"""Read BEIR folders and TREC collections: documents, queries, and judgements of how relevant documents are.

References: Thakur et al. 2021, BEIR: A Heterogeneous Benchmark for Zero-shot Evaluation of Information Retrieval
Models; Voorhees & Harman 2005, TREC: Experiment and Evaluation in Information Retrieval; the formats of
https://trec.nist.gov/data.html.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
from lxml import etree

from mog_assets.documents.decoding import REPLACED, parse_line
from mog_assets.documents.encodings import known_encoding
from mog_assets.documents.folders import LINES
from mog_assets.plugins.datasets.foreign import LONGEST, ForeignRecord, Importer, Notes, read_at_once
from mog_assets.questions.records import Advance, lines_of, unpacked
from mog_assets.registry import IMPORTERS
from mog_assets.resources.errors import ConfigError, MogError

# Names of our fields in foreign records; the first that a record has counts.
_NAMES = {
    "id": ("_id", "id", "docno", "docid", "doc_id", "qid", "query_id", "num", "number"),
    "title": ("title", "headline", "hl", "ti"),
    "text": ("text", "contents", "body", "abstract"),
    "query": ("text", "query", "title", "summary", "question"),
    "description": ("desc", "description", "question", "text"),
}
_GRADE = re.compile(r"[+-]?[0-9]{1,9}(\.0*)?")
_MOST_TOPICS = 50_000_000
_BLOCK = 4 << 20
_FIELD = re.compile(r"<([A-Za-z]+)>([^<]*)")
_LABEL = re.compile(r"\s*(number|topic|description)\s*:", re.IGNORECASE)
_START, _END = re.compile("<doc>", re.IGNORECASE), re.compile(b"</doc>", re.IGNORECASE)
# An element that is not closed ends with the document, so that none is searched twice.
_PART = re.compile(
    rf"<(docno|text|{'|'.join(_NAMES['title'])})\b[^<>]{{0,200}}>(.*?)(?:</\1\b[^<>]{{0,200}}>|\Z)", re.I | re.DOTALL
)
_TAG = re.compile(r"<[/!?]?[A-Za-z][^<>]{0,500}>")


@dataclass
class _Judged:
    """Give a data set of documents, queries and graded judgements.

    Attributes:
        files: The files of the documents.
        read: Reads one of them.
        queries: Records with id and query.
        judged: The split and the grades by document of each query; those that are used are removed.
    """

    files: Sequence[Path]
    read: Callable[[Path, Advance], Iterator[ForeignRecord]]
    queries: Iterable[ForeignRecord]
    judged: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.size = sum(path.stat().st_size for path in self.files)

    def documents(self, advance: Advance) -> Iterator[ForeignRecord]:
        """See `Dataset`; of several files, one that cannot be read does not stop the others."""
        for path in self.files:
            try:
                yield from self.read(path, advance)
            except MogError as error:
                if len(self.files) == 1:
                    raise
                yield path.name, str(error)

    def questions(self, ids: Collection[str], corpus: str, notes: Notes) -> Iterator[dict[str, Any]]:
        """See `Dataset`; only queries with a relevant document are questions."""
        for place, query in self.queries:
            if isinstance(query, str) or not (isinstance(query["id"], str) and isinstance(query["query"], str)):
                notes.add("queries skipped", f"{place}: {query if isinstance(query, str) else 'expected texts'}")
                continue
            identity = query["id"]
            where = f"{place}: {identity[:100]!r}"
            split, grades = self.judged.pop(identity, ("", {}))
            docs = {document: grade for document, grade in grades.items() if document in ids}
            if not split:
                notes.add("queries without judgements, left out", where)
                continue
            if not query["query"].strip():
                notes.add("queries skipped that are empty", where)
                continue
            for document in grades:
                if document not in docs:
                    notes.add("judgements skipped of unknown documents", f"{identity[:100]!r}: {document[:100]!r}")
            if any(docs.values()):
                yield {"id": identity, "question": query["query"], "split": split, "docs": docs}
            else:
                notes.add("queries without a relevant document, left out", where)
        for identity in self.judged:
            notes.add("judged questions without a query, or with one that repeats an id", repr(identity[:100]))

    def judge(self, path: Path, split: str, separator: str | None, columns: int, notes: Notes) -> None:
        """Add judgements, lines of query, … document and grade; a query that has some of another split keeps those."""
        for number, line, wrong in lines_of(path, "file of judgements", LONGEST):
            place = f"{path.name}:{number}"
            cells = [cell.strip() for cell in line.decode("utf-8-sig", "replace").split(separator)]
            if number == 1 and cells[-1] == "score":
                continue
            if wrong or len(cells) != columns or REPLACED in "".join(cells) or not _GRADE.fullmatch(cells[-1]):
                expected = f"expected {columns} columns of UTF-8, the last an integer, got {', '.join(cells)[:200]!r}"
                notes.add("judgements skipped", f"{place}: {wrong or expected}")
                continue
            query, *_, document, text = cells
            grade = int(float(text))
            if grade < 0:
                notes.add("judgements with a negative grade, imported as 0", f"{place}: {text}")
            of, grades = self.judged.setdefault(query, (split, {}))
            if of != split:
                notes.add(f"judgements of {split} skipped, whose question is in {of}", f"{place}: {query[:100]!r}")
            elif grades.setdefault(document, max(0, grade)) != max(0, grade):
                notes.add("judgements skipped that contradict an earlier one", f"{place}: {query[:100]!r}")


def _renamed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a foreign record under our names: numbers become texts, and what is missing is empty."""
    fields: dict[str, Any] = {"metadata": record.get("metadata")}
    for name, names in _NAMES.items():
        value = next((record[other] for other in names if record.get(other) not in ("", None)), "")
        fields[name] = str(value) if type(value) in (int, float) else value
    return fields


def _objects(path: Path, advance: Advance | None = None) -> Iterator[ForeignRecord]:
    """Yield the objects of a `.jsonl[.gz]` file under our names."""
    for number, line, wrong in lines_of(path, "JSON Lines file", LONGEST, advance):
        record = wrong or parse_line(line)
        yield f"{path.name}:{number}", _renamed(record) if isinstance(record, dict) else record


def _open_beir(notes: Notes, folder: Path) -> _Judged:
    """Open a folder of `corpus.jsonl[.gz]`, `queries.jsonl[.gz]` and `qrels/*.tsv[.gz]`."""
    corpus, queries = (_jsonl(folder, stem) for stem in ("corpus", "queries"))
    matches = (re.fullmatch(r"([A-Za-z0-9][\w.-]{0,63}?)\.tsv(\.gz)?", path.name) for path in folder.glob("qrels/*"))
    splits = {match[0]: match[1] for match in matches if match}
    if not splits:
        raise MogError(f"{folder}: expected judgements, qrels/test.tsv or others, found none")
    data = _Judged([corpus], _objects, _objects(queries))
    # A query that is judged in several splits belongs to the one that measures.
    order = ("test", "dev", "train")
    for name in sorted(splits, key=lambda n: (order.index(splits[n]) if splits[n] in order else len(order), n)):
        data.judge(folder / "qrels" / name, splits[name], "\t", 3, notes)
    return data


def _jsonl(folder: Path, stem: str) -> Path:
    for path in (folder / f"{stem}.jsonl", folder / f"{stem}.jsonl.gz"):
        if path.is_file():
            return path
    inside = sorted(path.parent.name for path in folder.glob(f"*/{stem}.jsonl*"))
    hint = f"; import one of the folders in it: {', '.join(inside[:12])}" if inside else ""
    raise MogError(
        f"{folder}: expected an unpacked BEIR folder with {stem}.jsonl or {stem}.jsonl.gz, found neither{hint}"
    )


def _open_trec(notes: Notes, topics: Path, qrels: Path, documents: Path, part: str, encoding: str) -> _Judged:
    """Open a collection; `part` of a topic is the question, and `encoding` is that of topics and documents."""
    queries = list(_topics(topics, encoding))
    data = _Judged(_files(documents), partial(_documents, encoding), queries)
    data.judge(qrels, "test", None, 4, notes)
    if not data.judged:
        raise MogError(f"{qrels}: expected judgements, `topic iteration document grade`, found none")
    for _, topic in queries:
        if isinstance(topic, dict):
            topic["query"] = topic["description"] if part == "description" else topic["query"]
            # `051` is the topic 51 of judgements that have no 051.
            identity, short = str(topic["id"]), str(topic["id"]).lstrip("0")
            topic["id"] = short if identity not in data.judged and short in data.judged else topic["id"]
    return data


def _decoded(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding).removeprefix("\ufeff")
    except UnicodeError as error:
        raise ValueError(
            f"expected {encoding.upper()}, got other bytes ({error}): name the encoding with --encoding"
        ) from error


def _topics(path: Path, encoding: str) -> Iterator[ForeignRecord]:
    """Yield the topics of SGML (`<top> <num> <title>`), XML (`<topic number="1">`), lines `id<TAB>text`, JSON Lines."""
    if path.name.lower().endswith(LINES):
        yield from _objects(path)
        return
    try:
        text = _decoded(read_at_once(path, "file of topics", _MOST_TOPICS), encoding)
        topics: list[Mapping[str, Any]]
        if len(parts := re.split("<top>", text, flags=re.IGNORECASE)) > 1:
            topics = [_sgml_topic(part) for part in parts[1:]]
        elif text.lstrip().startswith("<"):
            topics = _xml_topics(text)
        else:
            lines = (line.partition("\t") for line in text.split("\n") if line.strip())
            topics = [{"id": identity.strip(), "text": " ".join(query.split())} for identity, _, query in lines]
    except (etree.XMLSyntaxError, ValueError) as error:
        raise MogError(f"{path}: expected topics as SGML, XML, or lines of id, tab and text, got: {error}") from error
    for number, topic in enumerate(map(_renamed, topics), start=1):
        yield f"{path.name}: topic {number}", topic if topic["id"] else "expected a topic with a number and a text"


def _sgml_topic(text: str) -> dict[str, str]:
    # The first of several fields with one name counts.
    fields = reversed(_FIELD.findall(text))
    return {name.lower(): " ".join(html.unescape(_LABEL.sub("", value, count=1)).split()) for name, value in fields}


def _xml_topics(text: str) -> list[Mapping[str, Any]]:
    # Nothing outside the file is read, and entities are not expanded. The text is decoded already.
    parser = etree.XMLParser(encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    topics: list[Mapping[str, Any]] = []
    for topic in etree.fromstring(text.encode(), parser).iter("topic", "TOPIC"):
        parts = {str(child.tag): child for child in topic if isinstance(child.tag, str)} or {"text": topic}
        texts = {name: " ".join("".join(part.itertext()).split()) for name, part in parts.items()}
        topics.append({str(name).lower(): value for name, value in (*topic.attrib.items(), *texts.items())})
    return topics


def _files(path: Path) -> list[Path]:
    """Return a file, or the files of a folder without hidden ones, those of its own before those of folders in it."""
    if path.is_file():
        return [path]
    names = [file.relative_to(path) for file in path.rglob("*") if file.is_file()]
    names = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    if not names:
        raise MogError(f"{path}: expected a file of documents or a folder of such files, found none")
    return [path / name for name in sorted(names, key=lambda n: [*((1, part) for part in n.parts[:-1]), (0, n.name)])]


def _documents(encoding: str, path: Path, advance: Advance) -> Iterator[ForeignRecord]:
    name = path.name.lower()
    if name.endswith(LINES):
        return _objects(path, advance)
    return (_tab_lines if name.endswith((".tsv", ".tsv.gz")) else _sgml)(path, encoding, advance)


def _tab_lines(path: Path, encoding: str, advance: Advance) -> Iterator[ForeignRecord]:
    for number, line, wrong in lines_of(path, "file of documents", LONGEST, advance):
        try:
            identity, tab, text = _decoded(line, encoding).partition("\t")
        except ValueError as error:
            wrong = str(error)
        else:
            wrong = wrong or ("" if tab else "expected an id, a tab and a text")
        yield f"{path.name}:{number}", wrong or {"id": identity.strip(), "title": "", "text": text}


def _sgml(path: Path, encoding: str, advance: Advance) -> Iterator[ForeignRecord]:
    """Yield documents between `<DOC>` and `</DOC>`."""
    number, rest, at = 0, b"", 0
    with unpacked(path, "file of documents") as (stream, raw):
        while block := stream.read(_BLOCK):
            *complete, rest = _END.split(rest + block)
            for document in complete:
                number += 1
                yield f"{path.name}: document {number}", _sgml_document(document, encoding)
            # Enough of a document that is too long to know it by its length.
            rest = rest[-LONGEST - 1 :]
            advance(raw.tell() - at)
            at = raw.tell()
    if len(rest) > LONGEST or b"<doc>" in rest.lower():
        yield f"{path.name}: document {number + 1}", f"expected </DOC> within {LONGEST} bytes, the file ends before"
    elif not number:
        yield path.name, "expected documents, <DOC> … </DOC>, or a .jsonl or .tsv file, found none"


def _sgml_document(raw: bytes, encoding: str) -> dict[str, str] | str:
    """Return the document after the last `<DOC>`, or what is wrong with it."""
    if len(raw) > LONGEST:
        return f"expected at most {LONGEST} bytes per document, got more: not read"
    try:
        *before, text = _START.split(_decoded(raw, encoding))
    except ValueError as error:
        return str(error)
    pieces = _PART.split(text)
    parts = [(name.lower(), content) for name, content in zip(pieces[1::3], pieces[2::3], strict=True)]
    identity = next((" ".join(content.split()) for name, content in parts if name == "docno"), "")
    if not (before and identity):
        return f"expected {'a <DOCNO>' if before else '<DOC> before </DOC>'}, found none"
    titles = (_plain(content) for tag in _NAMES["title"] for name, content in parts if name == tag)
    title = " ".join(next(filter(None, titles), "").split())
    body = [content for name, content in parts if name == "text"] or pieces[::3]
    return {"id": identity, "title": title, "text": "\n\n".join(filter(None, map(_plain, body)))}


def _plain(text: str) -> str:
    return re.sub(r"\n[ \t]*(?:\n[ \t]*)+", "\n\n", html.unescape(_TAG.sub("", text))).strip()


def _named(documents: Path, encoding: str, **others: Any) -> Path:
    if not known_encoding(encoding):
        raise ConfigError(f"--encoding: expected an encoding such as utf-8, latin-1 or cp1252, got {encoding[:40]!r}")
    return documents


_PATH = click.Path(path_type=Path)
_PARTS = click.Choice(["title", "description"])
IMPORTERS.register(
    "beir",
    Importer(
        "Import a BEIR folder: corpus.jsonl, queries.jsonl (or .gz) and qrels/*.tsv.",
        [click.Argument(["folder"], type=_PATH)],
        named=lambda folder: folder,
        open=_open_beir,
    ),
)
IMPORTERS.register(
    "trec",
    Importer(
        "Import a TREC collection: topics, judgements and documents.",
        [
            click.Option(["--topics"], required=True, type=_PATH, help="SGML, XML, or lines of id, tab, text."),
            click.Option(["--qrels"], required=True, type=_PATH, help="Lines of topic, iteration, document, grade."),
            click.Option(
                ["--documents"], required=True, type=_PATH, help="File or folder: SGML, .jsonl, or .tsv of id and text."
            ),
            click.Option(["--part"], type=_PARTS, default="title", help="Of a topic: the question."),
            click.Option(["--encoding"], default="utf-8", show_default=True, help="Of topics and documents."),
        ],
        named=_named,
        open=_open_trec,
    ),
)
