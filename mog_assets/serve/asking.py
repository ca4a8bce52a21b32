"""Answer a question of an open project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mog_assets.answer import replies, roles
from mog_assets.answer.ask import answer
from mog_assets.answer.neural import MARKED
from mog_assets.answer.notation import Combination, check_combination, combination, combinations
from mog_assets.answer.reader.calibration import sentence_at
from mog_assets.answer.rows import AnswerRow
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.questions.sets import Question
from mog_assets.search.methods import AUTO, ungrouped
from mog_assets.search.retrieval import Retrieval
from mog_assets.serve import reading
from mog_assets.serve.reading import Sight
from mog_assets.serve.results import Answer, Likeliest, Passage

# Why an answer is not shown that is probably wrong.
UNCERTAIN = "nothing in the passages is certain enough"


def way(method: str | None, settings: Settings) -> Combination:
    """Return the way of answering of a name; by default the first of the settings that retrieves."""
    if method:
        how = combination(method, settings)
        check_combination("method", how, settings)
        return how
    return next((how for how in combinations(settings) if how.retrieval), None) or combination("one-step", settings)


def ask(
    tools: Tools,
    retrieval: Retrieval,
    sight: Sight,
    how: Combination,
    question: tuple[str, str],
    options: Mapping[str, str],
    on_event: Callable[[str, dict[str, Any]], object] | None,
    version: str,
) -> Answer:
    """Answer a question, given as it was asked and as one that stands alone; see `Project.ask`."""
    is_prompted = tools.settings.answering.reader == "openai"
    # Rules only put words before a question, which tell a reader nothing: it reads the question as it was asked.
    spelled, alone = question[1] if is_prompted else question[0], question[1]
    request = roles.AnswerRequest.of(Question("question", spelled, "open", "test", options=dict(options)))

    def tell(step: str, what: dict[str, Any]) -> None:
        if step == "passages":
            passages = reading.with_documents(retrieval, what["passages"], sight)
            what = {**what, "passages": [passage.to_json() for passage in passages]}
        if what.get("certain") is False:
            what = {**what, "text": None, "failure": UNCERTAIN}
        on_event and on_event(step, what)

    (row,) = answer(tools, retrieval, how, [request], tell if on_event else None, {spelled: alone})
    auto = weights = None
    if how.retrieval is not None:
        auto = retrieval.chosen[0].name if how.retrieval.kind == AUTO else None
        # Nothing was weighed if the way of answering did not retrieve.
        if row.passages and not how.retrieval.ranking:
            (weights,) = how.retrieval.of.weights(retrieval.with_queries([alone]), how.retrieval)
    passages = reading.with_documents(retrieval, row.passages, sight)
    likeliest = _likeliest(retrieval, passages, row.span)
    certain = row.span is None or row.span.certain
    return Answer(
        alone,
        row.answer if certain else None,
        row.failure.removeprefix("answer: ") if certain else UNCERTAIN,
        how.name,
        row.reader,
        passages,
        version,
        _cited(row, passages, likeliest),
        row.span.probability if row.span else None,
        likeliest,
        auto,
        weights,
        tools.llm.parameters.describe() if is_prompted else None,
        _details(row, sight),
    )


def _cited(row: AnswerRow, read: Sequence[Passage], best: Likeliest | None) -> list[int]:
    """Return numbers, from 1, of the passages that an answer rests on; empty if it is not known."""
    if row.span is not None:
        return [row.span.passage + 1] if best else []
    return replies.cited(row.raw, len(read)) if row.answer is not None else []


def _likeliest(retrieval: Retrieval, read: Sequence[Passage], span: roles.AnswerSpan | None) -> Likeliest | None:
    """Return the sentence of an answer, if it is likely enough."""
    if span is None or span.start < 0 or span.probability < MARKED:
        return None
    passage, at = read[span.passage], 0
    positions = [retrieval.corpora.position[part.corpus, part.document] for part in passage.spans]
    texts = retrieval.corpora.texts(set(positions))
    for part, position in zip(passage.spans, positions, strict=True):
        # Between the spans of a passage stand a gap, and a title if another document begins.
        piece = texts[position][1][part.start : part.end]
        at = passage.text.index(piece, at)
        low, high = span.start - at, span.end - at
        if low >= 0 and high <= len(piece):
            start, end = sentence_at(piece, low)
            # What looks like the end of a sentence may stand in an answer.
            places = (part.start + place for place in (start, max(end, high), low, high))
            return Likeliest(piece[start : max(end, high)], part.corpus, part.document, *places)
        at += len(piece)
    return None


def _details(row: AnswerRow, sight: Sight) -> dict[str, Any]:
    left_out = ("question", "answer", "failure", "method", "reader", "passages")
    details = {key: value for key, value in row.to_json().items() if key not in left_out}
    if not sight.is_complete:
        # Groups are called by the words of all documents.
        unknown = {name: value for name, value in ungrouped().items() if name != "fallback"}
        details["queries"] = [{**query, **unknown} for query in row.queries]
    return details
