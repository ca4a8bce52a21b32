"""AT-RAG's loop: rounds, topics, graders, and the gain over one step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.notation import combinations
from mog_assets.config import Settings
from mog_assets.evaluate.scores import interval, on_documents, p_said
from mog_assets.evaluate.significance import bootstrap_interval, by_document, detectable, permutation_p
from mog_assets.index.corpora import Corpora
from mog_assets.papers.at_rag.judging import MARK
from mog_assets.papers.at_rag.roles import SUPPORT, USEFULNESS
from mog_assets.papers.experiments.answers import (
    AnsweredCases,
    accuracy_measures,
    by_way,
    differences,
    of_answers,
    of_model,
)
from mog_assets.papers.experiments.conclusions import every, joined, turned, untestable
from mog_assets.papers.experiments.contexts import gold_chunks
from mog_assets.papers.experiments.lab import (
    ALPHA,
    MARGIN,
    Claim,
    Experiment,
    Findings,
    Lab,
    greater,
    registered,
    score_rows,
)
from mog_assets.papers.experiments.shares import share_interval
from mog_assets.papers.topics.assign import read_topics
from mog_assets.papers.topics.model import OUTLIER
from mog_assets.questions.sets import Question

_CRITERIA = ("correctness", "completeness", "relevance", MARK)
# Share of the questions with a rejected first answer that must pass later.
_FEW = 0.05


def at_rag(lab: Lab) -> Findings:
    """Return rounds, grades, topics and fallbacks of every AT-RAG method, and its accuracy against others."""
    stored, tables, scores, claims = AnsweredCases.read(lab), {}, [], []
    ways = {how.name: how for how in combinations(lab.settings)}
    for name, answers, marks in stored.parts():
        by_id = {q.id: q for q in stored.questions[name]}
        questions = [by_id[identity] for identity in dict.fromkeys(answers["question"])]
        cells = by_way(marks)
        loops = [way for way in cells if ways[way].way == "at-rag"]
        others = [way for way in cells if ways[way].way in ("one-step", "adaptive")]
        measures, compared = accuracy_measures(questions), [*loops, *others]
        scores.append(score_rows(name, [cells[way] for way in compared], measures, loops[0], lab.seed))
        measure, marked = measures[0], {way: cells[way] for way in compared}
        if judged := judged_cells(marked):
            measure, marked = MARK, judged
            scores.append(score_rows(name, list(judged.values()), [MARK], loops[0], lab.seed))
        claims += [_better_claim(lab, name, marked, loop, others, measure) for loop in loops]
        gold = gold_topics(lab, name, questions)
        rounds, grades = [], []
        for way in loops:
            part, retrieval = answers[answers["method"] == way], ways[way].retrieval
            # A method without topics has no topic hit rate.
            matches = topic_hits(part, gold if retrieval is not None and retrieval.limit else {})
            rounds.append(_rounds_row(way, part, matches, lab.seed))
            grades += grade_rows(way, part)
            claims += [*_topic_claim(name, way, matches, lab.seed), *_rewriting_claim(lab, name, way, part)]
        tables[f"{name}: rounds, grades and topics"] = rounds
        tables[f"{name}: grades by round"] = grades
        if table := judge_rows(answers[answers["method"].isin(compared)], lab.seed):
            tables[f"{name}: judge, 0 to 10"] = table
    return Findings(joined(scores), tables, claims=claims)


def judged_cells(cells: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the judge's overall marks of the questions that have one for every method; a missing answer has mark 0.

    Args:
        cells: Result of `answers.by_way`, by method.

    Returns:
        Cells with the column `judge`; none if no answer was judged, or no question has marks for every method.
    """
    frames = [
        frame.assign(**{MARK: frame[MARK].where(frame["answered"], 0.0)}).set_index("question")
        for frame in cells.values()
    ]
    judged = pd.concat([frame["asked judge"] for frame in frames], axis=1).any(axis=1)
    marks = pd.concat([frame[MARK] for frame in frames], axis=1)
    judged_by_all = marks.index[judged & marks.notna().all(axis=1)]
    if judged_by_all.empty:
        return {}
    return {way: frame.loc[judged_by_all].reset_index() for way, frame in zip(cells, frames, strict=True)}


