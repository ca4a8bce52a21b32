"""Recognise the text of a page that is only an image, by RapidOCR, whose models are part of its package."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

# Of the image that is recognised, in pixels for an inch: letters of 10 points have 28 pixels. A larger page has fewer.
_RESOLUTION, _MOST_PIXELS = 200, 20_000_000
# What is recognised with less is mostly none.
_LEAST_SCORE = 0.5


class Recognised(NamedTuple):
    """A text on a page, and its box in points: its left and right, its lower edge (up is more) and its height."""

    text: str
    left: float
    right: float
    base: float
    height: float


@cache
def _recogniser() -> Any:
    from rapidocr import RapidOCR

    # What tells whether a text is upside down takes a 9 alone for a 6.
    return RapidOCR(params={"Global.log_level": "critical", "Global.use_cls": False})


def recognised(page: Any) -> list[Recognised]:
    """The texts on a page, from top to bottom and from left to right.

    Args:
        page: Of pypdfium2.
    """
    width, height = page.get_size()
    scale = min(_RESOLUTION / 72, (_MOST_PIXELS / max(width * height, 1)) ** 0.5)
    result = _recogniser()(page.render(scale=scale, rev_byteorder=True).to_numpy()[..., :3])
    if result.boxes is None:
        return []
    texts = []
    for box, text, score in zip(result.boxes, result.txts, result.scores, strict=True):
        if score >= _LEAST_SCORE and text.strip():
            (left, top), (right, bottom) = box.min(axis=0) / scale, box.max(axis=0) / scale
            texts.append(Recognised(text, float(left), float(right), height - float(bottom), float(bottom - top)))
    return texts
