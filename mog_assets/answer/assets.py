"""The asset of the answering stage: `answers`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.answerers import WAYS
from mog_assets.answer.ask import answer, control, reader, reader_name, side_by_side
from mog_assets.answer.notation import Combination, combinations, controls, is_control
from mog_assets.answer.readers import ANSWER_READERS
from mog_assets.answer.roles import AnswerRequest
from mog_assets.answer.rows import AnswerRow, answer_table, read_answers
from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.questions.sets import Question, load_questions
from mog_assets.registry import JUDGES
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.store import Artefact
from mog_assets.search.experts import versions
from mog_assets.search.methods import further_settings, needs, trained_methods
from mog_assets.search.retrieval import Retrieval

GROUP = "answering"
# Number of questions that advance together.
_BATCH = 256


def answered_questions(work: Work, name: str) -> list[Question]:
    """Return the test questions of a set that have a reference answer: all, or the configured number, ordered by id."""
    stored = work.input("questions").path(f"{name}.parquet")
    questions_of = [q for q in load_questions(stored, work.settings.question_sets[name].test) if q.answer]
    most = work.settings.answering.questions
    if most is not None and most < len(questions_of):
        chosen = sorted(questions_of, key=lambda q: hashlib.sha256(q.id.encode()).digest())[:most]
        chosen_ids = {q.id for q in chosen}
        questions_of = [q for q in questions_of if q.id in chosen_ids]
    return questions_of


def _measured(settings: Settings) -> list[Combination]:
    return [*combinations(settings), *controls(settings)]


def build_answers(work: Work) -> None:
    """Answer every test question with every answering method."""
    settings, hows = work.settings, _measured(work.settings)
    usable = trained_methods([how.retrieval for how in hows if how.retrieval], settings, work.input)
    hows = [how for how in hows if how.retrieval is None or how.retrieval in usable]
    by_set = {name: answered_questions(work, name) for name in settings.question_sets}
    by_set = {name: questions for name, questions in by_set.items() if questions}
    total = sum(map(len, by_set.values())) * len(hows)
    before, seconds = work.tools.llm.tally, dict[str, float]()
    with work.progress(total, "questions answered") as advance:
        for name, questions in by_set.items():
            retrieval = Retrieval.open(work.tools, work.input, settings.question_sets[name].corpora)
            for how in hows:
                path, exists = work.file(_file(name, how), _key(work, name, how), [repr(q) for q in questions])
                if exists:
                    advance(len(questions))
                    continue
                rows = _answered(work, retrieval, how, questions, advance)
                table = answer_table(name, how.name, rows)
                seconds[f"{name}: {how.name}"] = float(table["seconds"].mean())
                if settings.answering.reader != "openai":
                    # Time measured in this run is not stored with answers: equal answers must give equal files.
                    table["seconds"] = np.nan
                with work.writing(path) as temporary:
                    table.to_parquet(temporary)
                work.recomputed["questions answered"] = work.recomputed.get("questions answered", 0) + len(rows)
    table = read_answers(work.draft.path, sorted(work.draft.files))
    if len(table) and not table["answer"].notna().any():
        raise _all_failed(work, table)
    work.counts |= {"rows": len(table), "methods": len(hows), "failures": int((table["failure"] != "").sum())}
    work.info["retry"] = None
    if settings.answering.reader == "openai":
        spent = work.tools.llm.tally - before
        work.counts |= {"calls": spent.calls, "calls from the cache": spent.cached, "USD": round(spent.usd, 6)}
        # The endpoint may answer the next time.
        work.info["retry"] = "some requests got no response" if spent.unanswered else None
        work.info["parameters"] = work.tools.llm.parameters.sent
        work.shown["parameters sent"] = work.tools.llm.parameters.describe()
    timed = [{"answered": what, "seconds per question": mean} for what, mean in seconds.items()]
    work.show_table("mean seconds of all calls per question, for questions answered in this run", timed)
    work.shown["reader"] = reader(work.tools).reader.replace("<", "&lt;")
    shown = ["question", "method", "answer", "failure", "rounds", "tokens_in", "tokens_out"]
    work.show_table("sample", table[shown].head(10).to_dict("records") if len(table) else [])


def _all_failed(work: Work, table: pd.DataFrame) -> MogError:
    """Return the error if no question got an answer; nothing is stored, so the next run tries again."""
    before = work.draft.previous
    files = {entry["file"] for entry in before.manifest.files.values()} if before else set()
    for name in work.draft.files:
        if work.draft.files[name] not in files:
            work.draft.path(name).unlink()
    first = table.iloc[0]
    return MogError(
        f"answers: expected an answer to at least one question, got none to {len(table)}; the first error, of "
        f"question {first['question']!r} by {first['method']}: {first['failure']}"
    )


def _answered(
    work: Work, retrieval: Retrieval, how: Combination, questions: Sequence[Question], advance: Callable[[int], None]
) -> list[AnswerRow]:
    rows: list[AnswerRow] = []
    for first in range(0, len(questions), _BATCH):
        requests, members, refused = [], [], {}
        for question in questions[first : first + _BATCH]:
            try:
                requests.append(AnswerRequest.of(question))
            except MogError as error:
                refused[question.id] = str(error)
            else:
                members.append(question)
        if is_control(how.name):
            answered = control(work.tools, retrieval, how, members, requests)
        else:
            answered = answer(work.tools, retrieval, how, requests)
        if work.settings.answering.judge:
            references = {q.id: q.long_answer or q.answer for q in questions}
            for judge in JUDGES.values():
                answered = judge.judged(reader(work.tools), requests, answered, references, side_by_side(work.tools))
        by_question = {row.question: row for row in answered}
        for question in questions[first : first + _BATCH]:
            reason = refused.get(question.id)
            rows.append(
                by_question[question.id]
                if reason is None
                else AnswerRow(question.id, how.way, reader(work.tools).reader, None, reason, "")
            )
        advance(len(questions[first : first + _BATCH]))
    return rows


def _file(name: str, how: Combination) -> str:
    return f"{name}-{hashlib.sha256(how.name.encode()).hexdigest()[:12]}.parquet"


def _key(work: Work, name: str, how: Combination) -> list[Any]:
    corpora = work.settings.question_sets[name].corpora
    needed = needs([how.retrieval] if how.retrieval else [], work.settings)
    inputs = [work.input(key).manifest.version for key in needed.common]
    inputs += [work.input(key, corpus).manifest.version for key in needed.per_corpus for corpus in corpora]
    inputs += [work.input(key).manifest.version for key in ANSWER_READERS[work.settings.answering.reader].assets]
    before = work.draft.previous
    repeats = before.manifest.created if before and not _is_usable(before) else None
    seeds = [work.settings.seed] if is_control(how.name) else []
    return [how.name, WAYS[how.way].version, *_options(work.tools), *seeds, name, inputs, repeats]


def _is_usable(stored: Artefact) -> bool:
    """Return whether the answers are usable: there are some, and none is missing that the next run might get."""
    counts = stored.manifest.counts
    return not stored.manifest.info["retry"] and not 0 < counts["rows"] == counts["failures"]


def _options(tools: Tools) -> list[Any]:
    settings = tools.settings
    options = [
        settings.bm25.model_dump(),
        settings.k_r,
        settings.k,
        [settings.budget, settings.llm.tokenizer],
        "".join(judge.fingerprint() for judge in JUDGES.values()) if settings.answering.judge else None,
    ]
    searches = [settings.retriever, *further_settings(settings), versions(settings)]
    return [reader_name(tools), tools.encoder.identity, *options, *searches]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage; none without test questions."""
    hows = _measured(settings)
    if settings.answering.judge and not JUDGES:
        raise ConfigError("answering.judge: expected an installed package that judges answers, got none: leave it out")
    if not hows or not settings.tests:
        return []
    methods = [how.retrieval for how in hows if how.retrieval]
    read = ANSWER_READERS[settings.answering.reader].assets
    return [
        Recipe(
            key="answers",
            build=build_answers,
            description="Answers to the test questions by every configured method, and from random and gold passages.",
            group=GROUP,
            deps=("questions", *read, *needs(methods, settings).keys),
            partitioned=False,
            settings=lambda tools: [
                [[how.name, WAYS[how.way].version] for how in _measured(tools.settings)],
                tools.settings.seed,
                tools.settings.answering.questions,
                {name: [q.corpora, q.train, q.test] for name, q in tools.settings.question_sets.items()},
                *_options(tools),
            ],
            intact=lambda tools, stored: _is_usable(stored),
            kinds=("openai",) if settings.answering.reader == "openai" else ("python",),
            # Columns of ways of answering stand after the others since 2.
            version="2",
            pool="llm" if settings.answering.reader == "openai" else None,
        )
    ]
