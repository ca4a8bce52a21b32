"""`mog serve`: every route on one real server over the sample project, and what keeps it safe."""

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from documentation import blocks, matches
from served import END_SECONDS, Served, received
from shared import ROOT, called

QUESTION = "How deep should garlic cloves be planted?"
BODY_SECONDS, MOST_BYTES, MOST_CHARS = 2, 20_000, 500


@pytest.fixture(scope="module")
def served(sample_project, tmp_path_factory):
    limits = ["--body-timeout", BODY_SECONDS, "--max-body", MOST_BYTES, "--max-question", MOST_CHARS, "--max-k", 50]
    started = Served(sample_project.neural, tmp_path_factory.mktemp("serve"), *limits)
    yield started
    started.end()


def curls():
    """Every call of the page on this server, and what the page shows of its output."""
    for body in blocks(ROOT / "docs" / "http.md", "console"):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            if line.startswith("curl "):
                yield line, shown.strip()


def events(data):
    found = re.findall(r"^event: (\w+)\ndata: (.*)$", data.decode(), re.MULTILINE)
    return [(name, json.loads(text)) for name, text in found]


def test_passages_are_those_of_the_python_api(served, sample_project):
    import mog_assets

    status, headers, told = served.call("/v1/search", {"question": QUESTION, "k": 3, "explain": True})
    assert (status, headers["content-type"]) == (200, "application/json")
    with mog_assets.open(sample_project.config) as project:
        direct = project.search(QUESTION, k=3, explain=True)
    assert [(p["text"], p["explanation"]) for p in told["passages"]] == [
        (p.text, p.explanation) for p in direct.passages
    ]
    assert told["version"] == direct.version


def test_questions_that_come_together_get_what_each_gets_alone(served):
    questions = [QUESTION, "What is a spectral class?", '"cloves"', "How is a plane iron sharpened?"] * 3
    alone = {question: served.call("/v1/search", {"question": question, "k": 4})[2] for question in set(questions)}
    with ThreadPoolExecutor(len(questions)) as pool:
        answers = list(pool.map(lambda q: served.call("/v1/search", {"question": q, "k": 4})[2], questions))
    for question, results in zip(questions, answers, strict=True):
        assert results["question"] == question
        texts, expected = ([p["text"] for p in answer["passages"]] for answer in (results, alone[question]))
        assert texts == expected and expected


def test_corpora_budget_and_sentences(served):
    body = {"question": QUESTION, "budget": 900, "corpora": ["sky"], "sentences": True}
    _, _, told = served.call("/v1/search", body)
    assert told["passages"] and {p["corpus"] for p in told["passages"]} == {"sky"}
    for passage in told["passages"]:
        assert passage["sentences"]
        assert all(0 <= s["start"] < s["end"] <= len(passage["text"]) for s in passage["sentences"])
        assert all(-1.001 <= s["similarity"] <= 1.001 for s in passage["sentences"])


def test_an_answer_comes_at_once_or_as_events(served):
    question = "For how many years does white rot of onions stay in the ground?"
    _, _, told = served.call("/v1/ask", {"question": question})
    assert "fifteen" in told["answer"]
    status, headers, data = served.call("/v1/ask", {"question": question, "stream": True})
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    happened = events(data)
    assert [name for name, _ in happened] == ["passages", "answer", "done"]
    assert happened[0][1]["passages"]
    assert happened[-1][1]["answer"] == told["answer"]
    by_header = served.call("/v1/ask", {"question": question}, {"Accept": "text/event-stream"})
    assert events(by_header[2])[-1][0] == "done"


@pytest.mark.whole
def test_a_follow_up_is_asked_with_the_conversation(served):
    first = "How far apart are garlic cloves planted?"
    long = {"question": "x" * (MOST_CHARS + 1), "answer": "y"}
    turns = [{"question": first, "answer": "15 cm"}, long, {"question": "Why?"}]
    body = {"question": "And how deep are they planted?", "earlier": turns}
    _, _, told = served.call("/v1/ask", body)
    question = body["question"]
    assert told["question"] == f"{question} {question}"
    happened = events(served.call("/v1/ask", {**body, "earlier": turns[:2], "stream": True})[2])
    words = "far apart garlic cloves planted"
    assert happened[0] == ("standalone", {"question": f"{question} {words} {question}"})
    assert happened[-1][1]["question"] == happened[0][1]["question"]


