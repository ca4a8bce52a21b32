"""Read question sets: records become questions whose evidence is located in the documents and checked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mog_assets.documents.documents import shifted
from mog_assets.questions.formats import read_records
from mog_assets.questions.locate import Located, Quote, locate
from mog_assets.questions.naming import DocumentNames, NamedDocument
from mog_assets.questions.sets import Evidence, Question, Relevant
from mog_assets.questions.splits import TEST, TRAIN, divided
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

# Names of splits appear in table columns and messages.
_LONGEST_SPLIT = 64
_LARGEST_GRADE = 1_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")

Texts = Callable[[], Mapping[tuple[str, str], str]]
"""Reads the text of every document, by corpus and id; called only if a quote has to be found."""


@dataclass(frozen=True)
class KnownDocument:
    """The properties of a document that the evidence check needs."""

    characters: int
    shifts: Any


Documents = Mapping[str, Mapping[str, KnownDocument]]
"""By corpus and id."""


@dataclass
class QuestionReading:
    """The result of reading a question set.

    Attributes:
        problems: Questions that were skipped: file and line, id, reason.
        reports: A row per question: place (of its record), id, level (see `Question.level`), how its evidence was found
            (`offsets`, `exact`, `normalised`, `fuzzy`; the weakest way if there are several), places, score of the
            worst place (0 … 1; 0 without any), and what was not found.
        elsewhere: Number of questions left out because all their evidence is in corpora that are not named.
        splits: Number of questions of each split, usable or not, after those without one were divided.
        divided: Number of questions that had no split.
    """

    questions: list[Question] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    elsewhere: int = 0
    splits: Counter[str] = field(default_factory=Counter)
    divided: int = 0


@dataclass
class _Draft:
    """A question whose quotes are not located yet.

    Attributes:
        place: Where its record stands.
        spans: Evidence that is known, and positions of quotes among all quotes, in the order of the file.
        missing: What was not found.
        named: Documents of its quotes: relevant, if nothing better is known.
        away: Pieces of evidence in corpora that are not named.
    """

    question: Question
    place: str
    spans: list[Evidence | int] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    named: list[Relevant] = field(default_factory=list)
    away: int = 0


def read_questions(
    path: Path,
    documents: Documents,
    texts: Texts | None = None,
    columns: Mapping[str, str] | None = None,
    parts: Sequence[str] = (TRAIN, TEST),
) -> QuestionReading:
    """Read a question set and locate its evidence.

    Args:
        path: The file, see `formats.read_records`.
        documents: The documents of every corpus that the set names.
        texts: Their texts, for quotes.
        columns: Names of columns, see `formats.read_records`.
        parts: See `splits.divided`.

    Returns:
        See `located`.

    Raises:
        MogError: the file is missing, or is no table of questions.
    """
    return located(read_records(path, columns), documents, texts, parts)


def located(
    records: Iterable[tuple[str, dict[str, Any] | str]],
    documents: Documents,
    texts: Texts | None = None,
    parts: Sequence[str] = (TRAIN, TEST),
) -> QuestionReading:
    """Questions with evidence inside known documents of the named corpora; offsets refer to the normalised texts.

    A quote that is not found leaves the question with what else is known: other quotes, the document, the answer.
    Questions without a split are divided by document, see `splits.divided`.

    Args:
        records: Where each record stands, and the record, or what is wrong with it.
        documents: The documents of every corpus that the set names.
        texts: Their texts, for quotes.
        parts: See `splits.divided`.
    """
    reading, names = QuestionReading(), DocumentNames(documents)
    drafts: list[_Draft] = []
    quotes: list[Quote] = []
    seen: dict[str, str] = {}
    for place, record in records:
        identity = str(record.get("id", "")) if isinstance(record, dict) else ""
        wrong = record if isinstance(record, str) else _fault(record)
        if not wrong and identity in seen:
            wrong = f"duplicate id: {identity!r} occurs at {seen[identity]} and at {place}; the first is used"
        if wrong:
            reading.problems.append({"place": place, "id": printable(identity), "reason": printable(wrong)})
            continue
        assert isinstance(record, dict)
        seen[identity] = place
        draft = _Draft(_question(record), place)
        wrong = _evidence(draft, record, names, documents, quotes) or _judged(draft, record, names)
        if wrong:
            reading.splits[draft.question.split] += 1
            reading.problems.append({"place": place, "id": identity, "reason": printable(wrong)})
        elif draft.away and not draft.spans and not draft.question.relevant:
            reading.splits[draft.question.split] += 1
            reading.elsewhere += 1
        else:
            drafts.append(draft)
    places: Sequence[Located] = ()
    if quotes:
        if texts is None:
            raise MogError("quotes: expected the texts of the documents to find them in, got none")
        places = locate(quotes, texts())
    for draft in drafts:
        question, report = _settled(draft, places)
        reading.questions.append(question)
        reading.reports.append(report)
    reading.divided = sum(not question.split for question in reading.questions)
    reading.questions = divided(reading.questions, parts)
    reading.splits += Counter(question.split for question in reading.questions)
    # Questions that were skipped before they could be divided.
    del reading.splits[""]
    return reading


def _question(record: dict[str, Any]) -> Question:
    return Question(
        id=record["id"],
        question=record["question"],
        kind=str(record.get("kind") or ""),
        split=str(record.get("split") or ""),
        answer="" if record.get("answer") is None else str(record["answer"]),
        long_answer="" if record.get("long_answer") is None else str(record["long_answer"]),
        aliases=tuple(str(alias) for alias in record.get("aliases") or ()),
        options={str(k): str(v) for k, v in (record.get("options") or {}).items()},
    )


def _fault(record: dict[str, Any]) -> str:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "lone surrogate, which is not valid text"
    for key in ("id", "question"):
        value = record.get(key)
        if not isinstance(value, str) or not value.strip():
            return f"{key}: expected a string that is not blank, got {str(value)[:60]!r}"
    for key in ("answer", "long_answer"):
        if isinstance(record.get(key), list | dict):
            return f"{key}: expected a text (further ones under `aliases`), got {type(record[key]).__name__}"
    split = record.get("split") or None
    if split is not None and not (
        isinstance(split, str) and 0 < len(split) <= _LONGEST_SPLIT and split == printable(split.strip())
    ):
        return f"split: expected a name of at most {_LONGEST_SPLIT} printable characters, got {str(split)[:80]!r}"
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "options": ((dict,), "an object of letter to text"),
        "aliases": ((list,), "a list of texts"),
        "evidence": ((list,), "a list"),
        "docs": ((list, dict), "a list of documents, or an object of document to grade"),
        "quote": ((str, list), "a text or a list of texts"),
    }
    for key, (kind, expected) in kinds.items():
        if record.get(key) and not isinstance(record[key], kind):
            return f"{key}: expected {expected}, got {type(record[key]).__name__}"
    return ""


def _evidence(
    draft: _Draft, record: dict[str, Any], names: DocumentNames, documents: Documents, quotes: list[Quote]
) -> str:
    """Add the places and quotes of a record to its draft; returns what is wrong with one."""
    for span in _entries(record):
        if not isinstance(span, dict) or not ({"quote", "start", "end"} & set(span)):
            return f"evidence: expected objects with corpus, doc, start and end, or with a quote, got {str(span)[:80]}"
        corpus, doc = span.get("corpus"), span.get("doc")
        for key, value in (("corpus", corpus), ("doc", doc)):
            if value is not None and not isinstance(value, str):
                return f"evidence: {key}: expected a text, got {str(value)[:80]!r}"
        if corpus is not None and corpus not in documents:
            draft.away += 1
            continue
        named = names.find(doc, corpus) if doc is not None else NamedDocument(corpus, None)
        # Offsets say more than the quote beside them, which may stand elsewhere too.
        if "quote" in span and not {"start", "end"} & set(span):
            parts = [span.get(key, "") for key in ("quote", "prefix", "suffix")]
            if not all(isinstance(part, str) for part in parts) or not parts[0].strip():
                return f"evidence: quote: expected a text that is not blank, got {str(span['quote'])[:80]!r}"
            if named.problem:
                # Spreadsheets name documents as people do; the words say more.
                draft.missing.append(f"{named.problem}: its quote is looked for in all documents")
            if named.corpus is not None and named.doc is not None:
                draft.named.append(Relevant(named.corpus, named.doc))
            draft.spans.append(len(quotes))
            quotes.append(Quote(parts[0], named.corpus, named.doc, parts[1], parts[2]))
            continue
        if named.problem or named.corpus is None or named.doc is None:
            return f"evidence: {named.problem or f'expected the document of the offsets, got {str(span)[:80]}'}"
        document = documents[named.corpus][named.doc]
        start, end = span.get("start"), span.get("end")
        if type(start) is int and type(end) is int:
            start, end = shifted(start, document.shifts), shifted(end, document.shifts)
        if not (type(start) is int and type(end) is int and 0 <= start < end <= document.characters):
            name = f"{named.corpus}/{named.doc}"
            return f"evidence outside the text: {name} has {document.characters} characters, got {start}..{end}"
        draft.spans.append(Evidence(named.corpus, named.doc, start, end))
    return ""


def _entries(record: dict[str, Any]) -> list[Any]:
    """What a record says of places: its `evidence`, and the shorthands `quote`, and `start` and `end`."""
    entries = list(record.get("evidence") or [])
    where = {key: record[key] for key in ("corpus", "doc") if record.get(key) is not None}
    quoted = record.get("quote") or []
    entries += [{"quote": quote, **where} for quote in ([quoted] if isinstance(quoted, str) else quoted)]
    if "start" in record or "end" in record:
        entries.append({**where, "start": record.get("start"), "end": record.get("end")})
    return entries


def _judged(draft: _Draft, record: dict[str, Any], names: DocumentNames) -> str:
    """Add the judged documents of a record to its draft; returns what is wrong with one."""
    docs = record.get("docs") or {}
    grades = dict(docs) if isinstance(docs, dict) else {name if isinstance(name, str) else "": 1 for name in docs}
    corpus = record.get("corpus") if isinstance(record.get("corpus"), str) else None
    if isinstance(record.get("doc"), str):
        grades.setdefault(record["doc"], 1)
    if corpus is not None and corpus not in names.documents:
        # It is about documents of a corpus that is not searched, whatever others are called.
        draft.away += len(grades)
        return ""
    judged: dict[tuple[str, str], int] = {}
    for name, grade in grades.items():
        if not isinstance(name, str) or not name.strip():
            return f"docs: expected names of documents, got {str(docs)[:80]}"
        if isinstance(grade, float) and grade.is_integer():
            grade = int(grade)
        if type(grade) is not int or not -_LARGEST_GRADE <= grade <= _LARGEST_GRADE:
            return f"docs: expected a whole number as the grade of {name!r}, got {str(grade)[:80]!r}"
        named = names.find(name, corpus)
        if named.problem or named.corpus is None or named.doc is None:
            # Of a quote's document it is told already.
            if not any(missing.startswith(named.problem) for missing in draft.missing):
                draft.missing.append(named.problem)
        else:
            key = (named.corpus, named.doc)
            # TREC has grades below 0 for spam.
            judged[key] = max(judged.get(key, 0), grade, 0)
    relevant = tuple(Relevant(*key, grade) for key, grade in judged.items())
    draft.question = replace(draft.question, relevant=relevant)
    return ""


def _settled(draft: _Draft, places: Sequence[Located]) -> tuple[Question, dict[str, Any]]:
    """A question with its quotes located, and what there is to say about them."""
    evidence: list[Evidence] = []
    missing, ways, scores = list(draft.missing), [], []
    for span in draft.spans:
        if isinstance(span, Evidence):
            evidence.append(span)
            ways.append("offsets")
            continue
        located = places[span]
        if located.problem:
            missing.append(located.problem)
        for place in located.places:
            evidence.append(Evidence(place.corpus, place.doc, place.start, place.end))
            ways.append(place.how)
            scores.append(place.score)
    question = replace(draft.question, evidence=tuple(dict.fromkeys(evidence)))
    if not question.evidence and not question.relevant:
        question = replace(question, relevant=tuple(dict.fromkeys(draft.named)))
    row = {
        "place": draft.place,
        "id": question.id,
        "level": question.level,
        "found": max(ways, key=("offsets", "exact", "normalised", "fuzzy").index, default=""),
        "places": len(question.evidence),
        "score": min(scores, default=1.0 if evidence else 0.0),
        "not found": "; ".join(printable(text) for text in missing),
    }
    return question, row
