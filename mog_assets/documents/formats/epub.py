"""Read EPUB books: the pages of the spine, with their headings."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from lxml import etree

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.archives import ENCRYPTED
from mog_assets.documents.formats.html_page import read_html
from mog_assets.documents.formats.marks import MarkedText, Parsed, clean

_PAGES = ("application/xhtml+xml", "text/html")


def read_epub(parts: dict[str, bytes], fallback: str, limit: int) -> Parsed:
    """Read a book.

    Raises:
        ValueError: it is damaged or encrypted; the message is the reason.
    """
    container = _parsed(parts, "META-INF/container.xml")
    root = next((str(e.get("full-path")) for e in container.iter("{*}rootfile") if e.get("full-path")), "")
    package = _parsed(parts, root)
    folder = posixpath.dirname(root)
    pages = {
        item.get("id"): posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for item in package.iter("{*}item")
        if item.get("media-type") in _PAGES
    }
    spine = [item.get("idref") for item in package.iter("{*}itemref")]
    if "META-INF/encryption.xml" in parts:
        # Fonts may be encrypted in a book that is not.
        for reference in _parsed(parts, "META-INF/encryption.xml").iter("{*}CipherReference"):
            if posixpath.normpath(unquote(reference.get("URI", ""))) in pages.values():
                raise ValueError(ENCRYPTED)
    draft, missing = MarkedText(limit), 0
    # Each page once, however often it is named.
    for name in dict.fromkeys(pages[key] for key in spine if key in pages):
        if name not in parts:
            missing += 1
            continue
        page = read_html(clean(decode(parts[name])[0]), PurePosixPath(name).stem)
        draft.add(page.text, marks=page.marks)
    title = next((e.text or "" for e in package.iter("{http://purl.org/dc/elements/1.1/}title")), "")
    return draft.parsed(title, fallback, {"pages missing": missing} if missing else {})


def _parsed(parts: dict[str, bytes], name: str) -> Any:
    if name not in parts:
        raise ValueError(f"damaged: expected a readable .epub file, got one without {name[:100] or 'a package'}")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    return etree.fromstring(parts[name], parser)
