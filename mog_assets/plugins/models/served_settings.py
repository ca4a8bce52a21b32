"""Endpoints of served models: their settings."""

from __future__ import annotations

from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from mog_assets import registry
from mog_assets.resources.settings import MOST_THREADS, Count, NamedSettings


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


class EmbeddingsSettings(ServedSettings):
    """An embeddings endpoint, which serves the model, of the form `openai` (TEI, vLLM, Ollama, llama.cpp) or another.

    The key is read from OPENAI_API_KEY, or the variable of that provider; a `url` of your own needs none; without a
    `url`, `openai` is at OPENAI_BASE_URL if that is set. A request has texts of about `batch_tokens` tokens, at most
    `batch_texts` of them; without that, as many as the form allows and the endpoint takes.
    """

    main: ClassVar[str] = "form"

    form: Annotated[str, AfterValidator(registry.ENCODER_FORMS.check)] = "openai"
    batch_tokens: Count = 20_000
    batch_texts: Count | None = None
