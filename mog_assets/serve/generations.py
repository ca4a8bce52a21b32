"""The artefacts that questions are answered from now, and how newer ones take their place."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Event, RLock, Thread
from typing import Any

from mog_assets.build.demand import demand, places, places_of
from mog_assets.build.tools import Tools
from mog_assets.index.corpora import Read
from mog_assets.index.vector_stores import open_candidates
from mog_assets.resources import tracing
from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.snapshot import Place, Snapshot, SnapshotUnsettled, is_torn, read_matching, stamps, take
from mog_assets.resources.store import label
from mog_assets.search.methods import by_words
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.where import Fields
from mog_assets.serve import reading

_log = logging.getLogger(__name__)
# What is opened again when artefacts of all corpora alone have changed; the rest stays.
_BY_PATH = ("buckets", "tables")
# Seconds to wait for artefacts that belong together while a run moves them, if there is nothing to answer from yet.
_PATIENCE = 30.0
# Seconds until artefacts that could not be opened are tried again: at first, and at most.
_PAUSES = (5.0, 600.0)
# Seconds that new artefacts may not belong together before the log says so: a run replaces them one after the other.
_UNSETTLED = 300.0


@dataclass
class Generation:
    """Artefacts of one moment, open for questions.

    Attributes:
        users: Questions that use it now.
        retired: Whether a newer one is used for new questions.
    """

    snapshot: Snapshot | None
    version: str
    retrieval: Retrieval
    fields: Fields
    opened: float = field(default_factory=time.time)
    users: int = 0
    retired: bool = False


class Generations:
    """The generation that questions use now.

    Args:
        tools: The resources of the project.
        names: The corpora that are searched together.
        refresh: Seconds between looks for new artefacts; None never looks.
        keep: Whether to leave indexes open, over a snapshot; without, a question reads what it needs.

    Attributes:
        trouble: Why new artefacts cannot be taken over; empty if nothing is wrong.
        words: What is needed to search words alone, which is what is done until a first run has made the rest.
    """

    def __init__(self, tools: Tools, names: Sequence[str], refresh: float | None, keep: bool) -> None:
        self.trouble = ""
        self._tools, self.names, self._keep = tools, names, keep
        self._required, self._others = places(tools.settings, names)
        self.words, self._follows = places_of(names, demand(tools.settings).words), refresh is not None
        self._alone, self._ended = RLock(), Event()
        self._current = self._opened() if keep else None
        self._follower: Thread | None = None
        if refresh is not None:
            self._follower = Thread(target=self._follow, args=(refresh,), name="mog-refresh", daemon=True)
            self._follower.start()

    @property
    def current(self) -> Generation:
        """The generation for new questions."""
        with self._alone:
            if self._current is None:
                self._current = self._opened()
            return self._current

    def close(self) -> None:
        """Stop looking for new artefacts, and remove the snapshot when the last question is answered."""
        self._ended.set()
        if self._follower is not None:
            self._follower.join()
        with self._alone:
            if self._current is not None:
                self._retire(self._current)

    @contextmanager
    def using(self) -> Iterator[Generation]:
        """The generation for a question; it stays whole as long as the question takes.

        Raises:
            MogError: the project is closed.
        """
        if self._ended.is_set():
            raise MogError("the project is closed: open it again with `mog_assets.open`")
        with self._alone:
            now = self.current
            now.users += 1
        try:
            yield now
        finally:
            with self._alone:
                now.users -= 1
                if now.retired and not now.users and now.snapshot is not None:
                    now.snapshot.close()

    def _retire(self, old: Generation) -> None:
        old.retired = True
        if not old.users and old.snapshot is not None:
            old.snapshot.close()

    def _opened(self, before: Generation | None = None) -> Generation:
        """The artefacts as they are now, ready for questions; `before` is what answers meanwhile."""
        store = self._tools.store
        # What is read while a run replaces it would not fit; then what was before the run is opened, and stays.
        if not self._keep and not is_torn(store, self._required):
            return self._generation(None, partial(read_matching, store, self._required), "", None)
        begins = before is None
        required = self._required
        try:
            snapshot = take(store, required, self._others, _PATIENCE if begins else 0, begins)
        except MissingArtefact as error:
            # A first run makes what searches by words need long before the rest.
            if not self._follows:
                raise
            required = self.words
            snapshot = take(store, required, [*self._required, *self._others], _PATIENCE if begins else 0, False)
            self.trouble = f"words alone are searched until the first run is done ({error})"
        if snapshot.behind:
            self.trouble = snapshot.behind
            _log.warning("the artefacts from before are used: %s", self.trouble)
        try:
            with tracing.span("open", version=snapshot.version):
                self._check_encoder(snapshot, required)
                now = self._generation(snapshot, snapshot.store.read, snapshot.version, before)
                if required is self.words:
                    why = "the first run has not made the rest of what is searched yet"
                    until = (by_words(self._tools.settings), why)
                    now.retrieval = replace(now.retrieval, until=until)
                if self._keep:
                    self._warm(now)
        except BaseException:
            snapshot.close()
            raise
        return now

    def _generation(self, snapshot: Snapshot | None, read: Read, version: str, before: Generation | None) -> Generation:
        retrieval = Retrieval.open(self._tools, read, self.names, keep=self._keep)
        if before is not None and snapshot is not None and before.snapshot is not None:
            # Stamps are of what is in the store, which is not what a snapshot from before holds.
            same = not before.snapshot.behind and _of_corpora(before.snapshot) == _of_corpora(snapshot)
            tables = before.retrieval.corpora.kept
            if same and tables is not None and retrieval.corpora.kept is not None:
                # Questions that run now may still add to it; `dict` copies it in one step.
                kept = {key: value for key, value in dict(tables).items() if key not in _BY_PATH}
                retrieval.corpora.kept.update(kept)
        retrieval = replace(
            retrieval,
            # What people ask is not stored.
            encode=partial(self._tools.encoder.encode_questions, keep=False),
            store=cache(lambda: open_candidates(self._tools, retrieval.corpora)),
        )
        return Generation(snapshot, version, retrieval, Fields(retrieval.corpora))

    def _check_encoder(self, snapshot: Snapshot, required: Sequence[Place]) -> None:
        """Vectors of questions and of chunks must be of one encoder: others can be compared, and mean nothing.

        Raises:
            MogError: settings and artefacts have different encoders.
        """
        fingerprint = self._tools.encoder.fingerprint
        for key, corpus in required:
            if key.startswith("embeddings/"):
                encoder_of = snapshot.read(key, corpus).manifest.info.get("encoder", fingerprint)
                if encoder_of != fingerprint:
                    raise MogError(
                        f"{label(key, corpus)}: expected vectors of the encoder in the settings ({fingerprint[:12]}), "
                        f"got those of another one ({str(encoder_of)[:12]}): open the project again if the settings "
                        "have changed, else run `mog run`"
                    )

    def _warm(self, now: Generation) -> None:
        """Open what the usual question needs, so that the first is not slow."""
        position = now.retrieval.corpora.position
        retrieval = now.retrieval.again([next(iter(position))[1]])
        method, _ = retrieval.chosen
        passages = retrieval.passages(method, None, self._tools.settings.budget)
        retrieval.reasons(method, passages)
        reading.passages(retrieval, passages, 1, None)

    def _follow(self, seconds: float) -> None:
        """Take over new artefacts as they come."""
        places, refused = [*self._required, *self._others], None
        again = pause = 0.0
        # When new artefacts first did not belong together; infinity once it was told.
        since: float | None = None
        while not self._ended.wait(seconds):
            before = self.current.snapshot
            now = stamps(self._tools.store, places)
            if before is None or now == before.stamps or (now == refused and time.monotonic() < again):
                continue
            # A run that has just replaced one of them replaces the next one soon.
            if self._ended.wait(seconds / 2) or stamps(self._tools.store, places) != now:
                continue
            try:
                fresh = self._opened(self.current)
            except SnapshotUnsettled as error:
                self.trouble, since = str(error), since or time.monotonic()
                if time.monotonic() - since > _UNSETTLED:
                    since = math.inf
                    _log.warning("new artefacts do not belong together yet, the old ones are used: %s", self.trouble)
                continue
            # Whatever is wrong with new artefacts, the old ones answer.
            except Exception as error:
                # What is wrong with an artefact stays so; a full disk does not.
                pause = _PAUSES[0] if now != refused else min(2 * pause, _PAUSES[1])
                again = time.monotonic() + pause
                self.trouble, refused = f"{type(error).__name__}: {error}", now
                _log.warning("new artefacts cannot be opened, the old ones are used: %s", self.trouble)
                continue
            with self._alone:
                self._retire(self.current)
                self._current = fresh
                if fresh.retrieval.until is None:
                    self.trouble = ""
            since = None


def _of_corpora(snapshot: Snapshot) -> dict[Place, Any]:
    return {place: stamp for place, stamp in snapshot.stamps.items() if place[1] is not None}
