"""Chats with language models: settings, messages, answers and errors, shared by all clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from mog_assets.resources.errors import MogError
from mog_assets.resources.settings import MOST_THREADS, Count, SettingsModel, absolute
from mog_assets.resources.tokens import TIKTOKEN

# YAML reads `on` and `off` as true and false.
_Switch = Annotated[
    Literal["auto", "on", "off"],
    BeforeValidator(lambda value: ("off", "on")[value] if isinstance(value, bool) else value),
]


def _tokenizer(name: str, info: ValidationInfo) -> str:
    return name if name.startswith(TIKTOKEN) else str(absolute(Path(name), info))


class LlmSettings(SettingsModel):
    """An OpenAI-compatible endpoint; base URL and key come from OPENAI_BASE_URL and OPENAI_API_KEY.

    `temperature` and `max_tokens` are not sent if null, or if the model has rejected them before. `timeout` applies to
    one attempt, in seconds. `price_in` and `price_out` are USD per million tokens,
    0 if not known. A run that has spent `budget_usd` sends no more requests. `structured` is about `response_format`,
    the JSON schema of an answer: `auto` sends it until the model rejects it; with `on`, that is an error; `off` only
    asks in words. `tokenizer` counts the tokens of a budget: the model's tokenizer.json or the folder that has it, or
    an encoding of tiktoken as `tiktoken:o200k_base`; if it is left out, tiktoken's of the model.
    """

    model: Annotated[str, Field(min_length=1)] = "gpt-4o-mini"
    temperature: float | None = Field(0.0, ge=0, le=100)
    max_tokens: Count | None = 1024
    structured: _Switch = "auto"
    timeout: float = Field(60.0, gt=0, le=86_400)
    concurrency: Annotated[int, Field(ge=1, le=MOST_THREADS)] = 8
    attempts: Count = 5
    budget_usd: float | None = Field(None, ge=0)
    price_in: float = Field(0.0, ge=0)
    price_out: float = Field(0.0, ge=0)
    tokenizer: Annotated[str, Field(min_length=1), AfterValidator(_tokenizer)] | None = None

    @model_validator(mode="after")
    def _priced(self) -> LlmSettings:
        if self.budget_usd is not None and not self.price_in + self.price_out:
            raise ValueError("price_in or price_out above 0 with budget_usd, otherwise the cost is not known")
        return self


class ChatMessage(TypedDict):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


def schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON schema of an object that has every key and no other."""
    required = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": dict(properties), **required}


@dataclass(frozen=True)
class AnswerForm:
    """The form of an answer: an object with every key of a JSON schema.

    Attributes:
        name: Of letters, digits, `_` and `-`.
        properties: JSON schema by key, in the order in which they are written.
    """

    name: str
    properties: Mapping[str, Any]

    @property
    def response_format(self) -> dict[str, Any]:
        """As a request parameter, in the subset of JSON Schema that strict structured output takes."""
        form = {"name": self.name, "strict": True, "schema": schema(self.properties)}
        return {"type": "json_schema", "json_schema": form}


@dataclass(frozen=True)
class Completion:
    """Answer of a model.

    Attributes:
        text: The answer, never empty.
        model: As the endpoint names it.
        tokens_in: Tokens of the chat; 0 if the endpoint does not report them.
        tokens_out: Tokens of the answer; 0 if the endpoint does not report them.
        finish_reason: Why it ended: `stop`, `length` (cut after `max_tokens`), ….
        cost: Cost in USD when the answer was given, at the prices of the settings.
        seconds: Duration of the successful call, without earlier attempts and waits.
        cached: Whether nothing was paid now: the answer was in the cache, or came from another request.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    finish_reason: str
    cost: float = 0.0
    seconds: float = 0.0
    cached: bool = False


class RequestFailed(MogError):
    """One request has no answer; others may have one."""


class NoResponse(RequestFailed):
    """One request got no usable response after all attempts; a later run may get one."""


class SpendCapReached(MogError):
    """A request was not sent because `llm.budget_usd` is spent."""
