"""Lines of a page of a PDF file, with their places; rows of tables are divided into cells."""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from mog_assets.documents.formats.glyphs import PLACED, Glyph, in_order
from mog_assets.documents.formats.marks import clean

# What PDFium gives for a hyphen at the end of a line.
_HYPHEN = "\ufffe"
_LINE = re.compile(f"[^\r\n{_HYPHEN}]+")
# Hyphens that it leaves, and all at the end of a page.
_HYPHENS = "-\u2010\u00ad"
_LEFT, _LAST = re.compile(r"(?<=[^\W\d_])[\u2010\u00ad]$"), re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad]$")
_WORD = re.compile(r"\S+")
# The marker of an item; symbol fonts have theirs in a private area.
_MARKER = re.compile(r"[•◦▪‣·–*\ue000-\uf8ff-]|\(?\w{1,3}[.)]")
_SYMBOL = re.compile(r"^[\ue000-\uf8ff](?=\s)")
ITEM = re.compile(rf"(?:{_MARKER.pattern})\s")
_CURRENCY = re.compile(r"[$€£¥]")
# Letters with gaps between them, and the most of these, in heights.
_SPACED = re.compile(r"(?<!\S)(?:[^\W\d_]\s+){4,}[^\W\d_](?!\S)|^\s*(?:[\u3040-\u9fff]\s+)+[\u3040-\u9fff]\s*$")
_SPREAD = 0.75
# Characters of a line longer than most of code.
_LONG = 60
# The least width of the characters of a font of one width, in heights.
_WIDE = 0.4
# Letters that are narrow in all fonts but those of one width, and some that are not.
_NARROW, _BROAD = re.compile(r"[iljtfrI.,:;'|!()\[\]]"), re.compile(r"[a-eghkm-qsu-zA-HJ-Z]")
# The gap between two cells of a table, in heights: between words of justified text it is less than one. And before the
# sign of a currency, which stands next to the number on its left.
_CELL_GAP, _CURRENCY_GAP = 1.5, 0.3
# Up to so many heights after the marker of an item, what follows belongs to it.
_ITEM_GAP = 4
# Lines of a cell in the head of a table, and the most heights from one to the next.
_HEAD_LINES, _HEAD_PITCH = 4, 1.6
# Baselines that are as near, in heights, are those of one line: the other is that of a superscript.
_LEVEL = 0.6
# Recognised lines are of one height if the lower has so much of the other's.
_SAME_HEIGHT = 0.7
_CELL = " | "


class Recognised(NamedTuple):
    """A text on a page, and its box in points: its left and right, its lower edge (up is more) and its height."""

    text: str
    left: float
    right: float
    base: float
    height: float


class Box(NamedTuple):
    """Place of a line, in points: its ends, its baseline (up is more) and its height."""

    left: float
    right: float
    base: float
    height: float


class Line(NamedTuple):
    """A line of a page.

    Attributes:
        hyphen: Whether one ends it.
        box: None if it has none.
        row: Whether it has several cells.
        pitch: The width of all its characters, in points; negative if they differ, 0 if it has too few to tell.
        code: Its text with all blanks between its words, if it has a pitch.
        mapped: Whether its font says which letters its glyphs are.
    """

    text: str
    hyphen: bool
    box: Box | None
    row: bool = False
    pitch: float = 0.0
    code: str = ""
    mapped: bool = True


