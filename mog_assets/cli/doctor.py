"""`mog doctor`: what is installed and reachable, and how to fix what is missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import click

from mog_assets import config, registry
from mog_assets.cli import machine_findings as machine
from mog_assets.cli import project_findings as project
from mog_assets.cli.common import FAILED, config_option, echo, guarded
from mog_assets.cli.findings import OK, PROBLEM, WARNING, Finding
from mog_assets.resources import extras
from mog_assets.resources.errors import MogError


@click.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print item, state, finding and remedy of each check as JSON.")
@guarded
def doctor(path: str | None, as_json: bool) -> None:
    """Check the installation and the configuration; exit with code 1 if there is a problem."""
    findings = []
    for finding in examine(path):
        findings.append(finding)
        if not as_json:
            colour = {OK: "green", WARNING: "yellow", PROBLEM: "red"}[finding.state]
            echo(f"{finding.state:8}", nl=False, fg=colour)
            echo(str(finding)[8:])
    if as_json:
        echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    if any(finding.state == PROBLEM for finding in findings):
        sys.exit(FAILED)


def examine(path: str | None = None) -> Iterator[Finding]:
    """Yield all findings; `path` is the value of `--config`."""
    yield from _tried("packages", machine.packages)
    settings, finding = project.configuration(path)
    yield finding
    yield from _tried("torch", machine.torch_build, settings)
    yield from _tried("encoder", machine.encoder, settings)
    if settings is not None:
        for item, check in registry.FINDINGS.items():
            yield from _tried(item, check, settings)
    yield from _tried("home", project.home, settings, config.file(path).parent)
    for name, store in registry.VECTOR_STORES.items():
        if settings is None or store.used(settings):
            yield from _tried(name, store.findings)
    yield from _tried("model", machine.model, settings)
    yield from _tried("dagster", machine.dagster, settings)
    yield from _tried("open files", machine.open_files)


registry.FINDINGS.register("engine", machine.engine)
registry.FINDINGS.register("documents", project.documents)
registry.FINDINGS.register("sources", project.sources)
registry.FINDINGS.register("languages", project.languages)


def _tried(item: str, check: Callable[..., Iterator[Finding]], *of: Any) -> Iterator[Finding]:
    try:
        yield from check(*of)
    except ModuleNotFoundError as error:
        yield Finding(item, WARNING, extras.said(error, "not checked, which"))
    # An unexpected error of one check is a finding too, and must not hide the other findings.
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        yield Finding(item, PROBLEM, said if isinstance(error, MogError) else f"{type(error).__name__}: {said}")
