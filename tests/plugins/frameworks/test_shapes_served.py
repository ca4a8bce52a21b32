"""Dify and OpenAI's client, answered by a server of the sample project."""

import pytest
from served import Served

pytestmark = pytest.mark.full
QUESTION = "How deep should garlic cloves be planted?"


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    started = Served(sample_project.neural, tmp_path_factory.mktemp("serve"))
    yield started
    started.end()


def test_dify_gets_its_shape(served):
    body = {"knowledge_id": "garden", "query": QUESTION, "retrieval_setting": {"top_k": 5, "score_threshold": 0.0}}
    status, _, told = served.call("/retrieval", body)
    scores = [record["score"] for record in told["records"]]
    assert status == 200 and scores[0] == 1.0 and scores == sorted(scores, reverse=True) and min(scores) >= 0
    assert all(set(r) == {"content", "score", "title", "metadata"} for r in told["records"])
    assert all(isinstance(record["metadata"], dict) for record in told["records"])
    body["retrieval_setting"]["score_threshold"] = 0.6
    kept = served.call("/retrieval", body)[2]["records"]
    assert [record["score"] for record in kept] == [score for score in scores if score >= 0.6]


def test_dify_gets_its_conditions_and_its_errors(served):
    body = {"knowledge_id": "all", "query": QUESTION, "retrieval_setting": {"top_k": 5, "score_threshold": 0}}
    condition = {"name": "title", "comparison_operator": "start with", "value": "Leek"}
    told = served.call("/retrieval", {**body, "metadata_condition": {"conditions": [condition]}})[2]
    assert {record["title"] for record in told["records"]} == {"Leek"}
    status, _, told = served.call("/retrieval", {**body, "knowledge_id": "nowhere"})
    assert (status, told["error_code"]) == (404, 2001) and "nowhere" in told["error_msg"]
    condition["comparison_operator"] = "not contains"
    status, _, told = served.call("/retrieval", {**body, "metadata_condition": {"conditions": [condition]}})
    assert status == 400 and "not contains" in told["error_msg"]


def test_the_client_of_openai_searches(served):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        page = client.vector_stores.search("garden", query=QUESTION, max_num_results=3)
        assert page.object == "vector_store.search_results.page"
        assert page.data[0].score == 1.0 and "cloves" in page.data[0].content[0].text
        assert page.data[0].file_id == "garden/garlic" and page.data[0].attributes["start"] == 0
        several = client.vector_stores.search("all", query=[QUESTION, "How is bread baked?"], max_num_results=4)
        assert {"garden/garlic", "workshop/bread.md"} <= {row.file_id for row in several.data}
        assert len(several.data) == 4
        only = {"type": "and", "filters": [{"type": "eq", "key": "title", "value": "Leek"}]}
        found = client.vector_stores.search("all", query=QUESTION, filters=only)
        assert {row.filename for row in found.data} == {"Leek"}
        with pytest.raises(openai.NotFoundError, match="nowhere"):
            client.vector_stores.search("nowhere", query=QUESTION)
        with pytest.raises(openai.BadRequestError, match="nin"):
            client.vector_stores.search("all", query=QUESTION, filters={"type": "nin", "key": "a", "value": ["b"]})


def test_the_page_of_the_routes_lists_them(served):
    text = served.call("/docs")[2].decode()
    for path in ("/retrieval", "/v1/vector_stores/{id}/search"):
        assert f"<code>{path}</code>" in text
    assert "retrieval_setting.top_k" in text


def test_the_page_of_the_routes_needs_no_other_host(served):
    status, headers, data = served.call("/docs")
    text = data.decode()
    for path in ("/v1/search", "/v1/ask", "/metrics"):
        assert f"<code>{path}</code>" in text
    assert "<script" not in text and "http://" not in text and "https://" not in text
    assert headers["content-security-policy"].startswith("default-src 'none'")
    # Below the path of a proxy, too.
    assert 'href="openapi.json"' in text and 'href="/' not in text
    assert served.call("/docs", method="HEAD")[0] == status == 200
