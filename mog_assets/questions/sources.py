"""Where the questions of a question set come from: a file, or another source."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mog_assets.registry import QUESTION_SOURCES
from mog_assets.resources.errors import MogError

if TYPE_CHECKING:
    from mog_assets.build.recipe import Work
    from mog_assets.config import QuestionSetSettings, Settings
    from mog_assets.questions.reading import Documents, QuestionReading, Texts

Origin = Literal["given", "use", "generated"]
"""People who wrote them down or asked them; or a language model."""


@dataclass(frozen=True)
class ReadSet:
    """A question set that is read.

    Attributes:
        work: Of the asset `questions`.
        name: Of the question set.
        settings: Of the question set.
        documents: Gives what is known of the documents of its corpora.
        texts: Gives their texts.
        parts: The splits that questions without one are divided between.
    """

    work: Work
    name: str
    settings: QuestionSetSettings
    documents: Callable[[], Documents]
    texts: Texts
    parts: list[str]


def _no_state(settings: Settings, question_set: QuestionSetSettings) -> object:
    return None


@dataclass(frozen=True)
class QuestionSource:
    """A source of questions, whose name is the `source` of a question set.

    Attributes:
        read: Reads the questions of a set.
        state: Gives a value that changes with what is read outside the store.
        origin: Who made the questions.
        tests: Whether they are divided between training and test, if the set names no splits; else they only train.
        private: Whether no text of them may stay in Dagster's records.
        assets: Keys of those of each corpus that it reads, beside `documents`.
        example: Lines of a new `mog.yaml` that show how it is used; CORPORA stands for the names of all corpora.
    """

    read: Callable[[ReadSet], QuestionReading]
    state: Callable[[Settings, QuestionSetSettings], object] = _no_state
    origin: Origin = "given"
    tests: bool = True
    private: bool = False
    assets: tuple[str, ...] = ()
    example: str = ""


def _of_file(asked: ReadSet) -> QuestionReading:
    from mog_assets.questions.formats import used_columns
    from mog_assets.questions.reading import read_questions
    from mog_assets.questions.splits import check_splits

    name, question_set = asked.name, asked.settings
    path, documents = question_set.path, asked.documents()
    assert path is not None
    try:
        columns = used_columns(path, question_set.columns)
        if columns.used:
            asked.work.shown[f"{name}: columns"] = str(columns)
        reading = read_questions(path, documents, asked.texts, question_set.columns, asked.parts)
    except MogError as error:
        raise MogError(f"question_sets.{name}.path: {error}") from error
    # What was divided has the splits that it was divided into.
    for use in ("train", "test") if reading.splits and not (reading.divided or reading.problems) else ():
        check_splits(f"question_sets.{name}.{use}", getattr(question_set, use), reading.splits)
    return reading


def _state_of_file(settings: Settings, question_set: QuestionSetSettings) -> object:
    from mog_assets.documents.contents import Contents
    from mog_assets.documents.folders import FolderFile

    path = question_set.path
    if path is None or not path.exists():
        return None
    return Contents().of(FolderFile(path.name, os.path.realpath(path), path.stat()))


QUESTION_SOURCES.register("file", QuestionSource(_of_file, _state_of_file))
