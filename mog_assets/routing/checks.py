"""What must hold of soft labels before they replace what was there, and what is said of a router."""

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


def _new(work: Work) -> str | None:
    return work.info["kept"]


NEW_ROUTER_IS_USED = Check(
    "new_router_is_used",
    "The router that was trained last is in use; where it failed or was worse, the one before it is.",
    _new,
    blocking=False,
)
