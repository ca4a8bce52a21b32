"""PDF files: what stands on their pages is read in its order, and what is left out is said."""

import pytest
from pdf_file import pdf

from mog_assets.documents.formats.pdf import read_pdf
from mog_assets.serve.reading import page_at

WORDS = "The heron of pond {} waits for a fish in the shallow water and never hurries at"


def read(content, **given):
    return read_pdf(content, "file", 10**6, **given)


def prose(number, first=700, count=8):
    """Lines of a page, each of which is as long as the column and goes on in the next."""
    return [(72, first - 12 * n, 10, WORDS.format(100 * number + n)) for n in range(count)]


def test_a_sentence_goes_on_over_the_end_of_a_page_whatever_header_and_footer_stand_there():
    pages = [
        [
            *prose(number),
            (72, 770, 9, "Quern Works Ltd."),
            (72, 758, 9, "Manual QW-77"),
            # After the text, wherever that ends, or at the bottom of the page.
            (280, 560 if number % 2 else 40, 10, f"Page {number + 1} of 5"),
        ]
        for number in range(5)
    ]
    found = read(pdf(pages, "Herons"))
    assert "of pond 7 waits for a fish in the shallow water and never hurries at The heron of pond 100" in found.text
    body, _, kept = found.text.rpartition("\n\n")
    assert "Quern" not in body and "Page" not in body and kept == "Quern Works Ltd.\nManual QW-77"
    assert found.notes == {"headers and footers left out": 15}
    for number in range(5):
        assert page_at(found.marks, found.text.index(f"pond {100 * number + 3} ")) == number + 1
    # The hyphen of a word that a page divides.
    halves = [[*prose(0), (72, 604, 10, "It is an exam-")], [(72, 700, 10, "ple of a bird."), *prose(1, 688)]]
    assert "It is an example of a bird." in read(pdf(halves)).text


def test_what_is_no_header_stays_where_it_is():
    rows = [
        [(72, 760 - 14 * n, 10, f"newt {number}{n}"), (300, 760 - 14 * n, 10, "5")]
        for number in range(4)
        for n in (1, 2)
    ]
    heads = [(72, 760, 10, "Animal"), (300, 760, 10, "Legs")]
    table = [[*heads, *rows[2 * number], *rows[2 * number + 1]] for number in range(4)]
    assert read(pdf(table)).text.count("Animal | Legs") == 4
    # A heading at the top of some pages, where text stands on the others.
    report = [
        [(72, 760, 10, "Summary" if number in (2, 5, 8) else WORDS.format(number)), *prose(number)]
        for number in range(12)
    ]
    assert read(pdf(report)).text.count("Summary") == 3
    # Large lines, numbers that do not count the pages, and what stands once.
    exhibits = [[(72, 760, 18, f"Day {n + 1}"), (72, 40, 10, f"See No. {n * n}"), *prose(n)] for n in range(6)]
    found = read(pdf(exhibits))
    assert all(f"Day {n + 1}\n" in found.text and f"See No. {n * n}" in found.text for n in range(6))
    assert found.notes == {}


def test_a_hyphen_of_unicode_at_the_end_of_a_line_divides_a_word():
    # The code 45 of the font stands for the hyphen U+2010.
    content = pdf(
        [
            [
                (72, 700, 10, "Die Gebaerdensprachdolmetscherin im Feuerwehrgerae-"),
                (72, 688, 10, "tehaus der Donau-"),
                (72, 676, 10, "Insel wartet."),
            ]
        ],
        font=b"/Encoding << /Type /Encoding /Differences [45 /uni2010] >>",
    )
    assert read(content).text == "Die Gebaerdensprachdolmetscherin im Feuerwehrgeraetehaus der Donau-Insel wartet."


def mapped(glyphs, lines):
    """A PDF whose lines are drawn with glyphs of a font that stand for one or more characters each."""
    codes = {glyph: chr(0x61 + number) for number, glyph in enumerate(glyphs)}
    pairs = "".join(f"<{ord(code):02x}> <{glyph.encode('utf-16-be').hex()}>\n" for glyph, code in codes.items())
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange {len(codes)} beginbfchar\n{pairs}endbfchar endcmap end end"
    ).encode()
    stream = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap)
    drawn = [(x, y, 10, "".join(codes[glyph] for glyph in line)) for x, y, line in lines]
    return pdf([drawn], font=b"/ToUnicode 50 0 R", objects={50: stream})


def test_arabic_and_hebrew_are_read_as_they_are_written():
    # Drawn from left to right, as all programs do; a ligature is one glyph.
    arabic = ["ب", "لا", "ط", "ل", "ا", " ", "إ", "(", "4", "7", ")", "P", "y"]
    line = ["(", "7", "4", "ط", ")", " ", "P", "y", " ", "ب", "لا", "ط", "ل", "ا", " ", "لا", "إ"]
    assert read(mapped(arabic, [(72, 700, line)])).text == "إلا الطلاب Py (ط74)"
    hebrew = list("שלום פה.")
    assert read(mapped(hebrew, [(72, 700, list(".הפ םולש"))])).text == "שלום פה."
    # A word within a line that runs to the right.
    mixed = [*"abcdefg", "ب", "لا", "ط", " "]
    assert read(mapped(mixed, [(72, 700, [*"abc def ", "ب", "لا", "ط", *" gab"])])).text == "abc def طلاب gab"


