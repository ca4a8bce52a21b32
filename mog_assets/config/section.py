"""Sections of `mog.yaml` that parts beside the core contribute, through `registry.SECTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mog_assets.resources.encoder_settings import EncoderSettings

if TYPE_CHECKING:
    from mog_assets.config.settings import Settings

Value = TypeVar("Value")


def _unchanged(values: dict[str, Any]) -> Mapping[str, Any]:
    return values


def _placed(value: Any, base: Path) -> Any:
    return value


def _none(value: Any) -> Iterable[EncoderSettings]:
    return ()


def _valid(settings: Settings) -> None:
    """Accept."""


@dataclass(frozen=True)
class Section(Generic[Value]):
    """A section, or a single key, of the configuration.

    A part registers one, and reads it of any settings:

        SHELF = Section("shelf", ShelfSettings, ShelfSettings())
        registry.SECTIONS.register("shelf", SHELF)
        SHELF.of(settings).boards

    Attributes:
        name: The key in `mog.yaml`.
        type: Of the value, as pydantic takes it: a `SettingsModel`, or `… | None`.
        default: The value where the key is not given.
        prepare: Changes the keys and values of the whole file before they are checked.
        check: Raises ValueError, with what is expected and what came, if the settings do not fit together.
        place: Gives the value with its relative paths below a folder: that of the file.
        encoders: Those that a value names: `mog prune` keeps their vectors.
        asks_model: Whether a value has something asked of the language model of `llm`; None if none ever has.
        scored: Whether scores depend on it: where they do not, two values of it are one configuration.
    """

    name: str
    type: Any
    default: Value
    prepare: Callable[[dict[str, Any]], Mapping[str, Any]] = _unchanged
    check: Callable[[Settings], None] = _valid
    place: Callable[[Value, Path], Value] = _placed
    encoders: Callable[[Value], Iterable[EncoderSettings]] = _none
    asks_model: Callable[[Value], bool] | None = None
    scored: bool = True

    def of(self, settings: Settings) -> Value:
        """Return the value of some settings."""
        value: Value = getattr(settings, self.name)
        return value
