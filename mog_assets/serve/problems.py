"""What goes wrong, as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from mog_assets.registry import ERROR_FIELDS
from mog_assets.resources import errors

PROBLEM_TYPE = "application/problem+json"

log = logging.getLogger("mog.serve")
_DETAIL_CHARS = 1000
# The folders of an absolute path.
_FOLDERS = re.compile(r"(?<![\w/.])/(?:[^\s/:'\"]+/)+")


def shortened(text: str, most: int = _DETAIL_CHARS) -> str:
    """Return a text of at most so many characters, without its middle if it is longer.

    Errors name what was sent at their beginning and what to do at their end: both stay readable, and nobody can have
    the server send back, or log, what is large.
    """
    end = most // 4
    return text if len(text) <= most else f"{text[: most - end - 3]} … {text[-end:]}"


class Problem(Exception):
    """A request that gets an error as its answer.

    Attributes:
        status: The HTTP status.
        detail: What failed and what to do, for whoever sent the request.
        reason: A word for the metrics: why it was turned away; empty if it was not.
        headers: Further headers of the answer.
    """

    def __init__(self, status: int, detail: str, reason: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.reason = status, shortened(detail), reason
        self.headers = dict(headers or {})

    def to_json(self, path: str = "") -> dict[str, Any]:
        """Return the fields of RFC 9457, and those that clients of the path read."""
        title = HTTPStatus(self.status).phrase
        body: dict[str, Any] = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        for fields in ERROR_FIELDS.values():
            body |= fields(self, path)
        return body

    def response(self, path: str) -> JSONResponse:
        """Return the answer to a request for a path."""
        return JSONResponse(self.to_json(path), self.status, self.headers, PROBLEM_TYPE)


def problem_of(error: BaseException) -> Problem:
    """Return the problem that an error is to whoever sent the request; an unexpected one is logged and not told."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, errors.ConfigError):
        return Problem(400, str(error))
    if isinstance(error, errors.NotFound):
        return Problem(404, str(error))
    if isinstance(error, errors.NotAllowed):
        # What the rules say is for who writes them.
        log.error("%s", shortened(str(error)))
        return Problem(503, "It cannot be told now which documents you may see; the log of the server says more.")
    if isinstance(error, errors.MissingArtefact):
        return Problem(503, str(error))
    if isinstance(error, errors.MogError):
        log.error("%s", shortened(str(error)))
        # Where files lie is nobody's business.
        return Problem(500, _FOLDERS.sub("", str(error)))
    if isinstance(error, OSError) and error.errno:
        # Not a fault of ours: the disk is full, the home folder is gone, there are too many open files.
        log.error("%s", shortened(str(error)))
        # Its own text may name the file.
        why = os.strerror(error.errno)
        return Problem(503, f"The files of the project cannot be used now ({why}); the log of the server says more.")
    log.error("unexpected error", exc_info=error)
    return Problem(500, "Unexpected error; the log of the server says more.")
