"""What a change costs: no document, one, and 1 % of them, each against a build from nothing.

Seconds are those of whole processes, CPU seconds with all that they start: on a machine that does other work, compare
these, on one core.

OMP_NUM_THREADS=1 python benchmarks/incremental.py --config mog.yaml

Works on a copy of the corpora in a scratch folder with a home of its own; the project itself is only read.
"""

import contextlib
import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import yaml

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.plan import graph
from mog_assets.config import Settings
from mog_assets.documents.reading import read_corpus
from mog_assets.resources.store import Store
from mog_assets.text.cuts import sentence_ends

# What is counted of a run, by the asset that reports it.
COUNTERS = [
    ("documents", "documents read"),
    ("chunks/level_1", "documents split"),
    ("tokens", "documents tokenised"),
    ("embeddings/", "texts encoded"),
    ("qdrant", "points upserted"),
    ("qdrant", "points deleted"),
    ("sentence_graph", "nodes searched"),
    ("mentions", "texts searched for all names"),
    ("mentions", "names searched for in other texts"),
    ("soft_labels", "questions labelled"),
    ("hop_soft_labels", "questions labelled"),
    ("candidates", "questions"),
    ("mix", "models trained"),
    ("runs", "rankings"),
]
Lines = dict[str, list[str]]
"""JSON Lines of every corpus."""


def copied(settings: Settings) -> Lines:
    """The corpora as JSON Lines: files as they are, folders with a line a document."""
    lines = {}
    for name, corpus in settings.corpora.items():
        if corpus.path.is_dir():
            keys = ("id", "title", "text")
            documents = read_corpus(corpus.path).documents
            lines[name] = [json.dumps({key: getattr(d, key) for key in keys}) for d in documents]
        else:
            opened = gzip.open if corpus.path.suffix == ".gz" else open
            with opened(corpus.path, "rt", encoding="utf-8") as stream:
                lines[name] = [line.rstrip("\n") for line in stream if line.strip()]
    return lines


def edit(lines: Lines, places: list[tuple[str, int]], mark: str) -> None:
    """Put a mark into a sentence in the middle of each of these documents."""
    for corpus, number in places:
        record = json.loads(lines[corpus][number])
        ends = sentence_ends(record["text"])
        at = len(record["text"][: ends[len(ends) // 2]].rstrip())
        record["text"] = f"{record['text'][:at]} {mark}{record['text'][at:]}"
        lines[corpus][number] = json.dumps(record)


def write(lines: Lines, settings: Settings, corpora: set[str]) -> None:
    for name in corpora:
        settings.corpora[name].path.write_text("\n".join(lines[name]) + "\n", encoding="utf-8")


def run(settings: Settings, *options: str) -> tuple[tuple[float, float], list[dict[str, Any]]]:
    """Seconds and CPU seconds of `mog run` as a process of its own, and the artefacts that it made."""
    command = [sys.executable, "-m", "mog_assets.cli", "run", "--config", str(settings.home.parent / "mog.yaml")]
    began, started, used = time.time(), time.monotonic(), _cpu()
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    seconds = time.monotonic() - started, _cpu() - used
    if done.returncode:
        raise click.ClickException(done.stdout[-4000:] + done.stderr[-4000:])
    store = Store(settings.home)
    places = [(key, c) for key, r in graph(settings).items() for c in (settings.corpora if r.partitioned else [None])]
    made = [artefact.manifest for place in places if (artefact := store.find(*place))]
    return seconds, [
        {"asset": m.asset, "corpus": m.partition, "seconds": m.seconds, "recomputed": m.info["recomputed"]}
        for m in made
        if m.created >= began
    ]


def _cpu() -> float:
    """CPU seconds of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stages(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Seconds of every asset, its corpora together."""
    seconds: dict[str, float] = {}
    for step in steps:
        seconds[step["asset"]] = seconds.get(step["asset"], 0.0) + step["seconds"]
    return [{"asset": asset, "seconds": f"{total:.1f}"} for asset, total in seconds.items()]


def row(
    change: str,
    edited: int,
    seconds: tuple[float, float],
    full: tuple[float, float] | None,
    steps: list[dict[str, Any]],
) -> dict[str, Any]:
    def built(corpora: bool) -> float:
        return sum(step["seconds"] for step in steps if (step["corpus"] is not None) == corpora)

    figures = {
        f"{asset.partition('/')[0]}: {counter}": int(
            sum(s["recomputed"].get(counter, 0) for s in steps if s["asset"].startswith(asset))
        )
        for asset, counter in COUNTERS
    }
    return {
        "change": change,
        "documents edited": edited,
        "seconds": f"{seconds[0]:.1f}",
        "CPU seconds": f"{seconds[1]:.1f}",
        "share of the full build's seconds": f"{seconds[0] / full[0]:.2%}" if full else "",
        "of its CPU seconds": f"{seconds[1] / full[1]:.2%}" if full else "",
        "of it per corpus": f"{built(True):.1f}",
        "of it over all corpora": f"{built(False):.1f}",
        "assets built": len(steps),
        **figures,
    }


@click.command()
@click.option("--config", "path", default="mog.yaml", show_default=True)
@click.option("--reuse-vectors", is_flag=True, help="Start with the project's vector cache: the build encodes less.")
@click.option("--built", is_flag=True, help="Start with a copy of the project's home, which must be built.")
@click.option("--without-questions", is_flag=True, help="Leave the question sets out: corpora and indexes alone.")
@click.option("--scratch", type=click.Path(path_type=Path), help="Where to work; it stays. [a folder that is removed]")
def main(path: str, reuse_vectors: bool, built: bool, without_questions: bool, scratch: Path | None) -> None:
    project = config.load(path)
    for variable in ("DAGSTER_HOME", "QDRANT_URL"):
        os.environ.pop(variable, None)
    with contextlib.nullcontext(scratch) if scratch else tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        corpora = {c: s.model_copy(update={"path": folder / f"{c}.jsonl"}) for c, s in project.corpora.items()}
        settings = project.model_copy(update={"home": folder / "home", "corpora": corpora})
        if without_questions:
            settings = settings.model_copy(update={"question_sets": {}})
        if reuse_vectors:
            (settings.home / "cache").mkdir(parents=True)
            for file in (project.home / "cache").glob("vectors-*"):
                shutil.copy(file, settings.home / "cache")
        if built:
            shutil.copytree(project.home, settings.home)
        lines = copied(project)
        write(lines, settings, set(corpora))
        places = [(corpus, number) for corpus in corpora for number in range(len(lines[corpus]))]
        random.Random(project.seed).shuffle(places)

        (folder / "mog.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        full, steps = run(settings)
        print(markdown.table(stages(steps)), end="\n\n")
        # A home that was built elsewhere has only read its corpora again.
        whole = None if built else full
        table = [] if built else [row("from nothing", 0, full, whole, steps)]
        used = 0
        for change, share in (("none", 0.0), ("1 document", 1 / len(places)), ("1 %", 0.01)):
            count = max(int(share * len(places)), round(share * len(places)) if share * len(places) < 2 else 0)
            edited = places[used : used + count]
            used += count
            edit(lines, edited, f"(Revised, {change}.)")
            write(lines, settings, {corpus for corpus, _ in edited})
            seconds, steps = run(settings)
            table.append(row(change, count, seconds, whole, steps))
            print(f"{change}\n\n{markdown.table(stages(steps))}\n\n{markdown.table(table)}\n", flush=True)
    print(f"{len(places)} documents in {len(corpora)} corpora\n")
    print(markdown.table(table))


if __name__ == "__main__":
    main()
