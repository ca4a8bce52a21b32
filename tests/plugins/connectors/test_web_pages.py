"""Pages of a web site as documents: a real server on loopback, whose requests are counted."""

import gzip
import signal
import subprocess
import sys
import threading
import time

import pytest
from pdf_file import pdf
from served import environment
from shared import ROOT, new_project, run_alone
from web_server import WebServer

from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.plugins.connectors import look_cache
from mog_assets.resources.errors import ConfigError

STAGES = ["documents"]


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch):
    """Each look asks the site."""
    monkeypatch.setattr(look_cache, "FRESH_SECONDS", -1.0)


def page(title, text):
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p></body></html>"


def sitemap(url, *paths, dates=None, kind="urlset", entry="url"):
    dates = dates or {}
    rows = (
        f"<{entry}><loc>{url}{path}</loc><lastmod>{dates[path]}</lastmod></{entry}>"
        if path in dates
        else f"<{entry}><loc>{url}{path}</loc></{entry}>"
        for path in paths
    )
    return f'<?xml version="1.0"?><{kind} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(rows)}</{kind}>'


def project(folder, source):
    return new_project(folder, {"corpora": {"site": {"source": source}}}).settings


def documents(settings):
    """The ids of the documents, those that were skipped with the reason, and what the last run read."""
    import pyarrow.parquet as pq

    artefact = Tools(settings).store.read("documents", "site")
    tables = [pq.read_table(artefact.path(name)) for name in artefact.names("bucket")]
    ids = sorted(id for table in tables for id in table["id"].to_pylist())
    skipped = pq.read_table(artefact.path("skipped.parquet")).to_pylist()
    return ids, {row["place"]: row["reason"] for row in skipped}, artefact.manifest


def built(settings):
    assert not run_alone(settings, select=STAGES).failures
    return documents(settings)


@pytest.fixture
def site():
    pages = {
        "/": page("Home", "Here."),
        "/docs/hens": page("Hens", "Five eggs."),
        "/docs/ducks/": page("Ducks", "Nine."),
    }
    with WebServer({**pages, "/notes.txt": "Plain notes.", "/a.html?p=2": page("Two", "Second page.")}) as opened:
        opened.pages["/sitemap.xml"] = sitemap(opened.url, *opened.pages)
        yield opened


def test_a_site_is_followed_page_by_page_as_a_rebuild_would_have_it(tmp_path, site):
    settings = project(tmp_path / "a", f"{site.url}/sitemap.xml")
    ids, skipped, _ = built(settings)
    assert ids[1:] == ["docs/ducks/index.html", "docs/hens.html", "index.html", "notes.txt"] and not skipped
    assert ids[0].startswith("a-") and ids[0].endswith(".html")
    assert all(site.sent(path) == 1 or path == "/sitemap.xml" for path in site.pages if path != "/a.html?p=2")
    del site.requests[:]
    assert built(settings)[0] == ids
    # Nothing is sent again but what says which pages there are.
    assert {path for method, path, status in site.requests if status == 200 and method == "GET"} == {"/sitemap.xml"}
    # One is changed, one is gone, one is new, one has another address.
    site.pages["/docs/hens"] = page("Hens", "Six eggs.")
    site.pages["/docs/geese"] = page("Geese", "One egg.")
    site.pages["/moved"] = site.pages.pop("/docs/ducks/")
    del site.pages["/notes.txt"]
    site.pages["/sitemap.xml"] = sitemap(site.url, *(path for path in site.pages if path != "/sitemap.xml"))
    del site.requests[:]
    ids, _, manifest = built(settings)
    assert ids[1:] == ["docs/geese.html", "docs/hens.html", "index.html", "moved.html"]
    assert {p for m, p, s in site.requests if s == 200 and m == "GET"} - {"/sitemap.xml"} == {
        "/docs/hens",
        "/docs/geese",
        "/moved",
    }
    rebuilt = project(tmp_path / "b", f"{site.url}/sitemap.xml")
    assert built(rebuilt)[2].version == manifest.version


@pytest.mark.parametrize("dated", [False, True])
def test_a_page_is_read_as_the_site_says_and_not_as_its_address_ends(tmp_path, site, dated):
    import pyarrow.parquet as pq

    report = pdf([[(50, 700, 12, "Grain prices.")]])
    korean = "박물관은 화요일부터 일요일까지 문을 엽니다."
    site.pages = {
        "/strlen.php": page("strlen", "Returns the length."),
        "/report": report,
        "/get?file=2": report,
        "/old": f"<p>{korean}</p>".encode("cp949"),
    }
    kinds = {"/report": "application/pdf", "/get?file=2": "application/pdf", "/old": "text/html; charset=euc-kr"}
    if not dated:
        site.pages |= {"/notes": "1 < 2 <b>", "/code.py": "x = 1\n", "/view.pdf": page("View", "A page.")}
        kinds |= {"/notes": "text/plain", "/code.py": "text/plain", "/view.pdf": "text/html"}
    site.kinds = kinds
    paths = list(site.pages)
    dates = dict.fromkeys(paths, "2026-01-01") if dated else None
    site.pages["/sitemap.xml"] = sitemap(site.url, *paths, dates=dates)
    settings = project(tmp_path / "a", f"{site.url}/sitemap.xml")
    assert built(settings)[1] == {}
    read = Tools(settings).store.read("documents", "site")
    rows = [row for name in read.names("bucket") for row in pq.read_table(read.path(name)).to_pylist()]
    texts = {row["id"].split(".")[0].split("-")[0]: row["text"] for row in rows}
    expected = {
        "strlen": "strlen\n\nReturns the length.",
        "report": "Grain prices.",
        "get": "Grain prices.",
        "old": korean,
    }
    if not dated:
        expected |= {"notes": "1 < 2 <b>", "code": "x = 1\n", "view": "View\n\nA page."}
    assert texts == expected


