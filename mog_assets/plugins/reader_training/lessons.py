"""What the reader learns from: answers where they stand in the evidence, and passages that only look right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from mog_assets.answer.reader.windows import ReaderTokenizer
from mog_assets.plugins.reader_training.examples import Lesson, TokenisedDocument
from mog_assets.questions.sets import Question
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.weak_labels import measured

# The ranking whose passages mislead: it needs no training.
FOUND_BY = "fused"
# Passages without the answer that a question is shown, of so many that are found first.
MISLEADING, FIRST = 10, 30
# Characters before and after the start of a passage that a window may show, with room to spare.
_BEFORE, _AFTER = 480, 1500
# Answers that are no words of a passage.
_CLOSED = frozenset({"yes", "no", "maybe", "true", "false", "none"})

Texts = Mapping[int, tuple[str, str]]


def teaches(question: Question) -> bool:
    """Return whether a span of a passage can answer a question, and it is known which."""
    answer = (question.answer or "").strip()
    return bool(answer) and not question.options and answer.lower() not in _CLOSED and question.level != "answer"


def answers(question: Question) -> list[str]:
    """Return the ways to say the answer of a question."""
    return [text.strip() for text in (question.answer, *question.aliases) if text and text.strip()]


def places(question: Question, spans: Sequence[tuple[int, int, int]], texts: Texts) -> list[tuple[int, int, int]]:
    """Return where the answer stands in the evidence: its first place in every span that has it.

    Args:
        question: The question.
        spans: (document, start, end) of its evidence.
        texts: Title and text, by document.
    """
    lessons = []
    for document, start, end in spans:
        for answer in answers(question):
            # No part of a longer word or number.
            pattern = re.compile(rf"(?<!\w){re.escape(answer)}(?!\w)", re.IGNORECASE)
            if match := pattern.search(texts[document][1], start, end):
                lessons.append((document, *match.span()))
                break
    return lessons


def lessons(
    questions: Sequence[Question], retrieval: Retrieval, words: ReaderTokenizer
) -> tuple[dict[int, TokenisedDocument], list[Lesson | None]]:
    """Return documents by position, and what each question teaches; None if its answer does not stand in its evidence.

    Args:
        questions: That teach something.
        retrieval: The same questions over their corpora.
        words: The tokenizer.
    """
    evidence = measured(questions, retrieval.corpora)
    passages = retrieval.rank(parse(FOUND_BY, retrieval.corpora.settings), FIRST)
    passages = passages.at(passages.rank < FIRST)
    used = {document for spans in evidence for document, _, _ in spans} | set(passages.document.tolist())
    texts = retrieval.corpora.texts(sorted(used))
    first = np.searchsorted(passages.question, np.arange(len(questions) + 1))
    documents, taught = dict[int, TokenisedDocument](), list[Lesson | None]()
    tokens_of = words([q.question for q in questions])
    for number, (question, spans) in enumerate(zip(questions, evidence, strict=True)):
        stand = places(question, spans, texts)
        rows_of = slice(int(first[number]), int(first[number + 1]))
        misleading = without(question, passages.document[rows_of].tolist(), passages.start[rows_of].tolist(), texts)
        taught.append(Lesson(tokens_of[number], stand, misleading) if stand else None)
        for document in {d for d, *_ in (*stand, *misleading)} - documents.keys() if stand else ():
            documents[document] = TokenisedDocument.of(words, *texts[document])
    return documents, taught


def without(question: Question, documents: Sequence[int], starts: Sequence[int], texts: Texts) -> list[tuple[int, int]]:
    """Return the first passages around which the answer does not stand: (document, start)."""
    answers_of = [text.lower() for text in answers(question)]
    places: list[tuple[int, int]] = []
    for document, start in zip(documents, starts, strict=True):
        around = texts[document][1][max(start - _BEFORE, 0) : start + _AFTER].lower()
        if not any(text in around for text in answers_of) and len(places) < MISLEADING:
            places.append((document, start))
    return places
