"""What a built project gives its callers: passages, answers, documents, corpora. All are plain values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlencode

from mog_assets.documents.formats.marks import Mark
from mog_assets.registry import LIMITS


class JsonResult:
    """A value that callers can have as JSON."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {each.name: _json(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]


def _json(value: Any) -> Any:
    if isinstance(value, JsonResult):
        return value.to_json()
    if isinstance(value, Mark):
        return value._asdict()
    return [_json(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Span(JsonResult):
    """A piece of a document's text.

    Attributes:
        corpus: Name of the corpus.
        document: Id of the document.
        start, end: Offsets in its text, in characters.
    """

    corpus: str
    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Passage(JsonResult):
    """A passage, in the order of its rank.

    Attributes:
        text: Its text; if it has several spans, those of all, in order.
        title: Title of the document of its first span.
        corpus, document: Its corpus and the id of its document.
        spans: Where it stands.
        page: Page or slide that it begins on, from 1; None if the document has none.
        headings: The headings that it stands under, outermost first.
        source: Path of the file below the folder of the corpus; None if the document is a line or a row of a file.
        metadata: Of the document, as JSON values.
        score: By the method that ranked it; higher is better, scores of different methods are not comparable. None
            for the passages of an answer, which may come from several rounds.
        level: The finest level whose chunks have as many pieces; another granularity for methods that have their own.
        explanation: What raised its score most, in words; empty unless asked for.

    Example:
        f"{passage.corpus}/{passage.document} {passage.start}-{passage.end}, page {passage.page}: {passage.text}"
    """

    text: str
    title: str
    corpus: str
    document: str
    spans: tuple[Span, ...]
    page: int | None
    headings: tuple[str, ...]
    source: str | None
    metadata: dict[str, Any]
    score: float | None
    level: int | None
    explanation: str = ""

    @property
    def start(self) -> int:
        """First character in the document."""
        return self.spans[0].start

    @property
    def end(self) -> int:
        """One after the last character of the first span."""
        return self.spans[0].end

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**JsonResult.to_json(self), "start": self.start, "end": self.end}


@dataclass(frozen=True, slots=True)
class SearchResult(JsonResult):
    """The passages for a question.

    Attributes:
        question: The question.
        passages: Best first.
        method: Canonical name of the method that ranked them.
        method_reason: Why it was chosen, if the method was `auto`; else empty.
        empty_reason: Why there is no passage; empty if there is one.
        version: Of the artefacts that were searched: changes when a run has moved one of them.
        corrections: Words that no document has, with the word that was searched for instead.
        weights: Weight of each granularity by name, if the method weighs them; with `explain`, the share of each
            retriever and level in the weight of all, if the ranking weighs them (`mix` does not).
        details: What limits the question, by the name of a group, which is also a key of `to_json`: its number, label
            and probability, and whether passages of all groups were used instead; empty if the method has no limit.

    Example:
        result = project.search("How deep should garlic be planted?", budget=1000)
        texts = [passage.text for passage in result.passages] or [result.empty_reason]
    """

    question: str
    passages: list[Passage]
    method: str
    method_reason: str
    empty_reason: str
    version: str
    corrections: dict[str, str] = field(default_factory=dict)
    weights: dict[str, float] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        content = JsonResult.to_json(self)
        del content["details"]
        content |= {name: content.pop(name) for name in ("passages", "weights")}
        return content | {limit.group: self.details.get(limit.group) for limit in LIMITS.values()}


@dataclass(frozen=True, slots=True)
class Likeliest(JsonResult):
    """The sentence that most likely has the answer.

    Attributes:
        sentence: Its text.
        corpus, document: Its corpus and the id of its document.
        start, end: Offsets of the sentence in the document's text, in characters.
        answer_start, answer_end: Those of the words in it that the reader took for the answer.
    """

    sentence: str
    corpus: str
    document: str
    start: int
    end: int
    answer_start: int
    answer_end: int


@dataclass(frozen=True, slots=True)
class Answer(JsonResult):
    """An answer with what it is based on.

    Attributes:
        question: The question; a follow-up as one that stands alone.
        answer: The answer, or the letter of an option; None if there is none, or none that is probably right.
        failure: Why there is no answer; empty if there is one.
        method: Canonical name of the way of answering.
        reader: Name and version of what read the passages.
        passages: What the answer is based on, best first.
        version: See `SearchResult`.
        cited: Numbers, from 1, of the passages that the answer rests on: the one in which it stands, or those that a
            language model names; empty if it is not known.
        probability: That the likeliest answer is right, in [0, 1], whether it is shown or not; None if the reader gives
            none.
        likeliest: The sentence in which it stands; None if it stands in no passage.
        auto: The retrieval method that `auto` stood for; None if the way of answering names its own.
        weights: See `SearchResult`, for the original question.
        parameters: Parameters sent to the language model with the messages; None if no language model was used.
        details: Rounds, queries, calls, tokens and cost: the fields of `answer.rows.AnswerRow`, and what the way of
            answering tells besides.

    Example:
        answer = project.ask("When is garlic harvested?")
        print(answer.answer or answer.failure, [answer.passages[number - 1].title for number in answer.cited])
    """

    question: str
    answer: str | None
    failure: str
    method: str
    reader: str
    passages: list[Passage]
    version: str
    cited: list[int] = field(default_factory=list)
    probability: float | None = None
    likeliest: Likeliest | None = None
    auto: str | None = None
    weights: dict[str, float] | None = None
    parameters: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document(JsonResult):
    """A document as it is searched.

    Attributes:
        corpus, id, title, text: What they are called.
        marks: Its pages, slides and headings, in order.
        source: See `Passage`.
        metadata: As JSON values.
        version: See `SearchResult`.

    Example:
        document = project.document(passage.corpus, passage.document)
        document.text[passage.start : passage.end]  # the text of a passage of one span
    """

    corpus: str
    id: str
    title: str
    text: str
    marks: tuple[Mark, ...]
    source: str | None
    metadata: dict[str, Any]
    version: str


@dataclass(frozen=True, slots=True)
class CorpusInfo(JsonResult):
    """A corpus that is searched.

    Attributes:
        name: Its name.
        documents: Number of documents.
        characters: Of all their texts.
        pieces: Number of level-1 chunks.
        fields: What `where` can name in it.
        languages: Documents by language, most first.

    Example:
        {corpus.name: corpus.documents for corpus in project.corpora}
    """

    name: str
    documents: int
    characters: int
    pieces: int
    fields: tuple[str, ...]
    languages: dict[str, int]


def page_of(base: str, corpus: str, doc: str, places: str = "") -> str:
    """Return the page of a document."""
    return f"{base}/document?{urlencode({'corpus': corpus, 'id': doc})}{places}"
