"""Figures of several question sets together: their table, and what becomes of a paper's claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from mog_assets.experiments.lab import Claim, Verdict


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables one below the other; an empty one where there are none."""
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def over_sets(paper: str, claim: str, found: Mapping[str, tuple[Verdict, str]]) -> list[Claim]:
    """A claim over all question sets; no claim where none could be asked.

    Args:
        paper: With section, table or figure.
        claim: In a sentence.
        found: What a question set shows, and the figures that say so, by question set. One that does not show the
            claim decides; else one that cannot tell.
    """
    if not found:
        return []
    verdicts = [verdict for verdict, _ in found.values()]
    order: tuple[Verdict, ...] = ("not seen", "undecided", "not testable here", "seen")
    verdict = next(one for one in order if one in verdicts)
    mixed = len(set(verdicts)) > 1
    said = [f"{name}{f' ({own})' if mixed else ''}: {figures}" for name, (own, figures) in found.items()]
    return [Claim(paper, claim, verdict, "; ".join(said))]


def untestable(paper: str, claim: str, because: str) -> Claim:
    """A claim that needs what is not here."""
    return Claim(paper, claim, "not testable here", because)
