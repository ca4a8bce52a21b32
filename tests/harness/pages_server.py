"""A server of pages as JSON, for those who have the key; and an address at which nothing listens."""

import socket

import pytest
from loopback import Loopback


class PagesServer(Loopback):
    """Serves pages by path to those whose header has the key."""

    def __init__(self, pages, header, key):
        self.pages, self.header, self.key = pages, header, key

    def answered(self, request, body):
        given = (request.headers.get(self.header) or "").removeprefix("Bearer ")
        if given == self.key and request.path in self.pages:
            return 200, {}, self.pages[request.path]
        return 404 if given == self.key else 401, {}, b"wrong key " + given.encode()


@pytest.fixture(scope="module")
def server(request):
    """Serve the pages of a module of tests with its key; gives the address."""
    module = request.module
    with PagesServer(module.PAGES, module.HEADER, module.KEY) as running:
        yield running.base


@pytest.fixture
def nobody():
    """An address at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
