"""One question in a collection: this project's `fused` beside a hybrid query of Qdrant, bm25s and tantivy.

python benchmarks/search_engines.py --config mog.yaml --scratch engines [--synthetic medquad.yaml] [--judge]

All have the same pieces (level 1, with their titles), the same vectors and the same questions, which are encoded
beforehand; each runs in a process of its own on one thread, and gives the texts of ten passages. Qdrant is its engine
in the process (qdrant-edge), with HNSW, int8 codes, and BM25 as sparse vectors of the project's terms: two searches of
as many as ours, fused by reciprocal ranks. Built engines are used again.

`--synthetic` names the project whose vectors `growth.py` made those of the home from; questions are then made up as
there. Else they are the measured questions of the home, and with `--judge` evidence recall at 4,000 characters is
compared by question, too.
"""

from __future__ import annotations

import os

# Before numpy and torch are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}

import json
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import growth
import numpy as np
from scipy import sparse

from mog_assets import config
from mog_assets.build import markdown, tools
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.index.neighbours import shorten
from mog_assets.search.candidates import NEAREST
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval

WARM, TIMED, PASSAGES, BUDGET, JUDGED = 5, 100, 10, 4000, 40
MIB = 1 << 20

Ask = Callable[[int, int], list[int]]
"""Given the number of a question and of passages, the pieces that an engine finds, best first; their texts are read."""


class Collection:
    """The pieces of a home and the questions that are asked of them.

    Args:
        path: Configuration of the home.
        synthetic: See above; empty for a home of real vectors.
    """

    def __init__(self, path: str, synthetic: str) -> None:
        self.settings = config.load(path)
        self.synthetic = config.load(synthetic) if synthetic else None
        if self.synthetic:
            tools.Encoder = growth.synthetic(growth.source_vectors(self.synthetic)[0])  # type: ignore[misc, attr-defined]
        self.tools = Tools(self.settings)

    @cached_property
    def retrieval(self) -> Retrieval:
        opened = Retrieval.open(self.tools, self.tools.store.read, list(self.settings.corpora))
        if len(shards := opened.corpora.neighbours) == 1:
            shorten(shards[0])
        return opened

    @cached_property
    def measured(self) -> list[Any]:
        from development import measured_questions

        return [question for part in measured_questions(self.tools).values() for question in part]

    @cached_property
    def questions(self) -> list[str]:
        if self.synthetic is None:
            return [question.question for question in self.measured]
        source, words = growth.source_documents(self.synthetic), growth.Words(7)
        places = np.random.default_rng(1).choice(len(source), WARM + TIMED, replace=False)
        return [f"What is known of {source[i][0]} and {' '.join(words.draw(2))}?" for i in places]

    @cached_property
    def vectors(self) -> np.ndarray:
        return self.tools.encoder.questions.encode(self.questions, keep=False)

    def texts(self) -> Iterator[str]:
        corpora, first = self.retrieval.corpora, 0
        spans, offsets = corpora.layout.spans, corpora.layout.offsets
        for table in corpora.tables(["title", "text"]):
            for row, (title, text) in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
                for start, end in spans[offsets[first + row] : offsets[first + row + 1]].tolist():
                    yield f"{title}\n{text[start:end]}"
            first += len(table)


# Each engine: what builds it in a folder, and what opens it


def open_ours(collection: Collection, folder: Path) -> Ask:
    retrieval, vectors = collection.retrieval, collection.vectors
    fused = parse("fused", collection.settings)

    def ask(number: int, count: int) -> list[int]:
        alone = retrieval.with_queries([collection.questions[number]], vectors[number][None])
        passages = alone.passages(fused, count, Budget(BUDGET))
        texts = retrieval.corpora.texts(passages.document.tolist())
        spans = zip(passages.document.tolist(), passages.start.tolist(), passages.end.tolist(), strict=True)
        assert all(texts[document][1][start:end] for document, start, end in spans)
        return []

    return ask


