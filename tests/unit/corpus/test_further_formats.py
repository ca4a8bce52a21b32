"""Sheets, notebooks, messages, reStructuredText: what is read of files that their usual programs write."""

import datetime
import email.policy
import json
import mailbox
import re
import time
import zipfile
from email.message import EmailMessage
from io import BytesIO

import openpyxl
import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment

from mog_assets.corpus.memory import load_memory
from mog_assets.corpus.reading import read_corpus
from mog_assets.corpus.worker import Limits

LIMIT = 100_000


def read(folder, limit=LIMIT, **limits):
    return read_corpus(folder, limit, limits=Limits(**limits))


def document(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (only,) = read(folder).documents
    return only


def reasons(folder, name, content, limit=LIMIT, **limits):
    """Why a file is skipped; another one is used."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "fine.txt").write_text("Fine.")
    reading = read(folder, limit, **limits)
    assert [used.id for used in reading.used] == ["fine.txt"]
    ((place, reason),) = [(skipped.place, skipped.reason) for skipped in reading.skipped]
    assert place == name
    return reason


def headings(document):
    return [(mark.depth, mark.text) for mark in document.marks if mark.kind == "heading"]


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


def test_hidden_sheets_are_not_read(tmp_path):
    book = workbook(("Seen", [["seen"]]), ("Secret", [["hidden"]]), hidden=["Secret"])
    assert document(tmp_path / "a", "b.xlsx", book).text == "seen"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no archive", "damaged: expected a .xlsx file"),
        (workbook(("A", [["x"]]))[:300], "damaged: expected a .xlsx file"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
        (
            edited(workbook(("A", [["x"]])), "xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c><v>"),
            "damaged|empty",
        ),
        (edited(workbook(("A", [["x"]])), "xl/workbook.xml", "no XML"), "damaged|empty"),
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
        "33.33%": (1 / 3, "0%"),
        "-2%": (-0.02, "0.00%;[Red]-0.00%"),
        "01067": (1067, "00000"),
        "0000-0007": (7, "0000-0000"),
        "078-05-1120": (78051120, r"000\-00\-0000"),
        "Inv-04711": (4711, '"Inv-"00000'),
        "1234.5 EUR": (1234.5, '#,##0.00 "EUR"'),
        "€ 19.9": (19.9, "[$€-407] #,##0.00"),
        "42 kg": (42, '0 "kg"'),
        "0.3": (0.1 + 0.2, "General"),
        "3.14159": (3.14159, "0.00"),
        "1999": (1999, "0;-0;0"),
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
        ([["品名", "価格"]], ["麦{}", 12], "品名: 麦{} | 価格: 12"),
        ([[None, 2023, 2023], ["Region", "Oats", "Rye"]], ["R{}", 1, 2], "Region: R{} | 2023 Oats: 1 | 2023 Rye: 2"),
        # No names: values from the first row on, and words beside words.
        ([], ["Q{}", 3.5], "Q{} | 3.5"),
        ([], ["Setting {}", "on, unless somebody turns it off"], "Setting {} | on, unless somebody turns it off"),
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


# Messages


def message(**fields):
    written = EmailMessage(policy=email.policy.SMTP)
    for name, value in fields.items():
        written[name] = value
    return written


def test_a_message_has_its_text_and_says_who_wrote_it_and_when(tmp_path):
    letter = message(Subject="Hühner", From="Zoë <zoe@example.org>", To="a@example.org, b@example.org")
    letter["Date"] = "Tue, 3 Nov 2026 09:30:00 +0100"
    letter.set_content("Fünf Eier.\n\nGrüße\n", charset="iso-8859-15")
    letter.add_alternative("<p>Fünf <b>Eier</b>.</p><p>Grüße</p>", subtype="html")
    letter.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="hen.png")
    read = document(tmp_path / "a", "letter.eml", letter.as_bytes())
    assert (read.title, read.text) == ("Hühner", "Fünf Eier.\n\nGrüße")
    people = {"from": "Zoë <zoe@example.org>", "to": "a@example.org, b@example.org"}
    metadata = json.loads(read.metadata)
    assert metadata.pop("mog")["attachments not read"] == ["hen.png"]
    assert metadata == {**people, "date": "2026-11-03T09:30:00+01:00"}


def parts(kind, *inside, boundary="b"):
    """A message of several parts, each with its own headers."""
    shown = "".join(f"--{boundary}\n{part}\n" for part in inside)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{shown}--{boundary}--\n'


PLAIN, PAGE = "Content-Type: text/plain; charset=utf-8\n\n", "Content-Type: text/html; charset=utf-8\n\n"
INNER = "Content-Type: message/rfc822\n{}\nFrom: c@example.org\nSubject: Original\n\nThe key hangs in the shed."
PDF = 'Content-Type: application/pdf\nContent-Disposition: attachment; filename="plan.pdf"\n\nx'


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            parts("alternative", PLAIN + " \u00a0\n", PAGE + "<p>The sluice opens at six.</p>"),
            "The sluice opens at six.",
        ),
        (
            parts("alternative", PLAIN + "Cette lettre est une page.", PAGE + "<p>L'écluse ouvre à six heures.</p>"),
            "Cette lettre est une page.\n\nL'écluse ouvre à six heures.",
        ),
        (
            parts(
                "alternative",
                PLAIN + "水門は開きます。\n鍵は小屋です。",
                PAGE + "<p>水門は開きます。鍵は小屋です。</p>",
            ),
            "水門は開きます。\n鍵は小屋です。",
        ),
        (
            parts(
                "alternative",
                PLAIN + "Hello and bye.",
                parts("mixed", PAGE + "<p>Hello</p>", PDF, PAGE + "<p>and bye.</p>", boundary="c"),
            ),
            "Hello and bye.",
        ),
        (parts("mixed", PLAIN + "One.", PDF, PLAIN + "Two.", PAGE + "<p>Three.</p>"), "One.\n\nTwo.\n\nThree."),
        (
            parts("mixed", PLAIN + "See below.", INNER.format("")),
            "See below.\n\nFrom: c@example.org\nSubject: Original\n\nThe key hangs in the shed.",
        ),
        (
            parts("digest", INNER.format('Content-Disposition: attachment; filename="o.eml"\n'), PDF),
            "From: c@example.org\nSubject: Original\n\nThe key hangs in the shed.",
        ),
        (parts("mixed", PDF), "Invoice 4711"),
        ("Content-Type: multipart/mixed\n\nNo parts, against the rules.", "No parts, against the rules."),
    ],
)
def test_all_texts_of_a_message_are_read_one_of_alternatives_and_what_is_forwarded(tmp_path, written, text):
    letter = f"From: ann@example.org\nSubject: Invoice 4711\nMIME-Version: 1.0\n{written}"
    read = document(tmp_path / "a", "letter.eml", letter)
    assert (read.title, read.text) == ("Invoice 4711", text)
    assert json.loads(read.metadata)["mog"].get("attachments not read", []) == ["plan.pdf"] * ("plan.pdf" in written)


def test_a_message_without_plain_text_is_read_as_a_page(tmp_path):
    letter = message(Subject="Eggs", From="a@example.org")
    letter.set_content("<html><body><h2>Hens</h2><p>Five <b>eggs</b>.</p></body></html>", subtype="html")
    read = document(tmp_path / "a", "letter.eml", letter.as_bytes())
    assert read.text == "Hens\n\nFive eggs." and headings(read) == [(2, "Hens")]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\xff\x00 no message", "expected a message with From"),
        (b"From: empty\r\n\r\n", "no text|empty"),
        (b"From: a@b.c\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n", "no text|empty"),
        (b"Subject: long\r\n\r\n" + b"x" * LIMIT * 2, "at most"),
    ],
)
def test_messages_that_cannot_be_read_are_skipped_with_the_reason(tmp_path, content, reason):
    assert re.search(
        reason, reasons(tmp_path / "a", "a.eml", content, LIMIT if len(content) < LIMIT else 4 * LIMIT // 2)
    )


def test_a_message_with_headers_and_encodings_that_nobody_knows_is_read_all_the_same(tmp_path):
    content = (
        b'Subject: =?utf-8?Q?broken\xff?= \r\nFrom: "<<>>@@\r\nDate: never\r\n'
        b"Content-Type: text/plain; charset=unheard-of\r\n\r\nFive eggs.\r\n"
    )
    read = document(tmp_path / "a", "a.eml", content)
    assert read.text == "Five eggs." and "date" not in json.loads(read.metadata)


# reStructuredText and pages


def test_headings_of_restructured_text_are_levels_in_the_order_of_their_marks(tmp_path):
    text = "=====\nHens!\n=====\n\nEggs\n----\n5\n\nDucks\n-----\n\nGrey\n~~~~\nSwims.\n\n===  ===\nA    B\n===  ===\n"
    read = document(tmp_path / "a", "birds.rst", text)
    assert read.text.startswith("=====\nHens!") and read.title == "Hens!"
    assert headings(read) == [(1, "Hens!"), (2, "Eggs"), (2, "Ducks"), (3, "Grey")]
    assert [read.text[mark.offset :].split("\n")[0] for mark in read.marks] == ["Hens!", "Eggs", "Ducks", "Grey"]


def test_lines_of_marks_without_a_heading_are_none(tmp_path):
    read = document(tmp_path / "a", "a.rst", "Two\nlines\n\n----\n\nA longer line\n---\n\n....\n....\n")
    assert headings(read) == [] and read.title == "Two"


def test_htm_is_html(tmp_path):
    assert document(tmp_path / "a", "a.htm", "<p>Five <em>eggs</em></p>").text == "Five eggs"


# Mailboxes


def mbox(path, *texts, **headers):
    """A mailbox as Python writes it: a message for each text."""
    box = mailbox.mbox(path)
    for number, text in enumerate(texts):
        message = EmailMessage()
        message["From"], message["Subject"] = "ann@example.org", f"Hens {number}"
        message["Message-ID"] = f"<hens-{number}@example.org>"
        for name, value in headers.items():
            message.replace_header(name, value) if name in message else message.add_header(name, value)
        message.set_content(text)
        box.add(mailbox.mboxMessage(message))
    box.close()
    return path.read_bytes()


def test_a_mailbox_is_a_document_for_each_message(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    mbox(folder / "old.mbox", "Five eggs.", "From here on six.\n\nFrom there on none.", "Grüße.")
    read_now = read(folder).documents
    assert [(d.id, d.title, d.text.strip()) for d in read_now] == [
        ("old.mbox:hens-0@example.org", "Hens 0", "Five eggs."),
        ("old.mbox:hens-1@example.org", "Hens 1", "From here on six.\n\nFrom there on none."),
        ("old.mbox:hens-2@example.org", "Hens 2", "Grüße."),
    ]
    metadata = json.loads(read_now[0].metadata)
    assert metadata["from"] == "ann@example.org" and metadata["mog"]["path"] == "old.mbox"
    # The same message in another box is one document.
    mbox(folder / "sent.mbox", "Five eggs.")
    reading = read(folder)
    assert len(reading.documents) == 3 and [s.id for s in reading.skipped] == ["sent.mbox:hens-0@example.org"]
    assert "duplicate id" in reading.skipped[0].reason and "composed" not in reading.skipped[0].reason
    # Numbers are names in a mailbox alone.
    for name in ("a.mbox", "b.mbox"):
        (folder / name).write_text(f"From x\nSubject: Of {name}\n\nText of {name}.\n", encoding="utf-8")
    assert {"a.mbox:1", "b.mbox:1"} < {d.id for d in read(folder).documents}


def test_messages_without_a_name_are_called_by_their_place_and_one_that_is_none_is_skipped(tmp_path):
    folder = tmp_path / "c"
    folder.mkdir()
    lines = "From a\nSubject: One\n\nText one.\n\nFrom b\nno header\n\nFrom c\nSubject: Three\n\nText three.\n"
    (folder / "box.mbox").write_text(lines, encoding="utf-8")
    reading = read(folder)
    assert [(d.id, d.title) for d in reading.documents] == [("box.mbox:1", "One"), ("box.mbox:3", "Three")]
    ((place, reason),) = [(s.place, s.reason) for s in reading.skipped]
    assert place == "box.mbox:2" and "expected a message with From" in reason


def test_what_is_read_of_a_changed_mailbox_is_what_a_first_reading_gives(tmp_path):
    folder, remembered = tmp_path / "c", tmp_path / "memory.parquet"
    folder.mkdir()
    messages = [f"From a\nSubject: Hens {n}\n\nText {n}.\n\n" for n in range(4)]
    (folder / "box.mbox").write_text("".join(messages), encoding="utf-8")
    read(folder).journal.write(remembered, "s")
    # Those that follow have other numbers, which are their names.
    (folder / "box.mbox").write_text("".join(messages[1:]), encoding="utf-8")
    again = read_corpus(folder, LIMIT, load_memory(remembered, "s"))
    first = read(folder)
    assert [(o.id, o.digest) for o in again.used] == [(o.id, o.digest) for o in first.used]
    assert [d.title for d in again.documents] == ["Hens 1", "Hens 2", "Hens 3"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x00\x01\x02 binary", "expected a mailbox"),
        (b"Subject: no envelope\n\nText.", "expected a mailbox"),
        (b"From a\nSubject: Long\n\n" + b"eggs " * 30_000, "max_document_mb"),
        (b"From a\n" + b"x" * 3_000_000, "max_document_mb"),
        (b"From a\nFrom: nobody\n\n", "empty document"),
    ],
)
def test_a_hostile_mailbox_is_skipped_with_the_reason(tmp_path, content, reason):
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "box.mbox").write_bytes(content)
    (folder / "fine.txt").write_text("Fine.")
    reading = read(folder)
    assert [used.id for used in reading.used] == ["fine.txt"]
    assert [s.place.startswith("box.mbox") and reason in s.reason for s in reading.skipped] == [True]
