"""The commands of the core, registered."""

from __future__ import annotations

from mog_assets import registry
from mog_assets.cli import build, documents, init, measure, questions, search, serve

for command in (
    init.init,
    build.run,
    documents.documents,
    search.retrieve,
    search.ask,
    questions.questions,
    measure.scores,
    build.verify,
    serve.serve,
    build.ui,
):
    assert command.name is not None
    registry.COMMANDS.register(command.name, command)
