"""The real command `mog ui` in an empty folder: what a real browser does with it, how it ends, what it puts there.

One server for all that does not end it: starting one takes longer than any test of it.
"""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

import pytest
from browser import watch_errors
from shared import ROOT, VARIABLES
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from mog_assets.build import runner
from mog_assets.resources.store import Store
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.ui_guard import UiGuard
from mog_assets.serve.webserver import _guarded

pytestmark = pytest.mark.full

START_SECONDS, END_SECONDS, CALL_SECONDS = 240, 30, 60
CLICK_MS = 15_000
RUN_MS = 180_000


UI = [sys.executable, "-m", "mog_assets.cli", "ui"]
LAUNCH = "mutation { reloadWorkspace { __typename } }"
KEY = "sixteen-or-more-characters"
# As /proc/net/tcp writes it.
LISTENING = "0A"
JSON = {"Content-Type": "application/json"}


def environment():
    return {**{k: v for k, v in os.environ.items() if k not in VARIABLES}, "PYTHONPATH": str(ROOT)}


class Served:
    """`mog ui` in a folder where there is nothing but `mog.yaml` and a corpus."""

    def __init__(self, folder, *arguments, **variables):
        shutil.copyfile(ROOT / "mog_assets/samples/garden.jsonl", folder / "garden.jsonl")
        # What is to be clicked must not happen by itself.
        values = {"home": "home", "corpora": {"garden": {"path": "garden.jsonl"}}, "automation": {"enabled": False}}
        (folder / "mog.yaml").write_text(json.dumps(values), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.folder, self.url, self.log = folder, f"http://127.0.0.1:{self.port}", folder / "log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*UI, "--port", str(self.port), *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**environment(), **variables},
                start_new_session=True,
            )
        self.known = {self.process.pid}

    def ask(self, query):
        body = json.dumps({"query": query}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)["data"]

    def send(self, method, path, headers=None, body=None):
        """Status and headers of the answer; the headers are sent as they are, which no library for clients does."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.headers

    def until(self, condition, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        return value

    def answers(self):
        assert self.process.poll() is None, self.log.read_text(errors="replace")[-3000:]
        try:
            return self.ask("{ assetNodes { id } }")["assetNodes"]
        except OSError:
            return None

    def runs(self):
        asked = "{ runsOrError { ... on Runs { results { status tags { key value } } } } }"
        return self.ask(asked)["runsOrError"]["results"]

    def descendants(self):
        """Processes that are there and descend from any that was seen before."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True).stdout
        rows = [(int(pid), int(parent), state) for pid, parent, state in (line.split() for line in listed.splitlines())]
        # A child may have a smaller id than its parent, and be listed before it.
        while found := {pid for pid, parent, _ in rows if parent in self.known} - self.known:
            self.known |= found
        alive = {pid for pid, _, state in rows if state[0] != "Z"}
        return (self.known & alive) - {self.process.pid}

    def end(self):
        for pid in self.descendants() | {self.process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    started = Served(tmp_path_factory.mktemp("ui"))
    yield started
    started.end()


def test_it_serves_the_graph_without_a_sign_up(served):
    served.until(served.answers)
    shown = served.ask("{ shouldShowNux workspaceOrError { ... on Workspace { locationEntries { name } } } }")
    assert shown == {"shouldShowNux": False, "workspaceOrError": {"locationEntries": [{"name": "mog-assets"}]}}
    assert "Warning" not in served.log.read_text(encoding="utf-8", errors="replace")


BY_URL = f"/graphql?{urllib.parse.urlencode({'query': LAUNCH})}"
MUTATION = json.dumps({"query": LAUNCH})


@pytest.mark.parametrize(
    ("status", "method", "path", "headers", "body"),
    [
        (421, "GET", "/", {"Host": "evil.example"}, None),
        (421, "POST", "/graphql", {"Host": "evil.example", **JSON}, MUTATION),
        (403, "POST", "/graphql", {"Origin": "http://evil.example", **JSON}, MUTATION),
        (403, "POST", "/graphql", {"Origin": "null", **JSON}, MUTATION),
        (403, "GET", "/server_info", {"Origin": "http://localhost:1"}, None),
        (405, "GET", BY_URL, {}, None),
        (405, "HEAD", BY_URL, {}, None),
        # Dagster's pattern of the path also matches this one.
        (405, "GET", BY_URL.replace("?", "%0A?"), {}, None),
        (415, "POST", BY_URL, {}, None),
        (415, "POST", "/graphql", {"Content-Type": "application/graphql"}, LAUNCH),
        # A page may send this type to any server, and Dagster takes it for JSON.
        (415, "POST", "/graphql", {"Content-Type": "text/plain; charset=application/json"}, MUTATION),
        (415, "POST", "/report_asset_materialization/documents?partition=garden", {}, None),
        (405, "PUT", "/graphql", JSON, MUTATION),
        (413, "POST", "/graphql", {**JSON, "Content-Length": str(1 << 30)}, "{"),
        (200, "POST", "/graphql", JSON, MUTATION),
        (200, "GET", "/server_info", {}, None),
    ],
)
def test_nothing_but_json_from_its_own_pages_changes_anything(served, status, method, path, headers, body):
    served.until(served.answers)
    answer, shown = served.send(method, path, {"Host": f"127.0.0.1:{served.port}", **headers}, body)
    assert answer == status
    # No page of another site shows this one in a frame, to have it clicked.
    assert shown["X-Frame-Options"] == "DENY"


def test_a_page_of_another_site_is_told_what_helps_here():
    caller = TestClient(UiGuard(None, ServerOptions()), "http://localhost")
    told = caller.get("/", headers={"Origin": "http://evil.example"}).json()["detail"]
    assert "pages of 'http://evil.example' may not call this server: open the address that `mog ui` printed" in told


@pytest.mark.parametrize("url", ["/dagster/deep/here", "/deep/here"])
def test_it_stands_under_a_path_whether_a_proxy_takes_that_off_or_not(url):
    async def below(request):
        return PlainTextResponse(request.url.path)

    app = Starlette(routes=[Mount("/dagster", routes=[Route("/deep/here", below), Route("/server_info", below)])])
    options = ServerOptions(public_url="https://search.example.org/dagster/", hosts=("127.0.0.1",), key="k" * 16)
    caller = TestClient(_guarded(app, options), "http://127.0.0.1:3000")
    headers = {"Origin": "https://search.example.org", "Authorization": f"Bearer {'k' * 16}"}
    assert caller.get(url, headers=headers).text == "/dagster/deep/here"
    assert caller.get("/server_info").text == "/dagster/server_info"
    assert caller.get(url, headers={**headers, "Origin": "http://evil.example"}).status_code == 403
    assert caller.get(url).status_code == 401


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("http://127.0.0.1:{port}", 101)])
def test_a_page_of_another_site_subscribes_to_nothing(served, origin, status):
    served.until(served.answers)
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    protocol = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "graphql-ws"}
    with socket.create_connection(("127.0.0.1", served.port), CALL_SECONDS) as caller:
        headers = {"Host": f"127.0.0.1:{served.port}", "Origin": origin.format(port=served.port), **key, **protocol}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        caller.sendall(f"GET /graphql HTTP/1.1\r\n{lines}\r\n".encode())
        assert caller.recv(1000).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows which process listens")
