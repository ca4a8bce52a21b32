"""Compare retrievers: BM25, encoders, and their reciprocal rank fusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mog_assets.config import Settings
from mog_assets.evaluate.measures import headline_measures
from mog_assets.index.corpora import Corpora, Encode
from mog_assets.index.encoding import bucket_texts, pool
from mog_assets.index.layouts import bucket_layout
from mog_assets.papers.experiments.conclusions import every, joined, over_sets, untestable
from mog_assets.papers.experiments.lab import (
    Experiment,
    Findings,
    Lab,
    NothingToMeasure,
    Verdict,
    difference_text,
    equivalence,
    registered,
    score_rows,
)
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS, RetrieverEncoderSettings
from mog_assets.papers.level_search.search import searcher
from mog_assets.papers.level_search.searchers import DenseSearcher, HybridSearcher, LevelMatches, Remembering, Searcher
from mog_assets.papers.level_search.vectors import nearest
from mog_assets.papers.mix_of_granularity.ranker import LevelChunks, Ranker, router_weights
from mog_assets.search.methods import Method, needs, parse
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval


@dataclass(frozen=True)
class OtherVectors:
    """Chunk vectors of an encoder other than the graph's, in memory, with every level encoded.

    With `levels: pooled` the coarser levels are pooled from level 1. All vectors are scaled to length 1, so that chunks
    are ranked by cosine; the authors of Contriever and MedCPT rank by inner product without scaling.

    Args:
        corpora: The corpora of the question set.
        chosen: The encoder.
        encode: Encodes chunk texts.
        lab: Shows the progress of encoding.
    """

    corpora: Corpora
    chosen: RetrieverEncoderSettings
    encode: Encode
    lab: Lab
    _finest: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    def of(self, corpus: int, level: int) -> np.ndarray:
        """Return vectors of a level of a corpus, by its position: float16 of shape (chunks, size)."""
        name = self.corpora.names[corpus]
        if level > 1 and self.chosen.levels == "direct":
            return self._encoded(name, level)
        if name not in self._finest:
            self._finest[name] = self._encoded(name, 1)
        return pool(self._finest[name], self.corpora.layouts[corpus], level)

    def _encoded(self, name: str, level: int) -> np.ndarray:
        documents, chunks = self.corpora.read("documents", name), self.corpora.read("chunks/level_1", name)
        buckets = [(documents.path(bucket), chunks.path(bucket)) for bucket in documents.names("bucket")]
        layouts = [bucket_layout(*paths) for paths in buckets]
        rows_of = []
        total = sum(layout.count(level) for layout in layouts)
        with self.lab.progress(total, f"texts encoded by {self.chosen.model}, {name}") as advance:
            for (path, _), layout in zip(buckets, layouts, strict=True):
                if layout.count(level):
                    rows_of.append(self.encode(bucket_texts(path, layout, level)))
                    advance(layout.count(level))
        return np.concatenate(rows_of)

    def nearest(self, vectors: np.ndarray, level: int, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the k nearest chunks of each corpus for every question; see `vectors.nearest`."""
        return nearest([[self.of(corpus, level)] for corpus in range(len(self.corpora.names))], vectors, k)


def retrievers(lab: Lab) -> Findings:
    """Return MedRAG and MoG with each retriever."""
    if not lab.tested():
        raise NothingToMeasure("no test question has evidence")
    settings = lab.settings
    others = dict(EXPERIMENT_SETTINGS.of(settings).encoders)
    opened = {name: _opened(lab, chosen) for name, chosen in others.items()}
    methods = {"MedRAG": parse(f"fixed-{min(2, settings.levels)}", settings)}
    if settings.trains:
        methods["MoG"] = parse("mog-paper", settings)
    tables = []
    similar: dict[str, dict[str, tuple[Verdict, str]]] = {label: {} for label in methods}
    for name in lab.tested():
        retrieval = lab.retrieval(name)
        searchers = _searchers(lab, retrieval, opened)
        for label, method in methods.items():
            cells = [
                lab.measured(
                    name,
                    f"{label} by {retriever}",
                    [lab.encoder, *(opened[member][2] for member in members if member in opened)],
                    partial(_ranked, retrieval, searcher, method),
                ).assign(cell=retriever)
                for retriever, (searcher, members) in searchers.items()
            ]
            tables.append(score_rows(f"{name}, {label}", cells, headline_measures(settings.k), "BM25", lab.seed))
            compared = tables[-1][(tables[-1]["measure"] == "ER") & (tables[-1]["cell"] != "BM25")]
            rows = [row for _, row in compared.iterrows()]
            figures = "; ".join(f"{row['cell']} {difference_text(row)}" for row in rows)
            similar[label][name] = (every(equivalence(row) for row in rows), f"ER against BM25: {figures}")
    table6 = "Mix-of-Granularity, table 6 and appendix G"
    return Findings(
        joined(tables),
        claims=[
            claim
            for label, by_set in similar.items()
            for claim in over_sets(table6, f"Retrievers hardly differ with {label}.", by_set)
        ]
        + [
            untestable(
                table6,
                "Each retriever has a question set on which answers with it are good.",
                "This is about the accuracy of a language model's answers; here only the passages are compared.",
            )
        ],
    )


