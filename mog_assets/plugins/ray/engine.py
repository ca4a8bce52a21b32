"""The engine `ray`; Ray is imported where the engine is first used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from mog_assets import registry
from mog_assets.plugins.ray.remote_encoder import encoded_by
from mog_assets.plugins.ray.settings import RaySettings
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.engine import Engine, EngineSettings, PoolMap, call


class RayEngine(Engine):
    """Runs jobs on the nodes of a Ray cluster, which read and write their files in the home folder, a shared one."""

    settings_type: ClassVar[type[EngineSettings]] = RaySettings
    elsewhere: ClassVar[bool] = True

    def map(self, target: str, jobs: list[dict[str, Any]]) -> Iterator[Any]:
        """Do as `Engine.map`."""
        if len(jobs) < 2:
            return (call(target, job) for job in jobs)
        results: Iterator[Any] = self._cluster().map(target, jobs)
        return results

    @contextmanager
    def open_pool(self, most: int) -> Iterator[PoolMap]:
        """Do as `Engine.open_pool`."""
        with self._cluster().open_pool(most) as run_jobs:
            yield run_jobs

    def encoding(self, encoder: Encoder, texts: int) -> AbstractContextManager[None]:
        """Do as `Engine.encoding`."""
        return encoded_by(self, encoder, texts)

    def scratch(self) -> Path:
        """Do as `Engine.scratch`."""
        folder: Path = self._cluster().scratch
        return folder

    def describe(self) -> str:
        """Do as `Engine.describe`."""
        described: str = self._cluster().describe()
        return described

    def _cluster(self) -> Any:
        # Here, because it imports Ray.
        from mog_assets.plugins.ray.cluster import cluster

        if self.home is None:
            raise ValueError("expected a home folder for the engine `ray`, got None")
        assert isinstance(self.settings, RaySettings)
        return cluster(self.settings, self.home)


registry.ENGINES.register("ray", RayEngine)
