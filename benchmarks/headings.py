"""The path of headings in front of every piece: what it would do to `fused` on documents that have headings.

python benchmarks/headings.py cuad financebench --homes .mog/headings
python benchmarks/development.py pieces cuad financebench --homes .mog/development --other .mog/headings

A prototype: the package has no such setting. Vectors and term counts of a level-1 piece are made of the headings that
it stands under and its text; coarser levels follow from them, so BM25 counts a heading once for every piece. Headings
are found by form: Markdown, "ARTICLE IV", "Item 7", numbered lines such as "3.2 PROJECT DELIVERY", and short lines of
capitals.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from development import COLLECTIONS, main

from mog_assets.index import encoding, tokens

# Deepest headings of a path, and characters of each.
DEEPEST, LONGEST = 3, 60
_LINE = re.compile(
    r"^[ \t]*(?:(?P<marks>\#{1,6})[ \t]+(?P<marked>\S.*)"
    r"|(?P<chapter>(?:ARTICLE|Article|SECTION|Section|ITEM|Item|PART|Part|EXHIBIT|Exhibit|NOTE|Note)"
    r"[ \t]+(?:\d+[A-Za-z]?|[IVXLC]+|[A-Z])\b.*)"
    r"|(?P<number>\d{1,2}(?:\.\d{1,2}){0,3})[.)]?[ \t]+"
    r"(?P<numbered>[A-Z]{2}[A-Z0-9,;&/’'\- ]{1,60}\b(?![a-z])|[A-Z][\w,;&/’'\- ]{2,50}(?=[.:]|[ \t]*$))"
    r"|(?P<capitals>[A-Z][A-Z0-9 &,/’'\-]{4,60})[ \t]*$)",
    re.MULTILINE,
)


def headings(text: str) -> list[tuple[int, str]]:
    """Where every heading of a text begins, and its path, headings above it first."""
    path: list[tuple[int, str]] = []
    result = []
    for match in _LINE.finditer(text):
        if match["marks"]:
            depth, name = len(match["marks"]), match["marked"]
        elif match["number"]:
            depth, name = 2 + match["number"].count("."), match["numbered"]
        else:
            depth, name = 1, match["chapter"] or match["capitals"]
        path = [*(above for above in path if above[0] < depth), (depth, name.strip()[:LONGEST])]
        result.append((match.start(), " > ".join(name for _, name in path[-DEEPEST:])))
    return result


def paths(text: str, starts: Sequence[int]) -> list[str]:
    """The path of headings that begin before each of these offsets, as a line; empty where there is none."""
    marks = headings(text)
    begun = [start for start, _ in marks]
    numbers = [bisect_right(begun, start - 1) for start in starts]
    return [f"{marks[number - 1][1]}\n" if number else "" for number in numbers]


def with_paths() -> None:
    """Make vectors and term counts of pieces with their paths."""
    words, texts = tokens.whole_words, encoding.bucket_texts

    def pieces(text: str, spans: np.ndarray) -> list[str]:
        return [path + piece for path, piece in zip(paths(text, spans[:, 0].tolist()), words(text, spans), strict=True)]

    def of_bucket(documents: Path, layout: Any, level: int) -> list[str]:
        table = encoding.pq.read_table(documents, columns=["title", "text"])
        if level > 1:
            return texts(documents, layout, level)
        titles, whole = table["title"].to_pylist(), table["text"].to_pylist()
        rows = np.stack(layout.chunk_spans(np.arange(layout.count(1)), 1), axis=1).tolist()
        make: Callable[[str, str], str] = encoding.chunk_text
        return [make(titles[d], paths(whole[d], [s])[0] + whole[d][s:e]) for d, s, e in rows]

    tokens.whole_words, encoding.bucket_texts = pieces, of_bucket


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--data", default="../shared/data")
@click.option("--homes", default=".mog/headings")
def build(names: Sequence[str], data: str, homes: str) -> None:
    with_paths()
    main(["build", *(names or ("cuad", "financebench")), "--data", data, "--homes", homes])


if __name__ == "__main__":
    build()
