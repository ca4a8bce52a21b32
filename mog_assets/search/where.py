"""Which documents a search may find, said by their metadata: the same small language at every door.

A filter maps names to conditions, which must all hold: `{"path": {"glob": "reports/*.pdf"}, "year": {"gte": 2020}}`.
A condition is a value (equals), a list of values (one of them), or a mapping of operators: `in`, `gt`, `gte`, `lt`,
`lte`, `glob`, `contains`, `starts`, `ends`. Names are `corpus`, `id`, `title`, `path`, `modified`, and the keys of the
documents' metadata; those of nested mappings are joined by dots, and `metadata.path` is the documents' own key of that
name. Others, which documents have through their finest chunks, are registered in `FIELDS`. A value that is a list meets
a condition if one of its items does, and a document if one of its chunks does.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import operator
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from mog_assets import registry
from mog_assets.documents.formats.marks import noted
from mog_assets.index.corpora import Corpora
from mog_assets.registry import Registry
from mog_assets.resources.errors import ConfigError, MissingArtefact

# Names that every document has.
OWN = ("corpus", "id", "title", "path", "modified")
_OWN_KEY = "metadata."
_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "contains": operator.contains,
    "starts": str.startswith,
    "ends": str.endswith,
}
OPERATORS = ("in", *_ORDERED, "glob", *_TEXTS)
_MOST_CONDITIONS, _MOST_VALUES, _LONGEST = 32, 1000, 1000
_MASKS = 64

Where = Mapping[str, Any]
Scalar = str | int | float | bool | None
Test = Callable[[Scalar], bool]


@dataclass(frozen=True)
class Items:
    """Values that documents have through their chunks.

    Attributes:
        documents: Position of the document of every chunk, int64 of shape (chunks,).
        values: By name: the different values, and which of them every chunk has, int64 of shape (chunks,).
    """

    documents: np.ndarray
    values: Mapping[str, tuple[Sequence[Scalar], np.ndarray]]


@dataclass(frozen=True)
class Field:
    """A name for filters that documents have through their chunks.

    Attributes:
        asset: The asset of each corpus that is read.
        read: Reads all values of the asset, those of other names too. It raises `MissingArtefact` if they have not
            been built.
    """

    asset: str
    read: Callable[[Corpora], Items]


FIELDS: Registry[Field] = registry.FIELDS
"""Fields by the names that filters use."""


class Fields:
    """Fields of the documents of some corpora, for filters.

    Args:
        corpora: The corpora; their metadata is read when the first filter is used.
        of_chunks: Fields by name; their values are read when a filter or the list of names needs them.
    """

    def __init__(self, corpora: Corpora, of_chunks: Mapping[str, Field] = FIELDS) -> None:
        self._corpora = corpora
        self._of_chunks = of_chunks
        self._items: dict[Field, Items] = {}
        self._columns: dict[str, list[tuple[Scalar, ...]]] = {}
        self._masks: dict[str, np.ndarray] = {}
        self._by_name: dict[str, np.ndarray] | None = None
        self._alone = RLock()

    def names(self, documents: np.ndarray | None = None) -> tuple[str, ...]:
        """Return names that a filter may use.

        Args:
            documents: Those that must have a name, bool of shape (documents,); None for any.
        """
        with self._alone:
            documents_by_name = self._documents_by_name()
            reserved = (*OWN, *(name for name in self._of_chunks if self._is_built(name)))
        names = (name for name in documents_by_name if name not in OWN and name not in self._of_chunks)
        return (
            *reserved,
            *sorted(name for name in names if documents is None or documents[documents_by_name[name]].any()),
        )

    def _documents_by_name(self) -> dict[str, np.ndarray]:
        """Return the documents that have each name, by their positions."""
        if self._by_name is None:
            positions_of: dict[str, array[int]] = {}
            for position, (_, row) in enumerate(self._rows(["metadata"])):
                for name in {name for name, _ in _flat(_metadata(row))}:
                    positions_of.setdefault(name, array("q")).append(position)
            self._by_name = {name: np.frombuffer(positions, np.int64) for name, positions in positions_of.items()}
        return self._by_name

    def documents_by_value(self, name: str) -> dict[Scalar, np.ndarray]:
        """Return the documents that have each value under a name of their metadata, by their positions."""
        positions_of: dict[Scalar, array[int]] = {}
        with self._alone:
            for position, values in enumerate(self._column(_OWN_KEY + name)):
                for value in set(values):
                    positions_of.setdefault(value, array("q")).append(position)
            self._columns.pop(_OWN_KEY + name)
        return {value: np.frombuffer(positions, np.int64) for value, positions in positions_of.items()}

    def meeting(self, where: Where) -> np.ndarray:
        """Apply a filter that does not come from a question: it may name what no document has, but none of `FIELDS`.

        Raises:
            ConfigError: it is no filter.
        """
        with self._alone:
            return self._met(parse(where), {})

    def _values_of(self, name: str) -> Items:
        field = self._of_chunks[name]
        if field not in self._items:
            self._items[field] = field.read(self._corpora)
        return self._items[field]

    def _is_built(self, name: str) -> bool:
        try:
            self._values_of(name)
        except MissingArtefact:
            return False
        return True

    def mask(self, where: Where, known: Sequence[str] | None = None) -> np.ndarray:
        """Return the documents that meet a filter, bool of shape (documents,).

        Args:
            where: The filter.
            known: The names that it may use; None for all `names`.

        Raises:
            ConfigError: an unknown name or operator, or a value of the wrong kind.
            MissingArtefact: it asks for what has not been built.
        """
        tests = parse(where)
        key = json.dumps(where, sort_keys=True, default=dict)
        with self._alone:
            if known is not None:
                self._check_names(tests, known)
            if key not in self._masks:
                # Before names are checked: those of what has not been built are unknown.
                items = {name: self._values_of(name) for name in tests if name in self._of_chunks}
                self._check_names(tests, self.names())
                mask = self._met(tests, items)
                if len(self._masks) >= _MASKS:
                    self._masks.pop(next(iter(self._masks)))
                self._masks[key] = mask
            return self._masks[key]

    def _check_names(self, tests: Mapping[str, Test], known: Sequence[str]) -> None:
        for name in tests:
            own = name.removeprefix(_OWN_KEY)
            if name not in known and (own == name or own not in (*known, *self._of_chunks)):
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known[:30])}"
                raise ConfigError(f"where.{name}: expected a name that documents have, got {name!r}; {hint}")

    def _met(self, tests: Mapping[str, Test], items: Mapping[str, Items]) -> np.ndarray:
        mask = np.ones(len(self._corpora.layout.documents), bool)
        for name, test in tests.items():
            if name in items:
                mask &= _met(items[name], name, test, len(mask))
                continue
            column = self._column(name)
            mask &= np.fromiter((any(map(test, values)) for values in column), bool, len(column))
        return mask

    def _column(self, name: str) -> list[tuple[Scalar, ...]]:
        """Return the values of every document under a name; a document without it has none."""
        if name not in self._columns:
            columns = ["id", "title"] if name in ("id", "title") else ["metadata"]
            self._columns[name] = [self._values(name, owner, row) for owner, row in self._rows(columns)]
        return self._columns[name]

    def _values(self, name: str, owner: int, row: dict[str, Any]) -> tuple[Scalar, ...]:
        if name == "corpus":
            return (self._corpora.names[owner],)
        if name in ("id", "title"):
            return (row[name],)
        metadata = _metadata(row)
        if name in ("path", "modified"):
            value = noted(metadata).get(name)
            return () if value is None else (value,)
        wanted = name.removeprefix(_OWN_KEY)
        return tuple(value for key, value in _flat(metadata) if key == wanted)

    def _rows(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Return the corpus' position and the columns of every document, in order; a bucket at a time."""
        rows = (row for table in self._corpora.tables(columns) for row in table.to_pylist())
        return zip(self._corpora.owners.tolist(), rows, strict=True)


