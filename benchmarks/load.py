"""Concurrent clients against `mog serve` while a run rebuilds an edited corpus; beside bm25s and Haystack served alike.

python benchmarks/load.py --config load.yaml --edit cdc --questions questions.jsonl.gz

The configuration needs a home of its own, because documents of the corpus `--edit` (one .jsonl file) are changed and
put back. Every answer is checked: each passage must be the text of its document before the edit or after it, and all of
a response from the same side.
"""

import gzip
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np

from mog_assets import config
from mog_assets.build import markdown

# A server around anything that ranks, as small as it can be, with the same framework and the same body.
OTHERS = """
import json, sys
from fastapi import FastAPI
import uvicorn
kind, texts, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = [json.loads(line) for line in open(texts, encoding="utf-8")]
if kind == "bm25s":
    import bm25s, Stemmer
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25(backend="numba")
    index.index(bm25s.tokenize(rows, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    def search(question):
        asked = bm25s.tokenize([question], stopwords="en", stemmer=stemmer, show_progress=False)
        found, _ = index.retrieve(asked, k=8, show_progress=False)
        return [rows[i] for i in found[0]]
else:
    from haystack import Document
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    store = InMemoryDocumentStore()
    store.write_documents([Document(id=str(i), content=row) for i, row in enumerate(rows)])
    retriever = InMemoryBM25Retriever(store, top_k=8)
    def search(question):
        return [d.content for d in retriever.run(query=question)["documents"]]
app = FastAPI()
@app.post("/v1/search")
def retrieve(body: dict):
    return {"passages": [{"text": text} for text in search(body["question"])]}
search("warm up the compiled code")
print("ready", flush=True)
uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")
"""


class Client:
    """One connection that is used again."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._at = parts.hostname, parts.port
        self._open = http.client.HTTPConnection(*self._at, timeout=60)

    def ask(self, question: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        data = json.dumps({"question": question, **body})
        self._open.request("POST", "/v1/search", data, {"content-type": "application/json"})
        response = self._open.getresponse()
        return response.status, json.loads(response.read())


def load(
    url: str,
    questions: list[str],
    clients: int,
    seconds: float,
    body: dict[str, Any],
    check: Callable[[dict[str, Any]], str],
) -> tuple[list[float], list[str]]:
    """Milliseconds of every request of so many clients in so many seconds, and what was wrong."""
    took: list[float] = []
    wrong: list[str] = []
    end = time.monotonic() + seconds

    def one(number: int) -> None:
        client = Client(url)
        at = number * 37
        while time.monotonic() < end:
            at += 1
            started = time.perf_counter()
            try:
                status, given = client.ask(questions[at % len(questions)], body)
                fault = f"status {status}: {given}" if status != 200 else check(given)
            except OSError as error:
                fault = f"{type(error).__name__}: {error}"
                client = Client(url)
            took.append((time.perf_counter() - started) * 1000)
            if fault:
                wrong.append(fault)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, wrong


def peak(pid: int) -> int:
    """Peak memory of a process, in MiB."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0]) >> 10


