"""Pages of a web site as items of a source: those of a sitemap (sitemaps.org), or of a list with an address a line.

A page is asked for again when the sitemap gives it another date, or else when its etag or date is another, which is
asked by HEAD. The `Content-Type` that this gives says how it is read.
What the site's `robots.txt` (RFC 9309) forbids is not asked for.
"""

from __future__ import annotations

import hashlib
import math
import mimetypes
import threading
import time
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from mog_assets.documents.encodings import known_encoding
from mog_assets.documents.folders import suffix_of, suffixes
from mog_assets.documents.formats.kinds import FORMATS
from mog_assets.documents.sources import SOURCES, Item, Refusal, Source, is_name
from mog_assets.plugins.connectors.look_cache import LookCache

AGENT = "mog-assets"
# Requests at a time, and seconds that one may take; a site may ask for pauses between them.
_TOGETHER, _PATIENCE, _LONGEST_PAUSE = 4, 30.0, 10.0
# Of a sitemap and the sitemaps that it lists (sitemaps.org allows 50,000 pages in each), and bytes of one answer.
_MOST_PAGES, _MOST_SITEMAPS, _MOST_BYTES = 100_000, 1000, 50_000_000
_MOST_REDIRECTS = 5
# The page is not there, or not for us; anything else that is no answer is an outage.
_ABSENT = frozenset({401, 403, 404, 410, 451})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class _Answer(NamedTuple):
    """Answer of a site to a request for an address."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class _Site:
    """A site as it is now.

    Args:
        address: Of its sitemap or list.
    """

    def __init__(self, address: str) -> None:
        import httpx2

        self.address = address
        self.host = urlsplit(address).netloc
        self._client = httpx2.Client(headers={"User-Agent": AGENT}, timeout=_PATIENCE)
        self._alone, self._next, self._pause = threading.Lock(), 0.0, 0.0
        self._robots = self._rules()
        self._pause = min(float(self._robots.crawl_delay(AGENT) or 0), _LONGEST_PAUSE)
        self.urls: dict[str, str] = {}
        self.items = self._items()

    def _items(self) -> dict[str, Item]:
        path = urlsplit(self.address).path.lower()
        if path.endswith((".xml", ".xml.gz")):
            pages = self._of_sitemap()
        elif path.endswith(".txt"):
            lines = self._text(self.address).decode("utf-8", "replace").splitlines()
            pages = {line.strip(): "" for line in lines if line.strip() and not line.startswith("#")}
        else:
            raise ValueError("an address that ends with .xml, a sitemap, or .txt, a list of addresses")
        if not pages:
            # More likely a mishap than a site that has become empty.
            raise ValueError("at least one page, and there is none")
        refusals = {url: self._refusal(url) for url in pages}
        undated = [url for url, date in pages.items() if not date and not refusals[url]]
        with ThreadPoolExecutor(_TOGETHER) as pool:
            looks = dict(zip(undated, pool.map(self._looked_at, undated), strict=True))
        items = {}
        for url, date in pages.items():
            look, kind = looks.get(url, (Item(date and f"sitemap {date}", _day(date)), ""))
            name, refusal = self._name(url, kind), refusals[url]
            if name in self.urls:
                name = _distinct(name, url)
            if not refusal and not is_name(name):
                refusal = "expected a path that a file may have"
            if refusal:
                items[url] = Item("", refusal=refusal)
            else:
                self.urls[name] = url
                items[name] = look
        return items

    def _of_sitemap(self) -> dict[str, str]:
        pages: dict[str, str] = {}
        waiting, seen = [self.address], {self.address}
        while waiting:
            entries, inner = _entries(self._text(waiting.pop()))
            for url, date in entries:
                if inner and url not in seen and not self._refusal(url):
                    seen.add(url)
                    waiting.append(url)
                elif not inner:
                    pages[url] = date
            if len(pages) > _MOST_PAGES or len(seen) > _MOST_SITEMAPS:
                raise ValueError(f"at most {_MOST_PAGES:,} pages in {_MOST_SITEMAPS:,} sitemaps, and there are more")
        return pages

    def _rules(self) -> RobotFileParser:
        rules = RobotFileParser()
        answer = self._answer("GET", urljoin(self.address, "/robots.txt"))
        if answer.status >= 500:
            # As if it forbade everything, says RFC 9309; that would delete all pages.
            raise _outage(answer)
        given = answer.content.decode("utf-8", "replace") if answer.status == 200 else ""
        rules.parse(["User-agent: *", "Disallow: /"] if answer.status in (401, 403) else given.splitlines())
        return rules

    def _refusal(self, url: str) -> str:
        """Return why a page is not asked for; empty if it is."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.netloc != self.host:
            return f"expected a page of {self.host}: not asked for"
        return "" if self._robots.can_fetch(AGENT, url) else "robots.txt of the site forbids it: not asked for"

    def _name(self, url: str, kind: str) -> str:
        """Return name of a page, with a suffix of its kind; without one, what a program makes of a path is a page."""
        parts = urlsplit(url)
        path = parts.path.strip("/")
        if not path or parts.path.endswith("/"):
            path = f"{path}/index".lstrip("/")
        given = suffix_of(path)
        # Anything that is text may be called plain.
        wanted = [given or ".txt"] if kind == "text/plain" else mimetypes.guess_all_extensions(kind)
        wanted = [suffix for suffix in wanted if suffix_of(f"a{suffix}")]
        if given not in (wanted or set(suffixes()) - {"", *(end for end, form in FORMATS.items() if form.code)}):
            path += next(iter(wanted), ".html")
        return _distinct(path, parts.query) if parts.query else path

    def _looked_at(self, url: str) -> tuple[Item, str]:
        """Return a page as an item, and its kind, empty if the site does not say it."""
        try:
            answer = self._answer("HEAD", url)
            # The library calls plain what has none.
            typed = answer.status == 200 and "content-type" in answer.headers
            return self._version(url, answer), _type(answer).get_content_type() if typed else ""
        except Refusal as refusal:
            return Item("", refusal=str(refusal)), ""

    def _version(self, url: str, answer: _Answer) -> Item:
        if answer.status in _ABSENT:
            return Item("", refusal=_status_line(answer))
        given = answer.headers.get("etag") or answer.headers.get("last-modified")
        if answer.status == 200 and given:
            return Item(given, _date(answer.headers.get("last-modified")))
        # A site that says nothing of its pages is asked for them.
        content = self._answer("GET", url)
        if content.status in _ABSENT:
            return Item("", refusal=_status_line(content))
        return Item(hashlib.sha256(_content(content)).hexdigest())

    def read(self, name: str) -> bytes:
        """Return a page.

        Raises:
            Refusal: it is not there.
        """
        answer = self._answer("GET", self.urls[name])
        if answer.status in _ABSENT:
            raise Refusal(_status_line(answer))
        content, kind = _content(answer), _type(answer)
        charset = known_encoding(kind.get_content_charset() or "") if kind.get_content_maintype() == "text" else ""
        if charset in ("", "utf-8"):
            return content
        try:
            # The file says itself what the answer said of it.
            return content.decode(charset).encode("utf-8-sig")
        except UnicodeError:
            return content

    def _text(self, url: str) -> bytes:
        content = _content(self._answer("GET", url))
        if not content.startswith(b"\x1f\x8b"):
            return content
        unpacked = zlib.decompressobj(31).decompress(content, _MOST_BYTES + 1)
        if len(unpacked) > _MOST_BYTES:
            raise ValueError(f"at most {_MOST_BYTES:,} bytes in {url}")
        return unpacked

    def _answer(self, method: str, url: str) -> _Answer:
        """Return the answer to a request; redirects are followed within the site."""
        for _ in range(_MOST_REDIRECTS):
            self._wait()
            answer = self._send(method, url)
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                return answer
            url = urljoin(url, answer.headers["location"])
            if urlsplit(url).netloc != self.host or urlsplit(url).scheme not in ("http", "https"):
                raise Refusal(f"it leads to {urlsplit(url).netloc}, and not to a page of {self.host}")
        raise Refusal(f"expected at most {_MOST_REDIRECTS} redirects, got more")

    def _send(self, method: str, url: str) -> _Answer:
        with self._client.stream(method, url) as answer:
            content = bytearray()
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > _MOST_BYTES:
                    raise Refusal(f"expected at most {_MOST_BYTES:,} bytes, got more")
            return _Answer(url, answer.status_code, answer.reason_phrase, answer.headers, bytes(content))

    def _wait(self) -> None:
        """Wait for the turn of a request, if the site wants pauses."""
        if self._pause:
            with self._alone:
                now = time.monotonic()
                at, self._next = max(now, self._next), max(now, self._next) + self._pause
            time.sleep(at - now)


