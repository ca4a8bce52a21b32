"""The leaderboard of `mog run`: which method to use, by how much it is better, and the most important rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import KNOWN_BY, Board, boards, document_measures, leading_measure
from mog_assets.evaluate.scores import compare, gap_closed, interval, on_documents, p_said, p_text
from mog_assets.questions.sources import Origins, is_generated
from mog_assets.search.methods import METHODS, controls, unlimited, unplaced

ALPHA = 0.05
MOST_ROWS = 12
# With fewer questions, a leaderboard says what they can show.
FEW = 30


@dataclass(frozen=True)
class Leaderboard:
    """The scores of a question set's split.

    Attributes:
        title: Question set, with numbers of questions and documents, and who made them if people did not.
        advice: One sentence: which method to use, and by how much it is better.
        shows: See `differences_shown`.
        rows: At most `MOST_ROWS` dicts of text, the recommended method, then the best first, controls last: method,
            what it is, some measures as `value [low, high]`, p of the difference in the first measure from the best
            fixed level of all retrievers, Holm-corrected over all methods, and the share of the gap from that level to
            gold evidence that a method closes.
    """

    title: str
    advice: str
    shows: str
    rows: list[dict[str, str]]


def leaderboards(
    scores: pd.DataFrame,
    per_question: pd.DataFrame,
    default: str | None,
    k: int,
    seed: int,
    origins: Origins | None = None,
) -> list[Leaderboard]:
    """Return the leaderboard of each question set and split: those of real questions first.

    Args:
        scores: Result of `scores.score`.
        per_question: The table they were computed from.
        default: The method that `auto` stands for, if one was chosen.
        k: Number of passages per question.
        seed: Seed of resamples and random signs.
        origins: Who made the questions of each set.
    """
    tables = []
    for board, part in boards(scores, origins):
        measured = next(part_measured for key, part_measured in boards(per_question) if key == board)
        splits = scores.loc[scores["question_set"] == board.question_set, "split"].nunique()
        name = f"{board.question_set}, {board.split}" if splits > 1 else board.question_set
        tables.append(_leaderboard(name, board, part, measured, default, k, seed, origins or {}))
    return tables


def differences_shown(scores: pd.DataFrame, fewer_than: int = FEW) -> str:
    """Return the difference from the best fixed level that few questions show, in a sentence.

    Args:
        scores: Rows of `scores.score` of one board.
        fewer_than: With that many questions there is no sentence.

    Returns:
        The median over methods of the smallest difference that is detected with a power of .8, see
        `significance.detectable`: methods differ in it, and what a method was chosen for should not decide it. Empty
        without a comparison, or if all methods are equal on every document.
    """
    means = scores[scores["measure"] == leading_measure(set(scores["measure"]))]
    compared = means[_usable(means) & (means["baseline"] != "") & (means["baseline"] != means["method"])]
    if compared.empty or "detectable" not in means or (n := int(means["n"].max())) >= fewer_than:
        return ""
    row = compared.iloc[0]
    what = f"a difference in {row['measure']} from `{row['baseline']}`"
    many = on_documents(n, int(means["documents"].max()))
    if np.isnan(least := float(compared["detectable"].median())):
        # Without a spread, nothing is known of what could be shown.
        if not compared["difference"].any():
            return ""
        return f"{many} are too few to show {what}."
    return f"With {many}, {what} shows if it is at least {least:.2f}."


def _usable(means: pd.DataFrame) -> pd.Series:
    """Return whether each method can be used for new questions."""
    return ~means["kind"].map(unlimited).isin(unplaced())


def _leaderboard(
    name: str,
    board: Board,
    scores: pd.DataFrame,
    per_question: pd.DataFrame,
    default: str | None,
    k: int,
    seed: int,
    origins: Origins,
) -> Leaderboard:
    measure = leading_measure(set(scores["measure"]))
    means = scores[scores["measure"] == measure].set_index("method")
    means = means.sort_values("value", ascending=False, kind="stable")
    usable = means[_usable(means)]
    fixed = usable[usable["kind"] == "fixed"]
    compared, beating = None, set[str]()
    if len(fixed) and len(usable) > 1:
        cells = per_question[per_question["method"].isin(usable.index)].rename(columns={"method": "cell"})
        compared = compare(cells, [measure], str(fixed.index[0]), seed).set_index("cell")
        if default in usable.index:
            beating = _better(compare(cells, [measure], default, seed).set_index("cell"))
    chosen, advice = _advice(usable, fixed, compared, default, beating, measure)
    shows, generated = differences_shown(scores), is_generated(board.question_set, origins)
    if generated:
        advice = f"{name}, by generated questions: {advice[0].lower()}{advice[1:]}"
    rows = _rows(means, usable, fixed, chosen, default)
    shown = ["ER", "ER@1000", f"hit@{k}", "nDCG@10"] if board.evidence == "spans" else list(document_measures(k))
    by_measure = {measure: scores[scores["measure"] == measure].set_index("method") for measure in shown}
    n = int(means["n"].max())
    documents = f" on {int(means['documents'].max()):,} documents" if "documents" in means else ""
    questions = "questions generated by a language model" if generated else "questions"
    return Leaderboard(
        f"{name}: {n:,} {questions}{documents}{KNOWN_BY[board.evidence]}, value [95 % interval]",
        advice,
        shows,
        [
            {
                "method": method,
                "what it is": what,
                **{m: interval(*table.loc[method, ["value", "low", "high"]]) for m, table in by_measure.items()},
                **({} if compared is None else {f"p vs {fixed.index[0]}": _p(compared, method)}),
                **({"gap closed": _share(gap_closed(means, method))} if len(fixed) else {}),
            }
            for method, what in rows.items()
        ],
    )


def _better(compared: pd.DataFrame) -> set[str]:
    """Return methods that are significantly better than the one that all were compared with."""
    return set(compared.index[(compared["p"] < ALPHA) & (compared["difference"] > 0)])


def _advice(
    usable: pd.DataFrame,
    fixed: pd.DataFrame,
    compared: pd.DataFrame | None,
    default: str | None,
    beating: set[str],
    measure: str,
) -> tuple[str, str]:
    """Return the method to use, and the sentence that recommends it.

    That is `default`, which was chosen on other questions, unless a method is significantly better (`beating`).
    """
    if compared is None:
        best = str(usable.index[0]) if len(usable) else ""
        return best, f"Use `{best}`: it is the only method measured." if best else "No method was measured."
    yardstick = str(fixed.index[0])
    better = _better(compared)
    if default in compared.index and yardstick not in beating:
        better &= {default, *beating}
    if better:
        best = str(compared.loc[list(better), "value"].idxmax())
        row, stands = compared.loc[best], ", which `auto` stands for" if best == default else ""
        return best, (
            f"Use `{best}`{stands}: {measure} {row['value']:.3f}, {_by(row)} `{yardstick}`, the best fixed level of "
            f"all retrievers ({_sure(row)})."
        )
    value = fixed.iloc[0]["value"]
    none = f"no method is significantly better than `{yardstick}`"
    if default is None or default == yardstick or default not in compared.index:
        return yardstick, f"Use `{yardstick}` ({measure} {value:.3f}): {none}, the best fixed level of all retrievers."
    row = compared.loc[default]
    if row["p"] < ALPHA:
        turned = {"difference": -row["difference"], "difference_low": -row["difference_high"]}
        turned |= {"difference_high": -row["difference_low"], "p": row["p"]}
        return yardstick, (
            f"Use `{yardstick}`: {measure} {value:.3f}, {_by(turned)} `{default}`, which `auto` stands for "
            f"({_sure(turned)}); {none}."
        )
    return default, (
        f"Use `{default}`, which `auto` stands for ({measure} {row['value']:.3f}): no method is significantly better, "
        f"and it does not differ significantly from `{yardstick}` ({measure} {value:.3f}), the best fixed level of all "
        "retrievers."
    )


def _share(share: float | str) -> str:
    return share if isinstance(share, str) else f"{share:.0%}"


def _p(compared: pd.DataFrame, method: str) -> str:
    return p_text(compared.loc[method, "p"]) if method in compared.index else ""


def _by(row: pd.Series | dict[str, float]) -> str:
    return f"{row['difference']:.3f} above"


def _sure(row: pd.Series | dict[str, float]) -> str:
    ends = (row["difference_low"], row["difference_high"])
    between = "" if any(map(np.isnan, ends)) else f"95 % [{ends[0]:.3f}, {ends[1]:.3f}], "
    return f"{between}{p_said(row['p'])}"


def _rows(
    means: pd.DataFrame, usable: pd.DataFrame, fixed: pd.DataFrame, chosen: str, default: str | None
) -> dict[str, str]:
    """Return most important methods with a description of each: the recommended one, the best first, controls last."""
    wanted: dict[str, list[str]] = {}

    def want(methods: Sequence[str], what: str) -> None:
        for method in methods[:1]:
            wanted.setdefault(method, []).append(what)

    want([chosen] if chosen else [], "recommended")
    want([name for name in usable.index if name == default], "`auto`")
    for retriever in fixed["retriever"].unique():
        want(list(fixed.index[fixed["retriever"] == retriever]), f"best fixed level of {retriever}")
    kinds = means["kind"].map(unlimited)
    shown = {
        name: kind.description for name, kind in METHODS.items() if name != "fixed" and (kind.control or not kind.gold)
    }
    for what in dict.fromkeys(shown.values()):
        want([method for method in means.index if shown.get(kinds[method]) == what], what)
    listed = list(wanted)[:MOST_ROWS]
    places = {m: (m != chosen, kinds[m] in controls(), n) for n, m in enumerate(means.index) if m in listed}
    return {method: ", ".join(wanted[method]) for method in sorted(places, key=lambda method: places[method])}
