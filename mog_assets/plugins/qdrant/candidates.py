"""Qdrant as a source of candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.index.vector_stores import Best
from mog_assets.plugins.qdrant.collections import Collection, Hit, Only, missing
from mog_assets.plugins.qdrant.ids import IdSet, packed_ids, stored_ids, unpacked_ids
from mog_assets.plugins.qdrant.store import ASSET, collections_of, name_of
from mog_assets.plugins.qdrant.words import question_vector
from mog_assets.resources.errors import MissingArtefact

# Pieces that are returned for each that is wanted, since scores are rounded (see benchmarks/README.md).
_OVERSAMPLED = 2
# Most ids of a filter. Where as many points are allowed, and as many are not, what is not is dropped afterwards.
_MOST_IDS = 10_000

Search = Callable[[Collection, int, Only | None], list[list[Hit]]]
"""The best points for each question, given how many."""


class QdrantCandidates:
    """The collections of some corpora; see `index.vector_stores.CandidateStore`.

    Args:
        tools: The resources.
        corpora: The corpora.

    Raises:
        MissingArtefact: a corpus has no collection of the pieces that it has now; a search raises it, too, where points
            are of others, or are being replaced.
    """

    def __init__(self, tools: Tools, corpora: Corpora) -> None:
        self._collections, self._corpora = collections_of(tools), corpora
        stored = [corpora.read(ASSET, name) for name in corpora.names]
        self._size = max((int(artefact.manifest.info["size"]) for artefact in stored), default=0)
        self._ids = [stored_ids(artefact.path("ids.npy")) for artefact in stored]
        for name, ids, layout in zip(corpora.names, self._ids, corpora.layouts, strict=True):
            if len(ids) != layout.count(1):
                raise MissingArtefact(
                    f"{ASSET} of corpus {name}: expected points of {layout.count(1)} pieces, got {len(ids)}: "
                    "run `mog run`"
                )
        self._numbers = [IdSet(ids) for ids in self._ids]

    def nearest(self, vectors: np.ndarray, k: int, allowed: np.ndarray | None = None) -> list[Best]:
        """See `CandidateStore.nearest`."""
        return self._best(len(vectors), k, allowed, lambda within, n, only: within.nearest(vectors, n, only))

    def matching(self, queries: Sequence[Mapping[str, float]], k: int, allowed: np.ndarray | None = None) -> list[Best]:
        """See `CandidateStore.matching`."""
        vectors = [question_vector(query) for query in queries]
        return self._best(len(queries), k, allowed, lambda within, n, only: within.matching(vectors, n, only))

    def _best(self, questions: int, k: int, allowed: np.ndarray | None, search: Search) -> list[Best]:
        wanted, parts = _OVERSAMPLED * k, [[_NOTHING] for _ in range(questions)]
        for number, (name, start) in enumerate(zip(self._corpora.names, self._corpora.starts(1).tolist(), strict=True)):
            count = len(self._ids[number])
            open_to = None if allowed is None else allowed[start : start + count]
            if questions and (count if open_to is None else open_to.any()):
                with self._collections.open(name_of(name), self._size, to_search=True) as collection:
                    for row, (pieces, scores) in zip(
                        parts, self._of_corpus(number, wanted, open_to, collection, search), strict=True
                    ):
                        row.append((pieces + start, scores))
        return [_first(wanted, *map(np.concatenate, zip(*row, strict=True))) for row in parts]

    def _of_corpus(
        self, number: int, wanted: int, open_to: np.ndarray | None, collection: Collection, search: Search
    ) -> list[Best]:
        """Return the best pieces of one corpus for each question, numbered in it."""
        count = len(self._ids[number])
        many = count if open_to is None else int(open_to.sum())
        only, requested = None, wanted
        if open_to is not None and many <= _MOST_IDS:
            only = Only(unpacked_ids(self._ids[number][open_to]))
        elif open_to is not None and count - many <= _MOST_IDS:
            only = Only(unpacked_ids(self._ids[number][~open_to]), others=True) if many < count else None
        elif open_to is not None:
            requested = 2 * wanted * count // many
        while True:
            results = search(collection, requested, only)
            best = [self._pieces(number, result, open_to) for result in results]
            # What is far from all that is allowed needs more.
            exhausted = requested >= count or all(len(result) < requested for result in results)
            if only is not None or open_to is None or exhausted or min(len(p) for p, _ in best) >= wanted:
                return best
            requested = min(8 * requested, count)

    def _pieces(self, number: int, result: Sequence[Hit], open_to: np.ndarray | None) -> Best:
        pieces = self._numbers[number].find(packed_ids(identity for identity, _ in result))
        if (pieces < 0).any():
            # Its points were replaced since what is searched was built.
            raise missing(name_of(self._corpora.names[number]))
        scores = np.array([score for _, score in result], np.float32)
        # A text without a vector is near nothing.
        usable = scores != 0
        usable &= True if open_to is None else open_to[pieces]
        return pieces[usable], scores[usable]


_NOTHING: Best = np.zeros(0, np.int64), np.zeros(0, np.float32)


def _first(count: int, pieces: np.ndarray, scores: np.ndarray) -> Best:
    best = np.lexsort((pieces, -scores))[:count]
    return pieces[best], scores[best]
