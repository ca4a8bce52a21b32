"""Word documents and presentations: what their programs store in other ways than the usual one."""

import json
import re
import zipfile
from io import BytesIO

import docx
import pptx
import pytest
from docx.oxml import parse_xml

from mog_assets.documents.reading import read_corpus

SPACES = {
    "w": "wordprocessingml/2006/main",
    "m": "officeDocument/2006/math",
    "r": "officeDocument/2006/relationships",
    "a": "drawingml/2006/main",
    "c": "drawingml/2006/chart",
    "wp": "drawingml/2006/wordprocessingDrawing",
}
NAMED = " ".join(f'xmlns:{key}="http://schemas.openxmlformats.org/{name}"' for key, name in SPACES.items())
TYPE = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def parts_of(content):
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts):
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def word(*blocks, numbering="", **more):
    """A Word document of blocks of XML, and its numbering and other parts."""
    document, made = docx.Document(), BytesIO()
    body = document.element.body
    for block in parse_xml(f"<w:body {NAMED}>{''.join(blocks)}</w:body>"):
        body.insert(len(body) - 1, block)
    document.save(made)
    parts = parts_of(made.getvalue()) | more
    if numbering:
        parts["word/numbering.xml"] = f"<w:numbering {NAMED}>{numbering}</w:numbering>".encode()
    return zipped(parts)


def paragraph(text, properties="", inside=""):
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r>{inside}</w:p>'


def math(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


def cell(text):
    return f"<w:tc>{paragraph(text)}</w:tc>"


def control(inside):
    return f"<w:sdt><w:sdtPr><w:alias w:val='x'/></w:sdtPr><w:sdtContent>{inside}</w:sdtContent></w:sdt>"


def document(tmp_path, content, name="a.docx"):
    folder = tmp_path / "c"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    (only,) = read_corpus(folder).documents
    return only


def noted(found):
    return {key: note for key, note in json.loads(found.metadata)["mog"].items() if "not read" in key}


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (math("E=40 kW"), "E=40 kW"),
        (
            f"{math('x=')}<m:f><m:num>{math('a+b')}</m:num><m:den>{math('2c')}</m:den></m:f>",
            "x=(a+b)/2c",
        ),
        (
            f"<m:sSup><m:e>{math('r')}</m:e><m:sup>{math('2')}</m:sup></m:sSup>"
            f"<m:sSub><m:e>{math('v')}</m:e><m:sub>{math('max')}</m:sub></m:sSub>",
            "r^2v_max",
        ),
        (
            f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{math("i=1")}</m:sub><m:sup>{math("n")}</m:sup>'
            f"<m:e>{math('i')}</m:e></m:nary>",
            "∑_(i=1)^n i",
        ),
        (
            f"<m:rad><m:deg>{math('3')}</m:deg><m:e>{math('x+1')}</m:e></m:rad>"
            f'<m:d><m:dPr><m:endChr m:val="]"/></m:dPr><m:e>{math("0")}</m:e><m:e>{math("1")}</m:e></m:d>',
            "3√(x+1)(0|1]",
        ),
    ],
)
def test_formulas_stand_in_their_sentences(tmp_path, formula, text):
    block = paragraph("The energy is ", inside=f"<m:oMath>{formula}</m:oMath><w:r><w:t> here.</w:t></w:r>")
    assert document(tmp_path, word(block)).text == f"The energy is {text} here."
    display = f"<m:oMathPara><m:oMath>{formula}</m:oMath></m:oMathPara>"
    assert document(tmp_path, word(paragraph("It is"), display)).text == f"It is\n\n{text}"


def test_rows_and_cells_of_content_controls_are_read_in_their_order(tmp_path):
    table = (
        f"<w:tbl><w:tr>{cell('Item')}{cell('Price')}</w:tr>"
        + control(f"<w:tr>{cell('Oats')}{control(cell('12'))}</w:tr><w:tr>{cell('Rye')}{cell('13')}</w:tr>")
        + control(control(f"<w:tr>{cell('Barley')}{cell('14')}</w:tr>"))
        + f"<w:customXml><w:tr>{cell('Hay')}<w:tc>{control(paragraph('15'))}</w:tc></w:tr></w:customXml></w:tbl>"
    )
    found = document(tmp_path, word(table, paragraph("Sold by ", inside=control("<w:r><w:t>Ann</w:t></w:r>"))))
    assert found.text == "Item | Price\nOats | 12\nRye | 13\nBarley | 14\nHay | 15\n\nSold by Ann"


