"""What can be added: methods, experts, measures, formats and more, each one value, registered where it is defined.

The modules of this package that register values are named here. Another package registers its own when a module of it
is imported, which it names as an entry point:

    [project.entry-points."mog_assets.plugins"]
    theirs = "their_package.plugin"

and in that module, for example, `registry.CHUNKERS.register("verses", Chunker(...))`.
"""

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


class Registry(Mapping[str, Value], Generic[Value]):
    """Values of one kind by name, in the order in which they were registered; filled when it is first read.

    Args:
        kind: What the values are, for people.
        modules: Those of this package that register values.
        reserved: What no name may begin with, alone or before a hyphen.
    """

    def __init__(self, kind: str, *modules: str, reserved: Collection[str] = ()) -> None:
        self.kind, self._modules, self._reserved = kind, modules, reserved
        self._values: dict[str, Value] = {}
        self._lock, self._full = threading.RLock(), False

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

    def check(self, name: str) -> str:
        """The name of a value.

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
        return self._filled()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._filled())

    def __len__(self) -> int:
        return len(self._filled())

    def _filled(self) -> dict[str, Value]:
        with self._lock:
            if not self._full:
                # A module that reads the registry while it is imported sees what there is so far.
                self._full = True
                try:
                    for module in self._modules:
                        importlib.import_module(module)
                    _plugins()
                except BaseException:
                    self._full = False
                    raise
        return self._values


@cache
def _plugins() -> None:
    """Import the modules that other packages name.

    Raises:
        ConfigError: one of them cannot be imported.
    """
    for plugin in entry_points(group=PLUGINS):
        try:
            plugin.load()
        except Exception as error:
            raise ConfigError(
                f"plugin {plugin.name!r}: expected {plugin.value} to be imported, got {type(error).__name__}: {error}: "
                "mend or uninstall the package that names it"
            ) from error


CHUNKERS: Registry[Any] = Registry(
    "chunker", "mog_assets.chunking.chunkers", "mog_assets.papers.learned_chunking.chunker"
)
# Readers of foreign data sets, each a command `mog import NAME`.
_IMPORTERS = (f"mog_assets.questions.foreign_{name}" for name in ("judged", "squad"))
IMPORTERS: Registry[Any] = Registry("importer", *_IMPORTERS)
_SOURCES = ("git_repositories", "object_stores", "pushed", "sql_tables", "web_pages")
SOURCES: Registry[Any] = Registry("source", *(f"mog_assets.corpus.{kind}" for kind in _SOURCES))
FORMATS: Registry[Any] = Registry("format", "mog_assets.corpus.formats")
# The others are those of retrievers and levels, such as `bm25-1`.
_RETRIEVERS = ("bm25", "dense", "title")
EXPERTS: Registry[Any] = Registry("expert", "mog_assets.ranking.reranking", reserved=_RETRIEVERS)
_METHODS = ("mog_assets.ranking.methods", "mog_assets.papers.mix_of_granularity.methods")
METHODS: Registry[Any] = Registry("kind of method", *_METHODS)
GROUPS: Registry[Any] = Registry("group of methods", *_METHODS)
MEASURES: Registry[Any] = Registry("measure", "mog_assets.evaluation.measures")
# Recipes of the papers' assets, given the settings; those of the product are in `plan`.
RECIPES: Registry[Any] = Registry(
    "stage",
    "mog_assets.papers.mix_of_granularity.assets",
    "mog_assets.papers.mix_of_granularity.chosen",
    "mog_assets.papers.learned_chunking.assets",
)
_EXPERIMENTS = "mog_assets.papers.mix_of_granularity.experiments"
EXPERIMENTS: Registry[Any] = Registry(
    "experiment",
    *(f"{_EXPERIMENTS}.{name}" for name in ("granularity", "retrievers", "labels", "cost")),
    "mog_assets.experiments.learning",
    "mog_assets.papers.learned_chunking.experiments",
    *(f"mog_assets.papers.briefcontext.experiments.{name}" for name in ("briefcontext", "conflicts", "preflight")),
    "mog_assets.papers.at_rag.experiments",
    "mog_assets.experiments.answers",
    "mog_assets.experiments.costs",
)
WAYS: Registry[Any] = Registry(
    "way of answering",
    "mog_assets.answering.answerers",
    "mog_assets.papers.briefcontext.answerer",
    "mog_assets.papers.at_rag.answerer",
)
