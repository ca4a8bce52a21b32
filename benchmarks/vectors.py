"""Vectors of coarser levels pooled from level 1 against encoded, and the encoder's precisions, on a question set.

python benchmarks/vectors.py --config mog.yaml --question-set medquad --dtype float32 --dtype bfloat16
"""

import time
from pathlib import Path

import click
import numpy as np
import pandas as pd

from mog_assets import config
from mog_assets.documents.reading import read_corpus
from mog_assets.evaluate.measures import CONTEXTS, evaluate
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.index.encoding import pool
from mog_assets.questions.reading import KnownDocument, read_questions
from mog_assets.questions.sets import Question
from mog_assets.resources.encoder import Encoder
from mog_assets.text.chunkers import sentences
from mog_assets.text.chunks import Layout, chunk_text

DEPTH = 50


class Corpus:
    """A corpus in memory."""

    def __init__(self, name: str, settings: config.Settings) -> None:
        self.name = name
        self.documents = read_corpus(settings.corpora[name].path).documents
        spans = [sentences(d.text, settings.finest_chars) for d in self.documents]
        offsets = np.concatenate([[0], np.cumsum([len(s) for s in spans])])
        self.layout = Layout(name, [d.id for d in self.documents], offsets, np.concatenate(spans))

    def texts(self, level: int) -> list[str]:
        """What is encoded for the chunks of a level."""
        rows = zip(*self.layout.chunk_spans(np.arange(self.layout.count(level)), level), strict=True)
        return [chunk_text(self.documents[d].title, self.documents[d].text[s:e]) for d, s, e in rows]


def retrieved(corpora: list[Corpus], vectors: np.ndarray, queries: np.ndarray, level: int) -> list[tuple]:
    """Rows of a run: exact nearest chunks of all corpora together."""
    place = np.concatenate([np.full(c.layout.count(level), i) for i, c in enumerate(corpora)])
    chunk = np.concatenate([np.arange(c.layout.count(level)) for c in corpora])
    spans = [c.layout.chunk_spans(np.arange(c.layout.count(level)), level) for c in corpora]
    rows = []
    for first in range(0, len(queries), 256):
        scores = queries[first : first + 256] @ vectors.T
        depth = min(DEPTH, len(vectors))
        best = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        best = np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable"), 1)
        for query, found in enumerate(best, first):
            for rank, i in enumerate(found, 1):
                document, start, end = (column[chunk[i]] for column in spans[place[i]])
                corpus = corpora[place[i]]
                rows.append((query, rank, corpus.name, corpus.documents[document].id, start, end))
    return rows


def measured(name: str, method: str, questions: list[Question], rows: list[tuple], k: int) -> pd.DataFrame:
    """Every measure of every question."""
    run = pd.DataFrame(rows, columns=["question", "rank", "corpus", "doc", "start", "end"])
    run["question"] = [questions[i].id for i in run["question"]]
    # Nothing that counts tokens is shown.
    return evaluate(run.assign(question_set=name, method=method, tokens=0), {name: questions}, k)


@click.command()
@click.option("--config", "path", default="mog.yaml", show_default=True)
@click.option("--question-set", "name", required=True)
@click.option("--dtype", "dtypes", multiple=True, default=["auto"], show_default=True)
@click.option("--device", default="auto", show_default=True)
@click.option("--cache", type=click.Path(path_type=Path), help="Vector cache: what it holds is not encoded, nor timed.")
@click.option("--corpus", "only", multiple=True, help="Only these corpora of the question set: for timing.")
def main(path: str, name: str, dtypes: tuple[str, ...], device: str, cache: Path | None, only: tuple[str, ...]) -> None:
    settings = config.load(path)
    question_set = settings.question_sets[name]
    corpora = [Corpus(corpus, settings) for corpus in only or question_set.corpora]
    known = {c.name: {d.id: KnownDocument(len(d.text), d.shifts) for d in c.documents} for c in corpora}
    questions = [
        q for q in read_questions(question_set.path, known).questions if q.split in question_set.test and q.evidence
    ]
    times, cosines, tables = [], [], {}
    for dtype in dtypes:
        encoder = Encoder(settings.encoder.model_copy(update={"dtype": dtype, "device": device}), cache)
        encoder.encode(["The model is loaded before the clock starts."])
        queries = encoder.encode([q.question for q in questions]).astype(np.float32)
        finest: list[np.ndarray] = []
        for level in settings.level_range:
            texts = [text for c in corpora for text in c.texts(level)]
            before, started = encoder.encoded, time.perf_counter()
            direct = encoder.encode(texts)
            seconds = time.perf_counter() - started
            kinds = {"direct": direct}
            times.append({"dtype": encoder.dtype, "device": encoder.device, "level": level, "texts": len(texts)})
            encoded = encoder.encoded - before
            times[-1] |= {"encoded": encoded, "direct s": seconds, "texts/s": encoded / seconds}
            if level == 1:
                starts = np.cumsum([0] + [c.layout.count(1) for c in corpora])
                finest = [direct[a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
            else:
                started = time.perf_counter()
                pooled = [pool(v, c.layout, level) for v, c in zip(finest, corpora, strict=True)]
                times[-1]["pooled s"] = time.perf_counter() - started
                kinds["pooled"] = np.concatenate(pooled)
                cosine = np.einsum("ij,ij->i", *(v.astype(np.float32) for v in kinds.values()))
                cosines.append({"dtype": encoder.dtype, "level": level, "mean cosine": cosine.mean()})
                cosines[-1] |= {f"{q} % quantile": np.quantile(cosine, q / 100) for q in (1, 5, 50)}
            for kind, vectors in kinds.items():
                rows = retrieved(corpora, vectors.astype(np.float32), queries, level)
                tables[f"dense-{level}", kind, encoder.dtype] = measured(name, kind, questions, rows, settings.k)
    print(pd.DataFrame(times).round(2).to_markdown(index=False), end="\n\n")
    print(pd.DataFrame(cosines).round(4).to_markdown(index=False), end="\n\n")
    columns = [*(f"ER@{c}" for c in CONTEXTS), "ER", "nDCG@10"]
    means = []
    for (method, kind, dtype), table in tables.items():
        means.append({"method": method, "vectors": kind, "dtype": dtype, **table[columns].mean().round(4)})
        base = tables.get((method, "direct", dtype)) if kind == "pooled" else tables.get((method, kind, "float32"))
        if base is not None and base is not table:
            first, second = (t.set_index(["question", "document"])["ER"].sort_index() for t in (table, base))
            documents = first.index.get_level_values("document").to_numpy(str)
            differences = by_document((first - second).to_numpy(), documents)
            means[-1] |= {"ER - reference": round(float(differences.mean[0]), 4)}
            means[-1] |= {"p": float(permutation_p(differences, seed=settings.seed)[0])}
    print(f"{len(questions)} questions; reference: direct vectors, and for those the ones of float32", end="\n\n")
    print(pd.DataFrame(means).to_markdown(index=False))


if __name__ == "__main__":
    main()
