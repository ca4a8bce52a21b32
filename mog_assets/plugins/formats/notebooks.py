"""Read Jupyter notebooks: the text of their cells, with its headings, and their code; not what the code printed."""

from __future__ import annotations

import json
from typing import Any

from mog_assets.documents.decoding import decode
from mog_assets.documents.formats.marks import MarkedText, Parsed, clean
from mog_assets.documents.formats.markup import markdown_headings

_READ = ("markdown", "code", "raw")


def read_notebook(content: bytes, fallback: str, limit: int) -> Parsed:
    """Read a notebook of format 4.

    Args:
        content: The file.
        fallback: Title of a notebook without title and first line.
        limit: Maximum characters of the text.

    Raises:
        ValueError: it is no notebook; the message is the reason.
    """
    try:
        book = json.loads(decode(content)[0])
    except (json.JSONDecodeError, RecursionError) as error:
        what = "one nested without end" if isinstance(error, RecursionError) else f"no JSON ({error})"
        raise ValueError(f"damaged: expected a readable .ipynb file, got {what}") from error
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise ValueError("expected a notebook with `cells` (format 4), got other JSON: open and save it in Jupyter")
    draft, title = MarkedText(limit), ""
    for cell in cells:
        kind = cell.get("cell_type") if isinstance(cell, dict) else None
        if kind not in _READ:
            continue
        text = clean(_source(cell.get("source"))).strip("\n")
        marks = tuple(markdown_headings(text)) if kind == "markdown" else ()
        title = title or next((mark.text for mark in marks), "")
        draft.add(text, marks=marks)
    given = book.get("metadata")
    named = given.get("title") if isinstance(given, dict) else None
    return draft.parsed(named if isinstance(named, str) else title, fallback)


def _source(source: Any) -> str:
    """Return the text of a cell, whose source is a text or its lines."""
    parts = source if isinstance(source, list) else [source]
    return "".join(part for part in parts if isinstance(part, str))
