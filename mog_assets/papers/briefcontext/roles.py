"""What BriefContext asks readers for: extractions of documents, and an answer from them (section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from mog_assets.answer.extractive import Extractive, query_of, read_of, statements_of, texts_of
from mog_assets.answer.neural import LEAST, Neural, pairs_of
from mog_assets.answer.prompted import documents, numbered
from mog_assets.answer.replies import Unparsable, complete_text
from mog_assets.answer.roles import AnswerRequest, Reply, RetrievedPassage, Role
from mog_assets.text.cuts import sentence_ends

if TYPE_CHECKING:
    from mog_assets.answer.reader.spans import ReaderSpan

# The reply of extraction if the documents have nothing relevant (ContextMap).
NOTHING = "no relevant information"
# Cosine of all-MiniLM-L6-v2: above for a question and a sentence that answers it, below .2 for a random pair.
RELEVANT = 0.35


def extraction(text: str) -> str:
    """Return the extracted text; empty if the output says that there is none.

    Raises:
        Unparsable: see `complete_text`; or the output says that there is none, and something else.
    """
    value = complete_text(text)
    lines = [line.strip("\"'`.* \n").casefold() for line in value.splitlines() if line.strip()]
    if NOTHING not in lines:
        return value
    if any(line != NOTHING for line in lines):
        raise Unparsable(f"expected relevant text, or {NOTHING!r} alone, got both")
    return ""


def _extracted(reader: Extractive, request: AnswerRequest, passages: Sequence[RetrievedPassage]) -> Reply[str]:
    """Return sentences, one per line, whose cosine with the question (and an option) is at least `RELEVANT`."""

    def relevant() -> str:
        sentences = reader.sentences(query_of(request), texts_of(passages))
        if not sentences.texts:
            return ""
        cosines = np.max([reader.cosines(text, sentences) for text in statements_of(request)], axis=0)
        return "\n".join(text for text, cosine in zip(sentences.texts, cosines, strict=True) if cosine >= RELEVANT)

    return reader.reply([*read_of(request), *texts_of(passages)], relevant, NOTHING)


def _extracted_by_spans(reader: Neural, request: AnswerRequest, passages: Sequence[RetrievedPassage]) -> Reply[str]:
    """Return sentences, one per line, of the spans that are right with a probability of at least `LEAST`."""

    def relevant() -> str:
        spans = reader.network.best(request.question, pairs_of(passages))
        sentences = (sentence_of(s, passages[s.passage]) for s in spans if s.probability >= LEAST)
        return "\n".join(dict.fromkeys(sentences))

    return reader.reply([*read_of(request), *texts_of(passages)], relevant, NOTHING)


def sentence_of(span: ReaderSpan, passage: RetrievedPassage) -> str:
    """Return the sentence of a span, after the title that says what it is about."""
    ends = sentence_ends(passage.text).tolist()
    # That of a span in the title is the first.
    sentences = ((end, passage.text[begin:end].strip()) for begin, end in pairwise([0, *ends]))
    sentence = next((text for end, text in sentences if text and end > span.start), "")
    return f"{passage.title}: {sentence}" if passage.title else sentence


# The parts of the passages relevant to the question; empty if there are none.
EXTRACT = Role(
    name="extract",
    package=__package__,
    prompt="extract",
    pieces=lambda request, passages: {"documents": documents(passages)},
    rules=_extracted,
    spans=_extracted_by_spans,
    parse=extraction,
    words={"nothing": NOTHING},
    step=("extract", "text", "Found in the passages"),
)
# An answer from extractions in order; there may be none.
REDUCE: Role[str] = Role(
    name="reduce",
    package=__package__,
    prompt="reduce",
    pieces=lambda request, extractions: {"extractions": numbered("extraction", extractions)},
    rules=lambda reader, request, extractions: reader.answer(request, (), extractions),
    spans=lambda reader, request, extractions: reader.answer(
        request, (), [line for text in extractions for line in text.splitlines()]
    ),
)
