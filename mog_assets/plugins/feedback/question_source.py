"""Questions of the log of use, as a source of question sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mog_assets.questions.sources import QuestionSource, ReadSet
from mog_assets.registry import QUESTION_SOURCES

if TYPE_CHECKING:
    from mog_assets.config import QuestionSetSettings, Settings
    from mog_assets.questions.reading import QuestionReading


def _read(request: ReadSet) -> QuestionReading:
    from dataclasses import replace

    from mog_assets.plugins.feedback.use import log_path, use_records
    from mog_assets.questions.reading import located

    # What was asked without a passage that answered it neither trains nor measures.
    records = use_records(log_path(request.work.settings.home), unanswered=False)
    reading = located(records, request.documents(), request.texts, request.parts)
    reading.questions = [replace(question, origin="use") for question in reading.questions]
    return reading


def _state(settings: Settings, question_set: QuestionSetSettings) -> object:
    from mog_assets.plugins.feedback.use import log_path, state

    return state(log_path(settings.home), unanswered=False)


# What people used is what a ranking showed them: it would measure that ranking as better than it is. It is deleted with
# the log of use.
QUESTION_SOURCES.register("use", QuestionSource(_read, _state, "use", tests=False, private=True))