def test_nothing_it_started_listens_on_another_port(served):
    served.until(served.answers)
    folders = [Path(f"/proc/{pid}/fd") for pid in served.descendants() | {served.process.pid}]
    ours = {os.readlink(entry) for folder in folders if folder.exists() for entry in folder.iterdir()}
    listed = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    places = {row[1] for row in listed if row[3] == LISTENING and f"socket:[{row[9]}]" in ours}
    # 127.0.0.1 in the order of bytes that the kernel writes.
    assert places == {f"0100007F:{served.port:04X}"}


@pytest.mark.parametrize(
    ("key", "words"),
    [("", "--host: expected an address of this machine alone"), ("short", "MOG_API_KEY: expected at least 16")],
)
def test_other_machines_are_not_served_without_a_key(tmp_path, key, words):
    values = {"home": "home", "corpora": {"garden": {"path": "garden.jsonl"}}}
    (tmp_path / "mog.yaml").write_text(json.dumps(values), encoding="utf-8")
    command, variables = [*UI, "--host", "0.0.0.0"], {**environment(), "MOG_API_KEY": key}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=START_SECONDS)
    assert done.returncode == 2 and words in done.stderr


@contextlib.contextmanager
def screenshot_on_failure(page, path):
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):
            page.screenshot(path=path)
        error.add_note(f"page {page.url}, screenshot {path}")
        raise


