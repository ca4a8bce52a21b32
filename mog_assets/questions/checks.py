"""Checks of the questions stage."""

from __future__ import annotations

from mog_assets.build.recipe import Check, Work
from mog_assets.questions.splits import unused_splits


def _unused(work: Work) -> str | None:
    sentences = []
    for name, question_set in work.settings.question_sets.items():
        unused = unused_splits(question_set.train, question_set.test, work.info["splits"][name])
        counts = ", ".join(f"{n:,} of split {split}" for split, n in unused.items())
        if counts:
            sentences.append(
                f"question_sets.{name}: questions that are neither trained on nor scored: {counts}; name the split "
                f"under question_sets.{name}.train or .test to use them"
            )
    return "; ".join(sentences) or None


EVERY_SPLIT_IS_USED = Check(
    "every_split_is_used",
    "Every split of a question file is named under train or test.",
    _unused,
    blocking=False,
    repeated=True,
)
