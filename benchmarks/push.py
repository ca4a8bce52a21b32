"""Programs that push documents beside clients that ask: how many a second, and what each costs the other.

python benchmarks/push.py

On the samples and a corpus of 1,000 pushed documents, in a temporary folder. Every document that was acknowledged is
looked for in the file at the end. SQLite alone, with a commit for each batch, is what a pusher would use instead.
"""

import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
import yaml

from mog_assets.build import markdown

SAMPLES = Path(__file__).resolve().parents[1] / "mog_assets" / "samples"
MOG = (sys.executable, "-m", "mog_assets.cli")
SECONDS = 15


def document(number: int) -> dict[str, Any]:
    """A document of some 900 characters."""
    text = f"Note {number} is about hens, peat and owls. " * 22
    return {"id": f"note-{number}", "title": f"Note {number}", "text": text, "metadata": {"number": number}}


def built(folder: Path) -> Path:
    """A project with a corpus that takes documents."""
    config = folder / "mog.yaml"
    corpora = {name: {"path": str(SAMPLES / place)} for name, place in (("garden", "garden.jsonl"), ("sky", "sky"))}
    config.write_text(
        yaml.safe_dump({"corpora": {**corpora, "notes": {"source": "pushed://notes.sqlite"}}}), encoding="utf-8"
    )
    lines = "".join(json.dumps(document(number)) + "\n" for number in range(1000))
    for words in (("push", "notes", "-"), ("run",)):
        command = [*MOG, *words, "--config", str(config)]
        subprocess.run(command, input=lines, check=True, text=True, capture_output=True)
    return config


class Caller(threading.Thread):
    """Calls again and again until it is told to stop; keeps the times."""

    def __init__(self, url: str, body: Callable[[int], tuple[str, dict[str, Any]]], until: float) -> None:
        super().__init__()
        self.body, self.until, self.times, self.failures = body, until, list[float](), 0
        parts = urlsplit(url)
        self._connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)

    def run(self) -> None:
        number = 0
        while time.monotonic() < self.until:
            path, body = self.body(number)
            started = time.monotonic()
            self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = self._connection.getresponse()
            response.read()
            self.failures += response.status != 200
            self.times.append(time.monotonic() - started)
            number += 1


def measured(url: str, askers: int, pushers: int, batch: int, first: int) -> tuple[list[Caller], list[Caller]]:
    """The callers of each kind, when they are done."""
    until = time.monotonic() + SECONDS

    def ask(number: int) -> tuple[str, dict[str, Any]]:
        return "/v1/search", {"question": f"What do owls of note {number} hunt?", "method": "fused"}

    def push(who: int) -> Callable[[int], tuple[str, dict[str, Any]]]:
        def body(number: int) -> tuple[str, dict[str, Any]]:
            start = first + who * 10_000_000 + number * batch
            return "/v1/documents/notes", {"put": [document(start + i) for i in range(batch)]}

        return body

    asking = [Caller(url, ask, until) for _ in range(askers)]
    pushing = [Caller(url, push(who), until) for who in range(pushers)]
    for caller in (*asking, *pushing):
        caller.start()
    for caller in (*asking, *pushing):
        caller.join()
    return asking, pushing


def alone(folder: Path, batch: int) -> float:
    """Documents a second that SQLite takes, with a commit for each batch."""
    count, end = 0, time.monotonic() + 5
    with closing(sqlite3.connect(folder / "alone.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE d (id TEXT PRIMARY KEY, line TEXT)")
        while time.monotonic() < end:
            rows = [document(count + i) for i in range(batch)]
            with connection:
                connection.executemany("INSERT INTO d VALUES (?, ?)", [(row["id"], json.dumps(row)) for row in rows])
            count += batch
    return count / 5


@click.command()
@click.option("--askers", default=8, show_default=True)
@click.option("--batches", default="1,100", show_default=True, help="Documents of a request.")
def main(askers: int, batches: str) -> None:
    """Print a table of questions and pushed documents a second."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        config = built(folder)
        command = [*MOG, "serve", "--push", "--port", "0", "--config", str(config)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            measured(url, askers, 0, 1, 0)
            acknowledged, first = 1000, 1_000_000_000
            cases = [(askers, 0, 1)]
            for batch in map(int, batches.split(",")):
                cases += [(0, 1, batch), (askers, 1, batch), (askers, 4, batch)]
            for number, (asking, pushing, batch) in enumerate(cases):
                asked, pushed = measured(url, asking, pushing, batch, first * (number + 1))
                failures = sum(caller.failures for caller in (*asked, *pushed))
                questions, requests = (np.array([t for c in callers for t in c.times]) for callers in (asked, pushed))
                acknowledged += (len(requests) - sum(caller.failures for caller in pushed)) * batch
                rows.append(
                    {
                        "askers": asking,
                        "pushers": pushing,
                        "documents of a request": batch if pushing else "",
                        "questions/s": f"{len(questions) / SECONDS:.0f}",
                        "p50, p99 (ms)": _said(questions),
                        "documents/s": f"{len(requests) * batch / SECONDS:.0f}",
                        "push p50, p99 (ms)": _said(requests),
                        "SQLite alone, documents/s": f"{alone_of(folder, batch):.0f}" if pushing else "",
                        "failures": failures,
                    }
                )
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        with closing(sqlite3.connect(folder / "notes.sqlite")) as connection:
            (kept,) = connection.execute("SELECT count(*) FROM documents").fetchone()
    click.echo(markdown.table(rows))
    click.echo(f"\n{acknowledged:,} documents were acknowledged, {kept:,} are in the file.")


_ALONE: dict[int, float] = {}


def alone_of(folder: Path, batch: int) -> float:
    """As `alone`, measured once."""
    if batch not in _ALONE:
        (folder / "alone.sqlite").unlink(missing_ok=True)
        _ALONE[batch] = alone(folder, batch)
    return _ALONE[batch]


def _said(times: np.ndarray) -> str:
    return f"{1000 * np.median(times):.0f}, {1000 * np.quantile(times, 0.99):.0f}" if len(times) else ""


if __name__ == "__main__":
    main()
