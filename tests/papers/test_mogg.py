"""Retrieval over the sentence graph, within topics, and by every router: what `mog search` and runs rank."""

from collections import Counter
from dataclasses import astuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mog_assets.build.tools import Tools
from mog_assets.config import settings_model
from mog_assets.evaluate.measures import evaluate
from mog_assets.index.corpora import Corpora
from mog_assets.index.term_counts import TermCounts
from mog_assets.papers.level_search.bm25 import Bm25Index, statistics
from mog_assets.papers.level_search.searchers import LevelMatches
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import open_neighbourhoods
from mog_assets.papers.mix_of_granularity.graph.search import Neighbourhoods
from mog_assets.papers.mix_of_granularity.mixing import candidates, emit, ranked
from mog_assets.papers.topics.questions import topics_of
from mog_assets.questions.sets import Evidence, Question
from mog_assets.search.groups import fell_back, groups_of
from mog_assets.search.index import Index
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.serve import project as serving
from mog_assets.text.terms import terms_of

QUESTION = "What makes the bottom of my tomatoes go dark and sunken?"
EVERYWHERE = ["garden", "workshop", "sky"]
SAMPLE_QUESTIONS = [
    QUESTION,
    "How deep should garlic cloves be planted?",
    "Why is the sky blue?",
    "zzzz qqqq?",
    "How is cheese ripened?",
]


@pytest.fixture(scope="module")
def tools(sample_project):
    return Tools(sample_project.settings)


@pytest.fixture(scope="module")
def corpora(tools):
    return Corpora.open(tools.store.read, tools.settings, EVERYWHERE)


@pytest.fixture(scope="module")
def around(corpora):
    return Neighbourhoods.open(corpora)


@pytest.fixture(scope="module")
def documents(tools):
    """Title and text of every document, by corpus and id."""
    found = {}
    for corpus in EVERYWHERE:
        stored = tools.store.read("documents", corpus)
        for name in stored.names("bucket"):
            for row in pq.read_table(stored.path(name), columns=["id", "title", "text"]).to_pylist():
                found[corpus, row["id"]] = row["title"], row["text"]
    return found


def asked(tools, corpora, *questions):
    return Retrieval(Index.open(tools, corpora), questions)


# The sentence graph


def texts_of(around, documents, centre, granularity):
    """Title of the centre's document, and the texts of the nodes around a centre, from the stored graph itself."""
    indptr, indices = around.members(granularity)
    names = [(n, d) for n, layout in zip(EVERYWHERE, around.layouts, strict=True) for d in layout.documents]
    title, _ = documents[names[around.nodes.document_of[centre]]]
    texts = []
    for node in indices[indptr[centre] : indptr[centre + 1]]:
        start, end = around.nodes.spans[node]
        texts.append(documents[names[around.nodes.document_of[node]]][1][start:end])
    return title, texts


@pytest.mark.parametrize("granularity", [1, 3])
def test_a_neighbourhood_counts_the_terms_of_its_nodes_and_its_centres_title(around, documents, granularity):
    whole = around.counts(granularity)
    some = around.counts(granularity, ["tomato", "wind"])
    starts = around.starts(granularity)
    for centre in np.random.default_rng(0).choice(around.nodes.count(1), 12, replace=False):
        corpus = int(np.searchsorted(starts, centre, side="right")) - 1
        title, texts = texts_of(around, documents, centre, granularity)
        expected = Counter(term for row in terms_of([title, *texts]) for term in row)
        for parts, terms in ((whole, None), (some, {"tomato", "wind"})):
            part = parts[corpus]
            matrix = sparse.csc_matrix((part.counts, part.indices, part.indptr), (len(part.lengths), len(part.terms)))
            row = matrix[centre - starts[corpus]].tocoo()
            found = {part.terms[i]: n for i, n in zip(row.col, row.data, strict=True) if n}
            assert found == {t: n for t, n in expected.items() if terms is None or t in terms}
            assert part.lengths[centre - starts[corpus]] == expected.total()


def test_a_neighbourhoods_vector_is_the_mean_of_the_chunks_under_its_nodes(around, corpora):
    finest = corpora.vectors
    rows = np.array([0, 17, around.nodes.count(1) - 1])
    found = around.vectors(3, finest).rows(rows)
    indptr, indices = around.members(3)
    every = finest.rows(np.arange(len(finest))).astype(np.float32)
    for vector, centre in zip(found, rows, strict=True):
        shares = around.common[indices[indptr[centre] : indptr[centre + 1]]].sum(axis=0)
        expected = np.asarray(shares @ every).ravel()
        np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), rtol=1e-4, atol=1e-6)


