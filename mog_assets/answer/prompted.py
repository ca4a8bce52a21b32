"""The roles implemented by a chat model, with prompts in separate files.

Documents, questions and earlier model outputs are data. They stand between marks with a number derived from all of the
data, so that no data can contain the mark, while equal requests have equal messages and are found in the cache. Text
that looks like a mark or a control token of a chat format is broken up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast

from mog_assets.answer import replies
from mog_assets.answer.prompting import Piece, Prompt, fenced, fill, marks, neutral, nonce, prompt_of
from mog_assets.answer.replies import MAX_CHARS, VERSION, AnswerText, Unparsable, encodable, ended, failure
from mog_assets.answer.roles import AnswerRequest, Complete, Reply, RetrievedPassage, Role, Usage
from mog_assets.registry import WAYS
from mog_assets.resources.chat import AnswerForm, ChatMessage
from mog_assets.resources.errors import MogError

T = TypeVar("T")

_PROMPTS = ("data", "form_choice", "form_open", "answer")
_RETAINED_CHARS = 2_000  # characters kept of an output that was too long to be parsed


def load_prompt(name: str) -> Prompt:
    """Return a prompt of the package by name."""
    return prompt_of("mog_assets.answer", name)


@cache
def prompts_fingerprint() -> str:
    """Return what changes with the text or version of any prompt, and with the way in which replies are read."""
    roles = [role.load_prompt() for way in WAYS.values() for role in way.roles]
    return hashlib.sha256(repr([VERSION, *map(load_prompt, _PROMPTS), *roles]).encode()).hexdigest()[:8]


def build(
    prompt: Prompt, request: AnswerRequest, pieces: Mapping[str, Sequence[Piece]], words: Mapping[str, str]
) -> list[ChatMessage]:
    """Return the messages of a role."""
    rule = load_prompt("data")
    question = [("question", request.question), *((f"option {key}", text) for key, text in request.options.items())]
    every: dict[str, Sequence[Piece]] = {"question": question, **pieces}
    data = {name: [(heading, neutral(text)) for heading, text in texts] for name, texts in every.items()}
    number = nonce([prompt.name, prompt.version, *(text for texts in data.values() for _, text in texts)])
    begin, end = marks(number)
    fields = dict(words)
    for name, texts in data.items():
        fields[name] = "\n".join(fenced(number, piece) for piece in texts) or "none"
    instructions, task = prompt.parts
    system = f"[{prompt.name} {prompt.version}, data {rule.version}]\n{instructions}\n\n{rule.parts[0]}"
    # One pass each, so that braces inside data are text.
    return [
        {"role": "system", "content": fill(system, {**words, "begin": begin, "end": end})},
        {"role": "user", "content": fill(task, fields)},
    ]


def documents(passages: Sequence[RetrievedPassage]) -> list[Piece]:
    """Return passages as data, each with its title."""
    return [
        (f"document {i} of {len(passages)}", f"Title: {p.title}\n{p.text}" if p.title else p.text)
        for i, p in enumerate(passages, 1)
    ]


def numbered(heading: str, texts: Sequence[str]) -> list[Piece]:
    """Return texts of one kind as data."""
    return [(f"{heading} {i} of {len(texts)}", text) for i, text in enumerate(texts, 1)]


def _form(request: AnswerRequest, cites: bool) -> str:
    name = "form_choice" if request.options else "form_open"
    form, words = load_prompt(name), {"letters": ", ".join(request.options), "cited": _CITED[0] if cites else ""}
    return f"[{name} {form.version}]\n{fill(form.parts[0], words)}"


def _answered(request: AnswerRequest, cites: bool) -> tuple[Mapping[str, str], AnswerForm]:
    """Return the form of an answer, in the words of the prompt and as a schema; `cites` asks what it rests on."""
    key, value = ("answer_choice", {"type": "string", "enum": list(request.options)}) if request.options else _OPEN
    properties = {"step_by_step_thinking": {"type": "string"}, key: value, **(_CITED[1] if cites else {})}
    return {"form": _form(request, cites)}, AnswerForm("answer", properties)


_OPEN = ("answer", {"type": "string"})
_CITED = (
    ', "documents": [the numbers of the documents that the answer rests on]',
    {replies.CITED: {"type": "array", "items": {"type": "integer"}}},
)
QUERY = AnswerForm("query", {"query": {"type": "string"}})


@dataclass(frozen=True)
class Prompted:
    """A chat model as reader.

    Attributes:
        complete: The model.
        model: Its name, with the other settings that change answers.
        heard: Called with the text of an answer, piece by piece, while it is written; None if nobody waits for it.
        failures: Errors of `complete` that concern one request and become its reply; others, such as an exceeded spend
            cap, are raised.
    """

    complete: Complete
    model: str
    failures: tuple[type[Exception], ...] = (MogError,)
    token_unit: str = "tokens"
    heard: Callable[[str], object] | None = None

    @property
    def reader(self) -> str:
        """See `Roles.reader`."""
        return f"{self.model}@prompts-{prompts_fingerprint()}"

    def answer(
        self, request: AnswerRequest, passages: Sequence[RetrievedPassage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """See `Roles.answer`."""
        pieces = {"documents": documents(passages), "thoughts": numbered("thought", thoughts)}
        form, heard = _answered(request, cites=bool(passages)), None if request.options else self.heard
        return self._call(load_prompt("answer"), request, pieces, _parser(request), *form, heard)

    def play(self, role: Role[T], request: AnswerRequest, *read: Any) -> Reply[T]:
        """See `Roles.play`."""
        prompt, pieces = role.load_prompt(), role.pieces(request, *read)
        if role.parse is not None:
            return self._call(prompt, request, pieces, role.parse, role.words, role.form)
        form = _answered(request, cites=False)
        return self._call(prompt, request, pieces, cast(Callable[[str], T], _parser(request)), *form)

    def _call(
        self,
        prompt: Prompt,
        request: AnswerRequest,
        pieces: Mapping[str, Sequence[Piece]],
        parse: Callable[[str], T],
        words: Mapping[str, str] | None = None,
        form: AnswerForm | None = None,
        heard: Callable[[str], object] | None = None,
    ) -> Reply[T]:
        messages = build(prompt, request, pieces, words or {})
        written = AnswerText()

        def hear(piece: str) -> None:
            if heard is not None and (text := written.feed(piece)):
                heard(text)

        try:
            done = self.complete(messages, form) if heard is None else self.complete(messages, form, hear)
        except self.failures as error:
            return Reply(None, "", self.reader, Usage(calls=1), failure=str(error))
        usage = Usage(1, done.tokens_in, done.tokens_out, done.cost, done.seconds)
        raw = encodable(done.text if len(done.text) <= MAX_CHARS else done.text[:_RETAINED_CHARS])
        try:
            ended(done.text, done.finish_reason, plain=form is None)
            return Reply(parse(done.text), raw, self.reader, usage)
        except Unparsable as error:
            return Reply(None, raw, self.reader, usage, failure=failure(error, done.text))


def _parser(request: AnswerRequest) -> Callable[[str], str]:
    return partial(replies.choice, options=request.options) if request.options else replies.text_answer