def _met(items: Items, name: str, test: Test, documents: int) -> np.ndarray:
    """Return the documents of which a chunk has a value that meets a test, bool of shape (documents,)."""
    values, which = items.values[name]
    meets = np.fromiter(map(test, values), bool, len(values))
    mask = np.zeros(documents, bool)
    mask[items.documents[meets[which]]] = True
    return mask


def _metadata(row: dict[str, Any]) -> Any:
    return json.loads(row["metadata"])


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, dict):
        for key, nested in value.items():
            if name or key != "mog":
                yield from _flat(nested, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item, name)
    elif name:
        yield name, value


def parse(where: Where) -> dict[str, Test]:
    """Return the test of each name's values.

    Raises:
        ConfigError: it is no filter; the message says where.
    """
    if not isinstance(where, Mapping):
        raise ConfigError(f"where: expected names with conditions, got {type(where).__name__}")
    if len(where) > _MOST_CONDITIONS:
        raise ConfigError(f"where: expected at most {_MOST_CONDITIONS} names, got {len(where)}")
    for name in where:
        if not isinstance(name, str) or not name.isprintable():
            raise ConfigError(f"where: expected printable names, got {ascii(name)[:60]}")
    return {name: _test(f"where.{name}", condition) for name, condition in where.items()}


def _test(place: str, condition: Any) -> Test:
    if isinstance(condition, list | tuple):
        return _one_of(place, condition)
    if not isinstance(condition, Mapping):
        return _one_of(place, [condition])
    if not condition:
        raise ConfigError(f"{place}: expected an operator ({', '.join(OPERATORS)}), got none")
    tests = [_operator(f"{place}.{name}", name, value) for name, value in condition.items()]
    return lambda value: all(test(value) for test in tests)


