"""What Qdrant does, in this process or as a server: collections of points, one a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.files import POINTS

Hit = tuple[str, float]
"""Point id and score."""

# Names of the vectors of a point: of its meaning, and of its words.
DENSE, WORDS = "dense", "words"
UPSERT_BATCH = 1000
SEARCH_BATCH = 64
SCROLL_PAGE = 5000
POINTS.update(
    {
        "collection created": "an embedded collection is complete under its temporary name",
        "collection moved": "an embedded collection has its final name, and no points yet",
        "points deleted": "a batch of points was deleted from a Qdrant collection",
        "points upserted": "a batch of points was upserted into a Qdrant collection",
        "points flushed": "an embedded collection was flushed; no manifest names its new points yet",
    }
)


class Sparse(NamedTuple):
    """A sparse vector: places, each once, and values there."""

    indices: list[int]
    values: list[float]


class Points(NamedTuple):
    """Points of a collection, in the same order.

    Attributes:
        ids: Of each.
        vectors: Of shape (points, size).
        words: A sparse vector of each.
        payloads: Of each.
    """

    ids: Sequence[str]
    vectors: np.ndarray
    words: Sequence[Sparse]
    payloads: Sequence[dict[str, Any]]

    def at(self, places: np.ndarray) -> Points:
        """Return some of them."""
        rows = places.tolist()
        of = ([values[i] for i in rows] for values in (self.ids, self.words, self.payloads))
        ids, words, payloads = of
        return Points(ids, self.vectors[places], words, payloads)

    def batches(self) -> Iterator[tuple[list[str], list[dict[str, Any]], Sequence[dict[str, Any]]]]:
        """Yield ids, vectors by name and payloads of `UPSERT_BATCH` points at a time; no words are no vector."""
        for start in range(0, len(self.ids), UPSERT_BATCH):
            part = slice(start, start + UPSERT_BATCH)
            rows = np.asarray(self.vectors[part], np.float32).tolist()
            named = [
                {DENSE: row, **({WORDS: words} if words.indices else {})}
                for row, words in zip(rows, self.words[part], strict=True)
            ]
            yield list(self.ids[part]), named, self.payloads[part]


class Only(NamedTuple):
    """Limits a search to some points, or to all others."""

    ids: Sequence[str]
    others: bool = False


class Collection(Protocol):
    """The pieces of a corpus."""

    def pages(self) -> Iterator[list[str]]:
        """Return ids of all points, some thousands at a time."""

    def count(self) -> int:
        """Return number of points, exact."""

    def upsert(self, points: Points) -> None:
        """Add points, or replace those with the same ids."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points; unknown ids are ignored."""

    def nearest(self, vectors: np.ndarray, k: int, only: Only | None = None) -> list[list[Hit]]:
        """Return the k points with the greatest products with each row of `vectors`, best first.

        Points are compared as they are stored: rounded, unless the setting `qdrant.vectors` is `float32`.
        """

    def matching(self, queries: Sequence[Sparse], k: int, only: Only | None = None) -> list[list[Hit]]:
        """Return the k points with the greatest products with each sparse vector, best first; none of 0."""


class Collections(Protocol):
    """Opens collections by name."""

    place: str
    """Place of the vectors, as readable text."""

    def open(self, name: str, size: int, to_search: bool = False) -> AbstractContextManager[Collection]:
        """Open a collection of vectors with `size` entries; it is created if it does not exist.

        Args:
            name: Of the collection.
            size: Of its vectors.
            to_search: Whether it is only searched: it is not created then, and nobody is waited for.

        Raises:
            MissingArtefact: it is to be searched and does not exist, cannot be locked, or is in use.
            MogError: it holds vectors of another size, is in use by another process, cannot be reached, or was damaged
                (an embedded one is then discarded: it can be rebuilt from the store).
        """

    def prepare(self, name: str, size: int) -> None:
        """Drop a collection with vectors of another size, or stored otherwise: it is about to be filled again."""

    def count(self, name: str) -> int:
        """Return the exact number of points of a collection; 0 if it does not exist."""

    def names(self) -> list[str]:
        """Return the names of all collections, those of others too."""

    def drop(self, name: str) -> None:
        """Delete a collection if it exists."""


def missing(name: str) -> MissingArtefact:
    """Return the error for a collection that cannot be searched now: the files of the store can."""
    return MissingArtefact(
        f"collection {name!r}: expected the points of what is searched, got others, or none, or it is in use: `mog run`"
    )


def size_mismatch(name: str, stored: int, given: int) -> MogError:
    """Return the error for a collection made with another encoder."""
    return MogError(
        f"collection {name!r} holds vectors of size {stored}, the encoder gives {given}: "
        f"rematerialise embeddings and collections of every corpus (`mog run` does)"
    )
