"""Figures of several question sets together: their table, and what becomes of a paper's claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from mog_assets.experiments.lab import Claim, Verdict


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other; an empty one where there are none."""
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def over_sets(paper: str, claim: str, found: Mapping[str, tuple[bool, str]]) -> list[Claim]:
    """A claim that is seen where every question set shows it; no claim where none could be asked.

    Args:
        paper: With section, table or figure.
        claim: In a sentence.
        found: Whether a question set shows it, and the figures that say so, by question set.
    """
    if not found:
        return []
    verdict: Verdict = "seen" if all(shown for shown, _ in found.values()) else "not seen"
    mixed = len({shown for shown, _ in found.values()}) > 1
    said = [
        f"{name}{' (seen)' if mixed and shown else ' (not seen)' if mixed else ''}: {figures}"
        for name, (shown, figures) in found.items()
    ]
    return [Claim(paper, claim, verdict, "; ".join(said))]


def untestable(paper: str, claim: str, because: str) -> Claim:
    """A claim that needs what is not here."""
    return Claim(paper, claim, "not testable here", because)
