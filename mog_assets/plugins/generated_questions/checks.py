"""Checks of the synthesis stage."""

from __future__ import annotations

from mog_assets.build.recipe import Check, Work


def _open(work: Work) -> str | None:
    fault: str | None = work.info["retry"]
    return fault


EVERY_QUESTION_WAS_ANSWERED = Check(
    "every_question_was_answered",
    "The language model answered every request for a question.",
    _open,
    blocking=False,
    repeated=True,
)