class _Places:
    """Places of the characters of a page, in points; they are counted in UTF-16 units of its text."""

    def __init__(self, page: pdfium.PdfTextPage) -> None:
        self._page = page.raw
        # Made once: a page asks for thousands.
        self._values = [ctypes.c_double() for _ in range(4)]
        self._into = [ctypes.byref(value) for value in self._values]
        self._loose = raw.FS_RECTF()

        self._shift: int | None = None

    def look_at(self, first: int, last: int) -> None:
        """Look at a line from its first character to its last: mostly PDFium counts all between them as text."""
        self._shift = None
        shifts = self.index(first) - first, self.index(last) - last
        self._shift = shifts[0] if shifts[0] == shifts[1] else None

    def index(self, unit: int) -> int:
        """Return PDFium's number of a character, which it gives to what is no text, too."""
        if self._shift is not None:
            return unit + self._shift
        return int(raw.FPDFText_GetCharIndexFromTextIndex(self._page, unit))

    def mapped(self, unit: int) -> bool:
        return raw.FPDFText_HasUnicodeMapError(self._page, self.index(unit)) != 1

    def ends(self, first: int, last: int) -> tuple[float, float] | None:
        """Return where the first character of a word starts and the last ends; None if it is not known."""
        left, right, *_ = self._values
        if not raw.FPDFText_GetCharBox(self._page, self.index(first), *self._into):
            return None
        start = left.value
        if last != first and not raw.FPDFText_GetCharBox(self._page, self.index(last), *self._into):
            return None
        return start, right.value

    def box(self, first: int, last: int) -> Box | None:
        """Return the box from the first character of a line to its last, as high as its font; None if not known."""
        loose, y = self._loose, self._values[1]
        start = self.index(first)
        # Not the lower edge, which differs between fonts.
        if not raw.FPDFText_GetCharOrigin(self._page, start, *self._into[:2]):
            return None
        if not raw.FPDFText_GetLooseCharBox(self._page, start, loose):
            return None
        left, height = loose.left, loose.top - loose.bottom
        if not raw.FPDFText_GetLooseCharBox(self._page, self.index(last), loose):
            return None
        return Box(left, loose.right, y.value, height)

    def loose(self, unit: int) -> tuple[float, float, float]:
        """Return where a character starts and ends with the free space around, and its height; zeros if not known."""
        loose = self._loose
        if not raw.FPDFText_GetLooseCharBox(self._page, self.index(unit), loose):
            return 0.0, 0.0, 0.0
        return loose.left, loose.right, loose.top - loose.bottom

    def pitch(self, line: str, start: int) -> float:
        """Return the width of the characters of a line; -1 if a narrow one is narrower than another, 0 without such."""
        narrow, other = _NARROW.search(line), _BROAD.search(line)
        if not narrow or not other:
            return 0.0
        widths = [right - left for left, right, _ in (self.loose(start + letter.start()) for letter in (narrow, other))]
        return widths[0] if abs(widths[0] - widths[1]) < 0.01 * widths[0] else -1.0

    def glyph(self, unit: int, text: str) -> Glyph | None:
        """Return a character with its place; None of a blank that PDFium added."""
        loose, (left, right, *_), index = self._loose, self._values, self.index(unit)
        if text.isspace() and raw.FPDFText_IsGenerated(self._page, index):
            return None
        if not raw.FPDFText_GetCharBox(self._page, index, *self._into):
            return None
        tight = left.value, right.value
        if not raw.FPDFText_GetLooseCharBox(self._page, index, loose) or (text.isspace() and tight[0] == tight[1]):
            # Where blanks without width stand is wrong.
            return None
        share = max(abs(tight[0] - loose.left), abs(tight[1] - loose.right)) < 0.001
        if share or unicodedata.combining(text):
            return Glyph(text, *tight, share and not text.isspace())
        return Glyph(text, min(tight[0], loose.left), max(tight[1], loose.right))


def page_lines(page: pdfium.PdfPage) -> list[Line]:
    """Return the lines of a page."""
    shown = page.get_textpage()
    try:
        return _lines(shown)
    finally:
        shown.close()


def lines_of(texts: Sequence[Recognised]) -> list[Line]:
    """Return recognised texts as lines of a page."""
    lines = []
    usual = median(text.height for text in texts) if texts else 0.0
    for text, left, right, base, height in texts:
        if _SAME_HEIGHT * height < usual < height / _SAME_HEIGHT:
            # The box of a line is as high as its letters: one of the usual height has its middle where that has.
            base, height = base + (height - usual) / 2, usual
        hyphen = len(text) > 1 and text.endswith("-") and text[-2].isalpha()
        lines.append(Line(clean(text.removesuffix("-") if hyphen else text), hyphen, Box(left, right, base, height)))
    return _with_heads(_with_superscripts(lines))


