"""Routes in the shapes of Dify and OpenAI: what they take, and errors that their clients read."""

import pytest

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
