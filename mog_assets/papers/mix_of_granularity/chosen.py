"""Assets that compare the granularities a router chooses for test questions with those for its training questions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.config import Settings
from mog_assets.evaluate.plots import stacked
from mog_assets.evaluate.runs_assets import scored_questions
from mog_assets.evaluate.significance import by_document
from mog_assets.papers.mix_of_granularity import router
from mog_assets.papers.mix_of_granularity.families import RouterFamily, families
from mog_assets.papers.mix_of_granularity.shifts import shift

# The levels chosen for test questions differ from those in training if this share of questions would have to change
# level (a population stability index of about .2 for two levels) and the p-value is below ALPHA.
SHIFTED = 0.15
ALPHA = 0.05


def build_chosen(family: RouterFamily, work: Work) -> None:
    """Compare the granularities chosen for test questions with those for training questions.

    A question set without training questions is compared with all training questions. Documents are permuted, not
    questions.
    """
    stored, settings, encoder = work.input(family.router), work.settings, work.tools.encoder
    training = pd.read_parquet(stored.path("questions.parquet"))
    levels = len(family.names)
    choices = np.eye(levels)[training["chosen"].to_numpy()]
    weights = router.open_router(stored, encoder.fingerprint, levels).weights
    work.info["chosen"] = []
    rows, bars = [], []
    for name, questions in scored_questions(work).items():
        if not questions:
            continue
        of_set = (training["question_set"] == name).to_numpy()
        of_set = of_set if of_set.any() else np.ones(len(training), bool)
        before = by_document(choices[of_set], training["group"].to_numpy(str)[of_set])
        outputs = router.predict(weights, encoder.questions.encode([question.question for question in questions]))
        now = by_document(router.choices(outputs), [question.document for question in questions])
        counts = [totals.sums.sum(axis=0).astype(int) for totals in (before, now)]
        distance, p = shift(before, now, seed=settings.seed)
        row = {"training": counts[0].tolist(), "test": counts[1].tolist(), "distance": distance, "p": p}
        work.info["chosen"].append({"name": name, **row})
        rows += [
            {"question set": name, "chosen": what, "training": int(a), "test": int(b)}
            for what, a, b in zip(family.names, *counts, strict=True)
        ]
        bars += [(f"{name}: training", counts[0]), (f"{name}: test", counts[1])]
    path, written = work.file("chosen.parquet", stored.manifest.version, work.input("questions").manifest.version)
    if not written:
        with work.writing(path) as temporary:
            pd.DataFrame(rows).to_parquet(temporary)
    work.counts["question sets"] = len(work.info["chosen"])
    if rows:
        work.show_table("chosen", rows)
        shares = [(name, counts / max(counts.sum(), 1)) for name, counts in bars]
        # From light to dark, as levels go from fine to coarse.
        greys = [str(0.92 - 0.75 * level / levels) for level in range(1, levels + 1)]
        work.show_plot(
            f"chosen by the router of {family.kind} in training and test",
            stacked(shares, family.names, greys, "share of questions", "Chosen by the router"),
        )


def _as_in_training(work: Work) -> str | None:
    faults = [
        f"{row['name']}: {_shares(row['test'])} of {sum(row['test'])} test questions against "
        f"{_shares(row['training'])} of {sum(row['training'])} training questions (distance {row['distance']:.2f}, "
        f"p = {row['p']:.4f})"
        for row in work.info["chosen"]
        if row["distance"] >= SHIFTED and row["p"] < ALPHA
    ]
    return f"chosen, finest first: {'; '.join(faults)}" if faults else None


def _shares(counts: list[int]) -> str:
    return " / ".join(f"{count / max(sum(counts), 1):.0%}" for count in counts)


AS_IN_TRAINING = Check(
    "levels_as_in_training",
    "The router chooses each granularity about as often for test questions as for its training questions.",
    _as_in_training,
    blocking=False,
)


def recipes(settings: Settings) -> list[Recipe]:
    """Return an asset for each router, where there are test questions."""
    if not settings.tests or not settings.trains:
        return []
    return [
        Recipe(
            key=f"{family.router}_chosen",
            build=partial(build_chosen, family),
            description=f"The granularities that the router of `{family.kind}` chooses for test questions, beside "
            "those for its training questions.",
            group="mix_of_granularity",
            deps=("questions", family.router),
            partitioned=False,
            settings=lambda tools: [
                tools.settings.seed,
                tools.encoder.identity,
                {name: q.test for name, q in tools.settings.question_sets.items()},
            ],
            checks=(AS_IN_TRAINING,),
            kinds=("parquet",),
        )
        for family in families(settings)
    ]
