"""Common base of the settings of all resources."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

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


_WRONG_PATHS = {
    errno.ELOOP: "another path, because its links lead in a circle",
    errno.ENAMETOOLONG: "another path, because it is too long for this system",
}


def absolute(path: Path, info: ValidationInfo) -> Path:
    """Return a path below the folder of the file of the settings: `~` is expanded, links are followed.

    Settings that are not read from a file, which have no `folder` in their context, keep it as it is.

    Raises:
        ValueError: no file can have this path; the message is what is expected.
    """
    if not info.context:
        return path
    code = None
    try:
        path = info.context["folder"] / path.expanduser()
    except RuntimeError:
        raise ValueError(f"a full path, because {path.parts[0]} is not the home of a user of this machine") from None
    try:
        path = path.resolve()
        os.stat(path)
    except RuntimeError:
        code = errno.ELOOP
    except OSError as error:
        # Other faults are reported by the code that reads or creates it.
        code = error.errno
    if code in _WRONG_PATHS:
        raise ValueError(_WRONG_PATHS[code])
    return path


def _not_blank(value: Any) -> Any:
    # An empty path would be the folder of mog.yaml.
    if isinstance(value, str) and not value.strip():
        raise ValueError("a path")
    return value


def model_source(model: str, info: ValidationInfo) -> str:
    """Return the name of a model, or its absolute folder if a path was given; see `absolute`.

    Raises:
        ValueError: there is no model in the folder; the message is what is expected.
    """
    if not (info.context and model.startswith((".", "/", "~"))):
        return model
    folder = absolute(Path(model), info)
    files = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if "config.json" in files and any(name.endswith(".safetensors") for name in files):
        return str(folder)
    there = f"a folder with {len(files)} other files" if folder.is_dir() else "a file" if folder.exists() else "nothing"
    raise ValueError(
        "a folder with config.json, tokenizer.json and model.safetensors, or a model without a path, where there is "
        f"{there}"
    )


Place = Annotated[Path, BeforeValidator(_not_blank), AfterValidator(absolute)]
"""A path, absolute once it is read from a file."""
ModelName = Annotated[str, Field(min_length=1), AfterValidator(model_source)]
"""The name of a model, or the folder of one, as a path."""
