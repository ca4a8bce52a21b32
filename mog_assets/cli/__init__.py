"""The command `mog`."""

from __future__ import annotations

import click

from mog_assets.cli import (
    build,
    doctor,
    documents,
    experiment,
    import_,
    measure,
    project,
    prune,
    questions,
    search,
    serve,
    use,
)


@click.group()
@click.version_option(package_name="mog-assets")
def main() -> None:
    """Build, search and measure retrieval that chooses its own granularity."""


for command in (
    project.init,
    import_.import_,
    doctor.doctor,
    build.run,
    documents.documents,
    search.retrieve,
    search.ask,
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
