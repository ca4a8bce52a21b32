"""The log of use: what was asked, and which passage was said to answer it, in one SQLite file of the home folder.

Kept only if `use.log` is set, and for `use.days` days. Each function opens the file anew, so that several processes may
use it at once.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mog_assets.plugins.feedback.use_file import connected, explained
from mog_assets.resources.errors import MogError
from mog_assets.resources.sqlite import exists

_DAY = 86_400
# Seconds to wait for other processes.
PATIENCE = 5.0
# Characters around a quote that stands in its document more than once: doubled until they tell which is meant, at most.
_CONTEXT, _MOST_CONTEXT = 32, 4096
_SPAN = 'corpus, doc, start, "end", text, prefix, suffix'


@dataclass(frozen=True, slots=True)
class UsedQuote:
    """A piece of a document that answered a question.

    Attributes:
        corpus, doc: Its document.
        start, end: Where it stood, in characters of the document's text.
        text: Its text.
        prefix, suffix: Text around it; empty if it stood in the document once.
    """

    corpus: str
    doc: str
    start: int
    end: int
    text: str
    prefix: str = ""
    suffix: str = ""

    def to_evidence(self) -> dict[str, str]:
        """Return it as evidence of a question set."""
        around = {"prefix": self.prefix, "suffix": self.suffix}
        fields = {"quote": self.text, "corpus": self.corpus, "doc": self.doc}
        return {**fields, **{name: text for name, text in around.items() if text}}


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the log.

    Attributes:
        id: Names it, for `withdraw`; nobody can guess it.
        time: Seconds since 1970.
        question: In composed Unicode (NFC), with single blanks.
        quotes: The passage that answered it; empty if it was only asked.
        method: What found the passages.
        version: Of the artefacts that were searched.
    """

    id: str
    time: float
    question: str
    quotes: tuple[UsedQuote, ...]
    method: str
    version: str


def log_path(home: Path) -> Path:
    """Return the file of the log."""
    return home / "use" / "use.sqlite"


def written(question: str) -> str:
    """Return a question as it is kept: two that differ only in blanks or in the composition of letters are the same."""
    return " ".join(unicodedata.normalize("NFC", question).split())


def quoted(corpus: str, doc: str, text: str, start: int, end: int) -> UsedQuote:
    """Return characters `start` … `end` − 1 of a text, with what tells them from other places that say the same."""
    size = 0
    while size < _MOST_CONTEXT and _repeated(text, text[max(0, start - size) : end + size]):
        size = max(_CONTEXT, 2 * size)
    return UsedQuote(
        corpus, doc, start, end, text[start:end], text[max(0, start - size) : start], text[end : end + size]
    )


def _repeated(text: str, piece: str) -> bool:
    return text.find(piece, text.find(piece) + 1) >= 0


