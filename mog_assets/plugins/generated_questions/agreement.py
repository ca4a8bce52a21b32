"""Whether generated questions rank the methods as real ones do, so that people know what generated ones are worth."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.build.plots import new_figure, plain, png
from mog_assets.config import Settings
from mog_assets.evaluate.measures import KNOWN_BY, LEADS, Board, boards
from mog_assets.evaluate.plots import look
from mog_assets.evaluate.scores import Comparison, ScoreTable, on_documents
from mog_assets.evaluate.significance import RESAMPLES, Totals, by_document, ends, resampled_means
from mog_assets.questions.sources import Origins, is_generated, origins
from mog_assets.registry import SCORE_TABLES
from mog_assets.search.methods import unlimited, unplaced

# Means that differ by rounding only are equal, so that ties do not depend on the order of additions.
_DECIMALS = 9
_BLOCK = 250
# A real and a generated board; `generated` is what the columns call `made_`.
_PAIR = (*Board._fields, *(f"made_{name}" for name in Board._fields), "measure")
COLUMNS = (
    *_PAIR,
    "methods",
    "n",
    "documents",
    "made_n",
    "made_documents",
    "tau",
    "tau_low",
    "tau_high",
    "best",
    "best_value",
    "chosen",
    "chosen_value",
    "difference",
    "difference_low",
    "difference_high",
    "share",
)
# How alike two rankings are, by the least tau of each.
_WORDS = ((0.9, "as"), (0.7, "almost as"), (0.4, "roughly as"), (-1.0, "otherwise than"))


def agreement(
    per_question: pd.DataFrame,
    kinds: Mapping[str, tuple[str, str]],
    origins: Origins,
    corpora: Mapping[str, Collection[str]],
    seed: int,
) -> pd.DataFrame:
    """Return how well the ranking of methods by generated questions agrees with that by real ones.

    Args:
        per_question: Result of `measures.evaluate`.
        kinds: Retriever and kind of each method. Controls and methods that use gold evidence are left out.
        origins: Who made the questions of each set.
        corpora: The corpora of each set; sets without a common one are not compared.
        seed: Seed of the resamples.

    Returns:
        A row per real board and generated board of which at least two methods have scores, with columns `COLUMNS`:

        - the two boards, measure (the leading one of the real board: nDCG@10 if only relevant documents are known);
        - methods (their number), n questions and number of documents of either side;
        - tau: Kendall's tau-b of the methods' means, in −1 … 1, with its 95 % interval tau_low … tau_high; NaN if all
          methods of a side are equal;
        - best: the method with the greatest mean on real questions, best_value; chosen: the one with the greatest mean
          on generated questions, chosen_value: its mean on real ones; difference (chosen_value − best_value, at most
          0) with its 95 % interval;
        - share: the share of resamples in which the method chosen by generated questions has the greatest mean on real
          ones, too.

        Documents of both sides are resampled, each side for itself; with one document on a side the intervals and
        `share` are NaN.

        Chance makes two rankings less alike, so with few questions tau is too low, and resamples add as much chance
        again as the questions had. So the interval of tau is the percentile interval of `significance.ends`, with the
        number of documents of the side that has fewer, joined with its reflection at tau. In simulations of 21 methods
        on 8 to 60 real and 19 to 200 generated documents it contains the tau of the methods' expected values in 97 to
        100 % of cases where that is 0, in 88 to 94 % (percentiles alone: 36 to 87 %) where it is .7, in 77 to 90 %
        (1 to 39 %) where it is .87. If two rankings are the same and methods are close, it is too low.

    References:
        Kendall 1945, The Treatment of Ties in Ranking Problems; Davison and Hinkley 1997, section 5.2 (basic bootstrap
        interval); Voorhees 2000, Variations in Relevance Judgments (tau of systems' rankings).
    """
    rows = []
    for real, generated in _pairs(per_question, origins, corpora):
        measure = LEADS[real[0].evidence]
        sides = [_values(part, measure, kinds) for _, part in (real, generated)]
        common = [name for name in sides[0].columns if name in sides[1].columns]
        if len(common) < 2:
            continue
        names = {
            f"{side}{key}": value
            for side, (board, _) in (("", real), ("made_", generated))
            for key, value in board._asdict().items()
        }
        first, second = (_totals(side[common]) for side in sides)
        rows.append({**names, "measure": measure, **_compared(common, first, second, seed)})
    return pd.DataFrame(rows, columns=list(COLUMNS))


Side = tuple[Board, pd.DataFrame]


def _pairs(
    per_question: pd.DataFrame, origins: Origins, corpora: Mapping[str, Collection[str]]
) -> Iterator[tuple[Side, Side]]:
    """Yield real boards, each with every generated board over one of its corpora."""
    sides = list(boards(per_question, origins))
    for real in (side for side in sides if not is_generated(side[0].question_set, origins)):
        for generated in (side for side in sides if is_generated(side[0].question_set, origins)):
            if {*corpora.get(real[0].question_set, ())} & {*corpora.get(generated[0].question_set, ())}:
                yield real, generated


def _values(part: pd.DataFrame, measure: str, kinds: Mapping[str, tuple[str, str]]) -> pd.DataFrame:
    """Return a measure by question and document (rows) and method (columns, in the order of the table)."""
    methods = [name for name in part["method"].unique() if _counts(kinds.get(name, ("", ""))[1])]
    table = part[part["method"].isin(methods)].pivot(index=["question", "document"], columns="method", values=measure)
    return table[methods].dropna(axis=1)


def _counts(kind: str) -> bool:
    return unlimited(kind) not in unplaced()


def _totals(values: pd.DataFrame) -> Totals:
    return by_document(values.to_numpy(np.float64), values.index.get_level_values("document").to_numpy(str))


def _compared(methods: list[str], real: Totals, generated: Totals, seed: int) -> dict[str, Any]:
    # Importing it takes longer than a run that has nothing to do.
    from scipy.stats import kendalltau

    values, others = real.mean, generated.mean
    best, chosen = int(values.argmax()), int(others.argmax())
    row: dict[str, Any] = {
        "methods": len(methods),
        "n": real.questions,
        "documents": len(real.sizes),
        "made_n": generated.questions,
        "made_documents": len(generated.sizes),
        "tau": float(kendalltau(np.round(values, _DECIMALS), np.round(others, _DECIMALS)).statistic),
        "best": methods[best],
        "best_value": values[best],
        "chosen": methods[chosen],
        "chosen_value": values[chosen],
        "difference": values[chosen] - values[best],
    }
    fewer = min(real, generated, key=lambda side: side.effective)
    if min(row["documents"], row["made_documents"]) < 2:
        return row | dict.fromkeys(("tau_low", "tau_high", "difference_low", "difference_high", "share"), np.nan)
    # Different seeds: with equal ones, sides with as many documents would see the same resamples.
    samples, other_samples = resampled_means(real, RESAMPLES, seed), resampled_means(generated, RESAMPLES, seed + 1)
    low, high = ends(taus(samples, other_samples), fewer)
    row["tau_low"] = max(-1.0, min(low, 2 * row["tau"] - high))
    row["tau_high"] = min(1.0, max(high, 2 * row["tau"] - low))
    picked = np.take_along_axis(samples, other_samples.argmax(axis=1)[:, None], axis=1)[:, 0]
    behind = np.round(picked - samples.max(axis=1), _DECIMALS)
    row["difference_low"], row["difference_high"] = ends(behind, fewer)
    return row | {"share": float((behind == 0).mean())}


def taus(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return Kendall's tau-b of each row of two arrays of shape (samples, m).

    Returns:
        float array of shape (samples,), in −1 … 1; 0 where all values of a row are equal.
    """
    first, second = np.round(first, _DECIMALS), np.round(second, _DECIMALS)
    i, j = np.triu_indices(first.shape[1], 1)
    taus = np.zeros(len(first))
    for at in range(0, len(first), _BLOCK):
        a, b = (np.sign(side[at : at + _BLOCK, i] - side[at : at + _BLOCK, j]) for side in (first, second))
        untied = np.sqrt((a != 0).sum(axis=1) * (b != 0).sum(axis=1))
        np.divide((a * b).sum(axis=1), untied, out=taus[at : at + _BLOCK], where=untied > 0)
    return taus


def sentence(row: Mapping[str, Any]) -> str:
    """Say what a row of `agreement` shows."""
    many, measure, tau = f"the {row['methods']} methods", row["measure"], f"tau {row['tau']:.2f}"
    if np.isnan(row["tau"]):
        text = f"Generated questions cannot be compared with real ones: on one side {many} have the same {measure}"
        return f"{text} ({_sides(row)})."
    if np.isnan(row["tau_low"]):
        text = f"Whether generated questions rank {many} as real ones do cannot be told from questions about"
        return f"{text} one document ({tau}, without an interval; {_sides(row)})."
    tau += f" [{row['tau_low']:.2f}, {row['tau_high']:.2f}]"
    degree = next(words for least, words in _WORDS if row["tau"] >= least)
    text = f"Generated questions rank {many} {degree} real ones do"
    if row["tau_low"] <= 0 <= row["tau_high"]:
        text = f"Whether generated questions rank {many} as real ones do is not known"
    where = "the best"
    if row["difference"] < 0:
        # Not −0.
        between = f"{0 - row['difference_high']:.3f}, {0 - row['difference_low']:.3f}"
        where = f"{-row['difference']:.3f} below the best, `{row['best']}` (95 % [{between}])"
    value = f"{measure} {row['chosen_value']:.3f} on real questions"
    return (
        f"{text} ({tau}; {_sides(row)}); the method they would choose, `{row['chosen']}`, has {value}, {where}; "
        f"in {row['share']:.0%} of resamples it is the best."
    )


def _sides(row: Mapping[str, Any]) -> str:
    """Return the two boards, with their numbers of questions."""
    real, generated = (
        f"{row[f'{side}question_set']}, {row[f'{side}split']}{KNOWN_BY[row[f'{side}evidence']]}: "
        f"{on_documents(int(row[f'{side}n']), int(row[f'{side}documents']))}"
        for side in ("", "made_")
    )
    return f"{generated}; {real}"


def points(row: Mapping[str, Any], scores: pd.DataFrame) -> pd.DataFrame:
    """Return the methods of a row of `agreement`.

    Args:
        row: The row.
        scores: Result of `scores.score` for the same questions.

    Returns:
        By method: kind; value, low and high (the mean on real questions with its interval); other (the mean on
        generated ones).
    """
    selected = scores[(scores["measure"] == row["measure"]) & scores["kind"].map(_counts)]
    parts = dict(boards(selected))
    keys = (Board(*(row[f"{side}{name}"] for name in Board._fields)) for side in ("", "made_"))
    real, generated = (parts[key].set_index("method") for key in keys)
    both = [name for name in real.index if name in generated.index]
    return real.loc[both, ["kind", "value", "low", "high"]].assign(other=generated.loc[both, "value"])


def _make(per_question: pd.DataFrame, kinds: Mapping[str, tuple[str, str]], settings: Settings) -> pd.DataFrame:
    corpora = {name: q.corpora for name, q in settings.question_sets.items()}
    return agreement(per_question, kinds, origins(settings), corpora, settings.seed)


def compare(table: pd.DataFrame, scores: pd.DataFrame) -> list[Comparison]:
    """Return what the rows of `agreement` say: see `ScoreTable`."""
    return [
        Comparison(
            name=f"generated and real questions: {row['made_question_set']} and {row['question_set']}, {row['split']}",
            sentence=sentence(row),
            measure=row["measure"],
            side=(row["question_set"], row["split"]),
            other=(row["made_question_set"], row["made_split"]),
            title=f"Kendall's tau {row['tau']:.2f}, {row['methods']} methods",
            methods=points(row, scores),
        )
        for row in table.to_dict("records")
    ]


def plot(compared: Comparison) -> bytes:
    """Draw the mean of every method on real questions over that on generated ones."""
    figure = new_figure(5.5, 4.2)
    axes = figure.subplots()
    for kind, part in compared.methods.groupby(compared.methods["kind"].map(unlimited), sort=False):
        colour, marker = look(str(kind))
        axes.scatter(part["other"], part["value"], color=colour, marker=marker, s=28, label=plain(str(kind)))
    xlabel, ylabel = (plain(f"{compared.measure} on {', '.join(side)}") for side in (compared.other, compared.side))
    axes.set(xlabel=xlabel, ylabel=ylabel, title=compared.title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return png(figure)


SCORE_TABLES.register(
    "agreement",
    ScoreTable(
        _make,
        compare,
        plot,
        "Generated and real questions",
        "Whether generated questions rank the methods as real ones do. Kendall's tau is 1 if they rank all pairs of "
        "methods the same way, 0 if they agree on as many pairs as they disagree on, −1 if they rank them the other "
        "way round. With few questions, chance makes it too low.",
    ),
)
