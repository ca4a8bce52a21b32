"""What the server takes on: how much a request may ask for, how many run and wait, and for how long."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

from mog_assets.serve.descriptors import CONNECTIONS
from mog_assets.serve.problems import Problem

RETRY_SECONDS = 1

# Of a request's head: bytes, headers, characters of its path and of its query.
HEAD_BYTES, HEADERS, TARGET_CHARS = 32 << 10, 100, 8000
# Of a body of JSON: values in all, values within values, the largest integer.
_VALUES, _DEPTH, _MOST = 10_000, 16, (1 << 63) - 1
# Characters of a text that has no limit of its own.
_TEXT_CHARS = 100_000
# Characters of a name (of a corpus, a document, a field, a method), and names in a list.
NAME_CHARS, NAMES = 2000, 1000
# Options of a question: a letter each.
CHOICES = 26
# Turns of a conversation that may be sent, and the last ones that a follow-up may refer to.
MOST_TURNS, TURNS = 500, 6
# Places of a passage.
PLACES = 200
# Bodies of the largest size that arrive at a time.
BODIES = 64
# For the rest of a request that was answered before it was complete.
LINGER_SECONDS = 2.0


@dataclass(frozen=True)
class ServerOptions:
    """Options of the server: those of `mog serve`, whose help says what they are, and what follows from others.

    Attributes:
        key: What callers send as bearer token; empty if anybody may call.
        hosts: Names that callers may use for the server (header `Host`); empty if any.
        origins: Other web sites whose pages may call.
        body_seconds: Seconds for the head of a request, and again for its body, to arrive.
        send_seconds: Seconds for the caller to take a part of the answer.
        public_url: Where browsers reach the server, whose pages may call it, also by a proxy that sends another host;
            for links in what agents get. Empty for the host they asked.
        flags: Those of `registry.SERVER_FLAGS` that were given.
    """

    key: str = ""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    concurrency: int = 4
    waiting: int = 32
    timeout: float = 30.0
    ask_timeout: float = 120.0
    drain: float = 20.0
    body_bytes: int = 1 << 20
    body_seconds: float = 10.0
    send_seconds: float = 30.0
    question_chars: int = 4000
    budget: int = 100_000
    k: int = 200
    connections: int = CONNECTIONS
    connections_per_address: int = CONNECTIONS // 4
    log_questions: bool = False
    public_url: str = ""
    flags: frozenset[str] = frozenset()

    @cached_property
    def public(self) -> tuple[str, str, str]:
        """Origin, host and path of `public_url`, as browsers and proxies write them."""
        url = urlsplit(self.public_url)
        port = "" if url.port in (None, {"http": 80, "https": 443}.get(url.scheme)) else f":{url.port}"
        return f"{url.scheme}://{url.hostname or ''}{port}", url.hostname or "", url.path.rstrip("/")

    @property
    def text_chars(self) -> int:
        """Most characters of any text of a request."""
        return max(_TEXT_CHARS, self.question_chars, self.budget)

    def check_question(self, name: str, question: str, choices: Mapping[str, str] | None = None) -> str:
        """Return the question, if it is not too long with what there is to choose from."""
        choices = choices or {}
        size = len(question) + sum(len(letter) + len(text) for letter, text in choices.items())
        if size > self.question_chars:
            most = f"{self.question_chars:,} characters{' with options' if choices else ''}"
            raise Problem(422, f"{name}: expected at most {most}, got {size:,}", "too much")
        if len(choices) > CHOICES:
            raise Problem(422, f"options: expected at most {CHOICES}, got {len(choices):,}", "too much")
        return question

    def conversation(self, earlier: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the last turns of a conversation, which a question may refer to: each a question and its answer.

        A question that is too long for one is a text that somebody pasted, and left out; answers are cut.
        """
        turns = [(question, answer[: self.question_chars]) for question, answer in earlier]
        return [turn for turn in turns if turn[0].strip() and len(turn[0]) <= self.question_chars][-TURNS:]

    def check_amount(self, name: str, amount: int | None) -> None:
        """Check a budget or a k."""
        most = self.budget if name == "budget" else self.k
        if amount is not None and amount > most:
            raise Problem(422, f"{name}: expected at most {most:,}, got {amount:,}", "too much")


def check_json(body: bytes, most: int) -> None:
    """Check the size and the values of a body, if it is JSON: what is none is for the route to refuse.

    Raises:
        Problem: it has too many values, values too far within others, a long text, a number that no column of ours can
            hold, or half a character (a lone surrogate).
    """
    try:
        values = [(json.loads(body, parse_constant=_refuse_constant), 0)]
    except RecursionError:
        values = [(None, _DEPTH + 1)]
    except ValueError:
        return
    count = 0
    while values:
        value, depth = values.pop()
        count += 1
        if count > _VALUES:
            raise Problem(422, f"body: expected at most {_VALUES:,} values", "too much")
        if depth > _DEPTH:
            raise Problem(422, f"body: expected at most {_DEPTH} values within each other", "too much")
        if isinstance(value, dict):
            values += [(one, depth + 1) for pair in value.items() for one in pair]
        elif isinstance(value, list):
            values += [(one, depth + 1) for one in value]
        elif isinstance(value, str):
            _check_text(value, most)
        elif isinstance(value, int) and not -_MOST - 1 <= value <= _MOST:
            raise Problem(422, f"body: expected integers of 64 bits, got one of {value.bit_length() + 1:,}", "too much")
        elif isinstance(value, float) and not math.isfinite(value):
            _refuse_constant("a number beyond them")


def _refuse_constant(name: str) -> None:
    raise Problem(422, f"body: expected finite numbers, got {name}")


def _check_text(text: str, most: int) -> None:
    if len(text) > most:
        raise Problem(422, f"body: expected texts of at most {most:,} characters, got {len(text):,}", "too much")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Problem(422, f"body: expected text, got half a character (surrogate) at {error.start}") from None
