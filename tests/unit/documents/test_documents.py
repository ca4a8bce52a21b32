"""Office documents, some of them broken or hostile: each is read with its pages and headings, or has a reason."""

import errno
import gzip
import hashlib
import io
import json
import os
import signal
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from lxml import etree
from pdf_file import pdf
from PIL import Image

from mog_assets.documents import worker
from mog_assets.documents.documents import load_documents, make_document, shifted, write_documents
from mog_assets.documents.formats.marks import Mark
from mog_assets.documents.formats.markup import read_markdown, read_page
from mog_assets.documents.memory import load_memory
from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits
from mog_assets.questions.reading import KnownDocument, read_questions
from mog_assets.resources.errors import MogError
from mog_assets.serve.reading import headings_at, page_at

LIMIT = 20_000_000


# Files


HERON = [
    (72, 700, 10, "The grey heron stands still in shallow water and waits for a fish. It is an exam-"),
    (72, 688, 10, "ple of a patient bird. It lives by the pond, where it can be seen all the year, and"),
    (72, 676, 10, "it never hurries."),
    (72, 640, 10, "The newt lives in the pond."),
]


def paged_pdf():
    pages = [
        [(72, 750, 18, "Birds"), *HERON],
        [],
        [(72, 700, 10, "Ducks swim."), (72, 660, 10, "Geese"), (72, 648, 10, "Geese fly.")],
    ]
    return pdf(pages, "Birds of the pond", [("Birds", 0), ("Nothing", 1), ("Geese", 2)])


def encrypted_pdf():
    # No password gives this digest.
    wrong = hashlib.sha256(b"not").hexdigest().encode()
    security = b"<< /Filter /Standard /V 1 /R 2 /P -4 /O <%s> /U <%s> >>" % (wrong, wrong)
    return pdf([HERON], encrypt=security)


def scanned_pdf():
    made = io.BytesIO()
    image = Image.new("L", (60, 80), 200)
    image.save(made, "PDF", save_all=True, append_images=[image, image])
    return made.getvalue()


def docx_file():
    document = docx.Document()
    document.add_heading("The pond", 0)
    document.add_heading("Birds", 1)
    document.add_paragraph("The heron waits.")
    document.add_heading("Ducks", 2)
    document.add_paragraph("Mallard", style="List Bullet")
    document.add_paragraph("Teal", style="List Bullet")
    table = document.add_table(2, 2)
    for row, cells in enumerate([("bird", "legs"), ("heron", "2")]):
        for column, cell in enumerate(cells):
            table.cell(row, column).text = cell
    document.add_heading("Newts", 1)
    document.add_paragraph("A newt\tis cafe\u0301 brown.")
    return saved(document)


def pptx_file():
    presentation = pptx.Presentation()
    layout = presentation.slide_layouts[1]
    for title, body in (("Herons", "They wait."), ("Newts", "They swim.")):
        slide = presentation.slides.add_slide(layout)
        slide.shapes.title.text, slide.placeholders[1].text = title, body
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    shape = slide.shapes.add_table(2, 2, 0, 0, 1000000, 1000000)
    for row, cells in enumerate([("animal", "legs"), ("newt", "4")]):
        for column, cell in enumerate(cells):
            shape.table.cell(row, column).text = cell
    presentation.slides.add_slide(presentation.slide_layouts[6])
    return saved(presentation)


def saved(document):
    made = io.BytesIO()
    document.save(made)
    return made.getvalue()


def zipped(parts, compression=zipfile.ZIP_DEFLATED):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)


def epub_parts(opf="", **pages):
    items = "".join(f'<item id="{n}" href="{n}.xhtml" media-type="application/xhtml+xml"/>' for n in pages)
    refs = "".join(f'<itemref idref="{n}"/>' for n in pages)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>Pond &amp; mill</dc:title></metadata><manifest>{items}</manifest><spine>{refs}</spine></package>"
    )
    chapters = {f"OEBPS/{name}.xhtml": f"<html><body>{body}</body></html>" for name, body in pages.items()}
    return {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER} | {
        "OEBPS/book.opf": opf or package,
        "OEBPS/cover.png": b"\x89PNG",
        **chapters,
    }


def epub_file():
    return zipped(epub_parts(one="<h1>One</h1><p>First.</p><h2>Inner</h2><p>Deep.</p>", two="<h1>Two</h1><p>Last.</p>"))


