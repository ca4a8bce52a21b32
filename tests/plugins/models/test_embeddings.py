"""Vectors by embeddings endpoints: what is sent and read, and what happens where they misbehave."""

import json
import signal
import subprocess
import sys
import time
from email.utils import formatdate

import numpy as np
import pytest
from embedding_server import SIZE, EmbeddingServer, vector
from served import ran

from mog_assets.config import load
from mog_assets.plugins.models.reranker import Reranker
from mog_assets.plugins.models.reranker_settings import RerankEndpointSettings, RerankerSettings
from mog_assets.plugins.models.served import retry_after
from mog_assets.plugins.models.served_settings import EmbeddingsSettings
from mog_assets.resources.chat import SpendCapReached
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.registry import ENCODER_FORMS
from mog_assets.resources.store import Store

KEY = "sk-loopback-42"
TEXTS = [f"text number {i} of many" for i in range(40)]


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for form in ENCODER_FORMS.values():
        monkeypatch.setenv(form.provider.key, KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def encoder(server, cache=None, backoff=(0.0, 0.0), max_length=256, **values):
    of_model = {name: values.pop(name) for name in ("query_prompt", "passage_prompt", "dimensions") if name in values}
    endpoint = EmbeddingsSettings(form=server.form, url=server.url, **values)
    made = Encoder(with_keys(EncoderSettings)(model="m-1", endpoint=endpoint, max_length=max_length, **of_model), cache)
    made.model.service._jitter = lambda state: backoff[0]
    return made


def unit(texts, size=SIZE):
    rows = np.stack([vector(text, size) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("form", ENCODER_FORMS)
def test_requests_are_those_of_the_provider_and_vectors_come_back_in_order(form):
    with EmbeddingServer(form) as server:
        served = encoder(server, batch_tokens=60)
        vectors = served.encode(TEXTS)
        assert vectors.dtype == np.float16 and np.allclose(vectors, unit(TEXTS), atol=2e-3)
        assert len(server.bodies) > 1 and sorted(server.texts) == sorted(TEXTS)
        assert set(server.keys) == {f"Bearer {KEY}"} and {body["model"] for body in server.bodies} == {"m-1"}
        assert served.size == SIZE
        assert served.model.service.spent.units == sum(len(text.split()) for text in TEXTS)


@pytest.mark.parametrize("form", ENCODER_FORMS)
def test_questions_are_told_from_passages_where_the_provider_tells_them_apart(form):
    with EmbeddingServer(form) as server:
        served = encoder(server)
        served.encode(["one"])
        served.questions.encode(["one"])
        roles = [body.get("input_type") for body in server.bodies]
        assert (
            roles
            == {
                "openai": [None, None],
                "cohere": ["search_document", "search_query"],
                "voyage": ["document", "query"],
            }[form]
        )
        assert (served.questions.fingerprint == served.fingerprint) == (form == "openai")


def test_what_asks_an_endpoint_names_the_package_that_it_lacks_and_its_extra(monkeypatch):
    for module in ("served", "embeddings", "served_rerankers"):
        monkeypatch.delitem(sys.modules, f"mog_assets.plugins.models.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "httpx2", None)
    remedy = r"endpoint needs the package httpx2: pip install 'mog-assets\[openai\]'"
    with pytest.raises(MogError, match=f"encoder.{remedy}"):
        Encoder(with_keys(EncoderSettings)(model="m", endpoint=EmbeddingsSettings(url="http://localhost:1"))).model  # noqa: B018
    with pytest.raises(MogError, match=f"reranker.{remedy}"):
        Reranker(RerankerSettings(model="m", endpoint=RerankEndpointSettings(url="http://localhost:1"))).model  # noqa: B018


def test_prompts_are_put_before_texts_and_vectors_of_other_prompts_are_others(tmp_path):
    with EmbeddingServer() as server:
        served = encoder(server, tmp_path, query_prompt="query: ", passage_prompt="passage: ")
        served.encode(["one"])
        served.questions.encode(["one"])
        assert server.texts == ["passage: one", "query: one"]
        assert len({served.fingerprint, served.questions.fingerprint, encoder(server).fingerprint}) == 3


@pytest.mark.parametrize("form", ENCODER_FORMS)
def test_fewer_dimensions_are_asked_for(form):
    with EmbeddingServer(form) as server:
        assert encoder(server, dimensions=8).encode(["one"]).shape == (1, 8)


def test_a_request_has_no_more_texts_or_tokens_than_it_may():
    with EmbeddingServer() as server:
        encoder(server, batch_tokens=20, max_length=8).encode(["a" * 100 + str(i) for i in range(5)] + ["b", ""])
        # 8 tokens of four characters are sent of a text; nothing is no text.
        assert {len(text) for text in server.texts} == {32, 1} and " " in server.texts
        assert max(len(body["input"]) for body in server.bodies) <= 4
    with EmbeddingServer("cohere") as server:
        encoder(server).encode([f"t{i}" for i in range(200)])
        assert max(len(body["texts"]) for body in server.bodies) == 96


@pytest.mark.parametrize(
    "step",
    [
        (429, {"Retry-After": "0"}),
        (503, {}),
        lambda answer: {**answer, "data": answer["data"][1:]},
        lambda answer: {"error": "overloaded"},
        lambda answer: b"<html>Bad gateway</html>",
        lambda answer: b'{"data": [',
    ],
)
def test_a_fault_that_passes_costs_a_retry(step):
    with EmbeddingServer() as server:
        server.script.append(step)
        served = encoder(server)
        assert np.allclose(served.encode(TEXTS[:3]), unit(TEXTS[:3]), atol=2e-3)
        assert (served.model.service.spent.calls, served.model.service.spent.retries) == (2, 1)


def test_what_was_answered_before_a_fault_that_stays_is_kept_and_not_asked_for_again(tmp_path):
    with EmbeddingServer() as server:
        server.script += [None, None, *[(500, {})] * 50]
        with pytest.raises(MogError, match=r"encoder.endpoint: m-1 at .* did not answer \(attempts: 2.*HTTP 500"):
            encoder(server, tmp_path, batch_tokens=60, concurrency=1, attempts=2).encode(TEXTS)
        kept = {text for body in server.bodies[:2] for text in body["input"]}
        server.script.clear()
        server.bodies.clear()
        vectors = encoder(server, tmp_path, batch_tokens=60, concurrency=1).encode(TEXTS)
        assert np.allclose(vectors, unit(TEXTS), atol=2e-3)
        assert kept and set(server.texts) == set(TEXTS) - kept


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "rejected the request"),
        (401, "does not accept the key"),
        (402, "no credit for OPENAI_API_KEY"),
        (404, "has no model 'm-1'"),
    ],
)
def test_a_refusal_is_an_error_at_once_without_the_key(status, said):
    with EmbeddingServer() as server:
        # A 400 could be for the text: another one is asked for once.
        server.script += [(status, {"X-Key": KEY})] * 2
        with pytest.raises(MogError, match=said) as caught:
            encoder(server).encode(["one"])
        assert len(server.bodies) == 1 + (status == 400) and KEY not in str(caught.value)


SIZES = [
    (422, "batch size 100 > maximum allowed batch size 32"),
    (
        400,
        "<400> InternalError.Algo.InvalidParameter: batch size is invalid, it should not be larger than 10",
    ),
    (413, "<html>Request Entity Too Large</html>"),
    (400, "input数组最大不得超过64条"),
    (400, "Too many inputs. The max number of inputs is 16."),
    (422, "List should have at most 10 items after validation, not 11"),
]


@pytest.mark.parametrize("refusal", SIZES)
@pytest.mark.parametrize("most", [1, 10, 32])
def test_a_request_that_is_refused_for_its_size_is_halved_and_later_ones_are_smaller(refusal, most):
    texts = [f"text number {i}" for i in range(150)]
    with EmbeddingServer() as server:
        server.most, server.refusal = most, refusal
        served = encoder(server, batch_tokens=300, concurrency=1)
        assert np.allclose(served.encode(texts), unit(texts), atol=2e-3)
        sizes = [len(body["input"]) for body in server.bodies]
        # Of the first request only; halves may be of half the size that is allowed.
        assert sum(size > most for size in sizes) <= 8 and most / 2 <= max(sizes[-3:]) <= most


def test_texts_of_a_request_can_be_set():
    with EmbeddingServer() as server:
        server.most = 10
        assert np.allclose(encoder(server, batch_texts=10).encode(TEXTS), unit(TEXTS), atol=2e-3)
        assert [len(body["input"]) for body in server.bodies] == [10] * 4


@pytest.mark.parametrize("form", ENCODER_FORMS)
@pytest.mark.parametrize("how", ["null", "nan", "zero", 400, 422, 424, 500])
def test_a_text_without_a_vector_is_named_and_left_out_and_stops_nothing(form, how, tmp_path, caplog):
    texts = [*TEXTS, "this one is poisoned by a smiley", *map(str, range(30))]
    with EmbeddingServer(form) as server:
        server.bad["poisoned"] = how
        served = encoder(server, tmp_path, attempts=2)
        vectors = served.encode(texts)
        assert not vectors[40].any() and np.isfinite(vectors).all()
        others = [i for i in range(len(texts)) if i != 40]
        assert np.allclose(vectors[others], unit([texts[i] for i in others]), atol=2e-3)
        assert "'this one is poisoned by a smiley'" in caplog.text and caplog.text.count("has no vector") == 1
        assert "other" not in caplog.text
        # It is asked for again, and has a vector when the endpoint has one.
        server.bad.clear()
        server.bodies.clear()
        assert np.allclose(encoder(server, tmp_path).encode(texts), unit(texts), atol=2e-3)
        assert server.texts == [texts[40]]


@pytest.mark.parametrize("how", ["null", "nan", 400, 500])
def test_a_model_that_has_no_vector_for_any_text_is_an_error(how):
    with EmbeddingServer() as server:
        server.bad[""] = how
        with pytest.raises(MogError, match=r"encoder.endpoint: .*m-1"):
            encoder(server, attempts=2).encode(TEXTS)


def test_a_text_that_the_endpoint_calls_too_long_is_cut_and_named(caplog):
    long = "a long text " * 20
    with EmbeddingServer() as server:
        server.longest = 100
        vectors = encoder(server).encode([*TEXTS, long])
        assert np.allclose(vectors, unit([*TEXTS, long[:60]]), atol=2e-3)
        assert "first half of the text 'a long text" in caplog.text and "has no vector" not in caplog.text


@pytest.mark.parametrize(
    "numbering",
    [lambda i: {}, lambda i: {"index": None}, lambda i: {"index": 0}, lambda i: {"index": i + 1}],
)
def test_rows_without_a_number_are_in_the_order_of_the_texts(numbering):
    def renumbered(answer):
        rows = [row["embedding"] for row in answer["data"][::-1]]
        return {"data": [{"embedding": row, **numbering(i)} for i, row in enumerate(rows)]}

    with EmbeddingServer() as server:
        server.script.append(renumbered)
        assert np.allclose(encoder(server).encode(TEXTS), unit(TEXTS), atol=2e-3)
        assert len(server.bodies) == 1


def test_vectors_of_another_size_are_refused():
    with EmbeddingServer() as server:
        served = encoder(server)
        served.encode(["one"])
        server.size = 8
        with pytest.raises(MogError, match=r"expected vectors of size 16 from m-1 at .*, got 8: correct"):
            served.encode(["two"])


def test_a_budget_stops_requests_and_a_higher_one_goes_on(tmp_path):
    with EmbeddingServer() as server:
        # Six requests of five words each for every text.
        limits = {"batch_tokens": 60, "concurrency": 1, "price": 1000.0}
        with pytest.raises(
            SpendCapReached, match=r"encoder.endpoint.budget_usd: this run has spent .* the cap is 0.1:"
        ):
            encoder(server, tmp_path, budget_usd=0.1, **limits).encode(TEXTS)
        paid = len(server.texts)
        encoder(server, tmp_path, budget_usd=10.0, **limits).encode(TEXTS)
        assert 0 < paid < len(TEXTS) and sorted(server.texts) == sorted(TEXTS)


def test_a_provider_needs_a_key_and_a_server_of_your_own_none(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(
        MogError, match="expected OPENAI_API_KEY in the environment, got none for https://api.openai.com"
    ):
        Encoder(with_keys(EncoderSettings)(model="m-1", endpoint=EmbeddingsSettings())).encode(["one"])
    with EmbeddingServer() as server:
        encoder(server).encode(["one"])
        assert server.keys == [None]


def test_a_process_that_is_killed_pays_again_for_what_was_under_way_alone(tmp_path):
    code = f"""
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings, with_keys
import sys, json
settings = with_keys(EncoderSettings).model_validate_json(sys.argv[1])
Encoder(settings, __import__("pathlib").Path({str(tmp_path)!r})).encode({TEXTS!r})
"""
    with EmbeddingServer() as server:
        settings = encoder(server, batch_tokens=20, concurrency=2).settings.model_dump_json()
        command = [sys.executable, "-c", code, settings]
        child = subprocess.Popen(command)
        server.on_request = lambda number: child.send_signal(signal.SIGKILL) if number == 8 else None
        assert child.wait(60) == -signal.SIGKILL
        server.on_request = lambda number: None
        before = [text for body in server.bodies for text in body["input"]]
        server.bodies.clear()
        subprocess.run(command, check=True, timeout=60)
        again = set(before) & set(server.texts)
        # The two requests under way, and one whose answer may not have been stored yet.
        most = 3 * max(len(body["input"]) for body in server.bodies)
        assert before and len(again) <= most and set(before) | set(server.texts) == set(TEXTS)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"form": "azure"}, "encoder.endpoint.form: expected"),
        ({"url": "http://user:secret@host/v1"}, "encoder.endpoint.url: expected a URL such as"),
        ({"url": "ftp://host"}, "encoder.endpoint.url: expected a URL such as"),
        ({"budget_usd": 1}, "encoder.endpoint: expected price above 0 with budget_usd"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, values, said):
    (tmp_path / "docs").mkdir()
    settings = {"corpora": {"c": {"path": "docs"}}, "encoder": {"model": "m", "endpoint": values}}
    (tmp_path / "mog.yaml").write_text(json.dumps(settings))
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "mog.yaml")
    assert said in str(caught.value)


