"""Retrievers that people know beside `fused`: LlamaIndex, Haystack, dsRAG, and chonkie's chunkers.

python -m venv rivals
rivals/bin/pip install -e . llama-index-core llama-index-retrievers-bm25 haystack-ai dsrag chonkie
rivals/bin/python benchmarks/rivals.py search claude_docs --homes .mog/development      after `development.py build`
python benchmarks/rivals.py table claude_docs --homes .mog/development      needs only what `search` has written

Each is made as its documentation says, without a language model; all have the project's encoder and the titles of
documents. Only the search of vector stores is replaced, which compare vectors one at a time: the same nodes are found.

- LlamaIndex, "Auto Merging Retriever": nodes of 2,048, 512 and 128 tokens, the 6 best leaves by vectors are merged.
- LlamaIndex, "Reciprocal Rerank Fusion Retriever": nodes of 256 tokens, the 2 best by vectors and BM25.
- Haystack, HierarchicalDocumentSplitter of 512, 256 and 128 words and AutoMergingRetriever (threshold .5) over the 10
  best leaves by vectors.
- Haystack, SentenceWindowRetriever: the 10 best sentences by vectors, 3 sentences before and after each.
- dsRAG: relevant segments of chunks of 800 characters by vectors, without AutoContext, semantic sectioning and
  reranker (`NoReranker`): presets `balanced`, the default, and `precision`, and `balanced` with a penalty of .3, which
  its source says gives short segments; each with cosines as relevance and with `ignore_absolute_relevance`.
- chonkie's token, sentence, recursive and semantic chunkers, chunks of at most 500 and 1,000 characters, by vectors,
  and by vectors and BM25 (bm25s, English stems and stop words) fused by reciprocal ranks.

Where so few nodes do not fill 8,000 characters, k is also doubled until they do for nearly all of the first questions.
ER is that of passages as they are returned, those that overlap as often as they do, cut at 1,000 to 8,000 characters.
`search` writes the passages of each rival to a file of its own and leaves out those that are there; `table` measures
them beside today's `fused`, with the difference from it, its interval and p by document (Holm over the rows).
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
import pandas as pd
from development import differences, opened
from ranking import examples

from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.measures import evaluate
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.encoder import Encoder
from mog_assets.search.depth import CONTEXT_CHARS
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.training import fixed_recalls
from mog_assets.text.chunks import chunk_text

# Questions that the k which fills is chosen with, and the share of them that must be filled.
FIRST, FILLED = 60, 0.95
# Ranks of two retrievers that are fused, and the constant of reciprocal ranks.
RANKS, CONSTANT = 100, 60
SIZES = (500, 1000)
COLUMNS = ["question_set", "question", "method", "rank", "corpus", "doc", "start", "end", "tokens"]
# Document, start and end.
Span = tuple[int, int, int]
# What a retriever returns for a question, given k, or the name of a setting.
Find = Callable[[str, Any], Sequence[Span]]
PRESETS = tuple(f"{name}{end}" for name in ("balanced", "precision", "short") for end in ("", ", relevance ignored"))


@dataclass
class Collection:
    """What rivals are given: titles and texts of the documents, and an encoder whose vectors are kept in a folder."""

    titles: Sequence[str]
    texts: Sequence[str]
    encoder: Encoder

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors, float32 of shape (texts, size)."""
        return self.encoder.encode(list(texts)).astype(np.float32)

    def vectors(self, spans: Sequence[Span]) -> np.ndarray:
        """Return vectors of spans with the titles of their documents in front."""
        return self.encode([chunk_text(self.titles[d], self.texts[d][a:b]) for d, a, b in spans])

    def question(self, text: str) -> np.ndarray:
        return self.encode([text])[0]


def best(scores: np.ndarray, k: int) -> list[int]:
    return np.argsort(-scores, kind="stable")[:k].tolist()


