"""What Qdrant does, in this process or as a server: collections of points, one tenant per corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.points import POINTS

Hit = tuple[str, float]
"""Point id and cosine similarity."""

Where = Sequence[Mapping[str, str | int] | None]
"""Per query the payload that hits must have, value by key; None for no filter."""


# Payload key of a point's topic.
TOPIC = "topic"
UPSERT_BATCH = 1000
SEARCH_BATCH = 64
SCROLL_PAGE = 5000
POINTS.update(
    {
        "collection created": "an embedded collection is complete under its temporary name",
        "collection moved": "an embedded collection has its final name, and no points yet",
        "points deleted": "a batch of points was deleted from a Qdrant collection",
        "points upserted": "a batch of points was upserted into a Qdrant collection",
        "payloads set": "a batch of payloads was set on points of a Qdrant collection",
        "points flushed": "an embedded collection was flushed; no manifest names its new points yet",
    }
)


class Collection(Protocol):
    """Vectors of one level. Every operation is about one corpus, the tenant of the collection's payload index."""

    def pages(self, corpus: str) -> Iterator[list[str]]:
        """Ids of all points of a corpus, some thousands at a time."""

    def ids(self, corpus: str) -> set[str]:
        """Ids of all points of a corpus."""

    def count(self, corpus: str) -> int:
        """Number of points of a corpus, exact."""

    def upsert(self, ids: Sequence[str], vectors: np.ndarray, payloads: Sequence[dict[str, Any]]) -> None:
        """Add points, or replace those with the same ids. `vectors` has shape (n, size)."""

    def delete(self, ids: Sequence[str]) -> None:
        """Delete points; unknown ids are ignored."""

    def payloads(self, corpus: str, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The `keys` in the payload of every point of a corpus, by id; missing keys are left out."""

    def set_payload(self, ids: Sequence[str], payloads: Sequence[Mapping[str, Any]]) -> None:
        """Set keys of the payload of existing points; their vectors and other keys stay."""

    def search(self, corpus: str, vectors: np.ndarray, k: int, where: Where | None = None) -> list[list[Hit]]:
        """The k nearest points of a corpus for each row of `vectors`, nearest first.

        All points are compared, as they are stored: rounded, unless the setting `qdrant.vectors` is `float32`.

        Args:
            corpus: Its name.
            vectors: Of the queries, shape (n, size).
            k: Number of points; fewer, or none, may match a `where`.
            where: One entry per query.

        Raises:
            MissingArtefact: the corpus has no points.
        """


class Collections(Protocol):
    """Opens collections by name."""

    place: str
    """Where the vectors are, as readable text."""

    def open(self, name: str, size: int) -> AbstractContextManager[Collection]:
        """A collection of unit vectors with `size` entries, created if it does not exist.

        Raises:
            MogError: it holds vectors of another size, is in use by another process, cannot be reached, or was damaged
                (an embedded one is then discarded: it can be rebuilt from the store).
        """

    def prepare(self, name: str, size: int) -> None:
        """Drop a collection with vectors of another size, or stored otherwise: it is about to be filled again."""

    def counts(self, name: str, with_topic: bool = False) -> dict[str, int]:
        """Exact number of points (with a topic) of every corpus in a collection; empty if it does not exist."""

    def drop(self, name: str) -> None:
        """Delete a collection if it exists."""


def size_mismatch(name: str, stored: int, given: int) -> MogError:
    """The error for a collection made with another encoder."""
    return MogError(
        f"collection {name!r} holds vectors of size {stored}, the encoder gives {given}: "
        f"rematerialise embeddings and collections of every corpus (`mog run` does)"
    )


def matching(hits: list[list[Hit]], where: Where, name: str, corpus: str) -> list[list[Hit]]:
    """The hits of an exact search, checked.

    Raises:
        MissingArtefact: a query without a filter found nothing.
    """
    # Every corpus has chunks, and the search is exact: no hits means that the collection was lost.
    if not all(hit or wanted for hit, wanted in zip(hits, where, strict=True)):
        raise MissingArtefact(f"collection {name!r} has no points of corpus {corpus}: run `mog run`")
    return hits
