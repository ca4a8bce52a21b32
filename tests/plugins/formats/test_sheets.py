"""Sheets, reStructuredText: what is read of files that their usual programs write."""

import datetime
import json
import re
import time
import zipfile
from io import BytesIO

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from read_files import LIMIT, document, headings, reasons

# Spreadsheets


def workbook(*sheets, hidden=()):
    """An .xlsx of sheets, each a name and its rows."""
    book, packed = openpyxl.Workbook(), BytesIO()
    book.remove(book.active)
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        sheet.sheet_state = "hidden" if name in hidden else "visible"
        for row in rows:
            sheet.append(row)
    book.save(packed)
    return packed.getvalue()


def edited(content, name, text):
    """An archive with another content of a file."""
    packed = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as source, zipfile.ZipFile(packed, "w") as target:
        for entry in source.infolist():
            target.writestr(entry, text if entry.filename == name else source.read(entry))
    return packed.getvalue()


def test_a_sheet_is_a_section_and_a_row_a_line_of_cells(tmp_path):
    birds = [
        ["bird", "eggs", "grams", "hatched"],
        ["hen", 5, 60.5, datetime.date(2026, 5, 3)],
        [],
        ["duck", 9, None, None],
    ]
    book = document(tmp_path / "a", "birds.xlsx", workbook(("Birds", birds), ("Notes", [["Weighed\nin May", True]])))
    assert book.text == (
        "bird | eggs | grams | hatched\nhen | 5 | 60.5 | 2026-05-03\nduck | 9\n\nWeighed in May | True"
    )
    assert headings(book) == [(1, "Birds"), (1, "Notes")] and book.title == "birds"
    assert [mark.offset for mark in book.marks] == [0, book.text.index("Weighed")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no archive", "damaged: expected a .xlsx file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
        (
            edited(workbook(("A", [["x"]])), "xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c><v>"),
            "damaged|empty",
        ),
        (workbook(("A", [])), "empty"),
    ],
)
def test_sheets_that_cannot_be_read_are_skipped_with_the_reason(tmp_path, content, reason):
    assert re.search(reason, reasons(tmp_path / "a", "a.xlsx", content))


def test_a_sheet_that_unpacks_to_more_than_the_limit_is_skipped(tmp_path):
    bomb = workbook(("A", [[f"{n} " + "x" * 1000] for n in range(3000)]))
    assert len(bomb) < LIMIT
    assert "max_unpacked_mb" in reasons(tmp_path / "a", "a.xlsx", bomb, unpacked_bytes=1_000_000)
    assert "max_document_mb" in reasons(tmp_path / "b", "a.xlsx", bomb)


def sheet_file(fill):
    """An .xlsx whose first sheet is filled by a function of it and the book."""
    book, packed = openpyxl.Workbook(), BytesIO()
    fill(book.active, book)
    book.save(packed)
    return packed.getvalue()


def formatted(*cells):
    """An .xlsx with a row for each value and its format."""

    def fill(sheet, book):
        for at, (value, code) in enumerate(cells, start=1):
            sheet.cell(at, 1, value).number_format = code

    return sheet_file(fill)


def test_numbers_are_shown_as_their_formats_say_what_they_are(tmp_path):
    cells = {
        "15.5%": (0.155, "0.0%"),
        "-2%": (-0.02, "0.00%;[Red]-0.00%"),
        "01067": (1067, "00000"),
        "078-05-1120": (78051120, r"000\-00\-0000"),
        "1234.5 EUR": (1234.5, '#,##0.00 "EUR"'),
        "€ 19.9": (19.9, "[$€-407] #,##0.00"),
        "42 kg": (42, '0 "kg"'),
        "0.3": (0.1 + 0.2, "General"),
        "3.14159": (3.14159, "0.00"),
        "2024-05-01": (datetime.date(2024, 5, 1), "dd.mm.yyyy"),
        "07:15:00": (datetime.time(7, 15), "hh:mm"),
        "30:05:00": (datetime.timedelta(hours=30, minutes=5), "[h]:mm"),
    }
    book = document(tmp_path / "a", "a.xlsx", formatted(*cells.values()))
    assert book.text.split("\n") == list(cells)


