"""Checks of trained rankings before they replace the previous ones."""

from __future__ import annotations

from mog_assets.build.recipe import Check, Work


def _used(work: Work) -> str | None:
    return work.info.get("untrained") or work.info.get("kept")


NEW_MODEL_IS_USED = Check(
    "new_model_is_used",
    "A new model was trained, and is not significantly worse than the previous one.",
    _used,
    blocking=False,
)
