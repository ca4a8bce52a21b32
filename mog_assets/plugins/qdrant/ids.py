"""Ids of points, of which there may be many millions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

import numpy as np


def packed_ids(ids: Iterable[str]) -> np.ndarray:
    """Return ids in 16 bytes each, uint64 of shape (n, 2): a tenth of what text takes in memory."""
    numbers = np.frombuffer(b"".join(uuid.UUID(identity).bytes for identity in ids), ">u8")
    return numbers.reshape(-1, 2).astype(np.uint64)


def stored_ids(path: Path) -> np.ndarray:
    """Return the ids in a file of a collection's artefact, packed, in order of the chunks."""
    return np.load(path).view(">u8").astype(np.uint64)


def unpacked_ids(ids: np.ndarray) -> list[str]:
    """Return the text of packed ids."""
    data = ids.astype(">u8").tobytes()
    return [str(uuid.UUID(bytes=data[start : start + 16])) for start in range(0, len(data), 16)]


class IdSet:
    """A set of packed ids: 24 bytes each in memory.

    Args:
        ids: Packed, without duplicates.
    """

    def __init__(self, ids: np.ndarray) -> None:
        self.order = np.lexsort((ids[:, 1], ids[:, 0]))
        self._ids = ids
        self._high = ids[self.order, 0]

    def find(self, ids: np.ndarray) -> np.ndarray:
        """Return position in the given order of each of some packed ids, int64; −1 for one that is not in the set."""
        places = np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._high, ids[:, 0])
        # The first halves of random ids are alike once in many billions.
        open_ = np.arange(len(ids))
        while len(open_):
            open_ = open_[at[open_] < len(self._high)]
            open_ = open_[self._high[at[open_]] == ids[open_, 0]]
            place = self.order[at[open_]]
            equal = self._ids[place, 1] == ids[open_, 1]
            places[open_[equal]] = place[equal]
            open_ = open_[~equal]
            at[open_] += 1
        return places
