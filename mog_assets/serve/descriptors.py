"""How many connections the limit of open files leaves room for, and raising that limit."""

from __future__ import annotations

import os
from importlib.util import find_spec

from mog_assets.resources.errors import MogError

# Most connections, unless an option says otherwise.
CONNECTIONS = 1000
# Connections beyond those that are answered: a health check gets one of them when all others are taken.
SPARE = 32
# Connections that asyncio accepts at a time before the server sees the first of them.
BATCH = 64
# The fewest connections worth starting for.
_FEWEST = 16
# Two batches, as one is opened before another is dropped; 128 files of requests, logs.
_OTHERS = SPARE + 2 * BATCH + 128
# Files of an open project before it is known which one: each bucket of vectors is one.
_PROJECT = 32
# Windows has no limit of open files that would matter here, and no module that tells one.
LIMITED = find_spec("resource") is not None


def needed(connections: int, project: int = _PROJECT) -> int:
    """Return the descriptors for so many connections, and a project that has so many open."""
    # Newer artefacts are opened before the old ones are closed.
    return connections + _OTHERS + 2 * project


def fitting(connections: int, project: int = _PROJECT) -> int:
    """Return how many of these connections the hard limit of open files leaves room for; 0 or less if none."""
    if not LIMITED:
        return connections
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return connections if hard == resource.RLIM_INFINITY else min(connections, hard - needed(0, project))


def reserve(connections: int) -> int:
    """Raise the soft limit of open files as far as so many connections need; returns how many fit.

    Call it once the project is open: its files are counted.

    Raises:
        MogError: the hard limit leaves room for next to none.
    """
    if not LIMITED:
        return connections
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        project = max(len(os.listdir("/dev/fd")), _PROJECT)
    except OSError:
        project = _PROJECT
    fit = fitting(connections, project)
    if fit < min(connections, _FEWEST):
        least = needed(_FEWEST, project)
        raise MogError(
            f"open files: expected a hard limit of at least {least:,}, got {hard:,}: raise it (`ulimit -Hn`)"
        )
    enough = needed(fit, project)
    if soft != resource.RLIM_INFINITY and soft < enough:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))
        except (ValueError, OSError) as error:
            # macOS allows fewer than its hard limit says.
            raise MogError(f"open files: expected a limit of at least {enough:,}, got {soft:,}: {error}") from error
    return fit