def with_part(content, name, change):
    """A zip archive with one of its files changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return zipped({entry: archive.read(entry) for entry in archive.namelist()} | {name: change})


def entity_bomb():
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    text = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY e0 "x">{entities}]><d>&e9;</d>'
    return with_part(docx_file(), "word/document.xml", text)


def deep_docx():
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    text = f"<w:document {space}><w:body>" + "<w:sdt>" * 100_000
    return with_part(docx_file(), "word/document.xml", text)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "corpus"
    path.mkdir()
    (path / "good.txt").write_text("Good.")
    return path


def fill(folder, **files):
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_bytes(content if isinstance(content, bytes) else content.encode())


def reading_of(folder, limits=None, limit=LIMIT, **options):
    reading = read_corpus(folder, limit, limits=limits, **options)
    reasons = {q.place: q.reason for q in reading.skipped}
    assert len(reasons) == len(reading.skipped)
    documents = {o.id: reading.document(o.digest) for o in reading.used if o.digest in reading.normalised}
    return SimpleNamespace(reading=reading, documents=documents, reasons=reasons)


def marks_of(document, *kinds):
    return [(m.kind, m.depth, m.text) for m in document.marks if not kinds or m.kind in kinds]


def under(document, words):
    """Page and headings at the place of some words, which the text must have."""
    offset = document.text.index(words)
    return page_at(document.marks, offset), headings_at(document.marks, offset)


# Marks


def test_marks_move_with_normalisation_and_are_kept_in_files(tmp_path):
    text = "cafe\u0301 cafe\u0301\nHeading\n"
    made = make_document("a", "", text, {}, {}, [Mark(text.index("Heading"), "heading", 1, "Cafe\u0301")])
    assert made.text[made.marks[0].offset :].startswith("Heading")
    assert made.marks[0].text == "Caf\u00e9"
    write_documents([made], tmp_path / "documents.parquet")
    assert list(load_documents(tmp_path / "documents.parquet").values()) == [made]
    assert make_document("a", "", text, {}, {}).digest != made.digest


# Text formats


def test_markdown_headings(folder):
    text = (
        "# Pond #\r\nText.\n\n```sh\n# no\n```\n\nSetext\n======\n\nSub  heading\n---\n\n- item\n---\n\n"
        "two\nlines\n---\n\n    # code\n#hash\n### Deep `x` ##\n~~~~\n~~~\n# no\n"
    )
    fill(folder, a_md=text)
    found = reading_of(folder).documents["a.md"]
    assert [m[1:] for m in marks_of(found)] == [(1, "Pond"), (1, "Setext"), (2, "Sub heading"), (3, "Deep `x`")]
    starts = [found.text[m.offset :].split("\n")[0].rstrip("\r") for m in found.marks]
    assert starts == ["# Pond #", "Setext", "Sub  heading", "### Deep `x` ##"]
    assert found.title == "Pond #"


def test_html_headings(folder):
    page = (
        "<html><head><title>T</title></head><body>\n <h1>\n  One <b>bold</b></h1><p>A.</p>"
        "<div><h3> <i> In</i></h3></div><h2></h2><h2><h4>Nested</h4></h2><p>B.</p></body></html>"
    )
    fill(folder, a_html=page, b_html=page.replace("h1", "p").replace("h2", "p").replace("h3", "p").replace("h4", "p"))
    found = reading_of(folder).documents
    assert found["a.html"].text == found["b.html"].text
    assert marks_of(found["a.html"]) == [("heading", 1, "One bold"), ("heading", 3, "In"), ("heading", 2, "Nested")]
    assert [found["a.html"].text[m.offset :][:3].strip() for m in found["a.html"].marks] == ["One", "In", "Nes"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>Use <a href=x>git\n  <em>add</em></a>, <tt>-p</tt>\tor <b>co</b>mmit.</p>", "Use git add, -p or commit."),
        ("<script>alert('x')</script><style>p {color: red}</style><p>Seen.<noscript>No.</noscript>", "Seen."),
        ("<p>One<p>Two<br>lines<br/><br/>Three", "One\n\nTwo\nlines\n\nThree"),
        ("A<div>B<div> C</div></div>D", "A\nB\nC\nD"),
        ("<ul><li>One<li><p>Two</p><ul><li>Three</ul></ul>Four", "One\n\nTwo\n\nThree\n\nFour"),
        ("<dl><dt><b>-p</b><dd>Pick.<dt>-q<dd>Quiet.</dl>", "-p\nPick.\n-q\nQuiet."),
        (
            "<p>Then:</p>\n<pre>\nif <b>x</b>:\r\n    y = <span> 1</span>\n\n\nz\n</pre>End",
            "Then:\n\nif x:\n    y =  1\n\n\nz\n\nEnd",
        ),
        (
            "<table><caption>Sizes</caption><tr><th><th>A<th>B</tr>"
            "<tr><td><p>x</p></td><td> <div>1</div>\n</td><td>2</table>After",
            "Sizes\n| A | B\nx | 1 | 2\n\nAfter",
        ),
        ("<table><tr><td>1<td><td>3<tr><td>4</table>", "1 | | 3\n4"),
        ("<table><tr><td rowspan=2>a<td>b<tr><td>c</table>", "a | b\na | c"),
        ("One<!--[if lte IE 8]><p>Old</p><![endif]--><p>Two<![if !IE]> and three<![endif]>", "One\n\nTwo and three"),
        ("<table><tr><td>a<table><tr><td>in<td>ner</table><td>b</table>", "a\n\nin | ner\n\nb"),
        ("<select><option>Docs</select><button>Go</button><textarea>x\n y</textarea>", "x\n y"),
        ("One</body></html><p>Two", "One\n\nTwo"),
        ("caf\u00e9&nbsp;&lt;b&gt; &amp; <!-- no --><![CDATA[no]]>tea", "caf\u00e9\u00a0<b> & tea"),
    ],
)
def test_the_text_of_a_page_breaks_where_a_browser_breaks_it(body, text):
    assert read_page("a.html", f"<title>T</title><body>\n{body}\n</body>").text == text


MENU = "<ul><li><a href=/>Home</a> <li><a href=/menu>Menu</a><li><a href=/about>About</a></ul>"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"<div>{MENU}</div><h1>Pond</h1>Deep.", "Pond\n\nDeep."),
        (f"<nav>Go: {MENU}</nav><p>Deep.", "Deep."),
        (f"<header>The pond{MENU}</header><p>Deep.<footer>{MENU}Mud, 2024</footer>", "The pond\n\nDeep.\n\nMud, 2024"),
        (f"Wet.<div class='menu top'>{MENU}</div><p>Deep.", "Wet.\n\nDeep."),
        (f"<h1>Pond</h1>{MENU}Deep.", "Pond\n\nHome\nMenu\nAbout\n\nDeep."),
        (f"{MENU}Deep.", "Home\nMenu\nAbout\n\nDeep."),
        (f"<ul><li><a>Pond</a>: deep{MENU}</ul><h1>All</h1>", "Pond: deep\n\nAll"),
    ],
)
def test_menus_are_no_part_of_the_text_of_a_page(body, text):
    assert read_page("a.html", body).text == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<h2><button>How?</button></h2><div class='collapse'><p>So.</div>", "How?\n\nSo."),
        ("<button class=accordion>Size</button><div class=panel style='display:none'>Big</div>", "Size\nBig"),
        (
            "<div><button role=tab aria-controls=a>Sun</button><button role=tab aria-controls=b>Rain</button></div>"
            "<div id=a>Walk.</div><div id=b hidden>Read.</div>",
            "Sun\nRain\nWalk.\nRead.",
        ),
        (
            "<div><button>駐車場はいつ開きますか？</button><div>七時です。</div></div>",
            "駐車場はいつ開きますか？\n七時です。",
        ),
        ("<details><summary>More</summary><p>Text</p></details>", "More\n\nText"),
        ("<header><button aria-controls=n>Menu</button></header><p>A <button>Copy</button>b", "A b"),
        ("<button aria-haspopup=true aria-expanded=false>Account</button><pre>x<button>Copy</button></pre>", "x"),
        ("<p>New.<p hidden>Draft<p style='Display : none'>Old<p style='visibility:hidden'>Older<p>End", "New.\n\nEnd"),
        ("<div style='display:none'><h1>App</h1>Loaded.</div>", "App\n\nLoaded."),
    ],
)
def test_what_opens_on_a_page_is_read_and_what_is_hidden_is_not(body, text):
    page = read_page("a.html", body)
    assert page.text == text
    assert page.notes == ({"hidden text not read": 3} if "visibility:hidden" in body else {})


@pytest.mark.parametrize(
    ("body", "headings"),
    [
        ("<h1>Pond<a class=headerlink href=#p title=x>¶</a></h1>", ["Pond"]),
        ("<h2><a href=#p></a>Deep <a class=anchor href=#p>#</a></h2>", ["Deep"]),
        ("<h2>Tief<a class=hash-link href=#t>Link zu dieser Stelle</a></h2>", ["Tief"]),
        ("<h2>Teich<span class=mw-editsection>[<a href=/e>Bearbeiten</a>]</span></h2>", ["Teich"]),
        ("<h2><a class=anchor href=#s>Setup</a></h2><h3><a href=#c>C#</a> and more</h3>", ["Setup", "C# and more"]),
    ],
)
def test_permalinks_are_no_part_of_headings(body, headings):
    page = read_page("a.html", f"{body}<p>Text")
    assert [mark.text for mark in page.marks] == headings
    assert page.text == "\n\n".join([*headings, "Text"])


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ("th rowspan=2:Region;th colspan=2:Finds/th:A;th:B", "Region | Finds | Finds\nRegion | A | B"),
        ("td rowspan=3:N;td:1/td:2/td:3/td:S;td:4", "N | 1\nN | 2\nN | 3\nS | 4"),
        ("th colspan=3:Title/td colspan=2:a;td:b", "Title\na | | b"),
        (f"td rowspan=2:{'long ' * 30};td:1/td:2", f"{'long ' * 30}| 1\n| 2"),
        ("td rowspan=x:a;td colspan=-1:b", "a | b"),
    ],
)
def test_cells_over_several_rows_or_columns_are_in_each(rows, text):
    cells = [[cell.split(":") for cell in row.split(";")] for row in rows.split("/")]
    table = [[f"<{tag}>{words}</{tag[:2]}>" for tag, words in row] for row in cells]
    page = "".join(f"<tr>{''.join(row)}</tr>" for row in table)
    assert read_page("a.html", f"<table>{page}</table>").text == text


def test_spans_without_end_cost_little():
    page = "<table><tr>" + "<td rowspan=65534 colspan=1000>x" * 9 + "</tr>" + "<tr><td>y" * 2000
    assert len(read_page("a.html", page).text) < 1_000_000


def test_alternative_texts_are_read_where_they_say_more():
    page = (
        "<p>Press <img alt='the red button'> now.<p><img alt=''><img><a href=/><img alt=Home></a>"
        "<figure><img alt='A mill'><figcaption>A mill by a river</figcaption></figure>"
        "<a href=big.png><img alt='Diagram of how grain flows'></a>"
    )
    text = "Press the red button now.\n\nA mill by a river\nDiagram of how grain flows"
    assert read_page("a.html", page).text == text


@pytest.mark.parametrize("pages", ["/usr/share/doc/sqlite3", "/usr/share/doc/git/html"])
def test_manuals_lose_no_code_table_or_definition(pages):
    """Debian's `sqlite3-doc` and `git-doc`: every twentieth page."""
    files = sorted(Path(pages).glob("*.html"))[::20]
    if not files:
        pytest.skip(f"{pages} is not installed")
    for file in files:
        page = file.read_text(encoding="utf-8", errors="replace")
        text = " ".join(read_page(file.name, page).text.split())
        for element in etree.HTML(page).iter("pre", "td", "dt", "dd", "p"):
            if not element.xpath(".//p|.//div|.//li|.//dl|.//table|.//script|.//td|.//pre|.//br|.//button"):
                assert " ".join(element.xpath("string()").split()) in text, file


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_every_text_format_are_line_feeds(folder, end):
    lines = ["---", "by: x", "---", "# Pond", "", "Deep", "", "water."]
    whole = end.join(lines)
    fill(
        folder,
        a_md=whole,
        b_txt=end.join(lines[3:]),
        c_html=f"<h1>Pond</h1><pre>Deep{end}{end}water.</pre>",
        d_jsonl=json.dumps({"id": "d", "title": f"Pond{end}", "text": end.join(lines[3:])}),
        e_csv=f'id,text{end}e,"{end.join(lines[3:])}"{end}',
    )
    found = reading_of(folder).documents
    assert {i: d.text for i, d in found.items() if i != "good.txt"} == {
        "a.md": "# Pond\n\nDeep\n\nwater.",
        "b.txt": "# Pond\n\nDeep\n\nwater.",
        "c.html": "Pond\n\nDeep\n\nwater.",
        "d": "# Pond\n\nDeep\n\nwater.",
        "e": "# Pond\n\nDeep\n\nwater.",
    }
    assert marks_of(found["a.md"]) == marks_of(found["c.html"]) == [("heading", 1, "Pond")]
    assert found["d"].title == "Pond\n"
    # Offsets count the characters of the file.
    start = shifted(whole.index("water"), found["a.md"].shifts)
    assert found["a.md"].text[start:] == "water."


