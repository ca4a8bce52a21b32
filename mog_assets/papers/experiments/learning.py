"""How good trained rankings are with fewer training questions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.candidates_assets import training_examples
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.papers.experiments.lab import Experiment, Findings, Lab, NothingToMeasure, registered
from mog_assets.resources.errors import MogError
from mog_assets.search import features
from mog_assets.search.methods import METHODS
from mog_assets.search.rankings import models_of
from mog_assets.search.training import FOLDS, Examples, Train, fused_recalls, recalls_of_fewer

# Training questions of the first models; the last are trained on all questions of the other folds.
SIZES = (100, 300, 1000)


def learning_curve(lab: Lab) -> Findings:
    """Return ER of each trained ranking, cross-validated by document, over the number of training questions."""
    settings = lab.settings
    try:
        examples, names = training_examples(lab.read("candidates", None), settings)
    except MogError as reason:
        raise NothingToMeasure(str(reason)) from reason
    if not examples.measured.any():
        raise NothingToMeasure("question_sets: expected training questions with a quote or a relevant document")
    tables = {}
    for kind in models_of(settings):
        title = f"learning curve of {kind}, cross-validated by document"
        tables[title] = _rows(lab, kind, examples, names)
    return Findings(tables=tables)


def _rows(lab: Lab, kind: str, examples: Examples, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per number of training questions: mean ER over the questions that are measured, and its interval."""
    # Cached cells need none; all others share one.
    prepared = cache(partial(_prepared, lab, kind, examples))

    def recalls(size: int | None) -> pd.DataFrame:
        of_size = recalls_of_fewer(*prepared(), size, METHODS[kind].ranking.trainer.threads)
        return pd.DataFrame({"question": names, "ER": of_size})

    rows, measured = [], examples.measured
    by_fold = np.bincount(examples.folds, minlength=FOLDS)
    sizes = [size for size in SIZES if size < len(names) - by_fold.max()]
    fused, documents = fused_recalls(examples)[measured], np.asarray(examples.documents, str)[measured]
    for size in [*sizes, None]:
        cell = lab.cached(f"{kind} {size or 'all'}", size, partial(recalls, size))
        values = cell["ER"].to_numpy()[measured]
        totals = by_document(np.stack([values, values - fused], axis=1), documents)
        (low, gain_low), (high, gain_high) = bootstrap_interval(totals, seed=lab.seed)
        rows.append(
            {
                "training questions": size or int(len(names) - by_fold.min()),
                "ER": float(values.mean()),
                "low": float(low),
                "high": float(high),
                "above fused": float((values - fused).mean()),
                "above fused, low": float(gain_low),
                "above fused, high": float(gain_high),
            }
        )
    return rows


def _prepared(lab: Lab, kind: str, examples: Examples) -> tuple[Examples, Train[Any]]:
    """See `Trainer.prepared`."""
    prepared: tuple[Examples, Train[Any]] = METHODS[kind].ranking.trainer.prepared(
        examples, lab.settings, lambda _: None
    )
    return prepared


def _reads(settings: Settings) -> Sequence[str]:
    return ("candidates",) if settings.trains else ()


registered(
    Experiment(
        "learning-curve",
        "ER over the number of training questions",
        "Each trained ranking with 100, 300, 1,000 and all training questions, on training questions about documents "
        "that it was not trained on (ours).",
        learning_curve,
        _reads,
        lambda settings: [settings.ranking.validation, features.VERSION],
        asks_test_questions=False,
    ),
)
