"""Read question sets: questions, their splits, and the gold evidence in their corpora."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.corpus.documents import parse_line, printable, read_lines, shifted
from resources.errors import MogError

_TEXTS = ("id", "question", "kind", "split", "answer", "long_answer")
# Names of splits appear in table columns and messages.
_LONGEST_SPLIT = 64


@dataclass(frozen=True)
class Evidence:
    """A gold span: characters start … end − 1 of a document's text."""

    corpus: str
    doc: str
    start: int
    end: int


@dataclass(frozen=True)
class Question:
    """A question with its answer and evidence.

    Attributes:
        answer: The letter of an option, or a text.
        long_answer: The answer in a sentence or more.
        aliases: Other texts that are equally correct.
        origin: `given`, `generated` by a language model from a document, or made of its `keywords` without one.
    """

    id: str
    question: str
    kind: str
    split: str
    answer: str = ""
    long_answer: str = ""
    aliases: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    origin: str = "given"

    @property
    def document(self) -> str:
        """The document that the question is about, `corpus/id`: that of its first evidence.

        Questions about one document are not independent: training and validation never share one, and intervals and
        tests resample documents. A question without evidence is its own document, `/id`: no corpus has an empty name.

        If there are several documents, the first counts. Joining all documents that a question connects would merge
        most of them: the sample project's 103 test questions make 9 groups, 77 questions in two of them, against 19
        documents. In simulations with these questions, whose values have a correlation of .3 for each document they
        share, 95 % intervals over the joined groups cover 98 % at 1.6 times the width, over first documents 93 to 94 %,
        over questions 70 to 75 %. In the public sets it makes little difference: 100 questions of MuSiQue with 2 to 4
        documents each make 98 groups; 1,684 of BioASQ make 1,449, against 1,583 first documents.
        """
        return f"{self.evidence[0].corpus}/{self.evidence[0].doc}" if self.evidence else f"/{self.id}"


@dataclass(frozen=True)
class KnownDocument:
    """The properties of a document that the evidence check needs."""

    characters: int
    shifts: Any


@dataclass
class QuestionReading:
    """The result of reading a question set.

    Attributes:
        problems: Questions that were skipped: file and line, id, reason.
        elsewhere: Number of questions left out because all their evidence is in corpora that are not named.
        splits: Number of questions of each split in the file, usable or not.
    """

    questions: list[Question] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)
    elsewhere: int = 0
    splits: Counter[str] = field(default_factory=Counter)


def read_questions(path: Path, documents: Mapping[str, Mapping[str, KnownDocument]]) -> QuestionReading:
    """Read a question set and check its evidence.

    Args:
        path: A `.jsonl[.gz]` file, one question per line.
        documents: The documents of every corpus that the set names, by corpus and id.

    Returns:
        Questions without evidence, or with all evidence inside known documents of the named corpora. Offsets refer to
        the normalised texts.

    Raises:
        MogError: the file is missing, or has no usable question.
    """
    reading = QuestionReading()
    seen: dict[str, str] = {}
    for number, line in read_lines(path):
        place = f"{path.name}:{number}"
        record = parse_line(line)
        identity = str(record.get("id", "")) if isinstance(record, dict) else ""
        wrong = record if isinstance(record, str) else _fault(record)
        if not wrong and identity in seen:
            wrong = f"duplicate id: {identity!r} occurs at {seen[identity]} and at {place}; the first is used"
        if wrong:
            reading.problems.append({"place": place, "id": printable(identity), "reason": printable(wrong)})
            continue
        assert isinstance(record, dict)
        seen[identity] = place
        reading.splits[record["split"]] += 1
        evidence, fault, elsewhere = _evidence(record.get("evidence") or [], documents)
        if fault:
            reading.problems.append({"place": place, "id": identity, "reason": fault})
        elif elsewhere:
            reading.elsewhere += 1
        else:
            reading.questions.append(
                Question(
                    id=identity,
                    question=record["question"],
                    kind=str(record.get("kind", "")),
                    split=record["split"],
                    answer=str(record.get("answer") or ""),
                    long_answer=str(record.get("long_answer") or ""),
                    aliases=tuple(str(alias) for alias in record.get("aliases") or ()),
                    options={str(k): str(v) for k, v in (record.get("options") or {}).items()},
                    evidence=evidence,
                )
            )
    if not reading.questions:
        first = "".join(f"; the first: {p['place']}: {p['reason']}" for p in reading.problems[:1])
        raise MogError(
            f"{path}: expected at least one usable question, found none ({len(reading.problems)} skipped, "
            f"{reading.elsewhere} with evidence in other corpora{first})"
        )
    return reading


def sharing_evidence(questions: Iterable[Question], others: Iterable[Question]) -> list[Question]:
    """The questions whose evidence overlaps the evidence of any of the others."""
    taken: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for other in others:
        for e in other.evidence:
            taken.setdefault((e.corpus, e.doc), []).append((e.start, e.end))
    return [
        question
        for question in questions
        if any(
            e.start < end and start < e.end
            for e in question.evidence
            for start, end in taken.get((e.corpus, e.doc), ())
        )
    ]


