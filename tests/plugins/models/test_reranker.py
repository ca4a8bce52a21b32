"""Rerankers: endpoints against a strict server on loopback, a cross-encoder in a folder, and a project with one."""

import json
import os
import shutil

import numpy as np
import pytest
from rerank_server import RerankServer, score
from served import ran
from shared import ROOT, new_project, run_alone
from tiny_encoder import tiny_encoder

from mog_assets.build.plan import graph, needed
from mog_assets.build.tools import Tools
from mog_assets.config import load
from mog_assets.plugins.models import findings
from mog_assets.plugins.models.reranker import Reranker
from mog_assets.plugins.models.reranker_settings import RerankEndpointSettings, RerankerSettings, RerankRequest
from mog_assets.resources.chat import SpendCapReached
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.registry import RERANKER_FORMS
from mog_assets.search.index import CHOSEN

READINGS = [
    RerankRequest("how deep is garlic planted", ["Garlic is planted deep.", "Stars are hot.", "Stars are hot."]),
    RerankRequest("what are stars", ["Garlic is planted deep.", "Stars are hot."]),
]
EXPECTED = [[score(reading.question, text) for text in reading.texts] for reading in READINGS]


def reranker(server, cache=None, **values):
    endpoint = RerankEndpointSettings(form=server.form, url=server.url, **values)
    made = Reranker(RerankerSettings(model="m", endpoint=endpoint), cache)
    made.model.service._jitter = lambda state: 0.0
    return made


def listed(scores):
    return [[round(float(value), 4) for value in row] for row in scores]


@pytest.mark.parametrize("form", RERANKER_FORMS)
def test_requests_are_those_of_the_provider_and_scores_come_back_by_text(form):
    with RerankServer(form) as server:
        assert listed(reranker(server).scores(READINGS)) == EXPECTED
        # The same text is read once.
        assert sorted(len(body.get("texts", body.get("documents"))) for body in server.bodies) == [2, 2]


def test_what_was_read_is_not_read_again_and_a_new_text_of_an_old_question_alone(tmp_path):
    with RerankServer() as server:
        reranker(server, tmp_path).scores(READINGS[:1])
        assert listed(reranker(server, tmp_path).scores(READINGS)) == EXPECTED
        assert [body["query"] for body in server.bodies] == [reading.question for reading in READINGS]
        reranker(server, tmp_path).scores([RerankRequest(READINGS[0].question, [*READINGS[0].texts, "Soil is brown."])])
        assert server.bodies[2]["documents"] == ["Soil is brown."] and reranker(server, tmp_path).scores([]) == []


def test_a_budget_of_searches_stops_requests(tmp_path, monkeypatch):
    monkeypatch.setenv("COHERE_API_KEY", "sk-loopback-42")
    with RerankServer("cohere") as server:
        # A thousand searches cost 2,000 USD: each 2.
        capped = reranker(server, tmp_path, price=2000.0, budget_usd=3.0, concurrency=1)
        more = [RerankRequest(f"{reading.question} {i}", reading.texts) for i in range(3) for reading in READINGS]
        with pytest.raises(SpendCapReached, match=r"reranker.endpoint.budget_usd: this run has spent 4 USD"):
            capped.scores(more)
        reranker(server, tmp_path).scores(more)
        assert len(server.bodies) == len(more)


@pytest.mark.parametrize(
    "step",
    [
        503,
        429,
        lambda answer: {**answer, "results": answer["results"][1:]},
        lambda answer: {**answer, "results": [{**row, "index": 9} for row in answer["results"]]},
        lambda answer: {"results": "none"},
    ],
)
def test_a_fault_that_passes_costs_a_retry(step):
    with RerankServer() as server:
        server.script.append(step)
        asked = reranker(server)
        assert listed(asked.scores(READINGS[:1])) == EXPECTED[:1]
        assert asked.model.service.spent.retries == 1


def test_scores_that_are_no_shares_are_refused():
    with RerankServer() as server:
        server.script.append(lambda a: {**a, "results": [{**row, "relevance_score": -3.5} for row in a["results"]]})
        with pytest.raises(MogError, match=r"expected scores from 0 to 1 of m at .*, got -3.5 to -3.5"):
            reranker(server).scores(READINGS[:1])


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    """A cross-encoder of random weights that reads letters."""
    from transformers import BertConfig, BertForSequenceClassification

    folder = tiny_encoder(tmp_path_factory.mktemp("cross"), 1)
    BertForSequenceClassification(BertConfig.from_pretrained(folder, num_labels=1)).save_pretrained(
        folder, safe_serialization=True
    )
    return folder


