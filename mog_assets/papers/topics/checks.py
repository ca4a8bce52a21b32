"""Checks of the topics of chunks before their manifest is written."""

from __future__ import annotations

from mog_assets.papers.topics.assign import Assigned, file_name, read_assigned
from mog_assets.papers.topics.model import open_model
from mog_assets.recipe import Check, Work
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact
from mog_assets.tools import Tools


def stored_topics(tools: Tools, corpus: str) -> dict[int, tuple[int, int]]:
    """Per level: points of a corpus that have a topic, and all its points."""
    levels = {level: f"level_{level}" for level in tools.settings.level_range}
    with_topic = {level: tools.qdrant.counts(name, with_topic=True) for level, name in levels.items()}
    return {
        level: (with_topic[level].get(corpus, 0), tools.qdrant.counts(name).get(corpus, 0))
        for level, name in levels.items()
    }


def payloads_hold(tools: Tools, artefact: Artefact) -> bool:
    """Whether as many points have a topic as the artefact says: points lose it when upserted again."""
    try:
        stored = stored_topics(tools, str(artefact.manifest.partition))
    except MogError:
        # Damaged (and now discarded) or not reachable: a build repairs it, or reports what is wrong.
        return False
    return all(with_topic == artefact.manifest.info["points"][str(level)] for level, (with_topic, _) in stored.items())


def drafted(work: Work, level: int) -> Assigned:
    """Topics of the chunks of a level, from the draft."""
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


def _payloads(work: Work) -> str | None:
    for level, (with_topic, points) in stored_topics(work.tools, str(work.corpus)).items():
        if with_topic != points or points != work.info["points"][str(level)]:
            return (
                f"collection level_{level} has a topic for {with_topic} of {points} points of corpus {work.corpus}, "
                f"expected {work.info['points'][str(level)]}: run `mog run`"
            )
    return None


PAYLOADS = Check("qdrant_topics", "Every point of this corpus in Qdrant has a topic in its payload.", _payloads)
