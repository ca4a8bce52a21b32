"""Read a file, and say what it gives or why it is skipped."""

from mog_assets.documents.reading import read_corpus
from mog_assets.documents.worker import Limits

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
