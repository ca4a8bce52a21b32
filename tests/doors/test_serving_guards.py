"""The guards of the server before a project that does what a test wants: key, queue, time, files."""

import contextlib
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from shared import until

pytest.importorskip("fastapi")
import uvicorn
from starlette.testclient import TestClient

from mog_assets.resources.errors import MogError
from mog_assets.serve import http
from mog_assets.serve.connections import Connections, protocol
from mog_assets.serve.descriptors import SPARE
from mog_assets.serve.guards import OPEN
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.observed import Metrics
from mog_assets.serve.results import Answer, Document, SearchResult
from mog_assets.serve.server import listen

KEY = "a-key-of-many-letters"


class Project:
    """Searches block until they may go on."""

    version, trouble, loaded, methods, ways, corpora = "1", "", 0.0, ["auto"], ["one-step"], []
    authorizer = None
    unnoted, names, seen_as, families = 0, ["c"], [], {}

    def __init__(self, folder=None, sources=()):
        corpora = {"c": SimpleNamespace(path=folder)}
        self.settings = SimpleNamespace(budget=4000, corpora=corpora, use=SimpleNamespace(log=False))
        self.sources = dict(sources)
        self.go, self.running, self.failure = threading.Event(), threading.Semaphore(0), None
        self.asked = []

    def search_many(self, questions, **options):
        return [self.search(question, **options) for question in questions]

    def search(self, question, **_):
        self.running.release()
        self.asked.append(question)
        if question == "wait":
            assert self.go.wait(30)
        if self.failure is not None:
            raise self.failure
        return SearchResult(question, [], "fused", "", "nothing", "1")

    def ask(self, question, on_event=None, **_):
        self.running.release()
        for _ in range(1000):
            on_event("thought", {"text": "hm"})
            self.asked.append(question)
            if self.go.wait(0.05):
                break
        return Answer(question, "yes", "", "one-step", "r", [], "1")

    def document(self, corpus, id):
        return Document(corpus, id, "", "text", (), self.sources.get(id), {}, "1")


def client(project=None, **options):
    return TestClient(
        http.app(project or Project(), ServerOptions(**options)), "http://localhost", raise_server_exceptions=False
    )


# Of plugins.
FURTHER = {"/mcp", "/v1/documents/{corpus}", "/v1/used", "/v1/chat/completions"}


@pytest.mark.parametrize("further", [set(), pytest.param(FURTHER, marks=pytest.mark.whole)], ids=["core", "plugins"])
def test_everything_with_content_needs_the_key(further):
    with client(key=KEY) as made:
        routes = [route for route in made.app.routes if route.path not in OPEN]
        assert len(routes) >= 6 and further <= {route.path for route in routes}
        for route in routes:
            for method in route.methods - {"HEAD"}:
                path = route.path.replace("{corpus}", "c").replace("{id:path}", "x").replace("{id}", "x")
                answer = made.request(method, path, json={} if method == "POST" else None)
                assert answer.status_code == 401, path
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert answer.headers["content-type"] == "application/problem+json"
        assert made.get("/healthz").status_code == made.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (f"Bearer {KEY}", 200),
        (f"bearer {KEY}", 200),
        (f"Bearer {KEY}x", 401),
        ("Bearer ключ", 401),
        (KEY, 401),
        (f"Basic {KEY}", 401),
        ("", 401),
    ],
)
def test_only_the_key_opens(sent, status):
    with client(key=KEY) as made:
        assert made.get("/metrics", headers={"Authorization": sent.encode()}).status_code == status


@pytest.mark.parametrize(("number", "status"), [(2**63 - 1, 200), (2**63, 422), (-(2**63), 200), (-(2**63) - 1, 422)])
def test_integers_have_64_bits(number, status):
    with client() as made:
        answer = made.post("/v1/search", json={"question": "x", "where": {"year": number}})
        assert (answer.status_code == 422 and "64 bits" in answer.text) == (status == 422), answer.text


def test_a_key_in_the_path_or_the_query_opens_nothing():
    with client(key=KEY) as made:
        assert made.get(f"/metrics?api_key={KEY}&Authorization=Bearer+{KEY}").status_code == 401
        for path in ("http://testserver//metrics", "/docs/../metrics", "/metrics/", "/%6detrics"):
            assert made.get(path).status_code in (401, 404)


