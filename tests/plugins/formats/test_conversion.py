"""Older and open office formats, which LibreOffice converts where it is installed."""

import os
import shutil
import time
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits

installed = pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
RTF = rb"{\rtf1\ansi Ducks swim, {\b geese} fly.\par Gr\u252?n.}"
SPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{long}:1.0"'
    for name, long in [("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing")]
)


def opendocument(kind, body):
    """A file of OpenDocument."""
    mime, packed = f"application/vnd.oasis.opendocument.{kind}", BytesIO()
    entries = "".join(
        f'<manifest:file-entry manifest:full-path="{path}" manifest:media-type="{media}"/>'
        for path, media in [("/", mime), ("content.xml", "text/xml")]
    )
    manifest = 'xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"'
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("mimetype", mime)
        archive.writestr("META-INF/manifest.xml", f"<manifest:manifest {manifest}>{entries}</manifest:manifest>")
        archive.writestr(
            "content.xml",
            f'<office:document-content {SPACES} xmlns:xlink="http://www.w3.org/1999/xlink" office:version="1.2">'
            f"<office:body>{body}</office:body></office:document-content>",
        )
    return packed.getvalue()


TEXT = '<office:text><text:h text:outline-level="1">Birds</text:h><text:p>Ducks swim.</text:p></office:text>'
TABLE = (
    '<office:spreadsheet><table:table table:name="Birds"><table:table-row><table:table-cell '
    'office:value-type="string"><text:p>Duck</text:p></table:table-cell><table:table-cell '
    'office:value-type="float" office:value="3"><text:p>3</text:p></table:table-cell></table:table-row></table:table>'
    "</office:spreadsheet>"
)
SLIDES = (
    "<office:presentation><draw:page><draw:frame><draw:text-box><text:p>Ducks swim.</text:p></draw:text-box>"
    "</draw:frame></draw:page></office:presentation>"
)


def read(folder, limits=None, **files):
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    (folder / "fine.txt").write_text("Fine.")
    reading = read_corpus(folder, limits=limits)
    return {d.id: d for d in reading.documents if d.id != "fine.txt"}, {q.place: q.reason for q in reading.skipped}


@installed
def test_documents_of_other_office_programs_are_read(tmp_path):
    files = {"a_rtf": RTF, "b_odt": opendocument("text", TEXT), "c_ods": opendocument("spreadsheet", TABLE)}
    documents, skipped = read(tmp_path, **files, d_odp=opendocument("presentation", SLIDES), e_doc=RTF)
    assert not skipped
    assert documents["a.rtf"].text == documents["e.doc"].text == "Ducks swim, geese fly.\n\nGrün."
    assert documents["b.odt"].text == "Birds\n\nDucks swim."
    assert [mark.text for mark in documents["b.odt"].marks] == ["Birds"]
    assert documents["c.ods"].text == "Duck | 3"
    assert documents["d.odp"].text == "Ducks swim."


@installed
def test_bytes_that_are_no_document_are_refused(tmp_path):
    garbage = bytes(range(256)) * 40
    files = {"a_odt": b"PK\3\4" + garbage, "b_doc": garbage, "c_xls": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + garbage}
    documents, skipped = read(tmp_path, **files, d_odt=opendocument("text", TEXT)[:300])
    assert not documents and sorted(skipped) == ["a.odt", "b.doc", "c.xls", "d.odt"]
    assert "LibreOffice cannot read it as .odt" in skipped["a.odt"] and "binary content" in skipped["b.doc"]


@installed
def test_a_document_does_not_bring_other_files_of_this_machine(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("Very secret.")
    source = f'<text:section-source xlink:href="{secret.as_uri()}"/>'
    body = f'<office:text><text:section text:name="s">{source}<text:p>Old.</text:p></text:section></office:text>'
    (tmp_path / "docs").mkdir()
    documents, _ = read(tmp_path / "docs", a_odt=opendocument("text", body))
    assert "secret" not in documents["a.odt"].text


def test_without_libreoffice_the_way_to_convert_a_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "docs").mkdir()
    documents, skipped = read(tmp_path / "docs", a_doc=RTF, b_odp=b"PK")
    assert not documents
    assert "install it" in skipped["a.doc"] and "save the file as .docx" in skipped["a.doc"]
    assert "save the file as .pptx" in skipped["b.odp"]


@pytest.mark.full
def test_a_conversion_that_does_not_end_is_ended_whole(tmp_path, monkeypatch):
    programs, number = tmp_path / "bin", tmp_path / "number"
    programs.mkdir()
    (programs / "soffice").touch(0o755)
    (programs / "soffice.bin").write_text(f"#!/bin/sh\necho $$ > {number}\nexec sleep 1000\n")
    (programs / "soffice.bin").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "docs").mkdir()
    started = time.monotonic()
    _, skipped = read(tmp_path / "docs", Limits(seconds=3), a_odt=opendocument("text", TEXT))
    assert skipped["a.odt"] == "expected to be parsed in 3 s (max_seconds): stopped"
    assert time.monotonic() - started < 30
    assert not Path(f"/proc/{number.read_text().strip()}").exists()
