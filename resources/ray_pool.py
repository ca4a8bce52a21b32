"""Processes on a Ray cluster that answer calls as long as this process lives, and keep what they have opened."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from threading import RLock
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from mog_assets.resources.errors import MogError
from mog_assets.resources.ray_engine import Cluster, raise_cause, said
from mog_assets.resources.ray_node import Answering

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Place:
    """A place for an actor.

    Attributes:
        actor: Who has it.
        ready: Done when the actor runs.
        started: Whether it does.
    """

    actor: Any
    ready: Any
    started: bool = False


class Pool:
    """Actors that answer calls. A call whose actor died goes to another, and a new actor is started in its place.

    Args:
        cluster: Where they run.
        count: How many.

    Raises:
        MogError: they cannot be started.
    """

    def __init__(self, cluster: Cluster, count: int) -> None:
        self._settings, self._terms = cluster.settings, cluster.terms
        self._make: Any = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Answering)
        self._lock = RLock()
        self._places = [self._started() for _ in range(count)]
        for place in self._places:
            self._await(place)

    def end(self) -> None:
        """End all actors."""
        with self._lock:
            for place in self._places:
                ray.kill(place.actor)

    def call(self, target: str, jobs: Mapping[int, dict[str, Any]]) -> dict[int, Any]:
        """What a function returns for each of several arguments.

        Args:
            target: `"package.module:function"`.
            jobs: Keyword arguments, by the number of the place that has opened what they need, if it runs.

        Returns:
            The results, by the same numbers.

        Raises:
            MogError: no actor can be started any more, or calls end whatever actor has them.
        """
        results: dict[int, Any] = {}
        waiting: dict[Any, tuple[int, _Place, int]] = {}

        def submit(number: int, died: int) -> None:
            place = self._place(number)
            waiting[place.actor.call.remote(target, jobs[number])] = (number, place, died)

        for number in jobs:
            submit(number, 0)
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=self._settings.wait_seconds)
            if not done:
                raise MogError(
                    f"engine.searchers: no answer within {self._settings.wait_seconds:g} seconds (engine.wait_seconds)"
                )
            number, place, died = waiting.pop(done[0])
            try:
                results[number] = ray.get(done[0])
            except RayTaskError as error:
                raise_cause(error)
            except RayError as error:
                self._replace(place, error)
                if died >= self._settings.retries:
                    raise MogError(
                        f"engine.searchers: a search ended {died + 1} processes, the last by {said(error)}: look for "
                        "nodes that ran out of memory or were removed"
                    ) from error
                submit(number, died + 1)
        return results

    def _place(self, number: int) -> _Place:
        """Who answers: the place of that number, or the next that runs."""
        with self._lock:
            count = len(self._places)
            order = [self._places[(number + step) % count] for step in range(count)]
            for place in order:
                if self._runs(place):
                    return place
            place = self._places[number % count]
        self._await(place)
        return place

    def _started(self) -> _Place:
        actor = self._make.remote()
        return _Place(actor, actor.ready.remote(self._terms))

    def _runs(self, place: _Place) -> bool:
        if not place.started and ray.wait([place.ready], timeout=0)[0]:
            try:
                ray.get(place.ready)
                place.started = True
            # Its node died while it started, or is not fit for it: others answer meanwhile.
            except (RayError, MogError) as error:
                self._replace(place, error)
        return place.started

    def _await(self, place: _Place) -> None:
        """Wait until an actor runs."""
        try:
            ray.get(place.ready, timeout=self._settings.wait_seconds)
        except RayTaskError as error:
            raise_cause(error)
        except RayError as error:
            raise MogError(
                f"engine.searchers: a process that searches could not be started within "
                f"{self._settings.wait_seconds:g} seconds (engine.wait_seconds): the cluster has no free CPU for "
                f"it, or no nodes are left ({said(error)})"
            ) from error
        place.started = True

    def _replace(self, place: _Place, error: Exception) -> None:
        with self._lock:
            if place in self._places:
                _log.warning("engine: a process that searches died (%s): others do its work", said(error))
                # It may be alive and out of reach.
                ray.kill(place.actor)
                self._places[self._places.index(place)] = self._started()
