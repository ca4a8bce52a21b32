"""Checks of the history."""

from __future__ import annotations

from mog_assets.build.recipe import Check, Work


def _no_drop(work: Work) -> str | None:
    return work.info["drop"]


NO_SIGNIFICANT_DROP = Check(
    "no_significant_drop",
    "No method has significantly lower evidence recall than in the last accepted evaluation.",
    _no_drop,
    blocking=False,
)


def _lost(work: Work) -> str | None:
    return f"lost by damage: {'; '.join(work.info['lost'])}" if work.info["lost"] else None


NOTHING_LOST = Check(
    "nothing_is_lost",
    "The history is complete: no evaluation has been lost.",
    _lost,
    blocking=False,
)
