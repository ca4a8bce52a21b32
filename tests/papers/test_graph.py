import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mog_assets.build.materialising import is_fresh, materialise
from mog_assets.build.tools import Tools
from mog_assets.documents import assets as corpus_assets
from mog_assets.index import chunk_assets as chunking_assets
from mog_assets.index.layouts import open_layout
from mog_assets.papers.mix_of_granularity.graph import assets as graph_assets
from mog_assets.papers.mix_of_granularity.graph import building
from mog_assets.papers.mix_of_granularity.graph import neighbourhoods as hops_module
from mog_assets.papers.mix_of_granularity.graph import sentence_graph as edges_module
from mog_assets.papers.mix_of_granularity.graph.checks import graph_fault, neighbourhoods_fault
from mog_assets.papers.mix_of_granularity.graph.neighbourhoods import neighbourhoods, open_neighbourhoods
from mog_assets.papers.mix_of_granularity.graph.nodes import node_spans
from mog_assets.papers.mix_of_granularity.graph.sentence_graph import (
    Graph,
    index_of,
    link,
    neighbours,
    open_graph,
    query_count,
    save_index,
    search_block,
    searched,
)
from mog_assets.text.cuts import sentence_ends
from mog_assets.text.terms import tokenise

K1, B = 1.5, 0.75


# Nodes


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab. \n", max_size=200), st.sampled_from([1, 2]), st.integers(1, 40))
def test_nodes_tile_a_text(text, sentences, longest):
    spans = node_spans(text, sentences, longest)
    assert "".join(text[start:end] for start, end in spans) == text
    assert (spans[:, 0] < spans[:, 1]).all()
    assert (np.diff(spans, axis=1) <= sentences * longest).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["One. ", "Two, three! ", "Four?\n", "five "]), max_size=12), st.sampled_from([1, 2]))
def test_nodes_are_so_many_sentences_each(pieces, sentences):
    text = "".join(pieces)
    ends = sentence_ends(text)
    expected = ends[sentences - 1 :: sentences].tolist()
    expected += ends[-1:].tolist() if len(ends) % sentences else []
    assert node_spans(text, sentences, 1000)[:, 1].tolist() == expected


def test_a_sentence_without_end_is_cut_at_white_space():
    text = "word " * 50 + "end. Next."
    spans = node_spans(text, 1, 100)
    assert [text[start:end] for start, end in spans] == ["word " * 20, "word " * 20, "word " * 10 + "end. ", "Next."]


# Edges


def counts_of(nodes):
    """CSR counts of nodes given as lists of terms."""
    terms = sorted({term for node in nodes for term in node})
    number = {term: i for i, term in enumerate(terms)}
    rows = np.repeat(np.arange(len(nodes)), [len(node) for node in nodes])
    columns = [number[term] for node in nodes for term in node]
    matrix = sparse.csr_matrix(
        (np.ones(len(rows), np.int32), (rows, columns)), (len(nodes), len(terms)), dtype=np.int32
    )
    matrix.sum_duplicates()
    matrix.sort_indices()
    return matrix


def found_by_blocks(nodes, k, folder, block=7):
    index = folder / "index"
    arrays = index_of(counts_of(nodes), K1, B)
    save_index(arrays, index)
    paths = []
    for first in range(0, query_count(index), block):
        paths.append(folder / f"found_{first}")
        search_block(str(index), str(paths[-1]), first, min(first + block, query_count(index)), k)
    return neighbours(*searched(paths, k), arrays["asks"], arrays["self"])


def found_by_formula(nodes, k):
    """Every node against every other by BM25 as Lucene has it, added up in float32 in the order of the terms."""
    mean = np.mean([len(node) for node in nodes])
    frequency = Counter(term for node in nodes for term in set(node))
    counts = [Counter(node) for node in nodes]

    def weight(term, document):
        tf = counts[document][term]
        idf = math.log(1 + (len(nodes) - frequency[term] + 0.5) / (frequency[term] + 0.5))
        return np.float32(idf * tf / (tf + K1 * (1 - B + B * len(nodes[document]) / mean)))

    found, shares = np.full((len(nodes), k), -1), np.zeros((len(nodes), k))
    for query, terms in enumerate(nodes):
        scores = np.zeros(len(nodes), np.float32)
        for term in sorted(terms):
            for document in range(len(nodes)):
                if term in counts[document]:
                    scores[document] += weight(term, document)
        best = sorted((d for d in range(len(nodes)) if d != query and scores[d] > 0), key=lambda d: (-scores[d], d))[:k]
        found[query, : len(best)] = best
        shares[query, : len(best)] = scores[best] / scores[query]
    return found, shares


