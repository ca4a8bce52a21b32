"""Contexts with a question's key document at a chosen position (BriefContext, sections 2.2 to 2.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer import extractive, neural
from mog_assets.answer.answerers import Means
from mog_assets.answer.ask import given
from mog_assets.answer.prompted import prompts_fingerprint
from mog_assets.answer.reader.model import shipped
from mog_assets.answer.readers import ANSWER_READERS
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage
from mog_assets.answer.rows import AnswerRow, answer_table
from mog_assets.config import Settings
from mog_assets.evaluate.answers import mark
from mog_assets.index.corpora import Corpora
from mog_assets.papers.experiments.lab import Lab, about
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.questions.sets import Question
from mog_assets.resources.arrays import places
from mog_assets.resources.errors import MogError
from mog_assets.search.methods import Method, needs, parse
from mog_assets.search.passages import Passages, texts

# Number of questions that advance together.
_BATCH = 256

Way = Callable[[Sequence[AnswerRequest], Means], list[AnswerRow]]


class NoContext(MogError):
    """No question of a set has enough passages for a whole context."""


@dataclass(frozen=True)
class Case:
    """A question with the passages of its contexts.

    Attributes:
        key: The key document: the chunk with most of the evidence among the gold documents' chunks at the retrieved
            level. It is a chunk, not the whole document, so that only its content distinguishes it from the others,
            not its length or form.
        others: Retrieved passages from other than gold documents, best first.
        unlike: As many random passages from other than gold documents.
    """

    question: Question
    request: AnswerRequest
    key: RetrievedPassage
    others: Sequence[RetrievedPassage]
    unlike: Sequence[RetrievedPassage]


Find = Callable[[], list[Case]]


def passages_method(settings: Settings) -> Method:
    """Return the retrieval method for contexts: MedRAG's level, with the configured retriever."""
    return parse(f"fixed-{min(2, settings.levels)}", settings)


def read_by_contexts(settings: Settings) -> Sequence[str]:
    """Return the assets that contexts are made from."""
    read = ANSWER_READERS[settings.answering.reader].assets
    return ("questions", *read, *needs([passages_method(settings)], settings).keys)


def options(settings: Settings) -> list[Any]:
    """Return the settings that answers to contexts depend on, besides those of assets that experiments read."""
    # Assets of the reader are inputs.
    name, llm = settings.answering.reader, settings.llm
    reader = [name, extractive.VERSION, neural.VERSION, shipped().name, prompts_fingerprint()]
    model = [llm.model, llm.temperature, llm.max_tokens, llm.structured] if name == "openai" else []
    return [
        *reader,
        *model,
        passages_method(settings).name,
        settings.retriever,
        EXPERIMENT_SETTINGS.of(settings).questions,
    ]


def depends_on(lab: Lab, question_set: str, size: int) -> list[Any]:
    """Return what the answers to a question set's contexts depend on, besides assets and varied values.

    Args:
        lab: The lab.
        question_set: Name of the question set.
        size: Size of the largest context.
    """
    settings = lab.settings
    question_set_of = settings.question_sets[question_set]
    chosen = [*options(settings), settings.bm25.model_dump(), question_set_of.corpora, question_set_of.test, lab.seed]
    return [lab.reader().reader, *chosen, size]


def candidates(lab: Lab) -> dict[str, list[Question]]:
    """Test questions with an answer and evidence, up to the configured number, by question set."""
    by_set = {name: [q for q in questions if q.answer] for name, questions in lab.tested().items()}
    return {name: lab.sample(questions) for name, questions in by_set.items() if questions}


def cases(lab: Lab, question_set: str, size: int) -> list[Case]:
    """Return the questions for which a context of `size` passages can be made.

    Questions with fewer than `size` − 1 retrieved passages from other documents, or with options that readers do not
    support, are left out.

    Args:
        lab: The lab.
        question_set: Name of the question set.
        size: Size of the largest context.

    Raises:
        NoContext: there are none.
    """
    questions, requests = [], []
    for question in candidates(lab)[question_set]:
        try:
            requests.append(AnswerRequest.of(question))
        except MogError:
            continue
        questions.append(question)
    if not questions:
        raise NoContext(f"{question_set}: expected test questions with options that readers support, found none")
    retrieval = lab.retrieval(question_set, questions)
    corpora, level = retrieval.corpora, passages_method(lab.settings).level
    assert level is not None
    gold = [gold_chunks(corpora, question, level) for question in questions]
    of_gold = [{corpora.position[e.corpus, e.doc] for e in question.evidence} for question in questions]
    ranked = retrieval.rank(passages_method(lab.settings), size)
    usable = np.array([d not in of_gold[q] for q, d in zip(ranked.question, ranked.document, strict=True)], bool)
    ranked = ranked.at(usable)
    ranked = ranked.at(places(ranked.question) < size - 1)
    keys = _chunks(corpora, [[max(chunks, key=lambda c: (chunks[c], -c))] for chunks in gold], level)
    samples = [
        _random_chunks(corpora, level, documents, size - 1, generator(lab.seed, question.id))
        for question, documents in zip(questions, of_gold, strict=True)
    ]
    passages = zip(
        questions,
        requests,
        texts(corpora, keys, len(questions)),
        texts(corpora, ranked, len(questions)),
        texts(corpora, _chunks(corpora, samples, level), len(questions)),
        strict=True,
    )
    complete = [Case(q, a, key, others, unlike) for q, a, (key,), others, unlike in passages if len(others) == size - 1]
    if not complete:
        raise NoContext(
            f"{question_set}: expected test questions with an answer, evidence, and {size - 1} retrieved passages of "
            "other documents, found none: lower experiments.top_k and experiments.documents"
        )
    return complete


