"""Checks of documents and chunks before they replace the previous ones."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq

from mog_assets.build.recipe import Check, Work
from mog_assets.index.layouts import open_layout


def _spans_tile(work: Work) -> str | None:
    documents = work.input("documents")
    for name in documents.names("bucket"):
        lengths = pq.read_table(documents.path(name), columns=["characters"])["characters"].to_numpy()
        table = pq.read_table(work.draft.path(name))
        document, start, end = (table[column].to_numpy() for column in ("document", "start", "end"))
        first = np.concatenate([[True], document[1:] != document[:-1]])
        last = np.concatenate([first[1:], [True]])
        touches = np.where(first, start == 0, start == np.concatenate([[0], end[:-1]]))
        closes = ~last | (end == lengths[document])
        if not (touches.all() and closes.all() and (start < end).all() and len(np.unique(document)) == len(lengths)):
            row = int(np.argmin(touches & closes & (start < end)))
            return f"spans of {name} do not tile their documents, first at row {row}"
    return None


SPANS_TILE = Check(
    "spans_tile", "The spans of every document start at 0, are adjacent, and end at its end.", _spans_tile
)


def halved(level: int) -> Check:
    """Level j has ⌈n/2⌉ of the n chunks of level j − 1, in every document."""

    def run(work: Work) -> str | None:
        below = np.load(work.input(f"chunks/level_{level - 1}").path("counts.npy")).astype(np.int64)
        here = np.load(work.draft.path("counts.npy"))
        layout = open_layout(str(work.corpus), work.input("documents"), work.input("chunks/level_1"))
        counted = np.diff(layout.level_offsets(level))
        # ⌈n/2⌉ computed in another way than in the build, and compared with the layout that every reader uses.
        if not (np.array_equal(here, np.ceil(below / 2)) and np.array_equal(here, counted)):
            return f"level {level} does not have half of the chunks of level {level - 1} in every document"
        return None

    return Check("halves_level_below", f"Every document has ⌈n/2⌉ of its n chunks of level {level - 1}.", run)
