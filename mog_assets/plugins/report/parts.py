"""Parts of the report: leaderboards, curves, groups of questions, shares of levels, answers, known items, history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.answerers import AnswerTable
from mog_assets.evaluate.answers import answer_board
from mog_assets.evaluate.leaderboard import differences_shown
from mog_assets.evaluate.measures import LEADS, boards, headline_measures, leading_measure
from mog_assets.evaluate.plots import accuracy_against_cost, er_against_cost
from mog_assets.evaluate.scores import gap_closed, interval, leaderboard, on_documents, p_text
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.plugins.report import plots
from mog_assets.plugins.report.history import ALPHA
from mog_assets.plugins.report.page import Part
from mog_assets.plugins.report.shares import FEWEST, groups_of
from mog_assets.questions.sets import Question
from mog_assets.questions.sources import Origins, board_suffix
from mog_assets.search.methods import AUTO, METHODS, is_unplaced, rankings, unlimited, unplaced

_MOST_METHODS = 7
# Behind the name of a method that cannot answer a real question.
_UNPLACED = " (control)"


def of_scores(scores: pd.DataFrame, k: int, origins: Origins) -> list[Part]:
    """Return leaderboards, and evidence recall over the length of the context.

    Args:
        scores: Result of `scores.score`.
        k: Passages of a question.
        origins: Who made the questions of each set.
    """
    tables, folded, pictures, notes = {}, {}, {}, []
    for board, part in boards(scores, origins):
        counts = on_documents(int(part["n"].max()), int(part["documents"].max()))
        title = f"{board.name}{board_suffix(board.question_set, origins)}, {counts}"
        leads = part[part["measure"] == LEADS[board.evidence]].set_index("method")
        tables[title] = [
            {
                **row,
                "method": row["method"] + (_UNPLACED if is_unplaced(row["method"]) else ""),
                "gap closed": f"{closed:.0%}" if (closed := gap_closed(leads, row["method"])) != "" else "",
            }
            for row in leaderboard(part, headline_measures(k))
        ]
        folded[f"{title}: all measures"] = leaderboard(part, list(dict.fromkeys(part["measure"])))
        notes.append(differences_shown(part))
        if board.evidence == "spans":
            pictures[title] = er_against_cost(part, board.question_set)
    text = (
        "ER is the share of gold evidence in the first 1,000, 2,000, 4,000 and 8,000 characters of passages, averaged. "
        "Values have 95 % bootstrap intervals, and p is that of the difference from the best fixed level of all "
        "retrievers (paired permutation test, Holm-corrected over methods), both over documents, not questions. That "
        "level is chosen on the questions that it is scored on, which favours it. Gap closed is the share of the gap "
        "from it to the gold evidence. Coverage is the share of questions for which a method ranked any passage; the "
        "others count as 0."
    )
    if not tables:
        text = "No question with evidence was scored."
    shown = "The share of gold evidence in the first characters of the passages. Bands are 95 % intervals."
    return [
        Part("Leaderboard", " ".join([text, *filter(None, notes)]), tables, folded=folded),
        *([Part("Recall against cost", shown, pictures=pictures)] if pictures else []),
    ]


def main_methods(scores: pd.DataFrame, most: int = _MOST_METHODS) -> list[str]:
    """Return the methods to look into: the best of each kind, and the best fixed level, which they are compared with.

    Args:
        scores: Result of `scores.score` for one board.
        most: Number of methods, ≥ 1.

    Returns:
        Names, the best by the leading measure first, the best fixed level last; without controls and methods that use
        gold evidence.
    """
    measure = leading_measure(set(scores["measure"]))
    leading = scores[(scores["measure"] == measure) & ~scores["kind"].map(unlimited).isin(unplaced())]
    leading = leading.sort_values("value", ascending=False, kind="stable")
    best = leading.drop_duplicates("kind")
    place = {kind: i for i, kind in enumerate(METHODS)}
    wanted = best.assign(place=best["kind"].map(lambda kind: place.get(kind, len(place))))
    fixed = best.loc[best["kind"] == "fixed", "method"].tolist()
    chosen = set([*fixed, *(m for m in wanted.sort_values("place", kind="stable")["method"] if m not in fixed)][:most])
    return sorted((name for name in leading["method"] if name in chosen), key=lambda name: name in fixed)


def by_group(
    per_question: pd.DataFrame, questions: Iterable[Question], methods: Sequence[str], measure: str, seed: int
) -> list[dict[str, str]]:
    """Return means per kind of question and per corpus of the gold evidence.

    Args:
        per_question: Result of `measures.evaluate` for one board.
        questions: Questions of that question set.
        methods: Methods to show.
        measure: What of them.
        seed: Seed of the resamples.

    Returns:
        A row per group, kinds first, the largest first: its name, what it is (`kind` or `corpus`), how many questions,
        and each method's mean with a 95 % bootstrap interval over documents. A question with evidence in two corpora
        counts in both.
    """
    by_id = {question.id: question for question in questions}
    here = per_question[per_question["method"].isin(list(methods))]
    cells = here.pivot(index=["question", "document"], columns="method", values=measure)[list(methods)]
    members: dict[tuple[str, str], list[int]] = {}
    for row, identity in enumerate(cells.index.get_level_values("question")):
        for key in groups_of(by_id[identity]):
            members.setdefault(key, []).append(row)
    values, documents = cells.to_numpy(np.float64), cells.index.get_level_values("document").to_numpy(str)
    rows = []
    for (by, group), at in sorted(members.items(), key=lambda item: (item[0][0] == "corpus", -len(item[1]), item[0])):
        totals = by_document(values[at], documents[at])
        means = zip(methods, totals.mean, *bootstrap_interval(totals, seed=seed), strict=True)
        counts = on_documents(len(at), len(totals.sizes))
        shown = {name: interval(value, low, high) for name, value, low, high in means}
        rows.append({"group": group or "(none)", "by": by, "questions": counts, **shown})
    return rows


def of_groups(
    scores: pd.DataFrame, per_question: pd.DataFrame, questions: Mapping[str, Sequence[Question]], seed: int
) -> Part:
    """Return the main methods by kind of question and by corpus; `questions` are those of each set."""
    tables, scored = {}, dict(boards(scores))
    for board, part in boards(per_question):
        measure, methods = LEADS[board.evidence], main_methods(scored[board])
        tables[f"{board.name}: {measure}"] = by_group(part, questions[board.question_set], methods, measure, seed)
    text = (
        "Means of the main methods with 95 % intervals over documents. A group with one document has no interval. A "
        "question with evidence in two corpora counts in both."
    )
    return Part("Kinds and corpora", text if tables else "No question with evidence was scored.", tables)


def of_one(shares: pd.DataFrame, chosen: str) -> pd.DataFrame:
    """Return rows of the ranking that `auto` stands for, or of `fused` if that one weighs nothing, without its name.

    Args:
        shares: Result of `shares.table`.
        chosen: What `auto` stands for.

    Returns:
        Rows of one ranking, `attrs["method"]`; of any that there is if both were not run.
    """
    present = set(shares["method"])
    method = next((name for name in (chosen, AUTO, "fused", *rankings()) if name in present), "")
    rows = shares[shares["method"] == method].drop(columns="method").reset_index(drop=True)
    rows.attrs["method"] = method
    return rows


def of_shares(shares: pd.DataFrame) -> Part:
    """Return how much each level and retriever counted, given the result of `of_one`."""
    title = "Levels and retrievers"
    if shares.empty:
        most = f"No ranking that weighs levels and retrievers has run on as many as {FEWEST} test questions."
        return Part(title, most)
    method = shares.attrs["method"]
    text = (
        f"The mean share of each level of BM25 and of vectors in the weights of `{method}`, for all test questions, by "
        "corpus and by kind. Others are titles, and relations between texts. A question with evidence in two corpora "
        f"counts in both; groups of fewer than {FEWEST} questions are left out. It is the ranking in use, or `fused` "
        "where that one has no weights."
    )
    rows = [
        {"questions": group, "by": by, "n": f"{n:,}"}
        | dict(zip(shares.columns[3:], map("{:.1%}".format, sizes), strict=True))
        for by, group, n, *sizes in shares.itertuples(index=False, name=None)
    ]
    return Part(title, text, {"": rows}, {f"Shares of {method}": plots.shares(shares)})


def of_answers(answers: pd.DataFrame | None, tables: Sequence[tuple[AnswerTable, Sequence[Mapping[str, Any]]]]) -> Part:
    """Return the methods of answering.

    Args:
        answers: Result of `answers.score_answers`; None if nothing was answered.
        tables: Tables of ways of answering, with their rows.
    """
    if answers is None or answers.empty:
        return Part("Answers", "No question was answered: set `answering.methods` in mog.yaml.")
    shown: dict[str, Sequence[Mapping[str, Any]]] = {}
    pictures = {}
    for name, part in answers.groupby("question_set", sort=False):
        counts = on_documents(int(part["n"].max()), int(part["documents"].max()))
        spent = part.drop_duplicates("method").set_index("method")
        shown[f"{name}, {counts}"] = [
            {
                **row,
                "calls": f"{spent.loc[row['method'], 'calls']:.1f}",
                "written": f"{spent.loc[row['method'], 'tokens_out']:.0f}",
                "$": f"{spent.loc[row['method'], 'cost']:.4f}",
            }
            for row in answer_board(answers, str(name))
        ]
        pictures[f"{name}: accuracy against reading"] = accuracy_against_cost(answers, str(name))
    for table, rows in tables:
        shown[f"{table.title[:1].upper()}{table.title[1:]}. {table.note}"] = [
            {key: f"{value:.3f}" if isinstance(value, float) else str(value) for key, value in row.items()}
            for row in rows
        ]
    text = (
        "Exact match and F1 of the answering methods, with 95 % intervals over documents; p against answering without "
        "retrieval (`cot`). Read and written are means per question in the reader's unit; dollars are the total of all "
        "questions."
    )
    return Part("Answers", text, shown, pictures)


def of_known_items(items: Sequence[Mapping[str, Any]]) -> Part:
    """Return how rankings find what one text has, given the result of `evaluate.known_items.summary`."""
    if not items:
        return Part("Known items", "No word, number or title is of one text alone.")
    text = (
        "Words, numbers and titles that one text has, typed alone and in a sentence: the share whose text is in the "
        "first passage, and within 4,000 characters. The p-value is of the difference in the latter from BM25 at level "
        "1 (`fixed-1`), by document."
    )
    shares = ("first", "in 4,000 characters")
    rows = [
        {key: item[key] for key in ("asked", "ranking")}
        | {key: f"{item[key]:.2f}" for key in shares}
        | {"p": "" if item["p"] is None else p_text(item["p"])}
        for item in items
    ]
    return Part("Known items", text, {"": rows})


def of_history(history: pd.DataFrame, origins: Origins) -> Part:
    """Return the leading measure of the best methods by time of evaluation."""
    pictures = {
        f"{board.name}{board_suffix(board.question_set, origins)}, by time": plots.er_over_time(
            part, board.question_set
        )
        for board, part in boards(history, origins)
    }
    text = (
        "The leading measure by time of evaluation. A mark shows a significant drop from the last accepted scores "
        f"(p < {ALPHA}, paired permutation test over documents, Holm-corrected over methods)."
    )
    return Part("History", text if pictures else "There is no history of evaluations.", pictures=pictures)
