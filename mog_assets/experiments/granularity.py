"""How many chunks enter the mix, which retriever finds them, and whether a router weighs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluation.measures import headline_measures
from mog_assets.experiments.lab import ALPHA, Claim, Experiment, Findings, Lab, difference_text, score_rows, told
from mog_assets.retrieval.methods import Passages, parse
from mog_assets.routing.retrieve import Retrieval, needs


def k_r(lab: Lab) -> Findings:
    """MoG with more or fewer chunks of each level and corpus in the mix."""
    settings, values = lab.settings, lab.settings.experiments.k_r
    method, tables, claims = parse("mog", settings), [], []
    for name in lab.tested():
        retrieval = lab.retrieval(name)

        def find(value: int, retrieval: Retrieval = retrieval) -> Passages:
            ranker = replace(retrieval.ranker(method.retriever), k_r=value)
            return ranker.rank(method, retrieval.weights("mog"))

        cells = [lab.measured(name, f"k_r = {value}", value, partial(find, value)) for value in values]
        tables.append(score_rows(name, cells, headline_measures(settings.k), f"k_r = {values[0]}", lab.seed))
        rows = [told(tables[-1], name, f"k_r = {value}", "ER") for value in values[1:]]
        moved = [row for row in rows if row["p"] < ALPHA]
        claims.append(
            Claim(
                "Mix-of-Granularity, figure 5",
                "More chunks in the mix than 3 of each level do not help much.",
                "not seen" if any(row["difference"] > 0 for row in moved) else "seen",
                f"{name}: ER against k_r = {values[0]}: "
                + "; ".join(f"{row['cell']} {difference_text(row)}" for row in rows),
            )
        )
    return Findings(pd.concat(tables, ignore_index=True), claims=claims)


def _of_mog(settings: Settings) -> Sequence[str]:
    """What MoG is ranked from; nothing where no router can be trained."""
    if not settings.trains_routers:
        return ()
    return ("questions", *needs([parse("mog", settings)], settings).keys)


EXPERIMENTS = (
    Experiment(
        "k_r",
        "Chunks in the mix",
        "MoG with the k_r best chunks of every level and corpus in the mix (Mix-of-Granularity, figure 5).",
        k_r,
        _of_mog,
        lambda settings: settings.experiments.k_r,
    ),
)
