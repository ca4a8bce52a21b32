"""Who may see which documents: the rules of a file, which are filters, and what they let a principal see.

A document is seen by those whom a rule allows, and nobody else can tell that it is there: a search is among the
documents that may be seen, as if there were no others. The file is looked at for every question, so what is taken away
is gone at the next one. If it cannot be read, nobody sees anything.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from mog_assets.config.loading import checked, read_yaml
from mog_assets.plugins.permissions.tokens import JwtSettings, TokenChecker
from mog_assets.resources.errors import ConfigError, NotAllowed
from mog_assets.resources.settings import SettingsModel
from mog_assets.search.where import FIELDS, Fields, parse
from mog_assets.serve.hooks import ALL, Principal
from mog_assets.serve.reading import EVERYTHING, Sight

# A group that every principal is in.
EVERYONE = "everyone"
# Begins the name of a principal in a rule: who chooses a name for itself must not be able to choose that of a group.
_USER = "user:"
_KEY = re.compile("sha256:[0-9a-f]{64}")
_LONGEST, _MOST_RULES, _MOST_NAMES = 500, 1000, 10_000
# Principals whose documents are remembered.
_SIGHTS = 64
# A file may be written twice within the time that its date resolves.
_YOUNG_SECONDS = 2.0


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable() and value != ALL


def _group(value: str) -> str:
    if not _is_name(value) or value.startswith(_USER):
        raise ValueError(f"the name of a group: printable, at most {_LONGEST} characters, not beginning with {_USER}")
    return value


def _name(value: str) -> str:
    if not _is_name(value):
        raise ValueError(f"the name of a principal: printable, at most {_LONGEST} characters, not {ALL}")
    return value


def _allowed(value: str) -> str:
    if not _is_name(value.removeprefix(_USER)):
        raise ValueError(f"the name of a group, or {_USER}NAME for a principal")
    return value


def _key(value: str) -> str:
    if not _KEY.fullmatch(value):
        raise ValueError("the hash of a key, as `mog permissions --new-key` prints it, and not the key")
    return value


def _filter(value: dict[str, Any]) -> dict[str, Any]:
    try:
        names = parse(value)
    except ConfigError as error:
        raise ValueError(f"a filter of documents ({error})") from error
    if of_chunks := sorted(set(FIELDS) & set(names)):
        raise ValueError(f"a filter by what documents say of themselves, which {of_chunks[0]!r} is not")
    return value


class PrincipalSettings(SettingsModel):
    """Somebody who asks: the groups that it is in, and the hash of its key."""

    groups: Annotated[list[Annotated[str, AfterValidator(_group)]], Field(max_length=_MOST_NAMES)] = []
    # None: it has none, and is named by `as_principal` or a token.
    key: Annotated[str, AfterValidator(_key)] | None = None


class PermissionRule(SettingsModel):
    """Whom a rule allows to see which documents: those that meet the filter `where`, by default all.

    `allow` lists groups, and principals as `user:NAME`; `allow_by` is the key of a document's metadata that lists them.
    """

    allow: Annotated[list[Annotated[str, AfterValidator(_allowed)]], Field(max_length=_MOST_NAMES)] = []
    allow_by: Annotated[str, Field(min_length=1, max_length=_LONGEST)] | None = None
    where: Annotated[dict[str, Any], AfterValidator(_filter)] = {}

    @model_validator(mode="after")
    def _of_one_kind(self) -> PermissionRule:
        if bool(self.allow) == bool(self.allow_by):
            raise ValueError("either `allow` with names or `allow_by`")
        return self


class PushRule(SettingsModel):
    """Whom a rule allows to put documents into which corpora, and to delete them there."""

    allow: Annotated[list[Annotated[str, AfterValidator(_allowed)]], Field(min_length=1, max_length=_MOST_NAMES)]
    corpora: Annotated[list[str], Field(min_length=1, max_length=_MOST_NAMES)]


class PermissionSettings(SettingsModel):
    """The content of the file: see docs/permissions.md."""

    principals: dict[Annotated[str, AfterValidator(_name)], PrincipalSettings] = {}
    rules: Annotated[list[PermissionRule], Field(max_length=_MOST_RULES)] = []
    push: Annotated[list[PushRule], Field(max_length=_MOST_RULES)] = []
    jwt: JwtSettings | None = None


@dataclass(frozen=True)
class PermissionRules:
    """The rules of a moment.

    Attributes:
        version: Changes with them.
        settings: Their content.
        tokens: What checks tokens of an identity provider; None if none are taken.
    """

    version: str
    settings: PermissionSettings
    tokens: TokenChecker | None

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Keys of metadata that say who else may see a document."""
        return frozenset(rule.allow_by for rule in self.settings.rules if rule.allow_by is not None)

    def may_push(self, principal: Principal, corpus: str) -> bool:
        """Return whether somebody may put documents into a corpus."""
        rules = (rule for rule in self.settings.push if corpus in rule.corpora)
        return any(not principal.names.isdisjoint(rule.allow) for rule in rules)

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """The principal of every hash of a key."""
        return {one.key: name for name, one in self.settings.principals.items() if one.key is not None}


