"""The command that lets other programs use a built project: `serve`."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mog_assets import config, registry
from mog_assets.cli.common import config_option, echo, guarded_server, settings_of
from mog_assets.resources import tracing
from mog_assets.serve import access

if TYPE_CHECKING:
    from mog_assets.config import Settings
    from mog_assets.serve.limits import ServerOptions

# Seconds between looks for what a first run makes.
_WAIT_SECONDS = 1.0
# Options that are numbers: their names, the fields of `ServerOptions`, types, defaults and help.
_NUMBERS = (
    ("--concurrency", "concurrency", click.IntRange(1, 256), 4, "Searches at a time."),
    ("--waiting", "waiting", click.IntRange(0), 32, "Most searches that wait."),
    ("--timeout", "timeout", click.FloatRange(0.1), 30.0, "Seconds for a search."),
    ("--ask-timeout", "ask_timeout", click.FloatRange(0.1), 120.0, "Seconds for an answer."),
    ("--drain", "drain", click.FloatRange(1), 20.0, "Seconds to finish when stopped."),
    ("--body-timeout", "body_seconds", click.FloatRange(0.1), 10.0, "Seconds for a request to arrive."),
    ("--max-body", "body_bytes", click.IntRange(1000), 1 << 20, "Bytes of a request."),
    ("--max-question", "question_chars", click.IntRange(1), 4000, "Characters of a question."),
    ("--max-budget", "budget", click.IntRange(1), 100_000, "Largest budget."),
    ("--max-k", "k", click.IntRange(1), 200, "Largest k."),
    ("--connections", "connections", click.IntRange(16, 100_000), 1000, "Requests at a time."),
)


def _numbers(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that are numbers."""
    for name, field, kind, default, text in reversed(_NUMBERS):
        command = click.option(name, field, type=kind, default=default, show_default=True, help=text)(command)
    return command


@click.command()
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
@_numbers
@click.option(
    "--connections-per-address",
    type=click.IntRange(1, 100_000),
    show_default="a quarter",
    help="Requests of one address at a time; behind a proxy, as many as --connections.",
)
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="URL", help="Let pages of this web site call; several times."
)
@click.option("--public-url", default="", metavar="URL", help="Where browsers reach the server, for links.")
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Text by default.")
@click.option("--log-questions", is_flag=True, help="Write the texts of questions into the log.")
@guarded_server
def serve(path: str | None, host: str, port: int, log_format: str, **given: Any) -> None:
    """Serve passages, answers and a search page over HTTP (stop it with Ctrl-C).

    With MOG_API_KEY set, callers must send it as `Authorization: Bearer KEY`. Without it, only this machine is served.
    """
    from mog_assets.serve import http, server
    from mog_assets.serve.problems import log

    settings = settings_of(path)
    options = _options(host, settings, given)
    # Before the artefacts are opened: a port in use is told at once.
    opened = server.listen(host, port)
    import mog_assets
    from mog_assets.serve import descriptors

    wait_for_words(settings)
    project = mog_assets.open(settings)
    if project.authorizer is not None:
        # What is wrong with it is told now, and not to callers.
        project.authorizer.check()
    server.log_to_stderr(log_format)
    fit = descriptors.reserve(options.connections)
    if fit < options.connections:
        log.warning("--connections: %d in place of %d: more need more open files", fit, options.connections)
    options = replace(options, connections=fit, connections_per_address=min(fit, options.connections_per_address))
    application = http.app(project, options)

    url = server.url_of(opened)

    def ready() -> None:
        if project.trouble:
            log.warning("%s", project.trouble)
        if project.authorizer is not None:
            log.warning("each caller sends a key or token of its own")
        elif not options.key:
            log.warning("%s is not set: only this machine is served, without a key", access.KEY_VARIABLE)
        echo(url)
        sys.stdout.flush()

    starting = (registry.SERVER_FLAGS[name].start for name in options.flags)
    with ExitStack() as beside:
        for start in filter(None, starting):
            beside.callback(start(settings, config.file(path)).close)
        server.serve(application, application.state.serving, opened, ready)
    end(project)


def wait_for_words(settings: Settings) -> None:
    """Wait until a first run has made what is needed to search words, and say so."""
    from mog_assets.build.demand import demand, places_of
    from mog_assets.resources.store import Store, label

    store, needed, announced = Store(settings.home), places_of(list(settings.corpora), demand(settings).words), False
    while missing := [label(*place) for place in needed if store.find(*place) is None]:
        if not announced:
            announced = True
            echo(
                f"mog: waiting for the first run, which `mog run` or `mog ui` starts: {missing[0]} is not made yet",
                err=True,
            )
        time.sleep(_WAIT_SECONDS)


def _options(host: str, settings: Settings, given: dict[str, Any]) -> ServerOptions:
    """Return the options of the server."""
    from mog_assets.serve.hooks import opened_authorizer
    from mog_assets.serve.limits import ServerOptions

    key = access.key_for(host, opened_authorizer(settings) is not None)
    given["connections_per_address"] = given["connections_per_address"] or math.ceil(given["connections"] / 4)
    flags = frozenset(name for name in registry.SERVER_FLAGS if given.pop(name.replace("-", "_")))
    return ServerOptions(key=key, hosts=access.names_of(host, key), flags=flags, **given)


for name, flag in registry.SERVER_FLAGS.items():
    serve.params.append(click.Option([f"--{name}"], is_flag=True, help=flag.help))


def end(project: Any) -> None:
    """End the process with code 0, also if a thread still waits for a language model that nobody needs any more."""
    project.close()
    tracing.flush()
    for stream in (sys.stdout, sys.stderr):
        # What cannot be written any more (a full disk) is lost.
        with suppress(OSError):
            stream.flush()
    os._exit(0)


registry.COMMANDS.register("serve", serve)
