"""Read further texts: reStructuredText with its headings, data such as JSON and logs, and subtitles."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from mog_assets.documents.formats.marks import Mark, Parsed, heading
from mog_assets.documents.formats.markup import OLD_MAC, title_of

# Of reStructuredText: one punctuation mark, repeated.
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
# Number, times and settings of a subtitle, with the blank lines before them, which are tried once, at their first.
_CUE = re.compile(r"(?:^|(?<!\n)\n)\n*+(?:[^\n]*\n)?(?:\d+:)?\d\d:\d\d[.,]\d{3}[ \t]+-->[^\n]*")


def read_restructured(name: str, text: str) -> Parsed:
    """Read reStructuredText as it is written; its title is its first heading, else as that of `read_plain`."""
    text = OLD_MAC.sub("\n", text)
    marks = tuple(restructured_headings(text))
    return Parsed(marks[0].text if marks else title_of(name, text), text, marks)


def read_data(name: str, text: str) -> Parsed:
    """Read what has no title, such as a log, as it is; JSON on one line or with escaped letters is written plainly."""
    if name.lower().endswith(".json") and ("\\u" in text or "\n" not in text.strip()):
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text, object_pairs_hook=_all_keys), ensure_ascii=False, indent=1)
    return Parsed(PurePosixPath(name).name, text)


def _all_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raises ValueError where it would lose the value of a key that occurs twice."""
    if len(values := dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice in an object")
    return values


def read_subtitles(name: str, text: str) -> Parsed:
    """Read the words of subtitles, without their times."""
    text, times = _CUE.subn("", re.sub(r"\r\n?", "\n", text))
    return Parsed(PurePosixPath(name).stem, text.removeprefix("WEBVTT").strip(), notes={"times left out": times})


def restructured_headings(text: str) -> Iterator[Mark]:
    """Yield the headings of reStructuredText: lines with a line of equal marks below, and perhaps above.

    Each style of marks is a level of its own, in the order in which they come (docutils, "Sections").
    """
    styles: list[str] = []
    end, start, above, before = 0, 0, "", ""
    for line in text.split("\n"):
        line_start, end = end, end + len(line) + 1
        line = line.rstrip()
        below = _ADORNMENT.fullmatch(line)
        if below and above.strip() and not _ADORNMENT.fullmatch(above) and len(line) >= len(above.strip()):
            both = before == line
            if both or not above[0].isspace():
                style = line[0] * (1 + both)
                if style not in styles:
                    styles.append(style)
                yield heading(start, styles.index(style) + 1, above)
        before, above, start = above, line, line_start