def _better_claim(
    lab: Lab, name: str, cells: Mapping[str, pd.DataFrame], loop: str, others: Sequence[str], measure: str
) -> Claim:
    paper, claim = "AT-RAG, section 4.3, table 1", "AT-RAG answers better than One-Step RAG and Adaptive-RAG."
    if not others:
        return untestable(paper, claim, f"{name}: no answers of one-step or adaptive to compare {loop} with")
    table = score_rows(name, [cells[way] for way in (loop, *others)], [measure], loop, lab.seed)
    rivals = table[table["cell"] != loop]
    label, scale = ("the judge's mark, 0 to 10,", 10) if measure == MARK else (measure, 1)
    return of_model(
        lab,
        paper,
        claim,
        every(greater(turned(row), MARGIN * scale) for _, row in rivals.iterrows()),
        f"{name}, {label} against {loop}: {differences(rivals)}",
    )


def gold_topics(lab: Lab, question_set: str, questions: Sequence[Question]) -> dict[str, set[int]]:
    """Return topics of the chunks with a question's evidence, without outliers, for questions with evidence.

    Args:
        lab: The lab.
        question_set: Name of the question set.
        questions: Some of its questions.
    """
    names, level = lab.settings.question_sets[question_set].corpora, min(2, lab.settings.levels)
    corpora = Corpora.open(lab.read, lab.settings, names)
    topics = np.concatenate([read_topics(lab.read("topics/assigned", corpus), level) for corpus in names])
    return {
        q.id: {int(topics[chunk]) for chunk in gold_chunks(corpora, q, level)} - {OUTLIER}
        for q in questions
        if q.evidence
    }


def topic_hits(answers: pd.DataFrame, gold: Mapping[str, set[int]]) -> pd.DataFrame:
    """Return whether the topics that were searched match those of the evidence.

    Args:
        answers: `answers.Answered.answers` of one answering method.
        gold: Topics of the evidence, by question; other questions are left out.

    Returns:
        A row per question: `document` (what it is about), `first` (the topic of the original question), `any` (of any
        round), and `chance`: the share of the other questions whose first topic would match this question's evidence.
    """
    here = answers[answers["question"].isin(list(gold))]
    searched = [[query["topic"] for query in json.loads(queries)] for queries in here["queries"]]
    wanted = [gold[question] for question in here["question"]]
    counts = Counter(topics[0] for topics in searched if topics)
    rows = []
    for document, topics, right in zip(here["document"], searched, wanted, strict=True):
        first = bool(topics) and topics[0] in right
        others = sum(counts[topic] for topic in right) - first
        rows.append(
            {
                "document": document,
                "first": float(first),
                "any": float(bool(right & set(topics))),
                "chance": others / max(len(searched) - 1, 1),
            }
        )
    return pd.DataFrame(rows, columns=["document", "first", "any", "chance"])


def _rounds_row(way: str, part: pd.DataFrame, matches: pd.DataFrame, seed: int) -> dict[str, Any]:
    queries = [query for text in part["queries"] for query in json.loads(text)]
    counts = Counter(int(number) for number in part["rounds"])
    return {
        "way": way,
        "n": len(part),
        "documents": part["document"].nunique(),
        "rounds": _mean(part["rounds"], part["document"], seed),
        **{f"ended in round {number}": counts[number] for number in range(1, max(counts) + 1)},
        "passed both graders": _mean(part["graded"].eq(True), part["document"], seed),
        "without an answer": int((part["failure"] != "").sum()),
        "topic hit rate": _mean(matches["first"], matches["document"], seed),
        "in any round": _mean(matches["any"], matches["document"], seed),
        "by chance": f"{matches['chance'].mean():.3f}" if len(matches) else "",
        "of": len(matches),
        "searches": len(queries),
        "without a topic": sum(query["topic"] == OUTLIER for query in queries),
        "fallbacks": sum(bool(query["fallback"]) for query in queries),
    }


def _mean(values: pd.Series, documents: pd.Series, seed: int) -> str:
    if not len(values):
        return ""
    totals = by_document(values.to_numpy(float), documents.to_numpy(str))
    (mean,), ((low,), (high,)) = totals.mean, bootstrap_interval(totals, seed=seed)
    return interval(float(mean), float(low), float(high))


