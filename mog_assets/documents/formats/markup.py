"""Read text files that are one document: plain text, Markdown with its headings and front matter, and HTML."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.formats.marks import Mark, Parsed, first_line, heading

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
# Lines that are no paragraph, so that dashes below them are a rule: lists, quotes, tables, code, elements.
_OTHER = re.compile(r" {4}|\t| {0,3}(?:[-+*>|<]|\d{1,9}[.)][ \t])")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_LATEX_TITLE = re.compile(r"\\title\{([^{}]+)\}")
OLD_MAC = re.compile(r"\r(?!\n)")
# An escaped character of JSON outside the basic plane.
_HALVES = re.compile(r"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LONGEST_FRONT = 20_000
# The fast reader of YAML calls itself for what is within something, and a process has only so much stack.
_DEEPEST = 50


def read_page(name: str, text: str) -> Parsed:
    """Read a HTML page; its title is that of the page, its first heading, or the file's name.

    Raises:
        ValueError: it cannot be parsed.
    """
    from mog_assets.documents.formats.html_page import read_html

    return read_html(text, PurePosixPath(name).stem)


def read_markdown(name: str, text: str) -> Parsed:
    """Read Markdown; see `read_plain`. A title in the front matter comes first."""
    # Offsets stay: line ends of two characters are made one with them, later.
    text = OLD_MAC.sub("\n", text)
    metadata, removed = front_matter(text)
    text = text[removed:]
    title = metadata.get("title")
    if not (isinstance(title, str) and title.strip()):
        title = title_of(name, text)
    return Parsed(title.strip(), text, tuple(markdown_headings(text)), metadata, removed=removed)


def read_plain(name: str, text: str) -> Parsed:
    """Read text; its title is its first heading, a first line of at most 120 characters, or the file's name."""
    text = OLD_MAC.sub("\n", text)
    return Parsed(title_of(name, text), text)


def title_of(name: str, text: str) -> str:
    """Return the first heading of a text, a first line of at most 120 characters, or the name of its file."""
    heading = re.match(r"\s*(?:[#=]|#\+title:)\s+(.+)", text, re.IGNORECASE) or _LATEX_TITLE.search(text[:5_000])
    return ((heading[1] if heading else first_line(text)) or PurePosixPath(name).stem).strip()


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """Return the YAML front matter of a Markdown text, and its number of characters; `({}, 0)` if there is none.

    It is a mapping of values that JSON has, and dates, which become ISO strings. Anything else is part of the text.
    """
    import yaml

    front = _FRONT.match(text[:_LONGEST_FRONT])
    if not front:
        return {}, 0
    # libyaml reads eight times as fast as Python, where PyYAML was built with it.
    loader, depth = getattr(yaml, "CSafeLoader", yaml.SafeLoader), 0
    # JSON writes 😀 as two halves, which libyaml refuses.
    written = _HALVES.sub(lambda both: f"\\U{ord(json.loads(chr(34) + both[0] + chr(34))):08X}", front[1])
    try:
        for token in yaml.scan(written, loader):
            name = type(token).__name__
            depth += name.endswith("StartToken") - name.endswith("EndToken")
            # A few nested aliases expand to more than any memory holds.
            if depth > _DEEPEST or name == "AliasToken":
                return {}, 0
        given = yaml.load(written, loader)
        if not isinstance(given, dict) or not _plain(given):
            return {}, 0
        values = json.loads(json.dumps(given, default=_iso, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError, AttributeError, LookupError):
        return {}, 0
    return values, front.end()


def _plain(value: Any) -> bool:
    """Return whether all keys are strings."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_plain, value))


def _iso(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"no JSON value: {type(value).__name__}")


def markdown_headings(text: str) -> Iterator[Mark]:
    """Yield headings of a Markdown text: `# …`, and single lines underlined with `=` or `-`; none in code fences."""
    fence, lines, end = "", 0, 0
    above, above_start = "", 0
    for line in text.split("\n"):
        start, end = end, end + len(line) + 1
        line = line.removesuffix("\r")
        if fence:
            closing = line.strip()
            if closing.startswith(fence) and not closing.strip(fence[0]):
                fence = ""
        elif not line.strip():
            lines = 0
        elif match := _FENCE.match(line):
            fence, lines = match[1], 0
        elif match := _HEADING.match(line):
            lines = 0
            if words := _without_closing(line[match.end() :].strip()):
                yield heading(start, len(match[1]), words)
        elif lines and (match := _UNDERLINE.fullmatch(line)):
            if lines == 1:
                yield heading(above_start, 1 if "=" in match[1] else 2, above)
            lines = 0
        else:
            # Two lines and more are a paragraph with a rule below it, more often than a heading.
            lines += 2 if _OTHER.match(line) else 1
            above, above_start = line, start


def _without_closing(words: str) -> str:
    """Return a heading without the `#` that close it."""
    bare = words.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else words