def generator(seed: int, question: str) -> np.random.Generator:
    """Return a random generator for a question, independent of other questions."""
    return np.random.default_rng([seed, int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "big")])


def gold_chunks(corpora: Corpora, question: Question, level: int) -> dict[int, int]:
    """Return the chunks of a level with evidence of a question, and the number of its characters in each."""
    layout, chunk_of = corpora.layout, dict[int, int]()
    for evidence in question.evidence:
        document = corpora.position[evidence.corpus, evidence.doc]
        chunks = np.arange(*layout.level_offsets(level)[document : document + 2])
        _, start, end = layout.chunk_spans(chunks, level)
        overlap = np.minimum(end, evidence.end) - np.maximum(start, evidence.start)
        for chunk, characters in zip(chunks[overlap > 0].tolist(), overlap[overlap > 0].tolist(), strict=True):
            chunk_of[chunk] = chunk_of.get(chunk, 0) + characters
    return chunk_of


def _random_chunks(corpora: Corpora, level: int, gold: set[int], n: int, rng: np.random.Generator) -> list[int]:
    """Return random chunks of a level from other than gold documents; fewer than n if there are not enough."""
    offsets = corpora.layout.level_offsets(level)
    of_gold = sum(int(offsets[document + 1] - offsets[document]) for document in gold)
    sample = rng.choice(corpora.layout.count(level), min(n + of_gold, corpora.layout.count(level)), replace=False)
    documents, *_ = corpora.layout.chunk_spans(sample, level)
    return [c for c, d in zip(sample.tolist(), documents.tolist(), strict=True) if d not in gold][:n]


def _chunks(corpora: Corpora, chunks: Sequence[Sequence[int]], level: int) -> Passages:
    """Return chunks of questions as passages, in order."""
    question = np.repeat(np.arange(len(chunks)), [len(members) for members in chunks])
    flat = np.array([chunk for members in chunks for chunk in members], np.int64)
    document, start, end = corpora.layout.chunk_spans(flat, level)
    none = np.zeros(len(flat))
    return Passages(question, places(question), document, start, end, np.full(len(flat), level), none)


def place(percentile: float, size: int) -> int:
    """Return position, from 0, of a percentile of the ranks of a context, rounded; ties go to the later one."""
    return int(percentile / 100 * (size - 1) + 0.5)


def context(case: Case, size: int, percentile: float, unlike: bool = False) -> list[RetrievedPassage]:
    """Return a context of `size` passages with the key document at a percentile of the ranks.

    Args:
        case: The question.
        size: Number of passages.
        percentile: Percentile of the key document, 0 to 100.
        unlike: Whether the other passages are the random ones.
    """
    others = list(case.unlike if unlike else case.others)[: size - 1]
    at = place(percentile, size)
    return [*others[:at], case.key, *others[at:]]


def answered(
    lab: Lab,
    question_set: str,
    name: str,
    key: Any,
    way: Way,
    make_contexts: Callable[[], Sequence[tuple[Case, Sequence[RetrievedPassage]]]],
) -> pd.DataFrame:
    """Return marks of answers from contexts, as a cell.

    Args:
        lab: The lab.
        question_set: Name of the question set.
        name: Name of the cell.
        key: JSON values that it depends on, besides the assets that the experiment reads.
        way: Answering method.
        make_contexts: Questions and their contexts; not called if the cell is cached.

    Returns:
        A row per question, as `evaluate.answers.mark`, with its `answer`.
    """

    def make() -> pd.DataFrame:
        contexts, rows = make_contexts(), list[AnswerRow]()
        with lab.progress(len(contexts), f"{question_set}, {name}: questions answered") as advance:
            for first in range(0, len(contexts), _BATCH):
                part = contexts[first : first + _BATCH]
                retrieve = given([passages for _, passages in part])
                rows += way([case.request for case, _ in part], Means(lab.reader(), retrieve, lab.each))
                advance(len(part))
        table = answer_table(question_set, name, rows)
        return mark(table, {question_set: [case.question for case, _ in contexts]}).assign(answer=table["answer"])

    return about(lab.cached(f"{question_set} {name}", key, make), candidates(lab)[question_set])


def by_set(
    lab: Lab, size: int, ask: Callable[[str, list[Question], Find], Sequence[pd.DataFrame]]
) -> tuple[dict[str, list[pd.DataFrame]], list[dict[str, Any]]]:
    """Return cells of every question set with enough passages for contexts.

    Args:
        lab: The lab.
        size: Size of the largest context.
        ask: Computes the cells of a question set from its name, its candidates, and a function that finds its cases.

    Returns:
        Cells by question set, and a row for every set of test questions: how many were used, of how many, and the
        reason if none.
    """
    tables, used = dict[str, list[pd.DataFrame]](), []
    offered = candidates(lab)
    for name in (name for name, question_set in lab.settings.question_sets.items() if question_set.test):
        questions, why = offered.get(name, []), ""
        if questions:
            try:
                tables[name] = list(ask(name, questions, cache(partial(cases, lab, name, size))))
            except NoContext as none:
                why = str(none)
        else:
            why = "no test question has both an answer and evidence"
        complete = tables[name][0]["question"].nunique() if name in tables else 0
        used.append(
            {
                "question set": name,
                "questions with an answer and evidence": len(questions),
                "of which a whole context could be made": complete,
                "why none": why,
            }
        )
    return tables, used
