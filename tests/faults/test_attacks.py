"""`mog serve` under attack from this machine: connections, descriptors, memory, a full disk, a home that is gone.

Every attack is bounded in number and time. Health is asked for with a time limit, so that a server that hangs fails.
"""

import contextlib
import json
import os
import re
import resource
import signal
import time

import pytest
from shared import until

pytest.importorskip("fastapi")
from served import END_SECONDS, STAND_IN, Served, received

pytestmark = pytest.mark.full

POST = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HALF_HEAD, HALF_BODY = b"GET /he", POST + b'Content-Length: 100\r\n\r\n{"question'
CONNECTIONS, MOST_BYTES = 40, 30_000
FIRST = {"question": "Who hunts at night?"}
WAITING = {"question": "wait"}
# Limits of open files: the default of Linux, and a hard limit that leaves room for some hundred connections.
FILES, FEW_FILES = (1024, 8192), (256, 512)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts `mog serve` over the stand-in; all are ended."""
    with contextlib.ExitStack() as started:

        def one(*options, **more):
            folder = tmp_path_factory.mktemp("attacked")
            (folder / "mog.yaml").write_text("corpora: {c: {path: docs}}\n", encoding="utf-8")
            made = Served(folder / "mog.yaml", folder, "--drain", 1, *options, program=STAND_IN, **more)
            started.callback(made.end)
            return made

        yield one


@pytest.fixture(scope="module")
def served(start):
    """A server of few places, whose one thread searches at once unless it is told to wait."""
    return start("--connections", CONNECTIONS, "--connections-per-address", CONNECTIONS, "--max-body", MOST_BYTES)


@pytest.fixture(autouse=True, scope="module")
def many_files():
    """This process opens the other ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def opened(served, text, number):
    """So many connections that have sent this and nothing else."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(number):
            # The server may drop it before all is sent.
            with contextlib.suppress(ConnectionError):
                made.append(stack.enter_context(served.socket(text)))
        yield made


def counted(served, name, reason):
    text = served.call("/metrics")[2].decode()
    found = re.search(rf'^mog_http_{name}_total{{reason="{reason}"}} ([\d.]+)$', text, re.M)
    return float(found[1]) if found else 0.0


def is_healthy(served):
    assert served.process.poll() is None
    return all(served.call(path)[0] == 200 for path in ("/healthz", "/readyz", "/metrics"))


@pytest.mark.parametrize("text", [HALF_HEAD, HALF_BODY, POST + b"X: y\r\n", b""])
def test_connections_without_a_whole_request_take_no_place_from_others(served, text):
    before = counted(served, "connections_dropped", "crowded")
    with opened(served, text, 5 * CONNECTIONS):
        assert is_healthy(served)
        assert served.call("/v1/search", FIRST)[0] == 200
        assert counted(served, "connections_dropped", "crowded") - before >= 3 * CONNECTIONS
    until(lambda: re.search(r"connections dropped: crowded", served.log.read_text()))


@pytest.mark.parametrize("files", [FILES, FEW_FILES])
def test_two_thousand_half_requests_do_not_exhaust_descriptors(start, files):
    served = start(files=files)
    soft, hard = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    assert hard == files[1] and files[0] < soft <= hard
    assert ("--connections:" in served.log.read_text()) == (files is FEW_FILES)
    with opened(served, HALF_HEAD, 2000):
        assert len(os.listdir(f"/proc/{served.process.pid}/fd")) < soft
        assert is_healthy(served)
        assert served.call("/v1/search", FIRST)[0] == 200
    assert "Traceback" not in served.log.read_text()


def test_descriptors_that_others_have_taken_end_nothing(start):
    """The limit is lowered under a running server: `accept` fails, connections that send nothing go, and it goes on."""
    served = start(files=FILES)
    with opened(served, HALF_HEAD, 100):
        is_healthy(served)
        used = len(os.listdir(f"/proc/{served.process.pid}/fd"))
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (used, FILES[1]))
        assert is_healthy(served)
        assert counted(served, "connections_dropped", "files") >= 1
    assert "Traceback" not in served.log.read_text()


def test_a_hard_limit_that_is_too_low_is_told(tmp_path):
    (tmp_path / "mog.yaml").write_text("corpora: {c: {path: docs}}\n", encoding="utf-8")
    with pytest.raises(AssertionError, match=r"open files: expected a hard limit of at least \d+, got 150"):
        Served(tmp_path / "mog.yaml", tmp_path, program=STAND_IN, files=(150, 150))


@pytest.mark.parametrize(
    ("headers", "status"),
    [(b"Host: evil\r\n", 421), (b"Host: localhost\r\nOrigin: http://evil\r\n", 403), (b"Host: localhost\r\n", 413)],
)
def test_whoever_is_refused_before_the_body_came_is_told_and_loses_the_connection(served, headers, status):
    head = b"POST /v1/search HTTP/1.1\r\n" + headers + b"Content-Type: application/json\r\n"
    with served.socket(head + b"Content-Length: 100000\r\n\r\n{") as refused:
        # What was sent while the answer was on its way does not destroy it.
        for _ in range(5):
            refused.sendall(b" " * 1000)
            time.sleep(0.02)
        data, _ = received(refused)
    assert data.startswith(b"HTTP/1.1 %d" % status) and b"\r\nconnection: close\r\n" in data.lower()
    assert json.loads(data.partition(b"\r\n\r\n")[2])["status"] == status


def test_a_byte_now_and_then_after_a_refusal_keeps_no_connection(served):
    with opened(served, b"POST / HTTP/1.1\r\nHost: evil\r\nContent-Length: 100\r\n\r\n", 5) as refused:
        gone = set()

        def drip():
            for one in refused:
                try:
                    one.sendall(b" ")
                except OSError:
                    gone.add(one)
            return len(gone) == len(refused)

        until(drip)
        assert len(gone) == len(refused) == 5
        assert is_healthy(served)


def test_requests_beyond_the_places_are_turned_away_and_health_is_not(start):
    served = start("--connections", 16, "--concurrency", 1, "--waiting", 100)
    body = json.dumps(WAITING).encode()
    whole = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    # A quarter of the places is for an address, and this is one.
    with opened(served, whole, 4):
        until(lambda: b"mog_http_requests_in_flight 5.0" in served.call("/metrics")[2])
        status, headers, problem = served.call("/v1/search", FIRST)
        assert (status, headers["retry-after"], problem["status"]) == (503, "1", 503)
        with opened(served, HALF_BODY, 200):
            assert is_healthy(served)
        assert counted(served, "rejected", "crowded") == 1
    assert "POST none 503 0 ms crowded" in re.sub(r"\d+ ms", "0 ms", served.log.read_text())


def test_large_bodies_that_arrive_at_a_time_are_bounded(start):
    served = start("--max-body", MOST_BYTES)
    head = POST + b"Content-Length: %d\r\n\r\n" % MOST_BYTES
    with opened(served, head + b" " * (MOST_BYTES - 1), 100):
        assert is_healthy(served)
        until(lambda: counted(served, "rejected", "crowded") >= 30)


def test_a_home_that_is_gone_is_told_without_a_traceback(served):
    status, headers, problem = served.call("/v1/search", {"question": "gone"})
    assert (status, headers["content-type"]) == (503, "application/problem+json")
    assert "No such file or directory" in problem["detail"] and "nowhere" not in problem["detail"]
    assert "Traceback" not in served.log.read_text() and is_healthy(served)


def test_a_full_disk_below_the_log_stops_nothing(start, tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    served = start(log=full)
    assert is_healthy(served) and served.call("/v1/search", FIRST)[0] == 200
    assert served.end() == 0


def test_who_reads_a_document_does_not_wait_for_searches(start):
    served = start("--concurrency", 1, "--waiting", 1)
    body = json.dumps(WAITING).encode()
    with opened(served, POST + b"Content-Length: %d\r\n\r\n" % len(body) + body, 2):
        until(lambda: served.call("/v1/search", FIRST)[0] == 429)
        assert served.call("/v1/documents/c/x")[2]["text"] == "text"
        assert served.call("/v1/corpora")[0] == 200 and served.call("/v1/source/c/x")[0] == 404


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/", "/page.js", "/v1/corpora", "/nothing"])
def test_head_gives_what_get_does_without_the_body(served, path):
    status, headers, data = served.call(path, method="HEAD")
    got = served.call(path)
    assert (status, data) == (got[0], b"") and headers["content-type"] == got[1]["content-type"]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000, 431),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET /healthz?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: \x00\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nnothing\r\n", 400),
    ],
)
def test_a_head_that_is_too_large_or_ambiguous_is_refused_and_the_connection_closed(served, text, status):
    with served.socket() as sent:
        with contextlib.suppress(ConnectionError):
            sent.sendall(text)
        data, _ = received(sent)
    assert data.startswith(b"HTTP/1.1 %d" % status) and json.loads(data.partition(b"\r\n\r\n")[2])["status"] == status


def test_running_requests_are_told_when_the_time_to_finish_is_over(start):
    served = start()
    body = json.dumps(WAITING).encode()
    texts = [POST + b"Content-Length: %d\r\n\r\n" % len(body) + body, HALF_BODY]
    body = json.dumps({**WAITING, "stream": True}).encode()
    texts.append(POST.replace(b"search", b"ask") + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    with contextlib.ExitStack() as stack:
        found, half, stream = (stack.enter_context(served.socket(text)) for text in texts)
        until(lambda: b"mog_http_requests_in_flight 4.0" in served.call("/metrics")[2])
        served.process.send_signal(signal.SIGTERM)
        data, _ = received(found)
        assert data.startswith(b"HTTP/1.1 503") and json.loads(data.partition(b"\r\n\r\n")[2])["status"] == 503
        assert re.search(rb'event: error\ndata: {.*"status": 503', received(stream)[0])
        assert received(half)[0] == b""
    assert served.process.wait(END_SECONDS) == 0
    assert "Traceback" not in served.log.read_text()


CHOICE = {"question": "Which?", "method": "one-step"}
DIFY = {"knowledge_id": "c", "query": "x", "retrieval_setting": {"top_k": 1}}
PLACE = {"corpus": "c", "document": "x", "start": 0, "end": 1}
HALF = "\ud800"
DEEP = {"a": {}}
for _ in range(100):
    DEEP = {"a": DEEP}


def _of_parts(*rows):
    """Rows of a path and a body; those of the routes of plugins are of the whole."""
    core = ("/v1/search", "/v1/ask")
    return [pytest.param(*row, marks=() if row[0] in core else pytest.mark.whole) for row in rows]


@pytest.mark.parametrize(
    ("path", "body"),
    _of_parts(
        ("/v1/ask", {**CHOICE, "options": {str(row): "x" for row in range(27)}}),
        ("/v1/ask", {**CHOICE, "options": {"A": "x" * 5000}}),
        ("/v1/ask", {**CHOICE, "options": {"A" * 5000: "x"}}),
        ("/v1/ask", {**CHOICE, "options": {"A": HALF}}),
        ("/v1/ask", {**CHOICE, "options": {HALF: "x"}}),
        ("/v1/ask", {**CHOICE, "method": "x" * 5000}),
        ("/v1/search", {"question": HALF}),
        ("/v1/search", {"question": "x", "corpora": ["c"] * 2000}),
        ("/v1/search", {"question": "x", "corpora": ["c" * 3000]}),
        ("/v1/search", {"question": "x", "corpora": [HALF]}),
        ("/v1/search", {"question": "x", "method": HALF}),
        ("/v1/search", {"question": "x", "where": DEEP}),
        ("/v1/search", {"question": "x", "where": {"year": 10**310}}),
        ("/v1/search", {"question": "x", "where": {"year": float("nan")}}),
        ("/v1/search", b'{"question":"x","where":{"a":[' + b"0," * 10_000 + b"0]}}"),
        ("/v1/search", b'{"question": "x", "where": {"year": 1e999}}'),
        ("/v1/search", b"[" * 10_000),
        ("/v1/search", {"question": "x", **{str(row): 0 for row in range(1500)}}),
        ("/retrieval", {**DIFY, "query": HALF}),
        ("/retrieval", {**DIFY, "knowledge_id": "c" * 3000}),
        (
            "/retrieval",
            {**DIFY, "metadata_condition": {"conditions": [{"name": "a", "comparison_operator": "is"}] * 33}},
        ),
        ("/v1/vector_stores/c/search", {"query": ["x"] * 17}),
        ("/v1/vector_stores/c/search", {"query": [HALF]}),
        ("/v1/vector_stores/c/search", {"query": "x", "filters": {"type": "eq", "key": HALF, "value": 1}}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": HALF}]}),
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "where": DEEP}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": [[]]}]}),
        ("/v1/used", {"question": HALF, "passage": PLACE}),
        ("/v1/used", {"question": "x", "passage": {**PLACE, "document": HALF}}),
        ("/v1/used", {"question": "x", "passage": PLACE, "more": [PLACE] * 201}),
        ("/v1/used", {"question": "x", "passage": PLACE, "text": HALF}),
        ("/v1/used", {"question": "x", "passage": {**PLACE, "end": 10**400}}),
        ("/mcp", {"jsonrpc": "2.0", "id": HALF, "method": "tools/call"}),
    ),
)
def test_what_is_larger_than_any_use_needs_or_no_text_is_refused(served, path, body):
    status, headers, problem = served.call(path, body)
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert len(json.dumps(problem)) < 3000
    assert "Traceback" not in served.log.read_text()


@pytest.mark.parametrize(
    ("path", "body"),
    _of_parts(
        ("/v1/search", {"question": "x", "method": "é" * 1900}),
        ("/retrieval", {**DIFY, "knowledge_id": "c" * 1900}),
        (
            "/retrieval",
            {**DIFY, "metadata_condition": {"conditions": [{"name": "a", "comparison_operator": "x" * 9000}]}},
        ),
        ("/v1/vector_stores/" + "c" * 7000 + "/search", {"query": "x"}),
        ("/v1/vector_stores/c/search", {"query": "x", "filters": {"type": "x" * 15_000}}),
        ("/" + "x" * 7000, None),
    ),
)
def test_an_error_repeats_little_of_what_was_sent(served, path, body):
    status, _, problem = served.call(path, body)
    assert status < 500 and len(json.dumps(problem, ensure_ascii=False)) < 3500
