"""The asset graph in the Dagster UI: a real `dagster dev`, driven by a real browser."""

import contextlib
import json
import re
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from mog_assets import config, runner
from resources.store import Store

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 90
CLICK_MS = 15_000
RUN_MS = 180_000

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (no `chromium` on PATH)")


def ask(url, query):
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)["data"]


def wait_until_served(dagster):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if dagster.process.poll() is not None:
            pytest.fail(f"dagster dev ended with {dagster.process.returncode}:\n{dagster.log.read_text()[-3000:]}")
        with contextlib.suppress(urllib.error.URLError, OSError):
            if ask(dagster.url, "{ assetNodes { id } }")["assetNodes"]:
                return
        time.sleep(0.25)
    pytest.fail(f"dagster dev served no assets within {START_SECONDS} s:\n{dagster.log.read_text()[-3000:]}")


def runs_of(url):
    return ask(url, "{ runsOrError { ... on Runs { results { status tags { key value } } } } }")["runsOrError"][
        "results"
    ]


def wait_until_launched(url):
    """The click has returned before the server knows of the run; who leaves the page then takes the launch along."""
    deadline = time.monotonic() + START_SECONDS
    while not runs_of(url):
        assert time.monotonic() < deadline, f"no run within {START_SECONDS} s of the click"
        time.sleep(0.25)


@pytest.fixture
def settings(tmp_path, monkeypatch):
    file = tmp_path / "mog.yaml"
    corpora = {"garden": {"path": str(ROOT / "mog_assets" / "samples" / "garden.jsonl")}}
    # What is to be clicked must not happen by itself.
    automatic = {"enabled": False}
    file.write_text(json.dumps({"home": str(tmp_path / "home"), "corpora": corpora, "automation": automatic}))
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "dagster"))
    return config.load()


@pytest.fixture
def served(settings, start_dagster):
    """URL of `dagster dev` on the repository's workspace and the settings' home."""
    with runner.instance(settings):
        pass
    dagster = start_dagster()
    wait_until_served(dagster)
    return dagster.url


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@contextlib.contextmanager
def screenshot_on_failure(page, path):
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):
            page.screenshot(path=path)
        error.add_note(f"page {page.url}, screenshot {path}")
        raise


def watch_errors(page, url):
    """Errors of the page's scripts, as they come. Failed requests to other hosts are not the page's."""
    errors = []

    def on_console(message):
        source = message.location.get("url", "")
        outside = source.startswith("http") and not source.startswith(url)
        if message.type == "error" and not outside:
            errors.append(f"{source}: {message.text}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


def test_documents_are_materialised_by_clicks(served, browser, settings, tmp_path):
    from playwright.sync_api import expect

    store = Store(settings.home)
    assert store.find("documents", "garden") is None
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    page.set_default_timeout(CLICK_MS)
    expect.set_options(timeout=CLICK_MS)
    errors = watch_errors(page, served)
    # The greeting of a new Dagster home covers the page whenever it comes.
    skip = page.get_by_role("button", name="Skip", exact=True)
    page.add_locator_handler(skip, lambda: skip.click())

    with screenshot_on_failure(page, tmp_path / "failure.png"):
        page.goto(f"{served}/locations/mog-assets/asset-groups/corpus/lineage")
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

        wait_until_launched(served)
        # The notice of the launch goes away by itself; the list of runs stays.
        page.goto(f"{served}/runs")
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=RUN_MS)

        page.goto(f"{served}/assets/documents")
        lines = len((ROOT / "mog_assets" / "samples" / "garden.jsonl").read_text(encoding="utf-8").splitlines())
        row = page.get_by_role("row").filter(has=page.get_by_text("documents", exact=True))
        expect(row.get_by_text(str(lines), exact=True)).to_be_visible()

    artefact = store.find("documents", "garden")
    assert artefact is not None
    assert artefact.manifest.partition == "garden"
    (run,) = runs_of(served)
    assert run["status"] == "SUCCESS"
    assert {"key": "dagster/partition", "value": "garden"} in run["tags"]
    assert errors == []