def build_qdrant(collection: Collection, folder: Path) -> None:
    import qdrant_edge as edge

    corpora = collection.retrieval.corpora
    table, first = corpora.vectors, 0
    dense = edge.EdgeVectorParams(
        table.size,
        edge.Distance.Dot,
        hnsw_config=edge.HnswIndexConfig(16, 128, 10_000, memory=edge.Memory.Cold),
        quantization_config=edge.ScalarQuantizationConfig(edge.ScalarType.Int8, memory=edge.Memory.Cold),
        memory=edge.Memory.Cold,
    )
    words = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf, memory=edge.Memory.Cold)
    optimizers = edge.EdgeOptimizersConfig(default_segment_number=1, max_segment_size=10 << 20)
    options = edge.EdgeConfig({"dense": dense}, {"words": words}, optimizers=optimizers)
    folder.mkdir()
    shard = edge.EdgeShard.create(str(folder), options)
    # A term has one number in all shards.
    numbers: dict[str, int] = {}
    texts, mean = collection.texts(), corpora.statistics.mean_lengths["level_1"]
    k1, b = collection.settings.bm25.k1, collection.settings.bm25.b
    for part in corpora.words.shards:
        names = np.array([numbers.setdefault(term, len(numbers)) for term in part.terms], np.int64)
        shape = (len(part.lengths), len(names))
        rows = sparse.csc_matrix((part.counts, part.indices, part.indptr), shape=shape).tocsr()
        for start in range(0, shape[0], 2000):
            points = []
            vectors = table.float_rows(np.arange(first + start, first + min(start + 2000, shape[0])))
            for row, vector in zip(range(start, start + len(vectors)), vectors, strict=True):
                here = slice(rows.indptr[row], rows.indptr[row + 1])
                times = rows.data[here].astype(np.float64)
                values = times / (times + k1 * (1 - b + b * part.lengths[row] / mean))
                weights = edge.SparseVector(names[rows.indices[here]].tolist(), values.tolist())
                vector_of = {"dense": vector.tolist(), "words": weights}
                points.append(edge.Point(first + row, vector_of, {"text": next(texts)}))
            shard.update(edge.UpdateOperation.upsert_points(points))
            click.echo(f"qdrant: {first + start:,}", err=True)
        first += shape[0]
    while shard.optimize():
        click.echo("qdrant: optimised", err=True)
    shard.flush()
    shard.close()
    (folder.parent / "numbers.json").write_text(json.dumps(numbers))


def open_qdrant(collection: Collection, folder: Path) -> Ask:
    import qdrant_edge as edge

    numbers: dict[str, int] = json.loads((folder.parent / "numbers.json").read_text())
    shard = edge.EdgeShard.load(str(folder))
    terms, vectors = collection.retrieval.with_queries(collection.questions).terms, collection.vectors

    def ask(number: int, count: int) -> list[int]:
        present = sorted({numbers[term] for term in terms[number] if term in numbers})
        searches = [edge.Prefetch(NEAREST, edge.Query.Nearest(vectors[number].astype(np.float32).tolist(), "dense"))]
        if present:
            weights = edge.SparseVector(present, [1.0] * len(present))
            searches.append(edge.Prefetch(NEAREST, edge.Query.Nearest(weights, "words")))
        request = edge.QueryRequest(
            count, query=edge.Fusion.Rrf(60), prefetches=searches, with_payload=True, with_vector=False
        )
        points = shard.query(request)
        assert all(point.payload["text"] for point in points)
        return [point.id for point in points]

    return ask


def build_bm25s(collection: Collection, folder: Path) -> None:
    import bm25s
    import Stemmer

    texts = list(collection.texts())
    index = bm25s.BM25(method="lucene", k1=collection.settings.bm25.k1, b=collection.settings.bm25.b)
    words = bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)
    index.index(words, show_progress=False)
    index.save(str(folder), corpus=[{"text": text} for text in texts])


def open_bm25s(collection: Collection, folder: Path) -> Ask:
    import bm25s
    import Stemmer

    index = bm25s.BM25.load(str(folder), load_corpus=True, mmap=True)
    stemmer, questions = Stemmer.Stemmer("english"), collection.questions
    # Texts are read by number: it gives them without.
    texts, index.corpus = index.corpus, None

    def ask(number: int, count: int) -> list[int]:
        words = bm25s.tokenize([questions[number]], stopwords="en", stemmer=stemmer, show_progress=False)
        documents, _ = index.retrieve(words, k=count, show_progress=False, n_threads=1)
        assert all(texts[int(number)]["text"] for number in documents[0])
        return [int(number) for number in documents[0]]

    return ask


def build_tantivy(collection: Collection, folder: Path) -> None:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=True, tokenizer_name="en_stem")
    schema.add_unsigned_field("piece", stored=True)
    folder.mkdir()
    writer = tantivy.Index(schema.build(), path=str(folder)).writer(heap_size=512 << 20, num_threads=1)
    for piece, text in enumerate(collection.texts()):
        writer.add_document(tantivy.Document(text=text, piece=piece))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(collection: Collection, folder: Path) -> Ask:
    import tantivy

    index, questions = tantivy.Index.open(str(folder)), collection.questions
    searcher = index.searcher()

    def ask(number: int, count: int) -> list[int]:
        # Its query language takes other signs for operators.
        words = "".join(c if c.isalnum() else " " for c in questions[number])
        query = index.parse_query(words, ["text"])
        rows = [searcher.doc(address) for _, address in searcher.search(query, count).hits]
        assert all(row["text"][0] for row in rows)
        return [row["piece"][0] for row in rows]

    return ask


ENGINES = {
    "mog, fused": (None, open_ours),
    "Qdrant, hybrid query": (build_qdrant, open_qdrant),
    "bm25s, mapped": (build_bm25s, open_bm25s),
    "tantivy": (build_tantivy, open_tantivy),
}


def resident() -> tuple[float, float]:
    """Anonymous and mapped memory of this process, MiB."""
    status = Path("/proc/self/status").read_text()
    return tuple(int(status.split(f"{name}:")[1].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))  # type: ignore[return-value]


