"""Headers and footers of the pages of a PDF file: lines at the edge of a page that stand on others, too."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from mog_assets.documents.formats.pdf_lines import Box, Line

# What is looked at of a page at its top and at its bottom: of its height, and rows of lines.
_MARGIN, _MOST_ROWS = 0.14, 6
# Pages on which a line has to stand.
_PAGES = 3
# How much larger than the usual they may be; the white between them and the text, in heights; and how much more that
# is than from one line of the text to the next: the head of a table is as near to its rows as they are to one another.
_LARGE, _WHITE, _APART = 1.2, 0.4, 1.25
# Of the pages from the first to the last that has a line: if more have it, it is no heading.
_DENSE = 0.8
# Stands for a number that counts the pages.
_COUNT = "\0"
_NAMES = r"pages?|pg|p|of|seite|von|p[aá]gina|de|di|sur|strona|sida|side|стр|из"
# At the start or the end of a line or cell, or after a name of pages: within a sentence it does not count them.
_NUMBER = re.compile(
    rf"(?P<before>(?:^|\||\b(?:{_NAMES})\b|[第/])\W*)?(?<!\w)(?P<number>\d+|[ivxl]+)(?!\w)(?P<after>\W*(?:$|\||[页頁]))?",
    re.I,
)
# What has nothing but these says the number of a page.
_PAGE = re.compile(rf"(?:[\W\d第页頁共]|\b(?:[a-z]|[ivxl]+|{_NAMES})\b)+", re.I)
# Lines of one level, with their boxes.
_Row = list[tuple[Line, Box]]


def without_running(
    pages: Sequence[list[Line]], edges: Sequence[tuple[float, float]]
) -> tuple[list[list[Line]], list[str], int]:
    """Take the headers and footers out of pages.

    A line is one if it stands on at least three pages, the same but for a number that counts the pages, is not large,
    and is apart from the text; and if text starts or ends where it stands on fewer pages near these. A page that has
    nothing else keeps them.

    Returns:
        The lines that are left of each page, each text once that was taken out and says more than the number of a
        page, and the number of lines taken out.
    """
    heights = [line.box.height for lines in pages for line in lines if line.box]
    large = _LARGE * median(heights) if heights else 0.0
    rows = [_rows(lines) for lines in pages]
    taken: dict[int, str] = {}
    for end in (0, 1):
        outermost = [rows_of[:: -1 if end else 1][: _MOST_ROWS + 2] for rows_of in rows]
        margins = [(edge[end], _MARGIN * (edge[1] - edge[0])) for edge in edges]
        running = _running(outermost, margins, large)
        for number, rows_of in enumerate(outermost):
            taken |= _taken(rows_of, number, running)
    left, texts, count = [], dict[str, str](), 0
    for lines in pages:
        rest = [line for line in lines if id(line) not in taken]
        left.append(rest or lines)
        for line in lines if rest else ():
            if id(line) in taken:
                count += 1
                texts.setdefault(taken[id(line)], "" if _PAGE.fullmatch(line.text) else line.text)
    return left, [text for text in dict.fromkeys(texts.values()) if text], count


def _rows(lines: list[Line]) -> list[_Row]:
    """Return the lines of a page from bottom to top."""
    rows: list[_Row] = []
    for line, box in sorted(((line, line.box) for line in lines if line.box), key=lambda one: one[1].base):
        if not rows or box.base - rows[-1][0][1].base >= box.height / 2:
            rows.append([])
        rows[-1].append((line, box))
    return rows


def _running(pages: list[list[_Row]], margins: list[tuple[float, float]], large: float) -> set[str]:
    """Return the forms of headers or footers."""
    places = defaultdict[str, dict[int, tuple[Line, Box]]](dict)
    for number, (rows, (edge, margin)) in enumerate(zip(pages, margins, strict=True)):
        for at, row in enumerate(rows[:_MOST_ROWS]):
            inside = abs(row[0][1].base - edge) < margin
            for line, box in row if inside or not at else ():
                # What counts the pages may follow the text, wherever that ends.
                for form in _forms(line.text, number)[0 if inside else 1 :]:
                    places[form][number] = line, box
    # How near the edge the text of a page comes, which stands on no other.
    alone = [math.inf] * len(pages)
    for number, (rows, (edge, _)) in enumerate(zip(pages, margins, strict=True)):
        for row in reversed(rows):
            if all(len(places[form]) < 2 for line, _ in row for form in _forms(line.text, number)):
                alone[number] = abs(row[0][1].base - edge)

    def runs(form: str, on: dict[int, tuple[Line, Box]]) -> bool:
        is_certain = _PAGE.fullmatch(form) or _COUNT not in form
        least: float = 2 if is_certain and len(pages) <= _PAGES else _PAGES
        if any(box.height > large for _, box in on.values()):
            least = max(least, len(pages) / 2 if is_certain else math.inf)
        if len(on) < least:
            return False
        first, last = min(on), max(on)
        if _COUNT in form or (len(on) > max(_PAGES, _DENSE * (last - first + 1)) and not on[first][0].row):
            return True
        near = set(range(max(2 * first - last - 1, 0), min(2 * last - first + 2, len(pages)))) - set(on)
        place = abs(on[first][1].base - margins[first][0]) + on[first][1].height / 2
        return sum(alone[number] < place for number in near) < len(on)

    return {form for form, on in places.items() if runs(form, on)}


def _taken(rows: list[_Row], number: int, running: set[str]) -> dict[int, str]:
    """Return the ids of the lines of a page that are headers, or footers, with their forms."""
    taken: dict[int, str] = {}
    matches: dict[int, str] = {}
    for at, (row, inner) in enumerate(zip(rows, rows[1:], strict=False)):
        forms = {id(line): next((form for form in _forms(line.text, number) if form in running), "") for line, _ in row}
        if not all(forms.values()):
            break
        matches |= forms
        apart, pitch = (
            abs(one[0][1].base - other[0][1].base)
            for one, other in ((row, inner), (inner, (rows[at + 2 :] or [inner])[0]))
        )
        counts = all(_COUNT in form for form in forms.values())
        # A quarter of a line is below its baseline.
        upper, lower = sorted((row, inner), key=lambda one: -one[0][1].base)
        white = apart - max(box.height for _, box in upper) / 4 - max(box.height for _, box in lower) * 3 / 4
        if white >= _WHITE * row[0][1].height and (counts or apart >= _APART * pitch):
            taken |= matches
    return taken


@lru_cache(maxsize=1 << 14)
def _forms(text: str, number: int) -> tuple[str, ...]:
    """Return a text, and what it is if one of its numbers counts the pages."""
    forms = [text]
    for match in _NUMBER.finditer(text):
        start, end = match.span("number")
        if match["before"] is not None or match["after"] is not None:
            counted = text[start:end].isdecimal() and end - start < 9
            more = int(text[start:end]) - number if counted else ""
            forms.append(f"{text[:start]}{_COUNT}{more}{_COUNT}{text[end:]}")
    return tuple(forms)
