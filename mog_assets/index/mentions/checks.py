"""Checks of mentions before their manifest is written."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq

from mog_assets.build.recipe import Check, Work
from mog_assets.index.mentions.folding import folded

# Places of each bucket that are read again.
_SAMPLE = 50


def _places_are_names(work: Work) -> str | None:
    documents, stored = work.input("documents"), work.tools.store.read("names")
    table = pq.read_table(stored.path("distinct.parquet"), columns=["digest", "name"])
    names = dict(zip(table["digest"].to_pylist(), table["name"].to_pylist(), strict=True))
    for bucket in documents.names("bucket"):
        places = pq.read_table(work.draft.path(bucket))
        if not len(places):
            continue
        texts = pq.read_table(documents.path(bucket), columns=["text"])["text"]
        rows = np.unique(np.linspace(0, len(places) - 1, _SAMPLE).astype(int))
        for place in places.take(rows).to_pylist():
            text = texts[place["document"]].as_py() if place["document"] < len(texts) else ""
            text_there = folded(text[place["start"] : place["end"]])[0].strip()
            if text_there != names.get(place["name"]):
                where = f"{bucket}, document {place['document']}, {place['start']} to {place['end']}"
                return f"{where}: expected the name {names.get(place['name'])!r}, got {text_there!r}"
    return None


PLACES_ARE_NAMES = Check(
    "places_are_names", "A sample of the places where a name stands has that name.", _places_are_names
)
