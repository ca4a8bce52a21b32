"""The command `mog`."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from mog_assets import registry
from mog_assets.cli.common import BAD_USAGE, FAILED, echo
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError
from mog_assets.resources.printable import EscapedRecord, escaped


class Commands(click.Group):
    """The registered commands. What a terminal would obey is escaped in their logs and in click's own messages."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(registry.COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command by its name."""
        return registry.COMMANDS.get(name)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run; a plugin that cannot be imported is one line, as other errors are."""
        try:
            return super().main(*args, **options)
        except MogError as error:
            echo(f"mog: {error}", err=True)
            sys.exit(BAD_USAGE)

    def invoke(self, context: click.Context) -> Any:
        """Call the command that the arguments name."""
        logging.setLogRecordFactory(EscapedRecord)
        try:
            return super().invoke(context)
        except click.UsageError as error:
            raise click.UsageError(escaped(error.format_message()), error.ctx) from error
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] == "mog_assets":
                raise
            echo(f"mog: {extras.missing_package(error, f'`mog {context.invoked_subcommand}`')}", err=True)
            sys.exit(FAILED)


@click.group(cls=Commands)
@click.version_option(package_name="mog-assets")
def main() -> None:
    """Build, search and measure retrieval that chooses its own granularity."""
