"""The description of the routes as one page without scripts. It needs no other host."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from mog_assets.registry import ROUTES
from mog_assets.serve.http import Serving

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h2 { margin-top: 2.5rem; font-size: 1.05rem; } h2 code { font-size: 1rem; }
.method { display: inline-block; min-width: 3.2rem; font-weight: 600; color: #0b5; }
table { border-collapse: collapse; width: 100%; } td, th { border-top: 1px solid #ddd; padding: .3rem .6rem .3rem 0;
text-align: left; vertical-align: top; } code { font: 13px ui-monospace, monospace; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #e6e6e6; } td, th { border-color: #333; } }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; frame-ancestors 'none'"


def page(described: dict[str, Any]) -> str:
    """Return the HTML of an OpenAPI description."""
    info, schemas = described["info"], described.get("components", {}).get("schemas", {})
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(info["title"])}</title>',
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('description', ''))}</p>",
        '<p>As JSON: <a href="openapi.json">openapi.json</a>. With a key set, send it as '
        "<code>Authorization: Bearer KEY</code>. Errors are <code>application/problem+json</code> (RFC 9457).</p>",
    ]
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            parts.append(f'<h2><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h2>')
            parts.append(f"<p>{escape(route.get('summary', ''))}</p>")
            parts.append(_table(_rows(route, schemas)))
    return "\n".join(parts)


def _rows(route: dict[str, Any], schemas: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, type and meaning of every parameter and field of the body."""
    rows = [
        (one["name"], f"{_kind(one['schema'])}, in the {one['in']}", one.get("description", ""))
        for one in route.get("parameters", ())
    ]
    body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return rows + _fields(body, schemas, "")


def _fields(schema: dict[str, Any], schemas: dict[str, Any], prefix: str) -> list[tuple[str, str, str]]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    rows = []
    for name, field in schema.get("properties", {}).items():
        kind = _kind(field)
        if name in schema.get("required", ()):
            kind += ", required"
        elif field.get("default") is not None:
            kind += f", default {json.dumps(field['default'])}"
        rows.append((prefix + name, kind, field.get("description", "")))
        if "$ref" in field:
            rows += _fields(field, schemas, f"{prefix}{name}.")
    return rows


def _kind(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "object"))


def _table(rows: list[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td><td>{escape(text)}</td></tr>"
        for name, kind, text in rows
    )
    return f"<table><tr><th>name</th><th>type</th><th></th></tr>{cells}</table>"


def _add(app: FastAPI, serving: Serving) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page(app.openapi()), headers={"Content-Security-Policy": POLICY})


ROUTES.register("docs", _add)
