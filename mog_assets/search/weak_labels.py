"""Evidence to train on: known places, else relevant documents, else good passages that hold the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import Question
from mog_assets.search.candidates import Candidates, ordered
from mog_assets.search.controls import pieces

# An answer is looked for in so many of the best candidates by `fused`.
FIRST = 10
# Of the candidates in relevant documents, so many of the best by `fused` are taken where no answer tells them apart.
BEST = 3
# Words of an answer that a passage holds word for word; of a longer one, its words count wherever they stand.
SHORT = 6
# Share of a longer answer's words that a passage needs.
SHARE = 0.5
# Answers that say nothing about the passage they come from.
_EMPTY = frozenset({"yes", "no", "maybe", "true", "false", "none"})
_WORD = re.compile(r"\w+")

Spans = list[tuple[int, int, int]]
"""Position of a document, start and end."""


def measured(questions: Sequence[Question], corpora: Corpora) -> list[Spans]:
    """Return evidence of questions for measuring: their places, or whole relevant documents.

    Where only answers are known, there is none.

    Args:
        questions: The questions.
        corpora: The corpora of the question set.
    """
    layout, position = corpora.layout, corpora.position
    spans_of: list[Spans] = []
    for question in questions:
        spans: Spans = [(position[corpus, doc], start, end) for corpus, doc, start, end in pieces(question)]
        for document in [] if question.evidence else _relevant(question, corpora):
            first, last = layout.offsets[document : document + 2]
            if first < last:
                spans.append((document, 0, int(layout.spans[last - 1, 1])))
        spans_of.append(spans)
    return spans_of


def taught(questions: Sequence[Question], candidates: Candidates, scores: np.ndarray, corpora: Corpora) -> list[Spans]:
    """Return evidence of questions for training: their places, or a guess at them.

    In relevant documents, the passages that hold the answer; without one, the best by the scores. Where only the
    answer is known, the passages among the best by the scores that hold it. benchmarks/weak.py compares them.

    Args:
        questions: The questions.
        candidates: Their candidates.
        scores: Of the candidates, by `fused`.
        corpora: The corpora of the question set.

    Returns:
        A list per question; empty if nothing is known or no passage holds the answer.
    """
    layout, position = corpora.layout, corpora.position
    order, begins = ordered(candidates, scores), candidates.offsets
    documents = layout.document_of[candidates.piece]
    spans_of: list[Spans] = []
    guessed: dict[int, np.ndarray] = {}
    for number, question in enumerate(questions):
        spans_of.append([(position[corpus, doc], start, end) for corpus, doc, start, end in pieces(question)])
        rows = order[begins[number] : begins[number + 1]]
        if question.level == "documents":
            guessed[number] = rows[np.isin(documents[rows], _relevant(question, corpora))]
        elif question.level == "answer" and texts_of_answer(question):
            guessed[number] = rows[:FIRST]
    every = np.unique(candidates.piece[np.concatenate([np.zeros(0, np.int64), *guessed.values()])])
    texts = corpora.texts(layout.document_of[every].tolist())
    places_of = {
        piece: (document, start, end)
        for piece, document, (start, end) in zip(
            every.tolist(), layout.document_of[every].tolist(), layout.spans[every].tolist(), strict=True
        )
    }
    words = {piece: _words(texts[document][1][start:end]) for piece, (document, start, end) in places_of.items()}
    for number, rows in guessed.items():
        answers = texts_of_answer(questions[number])
        passages = candidates.piece[rows].tolist()
        shares = {piece: _share(answers, words[piece]) for piece in passages}
        best = max(shares.values(), default=0.0)
        if best > 0:
            passages = [piece for piece in passages if shares[piece] == best]
        elif questions[number].level == "documents":
            passages = passages[:BEST]
        else:
            passages = []
        spans_of[number] = [places_of[piece] for piece in passages]
    return spans_of


def _relevant(question: Question, corpora: Corpora) -> list[int]:
    """Return positions of the relevant documents of a question."""
    return [corpora.position[document] for document, grade in question.grades.items() if grade > 0]


def texts_of_answer(question: Question) -> list[str]:
    """Return the texts that a passage with the answer may hold; none if they say nothing, such as `yes`."""
    letter = question.options.get(question.answer)
    texts = [letter or question.answer, *question.aliases]
    useful = [text for text in texts if _words(text) and text.strip().casefold() not in _EMPTY]
    return useful or ([question.long_answer] if _words(question.long_answer) else [])


def _share(answers: Sequence[str], words: Sequence[str]) -> float:
    """Return how much of the best of some answers a passage holds, 0 … 1."""
    text, present, best = f" {' '.join(words)} ", set(words), 0.0
    for answer in answers:
        terms = _words(answer)
        if len(terms) <= SHORT:
            best = max(best, float(f" {' '.join(terms)} " in text))
        else:
            share = len(present & set(terms)) / len(set(terms))
            best = max(best, share if share >= SHARE else 0.0)
    return best


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
