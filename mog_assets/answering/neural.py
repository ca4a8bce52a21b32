"""The neural reader: open questions by spans of the passages, the rest by the rules of the extractive reader.

Whether there is an answer is a matter of probability: that of a span is calibrated on questions with passages that have
the answer and passages that lack it. The grades of AT-RAG and the extractions of BriefContext rest on it, and whether
an answer is shown to somebody who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from mog_assets.answering.extractive import Extractive, NoAnswer, Nothing, read_of
from mog_assets.answering.roles import NOTHING, AnswerRequest, AnswerSpan, Passage, Reply, Support, Usefulness
from mog_assets.chunking.sentences import sentence_ends
from mog_assets.questions.marks import f1
from mog_assets.reader.model import Reader

if TYPE_CHECKING:
    from mog_assets.reader.spans import ReaderSpan

# Increased when a rule below changes.
VERSION = "2"
# A span that is right with a lower probability is no answer. On articles of SQuAD that the reader was not trained on,
# F1 is .53 then and .57 without a limit, and 98 % of the contexts without an answer have none above it.
LEAST = 0.02
# Probability from which passages support an answer, and share of its words that the span must have. On the collections
# of benchmarks/withholding.py half of the answers above it are right, and 97 % of the contexts without one have none.
SUPPORTED, ALIKE = 0.3, 0.5


@dataclass(frozen=True, kw_only=True)
class Neural(Extractive):
    """Implements the roles with a small network that points at spans.

    Attributes:
        network: The trained reader.
    """

    network: Reader

    @property
    def reader(self) -> str:
        """See `Roles.reader`."""
        return f"neural-{VERSION} {self.network.name}, {super().reader}"

    def answer(self, asked: AnswerRequest, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The likeliest span; none if it is right with a probability below `LEAST`. Else by rules."""
        if asked.kind != "open":
            return super().answer(asked, passages, thoughts)
        return self._answered(asked, _pairs(passages), thoughts)

    def think(
        self, asked: AnswerRequest, query: str, passages: Sequence[Passage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """The sentence of the span that is right with the highest probability and is not in a thought already."""
        if asked.kind != "open":
            return super().think(asked, query, passages, thoughts)

        def best() -> str:
            for span in self.network.best(asked.question, _pairs(passages)):
                if (told := _sentence(span, passages[span.passage])) not in thoughts:
                    return told
            raise Nothing("no sentence that is not a thought already")

        return self._reply([*read_of(asked), query, *(p.text for p in passages), *thoughts], best)

    def extract(self, asked: AnswerRequest, passages: Sequence[Passage]) -> Reply[str]:
        """Sentences, one per line, of the spans that are right with a probability of at least `LEAST`."""
        if asked.kind != "open":
            return super().extract(asked, passages)

        def relevant() -> str:
            found = self.network.best(asked.question, _pairs(passages))
            told = (_sentence(s, passages[s.passage]) for s in found if s.probability >= LEAST)
            return "\n".join(dict.fromkeys(told))

        return self._reply([*read_of(asked), *(p.text for p in passages)], relevant, NOTHING)

    def reduce(self, asked: AnswerRequest, extractions: Sequence[str]) -> Reply[str]:
        """As `answer`, from the sentences of the extractions."""
        if asked.kind != "open":
            return super().reduce(asked, extractions)
        return self._answered(asked, (), [line for text in extractions for line in text.splitlines()])

    def grade_usefulness(self, asked: AnswerRequest, answer: str) -> Reply[Usefulness]:
        """An open question's span is useful: whether it is right, the passages decide. Else by rules."""
        if asked.kind != "open":
            return super().grade_usefulness(asked, answer)
        return self._reply([*read_of(asked), answer], lambda: "useful" if answer.strip() else "not_useful")

    def grade_support(self, asked: AnswerRequest, passages: Sequence[Passage], answer: str) -> Reply[Support]:
        """Supported if a span with the words of the answer is right with a probability of at least `SUPPORTED`."""
        if asked.kind != "open":
            return super().grade_support(asked, passages, answer)

        def grade() -> Support:
            found = self.network.best(asked.question, _pairs(passages))
            alike = [span for span in found if f1(answer, [span.text]) >= ALIKE]
            return "supported" if alike and alike[0].probability >= SUPPORTED else "unsupported"

        return self._reply([*read_of(asked), *(p.text for p in passages), answer], grade)

    def _answered(self, asked: AnswerRequest, passages: Sequence[tuple[str, str]], others: Sequence[str]) -> Reply[str]:
        """The likeliest span of passages (title and text) and other texts."""
        spans: list[ReaderSpan] = []

        def said() -> str:
            spans.extend(self.network.best(asked.question, [*passages, *(("", text) for text in others)]))
            if not spans:
                raise Nothing("no passage to answer from")
            if spans[0].probability < LEAST:
                raise NoAnswer(f"no answer in the passages: the likeliest has probability {spans[0].probability:.2f}")
            return spans[0].text

        reply = self._reply([*read_of(asked), *(text for _, text in passages), *others], said)
        if reply.value is None:
            return reply
        best = spans[0]
        place = (best.passage, best.start, best.end) if best.passage < len(passages) else (-1, -1, -1)
        certain = best.probability >= self.network.certain
        return replace(reply, span=AnswerSpan(*place, best.probability, certain))


def _pairs(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(p.title, p.text) for p in passages]


def _sentence(span: ReaderSpan, passage: Passage) -> str:
    """The sentence of a span, after the title that says what it is about."""
    ends = sentence_ends(passage.text).tolist()
    # That of a span in the title is the first.
    sentences = ((end, passage.text[begin:end].strip()) for begin, end in pairwise([0, *ends]))
    told = next((text for end, text in sentences if text and end > span.start), "")
    return f"{passage.title}: {told}" if passage.title else told
