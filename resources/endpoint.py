"""Chats with an OpenAI-compatible endpoint by the package `openai`, which repeats what fails for a temporary reason.

Its HTTP client calls `_begin` before each request and `_check` after each response: what these raise ends the call.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx2
import openai

from mog_assets.resources import tracing
from mog_assets.resources.chat import ChatMessage, Completion, LlmSettings, NoResponse, RequestFailed
from mog_assets.resources.chat_parameters import SYSTEM, ParameterRefused, refused
from mog_assets.resources.errors import MogError

# In any language that models write, a token has at most this many characters, except runs of white space.
_CHARS_PER_TOKEN, _SLACK_CHARS = 16, 1000
# The longest answer that is read if `max_tokens` is not set: more than any model writes.
_MOST_TOKENS = 2**18
# A character may be two JSON escapes of six bytes; an endpoint may add other fields to the answer.
_BYTES_PER_CHAR, _SLACK = 12, 2**20
_NO_CREDIT = ("insufficient_quota", "billing_hard_limit_reached")
# Types of parts of a message that are its text.
_TEXTS = ("text", "output_text")
# The parameters that ask for a stream; the second has the tokens that were used come with the last piece.
_STREAMED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

# Called with each piece of an answer when it arrives.
Heard = Callable[[str], object]


class _Limited(httpx2.SyncByteStream):
    """A body that has to end by a time: the client's own timeout is of single reads."""

    def __init__(self, stream: Any, until: float, most: int, too_long: Callable[[], Exception]) -> None:
        self._stream, self._until, self._most, self._too_long = stream, until, most, too_long

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            self._most -= len(part)
            if self._most < 0:
                raise self._too_long()
            if time.monotonic() > self._until:
                raise httpx2.ReadTimeout("no complete answer in time")
            yield part

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class _Unheard(NoResponse):
    """An answer in pieces broke off before its first piece was heard."""


