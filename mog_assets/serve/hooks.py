"""What parts beside the core bring to a project and its server: who sees what, who is told, flags of `mog serve`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mog_assets.config import Settings
from mog_assets.registry import AUTHORIZERS, OBSERVERS
from mog_assets.resources.errors import ConfigError

if TYPE_CHECKING:
    from mog_assets.search.where import Fields
    from mog_assets.serve.reading import Sight

ALL = "*"
"""The principal that sees every document: in Python and on the command line only."""


@dataclass(frozen=True)
class Principal:
    """Somebody who asks.

    Attributes:
        name: Its name; `ALL` for who sees everything.
        names: What rules may call it: those who are called alike see the same.
    """

    name: str
    names: frozenset[str]


class Authorizer(Protocol):
    """Says who asks and what they see: `AUTHORIZERS.register(name, open)`.

    `open(settings)` gives one for a project, or None where these settings let everybody see all. Methods raise
    `NotAllowed` if it cannot be told.
    """

    def check(self) -> None:
        """Check that it can be told who may see what."""

    def principal(self, name: str, groups: Iterable[str] = ()) -> Principal:
        """Return the principal of a name, which is in some groups.

        Raises:
            ConfigError: nobody may be called so.
        """

    def bearer(self, token: str) -> Principal | None:
        """Return whom a key or a token belongs to; None if to nobody."""

    def sight(self, principal: Principal | None, fields: Fields) -> Sight:
        """Return what a principal, None if nobody was named, sees of documents that say something of themselves.

        It is asked for every question.
        """

    @property
    def pushes(self) -> bool:
        """Tell whether anybody may put documents into a corpus."""

    def may_push(self, principal: Principal | None, corpus: str) -> bool:
        """Return whether a principal may put documents into a corpus."""


def opened_authorizer(settings: Settings) -> Authorizer | None:
    """Open the one that the settings ask for."""
    opened = {name: authorizer for name, open in AUTHORIZERS.items() if (authorizer := open(settings)) is not None}
    if len(opened) > 1:
        raise ConfigError(f"expected one that says who may see what, got {' and '.join(opened)}: leave out the others")
    return next(iter(opened.values()), None)


class Observer(Protocol):
    """Is told of questions: `OBSERVERS.register(name, open)`, where `open(settings, keep)` gives one for a project.

    `keep` says whether the project stays open for many questions.

    Attributes:
        listens: Whether it is told of questions.
    """

    listens: bool

    def answered(self, questions: Sequence[str], method: str, version: str) -> None:
        """Take note of questions; nothing may be raised, and nobody waits long.

        Args:
            questions: In words; follow-ups as questions that stand alone.
            method: Canonical name of the method that ranked, or of the way of answering.
            version: Of the artefacts that were searched.
        """

    def close(self) -> None:
        """End with the project."""


def opened_observers(settings: Settings, keep: bool) -> dict[str, Observer]:
    """Open all that are registered, by name."""
    return {name: open(settings, keep) for name, open in OBSERVERS.items()}


class Closing(Protocol):
    """Goes on beside the server."""

    def close(self) -> None:
        """End with it."""


@dataclass(frozen=True)
class ServerFlag:
    """A flag of `mog serve`: if `--shelf` is given, `shelf` is in `ServerOptions.flags`.

    Attributes:
        help: What it does.
        for_agents: What it does for the tools of agents (the plugin `agents`); empty if those do not have it.
        start: Called with the settings and their file, if the flag is given, before `mog serve` answers.
    """

    help: str
    for_agents: str = ""
    start: Callable[[Settings, Path], Closing] | None = None
