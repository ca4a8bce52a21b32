"""Read PDF files: the text of every page, as paragraphs and rows of tables, with the outline as headings."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from mog_assets.corpus.archives import ENCRYPTED
from mog_assets.corpus.marks import Mark, MarkedText, Parsed, clean, first_line, heading
from mog_assets.corpus.ocr import Recognised

_MOST_BOOKMARKS = 10_000
# What PDFium gives for a hyphen at the end of a line.
_HYPHEN = "\ufffe"
_LINE = re.compile(f"[^\r\n{_HYPHEN}]+")
_WORD = re.compile(r"\S+")
# The marker of an item; symbol fonts have theirs in a private area.
_MARKER = re.compile(r"[•◦▪‣·–*\ue000-\uf8ff-]|\(?\w{1,3}[.)]")
_SYMBOL = re.compile(r"^[\ue000-\uf8ff](?=\s)")
_ITEM = re.compile(rf"(?:{_MARKER.pattern})\s")
_CURRENCY = re.compile(r"[$€£¥]")
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
# Widths of a column, in points, within which lines are compared.
_COLUMN = 36
# Widths of lines that may stand alone, in heights.
_SHORT = 12


class _Box(NamedTuple):
    """Where a line is, in points: its ends, its baseline (up is more) and its height."""

    left: float
    right: float
    base: float
    height: float


class _Line(NamedTuple):
    """A line of a page, whether a hyphen ends it, its box, None if it has none, and whether it has several cells."""

    text: str
    hyphen: bool
    box: _Box | None
    row: bool = False


def read_pdf(
    content: bytes, fallback: str, limit: int, recognise: Callable[[pdfium.PdfPage], Sequence[Recognised]] | None = None
) -> Parsed:
    """Read a PDF file.

    Args:
        content: Its bytes.
        fallback: Title of a document without title and first line.
        limit: Maximum characters of the text.
        recognise: Gives the texts on a page that has none but in an image.

    Raises:
        ValueError: it is encrypted, damaged, or has no text; the message is the reason.
    """
    try:
        pdf = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise ValueError(ENCRYPTED) from error
        raise ValueError(f"damaged: expected a readable .pdf file, got: {error}") from error
    draft, without, unreadable, images = MarkedText(limit), 0, 0, 0
    title = pdf.get_metadata_dict().get("Title", "").strip()
    outline = _outline(pdf)
    for number in range(len(pdf)):
        try:
            lines = _page_lines(pdf, number)
            if not lines and recognise is not None:
                lines = _lines_of(recognise(pdf[number]))
                images += bool(lines)
        except pdfium.PdfiumError:
            lines, unreadable = [], unreadable + 1
        if lines and not title:
            title = first_line(lines[0].text) or fallback
        text = _paragraphs(lines)
        draft.start("page", str(number + 1))
        if text:
            draft.add(text, marks=_headings(text, outline.get(number, [])))
        else:
            without += 1
            for depth, words in outline.get(number, ()):
                draft.start("heading", words, depth)
    if unreadable and unreadable == len(pdf):
        raise ValueError("damaged: expected a readable .pdf file, got one without a readable page")
    if without == len(pdf):
        remedy = "; set `reader: ocr`" if recognise is None else ", also for OCR"
        raise ValueError(f"scanned: {without} {'page' if without == 1 else 'pages'} without text{remedy}")
    counts = {"pages without text": without, "pages recognised": images}
    notes = {name: count for name, count in counts.items() if count}
    return draft.parsed(title, fallback, notes)


def _outline(pdf: pdfium.PdfDocument) -> dict[int, list[tuple[int, str]]]:
    """Depth and title of the bookmarks of each page, by its index."""
    titles: dict[int, list[tuple[int, str]]] = {}
    for number, bookmark in enumerate(pdf.get_toc(max_depth=6)):
        if number == _MOST_BOOKMARKS:
            break
        target = bookmark.get_dest()
        page = None if target is None else target.get_index()
        title = " ".join(clean(bookmark.get_title()).split())
        if page is not None and title:
            titles.setdefault(page, []).append((bookmark.level + 1, title))
    return titles


def _headings(text: str, bookmarks: list[tuple[int, str]]) -> list[Mark]:
    """The bookmarks of a page: at the line of their title, numbered or not; without one at the start of the page."""
    marks, offset = [], 0
    for depth, title in bookmarks:
        if match := re.compile(rf"^.{{0,12}}?{re.escape(title)}$", re.MULTILINE).search(text, offset):
            offset = match.start()
        marks.append(heading(offset, depth, title))
    return marks


def _page_lines(pdf: pdfium.PdfDocument, number: int) -> list[_Line]:
    page = pdf[number]
    try:
        shown = page.get_textpage()
        try:
            return _lines(shown)
        finally:
            shown.close()
    finally:
        page.close()


def _lines_of(texts: Sequence[Recognised]) -> list[_Line]:
    """Recognised texts as lines of a page."""
    lines = []
    usual = median(text.height for text in texts) if texts else 0.0
    for text, left, right, base, height in texts:
        if _SAME_HEIGHT * height < usual < height / _SAME_HEIGHT:
            # The box of a line is as high as its letters: one of the usual height has its middle where that has.
            base, height = base + (height - usual) / 2, usual
        hyphen = len(text) > 1 and text.endswith("-") and text[-2].isalpha()
        lines.append(_Line(clean(text.removesuffix("-") if hyphen else text), hyphen, _Box(left, right, base, height)))
    return _with_heads(_with_superscripts(lines))


def _lines(page: pdfium.PdfTextPage) -> list[_Line]:
    count = page.count_chars()
    if count <= 0:
        return []
    buffer = (ctypes.c_ushort * (2 * count + 1))()
    units = max(raw.FPDFText_GetText(page, 0, count, buffer) - 1, 0)
    # One character per UTF-16 unit, because places on the page are found by units.
    text = bytes(buffer)[: 2 * units].decode("utf-16-le", "surrogatepass")
    if len(text) != units:
        text = "".join(map(chr, buffer[:units]))
    lines = []
    for match in _LINE.finditer(text):
        line = match[0].rstrip()
        hyphen = text[match.end() : match.end() + 1] == _HYPHEN
        if line.strip():
            start = match.start()
            words = [(word[0], start + word.start(), start + word.end()) for word in _WORD.finditer(line)]
            # What follows the marker of an item is as high as its further lines, and starts where they do.
            first = words[1 if len(words) > 1 and _MARKER.fullmatch(words[0][0]) else 0][1]
            box = _box(page, first, words[-1][2] - 1)
            cells = _cells(page, line.lstrip(), words, box)
            lines.append(_Line(_CELL.join(map(_valid, cells)), hyphen, box, len(cells) > 1))
    return _with_heads(_with_superscripts(lines))


def _valid(units: str) -> str:
    text = clean(units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore"))
    return _SYMBOL.sub("•", text)


def _cells(page: pdfium.PdfTextPage, line: str, words: list[tuple[str, int, int]], box: _Box | None) -> list[str]:
    """A line, divided where the gap between two of its words is that between two cells of a table."""
    # Letters may be of no height.
    if box is None or not 0 < _CELL_GAP * box.height < box.right - box.left:
        return [line]
    cells, start, right, above = [], words[0][1], 0.0, ""
    for number, (word, first, last) in enumerate(words):
        ends = _ends(page, first, last - 1)
        if ends is None:
            return [line]
        gap = (ends[0] - right) / box.height if number else 0.0
        # What stands before what it belongs to, however far: the marker of an item, and the sign of a currency.
        attached = _CURRENCY.fullmatch(above) or (number == 1 and gap < _ITEM_GAP and _MARKER.fullmatch(above))
        priced = gap > _CURRENCY_GAP and _CURRENCY.fullmatch(word) and (above[-1:].isdigit() or above[-1:] in ")%—")
        if (gap > _CELL_GAP or priced) and not attached:
            cells.append(line[start - words[0][1] : words[number - 1][2] - words[0][1]])
            start = first
        right, above = ends[1], word
    return [*cells, line[start - words[0][1] :]]


def _with_superscripts(lines: list[_Line]) -> list[_Line]:
    """Lines, with what continues a line at a slightly other height put back into it."""
    rows: list[_Line] = []
    for line in lines:
        if rows and not rows[-1].hyphen and rows[-1].box and line.box:
            height = max(rows[-1].box.height, line.box.height)
            gap = line.box.left - rows[-1].box.right
            if abs(rows[-1].box.base - line.box.base) < _LEVEL * height and gap > -0.2 * height:
                apart = gap > _CELL_GAP * height
                whole = _beside([[rows[-1]], [line]], _CELL if apart else " " if gap > 0.1 * height else "")
                rows[-1] = whole._replace(row=apart or rows[-1].row or line.row)
                continue
        rows.append(line)
    return rows


def _with_heads(lines: list[_Line]) -> list[_Line]:
    """Lines, with the head of a table, whose cells are several lines below one another, made one line."""
    rows: list[_Line] = []
    # The cells of a head, from left to right, each from top to bottom.
    cells: list[list[_Line]] = []
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


def _first_cell(rows: list[_Line], box: _Box, height: float) -> int:
    """How many of the last lines are no higher than a box, and left of it; 0 if those are more than a cell has."""
    for count in range(_HEAD_LINES + 1):
        above = rows[-count - 1].box if count < len(rows) else None
        if not above or above.base > box.base + _LEVEL * height:
            return count
        if above.right > box.left:
            break
    return 0


def _beside(cells: list[list[_Line]], between: str) -> _Line:
    """One line of cells, each of lines below one another."""
    boxes = [line.box for cell in cells for line in cell if line.box]
    text = between.join(" ".join(line.text for line in cell) for cell in cells)
    base, height = min(box.base for box in boxes), max(box.height for box in boxes)
    box = _Box(min(box.left for box in boxes), max(box.right for box in boxes), base, height)
    return _Line(text, cells[-1][-1].hyphen, box, True)


def _ends(page: pdfium.PdfTextPage, first: int, last: int) -> tuple[float, float] | None:
    """Where the first character of a word starts and the last ends, in points."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    index = raw.FPDFText_GetCharIndexFromTextIndex(page, first)
    if not raw.FPDFText_GetCharBox(page, index, left, right, bottom, top):
        return None
    start = left.value
    if last != first:
        index = raw.FPDFText_GetCharIndexFromTextIndex(page, last)
        if not raw.FPDFText_GetCharBox(page, index, left, right, bottom, top):
            return None
    return start, right.value


