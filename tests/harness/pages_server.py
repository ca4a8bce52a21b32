"""A server of pages as JSON, for those who have the key; and an address at which nothing listens."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@contextmanager
def pages_server(pages, header, key):
    """Serve pages by path to those whose header has the key; gives the address."""

    class Server(BaseHTTPRequestHandler):
        # A body that waits for the acknowledgement of its head takes 40 ms more.
        disable_nagle_algorithm = True

        def do_GET(self):
            given = (self.headers.get(header) or "").removeprefix("Bearer ")
            status = 401 if given != key else 200 if self.path in pages else 404
            body = json.dumps(pages.get(self.path, {})).encode() if status == 200 else b"wrong key " + given.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.fixture(scope="module")
def server(request):
    """Serve the pages of a module of tests with its key."""
    module = request.module
    with pages_server(module.PAGES, module.HEADER, module.KEY) as address:
        yield address


@pytest.fixture
def nobody():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
