"""What the parts of the graph are called in Dagster, so that they collide with nothing in someone else's project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import dagster as dg

from mog_assets.resources.errors import ConfigError

_PART = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Names:
    """Prefixes of everything that Dagster knows by name; without them it has the names of a project of its own.

    Attributes:
        prefix: First parts of every asset key. Joined by `_`, they also begin the names of jobs, sensors, the schedule,
            the resource and the partitions definition.
        groups: Begins every group name; empty for none.
    """

    prefix: tuple[str, ...] = ()
    groups: str = ""

    @classmethod
    def under(cls, key_prefix: str | Sequence[str] = (), group_prefix: str | None = None) -> Names:
        """Return the names under a prefix.

        Args:
            key_prefix: Parts of the prefix, or a text with the parts joined by `/`.
            group_prefix: Prefix of group names; None: that of the other names.

        Raises:
            ConfigError: a part would not be accepted by Dagster as the name of a job.
        """
        parts = key_prefix.split("/") if isinstance(key_prefix, str) and key_prefix else key_prefix
        if parts == "":
            parts = ()
        valid = isinstance(parts, list | tuple) and all(
            isinstance(part, str) and _PART.fullmatch(part) for part in parts
        )
        if not valid:
            raise ConfigError(
                f"key_prefix: expected a name of letters, digits and '_', or several joined by '/', got {key_prefix!r}"
            )
        groups = "_".join(parts) if group_prefix is None else group_prefix
        if not isinstance(groups, str) or groups and not _PART.fullmatch(groups):
            raise ConfigError(f"group_prefix: expected letters, digits and '_', got {group_prefix!r}")
        return cls(tuple(parts), groups)

    def key(self, key: str) -> dg.AssetKey:
        """Return the asset key of a recipe or of an external asset, whose own parts are joined by `/`."""
        return dg.AssetKey([*self.prefix, *key.split("/")])

    def group(self, group: str) -> str:
        """Return the name of a group."""
        return f"{self.groups}_{group}" if self.groups else group

    def name(self, name: str) -> str:
        """Return the name of a job, sensor, schedule, resource or partitions definition."""
        return "_".join([*self.prefix, name])

    @cached_property
    def corpora(self) -> dg.DynamicPartitionsDefinition:
        """The partitions: one for each corpus."""
        return dg.DynamicPartitionsDefinition(name=self.name("corpus"))