def validation_rows(groups: Sequence[str], share: float, what: str) -> np.ndarray:
    """Rows whose group's hash is in the lowest `share`: a group keeps its part when others are added.

    Args:
        groups: Group of each of n questions, such as its document.
        share: Of the groups, in (0, 1); if hashes leave a part empty, a tenth of the groups.
        what: What is trained, for the message.

    Returns:
        bool array of shape (n,).

    Raises:
        MogError: all questions are in one group.
    """
    place = {group: int(hashlib.sha256(group.encode()).hexdigest()[:16], 16) / 16**16 for group in set(groups)}
    chosen = {group for group, p in place.items() if p < share}
    if not 0 < len(chosen) < len(place):
        if len(place) < 2:
            raise MogError(
                f"{what}: expected training questions on at least 2 documents, so that some can be kept for "
                f"validation, got {len(place)}; add questions to the train splits of the question set"
            )
        chosen = set(sorted(place, key=lambda g: (place[g], g))[-max(1, len(place) // 10) :])
    return np.array([group in chosen for group in groups])


def _fault(record: dict[str, Any]) -> str:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "lone surrogate, which is not valid text"
    for key in ("id", "question", "split"):
        value = record.get(key)
        if not isinstance(value, str) or not value.strip():
            return f"{key}: expected a string that is not blank, got {str(value)[:60]!r}"
    if len(record["split"]) > _LONGEST_SPLIT or record["split"] != printable(record["split"].strip()):
        return f"split: expected a name of at most {_LONGEST_SPLIT} printable characters, got {record['split'][:80]!r}"
    if not isinstance(record.get("options") or {}, dict):
        return f"options: expected an object of letter to text, got {type(record['options']).__name__}"
    if not isinstance(record.get("aliases") or [], list):
        return f"aliases: expected a list of texts, got {type(record['aliases']).__name__}"
    if not isinstance(record.get("evidence") or [], list):
        return f"evidence: expected a list, got {type(record['evidence']).__name__}"
    return ""


def _evidence(
    spans: list[Any], documents: Mapping[str, Mapping[str, KnownDocument]]
) -> tuple[tuple[Evidence, ...], str, bool]:
    """Normalised spans in the named corpora, what is wrong with one, and whether all are in other corpora."""
    evidence, elsewhere = [], 0
    for span in spans:
        if (
            not isinstance(span, dict)
            or not isinstance(span.get("corpus"), str)
            or not isinstance(span.get("doc"), str)
        ):
            return (), f"evidence: expected objects with corpus, doc, start and end, got {str(span)[:80]}", False
        if span["corpus"] not in documents:
            elsewhere += 1
            continue
        known = documents[span["corpus"]].get(span["doc"])
        name = f"{span['corpus']}/{span['doc']}"
        if known is None:
            return (), f"evidence: {name} is not among the usable documents", False
        start, end = span.get("start"), span.get("end")
        if type(start) is int and type(end) is int:
            start, end = shifted(start, known.shifts), shifted(end, known.shifts)
            if 0 <= start < end <= known.characters:
                evidence.append(Evidence(span["corpus"], span["doc"], start, end))
                continue
        return (), f"evidence outside the text: {name} has {known.characters} characters, got {start}..{end}", False
    return tuple(evidence), "", bool(elsewhere and not evidence)


def check_splits(key: str, named: Sequence[str], there: Mapping[str, int]) -> None:
    """Reject the name of a split that no question of a file has.

    Args:
        key: Name of the setting.
        named: Splits that it names.
        there: Number of questions by split.

    Raises:
        MogError: no question has one of the splits.
    """
    if unknown := [split for split in named if split not in there]:
        counts = ", ".join(f"{split}: {n}" for split, n in sorted(there.items()))
        raise MogError(
            f"{key}: expected splits that questions of the file have ({counts}), got {unknown[0]!r}: name one of "
            "these, or add questions of that split"
        )


def unused_splits(train: Sequence[str], test: Sequence[str], there: Mapping[str, int]) -> dict[str, int]:
    """Number of questions of every split in a file that is used neither for training nor for tests."""
    return {split: n for split, n in sorted(there.items()) if split not in (*train, *test)}


def write_questions(questions: list[Question], path: Path) -> None:
    """Write questions as Parquet; options and evidence are JSON."""
    rows = [
        {
            **{key: getattr(q, key) for key in _TEXTS},
            "aliases": json.dumps(q.aliases, ensure_ascii=False),
            "options": json.dumps(q.options, ensure_ascii=False),
            "evidence": json.dumps([asdict(e) for e in q.evidence], ensure_ascii=False),
            "origin": q.origin,
        }
        for q in questions
    ]
    pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")


def load_questions(path: Path, splits: list[str] | None = None) -> list[Question]:
    """Questions as `write_questions` wrote them, those of `splits` where given."""
    return [
        Question(
            **{key: row[key] for key in _TEXTS},
            aliases=tuple(json.loads(row["aliases"])),
            options=json.loads(row["options"]),
            evidence=tuple(Evidence(**e) for e in json.loads(row["evidence"])),
            origin=row.get("origin", "given"),
        )
        for row in pq.read_table(path).to_pylist()
        if splits is None or row["split"] in splits
    ]


def split_counts(questions: list[Question]) -> dict[str, int]:
    """Number of questions by split."""
    return dict(Counter(q.split for q in questions))