class Endpoint:
    """An endpoint, for one model, with the key in `OPENAI_API_KEY`.

    Args:
        settings: Model, limits, prices.
        address: URL for people.
        url: URL.
        before: Called before each request, with whether it repeats one; what it raises ends the call.
        charge: Called with input and output tokens of each answer, also of those that cannot be used.

    Raises:
        MogError: there is no key, or one that cannot be sent.
    """

    def __init__(
        self,
        settings: LlmSettings,
        address: str,
        url: str,
        before: Callable[[bool], object],
        charge: Callable[[int, int], object],
    ) -> None:
        self._settings, self._address, self._before, self._charge = settings, address, before, charge
        # False once the endpoint did not take what asks for an answer in pieces.
        self._streams = True
        key = os.environ.get("OPENAI_API_KEY", "")
        if not key:
            raise MogError(
                "llm: expected OPENAI_API_KEY (and OPENAI_BASE_URL for another endpoint) in the environment, got none "
                f"for {address}"
            )
        # HTTP libraries quote a header that they cannot send.
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise MogError("llm: expected OPENAI_API_KEY to be ASCII without white space, got another text")
        http = openai.DefaultHttpxClient(event_hooks={"request": [self._begin], "response": [self._check]})
        self._client = openai.OpenAI(
            api_key=key, base_url=url, timeout=settings.timeout, max_retries=settings.attempts - 1, http_client=http
        )

    def ask(
        self, messages: Sequence[ChatMessage], parameters: Mapping[str, Any], heard: Heard | None = None
    ) -> Completion:
        """Send a chat, again if it fails for a temporary reason.

        Raises:
            ParameterRefused: the model does not accept one of the parameters.
            RequestFailed: the model refused, gave no usable answer, or broke off after its first piece was heard.
            MogError: no request can succeed.
        """
        if heard is not None and self._streams:
            try:
                return self._ask(messages, {**parameters, **_STREAMED}, heard)
            except ParameterRefused as refusal:
                if refusal.name not in _STREAMED:
                    raise
                self._streams = False
            except _Unheard:
                # The package repeats only what fails before an answer begins.
                if self._settings.attempts == 1:
                    raise
        return self._ask(messages, parameters, heard)

    def _ask(self, messages: Sequence[ChatMessage], parameters: Mapping[str, Any], heard: Heard | None) -> Completion:
        model, pieces, fault = self._settings.model, list[str](), RequestFailed()
        theirs: Exception | None = None
        unanswered: type[NoResponse] = NoResponse

        def hear(piece: str) -> None:
            nonlocal theirs
            pieces.append(piece)
            try:
                heard and heard(piece)
            except Exception as error:
                theirs = error
                raise

        try:
            response = self._client.chat.completions.with_raw_response.create(
                model=model, messages=list(messages), extra_headers=tracing.headers(), **parameters
            )
            http = response.http_response
            if _is_stream(http):
                unanswered = _Unheard
                body = _joined(response.parse(), hear)
                self._charge(*_usage(body))
            else:
                body = http.json()
            seconds = time.monotonic() - http.request.extensions["begun"]
            completion = self._completion(body, seconds)
            if heard is not None and not pieces:
                hear(completion.text)
            return completion
        except UnicodeEncodeError as error:
            if error is theirs:
                raise
            fault = RequestFailed(f"llm: expected messages that UTF-8 can encode, got one with {error.reason}")
        # The last three: what was sent is no JSON, or has another form.
        except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
            if error is theirs:
                raise
            why = self._line(str(error.__cause__ or error) or type(error).__name__)
            if pieces:
                fault = NoResponse(f"llm: the answer of {model} broke off after it had begun ({why})")
            else:
                attempts = f"attempts: {self._settings.attempts}; last error: {why}"
                fault = unanswered(f"llm: {model} at {self._address} did not answer ({attempts})")
        # Raised outside the handlers: the library's error may show headers, and logs print the cause of an error.
        raise fault

    def _completion(self, body: dict[str, Any], seconds: float) -> Completion:
        """Return what a usable answer says; raise `RequestFailed` for another."""
        settings, choice, message = self._settings, body["choices"][0], body["choices"][0]["message"]
        text, reason = _text_of(message.get("content")), choice.get("finish_reason") or ""
        if not text.strip():
            # No tools were offered; some models call one all the same, and say there what they were asked for.
            calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict) and "function" in call]
            text = "\n".join(json.dumps(call["function"]) for call in calls)
        if message.get("refusal") or reason == "content_filter":
            why = message.get("refusal") or "the endpoint's content filter blocked the answer"
            raise RequestFailed(f"llm: {settings.model} refused: {self._line(why)}")
        if not text.strip():
            remedy = "raise llm.max_tokens" if reason == "length" else "choose another model"
            raise RequestFailed(f"llm: {settings.model} answered without text (finish reason {reason!r}): {remedy}")
        if len(text) > self._most_chars:
            raise self._too_long()
        read, written = _usage(body)
        cost = (read * settings.price_in + written * settings.price_out) / 1_000_000
        return Completion(text, body.get("model") or settings.model, read, written, reason, cost, seconds)

    def _begin(self, request: httpx2.Request) -> None:
        self._before(request.headers.get("x-stainless-retry-count", "0") != "0")
        request.extensions["begun"] = time.monotonic()

    def _check(self, response: httpx2.Response) -> None:
        """Read a response: what repeating would not mend is raised; a 200 without an answer is repeated as a 502."""
        if response.is_redirect:
            return
        until = response.request.extensions["begun"] + self._settings.timeout
        response.stream = _Limited(response.stream, until, _BYTES_PER_CHAR * self._most_chars + _SLACK, self._too_long)
        # A redirected request has its body still to be read; one that became a GET has none.
        sent = json.loads(response.request.read() or b'{"messages": []}')
        if response.status_code == 200 and sent.get("stream") and _is_stream(response):
            return
        response.read()
        body = _object(response.text)
        if response.status_code == 200:
            self._charge(*_usage(body))
            if not _has_message(body):
                response.status_code = 502
        elif fault := self._fault(response, body, sent):
            raise fault

    def _fault(self, response: httpx2.Response, body: dict[str, Any], sent: dict[str, Any]) -> Exception | None:
        status, endpoint, model = response.status_code, self._address, self._settings.model
        error = body["error"] if isinstance(body.get("error"), dict) else body
        param, code, rejection = error.get("param"), error.get("code"), f"{status}: {self._line(response.text)}"
        names = [name for name in sent if name not in ("model", "messages")]
        names += [SYSTEM] if any(message["role"] == "system" for message in sent["messages"]) else []
        if name := refused(names, status, param, code, response.text):
            return ParameterRefused(name, rejection)
        if status == 402 or (status == 429 and code in _NO_CREDIT):
            return MogError(f"llm: {endpoint} has no credit for OPENAI_API_KEY: add some, then run again ({rejection})")
        if status >= 500 or status in (408, 409, 429):
            return None
        if status == 401:
            # The endpoint's message may quote the key.
            return MogError(f"llm: {endpoint} does not accept the key (401): set OPENAI_API_KEY to one of its keys")
        if status == 403:
            return MogError(
                f"llm: {endpoint} does not let OPENAI_API_KEY use {model!r}: choose another llm.model, or a key "
                f"that may use it ({rejection})"
            )
        if status == 404:
            return MogError(
                f"llm: {endpoint} has no model {model!r}, or is no chat-completions endpoint: check llm.model and "
                f"OPENAI_BASE_URL (it usually ends in /v1) ({rejection})"
            )
        return RequestFailed(f"llm: {model} at {endpoint} rejected the request ({rejection})")

    @property
    def _most_chars(self) -> int:
        return _CHARS_PER_TOKEN * (self._settings.max_tokens or _MOST_TOKENS) + _SLACK_CHARS

    def _too_long(self) -> RequestFailed:
        tokens = self._settings.max_tokens or _MOST_TOKENS
        return RequestFailed(
            f"llm: expected an answer of at most {self._most_chars} characters ({tokens} tokens), got a longer one "
            f"from {self._settings.model}: choose an endpoint that honours max_tokens"
        )

    def _line(self, text: str) -> str:
        """Return an endpoint's text as one line of a message, without the key."""
        return " ".join(text.replace(self._client.api_key, "…").split())[:300]


