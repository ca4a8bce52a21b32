"""Cells of the experiments on labels: routers that are trained and measured for one setting each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.scores import p_said
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.papers.experiments.lab import (
    ALPHA,
    Claim,
    Lab,
    Verdict,
)
from mog_assets.papers.mix_of_granularity import labels, router
from mog_assets.papers.mix_of_granularity.ranker import level_ranker
from mog_assets.papers.mix_of_granularity.settings import ROUTER, SOFT_LABELS
from mog_assets.questions.sets import Question
from mog_assets.resources.errors import MogError
from mog_assets.search.methods import parse
from mog_assets.search.passages import Passages


def spread_of(weights: np.ndarray, documents: np.ndarray, seed: int) -> tuple[Verdict, str]:
    """Return whether the levels with the highest and the lowest mean weight differ."""
    means = weights.mean(axis=0)
    if len(means) < 2:
        return "not testable here", "there is only one level"
    most, least = int(means.argmax()), int(means.argmin())
    # The largest of all differences between levels, corrected for their number.
    tests = len(means) * (len(means) - 1) // 2
    differences = by_document(weights[:, most] - weights[:, least], documents)
    p = min(float(permutation_p(differences, seed=seed)[0]) * tests, 1.0)
    figures = f"mean weight {means[most]:.3f} of level {most + 1}, {means[least]:.3f} of level {least + 1}"
    because = f"{figures}, {p_said(p)} (permutation test over documents, corrected for {tests} pairs of levels)"
    return "seen" if p < ALPHA else "undecided", because


def finest_claim(weights: np.ndarray, documents: np.ndarray, seed: int) -> tuple[Verdict, str]:
    """Return whether level 1 is chosen for more questions than the second most chosen level."""
    best = weights.argmax(axis=1)
    counts = np.bincount(best, minlength=weights.shape[1])
    if len(counts) < 2:
        return "not testable here", "there is only one level"
    rival = 1 + int(counts[1:].argmax())
    differences = by_document((best == 0).astype(float) - (best == rival), documents)
    p = float(permutation_p(differences, seed=seed)[0])
    because = f"level 1 is chosen for {counts[0]} questions, level {rival + 1} for {counts[rival]}, {p_said(p)}"
    if p >= ALPHA:
        return "undecided", because
    return "seen" if counts[0] > counts[rival] else "not seen", because


def differing_sets(paper: str, claim: str, between: Sequence[Mapping[str, Any]]) -> Claim:
    """Return whether chosen levels depend on the question set: one pair that differs by Holm's correction shows it."""
    differing = [row for row in between if row["p"] < ALPHA]
    furthest = sorted(between, key=lambda row: -row["distance"])[:3]
    figures = "; ".join(f"{row['questions']}: distance {row['distance']:.3f}, {p_said(row['p'])}" for row in furthest)
    counted = f"{len(differing)} of {len(between)} pairs differ in the levels chosen"
    # No test can show that distributions are equal.
    return Claim(paper, claim, "seen" if differing else "undecided", f"{counted}; the furthest: {figures}")


def corpora_of(question: Question) -> set[str]:
    """Return those that hold its evidence."""
    return {evidence.corpus for evidence in question.evidence}


def cell_of(method: str, training: str) -> str:
    """Return name of a cell."""
    return f"{method}, trained on {training}"


def values_of(values: tuple[float, float]) -> str:
    """Return label values as they are printed."""
    return f"{values[0]:g}/{values[1]:g}"


def soft_labels_of(lab: Lab, method: str, values: tuple[float, float]) -> pd.DataFrame:
    """Return soft labels of all training questions; computing the similarities takes long."""
    tables = []
    for name, questions in lab.trained_on().items():

        def make(name: str = name, questions: Sequence[Question] = questions) -> pd.DataFrame:
            retrieval = lab.retrieval(name, questions)
            similar = labels.similarities(retrieval, questions, method, graph=False, encode=lab.encode)
            return pd.DataFrame(similar, columns=[f"level_{level}" for level in lab.settings.level_range])

        similarities = lab.cached(f"{name} similarities by {method}", [method], make).to_numpy()
        train = lab.settings.question_sets[name].train
        tables.append(labels.label_table(name, questions, train, similarities, values))
    if not tables:
        raise _untrained()
    return pd.concat(tables, ignore_index=True)


def _untrained() -> MogError:
    return MogError(
        "question_sets: expected training questions with a soft label, got none: name splits with questions "
        "under `train`"
    )


def trained_router(lab: Lab, name: str, table: pd.DataFrame) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return a router trained like the asset: its weights for the test questions of every set, and facts about it.

    The name says what it was trained on.

    Raises:
        MogError: there are too few questions.
    """
    if table.empty:
        raise _untrained()
    table = table.reset_index(drop=True)

    def make() -> pd.DataFrame:
        settings = lab.settings
        vectors = lab.encode(table["text"].tolist()).astype(np.float32)
        with lab.progress(ROUTER.of(settings).epochs, f"epochs trained (at most), {name}") as advance:
            targets, groups = np.stack(table["label"]), table["group"].tolist()
            trained = router.train(vectors, targets, groups, ROUTER.of(settings), settings.seed, advance)
        loss = min(point["validation_loss"] for point in trained.curve)
        parts = []
        for test in lab.tested():
            predicted = router.predict(trained.weights, lab.retrieval(test).vectors)
            parts.append(pd.DataFrame({"test": test, "weights": list(predicted)}))
        return pd.concat(parts, ignore_index=True).assign(best_epoch=trained.best_epoch, loss=loss)

    cached = lab.cached(f"router {name}", training_rows(lab.settings), make)
    predictions = {str(test): np.stack(part["weights"].tolist()) for test, part in cached.groupby("test", sort=False)}
    first = cached.iloc[0]
    facts = {"questions": len(table), "best epoch": int(first["best_epoch"]), "validation loss": float(first["loss"])}
    return predictions, facts


def ranked_by(lab: Lab, name: str, routers: Mapping[str, Mapping[str, np.ndarray]]) -> list[pd.DataFrame]:
    """Return MoG with the weights of each router, as cells."""
    method = parse("mog-paper", lab.settings)

    def find(weights: np.ndarray) -> Passages:
        return level_ranker(lab.retrieval(name), method.retriever, None).weighted(weights)

    return [
        lab.measured(name, cell, training_rows(lab.settings), partial(find, predictions[name]))
        for cell, predictions in routers.items()
    ]


def recall_of(scores: pd.DataFrame, baseline: str) -> list[pd.Series]:
    """Return rows of ER with a comparison with the baseline."""
    here = scores[(scores["measure"] == "ER") & (scores["cell"] != baseline)]
    return [row for _, row in here.iterrows()]


def training_rows(settings: Settings) -> list[Any]:
    """Return the settings that routers depend on."""
    return [
        SOFT_LABELS.of(settings).model_dump(mode="json"),
        ROUTER.of(settings).model_dump(mode="json"),
        settings.seed,
    ]
