"""Permissions with nothing else installed: everybody sees their own, by Python, HTTP and the command line."""

import json

import pytest
import yaml
from click.testing import CliRunner
from fastapi.testclient import TestClient

import mog_assets
from mog_assets.cli import main
from mog_assets.plugins.permissions.rules import hashed
from mog_assets.registry import AUTHORIZERS
from mog_assets.resources.errors import ConfigError, NotAllowed
from mog_assets.serve import http
from mog_assets.serve.limits import ServerOptions

KEY = "ann-has-a-key-of-many-letters"
RULES = {
    "principals": {"ann": {"key": hashed(KEY)}, "bob": {"groups": ["staff"]}},
    "rules": [{"allow": ["everyone"], "where": {"corpus": "open"}}, {"allow": ["staff"]}],
}


def test_everybody_sees_their_own(tmp_path, make_project, materialise_project, write_documents, monkeypatch):
    write_documents(tmp_path / "open.jsonl", [("hens", "Hens lay eggs in spring."), ("owls", "Owls hunt voles.")])
    write_documents(tmp_path / "closed.jsonl", [("eggs", "Eggs of hens are counted in the barn.")])
    (tmp_path / "access.yaml").write_text(yaml.safe_dump(RULES), encoding="utf-8")
    corpora = {name: {"path": f"{name}.jsonl"} for name in ("open", "closed")}
    made = make_project(tmp_path, {"corpora": corpora, "permissions": "access.yaml"})
    assert not materialise_project(made.settings).failures
    with mog_assets.open(made.settings, refresh=None) as opened:
        with pytest.raises(NotAllowed, match="as_principal"):
            opened.search("hens")
        for name, groups, corpora in (("ann", [], {"open"}), ("ann", ["staff"], {"open", "closed"})):
            seen = opened.as_principal(name, groups)
            assert {passage.corpus for passage in seen.search("Who lays eggs?", k=9).passages} == corpora
            assert set(seen.names) == corpora
        client = TestClient(http.app(opened, ServerOptions()), "http://localhost")
        assert client.post("/v1/search", json={"question": "hens"}).status_code == 401
        client.headers["Authorization"] = f"Bearer {KEY}"
        answer = client.post("/v1/search", json={"question": "hens", "k": 9}).json()
        assert {passage["corpus"] for passage in answer["passages"]} == {"open"}
    monkeypatch.chdir(tmp_path)
    printed = json.loads(CliRunner().invoke(main, ["permissions", "--json"]).output)
    counts = {row.pop("principal"): row for row in printed}
    assert counts["ann"] == {"open": 2, "closed": 0} and counts["bob"] == counts["*"] == {"open": 2, "closed": 1}
    monkeypatch.setitem(AUTHORIZERS._values, "other", lambda settings: object())
    with pytest.raises(ConfigError, match="expected one that says who may see what, got permissions and other"):
        mog_assets.open(made.settings)
