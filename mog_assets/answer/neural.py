"""The neural reader: open questions by spans of the passages, the rest by the rules of the extractive reader.

Whether there is an answer is a matter of probability: that of a span is calibrated on questions with passages that have
the answer and passages that lack it. Whether an answer is shown to somebody who asks rests on it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from mog_assets.answer.extractive import Extractive, NoAnswer, Nothing, read_of
from mog_assets.answer.reader.model import TrainedReader
from mog_assets.answer.roles import AnswerRequest, AnswerSpan, Reply, RetrievedPassage, Role
from mog_assets.text.languages import DEFAULT, detected

if TYPE_CHECKING:
    from mog_assets.answer.reader.spans import ReaderSpan

T = TypeVar("T")

# Increased when a rule below changes.
VERSION = "3"
# A span that is right with a lower probability is no answer. On articles of SQuAD that the reader was not trained on,
# F1 is .53 then and .57 without a limit, and 98 % of the contexts without an answer have none above it.
LEAST = 0.02
# With a lower probability that its words are right, a sentence is not marked for those who ask. Of 63 contexts of the
# foreign collections of benchmarks/withholding.py it marks 14 of 27 with the answer and 5 of 36 without; .02 marks 23
# and 23, and the share of right sentences among marks with the answer is about a third with either.
MARKED = 0.08


@dataclass(frozen=True, kw_only=True)
class Neural(Extractive):
    """Implements the roles with a small network that points at spans.

    Attributes:
        network: The trained reader.
    """

    network: TrainedReader

    @property
    def reader(self) -> str:
        """See `Roles.reader`."""
        return f"neural-{VERSION} {self.network.name}, {super().reader}"

    def answer(
        self, request: AnswerRequest, passages: Sequence[RetrievedPassage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """Return the likeliest span; none if it is right with a probability below `LEAST`. Else by rules."""
        if request.kind != "open":
            return super().answer(request, passages, thoughts)
        return self._answered(request, pairs_of(passages), thoughts)

    def play(self, role: Role[T], request: AnswerRequest, *read: Any) -> Reply[T]:
        """See `Roles.play`."""
        play = role.spans if request.kind == "open" and role.spans else role.rules
        return play(self, request, *read)

    def _answered(
        self, request: AnswerRequest, passages: Sequence[tuple[str, str]], others: Sequence[str]
    ) -> Reply[str]:
        """Return the likeliest span of passages (title and text) and other texts."""
        spans: list[ReaderSpan] = []

        def read_spans() -> str:
            spans.extend(self.network.best(request.question, [*passages, *(("", text) for text in others)]))
            if not spans:
                raise Nothing("no passage to answer from")
            if spans[0].probability < LEAST:
                raise NoAnswer(f"the likeliest words are right with a probability below {LEAST}")
            return spans[0].text

        reply = self.reply([*read_of(request), *(text for _, text in passages), *others], read_spans)
        if not spans:
            return reply
        best = spans[0]
        text = passages[best.passage][1] if best.passage < len(passages) else others[best.passage - len(passages)]
        # It learned to read English: of another text no words are worth showing.
        reads = (detected(text) or DEFAULT) == DEFAULT
        place = (best.passage, best.start, best.end) if reads and best.passage < len(passages) else (-1, -1, -1)
        certain = reads and best.probability >= self.network.certain
        return replace(reply, span=AnswerSpan(*place, best.probability, certain))


def pairs_of(passages: Sequence[RetrievedPassage]) -> list[tuple[str, str]]:
    """Return the title and text of passages."""
    return [(p.title, p.text) for p in passages]
