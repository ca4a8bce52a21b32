"""Experiments on the asset `answers`: which answering methods turn answers right or wrong, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answering.notation import combinations, is_control
from mog_assets.answering.rows import read_answers
from mog_assets.config import Settings
from mog_assets.evaluation.answers import BASELINE, mark, score_answers
from mog_assets.evaluation.plots import accuracy_against_cost
from mog_assets.evaluation.scores import interval, p_said, p_text
from mog_assets.experiments.conclusions import joined, untestable
from mog_assets.experiments.lab import (
    ALPHA,
    Claim,
    Experiment,
    Findings,
    Lab,
    NothingToMeasure,
    Verdict,
    difference_text,
    registered,
    score_rows,
)
from mog_assets.experiments.plots import turned_right_and_wrong
from mog_assets.questions.sets import Question
from mog_assets.significance import bootstrap_interval, by_document, holm, permutation_p

_DIFFERENCE = ("difference", "difference_low", "difference_high", "effect", "p", "detectable")
# Maximum share that the map-reduce prompts add to the input of one prompt (BriefContext, section 5.2).
_EXTRA = 0.1
# Minimum number of single-call answers from which the length of an instruction is estimated.
_ENOUGH = 10


@dataclass(frozen=True)
class AnsweredCases:
    """The data of the asset `answers`.

    Attributes:
        answers: Result of `rows.read_answers`, with the `document` that each question is about.
        questions: The test questions with a reference answer, by question set; possibly not all of them were asked.
        marks: Result of `evaluation.answers.mark`, in the order of the answers.
    """

    answers: pd.DataFrame
    questions: Mapping[str, Sequence[Question]]
    marks: pd.DataFrame

    @classmethod
    def read(cls, lab: Lab) -> AnsweredCases:
        """Read them, without those of the controls.

        Raises:
            NothingToMeasure: there are none.
        """
        artefact = lab.read("answers", None)
        answers = read_answers(artefact.path, artefact.names())
        if not answers.empty:
            answers = answers[~answers["method"].map(is_control)].reset_index(drop=True)
        if answers.empty:
            raise NothingToMeasure(
                "answers: expected answers to test questions, found none: add questions with `answer` to a split "
                "named under `test`"
            )
        questions = lab.tested(evidence=False)
        marks = mark(answers, questions)
        return cls(answers.assign(document=marks["document"]), questions, marks)

    def parts(self) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
        """Name, answers and marks of every question set."""
        sets = self.marks["question_set"]
        return [(str(name), self.answers[sets == name], self.marks[sets == name]) for name in sets.unique()]


def accuracy_measures(questions: Sequence[Question]) -> list[str]:
    """The measures of accuracy, the deciding one first: for open questions, few answers match exactly."""
    return ["exact match"] if all(q.options for q in questions) else ["F1", "exact match"]


def by_way(marks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Marks of a question set as cells, one per answering method."""
    return {str(name): part.assign(cell=str(name)) for name, part in marks.groupby("method", sort=False)}


def paired_rows(
    question_set: str, pairs: Sequence[tuple[pd.DataFrame, pd.DataFrame]], measures: Sequence[str], seed: int
) -> pd.DataFrame:
    """Means of cells, the second of each pair compared with its first; Holm's correction is over the pairs.

    Args:
        question_set: Name of the question set.
        pairs: Cells with columns question, document, cell and the measures; a cell is second in one pair at most.
        measures: Measures to compute.
        seed: Seed of the resamples.

    Returns:
        As `lab.score_rows`; `against` is the other cell of the pair.
    """
    cells = {frame["cell"].iloc[0]: frame for pair in pairs for frame in pair}
    table = score_rows(question_set, list(cells.values()), measures, None, seed)
    names = list(measures)
    keys = ["question", "document"]
    differences = [
        (second.set_index(keys)[names] - first.set_index(keys)[names]).reset_index().assign(cell=second["cell"].iloc[0])
        for first, second in pairs
    ]
    none = differences[0].assign(cell="no difference", **dict.fromkeys(names, 0.0))
    rows_of = score_rows(question_set, [none, *differences], names, "no difference", seed)
    compared = rows_of.set_index(["cell", "measure"])[list(_DIFFERENCE)]
    places = pd.MultiIndex.from_frame(table[["cell", "measure"]])
    table[list(_DIFFERENCE)] = compared.reindex(places).to_numpy()
    partners = {second["cell"].iloc[0]: first["cell"].iloc[0] for first, second in pairs}
    table["against"] = table["cell"].map(partners).fillna("")
    return table