def test_only_named_sites_may_call():
    with client(origins=("https://ours.example",)) as made:
        ask = {"Origin": "https://ours.example", "Access-Control-Request-Method": "POST"}
        answer = made.options("/v1/search", headers=ask)
        assert answer.headers["access-control-allow-origin"] == "https://ours.example"
        answer = made.options("/v1/search", headers={**ask, "Origin": "https://theirs.example"})
        assert "access-control-allow-origin" not in answer.headers
        answer = made.post("/v1/search", json={"question": "x"}, headers={"Origin": "https://ours.example"})
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://ours.example"


def waiting(made, project, number):
    """So many requests that wait; returns their threads and the list of their answers."""
    answers = []

    def ask():
        answers.append(made.post("/v1/search", json={"question": "wait"}))

    threads = [threading.Thread(target=ask) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads, answers


def test_a_full_queue_is_told_at_once_and_others_go_on():
    project = Project()
    with client(project, concurrency=2, waiting=1) as made:
        threads, answers = waiting(made, project, 3)
        until(lambda: made.app.state.serving.search.inside == 3)
        started = time.monotonic()
        answer = made.post("/v1/search", json={"question": "x"})
        assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
        assert time.monotonic() - started < 1
        assert made.get("/healthz").status_code == 200
        assert 'mog_http_rejected_total{reason="busy"} 1' in made.get("/metrics").text
        project.go.set()
        for thread in threads:
            thread.join()
        assert [answer.status_code for answer in answers] == [200] * 3
        assert made.post("/v1/search", json={"question": "x"}).status_code == 200


def test_late_work_is_told_and_keeps_its_place_until_it_ends():
    project = Project()
    with client(project, concurrency=1, waiting=1, timeout=0.3) as made:
        threads, answers = waiting(made, project, 2)
        for thread in threads:
            thread.join()
        # One had begun, the other had not and never does.
        assert sorted(answer.status_code for answer in answers) == [503, 504]
        (waited,) = (answer for answer in answers if answer.status_code == 503)
        assert waited.headers["retry-after"] == "1"
        work = made.app.state.serving.search
        assert work.inside == 1 and project.asked == ["wait"]
        assert made.post("/v1/search", json={"question": "x"}).status_code == 503
        project.go.set()
        until(lambda: work.inside == 0)
        assert made.post("/v1/search", json={"question": "x"}).status_code == 200
        assert project.asked == ["wait", "x"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_nobody_waits_for_is_given_up(stream):
    project = Project()
    with client(project, ask_timeout=0.3) as made:
        answer = made.post("/v1/ask", json={"question": "why", "stream": stream})
        problem = json.loads(answer.text.rpartition("data: ")[2]) if stream else answer.json()
        assert problem["status"] == 504
        until(lambda: made.app.state.serving.answers.inside == 0)
        assert len(project.asked) < 100


def test_unexpected_errors_are_not_told(caplog):
    project = Project()
    with client(project) as made:
        project.failure = ValueError("/home/somebody/secret")
        answer = made.post("/v1/search", json={"question": "x"})
        assert answer.status_code == 500 and answer.headers["content-type"] == "application/problem+json"
        assert "secret" not in answer.text and answer.headers["x-content-type-options"] == "nosniff"
        project.failure = MogError("model m is damaged: run `mog run`")
        assert made.post("/v1/search", json={"question": "x"}).json()["detail"] == str(project.failure)


def test_a_server_that_stops_is_not_ready():
    with client() as made:
        made.app.state.serving.stopping.set()
        answer = made.get("/readyz")
        assert answer.status_code == 503 and answer.headers["connection"] == "close"


def test_an_original_is_served_from_below_the_folder_alone(tmp_path):
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a ü.pdf").write_bytes(b"%PDF-1.7")
    (folder / "page.html").write_text("<script>alert(1)</script>")
    (folder / "notes.md").write_text("# Notes")
    (tmp_path / "corpus-secret").write_text("secret")
    (tmp_path / "secret").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in.pdf").symlink_to(folder / "sub" / "a ü.pdf")
    outside = ["../secret", "../corpus-secret", "sub/../../secret", str(tmp_path / "secret"), "out", "up/secret"]
    outside += ["/etc/passwd", "", ".", "sub", "nothing", "a\x00b", "..", "x" * 5000]
    sources = {f"bad{row}": name for row, name in enumerate(outside)}
    sources |= {"pdf/a": "sub/a ü.pdf", "link": "in.pdf", "html": "page.html", "md": "notes.md"}
    with client(Project(folder, sources)) as made:
        for row, name in enumerate(outside):
            answer = made.get(f"/v1/source/c/bad{row}")
            assert answer.status_code == 404 and "secret" not in answer.text, name
        answer = made.get("/v1/source/c/pdf/a")
        assert answer.content == b"%PDF-1.7" and answer.headers["content-type"] == "application/pdf"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert answer.headers["content-disposition"] == "inline; filename*=utf-8''a%20%C3%BC.pdf"
        assert made.get("/v1/source/c/link").status_code == 200
        assert made.get("/v1/source/c/html").headers["content-disposition"].startswith("attachment")
        assert made.get("/v1/source/c/md").headers["content-type"].startswith("text/markdown")
        for path in ("../secret", "..%2Fsecret", "%2e%2e/secret", "....//secret", "/etc/passwd"):
            assert made.get(f"/v1/source/c/{path}").status_code == 404


@contextlib.contextmanager
def running(app, **options):
    """Run uvicorn with our connections; gives it and the address of its socket."""
    opened = listen("127.0.0.1", 0)
    connections = Connections(ServerOptions(**options), Metrics(Project()))
    server = uvicorn.Server(uvicorn.Config(app, http=protocol(connections), lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        until(lambda: server.started)
        yield server, opened.getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join(10)


def test_a_caller_that_does_not_read_loses_the_connection():
    async def large(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(50 << 20)})

    with (
        running(large, body_seconds=5, send_seconds=0.3) as (server, address),
        socket.create_connection(address) as idle,
    ):
        idle.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: server.server_state.connections)
        until(lambda: not server.server_state.connections)
        assert not server.server_state.connections and not server.should_exit


def test_a_websocket_keeps_its_place_from_connections_that_send_nothing():
    async def greets(scope, receive, send):
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            await send({"type": "websocket.send", "text": "hello"})

    head = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    with running(greets, connections=1, body_seconds=0.3) as (server, address), contextlib.ExitStack() as stack:
        caller = stack.enter_context(socket.create_connection(address, 5))
        caller.sendall(head + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        assert caller.recv(1000).startswith(b"HTTP/1.1 101")
        for _ in range(2 * SPARE):
            stack.enter_context(socket.create_connection(address, 5))
        time.sleep(0.5)
        # A frame of no characters.
        caller.sendall(b"\x81\x80\0\0\0\0")
        assert caller.recv(1000).endswith(b"hello")


# What nginx sends with `proxy_pass http://127.0.0.1:8080` alone, with its own name, and with that of browsers.
PUBLIC = "https://Search.example.org/team"


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost", "search.example.org", "search.example.org:443"])
@pytest.mark.parametrize("path", ["/", "/page.js", "/v1/search"])
def test_behind_a_proxy_its_own_page_may_call_whatever_host_the_proxy_sends(host, path):
    with client(public_url=PUBLIC, hosts=("localhost", "127.0.0.1")) as made:
        headers, body = {"Host": host, "Origin": "https://search.example.org"}, {"question": "q"}
        sent = made.get(path, headers=headers) if path != "/v1/search" else made.post(path, json=body, headers=headers)
        assert sent.status_code == 200, sent.text


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("evil.example", "http://evil.example", 421),
        ("mog", "https://search.example.org", 421),
        ("127.0.0.1:8080", "http://evil.example", 403),
        ("127.0.0.1:8080", "http://search.example.org", 403),
        ("127.0.0.1:8080", "https://search.example.org.evil.example", 403),
        ("127.0.0.1:8080", "null", 403),
    ],
)
def test_behind_a_proxy_other_hosts_and_pages_are_refused_and_told_why(host, origin, status):
    with client(public_url=PUBLIC, hosts=("localhost", "127.0.0.1")) as made:
        refused = made.post("/v1/search", json={"question": "q"}, headers={"Host": host, "Origin": origin})
        assert refused.status_code == status and "--public-url" in refused.json()["detail"]
        # The page itself comes, and shows what its calls are told.
        assert made.get("/page.js", headers={"Host": host, "Origin": origin}).status_code == (200, 421)[status == 421]


def test_the_description_of_the_routes_says_where_they_are():
    with client(public_url=PUBLIC) as made:
        assert made.get("/openapi.json").json()["servers"] == [{"url": PUBLIC}]