def test_headings_nested_without_end_take_linear_time():
    started = time.monotonic()
    assert "deep" in read_page("a.html", "<h1>" * 2_000 + "deep").text
    with pytest.raises(ValueError, match="at most 2,048 deep, got more"):
        read_page("a.html", "<h1>" * 20_000 + "deep")
    read_markdown("a.md", "# " + " " * 1_000_000 + "x" + "#" * 100_000)
    read_markdown("a.md", "---\n" + "a: " * 1_000_000)
    assert time.monotonic() - started < 20


def test_a_tag_of_very_many_attributes_is_refused_before_it_takes_its_square():
    tag = "<p {}>x".format
    assert read_page("a.html", tag(" ".join(f"a{n}=1" for n in range(900)))).text == "x"
    assert read_page("a.html", tag(f'data-words="{"a b=c " * 20_000}"')).text == "x"
    for between in (" {}", " {}=1", "/{}", " b{}='x y'"):
        with pytest.raises(ValueError, match="at most 1,000 attributes of an element, got more"):
            read_page("a.html", "<p a< " + "".join(map(between.format, range(200_000))) + ">x")


def test_a_comment_without_an_end_is_text():
    assert read_page("a.html", "<p>pike <!-- eels --> perch</p><!-- roach <p>tench").text == (
        "pike perch\n\n<!-- roach\n\ntench"
    )


