"""The sentence graph as the project builds it, against what else gives each node its k best others.

python benchmarks/graph.py --config mog.yaml --nodes 100000 --growth 10000 --growth 400000

Needs `pip install sparse_dot_topn`. Each way runs in a process of its own, so that its memory is its own. Nodes are
drawn from the corpora of the configuration; without one they are made up: words by Zipf's and Mandelbrot's law, with
posting lists as long as medquad's. Everything is compiled before the clock starts; that first call is told apart.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pandas as pd
from safetensors.numpy import load_file
from scipy import sparse

from mog_assets import config
from mog_assets.documents.reading import read_corpus
from mog_assets.papers.level_search.bm25 import open_bm25s
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import neighbourhoods
from mog_assets.papers.mix_of_granularity.graph.nodes import node_spans
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import (
    index_of,
    link,
    neighbours,
    query_count,
    save_index,
    search_block,
    searched,
)
from mog_assets.papers.mix_of_granularity.settings import GraphSettings
from mog_assets.text.terms import tokenise

K1, B = 1.5, 0.75
BLOCK = 16_384
Found = tuple[np.ndarray, np.ndarray]


def opened_index(arrays):
    return open_bm25s(*(arrays[name] for name in ("data", "indices", "indptr")), len(arrays["asks"]))


def corpus_counts(settings: config.Settings) -> sparse.csr_matrix:
    """Counts of all nodes of all corpora."""
    texts = []
    for corpus in settings.corpora.values():
        for document in read_corpus(corpus.path).documents:
            spans = node_spans(document.text, settings.graph.sentences, settings.finest_chars)
            texts += [document.text[start:end] for start, end in spans]
    ids, terms = tokenise(texts)
    rows = np.repeat(np.arange(len(ids)), [len(row) for row in ids])
    return counted(rows, np.fromiter((i for row in ids for i in row), np.int64), (len(ids), len(terms)))


def made_up_counts(nodes: int, seed: int) -> sparse.csr_matrix:
    """Counts of nodes of made-up text: 12 tokens on average, as medquad's sentences have without stop words."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(rng.geometric(1 / 12, nodes), 80)
    chances = 1 / (np.arange(22_000) + 8)
    rows = np.repeat(np.arange(nodes), lengths)
    return counted(rows, rng.choice(22_000, len(rows), p=chances / chances.sum()), (nodes, 22_000))


def counted(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), shape, dtype=np.int32)
    matrix.sum_duplicates()
    matrix.sort_indices()
    return matrix


def without_self(nodes: np.ndarray, scores: np.ndarray, rows: np.ndarray, own: np.ndarray) -> Found:
    """The k best others out of k + 1 nodes, and their shares, as the project's `neighbours` gives them."""
    dropped = nodes == rows[:, None]
    dropped[~dropped.any(axis=1), -1] = True
    kept = (len(rows), nodes.shape[1] - 1)
    shares = scores[~dropped].reshape(kept) / np.maximum(own[rows, None], 1e-9)
    return nodes[~dropped].reshape(kept), shares


def ours(index: Path, k: int, rows: np.ndarray) -> Found:
    blocks = []
    for first in range(0, query_count(index), BLOCK):
        blocks.append(index.with_name(f"found_{first}"))
        search_block(str(index), str(blocks[-1]), first, min(first + BLOCK, query_count(index)), k)
    arrays = load_file(index)
    return neighbours(*searched(blocks, k), arrays["asks"], arrays["self"])


def queries_of(arrays: dict[str, np.ndarray], rows: np.ndarray) -> list[list[int]]:
    cuts, query = arrays["query_indptr"], arrays["query"]
    # A node without terms asks for term 0: its row is wrong, and there are few.
    return [query[cuts[i] : cuts[i + 1]].tolist() or [0] for i in arrays["asks"][rows]]


def bm25s_numba(index: Path, k: int, rows: np.ndarray) -> Found:
    arrays = load_file(index)
    found = opened_index(arrays).retrieve(queries_of(arrays, rows), k=k + 1, show_progress=False, n_threads=2)
    return without_self(found.documents, found.scores, rows, arrays["self"])


def bm25s_numpy(index: Path, k: int, rows: np.ndarray) -> Found:
    arrays = load_file(index)
    opened = opened_index(arrays)
    opened.backend = "numpy"
    found = opened.search(
        queries_of(arrays, rows), k=k + 1, show_progress=False, n_threads=2, backend_selection="numpy"
    )
    return without_self(found.documents, found.scores, rows, arrays["self"])


def sparse_dot_topn(index: Path, k: int, rows: np.ndarray) -> Found:
    from sparse_dot_topn import sp_matmul_topn

    arrays = load_file(index)
    shape = (len(arrays["indptr"]) - 1, len(arrays["asks"]))
    weights = sparse.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"].astype(np.int32)), shape)
    queries = queries_of(arrays, rows)
    indptr = np.cumsum([0, *map(len, queries)])
    flat = np.concatenate(queries)
    asked = sparse.csr_matrix((np.ones(len(flat), np.float32), flat, indptr), (len(rows), shape[0]))
    asked.sum_duplicates()
    product = sp_matmul_topn(asked, weights, top_n=k + 1, sort=True, n_threads=2)
    nodes, scores = np.full((len(rows), k + 1), -1), np.zeros((len(rows), k + 1))
    held = np.diff(product.indptr)
    row = np.repeat(np.arange(len(rows)), held)
    place = np.arange(len(row)) - product.indptr[row]
    nodes[row, place], scores[row, place] = product.indices, product.data
    return without_self(nodes, scores, rows, arrays["self"])


