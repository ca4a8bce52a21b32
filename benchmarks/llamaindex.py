"""LlamaIndex's auto-merging and query-fusion retrievers beside `fused`, on the collections of `development.py`.

pip install llama-index-core llama-index-retrievers-bm25        where mog-assets is installed
python benchmarks/llamaindex.py policyqa lihua_world --homes .mog/development        after `development.py build`

Both are made as in LlamaIndex's tutorials ("Auto Merging Retriever", "Reciprocal Rerank Fusion Retriever"): nodes of
2,048, 512 and 128 tokens, of which the 6 best leaves by vectors are merged; and nodes of 256 tokens, of which vectors
and BM25 give the best 2. No model writes further queries (`num_queries=1`). As so few nodes do not fill 8,000
characters, k is also doubled until they do for nearly all of the first questions. The encoder is the project's, and
titles are metadata, so texts are encoded with them as the project's are. Only the search of the vector store is
replaced: LlamaIndex compares vectors one at a time, which finds the same nodes and takes much longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from development import COLLECTIONS, differences, measured_questions, opened, questions_of
from ranking import recall

from mog_assets.build import markdown
from mog_assets.evaluate.measures import evaluate
from mog_assets.resources.encoder import Encoder
from mog_assets.search.depth import CONTEXT_CHARS
from mog_assets.search.rankings import fused
from mog_assets.search.training import fixed_recalls

# Questions that the k which fills is chosen with, and the share of them that must be filled.
FIRST, FILLED = 100, 0.95
COLUMNS = ["question_set", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens"]
# A retriever of LlamaIndex, given k; and all nodes, parents first.
Made = tuple[Callable[[int], Any], list[Any]]


def of_tutorials() -> tuple[Callable[..., Any], dict[str, tuple[Callable[..., Made], int]]]:
    """What makes the project's encoder one of LlamaIndex, and the retrievers, each with the k of its tutorial."""
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
    from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
    from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQueryResult
    from llama_index.retrievers.bm25 import BM25Retriever
    from pydantic import PrivateAttr

    class Embedding(BaseEmbedding):
        """The project's encoder."""

        encoder: Any

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return self.encoder.encode(texts).astype(np.float32).tolist()

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

    class Products(SimpleVectorStore):
        """LlamaIndex's store in memory, whose vectors are compared all at once."""

        _table: Any = PrivateAttr(default=None)

        def query(self, query: Any, **_: Any) -> VectorStoreQueryResult:
            ids = list(self.data.embedding_dict)
            if self._table is None:
                self._table = np.array(list(self.data.embedding_dict.values()), np.float32)
            products = self._table @ np.array(query.query_embedding, np.float32)
            best = np.argsort(-products, kind="stable")[: query.similarity_top_k]
            return VectorStoreQueryResult(similarities=products[best].tolist(), ids=[ids[i] for i in best.tolist()])

    def merging(documents: Sequence[Any], embedding: Any) -> Made:
        """The tutorial "Auto Merging Retriever"."""
        nodes = HierarchicalNodeParser.from_defaults().get_nodes_from_documents(documents)
        context = StorageContext.from_defaults(vector_store=Products())
        context.docstore.add_documents(nodes)
        index = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=context, embed_model=embedding)
        return lambda k: AutoMergingRetriever(index.as_retriever(similarity_top_k=k), context), nodes

    def fusion(documents: Sequence[Any], embedding: Any) -> Made:
        """The tutorial "Reciprocal Rerank Fusion Retriever"."""
        nodes = SentenceSplitter(chunk_size=256).get_nodes_from_documents(documents)
        context = StorageContext.from_defaults(vector_store=Products())
        index = VectorStoreIndex(nodes, storage_context=context, embed_model=embedding)
        words = BM25Retriever.from_defaults(docstore=index.docstore)

        def at(k: int) -> Any:
            words.similarity_top_k = min(k, len(nodes))
            both, options = [index.as_retriever(similarity_top_k=k), words], {"num_queries": 1, "use_async": False}
            return QueryFusionRetriever(both, llm=MockLLM(), similarity_top_k=k, mode="reciprocal_rerank", **options)

        return at, nodes

    return Embedding, {"auto-merging": (merging, 6), "query fusion": (fusion, 2)}


