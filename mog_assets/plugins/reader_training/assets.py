"""The asset of the reader stage: `reader`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.answer.reader import calibration
from mog_assets.answer.reader.model import FILE, VERSION, TrainedReader, encoded, source
from mog_assets.answer.reader.windows import ReaderTokenizer
from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.config.budget import Budget
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.plugins.reader_training import fitting
from mog_assets.plugins.reader_training.examples import Lesson, TokenisedDocument
from mog_assets.plugins.reader_training.lessons import FOUND_BY, answers, lessons, teaches
from mog_assets.questions.marks import exact_match, f1
from mog_assets.questions.sets import Question, fraction, load_questions
from mog_assets.resources import tensors
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import digest
from mog_assets.search.experts import versions
from mog_assets.search.methods import needs, parse
from mog_assets.search.retrieval import Retrieval

GROUP = "answering"
# Share of the documents whose questions measure and calibrate, and how many documents it must give, up to half of all:
# a paired test by document has no p below 2 / 2^n, and a long document alone says little of others.
HELD_OUT, ENOUGH = 0.2, 12
# Increased when training changes: `reader` is then trained again. The file's own version is `VERSION`.
TRAINED = "3"
# Questions of a set that measure and calibrate, at most.
MEASURED = 500

_NOTHING = (
    "question_sets: expected training questions whose answer stands in their evidence (`answer` and `quote`), got "
    "none: add some, or set `answering.reader: neural`"
)

Context = list[tuple[str, str]]
"""Title and text of passages."""


@dataclass(frozen=True)
class _Set:
    """A question set: what its questions teach, and the documents whose questions measure."""

    questions: list[Question]
    retrieval: Retrieval
    documents: dict[int, TokenisedDocument]
    lessons: list[Lesson | None]
    measuring: set[str]

    @property
    def measures(self) -> np.ndarray:
        """Return which questions measure, a bool each."""
        return np.array([question.document in self.measuring for question in self.questions], bool)


def held_out(documents: Iterable[str]) -> set[str]:
    """Return the documents that are not trained on: those of the lowest hashes, so that few move when others are added.

    Raises:
        MogError: there is one document only.
    """
    ordered = sorted(set(documents), key=lambda document: (fraction(document), document))
    if len(ordered) < 2:
        raise MogError(
            f"question_sets: expected training questions for the reader on at least 2 documents, so that one can "
            f"measure, got {len(ordered)}: add questions to the train splits, or set `answering.reader: neural`"
        )
    return set(ordered[: max(math.ceil(HELD_OUT * len(ordered)), min(ENOUGH, len(ordered) // 2))])


def build_reader(work: Work) -> None:
    """Train adapters and head, then measure and calibrate them on documents that were not trained on."""
    # It imports torch, which takes longer than planning a run.
    from mog_assets.plugins.reader_training import adapters, training

    words, by_set = ReaderTokenizer(source()), dict[str, list[Question]]()
    for name, question_set in work.settings.question_sets.items():
        if question_set.train:
            stored = work.input("questions").path(f"{name}.parquet")
            by_set[name] = [q for q in load_questions(stored, question_set.train) if teaches(q)]
    if not any(by_set.values()):
        raise MogError(_NOTHING)
    # The same for all sets: what one measures on is not trained on through another.
    measuring, sets = held_out(q.document for questions in by_set.values() for q in questions), list[_Set]()
    for name, questions in by_set.items():
        if questions:
            corpora = work.settings.question_sets[name].corpora
            retrieval = Retrieval.open(work.tools, work.input, corpora, [q.question for q in questions])
            sets.append(_Set(questions, retrieval, *lessons(questions, retrieval, words), measuring))
    documents, learnt = _together(sets)
    if not learnt:
        raise MogError(_NOTHING)
    state, losses = _trained(work, words, documents, learnt)
    arrays = adapters.arrays(training.values(state))
    untold = TrainedReader(encoded(arrays, {"calibration": calibration.BY_SCORE.to_json()}), "now")
    facts = {**_measured(work, untold, sets), "trained on": len(learnt)}
    data = encoded(arrays, facts)
    path, exists = work.file(FILE, digest(data.hex()))
    if not exists:
        with work.writing(path) as temporary:
            temporary.write_bytes(data)
    work.info |= {**facts, "device": training.device()}
    work.counts |= {"questions": len(learnt), "epochs": training.EPOCHS, "bytes": len(data)}
    work.recomputed["models trained"] = 1
    work.show_table("loss", [{"epoch": n + 1, "nats": round(loss, 4)} for n, loss in enumerate(losses)])


def _together(sets: Sequence[_Set]) -> tuple[dict[int, TokenisedDocument], list[Lesson]]:
    """Return documents and lessons of all sets: positions of documents belong to the corpora of a set."""
    documents, learnt, first = dict[int, TokenisedDocument](), list[Lesson](), 0
    for one in sets:
        # Nothing of a document that measures is read in training, with or without an answer.
        position = one.retrieval.corpora.position
        unseen = {number for (corpus, name), number in position.items() if f"{corpus}/{name}" in one.measuring}
        documents |= {first + number: document for number, document in one.documents.items()}
        for lesson, out in zip(one.lessons, one.measures.tolist(), strict=True):
            if lesson is not None and not out:
                places = [(first + d, start, end) for d, start, end in lesson.answers if d not in unseen]
                misleading = [(first + d, start) for d, start in lesson.misleading if d not in unseen]
                if places:
                    learnt.append(Lesson(lesson.question, places, misleading))
        first = max(documents, default=-1) + 1
    return documents, learnt


def _trained(
    work: Work, words: ReaderTokenizer, documents: dict[int, TokenisedDocument], learnt: list[Lesson]
) -> tuple[dict[str, np.ndarray], list[float]]:
    """Return the state after the last epoch, and the loss of each.

    Each epoch is stored until the artefact is, so an interrupted run goes on after the last whole one.
    """
    from mog_assets.answer.reader import network
    from mog_assets.plugins.reader_training import training

    bert, seed, losses = network.load(source(), training.device()), work.settings.seed, list[float]()
    state, key = training.start(bert, seed), _key(documents, learnt)
    with work.progress(training.EPOCHS * len(learnt), f"questions read, {training.EPOCHS} times each") as advance:
        for number in range(training.EPOCHS):
            name = f"epoch_{number}.safetensors"
            path, exists = work.file(name, number, TRAINED, seed, key)
            # It is no part of the artefact.
            del work.draft.files[name]
            if exists:
                state, facts = tensors.decode(path.read_bytes())
                loss = facts["loss"]
                advance(len(learnt))
            else:
                state, loss = training.epoch(bert, words, documents, learnt, state, number, seed, advance=advance)
                with work.writing(path) as temporary:
                    temporary.write_bytes(tensors.encode(state, {"loss": loss}))
            losses.append(loss)
    return state, losses


def _key(documents: dict[int, TokenisedDocument], learnt: list[Lesson]) -> str:
    """Return a digest of all that is read in training."""
    hashed = hashlib.sha256()
    for number, document in documents.items():
        for array in (np.array(number), document.title.ids, document.text.ids, document.text.spans, document.bounds):
            hashed.update(array.tobytes())
    read = [[lesson.question.ids.tolist(), lesson.answers, lesson.misleading] for lesson in learnt]
    return digest(hashed.hexdigest(), read)


def _measured(work: Work, reader: TrainedReader, sets: Sequence[_Set]) -> dict[str, Any]:
    """Return exact match, F1 and calibration on documents that were not trained on.

    A question is read with the passages that are found for it, and again with passages that lack its answer: a
    probability must be as good where there is nothing to find.
    """
    documents, marks, values, right, of = list[str](), list[tuple[float, float]](), [], list[bool](), list[str]()
    total = sum(min(int(one.measures.sum()), MEASURED) for one in sets)
    with work.progress(total, "questions answered from documents not trained on") as advance:
        for one in sets:
            chosen = _sample(one, work.settings.seed)
            chosen_questions = [one.questions[row] for row in chosen]
            for question, contexts in zip(chosen_questions, _contexts(work, one, chosen), strict=True):
                gold = answers(question)
                for passages, answerable in zip(contexts, (True, False), strict=True):
                    best = reader.best(question.question, passages)
                    answer = best[0].text if best else ""
                    if answerable:
                        documents.append(question.document)
                        marks.append((exact_match(answer, gold), f1(answer, gold)))
                    if best:
                        values.append(calibration.features(question.question, passages, best)[0])
                        right.append(answerable and marks[-1][1] >= calibration.RIGHT)
                        of.append(question.document)
                advance(1)
    table = np.array(values).reshape(-1, len(calibration.FEATURES))
    fitted, chance = fitting.by_halves(table, np.array(right, bool), of)
    facts: dict[str, Any] = {"calibration": fitted.to_json(), "measured on": len(marks)}
    if not marks:
        return facts
    low, high = bootstrap_interval(by_document(np.array(marks), documents))
    for number, name in enumerate(("exact match", "F1")):
        mean = float(np.mean(marks, axis=0)[number])
        facts[name] = [round(float(value), 4) for value in (mean, low[number], high[number])]
    ends = "{:.3f} [{:.3f}, {:.3f}]"
    work.show_table("documents not trained on", [{name: ends.format(*facts[name]) for name in ("exact match", "F1")}])
    if chance is None:
        return facts
    rows, error = fitting.curve(chance, np.array(right, bool))
    facts["calibration error"] = round(error, 4)
    work.show_table("calibration", rows)
    work.show_plot("calibration", fitting.plot(rows))
    return facts


def _sample(one: _Set, seed: int) -> list[int]:
    """Return the questions that measure: a sample, because questions on a document often stand together."""
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(one.measures))
    return sorted(rows[:MEASURED].tolist())


def _contexts(work: Work, one: _Set, rows: Sequence[int]) -> list[tuple[Context, Context]]:
    """Return for some questions of a set: the passages that are found, and passages that lack the answer."""
    corpora = one.retrieval.corpora
    retrieval = one.retrieval.with_queries([one.questions[row].question for row in rows])
    ranked = retrieval.passages(parse(FOUND_BY, work.settings), budget=Budget.of(work.settings.budget))
    lacking = [lesson.misleading if (lesson := one.lessons[row]) else [] for row in rows]
    texts = corpora.texts({*ranked.document.tolist(), *(document for misled in lacking for document, _ in misled)})
    contexts: list[tuple[Context, Context]] = [([], []) for _ in rows]
    columns = (ranked.question, ranked.document, ranked.start, ranked.end)
    for question, document, start, end in zip(*(column.tolist() for column in columns), strict=True):
        contexts[question][0].append((texts[document][0], texts[document][1][start:end]))
    for (_, passages), misled in zip(contexts, lacking, strict=True):
        for document, start in misled:
            title, text = texts[document]
            passages.append((title, text[start : start + work.settings.finest_chars]))
    return contexts


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipe of this stage; none without training questions."""
    if not settings.trains:
        return []
    return [
        Recipe(
            key="reader",
            build=build_reader,
            description="Adapters of the encoder that find answers in passages, or say that there is none.",
            group=GROUP,
            deps=("questions", *needs([parse(FOUND_BY, settings)], settings).keys),
            partitioned=False,
            settings=lambda tools: [
                tools.settings.seed,
                [tools.settings.budget, tools.settings.llm.tokenizer],
                tools.settings.k,
                tools.settings.finest_chars,
                versions(tools.settings),
                tools.settings.bm25.model_dump(),
                {name: [q.corpora, q.train] for name, q in tools.settings.question_sets.items()},
                tools.encoder.identity,
            ],
            version=f"{VERSION} {TRAINED}",
            is_result=settings.answering.reader == "trained",
            on_demand=settings.answering.reader != "trained",
            kinds=("pytorch",),
            pool="gpu",
        )
    ]