def _lines(page: pdfium.PdfTextPage) -> list[Line]:
    count = page.count_chars()
    if count <= 0:
        return []
    buffer = (ctypes.c_ushort * (2 * count + 1))()
    units = max(raw.FPDFText_GetText(page, 0, count, buffer) - 1, 0)
    # One character per UTF-16 unit, because places on the page are found by units.
    text = bytes(buffer)[: 2 * units].decode("utf-16-le", "surrogatepass")
    if len(text) != units:
        text = "".join(map(chr, buffer[:units]))
    lines, places, prose = [], _Places(page), set[float]()
    spaced, placed, mapped = _SPACED.search(text), PLACED.search(text), 2 * len(clean(text)) > len(text)
    for match in _LINE.finditer(text):
        stripped = match[0].rstrip()
        line = (
            (_LAST if match.end() == len(text) else _LEFT).sub("", stripped) if stripped[-1:] in _HYPHENS else stripped
        )
        hyphen = line != stripped or text[match.end() : match.end() + 1] == _HYPHEN
        if line.strip():
            start = match.start()
            words = [(word[0], start + word.start(), start + word.end()) for word in _WORD.finditer(line)]
            places.look_at(words[0][1], words[-1][2] - 1)
            # What follows the marker of an item is as high as its further lines, and starts where they do.
            first = words[1 if len(words) > 1 and _MARKER.fullmatch(words[0][0]) else 0][1]
            box = places.box(first, words[-1][2] - 1)
            closed = _closed(places, line, start) if spaced and _SPACED.search(line) else line
            if closed != line:
                cells = [closed.strip()]
            elif box and placed and PLACED.search(line):
                cells, box = _in_order(places, line, start, box)
            else:
                cells = _cells(places, line.lstrip(), words, box)
            # Letters of one width are wide, and a long line or a row as high as one of prose is prose, too.
            wide = box and (len(line) < 10 or box.right - box.left > _WIDE * box.height * len(line))
            known = box and box.height in prose and (len(line) > _LONG or len(cells) > 1)
            pitch = places.pitch(line, start) if wide and not known else -1.0
            if box and pitch < 0:
                prose.add(box.height)
            code = _code(places, words, pitch) if pitch > 0 else ""
            # Numbers of glyphs may be control characters.
            read = mapped and places.mapped(words[-1][1])
            lines.append(Line(_CELL.join(map(_valid, cells)), hyphen, box, len(cells) > 1, pitch, code, read))
    return _with_heads(_with_superscripts(lines))


def _in_order(places: _Places, line: str, start: int, box: Box) -> tuple[list[str], Box]:
    """Return cells of a line whose characters are in order of place, and its box, mirrored if it runs left."""
    glyphs = [glyph for at, text in enumerate(line, start) if (glyph := places.glyph(at, text))]
    if not glyphs:
        return [line.strip()], box
    height = max(places.loose(start + at)[2] for at, text in enumerate(line) if not text.isspace())
    cells, leftward = in_order(glyphs, height, _CELL_GAP)
    ends = min(glyph.left for glyph in glyphs), max(glyph.right for glyph in glyphs)
    left, right = (-ends[1], -ends[0]) if leftward else ends
    return cells, Box(left, right, box.base, height)


def _code(places: _Places, words: list[tuple[str, int, int]], pitch: float) -> str:
    """Return a line in a font of one width, with as many blanks between its words as there is room for."""
    text, left = "", places.loose(words[0][1])[0]
    for word, first, _ in words:
        column = round((places.loose(first)[0] - left) / pitch)
        text += " " * max(column - len(text), 1 if text else 0) + word
    return _valid(text)


def _closed(places: _Places, line: str, start: int) -> str:
    """Return a line without the gaps between the letters of spaced words."""
    for match in reversed(list(_SPACED.finditer(line))):
        ats = [match.start() + one.start() for one in _WORD.finditer(match[0])]
        boxes = [places.loose(start + at) for at in ats]
        gaps = [box[0] - before[1] for before, box in zip(boxes, boxes[1:], strict=False)]
        usual, letters = median(gaps), [line[at] for at in ats]
        # Letters in the order of the alphabet are a list, and those that are far apart are cells.
        if usual < _SPREAD * boxes[0][2] and letters != sorted(set(letters)):
            words = "".join(" " * (gap > 1.5 * usual) + letter for gap, letter in zip(gaps, letters[1:], strict=True))
            line = line[: ats[0]] + letters[0] + words + line[match.end() :]
    return line


