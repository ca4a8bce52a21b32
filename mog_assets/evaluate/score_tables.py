"""Further tables of the asset `scores`, beside those of all methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from mog_assets.config import Settings
from mog_assets.registry import SCORE_TABLES
from mog_assets.resources.store import Artefact


@dataclass(frozen=True)
class Comparison:
    """A row of a table, which compares how the methods do in two evaluations.

    Attributes:
        name: What is compared.
        sentence: What was found.
        measure: The measure of both.
        side, other: Question set and split of each.
        title: Of a plot.
        methods: By method: kind; value, low and high (the mean in `side` with its interval); other (that in `other`).
    """

    name: str
    sentence: str
    measure: str
    side: tuple[str, str]
    other: tuple[str, str]
    title: str
    methods: pd.DataFrame


@dataclass(frozen=True)
class ScoreTable:
    """A table whose name is that of its file.

    Attributes:
        make: Makes it, given the result of `measures.evaluate`, retriever and kind of each method, and the settings.
        compare: Gives what its rows say, given the table and the result of `scores.score`.
        plot: Draws a row as PNG.
        title, text: What it is, in words and in a paragraph.
    """

    make: Callable[[pd.DataFrame, Mapping[str, tuple[str, str]], Settings], pd.DataFrame]
    compare: Callable[[pd.DataFrame, pd.DataFrame], list[Comparison]]
    plot: Callable[[Comparison], bytes]
    title: str
    text: str


def read_comparisons(stored: Artefact, scores: pd.DataFrame) -> dict[str, list[Comparison]]:
    """Return what each table of an artefact `scores` says, by its name."""
    files = {name: f"{name}.parquet" for name in SCORE_TABLES}
    return {
        name: SCORE_TABLES[name].compare(pd.read_parquet(stored.path(file)), scores)
        for name, file in files.items()
        if file in stored.manifest.files
    }