def _box(page: pdfium.PdfTextPage, first: int, last: int) -> _Box | None:
    start = raw.FPDFText_GetCharIndexFromTextIndex(page, first)
    x, y = ctypes.c_double(), ctypes.c_double()
    try:
        left, bottom, _, top = page.get_charbox(start, loose=True)
        _, _, right, _ = page.get_charbox(raw.FPDFText_GetCharIndexFromTextIndex(page, last), loose=True)
    except pdfium.PdfiumError:
        return None
    # Not the lower edge, which differs between fonts.
    if not raw.FPDFText_GetCharOrigin(page, start, x, y):
        return None
    return _Box(left, right, y.value, top - bottom)


def _paragraphs(lines: list[_Line]) -> str:
    """The lines of a page, joined where they are clearly one paragraph, apart where they clearly are not."""
    rights: dict[int, float] = {}
    pitches = []
    for line, below in zip(lines, lines[1:], strict=False):
        if line.box and below.box and line.box.base > below.box.base:
            pitches.append(line.box.base - below.box.base)
    for line in lines:
        if line.box:
            column = round(line.box.left / _COLUMN)
            rights[column] = max(rights.get(column, 0.0), line.box.right)
    pitch = median(pitches) if pitches else 0.0
    pieces: list[str] = []
    for number, line in enumerate(lines):
        if number:
            pieces.append(_join(lines[number - 1], line, pitch, rights))
        pieces.append(line.text)
        if line.hyphen and not _joined(line, lines[number + 1 : number + 2]):
            pieces.append("-")
    return "".join(pieces)


