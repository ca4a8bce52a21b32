"""Read spreadsheets: every sheet under its name, a row as a line of cells divided by ` | `, as formats show them."""

from __future__ import annotations

import datetime
import html
import re
import zipfile
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from io import BytesIO
from itertools import accumulate, groupby, islice
from statistics import median
from typing import Any

from mog_assets.documents.formats.marks import MarkedText, Parsed, clean
from mog_assets.documents.formats.office import DRAWING, RELATED, SHEET, Package

Show = Callable[[float], str]
# Formats that a workbook need not spell.
_KNOWN = {"9": "0%", "10": "0.00%"}
_CURRENCY = re.compile(r"\[\$([^\]-]*)[^\]]*\]")
# Colours, conditions, widths of signs; not `[h]`.
_UNSHOWN = re.compile(r"\[(?!h+\]|m+\]|s+\])[^\]]*\]|_.|\*.", re.IGNORECASE)
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
_DIGITS = re.compile(r"[0#?]")
# Where nothing but digits and signs between them is shown, such as `000-00-0000`; where else a number stands.
_CODE, _NUMBER = re.compile(r"[^.,%/eE@A-Za-z]*"), re.compile(r"[0#?][0#?.,]*")

number: Show = "%.15g".__mod__
"""Show a number as it is stored, with the 15 digits that sheets compute with."""


def shown(identity: str, code: str) -> Show | None:
    """Return what shows the numbers that have a format; None if it is `number`, and for days and times."""
    # The first section is for positive numbers; signs of the others are those of the number here.
    code = _UNSHOWN.sub("", _CURRENCY.sub(r'"\1"', code or _KNOWN.get(identity, ""))).split(";")[0]
    bare = _LITERAL.sub("", code).lower()
    if not bare or re.search("[ymdhs@]|general|e[-+]|/", bare):
        return None
    if "%" in bare:
        decimals = max(2, len(re.sub(r"[^0#?]", "", bare.partition(".")[2])))
        return lambda value: f"{number(round(value * 100, decimals))}%"
    literal = [match[1] or match[2] or "" for match in _LITERAL.finditer(code)]
    if _CODE.fullmatch(bare) and bare.count("0") > 1:
        return lambda value: _filled(code, bare.count("0"), value)
    if not any(text.strip() for text in literal):
        return None
    plain = _LITERAL.sub(lambda match: match[1] or match[2] or "", _NUMBER.sub("\0", code, count=1))
    return lambda value: plain.replace("\0", number(value), 1).strip() if "\0" in plain else number(value)


def _filled(code: str, zeros: int, value: float) -> str:
    """Return a whole number with leading zeros and the signs between its digits: 1067 as `01067`."""
    if not value.is_integer() or abs(value) >= 1e15:
        return number(value)
    digits, pieces = list(str(abs(int(value))).zfill(zeros)), list[str]()
    signs = [match[1] or match[2] or match[0] for match in re.finditer(r'"([^"]*)"|\\(.)|.', code)]
    places = sum(map(bool, map(_DIGITS.fullmatch, signs)))
    for sign in reversed(signs):
        if not _DIGITS.fullmatch(sign):
            pieces.append(sign if digits else "")
        elif digits:
            # What has no place of its own stands at the first.
            pieces.append("".join(digits) if places == 1 else digits.pop())
            places -= 1
    return "-" * (value < 0) + "".join(reversed(pieces)).strip()


# Places in the XML of a sheet; to parse it again takes three times what the library needs for all values.
_ROWS = re.compile(rb'(<(?:\w+:)?row\b[^>]*?\br=")(\d+)')
_PLACES = re.compile(rb'(<(?:\w+:)?c\b[^>]*?\br=")([A-Z]+)(\d+)')
_MERGED = re.compile(rb'(<(?:\w+:)?mergeCell\b[^>]*?\bref=")([A-Z]+)(\d+):([A-Z]+)(\d+)')
# A pattern that begins with a letter is found three times as fast as one that begins with an optional prefix.
_START, _END, _VALUE = rb"c(?<=[<:]c)\b", rb"</(?:\w+:)?c>", rb"<(?:\w+:)?v>([^<]+)<"
_COLUMNS = re.compile(_START + rb'[^>]*?\br="([A-Z]+)')
_BEYOND_Z, _ERROR = re.compile(rb'r="[A-Z]{2}'), re.compile(rb't="e"')
_STYLED, _ATTRIBUTES = re.compile(rb's(?<=\bs)="\d'), re.compile(rb'\b(r|s|t)="([^"]*)"')
_FORMULA = re.compile(rb"f(?<=[<:]f)\b")
_UNCALCULATED = re.compile(
    _START + rb"([^>]*)>\s*<(?:\w+:)?f\b[^>]*?(?:/>|>([^<]*)</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*(?:/>|></(?:\w+:)?v>))?\s*" + _END
)
# What a sheet with a head has, more often than others.
_HEADED = (b"<autoFilter", b"<tableParts", b"<pane")
# The library holds all cells between the first and the last.
_MOST_BLANK = 1_000_000
# A table of fewer characters is one chunk with its head; rows of others have the names of their columns.
_ONE_CHUNK = 500
# Rows in which a head is looked for, and rows below that it is compared with.
_HEAD_ROWS, _COMPARED = 10, 50
_LONGEST_LABEL = 100
# Lines that are added at a time.
_LINES = 1000
_NUMERIC, _YEAR = re.compile(r"\W{0,2}\d[\d.,:/%T '-]*\W{0,2}\w{0,3}"), re.compile(r"(19|20)\d\d([-/]\d\d?)*")

