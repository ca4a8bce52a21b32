"""Markdown tables for Dagster's pages and for files; the text of a cell may be untrusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[Mapping[str, Any]], widest: int | None = None) -> str:
    """Return rows as a Markdown table; cells of missing columns are empty.

    Args:
        rows: Values by column name.
        widest: Maximum characters of a cell; longer text is cut and ends in an ellipsis.
    """
    if not rows:
        return "*none*"
    head = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(_cell(name, widest) for name in head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(row.get(name), widest) for name in head) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any, widest: int | None) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    text = " ".join(text.split())
    return escaped(text if widest is None or len(text) <= widest else text[: widest - 1] + "…")


def escaped(text: str) -> str:
    """Return text escaped so that it stays in its cell and makes no element, link or image; intervals stay readable."""
    for characters, instead in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("](", "]\\("), ("![", "!\\[")):
        text = text.replace(characters, instead)
    return text
