"""What a corpus costs as it grows: time, memory and disk of every stage, and of a question, with fitted exponents.

nice python benchmarks/growth.py --config medquad.yaml --scratch growth

A corpus of each size is made of documents of the project's corpora: every other one is a copy with a tenth of its words
changed, the others have words drawn by Zipf's law from a million and the lengths of real ones. Each size is built with
the assets of this project, by its runner, in a home and a process of its own; its questions are asked in a further one.

Encoding is not done: the vector of a text is that of a chunk of the project, chosen by the hash of the text, plus noise
of a third of its length. It goes through the vector cache like any other. How long encoding would take follows from
2,000 texts that are really encoded, on one core. The vectors of questions are made in the same way.

Sizes that are done are kept in `growth.json` in the scratch folder; a size that was interrupted goes on where it was.
"""

import os

# Before numpy and torch are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import json
import math
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq
import yaml

from mog_assets import config
from mog_assets.build import markdown, tools
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.config.budget import Budget
from mog_assets.resources.encoder import Encoder

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
# Groups of assets, by the first part of their keys.
STAGES = ("documents", "chunks", "tokens", "bm25", "statistics", "embeddings", "names", "mentions")
STAGES += ("neighbours", "qdrant", "sentence_graph")
VOCABULARY, ZIPF = 1_000_000, 1.07
CHANGED = 0.1
NOISES, NOISE = 1 << 14, 1 / 3
SAMPLE = 2_000
WARM, TIMED, TOGETHER = 3, 40, 64
MIB = 1 << 20
_WORD = re.compile(r"\w+")


# The corpus


class Words:
    """Made-up words, each more frequent than the next: that of rank r with weight 1 / (r + 3) ** 1.07."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        weights = (np.arange(VOCABULARY) + 3.0) ** -ZIPF
        self._up_to = np.cumsum(weights) / weights.sum()

    @cached_property
    def _names(self) -> np.ndarray:
        syllables = [a + b for a in "bcdfghjklmnprstvwxyz" for b in "aeiou"]
        names = np.empty(VOCABULARY, object)
        for rank in range(VOCABULARY):
            high, low = divmod(rank, 10_000)
            tail = syllables[low // 100] + syllables[low % 100]
            names[rank] = (syllables[high] if high else "") + tail
        return names

    def draw(self, count: int) -> list[str]:
        """So many words."""
        return self._names[np.searchsorted(self._up_to, self._rng.random(count))].tolist()


def source_documents(settings: Settings) -> list[tuple[str, str]]:
    """Titles and texts of a project's documents."""
    store, found = Tools(settings).store, []
    for name in settings.corpora:
        documents = store.read("documents", name)
        for bucket in documents.names("bucket"):
            table = pq.read_table(documents.path(bucket), columns=["title", "text"])
            found += list(zip(table["title"].to_pylist(), table["text"].to_pylist(), strict=True))
    return found


def source_vectors(settings: Settings) -> tuple[np.ndarray, int]:
    """Vectors of a project's level-1 chunks, and the characters of the texts that they are of."""
    store, found, characters = Tools(settings).store, [], 0
    for name in settings.corpora:
        stored = store.read("embeddings/level_1", name)
        found += [np.load(stored.path(bucket)) for bucket in stored.names("bucket")]
        characters += int(store.read("documents", name).manifest.counts["characters"])
    return np.concatenate(found), characters