def test_merged_labels_stand_in_every_row_and_column_and_errors_are_shown(tmp_path):
    def fill(sheet, book):
        for row in (
            ["Crops of the mill"],
            ["Region", "2023", None],
            [None, "Oats", "Rye"],
            ["North", 12, 13],
            [None, 16],
        ):
            sheet.append(row)
        sheet["C5"], sheet["C5"].data_type = "#N/A", "e"
        for place in ("A1:C1", "A2:A3", "B2:C2", "A4:A5"):
            sheet.merge_cells(place)

    assert document(tmp_path / "a", "a.xlsx", sheet_file(fill)).text == (
        "Crops of the mill\nRegion | 2023 | 2023\nRegion | Oats | Rye\nNorth | 12 | 13\nNorth | 16 | #N/A"
    )


def test_formulas_without_a_value_are_shown_and_all_that_is_left_out_is_noted(tmp_path):
    def fill(sheet, book):
        sheet.append([2, 3, "=A1+B1", '=IF(A1<1,"a & b",C1)'])
        sheet["C1"].number_format = "0%"
        sheet["A1"].comment = Comment("Weighed twice.", "Ann")
        chart = BarChart()
        chart.add_data(Reference(sheet, min_col=1, min_row=1))
        sheet.add_chart(chart, "F1")
        hidden = book.create_sheet("Secret")
        hidden.append(["hidden"])
        hidden.sheet_state = "hidden"

    book = document(tmp_path / "a", "a.xlsx", sheet_file(fill))
    assert book.text == '2 | 3 | =A1+B1 | =IF(A1<1,"a & b",C1)'
    assert {key: note for key, note in json.loads(book.metadata)["mog"].items() if key not in ("path", "modified")} == {
        "formulas without a value": 2,
        "charts not read": 1,
        "comments not read": 1,
        "hidden sheets not read": ["Secret"],
    }


@pytest.mark.parametrize(
    ("head", "row", "labelled"),
    [
        ([["Article", "Weight (kg)"]], ["Q{}", 3.5], "Article: Q{} | Weight (kg): 3.5"),
        ([["Region", 2021, 2022]], ["R{}", 1, 2], "Region: R{} | 2021: 1 | 2022: 2"),
        (
            [["Prices"], [], ["Name", "Ort", "Beruf"]],
            ["Ann {}", "Ulm", "Müllerin"],
            "Name: Ann {} | Ort: Ulm | Beruf: Müllerin",
        ),
        ([[None, 2023, 2023], ["Region", "Oats", "Rye"]], ["R{}", 1, 2], "Region: R{} | 2023 Oats: 1 | 2023 Rye: 2"),
        # No names: values from the first row on, and words beside words.
        ([], ["Q{}", 3.5], "Q{} | 3.5"),
    ],
)
def test_rows_of_a_long_table_have_the_names_of_their_columns(tmp_path, head, row, labelled):
    rows = [[str(cell).replace("{}", str(n)) if isinstance(cell, str) else cell for cell in row] for n in range(200)]
    lines = document(tmp_path / "a", "a.xlsx", workbook(("A", [*head, *rows]))).text.split("\n")
    assert lines[-200:] == [labelled.replace("{}", str(n)) for n in range(200)]


def test_tables_below_each_other_have_their_own_names(tmp_path):
    rows = [["Oats", "Price"], *([f"o{n}", n] for n in range(50)), [], ["o50", 50], [], ["Miller", "City", "Since"]]
    rows += [[f"m{n}", "Ulm", 1900 + n] for n in range(50)]
    lines = document(tmp_path / "a", "a.xlsx", workbook(("A", rows))).text.split("\n")
    assert lines[50:53] == ["Oats: o49 | Price: 49", "Oats: o50 | Price: 50", "Miller | City | Since"]
    assert lines[-1] == "Miller: m49 | City: Ulm | Since: 1949"


