"""`mix`: gradient-boosted trees that order candidates (LambdaMART, Burges 2010), by LightGBM."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

TREES = 200
OPTIONS: dict[str, Any] = {
    "objective": "lambdarank",
    "num_leaves": 31,
    "learning_rate": 0.06,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.7,
    "lambda_l2": 2.0,
    "lambdarank_truncation_level": 30,
    "min_data_in_leaf": 20,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


def lightgbm() -> Any:
    """LightGBM, loaded after torch.

    Its wheel loads the system's libgomp; with that loaded first, torch's bf16 attention on the CPU is 20 times slower.
    """
    importlib.import_module("torch")
    import lightgbm

    return lightgbm


def train(
    features: np.ndarray, grades: np.ndarray, sizes: np.ndarray, names: Sequence[str], seed: int, trees: int = TREES
) -> Any:
    """A booster.

    Args:
        features: float32 of shape (n, features), candidates of a question together.
        grades: Relevance of every candidate, int of shape (n,).
        sizes: Candidates of every question, in order.
        names: Of the features.
        seed: Of the samples of rows and columns.
        trees: How many.
    """
    library = lightgbm()
    data = library.Dataset(features, grades, group=sizes, feature_name=[name.replace(" ", "_") for name in names])
    return library.train({**OPTIONS, "seed": seed, "num_threads": 0}, data, trees)


def scores(booster: Any, features: np.ndarray) -> np.ndarray:
    """Score of every candidate, float64 of shape (n,)."""
    return np.asarray(booster.predict(features, num_threads=1), np.float64)


def contributions(booster: Any, features: np.ndarray) -> np.ndarray:
    """What each feature adds to the score of every candidate (TreeSHAP), float64 of shape (n, features)."""
    return np.asarray(booster.predict(features, pred_contrib=True, num_threads=1), np.float64)[:, :-1]