def random_nodes(seed, n, words):
    """Nodes of which many are equal, many tie, and some hold no term."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, words + 1)
    fresh = [[f"w{i:03d}" for i in rng.choice(words, rng.integers(0, 9), p=chances / chances.sum())] for _ in range(n)]
    return [fresh[i] for i in rng.integers(0, n, n)]


@pytest.fixture(params=[0, 10**9], ids=["compiled", "by all scores"])
def either_way(request, monkeypatch):
    """Both ways to search: the compiled kernel with ties settled, and all scores of every node."""
    monkeypatch.setattr(edges_module, "_FEW", request.param)


@pytest.mark.parametrize(("seed", "n", "words", "k"), [(0, 90, 12, 3), (1, 150, 60, 3), (2, 60, 4, 1), (3, 40, 30, 8)])
def test_neighbours_are_those_of_every_node_against_every_other(either_way, tmp_path, seed, n, words, k):
    nodes = random_nodes(seed, n, words)
    expected, shares = found_by_formula(nodes, k)
    assert (expected[:, 0] < 0).any()
    assert (expected[:, k - 1] >= 0).any()
    found, values = found_by_blocks(nodes, k, tmp_path)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(values, shares, atol=2e-5)


@pytest.mark.parametrize("nodes", [[["a", "b"]], [[]], [[], []], [["a"], ["b"]], [["a"], []]])
def test_nodes_that_share_no_term_have_no_neighbour(either_way, tmp_path, nodes):
    found, shares = found_by_blocks(nodes, 3, tmp_path)
    assert (found == -1).all()
    assert (shares == 0).all()
    graph = link(found, shares, 0.0)
    assert graph.nodes == len(nodes)
    assert len(graph.edges) == 0
    around = neighbourhoods(graph, np.ones(len(nodes), int), 2, 10)
    assert [around.within(hop)[1].tolist() for hop in range(3)] == [list(range(len(nodes)))] * 3


def test_an_edge_is_kept_once_with_the_larger_share():
    nodes = np.array([[1, 2], [0, -1], [1, 0], [0, -1]], np.int32)
    shares = np.array([[0.5, 0.2], [0.7, 0], [0.3, 0.1], [0.05, 0]], np.float32)
    graph = link(nodes, shares, 0.1)
    assert graph.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert graph.indices.tolist() == [1, 2, 0, 2, 0, 1]
    np.testing.assert_allclose(graph.shares, [0.7, 0.2, 0.7, 0.3, 0.2, 0.3])
    assert graph.degrees.tolist() == [2, 2, 2, 0]
    assert graph.components.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ([(0, 0, 0.5)], "node 0 is a neighbour of itself"),
        ([(0, 1, 0.5)], "not symmetric: 2 entries differ"),
        ([(0, 1, 0.5), (1, 0, 0.6)], "not symmetric: 2 entries differ"),
        ([(0, 1, 0.05), (1, 0, 0.05)], "below the threshold 0.1"),
        ([(i, j, 0.5) for i in range(4) for j in range(4) if i != j], "6 edges are more than 1 for each"),
        ([(0, 1, 0.5), (0, 1, 0.5), (1, 0, 0.5)], "neighbours of node 0 are not sorted and unique"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(edges, fault):
    row, column, share = zip(*edges, strict=True)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=4))])
    graph = Graph(indptr, np.array(column, np.int32), np.array(share, np.float32))
    assert fault in graph_fault(graph, 4, 1, 0.1)
    assert "has 4 nodes, the documents have 5" in graph_fault(graph, 5, 1, 0.1)


# Neighbourhoods


def graph_with(edges, nodes):
    """The graph with some edges, given as shares by pair."""
    pairs = [(i, j, share) for (i, j), share in edges.items() if i != j]
    both = sorted({(i, j): s for a, b, s in pairs for i, j in ((a, b), (b, a)) for s in [s]}.items())
    row = [i for (i, _), _ in both]
    return Graph(
        np.concatenate([[0], np.cumsum(np.bincount(row, minlength=nodes))]).astype(np.int64),
        np.array([j for (_, j), _ in both], np.int32),
        np.array([share for _, share in both], np.float32),
    )


def plain_neighbourhood(graph, lengths, centre, hops, max_chars):
    near = {centre: 0}
    total, ring = lengths[centre], [centre]
    for hop in range(1, hops + 1):
        alike = {}
        for node in ring:
            for entry in range(graph.indptr[node], graph.indptr[node + 1]):
                other = int(graph.indices[entry])
                if other not in near:
                    alike[other] = max(alike.get(other, 0), graph.shares[entry])
        ring = []
        for node in sorted(alike, key=lambda node: (-alike[node], node)):
            total += lengths[node]
            if total > max_chars:
                return near
            near[node] = hop
            ring.append(node)
    return near


def assert_as_plain(graph, lengths, hops, max_chars):
    found = neighbourhoods(graph, lengths, hops, max_chars)
    for centre in range(graph.nodes):
        near = plain_neighbourhood(graph, lengths, centre, hops, max_chars)
        for hop in range(hops + 1):
            indptr, indices = found.within(hop)
            expected = sorted(node for node, distance in near.items() if distance <= hop)
            assert indices[indptr[centre] : indptr[centre + 1]].tolist() == expected


@st.composite
def graphs(draw):
    nodes = draw(st.integers(1, 12))
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).map(lambda p: tuple(sorted(p)))
    edges = draw(st.dictionaries(pair, st.sampled_from([0.25, 0.5, 0.75]), max_size=30))
    lengths = draw(st.lists(st.integers(1, 9), min_size=nodes, max_size=nodes))
    return graph_with(edges, nodes), np.array(lengths)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 4), st.integers(1, 60))
def test_neighbourhoods_are_those_of_a_plain_breadth_first_search(drawn, hops, max_chars):
    assert_as_plain(*drawn, hops, max_chars)


@pytest.mark.parametrize("max_chars", [300, 10**6])
def test_compiled_neighbourhoods_are_the_same(monkeypatch, max_chars):
    monkeypatch.setattr(hops_module, "_FEW", 0)
    monkeypatch.setattr(hops_module, "_BLOCK", 100)
    rng = np.random.default_rng(3)
    edges = {tuple(sorted(pair)): rng.choice([0.2, 0.4, 0.9]) for pair in rng.integers(0, 250, (400, 2)).tolist()}
    # A node that half of the others chose.
    edges |= {(7, other): 0.3 for other in range(50, 175)}
    assert_as_plain(graph_with(edges, 250), rng.integers(1, 60, 250), 4, max_chars)


@pytest.mark.parametrize(
    ("members", "fault"),
    [
        ([[[0], [1]], [[0, 1], [0, 1]]], None),
        ([[[0], [1]], [[0], [0]]], "1 neighbourhoods of 1 hops do not contain their centre"),
        ([[[0, 1], [1]], [[0], [0, 1]]], "neighbourhoods of 1 hops lack nodes of those of 0 hops"),
        ([[[0], [1]], [[0, 1, 2], [1]]], "1 neighbourhoods of 1 hops have more than 20 characters"),
    ],
)
def test_neighbourhoods_that_cannot_be_are_refused(members, fault):
    around = []
    for hop in members:
        rows = [*hop, [2]]
        around.append((np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int32)))
    # The last is longer than a neighbourhood may be, and stays as a centre.
    assert neighbourhoods_fault(around, np.array([10, 10, 30]), 20) == fault


# The asset


HERON = "The grey heron stands still in shallow water. It waits for a fish. Then it strikes with its bill. "
OTTER = "The otter swims at dusk. It eats fish and crayfish. Its holt is under a bank of the river. "
NEWT = "The newt lives in shallow water in spring. It spends the winter under stones. The of and. "
TEXTS = {"heron": HERON, "otter": OTTER, "newt": NEWT, "both": OTTER + HERON + "Both eat fish.", "pond": NEWT + HERON}


def made_by(settings):
    """Recipes of the stages up to the graph, by key."""
    stages = (corpus_assets, chunking_assets, graph_assets)
    return {recipe.key: recipe for stage in stages for recipe in stage.recipes(settings)}


@pytest.fixture
def build_graph(tmp_path, make_project, write_documents):
    """Brings documents and graph of a corpus up to date in a home of some name; gives outcome, documents and tools."""

    def build(documents, home="first", **options):
        source = write_documents(tmp_path / "pond.jsonl", documents.items())
        values = {"corpora": {"pond": {"path": str(source)}}, "buckets": 3, "graph": {"max_chars": 300, **options}}
        tools = Tools(make_project(tmp_path / home, values).settings)
        recipes = made_by(tools.settings)
        outcomes = [materialise(recipes[key], "pond", tools, recipes) for key in ("documents", "sentence_graph")]
        assert is_fresh(recipes["sentence_graph"], "pond", tools, recipes) != bool(outcomes[1].faults)
        return outcomes[1], outcomes[0].artefact, tools

    return build


def node_texts(graph, documents):
    import pyarrow.parquet as pq

    layout = open_layout("pond", documents, graph)
    text = [t for name in documents.names("bucket") for t in pq.read_table(documents.path(name))["text"].to_pylist()]
    return [text[d][start:end] for d, (start, end) in zip(layout.document_of, layout.spans, strict=True)], text


@pytest.mark.parametrize("sentences", [1, 2])
def test_the_graph_of_a_corpus_is_that_of_its_sentences(build_graph, sentences):
    outcome, documents, _ = build_graph(TEXTS, sentences=sentences, threshold=0.1)
    assert (outcome.built, outcome.faults) == (True, {})
    texts, whole = node_texts(outcome.artefact, documents)
    assert "".join(texts) == "".join(whole)
    if sentences == 1:
        assert "It eats fish and crayfish. " in texts
    ids, terms = tokenise(texts)
    expected, shares = found_by_formula([[terms[i] for i in row] for row in ids], 3)
    graph = open_graph(outcome.artefact.path)
    edges = {
        (min(i, int(j)), max(i, int(j)))
        for i, row in enumerate(expected)
        for j, share in zip(row, shares[i], strict=True)
        if j >= 0 and share >= 0.1
    }
    assert {tuple(edge) for edge in graph.edges.tolist()} == edges
    lengths = np.array([len(text) for text in texts])
    for hop in range(5):
        indptr, indices = open_neighbourhoods(outcome.artefact.path, hop)
        for centre in range(len(texts)):
            near = plain_neighbourhood(graph, lengths, centre, hop, 300)
            assert indices[indptr[centre] : indptr[centre + 1]].tolist() == sorted(near)


def test_after_a_change_the_graph_equals_one_built_from_nothing(build_graph):
    first, *_ = build_graph(TEXTS)
    changed = {**TEXTS, "otter": OTTER + "Otters play in shallow water."}
    del changed["pond"]
    later, *_ = build_graph(changed)
    assert later.artefact.manifest.version != first.artefact.manifest.version
    recomputed = later.artefact.manifest.info["recomputed"]
    assert (recomputed["documents split"], recomputed["documents tokenised"]) == (1, 1)
    assert recomputed["documents unchanged"] == 3
    afresh, *_ = build_graph(changed, home="second")
    assert afresh.artefact.manifest.info["recomputed"]["documents split"] == 4
    assert later.artefact.manifest.version == afresh.artefact.manifest.version
    back, *_ = build_graph(TEXTS)
    assert back.artefact.manifest.version == first.artefact.manifest.version


def test_what_does_not_follow_from_a_setting_is_kept_when_it_changes(build_graph):
    build_graph(TEXTS)
    shorter = build_graph(TEXTS, max_chars=120)[0].artefact.manifest
    assert {what: n for what, n in shorter.info["recomputed"].items() if what.startswith("documents")} == {
        "documents split": 0,
        "documents tokenised": 0,
        "documents unchanged": 5,
    }
    assert "nodes searched" not in shorter.info["recomputed"]
    fewer = build_graph(TEXTS, max_chars=120, k=1)[0].artefact.manifest
    assert fewer.info["recomputed"]["nodes searched"] == fewer.counts["nodes"]
    assert 0 < fewer.counts["edges"] < shorter.counts["edges"]
    assert build_graph(TEXTS, max_chars=120, k=1, home="second")[0].artefact.manifest.version == fewer.version


@pytest.mark.parametrize("texts", [{"a": "One."}, {"a": "The of and."}, {"a": "?!", "b": "Fish."}])
def test_corpora_with_nothing_to_join_have_a_graph_without_edges(build_graph, texts):
    outcome, *_ = build_graph(texts)
    assert outcome.faults == {}
    assert outcome.artefact.manifest.counts["edges"] == 0
    assert outcome.artefact.manifest.counts["nodes"] == len(texts)


@pytest.mark.parametrize("check", ["graph_holds", "neighbourhoods_hold"])
def test_a_faulty_graph_does_not_replace_the_previous_one(build_graph, monkeypatch, check):
    first, *_ = build_graph(TEXTS)
    if check == "graph_holds":
        weak = graph_with({(0, 1): 0.01}, int(first.artefact.manifest.counts["nodes"]))
        monkeypatch.setattr(building, "link", lambda *_: weak)
    else:
        monkeypatch.setattr(building, "neighbourhoods", lambda *given: neighbourhoods(*given[:3], 10**6))
    refused, _, tools = build_graph(TEXTS, k=2, max_chars=150)
    assert list(refused.faults) == [check]
    assert refused.artefact.manifest == first.artefact.manifest
    assert tools.store.read("sentence_graph", "pond").manifest == first.artefact.manifest
