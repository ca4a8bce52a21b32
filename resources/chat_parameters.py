"""Which parameters a model accepts: learned once from its errors, and stored for later runs.

OpenAI's reasoning models, for example, accept `max_completion_tokens` instead of `max_tokens`, and no temperature.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from mog_assets.resources.chat import ChatMessage
from mog_assets.resources.files import atomic

FILE = "llm-parameters.json"
# The name to try next for a rejected parameter.
_OTHER_NAME = {"max_tokens": "max_completion_tokens"}
_CODES = ("unsupported_parameter", "unknown_parameter", "unrecognized_parameter")
_REFUSAL = re.compile(
    r"unsupported parameter|not supported (?:with|by|in|for) this model|(?:does|do) not support"
    r"|un(?:known|recognized|expected) (?:request |keyword )?(?:parameter|argument|field)"
    r"|extra (?:inputs|fields) (?:are )?not permitted",
    re.IGNORECASE,
)
# Where only the value is rejected, leave the parameter out if its absence means the same to every model.
_SAID_OF_VALUE = re.compile(r"unsupported value|only the default", re.IGNORECASE)
_LEFT_OUT_FOR_A_VALUE = ("temperature", "seed")
# Sent with requests that have a form, with a value of their own. An endpoint that complains about any part of it is
# asked in words: there is one way to send it, and the form is in the prompt as well.
FORMAT = "response_format"
_SAID_OF_FORMAT = re.compile(
    r"response_format|json.?schema|grammar|guided|structured.?output|required for format|invalid format", re.IGNORECASE
)
# No parameter, but learned like one: models without this role get its text before that of the user.
SYSTEM = "the system role"
_SAID_OF_SYSTEM = re.compile(
    r"system (?:role|message|prompt|instruction)|developer instruction|roles? must alternate|only .{0,60}\broles?\b"
    r"|\brole\b.{0,40}(?:system|not supported|unsupported|invalid|unknown|not allowed|should be)"
    r"|(?:unsupported|invalid|unknown|unexpected) (?:message )?role",
    re.IGNORECASE,
)


class ParameterRefused(Exception):
    """The model does not accept the parameter `name`, as its `message` tells."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(name)
        self.name, self.message = name, message


def refused(sent: Collection[str], status: int, param: str | None, code: str | None, text: str) -> str | None:
    """Return sent parameter that an error says the model does not accept; None if the error is about something else.

    Args:
        sent: Names of the parameters; `SYSTEM` if the chat has such a message.
        status: HTTP status of the response.
        param: The parameter that the error names in its own field, if any.
        code: Error code, if any.
        text: The message and the rest of the body.
    """
    if status not in (400, 422, 500):
        return None
    # "Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead": the rejected one comes first.
    places = {name: match.start() for name in sent if (match := re.search(rf"(?<!\w){name}(?!\w)", text))}
    name = param if param in sent else min(places, key=lambda name: places[name], default=None)
    if name is not None and status != 500:
        if code in _CODES or _REFUSAL.search(text):
            return name
        if (code == "unsupported_value" or _SAID_OF_VALUE.search(text)) and name in _LEFT_OUT_FOR_A_VALUE:
            return name
    if FORMAT in sent and code != "context_length_exceeded" and _SAID_OF_FORMAT.search(param or text):
        return FORMAT
    return SYSTEM if SYSTEM in sent and _SAID_OF_SYSTEM.search(text) else None


class Parameters:
    """The request parameters, besides the messages, for one model of one endpoint.

    Args:
        wanted: Values by name; None is not sent. `FORMAT` is among them, without a value, if it may be sent.
        model: Endpoint and name of the model.
        folder: Where rejected parameters are stored; None keeps them in this object only.

    Attributes:
        learned: Rejected parameters, with the name that the model accepts instead; None if left out.
    """

    def __init__(self, wanted: Mapping[str, Any], model: str, folder: Path | None = None) -> None:
        self.wanted, self._model, self._folder = wanted, model, folder
        self._lock = threading.Lock()
        self.learned: Mapping[str, str | None] = self._stored().get(model, {})

    @property
    def sent(self) -> dict[str, Any]:
        """Values by the name that the model accepts."""
        named = {self.learned.get(name, name): value for name, value in self.wanted.items() if value is not None}
        return {name: value for name, value in named.items() if name is not None}

    def with_format(self, value: Mapping[str, Any] | None) -> dict[str, Any]:
        """Do as `sent`, with the format of an answer if there is one and the model accepts it."""
        takes = value is not None and FORMAT in self.wanted and FORMAT not in self.learned
        return {**self.sent, FORMAT: value} if takes else self.sent

    def fitted(self, messages: Sequence[ChatMessage]) -> Sequence[ChatMessage]:
        """Return a chat in the roles that the model has."""
        if SYSTEM not in self.learned or len(messages) < 2 or messages[0]["role"] != "system":
            return messages
        first: ChatMessage = {"role": "user", "content": f"{messages[0]['content']}\n\n{messages[1]['content']}"}
        return [first, *messages[2:]]

    def learn(self, name: str) -> bool:
        """Record that the model rejects the parameter sent as `name`: its other name is tried next, then none."""
        with self._lock:
            rejected = [parameter for parameter in self.wanted if self.learned.get(parameter, parameter) == name]
            other = {each: _OTHER_NAME.get(each) if name == each else None for each in rejected}
            self.learned = {**self.learned, **other}
            if rejected and self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                text = json.dumps({**self._stored(), self._model: self.learned}, indent=1, sort_keys=True)
                with atomic(self._folder / FILE) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            return bool(rejected)

    def describe(self) -> str:
        """Return a readable summary of what is sent and what is not."""
        words = [f"{name} {value}" for name, value in self.sent.items()]
        for name, other in self.learned.items():
            if self.wanted.get(name) is not None or (name in (FORMAT, SYSTEM) and name in self.wanted):
                words.append(f"{name} is {f'sent as {other}' if other else 'not sent'}: the model rejects it")
        return ", ".join(words) or "none"

    def _stored(self) -> dict[str, dict[str, str | None]]:
        """Return what was learned of every model; the file only saves a request: unreadable, it is learned again."""
        try:
            stored = json.loads((self._folder / FILE).read_text(encoding="utf-8")) if self._folder else {}
        except (OSError, ValueError):
            return {}
        return {k: v for k, v in stored.items() if isinstance(v, dict)} if isinstance(stored, dict) else {}
