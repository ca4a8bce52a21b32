"""Errors for the user: each message says what failed and what to do."""

from mog_assets.resources.printable import escaped


class MogError(Exception):
    """Work failed for a reason that the user can act on; the message says what to do. It is escaped."""

    def __str__(self) -> str:
        return escaped(super().__str__())


class ConfigError(MogError):
    """`mog.yaml`, the environment or the command line has a value that is not allowed."""


class MissingArtefact(MogError):
    """A required artefact has not been materialised, or its manifest is not valid."""


class TooFewQuestions(MogError):
    """Error of what learns from questions and cannot: its artefact says so, and nothing else waits for it."""


class NotAllowed(MogError):
    """Nothing may be shown: nobody says who asks, or it cannot be told what they may see."""


class NotFound(MogError):
    """There is no such corpus or document."""
