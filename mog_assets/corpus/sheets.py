"""Read spreadsheets: every sheet under its name, a row as a line of cells divided by ` | `."""

from __future__ import annotations

import datetime
from io import BytesIO
from typing import Any

from mog_assets.corpus.marks import MarkedText, Parsed, clean


def read_sheets(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a workbook (`.xlsx`): values as they are stored, without formulas, hidden sheets and empty rows.

    Args:
        content: The file.
        fallback: Title of a workbook without text.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    book, draft = CalamineWorkbook.from_filelike(BytesIO(content)), MarkedText(limit)
    for sheet in book.sheets_metadata:
        if sheet.typ != SheetTypeEnum.WorkSheet or sheet.visible != SheetVisibleEnum.Visible:
            continue
        draft.start("heading", clean(sheet.name), depth=1)
        first = True
        for row in book.get_sheet_by_name(sheet.name).iter_rows():
            cells = [_cell(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            draft.add(" | ".join(cells), "\n\n" if first else "\n")
            first = first and not any(cells)
    return draft.parsed(fallback, fallback)


def _cell(value: Any) -> str:
    """A value as people read it: whole numbers without a fraction, dates as in ISO 8601."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return " ".join(clean(str(value)).split())
