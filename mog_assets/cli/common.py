"""Shared by the commands: the option --config, one-line error messages, tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from mog_assets import config
from mog_assets.resources import tracing
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.printable import escaped

if TYPE_CHECKING:
    from mog_assets.serve.project import Project

FAILED, BAD_USAGE = 1, 2


def echo(text: object = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print a text, escaped, in a style of `click.style`. Commands print with nothing else, but tables."""
    click.secho(escaped(str(text)), err=err, nl=nl, **style)  # noqa: TID251


def guarded(function: Callable[..., Any], is_span: bool = True) -> Callable[..., Any]:
    """Print a `MogError` as one line on standard error and exit with its code; the command is a span."""
    name = function.__name__.strip("_")

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            tracing.start()
            with tracing.within(os.environ), tracing.span(f"mog {name}") if is_span else nullcontext():
                return function(*args, **kwargs)
        except MogError as error:
            echo(f"mog: {error}", err=True)
            sys.exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED)
        finally:
            tracing.flush()

    return guarded


# Servers answer until they are stopped: what they answer has a span each.
guarded_server = partial(guarded, is_span=False)


class QuestionCommand(click.Command):
    """A command whose one argument is a question, which may begin with dashes like an option that does not exist."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(context, args.copy())
        except click.NoSuchOption as error:
            context.ignore_unknown_options = True
            with suppress(click.UsageError):
                if not error.possibilities:
                    return super().parse_args(context, args)
            hint = "If this is the question, put `--` before it."
            raise click.UsageError(f"{error.format_message()} {hint}", context) from error


def settings_of(path: str | None) -> config.Settings:
    """Return the settings of a configuration file; processes started from here read the same file."""
    if path:
        os.environ[config.CONFIG_VARIABLE] = os.path.abspath(path)
    return config.load()


def check_builds_here(command: str) -> None:
    """Check that this system can limit and end processes, as reading hostile documents and Dagster's runs need it.

    Raises:
        MogError: it cannot: Windows.
    """
    if not hasattr(os, "killpg"):
        raise MogError(
            f"`mog {command}`: expected Linux or macOS, got a system without process groups: run it in WSL or a "
            "container (docs/deploy.md); what it built answers questions here"
        )


UNMEASURED = (
    "this project has no question set with a test split, so nothing is measured: name one under "
    "question_sets.NAME.test, then run `mog run`"
)


def check_measured(settings: config.Settings, what: str) -> None:
    """Check that the project has test questions."""
    if not settings.tests:
        raise ConfigError(f"{what}: {UNMEASURED}")


CONFIG_HELP = "Configuration file instead of mog.yaml (or MOG_CONFIG)."
config_option = click.option("--config", "path", help=CONFIG_HELP)
principal_option = click.option(
    "--as",
    "principal",
    metavar="NAME",
    help="Who asks, where not everybody sees all; `*` sees all documents.",
)


def seen_by(project: Project, principal: str | None) -> Project:
    """Return a project as somebody sees it.

    Raises:
        ConfigError: it says who may see what, and nobody was named; or the other way round.
    """
    if principal is not None:
        return project.as_principal(principal)
    if project.authorizer is not None:
        raise ConfigError("--as: expected who asks, because not everybody sees all; `*` sees all documents")
    return project


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table."""
    from rich.table import Table

    from mog_assets.resources.console import EscapedConsole

    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    EscapedConsole().print(table)
