"""Read PDF files: the text of every page, as paragraphs, with the outline as headings."""

from __future__ import annotations

import ctypes
import re
from statistics import median
from typing import NamedTuple

import pypdfium2 as pdfium
from pypdfium2 import raw

from mog_assets.corpus.archives import ENCRYPTED
from mog_assets.corpus.marks import Mark, MarkedText, Parsed, clean, first_line, heading

_MOST_BOOKMARKS = 10_000
# What PDFium gives for a hyphen at the end of a line.
_HYPHEN = "\ufffe"
_LINE = re.compile(f"[^\r\n{_HYPHEN}]+")
_ITEM = re.compile(r"[•◦▪‣·–*-]\s|\(?\w{1,3}[.)]\s")
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
    """A line of a page, whether a hyphen ends it, and its box; None if it has none."""

    text: str
    hyphen: bool
    box: _Box | None


def read_pdf(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a PDF file.

    Args:
        content: Its bytes.
        fallback: Title of a document without title and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is encrypted, damaged, or has no text; the message is the reason.
    """
    try:
        pdf = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise ValueError(ENCRYPTED) from error
        raise ValueError(f"damaged: expected a readable .pdf file, got: {error}") from error
    draft, without, unreadable = MarkedText(limit), 0, 0
    title = pdf.get_metadata_dict().get("Title", "").strip()
    outline = _outline(pdf)
    for number in range(len(pdf)):
        try:
            lines = _page_lines(pdf, number)
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
        raise ValueError(f"scanned: {without} {'page' if without == 1 else 'pages'} without text; run OCR on it first")
    notes = {"pages without text": without} if without else {}
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
            start = match.end() - len(match[0].lstrip())
            words = line.lstrip().encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
            box = _box(page, start, match.start() + len(line) - 1)
            lines.append(_Line(clean(words), hyphen, box))
    return lines


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