class UseEntry:
    """Notes questions that were asked, many a second: its connection stays open.

    Args:
        path: Of the log.
        seconds: How long to wait for other processes and threads.
    """

    def __init__(self, path: Path, seconds: float = 0.25) -> None:
        self.path, self.seconds = path, seconds
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._place: tuple[int, int] | None = None

    def note(self, questions: Sequence[str], method: str, version: str) -> None:
        """Keep questions; a process that is killed after this loses none, a power cut may lose the last ones.

        Raises:
            MogError: the log cannot be written, or others wrote to it for too long.
        """
        rows = [(secrets.token_hex(16), time.time(), written(q), 0, method, version) for q in questions]
        if not self._lock.acquire(timeout=self.seconds):
            raise MogError(f"the log of use {self.path} is busy: other threads write to it")
        try:
            with explained(self.path):
                connection = self._opened()
                with connection:
                    connection.executemany(_INSERT, rows)
        except MogError:
            self._close()
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._close()

    def _opened(self) -> sqlite3.Connection:
        # Somebody may have deleted the file, which is everybody's right.
        if self._connection is not None and _place(self.path) != self._place:
            self._close()
        if self._connection is None:
            self._connection = connected(self.path, self.seconds, "NORMAL", threads=True)
            self._place = _place(self.path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_INSERT = "INSERT INTO entries (id, time, question, used, method, version) VALUES (?, ?, ?, ?, ?, ?)"


def _place(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def note_used(path: Path, question: str, quotes: Sequence[UsedQuote], method: str, version: str) -> str:
    """Keep that a passage answered a question; it is on disk when this returns.

    Returns:
        What names the entry, for `withdraw`.

    Raises:
        MogError: the log cannot be written.
    """
    identity = secrets.token_hex(16)
    with explained(path), closing(connected(path, PATIENCE, "FULL")) as connection, connection:
        row = (identity, time.time(), written(question), 1, method, version)
        number = connection.execute(_INSERT, row).lastrowid
        connection.executemany(
            f"INSERT INTO spans (entry, {_SPAN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(number, q.corpus, q.doc, q.start, q.end, q.text, q.prefix, q.suffix) for q in quotes],
        )
    return identity


def withdraw(path: Path, identity: str) -> bool:
    """Delete one entry; whether there was one. Its bytes go with the next `expire` or `forget`.

    Raises:
        MogError: the log cannot be written.
    """
    with explained(path):
        if not exists(path):
            return False
        with closing(connected(path, PATIENCE, "FULL")) as connection, connection:
            return bool(connection.execute("DELETE FROM entries WHERE id = ?", (identity,)).rowcount)


def expire(path: Path, days: int, now: float | None = None, seconds: float = PATIENCE) -> int:
    """Delete what is older than `days`, and the bytes of what was deleted before; returns the number of entries.

    Raises:
        MogError: the log cannot be written, or others wrote to it for too long.
    """
    oldest = (time.time() if now is None else now) - days * _DAY
    return _delete(path, "time < ?", (oldest,), seconds)


def forget(
    path: Path,
    *,
    question: str | None = None,
    document: tuple[str, str] | None = None,
    before: float | None = None,
    everything: bool = False,
) -> int:
    """Delete entries, and rewrite the file so that their bytes are gone.

    Args:
        path: Of the log.
        question: Delete entries of this question, written in any way that `written` takes for the same.
        document: Corpus and id: delete entries whose passage is of this document.
        before: Seconds since 1970: delete older entries.
        everything: Delete all.

    Returns:
        The number of entries that were deleted: those for which one of the conditions holds.

    Raises:
        MogError: the log cannot be written, or others used it for too long.
    """
    wanted: list[tuple[str, Sequence[Any]]] = []
    if question is not None:
        wanted.append(("question = ?", (written(question),)))
    if document is not None:
        wanted.append(("number IN (SELECT entry FROM spans WHERE corpus = ? AND doc = ?)", document))
    if before is not None:
        wanted.append(("time < ?", (before,)))
    if everything:
        wanted.append(("1", ()))
    if not wanted:
        return 0
    return _delete(path, " OR ".join(part for part, _ in wanted), [v for _, values in wanted for v in values], PATIENCE)


def _delete(path: Path, where: str, values: Sequence[Any], seconds: float) -> int:
    with explained(path):
        if not exists(path):
            return 0
        with closing(connected(path, seconds, "FULL")) as connection:
            with connection:
                number = connection.execute(f"DELETE FROM entries WHERE {where}", values).rowcount
            (dirty,) = connection.execute("SELECT dirty FROM about").fetchone()
            if dirty:
                # Pages that were split hold copies of rows, and the log beside the file its former pages.
                connection.execute("VACUUM")
                (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    raise MogError(
                        f"the log of use {path}: {number} entries are deleted, but other processes read the file, "
                        "which still holds their bytes: do it again"
                    )
                with connection:
                    connection.execute("UPDATE about SET dirty = 0")
    return number


def entries(path: Path, most: int | None = None) -> list[Entry]:
    """Return the latest entries, newest first; all if `most` is None.

    Raises:
        MogError: the log cannot be read.
    """
    with explained(path):
        if not exists(path):
            return []
        with closing(connected(path, PATIENCE)) as connection:
            # One transaction, so that no row comes or goes between the two.
            connection.execute("BEGIN")
            newest = "SELECT * FROM entries ORDER BY number DESC LIMIT ?"
            rows = connection.execute(newest, (-1 if most is None else most,)).fetchall()
            spans: dict[int, list[UsedQuote]] = {}
            if rows:
                since = f"SELECT entry, {_SPAN} FROM spans WHERE entry >= ? ORDER BY rowid"
                for entry, *span in connection.execute(since, (rows[-1][0],)):
                    spans.setdefault(entry, []).append(UsedQuote(*span))
    return [
        Entry(identity, when, question, tuple(spans.get(number, ())), method, version)
        for number, identity, when, question, _, method, version in rows
    ]


def use_records(path: Path, unanswered: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what the log says, as records of a question set: one for each text of a question, in order of first use.

    Args:
        path: Of the log; without a file there are no records.
        unanswered: Give questions also for which no passage was named; their records have no `evidence`.

    Yields:
        A place for messages, and `id` (of the text alone), `question` and `evidence`: quotes with their documents, and
        with `prefix` and `suffix` if the quote stood there more than once. Passages that overlap are one quote.

    Raises:
        MogError: the log cannot be read.
    """
    quotes_of: dict[str, list[UsedQuote]] = {}
    for entry in reversed(entries(path)):
        if unanswered or entry.quotes:
            quotes_of.setdefault(entry.question, []).extend(entry.quotes)
    for question, quotes in quotes_of.items():
        identity = f"use-{hashlib.sha256(question.encode()).hexdigest()[:16]}"
        record: dict[str, Any] = {"id": identity, "question": question}
        if quotes:
            record["evidence"] = [quote.to_evidence() for quote in _joined(quotes)]
        yield f"{path.name}:{identity}", record


def _joined(quotes: Sequence[UsedQuote]) -> list[UsedQuote]:
    """Return quotes by document and place; those that overlap and say the same there are one."""
    joined: list[UsedQuote] = []
    for quote in sorted(quotes, key=lambda q: (q.corpus, q.doc, q.start, q.end)):
        for row, other in enumerate(joined):
            if (union := _union(other, quote)) is not None:
                joined[row] = union
                break
        else:
            joined.append(quote)
    seen: dict[tuple[str, ...], UsedQuote] = {}
    for quote in joined:
        seen.setdefault((quote.corpus, quote.doc, quote.text, quote.prefix, quote.suffix), quote)
    return list(seen.values())


def _union(first: UsedQuote, second: UsedQuote) -> UsedQuote | None:
    """Return both as one quote, if the second begins within the first; None if they are apart or differ."""
    at, both = second.start - first.start, min(first.end, second.end) - second.start
    if (first.corpus, first.doc) != (second.corpus, second.doc) or both < 0:
        return None
    # After an edit the same places hold other text.
    if first.text[at : at + both] != second.text[:both]:
        return None
    if second.end <= first.end:
        return first
    return replace(first, end=second.end, text=first.text + second.text[both:], suffix=second.suffix)


def state(path: Path, unanswered: bool = True) -> list[str | int] | None:
    """Return value that changes when, and only when, rows that `use_records` reads with the same arguments come or go.

    Returns:
        A name that the file got when it was created, and a number that grows; None if there is no file.

    Raises:
        MogError: the log cannot be read.
    """
    with explained(path):
        if not exists(path):
            return None
        with closing(connected(path, PATIENCE)) as connection:
            (file, rows, used) = connection.execute("SELECT file, rows, used FROM about").fetchone()
    return [file, rows if unanswered else used]