def _joined(line: _Line, following: list[_Line]) -> bool:
    """Whether the hyphen at the end of a line only divides a word."""
    return bool(following) and line.text[-1:].islower() and following[0].text[:1].islower()


def _join(above: _Line, line: _Line, pitch: float, rights: dict[int, float]) -> str:
    """What joins two lines: nothing within a word, a blank within a paragraph, an empty line between two."""
    if above.hyphen:
        return ""
    if not above.box or not line.box:
        return "\n"
    heights = above.box.height, line.box.height
    height, apart = max(heights), above.box.base - line.box.base
    if apart <= 0:
        return "\n"
    if min(heights) < 0.85 * height or apart > 1.25 * pitch or apart > 2.2 * height:
        return "\n\n"
    if above.row or line.row:
        return "\n"
    indented = line.box.left - above.box.left
    # A line as short as a heading may be one.
    short = above.box.right - above.box.left < _SHORT * height
    if short or _ITEM.match(line.text) or apart > 1.7 * height or not -4 * height < indented < 0.5 * height:
        return "\n"
    column = round(line.box.left / _COLUMN)
    right = max(rights.get(near, 0.0) for near in (column - 1, column, column + 1))
    # In a paragraph the first word of a line did not fit on the line above.
    letter = (line.box.right - line.box.left) / max(len(line.text), 1)
    word = letter * (len(line.text.split(None, 1)[0]) + 1)
    return " " if above.box.right + 1.15 * word >= right else "\n"
