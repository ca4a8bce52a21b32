"""What `mog doctor` says of a Qdrant server."""

from pages_server import nobody, server  # noqa: F401 (fixtures)

from mog_assets.plugins.qdrant.findings import findings

KEY = "right-one"
HEADER = "api-key"


PAGES = {
    "/collections": {"result": {"collections": []}},
    "/": {"title": "qdrant - vector search engine", "version": "1.15.4"},
}


def test_a_qdrant_server_is_asked_for_its_version_with_the_key(server, nobody, monkeypatch):
    monkeypatch.setenv("QDRANT_URL", f"{server}/")
    assert "requires a key, and QDRANT_API_KEY is not set" in next(findings()).found
    monkeypatch.setenv("QDRANT_API_KEY", "wrong-one")
    finding = next(findings())
    assert finding.state == "problem" and "does not accept QDRANT_API_KEY (401)" in finding.found
    assert "wrong-one" not in str(finding)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    assert str(next(findings())) == f"ok       qdrant         server 1.15.4 at {server}"
    monkeypatch.setenv("QDRANT_URL", nobody)
    finding = next(findings())
    assert finding.state == "problem" and "no answer" in finding.found and "unset it" in finding.remedy
