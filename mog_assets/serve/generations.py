"""The artefacts that questions are answered from now, and how newer ones take their place."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from threading import Event, RLock, Thread

from mog_assets.build.demand import demand, places, places_of
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.index.corpora import Corpora
from mog_assets.index.neighbours import shorten
from mog_assets.index.vector_stores import open_candidates
from mog_assets.resources import tracing
from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.publishing import newest
from mog_assets.resources.sets import TOUCH, ArtefactSet, open_set
from mog_assets.search.index import Index, same_encoder
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
        version: A digest of what the artefacts hold.
        opened: When, in seconds since 1970.
    """

    artefacts: ArtefactSet
    seen: Path | None
    retrieval: Retrieval
    fields: Fields
    version: str
    opened: float = field(default_factory=time.time)


class Generations:
    """The generation that questions use now.

    Args:
        tools: The resources of the project.
        names: The corpora that are searched together.
        refresh: Seconds between looks for a new set of artefacts; None never looks.
        keep: Whether to leave indexes open, for many questions. Without, each question looks for a new set.

    Attributes:
        current: The generation for new questions; None where none stays open.
        ended: Set when no new artefacts are looked for any more.
        trouble: Why new artefacts cannot be taken over; empty if nothing is wrong.
        words: What is needed to search words alone, which is what is done until a first run has made the rest.
    """

    def __init__(self, tools: Tools, names: Sequence[str], refresh: float | None, keep: bool) -> None:
        self.trouble = ""
        self._tools, self.names, self._keep = tools, names, keep
        self._required, self._others = places(tools.settings, names)
        self.words, self._refresh = places_of(names, demand(tools.settings).words), refresh
        self.ended, self._alone = Event(), RLock()
        self.current = self._opened() if keep else None
        self._last: Generation | None = None
        self._follower: Thread | None = None
        if keep:
            self._follower = Thread(target=self._follow, args=(self.current,), name="mog-refresh", daemon=True)
            self._follower.start()

    def latest(self) -> Generation:
        """Return the generation for new questions; where none stays open, the newest is opened."""
        if self.current is not None:
            return self.current
        with self._alone:
            if self._last is None or newest(self._tools.store.home) != self._last.seen:
                self._last = self._opened()
            return self._last

    def close(self) -> None:
        """Stop looking for new artefacts."""
        self.ended.set()
        if self._follower is not None:
            self._follower.join()

    def _opened(self) -> Generation:
        """Return the last complete artefacts, ready for questions."""
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
        index = replace(index, open_encoder=partial(same_encoder, self._tools, artefacts.encoders), store=store)
        return Generation(artefacts, seen, Retrieval(index), Fields(index.corpora), artefacts.version)

    def _warm(self, now: Generation) -> None:
        """Open what the usual question needs, so that the first is not slow."""
        position = now.retrieval.corpora.position
        retrieval = now.retrieval.with_queries([next(iter(position))[1]])
        method, _ = retrieval.chosen
        # Of several shards, which are not in memory together, copies would take too much of it.
        if method.retriever != "bm25" and len(shards := retrieval.corpora.neighbours) == 1:
            shorten(shards[0])
        passages = retrieval.passages(method, None, Budget.of(self._tools.settings.budget))
        reading.passages(retrieval, passages, 1, None)

    def _follow(self, current: Generation) -> None:
        """Take over new artefacts as they come, and say that those that answer are read."""
        touched, home = 0.0, self._tools.store.home
        while not self.ended.wait(min(self._refresh or TOUCH, TOUCH)):
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
                self.ended.wait(_PAUSE)
                continue
            self.current = current
            if current.retrieval.index.until is None:
                self.trouble = ""
