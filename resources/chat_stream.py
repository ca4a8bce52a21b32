"""A chat completion that arrives in pieces, as server-sent events of the chat-completions protocol."""

from __future__ import annotations

import json
from typing import Any

END = "[DONE]"
# Types of parts of a message that are its text.
TEXTS = ("text", "output_text")
MEDIA_TYPE = "text/event-stream"
# The parameters that ask for it; the second has the tokens that were used come with the last piece.
PARAMETERS: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def text_of(content: Any) -> str:
    """The text of a message, which may come as a list of parts: of these, what is not reasoning."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [{"text": part} if isinstance(part, str) else part for part in content]
    return "".join(
        part["text"]
        for part in parts
        if isinstance(part, dict) and part.get("type", "text") in TEXTS and isinstance(part.get("text"), str)
    )


class Streamed:
    """The events so far."""

    def __init__(self) -> None:
        self._left = b""
        self._text: list[str] = []
        self._whole: dict[str, Any] = {}
        self._message: dict[str, Any] = {"content": None}
        self._finish: str | None = None
        self._done = False

    @property
    def ended(self) -> bool:
        """Whether the end came, or why the answer ends, which some send last: else the rest was lost on the way."""
        return self._done or self._finish is not None

    def feed(self, data: bytes) -> str:
        """Take further bytes; returns the text that they add to the answer.

        Raises:
            ValueError: an event is not JSON, or not in the form of a chunk.
        """
        *lines, self._left = (self._left + data).split(b"\n")
        return "".join(self._line(line.strip()) for line in lines)

    def _line(self, line: bytes) -> str:
        if not line.startswith(b"data:"):
            return ""
        value = line[len(b"data:") :].strip().decode()
        if value == END:
            self._done = True
            return ""
        event = json.loads(value)
        choices = event.get("choices") if isinstance(event, dict) else None
        choice = choices[0] if isinstance(choices, list) and choices else {}
        delta = choice.get("delta") or {} if isinstance(choice, dict) else None
        if not (isinstance(event, dict) and isinstance(delta, dict)):
            raise ValueError("an event in another form")
        self._whole |= {name: event[name] for name in ("model", "usage", "error") if event.get(name)}
        self._finish = choice.get("finish_reason") or self._finish
        if isinstance(delta.get("refusal"), str):
            self._message["refusal"] = self._message.get("refusal", "") + delta["refusal"]
        added = text_of(delta.get("content"))
        self._text.append(added)
        return added

    @property
    def body(self) -> bytes:
        """The completion as it would have come in one piece."""
        message = {**self._message, "content": "".join(self._text) or None}
        choices = [] if "error" in self._whole else [{"message": message, "finish_reason": self._finish}]
        return json.dumps({**self._whole, "choices": choices}).encode()