def of_model(lab: Lab, paper: str, claim: str, verdict: Verdict, because: str) -> Claim:
    """A claim about models that read: not testable with rules; then with their figures instead.

    The papers' are large language models; where a small one reads, the claim says so.
    """
    reader = lab.settings.answering.reader
    if not lab.reads:
        return untestable(paper, claim, f"{because}; answered without a language model, by {lab.reader().reader}")
    return Claim(paper, claim, verdict, because if reader == "openai" else f"{because}; read by the {reader} reader")


def flips(lab: Lab) -> Findings:
    """Count the answers that retrieval turns right and wrong."""
    tables, scores, plots, claims = {}, [], {}, []
    stored, hows = AnsweredCases.read(lab), combinations(lab.settings)
    routed = {how.name for how in hows if how.retrieval is not None and how.retrieval.kind == "mog-paper"}
    for name, _, marks in stored.parts():
        cells = by_way(marks)
        if BASELINE not in cells:
            raise NothingToMeasure(
                f"answers: expected answers of `{BASELINE}`, found none: add it to answering.methods"
            )
        ids = set(marks["question"])
        members = [q for q in stored.questions[name] if q.id in ids]
        measures = accuracy_measures(members)
        scores.append(score_rows(name, list(cells.values()), measures, BASELINE, lab.seed))
        rows = flip_rows(marks, {q.id: q.kind for q in members}, lab.seed)
        tables[f"{name}: answers of {BASELINE} and of every other way"] = without(rows, "p value")
        whole = [row for row in rows if row["kind"] == "all"]
        plots[f"{name}: turned right and wrong"] = turned_right_and_wrong(whole, name)
        claims.append(_flips_claim(lab, name, [row for row in whole if row["way"] in routed]))
    return Findings(joined(scores), tables, plots, claims)


def _flips_claim(lab: Lab, name: str, rows: Sequence[Mapping[str, Any]]) -> Claim:
    """Our claim: figure 6 shows such counts without a claim; section 4.3 says that MoG need not beat CoT."""
    paper = "ours; nearest are Mix-of-Granularity, section 4.5, and appendix I, figure 6"
    claim = "MoG turns more wrong answers of the chain of thought right than right ones wrong."
    if not rows:
        return untestable(paper, claim, f"{name}: no method of answering.methods retrieves with mog-paper")
    figures = "; ".join(
        f"{row['way']} {row['improved']} right, {row['degraded']} wrong of {row['n']} (permutation test over "
        f"documents, {p_said(row['p value'])})"
        for row in rows
    )
    better = all(row["improved"] > row["degraded"] and row["p value"] < ALPHA for row in rows)
    return of_model(lab, paper, claim, "seen" if better else "not seen", f"{name}: {figures}")


def flip_rows(marks: pd.DataFrame, kinds: Mapping[str, str], seed: int) -> list[dict[str, Any]]:
    """Answers that are right with one method and wrong with `cot`, and vice versa.

    Args:
        marks: Result of `evaluation.answers.mark` for a question set.
        kinds: Kinds of its questions.
        seed: Seed of the signs.

    Returns:
        A row per method and kind of question (`all` first, then the kinds if there are several): the four counts, the
        numbers of unanswered questions, and a permutation test over documents of improved against degraded. It is
        Holm-corrected over the methods, and separately over all methods and kinds, since these are parts of `all` and
        no further evidence. With one question per document it is McNemar's exact test.
    """
    keys = ["question", "document"]
    right = marks.pivot(index=keys, columns="method", values="exact match").astype(bool)
    answered = marks.pivot(index=keys, columns="method", values="answered").astype(bool)
    kind, documents = right.index.get_level_values(0).map(kinds), right.index.get_level_values(1).to_numpy(str)
    several = sorted(set(kind)) if len(set(kind)) > 1 else []
    rows: list[dict[str, Any]] = []
    for way in dict.fromkeys(marks["method"]):
        if way == BASELINE:
            continue
        for group in ("all", *several):
            here = np.ones(len(right), bool) if group == "all" else np.asarray(kind == group)
            before, after = right.loc[here, BASELINE], right.loc[here, way]
            improved, degraded = int((~before & after).sum()), int((before & ~after).sum())
            changes = by_document(after.to_numpy(float) - before.to_numpy(float), documents[here])
            rows.append(
                {
                    "way": way,
                    "kind": group,
                    "improved": improved,
                    "degraded": degraded,
                    "remain correct": int((before & after).sum()),
                    "remain wrong": int((~before & ~after).sum()),
                    "n": int(here.sum()),
                    "documents": len(changes.sizes),
                    f"{BASELINE} without an answer": int((~answered.loc[here, BASELINE]).sum()),
                    "way without an answer": int((~answered.loc[here, way]).sum()),
                    "p value": float(permutation_p(changes, seed=seed)[0]),
                }
            )
    for family in ([row for row in rows if row["kind"] == "all"], [row for row in rows if row["kind"] != "all"]):
        for row, p in zip(family, holm(np.array([row["p value"] for row in family])), strict=True):
            row |= {"p value": float(p), "p": p_text(p)}
    return rows


