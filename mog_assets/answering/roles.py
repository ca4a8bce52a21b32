"""What readers do for the ways of answering: a call gives a value, or why there is none, and its cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from mog_assets.questions.sets import Question
from resources.chat import Completion, Message
from resources.errors import MogError

T = TypeVar("T")

Kind = Literal["choice", "yesno", "open"]
Usefulness = Literal["useful", "not_useful"]
Support = Literal["supported", "unsupported"]
Route = Literal["none", "single", "iterative"]
USEFULNESS: tuple[Usefulness, ...] = ("useful", "not_useful")
SUPPORT: tuple[Support, ...] = ("supported", "unsupported")
ROUTES: tuple[Route, ...] = ("none", "single", "iterative")
# What extraction answers where the documents hold nothing (BriefContext, section 5.2, ContextMap).
NOTHING = "no relevant information"
YES_NO_MAYBE = {"yes": "yes", "no": "no", "maybe": "maybe"}

_KEY = re.compile(r"[A-Za-z0-9]{1,8}")


# Raises MogError where the model gives no answer.
Complete = Callable[[Sequence[Message]], Completion]


@dataclass(frozen=True)
class Passage:
    """A passage as retrieval passes it on.

    Attributes:
        corpus, doc, title: Of the document it begins in.
        text: Already cut to the passage.
        spans: Where it lies: (corpus, doc, start, end), in characters of the document's text, end exclusive; several
            where the passage was put together from pieces.
        level: Its level, or its hops; None where it was not found by a retrieval method.
    """

    corpus: str
    doc: str
    title: str
    text: str
    spans: tuple[tuple[str, str, int, int], ...] = ()
    level: int | None = None


@dataclass(frozen=True)
class Asked:
    """A question as it is answered.

    Attributes:
        options: Text by letter; empty where the question is open.

    Raises:
        MogError: the letter of an option is none, or a closed question has no options.
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
        # Letters stand in prompts beside the data, not inside them.
        for key in self.options:
            if not _KEY.fullmatch(key):
                raise MogError(
                    f"question {self.id!r}: options: expected letters or digits, 8 at most, as keys, got {key[:40]!r}"
                )

    @classmethod
    def of(cls, question: Question) -> Asked:
        """A question of a question set; options that are all yes, no or maybe make it a yes/no question.

        Raises:
            MogError: see the class.
        """
        options = dict(question.options)
        if not options and question.kind == "yesno":
            options = dict(YES_NO_MAYBE)
        words = {text.strip().lower() for text in options.values()}
        kind: Kind = "open" if not options else "yesno" if words <= YES_NO_MAYBE.keys() else "choice"
        return cls(question.id, question.question, options, kind)

    def spelled(self, answer: str) -> str:
        """An answer in words: the text of the option where it is a letter."""
        return self.options.get(answer, answer)


@dataclass(frozen=True)
class Usage:
    """What calls cost.

    Attributes:
        tokens_in: Tokens read, in the unit of the reader (`Roles.token_unit`).
        tokens_out: Tokens written.
        cost: Dollars.
        seconds: Time of the calls, added up; calls that ran side by side count each.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.cost + other.cost,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What one call of a role gave.

    Attributes:
        value: None where the call failed.
        failure: Why it failed; empty where it did not.
        raw: What the reader put out, before it was parsed.
        reader: Who: name and version.
    """

    value: T | None
    raw: str
    reader: str
    usage: Usage
    failure: str = ""


@dataclass(frozen=True)
class Judgement:
    """Marks of a judge, each in [0, 10] (AT-RAG, section 4.2)."""

    correctness: float
    completeness: float
    relevance: float

    @property
    def overall(self) -> float:
        """Mean of the three: computed here, never asked of a judge."""
        return (self.correctness + self.completeness + self.relevance) / 3


class Roles(Protocol):
    """A reader. No call raises because a model failed or answered nonsense: the reply says so."""

    @property
    def reader(self) -> str:
        """Name and version; changes with whatever can change a reply."""

    @property
    def token_unit(self) -> str:
        """What `Usage` counts as tokens: `tokens` of a model, or `words`."""

    def answer(self, asked: Asked, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The letter of an option, or for an open question a text; from no passages by what the reader knows."""

    def think(self, asked: Asked, query: str, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """A step of reasoning from the passages that a query found."""

    def extract(self, asked: Asked, passages: Sequence[Passage]) -> Reply[str]:
        """What in the passages bears on the question; empty where nothing does."""

    def reduce(self, asked: Asked, extractions: Sequence[str]) -> Reply[str]:
        """As `answer`, from extractions in order; there may be none."""

    def grade_usefulness(self, asked: Asked, answer: str) -> Reply[Usefulness]:
        """Whether an answer resolves the question."""

    def grade_support(self, asked: Asked, passages: Sequence[Passage], answer: str) -> Reply[Support]:
        """Whether the passages bear an answer out."""

    def rewrite(self, asked: Asked, query: str, answer: str, thoughts: Sequence[str]) -> Reply[str]:
        """A better query."""

    def judge(self, asked: Asked, answer: str, reference: str) -> Reply[Judgement]:
        """Marks for an answer beside the reference answer."""

    def classify(self, asked: Asked) -> Reply[Route]:
        """How much retrieval a question needs (Adaptive-RAG)."""
