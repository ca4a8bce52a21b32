"""Define what readers do for answering methods: each call returns a value, or why there is none, and its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Any, Generic, Literal, Protocol, TypeVar

from mog_assets.answer.prompting import Piece, Prompt, prompt_of
from mog_assets.questions.sets import Question
from mog_assets.resources.chat import AnswerForm, Completion
from mog_assets.resources.errors import MogError
from mog_assets.search.passages import RetrievedPassage as RetrievedPassage

T = TypeVar("T")

Kind = Literal["choice", "yesno", "open"]
# See `Role.step`.
ANSWER_STEP = ("answer", "text", "Answer")
YES_NO_MAYBE = {"yes": "yes", "no": "no", "maybe": "maybe"}

_KEY = re.compile(r"[A-Za-z0-9]{1,8}")

# Given a chat and the form of the answer, if it has one, and what hears the answer while it comes. Raises MogError if
# the model gives no response.
Complete = Callable[..., Completion]


@dataclass(frozen=True)
class AnswerRequest:
    """A question for a reader.

    Attributes:
        options: Text by letter; empty for an open question.

    Raises:
        MogError: the letter of an option is invalid, or a closed question has no options.
    """

    id: str
    question: str
    options: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = "open"

    def __post_init__(self) -> None:
        if (self.kind != "open") != bool(self.options):
            raise MogError(
                f"question {self.id!r}: expected options with kind choice or yesno and none with kind open, got kind "
                f"{self.kind} and {len(self.options)} options"
            )
        # Letters appear in prompts outside the marked data.
        for key in self.options:
            if not _KEY.fullmatch(key):
                raise MogError(
                    f"question {self.id!r}: options: expected letters or digits, 8 at most, as keys, got {key[:40]!r}"
                )

    @classmethod
    def of(cls, question: Question) -> AnswerRequest:
        """Return a question of a question set; it is a yes/no question if all options are yes, no or maybe."""
        options = dict(question.options)
        if not options and question.kind == "yesno":
            options = dict(YES_NO_MAYBE)
        words = {text.strip().lower() for text in options.values()}
        kind: Kind = "open" if not options else "yesno" if words <= YES_NO_MAYBE.keys() else "choice"
        return cls(question.id, question.question, options, kind)

    def spelled(self, answer: str) -> str:
        """Return an answer in words: the text of the option if it is a letter."""
        return self.options.get(answer, answer)


@dataclass(frozen=True)
class Usage:
    """The cost of calls.

    Attributes:
        tokens_in: Tokens read, in the unit of the reader (`Roles.token_unit`).
        tokens_out: Tokens written.
        cost: Dollars.
        seconds: Total time of the calls; parallel calls are added up.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class AnswerSpan:
    """Place of an answer in what was read, and how sure the reader is of it.

    Attributes:
        passage: Position among the passages that were read; −1 if it was read from another text.
        start, end: Characters in the text of the passage; both −1 if it stands in its title, or in no passage.
        probability: That the answer is right, in [0, 1].
        certain: Whether that is enough to show it to somebody who asks.
    """

    passage: int
    start: int
    end: int
    probability: float
    certain: bool


@dataclass(frozen=True)
class Reply(Generic[T]):
    """The result of one call of a role.

    Attributes:
        value: None if the call failed.
        failure: Why it failed; empty if it did not.
        raw: The reader's output before parsing.
        reader: Name and version of the reader.
        declined: Whether it failed because the passages have no answer: others may.
        span: Where the value stands, if it is an answer quoted from what was read.
    """

    value: T | None
    raw: str
    reader: str
    usage: Usage
    failure: str = ""
    declined: bool = False
    span: AnswerSpan | None = None


@dataclass(frozen=True)
class Role(Generic[T]):
    """Describe what a way of answering asks readers for beside answers; `Way.roles` names it.

    Its functions are given the request and what is read, as `Roles.play`; those without a model are given the reader
    first.

    Attributes:
        name: Of the role in steps and traces.
        package: Its folder `prompts` has the prompt.
        prompt: Name of the prompt.
        pieces: Gives the data of the prompt, by field.
        rules: Replies for the extractive reader.
        spans: Replies to open questions for the neural reader; None if it does so by rules.
        parse: Reads a reply of a model; None if that is an answer to the question.
        form: Of the reply; None if it is a text.
        words: Other fields of the prompt.
        step: Name of the step that is told, of what it gives, and what the step is called for people.
    """

    name: str
    package: str
    prompt: str
    pieces: Callable[..., Mapping[str, Sequence[Piece]]]
    rules: Callable[..., Reply[T]]
    spans: Callable[..., Reply[T]] | None = None
    parse: Callable[[str], T] | None = None
    form: AnswerForm | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    step: tuple[str, str, str] = ANSWER_STEP

    def load_prompt(self) -> Prompt:
        """Read the prompt."""
        return prompt_of(self.package, self.prompt)


class Roles(Protocol):
    """A reader. Calls do not raise if a model fails or gives an invalid answer: the reply has the failure."""

    @property
    def reader(self) -> str:
        """Name and version; changes with everything that can change a reply."""

    @property
    def token_unit(self) -> str:
        """The unit of tokens in `Usage`: `tokens` of a model, or `words`."""

    def answer(
        self, request: AnswerRequest, passages: Sequence[RetrievedPassage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """Return letter of an option, or a text for an open question; without passages, from the reader's knowledge."""

    def play(self, role: Role[T], request: AnswerRequest, *read: Any) -> Reply[T]:
        """Return what a way of answering asks for beside an answer, from what is read."""
