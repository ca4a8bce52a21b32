"""URLs of the pages that a server has."""

from __future__ import annotations

from urllib.parse import urlencode


def page_of(base: str, corpus: str, doc: str, places: str = "") -> str:
    """The page of a document.

    Args:
        base: URL of the server.
        corpus: The corpus.
        doc: The document's id.
        places: `#START-END`, to be shown first; empty for the beginning.
    """
    return f"{base}/document?{urlencode({'corpus': corpus, 'id': doc})}{places}"
