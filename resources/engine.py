"""Where work on document buckets runs: this process, or a pool of processes.

A bucket function is named by `"module:function"`, takes keyword arguments that are plain values and paths, and writes
the file `out`, which the engine moves into place when it is complete. It is deterministic, so it does not matter where
it runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from resources.processes import SPAWN, deaf_children, end_with_parent
from resources.settings import SettingsModel
from resources.store import atomic


class EngineSettings(SettingsModel):
    """Where work on document buckets runs."""

    kind: Literal["inprocess", "processes"] = "inprocess"
    workers: Annotated[int, Field(ge=1, le=1024)] = 2


def _call(target: str, arguments: dict[str, Any]) -> Any:
    module, _, function = target.partition(":")
    with atomic(Path(arguments["out"])) as temporary:
        return getattr(importlib.import_module(module), function)(**{**arguments, "out": str(temporary)})


class Engine:
    """Maps a bucket function over buckets.

    Args:
        settings: `kind` `inprocess` runs one job after the other; `processes` runs them in `workers` processes.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings

    def map(self, target: str, jobs: list[dict[str, Any]]) -> Iterator[Any]:
        """Yield the result of each job as it is done, in any order.

        Args:
            target: `"package.module:function"`.
            jobs: Keyword arguments, one dictionary per job; `out` names the file that the job writes.
        """
        if self.settings.kind == "inprocess" or len(jobs) < 2:
            for job in jobs:
                yield _call(target, job)
            return
        with ProcessPoolExecutor(self.settings.workers, SPAWN, end_with_parent) as pool:
            with deaf_children():
                futures = [pool.submit(_call, target, job) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
