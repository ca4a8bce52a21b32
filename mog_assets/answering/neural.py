"""The neural reader: open questions by spans of the passages, the rest by the rules of the extractive reader.

Whether there is an answer is a matter of probability: `Reader.probability` is calibrated on questions with passages
that have the answer and passages that lack it. The grades of AT-RAG and the extractions of BriefContext rest on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from mog_assets.answering.extractive import Extractive, NoAnswer, Nothing, read_of
from mog_assets.answering.roles import NOTHING, Asked, Passage, Reply, Support, Usefulness
from mog_assets.chunking.sentences import sentence_ends
from mog_assets.questions.marks import f1
from mog_assets.reader.model import Reader

if TYPE_CHECKING:
    from mog_assets.reader.spans import Span

# Increased when a rule below changes.
VERSION = "1"
# A span that is right with a lower probability is no answer. On articles of SQuAD that the reader was not trained on,
# F1 is .508 then and .517 without a limit; at .1 it is .464, for one in four more contexts known to have no answer.
LEAST = 0.03
# Probability from which passages support an answer, and share of its words that the span must have. On the same
# articles, spans above it have an F1 of .63, and 77 % of the contexts without the answer have none above it.
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

    def answer(self, asked: Asked, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The span that is right with the highest probability; none if that is below `LEAST`. Else by rules."""
        if asked.kind != "open":
            return super().answer(asked, passages, thoughts)
        read = [*read_of(asked), *(p.text for p in passages), *thoughts]
        return self._reply(read, lambda: self._said(asked, [*_pairs(passages), *(("", text) for text in thoughts)]))

    def think(self, asked: Asked, query: str, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The sentence of the span that is right with the highest probability and is not in a thought already."""
        if asked.kind != "open":
            return super().think(asked, query, passages, thoughts)

        def best() -> str:
            for span in self.network.best(asked.question, _pairs(passages)):
                if (told := _sentence(span, passages[span.passage])) not in thoughts:
                    return told
            raise Nothing("no sentence that is not a thought already")

        return self._reply([*read_of(asked), query, *(p.text for p in passages), *thoughts], best)

    def extract(self, asked: Asked, passages: Sequence[Passage]) -> Reply[str]:
        """Sentences, one per line, of the spans that are right with a probability of at least `LEAST`."""
        if asked.kind != "open":
            return super().extract(asked, passages)

        def relevant() -> str:
            found = self.network.best(asked.question, _pairs(passages))
            told = (_sentence(s, passages[s.passage]) for s in found if self.network.probability(s.score) >= LEAST)
            return "\n".join(dict.fromkeys(told))

        return self._reply([*read_of(asked), *(p.text for p in passages)], relevant, NOTHING)

    def reduce(self, asked: Asked, extractions: Sequence[str]) -> Reply[str]:
        """As `answer`, from the sentences of the extractions."""
        if asked.kind != "open":
            return super().reduce(asked, extractions)
        told = [("", line) for text in extractions for line in text.splitlines()]

        def said() -> str:
            if not told:
                raise NoAnswer("no answer in the passages: none was extracted")
            return self._said(asked, told)

        return self._reply([*read_of(asked), *extractions], said)

    def grade_usefulness(self, asked: Asked, answer: str) -> Reply[Usefulness]:
        """An open question's span is useful: whether it is right, the passages decide. Else by rules."""
        if asked.kind != "open":
            return super().grade_usefulness(asked, answer)
        return self._reply([*read_of(asked), answer], lambda: "useful" if answer.strip() else "not_useful")

    def grade_support(self, asked: Asked, passages: Sequence[Passage], answer: str) -> Reply[Support]:
        """Supported if a span with the words of the answer is right with a probability of at least `SUPPORTED`."""
        if asked.kind != "open":
            return super().grade_support(asked, passages, answer)

        def grade() -> Support:
            found = self.network.best(asked.question, _pairs(passages))
            alike = [span for span in found if f1(answer, [span.text]) >= ALIKE]
            return "supported" if alike and self.network.probability(alike[0].score) >= SUPPORTED else "unsupported"

        return self._reply([*read_of(asked), *(p.text for p in passages), answer], grade)

    def _said(self, asked: Asked, texts: Sequence[tuple[str, str]]) -> str:
        found = self.network.best(asked.question, texts)
        if not found:
            raise Nothing("no passage to answer from")
        chance = self.network.probability(found[0].score)
        if chance < LEAST:
            raise NoAnswer(f"no answer in the passages: the best span is right with probability {chance:.2f}")
        return found[0].text


def _pairs(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(p.title, p.text) for p in passages]


def _sentence(span: Span, passage: Passage) -> str:
    """The sentence of a span, after the title that says what it is about."""
    ends = sentence_ends(passage.text).tolist()
    # That of a span in the title is the first.
    sentences = ((end, passage.text[begin:end].strip()) for begin, end in pairwise([0, *ends]))
    told = next((text for end, text in sentences if text and end > span.start), "")
    return f"{passage.title}: {told}" if passage.title else told
