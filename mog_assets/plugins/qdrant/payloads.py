"""What other assets know of chunks, told by their points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.plugins.qdrant.ids import stored_ids, unpacked_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact

Payload = dict[str, Any]


def with_payload(recipe: Recipe, levels: Sequence[int], payload: Callable[[Work, int], list[Payload]]) -> Recipe:
    """See `index.vector_stores.VectorStore.with_payload`; one of the keys is `topic`."""

    def build(work: Work) -> None:
        recipe.build(work)
        work.recomputed["payloads set"], work.info["points"] = 0, {}
        for level in levels:
            payloads = payload(work, level)
            work.recomputed["payloads set"] += _set_payloads(work, level, payloads)
            work.info["points"][str(level)] = len(payloads)
        work.shown["place"] = f"payloads in {collections_of(work.tools).place}"

    def settings(tools: Tools) -> Any:
        own, place = recipe.settings(tools), collections_of(tools).place
        return place if own is None else [own, place]

    return replace(
        recipe,
        build=build,
        description=f"{recipe.description.removesuffix('.')}, also written to its Qdrant payload.",
        deps=(*recipe.deps, *(f"{ASSET}/level_{level}" for level in levels)),
        settings=settings,
        checks=(*recipe.checks, _PAYLOADS),
        intact=lambda tools, artefact: recipe.intact(tools, artefact) and _payloads_hold(tools, artefact),
        kinds=(*recipe.kinds, "qdrant"),
    )


def _set_payloads(work: Work, level: int, payloads: Sequence[Payload]) -> int:
    """Write changed values to the payloads of a level's collection, and return the number of payloads written."""
    points = work.input(f"{ASSET}/level_{level}")
    ids = unpacked_ids(stored_ids(points.path("ids.npy")))
    wanted = dict(zip(ids, payloads, strict=True))
    keys = tuple(payloads[0]) if payloads else ()
    with collections_of(work.tools).open(f"level_{level}", int(points.manifest.info["size"])) as collection:
        stored = collection.payloads(str(work.corpus), keys)
        # Missing points are found by the check.
        changed = [identity for identity, payload in wanted.items() if stored.get(identity, payload) != payload]
        # As for points: an interrupted update must not leave a manifest that is valid again when its cause is undone.
        if work.draft.previous and changed:
            work.tools.store.doubt(work.draft.previous)
        with work.progress(len(changed), "payloads set") as advance:
            for first in range(0, len(changed), 1000):
                part = changed[first : first + 1000]
                collection.set_payload(part, [wanted[identity] for identity in part])
                advance(len(part))
    return len(changed)


def _stored_topics(tools: Tools, corpus: str) -> dict[int, tuple[int, int]]:
    """Count the points of a corpus that have a topic, and all its points, per level."""
    collections = collections_of(tools)
    levels = {level: f"level_{level}" for level in tools.settings.level_range}
    with_topic = {level: collections.counts(name, with_topic=True) for level, name in levels.items()}
    return {
        level: (with_topic[level].get(corpus, 0), collections.counts(name).get(corpus, 0))
        for level, name in levels.items()
    }


def _payloads_hold(tools: Tools, artefact: Artefact) -> bool:
    """Tell whether as many points have a topic as the artefact says: points lose it when upserted again."""
    try:
        stored = _stored_topics(tools, str(artefact.manifest.partition))
    except MogError:
        # Damaged (and now discarded) or not reachable: a build repairs it, or reports what is wrong.
        return False
    return all(with_topic == artefact.manifest.info["points"][str(level)] for level, (with_topic, _) in stored.items())


def _payloads(work: Work) -> str | None:
    for level, (with_topic, points) in _stored_topics(work.tools, str(work.corpus)).items():
        if with_topic != points or points != work.info["points"][str(level)]:
            return (
                f"collection level_{level} has a topic for {with_topic} of {points} points of corpus {work.corpus}, "
                f"expected {work.info['points'][str(level)]}: run `mog run`"
            )
    return None


_PAYLOADS = Check("qdrant_topics", "Every point of this corpus in Qdrant has a topic in its payload.", _payloads)