def llama_index(kind: str, of: Collection) -> Find:
    """Return a retriever of LlamaIndex's tutorials."""
    from llama_index.core import Document, StorageContext, VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter, get_leaf_nodes
    from llama_index.core.retrievers import AutoMergingRetriever, QueryFusionRetriever
    from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQueryResult
    from llama_index.retrievers.bm25 import BM25Retriever
    from pydantic import PrivateAttr

    class Embedding(BaseEmbedding):
        """The project's encoder."""

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return of.encode(texts).tolist()

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
            rows = best(products, query.similarity_top_k)
            return VectorStoreQueryResult(similarities=products[rows].tolist(), ids=[ids[i] for i in rows])

    embedding = Embedding(embed_batch_size=2048)
    pairs = list(zip(of.titles, of.texts, strict=True))
    documents = [Document(id_=str(n), text=x, metadata={"title": t} if t else {}) for n, (t, x) in enumerate(pairs)]
    context = StorageContext.from_defaults(vector_store=Products())
    if kind == "auto-merging":
        nodes = HierarchicalNodeParser.from_defaults().get_nodes_from_documents(documents)
        context.docstore.add_documents(nodes)
        index = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=context, embed_model=embedding)
    else:
        nodes = SentenceSplitter(chunk_size=256).get_nodes_from_documents(documents)
        index = VectorStoreIndex(nodes, storage_context=context, embed_model=embedding)
        words = BM25Retriever.from_defaults(docstore=index.docstore)
    spans = node_spans(documents, nodes)

    def find(question: str, k: int) -> list[Span]:
        if kind == "auto-merging":
            retriever: Any = AutoMergingRetriever(index.as_retriever(similarity_top_k=k), context)
        else:
            words.similarity_top_k = min(k, len(nodes))
            both, options = [index.as_retriever(similarity_top_k=k), words], {"num_queries": 1, "use_async": False}
            options |= {"llm": MockLLM(), "similarity_top_k": k, "mode": "reciprocal_rerank"}
            retriever = QueryFusionRetriever(both, **options)
        return [spans[own.node_id] for own in retriever.retrieve(question)]

    return find


def node_spans(documents: Sequence[Any], nodes: Sequence[Any]) -> dict[str, Span]:
    """Return the span of every node of LlamaIndex, which does not know them of most nodes that have a parent."""
    texts = {own.id_: own.text for own in [*documents, *nodes]}
    found: dict[str, Span] = {own.id_: (int(own.id_), 0, 0) for own in documents}
    after: dict[str, int] = {}
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


def haystack(kind: str, of: Collection) -> Find:
    """Return a retriever of Haystack; documents are embedded with `meta_fields_to_embed=["title"]`."""
    from haystack import Document
    from haystack.components.preprocessors import DocumentSplitter, HierarchicalDocumentSplitter
    from haystack.components.retrievers import AutoMergingRetriever, SentenceWindowRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    class Store(InMemoryDocumentStore):
        """Haystack's store in memory, which looks at the documents alone that the filter may select."""

        def filter_documents(self, filters: Any = None) -> list[Any]:
            if filters.get("field") == "id":
                return [self.by_id[filters["value"]]]
            return [
                d for name in sources(filters) for d in InMemoryDocumentStore.filter_documents(self.of[name], filters)
            ]

    def sources(filters: Any) -> list[str]:
        """Return the values of `source_id` in a filter, each once."""
        if filters.get("field", "").endswith("source_id"):
            return [filters["value"]]
        return list(dict.fromkeys(name for part in filters.get("conditions", ()) for name in sources(part)))

    documents = [Document(content=text, meta={"number": n}) for n, text in enumerate(of.texts)]
    starts: dict[str, Span] = {}
    if kind == "auto-merging":
        splitter = HierarchicalDocumentSplitter(block_sizes={512, 256, 128}, split_overlap=0, split_by="word")
        every = splitter.run(documents)["documents"]
        for own in every:
            # Offsets of a block are those in the text of its parent.
            parent = own.meta["__parent_id"]
            number, base, _ = starts[parent] if parent else (own.meta["number"], 0, 0)
            start = base + (own.meta["split_idx_start"] if parent else 0)
            starts[own.id] = (number, start, start + len(own.content))
        leaves = [own for own in every if not own.meta["__children_ids"] and own.meta["__parent_id"]]
        store = Store()
        store.by_id = {own.id: own for own in every}
        merging = AutoMergingRetriever(store, threshold=0.5)
    else:
        every = leaves = DocumentSplitter(split_by="period", split_length=1, split_overlap=0).run(documents)[
            "documents"
        ]
        for own in every:
            start = own.meta["split_idx_start"]
            starts[own.id] = (own.meta["number"], start, start + len(own.content))
        store = Store()
        store.of = {}
        for own in every:
            store.of.setdefault(own.meta["source_id"], InMemoryDocumentStore()).write_documents([own])
        windows = SentenceWindowRetriever(store, window_size=3)
    for own in every:
        number, start, end = starts[own.id]
        assert own.content == of.texts[number][start:end], f"a block is no text of its document: {own.content[:80]!r}"
    table = of.vectors([starts[own.id] for own in leaves])

    def find(question: str, k: int) -> list[Span]:
        nearest = [leaves[row] for row in best(table @ of.question(question), k)]
        if kind == "auto-merging":
            return [starts[own.id] for own in merging.run(documents=nearest)["documents"]]
        spans = []
        for own in nearest:
            near = [starts[one.id] for one in windows.run(retrieved_documents=[own])["context_documents"]]
            spans.append((near[0][0], min(a for _, a, _ in near), max(b for *_, b in near)))
        return spans

    return find


