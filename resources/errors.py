"""Errors that are meant to be read by the person who can mend them."""


class MogError(Exception):
    """Work failed for a reason that the user can act on; the message says what to do."""


class ConfigError(MogError):
    """`mog.yaml`, the environment or the command line asks for something that cannot be."""


class MissingArtefact(MogError):
    """An artefact is needed that has not been materialised, or whose manifest is not valid."""