def test_a_date_in_the_sitemap_says_without_a_request_that_a_page_is_the_same(tmp_path, site):
    paths = ["/", "/docs/hens"]
    site.pages["/sitemap.xml"] = sitemap(site.url, *paths, dates=dict.fromkeys(paths, "2026-01-01"))
    settings = project(tmp_path / "a", f"{site.url}/sitemap.xml")
    built(settings)
    del site.requests[:]
    built(settings)
    assert {path for _, path, _ in site.requests} == {"/robots.txt", "/sitemap.xml"}
    site.pages["/sitemap.xml"] = sitemap(site.url, *paths, dates={"/": "2026-01-01", "/docs/hens": "2026-02-01"})
    del site.requests[:]
    built(settings)
    assert site.sent("/docs/hens") == 1 and site.sent("/") == 0


def test_what_a_site_forbids_or_has_not_is_skipped_with_the_reason_and_other_sites_are_not_asked(tmp_path, site):
    asked = []
    with WebServer({"/secret": lambda _: asked.append(1) or page("Secret", "No.")}) as other:
        site.pages["/robots.txt"] = "User-agent: *\nDisallow: /docs/\nCrawl-delay: 0.01\n"
        site.pages["/away"] = 302
        paths = ["/", "/docs/hens", "/gone", "/.hidden", "/away"]
        listed = [*(site.url + path for path in paths), f"{other.url}/secret", "file:///etc/passwd"]
        site.pages["/list.txt"] = "# pages\n" + "\n".join(listed)
        ids, skipped, manifest = built(project(tmp_path / "a", f"{site.url}/list.txt"))
        assert not asked and not other.requests
    assert ids == ["index.html"] and manifest.counts["skipped"] == len(skipped) == 6
    reasons = {place.removeprefix(site.url): reason for place, reason in skipped.items()}
    assert "robots.txt" in reasons["/docs/hens"] and "404" in reasons["gone.html"]
    assert "a path that a file may have" in reasons["/.hidden"]
    assert f"a page of {site.url.removeprefix('http://')}" in reasons["file:///etc/passwd"]
    assert site.sent("/docs/hens") == 0


def test_sitemaps_of_sitemaps_packed_ones_and_circles_are_read(tmp_path, site):
    site.pages["/one.xml.gz"] = gzip.compress(sitemap(site.url, "/", "/docs/hens").encode())
    site.pages["/two.xml"] = sitemap(site.url, "/index.xml", "/one.xml.gz", kind="sitemapindex", entry="sitemap")
    site.pages["/index.xml"] = sitemap(site.url, "/two.xml", "/one.xml.gz", kind="sitemapindex", entry="sitemap")
    assert built(project(tmp_path / "a", f"{site.url}/index.xml"))[0] == ["docs/hens.html", "index.html"]


@pytest.mark.parametrize(
    "content",
    [
        "<urlset",
        "<html></html>",
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>&a;</loc></url></urlset>',
        b"\x1f\x8b broken",
        500,
        404,
    ],
)
def test_a_sitemap_that_cannot_be_read_deletes_nothing(tmp_path, site, content):
    settings = project(tmp_path / "a", f"{site.url}/sitemap.xml")
    before = built(settings)[2].version
    site.pages["/sitemap.xml"] = content
    report = run_alone(settings, select=STAGES)
    assert "corpora.site.source: expected a list of items" in str(report.failures)
    assert documents(settings)[2].version == before


def test_an_outage_in_the_middle_or_a_kill_loses_nothing_and_the_next_run_goes_on(tmp_path, site):
    paths = [f"/page{number}" for number in range(40)]
    site.pages.update({path: page(path, f"Text of {path}.") for path in paths})
    # Without a request the version is known, so each page is asked for once.
    site.pages["/sitemap.xml"] = sitemap(site.url, *paths, dates=dict.fromkeys(paths, "2026-01-01"))
    settings = project(tmp_path / "a", f"{site.url}/sitemap.xml")
    site.pages["/page30"] = 503
    assert "503" in str(run_alone(settings, select=STAGES).failures)
    reached = threading.Event()
    site.pages["/page30"] = lambda _: reached.set() or time.sleep(60) or page("/page30", "Text of /page30.")
    words = [
        sys.executable,
        "-m",
        "mog_assets.cli",
        "run",
        "--select",
        "documents",
        "--config",
        str(tmp_path / "a/mog.yaml"),
    ]
    process = subprocess.Popen(words, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # It waits for this page until it gives up, which takes longer than the pages beside it.
    assert reached.wait(120)
    time.sleep(1.5)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    site.pages["/page30"] = page("/page30", "Text of /page30.")
    del site.requests[:]
    ids, skipped, manifest = built(settings)
    assert len(ids) == 40 and not skipped
    assert site.sent() - 1 < 40, "pages that were copied are not asked for again"
    assert built(project(tmp_path / "b", f"{site.url}/sitemap.xml"))[2].version == manifest.version


def test_an_address_that_is_neither_a_sitemap_nor_a_list_is_told(tmp_path, site):
    report = run_alone(project(tmp_path / "a", f"{site.url}/docs/"), select=STAGES)
    assert "an address that ends with .xml, a sitemap, or .txt" in str(report.failures)
    with pytest.raises(ConfigError, match="without a user and password"):
        config.parse({"corpora": {"a": {"source": "https://me:secret@example.org/sitemap.xml"}}}, tmp_path / "mog.yaml")