def _opened(lab: Lab, chosen: RetrieverEncoderSettings) -> tuple[Encode, Encode, list[str]]:
    """Return the encoders of chunks and of questions, and their fingerprints."""
    chunks, of_chunks = lab.other_encoder(chosen)
    questions, of_questions = lab.other_encoder(chosen.of_questions) if chosen.query_model else (chunks, of_chunks)
    return chunks, questions, [of_chunks, of_questions, chosen.levels]


def _searchers(
    lab: Lab, retrieval: Retrieval, opened: Mapping[str, tuple[Encode, Encode, list[str]]]
) -> dict[str, tuple[Searcher, list[str]]]:
    """Return searchers by name, and the names of their components."""
    settings, corpora = lab.settings, retrieval.corpora
    encoder_name = settings.encoder.model
    bm25 = searcher(retrieval, "bm25")
    # A name that differs from those of the encoders of the experiments.
    encoder_name = f"{encoder_name} (the graph's)" if encoder_name in opened else encoder_name
    searchers: dict[str, Searcher] = {"BM25": bm25, encoder_name: searcher(retrieval, "dense")}
    for name, (encode, ask, _) in opened.items():
        vectors = OtherVectors(corpora, EXPERIMENT_SETTINGS.of(settings).encoders[name], encode, lab)
        searchers[name] = Remembering(_Late(ask, retrieval.queries, vectors))
    result = {name: (searcher, [name]) for name, searcher in searchers.items()}
    fused = list(opened) or [encoder_name]
    for count in sorted({1, min(3, len(fused))}):
        members = ["BM25", *fused[:count]]
        result[f"RRF-{count + 1}: {' + '.join(members)}"] = (
            Remembering(HybridSearcher([searchers[member] for member in members])),
            members,
        )
    return result


@dataclass(frozen=True)
class _Late:
    """Encodes questions on first search: never if all cells are cached."""

    encode: Encode
    queries: Sequence[str]
    vectors: OtherVectors

    def search(self, level: int, k: int) -> LevelMatches:
        """See `Searcher.search`."""
        vectors_of = self.encode(self.queries)
        return DenseSearcher(vectors_of, self.vectors.nearest, self.vectors.corpora.starts).search(level, k)


def _ranked(retrieval: Retrieval, searcher: Searcher, method: Method) -> Passages:
    corpora = retrieval.corpora
    ranker = Ranker(
        searcher, LevelChunks(corpora.layout, corpora.settings.levels, corpora.starts), corpora.settings.k_r
    )
    if method.kind == "mog-paper":
        return ranker.weighted(router_weights(retrieval, method.kind))
    return ranker.of_one(method.level or 1)


def _reads(settings: Settings) -> Sequence[str]:
    methods = ["bm25:fixed-1", "dense:fixed-1", *(["mog-paper"] if settings.trains else [])]
    return ("questions", *needs([parse(name, settings) for name in methods], settings).keys)


registered(
    Experiment(
        "retrievers",
        "Retrievers",
        "MedRAG and MoG with BM25, the configured encoder, each of `experiments.encoders`, and reciprocal rank "
        "fusion of BM25 with the first of them (RRF-2; the paper's is with MedCPT) and with the first three (RRF-4). "
        "These encode every level unless `levels: pooled` is set; all vectors are compared by cosine "
        "(Mix-of-Granularity, table 6).",
        retrievers,
        _reads,
        # A list, not a mapping, because the choice of fused encoders depends on their order.
        lambda settings: list(EXPERIMENT_SETTINGS.of(settings).encoders.items()),
        version="2",
    ),
)