def grade_rows(way: str, part: pd.DataFrame) -> list[dict[str, Any]]:
    """Return grades of answers, by round.

    Args:
        way: Answering method.
        part: Its answers.
    """
    # Questions that could not be asked have none.
    grades = [json.loads(text) if isinstance(text, str) else [] for text in part["grades"]]
    rows = []
    for number in range(max(map(len, grades), default=0)):
        # Where the passages had no answer, there was none to grade.
        here = [r[number] for r in grades if len(r) > number and r[number]["usefulness"] is not None]
        useful, support = (Counter(grade[key] for grade in here) for key in ("usefulness", "support"))
        rows.append(
            {
                "way": way,
                "round": number + 1,
                "graded": len(here),
                **{str(verdict): useful[verdict] for verdict in USEFULNESS},
                **{str(verdict): support[verdict] for verdict in SUPPORT},
                "failed": useful["failed"] + support["failed"],
            }
        )
    return rows


def judge_rows(answers: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Return judge's mean marks of every judged method, with intervals, and the share of answers that it could mark."""
    rows = []
    for way, part in answers.groupby("method", sort=False):
        judged = part[part["judgement"].notna()] if "judgement" in part else part[:0]
        if judged.empty:
            continue
        judgements = pd.Series(map(json.loads, judged["judgement"]), index=judged.index)
        marked = judgements[[MARK in judgement for judgement in judgements]]
        documents = judged.loc[marked.index, "document"]
        rows.append(
            {
                "way": str(way),
                **{c: _mean(marked.map(itemgetter(c)), documents, seed) for c in _CRITERIA},
                "marked": len(marked),
                "of": len(judgements),
            }
        )
    return rows


def _topic_claim(name: str, way: str, matches: pd.DataFrame, seed: int) -> list[Claim]:
    if matches.empty:
        return []
    differences = by_document((matches["first"] - matches["chance"]).to_numpy(), matches["document"].to_numpy(str))
    (p,), (least,) = permutation_p(differences, seed=seed), detectable(differences, ALPHA)
    seen = bool(p < ALPHA and differences.mean[0] > 0)
    return [
        Claim(
            "AT-RAG, section 3.2.2",
            "The topic that the model assigns to a question is the topic of the passages that answer it.",
            "seen" if seen else "not seen",
            f"{name}, {way}: {_mean(matches['first'], matches['document'], seed)} of "
            f"{on_documents(len(matches), len(differences.sizes))}, by chance {matches['chance'].mean():.3f}; "
            f"{p_said(p)}"
            + ("" if p < ALPHA or np.isnan(least) else f"; the smallest detectable difference is {least:.3f}"),
        )
    ]


def _rewriting_claim(lab: Lab, name: str, way: str, part: pd.DataFrame) -> list[Claim]:
    """Return whether later rounds pass if the first did not: a claim about graders, which are part of the reader."""
    rewritten = part[part["rounds"] > 1]
    if rewritten.empty:
        return []
    passed, documents = rewritten["graded"].eq(True).to_numpy(), rewritten["document"].to_numpy(str)
    low, high = share_interval(passed, documents)
    counts = on_documents(len(rewritten), len(set(documents)))
    return [
        of_model(
            lab,
            "AT-RAG, section 3.2.5",
            "Rewriting the query finds an answer that passes both graders if the first did not.",
            "seen" if low > _FEW else "not seen" if high < _FEW else "undecided",
            f"{name}, {way}: of {counts} {interval(passed.mean(), low, high, '.1%')} pass in a later round, by whether "
            f"it is more than {_FEW:.0%}",
        )
    ]


def _reads(settings: Settings) -> Sequence[str]:
    if not any(way.way == "at-rag" for way in combinations(settings)):
        return ()
    return (*of_answers(settings), "documents", "chunks/level_1", "topics/assigned")


registered(
    Experiment(
        "at-rag",
        "AT-RAG's loop",
        "Rounds, grades, fallbacks, judge's marks and topic hit rate (whether a question's topic is that of a chunk "
        "of level 2 with its evidence) of AT-RAG, and its accuracy against one step and the adaptive choice "
        "(AT-RAG, Algorithm 1, section 3.2, table 1).",
        at_rag,
        _reads,
        version="4",
    ),
)
