"""What `mog doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, PROBLEM = "ok", "warning", "problem"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        state: `ok`, `warning` or `problem`.
        found: What was found.
        remedy: What to do; empty if nothing.
    """

    item: str
    state: str
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.state:8} {self.item:14} {self.found}" + (f": {self.remedy}" if self.remedy else "")
