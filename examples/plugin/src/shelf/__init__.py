"""A plugin with values of the commonest kinds that can be added to mog-assets, registered where it is defined.

`pip install` of this folder is all that is needed: mog-assets imports the module that `pyproject.toml` names as an entry
point. A larger plugin would register more modules, as this one does its importer, which are imported when they are needed.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from pydantic import Field

from mog_assets import config, registry
from mog_assets.answer.answerers import Way, one_step
from mog_assets.cli.common import config_option, echo, guarded, settings_of
from mog_assets.documents.formats.kinds import Format
from mog_assets.documents.formats.marks import Parsed
from mog_assets.documents.sources import Source
from mog_assets.evaluate.measures import Measure
from mog_assets.resources.settings import SettingsModel
from mog_assets.search.experts import FurtherExpert
from mog_assets.search.methods import Kind, needs, parse
from mog_assets.text.chunkers import Chunker


class ShelfSettings(SettingsModel):
    """The section `shelf` of mog.yaml: the measure `first@1` is a share of `characters`."""

    characters: int = Field(1000, gt=0)


SHELF = config.Section("shelf", ShelfSettings, ShelfSettings())
registry.SECTIONS.register("shelf", SHELF)


@click.command()
@config_option
@guarded
def shelf_command(path):
    """Print the shelves that are corpora, and the characters of the section `shelf`."""
    settings = settings_of(path)
    for name, corpus in settings.corpora.items():
        if corpus.source and corpus.source.startswith("toy://"):
            echo(f"{name}: {corpus.source}, {SHELF.of(settings).characters} characters")


registry.COMMANDS.register("shelf", shelf_command)


def add_shelf(app, serving):
    """Add a route that says how many documents the corpora have."""

    @app.get("/v1/shelf", tags=["documents"], summary="How many documents the corpora have")
    async def shelf():
        corpora = await serving.documents.run(lambda: serving.project.corpora)
        return {corpus.name: corpus.documents for corpus in corpora}


registry.ROUTES.register("shelf", add_shelf)


def backwards(name, content, limits):
    """A file whose lines are written from right to left; the first one is the title."""
    if not content:
        raise ValueError("expected lines, got an empty file")
    title, _, text = "".join(line[::-1] + "\n" for line in content.decode().splitlines()).partition("\n")
    return Parsed(title, text)


def verses(text, _):
    """A line is a chunk."""
    ends = np.cumsum([len(line) for line in text.splitlines(keepends=True)])
    return np.stack([np.append(0, ends[:-1]), ends], axis=1)


@dataclass(frozen=True)
class Length:
    """Long pieces score more than short ones."""

    name: str = "length"

    def scores(self, found, value, queries):
        """Score candidates: float32 of shape (candidates,)."""
        return found.place[:, 2].astype(np.float32)


def shout(questions, means, limit=""):
    """As `one-step`, louder."""
    rows = one_step(questions, means, limit=limit)
    return [replace(row, method="shout", answer=row.answer and row.answer.upper()) for row in rows]


def first_characters(ranked):
    """Characters of the first passage, as a share of 1,000."""
    first = ranked.passages["rank"].to_numpy() == 1
    group = ranked.passages["group"].to_numpy()[first]
    return np.minimum(np.bincount(group, ranked.lengths[first], ranked.count) / 1000, 1)


def last_first(retrieval, method, groups):
    """The best passages of level 1 in the opposite order."""
    passages = retrieval.rank(parse("fixed-1", retrieval.corpora.settings), 1)
    rank = np.bincount(passages.question)[passages.question] - 1 - passages.rank
    return replace(passages, rank=rank).at(np.lexsort((rank, passages.question)))


def shelf(address):
    """The books of a shelf, which is a JSON file: a text by name."""
    return json.loads(Path(address).read_text(encoding="utf-8"))


# Imported by `mog import`, which is a plugin itself: the others work without it.
registry.IMPORTERS.add_modules(f"{__name__}.importer")
registry.FORMATS.register(".rtl", Format(backwards))
registry.SOURCES.register(
    "toy",
    Source(
        lambda address: {name: str(len(text)) for name, text in shelf(address).items()},
        lambda address, name: shelf(address)[name].encode(),
    ),
)
registry.CHUNKERS.register("verses", Chunker(lambda options: verses))
registry.EXPERTS.register("length", FurtherExpert(lambda opened: Length(), reason="it is long"))
registry.WAYS.register("shout", Way(shout))
registry.MEASURES.register(
    "first@1", Measure(first_characters, "length of the first passage", "documents", headline=True)
)
registry.METHODS.register(
    "last", Kind(last_first, lambda method, settings: needs([parse("fixed-1", settings)], settings), "the worst first")
)
