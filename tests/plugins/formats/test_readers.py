"""Readers with models: what they need, and what they read."""

import io
import json
import sys
from types import SimpleNamespace

import pytest
from pdf_file import pdf
from PIL import Image, ImageDraw, ImageFont

from mog_assets import config
from mog_assets.documents.formats.pdf import read_pdf
from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits
from mog_assets.plugins.formats import layout
from mog_assets.resources.errors import MogError
from mog_assets.serve.reading import headings_at, page_at

LIMIT = 20_000_000


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "corpus"
    path.mkdir()
    (path / "good.txt").write_text("Good.")
    return path


def blank_pdf():
    made, image = io.BytesIO(), Image.new("L", (60, 80), 200)
    image.save(made, "PDF", save_all=True, append_images=[image, image])
    return made.getvalue()


def reading_of(folder, limits=None):
    """Documents of a folder, and the reasons why others are none."""
    reading = read_corpus(folder, LIMIT, limits=limits)
    return {d.id: d for d in reading.documents}, {q.place: q.reason for q in reading.skipped}


def under(document, words):
    """Page and headings at the place of some words, which the text must have."""
    offset = document.text.index(words)
    return page_at(document.marks, offset), headings_at(document.marks, offset)


def test_what_docling_finds_becomes_text_and_marks(monkeypatch):
    # In the shape of docling's API; the package itself is too large to install for tests.
    def item(label, text, page, **more):
        return SimpleNamespace(
            label=SimpleNamespace(value=label), text=text, prov=[SimpleNamespace(page_no=page)], **more
        )

    table = item("table", "", 2, export_to_markdown=lambda doc: "| a |\n|---|")
    items = [
        item("title", "Pond", 1),
        item("section_header", "Birds", 1, level=1),
        item("text", "A heron.", 1),
        table,
        SimpleNamespace(label="picture", prov=[]),
        item("section_header", "Newts", 3, level=2),
    ]
    document = SimpleNamespace(iterate_items=lambda: [(each, 0) for each in items])
    converted = SimpleNamespace(document=document, status=SimpleNamespace(value="partial_success"))
    fakes = {
        "docling": SimpleNamespace(),
        "docling.datamodel": SimpleNamespace(),
        "docling.datamodel.base_models": SimpleNamespace(DocumentStream=lambda name, stream: stream.read()),
        "docling.document_converter": SimpleNamespace(
            DocumentConverter=lambda: SimpleNamespace(convert=lambda given: converted)
        ),
    }
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    layout._converter.cache_clear()
    found = layout.read_docling(b"%PDF", "a.pdf", "a", LIMIT)
    layout._converter.cache_clear()
    assert found.text == "Pond\n\nBirds\n\nA heron.\n\n| a |\n|---|\n\nNewts"
    assert (found.title, found.notes) == ("Pond", {"docling": "partial_success"})
    assert under(found, "| a") == (2, ("Birds",))
    assert under(found, "Newts") == (3, ("Birds", "Newts"))


def test_a_scan_that_is_not_recognised_is_told_with_the_reader_that_would(folder):
    (folder / "blank.pdf").write_bytes(blank_pdf())
    assert reading_of(folder)[1] == {"blank.pdf": "scanned: 3 pages without text; set `reader: ocr`"}


def test_a_reader_has_its_own_defaults_of_limits(tmp_path):
    (tmp_path / "mog.yaml").write_text(
        json.dumps({"corpora": {"a": {"path": ".", "reader": "docling", "max_seconds": 5}}})
    )
    found = config.load(tmp_path / "mog.yaml").corpora["a"]
    assert (found.max_seconds, found.max_memory_mb, found.max_unpacked_mb) == (5, 16_384, 200)


def scan(*lines, size=(1240, 1754)):
    """The image of a page at 150 dots an inch: lines of x, y and words."""
    image = Image.new("RGB", size, "white")
    for x, y, words in lines:
        ImageDraw.Draw(image).text((x, y), words, font=ImageFont.load_default(26), fill="black")
    return image


@pytest.mark.full
def test_scanned_pages_are_recognised_with_their_tables_if_the_reader_is_to(folder):
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    words = scan(
        (120, 120, "The grey heron stands still in shallow water and waits for a fish that"),
        (120, 155, "comes near, and it never hurries."),
        (120, 300, "Eggs of hens"),
        (600, 300, "1,204"),
        (900, 300, "(98)"),
        (120, 340, "Eggs of ducks"),
        (600, 340, "17"),
        (900, 340, "9"),
    )
    made = io.BytesIO()
    words.save(made, "PDF", resolution=150, save_all=True, append_images=[scan()])
    (folder / "scanned.pdf").write_bytes(made.getvalue())
    (folder / "text.pdf").write_bytes(pdf([[(72, 700, 10, "The newt lives in the pond.")]]))
    (folder / "blank.pdf").write_bytes(blank_pdf())
    documents, reasons = reading_of(folder, limits=Limits(reader="ocr", memory_bytes=4_096_000_000, seconds=300))
    found = documents["scanned.pdf"]
    assert found.text == (
        "The grey heron stands still in shallow water and waits for a fish that comes near, and it never hurries.\n\n"
        "Eggs of hens | 1,204 | (98)\nEggs of ducks | 17 | 9"
    )
    assert [(m.depth, m.text) for m in found.marks if m.kind == "page"] == [(0, "1"), (0, "2")]
    notes = json.loads(found.metadata)["mog"]
    assert (notes["pages recognised"], notes["pages without text"]) == (1, 1)
    # A page with text is read as it is; one without anything stays one.
    assert "pages recognised" not in json.loads(documents["text.pdf"].metadata)["mog"]
    assert reasons == {"blank.pdf": "scanned: 3 pages without text, also for OCR"}


@pytest.mark.full
def test_a_page_of_any_size_is_recognised_within_the_limits(folder):
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    made = io.BytesIO()
    # A poster of five metres: each word is larger, and the image no larger.
    scan((120, 120, "Herons of the pond and of the moor")).save(made, "PDF", resolution=9)
    (folder / "poster.pdf").write_bytes(made.getvalue())
    documents, _ = reading_of(folder, limits=Limits(reader="ocr", memory_bytes=4_096_000_000, seconds=300))
    assert documents["poster.pdf"].text == "Herons of the pond and of the moor"


def test_a_reader_that_is_not_installed_is_told_with_what_adds_it(folder, monkeypatch):
    monkeypatch.setattr("mog_assets.documents.formats.kinds.find_spec", lambda name: None)
    with pytest.raises(MogError, match=r"reader: ocr needs the package rapidocr: pip install 'mog-assets\[ocr\]'"):
        reading_of(folder, limits=Limits(reader="ocr"))


@pytest.mark.full
@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_scan_is_recognised_whichever_way_up_it_lies(turn):
    pytest.importorskip("rapidocr", reason="the extra `ocr` is not installed")
    from mog_assets.plugins.formats.ocr import recognised

    image = Image.new("RGB", (1000, 700), "white")
    for number, words in enumerate(["The mill is closed on Monday.", "The sluice opens at six in the morning."]):
        ImageDraw.Draw(image).text((80, 80 + 60 * number), words, font=ImageFont.load_default(32), fill="black")
    made = io.BytesIO()
    image.rotate(turn, expand=True).save(made, "PDF", resolution=120)
    found = read_pdf(made.getvalue(), "file", 10**6, recognised).text
    assert found.split("\n") == ["The mill is closed on Monday.", "The sluice opens at six in the morning."]
