"""The source `generated` of question sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mog_assets.plugins.generated_questions.settings import KEY, SOURCE
from mog_assets.questions.sources import QuestionSource, ReadSet
from mog_assets.registry import QUESTION_SOURCES

if TYPE_CHECKING:
    from mog_assets.questions.reading import QuestionReading
    from mog_assets.questions.sets import Question

_EXAMPLE = """\
# Or let a language model (see `llm` below) write questions from your documents:
# generation: {documents: 200, per_document: 3}
# question_sets: {made: {source: generated, corpora: [CORPORA]}}
"""


def _read(request: ReadSet) -> QuestionReading:
    """Read questions made from the documents of some corpora."""
    from mog_assets.questions.reading import QuestionReading
    from mog_assets.questions.sets import divided, load_questions

    questions: list[Question] = []
    for corpus in request.settings.corpora:
        stored = request.work.input(KEY, corpus)
        for name in stored.names("bucket"):
            questions += load_questions(stored.path(name))
    reading = QuestionReading(divided(questions, request.parts))
    reading.divided = len(reading.questions)
    reading.splits = Counter(question.split for question in reading.questions)
    reading.reports = [
        {
            "id": q.id,
            "level": q.level,
            "found": "offsets",
            "places": len(q.evidence),
            "score": 1.0,
            "not found": "",
        }
        for q in reading.questions
    ]
    return reading


def _copies(texts: Sequence[str], others: Sequence[str]) -> list[bool]:
    from mog_assets.plugins.generated_questions.likeness import near_copies

    return near_copies(texts, others)


_SOURCE = QuestionSource(_read, origin="generated", assets=(KEY,), copies=_copies, example=_EXAMPLE)
QUESTION_SOURCES.register(SOURCE, _SOURCE)
