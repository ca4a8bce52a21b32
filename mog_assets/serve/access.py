"""Who may call a server of this project: any process of this machine, or whoever has the key."""

from __future__ import annotations

import ipaddress
import os

from mog_assets.resources.errors import ConfigError

KEY_VARIABLE = "MOG_API_KEY"
_KEY_CHARS = 16


def loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def key_for(host: str, own: bool = False) -> str:
    """Return the key that callers of a server at this address must send; empty if none is asked for.

    Raises:
        ConfigError: other machines would be served without a key, or the key is too short or cannot be sent.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if not key and not own and not loopback(host):
        raise ConfigError(
            f"--host: expected an address of this machine alone (127.0.0.1, ::1, localhost) because {KEY_VARIABLE} is "
            f"not set, got {host!r}: set {KEY_VARIABLE} to serve other machines"
        )
    if key and len(key) < _KEY_CHARS:
        raise ConfigError(f"{KEY_VARIABLE}: expected at least {_KEY_CHARS} characters, got {len(key)}")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(f"{KEY_VARIABLE}: expected letters, digits and signs of ASCII without blanks")
    return key


def names_of(host: str, key: str) -> tuple[str, ...]:
    """Return names that callers may use for a server at this address (header `Host`); empty if any."""
    return () if key else tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", host.lower())))
