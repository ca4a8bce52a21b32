"""What an open project notes of its use, if the settings say so: see `mog_assets.plugins.feedback.use`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock, Thread

from mog_assets.config import Settings
from mog_assets.plugins.feedback import use
from mog_assets.plugins.feedback.settings import USE, UseSettings
from mog_assets.registry import OBSERVERS
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.serve.results import Span

_log = logging.getLogger(__name__)
_DAY_SECONDS = 86_400.0
# For deleting what is too old when a project is opened.
_PATIENCE = 1.0


def quote_of(document: str, span: Span, text: str | None) -> use.UsedQuote:
    """Return what stands at a place of a document.

    Args:
        document: The text of the document.
        span: The place.
        text: The passage as its reader saw it; None if that is not known.

    Raises:
        ConfigError: there is no such place, no text, or other text than the reader saw.
    """
    name = f"{span.corpus}/{span.document}"
    for which, value in (("start", span.start), ("end", span.end)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"passage: expected an integer as {which}, got {value!r}")
    if not 0 <= span.start < span.end <= len(document):
        raise ConfigError(
            f"passage: expected a place within the {len(document)} characters of {name}, got {span.start} to {span.end}"
        )
    quote = use.quoted(span.corpus, span.document, document, span.start, span.end)
    if not quote.text.strip():
        raise ConfigError(f"passage: expected text in {name}, got white space from {span.start} to {span.end}")
    # The text of several places is joined by other characters.
    if text is not None and quote.text not in text:
        raise ConfigError(f"passage: {name} has changed since the question was asked: ask again")
    return quote


class Noting:
    """The log of use of an open project. Old entries are deleted when it is opened, and every day while it is.

    Args:
        settings: Whether anything is noted, and for how long.
        home: The home folder.
        keep: Whether the project stays open for long.
        every: Seconds between looks for old entries.

    Attributes:
        failures: Number of questions that could not be noted.
    """

    def __init__(self, settings: UseSettings, home: Path, keep: bool, every: float = _DAY_SECONDS) -> None:
        self.settings, self.path, self.listens = settings, use.log_path(home), settings.log
        self.failures = 0
        self._warned, self._counting = False, Lock()
        self._entry = use.UseEntry(self.path)
        self._ended, self._thread = Event(), None
        self._expire()
        # Entries also grow old after the log was switched off.
        if keep and (settings.log or self.path.exists()):
            self._thread = Thread(target=self._follow, args=(every,), name="mog-use", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop deleting old entries, and close the file."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self._entry.close()

    def answered(self, questions: Sequence[str], method: str, version: str) -> None:
        """Note questions that have been answered. What goes wrong is counted, and told once: no search fails by it."""
        try:
            self._entry.note(questions, method, version)
        except MogError as error:
            with self._counting:
                self.failures += len(questions)
                first, self._warned = not self._warned, True
            if first:
                _log.warning("questions are answered and not noted: %s", error)

    def used(self, question: str, quotes: Sequence[use.UsedQuote], method: str, version: str) -> str:
        """Note that a passage answered a question; see `use.note_used`.

        Raises:
            ConfigError: nothing is noted.
            MogError: the log cannot be written.
        """
        self.check()
        return use.note_used(self.path, question, quotes, method, version)

    def withdraw(self, identity: str) -> bool:
        """See `use.withdraw`; also if nothing is noted any more."""
        return use.withdraw(self.path, identity)

    def check(self) -> None:
        """Check that use is noted.

        Raises:
            ConfigError: it is not.
        """
        if not self.settings.log:
            raise ConfigError(
                "use.log: expected true, got false: nothing is noted of what is asked and used; to switch it on, write "
                "`use: {log: true}` into mog.yaml and open the project, or start `mog serve`, again"
            )

    def _expire(self) -> None:
        try:
            use.expire(self.path, self.settings.days, seconds=_PATIENCE)
        except MogError as error:
            _log.warning("entries older than %d days are not deleted: %s", self.settings.days, error)

    def _follow(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            self._expire()


def _opened(settings: Settings, keep: bool) -> Noting:
    return Noting(USE.of(settings), settings.home, keep)


OBSERVERS.register("use", _opened)
