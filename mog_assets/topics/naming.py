"""Names of topics that a language model gives them: the request for one, what a reply says, and what is kept of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from mog_assets.prompting import fenced, fill, marks, neutral, nonce, prompt_of
from mog_assets.replies import VERSION, Unparsable, encodable, failure, only, worded
from mog_assets.resources.chat import Completion, Failure, Form, Message
from mog_assets.resources.errors import MogError
from mog_assets.resources.llm import OpenAIModel
from mog_assets.resources.progress import Advance
from mog_assets.resources.store import digest

MOST_WORDS, MOST_CHARS = 6, 60
FORM = Form("name", {"name": {"type": "string"}})
_PACKAGE = "mog_assets.topics"
# Requests after which it is seen whether there is anybody who answers.
_BATCH = 64


@dataclass(frozen=True)
class TopicName:
    """What came of the request for the name of a topic.

    Attributes:
        key: Digest of everything that decides the reply; an equal topic has an equal key.
        name: The name; empty if there is none.
        failure: Why there is no name.
        open: Whether the next run asks again.
    """

    key: str
    name: str = ""
    failure: str = ""
    open: bool = False


@cache
def prompts_fingerprint() -> str:
    """Changes with the text or version of any prompt, and with the way in which replies are read."""
    read = [VERSION, *(prompt_of(_PACKAGE, name) for name in ("data", "name"))]
    return hashlib.sha256(repr(read).encode()).hexdigest()[:8]


def request(words: Sequence[str], titles: Sequence[str]) -> list[Message]:
    """The messages that ask for the name of a topic, by its terms and typical titles."""
    prompt, rule = prompt_of(_PACKAGE, "name"), prompt_of(_PACKAGE, "data")
    pieces = [("terms", neutral("\n".join(words)))]
    if titles:
        pieces.append(("titles", neutral("\n".join(titles))))
    number = nonce([prompt.name, prompt.version, *(text for _, text in pieces)])
    begin, end = marks(number)
    instructions, question = prompt.parts
    system = f"[{prompt.name} {prompt.version}, data {rule.version}]\n{instructions}\n\n{rule.parts[0]}"
    return [
        {"role": "system", "content": fill(system, {"begin": begin, "end": end})},
        {"role": "user", "content": fill(question, {"data": "\n".join(fenced(number, piece) for piece in pieces)})},
    ]


def name_in(text: str) -> str:
    """The name in a model's output: that of its only object with the key `name`.

    Raises:
        Unparsable: there is none, it has too many words or characters, is not on one line, or refuses.
    """
    name = worded(only(text, "name"), "name", MOST_CHARS)
    if len(name.split()) > MOST_WORDS or not name.isprintable() or not any(map(str.isalpha, name)):
        raise Unparsable(f"expected name, at most {MOST_WORDS} words on one line, got {encodable(name)!r}")
    return " ".join(name.split())


def ask(
    llm: OpenAIModel,
    topics: Sequence[tuple[Sequence[str], Sequence[str]]],
    model: str,
    before: Mapping[str, TopicName],
    advance: Advance,
) -> list[TopicName]:
    """Ask for the name of every topic; what fails leaves a topic without one.

    Args:
        llm: The model.
        topics: Terms and titles of each.
        model: Everything besides the messages that decides a reply.
        before: What came of earlier requests, by key; open ones are asked again.
        advance: Called with the number of topics done.
    """
    requests = [request(words, titles) for words, titles in topics]
    keys = [digest(model, chat) for chat in requests]
    settled = {key: row for key, row in before.items() if not row.open}
    missing = {key: chat for key, chat in zip(keys, requests, strict=True) if key not in settled}
    advance(sum(key in settled for key in keys))
    stopped, order = "", list(missing)
    for first in range(0, len(order), _BATCH):
        batch = order[first : first + _BATCH]
        if not stopped:
            try:
                replies = llm.complete_many([missing[key] for key in batch], advance, FORM)
            # Without key, endpoint or money topics keep their terms. What was paid for is in the cache.
            except MogError as error:
                stopped = str(error)
        if stopped:
            settled |= {key: TopicName(key, failure=encodable(stopped), open=True) for key in batch}
            continue
        settled |= {key: _read(key, reply) for key, reply in zip(batch, replies, strict=True)}
        if all(settled[key].open for key in batch):
            stopped = f"none of {len(batch)} requests got a response, so no more were sent: {settled[batch[0]].failure}"
    return [settled[key] for key in keys]


def _read(key: str, reply: Completion | Failure) -> TopicName:
    if isinstance(reply, Failure):
        return TopicName(key, failure=encodable(reply.reason), open=reply.unanswered)
    try:
        return TopicName(key, name_in(reply.text))
    except Unparsable as error:
        return TopicName(key, failure=failure(error, reply.text))
