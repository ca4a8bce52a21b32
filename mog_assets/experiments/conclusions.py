"""Figures of several question sets together: their table, and what becomes of a paper's claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
    verdict = every(own for own, _ in found.values())
    mixed = len({own for own, _ in found.values()}) > 1
    said = [f"{name}{f' ({own})' if mixed else ''}: {figures}" for name, (own, figures) in found.items()]
    return [Claim(paper, claim, verdict, "; ".join(said))]


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Whether all of some things, at least one, are seen: one that is not decides, else one that cannot tell."""
    there = set(verdicts)
    order: tuple[Verdict, ...] = ("not seen", "undecided", "not testable here", "seen")
    return next(one for one in order if one in there)


def denied(verdict: Verdict) -> Verdict:
    """What becomes of the contrary of a claim."""
    contrary: dict[Verdict, Verdict] = {"seen": "not seen", "not seen": "seen"}
    return contrary.get(verdict, verdict)


def turned(row: pd.Series) -> pd.Series:
    """A row of `score_rows` as its baseline would have it: by how much the baseline is better."""
    found = row.copy()
    found["difference"], found["difference_low"] = -row["difference"], -row["difference_high"]
    found["difference_high"] = -row["difference_low"]
    return found


def untestable(paper: str, claim: str, because: str) -> Claim:
    """A claim that needs what is not here."""
    return Claim(paper, claim, "not testable here", because)
