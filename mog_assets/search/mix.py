"""`mix`: gradient-boosted trees that order candidates (LambdaMART, Burges 2010), by LightGBM.

Most candidates of a question are easily told from its evidence, and what a tree costs is to look at all of them. So a
few quick trees are trained first, and the trees that are kept see the evidence, the candidates that the first ones
take for it, and some others, without which they would know nothing of those.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.resources import extras

TREES, FIRST_TREES = 70, 15
# Candidates of each question without evidence that trees are trained on: the best by `fused` for the first trees, the
# best by these for the others, and further ones at random for both.
BEST_BY_FUSED, BEST_BY_FIRST, OTHERS = 20, 40, 15
OPTIONS: dict[str, Any] = {
    "objective": "lambdarank",
    "num_leaves": 47,
    "learning_rate": 0.1,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.5,
    "lambda_l2": 2.0,
    "lambdarank_truncation_level": 20,
    "min_data_in_leaf": 40,
    # With more bins trees are no better, and their histograms take more of a core's cache.
    "max_bin": 63,
    "bin_construct_sample_cnt": 50_000,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
FIRST_OPTIONS: dict[str, Any] = {"learning_rate": 0.15, "feature_fraction": 0.7}


def lightgbm() -> Any:
    """Return LightGBM, with the OpenMP of torch where torch is installed.

    Its wheel loads the system's libgomp; with that loaded first, torch's bf16 attention on the CPU was 20 times slower.
    And it imports scikit-learn and pandas where they are installed, for classes that nobody uses here: nine tenths of
    the time that its import takes.

    Raises:
        MogError: it is not installed.
    """
    torch = importlib.util.find_spec("torch")
    for folder in (torch and torch.submodule_search_locations) or ():
        for library in Path(folder, "lib").glob("libgomp.so*"):
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    hidden = [name for name in ("sklearn", "pandas") if not {name, "lightgbm"} & set(sys.modules)]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        with extras.needed("method: mix"):
            import lightgbm
    finally:
        for name in hidden:
            del sys.modules[name]

    # It warns that features without raw data are put together, which is what is wanted; errors are raised.
    logger = logging.getLogger("lightgbm")
    logger.setLevel(logging.ERROR)
    lightgbm.register_logger(logger)
    return lightgbm


def binned(features: np.ndarray, names: Sequence[str], seed: int) -> Any:
    """Return LightGBM's data set of all candidates, from which those of some questions are taken without binning again.

    Args:
        features: float32 of shape (n, features).
        names: Of the features.
        seed: Of the sample of rows that bins are made with.
    """
    library = lightgbm()
    return library.Dataset(features, params=_options(seed), feature_name=_written(names)).construct()


def train(
    data: Any,
    rows: np.ndarray,
    further: np.ndarray,
    names: Sequence[str],
    grades: np.ndarray,
    sizes: np.ndarray,
    seed: int,
    advance: Callable[[], object],
    first: bool = False,
) -> Any:
    """Return booster; in one thread, so that trainings can run side by side and none waits spinning for another's core.

    Args:
        data: Result of `binned`.
        rows: Positions of the candidates to train on, ascending, those of a question together: int64 of shape (n,).
        further: Features of these candidates that are no others' to know, float32 of shape (n, further).
        names: Of the further features.
        grades: Relevance of every candidate, int of shape (n,).
        sizes: Candidates of every question, in order.
        seed: As for `binned`; also of the samples of rows and columns.
        advance: Called after each tree.
        first: Whether these are the quick first trees.
    """
    library, options = lightgbm(), _options(seed)
    part = data.subset(rows, params=options).construct()
    part.add_features_from(library.Dataset(further, params=options, feature_name=_written(names)).construct())
    part.set_label(grades)
    part.set_group(sizes)
    if first:
        options |= FIRST_OPTIONS
    return library.train(options, part, FIRST_TREES if first else TREES, callbacks=[lambda _: advance()])


def _options(seed: int) -> dict[str, Any]:
    return {**OPTIONS, "seed": seed, "num_threads": 1}


def _written(names: Sequence[str]) -> list[str]:
    """Return names of features as LightGBM takes them."""
    return [name.replace(" ", "_") for name in names]


def scores(booster: Any, features: np.ndarray) -> np.ndarray:
    """Score of every candidate, float64 of shape (n,)."""
    return np.asarray(booster.predict(features, num_threads=1), np.float64)


def contributions(booster: Any, features: np.ndarray) -> np.ndarray:
    """Return what each feature adds to the score of every candidate (TreeSHAP), float64 of shape (n, features)."""
    return np.asarray(booster.predict(features, pred_contrib=True, num_threads=1), np.float64)[:, :-1]