def timed(path: str, synthetic: str, engine: str, folder: Path) -> dict[str, Any]:
    """What a question needs; alone in its process."""
    collection = Collection(path, synthetic)
    # What all need is not counted.
    count, _ = len(collection.questions), collection.vectors
    before = resident()[0]
    started = time.monotonic()
    ask = ENGINES[engine][1](collection, folder)
    ask(0, PASSAGES)
    first, times = time.monotonic() - started, []
    chosen = np.random.default_rng(0).permutation(count)[: WARM + TIMED].tolist()
    for number in chosen:
        started = time.perf_counter()
        ask(number, PASSAGES)
        times.append(1000 * (time.perf_counter() - started))
    p50, p95 = np.percentile(times[WARM:], [50, 95])
    anonymous, mapped = resident()
    return {"first": first, "p50": p50, "p95": p95, "memory": anonymous - before, "mapped": mapped}


def hits_of(path: str, synthetic: str, engine: str, folder: Path) -> list[list[int]]:
    """The pieces that an engine finds for every question; enough to fill the budget."""
    collection = Collection(path, synthetic)
    ask = ENGINES[engine][1](collection, folder)
    return [ask(number, JUDGED) for number in range(len(collection.questions))]


def judged(collection: Collection, hits: dict[str, list[list[int]]]) -> list[dict[str, str]]:
    """Evidence recall of `fused` and of engines at the same characters, with p of the difference, by document."""
    from development import measured_questions
    from ranking import examples, merged, recall

    from mog_assets.evaluate.significance import by_document, permutation_p
    from mog_assets.search.rankings import fused

    parts = [examples(collection.retrieval, part) for part in measured_questions(collection.tools).values()]
    of = merged(parts) if len(parts) > 1 else parts[0]
    ours = recall(of, fused(of.candidates, of.experts))
    rows = [{"engine": "mog, fused", "ER": f"{ours.mean():.4f}", "p": "", "among candidates": ""}]
    for engine, pieces in hits.items():
        scores, present = np.full(len(of.candidates.piece), -1.0), []
        for number, ranked in enumerate(pieces):
            first, last = of.candidates.offsets[number : number + 2].tolist()
            at = first + np.searchsorted(of.candidates.piece[first:last], ranked)
            at = np.minimum(at, max(last - 1, 0))
            same = of.candidates.piece[at] == ranked
            scores[at[same]] = 1 / (1 + np.flatnonzero(same))
            present.append(same[:PASSAGES].mean() if len(same) else 1.0)
        er = recall(of, scores)
        p = permutation_p(by_document((ours - er)[:, None], of.documents))[0]
        rows.append(
            {"engine": engine, "ER": f"{er.mean():.4f}", "p": f"{p:.4f}", "among candidates": f"{np.mean(present):.3f}"}
        )
    return rows


@click.command(help=__doc__)
@click.option("--config", "path", default="mog.yaml", show_default=True)
@click.option("--scratch", type=click.Path(path_type=Path), default=Path("search_engines"), show_default=True)
@click.option("--synthetic", default="")
@click.option("--judge", is_flag=True)
def main(path: str, scratch: Path, synthetic: str, judge: bool) -> None:
    scratch.mkdir(parents=True, exist_ok=True)
    spawn, rows, hits = multiprocessing.get_context("spawn"), [], {}

    def alone(function: Callable[..., Any], *arguments: Any) -> Any:
        with spawn.Pool(1, maxtasksperchild=1) as pool:
            return pool.apply(function, arguments)

    for number, engine in enumerate(ENGINES):
        folder = scratch.resolve() / str(number)
        done = folder.with_suffix(".seconds")
        if ENGINES[engine][0] and not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            done.write_text(str(alone(built, path, synthetic, engine, folder)))
        row = alone(timed, path, synthetic, engine, folder)
        size = growth.size_of(folder if ENGINES[engine][0] else config.load(path).home / "store")
        shown = {"engine": engine, "p50, ms": f"{row['p50']:.1f}", "p95, ms": f"{row['p95']:.1f}"}
        shown |= {"first answer, s": f"{row['first']:.1f}", "memory, MiB": f"{row['memory']:,.0f}"}
        shown |= {"mapped, MiB": f"{row['mapped']:,.0f}", "disk, MiB": f"{size / MIB:,.0f}"}
        # A home is built by `mog run`.
        rows.append({**shown, "built in, s": done.read_text().partition(".")[0] if ENGINES[engine][0] else ""})
        click.echo(json.dumps(rows[-1]), err=True)
        if judge and number:
            hits[engine] = alone(hits_of, path, synthetic, engine, folder)
    click.echo(markdown.table(rows))
    if judge:
        click.echo(markdown.table(judged(Collection(path, synthetic), hits)))


def built(path: str, synthetic: str, engine: str, folder: Path) -> float:
    """Seconds that building an engine took."""
    started = time.monotonic()
    build = ENGINES[engine][0]
    assert build is not None
    build(Collection(path, synthetic), folder)
    return time.monotonic() - started


if __name__ == "__main__":
    main()