@pytest.mark.parametrize("place", ["XFD2000", "C1048576", "XFD1048576", "AAA500000"])
def test_a_cell_far_from_the_others_costs_nothing(tmp_path, place):
    def fill(sheet, book):
        sheet.append(["Article", "Price"])
        sheet.append(["Oats", 0.5])
        sheet["B2"].number_format = "0%"
        sheet[place] = "far note"
        sheet.merge_cells("A2:A3")

    started = time.process_time()
    book = document(tmp_path / "a", "a.xlsx", sheet_file(fill))
    assert [line.strip(" |") for line in book.text.split("\n")] == ["Article | Price", "Oats | 50%", "far note"]
    assert time.process_time() - started < 5


def test_cells_that_are_far_from_each_other_are_refused_with_the_remedy(tmp_path):
    def fill(sheet, book):
        for at in range(1, 1500):
            sheet.cell(at * 600, at * 10, "x")

    reason = reasons(tmp_path / "a", "a.xlsx", sheet_file(fill), limit=200_000)
    assert reason.startswith(
        "expected a sheet whose cells stand together, got 1499 cells in 1499 rows and 1499 columns"
    )


# reStructuredText


def test_headings_of_restructured_text_are_levels_in_the_order_of_their_marks(tmp_path):
    text = "=====\nHens!\n=====\n\nEggs\n----\n5\n\nDucks\n-----\n\nGrey\n~~~~\nSwims.\n\n===  ===\nA    B\n===  ===\n"
    read = document(tmp_path / "a", "birds.rst", text)
    assert read.text.startswith("=====\nHens!") and read.title == "Hens!"
    assert headings(read) == [(1, "Hens!"), (2, "Eggs"), (2, "Ducks"), (3, "Grey")]
    assert [read.text[mark.offset :].split("\n")[0] for mark in read.marks] == ["Hens!", "Eggs", "Ducks", "Grey"]


def test_lines_of_marks_without_a_heading_are_none(tmp_path):
    read = document(tmp_path / "a", "a.rst", "Two\nlines\n\n----\n\nA longer line\n---\n\n....\n....\n")
    assert headings(read) == [] and read.title == "Two"


# Notebooks


def notebook(*cells, **more):
    written = [
        {"cell_type": kind, "source": source, "metadata": {}, "outputs": outputs} for kind, source, outputs in cells
    ]
    return json.dumps({"cells": written, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more})


def test_a_notebook_has_its_texts_and_code_and_not_what_was_printed(tmp_path):
    printed = [{"output_type": "stream", "name": "stdout", "text": ["thousands of lines"]}]
    book = document(
        tmp_path / "a",
        "weights.ipynb",
        notebook(
            ("markdown", ["# Weights\n", "\n", "Of hens."], []),
            ("code", "import hens\nhens.weigh()", printed),
            ("markdown", "## Ducks\nAlso.", []),
        ),
    )
    assert book.text == "# Weights\n\nOf hens.\n\nimport hens\nhens.weigh()\n\n## Ducks\nAlso."
    assert book.title == "Weights" and headings(book) == [(1, "Weights"), (2, "Ducks")]
    assert [book.text[mark.offset] for mark in book.marks] == ["#", "#"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "damaged: expected a readable .ipynb file"),
        ("[1]", "expected a notebook with `cells`"),
        ('{"worksheets": []}', "expected a notebook with `cells`"),
        ("[" * 100_000, "nested without end"),
        (notebook(), "no text|empty"),
        (notebook(("code", {"no": "source"}, [])), "no text|empty"),
        (notebook(("markdown", "x" * LIMIT * 2, [])), "at most"),
    ],
)
def test_notebooks_that_cannot_be_read_are_skipped_with_the_reason(tmp_path, content, reason):
    assert re.search(reason, reasons(tmp_path / "a", "a.ipynb", content))