def without(rows: Sequence[Mapping[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Rows without columns that are used for decisions but not shown."""
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def cost(lab: Lab) -> Findings:
    """Calls, tokens, money and accuracy of every answering method."""
    tables, plots, claims = {}, {}, []
    for name, answers, marks in AnsweredCases.read(lab).parts():
        scores = score_answers(marks, lab.seed)
        tables[f"{name}: cost and accuracy"] = cost_rows(answers, scores)
        plots[f"{name}: accuracy against reading"] = accuracy_against_cost(scores, name)
        relation = map_reduce_relation(answers, lab.seed)
        if relation is None:
            continue
        tables[f"{name}: what the map-reduce reads"] = [
            without([row], "beyond_interval", "extra_interval")[0]
            | {"beyond interval": percents(row["beyond_interval"]), "extra interval": percents(row["extra_interval"])}
            for row in relation
        ]
        unit = relation[0]["unit"]
        claims.append(
            of_model(
                lab,
                "BriefContext, section 5.2, equations 4 and 5",
                "The map-reduce reads O(N_con) + M N_ins: the context, and the instruction for every partition.",
                _within([row["beyond_interval"] for row in relation]),
                f"{name}, by whether it lies within {_EXTRA:.0%} of that: "
                + "; ".join(
                    f"{row['way']} reads {row['read']:,.0f} {unit} a question with M = {row['M']:.3g}, N_con + M N_ins "
                    f"is {row['N_con + M N_ins']:,.0f} and one prompt {row['N_con + N_ins']:,.0f}: "
                    f"{row['beyond']:+.1%} {percents(row['beyond_interval'])}"
                    for row in relation
                ),
            )
        )
        claims.append(
            of_model(
                lab,
                "BriefContext, section 5.2",
                "The prompts of the map-reduce cost about 10 % more input than one prompt.",
                _within([row["extra_interval"] for row in relation]),
                f"{name}, by whether it is more than {_EXTRA:.0%}: "
                + "; ".join(f"{row['way']} {row['extra']:+.1%} {percents(row['extra_interval'])}" for row in relation)
                + "; the paper's own averages, 5,496.5 tokens against 3,066.0, are +79.3%",
            )
        )
    return Findings(tables=tables, plots=plots, claims=claims)


def _within(intervals: Sequence[tuple[float, float]]) -> Verdict:
    """Whether all shares are at most `_EXTRA`: an interval can show this, a p-value above .05 cannot."""
    if all(high <= _EXTRA for _, high in intervals):
        return "seen"
    return "not seen" if any(low > _EXTRA for low, _ in intervals) else "undecided"


def percents(ends: tuple[float, float]) -> str:
    """`[+1.2%, +3.4%]`."""
    return f"[{ends[0]:+.1%}, {ends[1]:+.1%}]"


def cost_rows(answers: pd.DataFrame, scores: pd.DataFrame) -> list[dict[str, Any]]:
    """Total cost of every answering method for a question set, best method first.

    Args:
        answers: Result of `rows.read_answers` for the question set.
        scores: Result of `evaluation.answers.score_answers`.
    """
    measured = scores[scores["measure"] == "exact match"].set_index("method")
    rows = []
    for way, part in answers.groupby("method", sort=False):
        accuracy = measured.loc[way]
        passed = [json.loads(passages) for passages in part["passages"]]
        rows.append(
            {
                "way": str(way),
                "accuracy": interval(*accuracy[["value", "low", "high"]]),
                "n": len(part),
                "calls": int(part["calls"].sum()),
                "read": int(part["tokens_in"].sum()),
                "written": int(part["tokens_out"].sum()),
                "unit": str(part["token_unit"].iloc[0]),
                "read a question": round(float(part["tokens_in"].mean()), 1),
                "USD": round(float(part["cost"].sum()), 6),
                "passages passed on": sum(map(len, passed)),
                "characters passed on": sum(len(p["text"]) for passages in passed for p in passages),
                "words passed on": sum(_words(passages) for passages in passed),
            }
        )
    return sorted(rows, key=lambda row: -measured.loc[row["way"], "value"])


def _words(passages: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(p["text"].split()) for p in passages)


def map_reduce_relation(answers: pd.DataFrame, seed: int) -> list[dict[str, Any]] | None:
    """Tokens read by map-reduces, compared with BriefContext's equations 4 and 5.

    N_con and N_ins are estimated from single-call answers: their input is fitted as a constant, N_ins, plus a number of
    tokens per word of their passages. `beyond` is the input beyond N_con + M N_ins, as a share of it; `extra` the input
    beyond N_con + N_ins, as a share of that. Their intervals hold for all methods jointly: 95 % by Bonferroni.

    Args:
        answers: `Answered.answers` of a question set.
        seed: Seed of the resamples.

    Returns:
        A row per answering method with a map-reduce; None if there is none, or if there are too few single-call answers
        for the fit.
    """
    words = answers["passages"].map(lambda text: _words(json.loads(text)))
    # Null is the text "null" in a file in which some answers reduced, and missing in one in which none did.
    extractions = answers["extractions"].map(lambda text: json.loads(text) if isinstance(text, str) else None)
    partitions = extractions.map(lambda parts: len(parts) if parts is not None else 0).astype(float)
    reduced = partitions > 0
    failed = answers["failures"].map(lambda text: bool(json.loads(text)))
    one = ~reduced & ~failed & (answers["calls"] == 1) & (words > 0)
    if not reduced.any() or one.sum() < _ENOUGH or words[one].nunique() < 2:
        return None
    per_word, instruction = np.polyfit(words[one], answers.loc[one, "tokens_in"], 1)
    rows = []
    groups = answers[reduced & ~failed].groupby("method", sort=False)
    level = 1 - ALPHA / max(len(groups), 1)
    for way, part in groups:
        context = per_word * words[part.index].to_numpy(float)
        parts = partitions[part.index].to_numpy()
        read = part["tokens_in"].to_numpy(float)
        prompt, formula = context + instruction, context + parts * instruction
        shares = np.stack([read / formula - 1, read / prompt - 1], axis=1)
        totals = by_document(shares, part["document"].to_numpy(str))
        lows, highs = bootstrap_interval(totals, seed=seed, level=level)
        beyond, extra = shares.mean(axis=0)
        rows.append(
            {
                "way": str(way),
                "n": len(part),
                "documents": len(totals.sizes),
                "unit": str(part["token_unit"].iloc[0]),
                "M": parts.mean(),
                "N_con": context.mean(),
                "N_ins": float(instruction),
                "N_con + N_ins": prompt.mean(),
                "N_con + M N_ins": formula.mean(),
                "read": read.mean(),
                "beyond": beyond,
                "beyond_interval": (float(lows[0]), float(highs[0])),
                "extra": extra,
                "extra_interval": (float(lows[1]), float(highs[1])),
            }
        )
    return rows or None


def of_answers(settings: Settings) -> Sequence[str]:
    """Assets that experiments on `answers` read."""
    return ("questions", "answers") if combinations(settings) else ()


def _against_cot(settings: Settings) -> Sequence[str]:
    names = [way.name for way in combinations(settings)]
    return of_answers(settings) if BASELINE in names and len(names) > 1 else ()


def differences(rows: pd.DataFrame) -> str:
    """The comparisons of a result of `score_rows`, as text."""
    return "; ".join(f"{row['cell']} {difference_text(row)}" for _, row in rows[rows["p"].notna()].iterrows())


registered(
    Experiment(
        "flips",
        "Answers turned right and wrong",
        "Improved, degraded, remain-correct and remain-wrong answers of every answering method against chain of "
        "thought, by question set and kind, with a permutation test over documents (Mix-of-Granularity, appendix I, "
        "figure 6).",
        flips,
        _against_cot,
        version="3",
    ),
    Experiment(
        "cost",
        "Cost of answers",
        "Calls, tokens, money, characters of passages and accuracy of every answering method; tokens read by "
        "map-reduce against one prompt (BriefContext, section 5.2, equations 4 and 5).",
        cost,
        of_answers,
        version="2",
    ),
)