@pytest.mark.full
def test_documents_are_materialised_by_clicks(served, chromium, tmp_path):
    from playwright.sync_api import expect

    served.until(served.answers)
    store = Store(served.folder / "home")
    assert store.find("documents", "garden") is None
    page = chromium.new_page(viewport={"width": 1600, "height": 1000})
    page.set_default_timeout(CLICK_MS)
    expect.set_options(timeout=CLICK_MS)
    errors = watch_errors(page, served.url)

    with screenshot_on_failure(page, tmp_path / "failure.png"):
        page.goto(f"{served.url}/locations/mog-assets/asset-groups/corpus/lineage")
        nodes = page.locator("svg foreignObject")
        for name in ("sources", "documents"):
            expect(nodes.get_by_text(name, exact=True)).to_be_visible()

        nodes.get_by_text("documents", exact=True).click()
        page.get_by_role("link", name="View in Asset Catalog").click()
        page.wait_for_url(re.compile(r"/assets/documents"))
        expect(page.get_by_text("Never materialized")).to_be_visible()

        page.get_by_role("button", name="Materialize").click()
        page.get_by_text("Select a partition or create one").click()
        page.get_by_text("garden", exact=True).first.click()  # Dagster writes it twice, the second time to measure it.
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Launch 1 run").click()

        # The click has returned before the server knows of the run; who leaves the page then takes the launch along.
        served.until(served.runs)
        # The notice of the launch goes away by itself; the list of runs stays.
        page.goto(f"{served.url}/runs")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=RUN_MS)

        page.goto(f"{served.url}/assets/documents")
        lines = len((served.folder / "garden.jsonl").read_text(encoding="utf-8").splitlines())
        row = page.get_by_role("row").filter(has=page.get_by_text("documents", exact=True))
        expect(row.get_by_text(str(lines), exact=True).first).to_be_visible()

    artefact = store.find("documents", "garden")
    assert artefact is not None
    assert artefact.manifest.partition == "garden"
    (run,) = served.runs()
    assert run["status"] == "SUCCESS"
    assert {"key": "dagster/partition", "value": "garden"} in run["tags"]
    assert errors == []


def test_it_ends_with_all_it_started_on_sigterm(served):
    """The last on this server."""
    served.until(served.answers)
    # `dagster dev`, code server, web server and daemon; the last may still be starting.
    served.until(lambda: len(served.descendants()) >= 4)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(END_SECONDS) == 143
    assert served.descendants() == set()
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", served.port))