def test_what_fails_after_the_stream_has_begun_is_its_last_event(served):
    _, _, data = served.call("/v1/ask", {"question": " ", "stream": True})
    ((name, problem),) = events(data)
    assert name == "error" and problem["status"] == 400


def test_it_tells_what_is_searched_and_how(served):
    _, _, told = served.call("/v1/corpora")
    assert [corpus["name"] for corpus in told["corpora"]] == ["garden", "workshop", "sky"]
    assert told["methods"][0] == "auto" and told["ways"] and told["budget"] == 4000
    assert told["limits"] == {"question": MOST_CHARS, "budget": 100_000, "k": 50}


@pytest.mark.whole
def test_requests_are_filtered_by_topic(served):
    assert all({"topic", "topic.label"} <= set(c["fields"]) for c in served.call("/v1/corpora")[2]["corpora"])
    for least, found in ((0, True), (999, False)):
        _, _, told = served.call("/v1/search", {"question": QUESTION, "where": {"topic": {"gte": least}}})
        assert bool(told["passages"]) == found


def test_a_document_by_an_id_with_slashes_or_signs(served):
    _, _, told = served.call("/v1/documents/workshop/bread.md")
    assert told["title"] and told["text"].startswith("# Baking")
    status, headers, problem = served.call("/v1/documents/workshop/a/b%2Fc")
    assert (status, headers["content-type"]) == (404, "application/problem+json")
    assert "a/b/c" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/v1/search", b"{", 422, ""),
        ("/v1/search", {"question": QUESTION, "k": "3"}, 422, "k"),
        ("/v1/search", {"question": QUESTION, "k": 51}, 422, "at most 50"),
        ("/v1/search", {"question": QUESTION, "budget": 10**9}, 422, "at most 100,000"),
        ("/v1/search", {"question": QUESTION, "budget": "900000 tokens"}, 422, "at most 100,000"),
        ("/v1/search", {"question": "x" * (MOST_CHARS + 1)}, 422, "at most 500 characters"),
        ("/v1/search", {"question": "  "}, 400, "white space"),
        ("/v1/search", {"question": QUESTION, "method": "nope"}, 400, "nope"),
        ("/v1/search", {"question": QUESTION, "where": {"title": {"near": 1}}}, 400, "near"),
        ("/v1/ask", {"question": QUESTION, "earlier": [{"question": "?", "role": "user"}]}, 422, "role"),
        ("/v1/ask", {"question": QUESTION, "earlier": [{"question": "?"}] * 501}, 422, "earlier"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(served, path, body, status, named):
    got, headers, problem = served.call(path, body)
    assert (got, headers["content-type"]) == (status, "application/problem+json")
    assert {"type", "title", "status", "detail"} <= set(problem) and problem["status"] == status
    assert named in problem["detail"]


def test_a_large_body_is_not_read(served):
    status, _, problem = served.call("/v1/search", b" " * (MOST_BYTES + 1))
    assert status == 413 and "20,000 bytes" in problem["detail"]
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with served.socket(head + b"Transfer-Encoding: chunked\r\n\r\n") as opened:
        opened.sendall(b"4e20\r\n" + b" " * 20_000 + b"\r\n1\r\n \r\n")
        assert received(opened)[0].startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil", ""])
def test_another_name_for_this_machine_is_refused(served, host):
    status, _, problem = served.call("/v1/corpora", headers={"Host": host})
    assert status == 421 and "Host" in problem["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80"])
def test_its_own_names_are_answered(served, host):
    assert served.call("/healthz", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1"])
def test_pages_of_other_sites_are_refused(served, origin):
    assert served.call("/v1/search", {"question": QUESTION}, {"Origin": origin})[0] == 403
    status, headers, _ = served.call("/v1/search", method="OPTIONS", headers={"Origin": origin})
    assert status in (403, 405) and "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/healthz", "/v1/corpora", "/openapi.json", "/nothing", "/"])
def test_every_answer_has_the_headers_that_keep_browsers_safe(served, path):
    _, headers, _ = served.call(path)
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers and "server" not in headers