def _distinct(name: str, text: str) -> str:
    path = PurePosixPath(name)
    return str(path.with_name(f"{path.stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{path.suffix}"))


def _entries(content: bytes) -> tuple[list[tuple[str, str]], bool]:
    """Return addresses and dates of a sitemap, and whether they are those of further sitemaps."""
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    root = etree.fromstring(content, parser)
    if root.getroottree().docinfo.doctype:
        raise ValueError("a sitemap without a document type, and it has one")
    kind = etree.QName(root).localname
    if kind not in ("urlset", "sitemapindex"):
        raise ValueError(f"a sitemap, and it is {kind!r}")
    entries = []
    for entry in root:
        fields = {etree.QName(f).localname: (f.text or "").strip() for f in entry if isinstance(f.tag, str)}
        if fields.get("loc"):
            entries.append((fields["loc"], fields.get("lastmod", "")))
    return entries, kind == "sitemapindex"


def _type(answer: _Answer) -> Message:
    """Return the `Content-Type` of an answer."""
    message = Message()
    message["Content-Type"] = answer.headers.get("content-type", "")
    return message


def _content(answer: _Answer) -> bytes:
    if answer.status != 200:
        raise _outage(answer)
    return answer.content


def _outage(answer: _Answer) -> OSError:
    return OSError(f"{_status_line(answer)} for {answer.url}")


def _status_line(answer: _Answer) -> str:
    return f"{answer.status} {answer.reason}".strip()


def _date(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def _day(text: str) -> float | None:
    """Return the time of a date of a sitemap (W3C's profile of ISO 8601)."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


_SITES: LookCache[_Site] = LookCache(_Site)


def _items(scheme: str, place: str) -> Mapping[str, Item]:
    return _SITES(f"{scheme}://{place}").items


def _read(scheme: str, place: str, name: str) -> bytes:
    # Of the look that listed it, however long the others took to copy.
    return _SITES(f"{scheme}://{place}", math.inf).read(name)


for _scheme in ("https", "http"):
    SOURCES.register(_scheme, Source(partial(_items, _scheme), partial(_read, _scheme), _TOGETHER))
