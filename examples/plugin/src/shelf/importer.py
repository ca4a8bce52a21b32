"""`mog import shelf FILE`: a shelf becomes a corpus and a question set."""

from pathlib import Path

import click

from mog_assets import registry
from mog_assets.plugins.datasets.foreign import Importer
from shelf import shelf


class Shelf:
    """A shelf as a data set: each book answers the question of its name."""

    def __init__(self, path):
        self.books, self.size = shelf(path), path.stat().st_size

    def documents(self, advance):
        """Yield where each document stands, and the document."""
        for name, text in self.books.items():
            yield name, {"id": name, "title": name, "text": text}

    def questions(self, ids, corpus, notes):
        """Yield questions with the documents that answer them."""
        for name in self.books:
            yield {"id": name, "question": f"What are {name}?", "split": "test", "docs": {name: 1}}


registry.IMPORTERS.register(
    "shelf",
    Importer(
        "Import a shelf.",
        [click.Argument(["file"], type=click.Path(path_type=Path))],
        named=lambda file: file.with_suffix(""),
        open=lambda notes, file: Shelf(file),
    ),
)