class Sets:
    """Chunks that are any sets of pieces; a piece's own chunk has its number."""

    def __init__(self, members):
        self.members, self.count = members, len(members)

    def starts(self, granularity):
        return np.zeros(1, np.int64)

    def spread(self, hits, granularity):
        sizes = [len(self.members[granularity - 1][chunk]) for chunk in hits.chunk]
        pieces = [piece for chunk in hits.chunk for piece in sorted(self.members[granularity - 1][chunk])]
        return np.repeat(np.arange(len(sizes)), np.array(sizes, np.int64)), np.array(pieces, np.int64)

    def containing(self, pieces, granularity):
        return pieces


@st.composite
def overlapping(draw):
    """Chunks that share pieces, what was found of them, weights, and the granularity to emit."""
    pieces, granularities = 6, draw(st.integers(1, 3))
    some = st.sets(st.integers(0, pieces - 1), max_size=4)
    members = [[draw(some) | {centre} for centre in range(pieces)] for _ in range(granularities)]
    found = []
    for _ in range(granularities):
        chosen = draw(st.lists(st.integers(0, pieces - 1), unique=True, max_size=3))
        scores = sorted((draw(st.integers(1, 12)) / 8 for _ in chosen), reverse=True)
        found.append((chosen, scores))
    weights = [draw(st.integers(0, 8)) / 8 for _ in range(granularities)]
    return members, found, weights, draw(st.integers(1, granularities))


@given(overlapping())
def test_a_node_has_the_score_of_the_best_neighbourhood_around_it_and_that_one_is_emitted(case):
    members, found, weights, level = case
    best = {}
    for g, (chosen, scores) in enumerate(found):
        for chunk, score in zip(chosen, scores, strict=True):
            for piece in members[g][chunk]:
                held = best.setdefault(piece, {})
                # Equal scores: the neighbourhood that ranks first.
                if g not in held or score > held[g][0]:
                    held[g] = (score, chunk)
    order = sorted(best, key=lambda p: (-sum(weights[g] * score for g, (score, _) in best[p].items()), p))
    expected = list(dict.fromkeys(best[p][level - 1][1] if level - 1 in best[p] else p for p in order))

    made_of = Sets(members)
    hits = [
        LevelMatches(np.zeros(len(chosen), np.int64), np.array(chosen, np.int64), np.array(scores, float))
        for chosen, scores in found
    ]
    spread = candidates(hits, made_of)
    emitted, _ = emit(spread, *ranked(spread, np.array([weights])), np.array([level]), made_of)
    assert emitted.chunk.tolist() == expected


@pytest.mark.parametrize(
    "method", ["hop-0", "hop-2", "mogg-paper", "mogg-uniform", "mogg-paper+topics", "fixed-2+topics"]
)
def test_passages_are_slices_of_their_documents_in_order(sample_project, documents, method):
    found = serving.open(sample_project.settings, EVERYWHERE, keep=False).search(QUESTION, method=method, k=3)
    assert len(found.passages) == 3
    for passage in found.passages:
        spans = [astuple(span) for span in passage.spans]
        assert spans[0] == (passage.corpus, passage.document, passage.start, passage.end)
        for corpus, doc, start, end in spans:
            piece = documents[corpus, doc][1][start:end]
            assert piece and piece in passage.text
        # Nodes that touch are one span.
        assert all(a[:2] != b[:2] or a[3] < b[2] for a, b in zip(spans, spans[1:], strict=False))
    assert (found.weights is not None) == (method in ("mogg-paper", "mogg-paper+topics"))
    assert ("topic" in found.details) == method.endswith("+topics")


def test_a_hop_neighbourhood_is_what_the_graph_says(sample_project, tools, around):
    (first, *_) = (
        serving.open(sample_project.settings, EVERYWHERE, keep=False).search(QUESTION, method="hop-2", k=1).passages
    )
    corpus = EVERYWHERE.index(first.corpus)
    stored = tools.store.read("sentence_graph", first.corpus)
    indptr, indices = open_neighbourhoods(stored.path, 2)
    layout = around.layouts[corpus]
    sets = {
        frozenset((layout.documents[layout.document_of[n]], *layout.spans[n].tolist()) for n in indices[i:j])
        for i, j in zip(indptr[:-1], indptr[1:], strict=True)
    }
    characters = {(span.document, at) for span in first.spans for at in range(span.start, span.end)}
    assert characters in [{(doc, at) for doc, start, end in nodes for at in range(start, end)} for nodes in sets]


