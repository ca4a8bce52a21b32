import gzip
import json
import os
import shutil
import tempfile
import time
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.documents.documents import bucket_of, normalise, shifted, write_documents, write_skipped
from mog_assets.documents.memory import source_state
from mog_assets.documents.reading import read_corpus
from mog_assets.questions.reading import KnownDocument, read_questions
from mog_assets.questions.sets import Evidence, load_questions, report_rows, write_questions
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import interrupt_with
from mog_assets.resources.publishing import remove
from mog_assets.text.chunks import Layout

LIMIT = 1_000_000


@pytest.fixture
def jsonl(tmp_path):
    """Write lines (objects or raw bytes) to a `.jsonl` file."""

    def write(*lines, name="docs.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"\n".join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines))
        return path

    return write


def document(identity="a", text="Some text.", **more):
    return {"id": identity, "title": "T", "text": text, **more}


# Levels


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 6))
def test_levels_are_pairs_of_the_level_below(counts, level):
    offsets = np.concatenate([[0], np.cumsum(counts)])
    lengths = [range(3, 3 + n) for n in counts]
    ends = [np.cumsum(list(row)) for row in lengths]
    spans = np.concatenate([np.stack([np.concatenate([[0], e[:-1]]), e], axis=1) for e in ends])
    layout = Layout("c", [f"d{i}" for i in range(len(counts))], offsets, spans)

    chunks = [(d, [int(offsets[d]) + i]) for d, n in enumerate(counts) for i in range(n)]
    for _ in range(level - 1):
        paired = []
        for d in range(len(counts)):
            own = [covered for owner, covered in chunks if owner == d]
            paired += [(d, sum(own[i : i + 2], [])) for i in range(0, len(own), 2)]
        chunks = paired

    assert layout.count(level) == len(chunks)
    every = np.arange(len(chunks))
    first, last = layout.covered(every, level)
    owners, starts, stops = layout.chunk_spans(every, level)
    for k, (d, covered) in enumerate(chunks):
        assert list(range(first[k], last[k])) == covered
        assert owners[k] == d
        assert (starts[k], stops[k]) == (spans[covered[0], 0], spans[covered[-1], 1])
        assert (layout.containing(np.array(covered), level) == k).all()


# Documents


def test_malformed_line_is_passed_over_with_its_number(jsonl):
    reading = read_corpus(jsonl(document("a"), b'{"id": "b", ', b"", b"[1]", document("c"), b"[" * 200_000))
    assert [d.id for d in reading.documents] == ["a", "c"]
    assert [q.place for q in reading.skipped] == ["docs.jsonl:2", "docs.jsonl:4", "docs.jsonl:6"]
    assert "malformed JSON" in reading.skipped[0].reason
    assert "expected a JSON object, got list" in reading.skipped[1].reason


def test_duplicate_id_names_both_places(jsonl):
    reading = read_corpus(jsonl(document("a", "First."), document("b"), document("a", "Second.")))
    assert [d.text for d in reading.documents] == ["First.", "Some text."]
    assert "occurs at docs.jsonl:1 and at docs.jsonl:3" in reading.skipped[0].reason


@pytest.mark.parametrize("wrong", [{"text": "no id"}, {"id": True, "text": "x"}, {"id": "a"}, {"id": " ", "text": "x"}])
def test_record_without_id_or_text_is_passed_over(jsonl, wrong):
    reading = read_corpus(jsonl(document(), wrong))
    assert "expected strings id, title and text" in reading.skipped[0].reason


@pytest.mark.parametrize(
    "strange",
    [
        b'{"id": "s", "title": "T", "text": "half \\ud800"}',
        b'{"id": "s", "title": "T", "text": "fine", "metadata": {"by": "\\ud800"}}',
        b'{"id": "\\ud800", "title": "T"}',
    ],
)
def test_half_a_surrogate_pair_never_stops_a_corpus(jsonl, tmp_path, strange):
    reading = read_corpus(jsonl(document(), strange))
    write_documents(reading.documents, tmp_path / "documents.parquet")
    write_skipped(reading.skipped, tmp_path / "skipped.parquet")
    assert reading.documents[0].id == "a"


