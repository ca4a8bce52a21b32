"""LlamaIndex's auto-merging and query-fusion retrievers beside `fused`, on the collections of `development.py`.

pip install llama-index-core llama-index-retrievers-bm25        where mog-assets is installed
python benchmarks/llamaindex.py policyqa lihua_world --homes .mog/development        after `development.py build`

Both are made as in LlamaIndex's tutorials ("Auto Merging Retriever", "Reciprocal Rerank Fusion Retriever"): nodes of
2,048, 512 and 128 tokens, of which the 6 best leaves by vectors are merged; and nodes of 256 tokens, of which vectors
and BM25 give the best 2. No model writes further queries (`num_queries=1`). As so few nodes do not fill 8,000
characters, k is also doubled until they do for nearly all of the first questions. The encoder is the project's, titles are
metadata, so both know them as the project does. Only the search of the vector store is replaced: LlamaIndex compares
vectors one at a time, which gives the same nodes in a hundred times the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from development import COLLECTIONS, measured_questions, opened
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQueryResult
from llama_index.retrievers.bm25 import BM25Retriever
from pydantic import PrivateAttr
from ranking import examples, merged, recall

from mog_assets import markdown
from mog_assets.evaluation.measures import evaluate
from mog_assets.ranking.retrieve import fused
from mog_assets.ranking.training import fixed_recalls
from mog_assets.retrieval.methods import CONTEXT_CHARS
from mog_assets.significance import bootstrap_interval, by_document, holm, permutation_p
from resources.encoder import Encoder

# Questions that the k which fills is chosen with, and the share of them that must be filled.
FIRST, FILLED = 100, 0.95

Retriever = Callable[[int], Any]
"""A retriever of LlamaIndex, given k."""


class Embedding(BaseEmbedding):
    """The project's encoder."""

    _encoder: Encoder = PrivateAttr()

    def __init__(self, encoder: Encoder) -> None:
        super().__init__(embed_batch_size=2048)
        self._encoder = encoder

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoder.encode(texts).astype(np.float32).tolist()

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class Products(SimpleVectorStore):
    """LlamaIndex's store in memory, whose vectors are compared all at once."""

    _table: np.ndarray | None = PrivateAttr(default=None)

    def query(self, query: Any, **_: Any) -> VectorStoreQueryResult:
        if self._table is None:
            self._table = np.array(list(self.data.embedding_dict.values()), np.float32)
        products, ids = self._table @ np.array(query.query_embedding, np.float32), list(self.data.embedding_dict)
        best = np.argsort(-products, kind="stable")[: query.similarity_top_k]
        return VectorStoreQueryResult(similarities=products[best].tolist(), ids=[ids[i] for i in best.tolist()])


def merging(documents: Sequence[Document], embedding: Embedding) -> tuple[Retriever, list[Any]]:
    """The retriever of the tutorial "Auto Merging Retriever", and all nodes, parents first."""
    nodes = HierarchicalNodeParser.from_defaults().get_nodes_from_documents(documents)
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    context = StorageContext.from_defaults(docstore=docstore, vector_store=Products())
    index = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=context, embed_model=embedding)
    return lambda k: AutoMergingRetriever(index.as_retriever(similarity_top_k=k), context), nodes


def fusion(documents: Sequence[Document], embedding: Embedding) -> tuple[Retriever, list[Any]]:
    """The retriever of the tutorial "Reciprocal Rerank Fusion Retriever", and all nodes."""
    nodes = SentenceSplitter(chunk_size=256).get_nodes_from_documents(documents)
    context = StorageContext.from_defaults(vector_store=Products())
    index = VectorStoreIndex(nodes, storage_context=context, embed_model=embedding)
    words = BM25Retriever.from_defaults(docstore=index.docstore, similarity_top_k=2)

    def at(k: int) -> QueryFusionRetriever:
        words.similarity_top_k = min(k, len(nodes))
        both, options = [index.as_retriever(similarity_top_k=k), words], {"num_queries": 1, "use_async": False}
        return QueryFusionRetriever(both, llm=MockLLM(), similarity_top_k=k, mode="reciprocal_rerank", **options)

    return at, nodes


# Each with the k of its tutorial.
RETRIEVERS = {"auto-merging": (merging, 6), "query fusion": (fusion, 2)}


