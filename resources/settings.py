"""Common base of the settings of all resources."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Largest count that arrays, files and other programs store in 32 bits.
MOST = 2**31 - 1
MOST_THREADS = 1024
Count = Annotated[int, Field(gt=0, le=MOST)]


class SettingsModel(BaseModel):
    """Immutable settings that reject unknown keys, infinities and NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _or_its_main_value(schema: dict[str, Any], model: type[Any]) -> None:
    full = dict(schema)
    schema.clear()
    schema["anyOf"] = [full["properties"][model.main], full]


class NamedSettings(SettingsModel):
    """Settings that may be the text of their key `main` alone: `chunker: fixed` is `chunker: {name: fixed}`."""

    model_config = ConfigDict(json_schema_extra=_or_its_main_value)
    main: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {cls.main: value} if isinstance(value, str) else value
