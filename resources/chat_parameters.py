"""Which parameters a model takes: learned from its errors, once, and remembered for the runs that follow.

OpenAI's reasoning models, for one, take `max_completion_tokens` in place of `max_tokens`, and no temperature.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resources.store import atomic

FILE = "llm-parameters.json"
# What a parameter that was refused is tried under next.
_OTHER_NAME = {"max_tokens": "max_completion_tokens"}
_CODES = ("unsupported_parameter", "unknown_parameter", "unrecognized_parameter")
_SAID = re.compile(
    r"unsupported parameter|not supported (?:with|by|in|for) this model|(?:does|do) not support"
    r"|un(?:known|recognized|expected) (?:request |keyword )?(?:parameter|argument|field)"
    r"|extra (?:inputs|fields) (?:are )?not permitted",
    re.IGNORECASE,
)
# A value that is refused says what the model cannot do only where leaving it out means the same to every model.
_SAID_OF_VALUE = re.compile(r"unsupported value|only the default", re.IGNORECASE)
_LEFT_OUT_FOR_A_VALUE = ("temperature", "seed")


def refused(sent: Collection[str], status: int, param: str | None, code: str | None, said: str) -> str | None:
    """Which of the parameters sent an error says that the model does not take; None where it is about something else.

    Args:
        sent: Names of the parameters.
        status: Of the HTTP response.
        param: The parameter that the error names in its own field, if any.
        code: Of the error, if it has one.
        said: The message, with whatever else the body holds.
    """
    if status not in (400, 422):
        return None
    named = [name for name in sent if re.search(rf"(?<!\w){name}(?!\w)", said)]
    name = param if param in sent else named[0] if len(named) == 1 else _first(named, said)
    if name is None:
        return None
    if code in _CODES or _SAID.search(said):
        return name
    of_value = code == "unsupported_value" or _SAID_OF_VALUE.search(said)
    return name if of_value and name in _LEFT_OUT_FOR_A_VALUE else None


def _first(names: Collection[str], said: str) -> str | None:
    # "Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead": what is wrong comes first.
    return min(names, key=lambda name: said.index(name), default=None)


@dataclass
class Parameters:
    """What is sent to one model of one endpoint beside the messages.

    Attributes:
        wanted: Values by name; None is not sent.
        model: Endpoint and name of the model.
        folder: Where what was learned is remembered; None remembers it as long as this object lives.
    """

    wanted: Mapping[str, Any]
    model: str
    folder: Path | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _learned: dict[str, str | None] | None = field(default=None, repr=False)

    @property
    def sent(self) -> dict[str, Any]:
        """Values by the name under which the model takes them."""
        takes = self.learned
        named = {takes.get(name, name): value for name, value in self.wanted.items() if value is not None}
        return {name: value for name, value in named.items() if name is not None}

    @property
    def learned(self) -> dict[str, str | None]:
        """What the model has refused, with the name that it takes instead; None where it is left out."""
        with self._lock:
            return dict(self._takes())

    def learn(self, name: str) -> None:
        """Note that the model does not take what is sent as `name`: another name is tried, then none."""
        with self._lock:
            takes = self._takes()
            for own in self.wanted:
                if takes.get(own, own) == name:
                    takes[own] = _OTHER_NAME.get(own) if name == own else None
            if self.folder is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                everything = {**self._remembered(), self.model: takes}
                with atomic(self.folder / FILE) as temporary:
                    temporary.write_text(json.dumps(everything, indent=1, sort_keys=True), encoding="utf-8")

    def told(self) -> str:
        """What is sent and what is not, for people."""
        words = [f"{name} {value}" for name, value in self.sent.items()]
        for name, other in self.learned.items():
            if self.wanted.get(name) is not None:
                words.append(f"{name} is {f'sent as {other}' if other else 'not sent'}: the model refuses it")
        return ", ".join(words) or "none"

    def _takes(self) -> dict[str, str | None]:
        if self._learned is None:
            self._learned = self._remembered().get(self.model, {})
        return self._learned

    def _remembered(self) -> dict[str, dict[str, str | None]]:
        """What was learned of every model."""
        try:
            found = json.loads((self.folder / FILE).read_text(encoding="utf-8")) if self.folder else {}
        # It only saves a request: what cannot be read is learned again.
        except (OSError, ValueError):
            return {}
        return {k: v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}
