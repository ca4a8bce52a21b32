"""Checks of trained rankings before they replace the previous ones."""

from __future__ import annotations

from mog_assets.recipe import Check, Work


def _used(work: Work) -> str | None:
    kept = work.info.get("kept")
    return str(kept) if kept else None


NEW_MODEL_IS_USED = Check(
    "new_model_is_used", "The new model was not significantly worse than the previous one.", _used, blocking=False
)
