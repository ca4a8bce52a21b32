"""A web site on loopback: pages with etags, which count how often they are asked for and how often they are sent."""

import hashlib

from loopback import Loopback


class WebServer(Loopback):
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

    @property
    def url(self):
        return self.base

    def answered(self, request, body):
        page = self.pages.get(request.path, 404)
        if callable(page):
            page = page(request)
        body = page.encode() if isinstance(page, str) else page if isinstance(page, bytes) else b""
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        status = page if isinstance(page, int) else 200
        if status == 200 and request.headers.get("If-None-Match") == etag:
            status, body = 304, b""
        self.requests.append((request.command, request.path, status))
        kind = "application/xml" if request.path.endswith(".xml") else "text/html; charset=utf-8"
        kind = "text/plain" if request.path.endswith(".txt") else kind
        headers = {"ETag": etag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        headers |= {"Location": "http://elsewhere.example/"} if status == 302 else {}
        return status, {**headers, "Content-Type": self.kinds.get(request.path, kind)}, body
