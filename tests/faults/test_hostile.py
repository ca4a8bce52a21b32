"""Folders that were filled by somebody else: whatever lies in them, the rest of the corpus is read."""

import codecs
import gzip
import json
import os
import shutil
import socket
import stat
import tempfile
import time
import tracemalloc
import zipfile
from pathlib import Path

import chardet
import lxml.etree
import pytest

from mog_assets.documents import reading
from mog_assets.documents.documents import write_documents, write_skipped
from mog_assets.documents.folders import opened
from mog_assets.documents.memory import load_memory, source_state
from mog_assets.documents.reading import read_corpus
from mog_assets.resources.errors import MogError

LIMIT = 1_000_000
FRENCH = (
    "Le café est préparé à l'ancienne. Les élèves français étudient la leçon, puis rentrent à la maison où leur mère "
    "les attend. Après le dîner, ils vont se coucher très tôt."
)
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю. Вода кипит при ста градусах. Весна пришла."


@pytest.fixture
def folder(tmp_path):
    """A corpus folder that holds one good document."""
    path = tmp_path / "corpus"
    path.mkdir()
    (path / "good.txt").write_text("Good.")
    return path


@pytest.fixture
def reasons(tmp_path):
    """Read a corpus whose good document must be used; returns the reasons of what was passed over by place.

    What is written about it must be readable again, whatever characters it holds.
    """

    def read(path, limit=LIMIT):
        reading = read_corpus(path, limit)
        assert "good.txt" in [d.id for d in reading.documents]
        write_documents(reading.documents, tmp_path / "documents.parquet")
        write_skipped(reading.skipped, tmp_path / "skipped.parquet")
        json.dumps(source_state(path, limit), ensure_ascii=False).encode()
        found = {q.place: q.reason for q in reading.skipped}
        assert len(found) == len(reading.skipped)
        assert all(text.isprintable() for pair in found.items() for text in pair)
        return found

    return read


def documents(path, limit=LIMIT):
    return {d.id: d for d in read_corpus(path, limit).documents}


def noted(document):
    """What was noted while a document was read, apart from its file."""
    notes = json.loads(document.metadata)["mog"]
    return {name: value for name, value in notes.items() if name not in ("path", "modified")}


def lines(*records):
    return b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records)


# Links


