"""Registries of what can be added, by name; packages add to them by the entry points `mog_assets.plugins`."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from mog_assets.resources.errors import ConfigError

PLUGINS = "mog_assets.plugins"

Value = TypeVar("Value")

# One for all: while the modules of one are imported, they read and fill others.
_LOCK = threading.RLock()


class Registry(Mapping[str, Value], Generic[Value]):
    """Values of one kind by name, in the order in which they were registered; filled when it is first read.

    Args:
        kind: What the values are, for people.
        modules: Those of the core that register values; plugins add theirs with `add_modules`.
        reserved: What no name may begin with, alone or before a hyphen.
    """

    def __init__(self, kind: str, *modules: str, reserved: Collection[str] = ()) -> None:
        self.kind, self._modules, self._reserved = kind, [*modules], reserved
        self._values: dict[str, Value] = {}

    def register(self, name: str, value: Value) -> Value:
        """Add a value; registering the same again changes nothing.

        Raises:
            ConfigError: another value has the name, or it is reserved.
        """
        if name.partition("-")[0] in self._reserved:
            raise ConfigError(
                f"{self.kind}: expected a name without {', '.join(self._reserved)}, got {name!r}: rename it"
            )
        if self._values.setdefault(name, value) != value:
            raise ConfigError(f"{self.kind}: expected a name that no other has, got {name!r} twice: rename one of them")
        return value

    def add_modules(self, *modules: str) -> None:
        """Name modules that register values: they are imported when the registry is next read, not before."""
        with _LOCK:
            self._modules += modules

    def check(self, name: str) -> str:
        """Return the name of a value.

        Raises:
            ValueError: there is none; the message is what is expected.
        """
        if name not in self:
            if not self:
                raise ValueError(f"a {self.kind} of an installed package, of which there is none")
            *others, last = map(repr, self)
            raise ValueError(f"{', '.join(others)} or {last}" if others else last)
        return name

    def __getitem__(self, name: str) -> Value:
        return self._filled(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._filled())

    def __len__(self) -> int:
        return len(self._filled())

    def _filled(self, until: str | None = None) -> dict[str, Value]:
        """Return all values, or those up to a name: what would register others is not imported for it."""
        with _LOCK:
            # Those of the core come first. A module that reads the registry while it is imported sees what there is.
            self._import_modules(until)
            if until not in self._values:
                load_plugins()
                # All of them: two that register one name are told of.
                self._import_modules(None)
        return self._values

    def _import_modules(self, until: str | None) -> None:
        while self._modules and until not in self._values:
            module = self._modules.pop(0)
            try:
                importlib.import_module(module)
            except BaseException:
                self._modules.insert(0, module)
                raise


@cache
def load_plugins() -> None:
    """Import the modules that packages, this one included, name as plugins, in the order of their names."""
    for plugin in sorted(entry_points(group=PLUGINS), key=lambda plugin: plugin.name):
        try:
            plugin.load()
        except Exception as error:
            raise ConfigError(
                f"plugin {plugin.name!r}: expected {plugin.value} to be imported, got {type(error).__name__}: {error}: "
                "mend or uninstall the package that names it"
            ) from error


# Classes of engines, which run work on document buckets.
ENGINES: Registry[Any] = Registry("engine", "mog_assets.resources.engine")
# Encoders that have a name of their own, not that of a model elsewhere.
ENCODERS: Registry[Any] = Registry("encoder", "mog_assets.resources.encoder")
# Keys of the settings of encoders, for models that are elsewhere.
ENCODER_KEYS: Registry[Any] = Registry("key of encoders")
# What collects spans: the functions of `mog_assets.resources.tracing`; the first counts.
TRACERS: Registry[Any] = Registry("tracer")
# How endpoints that encode, and endpoints that rerank, are asked.
ENCODER_FORMS: Registry[Any] = Registry("form of embeddings endpoint")
RERANKER_FORMS: Registry[Any] = Registry("form of rerank endpoint")
# What encoders expect whose name ends like a regular expression, the first that fits.
FAMILIES: Registry[Any] = Registry("family of encoders")