def test_missing_corpus_or_question_set_is_named(tmp_path):
    with pytest.raises(MogError, match=r"none\.jsonl: expected a file .* found nothing"):
        read_corpus(tmp_path / "none.jsonl")
    with pytest.raises(MogError, match=r"none\.jsonl: expected a readable JSON Lines file"):
        read_questions(tmp_path / "none.jsonl", KNOWN)


def test_file_of_unknown_kind_is_refused(tmp_path):
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    with pytest.raises(MogError, match=r"a\.pdf: expected a folder, or a file that ends in \.jsonl"):
        read_corpus(tmp_path / "a.pdf")


def test_corpus_without_usable_document_says_what_was_wrong_first(jsonl, tmp_path):
    with pytest.raises(MogError, match=r"expected at least one usable document.*2 skipped.*docs\.jsonl:1: malformed"):
        read_corpus(jsonl(b"{", document("b", " ")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(MogError, match="expected at least one usable document, found none"):
        read_corpus(tmp_path / "empty")


def test_gzip_file_cut_short_keeps_what_was_read_and_says_so(tmp_path):
    whole = gzip.compress(b"".join(json.dumps(document(str(i), f"Text {i}.")).encode() + b"\n" for i in range(3000)))
    (tmp_path / "docs.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    reading = read_corpus(tmp_path / "docs.jsonl.gz")
    assert 0 < len(reading.documents) < 3000
    assert "expected a readable JSON Lines file" in reading.skipped[0].reason


def test_titles_of_plain_files(tmp_path):
    (tmp_path / "a.md").write_text("# Rope\n\nText.")
    (tmp_path / "b.txt").write_text("First line\nrest")
    (tmp_path / "c.txt").write_text("w" * 200)
    (tmp_path / ".hidden.txt").write_text("no")
    assert {d.id: d.title for d in read_corpus(tmp_path).documents} == {
        "a.md": "Rope",
        "b.txt": "First line",
        "c.txt": "c",
    }


def disguised(path, text):
    """Write a text of the same size into a file, and give it the time that it had."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def replaced(path, text):
    """Put a file of the same size and time in the place of another."""
    other = path.with_name(".other")
    shutil.copy2(path, other)
    disguised(other, text)
    other.replace(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new.txt").write_text("New."),
        lambda folder: (folder / "a.txt").write_text("Edited text."),
        lambda folder: disguised(folder / "a.txt", "Fifth."),
        lambda folder: replaced(folder / "a.txt", "Sixth."),
        lambda folder: (folder / "a.txt").rename(folder / "b.txt"),
        lambda folder: (folder / "a.txt").unlink(),
        lambda folder: ((folder / "link.txt").unlink(), (folder / "link.txt").symlink_to("sub/c.txt")),
        lambda folder: (folder / "a.zip").touch(),
        lambda folder: os.mkfifo(folder / "pipe.txt"),
    ],
)
def test_state_of_a_folder_shows_every_change_and_opens_changed_files_alone(tmp_path, later, opens, change):
    folder, cache = tmp_path / "corpus", tmp_path / "contents.json"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("First.")
    (folder / "sub/c.txt").write_text("Another.")
    (folder / "link.txt").symlink_to("a.txt")
    before = source_state(folder, LIMIT, cache=cache)
    assert len(opens) == 3
    opens.clear()
    assert source_state(folder, LIMIT, cache=cache) == before
    assert opens == []
    change(folder)
    after = source_state(folder, LIMIT, cache=cache)
    assert after != before
    assert {"sub/c.txt"}.isdisjoint(opens)
    assert source_state(folder, LIMIT) == after


def test_a_copy_of_a_folder_has_its_state(tmp_path, later, opens):
    folder, cache = tmp_path / "corpus", tmp_path / "contents.json"
    folder.mkdir()
    (folder / "a.txt").write_text("First.")
    before = source_state(folder, LIMIT, cache=cache)
    shutil.copytree(folder, tmp_path / "copy")
    assert source_state(tmp_path / "copy", LIMIT, cache=cache) == before
    opens.clear()
    assert source_state(tmp_path / "copy", LIMIT, cache=cache) == before
    assert opens == []
    cache.write_text("{damaged")
    assert source_state(folder, LIMIT, cache=cache) == before


# Reading again


@pytest.fixture
def project(tmp_path, make_project):
    """A project with two corpora: `notes`, a folder of files, and `cards`, a file of lines. Files are old by now."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.txt").write_text(f"Note {number}.\n\nIt has a text.")
    (folder / "unusable.txt").write_text("  ")
    cards = tmp_path / "cards.jsonl"
    cards.write_text("".join(json.dumps(document(f"c{n}", f"Card {n}.")) + "\n" for n in range(8)) + "{\n")
    corpora = {"notes": {"path": "notes"}, "cards": {"path": "cards.jsonl"}}
    made = make_project(tmp_path, {"corpora": corpora, "buckets": 4, "levels": 2})
    made.notes, made.cards = folder, cards
    return made


@pytest.fixture
def opens(tmp_path, monkeypatch):
    """Names of the files of documents that were opened."""
    opened = []
    genuine = os.open

    def opening(path, *arguments, **options):
        if str(path).endswith((".txt", "cards.jsonl")):
            opened.append(os.path.basename(path))
        return genuine(path, *arguments, **options)

    monkeypatch.setattr(os, "open", opening)
    return opened


@pytest.fixture
def later(monkeypatch):
    """Let every reading be a minute after the last change, so that the status of files is trusted."""
    genuine = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: genuine() + 60_000_000_000)


def build(project, corpus):
    """Materialise `documents`; returns the artefact and how many were read and unchanged, None where it was fresh."""
    tools, recipes = Tools(project.settings), plan.graph(project.settings)
    outcome = materialise(recipes["documents"], corpus, tools, recipes)
    assert outcome.faults == {}
    recomputed = outcome.artefact.manifest.info["recomputed"]
    counted = recomputed["documents read"], recomputed["documents unchanged"]
    return outcome.artefact, counted if outcome.built else None


def build_from_nothing(project, corpus):
    """The artefact of a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        settings = project.settings.model_copy(update={"home": Path(home)})
        artefact, (_, unchanged) = build(SimpleNamespace(settings=settings), corpus)
        assert unchanged == 0
        return contents(artefact)


def contents(artefact):
    manifest = artefact.manifest
    return manifest.version, manifest.counts, {name: artefact.path(name).read_bytes() for name in artefact.names()}


def cards_of(project):
    return project.cards.read_text().splitlines(keepends=True)


def touch(path):
    """Change the time of the last modification, but not its second: what is read anew has the date of today."""
    second, rest = divmod(path.stat().st_mtime_ns, 1_000_000_000)
    os.utime(path, ns=(1, second * 1_000_000_000 + (rest + 1) % 1_000_000_000))


def edit_note(project):
    (project.notes / "3.txt").write_text("Note 3.\n\nIt has another text.")


def rename_note(project):
    (project.notes / "3.txt").rename(project.notes / "new.txt")


def edit_card(project):
    lines = cards_of(project)
    lines[3] = json.dumps(document("c3", "Another card.")) + "\n"
    project.cards.write_text("".join(lines))


@pytest.mark.parametrize(
    ("corpus", "change", "read", "unchanged"),
    [
        ("notes", edit_note, 1, 7),
        ("notes", rename_note, 1, 7),
        ("notes", lambda p: (p.notes / "3.txt").unlink(), 0, 7),
        ("notes", lambda p: (p.notes / "a.jsonl").write_text(json.dumps(document("a"))), 1, 8),
        ("notes", lambda p: (p.notes / "unusable.txt").write_text("Usable."), 1, 8),
        ("notes", lambda p: touch(p.notes / "3.txt"), 0, 8),
        ("cards", edit_card, 1, 7),
        ("cards", lambda p: p.cards.write_text("".join(cards_of(p)[::-1])), 0, 8),
        ("cards", lambda p: p.cards.write_text("".join(cards_of(p)[:3])), 0, 3),
        ("cards", lambda p: p.cards.write_text("\n".join(cards_of(p))), 0, 8),
        # Of equal size and time.
        ("notes", lambda p: disguised(p.notes / "3.txt", "Note 3.\n\nIt has A TEXT."), 1, 7),
        ("cards", lambda p: disguised(p.cards, p.cards.read_text().replace("Card 3", "Bird 3")), 1, 7),
    ],
)
def test_only_touched_documents_are_read_and_the_result_is_that_of_reading_all(
    project, later, corpus, change, read, unchanged
):
    _, counted = build(project, corpus)
    assert counted == (8, 0)
    assert build(project, corpus)[1] is None
    change(project)
    artefact, counted = build(project, corpus)
    assert counted == (read, unchanged)
    assert contents(artefact) == build_from_nothing(project, corpus)


def test_file_with_a_new_date_gives_the_same_version_and_writes_no_bucket(project):
    before, _ = build(project, "notes")
    times = {name: before.path(name).stat().st_mtime_ns for name in before.names()}
    os.utime(project.notes / "3.txt", (1, 1))
    after, counted = build(project, "notes")
    assert counted == (0, 8)
    assert after.manifest.version == before.manifest.version
    assert {name: after.path(name).stat().st_mtime_ns for name in after.names()} == times


def test_edit_rewrites_the_bucket_of_its_document_and_no_other(project):
    before, _ = build(project, "notes")
    edit_note(project)
    after, _ = build(project, "notes")
    files = before.manifest.files, after.manifest.files
    changed = {name for name in files[0] if files[0][name] != files[1][name]}
    assert changed == {f"bucket_{bucket_of('3.txt', 4):04d}.parquet"}


def test_file_is_hashed_again_until_its_status_can_be_trusted(project, monkeypatch, opens):
    build(project, "notes")
    assert set(opens) == {*(f"{n}.txt" for n in range(8)), "unusable.txt"}
    for racy in (True, False):
        opens.clear()
        touch(project.notes / "3.txt")
        now = (project.notes / "3.txt").stat().st_ctime_ns + (1 if racy else 60) * 1_000_000_000
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        assert build(project, "notes")[1] == (0, 8)
        assert len(set(opens)) == 9
    opens.clear()
    touch(project.notes / "3.txt")
    assert build(project, "notes")[1] == (0, 8)
    assert set(opens) == {"3.txt"}


def test_document_appears_when_the_one_with_its_id_goes(project, later):
    project.cards.write_text("".join(cards_of(project)) + json.dumps(document("c0", "Other card.")) + "\n")
    before, counted = build(project, "cards")
    assert counted == (8, 0)
    assert "occurs at cards.jsonl:1 and at cards.jsonl:10" in skipped(before)["c0"]
    project.cards.write_text("".join(cards_of(project)[1:]))
    artefact, counted = build(project, "cards")
    assert counted == (1, 7)
    assert "c0" not in skipped(artefact)
    assert contents(artefact) == build_from_nothing(project, "cards")


def skipped(artefact):
    return {row["id"]: row["reason"] for row in pq.read_table(artefact.path("skipped.parquet")).to_pylist()}


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


@pytest.fixture
def interrupt():
    """Interrupt at the n-th point that a write reaches from now on."""

    def arrange(n):
        left = iter(range(n - 1))

        def stop(point):
            if next(left, None) is None:
                raise Interrupted(point)

        interrupt_with(stop)

    yield arrange
    interrupt_with(None)


@pytest.mark.parametrize("corpus", ["notes", "cards"])
def test_reading_after_an_interruption_anywhere_equals_reading_all(project, later, interrupt, corpus):
    build(project, corpus)
    interrupted = 0
    for n in range(1, 100):
        # Another document each time, two changes apart: what the last attempt remembered is in no artefact.
        for text in (f"Changed {n}.", f"Changed again {n}."):
            (project.notes / f"{n % 8}.txt").write_text(text)
            project.cards.write_text("".join(cards_of(project)) + json.dumps(document(f"n{n}", text)) + "\n")
            interrupt(n)
            try:
                build(project, corpus)
            except Interrupted:
                interrupted += 1
            interrupt_with(None)
        artefact, _ = build(project, corpus)
        assert contents(artefact) == build_from_nothing(project, corpus)
        if interrupted < n:
            break
    assert interrupted >= 8


@pytest.mark.parametrize("damage", ["memory", "memory gone", "bucket", "artefact gone", "buckets"])
def test_what_is_missing_or_damaged_is_read_again(project, later, damage):
    artefact, _ = build(project, "notes")
    memory = project.home / "cache" / "reading-notes.parquet"
    if damage == "memory":
        flip(memory)
    elif damage == "memory gone":
        memory.unlink()
    elif damage == "bucket":
        assert len({n for n in range(8) if bucket_of(f"{n}.txt", 4) == bucket_of("3.txt", 4)}) > 1
        flip(artefact.path(f"bucket_{bucket_of('3.txt', 4):04d}.parquet"))
    elif damage == "artefact gone":
        remove(Tools(project.settings).store, "documents", "notes")
    elif damage == "buckets":
        project.settings = project.settings.model_copy(update={"buckets": 3})
    edit_note(project)
    again, (read, unchanged) = build(project, "notes")
    assert read > 1 or damage == "buckets"
    assert read + unchanged == 8
    assert contents(again) == build_from_nothing(project, "notes")


def flip(path):
    """Change the bytes where Parquet keeps values; the size stays."""
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:4] + bytes(byte ^ 1 for byte in content[4:half]) + content[half:])


# Normalisation


PIECE = st.text(
    st.sampled_from("e\u0301\u0323\u0344\u1100\u1161\u11a8\u0928\u093c\u212b\ufb01 Z\U0001d15e"), max_size=12
)


@given(st.lists(PIECE, max_size=6))
@settings(deadline=None)
def test_offsets_move_with_normalisation(pieces):
    pieces = ["x" + piece for piece in pieces]
    text, shifts = normalise("".join(pieces))
    assert text == unicodedata.normalize("NFC", "".join(pieces))
    given_offset = normal_offset = 0
    for piece in pieces:
        assert shifted(given_offset, shifts) == normal_offset
        given_offset += len(piece)
        normal_offset += len(unicodedata.normalize("NFC", piece))
    assert shifted(given_offset, shifts) == len(text)


@given(st.text(max_size=60))
@settings(deadline=None)
def test_normalised_text_is_nfc(text):
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    assert normalise(text)[0] == unicodedata.normalize("NFC", lines)


# Questions


def question(identity="q1", **more):
    return {"id": identity, "question": "What?", "split": "train", "kind": "pinpoint", **more}


def span(start, end, doc="a", corpus="garden"):
    return {"corpus": corpus, "doc": doc, "start": start, "end": end}


KNOWN = {"garden": {"a": KnownDocument(10, ())}}


def test_question_about_other_corpora_is_counted_and_left_out(jsonl):
    away = question("away", evidence=[span(0, 5, corpus="sea")])
    both = question("both", evidence=[span(0, 5, corpus="sea"), span(0, 5)])
    reading = read_questions(jsonl(away, both), KNOWN)
    assert reading.elsewhere == 1
    assert [(q.id, q.evidence) for q in reading.questions] == [("both", (Evidence("garden", "a", 0, 5),))]
    assert reading.problems == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (question(split="x" * 65), "split: expected at most 64 printable characters, got 'xxx"),
        (question(question=" "), "question: expected a text, the cell is empty"),
        (question(options=["x"]), "options: expected an object as JSON, a struct or a map, got list"),
        (question(evidence={"doc": "a"}), "evidence: expected a list, got dict"),
        (question(evidence=["a"]), "evidence: expected objects with a quote, or with doc, start and end"),
        (question(evidence=[span(None, 5)]), "start: expected doc, start and end together"),
        (question(evidence=[span(True, 5)]), "start: expected an integer, got bool 'True'"),
        (question("good"), "duplicate row: expected more than docs.jsonl:1 has"),
        (b"{", "malformed JSON"),
        (b'{"id": "s", "question": "What \\ud800?", "split": "dev"}', "surrogate"),
        (question(evidence=[span(-1, 5)]), "evidence outside the text: garden/a has 10 characters, got -1..5"),
        (question(evidence=[span(0, 11)]), "evidence outside the text: garden/a has 10 characters, got 0..11"),
        (question(evidence=[span(5, 5)]), "evidence outside the text: garden/a has 10 characters, got 5..5"),
        (question(evidence=[span(0, 5, doc="z")]), "evidence: garden/z is not among the usable documents"),
    ],
)
def test_unusable_question_is_passed_over_with_the_reason(jsonl, wrong, reason):
    reading = read_questions(jsonl(question("good"), wrong), KNOWN)
    assert [q.id for q in reading.questions] == ["good"]
    (problem,) = reading.problems
    assert problem["place"] == "docs.jsonl:2" and reason in problem["reason"]


def test_questions_survive_storage(jsonl, tmp_path):
    path = jsonl(question(options={"A": "é"}, answer="A", evidence=[span(0, 5)]), question("q2", split="dev"))
    reading = read_questions(path, KNOWN)
    write_questions(reading.questions, tmp_path / "q.parquet")
    assert load_questions(tmp_path / "q.parquet") == reading.questions
    assert [q.id for q in load_questions(tmp_path / "q.parquet", ["dev"])] == ["q2"]


def test_training_question_with_evidence_of_a_test_question_is_passed_over_with_the_reason(make_project, tmp_path):
    def asked(identity, split, start, end):
        evidence = [{"corpus": "c", "doc": "d", "start": start, "end": end}]
        return {"id": identity, "question": "What?", "split": split, "evidence": evidence}

    # Of another question set, with one character in common; the neighbour has none.
    sets = {
        "learnt": [asked("shares", "train", 0, 11), asked("apart", "train", 0, 10), asked("unused", "dev", 0, 30)],
        "measured": [asked("tested", "test", 10, 20)],
    }
    for name, rows in sets.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "c.jsonl").write_text(json.dumps({"id": "d", "title": "t", "text": "word " * 20}), encoding="utf-8")
    splits = {"learnt": {"train": ["train"]}, "measured": {"test": ["test"]}}
    question_sets = {name: {"path": f"{name}.jsonl", "corpora": ["c"], **splits[name]} for name in sets}
    project = make_project(tmp_path, {"corpora": {"c": {"path": "c.jsonl"}}, "question_sets": question_sets})
    tools, recipes = Tools(project.settings), plan.graph(project.settings)
    materialise(recipes["documents"], "c", tools, recipes)
    stored = materialise(recipes["questions"], None, tools, recipes).artefact
    assert [q.id for q in load_questions(stored.path("learnt.parquet"))] == ["apart", "unused"]
    assert [q.id for q in load_questions(stored.path("measured.parquet"))] == ["tested"]
    (problem,) = [row for row in report_rows(stored, "learnt") if row["skipped"]]
    assert problem["id"] == "shares" and "never scored" in problem["skipped"]
    assert stored.manifest.counts["learnt: with evidence of test questions"] == 1
