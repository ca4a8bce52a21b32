"""The asset of the questions stage: `questions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.config import QuestionSetSettings, Settings
from mog_assets.questions.reading import Documents, KnownDocument, QuestionReading
from mog_assets.questions.sets import (
    LEVELS,
    MEASURED,
    REPORT,
    TEST,
    TRAIN,
    Question,
    sharing_evidence,
    split_counts,
    unused_splits,
    write_questions,
)
from mog_assets.questions.sources import ReadSet
from mog_assets.registry import QUESTION_SOURCES
from mog_assets.resources.errors import MogError

GROUP = "questions"
_SAME_EVIDENCE = "training question that asks for what a test question asks for: training data is never scored"
_ALREADY = "generated test question that asks for what a training question of people asks for"
_COPY = "generated question that is nearly the same as a test question"
_OTHER_KIND = "another kind of question than `kinds` names"
_TEXTS = ("question set", "id", "question", "split", "level", "found")
_REPORT = pa.schema(
    [(name, pa.string()) for name in _TEXTS]
    + [("places", pa.int64()), ("score", pa.float64()), ("not found", pa.string()), ("skipped", pa.string())]
)


def build_questions(work: Work) -> None:
    """Read the question sets, locate their evidence in the documents, and keep training apart from test."""
    sets = work.settings.question_sets
    readings = {name: _read_question_set(work, name) for name in sets}
    _drop_copies(readings, sets)
    left_out = _keep_apart(readings, sets)
    reports = []
    for name, reading in readings.items():
        questions = reading.questions
        work.write(f"{name}.parquet", [[repr(q) for q in questions]], partial(write_questions, questions))
        reports += [{"question set": name, **row} for row in _report(reading)]
        _count(work, name, reading, left_out[name])
    table = pa.Table.from_pylist(reports, _REPORT)
    work.write(REPORT, [reports], lambda path: pq.write_table(table, path, compression="zstd"))
    work.recomputed["questions read"] = sum(len(reading.questions) for reading in readings.values())
    # What is deleted elsewhere must not stay here.
    shown = [row for row in reports if not QUESTION_SOURCES[sets[row["question set"]].source].private]
    for title, key in (("skipped", "skipped"), ("evidence that was not found", "not found")):
        columns = ("question set", "id", "question", key)
        work.show_table(title, [{name: row[name] for name in columns} for row in shown if row[key]][:20])
    work.info["splits"] = {name: dict(reading.splits) for name, reading in readings.items()}
    work.info["summary"] = {name: _summary(sets[name], reading) for name, reading in readings.items()}
    rows = [
        {"question set": name, "split": split, "questions": n, "used for": _use(sets[name], split)}
        for name, reading in readings.items()
        for split, n in sorted(reading.splits.items())
    ]
    work.show_table("splits", rows)


def _report(reading: QuestionReading) -> list[dict[str, Any]]:
    """Return the rows of a question set, see `sets.report_rows`."""
    used, rows = {question.id: question for question in reading.questions}, []
    for row in reading.reports:
        question = used.get(row["id"])
        texts = {key: getattr(question, key, "") for key in ("question", "split")}
        skipped = "" if question else reading.left_out.get(row["id"], _OTHER_KIND)
        rows.append({**texts, **row, "skipped": skipped})
    nothing = {"question": "", "split": "", "level": "", "found": "", "places": 0, "score": None, "not found": ""}
    unread = ({"id": p["id"], **nothing, "skipped": f"{p['place']}: {p['reason']}"} for p in reading.problems)
    return [*rows, *unread]


def _keep_apart(readings: dict[str, QuestionReading], sets: dict[str, QuestionSetSettings]) -> dict[str, int]:
    """Leave out questions, so that nothing is measured on what it was trained on; returns how many of each set.

    Of people's own questions the test questions stay, and of those and generated ones people's own.
    """
    generated = [name for name in readings if _is_generated(sets[name])]
    given = [name for name in readings if name not in generated]

    def used(names: Sequence[str], use: str) -> list[Question]:
        every = ((name, q) for name in names for q in readings[name].questions)
        return [q for name, q in every if q.split in getattr(sets[name], use)]

    def leave_out(name: str, use: str, others: Sequence[Question], reason: str) -> int:
        reading, splits = readings[name], getattr(sets[name], use)
        overlapping = {q.id for q in sharing_evidence([q for q in reading.questions if q.split in splits], others)}
        reading.questions = [q for q in reading.questions if q.id not in overlapping]
        reading.left_out |= dict.fromkeys(overlapping, reason)
        return len(overlapping)

    tested = used(given, "test")
    count = {name: leave_out(name, "train", tested, _SAME_EVIDENCE) for name in given}
    trained_on = used(given, "train")
    for name in generated:
        leave_out(name, "test", trained_on, _ALREADY)
    tested += used(generated, "test")
    return count | {name: leave_out(name, "train", tested, _SAME_EVIDENCE) for name in generated}


def _is_generated(question_set: QuestionSetSettings) -> bool:
    return bool(QUESTION_SOURCES[question_set.source].origin == "generated")


def _count(work: Work, name: str, reading: QuestionReading, overlapping: int) -> None:
    """Show counts and tables of a question set."""
    work.counts |= {
        f"{name}: questions": len(reading.questions),
        f"{name}: skipped": len(reading.problems) + len(reading.left_out),
        f"{name}: with evidence of test questions": overlapping,
        f"{name}: evidence in other corpora": reading.elsewhere,
    }
    work.counts |= {f"{name}: {split}": n for split, n in split_counts(reading.questions).items()}
    levels = Counter(q.level for q in reading.questions)
    ways = Counter(row["found"] for row in reading.reports if row["found"])
    several = sum(row["places"] > 1 and row["found"] in ("exact", "normalised", "fuzzy") for row in reading.reports)
    rows = [{"known": level, "questions": levels[level]} for level in LEVELS if levels[level]]
    work.show_table(f"{name}: what is known of the answers", rows)
    if set(ways) - {"offsets"}:
        work.show_table(f"{name}: places", [{"found": way, "questions": n} for way, n in ways.most_common()])
        work.counts[f"{name}: quotes at several places"] = several
    kinds = Counter(q.kind for q in reading.questions).most_common(20)
    work.show_table(f"{name}: kinds", [{"kind": kind, "questions": n} for kind, n in kinds])
    if QUESTION_SOURCES[work.settings.question_sets[name].source].private:
        return
    sample = [{"question": q.question, "kind": q.kind, "split": q.split} for q in reading.questions[:5]]
    work.show_table(f"{name}: sample", sample)


def _summary(question_set: QuestionSetSettings, reading: QuestionReading) -> dict[str, Any]:
    """Return what `mog run` says about a question set.

    Returns:
        divided: number of questions that had no split; for each use (train, test): numbers of questions and documents;
        skipped, lost: numbers of questions that could not be read, and with evidence that was not found, and the first.
    """
    skipped = [f"{problem['place']}: {problem['reason']}" for problem in reading.problems]
    lost = [row["not found"] for row in reading.reports if row["not found"]]
    summary: dict[str, Any] = {"divided": reading.divided}
    for key, messages in (("skipped", skipped), ("lost", lost)):
        summary |= {key: len(messages), f"first {key}": messages[0] if messages else ""}
    for use in ("train", "test"):
        members = [q for q in reading.questions if q.split in getattr(question_set, use)]
        levels = Counter(q.level for q in members)
        documents = {q.document for q in members if q.level in MEASURED}
        summary[use] = {"questions": len(members), "documents": len(documents), "levels": dict(levels)}
    return summary


def _use(question_set: QuestionSetSettings, split: str) -> str:
    uses = [use for use in ("train", "test") if split in getattr(question_set, use)]
    return uses[0] if uses else "nothing"


def _read_question_set(work: Work, name: str) -> QuestionReading:
    """Return the questions of the configured kinds."""
    question_set = work.settings.question_sets[name]

    def known() -> Documents:
        return {corpus: _known_documents(work, corpus) for corpus in question_set.corpora}

    request = ReadSet(
        work, name, question_set, known, partial(_texts, work, question_set.corpora), _parts(question_set)
    )
    reading: QuestionReading = QUESTION_SOURCES[question_set.source].read(request)
    if question_set.kinds is not None and reading.questions:
        selected = [q for q in reading.questions if q.kind in question_set.kinds]
        if not selected:
            known_kinds = ", ".join(sorted({q.kind for q in reading.questions}))
            raise MogError(
                f"question_sets.{name}.kinds: expected kinds of its questions ({known_kinds}), "
                f"got {', '.join(question_set.kinds)}"
            )
        reading.questions = selected
    return reading


def _parts(question_set: QuestionSetSettings) -> list[str]:
    """Return the splits that questions without one are divided between."""
    return [s for s, named in ((TRAIN, question_set.train), (TEST, question_set.test)) if s in named] or [TRAIN, TEST]


def _drop_copies(readings: dict[str, QuestionReading], sets: dict[str, QuestionSetSettings]) -> None:
    """Take out generated questions that are nearly the same as a test question that was not generated."""
    given = [name for name in readings if not _is_generated(sets[name])]
    tested = [q.question for name in given for q in readings[name].questions if q.split in sets[name].test]
    for name, reading in readings.items():
        copies = QUESTION_SOURCES[sets[name].source].copies
        if name in given or not tested or copies is None:
            continue
        are_copies = copies([q.question for q in reading.questions], tested)
        dropped = [q.id for q, copy in zip(reading.questions, are_copies, strict=True) if copy]
        reading.left_out |= dict.fromkeys(dropped, _COPY)
        reading.questions = [q for q, copy in zip(reading.questions, are_copies, strict=True) if not copy]


def _known_documents(work: Work, corpus: str) -> dict[str, KnownDocument]:
    documents = work.input("documents", corpus)
    by_id = {}
    for name in documents.names("bucket"):
        table = pq.read_table(documents.path(name), columns=["id", "characters", "shifts"])
        columns = (table[column].to_pylist() for column in ("id", "characters", "shifts"))
        by_id.update({i: KnownDocument(characters, shifts) for i, characters, shifts in zip(*columns, strict=True)})
    return by_id


def _texts(work: Work, corpora: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return text of every document, by corpus and id."""
    texts = {}
    for corpus in corpora:
        documents = work.input("documents", corpus)
        for name in documents.names("bucket"):
            table = pq.read_table(documents.path(name), columns=["id", "text"])
            for identity, text in zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True):
                texts[corpus, identity] = text
    return texts