_SHEET, _COMMENT = f"{SHEET}sheet", f"{SHEET}comment"

Row = dict[int, str]
"""Cells that are not blank, by column."""


def read_sheets(content: bytes, parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a workbook: values as their formats show them, without hidden sheets and empty rows and columns.

    A merged cell is repeated in all its rows, and in its columns where others stand beside it. Rows of a table that is
    longer than a chunk are cells with the names of their columns.

    Raises:
        ValueError: it is damaged; the message is the reason.
    """
    from python_calamine import CalamineWorkbook, SheetTypeEnum, SheetVisibleEnum

    package = Package(parts, ".xlsx", f"{SHEET}workbook")
    draft, hidden, notes = MarkedText(limit), list[str](), Counter[str]()
    ids = package.related(package.name, "worksheet")
    names = {sheet.get("name", ""): ids.get(sheet.get(f"{RELATED}id", ""), "") for sheet in package.main.iter(_SHEET)}
    given = {part: package.content(part) for part in names.values() if part}
    near = {part: _near(sheet) for part, sheet in given.items()}
    book = CalamineWorkbook.from_filelike(BytesIO(content) if near == given else _packed(package.parts | near))
    formats = _formats(package) if any(map(_STYLED.search, near.values())) else {}
    for sheet in book.sheets_metadata:
        if sheet.typ != SheetTypeEnum.WorkSheet:
            continue
        title, part = clean(sheet.name), names.get(sheet.name, "")
        if sheet.visible != SheetVisibleEnum.Visible:
            hidden.append(title)
            continue
        draft.start("heading", title, depth=1)
        xml, read = near.get(part, b""), book.get_sheet_by_name(sheet.name)
        notes["formulas without a value"] += len(uncalculated := _uncalculated(xml))
        rows = _rows(read, _formatted(xml, formats) | uncalculated)
        _merge(rows, read.merged_cell_ranges or ())
        around = xml[: xml.find(b"<row")] + xml[xml.rfind(b"row>") :]
        lines, join = _lines(rows, any(sign in around for sign in _HEADED)), "\n\n"
        while some := list(islice(lines, _LINES)):
            draft.add("\n".join(some), join)
            join = "\n"
        notes.update(_beside(package, part))
    counts: dict[str, Any] = {**notes, "hidden sheets not read": hidden}
    return draft.parsed(fallback, fallback, {kind: note for kind, note in counts.items() if note})


def _packed(parts: Mapping[str, bytes]) -> BytesIO:
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as target:
        for name, content in parts.items():
            target.writestr(name, content)
    archive.seek(0)
    return archive


def _near(xml: bytes) -> bytes:
    """Return a sheet whose cells stand together: one far from all others would be a million blank ones between.

    Raises:
        ValueError: there is no row and column for each cell within reason.
    """
    # The last row, without a look at all others, if they are in order.
    last = _ROWS.search(xml, max(xml.rfind(b"row ") - 9, 0)) or _ROWS.search(xml)
    if not last or (26 * int(last[2]) <= _MOST_BLANK and not _BEYOND_Z.search(xml)):
        return xml
    columns = _COLUMNS.findall(xml)
    used = sorted(set(columns), key=_column)
    most = _MOST_BLANK + 50 * len(columns)
    if not used or _column(used[-1]) * int(last[2]) <= most:
        return xml
    rows = sorted({int(match[2]) for match in _ROWS.finditer(xml)})
    if len(used) * 2 * len(rows) > most:
        raise ValueError(
            f"expected a sheet whose cells stand together, got {len(columns)} cells in {len(rows)} rows and "
            f"{len(used)} columns: delete those that are far from the others"
        )
    # Of several blank rows, one stays: it may divide two tables.
    at, moved = 0, list[int]()
    for before, row in zip([0, *rows], rows, strict=False):
        at += min(row - before, 2)
        moved.append(at)

    def row_of(digits: bytes) -> bytes:
        return b"%d" % moved[min(bisect_left(rows, int(digits)), len(rows) - 1)]

    def column_of(letters: bytes) -> bytes:
        return _letters(min(bisect_left(used, _column(letters), key=_column), len(used) - 1) + 1)

    xml = _ROWS.sub(lambda match: match[1] + row_of(match[2]), xml)
    xml = _PLACES.sub(lambda match: match[1] + column_of(match[2]) + row_of(match[3]), xml)
    return _MERGED.sub(
        lambda match: match[1] + column_of(match[2]) + row_of(match[3]) + b":" + column_of(match[4]) + row_of(match[5]),
        xml,
    )


def _column(letters: bytes) -> int:
    return reduce(lambda column, letter: column * 26 + letter - ord("A") + 1, letters, 0)


def _letters(column: int) -> bytes:
    letters = b""
    while column:
        column, letter = divmod(column - 1, 26)
        letters = bytes([ord("A") + letter]) + letters
    return letters


def _beside(package: Package, part: str) -> dict[str, int]:
    """Return what stands beside the cells of a sheet."""
    drawings = package.related(part, "drawing").values()
    boxes = (one for name in drawings for one in package.tree(name) if any(t.text for t in one.iter(f"{DRAWING}t")))
    comments = (one for name in package.related(part, "comments").values() for one in package.tree(name).iter(_COMMENT))
    return {
        "charts not read": sum(len(package.related(name, "chart")) for name in drawings),
        "text boxes not read": sum(1 for _ in boxes),
        "comments not read": sum(1 for _ in comments),
    }


def _formats(package: Package) -> dict[bytes, Show]:
    """Return what shows numbers otherwise than they are stored, by the number of the cells' style."""
    formats: dict[bytes, Show] = {}
    for styles in package.trees("styles"):
        codes = {one.get("numFmtId", ""): one.get("formatCode", "") for one in styles.iter(f"{SHEET}numFmt")}
        for at, used in enumerate(styles.iterfind(f"{SHEET}cellXfs/{SHEET}xf")):
            identity = used.get("numFmtId", "")
            if show := shown(identity, codes.get(identity, "")):
                formats[b"%d" % at] = show
    return formats


def _formatted(xml: bytes, formats: Mapping[bytes, Show]) -> dict[tuple[int, int], str]:
    """Return cells that are shown otherwise than the library has them, by row and column: formats, and errors."""
    patterns = [rb's="(?:%s)"' % b"|".join(formats)] * bool(formats) + [_ERROR.pattern] * bool(_ERROR.search(xml))
    if not patterns:
        return {}
    cells = {}
    pattern = re.compile(
        _START + rb"(?=[^>]*\b(?:%s))([^>]*)(?<!/)>(?:(?!%s).)*?%s" % (b"|".join(patterns), _END, _VALUE), re.DOTALL
    )
    for match in pattern.finditer(xml):
        attributes = dict(_ATTRIBUTES.findall(match[1]))
        kind = attributes.get(b"t", b"n")
        if b"r" in attributes and kind in (b"n", b"e"):
            text = html.unescape(match[2].decode())
            cells[_place(attributes[b"r"])] = text if kind == b"e" else formats[attributes[b"s"]](float(text))
    return cells


def _uncalculated(xml: bytes) -> dict[tuple[int, int], str]:
    """Return formulas whose value is not stored, by row and column from 0."""
    cells = {}
    for match in _UNCALCULATED.finditer(xml) if _FORMULA.search(xml) else ():
        attributes = dict(_ATTRIBUTES.findall(match[1]))
        if b"r" in attributes and attributes.get(b"t") != b"str":
            cells[_place(attributes[b"r"])] = f"={html.unescape((match[2] or b'').decode())}" if match[2] else ""
    return cells


def _place(name: bytes) -> tuple[int, int]:
    letters = name.rstrip(b"0123456789")
    return int(name[len(letters) :]) - 1, _column(letters) - 1


def _rows(read: Any, others: Mapping[tuple[int, int], str]) -> list[tuple[int, Row]]:
    """Return the rows that are not blank, by number, with what cells are shown as if that is not what was read."""
    changed: dict[int, Row] = {}
    for (at, column), text in others.items():
        changed.setdefault(at, {})[column] = text
    rows, (_, left) = list[tuple[int, Row]](), read.start or (0, 0)
    for at, values in enumerate(read.iter_rows()):
        row = {}
        for column, value in enumerate(values, left):
            # A further call for each value takes a tenth of all time. What is printable has no white space but blanks.
            plain = type(value) is str and value.isprintable() and "  " not in value
            if text := value.strip() if plain else number(value) if type(value) is float else _cell(value):
                row[column] = text
        if at in changed:
            row = {column: text for column, text in sorted((row | changed[at]).items()) if text}
        if row:
            rows.append((at, row))
    return rows


def _cell(value: Any) -> str:
    """Write a value that is no number as people read it: dates as in ISO 8601, hours of more than a day."""
    if isinstance(value, str):
        return clean(" ".join(value.split()))
    if isinstance(value, datetime.timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _merge(rows: Sequence[tuple[int, Row]], merged: Sequence[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    """Repeat the value of each merged cell in its rows, and in its columns if the row has others."""
    of = dict(rows)
    columns = sorted({column for row in of.values() for column in row}) if merged else []
    for (first, left), (last, right) in merged:
        value = of.get(first, {}).get(left)
        if not value:
            continue
        across = columns[bisect_left(columns, left) : bisect_right(columns, right)]
        for at in range(first, last + 1) if last - first < len(of) else sorted(of):
            if (row := of.get(at)) and first <= at <= last:
                beside = any(not left <= column <= right for column in row)
                filled = dict.fromkeys(across if beside else across[:1], value) | row
                row.clear()
                row.update(sorted(filled.items()))


def _lines(rows: list[tuple[int, Row]], certain: bool) -> Iterator[str]:
    columns = sorted(set[int]().union(*(row for _, row in rows)))
    long = any(size > _ONE_CHUNK for size in accumulate(len(value) + 3 for _, row in rows for value in row.values()))
    head: Row = {}
    # A blank row ends a table, or only divides it.
    for _, group in groupby(enumerate(rows), lambda item: item[1][0] - item[0]):
        run = [row for _, (_, row) in group]
        header, height = _head(run, certain) if long else ({}, 0)
        if header and (not head or height and not set(header) <= set(head) or _contrasts(header, run[height:])):
            head = header
        else:
            height = 0
            head = head if all(set(row) <= set(head) for row in run[:_COMPARED]) else {}
        names = {column: f"{label}: " for column, label in head.items()}
        # A row with all columns; to look up each name takes twice the time.
        full = " | ".join([names.get(column, "").replace("%", "%%") + "%s" for column in columns]) if head else ""
        for at, row in enumerate(run):
            if head and at >= height and len(row) == len(columns):
                yield full % tuple(row.values())
            elif head and at >= height:
                yield " | ".join([names.get(column, "") + value for column, value in row.items()])
            else:
                last = bisect_right(columns, max(row))
                yield " | ".join([row.get(column, "") for column in columns[:last]])


def _head(rows: list[Row], certain: bool) -> tuple[Row, int]:
    """Return the names of a table's columns and the rows down to the last that has them; none if that is not plain."""
    width = median(len(row) for row in rows[: _HEAD_ROWS + _COMPARED])
    for at, row in enumerate(rows[:_HEAD_ROWS]):
        if len(row) < 2 or len(row) < 0.6 * width:
            continue
        if not _labels(row):
            return {}, 0
        head, height = dict(row), at + 1
        # Labels above several columns are told apart by the row below.
        while len(set(head.values())) < len(head) and height < at + 4 and height < len(rows) and _labels(rows[height]):
            for column, label in rows[height].items():
                above = head.get(column, "")
                head[column] = label if label == above or not above else f"{above} {label}"
            height += 1
        below = rows[height : height + _COMPARED]
        new = len(head) > 2 and not any(row.get(column) == label for row in below for column, label in head.items())
        named = below and not all(map(_YEAR.fullmatch, head.values()))
        if named and (certain or new or _contrasts(head, below)):
            return head, height
    return {}, 0


def _labels(row: Row) -> bool:
    """Return whether a row may name columns: short texts, and years or days among them."""
    plain = [value for value in row.values() if not _YEAR.fullmatch(value)]
    return all(len(v) <= _LONGEST_LABEL and not _NUMERIC.fullmatch(v) for v in plain)


def _contrasts(head: Row, below: list[Row]) -> bool:
    """Say whether a column below a text has mostly numbers."""
    texts = [column for column, label in head.items() if not _NUMERIC.fullmatch(label)]
    columns = ([row[column] for row in below[:_COMPARED] if column in row] for column in texts)
    return any(2 * sum(map(bool, map(_NUMERIC.fullmatch, values))) > len(values) for values in columns)
