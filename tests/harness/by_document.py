"""Values of questions that their documents decide, and tables of two methods with them."""

import numpy as np
import pandas as pd

from mog_assets.evaluate.measures import measure_names

# Nine documents of ten questions, and values that documents decide: by question a clear difference, by document none.
DOCUMENTS = np.repeat([f"c/d{i}" for i in range(9)], 10)
NOISE = np.random.default_rng(0).normal(0, 0.02, 90)
EFFECTS = np.repeat([0.5, 0.4, 0.4, 0.3, 0.3, -0.1, -0.2, -0.2, -0.1], 10) + NOISE
NAMES = np.array([f"q{i:02d}" for i in range(90)])


def table_of(effects, name="cell", **others):
    """Two cells, the second better by `effects`."""
    base = pd.DataFrame({"question": NAMES, "document": DOCUMENTS, name: "base", "ER": 0.4, **others})
    return pd.concat([base, base.assign(**{name: "mog-paper", "ER": 0.4 + effects})], ignore_index=True)


def measured(effects, **others):
    table = table_of(effects, "method", question_set="s", split="dev", answered=True)
    return table.assign(evidence="spans", **{name: table["ER"] for name in measure_names(2) if name != "ER"}, **others)
