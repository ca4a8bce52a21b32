"""What is particular to endpoints in the form of Cohere: texts of a request, roles, and a budget of searches."""

import json
import os
import subprocess
import sys

import pytest
from embedding_server import EmbeddingServer
from rerank_server import RerankServer

from mog_assets.plugins.models.reranker import Reranker
from mog_assets.plugins.models.reranker_settings import RerankEndpointSettings, RerankerSettings, RerankRequest
from mog_assets.plugins.models.served_settings import EmbeddingsSettings
from mog_assets.resources.chat import SpendCapReached
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys

KEY = "sk-loopback-42"
READINGS = [
    RerankRequest("how deep is garlic planted", ["Garlic is planted deep.", "Stars are hot.", "Stars are hot."]),
    RerankRequest("what are stars", ["Garlic is planted deep.", "Stars are hot."]),
]


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("COHERE_API_KEY", KEY)


def test_a_request_has_no_more_texts_than_it_may():
    with EmbeddingServer("cohere") as server:
        endpoint = EmbeddingsSettings(form="cohere", url=server.url)
        Encoder(with_keys(EncoderSettings)(model="m-1", endpoint=endpoint)).encode([f"t{i}" for i in range(200)])
        assert max(len(body["texts"]) for body in server.bodies) == 96


def reranker(server, cache, **values):
    endpoint = RerankEndpointSettings(form=server.form, url=server.url, **values)
    made = Reranker(RerankerSettings(model="m", endpoint=endpoint), cache)
    made.model.service._jitter = lambda state: 0.0
    return made


def test_a_budget_of_searches_stops_requests(tmp_path):
    with RerankServer("cohere") as server:
        # A thousand searches cost 2,000 USD: each 2.
        capped = reranker(server, tmp_path, price=2000.0, budget_usd=3.0, concurrency=1)
        more = [RerankRequest(f"{reading.question} {i}", reading.texts) for i in range(3) for reading in READINGS]
        with pytest.raises(SpendCapReached, match=r"reranker.endpoint.budget_usd: this run has spent 4 USD"):
            capped.scores(more)
        reranker(server, tmp_path).scores(more)
        assert len(server.bodies) == len(more)


@pytest.mark.full
def test_a_project_is_built_and_searched_with_a_served_model_and_another_model_replaces_all_its_vectors(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in (("garlic", "Plant garlic cloves three inches deep."), ("stars", "Stars are hot balls of gas.")):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def mog(*arguments):
        command = [sys.executable, "-m", "mog_assets.cli", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def configure(model):
        encoder = {"model": model, "endpoint": {"form": "cohere", "url": server.url}}
        settings = {"corpora": {"c": {"path": "docs"}}, "encoder": encoder, "levels": 2, "home": "home"}
        (tmp_path / "mog.yaml").write_text(json.dumps(settings), encoding="utf-8")

    with EmbeddingServer("cohere") as server:
        configure("m-1")
        mog("run")
        passages = json.loads(mog("search", "How deep are garlic cloves?", "--method", "dense-1", "--json"))
        assert "garlic" in json.dumps(passages[0])
        assert [b["texts"] for b in server.bodies if b["input_type"] == "search_query"][-1] == [
            "How deep are garlic cloves?"
        ]
        asked = len(server.bodies)
        mog("run")
        assert len(server.bodies) == asked
        configure("m-2")
        mog("run")
        texts = {
            model: {t for b in server.bodies if b["model"] == model for t in b["texts"]} for model in ("m-1", "m-2")
        }
        assert texts["m-2"] == {t for t in texts["m-1"] if t != "How deep are garlic cloves?"}
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
