"""Runs that a server starts by itself when documents were pushed, so that they are searched soon."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

from mog_assets.plugins.pushing import pushed
from mog_assets.resources.errors import MogError

_log = logging.getLogger("mog.serve")
# Seconds between looks; those who push many documents one after another have this long to push the next one.
_EVERY = 1.0
# Until a run that failed is tried again, at first and at most.
_PAUSES = (5.0, 600.0)
# Lines of a failed run that are told.
_ERROR_LINES = 5
# Questions go before runs.
_NICE = 10


class Live:
    """Starts `mog run` when something was pushed; the first time at once, for what was pushed before.

    Args:
        config: The configuration file.
        files: Where documents that are pushed are kept.
        every: Seconds between looks.
    """

    def __init__(self, config: Path, files: Sequence[Path], every: float = _EVERY) -> None:
        self._command = [sys.executable, "-m", "mog_assets.cli", "run", "--config", str(config)]
        self._files, self._every = files, every
        self._ended = Event()
        self._process: subprocess.Popen[str] | None = None
        self._thread = Thread(target=self._follow, name="mog-live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the run that goes on, if there is one: the next one goes on where it was."""
        self._ended.set()
        if self._process is not None:
            self._process.terminate()
        self._thread.join()

    def _follow(self) -> None:
        built: list[str] | None = None
        before, pause = None, _PAUSES[0]
        while not self._ended.wait(self._every):
            try:
                now = [pushed.version(file) for file in self._files]
            except MogError as error:
                _log.error("%s", error)
                continue
            if now == built or now != before:
                before = now
                continue
            if self._run():
                built, pause = now, _PAUSES[0]
            elif self._ended.wait(pause):
                return
            else:
                pause = min(2 * pause, _PAUSES[1])

    def _run(self) -> bool:
        self._process = process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        if self._ended.is_set():
            process.terminate()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        _, errors = process.communicate()
        self._process = None
        if process.returncode and not self._ended.is_set():
            _log.error("a run failed, and is tried again: %s", " / ".join(errors.strip().splitlines()[-_ERROR_LINES:]))
        return process.returncode == 0
