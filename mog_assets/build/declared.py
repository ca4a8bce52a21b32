"""The settings that a build may read: those that its recipe declares, and so are in its fingerprint.

A setting that a build reads but does not declare would leave a stale artefact when it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.resources.errors import MogError
from mog_assets.resources.settings import SettingsModel

CARRIED = frozenset(
    {
        # Where artefacts lie, and which are read.
        *(
            "home",
            "corpora",
            "corpora.path",
            "question_sets",
            "methods",
            "levels",
            "buckets",
        ),
        # How many requests are under way together.
        "llm.concurrency",
        # A name for what `Encoder.identity` says.
        "encoder.model",
    }
)
"""Settings that need not be declared: their change is seen in what an artefact is made from."""

Reader = Callable[[str], object]


class UndeclaredSetting(MogError):
    """A build reads a setting that its recipe does not declare."""


class Declared:
    """What a recipe declares, by watching `Recipe.settings` and `Recipe.source` read it.

    Attributes:
        declaring: The resources, for `Recipe.settings` and `Recipe.source`: what they read is declared.
    """

    def __init__(self, tools: Tools, what: str) -> None:
        """Nothing is declared yet.

        Args:
            tools: The resources.
            what: Name of the artefact, for messages.
        """
        self._tools, self._what = tools, what
        self._names: set[str] = set()
        self.declaring = _with(tools, self._names.add)

    def tools(self) -> Tools:
        """The resources, for `Recipe.build`: settings that are not declared raise `UndeclaredSetting`."""
        return _with(self._tools, self._check)

    def _check(self, name: str) -> None:
        if name not in self._names | CARRIED:
            raise UndeclaredSetting(
                f"{self._what}: expected to be built from settings that its recipe declares, got {name}: add it to "
                "`Recipe.settings`, so that the artefact is built again when it changes"
            )


def _with(tools: Tools, read: Reader) -> Tools:
    return cast(Tools, _Tools(tools, cast(Settings, _Watched(tools.settings, "", read))))


class _Tools:
    """Resources with other settings; they are opened, once, with their own."""

    def __init__(self, tools: Tools, settings: Settings) -> None:
        self._tools, self.settings = tools, settings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tools, name)


class _Watched:
    """Settings that tell `read` the name of each value that is read: `k`, `ranking.questions`, `corpora.path`."""

    def __init__(self, model: SettingsModel, place: str, read: Reader) -> None:
        self._model, self._place, self._read = model, place, read

    def __getattr__(self, name: str) -> Any:
        kind = type(self._model)
        if name in kind.model_fields:
            return self._value(name)
        attribute = getattr(kind, name)
        if isinstance(attribute, property):
            return cast(Any, attribute.fget)(self)
        if name == "model_dump":
            return self._dumped
        if name == "model_copy":
            return self._copied
        self._whole()
        return getattr(self._model, name)

    def _value(self, name: str) -> Any:
        value, place = getattr(self._model, name), f"{self._place}{name}"
        if isinstance(value, SettingsModel):
            return _Watched(value, f"{place}.", self._read)
        self._read(place)
        if isinstance(value, dict):
            watched = partial(_Watched, place=f"{place}.", read=self._read)
            return {key: watched(its) if isinstance(its, SettingsModel) else its for key, its in value.items()}
        return value

    def _dumped(self, **options: Any) -> dict[str, Any]:
        self._whole(options.get("include"), options.get("exclude") or ())
        return self._model.model_dump(**options)

    def _copied(self, **options: Any) -> _Watched:
        return _Watched(self._model.model_copy(**options), self._place, self._read)

    def _whole(self, include: Any = None, exclude: Any = ()) -> None:
        for name in _names(self._model, self._place):
            field = name.removeprefix(self._place).partition(".")[0]
            if field not in exclude and (include is None or field in include):
                self._read(name)

    @property  # type: ignore[misc]
    def __class__(self) -> type[SettingsModel]:  # type: ignore[override]
        return type(self._model)

    def __eq__(self, other: object) -> bool:
        self._whole()
        return self._model == (other._model if type(other) is _Watched else other)

    def __hash__(self) -> int:
        self._whole()
        return hash(self._model)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process gets the settings as they are.
        return _same, (self._model,)


def _same(model: SettingsModel) -> SettingsModel:
    return model


def _names(model: SettingsModel, place: str) -> Iterator[str]:
    for field in type(model).model_fields:
        value = getattr(model, field)
        inner = [value] if isinstance(value, SettingsModel) else []
        if isinstance(value, dict):
            inner = [its for its in value.values() if isinstance(its, SettingsModel)]
        for its in inner:
            yield from _names(its, f"{place}{field}.")
        if not isinstance(value, SettingsModel):
            yield f"{place}{field}"