WAYS: dict[str, Callable[[Path, int, np.ndarray], Found]] = {
    "ours": ours,
    "bm25s numba": bm25s_numba,
    "sparse_dot_topn": sparse_dot_topn,
    "bm25s numpy": bm25s_numpy,
}


def usage() -> tuple[float, float, float]:
    """Seconds by the clock, seconds of the processors, most memory so far in MB."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure(way: str, counts: Path, k: int, sample: int, out: Path, around: bool) -> None:
    """One way in this process: prints figures as JSON, writes neighbours and shares."""
    with tempfile.TemporaryDirectory() as folder:
        small, index = Path(folder) / "small", Path(folder) / "index"
        save_index(index_of(made_up_counts(20_000, 1), K1, B), small)
        before = usage()
        WAYS[way](small, k, np.arange(100 if way == "bm25s numpy" else 20_000))
        first_call = usage()[0] - before[0]
        matrix = sparse.load_npz(counts)
        rows = np.arange(matrix.shape[0])
        if sample:
            rows = np.random.default_rng(0).choice(rows, sample, replace=False)
        before = usage()
        save_index(index_of(matrix, K1, B), index)
        indexed = usage()
        nodes, shares = WAYS[way](index, k, rows)
        if way == "ours":
            graph = link(nodes, shares, GraphSettings().threshold)
        after = usage()
        figures = {
            "nodes": matrix.shape[0],
            "asked": len(rows),
            "seconds": after[0] - before[0],
            "CPU seconds": after[1] - before[1],
            "nodes/s": len(rows) / (after[0] - indexed[0]),
            "peak MB": after[2],
            "of it before": before[2],
            "first call s": first_call,
        }
        if around:
            lengths = np.full(graph.nodes, 110)
            # Compiles.
            neighbourhoods(link(np.full((2_000, 1), -1), np.zeros((2_000, 1)), 0), lengths[:2_000], 1, 8_000)
            before = usage()
            found = neighbourhoods(graph, lengths, 4, 8_000)
            after = usage()
            figures |= {"hops 0–4 s": after[0] - before[0], "peak MB with hops": after[2]}
            figures["members"] = sum(len(found.within(hop)[1]) for hop in range(5))
        np.savez(out, rows=rows, nodes=nodes, shares=shares)
    print(json.dumps(figures))


def run(way: str, counts: Path, k: int, sample: int, out: Path, around: bool = False) -> dict:
    arguments = [way, str(counts), str(k), str(sample), str(out), "around" if around else ""]
    done = subprocess.run([sys.executable, __file__, "--measure", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"{way}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def load() -> str:
    return "load " + Path("/proc/loadavg").read_text().split()[0]


@click.command()
@click.option("--config", "path", help="Draw nodes from its corpora; without it they are made up.")
@click.option("--nodes", default=100_000, show_default=True)
@click.option("--k", default=3, show_default=True)
@click.option("--sample", default=2_000, show_default=True, help="Nodes that bm25s's numpy backend is asked about.")
@click.option("--growth", multiple=True, type=int, help="Also measure ours at this many made-up nodes.")
def main(path: str | None, nodes: int, k: int, sample: int, growth: tuple[int, ...]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = corpus_counts(config.load(path)) if path else made_up_counts(nodes, 0)
        drawn = np.random.default_rng(0).permutation(counts.shape[0])[:nodes]
        sparse.save_npz(folder / "counts.npz", counts[np.sort(drawn)], compressed=False)
        rows, reference = [], None
        for way in WAYS:
            part = sample if way == "bm25s numpy" else 0
            before = load()
            figures = run(way, folder / "counts.npz", k, part, folder / f"{way}.npz")
            found = np.load(folder / f"{way}.npz")
            reference = reference or found
            same = np.abs(found["shares"] - reference["shares"][found["rows"]]) <= 2e-5
            figures["same scores, %"] = 100 * same.all(axis=1).mean()
            figures["same nodes, %"] = 100 * (found["nodes"] == reference["nodes"][found["rows"]]).all(axis=1).mean()
            rows.append({"way": way, **figures, "load": before})
        print(pd.DataFrame(rows).round(1).to_markdown(index=False), end="\n\n")
        rows = []
        for size in growth:
            sparse.save_npz(folder / "counts.npz", made_up_counts(size, 0), compressed=False)
            before = load()
            rows.append({**run("ours", folder / "counts.npz", k, 0, folder / "out.npz", around=True), "load": before})
        if rows:
            print(pd.DataFrame(rows).round(1).to_markdown(index=False))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        way, counts, k, sample, out, around = sys.argv[2:]
        measure(way, Path(counts), int(k), int(sample), Path(out), bool(around))
    else:
        main()
