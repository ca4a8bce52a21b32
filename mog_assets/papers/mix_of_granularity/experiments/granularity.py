"""Number of chunks in the mix, weights with and without a router, and the gap to the best weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.measures import headline_measures
from mog_assets.evaluate.scores import interval
from mog_assets.evaluate.significance import RESAMPLES, by_document, ends, resampled_means
from mog_assets.papers.experiments.conclusions import every, joined, over_sets, turned, untestable
from mog_assets.papers.experiments.lab import (
    Experiment,
    Findings,
    Lab,
    NothingToMeasure,
    Verdict,
    difference_text,
    equivalence,
    greater,
    registered,
    score_row,
    score_rows,
)
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.papers.mix_of_granularity.ranker import level_ranker, router_weights
from mog_assets.papers.mix_of_granularity.settings import GRAPH
from mog_assets.search.methods import named_methods, needs, parse
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval


def k_r(lab: Lab) -> Findings:
    """Return MoG with more or fewer chunks of each level and corpus in the mix."""
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    settings, values = lab.settings, sorted(set(EXPERIMENT_SETTINGS.of(lab.settings).k_r))
    method, tables = parse("mog-paper", settings), []
    few: dict[str, tuple[Verdict, str]] = {}
    many: dict[str, tuple[Verdict, str]] = {}
    for name in lab.tested():
        retrieval = lab.retrieval(name)

        def find(value: int, retrieval: Retrieval = retrieval) -> Passages:
            ranker = replace(level_ranker(retrieval, method.retriever, None), k_r=value)
            return ranker.weighted(router_weights(retrieval, "mog-paper"))

        cells = [lab.measured(name, f"k_r = {value}", value, partial(find, value)) for value in values]
        tables.append(score_rows(name, cells, headline_measures(settings.k), f"k_r = {values[0]}", lab.seed))
        rows = [score_row(tables[-1], name, f"k_r = {value}", "ER") for value in values[1:]]
        if rows:
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in rows)
            few[name] = (every(equivalence(row) for row in rows), f"ER against k_r = {values[0]}: {figures}")
            many[name] = (greater(rows[-1]), f"ER against k_r = {values[0]}: {figures}")
    figure5 = "Mix-of-Granularity, figure 5 and appendix F"
    return Findings(
        joined(tables),
        claims=[
            *over_sets(figure5, "MoG gets better with more chunks of each level in the mix.", many),
            *over_sets(figure5, "MoG is as good with few chunks of each level in the mix as with many.", few),
        ],
    )


def router(lab: Lab) -> Findings:
    """Return MoG and MoGG against the same with equal weights, and against single levels or hops."""
    settings, scored = lab.settings, _scored(lab)
    medrag = f"fixed-{min(2, settings.levels)}"
    fused = [f"fused-paper-{level}" for level in settings.level_range]
    hops = [f"hop-{hop}" for hop in range(GRAPH.of(settings).hops + 1)]
    tables: list[pd.DataFrame] = []
    verdicts: dict[str, dict[str, tuple[Verdict, str]]] = {"medrag": {}, "fused": {}, "alike": {}, "mogg-paper": {}}
    for name, part in scored.items():
        levels = _compared(lab, part, f"{name}, levels", ["mog-paper", medrag, *fused])
        if levels is not None:
            tables.append(levels)
            er = levels[(levels["measure"] == "ER") & (levels["cell"] != "mog-paper")].set_index("cell")
            for key, methods in (("medrag", [medrag]), ("fused", fused)):
                here = er.loc[[m for m in methods if m in er.index]]
                if len(here):
                    rival = here.loc[here["value"].idxmax()]
                    figures = f"ER of {rival.name} against mog-paper {difference_text(rival)}"
                    verdicts[key][name] = (greater(turned(rival)), figures)
        graph = _compared(lab, part, f"{name}, sentence graph", ["mogg-paper", "mogg-uniform", *hops])
        if graph is not None:
            tables.append(graph)
            er = graph[graph["measure"] == "ER"].set_index("cell")
            if "mogg-uniform" in er.index:
                row = er.loc["mogg-uniform"]
                figures = f"ER of mogg-uniform against mogg-paper {difference_text(row)}"
                verdicts["mogg-paper"][name] = (greater(turned(row)), figures)
        unweighted = _compared(lab, part, f"{name}, graph without router", [medrag, "mogg-uniform"])
        if unweighted is not None:
            tables.append(unweighted)
            row = score_row(unweighted, f"{name}, graph without router", "mogg-uniform", "ER")
            verdicts["alike"][name] = (equivalence(row), f"ER of mogg-uniform against {medrag} {difference_text(row)}")
    table9 = "Mix-of-Granularity, table 9 and appendix K"
    return Findings(
        joined(tables),
        claims=[
            *over_sets(table9, "MoG finds more than MedRAG, which has one level.", verdicts["medrag"]),
            *over_sets(
                "Ours: no ablation of Mix-of-Granularity is about MoG's router",
                "A router's weights are better than equal weights (with the best level of returned chunks).",
                verdicts["fused"],
            ),
            *over_sets(table9, "MoGG without its router is as good as MedRAG.", verdicts["alike"]),
            *over_sets(table9, "MoGG is better with its router than without.", verdicts["mogg-paper"]),
            untestable(
                table9,
                "With Llama 3, MoG and MoGG answer more questions than MedRAG, and fewer than chain of thought alone.",
                "This is about the accuracy of a language model's answers; here only the passages are compared.",
            ),
        ],
    )


def _compared(lab: Lab, part: pd.DataFrame, label: str, methods: Sequence[str]) -> pd.DataFrame | None:
    """Return the first of some methods against the others that were scored."""
    present = [method for method in methods if method in set(part["method"])]
    if methods[0] not in present or len(present) < 2:
        return None
    cells = [part[part["method"] == method].rename(columns={"method": "cell"}) for method in present]
    return score_rows(label, cells, headline_measures(lab.settings.k), methods[0], lab.seed)


def oracle_gap(lab: Lab) -> Findings:
    """Return the share of the gap between the best single level and the best known weights that MoG closes.

    The best level is chosen again in every resample, so the interval includes the uncertainty of that choice.
    """
    rows = []
    for name, part in _scored(lab).items():
        wide = part.pivot(index=["question", "document"], columns="method", values="ER")
        fixed = [f"fixed-{level}" for level in lab.settings.level_range if f"fixed-{level}" in wide]
        if not fixed or not {"mog-paper", "oracle-paper"} <= set(wide):
            continue
        values = wide[["mog-paper", "oracle-paper", *fixed]].to_numpy(np.float64)
        totals = by_document(values, wide.index.get_level_values("document").to_numpy(str))
        means = resampled_means(totals, RESAMPLES, lab.seed)
        mog, oracle, floor = means[:, 0], means[:, 1], means[:, 2:].max(axis=1)
        # If the gap may be zero, its share is meaningless.
        gap = ends(oracle - floor, totals)
        levels = wide[fixed].mean()
        row: dict[str, Any] = {
            "question set": name,
            "best level": str(levels.idxmax()),
            "level": float(levels.max()),
            "mog-paper": float(wide["mog-paper"].mean()),
            "oracle-paper": float(wide["oracle-paper"].mean()),
        }
        row["gap"] = interval(row["oracle-paper"] - row["level"], float(gap[0]), float(gap[1]))
        row["closed"] = "the gap may be zero"
        if gap[0] > 0:
            low, high = ends((mog - floor) / (oracle - floor), totals)
            share = (row["mog-paper"] - row["level"]) / (row["oracle-paper"] - row["level"])
            row["closed"] = f"{share:.0%} [{low:.0%}, {high:.0%}]"
        rows.append(row | {"n": len(values), "documents": len(totals.sizes)})
    return Findings(
        tables={"share of the gap between best single level and oracle-paper that mog-paper closes (ER)": rows}
    )


def _scored(lab: Lab) -> dict[str, pd.DataFrame]:
    """Return the scores of each question from the asset `scores`, by question set."""
    table = pd.read_parquet(lab.read("scores", None).path("per_question.parquet"))
    return {str(name): part for name, part in table.groupby("question_set", sort=False)}


def of_mog(settings: Settings) -> Sequence[str]:
    """Return the assets that MoG needs; none if no router can be trained."""
    if not settings.trains:
        return ()
    return ("questions", *needs([parse("mog-paper", settings)], settings).keys)


def _with(*methods: str, settings: Settings) -> Sequence[str]:
    """Return the asset `scores`, if it has all of these methods."""
    compared = {method.name for method in named_methods(settings)}
    return ("scores",) if settings.trains and compared.issuperset(methods) else ()


def _with_either(settings: Settings) -> Sequence[str]:
    return _with("mog-paper", settings=settings) or _with("mogg-paper", settings=settings)


registered(
    Experiment(
        "k_r",
        "Chunks in the mix",
        "MoG with the k_r best chunks of every level and corpus in the mix (Mix-of-Granularity, figure 5).",
        k_r,
        of_mog,
        lambda settings: EXPERIMENT_SETTINGS.of(settings).k_r,
        version="3",
    ),
    Experiment(
        "router",
        "With and without router",
        "MoG against equal weights (fused-paper-1, …) and against MedRAG's single level; MoGG against equal weights "
        "and against each single hop (Mix-of-Granularity, table 9 and appendix K). Retrieval only.",
        router,
        _with_either,
        version="3",
    ),
    Experiment(
        "oracle-gap",
        "How far from the best weights",
        "Share of the gap between the best single level and the soft labels of the test questions used as weights that "
        "MoG closes, with a bootstrap interval over documents (ours).",
        oracle_gap,
        lambda settings: _with("mog-paper", "oracle-paper", settings=settings),
        version="2",
    ),
)
