"""What `mog doctor` finds."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mog_assets.resources import extras
from mog_assets.resources.errors import MogError

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


def run_check(item: str, check: Callable[..., Iterator[Finding]], *of: Any) -> Iterator[Finding]:
    """Yield what a check finds; that it cannot be made is a finding, too."""
    try:
        yield from check(*of)
    except ModuleNotFoundError as error:
        yield Finding(item, WARNING, extras.missing_package(error, "not checked, which"))
    # An unexpected error of one check is a finding too, and must not hide the other findings.
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        yield Finding(item, PROBLEM, message if isinstance(error, MogError) else f"{type(error).__name__}: {message}")


def get(url: str, headers: Mapping[str, str]) -> tuple[int | None, str]:
    """Return status and body of a URL, or None and the reason if it does not answer in a few seconds."""
    try:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - the user's own endpoint
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
            return response.status, response.read(1_000_000).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return None, f"no answer ({' '.join(str(reason).split())})"
