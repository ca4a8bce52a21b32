"""What `mog doctor` finds."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

OK, WARNING, PROBLEM = "ok", "warning", "problem"
_SECONDS = 4.0


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


def get(url: str, headers: Mapping[str, str]) -> tuple[int | None, str]:
    """Status and body of the response of a URL, or None and the reason if it does not answer within a few seconds."""
    try:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - the user's own endpoint
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
            return response.status, response.read(1_000_000).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return None, f"no answer ({' '.join(str(reason).split())})"
