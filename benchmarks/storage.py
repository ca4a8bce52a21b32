"""Disk of a home by kind of file, and what storing vectors in fewer bytes costs a search.

python benchmarks/storage.py --config mog.yaml
python benchmarks/storage.py --config mog.yaml --search

The first prints the bytes that each kind of artefact takes on disk, and how many times the text that is.
The second fills collections of the embedded engine with the vectors of a home, and compares what they find for the test
questions with an exact search in float32.
"""

import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.index.encoding import vector_buckets
from mog_assets.plugins.qdrant.collections import Points, Sparse
from mog_assets.plugins.qdrant.embedded import EmbeddedQdrant
from mog_assets.questions.sets import load_questions

DEPTHS = (10, 40)
OVERSAMPLED = (1, 2)


def on_disk(paths) -> int:
    """Bytes of files on disk: less than their length for a file with holes."""
    return sum(path.lstat().st_blocks * 512 for path in paths if path.is_file())


def text_bytes(tools: Tools) -> int:
    """UTF-8 bytes of the titles and texts of all corpora."""
    total = 0
    for corpus in tools.settings.corpora:
        stored = tools.store.read("documents", corpus)
        for name in stored.names("bucket"):
            table = pq.read_table(stored.path(name), columns=["title", "text"])
            total += sum(int(pc.sum(pc.binary_length(column)).as_py() or 0) for column in table.columns)
    return total


def disk(home: Path) -> dict[str, int]:
    """Bytes on disk by kind, largest first."""
    found: dict[str, int] = defaultdict(int)
    for folder in ("store", "qdrant"):
        for path in (home / folder).rglob("*"):
            kind = path.relative_to(home / folder).parts[0].removesuffix(".lock")
            found[f"{folder}/{kind}"] += on_disk([path])
    for path in (home / "cache").glob("*"):
        kind = "vectors" if path.name.startswith("vectors-") else "other"
        found[f"cache/{kind}"] += on_disk([path])
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def search(tools: Tools, question_set: str, level: int) -> list[dict[str, object]]:
    """Recall, bytes and time of the searches of one level."""
    settings = tools.settings
    vectors = np.concatenate(
        [
            bucket.open()
            for corpus in settings.corpora
            for bucket in vector_buckets(partial(tools.store.read, partition=corpus), level)
        ]
    )
    asked = [q for q in load_questions(tools.store.read("questions").path(f"{question_set}.parquet"))]
    chosen = [q for q in asked if q.split in settings.question_sets[question_set].test][:500]
    queries = tools.encoder.encode([q.question for q in chosen]).astype(np.float32)
    every = vectors.astype(np.float32)
    products = queries @ every.T
    best = np.argsort(-products, axis=1, kind="stable")[:, : max(DEPTHS)]
    ids = [f"00000000-0000-0000-0000-{number:012x}" for number in range(len(vectors))]
    rows = []
    for stored in ("float32", "float16", "int8"):
        with tempfile.TemporaryDirectory(dir=settings.home) as folder:
            store = EmbeddedQdrant(Path(folder), vectors=stored)
            with store.open("level", vectors.shape[1]) as collection:
                for first in range(0, len(ids), 1000):
                    part = slice(first, first + 1000)
                    none = [Sparse([], [])] * len(ids[part])
                    collection.upsert(Points(ids[part], every[part], none, [{}] * len(ids[part])))
            size = on_disk(Path(folder).rglob("vector_storage-dense/**/*"))
            with store.open("level", vectors.shape[1]) as collection:
                for times in OVERSAMPLED:
                    found, started = [], time.process_time()
                    for row, hits in enumerate(collection.nearest(queries, times * max(DEPTHS))):
                        near = np.array([int(identity[-12:], 16) for identity, _ in hits])
                        if times > 1:
                            near = near[np.argsort(-(every[near] @ queries[row]), kind="stable")]
                        found.append(near)
                    seconds = time.process_time() - started
                    recall = {
                        f"recall@{k}": np.mean(
                            [len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found, best, strict=True)]
                        )
                        for k in DEPTHS
                    }
                    kind = stored if times == 1 else f"{stored}, {times} times as many compared again"
                    rows.append({"level": level, "vectors": kind, "bytes a vector": size / len(ids), **recall})
                    rows[-1] |= {"ms (user) a search": seconds / len(queries) * 1000}
    return rows


@click.command(help=__doc__)
@click.option("--config", "path", default="mog.yaml", show_default=True)
@click.option("--search", "question_set", is_flag=False, flag_value="", help="Compare searches; names a question set.")
@click.option("--level", "levels", multiple=True, type=int, default=(1, 2, 3), show_default=True)
def main(path: str, question_set: str | None, levels: tuple[int, ...]) -> None:
    """Measure, and print a table."""
    tools = Tools(config.load(path))
    if question_set is not None:
        name = question_set or next(iter(tools.settings.question_sets))
        rows = [row for level in levels for row in search(tools, name, level)]
        print(pd.DataFrame(rows).round(4).to_markdown(index=False))
        return
    text, found = text_bytes(tools), disk(tools.settings.home)
    total = {"all": sum(found.values())}
    rows = [{"what": k, "MB": v / 1e6, "times the text": v / text} for k, v in {**found, **total}.items()]
    print(f"{text:,} bytes of text", end="\n\n")
    print(pd.DataFrame(rows).round(2).to_markdown(index=False))


if __name__ == "__main__":
    main()
