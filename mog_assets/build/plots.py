"""Helpers for plots."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_BYTES = 60_000


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """Return an empty figure; width and height in inches."""
    # `Figure` instead of pyplot: pyplot keeps every figure in memory and needs a display.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def png(figure: Figure) -> bytes:
    """Return the figure as PNG, at the highest resolution that stays below `MAX_BYTES`."""
    from PIL import Image

    data = b""
    for dpi in (110, 90, 72, 56):
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
        # A palette: text and lines need few colours, and one byte per pixel instead of four.
        small = io.BytesIO()
        Image.open(buffer).convert("RGB").quantize(64).save(small, format="png", optimize=True)
        data = small.getvalue()
        if len(data) < MAX_BYTES:
            break
    return data


def plain(text: str) -> str:
    """Return text escaped so that matplotlib does not read it as a formula."""
    return str(text).replace("$", r"\$")