def test_a_passage_of_several_spans_counts_as_one_passage():
    questions = [Question("q", "?", "open", "test", evidence=(Evidence("c", "b", 0, 100),))]
    rows = [(1, "a", 0, 300), (1, "b", 0, 50), (2, "b", 50, 100), (3, "d", 0, 10)]
    runs = pd.DataFrame(rows, columns=["rank", "doc", "start", "end"])
    runs = runs.assign(question_set="s", question="q", method="hop-1", corpus="c", tokens=1)
    (one,) = evaluate(runs, {"s": questions}, 1).to_dict("records")
    assert (one["hit@1"], one["char_recall@1"], one["char_precision@1"]) == (1, 0.5, 50 / 350)
    # The document stands second, after one of the same passage.
    assert one["MRR"] == 0.5
    (two,) = evaluate(runs, {"s": questions}, 2).to_dict("records")
    assert two["char_recall@2"] == 1 and two["ER@1000"] == 1


# Topics


@pytest.mark.full
def test_search_within_groups_is_search_where_nothing_else_is():
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 3, (90, 12)).astype(np.int32)
    matrix = sparse.csc_matrix(dense)
    terms = [f"t{i}" for i in range(12)]
    counts = TermCounts(terms, matrix.indptr, matrix.indices, matrix.data, dense.sum(axis=1).astype(np.int64))
    index = Bm25Index(counts, statistics([counts]), 1.5, 0.75)
    group_of = rng.integers(-1, 4, 90)
    queries = [[terms[i] for i in rng.choice(12, 2)] for _ in range(70)]
    groups = rng.integers(-1, 6, 70)
    every, scores = index.search(queries, 90)
    for number in (70, 9):
        found, values = index.search_within(queries[:number], 5, groups[:number], group_of)
        for row in range(number):
            kept = [i for i in every[row] if i >= 0 and group_of[i] == groups[row] >= 0][:5]
            assert found[row].tolist() == kept + [-1] * (5 - len(kept))
            expected = {int(i): s for i, s in zip(every[row], scores[row], strict=True)}
            np.testing.assert_allclose(values[row][: len(kept)], [expected[i] for i in kept], rtol=1e-5)


@pytest.mark.parametrize("name", ["fixed-1+topics", "dense-2+topics", "hybrid:mog-paper+topics", "hop-1+topics"])
def test_passages_are_of_the_questions_topic_or_of_all_where_it_has_too_few(sample_project, tools, corpora, name):
    questions = list(SAMPLE_QUESTIONS)
    retrieval = asked(tools, corpora, *questions)
    method = parse(name, tools.settings)
    found, plain = retrieval.rank(method, 2), retrieval.rank(method.within(""), 2)
    back = fell_back(retrieval, method, 2)
    topics, _ = topics_of(retrieval).assigned
    # Both branches are taken.
    assert back.any() and not back.all()
    assert back[topics == -1].all()
    # Of every passage, the topic of the chunk that it was found by.
    of_topic = method.of.rank(retrieval, method, groups_of(retrieval, "topics"))
    for question in range(len(questions)):
        here, same = found.at(found.question == question), plain.at(plain.question == question)
        expected = same if back[question] else of_topic.at(of_topic.question == question)
        np.testing.assert_array_equal(here.document, expected.document)
        np.testing.assert_array_equal(here.start, expected.start)


# Names


SETTINGS = settings_model().model_validate({"corpora": {"c": {"path": "x"}}})


@pytest.mark.parametrize(
    ("name", "canonical", "kind", "level", "limit"),
    [
        ("hop-0", "hop-0", "hop", 1, ""),
        ("bm25:hop-4", "hop-4", "hop", 5, ""),
        ("mogg-uniform", "mogg-uniform", "mogg-uniform", None, ""),
        ("mogg-paper+topics", "mogg-paper+topics", "mogg-paper", None, "topics"),
        ("medrag+topics", "fixed-2+topics", "fixed", 2, "topics"),
        ("dense:medrag", "dense-2", "fixed", 2, ""),
        ("hybrid:mog-paper+topics", "hybrid:mog-paper+topics", "mog-paper", None, "topics"),
    ],
)
def test_names_of_graph_and_topics(name, canonical, kind, level, limit):
    for retriever in ("bm25", "dense"):
        settings = SETTINGS.model_copy(update={"retriever": retriever})
        method = parse(name, settings)
        assert (method.kind, method.level, method.limit) == (kind, level, limit)
        assert parse(method.name, settings) == method
        other = method.within("" if limit else "topics")
        assert other.limit != limit and parse(other.name, settings) == other
    assert parse(name, SETTINGS).name == canonical


@pytest.mark.parametrize(
    "name", ["hop", "hop-5", "dense:mogg-paper", "hybrid:hop-1", "mogg-2", "mogg-paper+", "+topics"]
)
def test_names_that_mean_nothing_are_refused(name):
    with pytest.raises(Exception, match="method: expected one of"):
        parse(name, SETTINGS)
