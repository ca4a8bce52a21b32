"""The artefacts that questions are answered from now, and how newer ones take their place."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from threading import Event, RLock, Thread

import numpy as np

from mog_assets.build.demand import demand, places, places_of
from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Corpora
from mog_assets.index.vector_stores import open_candidates
from mog_assets.resources import tracing
from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.publishing import newest
from mog_assets.resources.sets import TOUCH, ArtefactSet, open_set
from mog_assets.search.index import Index
from mog_assets.search.methods import by_words
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.where import Fields
from mog_assets.serve import reading

_log = logging.getLogger(__name__)
# Seconds until artefacts that could not be opened are tried again.
_PAUSE = 30.0


@dataclass(frozen=True)
class Generation:
    """Artefacts of one moment, open for questions.

    Attributes:
        artefacts: The artefacts.
        seen: The file of the last set when they were opened.
        retrieval: Searches them.
        fields: What documents can be filtered by.
        opened: When, in seconds since 1970.
    """

    artefacts: ArtefactSet
    seen: Path | None
    retrieval: Retrieval
    fields: Fields
    opened: float = field(default_factory=time.time)

    @property
    def version(self) -> str:
        """A digest of what the artefacts hold."""
        return self.artefacts.version


class Generations:
    """The generation that questions use now.

    Args:
        tools: The resources of the project.
        names: The corpora that are searched together.
        refresh: Seconds between looks for a new set of artefacts; None never looks.
        keep: Whether to leave indexes open, for many questions. Without, each question looks for a new set.

    Attributes:
        trouble: Why new artefacts cannot be taken over; empty if nothing is wrong.
        words: What is needed to search words alone, which is what is done until a first run has made the rest.
    """

    def __init__(self, tools: Tools, names: Sequence[str], refresh: float | None, keep: bool) -> None:
        self.trouble = ""
        self._tools, self.names, self._keep = tools, names, keep
        self._required, self._others = places(tools.settings, names)
        self.words, self._refresh = places_of(names, demand(tools.settings).words), refresh
        self._alone, self._ended = RLock(), Event()
        self._current = self._opened() if keep else None
        self._follower: Thread | None = None
        if keep:
            self._follower = Thread(target=self._follow, name="mog-refresh", daemon=True)
            self._follower.start()

    @property
    def current(self) -> Generation:
        """The generation for new questions."""
        with self._alone:
            if self._current is None or (not self._keep and newest(self._tools.store.home) != self._current.seen):
                self._current = self._opened()
            return self._current

    def close(self) -> None:
        """Stop looking for new artefacts."""
        self._ended.set()
        if self._follower is not None:
            self._follower.join()

    @contextmanager
    def using(self) -> Iterator[Generation]:
        """The generation for a question; it stays whole as long as the question takes."""
        if self._ended.is_set():
            raise MogError("the project is closed: open it again with `mog_assets.open`")
        yield self.current

    def _opened(self) -> Generation:
        """The last complete artefacts, ready for questions."""
        store, required, others = self._tools.store, self._required, self._others
        seen = newest(store.home)
        try:
            artefacts = open_set(store, required, others)
        except MissingArtefact as error:
            # A first run makes what searches by words need long before the rest. Commands use what there is.
            if self._keep and self._refresh is None:
                raise
            required, others = self.words, [*required, *others]
            artefacts = open_set(store, required, others)
            if self._keep:
                self.trouble = f"words alone are searched until the first run is done ({error})"
        with tracing.span("open", version=artefacts.version):
            now = self._generation(artefacts, seen)
            if self._keep:
                if required is self.words:
                    why = "the first run has not made the rest of what is searched yet"
                    until = (by_words(self._tools.settings), why)
                    index = replace(now.retrieval.index, until=until)
                    now = replace(now, retrieval=Retrieval(index))
                self._warm(now)
        return now

    def _generation(self, artefacts: ArtefactSet, seen: Path | None) -> Generation:
        index = Index.open(self._tools, Corpora.open(artefacts.read, self._tools.settings, self.names))
        store = cache(partial(open_candidates, self._tools, index.corpora))
        index = replace(index, encode=partial(self._encode, artefacts), store=store)
        return Generation(artefacts, seen, Retrieval(index), Fields(index.corpora))

    def _encode(self, artefacts: ArtefactSet, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions, which are not stored; they must be of the encoder that those of chunks are of."""
        encoder = self._tools.encoder
        for of, name in artefacts.encoders.items():
            if of != encoder.fingerprint:
                raise MogError(
                    f"{name}: expected vectors of the encoder in the settings "
                    f"({encoder.fingerprint[:12]}), got those of another one ({of[:12]}): open the project again if "
                    "the settings have changed, else run `mog run`"
                )
        return encoder.questions.encode_uncached(texts)

    def _warm(self, now: Generation) -> None:
        """Open what the usual question needs, so that the first is not slow."""
        position = now.retrieval.corpora.position
        retrieval = now.retrieval.again([next(iter(position))[1]])
        method, _ = retrieval.chosen
        # Of several shards, which are not in memory together, copies would take too much of it.
        if method.retriever != "bm25" and len(shards := retrieval.corpora.neighbours) == 1:
            shards[0].shorten()
        passages = retrieval.passages(method, None, self._tools.settings.budget)
        retrieval.reasons(method, passages)
        reading.passages(retrieval, passages, 1, None)

    def _follow(self) -> None:
        """Take over new artefacts as they come, and say that those that answer are read."""
        touched, home, current = 0.0, self._tools.store.home, self.current
        while not self._ended.wait(min(self._refresh or TOUCH, TOUCH)):
            # What no set names is not held: the first set takes its place, whether others are looked for or not.
            looks = self._refresh is not None or current.artefacts.path is None
            new, lost = looks and newest(home) != current.seen, False
            if time.monotonic() - touched > TOUCH:
                touched, lost = time.monotonic(), not current.artefacts.touch()
            if not (new or lost):
                continue
            try:
                current = self._opened()
            # Whatever is wrong with new artefacts, the old ones answer.
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"
                if trouble != self.trouble:
                    _log.warning("new artefacts cannot be opened, the old ones are used: %s", trouble)
                self.trouble = trouble
                # What is wrong with an artefact stays so; a full disk does not.
                self._ended.wait(_PAUSE)
                continue
            with self._alone:
                self._current = current
            if current.retrieval.index.until is None:
                self.trouble = ""