def spans_of(documents: Sequence[Document], nodes: Sequence[Any]) -> dict[str, tuple[str, int, int]]:
    """Document, start and end of every node; LlamaIndex counts those of a child from its parent."""
    texts = {own.id_: own.text for own in [*documents, *nodes]}
    found, after = {own.id_: (own.id_, 0, 0) for own in documents}, {}
    for node in nodes:
        parent = node.parent_node.node_id if node.parent_node else node.ref_doc_id
        # Neighbours overlap, but each begins after the one before it.
        at = texts[parent].find(node.text, after.get(parent, 0))
        assert at >= 0, f"a node is no text of its document: {node.text[:80]!r}"
        after[parent] = at + 1
        document, start, _ = found[parent]
        found[node.id_] = (document, start + at, start + at + len(node.text))
    return found


def passages(retriever: Any, queries: Sequence[str], spans: dict[str, tuple[str, int, int]]) -> list[list[Any]]:
    """What is found for each question: spans of documents, best first."""
    return [[spans[node.node_id] for node in retriever.retrieve(query)] for query in queries]


def filling(at: Retriever, k: int, most: int, queries: Sequence[str], spans: dict[str, Any]) -> int:
    """The k that fills the longest context for nearly all of the first questions."""
    while k < most:
        found = passages(at(k), queries[:FIRST], spans)
        filled = [sum(end - start for _, start, end in own) >= CONTEXT_CHARS for own in found]
        if np.mean(filled) >= FILLED:
            break
        k *= 2
    return k


def measured(name: str, homes: Path, cache: Path) -> Iterator[dict[str, str]]:
    """ER of the retrievers, and how `fused` compares; p is Holm's over all that it is compared with."""
    tools, retrieval = opened(name, homes)
    sets, corpora = measured_questions(tools), retrieval.corpora
    parts = [examples(retrieval, questions) for questions in sets.values()]
    of = merged(parts) if len(parts) > 1 else parts[0]
    asked = [(group, question) for group, questions in sets.items() for question in questions]
    names = {str(number): place for place, number in corpora.position.items()}
    documents = [
        Document(id_=str(number), text=text, metadata={"title": title} if title else {})
        for number, (title, text) in corpora.texts(range(len(corpora.layout.documents))).items()
    ]
    embedding = Embedding(Encoder(tools.settings.encoder, cache))
    queries = [question.question for _, question in asked]
    embedding.get_text_embedding_batch(queries)
    own = recall(of, fused(of.found, of.experts))
    others = {"hybrid-2": fixed_recalls(of)["hybrid:fixed-2"]}
    for kind, (make, k) in RETRIEVERS.items():
        at, nodes = make(documents, embedding)
        spans = spans_of(documents, nodes)
        for most in (k, filling(at, k, len(nodes), queries, spans)):
            rows = [
                (group, question.id, kind, rank, *names[document], start, end, 1)
                for (group, question), found in zip(asked, passages(at(most), queries, spans), strict=True)
                for rank, (document, start, end) in enumerate(found, 1)
            ]
            columns = ["question_set", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens"]
            result = evaluate(pd.DataFrame(rows, columns=columns), sets, 2)
            assert result["question"].tolist() == [question.id for _, question in asked]
            others[f"{kind}, k = {most}"] = result["ER"].to_numpy()
    totals = by_document(np.stack([own - other for other in others.values()], axis=1), of.documents)
    p, (low, high) = holm(permutation_p(totals)), bootstrap_interval(totals)
    questions = f"{len(queries):,} questions, {len(set(of.documents)):,} documents"
    for other, mean, a, b, sure in zip(others, totals.mean, low, high, p, strict=True):
        yield {
            "collection": f"{name}, {questions}",
            "rival": other,
            "ER": f"{others[other].mean():.3f}",
            "`fused`": f"{own.mean():.3f}",
            "difference": f"{mean:+.3f} [{a:+.3f}, {b:+.3f}], p {sure:.3f}",
        }


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
@click.option("--cache", type=click.Path(path_type=Path), default=Path(".mog/llamaindex"), help="Vectors of nodes.")
def main(names: Sequence[str], homes: Path, cache: Path) -> None:
    rows = []
    for name in names or list(COLLECTIONS):
        rows += measured(name, homes, cache)
        click.echo(markdown.table(rows[-5:], 400), err=True)
    click.echo(markdown.table(rows, 400))


if __name__ == "__main__":
    main()