def test_metrics_count_requests_and_refusals(served):
    served.call("/v1/search", {"question": QUESTION})
    served.call("/v1/search", {"question": "x" * (MOST_CHARS + 1)})
    served.call("/v1/corpora", headers={"Host": "evil.example"})
    served.call("/some/path/that/somebody/made/up")
    text = served.call("/metrics")[2].decode()
    assert re.search(r'^mog_http_requests_total\{method="POST",route="/v1/search",status="200"\} [1-9]', text, re.M)
    assert re.search(r'^mog_http_request_seconds_bucket\{le="0.1",route="/v1/search"\}', text, re.M)
    assert re.search(r'^mog_http_rejected_total\{reason="host"\} [1-9]', text, re.M)
    assert re.search(r'^mog_http_rejected_total\{reason="too much"\} [1-9]', text, re.M)
    assert "mog_http_requests_in_flight 1.0" in text and "mog_trouble 0.0" in text
    assert re.search(r'^mog_artefacts_info\{version="\w+"\} 1', text, re.M)
    assert "mog_artefacts_age_seconds" in text and "made/up" not in text


def test_the_log_has_no_question(served):
    served.call("/v1/search", {"question": "Quixotic question about zeppelins?"})
    served.call("/v1/search?question=zeppelins", {"question": QUESTION})
    text = served.log.read_text()
    assert "POST /v1/search 200" in text and "zeppelins" not in text


@pytest.mark.full
def test_slow_bodies_and_half_heads_are_closed_and_hold_up_nobody(served):
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    bodies = [served.socket(head + b'Content-Length: 100\r\n\r\n{"question') for _ in range(20)]
    heads = [served.socket(part) for part in (b"", b"GET", head) for _ in range(20)]
    drips = served.socket(b"GET / HTTP/1.1\r\n")
    ended = threading.Event()

    def drip():
        while not ended.wait(0.2):
            try:
                drips.sendall(b"X: y\r\n")
            except OSError:
                return

    dripping = threading.Thread(target=drip)
    dripping.start()
    started = time.monotonic()
    assert served.call("/v1/search", {"question": QUESTION})[0] == 200
    assert time.monotonic() - started < BODY_SECONDS
    for opened in bodies:
        with opened:
            data, seconds = received(opened)
            assert data.startswith(b"HTTP/1.1 408") and seconds < 3 * BODY_SECONDS
    for opened in [*heads, drips]:
        with opened:
            data, seconds = received(opened)
            assert data == b"" and seconds < 3 * BODY_SECONDS
    ended.set()
    dripping.join()


def test_a_connection_is_used_again(served):
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served.socket(ask) as opened:
        for _ in range(3):
            answer = b""
            while not answer.endswith(b'{"status":"ok"}'):
                part = opened.recv(1 << 16)
                assert part
                answer += part
            assert answer.startswith(b"HTTP/1.1 200")
            opened.sendall(ask)


@pytest.mark.parametrize("text", [b"\x00\xff\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"])
def test_what_is_not_http_is_turned_away(served, text):
    with served.socket(text) as opened:
        assert received(opened)[0].startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))


@pytest.mark.parts("retrieval")
@pytest.mark.parametrize("line, shown", list(curls()), ids=lambda text: text.split("/", 3)[-1][:16])
def test_what_the_page_shows_is_what_curl_prints(served, line, shown):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    words = [word.replace("http://127.0.0.1:8080", served.url) for word in shlex.split(line)]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    # This server has a lower limit than the default that the page shows.
    assert matches(shown, printed.replace("at most 50,", "at most 200,")), printed


def test_it_finishes_what_runs_on_sigterm_and_ends_with_0(served):
    """The last on this server."""
    body = json.dumps({"question": QUESTION}).encode()
    head = "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with served.socket(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5]) as opened:
        time.sleep(0.3)
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((served.host, served.port), timeout=5)
        opened.sendall(body[5:])
        data, _ = received(opened)
        assert data.startswith(b"HTTP/1.1 200") and b"cloves" in data
    assert served.process.wait(END_SECONDS) == 0
    assert "Traceback" not in served.log.read_text()


def failed(*words):
    done = called(*words)
    assert done.stdout == ""
    return done.exit_code, done.stderr.strip()


def test_other_machines_are_not_served_without_a_key(sample_project):
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.com"):
        code, said = failed("serve", "--config", sample_project.config, "--host", host)
        assert code == 2 and "MOG_API_KEY" in said and repr(host) in said and len(said.splitlines()) == 1


def test_a_guessable_key_is_refused(sample_project, monkeypatch):
    monkeypatch.setenv("MOG_API_KEY", "secret")
    code, said = failed("serve", "--config", sample_project.config)
    assert code == 2 and "at least 16" in said


def test_a_port_in_use_is_told(sample_project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = failed("serve", "--config", sample_project.config, "--port", taken.getsockname()[1])
    assert code == 1 and "--port" in said
