"""Shared by the commands: the option --config, one-line error messages, tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from mog_assets import config
from resources.errors import ConfigError, MogError

FAILED, BAD_USAGE = 1, 2


def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Print a `MogError` as one line on standard error and exit with its code."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MogError as error:
            click.echo(f"mog: {error}", err=True)
            sys.exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED)

    return guarded


def settings_of(path: str | None) -> config.Settings:
    """The settings of a configuration file; processes started from here read the same file."""
    if path:
        os.environ[config.CONFIG_VARIABLE] = os.path.abspath(path)
    return config.load()


def check_measured(settings: config.Settings, what: str) -> None:
    """Check that the project has test questions.

    Raises:
        ConfigError: no question set has a test split.
    """
    if not settings.tests:
        raise ConfigError(
            f"{what}: this project has no question set with a test split, so nothing is measured: name one under "
            "question_sets.NAME.test, then run `mog run`"
        )


config_option = click.option("--config", "path", help="Configuration file instead of mog.yaml (or MOG_CONFIG).")


def print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
