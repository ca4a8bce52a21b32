"""How much of the evidence passages have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def share(passages: Iterable[Any], evidence: Sequence[Any]) -> float:
    """The share of the characters of some evidence that is in passages; all have `corpus`, `doc`, `start`, `end`."""
    covered = total = 0
    spans = [span for passage in passages for span in passage.spans]
    for e in evidence:
        within = [span for span in spans if (span.corpus, span.doc) == (e.corpus, e.doc)]
        covered += len({at for span in within for at in range(max(span.start, e.start), min(span.end, e.end))})
        total += e.end - e.start
    return covered / total
