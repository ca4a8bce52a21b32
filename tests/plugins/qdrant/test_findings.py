"""What `mog doctor` says of a Qdrant server."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mog_assets.plugins.qdrant.findings import findings

KEY = "right-one"


class Server(BaseHTTPRequestHandler):
    """Lists collections to those who have the key."""

    def do_GET(self):
        given = self.headers.get("api-key") or ""
        pages = {
            "/collections": {"result": {"collections": []}},
            "/": {"title": "qdrant - vector search engine", "version": "1.15.4"},
        }
        status = 401 if given != KEY else 200 if self.path in pages else 404
        body = json.dumps(pages.get(self.path, {})).encode() if status == 200 else b"wrong key " + given.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture
def nobody():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


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
