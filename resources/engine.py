"""Where work on document buckets runs: this process, a pool of processes, or the nodes of a Ray cluster.

A bucket function is named by `"module:function"`, takes keyword arguments that are plain values and paths, and writes
the file `out`, which the engine moves into place when it is complete. It is deterministic, so it does not matter where
it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mog_assets.resources.jobs import EngineSettings, Kept, call
from mog_assets.resources.processes import SPAWN, deaf_children, end_with_parent


class Engine:
    """Maps a bucket function over buckets.

    Args:
        settings: `kind` `inprocess` runs one job after the other; `processes` runs them in `workers` processes; `ray`
            on the nodes of a Ray cluster, which read and write the files of the jobs in a shared folder.
        home: The home folder; on every node of a cluster, its path must be the same.
    """

    def __init__(self, settings: EngineSettings, home: Path | None = None) -> None:
        self.settings = settings
        self.home = home

    @property
    def elsewhere(self) -> bool:
        """Whether jobs may run on other machines."""
        return self.settings.kind == "ray"

    def map(self, target: str, jobs: list[dict[str, Any]]) -> Iterator[Any]:
        """Yield the result of each job as it is done, in any order.

        Args:
            target: `"package.module:function"`.
            jobs: Keyword arguments, one dictionary per job; `out` names the file that the job writes.

        Raises:
            MogError: the cluster, or a node of it, cannot do the work.
        """
        if self.settings.kind == "inprocess" or len(jobs) < 2:
            for job in jobs:
                yield call(target, job)
            return
        if self.elsewhere:
            yield from self._cluster().map(target, jobs)
            return
        with ProcessPoolExecutor(self.settings.workers, SPAWN, end_with_parent) as pool:
            with deaf_children():
                futures = [pool.submit(call, target, job) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    @contextmanager
    def kept(self, most: int) -> Iterator[Kept]:
        """Processes of a cluster that stay until the end of this context, because what they load takes long.

        Gives a function like `map`. With another engine than `ray` there are none: it is `map`.

        Args:
            most: As many jobs as there are to come.
        """
        if not self.elsewhere:
            yield self.map
            return
        with self._cluster().kept(most) as kept:
            yield kept

    def scratch(self) -> Path:
        """A folder that every node sees, deleted when this process leaves the cluster."""
        return self._cluster().scratch

    def describe(self) -> str:
        """Connect, check every node, and say what is there.

        Raises:
            MogError: the cluster does not answer, or a node cannot be used.
        """
        if not self.elsewhere:
            return "this process" if self.settings.kind == "inprocess" else f"{self.settings.workers} processes"
        return self._cluster().describe()

    def _cluster(self) -> Any:
        # Here, because it imports Ray.
        from mog_assets.resources.ray_engine import cluster

        if self.home is None:
            raise ValueError("expected a home folder for the engine `ray`, got None")
        return cluster(self.settings, self.home)
