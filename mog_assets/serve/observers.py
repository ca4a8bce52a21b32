"""What is told of the questions that an open project answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mog_assets.config import Settings
from mog_assets.registry import OBSERVERS


class Observer(Protocol):
    """Is told of questions: `OBSERVERS.register(name, open)`, where `open(settings, keep)` gives one for a project.

    `keep` says whether the project stays open for many questions.
    """

    def answered(self, questions: Sequence[str], method: str, version: str) -> None:
        """Take note of questions; nothing may be raised, and nobody waits long.

        Args:
            questions: In words; follow-ups as questions that stand alone.
            method: Canonical name of the method that ranked, or of the way of answering.
            version: Of the artefacts that were searched.
        """

    def close(self) -> None:
        """End with the project."""


def opened_observers(settings: Settings, keep: bool) -> dict[str, Observer]:
    """Open all that are registered, by name."""
    return {name: open(settings, keep) for name, open in OBSERVERS.items()}