def test_a_cross_encoder_in_a_folder_reads_pairs_and_the_same_alone_as_among_others(cross_encoder):
    local = Reranker(RerankerSettings(model=str(cross_encoder)))
    together = local.scores(READINGS)
    alone = [[local.scores([RerankRequest(r.question, [text])])[0][0] for text in r.texts] for r in READINGS]
    assert all(np.array_equal(row, ones) for row, ones in zip(together, alone, strict=True))
    assert all(((row > 0) & (row < 1)).all() for row in together)
    assert together[0][1] == together[0][2] != together[0][0]


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    """A model of random weights that scores no pairs."""
    from transformers import BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("masked")
    BertForMaskedLM(BertConfig.from_pretrained(tiny_encoder(folder, 1))).save_pretrained(folder)
    return folder


def test_a_model_of_another_kind_whose_weights_would_be_random_is_refused(masked):
    with pytest.raises(MogError, match=r"expected a cross-encoder, .*its files name BertForMaskedLM\)"):
        Reranker(RerankerSettings(model=str(masked))).scores(READINGS)


def test_other_files_another_address_and_other_pieces_are_another_reranker(cross_encoder, tmp_path):
    def identity(**values):
        return Reranker(RerankerSettings(**{"model": "m", **values})).identity

    copied = shutil.copytree(cross_encoder, tmp_path / "copied")
    before = identity(model=str(copied))
    (copied / "config.json").write_text("{}")
    there, here = ({"form": "jina", "url": f"http://{host}:80"} for host in ("there", "here"))
    others = [identity(), identity(pieces=5), identity(endpoint=there), identity(endpoint=here)]
    assert before != identity(model=str(copied))
    assert all(one != other for i, one in enumerate(others) for other in others[:i])
    assert identity(device="cpu") == identity()


def test_naming_a_model_makes_it_an_expert_and_the_expert_needs_a_model(tmp_path):
    (tmp_path / "docs").mkdir()

    def loaded(**values):
        (tmp_path / "mog.yaml").write_text(json.dumps({"corpora": {"c": {"path": "docs"}}, **values}))
        return load(tmp_path / "mog.yaml")

    named = loaded(reranker={"model": "m", "endpoint": "jina"})
    assert named.ranking.experts == ["mention", "pagerank", "reranker"]
    assert loaded(reranker={"model": "m", "endpoint": "jina"}, ranking={"experts": []}).ranking.experts == ["reranker"]
    with pytest.raises(ConfigError, match="ranking.experts: expected the section `reranker`"):
        loaded(ranking={"experts": ["reranker"]})


