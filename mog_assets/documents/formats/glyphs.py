"""Lines of a PDF file in scripts that run to the left, or that PDFium reads wrongly: their glyphs by their places."""

from __future__ import annotations

import math
import re
import unicodedata
from functools import cache
from typing import NamedTuple

# Hebrew to Arabic with their presentation forms, and Thai to Khmer.
LEFTWARD = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
PLACED = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
# The least gap that is a blank, in heights of a line.
_BLANK = 0.155
# The same after a vowel whose second half is a glyph of its own; and in points, of places that are the same.
_AFTER, _TOLERANCE = 0.5, 0.02
# What runs to the right within a line to the left, from its end: words with their numbers, or a number.
_RIGHTWARD = re.compile(r"(?=[N. ]*L)[LN](?:[LN. ]*[LN])?|N(?:\.?N)*")
_LEFTWARD = re.compile(r"R(?:[RN. ]*R)?")
_OPENING, _CLOSING = "([{«‹", ")]}»›"
_OTHER = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)


class Glyph(NamedTuple):
    """Text that one glyph stands for, mostly a character, its ends in points, and whether that may be a share.

    Of a glyph that stands for several characters, PDFium gives each the whole, or an equal share of it.
    """

    text: str
    left: float
    right: float
    share: bool = False


def in_order(glyphs: list[Glyph], height: float, gap: float) -> tuple[list[str], bool]:
    """Return the cells of a line.

    Args:
        glyphs: In the order of PDFium, without blanks that it added.
        height: Of the line, in points.
        gap: Between two cells, in heights.

    Returns:
        The texts of the cells, as they are read, and whether they run to the left.
    """
    text = "".join(glyph.text for glyph in glyphs)
    leftward = 2 * len(LEFTWARD.findall(text)) > sum(map(str.isalpha, text))
    gap += 0 if leftward else 1
    placed = sorted(_joined(glyphs, bool(LEFTWARD.search(text))), key=_middle, reverse=leftward)
    cells: list[list[Glyph]] = [[]]
    for number, glyph in enumerate(placed):
        if number:
            above = placed[number - 1]
            free = above.left - glyph.right if leftward else glyph.left - above.right
            if free > gap * height:
                cells.append([])
            elif (
                free > (_AFTER if above.text[-1] in "ำຳ" else _BLANK) * height
                and not (above.text + glyph.text).isspace()
            ):
                cells[-1].append(Glyph(" ", glyph.left, glyph.left))
        cells[-1].append(glyph)
    read = (_leftward(cell) if leftward else _rightward(cell) for cell in cells)
    return [" ".join("".join(glyph.text for glyph in cell).split()) for cell in read], leftward


def _joined(glyphs: list[Glyph], leftward: bool) -> list[Glyph]:
    """Return glyphs with what belongs to them: further letters of a ligature, in its box, and combining marks."""
    joined: list[Glyph] = []
    marks: list[Glyph] = []
    dropped, width_of_box = Glyph("", math.inf, math.inf), 0.0
    for glyph in sorted(glyphs, key=lambda glyph: -glyph.left) if leftward else glyphs:
        last, mark = joined[-1] if joined else dropped, unicodedata.combining(glyph.text[0]) > 0
        width = glyph.right - glyph.left
        beside = min(abs(glyph.left - last.right), abs(glyph.right - last.left)) < _TOLERANCE
        if not leftward and glyph.text in "".join(one.text for one in joined[-6:]):
            # The text of several glyphs is given again with one that stands above an earlier one.
            over = (
                glyph.left < last.right - 0.3 * (last.right - last.left) or abs(glyph.left - dropped.right) < _TOLERANCE
            )
            if (over and glyph.share) or (mark and last.text.endswith(glyph.text)):
                dropped = glyph
                continue
        if glyph[1:] == last[1:] and not glyph.text.isspace():
            joined[-1] = last._replace(text=last.text + glyph.text)
        elif beside and glyph.share and last.share and abs(width - width_of_box) < _TOLERANCE:
            joined[-1] = Glyph(last.text + glyph.text, min(last.left, glyph.left), max(last.right, glyph.right), True)
        elif mark and leftward:
            marks.append(glyph)
        elif joined and unicodedata.category(glyph.text[0]) == "Mn":
            joined[-1] = last._replace(text=last.text + glyph.text, right=max(last.right, glyph.right))
        else:
            joined.append(glyph)
            width_of_box = width
    letters = [_letters(glyph.text) if leftward and not glyph.share else glyph.text for glyph in joined]
    bases = [at for at, glyph in enumerate(joined) if not glyph.text.isspace()]
    for glyph in marks if bases else ():
        letters[min(bases, key=lambda at: abs(_middle(joined[at]) - _middle(glyph)))] += glyph.text
    return [glyph._replace(text=text) for glyph, text in zip(joined, letters, strict=True)]


def _middle(glyph: Glyph) -> float:
    return (glyph.left + glyph.right) / 2


@cache
def _ligatures() -> frozenset[str]:
    forms = (unicodedata.normalize("NFKC", chr(code)) for code in (*range(0xFB1D, 0xFDFC), *range(0xFE70, 0xFEFD)))
    return frozenset(form for form in forms if len(form) > 1)


def _letters(text: str) -> str:
    """Return letters of a ligature as they are read: PDFium turns them round, but not those of presentation forms."""
    text = unicodedata.normalize("NFKC", text) if re.search(r"[\ufb1d-\ufdfb\ufe80-\ufefc]", text) else text
    turned = text[::-1]
    if len(text) < 2 or not LEFTWARD.search(text) or (text in _ligatures() and turned not in _ligatures()):
        return text
    return text if unicodedata.combining(text[-1]) and not unicodedata.combining(text[0]) else turned


def _leftward(glyphs: list[Glyph]) -> list[Glyph]:
    """Return glyphs from right to left as they are read: what runs to the right is turned, brackets face it."""
    glyphs = list(glyphs)
    kinds = "".join(map(_kind, glyphs))
    turned = set[int]()
    for match in _RIGHTWARD.finditer(kinds):
        glyphs[match.start() : match.end()] = glyphs[match.start() : match.end()][::-1]
        turned.update(range(*match.span()))
    for at, glyph in enumerate(glyphs):
        if glyph.text in _OPENING + _CLOSING and at not in turned:
            before = at and not glyphs[at - 1].text.isspace()
            after = at + 1 < len(glyphs) and glyphs[at + 1].text[0].isalnum()
            opens = after and not before
            if before != after and opens != (glyph.text in _OPENING):
                glyphs[at] = glyph._replace(text=glyph.text.translate(_OTHER))
    return glyphs


def _rightward(glyphs: list[Glyph]) -> list[Glyph]:
    """Return glyphs from left to right as they are read: what runs to the left within them is turned."""
    for match in _LEFTWARD.finditer("".join(map(_kind, glyphs))):
        glyphs = [
            *glyphs[: match.start()],
            *_leftward(glyphs[match.start() : match.end()][::-1]),
            *glyphs[match.end() :],
        ]
    return glyphs


def _kind(glyph: Glyph) -> str:
    """Return the kind of a glyph: a letter that runs right or left, a number, what may stand within one, or neutral."""
    kind = unicodedata.bidirectional(glyph.text[0])
    if kind in ("L", "R"):
        return kind
    return "R" if kind == "AL" else "N" if kind in ("EN", "AN") else "." if kind in ("ES", "CS", "ET") else " "