def dsrag(of: Collection) -> Find:
    """Return dsRAG's relevant segment extraction."""
    import logging

    import instructor  # noqa: F401

    # The package imports a client of a language model that is not called, and does not require it.
    sys.modules.setdefault("google.generativeai", ModuleType("google.generativeai"))
    from dsrag.embedding import Embedding
    from dsrag.knowledge_base import KnowledgeBase
    from dsrag.llm import LLM
    from dsrag.reranker import NoReranker

    logging.disable(logging.WARNING)

    class Own(Embedding):
        """The project's encoder."""

        def get_embeddings(self, text: Any, input_type: str | None = None) -> Any:
            return of.question(text) if isinstance(text, str) else list(of.encode(text))

    class Missing(LLM):
        """No language model."""

        def make_llm_call(self, chat_messages: list[dict[str, str]]) -> str:
            raise AssertionError("a language model was called")

    base = KnowledgeBase(
        "rival",
        storage_directory=tempfile.mkdtemp(),
        embedding_model=Own(384),
        reranker=NoReranker(),
        auto_context_model=Missing(),
        save_metadata_to_disk=False,
    )
    places: dict[str, list[tuple[int, int]]] = {}
    for number, (title, text) in enumerate(zip(of.titles, of.texts, strict=True)):
        name = str(number)
        context = {"use_generated_title": False, "get_document_summary": False}
        sectioning = {"use_semantic_sectioning": False}
        base.add_document(
            name, text, document_title=title, auto_context_config=context, semantic_sectioning_config=sectioning
        )
        # Chunks have other white space than their document.
        offsets = [at for at, character in enumerate(text) if not character.isspace()]
        squeezed, after, places[name] = "".join(text.split()), 0, []
        for _, chunk in sorted(base.chunk_db.data[name].items()):
            words = "".join(chunk["chunk_text"].split())
            at = squeezed.find(words, after)
            assert at >= 0, f"a chunk is no text of its document: {words[:80]!r}"
            after = at + len(words)
            places[name].append((offsets[at], offsets[after - 1] + 1))

    def find(question: str, k: Any) -> list[Span]:
        preset, _, ignored = k.partition(", ")
        base.reranker = NoReranker(ignore_absolute_relevance=bool(ignored))
        own = base.query([question], rse_params={"irrelevant_chunk_penalty": 0.3} if preset == "short" else preset)
        at = [(places[one["doc_id"]], one) for one in own]
        return [
            (int(one["doc_id"]), spans[one["chunk_start"]][0], spans[min(one["chunk_end"], len(spans)) - 1][1])
            for spans, one in at
        ]

    return find


def chonkie(kind: str, size: int, retriever: str, of: Collection) -> Find:
    """Return a retriever over chunks of one of chonkie's chunkers."""
    import bm25s
    import chonkie
    import Stemmer

    class Own(chonkie.BaseEmbeddings):
        """The project's encoder."""

        dimension = 384

        def embed(self, text: str) -> np.ndarray:
            return of.encode([text])[0]

        def embed_batch(self, texts: list[str]) -> list[np.ndarray]:
            return list(of.encode(texts))

        def get_tokenizer(self) -> str:
            return "character"

    make = {"token": chonkie.TokenChunker, "sentence": chonkie.SentenceChunker, "recursive": chonkie.RecursiveChunker}
    chunker = chonkie.SemanticChunker(Own(), chunk_size=size) if kind == "semantic" else make[kind](chunk_size=size)
    chunks = [[(n, own.start_index, own.end_index) for own in chunker(text)] for n, text in enumerate(of.texts)]
    spans = [span for own in chunks for span in own if of.texts[span[0]][span[1] : span[2]].strip()]
    table = of.vectors(spans)
    if retriever == "hybrid":
        stemmer, words = Stemmer.Stemmer("english"), bm25s.BM25()
        tokens = lambda texts: bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)  # noqa: E731
        words.index(tokens([chunk_text(of.titles[d], of.texts[d][a:b]) for d, a, b in spans]), show_progress=False)

    def find(question: str, k: int) -> list[Span]:
        products = table @ of.question(question)
        if retriever == "vectors":
            return [spans[row] for row in best(products, k)]
        sums = np.zeros(len(spans))
        rows, scores = words.retrieve(tokens([question]), k=min(RANKS, len(spans)), show_progress=False)
        for ranked in (best(products, RANKS), rows[0][scores[0] > 0].tolist()):
            sums[ranked] += 1 / (CONSTANT + 1 + np.arange(len(ranked)))
        return [spans[row] for row in best(sums, k)]

    return find


