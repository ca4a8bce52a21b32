"""One call of the chat-completions protocol: the request, the response, and the meaning of every error."""

from __future__ import annotations

import email.utils
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, NonNegativeInt, ValidationError

from mog_assets.resources import tracing
from mog_assets.resources.chat import Completion, LlmSettings, Message, NoResponse, RequestFailed
from mog_assets.resources.chat_parameters import SYSTEM, refused
from mog_assets.resources.chat_stream import MEDIA_TYPE, PARAMETERS, Streamed, text_of
from mog_assets.resources.errors import MogError

_DEFAULT_URL = "https://api.openai.com/v1"
# In any language that models write, a token has at most this many characters, except runs of white space.
_CHARS_PER_TOKEN = 16
_SLACK_CHARS = 1000
# The longest answer that is read if `max_tokens` is not set: more than any model writes.
_MOST_TOKENS = 2**18
# A character may be two JSON escapes of six bytes; an endpoint may add other fields to the answer.
_BYTES_PER_CHAR = 12
_ENVELOPE_BYTES = 2**20
PASSING = (408, 409, 425, 429)
NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")

# Called with each piece of an answer when it arrives.
Heard = Callable[[str], object]
# Called with input tokens, output tokens and USD, also for answers that cannot be used.
Charge = Callable[[int, int, float], None]


class Again(Exception):
    """A call failed for a temporary reason, or for what it asks for (`of_content`).

    `wait` is the number of seconds that the endpoint asked for, if any.
    """

    def __init__(self, reason: str, wait: float | None = None, of_content: bool = False) -> None:
        super().__init__(reason if wait is None else f"{reason}, and asked for a wait of {wait:.3g} s")
        self.wait, self.of_content = wait, of_content


class ParameterRefused(Exception):
    """The model does not accept the parameter `name`, as it `said`."""

    def __init__(self, name: str, said: str = "") -> None:
        super().__init__(name)
        self.name = name
        self.said = said