def _valid(units: str) -> str:
    if units.isascii():
        return clean(units)
    return _SYMBOL.sub("•", clean(units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")))


def _cells(places: _Places, line: str, words: list[tuple[str, int, int]], box: Box | None) -> list[str]:
    """Return a line, divided where the gap between two of its words is that between two cells of a table."""
    # Letters may be of no height.
    if box is None or not 0 < _CELL_GAP * box.height < box.right - box.left:
        return [line]
    cells, start, right, above = [], words[0][1], 0.0, ""
    for number, (word, first, last) in enumerate(words):
        ends = places.ends(first, last - 1)
        if ends is None:
            return [line]
        gap = (ends[0] - right) / box.height if number else 0.0
        if gap > _CURRENCY_GAP:
            # What stands before what it belongs to, however far: the marker of an item, and the sign of a currency.
            attached = _CURRENCY.fullmatch(above) or (number == 1 and gap < _ITEM_GAP and _MARKER.fullmatch(above))
            priced = _CURRENCY.fullmatch(word) and (above[-1:].isdigit() or above[-1:] in ")%—")
            if (gap > _CELL_GAP or priced) and not attached:
                cells.append(line[start - words[0][1] : words[number - 1][2] - words[0][1]])
                start = first
        right, above = ends[1], word
    return [*cells, line[start - words[0][1] :]]


def _with_superscripts(lines: list[Line]) -> list[Line]:
    """Return lines, with what continues a line at a slightly other height put back into it."""
    rows: list[Line] = []
    for line in lines:
        if rows and not rows[-1].hyphen and rows[-1].box and line.box:
            height = max(rows[-1].box.height, line.box.height)
            gap = line.box.left - rows[-1].box.right
            if abs(rows[-1].box.base - line.box.base) < _LEVEL * height and gap > -0.2 * height:
                apart = gap > _CELL_GAP * height
                joined = _beside([[rows[-1]], [line]], _CELL if apart else " " if gap > 0.1 * height else "")
                rows[-1] = joined._replace(row=apart or rows[-1].row or line.row)
                continue
        rows.append(line)
    return rows


def _with_heads(lines: list[Line]) -> list[Line]:
    """Return lines, with the head of a table, whose cells are several lines below one another, made one line."""
    rows: list[Line] = []
    # The cells of a head, from left to right, each from top to bottom.
    cells: list[list[Line]] = []
    for line in lines:
        last = cells[-1][-1] if cells else rows[-1] if rows else None
        if last and last.box and line.box and not last.hyphen:
            height = max(last.box.height, line.box.height)
            up, beside = line.box.base - last.box.base, line.box.left > last.box.right
            if beside and 0 < up < (_HEAD_LINES - 1) * _HEAD_PITCH * height:
                if not cells and (first := _first_cell(rows, line.box, height)):
                    cells = [rows[-first:]]
                    del rows[-first:]
                if cells:
                    cells.append([line])
                    continue
            elif cells and -_HEAD_PITCH * height < up < 0 and len(cells[-1]) < _HEAD_LINES:
                bottom = min(part.box.base for part in cells[0] if part.box)
                below = line.box.left < last.box.right and line.box.right > last.box.left
                if below and line.box.base > bottom - _LEVEL * height:
                    cells[-1].append(line)
                    continue
        if cells:
            rows.append(_beside(cells, _CELL))
            cells = []
        rows.append(line)
    return [*rows, _beside(cells, _CELL)] if cells else rows


def _first_cell(rows: list[Line], box: Box, height: float) -> int:
    """Return how many of the last lines are no higher than a box, and left of it; 0 if more than a cell has."""
    for count in range(_HEAD_LINES + 1):
        above = rows[-count - 1].box if count < len(rows) else None
        if not above or above.base > box.base + _LEVEL * height:
            return count
        if above.right > box.left:
            break
    return 0


def _beside(cells: list[list[Line]], between: str) -> Line:
    """Return one line of cells, each of lines below one another."""
    boxes = [line.box for cell in cells for line in cell if line.box]
    text = between.join(" ".join(line.text for line in cell) for cell in cells)
    base, height = min(box.base for box in boxes), max(box.height for box in boxes)
    box = Box(min(box.left for box in boxes), max(box.right for box in boxes), base, height)
    return Line(text, cells[-1][-1].hyphen, box, True)
