"""Experiments on the asset `answers`: which answering methods turn answers right or wrong, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.notation import combinations, is_control
from mog_assets.answer.rows import read_answers
from mog_assets.config import Settings
from mog_assets.evaluate.answers import BASELINE, mark
from mog_assets.evaluate.scores import p_said, p_text
from mog_assets.evaluate.significance import by_document, holm, permutation_p
from mog_assets.papers.experiments.conclusions import joined, untestable
from mog_assets.papers.experiments.lab import (
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
from mog_assets.questions.sets import Question

_DIFFERENCE = ("difference", "difference_low", "difference_high", "effect", "p", "detectable")
# Maximum share that the map-reduce prompts add to the input of one prompt (BriefContext, section 5.2).
EXTRA = 0.1


@dataclass(frozen=True)
class AnsweredCases:
    """The data of the asset `answers`.

    Attributes:
        answers: Result of `rows.read_answers`, with the `document` that each question is about.
        questions: The test questions with a reference answer, by question set; possibly not all of them were asked.
        marks: Result of `evaluate.answers.mark`, in the order of the answers.
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
        """Return name, answers and marks of every question set."""
        sets = self.marks["question_set"]
        return [(str(name), self.answers[sets == name], self.marks[sets == name]) for name in sets.unique()]


def accuracy_measures(questions: Sequence[Question]) -> list[str]:
    """Return the measures of accuracy, the deciding one first: for open questions, few answers match exactly."""
    return ["exact match"] if all(q.options for q in questions) else ["F1", "exact match"]


def by_way(marks: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return marks of a question set as cells, one per answering method."""
    return {str(name): part.assign(cell=str(name)) for name, part in marks.groupby("method", sort=False)}


def paired_rows(
    question_set: str, pairs: Sequence[tuple[pd.DataFrame, pd.DataFrame]], measures: Sequence[str], seed: int
) -> pd.DataFrame:
    """Return means of cells, the second of each pair compared with its first; Holm's correction is over the pairs.

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
    """Return a claim about models that read: not testable with rules; then with their figures instead.

    The papers' are large language models; where a small one reads, the claim says so.
    """
    reader = lab.settings.answering.reader
    if not lab.reads:
        return untestable(paper, claim, f"{because}; answered without a language model, by {lab.reader().reader}")
    return Claim(paper, claim, verdict, because if reader == "openai" else f"{because}; read by the {reader} reader")


def flips(lab: Lab) -> Findings:
    """Count the answers that retrieval turns right and wrong."""
    tables, scores, claims = {}, [], []
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
        of_all = [row for row in rows if row["kind"] == "all"]
        claims.append(_flips_claim(lab, name, [row for row in of_all if row["way"] in routed]))
    return Findings(joined(scores), tables, claims)


def _flips_claim(lab: Lab, name: str, rows: Sequence[Mapping[str, Any]]) -> Claim:
    """Return our claim: figure 6 shows such counts without a claim; section 4.3 says that MoG need not beat CoT."""
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
    """Return answers that are right with one method and wrong with `cot`, and vice versa.

    Args:
        marks: Result of `evaluate.answers.mark` for a question set.
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
    """Return rows without columns that are used for decisions but not shown."""
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def of_answers(settings: Settings) -> Sequence[str]:
    """Return assets that experiments on `answers` read."""
    return ("questions", "answers") if combinations(settings) else ()


def _against_cot(settings: Settings) -> Sequence[str]:
    names = [way.name for way in combinations(settings)]
    return of_answers(settings) if BASELINE in names and len(names) > 1 else ()


def differences(rows: pd.DataFrame) -> str:
    """Return the comparisons of a result of `score_rows`, as text."""
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
)