def spans_of(documents: Sequence[Any], nodes: Sequence[Any]) -> dict[str, tuple[str, int, int]]:
    """Document, start and end of every node; LlamaIndex does not know them of most nodes that have a parent."""
    texts = {own.id_: own.text for own in [*documents, *nodes]}
    found, after = {own.id_: (own.id_, 0, 0) for own in documents}, {}
    for node in nodes:
        parent = node.parent_node.node_id if node.parent_node else node.ref_doc_id
        # Neighbours overlap, but each begins after the one before it, unless a long title leaves hardly any tokens.
        at = texts[parent].find(node.text, after.get(parent, 0))
        at = at if at >= 0 else texts[parent].find(node.text)
        assert at >= 0, f"a node is no text of its document: {node.text[:80]!r}"
        after[parent] = at + 1
        document, start, _ = found[parent]
        found[node.id_] = (document, start + at, start + at + len(node.text))
    return found


def filled(runs: pd.DataFrame) -> float:
    """Share of questions whose passages fill the longest context."""
    lengths = (runs["end"] - runs["start"]).groupby([runs["question_set"], runs["question"]]).sum()
    return float((lengths >= CONTEXT_CHARS).mean())


def measured(name: str, homes: Path, cache: Path) -> list[dict[str, str]]:
    """ER of the retrievers, and how `fused` compares."""
    from llama_index.core import Document

    make_embedding, retrievers = of_tutorials()
    tools, retrieval = opened(name, homes)
    of, sets, corpora = questions_of(name, homes), measured_questions(tools), retrieval.corpora
    asked = [(group, question) for group, questions in sets.items() for question in questions]
    names = {str(number): place for place, number in corpora.position.items()}
    documents = [
        Document(id_=str(number), text=text, metadata={"title": title} if title else {})
        for number, (title, text) in corpora.texts(range(len(names))).items()
    ]
    embedding = make_embedding(encoder=Encoder(tools.settings.encoder, cache), embed_batch_size=2048)
    embedding.get_text_embedding_batch([question.question for _, question in asked])
    recalls = {"hybrid-2": fixed_recalls(of)["hybrid:fixed-2"]}
    for kind, (make, k) in retrievers.items():
        at, nodes = make(documents, embedding)
        spans = spans_of(documents, nodes)

        def found(k: int, most: int | None, at=at, spans=spans, kind=kind) -> pd.DataFrame:
            retriever = at(k)
            rows = [
                (group, question.id, kind, rank, *names[spans[own.node_id][0]], *spans[own.node_id][1:], 1)
                for group, question in asked[:most]
                for rank, own in enumerate(retriever.retrieve(question.question), 1)
            ]
            return pd.DataFrame(rows, columns=COLUMNS)

        full = k
        while full < len(nodes) and filled(found(full, FIRST)) < FILLED:
            full *= 2
        for most in (k, full):
            result = evaluate(found(most, None), sets, 2)
            assert result["question"].tolist() == [question.id for _, question in asked]
            recalls[f"{kind}, k = {most}"] = result["ER"].to_numpy()
    own = recall(of, fused(of.candidates, of.experts))
    line = {"collection": name, "`fused`": f"{own.mean():.3f}"}
    compared = differences(own, recalls, of.documents)
    return [{**line, "rival": n, "ER": f"{er.mean():.3f}", "difference": compared[n]} for n, er in recalls.items()]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
@click.option("--cache", type=click.Path(path_type=Path), default=Path(".mog/llamaindex"), help="Vectors of nodes.")
def main(names: Sequence[str], homes: Path, cache: Path) -> None:
    for name in names or list(COLLECTIONS):
        click.echo(markdown.table(measured(name, homes, cache), 400))


if __name__ == "__main__":
    main()
