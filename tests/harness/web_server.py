"""A web site on loopback: pages with etags, which count how often they are asked for and how often they are sent."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebServer:
    """The server; ends with its context.

    Attributes:
        url: Without a slash at the end.
        pages: Bytes or text by path, or a status; may be changed while it runs.
        kinds: `Content-Type` by path, where it is not that of the suffix.
        requests: Method, path and status of every request, in order.
    """

    def __init__(self, pages):
        self.pages, self.requests, self.kinds = pages, [], {}

    def sent(self, path=None):
        """How many answers had a body, of a page or of all."""
        got = (place for method, place, status in self.requests if method == "GET" and status == 200)
        return sum(path in (None, place) for place in got)

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            # A body that waits for the acknowledgement of its head takes 40 ms more.
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                page = server.pages.get(self.path, 404)
                if callable(page):
                    page = page(self)
                body = page.encode() if isinstance(page, str) else page if isinstance(page, bytes) else b""
                etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
                status = page if isinstance(page, int) else 200
                if status == 200 and self.headers.get("If-None-Match") == etag:
                    status, body = 304, b""
                server.requests.append((self.command, self.path, status))
                self.send_response(status)
                self.send_header("ETag", etag)
                self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
                if status == 302:
                    self.send_header("Location", "http://elsewhere.example/")
                kind = "application/xml" if self.path.endswith(".xml") else "text/html; charset=utf-8"
                kind = "text/plain" if self.path.endswith(".txt") else kind
                self.send_header("Content-Type", server.kinds.get(self.path, kind))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def do_HEAD(self):
                self.do_GET()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
