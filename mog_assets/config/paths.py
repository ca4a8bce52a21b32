"""Paths of the settings: made absolute, and checked."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable


def resolved(key: str, path: Path, base: Path) -> Path:
    """A path of the settings made absolute: `~` is expanded, links are followed.

    Args:
        key: Name of the setting.
        path: The path as written.
        base: Folder that it is relative to.

    Raises:
        ConfigError: the path is impossible.
    """

    def wrong(reason: str) -> ConfigError:
        return ConfigError(f"{key}: expected a path, got {printable(path)[:200]!r}: {reason}")

    try:
        expanded = path.expanduser()
    except RuntimeError:
        raise wrong(f"{path.parts[0]} is not the home of a user of this machine; write the full path") from None
    try:
        absolute = (base / expanded).resolve()
        os.stat(absolute)
    except RuntimeError:
        raise wrong("its links lead in a circle") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise wrong("its links lead in a circle") from None
        if error.errno == errno.ENAMETOOLONG:
            raise wrong("it is too long for this system") from None
        # Other faults are reported by the code that reads or creates it.
        absolute = (base / expanded).resolve()
    return absolute


def encoder_source(key: str, model: str, base: Path) -> str:
    """The name of an encoder's model, or its absolute folder if a path was given.

    Args:
        key: Name of the setting.
        model: The value as written; a path begins with `.`, `/` or `~`.
        base: Folder that a path is relative to.

    Raises:
        ConfigError: the path is not a folder that contains a model.
    """
    if not model.startswith((".", "/", "~")):
        return model
    folder = resolved(key, Path(model), base)
    files = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    if "config.json" in files and any(name.endswith(".safetensors") for name in files):
        return str(folder)
    got = f"a folder with {len(files)} other files" if folder.is_dir() else "a file" if folder.exists() else "nothing"
    raise ConfigError(
        f"{key}: expected a folder with config.json, tokenizer.json and model.safetensors, got "
        f"{printable(folder)}, where there is {got}; name another folder, or a model without a path"
    )


def check_home(home: Path, corpora: dict[str, Path]) -> None:
    """Check that the home can be a folder and that its files would not be read as documents.

    Raises:
        ConfigError: it cannot, or they would.
    """
    existing = next(place for place in (home, *home.parents) if os.path.lexists(place))
    if not existing.is_dir():
        raise ConfigError(
            f"home: expected a folder, or a path where one can be created, got {printable(home)}, but "
            f"{printable(existing)} is a file: choose another path"
        )
    for name, path in corpora.items():
        inside = home == path or path in home.parents
        if inside and path.is_dir() and not any(part.startswith(".") for part in home.relative_to(path).parts):
            raise ConfigError(
                f"home: expected a folder outside every corpus, got {printable(home)} in corpora.{name}.path, whose "
                "files would be read as documents: choose another, or one whose name starts with a dot"
            )
