"""Read question sets: records become questions whose evidence is located in the documents and checked."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from mog_assets.documents.documents import shifted
from mog_assets.questions.locate import Located, Quote, locate
from mog_assets.questions.records import read_records, record_of
from mog_assets.questions.sets import TEST, TRAIN, Evidence, Question, Relevant, divided
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import printable

Texts = Callable[[], Mapping[tuple[str, str], str]]
"""Reads the text of every document, by corpus and id; called only if a quote has to be found."""


@dataclass(frozen=True)
class KnownDocument:
    """The properties of a document that the evidence check needs."""

    characters: int
    shifts: Any


Documents = Mapping[str, Mapping[str, KnownDocument]]
"""By corpus and id."""


class NamedDocument(NamedTuple):
    """A document, or only a corpus; or what is wrong with the name."""

    corpus: str | None
    doc: str | None
    problem: str = ""


class DocumentNames:
    """The documents of some corpora by what they may be called.

    A name is a document's id, `corpus/id`, or, if no id is equal, the name of its file with or without folders and
    extension, whatever its case.
    """

    def __init__(self, documents: Mapping[str, Mapping[str, Any]]) -> None:
        self.documents = documents

    def find(self, name: str, corpus: str | None = None) -> NamedDocument:
        """Return the document that a name stands for, in `corpus` if that is given."""
        name = unicodedata.normalize("NFC", name)
        corpora = [corpus] if corpus is not None else list(self.documents)
        matches = [(owner, name) for owner in corpora if name in self.documents[owner]]
        owner, slash, rest = name.partition("/")
        if not matches and slash and owner in corpora and rest in self.documents[owner]:
            matches = [(owner, rest)]
        if not matches:
            matches = [place for place in self._files.get(name.casefold(), ()) if place[0] in corpora]
            # An id that is not in NFC, as some systems name files, is the same name.
            matches = [place for place in matches if unicodedata.normalize("NFC", place[1]) == name] or matches
        if len(matches) == 1:
            return NamedDocument(*matches[0])
        if not matches:
            wanted_name = f"{corpus}/{name}" if corpus is not None else f"{name!r} (in {', '.join(corpora)})"
            return NamedDocument(corpus, None, f"{wanted_name} is not among the usable documents")
        candidates = ", ".join(f"{owner}/{doc}" for owner, doc in matches[:3])
        return NamedDocument(corpus, None, f"{name!r} may be any of {candidates}: write corpus/id")

    @cached_property
    def _files(self) -> dict[str, list[tuple[str, str]]]:
        """Documents by names of their files, in lower case."""
        places: dict[str, list[tuple[str, str]]] = {}
        for corpus, documents in self.documents.items():
            for doc in documents:
                name_of_file = unicodedata.normalize("NFC", doc).casefold()
                last = name_of_file.rpartition("/")[2]
                names = {name_of_file, last, *(name.rpartition(".")[0] for name in (name_of_file, last) if "." in name)}
                for name in names - {""}:
                    places.setdefault(name, []).append((corpus, doc))
        return places


@dataclass
class QuestionReading:
    """The result of reading a question set.

    Attributes:
        problems: Questions that could not be read: file and line, id, reason.
        left_out: Why questions that could be read are not used, by id.
        reports: A row per question that could be read: id, level (see `Question.level`), how its evidence was found
            (`offsets`, `exact`, `normalised`, `fuzzy`; the weakest way if there are several), places, score of the
            worst place (0 … 1; None without any), and what was not found, with the place of its record.
        elsewhere: Number of questions left out because all their evidence is in corpora that are not named.
        splits: Number of questions of each split, usable or not, after those without one were divided.
        divided: Number of questions that had no split.
    """

    questions: list[Question] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
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
    """Return questions with evidence in known documents of the named corpora; offsets refer to the normalised texts.

    A quote that is not found leaves the question with what else is known: other quotes, the document, the answer.
    Questions without a split are divided by document, see `sets.divided`.
    """
    reading, names = QuestionReading(), DocumentNames(documents)
    drafts: list[_Draft] = []
    quotes: list[Quote] = []
    seen: dict[str, str] = {}
    for place, given in records:
        identity, split = "", ""
        try:
            if isinstance(given, str):
                raise ValueError(given)
            identity = str(given.get("id", ""))
            record = record_of(given)
            if "question" not in record:
                raise ValueError("question: expected a text, the cell is empty")
            if (identity := record["id"]) in seen:
                raise ValueError(
                    f"duplicate id: {identity!r} occurs at {seen[identity]} and at {place}; the first is used"
                )
            seen[identity], split = place, record.get("split", "")
            draft = _Draft(_question(record), place)
            reading.splits[split] += 1
            _evidence(draft, record, names, documents, quotes)
            _judged(draft, record, names)
        except ValueError as error:
            reading.problems.append({"place": place, "id": printable(identity), "reason": printable(error)})
            continue
        if draft.away and not draft.spans and not draft.question.relevant:
            reading.elsewhere += 1
        else:
            reading.splits[split] -= 1
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
    reading.splits = Counter({split: n for split, n in reading.splits.items() if split and n})
    return reading


def _question(record: Mapping[str, Any]) -> Question:
    texts = {key: record.get(key, "") for key in ("id", "question", "kind", "split", "answer", "long_answer")}
    return Question(**texts, aliases=tuple(record.get("aliases", ())), options=record.get("options", {}))


def _evidence(
    draft: _Draft, record: Mapping[str, Any], names: DocumentNames, documents: Documents, quotes: list[Quote]
) -> None:
    """Add the places and quotes of a record to its draft.

    Raises:
        ValueError: what is wrong with one.
    """
    for piece in record.get("evidence", ()):
        corpus, doc = piece.get("corpus"), piece.get("doc")
        if corpus is not None and corpus not in documents:
            draft.away += 1
            continue
        named = names.find(doc, corpus) if doc is not None else NamedDocument(corpus, None)
        if "quote" in piece:
            if named.problem:
                # Spreadsheets name documents as people do; the words say more.
                draft.missing.append(f"{named.problem}: its quote is looked for in all documents")
            elif named.corpus is not None and named.doc is not None:
                draft.named.append(Relevant(named.corpus, named.doc))
            draft.spans.append(len(quotes))
            around = (piece.get(key, "") for key in ("prefix", "suffix"))
            quotes.append(Quote(piece["quote"], named.corpus, named.doc, *around))
            continue
        if named.problem or named.corpus is None or named.doc is None:
            raise ValueError(f"evidence: {named.problem}")
        document = documents[named.corpus][named.doc]
        start, end = (shifted(piece[key], document.shifts) for key in ("start", "end"))
        if not 0 <= start < end <= document.characters:
            name = f"{named.corpus}/{named.doc}"
            raise ValueError(
                f"evidence outside the text: {name} has {document.characters} characters, got {start}..{end}"
            )
        draft.spans.append(Evidence(named.corpus, named.doc, start, end))


def _judged(draft: _Draft, record: Mapping[str, Any], names: DocumentNames) -> None:
    """Add the judged documents of a record to its draft."""
    judged: dict[tuple[str, str], int] = {}
    if record.get("corpus", next(iter(names.documents))) not in names.documents:
        # It is about documents of a corpus that is not searched, whatever others are called.
        draft.away += len(record.get("docs", {}))
        return
    for name, grade in record.get("docs", {}).items():
        named = names.find(name)
        if named.corpus is not None and named.doc is not None:
            key = (named.corpus, named.doc)
            # TREC has grades below 0 for spam.
            judged[key] = max(judged.get(key, 0), grade, 0)
        # Of a quote's document it is told already.
        elif not any(missing.startswith(named.problem) for missing in draft.missing):
            draft.missing.append(named.problem)
    relevant = tuple(Relevant(*key, grade) for key, grade in judged.items())
    draft.question = replace(draft.question, relevant=relevant)


def _settled(draft: _Draft, places: Sequence[Located]) -> tuple[Question, dict[str, Any]]:
    """Return a question with its quotes located, and what there is to say about them."""
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
    lost = "; ".join(printable(text) for text in missing)
    row = {
        "id": question.id,
        "level": question.level,
        "found": max(ways, key=("offsets", "exact", "normalised", "fuzzy").index, default=""),
        "places": len(question.evidence),
        "score": min(scores, default=1.0 if evidence else None),
        # A row of a table may have no id of its own, so it is named by its place.
        "not found": f"{draft.place}: {lost}" if lost else "",
    }
    return question, row