def test_front_matter_in_json_has_all_characters():
    read = read_markdown("a.md", '---\n{"title": "Caf\\u00e9 \\ud83d\\ude00", "groups": ["hr"]}\n---\nBody')
    assert (read.title, read.metadata["groups"], read.text) == ("Café 😀", ["hr"], "Body")


def test_front_matter_becomes_metadata_and_evidence_stays_right(folder, tmp_path):
    front = "---\ntitle: Pond life\ntags: [a, b]\ndate: 2024-05-01\nwhen: 2024-05-01 10:00:00\n---\n"
    body = "\n# Heron\n\nThe cafe\u0301 heron waits.\n"
    fill(folder, a_md=front + body)
    found = reading_of(folder).documents["a.md"]
    metadata = json.loads(found.metadata)
    assert metadata.pop("mog")["path"] == "a.md"
    assert metadata == {
        "title": "Pond life",
        "tags": ["a", "b"],
        "date": "2024-05-01",
        "when": "2024-05-01T10:00:00",
    }
    assert found.title == "Pond life"
    assert found.text == body.replace("e\u0301", "\u00e9")
    assert under(found, "waits") == (None, ("Heron",))
    start = (front + body).index("waits")
    assert found.text[shifted(start, found.shifts) :].startswith("waits")
    known = {"c": {"a.md": KnownDocument(len(found.text), found.shifts)}}
    spans = [(start, start + 5), (0, 5), (4, start), (len(front) - 1, len(front) + 3)]
    asked = tmp_path / "questions.jsonl"
    with asked.open("w") as stream:
        for n, (a, b) in enumerate(spans):
            evidence = [{"corpus": "c", "doc": "a.md", "start": a, "end": b}]
            stream.write(json.dumps({"id": str(n), "question": "?", "split": "a", "evidence": evidence}) + "\n")
    questions = read_questions(asked, known)
    (only,) = questions.questions
    assert found.text[only.evidence[0].start : only.evidence[0].end] == "waits"
    assert len(questions.problems) == 3


@pytest.mark.parametrize(
    "front",
    [
        "a: [",
        "- a\n- b",
        "1: a",
        "a: &x [1]\nb: *x",
        "a: .nan",
        "a: !!python/object/apply:os.system [ls]",
        "a: " + "[" * 15_000,
        "- " * 9_000 + "x",
        "? " * 9_000 + "a",
        "a: 2024-99-99",
    ],
)
def test_front_matter_that_is_no_plain_mapping_is_text(folder, front):
    text = f"---\n{front}\n---\n\nBody.\n"
    fill(folder, a_md=text)
    found = reading_of(folder).documents["a.md"]
    assert found.text == text and found.shifts == ()
    assert set(json.loads(found.metadata)) == {"mog"}


def test_files_are_named_and_dated_in_the_metadata(folder):
    fill(folder, a_csv="text\nOne.\n", b_jsonl='{"id": "b", "text": "B."}\n')
    os.utime(folder / "good.txt", (0, 1_700_000_000.9))
    found = reading_of(folder).documents
    assert {i: json.loads(d.metadata)["mog"] for i, d in found.items()} == {
        "good.txt": {"path": "good.txt", "modified": "2023-11-14T22:13:20Z"},
        "a.csv:2": {"path": "a.csv"},
        "b": {"path": "b.jsonl"},
    }


# Tables