@dataclass
class Seen:
    """Documents that principals may see, of those searched now."""

    _sights: dict[frozenset[str], Sight] = field(default_factory=dict)
    _parts: dict[int, Any] = field(default_factory=dict)
    _version: str = ""
    _alone: Lock = field(default_factory=Lock)

    def by(self, rules: PermissionRules, principal: Principal, fields: Fields) -> Sight:
        """Return what a principal sees by some rules, of documents that say something of themselves."""
        names = principal.names
        with self._alone:
            if self._version != rules.version:
                self._sights, self._parts, self._version = {}, {}, rules.version
            if names not in self._sights:
                sight = self._sight(rules, names, fields)
                if len(self._sights) >= _SIGHTS:
                    self._sights.pop(next(iter(self._sights)))
                self._sights[names] = sight
            return self._sights[names]

    def _sight(self, rules: PermissionRules, names: Iterable[str], fields: Fields) -> Sight:
        seen = np.zeros_like(fields.meeting({}))

        def matching(number: int) -> np.ndarray:
            return self._cached((number, "where"), lambda: fields.meeting(rules.settings.rules[number].where))

        for number, rule in enumerate(rules.settings.rules):
            if rule.allow_by is None:
                if set(rule.allow).isdisjoint(names):
                    continue
                seen |= matching(number)
                continue
            allowing = self._cached(rule.allow_by, lambda key=rule.allow_by: fields.documents_by_value(key))
            named = np.zeros_like(seen)
            for name in names:
                named[allowing.get(name, [])] = True
            seen |= named & matching(number)
        known = tuple(name for name in fields.names(seen) if name not in FIELDS and name not in rules.hidden)
        return Sight(None if seen.all() else seen, known, rules.hidden)

    def _cached(self, key: Any, make: Any) -> Any:
        if key not in self._parts:
            self._parts[key] = make()
        return self._parts[key]


