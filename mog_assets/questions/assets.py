"""The asset of the questions stage: `questions`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from mog_assets.config import QuestionSetSettings, Settings
from mog_assets.questions import checks
from mog_assets.questions.sets import (
    KnownDocument,
    QuestionReading,
    check_splits,
    read_questions,
    sharing_evidence,
    split_counts,
    write_questions,
)
from mog_assets.recipe import Recipe, Work
from resources.errors import MogError

GROUP = "questions"


def build_questions(work: Work) -> None:
    """Read the question sets, check their evidence against the documents, and keep training apart from test."""
    sets = work.settings.question_sets
    readings = {name: _read_question_set(work, name) for name in sets}
    tested = [q for name, reading in readings.items() for q in reading.questions if q.split in sets[name].test]
    problems = []
    for name, reading in readings.items():
        trained_on = [q for q in reading.questions if q.split in sets[name].train]
        shared = {q.id for q in sharing_evidence(trained_on, tested)}
        reading.questions = [q for q in reading.questions if q.id not in shared]
        reason = "training question that shares evidence with a test question: training data is never scored"
        reading.problems += [
            {"place": sets[name].path.name, "id": identity, "reason": reason} for identity in sorted(shared)
        ]
        path, there = work.file(f"{name}.parquet", [repr(q) for q in reading.questions])
        if not there:
            with work.writing(path) as temporary:
                write_questions(reading.questions, temporary)
        problems += [{"question set": name, **problem} for problem in reading.problems]
        work.counts |= {
            f"{name}: questions": len(reading.questions),
            f"{name}: skipped": len(reading.problems),
            f"{name}: with evidence of test questions": len(shared),
            f"{name}: evidence in other corpora": reading.elsewhere,
        }
        work.counts |= {f"{name}: {split}": n for split, n in split_counts(reading.questions).items()}
        kinds = Counter(q.kind for q in reading.questions).most_common(20)
        work.show_table(f"{name}: kinds", [{"kind": kind, "questions": n} for kind, n in kinds])
        sample = [{"question": q.question, "kind": q.kind, "split": q.split} for q in reading.questions[:5]]
        work.show_table(f"{name}: sample", sample)
    work.recomputed["questions read"] = sum(n for name, n in work.counts.items() if name.endswith(": questions"))
    work.show_table("skipped", problems[:20])
    work.info["problems"] = problems[:1000]
    work.info["splits"] = {name: dict(reading.splits) for name, reading in readings.items()}
    rows = [
        {"question set": name, "split": split, "questions in the file": n, "used for": _use(sets[name], split)}
        for name, reading in readings.items()
        for split, n in sorted(reading.splits.items())
    ]
    work.show_table("splits", rows)


def _use(question_set: QuestionSetSettings, split: str) -> str:
    uses = [use for use in ("train", "test") if split in getattr(question_set, use)]
    return uses[0] if uses else "nothing"


def _read_question_set(work: Work, name: str) -> QuestionReading:
    """The questions of the configured kinds."""
    question_set = work.settings.question_sets[name]
    known = {corpus: _known_documents(work, corpus) for corpus in question_set.corpora}
    try:
        reading = read_questions(question_set.path, known)
    except MogError as error:
        raise MogError(f"question_sets.{name}.path: {error}") from error
    for use in ("train", "test"):
        check_splits(f"question_sets.{name}.{use}", getattr(question_set, use), reading.splits)
    if question_set.kinds is not None:
        kept = [q for q in reading.questions if q.kind in question_set.kinds]
        if not kept:
            known_kinds = ", ".join(sorted({q.kind for q in reading.questions}))
            raise MogError(
                f"question_sets.{name}.kinds: expected kinds of its questions ({known_kinds}), "
                f"got {', '.join(question_set.kinds)}"
            )
        reading.questions = kept
    return reading


def _known_documents(work: Work, corpus: str) -> dict[str, KnownDocument]:
    documents = work.input("documents", corpus)
    known = {}
    for name in documents.names("bucket"):
        table = pq.read_table(documents.path(name), columns=["id", "characters", "shifts"])
        columns = (table[column].to_pylist() for column in ("id", "characters", "shifts"))
        known.update({i: KnownDocument(characters, shifts) for i, characters, shifts in zip(*columns, strict=True)})
    return known


def _question_sources(settings: Settings, _: str | None) -> object:
    def state(path: Path) -> object:
        return [path.stat().st_size, path.stat().st_mtime_ns] if path.exists() else None

    return {name: state(q.path) for name, q in settings.question_sets.items()}


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage."""
    if not settings.question_sets:
        return []
    return [
        Recipe(
            key="questions",
            build=build_questions,
            description="Question sets with their gold evidence, checked against the documents.",
            group=GROUP,
            deps=("documents",),
            partitioned=False,
            settings=lambda tools: {
                name: [q.path.name, q.corpora, q.kinds, q.train, q.test]
                for name, q in tools.settings.question_sets.items()
            },
            source=_question_sources,
            outside="question_files",
            version="4",
            checks=(checks.EVERY_SPLIT_IS_USED,),
            kinds=("parquet",),
        )
    ]
