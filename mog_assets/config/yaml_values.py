"""Read `mog.yaml` as plain values; YAML beyond texts, numbers, lists and keys is an error that names key and line."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable

MOST_BYTES = 1_000_000
MOST_DEEP = 50
# Number of values in a file, with aliases expanded.
MOST_VALUES = 100_000
_TAG = "tag:yaml.org,2002:"
_PLAIN = {
    yaml.MappingNode: ("map",),
    yaml.SequenceNode: ("seq",),
    yaml.ScalarNode: ("str", "null", "bool", "int", "float"),
}
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Wrong(Exception):
    """Tells the user what is wrong; the caller adds the name of the file."""


class _Loader(yaml.SafeLoader):
    """Reads dates and a lone `=` as text, and refuses nesting beyond the recursion of what follows."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (f"{_TAG}timestamp", f"{_TAG}value")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self._depth > MOST_DEEP:
            line = self.peek_event().start_mark.line + 1
            raise _Wrong(f"expected values nested at most {MOST_DEEP} deep, got more on line {line}")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def read(source: Path) -> dict[str, Any]:
    """The keys and values of a file, as JSON values.

    Raises:
        ConfigError: the file cannot be read, or contains other values; the message names file, key and line.
    """
    try:
        with source.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        return _parsed(data)
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
    except UnicodeDecodeError as error:
        raise _Wrong(f"expected a readable UTF-8 YAML file, got other bytes ({error}); save it as UTF-8") from error
    if "\0" in text:
        raise _Wrong("expected a readable UTF-8 YAML file, got NUL bytes (perhaps UTF-16); save it as UTF-8")
    try:
        node = yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        raise _Wrong(f"expected YAML, got: {' '.join(str(error).split())}") from error
    if not isinstance(node, yaml.MappingNode):
        what = "nothing" if node is None else reprlib.repr(_Values().value(node, ""))
        raise _Wrong(f"expected keys with values, got {what}")
    values: dict[str, Any] = _Values().value(node, "")
    return values


class _Values:
    """Converts the nodes of one file to values."""

    def __init__(self) -> None:
        self._count = 0
        self._within: list[yaml.Node] = []
        self._scalars = SafeConstructor()

    def value(self, node: yaml.Node, key: str) -> Any:
        """The value of a node.

        Args:
            node: The composed YAML node.
            key: Its name, parts joined by dots.
        """
        self._count += 1
        if self._count > MOST_VALUES:
            raise _Wrong(f"expected at most {MOST_VALUES:,} values, got more after expanding aliases")
        kind = node.tag.removeprefix(_TAG)
        if kind not in _PLAIN[type(node)]:
            tag = node.tag.replace(_TAG, "!!")
            raise _Wrong(f"{key}: expected plain YAML, got the tag {tag} in {_line(node)}: leave it out")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, kind, key)
        if any(node is outer for outer in self._within):
            raise _Wrong(f"{key}: expected a value, got an alias on {_line(node)} that contains itself")
        self._within.append(node)
        built: Any
        if isinstance(node, yaml.MappingNode):
            built = {name: self.value(entry, _joined(key, name)) for name, entry in self._keyed(node, key)}
        else:
            built = [self.value(entry, _joined(key, str(i))) for i, entry in enumerate(node.value)]
        self._within.pop()
        return built

    def _keyed(self, node: yaml.MappingNode, key: str) -> Iterator[tuple[str, yaml.Node]]:
        lines: dict[str, str] = {}
        for name, entry in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise _Wrong(f"{key or 'keys'}: expected keys that are texts, got a list or keys in {_line(name)}")
            place = _joined(key, name.value)
            if name.tag == f"{_TAG}merge":
                raise _Wrong(f"{place}: expected YAML without merge keys, got one in {_line(name)}: write the keys out")
            if name.tag != f"{_TAG}str":
                kind = name.tag.removeprefix(_TAG)
                raise _Wrong(
                    f"{printable(place)}: expected a key that is a text, got one that YAML reads as {kind} in "
                    f"{_line(name)}: write it in quotes, {printable(name.value)!r}"
                )
            self._scalar(name, "str", place)
            if name.value in lines:
                both = f"{lines[name.value]} and {_line(name)}"
                raise _Wrong(f"{place}: expected the key once, got it twice, in {both}: remove one")
            lines[name.value] = _line(name)
            yield name.value, entry

    def _scalar(self, node: yaml.ScalarNode, kind: str, key: str) -> Any:
        text = node.value
        if kind == "str":
            wrong = "half of a surrogate pair" if _SURROGATE.search(text) else "NUL" if "\0" in text else ""
            if wrong:
                raise _Wrong(f"{printable(key)}: expected text, got {printable(text)!r} with {wrong} in {_line(node)}")
            return text
        try:
            return None if kind == "null" else getattr(self._scalars, f"construct_yaml_{kind}")(node)
        # A tag that does not fit the text, or more digits than Python can read.
        except (ValueError, KeyError, IndexError) as error:
            raise _Wrong(
                f"{key}: expected a value of type {kind}, got {reprlib.repr(text)} in {_line(node)}"
            ) from error


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"