def test_rows_of_tables_are_documents(folder):
    fill(
        folder,
        a_csv='ID;Title;Text;year\n1;Heron;"It; waits,\nlong.";2020\n2;Newt\n;Toad;Croaks.;2021\n\n1;x;y;z\n"open;;;\n',
        b_tsv="name\tlegs\nheron\t2\nnewt\t4\n",
        c_csv="\ufeffid,text\np,Pipes | and; more.\n",
    )
    (folder / "d.csv").write_bytes("id,text\r\nü,Ein Tag für alle Hühner und Gänse.\r\n".encode("utf-16"))
    found = reading_of(folder)
    documents = {i: (d.title, d.text) for i, d in found.documents.items()}
    assert documents == {
        "good.txt": ("Good.", "Good."),
        "1": ("Heron", "It; waits,\nlong."),
        "a.csv:4": ("Toad", "Croaks."),
        "b.tsv:2": ("", "name: heron\nlegs: 2"),
        "b.tsv:3": ("", "name: newt\nlegs: 4"),
        "p": ("", "Pipes | and; more."),
        "ü": ("", "Ein Tag für alle Hühner und Gänse."),
    }
    assert json.loads(found.documents["1"].metadata) == {"year": "2020", "mog": {"path": "a.csv"}}
    assert found.reasons["a.csv:3"] == "empty document"
    assert "duplicate id: '1' occurs at a.csv:2 and at a.csv:6" in found.reasons["a.csv:6"]
    assert found.reasons["a.csv:7"] == "empty document; quotation marks not closed: 1"
    assert len(found.reasons) == 3


def test_rows_without_their_last_cells_are_padded_and_longer_ones_are_skipped(folder):
    fill(folder, a_csv="id,text,born,died\n1,Pike,1993\n2,Eel\n3,Carp,1,2,3\n", b_csv="name,legs,wings\nnewt,4\n")
    found = reading_of(folder)
    metadata = {i: json.loads(d.metadata) for i, d in found.documents.items() if i in "12"}
    assert metadata == {
        "1": {"born": "1993", "died": "", "mog": {"path": "a.csv"}},
        "2": {"born": "", "died": "", "mog": {"path": "a.csv"}},
    }
    assert found.documents["b.csv:2"].text == "name: newt\nlegs: 4"
    assert found.reasons == {"a.csv:4": "expected at most 4 columns as in the header, got 5"}


def test_gzip_files_of_texts_are_read_as_the_texts(folder, tmp_path):
    row = b'id,text\nrow,"A row."\n'
    texts = {
        "notes.md.gz": b"---\nby: x\n---\n# Notes\n\nOf the pond.",
        "page.HTML.gz": b"<title>Page</title><p>A <b>page</b>.",
        "plain.txt.gz": b"First line\nand more.",
        "changelog.gz": b"pond (1.0) unstable\n\n  * Water.\n",
        "rows.csv.gz": row,
        "binary.gz": bytes(range(256)) * 9,
        "bomb.txt.gz": b"x" * (LIMIT + 1),
        "tape.tar.gz": b"No text is looked for here.",
    }
    for name, content in texts.items():
        (folder / name).write_bytes(gzip.compress(content))
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"cut" * 999)[:-9])
    (folder / "no.txt.gz").write_bytes(b"no gzip")
    found = reading_of(folder)
    assert {i: (d.title, d.text) for i, d in found.documents.items() if i != "good.txt"} == {
        "notes.md.gz": ("Notes", "# Notes\n\nOf the pond."),
        "page.HTML.gz": ("Page", "A page."),
        "plain.txt.gz": ("First line", "First line\nand more."),
        "changelog.gz": ("pond (1.0) unstable", "pond (1.0) unstable\n\n  * Water.\n"),
        "row": ("", "A row."),
    }
    assert {name: reason.split(";")[0] for name, reason in found.reasons.items()} == {
        "binary.gz": "binary content: NUL at byte 0",
        "bomb.txt.gz": f"expected to unpack to at most {LIMIT} bytes (max_document_mb), got more: not read",
        "cut.txt.gz": "expected a readable .gz file, got: Compressed file ended before the end-of-stream "
        "marker was reached",
        "no.txt.gz": "expected a readable .gz file, got: Not a gzipped file (b'no')",
        "tape.tar.gz": "unknown kind .gz: not opened",
    }
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(row))
    assert [d.id for d in read_corpus(tmp_path / "rows.csv.gz").documents] == ["row"]


def test_tables_made_to_break_a_parser_are_rows(folder):
    fill(
        folder,
        twice_csv="a,A ,a\n1,2,3\n",
        long_csv="id,text\n1," + "x" * 3000 + '\n2,"' + "y\n" * 1500 + '"\n3,fine\n',
        nul_csv="id,text\nn,a\0b\n",
        late_csv=b"id,text\nok,fine\n" + b"l,caf\xe9\n",
        empty_csv="",
        quote_csv='id,text\nq,"a, b" c, d\nr,fine\n',
        cut_csv='id,text\n8,fine\n9,"One, two,\nand, three',
    )
    found = reading_of(folder, limit=2000)
    assert set(found.documents) == {"good.txt", "3", "r", "8", "twice.csv:2"}
    assert found.documents["twice.csv:2"].text == "a: 1\nA: 2\na: 3"
    assert "expected at most 2000 characters per row" in found.reasons["long.csv:2"]
    assert found.reasons["nul.csv:2"].startswith("NUL character")
    assert "expected UTF-8" in found.reasons["late.csv"]
    assert "malformed row" in found.reasons["quote.csv:2"]
    assert "a quotation mark opens 2 lines above" in found.reasons["cut.csv:3"]


# Office documents