@contextmanager
def process(*command: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """A process, the line that it prints when it is ready, and the seconds until then."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as made:
        assert made.stdout is not None
        try:
            line = made.stdout.readline().strip()
            if not line:
                raise click.ClickException(f"{' '.join(command)} ended with {made.wait()}: run it to see why")
            yield made, line, time.perf_counter() - started
        finally:
            made.send_signal(signal.SIGTERM)
            made.wait(60)


def row(what: str, took: list[float], wrong: list[str], seconds: float, memory: int, ready: float) -> dict[str, Any]:
    p50, p95, p99 = np.percentile(took, [50, 95, 99])
    return {
        "what": what,
        "requests/s": f"{len(took) / seconds:.1f}",
        "p50, ms": f"{p50:.0f}",
        "p95, ms": f"{p95:.0f}",
        "p99, ms": f"{p99:.0f}",
        "failures": len(wrong),
        "peak memory": f"{memory:,} MiB",
        "ready, s": f"{ready:.1f}",
    }


class Editions:
    """The documents of a corpus before and after an edit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.old = {line["id"]: line["text"] for line in lines}
        # Every document is another one, and of another length.
        self.new = {name: "Revised edition. " + text.replace(". ", ". Indeed, ", 3) for name, text in self.old.items()}
        self.lines = lines

    def write(self, texts: dict[str, str]) -> None:
        made = [json.dumps({**line, "text": texts[line["id"]]}, ensure_ascii=False) + "\n" for line in self.lines]
        self.path.write_text("".join(made), encoding="utf-8")


@click.command()
@click.option("--config", "path", required=True)
@click.option("--edit", required=True, help="Corpus whose documents are edited; one .jsonl file.")
@click.option("--questions", "asked", required=True, type=click.Path(path_type=Path))
@click.option("--clients", default=32, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--method", default="auto", show_default=True)
@click.option("--select", multiple=True, help="What the run rebuilds; see `mog run`.")
@click.option("--others/--no-others", default=True)
def main(
    path: str, edit: str, asked: Path, clients: int, seconds: float, method: str, select: tuple[str, ...], others: bool
) -> None:
    settings = config.load(path)
    editions = Editions(settings.corpora[edit].path)
    with gzip.open(asked, "rt", encoding="utf-8") as stream:
        questions = [json.loads(line)["question"] for line in stream]
    mog = [sys.executable, "-m", "mog_assets.cli"]
    body = {"method": method}
    sides: dict[str, set[str]] = {}

    def check(given: dict[str, Any]) -> str:
        found = set()
        for passage in given["passages"]:
            if passage["corpus"] == edit:
                (span,) = passage["spans"]
                texts = {
                    side: getattr(editions, side)[passage["document"]][span["start"] : span["end"]]
                    for side in ("old", "new")
                }
                if passage["text"] not in texts.values():
                    return f"{passage['document']} {span}: neither the old text nor the new one"
                if texts["old"] != texts["new"]:
                    found |= {side for side, text in texts.items() if text == passage["text"]}
        sides.setdefault(given["version"], set()).update(found)
        return "old and new passages in one response" if len(found) > 1 else ""

    rows = []
    editions.write(editions.old)
    subprocess.run([*mog, "run", "--config", path, *select_of(select)], check=True, stdout=subprocess.DEVNULL)
    serve = [*mog, "serve", "--config", path, "--port", "0", "--waiting", str(2 * clients)]
    with process(*serve, stderr=subprocess.DEVNULL) as (server, url, ready):
        alone, wrong = load(url, questions, 1, seconds / 4, body, check)
        rows.append(row("mog serve, 1 client", alone, wrong, seconds / 4, peak(server.pid), ready))
        quiet, wrong = load(url, questions, clients, seconds / 2, body, check)
        rows.append(row(f"mog serve, {clients} clients", quiet, wrong, seconds / 2, peak(server.pid), ready))
        told = []

        def rebuild() -> None:
            time.sleep(seconds / 10)
            editions.write(editions.new)
            started = time.perf_counter()
            command = [*mog, "run", "--config", path, *select_of(select)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            told.append(f"the run took {time.perf_counter() - started:.0f} s, exit status {done.returncode}")

        other = threading.Thread(target=rebuild)
        other.start()
        busy, wrong = load(url, questions, clients, seconds, body, check)
        other.join()
        rows.append(row(f"mog serve, {clients} clients, during a run", busy, wrong, seconds, peak(server.pid), ready))
        faults = wrong
    editions.write(editions.old)
    if others:
        rows += list(compared(settings, questions, clients, seconds / 3))
    click.echo(markdown.table(rows, 80))
    seen = ", ".join(f"{version}: {'/'.join(sorted(found)) or 'no edited passage'}" for version, found in sides.items())
    click.echo(f"versions seen: {seen}; {'; '.join(told)}; faults: {faults[:3] or 'none'}")


def select_of(select: tuple[str, ...]) -> list[str]:
    return [part for name in select for part in ("--select", name)]


def compared(settings: config.Settings, questions: list[str], clients: int, seconds: float) -> Iterator[dict[str, Any]]:
    """bm25s and Haystack over chunks of level 1 of the same corpora."""
    from mog_assets.build.tools import Tools
    from mog_assets.index.encoding import bucket_texts
    from mog_assets.index.layouts import bucket_layout

    store = Tools(settings).store
    texts = settings.home / "load-texts.jsonl"
    with texts.open("w", encoding="utf-8") as stream:
        for name in settings.corpora:
            documents, chunks = store.read("documents", name), store.read("chunks/level_1", name)
            for bucket in documents.names("bucket"):
                layout = bucket_layout(documents.path(bucket), chunks.path(bucket))
                stream.writelines(json.dumps(t) + "\n" for t in bucket_texts(documents.path(bucket), layout, 1))
    environment = {**os.environ, "HAYSTACK_TELEMETRY_ENABLED": "False"}
    for number, kind in enumerate(("bm25s", "haystack")):
        port = 18_100 + number
        command = [sys.executable, "-c", OTHERS, kind, str(texts), str(port)]
        with process(*command, env=environment) as (server, _, ready):
            time.sleep(2)
            took, wrong = load(f"http://127.0.0.1:{port}", questions, clients, seconds, {}, lambda given: "")
            name = {"bm25s": "bm25s, 8 chunks", "haystack": "Haystack InMemoryBM25Retriever, 8 chunks"}[kind]
            yield row(f"{name}, {clients} clients", took, wrong, seconds, peak(server.pid), ready)
    texts.unlink()


if __name__ == "__main__":
    main()