class Permissions:
    """The rules of a file, as they are now.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, ...] = ()
        self._rules: PermissionRules | None = None
        # As long as the documents are open.
        self._seen: WeakKeyDictionary[Fields, Seen] = WeakKeyDictionary()
        self._alone = Lock()

    @property
    def rules(self) -> PermissionRules:
        """The rules.

        Raises:
            NotAllowed: the file cannot be read, or says something else.
        """
        with self._alone:
            try:
                status = self.path.stat()
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                young = time.time() - status.st_mtime < _YOUNG_SECONDS
                if self._rules is None or young or stamp != self._stamp:
                    self._rules = self._read(self._rules)
                    self._stamp = stamp
                return self._rules
            except (ConfigError, OSError) as error:
                self._rules = None
                raise NotAllowed(f"permissions: expected rules, so nothing is shown, got: {error}") from error

    def check(self) -> None:
        """Check that the rules can be read.

        Raises:
            NotAllowed: they cannot.
        """
        _ = self.rules

    def _read(self, before: PermissionRules | None) -> PermissionRules:
        version = sha256(self.path.read_bytes()).hexdigest()
        if before is not None and before.version == version:
            return before
        settings = checked(PermissionSettings, read_yaml(self.path), self.path)
        keys = [one.key for one in settings.principals.values() if one.key is not None]
        if len(keys) > len(set(keys)):
            raise ConfigError(f"configuration {self.path}: principals: expected a key of each one's own, got one twice")
        tokens = None if settings.jwt is None else TokenChecker(settings.jwt, self.path.parent)
        return PermissionRules(version, settings, tokens)

    def principal(self, name: str, groups: Iterable[str] = ()) -> Principal:
        """Return the principal of a name, in the groups that the file says and in those given.

        Raises:
            ConfigError: nobody may be called so.
        """
        if name == ALL:
            return _principal(ALL, frozenset())
        try:
            of_file = self.rules.settings.principals.get(_name(name), PrincipalSettings()).groups
            return _principal(name, frozenset([*of_file, *map(_group, groups)]))
        except ValueError as error:
            raise ConfigError(f"principal: expected {error}, got {name!r} in {sorted(map(str, groups))!r}") from error

    def bearer(self, token: str) -> Principal | None:
        """Return whom a key or a token belongs to; None if to nobody.

        Raises:
            NotAllowed: it cannot be told.
        """
        rules = self.rules
        name = rules.keys.get(hashed(token))
        if name is not None:
            return self.principal(name)
        if rules.tokens is None:
            return None
        try:
            claims = rules.tokens.claims(token)
        except ConfigError as error:
            raise NotAllowed(f"permissions: {error}") from error
        if claims is None or not _is_name(claims[0]):
            return None
        groups = [claims[1]] if isinstance(claims[1], str) else claims[1] if isinstance(claims[1], list) else []
        # What cannot be a group is none.
        return self.principal(claims[0], [g for g in groups if _is_name(g) and not g.startswith(_USER)])

    def sight(self, principal: Principal | None, fields: Fields) -> Sight:
        """Return what a principal sees of documents that say something of themselves.

        Raises:
            NotAllowed: nobody was named, or it cannot be told.
        """
        principal = _somebody(principal)
        if principal.name == ALL:
            return EVERYTHING
        with self._alone:
            seen = self._seen.setdefault(fields, Seen())
        return seen.by(self.rules, principal, fields)

    @property
    def pushes(self) -> bool:
        """Return whether anybody may put documents into a corpus.

        Raises:
            NotAllowed: it cannot be told.
        """
        return bool(self.rules.settings.push)

    def may_push(self, principal: Principal | None, corpus: str) -> bool:
        """Return whether a principal may put documents into a corpus.

        Raises:
            NotAllowed: as `sight`.
        """
        principal = _somebody(principal)
        return principal.name == ALL or self.rules.may_push(principal, corpus)


def _principal(name: str, groups: frozenset[str]) -> Principal:
    return Principal(name, groups | {EVERYONE, _USER + name})


def _somebody(principal: Principal | None) -> Principal:
    if principal is None:
        raise NotAllowed(
            "permissions: expected somebody who asks, got nobody: `project.as_principal(NAME)` in Python, `--as NAME` "
            f"on the command line; {ALL!r} sees all documents"
        )
    return principal


def hashed(key: str) -> str:
    """Return what the file says of a key."""
    return f"sha256:{sha256(key.encode()).hexdigest()}"


def new_key() -> str:
    """Return a key that nobody guesses: 256 random bits."""
    return f"mog-{secrets.token_urlsafe(32)}"