def test_links_that_lead_out_are_recorded_and_not_read(folder, reasons, tmp_path):
    (tmp_path / "secret.txt").write_text("Secret.")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "more.txt").write_text("More.")
    # A sibling whose name starts with the folder's is outside all the same.
    (tmp_path / "corpus2").mkdir()
    (tmp_path / "corpus2" / "near.txt").write_text("Near.")
    (folder / "absolute.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "relative.txt").symlink_to("../secret.txt")
    (folder / "near.txt").symlink_to("../corpus2/near.txt")
    (folder / "through").symlink_to(tmp_path / "outside")
    found = reasons(folder)
    assert set(found) == {"absolute.txt", "relative.txt", "near.txt", "through"}
    assert all("link to a place outside the folder" in reason for reason in found.values())
    assert list(documents(folder)) == ["good.txt"]


def test_link_to_a_file_in_the_folder_is_read(folder, reasons):
    (folder / "alias.txt").symlink_to("good.txt")
    assert reasons(folder) == {}
    assert documents(folder)["alias.txt"].text == "Good."


def test_circles_and_broken_links_are_recorded(folder, reasons):
    (folder / "a.txt").symlink_to("b.txt")
    (folder / "b.txt").symlink_to("a.txt")
    (folder / "deep").mkdir()
    (folder / "deep" / "up").symlink_to("..")
    (folder / "broken.txt").symlink_to("nowhere.txt")
    found = reasons(folder)
    assert set(found) == {"a.txt", "b.txt", "deep/up", "broken.txt"}
    assert "Too many levels of symbolic links" in found["a.txt"]
    assert found["deep/up"] == "link to the folder ..: not followed"
    assert "broken link" in found["broken.txt"]


def test_two_dots_in_names_and_ids_lead_nowhere(folder, reasons):
    (folder / "a..b.txt").write_text("Dots.")
    (folder / "lines.jsonl").write_bytes(lines({"id": "../../etc/passwd", "text": "An id is not a path."}))
    assert reasons(folder) == {}
    assert set(documents(folder)) == {"good.txt", "a..b.txt", "../../etc/passwd"}


# What is no regular file


# The folder where a file without a name is opened for the texts that are read.
_SPOOL = {os.path.basename(tempfile.gettempdir())}


def test_special_files_are_recorded_and_never_opened(folder, reasons, monkeypatch):
    os.mkfifo(folder / "pipe.txt")
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # the path of a socket may be only 108 bytes long
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.jsonl")
        opens = []
        genuine = os.open
        monkeypatch.setattr(os, "open", lambda path, *a, **k: opens.append(path) or genuine(path, *a, **k))
        found = reasons(folder)
    assert found == {
        "pipe.txt": "expected a regular file, got a FIFO: not opened",
        "pipe": "expected a regular file, got a FIFO: not opened",
        "socket.jsonl": "expected a regular file, got a socket: not opened",
    }
    assert {os.path.basename(path) for path in opens} - _SPOOL == {"good.txt"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_devices_are_recorded_and_never_opened(folder, reasons):
    try:
        os.mknod(folder / "zero.txt", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices cannot be made in this container")
    assert reasons(folder)["zero.txt"] == "expected a regular file, got a character device: not opened"


def test_fifo_that_took_the_place_of_a_file_does_not_hang(folder):
    os.mkfifo(folder / "pipe.txt")
    with pytest.raises(OSError, match="no longer a regular file"), opened(str(folder / "pipe.txt")):
        pass


def test_corpus_that_is_a_fifo_is_refused(tmp_path):
    os.mkfifo(tmp_path / "docs.jsonl")
    with pytest.raises(MogError, match="expected a folder, or a file that ends in"):
        read_corpus(tmp_path / "docs.jsonl")


# Files that change while they are read


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something done in the middle of reading a file, the first `times` times that its content is looked at."""

    def arrange(step, change, times, patched=monkeypatch):
        genuine, done = getattr(reading, step), []

        def looking(content, *named):
            if len(done) < times:
                done.append(content)
                change(content)
            return genuine(content, *named)

        patched.setattr(reading, step, looking)
        return done

    return arrange


def test_file_that_changes_once_is_read_again(folder, reasons, meanwhile):
    done = meanwhile("decode", lambda content: (folder / "good.txt").write_text("Better."), 1)
    assert reasons(folder) == {}
    assert done == [b"Good."]
    assert documents(folder)["good.txt"].text == "Better."


def test_file_that_keeps_changing_is_recorded(folder, reasons, meanwhile, monkeypatch):
    growing = folder / "growing.jsonl"
    growing.write_bytes(lines({"id": "a", "text": "First."}))

    def grow(content):
        if b"First." in content:
            with growing.open("ab") as stream:
                stream.write(lines({"id": str(growing.stat().st_size), "text": "More."}))

    with monkeypatch.context() as patched:
        meanwhile("parse_line", grow, 100, patched)
        assert reasons(folder) == {"growing.jsonl": "changed twice while it was read"}
    assert len(documents(folder)) == 4


def test_file_that_vanishes_while_it_is_read_is_recorded(folder, reasons, meanwhile):
    (folder / "gone.jsonl").write_bytes(lines({"id": "a", "text": "First."}))
    meanwhile("parse_line", lambda content: (folder / "gone.jsonl").unlink(), 1)
    assert reasons(folder) == {"gone.jsonl": "cannot be read: No such file or directory"}


@pytest.fixture
def as_anybody():
    """Read as a user who may not read everything, as root may."""
    # What is imported when it is needed may lie where that user cannot read.
    assert lxml.etree and chardet
    if os.geteuid() != 0:
        yield lambda read: read()
        return

    def lowered(read):
        os.seteuid(65534)
        try:
            return read()
        finally:
            os.seteuid(0)

    yield lowered


def test_unreadable_files_and_folders_are_recorded(as_anybody, tmp_path_factory):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "good.txt").write_text("Good.")
        (folder / "locked.txt").write_text("Locked.")
        (folder / "closed").mkdir()
        (folder / "closed" / "a.txt").write_text("Closed.")
        for path, mode in ((folder, 0o755), (folder / "locked.txt", 0), (folder / "closed", 0)):
            path.chmod(mode)
        found = as_anybody(lambda: read_corpus(folder))
        before = as_anybody(lambda: source_state(folder, LIMIT))
        assert [d.id for d in found.documents] == ["good.txt"]
        assert {q.place: q.reason for q in found.skipped} == {
            "locked.txt": "cannot be read: Permission denied",
            "closed": "folder cannot be listed: Permission denied",
        }
        (folder / "locked.txt").chmod(0o644)
        (folder / "closed").chmod(0o755)
        # Allowing it is a change that is seen.
        after = as_anybody(lambda: source_state(folder, LIMIT))
        changed = [row for row in after if row not in before]
        assert [row[0] for row in changed] == ["closed/a.txt", "locked.txt"]
        assert len(as_anybody(lambda: read_corpus(folder)).documents) == 3


# Names


def test_names_with_control_characters_are_shown_escaped(folder, reasons):
    (folder / "two\nlines\x1b[31m.txt").write_text("")
    (folder / "right\u202eleft.txt").write_text("Turned.")
    assert reasons(folder) == {"two\\nlines\\x1b[31m.txt": "empty document"}
    assert set(documents(folder)) == {"good.txt", "right\\u202eleft.txt"}


def test_names_that_are_not_utf8_are_read_under_an_escaped_id(folder, reasons):
    with open(os.fsencode(folder) + b"/caf\xe9.txt", "wb") as stream:
        stream.write(b"w" * 200)
    os.mkdir(os.fsencode(folder) + b"/\xff")
    with open(os.fsencode(folder) + b"/\xff/page.html", "wb") as stream:
        stream.write(b"<p>Page.</p>")
    assert reasons(folder) == {}
    found = documents(folder)
    assert set(found) == {"good.txt", "caf\\udce9.txt", "\\udcff/page.html"}
    assert found["caf\\udce9.txt"].title == "caf\\udce9"


def test_two_names_that_are_shown_alike_are_never_one_document(folder, reasons):
    (folder / "a\nb.txt").write_text("Newline.")
    (folder / "a\\nb.txt").write_text("Backslash.")
    assert list(reasons(folder)) == ["a\\nb.txt"]
    assert documents(folder)["a\\nb.txt"].text == "Newline."


def test_names_that_differ_only_in_composition_are_duplicates(folder, reasons):
    composed, decomposed = "caf\u00e9.txt", "cafe\u0301.txt"
    (folder / composed).write_text("Composed.")
    (folder / decomposed).write_text("Decomposed.")
    assert len(os.listdir(folder)) == 3
    # The one that sorts first is used, under the name that it has.
    assert documents(folder)[decomposed].text == "Decomposed."
    (reason,) = reasons(folder).values()
    assert f"composed differently (NFC), occurs at {decomposed} and at {composed}" in reason


def test_ids_that_differ_only_in_composition_are_duplicates(folder, reasons):
    first, second = {"id": "e\u0301", "text": "First."}, {"id": "\u00e9", "text": "Second."}
    (folder / "docs.jsonl").write_bytes(lines(first, second))
    assert "composed differently (NFC)" in reasons(folder)["docs.jsonl:2"]
    assert documents(folder)["e\u0301"].text == "First."


def test_id_without_end_is_passed_over(folder, reasons):
    (folder / "docs.jsonl").write_bytes(lines({"id": "x" * 100_000, "text": "Text."}))
    assert reasons(folder)["docs.jsonl:1"] == "expected an id of at most 1000 characters, got 100000"


# Bytes and characters


@pytest.mark.parametrize("content", [b"\x7fELF\x02\0\0\xff", b"\x89PNG\r\n\x1a\n\0\0", b"Half text\0half not."])
def test_binary_content_is_passed_over(folder, reasons, content):
    (folder / "binary.txt").write_bytes(content)
    assert "NUL" in reasons(folder)["binary.txt"]


def test_control_characters_without_nul_are_passed_over(folder, reasons):
    (folder / "binary.md").write_bytes(bytes(range(1, 32)) * 4)
    assert "binary content" in reasons(folder)["binary.md"]


def test_nul_in_json_is_passed_over(folder, reasons):
    (folder / "docs.jsonl").write_bytes(b'{"id": "a", "title": "T", "text": "a\\u0000b"}\n')
    assert reasons(folder)["docs.jsonl:1"] == "NUL character, the first at 3 of id, title and text"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_byte_order_marks_say_the_encoding(folder, reasons, mark, encoding):
    (folder / "marked.txt").write_bytes(mark + RUSSIAN.encode(encoding))
    (folder / "cut.txt").write_bytes(mark + RUSSIAN.encode(encoding)[:-1])
    (folder / "marked.jsonl").write_bytes(mark + '{"id": "a", "text": "b"}\n'.encode(encoding))
    found = reasons(folder)
    assert set(found) == {"cut.txt", "marked.jsonl"}
    assert "after its byte order mark" in found["cut.txt"]
    assert found["marked.jsonl"] == f"expected UTF-8, got {encoding[:6].upper()}: save it as UTF-8"
    marked = documents(folder)["marked.txt"]
    assert marked.text == RUSSIAN
    assert noted(marked) == {"encoding": encoding[:6]}


def test_mark_of_utf8_is_no_part_of_the_text(folder):
    (folder / "marked.txt").write_bytes(codecs.BOM_UTF8 + b"Marked.")
    (folder / "marked.jsonl").write_bytes(codecs.BOM_UTF8 + lines({"id": "a", "text": "Line."}))
    found = documents(folder)
    assert (found["marked.txt"].text, noted(found["marked.txt"])) == ("Marked.", {})
    assert found["a"].text == "Line."


@pytest.mark.parametrize(
    ("text", "encoding"), [(FRENCH, "cp1252"), (RUSSIAN, "cp1251"), (RUSSIAN, "koi8-r"), (RUSSIAN, "cp866")]
)
def test_legacy_encoding_is_recorded_where_it_is_certain(folder, reasons, text, encoding):
    (folder / "old.txt").write_bytes(text.encode(encoding))
    assert reasons(folder) == {}
    old = documents(folder)["old.txt"]
    assert old.text == text
    named = json.loads(old.metadata)["mog"]["encoding"]
    assert text.encode(named) == text.encode(encoding)


@pytest.mark.parametrize("content", [b"caf\xe9", FRENCH.encode("mac_roman")], ids=["too short", "rare encoding"])
def test_encoding_that_is_not_certain_is_never_guessed(folder, reasons, content):
    (folder / "old.txt").write_bytes(content)
    assert reasons(folder)["old.txt"].startswith("expected UTF-8, got byte 0x")


def test_the_likelier_of_two_encodings_that_fit_is_taken(folder, reasons):
    text = "2003年の推計によれば、15歳以上の国民の識字率は83.8%（男性：89.6%）"
    (folder / "old.txt").write_bytes(text.encode("cp932"))
    assert reasons(folder) == {} and documents(folder)["old.txt"].text == text


def test_hidden_characters_stay_in_the_text_and_are_recorded(folder, reasons):
    text = "Zero\u200bwidth, \u202eturned\u202c and \u202eagain\u202c; می\u200cخواهم"
    (folder / "hidden.txt").write_text(text)
    (folder / "docs.jsonl").write_bytes(lines({"id": "a", "text": text, "metadata": {"by": "me"}}))
    assert reasons(folder) == {}
    found = documents(folder)
    # Evidence is given by offsets into the text as it is.
    assert found["hidden.txt"].text == found["a"].text == text
    hidden = {"hidden characters": {"U+200B": 1, "U+202C": 2, "U+202E": 2}}
    assert noted(found["hidden.txt"]) == hidden
    assert json.loads(found["a"].metadata) == {"by": "me", "mog": {"path": "docs.jsonl", **hidden}}


def test_decomposed_text_is_composed_with_its_offsets(folder):
    (folder / "nfd.txt").write_text("cafe\u0301 noir")
    found = documents(folder)["nfd.txt"]
    assert (found.text, found.shifts) == ("caf\u00e9 noir", ((5, -1),))


# HTML


def test_only_what_is_seen_of_a_page_is_read(folder):
    (folder / "page.html").write_text(
        "<html><head><title>Page</title><style>p {color: red}</style><script>steal()</script></head>"
        "<body onload='steal()'><!-- comment --><p onclick='steal()'>Seen <a href='javascript:steal()'>link</a>.</p>"
        "<svg><script>steal()</script></svg><template>hidden</template><img src=x onerror='steal()'></body></html>"
    )
    page = documents(folder)["page.html"]
    assert page.title == "Page"
    assert page.text == "Seen link."


@pytest.mark.parametrize("unclosed", ["<!--", "<!-- >", "<a ", "<b x='", "</p", "<![CDATA[", "<![CDATA[ >", "<?", "<!"])
def test_pages_of_what_never_ends_are_read(folder, reasons, unclosed):
    # Left to itself, the parser takes up to 46 s for a page of this size, and 100 times as long for one of ten times.
    (folder / "page.html").write_text("<p>Seen.</p>" + unclosed * (200_000 // len(unclosed)))
    assert reasons(folder) == {}
    assert documents(folder)["page.html"].text.startswith("Seen.")


@pytest.mark.parametrize("page", ["<div>" * 5_000 + "deep", "<![if", "<!" * 50, "</p>" * 50, "<a <b <c"])
def test_broken_pages_never_stop_a_corpus(folder, reasons, page):
    (folder / "page.html").write_text(page)
    assert set(reasons(folder)) | set(documents(folder)) == {"good.txt", "page.html"}


# Sizes and numbers


def test_file_over_the_cap_is_recorded_with_the_figures_and_not_opened(folder, reasons, monkeypatch):
    with (folder / "huge.txt").open("wb") as stream:
        stream.truncate(200_000_000)
    genuine = os.open

    def opening(path, *arguments, **options):
        assert "huge" not in str(path)
        return genuine(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opening)
    assert reasons(folder, 20_000_000) == {
        "huge.txt": "expected at most 20000000 bytes per document (max_document_mb), got 200000000: not read"
    }


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.jsonl.gz"])
def test_line_over_the_cap_is_passed_over_in_constant_memory(folder, reasons, name):
    before, after = {"id": "before", "text": "Before."}, {"id": "after", "text": "After."}
    huge = 20_000_000
    with gzip.open(folder / name, "wb", 1) if name.endswith(".gz") else (folder / name).open("wb") as stream:
        stream.write(lines(before))
        for _ in range(huge // 1_000_000):
            stream.write(b" " * 1_000_000)
        stream.write(b"\n" + lines(after))
    tracemalloc.start()
    try:
        assert reasons(folder) == {
            f"{name}:2": f"expected at most 1000000 bytes per document (max_document_mb), got {huge}: not read"
        }
        assert tracemalloc.get_traced_memory()[1] < huge / 2
    finally:
        tracemalloc.stop()
    assert set(documents(folder)) == {"good.txt", "before", "after"}


def test_cap_is_in_bytes_and_inclusive(folder, reasons):
    (folder / "exact.txt").write_bytes(b"x" * 1000)
    (folder / "over.txt").write_bytes(b"x" * 1001)
    line = lines({"id": "line", "text": "x"}).rstrip()
    (folder / "docs.jsonl").write_bytes(line[:-2] + b"x" * (1000 - len(line)) + line[-2:] + b"\n" + b"[" * 1001)
    assert set(reasons(folder, 1000)) == {"over.txt", "docs.jsonl:2"}
    assert set(documents(folder, 1000)) == {"good.txt", "exact.txt", "line"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": "a", "text": ' + b"[" * 50_000, "malformed JSON: maximum recursion depth"),
        (b'{"id": "a", "text": "b", "metadata": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}", "malformed JSON"),
        (b'{"id": "a", "text": "b", "metadata": {"score": NaN}}', "malformed JSON: NaN is not a JSON number"),
        (b'{"id": "a", "text": "b", "metadata": {"score": -Infinity}}', "-Infinity is not a JSON number"),
        (b'{"id": "a", "text": "b", "metadata": {"score": 1e999}}', "metadata: Out of range float values"),
        (b'{"id": "a", "text": "b", "metadata": ' + b"9" * 5_000 + b"}", "malformed JSON: Exceeds the limit"),
        (b'{"id": "a", "text": "b", "text": "c"}', "malformed JSON: key 'text' occurs twice in an object"),
        (b'{"id": "a", "text": "b"} {"id": "c"}', "malformed JSON: Extra data"),
        (b'{"id": "a", "text": "b', "malformed JSON: Unterminated string"),
        (b"null", "expected a JSON object, got NoneType"),
        (b"\xff\xfe", "expected UTF-8, got byte 0xff"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_lines_made_to_break_a_parser_are_rows(folder, reasons, line, reason):
    (folder / "docs.jsonl").write_bytes(lines({"id": "first", "text": "First."}, line, {"id": "last", "text": "Last."}))
    found = reasons(folder)
    assert list(found) == ["docs.jsonl:2"]
    assert reason in found["docs.jsonl:2"]
    assert set(documents(folder)) == {"good.txt", "first", "last"}


# Kinds of files, and many of them


def test_archives_and_unknown_kinds_are_a_row_a_kind_and_not_opened(folder, reasons, monkeypatch):
    with zipfile.ZipFile(folder / "b.zip", "w") as archive:
        archive.writestr("inner.txt", "Inner.")
    for name in ("a.zip", "c.ZIP", "docs.tar.gz", "Makefile", "sub/x.odg"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"PK")
    genuine = os.open
    opens = []
    monkeypatch.setattr(
        os, "open", lambda path, *a, **k: opens.append(os.path.basename(path)) or genuine(path, *a, **k)
    )
    known = "not opened; docs/documents.md has those that are read"
    assert reasons(folder) == {
        "a.zip": f"unknown kind .zip: this and 2 more {known}",
        "docs.tar.gz": f"unknown kind .gz: {known}",
        "Makefile": f"no suffix: {known}",
        "sub/x.odg": f"unknown kind .odg: {known}",
    }
    assert set(opens) - _SPOOL == {"good.txt"}


def test_thousands_of_unknown_files_are_few_rows(folder, reasons):
    for number in range(1000):
        (folder / f"image{number:03d}.k{number % 50}").touch()
    found = reasons(folder)
    assert len(found) == 21
    assert "30 further unknown kinds: this and 599 more not opened" in " ".join(found.values())


def test_hidden_files_and_folders_are_passed_over(folder, reasons):
    (folder / ".git").mkdir()
    (folder / ".git" / "notes.txt").write_text("Not meant.")
    (folder / ".draft.txt").write_text("Not meant.")
    assert reasons(folder) == {}
    assert list(documents(folder)) == ["good.txt"]


def test_folder_nested_beyond_the_longest_path_never_stops_a_corpus(folder, reasons):
    here = os.open(folder, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    (reason,) = reasons(folder).values()
    assert reason == "cannot be accessed: File name too long"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.full
def test_ten_thousand_small_files_are_not_opened_again(folder, monkeypatch, tmp_path):
    for number in range(100):
        (folder / f"{number:02d}").mkdir()
        for each in range(100):
            (folder / f"{number:02d}" / f"{each:02d}.txt").write_bytes(b"Text %d of %d." % (each, number))
    later = time.time_ns() + 60_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    first = read_corpus(folder)
    first.journal.write(tmp_path / "memory.parquet", "s")
    memory = load_memory(tmp_path / "memory.parquet", "s")

    def opening(path, *arguments, **options):
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(os, "open", opening)
    second = read_corpus(folder, memory=memory)
    assert len(first.normalised) == 10_001
    assert second.used == first.used and second.normalised == {}