def test_a_browser_asks_for_the_key_where_there_is_one(tmp_path):
    (tmp_path / "empty.yaml").write_text("load_from: []", encoding="utf-8")
    # Nor does it need what `pip install 'mog-assets[serve]'` brings.
    without = tmp_path / "without"
    without.mkdir()
    (without / "fastapi.py").write_text("raise ModuleNotFoundError(name='fastapi')", encoding="utf-8")
    path = os.pathsep.join([str(without), str(ROOT)])
    started = Served(tmp_path, "--workspace", "empty.yaml", MOG_API_KEY=KEY, PYTHONPATH=path)

    def status(path, scheme=None, words=""):
        shown = {"Authorization": f"{scheme} {words}"} if scheme else {}
        # Whoever has the key may use any name of the machine.
        return started.send("GET", path, {"Host": "mog.example", **shown})

    def healthy():
        assert started.process.poll() is None, started.log.read_text(errors="replace")
        with contextlib.suppress(OSError):
            return status("/server_info")[0] == 200

    try:
        started.until(healthy)
        answer, headers = status("/")
        assert answer == 401 and headers["WWW-Authenticate"].startswith("Basic ")
        for scheme, words, expected in [
            ("Basic", base64.b64encode(f"anybody:{KEY}".encode()).decode(), 200),
            ("Bearer", KEY, 200),
            ("Basic", base64.b64encode(f"{KEY}:".encode()).decode(), 401),
            ("Basic", "no base64", 401),
            ("Bearer", KEY[:-1], 401),
            ("Digest", KEY, 401),
        ]:
            assert status("/assets", scheme, words)[0] == expected, (scheme, words)
        # The code server and the daemon are elsewhere.
        assert len(started.descendants()) == 1
    finally:
        started.end()


def running(started, words):
    """Return the numbers of the processes below `mog ui` whose command line has some words."""
    commands = {}
    for pid in started.descendants():
        with contextlib.suppress(OSError):
            commands[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return [pid for pid, command in commands.items() if words in command]


@pytest.mark.parametrize(("name", "words"), [("code server", "code-server start"), ("daemon", "dagster._daemon")])
def test_it_stops_with_a_message_when_what_it_needs_ends(tmp_path, name, words):
    started = Served(tmp_path)
    try:
        started.until(lambda: running(started, "dagster._daemon") and started.answers())
        os.kill(running(started, words)[0], signal.SIGKILL)
        assert started.process.wait(END_SECONDS) not in (0, None)
        assert f"Dagster's {name} ended" in started.log.read_text(errors="replace")
        assert started.descendants() == set()
    finally:
        started.end()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
@pytest.mark.parametrize("words", ["", "code-server start", "dagster._daemon"])
def test_dagster_ends_when_it_is_killed(tmp_path, words):
    """Also while the graph is being loaded."""
    started = Served(tmp_path)
    try:
        started.until(lambda: running(started, words))
        started.process.kill()
        started.process.wait()
        deadline = time.monotonic() + END_SECONDS
        while started.descendants() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert started.descendants() == set()
    finally:
        started.end()


@pytest.fixture
def settings(make_project, tmp_path):
    (tmp_path / "a.jsonl").write_text("", encoding="utf-8")
    return make_project(tmp_path, {"corpora": {"a": {"path": "a.jsonl"}}}).settings


@pytest.mark.parametrize("there", [None, ""])
def test_home_gets_the_defaults_where_there_is_no_file_or_an_empty_one(settings, there):
    file = settings.home / "dagster" / "dagster.yaml"
    if there is not None:
        file.parent.mkdir(parents=True)
        file.write_text(there, encoding="utf-8")
    runner.prepare_home(settings)
    assert file.read_bytes() == (ROOT / "mog_assets" / "dagster.yaml").read_bytes()
    with runner.instance(settings) as opened:
        assert not opened.nux_enabled


def test_home_keeps_what_somebody_changed(settings):
    file = settings.home / "dagster" / "dagster.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("concurrency: {pools: {default_limit: 2}}", encoding="utf-8")
    runner.prepare_home(settings)
    assert "default_limit: 2" in file.read_text(encoding="utf-8")


def test_wheel_holds_what_it_serves(tmp_path):
    source = tmp_path / "source"
    shutil.copytree(ROOT / "mog_assets", source / "mog_assets", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", source)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."],
        cwd=source,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    pages = {f"mog_assets/serve/page/{file.name}" for file in (ROOT / "mog_assets/serve/page").iterdir()}
    wanted = {"mog_assets/dagster.yaml", *pages}
    assert len(pages) == 5 and wanted <= set(zipfile.ZipFile(wheel).namelist())