@pytest.mark.full
def test_a_text_without_a_vector_is_counted_named_and_found_by_its_words_and_an_edit_equals_a_rebuild(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    texts = {"garlic": "Plant garlic cloves deep.", "stars": "Stars are hot gas.", "odd": "A poisoned smiley of zinc."}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def documents(method, question):
        return [row["document"] for row in json.loads(ran(tmp_path, "search", question, "--method", method, "--json"))]

    def built(home):
        encoder = {"model": "m-1", "endpoint": {"url": server.url}}
        settings = {"corpora": {"c": {"path": "docs"}}, "encoder": encoder, "levels": 2, "home": home}
        (tmp_path / "mog.yaml").write_text(json.dumps(settings), encoding="utf-8")
        said = ran(tmp_path, "run", "--select", "embeddings/level_2") + ran(tmp_path, "run")
        store = Store(tmp_path / home)
        files = {}
        for key in ("embeddings/level_1", "embeddings/level_2"):
            artefact = store.read(key, "c")
            files |= {(key, name): artefact.path(name).read_bytes() for name in artefact.names("")}
        return said, files

    with EmbeddingServer() as server:
        server.bad["poisoned"] = "null"
        said, _ = built("home")
        assert "embeddings/level_1 of corpus c: 1 of 3 texts have no vector" in said and "odd.txt (0–26)" in said
        assert json.loads(ran(tmp_path, "documents", "--json"))[0]["texts without vector"] == 1
        assert documents("fused", "What is zinc?")[0] == "odd.txt"
        for method in ("dense-1", "dense-2"):
            # What points the other way is no candidate.
            assert {"garlic.txt"} <= set(documents(method, "What is zinc?")) <= {"garlic.txt", "stars.txt"}
        (folder / "stars.txt").write_text("Stars are very hot balls of gas.", encoding="utf-8")
        _, edited = built("home")
        _, rebuilt = built("another")
        assert edited == rebuilt


@pytest.mark.full
def test_a_project_is_built_and_searched_with_a_served_model_and_another_model_replaces_all_its_vectors(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name, text in (("garlic", "Plant garlic cloves three inches deep."), ("stars", "Stars are hot balls of gas.")):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def configure(model):
        encoder = {"model": model, "endpoint": {"form": "cohere", "url": server.url}}
        settings = {"corpora": {"c": {"path": "docs"}}, "encoder": encoder, "levels": 2, "home": "home"}
        (tmp_path / "mog.yaml").write_text(json.dumps(settings), encoding="utf-8")

    with EmbeddingServer("cohere") as server:
        configure("m-1")
        ran(tmp_path, "run")
        passages = json.loads(ran(tmp_path, "search", "How deep are garlic cloves?", "--method", "dense-1", "--json"))
        assert "garlic" in json.dumps(passages[0])
        assert [b["texts"] for b in server.bodies if b["input_type"] == "search_query"][-1] == [
            "How deep are garlic cloves?"
        ]
        asked = len(server.bodies)
        ran(tmp_path, "run")
        assert len(server.bodies) == asked
        configure("m-2")
        ran(tmp_path, "run")
        texts = {
            model: {t for b in server.bodies if b["model"] == model for t in b["texts"]} for model in ("m-1", "m-2")
        }
        assert texts["m-2"] == {t for t in texts["m-1"] if t != "How deep are garlic cloves?"}
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


def test_retry_after_is_read_as_seconds_or_a_date_or_not_at_all():
    assert [retry_after(header) for header in ("12", "0.5", "-3")] == [12, 0.5, 0]
    assert 3500 <= retry_after(formatdate(time.time() + 3600, usegmt=True)) <= 3600
    assert retry_after(formatdate(time.time() - 3600, usegmt=True)) == 0
    for header in (None, "", "soon", "nan", "inf", "Mon, 99 Foo 99999999 00:00:00 GMT"):
        assert retry_after(header) is None