def grown(source: Sequence[tuple[str, str]], characters: int, seed: int) -> Iterator[dict[str, str]]:
    """Documents of about so many characters together."""
    words, rng, made, number = Words(seed), np.random.default_rng(seed), 0, 0
    while made < characters:
        title, text = source[int(rng.integers(len(source)))]
        if number % 2:
            parts = _WORD.split(text)
            held = _WORD.findall(text)
            places = np.flatnonzero(rng.random(len(held)) < CHANGED)
            for place, other in zip(places.tolist(), words.draw(len(places)), strict=True):
                held[place] = other
            text = "".join(part + word for part, word in zip(parts, [*held, ""], strict=True))
        else:
            drawn = words.draw(max(len(text) // 7, 12))
            rows = [drawn[i : i + 12] for i in range(0, len(drawn), 12)]
            text = " ".join(" ".join(row).capitalize() + "." for row in rows)
        made += len(text)
        number += 1
        yield {"id": f"document {number}", "title": f"{title} {' '.join(words.draw(2))}", "text": text}


def prepare(folder: Path, project: Settings, chunks: int) -> Settings:
    """Write the corpus, unless it is there, and the settings."""
    path, values = folder / "grown.jsonl", {"home": "home", "corpora": {"grown": {"path": "grown.jsonl"}}}
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        vectors, characters = source_vectors(project)
        temporary = path.with_suffix(".part")
        with temporary.open("w", encoding="utf-8") as stream:
            for document in grown(source_documents(project), round(chunks * characters / len(vectors)), chunks):
                stream.write(json.dumps(document, ensure_ascii=False) + "\n")
        temporary.replace(path)
    (folder / "mog.yaml").write_text(yaml.safe_dump(values))
    return config.load(str(folder / "mog.yaml"))


# The vectors


def synthetic(base: np.ndarray) -> type[Encoder]:
    """An encoder that gives a text a vector of the base, by the hash of the text, plus noise."""
    noise = np.random.default_rng(0).normal(size=(NOISES, base.shape[1])).astype(np.float32)
    noise *= NOISE / np.linalg.norm(noise, axis=1, keepdims=True)

    class Synthetic(Encoder):
        size = base.shape[1]

        def encode_questions(self, texts: Sequence[str], keep: bool = False) -> np.ndarray:
            return self.encode(texts, keep=keep)

        @property
        def encode_uncached(self) -> Callable[[Sequence[str]], np.ndarray]:  # type: ignore[override]
            return self.encode_questions

        def encode_here(self, items: list[tuple[bytes, str]]) -> Generator[list[tuple[bytes, bytes]]]:
            for first in range(0, len(items), 4096):
                keys = [key for key, _ in items[first : first + 4096]]
                numbers = np.array([int.from_bytes(key[:8], "little") for key in keys], np.uint64)
                found = base[numbers % np.uint64(len(base))].astype(np.float32)
                found += noise[(numbers >> np.uint64(40)) % np.uint64(NOISES)]
                found /= np.linalg.norm(found, axis=1, keepdims=True)
                yield [(key, row.tobytes()) for key, row in zip(keys, found.astype(np.float16), strict=True)]

    return Synthetic


def encoding(project: Settings) -> dict[str, float]:
    """Texts a second that one core really encodes, and their mean length."""
    import torch

    torch.set_num_threads(1)
    texts = [text[:500] for _, text in source_documents(project)]
    chosen = np.random.default_rng(0).choice(len(texts), SAMPLE, replace=False)
    encoder, some = Encoder(project.encoder), [texts[i] for i in chosen]
    encoder.encode(some[:20], keep=False)
    started, clock = time.process_time(), time.monotonic()
    encoder.encode(some, keep=False)
    return {
        "texts": SAMPLE,
        "characters": sum(map(len, some)) / SAMPLE,
        "texts a CPU second": SAMPLE / (time.process_time() - started),
        "texts a second": SAMPLE / (time.monotonic() - clock),
    }


# A size


def highest() -> int:
    """Most bytes that this process has had in memory since `forget`."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def anonymous() -> int:
    """Bytes that this process has in memory beside mapped files."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024


def forget() -> None:
    """Start the count of `highest` anew."""
    Path("/proc/self/clear_refs").write_text("5")


def size_of(folder: Path) -> int:
    """Bytes that the files of a folder take on disk; those of the vector store have holes."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def build(folder: Path, project: Settings, chunks: int, graph: bool) -> None:
    """Make the corpus and its assets in this process; writes what every asset needed to `built.json`."""
    from mog_assets.build import asset, plan, runner

    settings = prepare(folder, project, chunks)
    tools.Encoder = synthetic(source_vectors(project)[0])  # type: ignore[misc, attr-defined]
    materialise, record = asset.materialise, folder / "built.json"
    rows: dict[str, Any] = json.loads(record.read_text()) if record.exists() else {}

    def recording(recipe: Any, partition: str | None, *arguments: Any) -> Any:
        forget()
        started, clock = time.process_time(), time.monotonic()
        outcome = materialise(recipe, partition, *arguments)
        if outcome.built:
            row = {"cpu": time.process_time() - started, "seconds": time.monotonic() - clock, "peak": highest()}
            manifest = outcome.artefact.manifest
            rows[recipe.key] = {**row, "bytes": sum(entry["bytes"] for entry in manifest.files.values())}
            rows[recipe.key] |= {name: manifest.counts[name] for name in ("chunks", "terms") if name in manifest.counts}
            rows["whole process"] = {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
            record.write_text(json.dumps(rows))
            click.echo(f"{chunks:,}: {recipe.key} {row['cpu']:.1f} s of CPU, {row['peak'] / MIB:,.0f} MiB", err=True)
        return outcome

    asset.materialise = recording  # type: ignore[attr-defined]
    every = {key: key.partition("/")[0] for key in plan.graph(settings)}
    flat = [key for key, stage in every.items() if stage in STAGES and stage != "sentence_graph"]
    # The graph comes last: what it takes and does not give back would count as the memory of what comes after it.
    for keys in (flat, ["sentence_graph"] if graph else []):
        report = runner.run(settings, select=keys) if keys else None
        if report and report.failures:
            raise click.ClickException("; ".join(report.failures))


def ask(folder: Path, project: Settings) -> None:
    """Ask questions of a corpus that is built; writes what they needed to `asked.json`."""
    from mog_assets.index.neighbours import shorten
    from mog_assets.search import models
    from mog_assets.search.methods import parse
    from mog_assets.search.retrieval import Retrieval

    settings = config.load(str(folder / "mog.yaml"))
    tools.Encoder = synthetic(source_vectors(project)[0])  # type: ignore[misc, attr-defined]
    opened, words = Tools(settings), Words(7)
    titles = [title for title, _ in source_documents(project)]
    places = np.random.default_rng(1).choice(len(titles), TOGETHER, replace=False)
    questions = [f"What is known of {titles[i]} and {' '.join(words.draw(2))}?" for i in places]
    # Vectors are made up from those of the project, which stay in memory.
    beside = anonymous()
    started = time.monotonic()
    trained = Tools(project).store
    models.facts = lambda what, opening: {}  # type: ignore[assignment]

    def read(asset: str, corpus: str | None) -> Any:
        # Nothing is trained on a made-up corpus: `mix` is that of the project, if it has one, for other corpora.
        return (trained if asset == "mix" else opened.store).read(asset, corpus)

    served = Retrieval.open(opened, read, list(settings.corpora))
    served.corpora.layout.document_of  # noqa: B018
    if len(shards := served.corpora.neighbours) == 1:
        # As a project does that is open.
        shorten(shards[0])
    found: dict[str, Any] = {"layout": {"first": 1000 * (time.monotonic() - started), "peak": anonymous() - beside}}

    def passages(method: str, **limit: int) -> Callable[[str], Any]:
        return lambda question: served.with_queries([question]).passages(parse(method, settings), **limit)

    fused = parse("fused", settings)

    def texts(question: str) -> Any:
        ranked = served.with_queries([question]).passages(fused, budget=Budget(4000))
        return served.corpora.texts(ranked.document.tolist())

    # The first opens what all need.
    calls: dict[str, Callable[[str], Any]] = {"fused": passages("fused", budget=Budget(4000))}
    calls |= {"fused with texts": texts, "bm25 at level 1": passages("fixed-1", k=40)}
    calls["dense at level 1"] = passages("dense-1", k=40)
    if trained.find("mix", None):
        calls["mix"] = passages("mix", budget=Budget(4000))
    for name, call in calls.items():
        times = []
        for question in questions[: WARM + TIMED]:
            started = time.monotonic()
            call(question)
            times.append(1000 * (time.monotonic() - started))
        p50, p95 = np.percentile(times[WARM:], [50, 95]).tolist()
        found[name] = {"first": times[0], "p50": p50, "p95": p95, "peak": anonymous() - beside}
        click.echo(
            f"{name}: first {times[0]:,.0f} ms, then {p50:,.1f} ms, {found[name]['peak'] / MIB:,.0f} MiB", err=True
        )
    started = time.process_time()
    together = served.with_queries(questions).read
    found["candidates"] = {
        "p50": 1000 * (time.process_time() - started) / TOGETHER,
        "peak": anonymous() - beside,
        "rows": len(together.candidates.piece) / TOGETHER,
    }
    (folder / "asked.json").write_text(json.dumps(found))


def measured(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Build a size and ask it, each in a process of its own."""
    for what in ("build", "ask"):
        subprocess.run([sys.executable, __file__, *arguments, "--only", what], check=True)
    built = json.loads((folder / "built.json").read_text())
    asked = json.loads((folder / "asked.json").read_text())
    disk = {entry.name: size_of(entry) for entry in sorted((folder / "home").iterdir()) if entry.is_dir()}
    store = folder / "home" / "store"
    files = {entry.name: size_of(entry) for entry in sorted(store.iterdir()) if entry.is_dir()}
    return {
        "chunks": int(built["chunks/level_1"]["chunks"]),
        "characters": (folder / "grown.jsonl").stat().st_size,
        "commit": commit(),
        "built": built,
        "asked": asked,
        "disk": {**{name: size for name, size in disk.items() if name != "store"}, **files},
    }


def commit() -> str:
    """The commit that is measured."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


# The report


def series(found: Sequence[dict[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Measured values of every size by table and row; NaN where a size has none."""
    tables: dict[str, dict[str, list[float]]] = {"CPU seconds": {}, "peak memory, MiB": {}, "disk, MiB": {}}
    tables |= {
        "one question, p50, ms": {},
        "one question, p95, ms": {},
        "first question, ms": {},
        "asking, memory beside mapped files, MiB": {},
    }

    def put(table: str, row: str, size: int, value: float) -> None:
        tables[table].setdefault(row, [math.nan] * len(found))[size] = value

    for size, each in enumerate(found):
        for stage in STAGES:
            own = [row for key, row in each["built"].items() if key.partition("/")[0] == stage]
            if own:
                put("CPU seconds", stage, size, sum(row["cpu"] for row in own))
                put("peak memory, MiB", stage, size, max(row["peak"] for row in own) / MIB)
        put("peak memory, MiB", "the whole process", size, each["built"]["whole process"]["peak"] / MIB)
        for name, held in each["disk"].items():
            if held > MIB:
                put("disk, MiB", name, size, held / MIB)
        put("disk, MiB", "all", size, sum(each["disk"].values()) / MIB)
        for name, row in each["asked"].items():
            if "p50" in row:
                put("one question, p50, ms", name, size, row["p50"])
            if "p95" in row:
                put("one question, p95, ms", name, size, row["p95"])
            if "first" in row:
                put("first question, ms", name, size, row["first"])
            put("asking, memory beside mapped files, MiB", name, size, row["peak"] / MIB)
    return tables


def exponent(chunks: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Exponent and factor of the power law that fits best, by least squares of logarithms; NaN from fewer than three.

    A constant part, such as the interpreter's memory, lowers the exponent of small sizes: see the last step's as well.
    """
    there = [(c, v) for c, v in zip(chunks, values, strict=True) if v > 0]
    if len(there) < 3:
        return math.nan, math.nan
    slope, offset = np.polyfit(*np.log(np.array(there)).T, 1)
    return float(slope), float(np.exp(offset))


def last_step(chunks: Sequence[int], values: Sequence[float]) -> float:
    """Exponent between the last two sizes."""
    there = [(c, v) for c, v in zip(chunks, values, strict=True) if v > 0][-2:]
    if len(there) < 2:
        return math.nan
    (a, x), (b, y) = there
    return math.log(y / x) / math.log(b / a)


def extended(chunks: Sequence[int], values: Sequence[float], target: int) -> float:
    """The value at another size, on the line through the last two: a power law would spread a constant part over it."""
    there = [(c, v) for c, v in zip(chunks, values, strict=True) if v > 0][-2:]
    if len(there) < 2:
        return math.nan
    (a, x), (b, y) = there
    return y + max(y - x, 0) / (b - a) * (target - b)


def report(found: Sequence[dict[str, Any]], speed: dict[str, float], target: int) -> str:
    """Markdown tables: values by size, exponents, and, from the last two sizes, those of `target` chunks."""
    chunks, parts = [each["chunks"] for each in found], []
    for name, rows in series(found).items():
        table = []
        for row, values in rows.items():
            fitted, _ = exponent(chunks, values)
            shown = {f"{c:,}": "" if math.isnan(v) else f"{v:,.1f}" for c, v in zip(chunks, values, strict=True)}
            steps = {"exponent": f"{fitted:.2f}", "last step": f"{last_step(chunks, values):.2f}"}
            table.append({name: row, **shown, **steps, f"at {target:,}": f"{extended(chunks, values, target):,.0f}"})
        parts.append(f"{markdown.table(table, 60)}")
    per = speed["texts a CPU second"]
    hours = "; ".join(f"{c:,}: {c / per / 3600:,.1f} h" for c in [*chunks, target])
    parts.append(
        f"Encoding: {speed['texts']:,.0f} texts of {speed['characters']:.0f} characters, {per:.1f} texts a second of "
        f"one core. Level 1 of each size: {hours}."
    )
    parts.append("Commits: " + ", ".join(f"{each['chunks']:,} {each['commit']}" for each in found))
    return "\n\n".join(parts)


def plot(found: Sequence[dict[str, Any]], path: Path) -> None:
    """CPU seconds, memory and disk by chunks, on logarithmic axes."""
    from matplotlib.figure import Figure

    chunks = [each["chunks"] for each in found]
    every = series(found)
    names = ("CPU seconds", "peak memory, MiB", "disk, MiB", "one question, p50, ms")
    figure = Figure(figsize=(11, 8), layout="constrained")
    for axes, name in zip(figure.subplots(2, 2).ravel(), names, strict=True):
        for row, values in every[name].items():
            axes.plot(chunks, values, marker="o", label=f"{row}, {exponent(chunks, values)[0]:.2f}")
        axes.set(xscale="log", yscale="log", xlabel="level-1 chunks", title=f"{name}, with exponents")
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)


@click.command(help=__doc__)
@click.option("--config", "path", default="mog.yaml", show_default=True, help="A built project; it is only read.")
@click.option("--scratch", type=click.Path(path_type=Path), default=Path("growth"), show_default=True)
@click.option("--chunks", "sizes", multiple=True, type=int, default=SIZES, show_default=True)
@click.option("--graph-most", default=30_000, show_default=True, help="Most chunks that a sentence graph is made of.")
@click.option("--target", default=54_000_000, show_default=True, help="Chunks that the last two sizes are extended to.")
@click.option("--keep/--no-keep", default=False, show_default=True, help="Keep the corpora and homes of all sizes.")
@click.option("--only", type=click.Choice(["build", "ask", "report"]), hidden=True)
def main(
    path: str,
    scratch: Path,
    sizes: tuple[int, ...],
    graph_most: int,
    target: int,
    keep: bool,
    only: str | None,
) -> None:
    for variable in ("DAGSTER_HOME", "QDRANT_URL"):
        os.environ.pop(variable, None)
    project = config.load(path)
    if only and only != "report":
        (chunks,) = sizes
        folder = scratch.resolve() / str(chunks)
        if only != "build":
            ask(folder, project)
        else:
            build(folder, project, chunks, chunks <= graph_most)
        return
    scratch.mkdir(parents=True, exist_ok=True)
    kept = scratch / "growth.json"
    done: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    for chunks in sorted(sizes):
        if str(chunks) in done or only == "report":
            continue
        shared = ["--config", path, "--scratch", str(scratch), "--chunks", str(chunks)]
        done[str(chunks)] = measured(scratch.resolve() / str(chunks), [*shared, "--graph-most", str(graph_most)])
        kept.write_text(json.dumps(done, indent=1))
        if not keep:
            shutil.rmtree(scratch / str(chunks))
    if "encoding" not in done:
        done["encoding"] = encoding(project)
        kept.write_text(json.dumps(done, indent=1))
    found = [done[key] for key in sorted((key for key in done if key.isdigit()), key=int)]
    click.echo(report(found, done["encoding"], target))
    plot(found, scratch / "growth.png")


if __name__ == "__main__":
    main()
