"""The asset `candidates`: training questions with the pieces they may need; only touched rows are made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mog_assets.arrays import save_array
from mog_assets.config import Settings
from mog_assets.questions.sets import TRAINING, Question, asked_of, load_questions
from mog_assets.ranking.gold import Gold
from mog_assets.ranking.parts import Fresh, Part, arranged, joined, joined_sketch, sketch
from mog_assets.ranking.rankings import Rankings, documents_of, expert_names, finest, fused
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.ranking.training import Examples, drawn, part_of
from mog_assets.ranking.weak import measured, taught
from mog_assets.recipe import Work
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact, digest
from mog_assets.retrieval.assets import hashes_of
from mog_assets.retrieval.changes import Change, Documents, about
from mog_assets.retrieval.methods import needs, parse
from mog_assets.retrieval.tokens import TOKENIZER

# Training questions of a question set are stored in so many files, those about a document in one.
PARTS = 16
# Files: questions with their candidates, the documents they were made for, and a sample of hashes.
PART, STATE, SKETCH = "part_", "documents_", "sketch_"


def build_candidates(work: Work) -> None:
    """Find the candidates of the training questions, with their scores by every expert and their evidence.

    Those of a question are kept unless a document changed that one of them is of, that the question's evidence is in,
    or that has a text that is now among the best of an expert.
    """
    settings, stored, rows = work.settings, work.input("questions"), []
    basis = _basis(work)
    work.info["basis"] = basis
    previous = work.comparable
    if previous is not None and previous.manifest.info.get("basis") != basis:
        previous = None
    hashes = {corpus: hashes_of(work, corpus) for corpus in settings.corpora}
    work.recomputed["questions"] = 0
    for name, question_set in settings.question_sets.items():
        loaded = load_questions(stored.path(f"{name}.parquet"), question_set.train) if question_set.train else []
        usable = [q for q in loaded if q.level in TRAINING]
        questions = drawn(usable, settings.ranking.questions)
        if not questions:
            continue
        retrieval = Retrieval.open(work.tools, work.input, question_set.corpora, keep=True)
        now = documents_of(retrieval, hashes)
        _candidates_of(work, name, questions, retrieval, now, previous)
        levels = Counter(q.level for q in questions)
        known: dict[str, Any] = {level: levels[level] for level in TRAINING}
        rows.append({"question set": name, "questions": len(questions), "of": len(loaded), **known})
    work.counts |= {"questions": sum(row["questions"] for row in rows)}
    work.show_table("training questions", rows)


def _basis(work: Work) -> str:
    """What scores depend on beside the settings, the question and the text."""
    needed = needs([parse("fused", work.settings)], work.settings)
    # A name matters where a text has it, which is part of what is known of the text.
    shared = [work.input(key).manifest.version for key in needed.shared if key != "names"]
    return digest(shared, work.made_by(needed.per_corpus), work.settings.buckets, TOKENIZER)


def _candidates_of(
    work: Work,
    name: str,
    questions: Sequence[Question],
    retrieval: Retrieval,
    now: Documents,
    previous: Artefact | None,
) -> None:
    """Write the parts of a question set, and the state they were made for."""
    state, corpora = f"{STATE}{name}.safetensors", retrieval.corpora
    if previous is not None and not previous.names(state):
        previous = None
    change = None if previous is None else Change(Documents.read(previous.path(state)), now)
    fresh = None if change is None else Fresh(corpora, change.fresh)
    told = [work.info["basis"], work.recipe.settings(work.tools), digest(now.hashes.tobytes().hex())]
    path, there = work.file(state, told)
    if not there:
        with work.writing(path) as temporary:
            now.write(temporary)
    sketches = []
    with work.progress(len(questions), "questions") as advance:
        for number in range(PARTS):
            own = [q for q in questions if part_of(q.document, PARTS) == number]
            file = f"{PART}{name}-{number:02}.safetensors.zst"
            if not own:
                continue
            path, there = work.file(file, [repr(q) for q in own], list(corpora.names), *told)
            if there:
                part = Part.read(path.read_bytes())
            else:
                held = None
                if previous and change and fresh and previous.names(file):
                    held = _kept_rows(Part.read(previous.path(file).read_bytes()), own, retrieval, change, fresh)
                part, made = _renewed(own, held, retrieval)
                with work.writing(path) as temporary:
                    temporary.write_bytes(part.encoded())
                work.recomputed["questions"] += made
            sketches.append(sketch(part, now))
            advance(len(own))
    path, there = work.file(f"{SKETCH}{name}.npy", [repr(q) for q in questions], *told)
    if not there:
        with work.writing(path) as temporary:
            save_array(temporary, joined_sketch(sketches))


def _kept_rows(
    held: Part, questions: Sequence[Question], retrieval: Retrieval, change: Change, fresh: Fresh
) -> Part | None:
    """The questions of a part that are still asked and that no change touches, with today's numbers of pieces."""
    corpora, found = retrieval.corpora, held.found
    asked = {asked_of(q): q for q in questions}
    pieces = change.chunks(found.piece, 1)
    kept = np.array([own in asked for own in held.asked], bool)
    kept[found.question[pieces < 0]] = False
    edited = frozenset(change.fresh.tolist())
    for row in np.flatnonzero(kept).tolist():
        question = asked[held.asked[row]]
        named = [*((e.corpus, e.doc) for e in question.evidence), *((r.corpus, r.doc) for r in question.relevant)]
        kept[row] = not about(named, corpora, edited)
    rows = np.flatnonzero(kept)
    if len(rows):
        terms = retrieval.again([asked[held.asked[row]].question for row in rows.tolist()]).terms
        statistics = corpora.held().of("level_1")
        rows = rows[~fresh.touched(terms, statistics, held.vectors[rows], found.floors[rows])]
    return held.renumbered(pieces).of(rows) if len(rows) else None


