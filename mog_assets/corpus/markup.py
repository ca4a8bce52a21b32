"""Read text files that are one document: plain text, Markdown and HTML, with their headings."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

from mog_assets.corpus.marks import Mark, Parsed, first_line, heading

_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
# Lines that are no paragraph, so that dashes below them are a rule: lists, quotes, tables, code, elements.
_OTHER = re.compile(r" {4}|\t| {0,3}(?:[-+*>|<]|\d{1,9}[.)][ \t])")
_FRONT = re.compile(r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
# YAML is read at some 50,000 characters a second.
_LONGEST_FRONT = 20_000
_MOST_BRACKETS = 500
_HEADINGS = {f"h{depth}": depth for depth in range(1, 7)}


def read_text(name: str, text: str) -> Parsed:
    """Read a file that is one document.

    The title is that of the page or of the front matter, the first heading, a first line of at most 120 characters, or
    else the file's name.

    Raises:
        ValueError: the HTML cannot be parsed.
    """
    file = PurePosixPath(name)
    if file.suffix.lower() == ".html":
        return read_html(text, file.stem)
    metadata: dict[str, Any] = {}
    marks: tuple[Mark, ...] = ()
    removed = 0
    if file.suffix.lower() == ".md":
        metadata, removed = front_matter(text)
        text = text[removed:]
        marks = tuple(markdown_headings(text))
    title = metadata.get("title")
    if not (isinstance(title, str) and title.strip()):
        found = re.match(r"\s*#\s+(.+)", text)
        title = (found[1] if found else first_line(text)) or file.stem
    return Parsed(title.strip(), text, marks, metadata, removed=removed)


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """The YAML front matter of a Markdown text, and its number of characters; `({}, 0)` if there is none.

    It is a mapping of values that JSON has, and dates, which become ISO strings. Anything else is part of the text.
    """
    import yaml

    found = _FRONT.match(text[:_LONGEST_FRONT])
    # The time of reading YAML grows with the square of the brackets.
    if not found or found[1].count("[") + found[1].count("{") > _MOST_BRACKETS:
        return {}, 0
    try:
        # A few nested aliases expand to more than any memory holds.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(found[1], yaml.SafeLoader)):
            return {}, 0
        given = yaml.safe_load(found[1])
        if not isinstance(given, dict) or not _plain(given):
            return {}, 0
        values = json.loads(json.dumps(given, default=_iso, allow_nan=False))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError, AttributeError, LookupError):
        return {}, 0
    return values, found.end()


def _plain(value: Any) -> bool:
    """Whether all keys are strings."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(inner) for key, inner in value.items())
    return not isinstance(value, list) or all(map(_plain, value))


def _iso(value: Any) -> str:
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"no JSON value: {type(value).__name__}")


def markdown_headings(text: str) -> Iterator[Mark]:
    """The headings of a Markdown text: `# …`, and single lines underlined with `=` or `-`; none inside code fences."""
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
        elif found := _FENCE.match(line):
            fence, lines = found[1], 0
        elif found := _HEADING.match(line):
            lines = 0
            if words := _without_closing(line[found.end() :].strip()):
                yield heading(start, len(found[1]), words)
        elif lines and (found := _UNDERLINE.fullmatch(line)):
            if lines == 1:
                yield heading(above_start, 1 if "=" in found[1] else 2, above)
            lines = 0
        else:
            # Two lines and more are a paragraph with a rule below it, more often than a heading.
            lines += 2 if _OTHER.match(line) else 1
            above, above_start = line, start


def _without_closing(words: str) -> str:
    """A heading without the `#` that close it."""
    bare = words.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else words


def _closed(html: str) -> str:
    """HTML in which every construct is closed; unclosed ones become text."""
    # Python's parser searches the whole page for each end: 200 kB of `<!--` took 46 s.
    comments = html.rfind("-->") + 1
    html = html[:comments] + html[comments:].replace("<!--", "&lt;!--")
    tags = html.rfind(">") + 1
    html = html[:tags] + html[tags:].replace("<", "&lt;")
    return re.sub(r"<!\[[^>]*>", "", html)


def read_html(html: str, fallback: str) -> Parsed:
    """Read a page: its visible text.

    Args:
        html: The page.
        fallback: Title of a page without title and headings.

    Raises:
        ValueError: it cannot be parsed.
    """
    from bs4 import BeautifulSoup

    try:
        soup = BeautifulSoup(_closed(html), "html.parser")
        for unseen in soup(["script", "style", "noscript", "template"]):
            unseen.decompose()
        named = soup.title or soup.h1
        title = named.get_text(" ", strip=True) if named else fallback
        body = soup.body or soup
        # A NUL in front of each heading survives the joining of white space. A page that has some is refused later.
        headings = [] if "\0" in html else list(_mark_headings(body))
        joined = re.sub(r"\n\s*\n+", "\n\n", body.get_text("\n")).strip()
        pieces = joined.split("\0") if headings else [joined]
        text = "".join(pieces)
    except Exception as error:  # The parser raises several kinds of errors for hostile pages.
        raise ValueError(f"the HTML cannot be parsed: {type(error).__name__}: {error}") from error
    starts = accumulate(map(len, pieces[:-1]))
    marks = tuple(heading(start, depth, words) for start, (depth, words) in zip(starts, headings, strict=True))
    return Parsed(title or fallback, text, marks)


def _mark_headings(body: Any) -> Iterator[tuple[int, str]]:
    """Put a NUL in front of the text of every heading; yields their depths and texts."""
    waiting = [body]
    while waiting:
        element = waiting.pop()
        depth = _HEADINGS.get(element.name or "")
        # Headings inside headings are not looked at, so that each text is seen once, however deep they are nested.
        if depth is None:
            waiting += [child for child in reversed(getattr(element, "contents", ())) if child.name]
            continue
        strings = list(element.strings)
        first = next((string for string in strings if string.strip()), None)
        if first is not None:
            at = len(first) - len(first.lstrip())
            first.replace_with(f"{first[:at]}\0{first[at:]}")
            yield depth, " ".join(strings)