@pytest.mark.full
def test_auto_asks_a_reranker_that_is_significantly_better_and_says_what_that_costs(tmp_path):
    random = np.random.default_rng(0)
    words = [
        "the",
        "report",
        "names",
        "a",
        "river",
        "of",
        "stones",
        "and",
        "its",
        "old",
        "mill",
        "with",
        "green",
        "doors",
    ]

    def sentences(count):
        return " ".join(f"{' '.join(random.choice(words, 10))}.".capitalize() for _ in range(count))

    # What leads from a question to its document, the reranker alone knows.
    texts = [f"{sentences(10)} Here it is zork{number}. {sentences(10)}" for number in range(24)]
    documents = [{"id": f"d{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    questions = [
        {
            "question": f"What is in folder {number}?",
            "evidence": [{"corpus": "c", "doc": f"d{number}", "quote": f"Here it is zork{number}."}],
            "split": "train",
        }
        for number in range(24)
    ]
    for name, rows in (("documents", documents), ("questions", questions)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")

    def knows(question, text):
        return 0.9 if f"zork{question.rstrip('?').split()[-1]}." in text else 0.1

    with RerankServer("jina", knows) as server:
        values = {
            "corpora": {"c": {"path": "documents.jsonl"}},
            "question_sets": {"q": {"path": "questions.jsonl", "corpora": ["c"], "train": ["train"], "test": []}},
            "reranker": {"model": "m", "endpoint": {"form": "jina", "url": server.url, "price": 2.0}, "pieces": 200},
            "levels": 2,
        }
        project = new_project(tmp_path, values)
        report = run_alone(project.settings, select=sorted(needed(graph(project.settings), ["method"])))
        assert not report.failures
        assert server.bodies[-1]["query"] == "How long does it read?"
    stored = Tools(project.settings).store.read("method")
    chosen = json.loads(stored.path(CHOSEN).read_bytes())
    assert chosen["method"] in ("reranked", "tuned", "mog", "mix")
    assert "for every question a reranker reads 200 pieces, for 2 USD a million tokens" in chosen["why"]


# A package that registers a reranker of its own.
WORDS = """
import numpy as np
from mog_assets import registry
from mog_assets.plugins.models.reranking import reranking

def common_words(question, texts):
    words = set(question.lower().split())
    return np.array([len(words & set(text.lower().split())) for text in texts])

registry.EXPERTS.register("words", reranking("words", common_words, pieces=5, reason="it has its words"))
"""


@pytest.mark.full
def test_a_reranker_of_another_package_reads_the_best_pieces_and_is_explained(tmp_path):
    (tmp_path / "docs").mkdir()
    for name, text in (("heron", "The heron nests in reeds."), ("kite", "The kite nests on cliffs.")):
        (tmp_path / "docs" / f"{name}.txt").write_text(text, encoding="utf-8")
    info = tmp_path / "site" / "words-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: words\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[mog_assets.plugins]\nwords = words_reranker\n", encoding="utf-8")
    (tmp_path / "site" / "words_reranker.py").write_text(WORDS, encoding="utf-8")
    settings = {"corpora": {"c": {"path": "docs"}}, "levels": 2, "home": "home", "ranking": {"experts": ["words"]}}
    (tmp_path / "mog.yaml").write_text(json.dumps(settings), encoding="utf-8")

    site = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])

    def mog(*words):
        return ran(tmp_path, *words, PYTHONPATH=site)

    def explained(method):
        asked = mog("search", "Where does the heron nest?", "--method", method, "--explain", "--json")
        passages = json.loads(asked)
        assert passages[0]["document"] == "heron.txt"
        return any("it has its words" in passage["explanation"] for passage in passages)

    mog("run")
    # It costs time, or money.
    assert explained("reranked") and not explained("fused")


@pytest.mark.full
def test_a_project_ranks_explains_and_says_what_read_with_the_question(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    texts = {
        "a": "Bulbs of garlic go into soil. Depth matters for them. Three inches is right.",
        "b": "How deep is garlic planted. Nobody in the village knows.",
        "c": "Stars are hot balls of gas.",
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def mog(*words):
        return ran(tmp_path, *words)

    questions = [
        {"question": "How many inches of soil for garlic bulbs?", "docs": ["a.txt"], "split": "train"},
        {"question": "Who in the village knows how deep?", "docs": ["b.txt"], "split": "train"},
        {"question": "What are hot balls of gas?", "docs": ["c.txt"], "split": "test"},
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    with RerankServer("jina") as server:
        reads = {"model": "m", "endpoint": {"form": "jina", "url": server.url}, "pieces": 3}
        sets = {"q": {"path": "questions.jsonl", "corpora": ["c"], "train": ["train"], "test": ["test"]}}
        settings = {"corpora": {"c": {"path": "docs"}}, "levels": 2, "home": "home", "reranker": reads}
        (tmp_path / "mog.yaml").write_text(json.dumps(settings | {"question_sets": sets}), encoding="utf-8")
        mog("run")
        (finding,) = findings.reranker(load(tmp_path / "mog.yaml"))
        assert f"m at {server.url}" in finding.found
        assert "reranked" in mog("scores", "--all")
        server.bodies.clear()
        # Two questions cannot show that it is better.
        assert json.loads(mog("search", "how deep is garlic planted", "--json")) and not server.bodies
        assert "it asks no reranker" in (tmp_path / "home/store/method").rglob("method*.json").__next__().read_text()
        shown = mog("search", "how deep is garlic planted", "--method", "reranked", "--explain")
        assert server.bodies and all("garlic" in body["query"] for body in server.bodies)
        assert "read together with the question" in shown
        passages = json.loads(mog("search", "how deep is garlic planted", "--method", "reranked", "--json"))
        assert "/b" in json.dumps(passages[0]) or '"b' in json.dumps(passages[0])