def _renewed(questions: Sequence[Question], held: Part | None, retrieval: Retrieval) -> tuple[Part, int]:
    """A part of these questions in their order, and how many of them were asked now."""
    there = set(held.asked) if held else set()
    missing = [q for q in questions if asked_of(q) not in there]
    parts = [
        *([held] if held else []),
        *([_part(retrieval.again([q.question for q in missing]), missing)] if missing else []),
    ]
    whole = joined(parts)
    at = {own: row for row, own in enumerate(whole.asked)}
    return arranged(whole, np.array([at[asked_of(q)] for q in questions], np.int64)), len(missing)


def _part(retrieval: Retrieval, questions: Sequence[Question]) -> Part:
    """Candidates and evidence of some questions."""
    corpora, asked = retrieval.corpora, retrieval.once(Rankings).asked
    guessed = taught(questions, asked.found, fused(asked.found, expert_names(corpora.settings)), corpora)
    golds = [Gold.located(asked.found, own, corpora.layout) for own in (measured(questions, corpora), guessed)]
    usable = np.array([bool(own) for own in guessed], np.int64)
    vectors = asked.vectors.astype(np.float32)
    return Part.of_questions(questions, *golds, vectors=vectors, words=asked.words, usable=usable)


def training_examples(stored: Artefact, settings: Settings) -> tuple[Examples, list[str]]:
    """What rankings of a project are trained on, as `read_examples`.

    Raises:
        MogError: there are too few training questions.
    """
    if not stored.names(PART):
        raise MogError(
            "question_sets: expected training questions with a quote, a relevant document or an answer, got none: add "
            "them to questions of a split that is named under `train`, or set `train: []` and `test: [test]`"
        )
    examples, names = read_examples(stored, expert_names(settings), finest(settings))
    if len(set(examples.documents)) < 2:
        raise MogError(
            "question_sets: expected at least 2 training questions with a quote, a relevant document or an answer that "
            "passages hold, so that a ranking can be measured on others than it was trained on, got fewer: add some, "
            "or set `train: []` and `test: [test]`"
        )
    return examples, names


def read_examples(stored: Artefact, experts: Sequence[str], finest: Sequence[int]) -> tuple[Examples, list[str]]:
    """The training questions of the asset `candidates`, and the names `question set/id` of the questions."""
    files = stored.names(PART)
    parts = [Part.read(stored.path(file).read_bytes()) for file in files]
    parts = [part.of(np.flatnonzero(part.usable)) for part in parts]
    whole, names = joined(parts), []
    for file, part in zip(files, parts, strict=True):
        names += [f"{file.removeprefix(PART).rpartition('-')[0]}/{question}" for question in part.ids]
    documents: Sequence[str] = whole.documents
    if len(set(documents)) == 1:
        # Questions about one document say nothing of others, but they can be compared with each other.
        documents = names
    known = (whole.levels, whole.made.astype(bool))
    return Examples(whole.gold, whole.taught, whole.vectors, whole.words, documents, *known, experts, finest), names