@dataclass(frozen=True)
class Rival:
    """A retriever of others.

    Attributes:
        package: Its name in the package index.
        make: Makes it for a collection.
        k: That of its documentation, which is doubled until it fills; or several settings; None if it always fills.
    """

    package: str
    make: Callable[[Collection], Find]
    k: int | Sequence[str] | None = None


RIVALS = {
    "LlamaIndex auto-merging": Rival("llama-index-core", lambda of: llama_index("auto-merging", of), 6),
    "LlamaIndex query fusion": Rival("llama-index-core", lambda of: llama_index("fusion", of), 2),
    "Haystack auto-merging": Rival("haystack-ai", lambda of: haystack("auto-merging", of), 10),
    "Haystack sentence window": Rival("haystack-ai", lambda of: haystack("windows", of), 10),
    "dsRAG": Rival("dsrag", dsrag, PRESETS),
} | {
    f"chonkie {kind} {size}, {retriever}": Rival("chonkie", lambda of, own=(kind, size, retriever): chonkie(*own, of))
    for size in SIZES
    for kind in ("recursive", "token", "sentence", "semantic")
    for retriever in ("vectors", "hybrid")
}


def sampled(tools: Tools, most: int) -> dict[str, list[Question]]:
    """Return at most so many questions of each set that have evidence, drawn at random, which many documents share."""
    drawn = {}
    for name, question_set in tools.settings.question_sets.items():
        stored = tools.store.read("questions").path(f"{name}.parquet")
        every = [question for question in load_questions(stored, question_set.test) if question.evidence]
        order = np.random.default_rng(0).permutation(len(every))[:most]
        drawn[name] = [every[row] for row in sorted(order.tolist())]
    return drawn


def trimmed(spans: Sequence[Span]) -> list[Span]:
    """Return the first passages, until they fill the longest context."""
    lengths = np.cumsum([0, *(end - start for _, start, end in spans)])
    return list(spans[: int(np.searchsorted(lengths, CONTEXT_CHARS))])


def variants(rival: Rival, find: Find, questions: Sequence[str]) -> Iterator[tuple[Any, list[list[Span]]]]:
    """Yield k or a setting, and the passages of every question by it."""
    chosen: Sequence[Any] = [RANKS] if rival.k is None else rival.k if not isinstance(rival.k, int) else ()
    for k in chosen or dict.fromkeys((rival.k, filling(find, rival.k, questions[:FIRST]))):  # type: ignore[arg-type]
        yield k, [trimmed(find(question, k)) for question in questions]


def filling(find: Find, k: int, questions: Sequence[str]) -> int:
    """Return k doubled until nearly all questions get as many characters as are measured."""
    while k < 1000:
        sizes = [sum(end - start for _, start, end in find(question, k)) for question in questions]
        if np.mean(np.array(sizes) >= CONTEXT_CHARS) >= FILLED:
            break
        k *= 2
    return k


def search(name: str, homes: Path, folder: Path, most: int, only: Sequence[str]) -> None:
    """Write the passages of rivals whose files are not there."""
    tools, retrieval = opened(name, homes)
    questions = [question.question for own in sampled(tools, most).values() for question in own]
    texts = retrieval.corpora.texts(range(len(retrieval.corpora.position)))
    documents = [texts[number] for number in range(len(texts))]
    encoder = Encoder(tools.settings.encoder, folder / "vectors")
    of = Collection([title for title, _ in documents], [text for _, text in documents], encoder)
    of.encode(questions)
    for rival, own in RIVALS.items():
        path = folder / name / f"{rival}.json"
        if path.exists() or (only and not any(part in rival for part in only)):
            continue
        started = time.perf_counter()
        rows = [{"k": k, "passages": found} for k, found in variants(own, own.make(of), questions)]
        version = importlib.metadata.version(own.package)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"version": version, "questions": most, "variants": rows}), encoding="utf-8")
        click.echo(f"{name}, {rival} {version}: {time.perf_counter() - started:.0f} s", err=True)


