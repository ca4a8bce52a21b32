"""What AT-RAG asks readers for: thoughts, grades and better queries (section 3.2); and Adaptive-RAG: a way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np

from mog_assets.answer import replies
from mog_assets.answer.extractive import Extractive, Nothing, content_words, read_of, share, terms_in, texts_of
from mog_assets.answer.neural import Neural, pairs_of
from mog_assets.answer.prompted import QUERY, documents, numbered
from mog_assets.answer.prompting import Piece
from mog_assets.answer.replies import Unparsable, complete_text, only, shown
from mog_assets.answer.roles import AnswerRequest, Reply, RetrievedPassage, Role
from mog_assets.papers.briefcontext.roles import RELEVANT, sentence_of
from mog_assets.questions.marks import f1
from mog_assets.resources.chat import AnswerForm
from mog_assets.text.languages import of_texts
from mog_assets.text.terms import terms_of

Usefulness = Literal["useful", "not_useful"]
Support = Literal["supported", "unsupported"]
Route = Literal["none", "single", "iterative"]
USEFULNESS: tuple[Usefulness, ...] = ("useful", "not_useful")
SUPPORT: tuple[Support, ...] = ("supported", "unsupported")
ROUTES: tuple[Route, ...] = ("none", "single", "iterative")

V = TypeVar("V", bound=str)

# Cosine of question and answer, see `RELEVANT`.
USEFUL = 0.2
# Share of the words of an open answer that the documents must contain.
SUPPORTED = 0.6
NEW_TERMS = 5
# Probability from which passages support an answer, and share of its words that the span must have. On the collections
# of benchmarks/withholding.py half of the answers above it are right, and 97 % of the contexts without one have none.
PROBABLE, SIMILAR = 0.3, 0.5

_CLAUSE = re.compile(r"(?<=\w )(?:who|whom|whose|which|that|where|when)\b", re.IGNORECASE)
_OF_THE = re.compile(r"\b(?:of|by|in|from) (?:the|an?) \w+", re.IGNORECASE)
_BOTH = re.compile(
    r"\b(?:both|compared? (?:to|with)|difference between|earlier|older|larger|same .* as)\b", re.IGNORECASE
)


def answer_piece(request: AnswerRequest, answer: str) -> list[Piece]:
    """Return an answer as data: a letter with the text of its option."""
    spelled = request.spelled(answer)
    return [("answer", spelled if spelled == answer else f"{answer}. {spelled}")]


def verdict(text: str, vocabulary: Sequence[V]) -> V:
    """Return the word `verdict` of the only object: one of the vocabulary, in upper or lower case, and nothing else.

    Raises:
        Unparsable: anything else.
    """
    value = only(text, "verdict")
    for word in vocabulary:
        if isinstance(value, str) and value.strip().lower() == word:
            return word
    raise Unparsable(f"expected verdict, one of {', '.join(vocabulary)}, got {shown(str(value))}")


def _thought(
    reader: Extractive,
    request: AnswerRequest,
    query: str,
    passages: Sequence[RetrievedPassage],
    thoughts: Sequence[str] = (),
) -> Reply[str]:
    """Return the sentence of the passages that is closest to the query and not a thought already."""

    def best() -> str:
        sentences = reader.sentences(query, texts_of(passages))
        for i in np.argsort(-reader.cosines(query, sentences), kind="stable"):
            if sentences.texts[i] not in thoughts:
                return sentences.texts[i]
        raise Nothing("no sentence that is not a thought already")

    return reader.reply([*read_of(request), query, *texts_of(passages), *thoughts], best)


def _thought_by_spans(
    reader: Neural,
    request: AnswerRequest,
    query: str,
    passages: Sequence[RetrievedPassage],
    thoughts: Sequence[str] = (),
) -> Reply[str]:
    """Return the sentence of the span that is right with the highest probability and is not in a thought already."""

    def best() -> str:
        for span in reader.network.best(request.question, pairs_of(passages)):
            if (sentence := sentence_of(span, passages[span.passage])) not in thoughts:
                return sentence
        raise Nothing("no sentence that is not a thought already")

    return reader.reply([*read_of(request), query, *texts_of(passages), *thoughts], best)


def _useful(reader: Extractive, request: AnswerRequest, answer: str) -> Reply[Usefulness]:
    """Return useful if the cosine with the question is at least `USEFUL`; an option of yes/no/maybe always is."""

    def grade() -> Usefulness:
        if request.kind == "yesno":
            return "useful" if answer in request.options else "not_useful"
        question, answer_vector = reader.vectors([request.question, request.spelled(answer)])
        return "useful" if float(question @ answer_vector) >= USEFUL else "not_useful"

    return reader.reply([*read_of(request), answer], grade)


def _useful_by_spans(reader: Neural, request: AnswerRequest, answer: str) -> Reply[Usefulness]:
    """Find an open question's span useful: whether it is right, the passages decide."""
    return reader.reply([*read_of(request), answer], lambda: "useful" if answer.strip() else "not_useful")