class Endpoint:
    """The endpoint at `OPENAI_BASE_URL`, for one model, with the key in `OPENAI_API_KEY`.

    Args:
        settings: Model, limits, prices.
    """

    def __init__(self, settings: LlmSettings) -> None:
        self.settings = settings
        # False once the endpoint did not take what asks for an answer in pieces.
        self._streams = True

    @cached_property
    def address(self) -> str:
        """URL of the endpoint without credentials: scheme, host, port and path.

        Raises:
            MogError: OPENAI_BASE_URL is not an http or https URL.
        """
        try:
            url = urlsplit(self._base_url)
            host, port = url.hostname, url.port
        except ValueError:
            url, host, port = urlsplit(""), None, None
        if url.scheme not in ("http", "https") or not host:
            raise MogError(
                "llm: expected OPENAI_BASE_URL to be a URL such as http://localhost:8000/v1, got another text"
            )
        return f"{url.scheme}://{host}{f':{port}' if port else ''}{url.path.rstrip('/')}"

    @cached_property
    def _base_url(self) -> str:
        return os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL

    @cached_property
    def _client(self) -> Any:
        import openai

        # The address comes first, so that an invalid URL is reported.
        endpoint, key = self.address, os.environ.get("OPENAI_API_KEY", "")
        if not key:
            raise MogError(
                "llm: expected OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint) in the environment, got none "
                f"for {endpoint}"
            )
        # HTTP libraries quote a header that they cannot send.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise MogError("llm: expected OPENAI_API_KEY to be ASCII without white space, got another text")
        return openai.OpenAI(api_key=key, base_url=self._base_url, max_retries=0, timeout=self.settings.timeout)

    def call(
        self,
        messages: Sequence[Message],
        parameters: Mapping[str, Any],
        deadline: float,
        charge: Charge,
        heard: Heard | None = None,
    ) -> Completion:
        """Send a chat once.

        Args:
            messages: The chat.
            parameters: Further request parameters, by name.
            deadline: Value of `time.monotonic` by which the answer must be complete.
            charge: Called with the cost of the answer, even if it cannot be used.
            heard: Called with each piece of the answer; with all of it, where the endpoint sends no pieces.

        Raises:
            Again: it failed for a temporary reason.
            ParameterRefused: the model does not accept one of the parameters.
            RequestFailed: the model refused, gave no usable answer, or broke off after its first piece was heard.
            MogError: no request can succeed.
        """
        pieces: list[str] = []

        def hear(piece: str) -> None:
            pieces.append(piece)
            heard and heard(piece)

        try:
            completion = self._completed(messages, parameters, deadline, charge, None if heard is None else hear)
        except Again as error:
            if not pieces:
                raise
            model = self.settings.model
            raise NoResponse(f"llm: the answer of {model} broke off after it had begun ({error})") from None
        if heard is not None and not pieces:
            heard(completion.text)
        return completion

    def _completed(
        self,
        messages: Sequence[Message],
        parameters: Mapping[str, Any],
        deadline: float,
        charge: Charge,
        heard: Heard | None,
    ) -> Completion:
        started = time.monotonic()
        body = self._answered(messages, parameters, deadline, heard)
        seconds = time.monotonic() - started
        try:
            answer = _Answer.model_validate_json(body)
        except ValidationError as error:
            detail = error.errors(include_input=False)[0]
            where = ".".join(map(str, detail["loc"]))
            raise Again(f"expected a chat completion as JSON, got another body ({where} {detail['msg']})") from None
        usage = answer.usage or _Usage()
        cost = (
            usage.prompt_tokens * self.settings.price_in + usage.completion_tokens * self.settings.price_out
        ) / 1_000_000
        charge(usage.prompt_tokens, usage.completion_tokens, cost)
        text, model, reason = self._text(answer)
        return Completion(
            text=text,
            model=model,
            tokens_in=usage.prompt_tokens,
            tokens_out=usage.completion_tokens,
            finish_reason=reason,
            cost=cost,
            seconds=seconds,
        )

    def _text(self, answer: _Answer) -> tuple[str, str, str]:
        """Text, model and finish reason of a usable answer."""
        if not answer.choices:
            said = f" but an error: {json.dumps(answer.error)}" if answer.error else ""
            raise Again(self.line(f"expected an answer, got no choices{said}"))
        choice = answer.choices[0]
        text, reason = text_of(choice.message.content), choice.finish_reason or ""
        if not text.strip():
            # No tools were offered; some models call one all the same, and say there what they were asked for.
            text = "\n".join(map(json.dumps, _functions(choice.message.tool_calls)))
        if choice.message.refusal:
            raise RequestFailed(f"llm: {self.settings.model} refused: {self.line(choice.message.refusal)}")
        if reason == "content_filter":
            raise RequestFailed(f"llm: {self.settings.model} refused: the endpoint's content filter blocked the answer")
        if not text.strip():
            remedy = "raise llm.max_tokens" if reason == "length" else "choose another model"
            raise RequestFailed(
                f"llm: {self.settings.model} answered without text (finish reason {reason!r}): {remedy}"
            )
        if len(text) > self._most_chars:
            raise self._too_long()
        return text, answer.model or self.settings.model, reason

    def _answered(
        self, messages: Sequence[Message], parameters: Mapping[str, Any], deadline: float, heard: Heard | None
    ) -> bytes:
        if heard is not None and self._streams:
            try:
                return self._post(messages, {**parameters, **PARAMETERS}, deadline, heard)
            except ParameterRefused as refusal:
                if refusal.name not in PARAMETERS:
                    raise
                self._streams = False
        return self._post(messages, parameters, deadline)

    def _post(
        self,
        messages: Sequence[Message],
        parameters: Mapping[str, Any],
        deadline: float,
        heard: Heard | None = None,
    ) -> bytes:
        import httpx2
        import openai

        fault: Exception
        body, streamed = bytearray(), Streamed()
        left = max(deadline - time.monotonic(), 0.001)
        try:
            with self._client.chat.completions.with_streaming_response.create(
                model=self.settings.model,
                messages=list(messages),
                timeout=left,
                extra_headers=tracing.headers(),
                **parameters,
            ) as response:
                pieces = heard if response.headers.get("content-type", "").startswith(MEDIA_TYPE) else None
                # The client's timeout covers single reads: an answer sent byte by byte could take for ever.
                for part in response.iter_bytes():
                    body += part
                    if pieces is not None and (text := _fed(streamed, part)):
                        pieces(text)
                    if len(body) > _BYTES_PER_CHAR * self._most_chars + _ENVELOPE_BYTES:
                        raise self._too_long()
                    if time.monotonic() > deadline:
                        raise Again(f"no complete answer within {left:.3g} s")
            if pieces is None:
                return bytes(body)
            if not streamed.ended:
                raise Again("the answer was cut off")
            return streamed.body
        except openai.APIStatusError as error:
            roles = [SYSTEM] if messages and messages[0]["role"] == "system" else []
            fault = self._status_fault(error, [*parameters, *roles])
        except (openai.APITimeoutError, httpx2.TimeoutException):
            fault = Again(f"no answer within {left:.3g} s")
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            cause = error.__cause__ or error
            fault = Again(f"the connection failed: {self.line(str(cause) or type(cause).__name__)}")
        except UnicodeEncodeError as error:
            fault = RequestFailed(f"llm: expected messages that UTF-8 can encode, got one with {error.reason}")
        # Raised outside the handlers: the library's error may show headers, and logs print the cause of an error.
        raise fault

    def _status_fault(self, error: Any, sent: Sequence[str]) -> Exception:
        status, whole = error.status_code, str(error)
        if not (isinstance(error.body, dict) and isinstance(error.body.get("message"), str)):
            # The library shows OpenAI's field `message`; other servers use other fields, or put an object there.
            whole += f" {json.dumps(error.body, ensure_ascii=False)}" if error.body else ""
        said, model, endpoint = self.line(whole), self.settings.model, self.address
        if name := refused(sent, status, error.param, error.code, whole):
            return ParameterRefused(name, said)
        if status == 402 or (status == 429 and error.code in NO_CREDIT):
            return MogError(f"llm: {endpoint} has no credit for OPENAI_API_KEY: add some, then run again ({said})")
        if status in PASSING or status >= 500:
            return Again(said, retry_after(error.response.headers.get("retry-after")))
        if status == 401:
            # The endpoint's message may quote the key.
            return MogError(f"llm: {endpoint} does not accept the key (401): set OPENAI_API_KEY to one of its keys")
        if status == 403:
            return MogError(
                f"llm: {endpoint} does not let OPENAI_API_KEY use {model!r}: choose another llm.model, or a key "
                f"that may use it ({said})"
            )
        if status == 404:
            return MogError(
                f"llm: {endpoint} has no model {model!r}, or is no chat-completions endpoint: check llm.model and "
                f"OPENAI_BASE_URL (it usually ends in /v1) ({said})"
            )
        return RequestFailed(f"llm: {model} at {endpoint} rejected the request ({said})")

    @property
    def _most_chars(self) -> int:
        return _CHARS_PER_TOKEN * (self.settings.max_tokens or _MOST_TOKENS) + _SLACK_CHARS

    def _too_long(self) -> RequestFailed:
        return RequestFailed(
            f"llm: expected an answer of at most {self._most_chars} characters "
            f"({self.settings.max_tokens or _MOST_TOKENS} tokens), "
            f"got a longer one from {self.settings.model}: choose an endpoint that honours max_tokens"
        )

    def line(self, text: str) -> str:
        """An endpoint's text as one line of a message, without the key."""
        key = os.environ.get("OPENAI_API_KEY")
        return " ".join((text.replace(key, "…") if key else text).split())[:300]


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks to wait, given as seconds or as a date (RFC 9110, section 10.2.3).

    None if the header is missing or not valid.
    """
    try:
        seconds = float(header or "nan")
    except ValueError:
        date = email.utils.parsedate_tz(header)
        try:
            seconds = email.utils.mktime_tz(date) - time.time() if date else math.nan
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _functions(calls: Any) -> list[Any]:
    """Name and arguments of each called function, as the endpoint gives them."""
    return (
        [call["function"] for call in calls if isinstance(call, dict) and "function" in call]
        if isinstance(calls, list)
        else []
    )


class _Said(BaseModel):
    content: Any = None
    refusal: str | None = None
    tool_calls: Any = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: NonNegativeInt = 0
    completion_tokens: NonNegativeInt = 0


class _Answer(BaseModel):
    """The fields read from a chat completion; some endpoints send `error` instead of `choices`, with status 200."""

    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Any = None


def _fed(streamed: Streamed, part: bytes) -> str:
    try:
        return streamed.feed(part)
    except ValueError as error:
        raise Again(f"expected an answer in pieces, got another body ({error!r:.100})") from None