def _question_sources(settings: Settings, _: str | None) -> object:
    return {name: QUESTION_SOURCES[of.source].state(settings, of) for name, of in settings.question_sets.items()}


def _unused(work: Work) -> str | None:
    sentences = []
    for name, question_set in work.settings.question_sets.items():
        unused = unused_splits(question_set.train, question_set.test, work.info["splits"][name])
        counts = ", ".join(f"{n:,} of split {split}" for split, n in unused.items())
        if counts:
            sentences.append(
                f"question_sets.{name}: questions that are neither trained on nor scored: {counts}; name the split "
                f"under question_sets.{name}.train or .test to use them"
            )
    return "; ".join(sentences) or None


EVERY_SPLIT_IS_USED = Check(
    "every_split_is_used",
    "Every split of a question file is named under train or test.",
    _unused,
    blocking=False,
    repeated=True,
)


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    if not settings.question_sets:
        return []
    assets = [key for of in settings.question_sets.values() for key in QUESTION_SOURCES[of.source].assets]
    return [
        Recipe(
            key="questions",
            build=build_questions,
            description="Question sets, with the places in the documents that answer them.",
            is_result=True,
            group=GROUP,
            deps=tuple(dict.fromkeys(("documents", *assets))),
            partitioned=False,
            settings=lambda tools: {
                name: [q.source, q.path and q.path.name, q.columns, q.corpora, q.kinds, q.train, q.test]
                for name, q in tools.settings.question_sets.items()
            },
            source=_question_sources,
            measured=True,
            version="10",
            checks=(EVERY_SPLIT_IS_USED,),
            kinds=("parquet",),
        )
    ]
