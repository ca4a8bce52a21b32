"""Tokens of an identity provider (JSON Web Tokens, RFC 7519): who sent them, and which groups that is in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable
from mog_assets.resources.settings import SettingsModel
from mog_assets.serve.access import loopback

# Seconds that clocks may differ by, that the provider's keys are kept, and that it may take to give them.
_LEEWAY, _LIFESPAN, _PATIENCE = 30, 300, 10
_MOST_BYTES = 1_000_000
# Signatures that the provider alone can make: with a secret that both know, whoever checks could make them, too.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_Text = Annotated[str, Field(min_length=1, max_length=2000)]


def _keys(value: str) -> str:
    url = urlsplit(value)
    if url.scheme in ("", "https") or (url.scheme == "http" and loopback(url.hostname or "")):
        return value
    raise ValueError("an address that begins with https://, or a file")


class JwtSettings(SettingsModel):
    """Whose tokens are taken.

    Attributes:
        issuer: The provider, as its tokens say it (`iss`).
        audience: Whom its tokens are for (`aud`).
        keys: Its public keys: the address of a JSON Web Key Set (RFC 7517), or a file.
        name: The claim that names the principal.
        groups: The claim that lists its groups.
        algorithms: Signatures that are taken.
    """

    issuer: _Text
    audience: _Text
    keys: Annotated[_Text, AfterValidator(_keys)]
    name: _Text = "sub"
    groups: _Text = "groups"
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")


class TokenChecker:
    """Checks tokens.

    Args:
        settings: Whose are taken.
        base: The folder that the file of keys is relative to.

    Raises:
        ConfigError: the package is not installed, or the file of keys cannot be used.
    """

    def __init__(self, settings: JwtSettings, base: Path) -> None:
        with extras.needed("jwt"):
            import jwt
        self._jwt, self._settings = jwt, settings
        if urlsplit(settings.keys).scheme:
            self._client: Any = jwt.PyJWKClient(settings.keys, lifespan=_LIFESPAN, timeout=_PATIENCE)
            return
        path = base / settings.keys
        try:
            with path.open(encoding="utf-8") as stream:
                self._client = jwt.PyJWKSet.from_json(stream.read(_MOST_BYTES))
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise ConfigError(f"jwt.keys: expected a JSON Web Key Set in {printable(path)}, got {error}") from error

    def check(self) -> None:
        """Check that there are keys.

        Raises:
            ConfigError: the keys of the provider cannot be fetched.
        """
        if hasattr(self._client, "get_signing_keys"):
            try:
                self._client.get_signing_keys()
            except self._jwt.PyJWTError as error:
                raise self._unfetched(error) from error

    def _unfetched(self, error: Exception) -> ConfigError:
        return ConfigError(f"jwt.keys: expected keys from {self._settings.keys}, got {error}")

    def claims(self, token: str) -> tuple[Any, Any] | None:
        """Return the name and the groups that a token says; None if it is not valid.

        Raises:
            ConfigError: the keys of the provider cannot be fetched.
        """
        jwt, settings = self._jwt, self._settings
        try:
            content = jwt.decode(
                token,
                self._key(token),
                algorithms=list(settings.algorithms),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=_LEEWAY,
                options={"require": ["exp", "iss", "aud", settings.name]},
            )
        except jwt.exceptions.PyJWKClientConnectionError as error:
            raise self._unfetched(error) from error
        except (jwt.PyJWTError, ValueError):
            return None
        return content[settings.name], content.get(settings.groups, [])

    def _key(self, token: str) -> Any:
        if hasattr(self._client, "get_signing_key_from_jwt"):
            return self._client.get_signing_key_from_jwt(token)
        wanted = self._jwt.get_unverified_header(token).get("kid")
        keys = [key for key in self._client.keys if wanted is None or key.key_id == wanted]
        if len(keys) != 1:
            raise self._jwt.InvalidTokenError("no such key")
        return keys[0]