def measured(retrieval: Retrieval, sets: dict[str, list[Question]], passages: Sequence[Sequence[Span]]) -> np.ndarray:
    """Return ER of the passages of every question."""
    names = list(retrieval.corpora.position)
    asked = [(group, question) for group, questions in sets.items() for question in questions]
    rows = [
        (group, question.id, "rival", rank, *names[document], start, end, 1)
        for (group, question), spans in zip(asked, passages, strict=True)
        for rank, (document, start, end) in enumerate(spans, 1)
    ]
    found = evaluate(pd.DataFrame(rows, columns=COLUMNS), sets, 2)
    assert found["question"].tolist() == [question.id for _, question in asked]
    return found["ER"].to_numpy()


def own_passages(retrieval: Retrieval, sets: dict[str, list[Question]], method: str) -> list[list[Span]]:
    """Return the pieces that a method of the project ranks first, as long as is measured."""
    found = []
    for questions in sets.values():
        asking = retrieval.with_queries([question.question for question in questions])
        ranked = asking.rank(parse(method, retrieval.corpora.settings), 1)
        bounds = np.searchsorted(ranked.question, np.arange(len(questions) + 1))
        spans = np.stack([ranked.document, ranked.start, ranked.end], axis=1).tolist()
        pairs = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        found += [trimmed([tuple(span) for span in spans[first:last]]) for first, last in pairs]
    return found


def short(text: str) -> str:
    """Return a cell with its numbers below 1 without the zero."""
    return re.sub(r"\b0(?=\.\d)", "", text).replace("p .000", "p < .001")


def compared(name: str, homes: Path, folder: Path, most: int) -> dict[str, str]:
    """Return ER of `fused`, and of rivals that have been searched what it has more; the best k or setting of each."""
    tools, retrieval = opened(name, homes)
    sets = sampled(tools, most)
    of = examples(retrieval, [question for questions in sets.values() for question in questions])
    fixed = fixed_recalls(of)
    first = max(fixed, key=lambda level: fixed[level].mean())
    recalls, settings = {"best fixed": fixed[first], "hybrid-2": fixed["hybrid:fixed-2"]}, {"best fixed": first}
    for rival in RIVALS:
        path = folder / name / f"{rival}.json"
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["questions"] != most:
                raise click.ClickException(f"{path}: expected {most} questions, got {kept['questions']}: delete it")
            values = {row["k"]: measured(retrieval, sets, row["passages"]) for row in kept["variants"]}
            k = max(values, key=lambda k: values[k].mean())
            recalls[rival], settings[rival] = values[k], "" if k == RANKS else str(k)
    own = measured(retrieval, sets, own_passages(retrieval, sets, "fused"))
    click.echo(f"{name}: {', '.join(f'{rival} {k}' for rival, k in settings.items() if k)}", err=True)
    rows = {"questions, documents": f"{len(own)}, {len(set(of.documents))}", "`fused`": f"{own.mean():.3f}"}
    more = differences(own, recalls, of.documents)
    rows |= {rival: f"{er.mean():.3f} ({more[rival]})" for rival, er in recalls.items()}
    return {row: short(cell) for row, cell in rows.items()}


@click.command()
@click.argument("what", type=click.Choice(["search", "table"]))
@click.argument("names", nargs=-1, required=True)
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
@click.option("--folder", type=click.Path(path_type=Path), default=Path(".mog/rivals"), help="Passages and vectors.")
@click.option("--questions", "most", default=300, show_default=True, help="Most questions of a set.")
@click.option("--only", multiple=True, help="Rivals whose names have this, for search.")
def main(what: str, names: Sequence[str], homes: Path, folder: Path, most: int, only: Sequence[str]) -> None:
    if what == "search":
        for name in names:
            search(name, homes, folder, most, only)
        return
    columns = {name: compared(name, homes, folder, most) for name in names}
    rows = ("questions, documents", "`fused`", "best fixed", "hybrid-2", *RIVALS)
    found = [{"": row, **{name: own.get(row, "") for name, own in columns.items()}} for row in rows]
    click.echo(markdown.table([row for row in found if any(list(row.values())[1:])], 400))


if __name__ == "__main__":
    main()