def level(at, form, text, more=""):
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{text}"/></w:lvl>'
    )


LISTS = [
    level(0, "decimal", "%1", '<w:pStyle w:val="Heading1"/>') + level(1, "decimal", "%1.%2"),
    level(0, "lowerLetter", "%1)") + level(1, "upperRoman", "%2.") + level(2, "bullet", "·"),
    level(0, "chineseCountingThousand", "第%1章") + level(1, "decimal", "%1.%2", "<w:isLgl/>"),
    '<w:numStyleLink w:val="Articles"/>',
    '<w:styleLink w:val="Articles"/>' + level(0, "decimal", "Art. %1:"),
]
NUMBERING = "".join(f'<w:abstractNum w:abstractNumId="{n}">{levels}</w:abstractNum>' for n, levels in enumerate(LISTS))
NUMBERING += "".join(f'<w:num w:numId="{n + 1}"><w:abstractNumId w:val="{n}"/></w:num>' for n in range(4))
NUMBERING += (
    '<w:num w:numId="5"><w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="4"/>'
    "</w:lvlOverride></w:num>"
)


def item(text, number, at=0, style=""):
    place = f'<w:ilvl w:val="{at}"/>' if at is not None else ""
    return paragraph(text, f'<w:pStyle w:val="{style}"/><w:numPr>{place}<w:numId w:val="{number}"/></w:numPr>')


def test_headings_and_items_have_the_numbers_that_are_shown(tmp_path):
    found = document(
        tmp_path,
        word(
            item("Scope", 1, style="Heading1"),
            item("Aim", 1, 1, style="Heading2"),
            item("Limits", 1, 1, style="Heading2"),
            item("Terms", 1, None, style="Heading1"),
            item("Mill", 1, 1, style="Heading2"),
            *(item("a", 2), item("b", 2), item("one", 2, 1), item("two", 2, 1), item("dot", 2, 2), item("c", 2)),
            *(item("anew", 5), item("on", 5), item("水车", 3), item("条款", 3, 1), item("Rent", 4)),
            item("none", 0),
            numbering=NUMBERING,
        ),
    )
    assert found.text == (
        "1 Scope\n\n1.1 Aim\n\n1.2 Limits\n\n2 Terms\n\n2.1 Mill\n\na) a\nb) b\nI. one\nII. two\n- dot\nc) c\nd) anew\n"
        "e) on\n第一章 水车\n1.1 条款\nArt. 1: Rent\n\nnone"
    )
    assert found.title == "Scope" and [mark.text for mark in found.marks][:2] == ["1 Scope", "1.1 Aim"]


def test_numbers_of_lists_in_tables_and_large_first_letters_stand_before_their_texts(tmp_path):
    rows = "".join(f"<w:tr><w:tc>{item('', 2)}</w:tc><w:tc>{item(text, 4)}</w:tc></w:tr>" for text in ("Oats", "Rye"))
    first = paragraph("T", '<w:framePr w:dropCap="drop"/>')
    found = document(tmp_path, word(first, paragraph("he mill."), f"<w:tbl>{rows}</w:tbl>", numbering=NUMBERING))
    assert found.text == "The mill.\n\na) | Art. 1: Oats\nb) | Art. 2: Rye"


def test_lists_by_style_are_numbered_and_bullets_are_not(tmp_path):
    made, content = docx.Document(), BytesIO()
    for text, style in (("Open.", "List Number"), ("Close.", "List Number"), ("Mallard", "List Bullet")):
        made.add_paragraph(text, style=style)
    made.save(content)
    assert document(tmp_path, content.getvalue()).text == "1. Open.\n2. Close.\n- Mallard"


