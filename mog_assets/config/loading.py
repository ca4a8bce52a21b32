"""`mog.yaml` read as settings: a wrong value is an error that names key, expectation and value."""

from __future__ import annotations

import difflib
import json
import os
import re
import reprlib
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import ValidationError
from yaml.constructor import SafeConstructor

from mog_assets import registry
from mog_assets.config.settings import Settings, settings_model
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable
from mog_assets.resources.settings import SettingsModel

CONFIG_VARIABLE = "MOG_CONFIG"
DEFAULT_CONFIG = "mog.yaml"
SettingsT = TypeVar("SettingsT", bound=SettingsModel)


def file(path: str | Path | None = None) -> Path:
    """Return configuration file: `path`, else the value of `MOG_CONFIG`, else `mog.yaml` in the working directory."""
    return Path(path or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG).resolve()


def load(path: str | Path | None = None) -> Settings:
    """Read settings from `path`, else from `MOG_CONFIG`, else from `mog.yaml` in the working directory.

    Raises:
        ConfigError: the file is missing, is not YAML, or has an unknown key or an invalid value. The message names each
            key, what was expected and what was found.
    """
    source = file(path)
    return parse(read_yaml(source), source)


def parse(values: Mapping[str, Any], source: Path) -> Settings:
    """Return settings from the keys and values of a configuration."""
    settings = checked(settings_model(), _prepared(values), source)
    corpora = {
        name: corpus.model_copy(update={"path": copies(settings.home, name)}) if corpus.source else corpus
        for name, corpus in settings.corpora.items()
    }
    return settings.model_copy(update={"corpora": corpora})


def copies(home: Path, corpus: str) -> Path:
    """Return the folder to which the items of a source are copied."""
    return home / "cache" / "sources" / corpus


def checked(kind: type[SettingsT], values: Mapping[str, Any], source: Path) -> SettingsT:
    """Return keys and values as settings of a kind."""
    try:
        # In strict JSON mode "5" and true are not numbers, while a list becomes a tuple and a text a path.
        return kind.model_validate_json(json.dumps(values), strict=True, context={"folder": source.parent})
    except ValidationError as error:
        lines = "; ".join(_explain(kind, detail) for detail in error.errors())
        raise ConfigError(f"configuration {printable(source)}: {lines}") from error


def _prepared(values: Mapping[str, Any]) -> Mapping[str, Any]:
    for section in registry.SECTIONS.values():
        values = section.prepare(dict(values))
    return values


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
    """Return the field names of the settings model at a location such as ["corpora", "niddk"]."""
    for part in location:
        # Names of corpora and indexes of list items are not fields.
        kind = kind.model_fields[part].annotation if _is_model(kind) else get_args(kind)[-1]
        # A section that may be missing.
        kind = next((option for option in get_args(kind) if _is_model(option) and type(None) in get_args(kind)), kind)
    return list(kind.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsModel)


MOST_BYTES = 1_000_000
MOST_DEEP = 50
# Number of values in a file, with aliases expanded.
MOST_VALUES = 100_000
_TAG = "tag:yaml.org,2002:"
# Tags by the form that a value is written in.
_PLAIN = {
    yaml.MappingNode: {"map"},
    yaml.SequenceNode: {"seq"},
    yaml.ScalarNode: {"str", "null", "bool", "int", "float"},
}
_UNREADABLE = re.compile("[\0\ud800-\udfff]")


class _Wrong(Exception):
    """Tells the user what is wrong; the caller adds the name of the file."""


class _Loader(yaml.SafeLoader):
    """Reads dates and a lone `=` as text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(source: Path) -> dict[str, Any]:
    """Return the keys and values of a file, as JSON values.

    Raises:
        ConfigError: the file cannot be read, or contains other values; the message names file, key and line.
    """
    try:
        with source.open("rb") as stream:
            return _parsed(stream.read(MOST_BYTES + 1))
    except OSError as error:
        raise ConfigError(
            f"configuration {printable(source)}: expected a readable UTF-8 YAML file ({error.strerror}); "
            "name another with --config or MOG_CONFIG"
        ) from error
    except _Wrong as error:
        raise ConfigError(f"configuration {printable(source)}: {error}") from error


def _parsed(data: bytes) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise _Wrong(f"expected a file of at most {MOST_BYTES:,} bytes, got more")
    try:
        text = data.decode("utf-8-sig")
        if "\0" in text:
            raise _Wrong("expected a readable UTF-8 YAML file, got NUL bytes (perhaps UTF-16); save it as UTF-8")
        node = yaml.compose(text, _Loader)
    except UnicodeDecodeError as error:
        raise _Wrong(f"expected a readable UTF-8 YAML file, got other bytes ({error}); save it as UTF-8") from error
    except yaml.YAMLError as error:
        raise _Wrong(f"expected YAML, got: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise _Wrong(f"expected values nested at most {MOST_DEEP} deep, got more") from None
    values = None if node is None else _Values().value(node, "", 0)
    if not isinstance(values, dict):
        raise _Wrong(f"expected keys with values, got {'nothing' if node is None else reprlib.repr(values)}")
    return values


class _Values:
    """Converts the nodes of one file to values."""

    def __init__(self) -> None:
        self._count = count(1)
        self._scalars = SafeConstructor()

    def value(self, node: yaml.Node, key: str, depth: int) -> Any:
        """Return the value of a node, whose key has its parts joined by dots."""
        if next(self._count) > MOST_VALUES:
            raise _Wrong(f"expected at most {MOST_VALUES:,} values, got more after expanding aliases")
        if depth > MOST_DEEP:
            wrong = f"expected values nested at most {MOST_DEEP} deep, got more, or an alias that contains itself"
            raise _Wrong(f"{key[:80]}: {wrong}, {_line(node)}")
        kind = node.tag.removeprefix(_TAG)
        if kind not in _PLAIN[type(node)]:
            tag = node.tag.replace(_TAG, "!!")
            raise _Wrong(f"{key}: expected plain YAML, got the tag {tag} in {_line(node)}: leave it out")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(entry, _joined(key, str(i)), depth + 1) for i, entry in enumerate(node.value)]
        if kind == "str" and _UNREADABLE.search(node.value):
            half = f"expected text, got {printable(node.value)!r} with NUL or half of a surrogate pair"
            raise _Wrong(f"{printable(key)}: {half} in {_line(node)}")
        try:
            return None if kind == "null" else getattr(self._scalars, f"construct_yaml_{kind}")(node)
        # A tag that does not fit the text, or more digits than Python can read.
        except (ValueError, KeyError, IndexError, yaml.YAMLError) as error:
            got = f"{reprlib.repr(node.value)} in {_line(node)}"
            raise _Wrong(f"{key}: expected a value of type {kind}, got {got}") from error

    def _mapping(self, node: yaml.MappingNode, key: str, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, entry in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise _Wrong(f"{key or 'keys'}: expected keys that are texts, got a list or keys in {_line(name)}")
            if name.tag != f"{_TAG}str":
                place, kind = printable(_joined(key, name.value)), name.tag.removeprefix(_TAG)
                got = f"expected a key that is a text, got one that YAML reads as {kind} in {_line(name)}"
                raise _Wrong(f"{place}: {got}: write it in quotes, {printable(name.value)!r}, or write merged keys out")
            place = _joined(key, self.value(name, _joined(key, name.value), depth))
            if name.value in values:
                raise _Wrong(f"{place}: expected the key once, got it twice, again in {_line(name)}: remove one")
            values[name.value] = self.value(entry, place, depth + 1)
        return values


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