def _operator(place: str, name: Any, value: Any) -> Test:
    if name == "in":
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{place}: expected a list of values, got {_shown(value)}")
        return _one_of(place, value)
    if name == "glob" or name in _TEXTS:
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise ConfigError(f"{place}: expected a text of at most {_LONGEST} characters, got {_shown(value)}")
        if name == "glob":
            return _glob(value)
        meets = _TEXTS[name]
        return lambda item: isinstance(item, str) and meets(item, value)
    if name in _ORDERED:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ConfigError(f"{place}: expected a number or a text, got {_shown(value)}")
        compare, kind = _ORDERED[name], str if isinstance(value, str) else (int, float)
        return lambda item: isinstance(item, kind) and not isinstance(item, bool) and compare(item, value)
    raise ConfigError(f"{place}: expected one of {', '.join(OPERATORS)}, got {name!r}")


def _one_of(place: str, values: Sequence[Any]) -> Test:
    if len(values) > _MOST_VALUES:
        raise ConfigError(f"{place}: expected at most {_MOST_VALUES} values, got {len(values)}")
    for value in values:
        if value is not None and not isinstance(value, str | int | float | bool):
            raise ConfigError(f"{place}: expected texts, numbers, true, false or null, got {_shown(value)}")
    # In Python 1 == True, in JSON they are different.
    wanted = {(isinstance(value, bool), value) for value in values}
    return lambda item: (isinstance(item, bool), item) in wanted


def _glob(pattern: str) -> Test:
    """Return a pattern of paths: `*`, `?` and `[…]` stay within a folder, `**` stands for any folders."""
    # A folder at a time: in one regular expression, many stars could take forever.
    parts = [None if part == "**" else re.compile(fnmatch.translate(part)) for part in pattern.split("/")]

    def closed(states: set[int]) -> set[int]:
        """Return states with what follows a `**` that matches no folder."""
        for state in range(len(parts)):
            if state in states and parts[state] is None:
                states.add(state + 1)
        return states

    def test(item: Scalar) -> bool:
        if not isinstance(item, str):
            return False
        states = closed({0})
        for folder in item.split("/"):
            after = set()
            for state in states - {len(parts)}:
                part = parts[state]
                if part is None:
                    after.add(state)
                elif part.match(folder):
                    after.add(state + 1)
            states = closed(after)
        return len(parts) in states

    return test


def _shown(value: Any) -> str:
    return ascii(value) if len(ascii(value)) <= 60 else type(value).__name__
