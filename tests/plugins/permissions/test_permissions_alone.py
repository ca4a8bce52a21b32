"""Permissions with nothing else installed: everybody sees their own, by Python, HTTP and the command line."""

import json

import jsonschema
import pytest
import yaml
from documentation import blocks
from fastapi.testclient import TestClient
from pages_server import nobody  # noqa: F401 (a fixture)
from shared import ROOT, called

import mog_assets
from mog_assets.cli.findings import run_check
from mog_assets.plugins.permissions import findings
from mog_assets.plugins.permissions.rules import PermissionSettings, hashed
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
    printed = json.loads(called("permissions", "--json").output)
    counts = {row.pop("principal"): row for row in printed}
    assert counts["ann"] == {"open": 2, "closed": 0} and counts["bob"] == counts["*"] == {"open": 2, "closed": 1}
    monkeypatch.setitem(AUTHORIZERS._values, "other", lambda settings: object())
    with pytest.raises(ConfigError, match="expected one that says who may see what, got permissions and other"):
        mog_assets.open(made.settings)


# The page


def test_every_file_of_rules_on_a_page_is_one_and_meets_the_schema():
    schema, shown = jsonschema.Draft202012Validator(PermissionSettings.model_json_schema()), 0
    for page in (ROOT / "docs").glob("*.md"):
        for body in blocks(page, "yaml"):
            if not body.startswith("# access.yaml"):
                continue
            raw, shown = yaml.safe_load(body), shown + 1
            assert list(schema.iter_errors(raw)) == [], page
            for principal in raw.get("principals", {}).values():
                # Shortened on the page.
                assert principal["key"].startswith("sha256:")
                principal["key"] = hashed("a key")
            assert PermissionSettings.model_validate_json(json.dumps(raw), strict=True).rules
    assert shown


# What mog doctor says


def test_rules_that_cannot_be_read_and_keys_that_are_not_there_are_problems(make_project, tmp_path, nobody):
    project = make_project(tmp_path, {"corpora": {"notes": {"path": str(tmp_path / "notes")}}})
    rules = tmp_path / "access.yaml"
    settings = project.settings.model_copy(update={"permissions": rules})

    def found(text):
        rules.write_text(text, encoding="utf-8")
        (finding,) = run_check("permissions", findings.permissions, settings)
        return finding

    assert list(findings.permissions(project.settings)) == []
    (missing,) = run_check("permissions", findings.permissions, settings)
    assert "access.yaml" in missing.found
    good = "principals: {ann: {groups: [staff]}}\nrules: [{allow: [staff]}]\n"
    assert found(good).state == "ok" and found(good).found.endswith("access.yaml: principals 1, rules 1")
    wrong = found("rules: [{allow: staff}]\n")
    assert wrong.state == "problem" and "rules.0.allow" in wrong.found
    other = found(good + "push: [{allow: [staff], corpora: [notes]}]\n")
    assert other.state == "warning" and "push names notes" in other.found
    away = found(good + f"jwt: {{keys: '{nobody}/keys', issuer: i, audience: a}}\n")
    assert away.state == "problem" and "jwt.keys: expected keys from" in away.found
