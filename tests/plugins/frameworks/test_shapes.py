"""Routes in the shapes of Dify and OpenAI: what they take, and errors that their clients read."""

import pytest
from served import Served

pytest.importorskip("fastapi")
from starlette.testclient import TestClient

from mog_assets.plugins.frameworks.compatible import Condition, Conditions, dify_where, openai_where
from mog_assets.plugins.frameworks.scores import shares
from mog_assets.serve import http
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.problems import Problem

KEY = "a-key-of-many-letters"


class Project:
    """What the routes that are asked here read."""

    authorizer = None
    unnoted, names, seen_as = 0, ["c"], []
    version, trouble, loaded = "1", "", 0.0


def client(**options):
    return TestClient(http.app(Project(), ServerOptions(**options)), "http://localhost")


def test_dify_and_openai_get_their_own_errors_for_a_wrong_key():
    with client(key=KEY) as made:
        assert made.post("/retrieval", json={}).json()["error_code"] == 1001
        wrong = made.post("/retrieval", json={}, headers={"Authorization": "Bearer x"}).json()
        assert wrong["error_code"] == 1002 and wrong["error_msg"]
        assert made.post("/v1/vector_stores/all/search", json={}).json()["error"]["type"] == "invalid_request_error"


def test_scores_are_shares_of_the_best():
    assert shares([]) == []
    assert shares([4.0, 2.0, 1.0]) == [1.0, 0.5, 0.25]
    assert shares([3.0, 1.0, -1.0]) == [1.0, 0.5, 0.0]
    assert shares([0.0, 0.0]) == [1.0, 1.0]


def test_conditions_of_dify():
    def where(*conditions, operator="and"):
        made = [Condition(name=n, comparison_operator=o, value=v) for n, o, v in conditions]
        return dify_where(Conditions(logical_operator=operator, conditions=made))

    assert where() is None and dify_where(None) is None
    assert where(("lang", "is", "en"), ("year", "≥", "2020"), ("year", "<", 2024)) == {
        "lang": "en",
        "year": {"gte": 2020, "lt": 2024},
    }
    assert where(("tag", "in", ["a", "b"])) == {"tag": ["a", "b"]}
    assert where(("path", "end with", "*.pdf")) == {"path": {"ends": "*.pdf"}}
    for bad in ([("a", "is not", "b")], [("a", "empty", None)], [("a", "is", "b"), ("a", "is", "c")]):
        with pytest.raises(Problem):
            where(*bad)
    with pytest.raises(Problem):
        where(("a", "is", "b"), ("c", "is", "d"), operator="or")


def test_filters_of_openai():
    year = {"type": "gte", "key": "year", "value": 2020}
    until_2024 = {"type": "lt", "key": "year", "value": 2024}
    nested = {"type": "and", "filters": [year, {"type": "and", "filters": [until_2024]}]}
    assert openai_where(nested) == {"year": {"gte": 2020, "lt": 2024}}
    assert openai_where({"type": "in", "key": "tag", "value": ["a"]}) == {"tag": ["a"]}
    assert openai_where(None) is None
    for bad in ({"type": "or", "filters": []}, {"type": "eq", "key": "a"}, {"type": "and", "filters": ["x"]}, {"a": 1}):
        with pytest.raises(Problem):
            openai_where(bad)


def test_a_chat_program_asks_for_one_model():
    with client() as made:
        listed = made.get("/v1/models").json()["data"]
        assert [made.get(f"/v1/models/{one['id']}").json() for one in listed] == listed and len(listed) == 2
        missing = made.get("/v1/models/gpt-5")
        assert missing.status_code == 404 and "got 'gpt-5'" in missing.json()["error"]["message"]


# By a server of the sample project


QUESTION = "How deep should garlic cloves be planted?"


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    started = Served(sample_project.neural, tmp_path_factory.mktemp("serve"))
    yield started
    started.end()


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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
