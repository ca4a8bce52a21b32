"""Combine several question sets: one table of figures, and the verdict on a paper's claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from mog_assets.papers.experiments.lab import Claim, Verdict


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return concatenated tables; an empty table if there are none."""
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def over_sets(paper: str, claim: str, verdicts: Mapping[str, tuple[Verdict, str]]) -> list[Claim]:
    """Return a claim over all question sets; no claim without question sets.

    Args:
        paper: Paper with section, table or figure.
        claim: The claim in one sentence.
        verdicts: Verdict and figures by question set. One `not seen` decides; else one that is undecided.
    """
    if not verdicts:
        return []
    verdict = every(verdict_of for verdict_of, _ in verdicts.values())
    mixed = len({verdict_of for verdict_of, _ in verdicts.values()}) > 1
    parts = [f"{name}{f' ({one})' if mixed else ''}: {figures}" for name, (one, figures) in verdicts.items()]
    return [Claim(paper, claim, verdict, "; ".join(parts))]


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Return `seen` if all verdicts (at least one) are: one `not seen` decides, else one that is undecided."""
    present = set(verdicts)
    order: tuple[Verdict, ...] = ("not seen", "undecided", "not testable here", "seen")
    return next(one for one in order if one in present)


def denied(verdict: Verdict) -> Verdict:
    """Return the verdict on the contrary of a claim."""
    contrary: dict[Verdict, Verdict] = {"seen": "not seen", "not seen": "seen"}
    return contrary.get(verdict, verdict)


def turned(row: pd.Series) -> pd.Series:
    """Return a row of `score_rows` with row and baseline swapped: by how much the baseline is better."""
    changed = row.copy()
    changed["difference"], changed["difference_low"] = -row["difference"], -row["difference_high"]
    changed["difference_high"] = -row["difference_low"]
    return changed


def untestable(paper: str, claim: str, because: str) -> Claim:
    """Return a claim that needs something this project does not have."""
    return Claim(paper, claim, "not testable here", because)
