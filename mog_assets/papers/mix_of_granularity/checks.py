"""Checks of soft labels and routers before they replace the previous ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from mog_assets.build.recipe import Check, Work
from mog_assets.papers.mix_of_granularity import router
from mog_assets.papers.mix_of_granularity.settings import SOFT_LABELS
from mog_assets.search.models import ARRAYS


def soft_label_values(granularities: int) -> Check:
    """Check of labels with this number of granularities."""

    def values(work: Work) -> str | None:
        table = pd.read_parquet(work.draft.path("labels.parquet"))
        first, second = SOFT_LABELS.of(work.settings).values
        expected = np.sort(np.array([first, second, *[0.0] * granularities][:granularities], np.float32))
        rows = np.sort(np.stack(table["label"].to_numpy()).astype(np.float32), axis=1) if len(table) else expected[None]
        wrong = int((~np.isclose(rows, expected).all(axis=1)).sum()) if rows.shape[1] == granularities else len(rows)
        return f"{wrong} of {len(rows)} labels are not {first}/{second}/0 of {granularities}" if wrong else None

    return Check("label_values", "Every label has each of the two values once, and 0 elsewhere.", values)


def _alive(work: Work) -> str | None:
    # What had too few questions says so itself, and has no weights.
    if work.info.get("untrained"):
        return None
    weights = load_file(work.draft.path(ARRAYS))
    if bad := [name for name, array in weights.items() if not np.isfinite(array).all()]:
        return f"{', '.join(bad)}: not all weights are finite"
    # The draft is checked by its file on generated queries: its outputs must differ between any two directions.
    size = weights["layer0.weight"].shape[1]
    outputs = router.predict(weights, np.concatenate([np.eye(size), -np.eye(size)]).astype(np.float32))
    return router.weights_fault(outputs, "directions")


WEIGHTS_ALIVE = Check(
    "weights_finite_and_not_constant", "Router weights are finite, and outputs depend on the query vector.", _alive
)

ROUTER_IS_TRAINED = Check(
    "router_is_trained",
    "There were enough questions to train the router.",
    lambda work: work.info.get("untrained"),
    blocking=False,
)
