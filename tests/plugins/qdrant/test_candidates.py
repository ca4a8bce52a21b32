"""One contract of candidates: what a vector store finds is what plain arrays find."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from qdrant_client import QdrantClient
from shared import copy_folder, run_alone

import mog_assets
from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.materialising import materialise
from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.index.postings import idf
from mog_assets.index.term_counts import open_counts
from mog_assets.index.vector_stores import open_candidates
from mog_assets.plugins.qdrant import candidates
from mog_assets.plugins.qdrant.collections import Sparse
from mog_assets.plugins.qdrant.points import payloads, point_ids
from mog_assets.plugins.qdrant.server import QdrantServer
from mog_assets.plugins.qdrant.settings import QdrantSettings
from mog_assets.plugins.qdrant.store import _connected, collections_of, name_of
from mog_assets.plugins.qdrant.words import rounded_mean
from mog_assets.search.index import Index, Query
from mog_assets.search.search import Scoring
from mog_assets.text.chunks import Layout

QUESTIONS = ["How deep should garlic cloves be planted?", "Why is the sky blue?", "sharpen a chisel chisel", "zzzq", ""]
# Read before tests are kept from the variables of the shell.
URL, KEY = os.environ.get("QDRANT_URL"), os.environ.get("QDRANT_API_KEY")
K = 10
pytestmark = pytest.mark.filterwarnings("ignore:Local mode performs exact")


def test_whatever_differs_in_a_point_gives_it_another_id():
    def ids(document="a", spans=((0, 9), (9, 20)), vectors=((1, 0), (0, 1)), words=((3,), (0.5,)), topics=(1, 1)):
        layout = Layout("c", [document], np.array([0, len(spans)]), np.array(spans))
        told = payloads(layout, 0, {"topic": (["x", "y"], np.array(topics))})
        assert told[0] == {"document": document, "start": 0, "end": spans[0][1], "topic": "xy"[topics[0]]}
        return point_ids(told, np.array(vectors, np.float16), [Sparse(*words), Sparse([4], [0.5])])

    others = [
        ids(document="b"),
        # The same places and another text of the same length: an edit.
        ids(vectors=((0.6, 0.8), (0, 1))),
        ids(spans=((0, 8), (8, 20))),
        ids(words=((3,), (0.6,))),
        ids(words=((5,), (0.5,))),
        ids(topics=(0, 1)),
    ]
    first, second = ids()
    assert first != second and ids() == [first, second]
    assert first not in [found[0] for found in others]
    # What did not change keeps its point.
    assert others[1][1] == second


class Arrays:
    """Candidates from plain arrays.

    Args:
        corpora: Of the pieces.
        mean: Of the lengths of a corpus' texts, given these; the mean of all corpora if there is none.
    """

    def __init__(self, corpora, mean=None):
        stored = [corpora.read("embeddings/level_1", name) for name in corpora.names]
        parts = [np.load(one.path(bucket)) for one in stored for bucket in one.names("bucket")]
        self.vectors = np.concatenate(parts).astype(np.float32)
        counts = [open_counts(corpora.read("bm25/level_1", n), corpora.read("tokens", n)) for n in corpora.names]
        lengths = [np.concatenate([part.lengths for part in of_corpus]).astype(float) for of_corpus in counts]
        self.every, self.mean = np.concatenate(lengths), np.concatenate(lengths).mean()
        means = np.concatenate([np.full(len(own), mean(own) if mean else self.mean) for own in lengths])
        options, self.counts, first = corpora.settings.bm25, [], 0
        self.norms = options.k1 * (1 - options.b + options.b * self.every / means)
        for part in (part for of_corpus in counts for part in of_corpus):
            self.counts.append((first, {term: i for i, term in enumerate(part.terms)}, part))
            first += len(part.lengths)

    def times(self, term):
        """How often each piece has a term."""
        times = np.zeros(len(self.every))
        for first, number, part in self.counts:
            if term in number:
                here = slice(*part.indptr[number[term] : number[term] + 2])
                times[first + part.indices[here].astype(int)] = part.counts[here]
        return times

    def weights(self, terms):
        """Weight of each term of a question."""
        frequencies = {term: max(np.count_nonzero(self.times(term)), 1) for term in terms}
        return {term: terms.count(term) * float(idf(len(self.every), np.array(f))) for term, f in frequencies.items()}

    def products(self, vectors):
        return np.asarray(vectors, np.float32) @ self.vectors.T

    def bm25(self, queries):
        scores = np.zeros((len(queries), len(self.every)))
        for row, query in zip(scores, queries, strict=True):
            for term, weight in query.items():
                row += weight * (times := self.times(term)) / (times + self.norms)
        return scores

    def nearest(self, vectors, k, allowed=None):
        return [self._best(row, k, allowed) for row in self.products(vectors)]

    def matching(self, queries, k, allowed=None):
        return [self._best(row, k, allowed) for row in self.bm25(queries)]

    @staticmethod
    def _best(scores, k, allowed):
        open_to = (scores != 0) if allowed is None else (scores != 0) & allowed
        pieces = np.flatnonzero(open_to)
        pieces = pieces[np.argsort(-scores[pieces], kind="stable")][:k]
        return pieces, scores[pieces].astype(np.float32)


@pytest.fixture(scope="module", params=["arrays", "embedded", "server"])
def opened(request, sample_project, tmp_path_factory):
    """Corpora with their candidates, the same by arrays, and vectors and weights of questions."""
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("candidates") / "project")
    # Who names it has searches ask it.
    settings = config.load(folder / "mog.yaml").model_copy(update={"qdrant": QdrantSettings()})
    tools, recipes, store = Tools(settings), plan.graph(settings), None
    corpora = Corpora.open(tools.store.read, settings, list(settings.corpora))
    if request.param == "server":
        client = QdrantClient(URL, api_key=KEY) if URL else QdrantClient(":memory:")
        tools._opened[_connected] = QdrantServer(URL or "memory", client=client)
    if request.param != "arrays":
        assert not recipes["qdrant"].on_demand and open_candidates(tools, corpora) is None
        for corpus in settings.corpora:
            assert materialise(recipes["qdrant"], corpus, tools, recipes).faults == {}
        store = open_candidates(tools, corpora)
    terms, plain = corpora.analysis.terms(QUESTIONS), Arrays(corpora)
    yield SimpleNamespace(
        store=store or plain,
        rounded=Arrays(corpora, rounded_mean) if store else plain,
        corpora=corpora,
        plain=plain,
        vectors=tools.encoder.encode_questions(QUESTIONS),
        terms=terms,
        queries=[plain.weights(of_question) for of_question in terms],
    )
    for corpus in settings.corpora if store else ():
        collections_of(tools).drop(name_of(corpus))


def masks(count):
    """Pieces that may be found."""
    draw = np.random.default_rng(0)
    few, many = np.zeros(count, bool), np.ones(count, bool)
    few[draw.choice(count, 12, replace=False)] = True
    many[draw.choice(count, 12, replace=False)] = False
    first = np.arange(count) < 3
    return {"all": None, "few": few, "but few": many, "half": draw.random(count) < 0.5, "three": first, "none": few & 0}


def assert_contract(results, exact, k, allowed, tolerance):
    """The best k by exact scores are among the results, whose scores are nearly these; none is not allowed."""
    for (pieces, scores), row in zip(results, exact, strict=True):
        open_to = (row != 0) if allowed is None else (row != 0) & allowed.astype(bool)
        assert len(set(pieces.tolist())) == len(pieces) and open_to[pieces].all()
        assert (np.diff(scores) <= 0).all()
        np.testing.assert_allclose(scores, row[pieces], atol=tolerance)
        best = np.sort(row[open_to])[::-1][:k]
        np.testing.assert_allclose(np.sort(row[pieces])[::-1][: len(best)], best, atol=1e-6)


@pytest.mark.parametrize("mask", masks(100))
@pytest.mark.parametrize("most", [10_000, 5])
def test_the_best_pieces_by_vectors_and_by_words_are_given_among_those_allowed(opened, monkeypatch, mask, most):
    # With few ids in a filter, what is not allowed is dropped after the search.
    monkeypatch.setattr(candidates, "_MOST_IDS", most)
    allowed = masks(len(opened.plain.every))[mask]
    near = opened.store.nearest(opened.vectors, K, allowed)
    assert_contract(near, opened.plain.products(opened.vectors), K, allowed, 0.02)
    matching = opened.store.matching(opened.queries, K, allowed)
    exact = opened.plain.bm25(opened.queries)
    assert_contract(matching, exact, K, allowed, 0.1 * exact.max())
    assert not len(matching[-1][0]) and not len(matching[-2][0])


def test_scores_by_words_are_those_of_the_postings(opened):
    """To 1e-4, with the mean length that a store has: the rounded one of each corpus."""
    scorings = [
        Scoring(
            index, Query("", terms, None, 1.0), index.corpora.words.matches(terms), index.corpora.titles.matches(terms)
        )
        for index in [Index(opened.corpora, None, None, None)]
        for terms in opened.terms
    ]
    exact = np.stack([scoring.words_of_pieces for scoring in scorings])
    np.testing.assert_allclose(opened.plain.bm25(opened.queries), exact, atol=1e-4)
    expected = opened.rounded.bm25(opened.queries)
    for (pieces, scores), row in zip(opened.store.matching(opened.queries, K), expected, strict=True):
        np.testing.assert_allclose(scores, row[pieces], atol=1e-4)
    assert exact.max() > 5


def test_a_project_that_does_not_name_it_builds_it_on_demand_and_does_not_ask_it(sample_project, tmp_path):
    folder = copy_folder(sample_project.folder, tmp_path / "project")
    settings = config.load(folder / "mog.yaml")
    assert plan.graph(settings)["qdrant"].on_demand
    report = run_alone(settings, select=["qdrant"])
    assert {step["asset"] for step in report.steps} == {"qdrant"} and not report.failures
    tools = Tools(settings)
    corpora = Corpora.open(tools.store.read, settings, list(settings.corpora))
    assert open_candidates(tools, corpora) is None
    named = settings.model_copy(update={"qdrant": QdrantSettings()})
    assert open_candidates(Tools(named), corpora) is not None


def test_answers_are_those_of_the_files(sample_project, tmp_path, monkeypatch):
    searches, best = [], candidates.QdrantCandidates._best
    monkeypatch.setattr(candidates.QdrantCandidates, "_best", lambda *given: searches.append(given) or best(*given))
    folder = copy_folder(sample_project.folder, tmp_path / "project")
    values = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8"))
    answers = []
    for more in ({}, {"qdrant": {}}):
        (folder / "mog.yaml").write_text(yaml.safe_dump({**values, **more}, sort_keys=False), encoding="utf-8")
        run_alone(config.load(folder / "mog.yaml"), select=["neighbours", *more])
        with mog_assets.open(folder / "mog.yaml") as project:
            wheres = ({}, {"corpus": "garden"}, {"id": {"starts": "t"}})
            found = [project.search(q, method="fused", where=where or None) for q in QUESTIONS[:3] for where in wheres]
            answers.append([[(p.corpus, p.document, p.start, p.end, p.score) for p in one.passages] for one in found])
            assert any(p.document for one in found for p in one.passages)
    # Two of each question, and of the one that opens what the first needs.
    assert answers[0] == answers[1] and len(searches) == 20
    # A run that replaces points, and one that has removed them.
    settings = config.load(folder / "mog.yaml")
    collections, size = collections_of(Tools(settings)), 384
    with mog_assets.open(settings) as project:
        with collections.open(name_of("garden"), size):
            assert project.search(QUESTIONS[0], method="fused").passages
        collections.drop(name_of("garden"))
        found = project.search(QUESTIONS[0], method="fused").passages
        assert [(p.corpus, p.document, p.start, p.end, p.score) for p in found] == answers[0][0]
        assert collections.count(name_of("garden")) == 0
