"""Language models: the protocol every one answers to, and a client of the chat-completions protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypedDict

from mog_assets.config import LlmSettings
from mog_assets.errors import MogError


class Message(TypedDict):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Completion:
    """What a model answered, what it cost in tokens, and why it ended (`stop`, `length`, …)."""

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    finish_reason: str


class LanguageModel(Protocol):
    """Anything that completes a chat."""

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a chat.

        Raises:
            MogError: the model cannot be reached, refused, or answered nothing that can be used.
        """


class OpenAIModel:
    """Any OpenAI-compatible endpoint; base URL and key are read from OPENAI_BASE_URL and OPENAI_API_KEY.

    Args:
        settings: Model, temperature, answer length in tokens, timeout in seconds.
        seed: Sent with every request; endpoints that honour it answer reproducibly.
    """

    def __init__(self, settings: LlmSettings, seed: int = 0) -> None:
        self.settings = settings
        self.seed = seed

    @cached_property
    def _client(self) -> Any:
        import openai

        try:
            return openai.OpenAI(timeout=self.settings.timeout)
        except openai.OpenAIError as error:
            raise MogError(
                "llm: expected OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint) in the environment, got none"
            ) from error

    def complete(self, messages: Sequence[Message]) -> Completion:
        """Answer a chat; see `LanguageModel.complete`."""
        import openai

        try:
            response = self._client.chat.completions.create(
                model=self.settings.model,
                messages=list(messages),
                temperature=self.settings.temperature,
                max_tokens=self.settings.max_tokens,
                seed=self.seed,
            )
        except openai.OpenAIError as error:
            raise MogError(
                f"llm: {self.settings.model} did not answer: {' '.join(str(error).split())[:300]}"
            ) from error
        choice = response.choices[0] if response.choices else None
        if choice is None or not choice.message.content:
            raise MogError(f"llm: {self.settings.model} answered without text; try again or choose another model")
        usage = response.usage
        return Completion(
            text=choice.message.content,
            model=response.model or self.settings.model,
            tokens_in=usage.prompt_tokens if usage else 0,
            tokens_out=usage.completion_tokens if usage else 0,
            finish_reason=choice.finish_reason or "",
        )
