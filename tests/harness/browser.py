"""A real browser: how it is started, and which errors are those of a page. The fixture is `chromium` of conftest.py."""

import contextlib
import shutil

import pytest

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


@contextlib.contextmanager
def opened():
    """A running browser; a test that needs it is skipped where there is none."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed (no `chromium` on PATH)")
    playwright = pytest.importorskip("playwright.sync_api", reason="the Python package playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


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