def test_pdf_has_pages_headings_and_paragraphs(folder):
    fill(folder, birds_pdf=paged_pdf(), plain_pdf=pdf([HERON]))
    documents = reading_of(folder).documents
    found = documents["birds.pdf"]
    assert found.title == "Birds of the pond"
    assert found.text == (
        "Birds\n\nThe grey heron stands still in shallow water and waits for a fish. It is an example of a patient "
        "bird. It lives by the pond, where it can be seen all the year, and it never hurries.\n\nThe newt lives in the "
        "pond.\n\nDucks swim.\n\nGeese\nGeese fly."
    )
    assert marks_of(found, "page") == [("page", 0, str(n)) for n in (1, 2, 3)]
    assert under(found, "newt") == (1, ("Birds",))
    assert under(found, "Ducks") == (3, ("Nothing",))
    assert under(found, "Geese fly") == (3, ("Geese",))
    assert found.text[found.marks[-1].offset :].startswith("Geese\n")
    assert json.loads(found.metadata)["mog"]["pages without text"] == 1
    assert documents["plain.pdf"].title.startswith("The grey heron")


def test_table_of_a_pdf_is_read_as_rows_of_cells_with_its_head_in_one_line(folder):
    drawn = [(50, 760, 12, "Herons by year, in thousands"), (50, 700, 10, "Pond")]
    # The head is drawn cell by cell, each of two lines that end on one level.
    drawn += [(250, 712, 10, "June 30,"), (255, 700, 10, "2022"), (350, 712, 10, "June 30,"), (355, 700, 10, "2021")]
    rows = [("Old mill, a name of several words", "1,204", "(98)"), ("Fees", "5", "7"), ("Newts", "11", "3")]
    for number, (name, *values) in enumerate(rows):
        y = 686 - 14 * number
        drawn.append((50, y, 10, name))
        for x, value in zip((260, 360), values, strict=True):
            drawn += [(x - 30, y, 10, "$")] if name == "Fees" else []
            drawn.append((x, y, 10, value))
    # A footnote, which is smaller and higher.
    drawn.insert(-2, (78, 662, 6, "(1)"))
    drawn.append((50, 600, 10, "Herons are counted in the morning, from one bank of the pond, by people who know it"))
    drawn.append((50, 588, 10, "and who do it every year."))
    fill(folder, herons_pdf=pdf([drawn], "Herons"))
    assert reading_of(folder).documents["herons.pdf"].text == (
        "Herons by year, in thousands\n\nPond | June 30, 2022 | June 30, 2021\n"
        "Old mill, a name of several words | 1,204 | (98)\nFees | $ 5 | $ 7\nNewts(1) | 11 | 3\n\n"
        "Herons are counted in the morning, from one bank of the pond, by people who know it and who do it every year."
    )


def test_two_columns_of_a_pdf_are_read_one_after_the_other(folder):
    left = [(50, 700 - 12 * n, 10, f"Left column, line {n} of its many words,") for n in range(8)]
    right = [(320, 700 - 12 * n, 10, f"right column, line {n} of its many words,") for n in range(8)]
    fill(folder, columns_pdf=pdf([[*left, *right]], "Columns"))
    text = reading_of(folder).documents["columns.pdf"].text
    assert "|" not in text and text.index("Left column, line 7") < text.index("right column, line 0")
    assert "line 3 of its many words, Left column, line 4" in text


def test_marker_of_an_item_in_a_pdf_is_no_cell(folder):
    words = "Herons wait for fish at the edge of the water and never hurry, whatever the"
    items = [(50, 700, 10, "1."), (80, 700, 10, words)]
    items += [(80, 688, 10, "weather is."), (50, 676, 10, "2."), (80, 676, 10, "Newts swim.")]
    fill(folder, items_pdf=pdf([items], "Items"))
    assert reading_of(folder).documents["items.pdf"].text == (
        "1. Herons wait for fish at the edge of the water and never hurry, whatever the weather is.\n2. Newts swim."
    )


def test_word_document_is_read_in_its_order(folder):
    fill(folder, pond_docx=docx_file())
    found = reading_of(folder).documents["pond.docx"]
    assert found.title == "The pond"
    assert found.text == (
        "The pond\n\nBirds\n\nThe heron waits.\n\nDucks\n\n- Mallard\n- Teal\n\nbird | legs\nheron | 2\n\nNewts\n\n"
        "A newt\tis caf\u00e9 brown."
    )
    assert under(found, "Teal") == (None, ("Birds", "Ducks"))
    assert under(found, "A newt") == (None, ("Newts",))


def test_presentation_has_slides(folder):
    fill(folder, talk_pptx=pptx_file())
    found = reading_of(folder).documents["talk.pptx"]
    assert found.text == ("Herons\n\nThey wait.\n\nNewts\n\nThey swim.\n\nanimal | legs\nnewt | 4\n\nSpeak slowly.")
    assert marks_of(found, "slide") == [("slide", 0, str(n)) for n in (1, 2, 3)]
    assert under(found, "wait") == (1, ("Herons",))
    assert under(found, "slowly") == (2, ("Newts",))


def test_book_has_headings(folder):
    fill(folder, book_epub=epub_file())
    found = reading_of(folder).documents["book.epub"]
    assert (found.title, found.text) == ("Pond & mill", "One\n\nFirst.\n\nInner\n\nDeep.\n\nTwo\n\nLast.")
    assert under(found, "Deep") == (None, ("One", "Inner"))
    assert under(found, "Last") == (None, ("Two",))


