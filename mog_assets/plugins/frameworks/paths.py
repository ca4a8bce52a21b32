"""Paths of the routes in other shapes, and what their clients read of an error."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from mog_assets.registry import ERROR_FIELDS
from mog_assets.serve.problems import Problem

DIFY_PATH, OPENAI_PATH = "/retrieval", "/v1/vector_stores/"
CHAT_PATH, MODELS_PATH = "/v1/chat/completions", "/v1/models"
# Dify's own codes; for the others it takes any number.
_DIFY_CODES = {401: 1002, 404: 2001}
_DIFY_NO_KEY = 1001


def dify_fields(problem: Problem, path: str) -> dict[str, Any]:
    """Return the code and message that Dify reads."""
    if path != DIFY_PATH:
        return {}
    code = _DIFY_NO_KEY if problem.reason == "no key" else _DIFY_CODES.get(problem.status, problem.status)
    return {"error_code": code, "error_msg": problem.detail}


def openai_fields(problem: Problem, path: str) -> dict[str, Any]:
    """Return the error that clients of OpenAI read."""
    if not path.startswith((OPENAI_PATH, CHAT_PATH, MODELS_PATH)):
        return {}
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    code = HTTPStatus(problem.status).phrase.lower()
    return {"error": {"message": problem.detail, "type": kind, "param": None, "code": code}}


ERROR_FIELDS.register("dify", dify_fields)
ERROR_FIELDS.register("openai", openai_fields)
