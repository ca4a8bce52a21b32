"""What must hold of soft labels and of a router before they replace what was there."""

from __future__ import annotations

import numpy as np
import pandas as pd

from resources.recipe import Check, Work


def _values(work: Work) -> str | None:
    table = pd.read_parquet(work.draft.path("labels.parquet"))
    first, second = work.settings.soft_labels.values
    levels = work.settings.levels
    expected = np.sort(np.array([first, second, *[0.0] * levels][:levels], np.float32))
    rows = np.sort(np.stack(table["label"].to_numpy()).astype(np.float32), axis=1) if len(table) else expected[None]
    wrong = int((~np.isclose(rows, expected).all(axis=1)).sum())
    return f"{wrong} of {len(rows)} labels are not {first}/{second}/0" if wrong else None


SOFT_LABEL_VALUES = Check("label_values", "Every label has the two values once each, and 0 elsewhere.", _values)


def _alive(work: Work) -> str | None:
    return work.info["fault"]


ROUTER_ALIVE = Check(
    "weights_finite_and_not_constant", "Router outputs are finite and differ between questions.", _alive
)