@pytest.mark.parametrize(
    "kind",
    [
        b"application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
        b"application/vnd.ms-word.document.macroEnabled.main+xml",
        b"application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    ],
)
def test_templates_and_documents_with_macros_are_documents(tmp_path, kind):
    parts = parts_of(word(paragraph("The rent is due.")))
    parts["[Content_Types].xml"] = parts["[Content_Types].xml"].replace(TYPE, kind)
    assert document(tmp_path, zipped(parts)).text == "The rent is due."


def strict(content):
    """A file as the strict form of the standard has it."""
    names = re.compile(rb"http://schemas.openxmlformats.org/(\w+)/2006/(?!content-types|metadata|relationships\")")
    return zipped(
        {
            n: part if n[0] == "[" else names.sub(rb"http://purl.oclc.org/ooxml/\1/", part)
            for n, part in parts_of(content).items()
        }
    )


def test_strict_files_are_read(tmp_path):
    block = paragraph("The rent ", inside=f"<m:oMath>{math('E=1')}</m:oMath>")
    content = strict(word(item("Lease", 1, style="Heading1"), block, numbering=NUMBERING))
    assert document(tmp_path, content).text == "1 Lease\n\nThe rent E=1"
    made, content = pptx.Presentation(), BytesIO()
    slide = made.slides.add_slide(made.slide_layouts[0])
    slide.shapes.title.text, slide.placeholders[1].text = "Herons", "They wait."
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    made.save(content)
    assert (
        document(tmp_path / "p", strict(content.getvalue()), "a.pptx").text == "Herons\n\nThey wait.\n\nSpeak slowly."
    )


MHT = (
    'MIME-Version: 1.0\nContent-Type: multipart/related; type="text/html"; boundary="b"\n\n--b\n'
    'Content-Type: text/html; charset="utf-8"\nContent-Transfer-Encoding: quoted-printable\n\n'
    "<html><body><p>M=C3=BChle</p></body></html>\n--b--\n"
)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("chunk.html", "<html><body><h1>Mühle</h1></body></html>".encode(), "Mühle"),
        pytest.param("chunk.mht", MHT.encode(), "Mühle", marks=pytest.mark.whole),
        ("chunk.txt", "Mühle <alt>".encode(), "Mühle <alt>"),
        ("chunk.docx", word(paragraph("Mühle")), "Mühle"),
        ("chunk.rtf", b"{\\rtf1 M}", ""),
    ],
)
def test_documents_inside_a_document_stand_at_their_place(tmp_path, name, content, text):
    parts = parts_of(word(paragraph("Above."), '<w:altChunk r:id="own"/>', paragraph("Below.")))
    relation = f'<Relationship Id="own" Target="/word/{name}" Type="http://x/relationships/aFChunk"/></Relationships>'
    relations = "word/_rels/document.xml.rels"
    parts[relations] = parts[relations].replace(b"</Relationships>", relation.encode())
    found = document(tmp_path, zipped(parts | {f"word/{name}": content}))
    assert found.text == "\n\n".join(filter(None, ["Above.", text, "Below."]))
    assert noted(found) == ({} if text else {"inserted documents not read": [f"word/{name}"]})


def test_what_is_left_out_of_a_word_document_is_noted(tmp_path):
    inside = '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:endnoteReference w:id="2"/></w:r>'
    inside += (
        '<w:r><w:commentReference w:id="0"/><w:drawing><wp:docPr descr="A mill"/><c:chart r:id="x"/></w:drawing></w:r>'
    )
    found = document(tmp_path, word(paragraph("The rent is due.", inside=inside)))
    assert noted(found) == {
        "footnotes not read": 2,
        "comments not read": 1,
        "charts not read": 1,
        "alternative texts not read": 1,
    }
    assert noted(document(tmp_path, word(paragraph("The rent is due.")))) == {}


def test_a_text_box_follows_its_paragraph_and_kanji_are_not_read_twice(tmp_path):
    box = f"<w:r><w:pict><w:txbxContent>{paragraph('One.')}{paragraph('Two.')}</w:txbxContent></w:pict></w:r>"
    reading = (
        "<w:ruby><w:rt><w:r><w:t>みず</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>水</w:t></w:r></w:rubyBase></w:ruby>"
    )
    kanji = paragraph("", inside=f"<w:r>{reading}</w:r>")
    found = document(tmp_path, word(paragraph("Before ", inside=f"{box}<w:r><w:t>after.</w:t></w:r>"), kanji))
    assert found.text == "Before after.\nOne.\nTwo.\n\n水"
