"""Questions written by a language model: the request for one, and what its answer says."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from mog_assets.answer.prompting import fenced, fill, marks, neutral, nonce, prompt_of
from mog_assets.answer.replies import VERSION, Unparsable, agreed, decode, shown, without_reasoning, worded
from mog_assets.plugins.generated_questions.windows import BREADTHS, Extract
from mog_assets.resources.chat import AnswerForm, ChatMessage

_PACKAGE = "mog_assets.plugins.generated_questions"
_PROMPTS = ("data", "question")
# Places that an answer may rest on.
_MOST_QUOTES = 4
_MAYBE = {"type": ["string", "null"]}
# All is null where there is nothing to ask.
FORM = AnswerForm(
    "question",
    {"question": _MAYBE, "answer": _MAYBE, "quote": {"type": ["array", "null"], "items": {"type": "string"}}},
)


@dataclass(frozen=True)
class WrittenQuestion:
    """A question as a model wrote it, on one line; nothing in it has been checked against the document."""

    question: str
    answer: str
    quotes: tuple[str, ...]


class NothingToAsk(Exception):
    """The model says that a text answers nothing that anybody would ask."""


@cache
def prompts_fingerprint() -> str:
    """Return what changes with the text or version of any prompt, and with the way in which replies are read."""
    read = [VERSION, *(prompt_of(_PACKAGE, name) for name in _PROMPTS)]
    return hashlib.sha256(repr(read).encode()).hexdigest()[:8]


def request(window: Extract) -> list[ChatMessage]:
    """Return the messages that ask for a question."""
    prompt, rule = prompt_of(_PACKAGE, "question"), prompt_of(_PACKAGE, "data")
    titled = [("title", window.title)] if window.title.strip() else []
    pieces = [(heading, neutral(text)) for heading, text in [*titled, ("text", window.text)]]
    number = nonce([prompt.name, prompt.version, window.style, window.breadth, *(text for _, text in pieces)])
    begin, end = marks(number)
    instructions, question = prompt.parts
    system = f"[{prompt.name} {prompt.version}, data {rule.version}]\n{instructions}\n\n{rule.parts[0]}"
    words = {"style": window.style, "breadth": BREADTHS[window.breadth].text, "begin": begin, "end": end}
    return [
        {"role": "system", "content": fill(system, words)},
        {"role": "user", "content": fill(question, {"text": "\n".join(fenced(number, piece) for piece in pieces)})},
    ]


def written(text: str) -> WrittenQuestion:
    """Return the question in a model's output: that of its only object with the key `question`.

    Raises:
        Unparsable: there is none, or a value has another type, is blank, or refuses.
        NothingToAsk: the question is null.
    """
    fields = agreed([value for value in decode(without_reasoning(text)) if "question" in value], "question")
    if fields["question"] is None:
        raise NothingToAsk
    quotes = fields.get("quote")
    quotes = [quotes] if isinstance(quotes, str) else quotes
    if not isinstance(quotes, list) or not 0 < len(quotes) <= _MOST_QUOTES:
        raise Unparsable(f"expected quote, a text or a list of at most {_MOST_QUOTES}, got {shown(str(quotes))}")
    question, answer = _line("question", fields["question"]), _line("answer", fields.get("answer"))
    return WrittenQuestion(question, answer, tuple(dict.fromkeys(_line("quote", quote) for quote in quotes)))


def _line(name: str, value: object) -> str:
    return " ".join(worded(value, name).split())