def _supported(
    reader: Extractive, request: AnswerRequest, passages: Sequence[RetrievedPassage], answer: str
) -> Reply[Support]:
    """Return supported if the documents contain the share `SUPPORTED` of the answer's terms.

    For a yes/no question, supported if a sentence has a cosine of at least `RELEVANT` with the question.
    """

    def grade() -> Support:
        sentences = reader.sentences(f"{request.question} {request.spelled(answer)}", texts_of(passages))
        if not sentences.texts:
            return "unsupported"
        if request.kind == "yesno":
            return "supported" if reader.cosines(request.question, sentences).max() >= RELEVANT else "unsupported"
        terms_there = set[str]().union(*map(set, terms_of(texts_of(passages), sentences.language)))
        terms = terms_in(request.spelled(answer), sentences.language)
        return "supported" if share(terms, terms_there) >= SUPPORTED else "unsupported"

    return reader.reply([*read_of(request), *texts_of(passages), answer], grade)


def _supported_by_spans(
    reader: Neural, request: AnswerRequest, passages: Sequence[RetrievedPassage], answer: str
) -> Reply[Support]:
    """Return supported if a span with the words of the answer is right with a probability of at least `PROBABLE`."""

    def grade() -> Support:
        spans = reader.network.best(request.question, pairs_of(passages))
        similar = [span for span in spans if f1(answer, [span.text]) >= SIMILAR]
        return "supported" if similar and similar[0].probability >= PROBABLE else "unsupported"

    return reader.reply([*read_of(request), *texts_of(passages), answer], grade)


def _rewritten(
    reader: Extractive, request: AnswerRequest, query: str, answer: str, thoughts: Sequence[str]
) -> Reply[str]:
    """Give pseudo-relevance feedback (Rocchio, unweighted): the query and frequent new terms of answer and thoughts.

    Adds at most `NEW_TERMS` words that the query does not have in any form, the most frequent first, then in order
    of occurrence.
    """

    def expanded() -> str:
        texts = (request.spelled(answer), *thoughts)
        language = of_texts(texts)
        words = [word for text in texts for word in content_words(text)]
        rows = terms_of(words, language)
        stems = [row[0] if row and word.isalnum() else "" for word, row in zip(words, rows, strict=True)]
        terms_known = terms_in(query, language) | {""}
        first: dict[str, str] = {}
        for stem, word in zip(stems, words, strict=True):
            if stem not in terms_known:
                first.setdefault(stem, word)
        counts = Counter(stem for stem in stems if stem in first)
        new = [first[stem] for stem, _ in counts.most_common(NEW_TERMS)]
        if not new:
            raise Nothing("answer and thoughts have no term that the query does not have")
        return " ".join([query, *new])

    return reader.reply([*read_of(request), query, answer, *thoughts], expanded)


def _routed(reader: Extractive, request: AnswerRequest) -> Reply[Route]:
    """Decide by the form of the question.

    None: it has no search terms. Iterative: two or more steps, counted as relative clauses, chains of "of the …",
    and comparisons. Single: everything else.
    """

    def route() -> Route:
        if not terms_in(request.question, of_texts([request.question])):
            return "none"
        last = re.split(r"(?<=[.!?])\s+", request.question.strip())[-1]
        steps = len(_CLAUSE.findall(last)) + len(_OF_THE.findall(last)) + len(_BOTH.findall(last))
        return "iterative" if steps >= 2 else "single"

    return reader.reply(read_of(request), route)


def _verdict_in(vocabulary: Sequence[V]) -> dict[str, Any]:
    """Return the form of a verdict, and what reads it."""
    form = AnswerForm("verdict", {"verdict": {"type": "string", "enum": list(vocabulary)}})
    return {"form": form, "parse": partial(verdict, vocabulary=vocabulary)}


# A reasoning step from the passages of a query.
THINK: Role[str] = Role(
    name="think",
    package=__package__,
    prompt="think",
    pieces=lambda request, query, passages, thoughts=(): {
        "query": [("search query", query)],
        "documents": documents(passages),
        "thoughts": numbered("thought", thoughts),
    },
    rules=_thought,
    spans=_thought_by_spans,
    parse=complete_text,
    step=("thought", "text", "Thought"),
)
# Whether an answer resolves the question.
GRADE_USEFULNESS: Role[Usefulness] = Role(
    name="grade_usefulness",
    package=__package__,
    prompt="usefulness",
    pieces=lambda request, answer: {"answer": answer_piece(request, answer)},
    rules=_useful,
    spans=_useful_by_spans,
    **_verdict_in(USEFULNESS),
    step=("grade", "verdict", "Graded for usefulness"),
)
# Whether the passages support an answer.
GRADE_SUPPORT: Role[Support] = Role(
    name="grade_support",
    package=__package__,
    prompt="support",
    pieces=lambda request, passages, answer: {
        "documents": documents(passages),
        "answer": answer_piece(request, answer),
    },
    rules=_supported,
    spans=_supported_by_spans,
    **_verdict_in(SUPPORT),
    step=("grade", "verdict", "Graded for support"),
)
# A better query.
REWRITE: Role[str] = Role(
    name="rewrite",
    package=__package__,
    prompt="rewrite",
    pieces=lambda request, query, answer, thoughts: {
        "query": [("search query", query)],
        "answer": answer_piece(request, answer),
        "thoughts": numbered("thought", thoughts),
    },
    rules=_rewritten,
    parse=replies.query,
    form=QUERY,
    step=("rewrite", "query", "Asked in other words"),
)
# How much retrieval a question needs (Adaptive-RAG).
CLASSIFY: Role[Route] = Role(
    name="classify",
    package=__package__,
    prompt="classify",
    pieces=lambda request: {},
    rules=_routed,
    **_verdict_in(ROUTES),
    step=("route", "route", "Way chosen"),
)
