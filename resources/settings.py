"""Common base of the settings of all resources."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

# Largest count that arrays, files and other programs store in 32 bits.
MOST = 2**31 - 1
MOST_THREADS = 1024
Count = Annotated[int, Field(gt=0, le=MOST)]


class SettingsModel(BaseModel):
    """Immutable settings that reject unknown keys, infinities and NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _or_its_main_value(schema: dict[str, Any], model: type[Any]) -> None:
    whole = dict(schema)
    schema.clear()
    schema["anyOf"] = [whole["properties"][model.main], whole]


class NamedSettings(SettingsModel):
    """Settings that may be the text of their key `main` alone: `chunker: fixed` is `chunker: {name: fixed}`."""

    model_config = ConfigDict(json_schema_extra=_or_its_main_value)
    main: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {cls.main: value} if isinstance(value, str) else value


def _address(value: str) -> str:
    try:
        url = urlsplit(value)
        valid = url.scheme in ("http", "https") and url.hostname and not url.username and not url.query
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("a URL such as http://localhost:8080/v1, without a key in it")
    return value.rstrip("/")


class ServedSettings(NamedSettings):
    """A served model: where, and within which limits.

    `timeout` is of one attempt, in seconds. `price` is USD per million tokens, or per thousand searches where those are
    what is paid for; a run that has spent `budget_usd` sends no more requests.
    """

    # None: that of the provider.
    url: Annotated[str, AfterValidator(_address)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 4
    timeout: float = Field(60.0, gt=0, le=86_400)
    attempts: Count = 5
    price: float = Field(0.0, ge=0)
    budget_usd: float | None = Field(None, ge=0)

    @model_validator(mode="after")
    def _priced(self) -> ServedSettings:
        if self.budget_usd is not None and not self.price:
            raise ValueError("price above 0 with budget_usd, otherwise the cost is not known")
        return self
