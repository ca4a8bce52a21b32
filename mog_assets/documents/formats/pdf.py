"""Read PDF files: the text of every page, as paragraphs and rows of tables, with the outline as headings; forms."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import pypdfium2 as pdfium
from pypdfium2 import raw

from mog_assets.documents.formats.archives import ENCRYPTED
from mog_assets.documents.formats.marks import Mark, MarkedText, Parsed, clean, first_line, heading
from mog_assets.documents.formats.pdf_lines import ITEM, Box, Line, Recognised, lines_of, page_lines
from mog_assets.documents.formats.running import without_running
from mog_assets.registry import READERS
from mog_assets.text.languages import DEFAULT, detected
from mog_assets.text.terms import content_words

_CELL = " | "
_CHOSEN = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_FIELDS = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX, *_CHOSEN)
# Their text is no remark of a reader.
_OTHERS = (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET)


def with_annotations(pdf: pdfium.PdfDocument, page: pdfium.PdfPage, lines: list[Line]) -> list[Line]:
    """Return lines of a page, with values of fields at what stands on their left or above, and the annotations last."""
    lines, last = list(lines), []
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        try:
            kind, place = raw.FPDFAnnot_GetSubtype(annotation), raw.FS_RECTF()
            if kind == raw.FPDF_ANNOT_WIDGET and pdf.formenv and raw.FPDFAnnot_GetRect(annotation, place):
                if text := _field(pdf.formenv, annotation):
                    _put(lines, text, place)
            elif kind not in _OTHERS and (text := _text(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")):
                last.append(Line(text, False, None))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    return lines + last


def _put(lines: list[Line], text: str, place: raw.FS_RECTF) -> None:
    """Put the value of a field into the line that it stands in, or below that above it."""
    above = [(line.box.base, -at) for at, line in enumerate(lines) if line.box and line.box.base > place.bottom - 3]
    base, at = min(above, default=(0.0, 1))
    if above and base < place.top:
        lines[-at] = lines[-at]._replace(text=f"{lines[-at].text}{_CELL}{text}", row=True)
    else:
        lines.insert(1 - at if above else len(lines), Line(text, False, None))


def _field(form: pdfium.PdfFormEnv, annotation: Any) -> str:
    """Return the value of a field with its label, if known; empty without value, and of a button not chosen."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind not in _FIELDS or (kind in _CHOSEN and not raw.FPDFAnnot_IsChecked(form, annotation)):
        return ""
    value = _text(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    label = _text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    if kind in _CHOSEN:
        label = label or _text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    return f"{label}: {value}" if label and value else value


def _text(call: Callable[..., int], *given: Any) -> str:
    """Return what a function of PDFium writes as UTF-16."""
    size = call(*given, None, 0)
    buffer = ctypes.create_string_buffer(max(size, 2))
    call(*given, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    return " ".join(buffer.raw[: max(size, 2) - 2].decode("utf-16-le", "ignore").split())


_MOST_BOOKMARKS = 10_000
# Widths of a column, in points, within which lines are compared.
_COLUMN = 36
# Widths of lines that may stand alone, in heights.
_SHORT = 12
# Lines are of one height if the lower has so much of the other's.
_OVERLAP = 0.85
# Scripts without blanks between words: Chinese and Japanese with their punctuation, Thai, Lao, Burmese and Khmer.
_WIDE = r"\u2e80-\u30ff\u31f0-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff9f\U00020000-\U0003ffff"
_UNSPACED = re.compile(
    rf"[{_WIDE}“”‘’…—][{_WIDE}]|[{_WIDE}][“”‘’…—]|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]{{2}}"
    r"|[、。，．：；！？」』）】〉》].|.[「『（【〈《、。，]"
)
_HAN = re.compile(rf"[{_WIDE}]")
# What stands in most lines of code.
_SIGNS = re.compile(r"[={}<>_#;\\]|\(\)|[:,({\[]$|^\s*[-$%>]")
# The end of a sentence.
_END = re.compile(r"[.!?:;…。！？；：؟۔।]\W*$")


def read_pdf(
    content: bytes, fallback: str, limit: int, recognise: Callable[[pdfium.PdfPage], Sequence[Recognised]] | None = None
) -> Parsed:
    """Read a PDF file.

    Raises:
        ValueError: it is encrypted, damaged, or has no text; the message is the reason.
    """
    try:
        pdf = pdfium.PdfDocument(content)
    except pdfium.PdfiumError as error:
        if error.err_code in (raw.FPDF_ERR_PASSWORD, raw.FPDF_ERR_SECURITY):
            raise ValueError(ENCRYPTED) from error
        raise ValueError(f"damaged: expected a readable .pdf file, got: {error}") from error
    pdf.init_forms()
    pages: list[list[Line]] = []
    edges, unreadable, images, unmapped, illegible = [], 0, 0, 0, 0
    for number in range(len(pdf)):
        try:
            page = pdf[number]
            try:
                _, bottom, _, top = page.get_bbox()
                lines, edge = page_lines(page), (bottom, top)
                doubtful = 2 * sum(not line.mapped for line in lines) > len(lines)
                lost = doubtful and not _is_prose(" ".join(line.text for line in lines))
                if recognise is not None and (lost or not lines):
                    lines = lines_of(recognise(page))
                    images += bool(lines)
                else:
                    unmapped += doubtful
                    illegible += lost
                lines = with_annotations(pdf, page, lines)
            finally:
                page.close()
        except pdfium.PdfiumError:
            lines, edge, unreadable = [], (0.0, 0.0), unreadable + 1
        pages.append(lines)
        edges.append(edge)
    form = pdf.get_formtype()
    if form == raw.FORMTYPE_XFA_FULL or (form == raw.FORMTYPE_XFA_FOREGROUND and _is_wait(pages)):
        expected = "XFA form: expected text on the pages"
        raise ValueError(f"{expected}, got one that only Adobe Reader draws: print it to PDF")
    without = len(pages) - sum(map(bool, pages))
    if unreadable and unreadable == len(pages):
        raise ValueError("damaged: expected a readable .pdf file, got one without a readable page")
    if without == len(pages):
        remedy = _remedy() if recognise is None else ", also for OCR"
        raise ValueError(f"scanned: {without} {'page' if without == 1 else 'pages'} without text{remedy}")
    if illegible == len(pages) - without:
        raise ValueError(f"no text: its fonts do not say which letters they show{_remedy()}")
    pages, running, removed = without_running(pages, edges)
    counts = {"pages without text": without, "pages recognised": images, "headers and footers left out": removed}
    counts["pages in fonts that do not say their letters"] = unmapped
    notes = {name: count for name, count in counts.items() if count}
    title = pdf.get_metadata_dict().get("Title", "").strip()
    title = title or next((first_line(lines[0].text) for lines in pages if lines), "") or fallback
    return _draft(pages, _outline(pdf), running, limit).parsed(title, fallback, notes)


def _remedy() -> str:
    names = [name for name, reader in READERS.items() if reader.recognise is not None]
    return f"; set `reader: {names[0]}`" if names else ""


def _is_prose(text: str) -> bool:
    """Tell whether a tenth of the words of a text are stop words of its language, which is no accident."""
    words = [word for word in text.split() if any(map(str.isalpha, word))]
    return len(content_words(" ".join(words), detected(text) or DEFAULT)) < 0.9 * len(words)


def _is_wait(pages: list[list[Line]]) -> bool:
    """Return whether a document only says that its reader should wait for the form, as programs of Adobe write it."""
    return len(pages) == 1 and any("please wait" in line.text.lower() for line in pages[0][:2])


def _draft(
    pages: list[list[Line]], outline: dict[int, list[tuple[int, str]]], running: list[str], limit: int
) -> MarkedText:
    """Return the text of all pages, with headers and footers once at its end if they are nowhere else."""
    draft, read = MarkedText(limit), []
    before: list[Line] = []
    for number, lines in enumerate(pages):
        draft.start("page", str(number + 1))
        if lines:
            text = _paragraphs(lines)
            read.append(text)
            draft.add(text, join=_across(before, lines), marks=_headings(text, outline.get(number, [])))
            before = lines
        else:
            for depth, words in outline.get(number, ()):
                draft.start("heading", words, depth)
    if before and before[-1].hyphen:
        draft.add("-", join="")
    text_of_pages = " ".join(" ".join(read).split())
    draft.add("\n".join(text for text in running if text not in text_of_pages))
    return draft


def _outline(pdf: pdfium.PdfDocument) -> dict[int, list[tuple[int, str]]]:
    """Return depth and title of the bookmarks of each page, by its index."""
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
    """Return bookmarks of a page: at the line of their title, numbered or not; without one at the start of the page."""
    marks, offset = [], 0
    for depth, title in bookmarks:
        if match := re.compile(rf"^.{{0,12}}?{re.escape(title)}$", re.MULTILINE).search(text, offset):
            offset = match.start()
        marks.append(heading(offset, depth, title))
    return marks


def _paragraphs(lines: list[Line]) -> str:
    """Return the lines of a page, joined where they are clearly one paragraph, apart where they clearly are not."""
    pitches = []
    for line, below in zip(lines, lines[1:], strict=False):
        if line.box and below.box and line.box.base > below.box.base:
            pitches.append(line.box.base - below.box.base)
    pitch, rights = median(pitches) if pitches else 0.0, _rights(lines)
    code = _code(lines)
    pieces = [code.get(0, lines[0].text)]
    for at, (above, line) in enumerate(zip(lines, lines[1:], strict=False), 1):
        join = _join(above, line, pitch, rights)
        pieces += [join if "\n" in join or at not in code or at - 1 not in code else "\n", code.get(at, line.text)]
    return "".join(pieces)


def _code(lines: list[Line]) -> dict[int, str]:
    """Return lines of listings, two or more in a font of one width, with indentation, by their number on the page."""
    fixed = [line.pitch > 0 for line in lines]
    if 2 * sum(fixed) > len(lines) and sum(map(bool, (_SIGNS.search(line.text) for line in lines))) < 0.3 * len(lines):
        # The whole page was typed.
        return {}
    code: dict[int, str] = {}
    at = 0
    while at < len(lines):
        # A line such as `}` has too few letters to tell its pitch.
        end = at + 1
        while end < len(lines) and fixed[at] and lines[end].box and lines[end].pitch >= 0:
            end += 1
        lefts = {number: _left(line, lines[at].pitch) for number, line in enumerate(lines[at:end], at)}
        for number, left in lefts.items() if end > at + 1 else ():
            indent = " " * round((left - min(lefts.values())) / lines[at].pitch)
            code[number] = indent + (lines[number].code or lines[number].text) + "-" * lines[number].hyphen
        at = end
    return code


def _left(line: Line, pitch: float) -> float:
    """Return where a line of a listing starts: the box of one with the marker of an item starts after that."""
    marker = ITEM.match(line.text)
    return (line.box.left if line.box else 0.0) - (pitch * marker.end() if marker else 0.0)


def _rights(lines: list[Line]) -> dict[int, float]:
    """Return where the lines of each column end."""
    rights: dict[int, float] = {}
    for line in lines:
        if line.box:
            column = round(line.box.left / _COLUMN)
            rights[column] = max(rights.get(column, 0.0), line.box.right)
    return rights


def _hyphen(above: Line, line: Line) -> str:
    """Return what the hyphen at the end of a line is: nothing if it only divides a word."""
    return "" if above.text[-1:].islower() and line.text[:1].islower() else "-"


def _join(above: Line, line: Line, pitch: float, rights: dict[int, float]) -> str:
    """Return what joins two lines: nothing within a word, a blank within a paragraph, an empty line between two."""
    if above.hyphen:
        return _hyphen(above, line)
    if not above.box or not line.box:
        return "\n"
    heights = above.box.height, line.box.height
    height, apart = max(heights), above.box.base - line.box.base
    if apart <= 0:
        return "\n"
    if min(heights) < _OVERLAP * height or apart > 1.25 * pitch or apart > 2.2 * height:
        return "\n\n"
    if above.row or line.row:
        return "\n"
    # A line as short as a heading may be one.
    short = above.box.right - above.box.left < _SHORT * height
    indented = line.box.left - above.box.left
    if short or ITEM.match(line.text) or apart > 1.7 * height or not -4 * height < indented < 0.5 * height:
        return "\n"
    return _between(above, line) if _full(above.box, line, line.box, rights) else "\n"


def _between(above: Line, line: Line) -> str:
    """Return what is between the words of two lines of a paragraph."""
    return "" if _UNSPACED.fullmatch(above.text[-1:] + line.text[:1]) else " "


def _full(above: Box, line: Line, box: Box, rights: dict[int, float]) -> bool:
    """Return whether the first word of a line did not fit on the line above, as in a paragraph."""
    column = round(above.left / _COLUMN)
    right = max(rights.get(near, 0.0) for near in (column - 1, column, column + 1))
    letter = (box.right - box.left) / max(len(line.text), 1)
    first = line.text.split(None, 1)[0]
    most = 3 if _HAN.match(first) else 12 if _UNSPACED.match(first) else len(first) + 1
    word = letter * min(len(first) + 1, most)
    return above.right + 1.15 * word >= right


def _across(before: list[Line], lines: list[Line]) -> str:
    """Return what joins a page to that before it: a blank if a sentence goes on."""
    if not before or not before[-1].box or not lines[0].box:
        return "\n\n"
    last, line, box = before[-1], lines[0], lines[0].box
    heights = before[-1].box.height, box.height
    goes_on = min(heights) >= _OVERLAP * max(heights) and not (last.row or line.row or ITEM.match(line.text))
    if last.hyphen:
        return _hyphen(last, line) if goes_on else "-\n\n"
    goes_on = goes_on and not _END.search(last.text)
    goes_on = goes_on and (line.text[:1].islower() or _full(before[-1].box, line, box, _rights(before)))
    return _between(last, line) if goes_on else "\n\n"
