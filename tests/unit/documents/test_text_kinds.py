"""Kinds of plain text, by suffix or name, and what belongs to a project and is no document."""

import time

import pytest

from mog_assets.documents.reading import read_corpus


@pytest.fixture
def read(tmp_path):
    def read(**texts):
        for name, text in texts.items():
            (tmp_path / name.replace("_", ".")).write_bytes(text.encode())
        reading = read_corpus(tmp_path)
        return {document.id: document for document in reading.documents}, {q.place: q.reason for q in reading.skipped}

    return read


@pytest.mark.whole
@pytest.mark.parametrize("suffix", ["adoc", "asciidoc", "json", "log", "markdown", "mdx", "org", "tex", "yaml", "yml"])
def test_kinds_of_plain_text_are_read_as_they_are(read, suffix):
    text = f"Ducks of the kind {suffix}\nswim.\n"
    documents, skipped = read(**{f"a_{suffix}": text, f"B_{suffix.upper()}": text.upper()})
    assert {document.text for document in documents.values()} == {text, text.upper()} and not skipped


def test_a_readme_without_a_suffix_is_read_and_a_program_is_not(read):
    documents, skipped = read(README="Read me.", Changelog="1.0: first.", Makefile="all:")
    assert sorted(documents) == ["Changelog", "README"]
    assert skipped["Makefile"].startswith("no suffix: not opened")


@pytest.mark.whole
def test_titles_come_from_the_markup_or_are_the_name(read):
    documents, _ = read(
        a_adoc="= Ducks\n\nText.",
        b_org="#+TITLE: Geese\n* Wild\n",
        c_tex="\\documentclass{article}\n\\title{Swans}\n\\begin{document}",
        d_json='{\n "name": "x"\n}',
        e_yaml="---\nname: x\n",
        f_log="2026-01-01 started\n",
    )
    assert [documents[name].title for name in sorted(documents)] == [
        "Ducks",
        "Geese",
        "Swans",
        "d.json",
        "e.yaml",
        "f.log",
    ]


@pytest.mark.whole
def test_json_has_its_letters_and_lines(read):
    documents, _ = read(
        a_json='{"Fl\\u00fcsse": ["\\u6771\\u4eac", 1.50]}',
        b_json='{"a":"Rhein"}',
        c_json='{"a": "\\u00e4",',
        d_json='{\n"n": 1.50\n}',
        e_json='{"name": "heron", "name": "crane"}',
    )
    assert '"Flüsse": [\n  "東京"' in documents["a.json"].text
    assert documents["b.json"].text == '{\n "a": "Rhein"\n}'
    # What is no JSON, what people can read, and what would lose a value, stays.
    assert documents["e.json"].text == '{"name": "heron", "name": "crane"}'
    assert (documents["c.json"].text, documents["d.json"].text) == ('{"a": "\\u00e4",', '{\n"n": 1.50\n}')


@pytest.mark.whole
def test_words_of_subtitles_run_on_over_their_times(read):
    times = "00:00:01,000 --> 00:00:03,000"
    srt = f"1\r\n{times}\r\nThe heron\r\n\r\n2\r\n{times}\r\nstands\r\nstill.\r\n"
    vtt = "WEBVTT\n\n00:01.000 --> 00:03.000 align:start\nThe heron\n\n"
    vtt += "last\n00:03.000 --> 00:05.000\nat 10:15 stands still.\n"
    documents, _ = read(a_srt=srt, b_vtt=vtt)
    assert documents["a.srt"].text == "The heron\nstands\nstill."
    assert documents["b.vtt"].text == "The heron\nat 10:15 stands still."
    assert '"times left out": 2' in documents["a.srt"].metadata


@pytest.mark.whole
def test_many_blank_lines_of_subtitles_take_no_time_that_grows_with_their_square(read):
    begin = time.process_time()
    documents, _ = read(a_srt="The heron" + "\n" * 50_000 + "stands still.")
    assert documents["a.srt"].text.endswith("stands still.") and time.process_time() - begin < 20


def test_pages_are_read_as_pages(read):
    page = "<html><head><title>T</title></head><body><p>Shown.</p></body></html>"
    documents, _ = read(a_xhtml=page, a_htm=page)
    assert [(d.title, d.text) for d in documents.values()] == [("T", "Shown.")] * 2


def test_settings_of_a_project_are_no_document(read):
    documents, skipped = read(mog_yaml="corpora: {}", a_txt="Fine.")
    assert sorted(documents) == ["a.txt"] and "settings of a project" in skipped["mog.yaml"]
