"""The command `mog mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from mog_assets.cli.common import config_option, guarded_server, principal_option, seen_by, settings_of
from mog_assets.cli.serve import end, wait_for_words
from mog_assets.registry import COMMANDS, SERVER_FLAGS


@click.command()
@config_option
@principal_option
@guarded_server
def mcp(path: str | None, principal: str | None, **flags: bool) -> None:
    """Serve the tools search, fetch and ask to an agent by MCP on standard input and output."""
    settings = settings_of(path)
    # What a library prints must not come between the messages.
    with _standard_output_aside():
        import mog_assets
        from mog_assets.plugins.agents.server import server
        from mog_assets.serve.limits import ServerOptions
        from mog_assets.serve.queues import Slots

        options = ServerOptions(flags=frozenset(name for name in SERVER_FLAGS if flags.get(name.replace("-", "_"))))
        wait_for_words(settings)
        project = mog_assets.open(settings)
        seen = seen_by(project, principal)
        search = Slots("search", options.concurrency, options.waiting, options.timeout)
        answers = Slots("answer", options.concurrency, options.waiting, options.ask_timeout)
        documents = Slots("document", options.concurrency, options.waiting, options.timeout)
        mcp_server = server(seen, options, search, answers, documents)
    mcp_server.run("stdio")
    end(project)


for name, flag in SERVER_FLAGS.items():
    if flag.for_agents:
        mcp.params.append(click.Option([f"--{name}"], is_flag=True, help=flag.for_agents))


@contextmanager
def _standard_output_aside() -> Iterator[None]:
    """Let standard output be standard error for a while."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(original, 1)
        os.close(original)


COMMANDS.register("mcp", mcp)
