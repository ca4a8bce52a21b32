"""What is in memory together does not grow with the corpus: four times the corpus needs at most half as much more."""

import gc
import json
import os
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.config import settings_model
from mog_assets.documents.documents import bucket_of, make_document, write_documents
from mog_assets.index.corpora import Corpora
from mog_assets.index.layouts import bucket_layout
from mog_assets.index.statistics import TOTALS, file_of
from mog_assets.index.statistics_assets import write_terms
from mog_assets.index.term_counts import TermCounts
from mog_assets.resources.lazy import Recent
from mog_assets.resources.publishing import remove
from mog_assets.text.chunks import Layout
from mog_assets.text.cuts import unit_chars

pytestmark = pytest.mark.full

MOST = 1.5


def peak(work):
    """Most bytes that Python and numpy held at a time on behalf of some work, and what it returned."""
    gc.collect()
    tracemalloc.start()
    try:
        found = work()
        return tracemalloc.get_traced_memory()[1], found
    finally:
        tracemalloc.stop()


def grows(small, large):
    """How many times as much memory the larger piece of work takes; whatever is loaded once is loaded before."""
    small()
    return peak(large)[0] / peak(small)[0]


class Project:
    """A corpus of equally long documents, as many in every bucket."""

    def __init__(self, folder, buckets, each, characters):
        folder.mkdir()
        names = {bucket: [] for bucket in range(buckets)}
        number = 0
        while any(len(held) < each for held in names.values()):
            held = names[bucket_of(f"document {number}", buckets)]
            if len(held) < each:
                held.append(f"document {number}")
            number += 1
        sentence = "The grey heron of pond {} stands still in shallow water and waits for a fish. "
        with (folder / "pond.jsonl").open("w") as stream:
            for name in sorted(name for held in names.values() for name in held):
                text = (sentence.format(name) * (characters // 80 + 1))[:characters]
                stream.write(json.dumps({"id": name, "text": text}) + "\n")
        values = {"home": "home", "buckets": buckets, "finest_chars": 5000, "levels": 2}
        values |= {"corpora": {"pond": {"path": "pond.jsonl"}}, "encoder": {"max_length": 8}}
        (folder / "mog.yaml").write_text(json.dumps(values))
        self.settings = config.load(folder / "mog.yaml")
        self.tools, self.recipes = Tools(self.settings), plan.graph(self.settings)

    def build(self, key):
        """Materialise an asset as if it had never been."""
        remove(self.tools.store, key, "pond")
        return materialise(self.recipes[key], "pond", self.tools, self.recipes)


def test_documents_that_are_read_are_not_in_memory_together(tmp_path):
    small = Project(tmp_path / "small", 8, 5, 50_000)
    large = Project(tmp_path / "large", 32, 5, 50_000)

    def read(project):
        (project.settings.home / "cache/reading-pond.parquet").unlink(missing_ok=True)
        return project.build("documents")

    assert grows(lambda: read(small), lambda: read(large)) < MOST


def test_layouts_that_were_opened_are_not_all_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("mog_assets.index.layouts._OPENED", Recent(4_000_000))
    chunks = 100_000
    write_documents([make_document("a", "", "x" * chunks, {}, {})], tmp_path / "documents.parquet")
    ends = np.arange(1, chunks + 1, dtype=np.int32)
    spans = pa.table({"document": np.zeros(chunks, np.int32), "start": ends - 1, "end": ends})
    pq.write_table(spans, tmp_path / "spans.parquet")
    for number in range(24):
        os.link(tmp_path / "spans.parquet", tmp_path / f"spans_{number}.parquet")

    def opened(count):
        for number in range(count):
            bucket_layout(tmp_path / "documents.parquet", tmp_path / f"spans_{number}.parquet")

    assert grows(lambda: opened(6), lambda: opened(24)) < MOST


@pytest.mark.whole
def test_scores_of_few_questions_are_not_in_memory_together():
    from mog_assets.papers.level_search.bm25 import Bm25Index, statistics

    chunks, rng = 50_000, np.random.default_rng(0)
    terms = [f"t{i}" for i in range(64)]
    matrix = sparse.random(chunks, len(terms), 0.05, "csc", np.float64, rng)
    counts = (matrix.data * 9 + 1).astype(np.int32)
    part = TermCounts(terms, matrix.indptr, matrix.indices, counts, np.full(chunks, 20))
    index = Bm25Index(part, statistics([part]), 1.2, 0.75)

    def search(questions):
        return index.search([[terms[i], terms[i + 1]] for i in range(questions)], 50)

    assert grows(lambda: search(15), lambda: search(60)) < MOST
    alone = [index.search([[terms[i], terms[i + 1]]], 50) for i in range(60)]
    for found, by_one in zip(search(60), zip(*alone, strict=True), strict=True):
        np.testing.assert_array_equal(found, np.concatenate(by_one))


class Files:
    """An artefact of the files of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return self.folder / name


def pond_of_nodes(folder, nodes, terms, members):
    """Neighbourhoods of made-up nodes, `members` of them around each, of which every one holds 20 of some terms."""
    from mog_assets.papers.mix_of_granularity.graph.index_on_disk import save_terms
    from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import Around, save_neighbourhoods
    from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods

    folder.mkdir()
    rng = np.random.default_rng(1)
    names = sorted(f"t{i}" for i in range(terms))
    save_terms(names, folder / "terms.parquet")
    held = np.sort(rng.integers(0, terms, (nodes, 20)), axis=1)
    rows = np.repeat(np.arange(nodes), 20)
    counts = sparse.csr_matrix((np.ones(nodes * 20, np.int32), (rows, held.ravel())), (nodes, terms))
    sparse.save_npz(folder / "nodes.npz", counts)
    sparse.save_npz(folder / "titles.npz", counts[:1])
    around = (np.arange(nodes)[:, None] + np.arange(members)) % nodes
    members_of = np.sort(around, axis=1).ravel().astype(np.int32)
    held = Around(np.full(nodes, members, np.int32), members_of, np.zeros(nodes * members, np.uint8))
    save_neighbourhoods(held, folder / "members.parquet", folder / "sizes.parquet")
    ends = np.arange(1, nodes + 1)
    layout = Layout("pond", ["a"], np.array([0, nodes]), np.stack([ends - 1, ends], axis=1))
    settings = settings_model()(home=folder / "home", corpora={"pond": {"path": folder / "pond.jsonl"}})
    corpora = Corpora(lambda asset, corpus: Files(folder), settings, ["pond"], [layout])
    around = Neighbourhoods(corpora, [layout], 1)
    ((_, counted),) = around.frequencies(1)
    totals = write_terms({"hop_0": counted}, folder / file_of("pond"))
    (folder / TOTALS).write_text(json.dumps({"pond": totals}), encoding="utf-8")
    return around


@pytest.mark.whole
def test_terms_of_questions_are_not_in_memory_together_for_all_neighbourhoods(tmp_path, monkeypatch):
    monkeypatch.setattr("mog_assets.papers.mix_of_granularity.graph.search._ENTRIES", 50_000)
    nodes, members = 2000, 4
    around = pond_of_nodes(tmp_path / "pond", nodes, 800, members)
    names = sorted(f"t{i}" for i in range(800))
    around.members(1)

    def index(terms):
        return around.bm25(1, names[:terms])

    assert grows(lambda: index(200), lambda: index(800)) < MOST


def made_up_articles(count):
    """Articles with one question each; vectors are drawn."""
    from mog_assets.papers.learned_chunking.articles import ArticleSource, encode_articles

    rng = np.random.default_rng(2)
    sentence = "The heron of pond {} was counted {} times at the mill. "
    sources = []
    for number in range(count):
        text = "".join(sentence.format(number, i) for i in range(40))
        sources.append(ArticleSource(f"ponds/{number}", "", text, ["How often?"], np.array([[0, 9]])))

    def encode(texts):
        vectors = rng.standard_normal((len(texts), 64)).astype(np.float32)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)

    return encode_articles(sources, unit_chars(100), encode)


@pytest.mark.whole
def test_the_chunks_of_all_articles_are_not_copied_to_count_tokens_to_answer(monkeypatch):
    from mog_assets.papers.learned_chunking.articles import packed
    from mog_assets.papers.learned_chunking.tokens_to_answer import tokens_to_answer

    monkeypatch.setattr("mog_assets.papers.learned_chunking.tokens_to_answer._BLOCK", 20_000)
    articles = made_up_articles(200)
    cuts = [packed(article, 100) for article in articles]
    for article in articles:
        _ = article.tokens, article.possible, article.number, article.similarities

    def count(some):
        return tokens_to_answer(articles[:some], cuts[:some])

    assert grows(lambda: count(50), lambda: count(200)) < MOST
