"""Checks of the topics of chunks before their manifest is written."""

from __future__ import annotations

from mog_assets.build.recipe import Check, Work
from mog_assets.papers.topics.assign import Assigned, file_name, read_assigned
from mog_assets.papers.topics.model import open_model


def drafted(work: Work, level: int) -> Assigned:
    """Return topics of the chunks of a level, from the draft."""
    names = sorted(name for name in work.draft.files if name.startswith(file_name(level, "bucket")))
    return read_assigned([work.draft.path(name) for name in names])


def _every_chunk(work: Work) -> str | None:
    count = len(open_model(work.tools.store.read("topics/model")).centroids)
    for level in work.settings.level_range:
        assigned = drafted(work, level)
        chunks = int(work.input(f"embeddings/level_{level}").manifest.counts["vectors"])
        if len(assigned) != chunks:
            return f"level {level} has {chunks} chunks, {len(assigned)} have a topic"
        wrong = (assigned["topic"] < -1) | (assigned["topic"] >= count)
        wrong |= ~((assigned["probability"] >= 0) & (assigned["probability"] <= 1))
        if wrong.any():
            return f"{int(wrong.sum())} chunks of level {level} have an unknown topic, or no probability"
    return None


EVERY_CHUNK = Check(
    "every_chunk_has_a_topic",
    "Every chunk has a probability, and a topic of the model unless it is an outlier.",
    _every_chunk,
)
