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
from mog_assets.text.languages import DEFAULT, detected

if TYPE_CHECKING:
    from mog_assets.reader.spans import ReaderSpan

# Increased when a rule below changes.
VERSION = "3"
# A span that is right with a lower probability is no answer. On articles of SQuAD that the reader was not trained on,
# F1 is .53 then and .57 without a limit, and 98 % of the contexts without an answer have none above it.
LEAST = 0.02
# With a lower probability that its words are right, a sentence is not marked for those who ask. Of 63 contexts of the
# foreign collections of benchmarks/withholding.py it marks 14 of 27 with the answer and 5 of 36 without; .02 marks 23
# and 23, and the share of right sentences among marks with the answer is about a third with either.
MARKED = 0.08
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

    def answer(self, request: AnswerRequest, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The likeliest span; none if it is right with a probability below `LEAST`. Else by rules."""
        if request.kind != "open":
            return super().answer(request, passages, thoughts)
        return self._answered(request, _pairs(passages), thoughts)

    def think(
        self, request: AnswerRequest, query: str, passages: Sequence[Passage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """The sentence of the span that is right with the highest probability and is not in a thought already."""
        if request.kind != "open":
            return super().think(request, query, passages, thoughts)

        def best() -> str:
            for span in self.network.best(request.question, _pairs(passages)):
                if (sentence := _sentence(span, passages[span.passage])) not in thoughts:
                    return sentence
            raise Nothing("no sentence that is not a thought already")

        return self._reply([*read_of(request), query, *(p.text for p in passages), *thoughts], best)

    def extract(self, request: AnswerRequest, passages: Sequence[Passage]) -> Reply[str]:
        """Sentences, one per line, of the spans that are right with a probability of at least `LEAST`."""
        if request.kind != "open":
            return super().extract(request, passages)

        def relevant() -> str:
            spans = self.network.best(request.question, _pairs(passages))
            sentences = (_sentence(s, passages[s.passage]) for s in spans if s.probability >= LEAST)
            return "\n".join(dict.fromkeys(sentences))

        return self._reply([*read_of(request), *(p.text for p in passages)], relevant, NOTHING)

    def reduce(self, request: AnswerRequest, extractions: Sequence[str]) -> Reply[str]:
        """As `answer`, from the sentences of the extractions."""
        if request.kind != "open":
            return super().reduce(request, extractions)
        return self._answered(request, (), [line for text in extractions for line in text.splitlines()])

    def grade_usefulness(self, request: AnswerRequest, answer: str) -> Reply[Usefulness]:
        """An open question's span is useful: whether it is right, the passages decide. Else by rules."""
        if request.kind != "open":
            return super().grade_usefulness(request, answer)
        return self._reply([*read_of(request), answer], lambda: "useful" if answer.strip() else "not_useful")

    def grade_support(self, request: AnswerRequest, passages: Sequence[Passage], answer: str) -> Reply[Support]:
        """Supported if a span with the words of the answer is right with a probability of at least `SUPPORTED`."""
        if request.kind != "open":
            return super().grade_support(request, passages, answer)

        def grade() -> Support:
            spans = self.network.best(request.question, _pairs(passages))
            alike = [span for span in spans if f1(answer, [span.text]) >= ALIKE]
            return "supported" if alike and alike[0].probability >= SUPPORTED else "unsupported"

        return self._reply([*read_of(request), *(p.text for p in passages), answer], grade)

    def _answered(
        self, request: AnswerRequest, passages: Sequence[tuple[str, str]], others: Sequence[str]
    ) -> Reply[str]:
        """The likeliest span of passages (title and text) and other texts."""
        spans: list[ReaderSpan] = []

        def said() -> str:
            spans.extend(self.network.best(request.question, [*passages, *(("", text) for text in others)]))
            if not spans:
                raise Nothing("no passage to answer from")
            if spans[0].probability < LEAST:
                raise NoAnswer(f"the likeliest words are right with a probability below {LEAST}")
            return spans[0].text

        reply = self._reply([*read_of(request), *(text for _, text in passages), *others], said)
        if not spans:
            return reply
        best = spans[0]
        text = passages[best.passage][1] if best.passage < len(passages) else others[best.passage - len(passages)]
        # It learned to read English: of another text no words are worth showing.
        reads = (detected(text) or DEFAULT) == DEFAULT
        place = (best.passage, best.start, best.end) if reads and best.passage < len(passages) else (-1, -1, -1)
        certain = reads and best.probability >= self.network.certain
        return replace(reply, span=AnswerSpan(*place, best.probability, certain))


def _pairs(passages: Sequence[Passage]) -> list[tuple[str, str]]:
    return [(p.title, p.text) for p in passages]


def _sentence(span: ReaderSpan, passage: Passage) -> str:
    """The sentence of a span, after the title that says what it is about."""
    ends = sentence_ends(passage.text).tolist()
    # That of a span in the title is the first.
    sentences = ((end, passage.text[begin:end].strip()) for begin, end in pairwise([0, *ends]))
    sentence = next((text for end, text in sentences if text and end > span.start), "")
    return f"{passage.title}: {sentence}" if passage.title else sentence
