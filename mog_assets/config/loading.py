"""`mog.yaml` read as settings: a wrong value is an error that names key, expectation and value."""

from __future__ import annotations

import difflib
import errno
import json
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from mog_assets import registry
from mog_assets.config import yaml_values
from mog_assets.config.sections import CorpusSettings
from mog_assets.config.settings import Settings, settings_model
from mog_assets.resources.chat import LlmSettings
from mog_assets.resources.encoder_settings import EncoderT
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable
from mog_assets.resources.settings import SettingsModel
from mog_assets.resources.tokens import TIKTOKEN

CONFIG_VARIABLE = "MOG_CONFIG"
DEFAULT_CONFIG = "mog.yaml"
SettingsT = TypeVar("SettingsT", bound=SettingsModel)


def file(path: str | Path | None = None) -> Path:
    """The configuration file: `path`, else the value of `MOG_CONFIG`, else `mog.yaml` in the working directory."""
    return Path(path or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG).resolve()


def load(path: str | Path | None = None) -> Settings:
    """Read settings from `path`, else from `MOG_CONFIG`, else from `mog.yaml` in the working directory.

    Raises:
        ConfigError: the file is missing, is not YAML, or has an unknown key or an invalid value. The message names each
            key, what was expected and what was found.
    """
    source = file(path)
    return parse(yaml_values.read(source), source)


def parse(values: Mapping[str, Any], source: Path) -> Settings:
    """Settings from the keys and values of a configuration."""
    settings = checked(settings_model(), _prepared(values), source)
    try:
        return _absolute(settings, source.parent)
    except ConfigError as error:
        raise ConfigError(f"configuration {printable(source)}: {error}") from error


def checked(kind: type[SettingsT], values: Mapping[str, Any], source: Path) -> SettingsT:
    """Keys and values as settings of a kind."""
    try:
        # In strict JSON mode "5" and true are not numbers, while a list becomes a tuple and a text a path.
        return kind.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        lines = "; ".join(_explain(kind, detail) for detail in error.errors())
        raise ConfigError(f"configuration {printable(source)}: {lines}") from error


def _prepared(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for section in registry.SECTIONS.values():
        values = section.prepare(dict(values))
    return values


def _absolute(settings: Settings, base: Path) -> Settings:
    sources = {name: _source_file(name, c, base) for name, c in settings.corpora.items()}
    local = {name: c for name, c in settings.corpora.items() if c.source is None and not sources[name]}
    corpora = {name: resolved(f"corpora.{name}.path", c.path, base) for name, c in local.items()}
    sets = {
        name: resolved(f"question_sets.{name}.path", q.path, base)
        for name, q in settings.question_sets.items()
        if q.path is not None
    }
    home = resolved("home", settings.home, base)
    check_home(home, corpora)
    corpora |= {name: copies(home, name) for name in settings.corpora if name not in corpora}
    return settings.model_copy(
        update={
            "home": home,
            **{name: section.place(section.of(settings), base) for name, section in registry.SECTIONS.items()},
            "encoder": placed_encoder("encoder", settings.encoder, base),
            "llm": _llm(settings, base),
            "corpora": {
                name: c.model_copy(update={"path": corpora[name], **sources[name]})
                for name, c in settings.corpora.items()
            },
            "question_sets": {
                name: q.model_copy(update={"path": sets.get(name)}) for name, q in settings.question_sets.items()
            },
        }
    )


def _source_file(name: str, corpus: CorpusSettings, base: Path) -> dict[str, Any]:
    """Return the file of a source that a key of a corpus names, and its address; nothing if none does."""
    for key, scheme in registry.SOURCE_FILES.items():
        if (file := getattr(corpus, key)) is not None:
            file = resolved(f"corpora.{name}.{key}", file, base)
            return {key: file, "source": f"{scheme}://{file}"}
    return {}


def copies(home: Path, corpus: str) -> Path:
    """The folder to which the items of a source are copied."""
    return home / "cache" / "sources" / corpus


def _llm(settings: Settings, base: Path) -> LlmSettings:
    tokenizer = settings.llm.tokenizer
    if tokenizer is None or tokenizer.startswith(TIKTOKEN):
        return settings.llm
    file = resolved("llm.tokenizer", Path(tokenizer), base)
    return settings.llm.model_copy(update={"tokenizer": str(file)})


def placed_encoder(key: str, encoder: EncoderT, base: Path) -> EncoderT:
    """Return the settings of an encoder, which stand at a key, with absolute paths of its models."""
    named = {field: getattr(encoder, field) for field in ("model", "query_model")}
    sources = {f: encoder_source(f"{key}.{f}", model, base) for f, model in named.items() if model is not None}
    return encoder.model_copy(update=sources)


def _explain(kind: type[SettingsModel], detail: Any) -> str:
    location = [part for part in detail["loc"] if part != "[key]"]
    key = printable(".".join(map(str, location)))
    if detail["type"] == "extra_forbidden":
        model = _model_at(kind, location[:-1])
        close = difflib.get_close_matches(str(location[-1]), model, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known keys: {', '.join(model)}"
        return f"{key}: expected a known key, got {location[-1]!r}; {hint}"
    if detail["type"] == "missing":
        return f"{key}: expected a value, got none"
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    # YAML's terms instead of JSON's.
    expected = expected.replace("valid array", "valid list").replace("an object", "keys with values")
    if not key:
        return expected
    if detail["input"] is None:
        return f"{key}: expected {expected}, got nothing; give it a value, or leave the key out"
    given = detail["input"]
    shown = _USER.sub("://…@", given) if isinstance(given, str) else given
    return f"{key}: expected {expected}, got {_LIMITED.repr(shown)}"


# User and password of an address: nothing is shown of them.
_USER = re.compile("://[^@]*@")
_LIMITED = reprlib.Repr()
_LIMITED.maxstring = _LIMITED.maxother = 80


def _model_at(kind: Any, location: Sequence[str | int]) -> list[str]:
    """The field names of the settings model at a location such as ["corpora", "niddk"]."""
    for part in location:
        # Names of corpora and indexes of list items are not fields.
        kind = kind.model_fields[part].annotation if _is_model(kind) else get_args(kind)[-1]
        # A section that may be missing.
        kind = next((option for option in get_args(kind) if _is_model(option) and type(None) in get_args(kind)), kind)
    return list(kind.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsModel)


def check_corpora(settings: Settings, names: Sequence[str]) -> None:
    """Reject what is no corpus of the project."""
    unknown = [name for name in names if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {printable(unknown[0])!r}")


def resolved(key: str, path: Path, base: Path) -> Path:
    """A path of the settings made absolute: `~` is expanded, links are followed."""

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
    """The name of an encoder's model, or its absolute folder if a path was given."""
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
    """Check that the home can be a folder and that its files would not be read as documents."""
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
