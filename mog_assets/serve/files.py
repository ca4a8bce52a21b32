"""Files that are served: the search page, and the originals of documents."""

from __future__ import annotations

import mimetypes
import os
import stat
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response

from mog_assets.serve.observed import PAGE_POLICY
from mog_assets.serve.problems import Problem

_PAGE = {
    "/": "index.html",
    "/page.js": "page.js",
    "/page.css": "page.css",
    "/document": "document.html",
    "/document.js": "document.js",
}
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Shown by the browser; all others are saved. None of them can run a script.
_SHOWN = {"application/pdf", "text/plain", "text/markdown", "image/png", "image/jpeg", "image/gif", "image/webp"}


def add_page(application: FastAPI) -> None:
    """Add the routes of the search page."""
    for path, name in _PAGE.items():
        application.add_api_route(path, _page_file(name), include_in_schema=False)


def _page_file(name: str) -> Any:
    def page_file() -> Response:
        file = files("mog_assets.serve") / "page" / name
        if not file.is_file():
            raise Problem(404, f"This installation has no {name}")
        headers = {"Content-Security-Policy": PAGE_POLICY, "Cache-Control": "no-cache"}
        return Response(file.read_bytes(), media_type=_TYPES[Path(name).suffix], headers=headers)

    return page_file


def source(project: Any, corpus: str, id: str) -> FileResponse:
    """Return the file that a document comes from.

    Raises:
        Problem: there is no such file below the folder of the corpus (404).
        NotFound: there is no such corpus or document.
    """
    document = project.document(corpus, id)
    nothing = Problem(404, f"{corpus}/{id} does not come from a file below the folder of its corpus")
    if document.source is None:
        raise nothing
    path = _inside(str(project.settings.corpora[corpus].path), document.source)
    if path is None:
        raise nothing
    media = mimetypes.guess_type(path)[0] or "application/octet-stream"
    media = "text/markdown" if path.endswith(".md") else media
    how = "inline" if media in _SHOWN else "attachment"
    name = quote(os.path.basename(path), safe="")
    headers = {
        "Content-Security-Policy": "sandbox",
        "Content-Disposition": f"{how}; filename*=utf-8''{name}",
    }
    return FileResponse(path, media_type=media, headers=headers)


def _inside(folder: str, name: str) -> str | None:
    """Return the real path of a regular file, if it is below the folder and no link leads out of it."""
    root = os.path.realpath(folder)
    try:
        path = os.path.realpath(os.path.join(root, name))
        inside = os.path.commonpath([root, path]) == root and stat.S_ISREG(os.stat(path).st_mode)
    # Nothing there, or not a name that a file can have.
    except (OSError, ValueError):
        return None
    return path if inside and path != root else None
