"""The asset of the answering stage: `answers`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from mog_assets.answering.answerers import METHODS, ONE_STEP_K, Each, Means, Retrieve, Retrieved, serial
from mog_assets.answering.extractive import Extractive
from mog_assets.answering.notation import Combination, combinations, controls, is_control
from mog_assets.answering.preflight import Encode, by_bm25, by_vectors
from mog_assets.answering.prompted import Prompted
from mog_assets.answering.retrieve import given, retrieve_by, texts
from mog_assets.answering.roles import Asked, Roles, Usage
from mog_assets.answering.rows import AnswerRow, answer_table, read_answers
from mog_assets.config import Settings
from mog_assets.questions.sets import Question, load_questions
from mog_assets.recipe import Recipe, Work
from mog_assets.retrieval.controls import gold_passages, random_passages
from mog_assets.retrieval.corpora import Corpora, Read
from mog_assets.routing.retrieve import Retrieval, needs
from mog_assets.tools import Tools
from resources.errors import MogError
from resources.llm import RequestFailed
from resources.store import digest

GROUP = "answering"
# Questions that advance together.
_BATCH = 256
# Some 80 MB of vectors of 384 numbers.
_REMEMBERED = 100_000

S = TypeVar("S")
R = TypeVar("R")


def reader(tools: Tools) -> Roles:
    """Who answers, by the settings."""
    if tools.settings.answering.reader == "openai":
        llm = tools.settings.llm
        said = digest(tools.llm.endpoint, llm.temperature, llm.max_tokens, tools.settings.seed)[:8]
        return Prompted(tools.llm.complete, f"{llm.model} {said}", failures=(RequestFailed,))
    encode = remembering(tools.encoder.encode)
    return Extractive(encode, f"{tools.settings.encoder.model} {tools.encoder.fingerprint[:12]}")


def remembering(encode: Encode, most: int = _REMEMBERED) -> Encode:
    """The same, with vectors kept in memory: to find them on disk takes longer than all else that an answer takes.

    Args:
        encode: n texts to vectors of shape (n, size).
        most: Number of vectors after which those of earlier calls are forgotten.
    """
    known: dict[str, np.ndarray] = {}

    def remembered(texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return encode(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if len(known) + len(missing) > most:
            known.clear()
            missing = list(dict.fromkeys(texts))
        if missing:
            known.update(zip(missing, encode(missing), strict=True))
        return np.stack([known[text] for text in texts])

    return remembered


def side_by_side(tools: Tools) -> Each:
    """Runs the calls of a round: as many at once as the endpoint is asked for."""
    if tools.settings.answering.reader != "openai":
        return serial

    def each(work: Callable[[S], R], items: Sequence[S]) -> list[R]:
        with ThreadPoolExecutor(tools.settings.llm.concurrency) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    return each


@contextmanager
def all_answered(tools: Tools, what: str) -> Iterator[None]:
    """For work whose result is kept: there an endpoint that was out of reach must not become wrong answers.

    Raises:
        MogError: when the work is done, if requests of it were not answered. Refusals are answers.
    """
    before = tools.llm.usage
    yield
    if lost := (tools.llm.usage - before).unanswered:
        raise MogError(
            f"{what}: expected an answer to every request, got none to {lost}: nothing of it is kept but the answers "
            "that came; run again when the endpoint is there, and they are not asked for again"
        )


def opened(tools: Tools, read: Read, names: Sequence[str]) -> Retrieval:
    """Some corpora, to be asked again and again."""
    corpora = Corpora.open(read, tools.settings, names, keep=True)
    return Retrieval(corpora, (), tools.encoder.encode, tools.encoder.fingerprint, tools.qdrant)


def answer(tools: Tools, retrieval: Retrieval, how: Combination, asked: Sequence[Asked]) -> list[AnswerRow]:
    """Answer questions.

    Args:
        tools: The resources.
        retrieval: The corpora.
        how: The way, and what it retrieves by.
        asked: The questions.
    """
    encode = tools.encoder.encode
    options: dict[str, Any] = {}
    retrieve: Retrieve = _nothing
    if how.retrieval is not None:
        retrieve = retrieve_by(how.retrieval, retrieval)
        options["topics"] = how.retrieval.topics
    if how.way == "briefcontext" and how.retrieval is not None:
        # The second ranking has to be of another kind than the first.
        options["rerank"] = by_vectors(encode) if how.retrieval.retriever == "bm25" else by_bm25
    return METHODS[how.way](asked, Means(reader(tools), retrieve, side_by_side(tools)), **options)


def control(
    tools: Tools, retrieval: Retrieval, how: Combination, questions: Sequence[Question], asked: Sequence[Asked]
) -> list[AnswerRow]:
    """Answer questions from passages that were not searched for.

    Args:
        tools: The resources.
        retrieval: The corpora.
        how: One of `notation.controls`: all gold evidence, nothing where there is none; or as many random passages as
            one step reads.
        questions: The questions.
        asked: The same, as readers are asked them.
    """
    assert how.retrieval is not None
    if how.retrieval.kind == "gold":
        found = gold_passages(questions, retrieval.corpora)
    else:
        found = random_passages(questions, retrieval.corpora)
        found = found.at(found.rank < ONE_STEP_K)
    retrieve = given(texts(retrieval.corpora, found, len(questions)))
    return METHODS[how.way](asked, Means(reader(tools), retrieve, side_by_side(tools)))


def _nothing(queries: Sequence[str], k: int, topics: bool) -> list[Retrieved]:
    raise AssertionError("a way of answering without retrieval retrieves")


def answered_questions(work: Work, name: str) -> list[Question]:
    """The test questions of a set that have an answer to compare with: all, or as many as the settings say, by id."""
    stored = work.input("questions").path(f"{name}.parquet")
    found = [q for q in load_questions(stored, work.settings.question_sets[name].test) if q.answer]
    most = work.settings.answering.questions
    if most is not None and most < len(found):
        chosen = sorted(found, key=lambda q: hashlib.sha256(q.id.encode()).digest())[:most]
        kept = {q.id for q in chosen}
        found = [q for q in found if q.id in kept]
    return found


def build_answers(work: Work) -> None:
    """Answer every test question in every way."""
    settings, hows = work.settings, [*combinations(work.settings), *controls(work.settings)]
    asked = {name: answered_questions(work, name) for name in settings.question_sets}
    asked = {name: questions for name, questions in asked.items() if questions}
    total = sum(map(len, asked.values())) * len(hows)
    before, seconds = work.tools.llm.usage, dict[str, float]()
    with work.progress(total, "questions answered") as advance:
        for name, questions in asked.items():
            retrieval = opened(work.tools, work.input, settings.question_sets[name].corpora)
            for how in hows:
                path, there = work.file(_file(name, how), _key(work, name, how), [repr(q) for q in questions])
                if there:
                    advance(len(questions))
                    continue
                rows = _answered(work, retrieval, how, questions, advance)
                table = answer_table(name, how.name, rows)
                seconds[f"{name}: {how.name}"] = float(table["seconds"].mean())
                if settings.answering.reader == "extractive":
                    # Measured now, not kept with an answer: the same answers would never make the same file again.
                    table["seconds"] = np.nan
                with work.writing(path) as temporary:
                    table.to_parquet(temporary)
                work.recomputed["questions answered"] = work.recomputed.get("questions answered", 0) + len(rows)
    table = read_answers(work.draft.path, sorted(work.draft.files))
    work.counts |= {"rows": len(table), "methods": len(hows), "failures": int((table["failure"] != "").sum())}
    work.info["retry"] = None
    if settings.answering.reader == "openai":
        spent = work.tools.llm.usage - before
        work.counts |= {"calls": spent.calls, "calls from the cache": spent.cached, "USD": round(spent.usd, 6)}
        # What the endpoint did not answer this time it may answer next time.
        work.info["retry"] = "some requests were not answered" if spent.unanswered else None
    timed = [{"answered": what, "seconds a question": mean} for what, mean in seconds.items()]
    work.show_table("seconds of all calls for a question, mean, of what was answered now", timed)
    work.shown["reader"] = reader(work.tools).reader.replace("<", "&lt;")
    shown = ["question", "method", "answer", "failure", "rounds", "tokens_in", "tokens_out"]
    work.show_table("sample", table[shown].head(10).to_dict("records") if len(table) else [])


def _answered(
    work: Work, retrieval: Retrieval, how: Combination, questions: Sequence[Question], advance: Callable[[int], None]
) -> list[AnswerRow]:
    rows: list[AnswerRow] = []
    for first in range(0, len(questions), _BATCH):
        asked, members, refused = [], [], {}
        for question in questions[first : first + _BATCH]:
            try:
                asked.append(Asked.of(question))
            except MogError as error:
                refused[question.id] = str(error)
            else:
                members.append(question)
        if is_control(how.name):
            answered = control(work.tools, retrieval, how, members, asked)
        else:
            answered = answer(work.tools, retrieval, how, asked)
        if work.settings.answering.judge:
            answered = judged(work.tools, asked, answered, {q.id: q.long_answer or q.answer for q in questions})
        found = {row.question: row for row in answered}
        for question in questions[first : first + _BATCH]:
            reason = refused.get(question.id)
            rows.append(
                found[question.id]
                if reason is None
                else AnswerRow(question.id, how.way, reader(work.tools).reader, None, reason, "")
            )
        advance(len(questions[first : first + _BATCH]))
    return rows


def judged(
    tools: Tools, asked: Sequence[Asked], rows: Sequence[AnswerRow], references: Mapping[str, str]
) -> list[AnswerRow]:
    """Rows with the judge's marks, those that answer an open question (AT-RAG, section 4.2).

    Args:
        tools: The resources.
        asked: The questions of the rows.
        rows: What was answered.
        references: Right answers, by question.
    """
    roles = reader(tools)

    def one(pair: tuple[Asked, AnswerRow]) -> AnswerRow:
        question, row = pair
        if row.answer is None or question.kind != "open":
            return row
        reply = roles.judge(question, row.answer, references[question.id])
        marks: dict[str, Any] = {"failure": reply.failure}
        if reply.value is not None:
            marks = {**asdict(reply.value), "overall": reply.value.overall}
        spent = Usage(row.calls, row.tokens_in, row.tokens_out, row.cost, row.seconds) + reply.usage
        return replace(row, judgement=marks, **asdict(spent))

    return list(side_by_side(tools)(one, list(zip(asked, rows, strict=True))))


def _file(name: str, how: Combination) -> str:
    return f"{name}-{hashlib.sha256(how.name.encode()).hexdigest()[:12]}.parquet"


def _key(work: Work, name: str, how: Combination) -> list[Any]:
    corpora = work.settings.question_sets[name].corpora
    needed = needs([how.retrieval] if how.retrieval else [], work.settings)
    inputs = [work.input(key).manifest.version for key in needed.shared]
    inputs += [work.input(key, corpus).manifest.version for key in needed.per_corpus for corpus in corpora]
    before = work.draft.previous
    again = before.manifest.created if before and before.manifest.info["retry"] else None
    drawn = [work.settings.seed] if is_control(how.name) else []
    return [how.name, *_options(work.tools), *drawn, name, inputs, again]


def _options(tools: Tools) -> list[Any]:
    settings = tools.settings
    options = [settings.bm25.model_dump(), settings.k_r, settings.answering.judge]
    return [reader(tools).reader, tools.encoder.identity, *options]


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; without test questions there is nothing to answer."""
    hows = [*combinations(settings), *controls(settings)]
    if not hows or not any(question_set.test for question_set in settings.question_sets.values()):
        return []
    methods = [how.retrieval for how in hows if how.retrieval]
    tested = {name: [q.corpora, q.test] for name, q in settings.question_sets.items()}
    return [
        Recipe(
            key="answers",
            build=build_answers,
            description="Answers to the test questions, in every way that is configured, and from random and gold "
            "passages.",
            group=GROUP,
            deps=("questions", *needs(methods, settings).keys),
            partitioned=False,
            settings=lambda tools: [
                [how.name for how in hows],
                tools.settings.seed,
                tools.settings.answering.questions,
                tested,
                *_options(tools),
            ],
            intact=lambda tools, stored: not stored.manifest.info["retry"],
            kinds=("openai",) if settings.answering.reader == "openai" else ("python",),
            pool="llm" if settings.answering.reader == "openai" else None,
        )
    ]
