"""PDF files: what stands on their pages is read in its order, and what is left out is said."""

from pdf_file import pdf

from mog_assets.corpus.marks import page_at
from mog_assets.corpus.pdf import read_pdf

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