def _is_stream(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").startswith("text/event-stream")


def _joined(stream: Any, hear: Heard) -> dict[str, Any]:
    """Return a streamed answer as it would have come in one piece; raise ValueError if its end is missing."""
    body: dict[str, Any] = {}
    texts: list[str] = []
    refusal, reason = "", None
    for chunk in stream:
        # Attributes, because a dictionary of each takes as long as all else.
        body["model"] = chunk.model or body.get("model")
        if chunk.usage:
            body["usage"] = chunk.usage.to_dict(warnings=False)
        for choice in (chunk.choices or ())[:1]:
            reason = choice.finish_reason or reason
            if delta := choice.delta:
                refusal += delta.refusal or ""
                if text := _text_of(delta.content):
                    texts.append(text)
                    hear(text)
    if reason is None:
        raise ValueError("the answer was cut off")
    return {**body, "choices": [{"message": {"content": "".join(texts), "refusal": refusal}, "finish_reason": reason}]}


def _text_of(content: Any) -> str:
    """Return the text of a message, which may come as a list of parts: of these, what is not reasoning."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    return "".join(
        part["text"]
        for part in parts
        if isinstance(part, dict) and part.get("type", "text") in _TEXTS and isinstance(part.get("text"), str)
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _has_message(body: dict[str, Any]) -> bool:
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _usage(body: dict[str, Any]) -> tuple[int, int]:
    """Return input and output tokens; 0 if the endpoint does not report them."""
    usage = body["usage"] if isinstance(body.get("usage"), dict) else {}
    read, written = (usage.get(f"{name}_tokens") for name in ("prompt", "completion"))
    return read if isinstance(read, int) else 0, written if isinstance(written, int) else 0