def hostile():
    """Files that cannot be used, and a part of the reason."""
    whole, book = paged_pdf(), epub_file()
    return {
        "encrypted.pdf": (encrypted_pdf(), "encrypted: expected a file that opens without a password"),
        "scanned.pdf": (scanned_pdf(), "scanned: 3 pages without text"),
        "truncated.pdf": (whole[:300], "damaged: expected a readable .pdf file"),
        "noise.pdf": (b"%PDF-1.7\n" + hashlib.sha256(b"x").digest() * 100, "damaged"),
        "empty.pdf": (b"", "damaged"),
        "empties.pdf": (pdf([[]] * 10_000), "scanned: 10000 pages without text"),
        "text.docx": (b"This is a text.", "damaged: expected a .docx file (a zip archive)"),
        "rtf.docx": (b"{\\rtf1 M}", "expected a .docx file (a zip archive), got RTF: save it as .docx"),
        "page.docx": (b"\xef\xbb\xbf<html>", "expected a .docx file (a zip archive), got HTML or XML"),
        "empty.docx": (b"", "expected a .docx file (a zip archive), got an empty file"),
        "other.docx": (pptx_file(), "damaged: expected a .docx file, got an archive of another kind"),
        "entities.docx": (entity_bomb(), "'word/document.xml' declares a document type or entities"),
        "deep.docx": (deep_docx(), "damaged: expected a readable .docx file, got XMLSyntaxError"),
        "bomb.docx": (
            with_part(docx_file(), "word/document.xml", b" " * 250_000_000),
            "expected to unpack to at most 200 MB (max_unpacked_mb), got more: not read",
        ),
        "old.docx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "a file of an older Office: save it as .docx"),
        "locked.pptx": (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "encrypted: expected a file that opens without a password",
        ),
        "entries.pptx": (
            zipped({f"{n}.xml": b"" for n in range(10_001)}),
            "expected at most 10000 files in the archive, got 10001",
        ),
        "truncated.epub": (book[: len(book) // 2], "damaged: expected a .epub file (a zip archive)"),
        "bare.epub": (zipped({"mimetype": "application/epub+zip"}), "got one without META-INF/container.xml"),
        "blank.epub": (zipped(epub_parts(one="<p> </p>")), "empty document"),
    }


def test_files_that_cannot_be_used_have_a_reason_and_never_stop_a_corpus(folder):
    made = hostile()
    for name, (content, _) in made.items():
        (folder / name).write_bytes(content)
    fill(folder, zz_pdf=paged_pdf(), zz_docx=docx_file(), zz_epub=epub_file())
    started = time.monotonic()
    found = reading_of(folder)
    assert time.monotonic() - started < 30
    assert set(found.documents) == {"good.txt", "zz.pdf", "zz.docx", "zz.epub"}
    assert set(found.reasons) == set(made)
    for name, (_, reason) in made.items():
        assert reason in found.reasons[name], name


def test_names_in_archives_lead_nowhere(folder):
    parts = epub_parts(one="<p>Page.</p>")
    parts["OEBPS/book.opf"] = parts["OEBPS/book.opf"].replace("one.xhtml", "../../../../etc/passwd")
    outside = parts | {"../../../../tmp/evil.xhtml": "<p>Evil.</p>"}
    fill(folder, a_epub=zipped(outside))
    assert reading_of(folder).reasons == {"a.epub": "empty document; pages missing: 1"}


def test_sizes_that_an_archive_declares_are_not_trusted(folder):
    content = bytearray(with_part(docx_file(), "word/document.xml", b" " * 30_000_000))
    # In both headers of the file.
    size = (30_000_000).to_bytes(4, "little")
    assert content.count(size) == 2
    fill(folder, a_docx=bytes(content).replace(size, (1000).to_bytes(4, "little")), b_docx=bytes(content))
    found = reading_of(folder, Limits(unpacked_bytes=10_000_000)).reasons
    assert found["a.docx"].startswith("damaged: expected a .docx file (a zip archive)")
    assert found["b.docx"].startswith("expected to unpack to at most 10 MB")


def test_large_tables_are_read_in_linear_time(folder):
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    row = "<w:tr>" + "<w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>" * 20 + "</w:tr>"
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:tbl {space}>{row * 3000}</w:tbl>"))
    fill(folder, a_docx=saved(document))
    assert reading_of(folder, Limits(seconds=20)).documents["a.docx"].text.count("x | x") == 3000 * 10


def test_text_over_the_cap_is_recorded_and_the_next_file_is_read(folder):
    books = [zipped(epub_parts(one=f"<p>{text}</p>")) for text in ("word " * 50_000, "é" * 60_000)]
    fill(folder, a_epub=books[0], b_epub=books[1], c_epub=epub_file())
    found = reading_of(folder, limit=100_000)
    assert found.reasons["a.epub"].startswith("expected at most 100000 characters of text (max_document_mb), got more")
    assert found.reasons["b.epub"].startswith("expected at most 100000 bytes of text (max_document_mb), got 120000")
    assert "c.epub" in found.documents


# The process


@pytest.fixture
def sabotaged(monkeypatch):
    """Have the parsing process run some code before it reads a file with a given name."""

    def arrange(name, code):
        added = (
            "from mog_assets.documents import worker; genuine = worker.read\n"
            "def read(name, *rest):\n"
            f"    if name == {name!r}:\n"
            f"        {code}\n"
            "    return genuine(name, *rest)\n"
            "worker.read = read\n"
        )
        monkeypatch.setattr(worker, "_CODE", worker._CODE.replace("main(sys", f"exec({added!r}); main(sys"))

    return arrange


@pytest.fixture
def starts(monkeypatch):
    """Process ids of the parsing processes that are started."""
    started = []
    genuine = worker.subprocess.Popen

    def popen(*arguments, **options):
        process = genuine(*arguments, **options)
        started.append(process)
        return process

    monkeypatch.setattr(worker.subprocess, "Popen", popen)
    return started


def three(folder):
    fill(folder, a_pdf=pdf([HERON]), b_pdf=pdf([HERON[1:]]), c_docx=docx_file())


def test_one_process_reads_all_files_that_need_one_and_ends(folder, starts):
    reading_of(folder)
    assert starts == []
    three(folder)
    assert len(reading_of(folder).documents) == 4
    (process,) = starts
    assert process.poll() is not None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os.kill(os.getpid(), 11)", "the parser crashed (SIGSEGV); the file may be damaged"),
        ("import os; os._exit(3)", "the parser crashed (exit status 3); the file may be damaged"),
        ("bytearray(4 << 30)", "expected to need at most 2048 MB to be parsed (max_memory_mb)"),
        ("raise RecursionError('deep')", "damaged: expected a readable .pdf file, got RecursionError: deep"),
    ],
)
def test_a_crash_costs_one_file(folder, sabotaged, starts, code, reason):
    three(folder)
    sabotaged("b.pdf", code)
    found = reading_of(folder)
    assert set(found.documents) == {"good.txt", "a.pdf", "c.docx"}
    assert found.reasons == {"b.pdf": reason}
    assert all(process.poll() is not None for process in starts)


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "import os; os.kill(os.getpid(), 19)"])
def test_a_file_that_takes_too_long_costs_that_file(folder, sabotaged, code):
    three(folder)
    sabotaged("b.pdf", code)
    started = time.monotonic()
    found = reading_of(folder, Limits(seconds=1))
    assert time.monotonic() - started < 20
    assert set(found.documents) == {"good.txt", "a.pdf", "c.docx"}
    assert found.reasons == {"b.pdf": "expected to be parsed in 1 s (max_seconds): stopped"}


