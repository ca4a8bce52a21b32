"""The report: one self-contained HTML page, without scripts."""

from __future__ import annotations

import base64
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from mog_assets.index.vector_stores import VECTOR_STORES

TEMPLATE = "report.html.j2"
_PACKAGES = ("mog-assets", "dagster", "torch", "transformers", "bm25s", "bertopic", "ir-measures", "numpy", "pandas")


@dataclass(frozen=True)
class Part:
    """A part of the page.

    Attributes:
        title: Its heading.
        text: What it shows, or why there is nothing to show.
        tables: Rows by title; the names of the first row's fields are the head.
        pictures: PNG plots by title.
        folded: Tables that are shown when their title is clicked.
    """

    title: str
    text: str
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    folded: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Its place in the page."""
        return re.sub(r"\W+", "-", self.title.lower())


def render(advice: str, parts: Sequence[Part], configuration: Mapping[str, Any]) -> str:
    """Return the page.

    Args:
        advice: The sentence that it begins with.
        parts: In order.
        configuration: Settings, as JSON values.

    Returns:
        HTML with styles and pictures inline. All texts are escaped, and the page's content security policy allows no
        script and no requests.
    """
    import jinja2
    import yaml

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    markup = jinja2.utils.markupsafe.Markup
    environment.filters["code"] = lambda text: markup(re.sub("`([^`]*)`", r"<code>\1</code>", escape(text)))
    environment.filters["base64"] = lambda data: base64.b64encode(data).decode("ascii")
    source = files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    text = yaml.safe_dump(dict(configuration), sort_keys=False, allow_unicode=True)
    return environment.from_string(source).render(advice=advice, parts=list(parts), configuration=text)


def environment() -> list[tuple[str, str]]:
    """Return versions of the software, and the machine: name and value."""
    rows = [("python", platform.python_version())]
    for name in (*_PACKAGES, *(name for store in VECTOR_STORES.values() for name in store.packages)):
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            rows.append((name, "not installed"))
    return [*rows, ("platform", platform.platform()), ("processor cores", str(os.cpu_count()))]
