"""The command `mog`."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from mog_assets.cli import (
    build,
    doctor,
    documents,
    experiment,
    import_,
    measure,
    permissions,
    project,
    prune,
    push,
    questions,
    search,
    serve,
    use,
)
from mog_assets.cli.common import FAILED, echo
from mog_assets.resources import extras
from mog_assets.resources.terminal import EscapedRecord, escaped


class Commands(click.Group):
    """The commands of `mog`. What a terminal would obey is escaped in their logs and in click's own messages."""

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
            echo(f"mog: {extras.said(error, f'`mog {context.invoked_subcommand}`')}", err=True)
            sys.exit(FAILED)


@click.group(cls=Commands)
@click.version_option(package_name="mog-assets")
def main() -> None:
    """Build, search and measure retrieval that chooses its own granularity."""


for command in (
    project.init,
    import_.import_,
    doctor.doctor,
    build.run,
    build.plan,
    documents.documents,
    push.push,
    search.retrieve,
    search.ask,
    permissions.permissions,
    questions.questions,
    measure.scores,
    measure.compare,
    measure.export,
    measure.score_mirage,
    experiment.experiment,
    experiment.results,
    build.verify,
    prune.prune,
    serve.serve,
    serve.mcp,
    use.use,
    build.ui,
):
    main.add_command(command)
