"""Requests a second, and milliseconds of one, of `mog serve` with 0, 1, 2, … processes that search.

python benchmarks/searchers.py --config growth/1000000/mog.yaml --questions questions.jsonl.gz

The project is only read, with `ranking.candidates: indexed` and a Ray that the server starts. Clients ask over HTTP,
each its next question when the last is answered; answers of a single client are compared with those of the server
without searchers, byte by byte. With `--kill` a process that searches is killed halfway.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import click
import numpy as np
import psutil
import yaml

from mog_assets import markdown

ALONE = 60


@contextmanager
def serving(config: Path, searchers: int) -> Iterator[tuple[str, int]]:
    """URL and process of a server."""
    values = yaml.safe_load(config.read_text(encoding="utf-8"))
    values["ranking"] = {**values.get("ranking", {}), "candidates": "indexed"}
    values["engine"] = {"kind": "ray", "searchers": searchers, "workers": max(searchers, 1)} if searchers else {}
    written = config.with_name(f"searchers_{searchers}.yaml")
    written.write_text(yaml.safe_dump(values), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mog_assets.cli",
        "serve",
        "--config",
        str(written),
        "--port",
        "0",
        "--waiting",
        "500",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise click.ClickException(f"{' '.join(command)} ended with {process.wait()}: run it to see why")
            yield url, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            written.unlink()


def answer(url: str, question: str, method: str) -> bytes:
    """What the server answers; fails unless it is 200."""
    body = json.dumps({"question": question, "method": method, "budget": 4000}).encode()
    with urlopen(Request(f"{url}/v1/retrieve", body, {"Content-Type": "application/json"}), timeout=60) as response:
        return bytes(response.read())


def memory(pid: int) -> tuple[float, float]:
    """MiB beside mapped files: of the server, and of the largest process that searches."""
    searching = [p for p in psutil.Process(pid).children(recursive=True) if "ray::Answering" in " ".join(p.cmdline())]
    mib = [(p.memory_info().rss - p.memory_info().shared) / (1 << 20) for p in [psutil.Process(pid), *searching]]
    return mib[0], max(mib[1:], default=0.0)


def measured(
    url: str, pid: int, questions: list[str], method: str, clients: int, seconds: float, kill: bool
) -> dict[str, Any]:
    """Figures of a server."""
    alone, answers = [], []
    for question in questions[:ALONE]:
        start = time.perf_counter()
        answers.append(answer(url, question, method))
        alone.append(1000 * (time.perf_counter() - start))
    times: list[float] = []
    failures: list[str] = []
    until = time.monotonic() + seconds

    def client(number: int) -> None:
        at = number
        while time.monotonic() < until:
            start = time.perf_counter()
            try:
                answer(url, questions[at % len(questions)], method)
            except OSError as error:
                failures.append(str(error))
            times.append(1000 * (time.perf_counter() - start))
            at += clients

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    if kill:
        time.sleep(seconds / 2)
        names = [(p.pid, " ".join(p.cmdline())) for p in psutil.Process(pid).children(recursive=True)]
        os.kill(next(number for number, name in names if "ray::Answering" in name), signal.SIGKILL)
    for thread in threads:
        thread.join()
    server, searcher = memory(pid)
    return {
        "one client, p50, ms": f"{np.median(alone[10:]):.1f}",
        "p95": f"{np.percentile(alone[10:], 95):.1f}",
        f"{clients} clients, requests a second": f"{len(times) / seconds:.1f}",
        "p50, ms": f"{np.median(times):.0f}",
        "p99, ms": f"{np.percentile(times, 99):.0f}",
        "failed": str(len(failures)),
        "server, MiB": f"{server:.0f}",
        "a searcher, MiB": f"{searcher:.0f}",
        "answers": answers,
    }


@click.command(help=__doc__)
@click.option("--config", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--questions", "asked", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--searchers", "counts", multiple=True, type=int, default=(0, 1, 2, 4), show_default=True)
@click.option("--method", default="fused", show_default=True)
@click.option("--clients", default=32, show_default=True)
@click.option("--seconds", default=20.0, show_default=True)
@click.option("--kill/--no-kill", default=True, show_default=True)
def main(
    config: Path, asked: Path, counts: tuple[int, ...], method: str, clients: int, seconds: float, kill: bool
) -> None:
    with gzip.open(asked, "rt", encoding="utf-8") as stream:
        questions = [json.loads(line)["question"] for line in stream][:2000]
    questions = [questions[i] for i in np.random.default_rng(0).permutation(len(questions))]
    rows, expected = [], None
    for count in counts:
        with serving(config, count) as (url, pid):
            row = measured(url, pid, questions, method, clients, seconds, kill and count > 0)
        answers = row.pop("answers")
        expected = expected or answers
        same = sum(one == other for one, other in zip(answers, expected, strict=True))
        rows.append({"searchers": str(count), **row, "same bytes": f"{same} of {len(answers)}"})
        click.echo(json.dumps(rows[-1]), err=True)
    click.echo(markdown.table(rows, 40))


if __name__ == "__main__":
    main()
