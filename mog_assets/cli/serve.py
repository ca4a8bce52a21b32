"""Commands that let other programs use a built project: `serve`, `mcp`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mog_assets.cli.common import config_option, echo, guarded, settings_of
from resources.errors import ConfigError, MogError

if TYPE_CHECKING:
    from mog_assets.serving.limits import Options

KEY_VARIABLE = "MOG_API_KEY"
_KEY_CHARS = 16


@click.command()
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: any free port.")
@click.option("--concurrency", type=click.IntRange(1, 256), default=4, show_default=True, help="Searches at a time.")
@click.option("--waiting", type=click.IntRange(0), default=32, show_default=True, help="Most searches that wait.")
@click.option("--timeout", type=click.FloatRange(0.1), default=30.0, show_default=True, help="Seconds for a search.")
@click.option(
    "--ask-timeout", type=click.FloatRange(0.1), default=120.0, show_default=True, help="Seconds for an answer."
)
@click.option(
    "--drain", type=click.FloatRange(1), default=20.0, show_default=True, help="Seconds to finish when stopped."
)
@click.option(
    "--body-timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Seconds for a request to arrive.",
)
@click.option("--max-body", type=click.IntRange(1000), default=1 << 20, show_default=True, help="Bytes of a request.")
@click.option(
    "--max-question", type=click.IntRange(1), default=4000, show_default=True, help="Characters of a question."
)
@click.option("--max-budget", type=click.IntRange(1), default=100_000, show_default=True, help="Largest budget.")
@click.option("--max-k", type=click.IntRange(1), default=200, show_default=True, help="Largest k.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="Let pages of this web site call; several times.")
@click.option("--public-url", default="", metavar="URL", help="Where browsers reach the server, for links.")
@click.option("--log-questions", is_flag=True, help="Write the texts of questions into the log.")
@guarded
def serve(path: str | None, host: str, port: int, **given: Any) -> None:
    """Serve passages, answers and a search page over HTTP (stop it with Ctrl-C).

    With MOG_API_KEY set, callers must send it as `Authorization: Bearer KEY`. Without it, only this machine is served.
    """
    with _extra("serve"):
        from mog_assets.serving import http, server
    options = _options(host, given, server.loopback(host))
    settings = settings_of(path)
    # Before the artefacts are opened: a port in use is told at once.
    opened = server.listen(host, port)
    import mog_assets

    project = mog_assets.open(settings)
    server.log_to_stderr()
    made = http.app(project, options)

    url = server.url_of(opened)

    def ready() -> None:
        if not options.key:
            echo(f"{KEY_VARIABLE} is not set: only this machine is served, and nobody is asked for a key", err=True)
        echo(url)
        sys.stdout.flush()

    server.serve(made, options, opened, ready)
    _end(project)


def _options(host: str, given: dict[str, Any], local: bool) -> Options:
    """The options of the server.

    Raises:
        ConfigError: other machines would be served without a key, or the key is short.
    """
    from mog_assets.serving.limits import Options

    key = os.environ.get(KEY_VARIABLE, "")
    if not key and not local:
        raise ConfigError(
            f"--host: expected an address of this machine alone (127.0.0.1, ::1, localhost) because {KEY_VARIABLE} is "
            f"not set, got {host!r}: set {KEY_VARIABLE} to serve other machines"
        )
    if key and len(key) < _KEY_CHARS:
        raise ConfigError(f"{KEY_VARIABLE}: expected at least {_KEY_CHARS} characters, got {len(key)}")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{KEY_VARIABLE}: expected letters, digits and signs of ASCII without blanks")
    return Options(
        key=key,
        hosts=() if key else tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", host.lower()))),
        origins=given["allow_origin"],
        concurrency=given["concurrency"],
        waiting=given["waiting"],
        timeout=given["timeout"],
        ask_timeout=given["ask_timeout"],
        drain=given["drain"],
        body_bytes=given["max_body"],
        body_seconds=given["body_timeout"],
        question_chars=given["max_question"],
        budget=given["max_budget"],
        k=given["max_k"],
        log_questions=given["log_questions"],
        public_url=given["public_url"],
    )


@click.command()
@config_option
@guarded
def mcp(path: str | None) -> None:
    """Serve the tools search, fetch and ask to an agent by MCP on standard input and output."""
    settings = settings_of(path)
    # What a library prints must not come between the messages.
    with _standard_output_aside():
        with _extra("mcp"):
            from mog_assets.serving import mcp_server
        import mog_assets
        from mog_assets.serving.limits import Options, Work

        options = Options()
        project = mog_assets.open(settings)
        search = Work("search", options.concurrency, options.waiting, options.timeout)
        answers = Work("answer", options.concurrency, options.waiting, options.ask_timeout)
        made = mcp_server.server(project, options, search, answers)
    mcp_server.serve_stdio(made)
    _end(project)


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Name the extra that a missing package belongs to.

    Raises:
        MogError: a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("mog_assets", "resources"):
            raise
        raise MogError(f"`mog {name}` needs {error.name}: pip install 'mog-assets[{name}]'") from error


@contextmanager
def _standard_output_aside() -> Iterator[None]:
    """Let standard output be standard error for a while."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _end(project: Any) -> None:
    """End the process with code 0, also if a thread still waits for a language model that nobody needs any more."""
    project.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