def test_lines_of_scripts_without_blanks_are_joined_without_them():
    chinese = "停车场的开放时间为上午七点至晚上十点"
    lines = [(72, 700 - 12 * n, list(chinese * 3)) for n in range(3)]
    assert read(mapped(list(chinese), lines)).text == chinese * 9
    thai = "ที่จอดรถเปิด"
    lines = [(72, 700 - 12 * n, list(thai * 4)) for n in range(3)]
    assert read(mapped(list(dict.fromkeys(thai)), lines)).text == thai * 12
    korean = "주차장은"
    lines = [(72, 700 - 12 * n, list(korean * 12)) for n in range(2)]
    assert read(mapped(list(korean), lines)).text == korean * 12 + " " + korean * 12


def test_code_keeps_its_indentation_and_prose_of_a_typewriter_its_paragraphs():
    courier = b"/Encoding /WinAnsiEncoding /Widths [%s] /FirstChar 32 /LastChar 126" % (b"600 " * 95)
    listing = [
        "def turn(stone):",
        "    if stone.hot:",
        "        return None     # hot",
        "    ports:",
        "      - 80",
        "    }",
        "stone.step()",
    ]
    lines = [
        (
            72 + 6 * (len(line) - len(line.lstrip())),
            600 - 12 * n,
            10,
            line.lstrip().replace("(", "\\(").replace(")", "\\)"),
        )
        for n, line in enumerate(listing)
    ]
    found = read(pdf([lines], font=courier))
    assert found.text == "\n".join(listing)
    assert read(pdf([prose(0)], font=courier)).text.count("\n") == 0


def test_spaced_letters_are_words_and_lists_of_letters_stay():
    spaced = pdf(
        [b"BT /F1 20 Tf 10 Tc 72 700 Td (CHAPTER SEVEN) Tj ET BT /F1 10 Tf 0 Tc 72 650 Td (It opens at six.) Tj ET"]
    )
    assert read(spaced).text == "CHAPTER SEVEN\n\nIt opens at six."
    letters = b"BT /F1 10 Tf 72 700 Td (See A B C D E F and M T W.) Tj ET"
    assert read(pdf([letters])).text == "See A B C D E F and M T W."


PAGE = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 101 0 R /Resources << /Font << /F1 3 0 R >> >> "


def test_values_of_form_fields_and_annotations_are_read():
    widget = b"<< /Type /Annot /Subtype /Widget /P 100 0 R "
    shown = b"/AP << /N << /Yes 74 0 R >> >> >>"
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [70 0 R 71 0 R 72 0 R] >> >>",
        70: widget + b"/FT /Tx /T (n) /V (Ann Miller) /Rect [140 690 390 720] >>",
        71: widget + b"/FT /Btn /T (agree) /TU (I agree) /V /Yes /AS /Yes /Rect [140 650 160 670] " + shown,
        72: widget + b"/FT /Btn /T (news) /V /Off /AS /Off /Rect [140 610 160 630] " + shown,
        73: b"<< /Type /Annot /Subtype /Text /Contents (Ask Bob.) /Rect [300 500 320 520] >>",
        74: b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Length 0 >>\nstream\n\nendstream",
        100: PAGE + b"/Annots [70 0 R 71 0 R 72 0 R 73 0 R] >>",
    }
    lines = [(72, 700, 10, "Name"), (72, 655, 10, "Consent"), (72, 615, 10, "Letters"), (72, 400, 10, "The end.")]
    found = read(pdf([lines], objects=objects))
    assert " ".join(found.text.split()) == ("Name | Ann Miller Consent | I agree: Yes Letters The end. Ask Bob.")


def test_an_xfa_form_is_refused_as_one():
    form = b"/AcroForm << /Fields [] /XFA [(template) 60 0 R] >>"
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R /NeedsRendering true %s >>" % form,
        60: b"<< /Length 11 >>\nstream\n<template/>\nendstream",
    }
    with pytest.raises(ValueError, match="XFA form: expected text on the pages"):
        read(pdf([[(72, 700, 10, "Please wait...")]], "Form", objects=objects))


def unmapped(pages, shown=b"002F0052005500480050"):
    """A PDF whose pages, but for those after the first, have a font that numbers its glyphs and has no map of them."""
    objects = {
        80: b"<< /Type /Font /Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [81 0 R] >>",
        81: b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Own /FontDescriptor 82 0 R /DW 600 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        82: b"<< /Type /FontDescriptor /FontName /Own /Flags 4 /FontBBox [0 0 600 800] /ItalicAngle 0 /Ascent 800 "
        b"/Descent 0 /CapHeight 700 /StemV 80 >>",
        100: PAGE.replace(b"/F1 3 0 R", b"/F1 80 0 R") + b">>",
    }
    glyphs = b"BT /F1 10 Tf 72 700 Td <" + shown + b"> Tj ET"
    return pdf([glyphs, *pages], objects=objects)


def test_pages_in_fonts_that_do_not_say_their_letters_are_noted_refused_or_recognised():
    found = read(unmapped([prose(0)]))
    assert found.notes == {"pages in fonts that do not say their letters": 1}
    with pytest.raises(ValueError, match="no text: its fonts do not say which letters they show"):
        read(unmapped([]))
    from mog_assets.documents.formats.pdf_lines import Recognised

    seen = read(unmapped([]), recognise=lambda page: [Recognised("Lorem", 72, 120, 700, 10)])
    assert (seen.text, seen.notes) == ("Lorem", {"pages recognised": 1})


def test_words_of_a_language_are_kept_whether_or_not_their_font_says_its_letters():
    sentence = "The otter is in the river, and there it eats what it finds."
    found = read(unmapped([], sentence.encode("utf-16-be").hex().encode()))
    assert (found.text, found.notes) == (sentence, {"pages in fonts that do not say their letters": 1})
