"""The asset `candidates`: questions with the pieces they may need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.build.measuring import DOCUMENTS, read_documents
from mog_assets.build.recipe import Work
from mog_assets.config import QuestionSetSettings, Settings
from mog_assets.questions.sets import MEASURED, TRAINING, Question, asked_of, load_questions
from mog_assets.resources.errors import TooFewQuestions
from mog_assets.resources.store import Artefact, digest
from mog_assets.search.candidates import Inputs
from mog_assets.search.index import expert_names, finest
from mog_assets.search.methods import needs, parse
from mog_assets.search.parts import (
    QuestionPart,
    joined,
)
from mog_assets.search.rankings import fused
from mog_assets.search.relevance import Relevance
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.training import Examples, part_of, sample_questions
from mog_assets.search.weak_labels import measured, taught
from mog_assets.text.terms import ANALYSIS

# Training questions of a question set are stored in so many files, those about a document in one.
PARTS = 16
# Files: questions with their candidates.
PART = "part_"


def build_candidates(work: Work) -> None:
    """Find the candidates of training and test questions, with their scores by every expert and their evidence."""
    settings, stored, rows, training_rows = work.settings, work.input("questions"), [], list[list[str]]()
    read = needs([parse("fused", settings)], settings)
    # A name matters where a text has it, which is part of what is known of the text.
    basis = [work.input(key).manifest.version for key in read.common if key != "names"]
    basis += [work.input(key, corpus).manifest.version for key in read.per_corpus for corpus in settings.corpora]
    work.recomputed["questions"] = 0
    for name, question_set in settings.question_sets.items():
        questions = load_questions(stored.path(f"{name}.parquet"))
        usable = [q for q in questions if q.split in question_set.train and q.level in TRAINING]
        training, test = sample_questions(usable, settings.ranking.questions), test_questions(questions, question_set)
        if not training and not test:
            continue
        retrieval = Retrieval.open(work.tools, work.input, question_set.corpora)
        training_rows += [[name, q.id, q.question, q.answer] for q in training]
        _candidates_of(work, name, [*training, *test], retrieval, basis)
        levels = Counter(q.level for q in training)
        by_level: dict[str, Any] = {level: levels[level] for level in TRAINING}
        of = sum(q.split in question_set.train for q in questions)
        row = {"question set": name, "test": len(test), "training": len(training), "of": of, **by_level}
        rows.append(row)
    work.counts |= {
        "questions": sum(row["training"] for row in rows),
        "test questions": sum(row["test"] for row in rows),
    }
    pieces = [work.input("chunks/level_1", c).manifest.info["made of"]["settings"] for c in settings.corpora]
    # What rankings are trained on, and how many documents it is of: see `training_assets`.
    work.info["trained on"] = {
        "made by": digest(work.made_by(read.per_corpus), pieces, ANALYSIS),
        "questions": digest(training_rows),
        "documents": read_documents(work.tools, work.input),
    }
    work.counts["documents"] = sum(int(work.input(DOCUMENTS, c).manifest.counts["documents"]) for c in settings.corpora)
    work.show_table("questions", rows)


def test_questions(questions: Sequence[Question], question_set: QuestionSetSettings) -> list[Question]:
    """Return those that measure rankings."""
    return [q for q in questions if q.split in question_set.test and q.level in MEASURED]


def _candidates_of(
    work: Work, name: str, questions: Sequence[Question], retrieval: Retrieval, basis: Sequence[str]
) -> None:
    """Write the parts of a question set; `basis` are versions of what else they are made of."""
    corpora, training = retrieval.corpora, work.settings.question_sets[name].train
    made_of = [*basis, work.recipe.settings(work.tools), work.settings.buckets, ANALYSIS]
    with work.progress(len(questions), "questions") as advance:
        for number in range(PARTS):
            members = [q for q in questions if part_of(q.document, PARTS) == number]
            if not members:
                continue
            file = f"{PART}{name}-{number:02}.safetensors.zst"
            path, exists = work.file(file, [repr(q) for q in members], list(corpora.names), *made_of)
            if not exists:
                part = _part(retrieval.with_queries([q.question for q in members]), members, training)
                with work.writing(path) as temporary:
                    temporary.write_bytes(part.encoded())
                work.recomputed["questions"] += len(members)
            advance(len(members))


def _in_order(part: QuestionPart, questions: Sequence[Question]) -> QuestionPart:
    """Return these questions of a part, in their order."""
    at = {digest: row for row, digest in enumerate(part.digests)}
    return part.of(np.array([at[asked_of(q)] for q in questions], np.int64))


def _part(retrieval: Retrieval, questions: Sequence[Question], training: Sequence[str]) -> QuestionPart:
    """Return candidates and evidence of some questions; rankings learn from those of the splits `training`."""
    corpora, inputs = retrieval.corpora, retrieval.read
    guessed = taught(questions, inputs.candidates, fused(inputs.candidates, expert_names(corpora.settings)), corpora)
    gold, supposed = (
        Relevance.located(inputs.candidates, places, corpora.layout)
        for places in (measured(questions, corpora), guessed)
    )
    usable = [bool(places) and q.split in training for q, places in zip(questions, guessed, strict=True)]
    vectors = inputs.vectors.astype(np.float32)
    arrays = {"vectors": vectors, "words": inputs.words, "usable": np.array(usable, np.int64)}
    return QuestionPart.of_questions(questions, gold, supposed, **arrays)


def stored_candidates(stored: Artefact, name: str, questions: Sequence[Question], settings: Settings) -> Inputs:
    """Test questions of a question set with their candidates, from the asset `candidates`."""
    files, digests = [file for file in stored.names(PART) if _question_set(file) == name], set(map(asked_of, questions))
    parts = [QuestionPart.read(stored.path(file).read_bytes()) for file in files]
    test = [part.of(np.flatnonzero([digest in digests for digest in part.digests])) for part in parts]
    part = _in_order(joined(test), questions)
    return Inputs(part.candidates, part.vectors, part.words, finest(settings))


def _question_set(file: str) -> str:
    """Return the question set of a part."""
    return file.removeprefix(PART).rpartition("-")[0]


def training_examples(stored: Artefact, settings: Settings) -> tuple[Examples, list[str]]:
    """Return what rankings of a project are trained on, as `read_examples`.

    Raises:
        TooFewQuestions: one, or none.
    """
    examples, names = None, list[str]()
    if stored.names(PART):
        examples, names = read_examples(stored, expert_names(settings), finest(settings))
    if examples is not None and not examples.taught.covered.any():
        examples, names = None, []
    if examples is None or len(set(examples.documents)) < 2:
        raise TooFewQuestions(
            "question_sets: expected at least 2 training questions with a quote, a relevant document or an answer that "
            f"passages hold, so that a ranking can be measured on others than it was trained on, got {len(names)}: add "
            "questions to a split that is named under `train`, or set `train: []` and `test: [test]`"
        )
    return examples, names


def read_examples(stored: Artefact, experts: Sequence[str], finest: Sequence[int]) -> tuple[Examples, list[str]]:
    """Return the training questions of the asset `candidates`, and the names `question set/id` of the questions."""
    files = stored.names(PART)
    parts = [QuestionPart.read(stored.path(file).read_bytes()).training for file in files]
    merged, names = joined(parts), []
    for file, part in zip(files, parts, strict=True):
        names += [f"{_question_set(file)}/{question}" for question in part.ids]
    documents: Sequence[str] = merged.documents
    if len(set(documents)) == 1:
        # Questions about one document say nothing of others, but they can be compared with each other.
        documents = names
    is_synthetic = merged.made.astype(bool)
    examples = Examples(
        merged.gold,
        merged.taught,
        merged.vectors,
        merged.words,
        documents,
        merged.levels,
        is_synthetic,
        experts,
        finest,
    )
    return examples, names
