"""Recognise the text of a page that is only an image, by RapidOCR, whose models are part of its package."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from mog_assets.documents.formats.pdf_lines import Recognised

# Of the image that is recognised, in pixels for an inch: letters of 10 points have 28 pixels. A larger page has fewer.
_RESOLUTION, _MOST_PIXELS = 200, 20_000_000
# What is recognised with less is mostly none.
_LEAST_SCORE = 0.5
# Less on a whole page is that of one that may be upside down.
_SURE_SCORE = 0.85
# Lines on their side are turned unless that lowers the score by more.
_CLOSE = 0.05


@cache
def _recogniser() -> Any:
    from rapidocr import RapidOCR

    # What tells whether a text is upside down takes a 9 alone for a 6.
    return RapidOCR(params={"Global.log_level": "critical", "Global.use_cls": False})


def recognised(page: Any) -> list[Recognised]:
    """Return the texts on a page, from top to bottom and from left to right, whichever way up it was scanned.

    Args:
        page: Of pypdfium2.
    """
    width, height = page.get_size()
    scale = min(_RESOLUTION / 72, (_MOST_PIXELS / max(width * height, 1)) ** 0.5)
    image = page.render(scale=scale, rev_byteorder=True).to_numpy()[..., :3]
    texts, score, lying = _seen(image, scale)
    # Upside down, letters are nonsense with a low score; on their side they are read, but not as lines.
    turns = (1, 3) if lying else (2,) if texts and score < _SURE_SCORE else ()
    turned = max(
        (_seen(np.ascontiguousarray(np.rot90(image, turn)), scale) for turn in turns),
        key=lambda seen: seen[1],
        default=None,
    )
    return turned[0] if turned and turned[1] > score - (_CLOSE if lying else 0) else texts


def _seen(image: Any, scale: float) -> tuple[list[Recognised], float, bool]:
    """Return the texts of an image, their mean score by length, and whether most lie on their side."""
    result = _recogniser()(image)
    texts, scores, lying = [], 0.0, 0
    for box, text, score in (
        zip(result.boxes, result.txts, result.scores, strict=True) if result.boxes is not None else ()
    ):
        (left, top), (right, bottom) = box.min(axis=0) / scale, box.max(axis=0) / scale
        if text.strip():
            scores += score * len(text)
            lying += len(text) * (1 if bottom - top > 2 * (right - left) else -1) if len(text) > 2 else 0
        if score >= _LEAST_SCORE and text.strip():
            base = image.shape[0] / scale - float(bottom)
            texts.append(Recognised(text, float(left), float(right), base, float(bottom - top)))
    characters = sum(len(text) for text in result.txts or ())
    return texts, scores / max(characters, 1), lying > 0