def test_a_process_killed_from_outside_costs_nothing(folder, sabotaged, starts, tmp_path):
    three(folder)
    parsing = tmp_path / "parsing"
    seen = f"import time, pathlib; seen = pathlib.Path({str(parsing)!r})"
    sabotaged("b.pdf", f"{seen}; seen.exists() or (seen.touch(), time.sleep(60))")

    def kill():
        while not parsing.exists():
            time.sleep(0.01)
        os.kill(starts[0].pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    found = reading_of(folder)
    thread.join()
    assert len(starts) == 2
    assert found.reasons == {} and len(found.documents) == 4


def test_the_process_imports_neither_torch_nor_dagster_and_is_given_no_secrets(folder, sabotaged, monkeypatch):
    three(folder)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    seen = "[m for m in ('torch', 'dagster', 'pyarrow', 'pydantic') if m in sys.modules]"
    sabotaged("c.docx", f"import os, sys; raise ValueError(f\"{{os.environ.get('OPENAI_API_KEY')}} {{{seen}}}\")")
    assert reading_of(folder).reasons == {"c.docx": "None []"}


def test_a_library_that_is_missing_is_no_fault_of_the_file(folder, sabotaged):
    three(folder)
    sabotaged("c.docx", "import nothing_of_this_name")
    with pytest.raises(MogError, match=r"c\.docx: the parser cannot be used: No module named"):
        reading_of(folder)


def test_a_process_that_does_not_start_is_said(folder, monkeypatch):
    three(folder)
    monkeypatch.setattr(worker, "_CODE", "raise SystemExit(7)")
    with pytest.raises(MogError, match="the process that parses files did not start .exit status 7"):
        reading_of(folder)

    def full(*_, **__):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(worker.subprocess, "Popen", full)
    with pytest.raises(MogError, match="did not start: Cannot allocate memory"):
        reading_of(folder)


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[",
        b'["parsed", [""]]',
        b'["parsed", [{}, ""]]',
        b'["parsed", ["", "", [[1, "page", 0, "1"]]]]',
        b'["parsed", ["", "", [[0, "page", 0, "x"]]]]',
        b'["parsed", ["", "", [[0, "line", 0, "1"]]]]',
    ],
)
def test_nothing_that_the_process_answers_is_taken_on_trust(folder, sabotaged, answer):
    three(folder)
    sent = len(answer).to_bytes(4, "big") + answer
    sabotaged("b.pdf", f"import os; os.write(0, {sent!r}); os._exit(0)")
    found = reading_of(folder)
    assert list(found.reasons) == ["b.pdf"] and "the parser crashed" in found.reasons["b.pdf"]
    assert set(found.documents) == {"good.txt", "a.pdf", "c.docx"}


def test_a_process_whose_parent_is_gone_ends(folder):
    parser = worker.Parser(Limits(), LIMIT)
    parser.parse("a.pdf", pdf([HERON]))
    parser._connection.close()
    assert parser._process.wait(20) == 0


# Reading again


def test_reading_twice_gives_equal_documents(folder):
    three(folder)
    fill(folder, d_pptx=pptx_file(), e_epub=epub_file(), f_md="---\na: 1\n---\n# F\n", g_csv="a,b\n1,2\n")
    digests = [[o.digest for o in reading_of(folder).reading.used] for _ in range(2)]
    assert digests[0] == digests[1] and len(digests[0]) == 8


def test_unchanged_files_are_not_parsed_again(folder, tmp_path, monkeypatch, starts, sabotaged):
    three(folder)
    fill(folder, d_csv="id,text\n1,One.\nbroken\n2,Two.\n", e_pdf=b"%PDF")
    sabotaged("f.pdf", "import os; os._exit(3)")
    fill(folder, f_pdf=pdf([HERON]))
    first = reading_of(folder).reading
    first.journal.write(tmp_path / "memory", "s")
    before = len(starts)
    second = reading_of(folder, memory=load_memory(tmp_path / "memory", "s")).reading
    # A crash may have had another cause: the file is tried again.
    assert len(starts) == before + 1
    assert (second.used, second.skipped) == (first.used, first.skipped)
    assert len(second.normalised) == 0
    (folder / "f.pdf").unlink()
    reading_of(folder, memory=load_memory(tmp_path / "memory", "s"))
    assert len(starts) == before + 1
    fill(folder, a_pdf=pdf([HERON[::-1]]))
    third = reading_of(folder, memory=load_memory(tmp_path / "memory", "s")).reading
    assert len(third.normalised) == 1 and len(starts) == before + 2


# Settings
