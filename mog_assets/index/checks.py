"""Checks of vectors before their manifest is written."""

from __future__ import annotations

import numpy as np

from mog_assets.build.recipe import Check, Work
from mog_assets.index.layouts import bucket_layout

# Places in a sentence.
_NAMED = 5


def every_text_has_a_vector(level: int) -> Check:
    """An embeddings endpoint gave a vector for every text; the others are named."""

    def run(work: Work) -> str | None:
        missing, documents, chunks = [], work.input("documents"), work.input("chunks/level_1")
        for name in documents.names("bucket") if work.counts["without vector"] else ():
            rows = np.load(work.draft.path(name.replace(".parquet", ".npy")), mmap_mode="r")
            layout = bucket_layout(documents.path(name), chunks.path(name))
            places = zip(*layout.chunk_spans(np.flatnonzero(~rows.any(axis=1)), level), strict=True)
            missing += [f"{layout.documents[document]} ({start}–{end})" for document, start, end in places]
        if not missing:
            return None
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        return (
            f"{len(missing):,} of {int(work.counts['vectors']):,} texts have no vector, because the endpoint gave none "
            f"({', '.join(missing[:_NAMED])}{more}): they are found by their words alone, until their documents change"
        )

    described = "The endpoint gave a vector for every text."
    return Check("every_text_has_a_vector", described, run, blocking=False, repeated=True)
