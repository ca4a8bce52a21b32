"""The section `generation` of `mog.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mog_assets import registry
from mog_assets.config import Section, Settings
from mog_assets.config.sections import Name
from mog_assets.resources.settings import Count, SettingsModel

SOURCE = "generated"
"""The source of question sets."""
KEY = "generated_questions"
"""The asset."""
_MOST_WORDS = 200


def _words(value: str) -> str:
    # The words are the kind of a question, and stand in instructions to a model.
    if not (value.strip() and len(value) <= _MOST_WORDS and value.isprintable()):
        raise ValueError(f"words on one line, {_MOST_WORDS} characters at most")
    return value.strip()


class GenerationSettings(SettingsModel):
    """Questions made from documents.

    They are made by the language model of `llm`. At most `per_document` questions of
    each of `documents` documents of each corpus are made. The styles are given to the model as they are written, in
    turn, and so are the breadths: how much of a document the answer rests on.
    """

    # None: all.
    corpora: Annotated[list[Name], Field(min_length=1)] | None = None
    documents: Count = 200
    per_document: Annotated[int, Field(ge=1, le=100)] = 3
    styles: list[Annotated[str, AfterValidator(_words)]] = Field(
        [
            "short keyword query",
            "plain question",
            "question of a layperson",
            "question that needs several sentences",
        ],
        min_length=1,
    )
    breadths: list[Literal["sentence", "paragraph", "section"]] = Field(
        ["sentence", "paragraph", "section"], min_length=1
    )


def _check(settings: Settings) -> None:
    generation = GENERATION.of(settings)
    for corpus in (generation and generation.corpora) or ():
        if corpus not in settings.corpora:
            names = ", ".join(settings.corpora)
            raise ValueError(f"generation.corpora: expected names of corpora ({names}), got {corpus!r}")
    chunker = settings.chunker.name
    if generation is not None and registry.CHUNKERS[chunker].trained:
        raise ValueError(
            f"generation: expected none with chunker.name {chunker!r}, because chunks would be made from questions "
            "that are made with the chunks; choose another chunker, or leave generation out"
        )
    for name, question_set in settings.question_sets.items():
        if question_set.source == SOURCE and generation is None:
            raise ValueError(
                f"question_sets.{name}.source: expected `generation` in this file, which says how questions are "
                "made, got none: add `generation: {documents: 200}`"
            )


# None: no questions are made from documents.
GENERATION: Section[GenerationSettings | None] = Section(
    "generation",
    GenerationSettings | None,
    None,
    check=_check,
    asks_model=lambda value: value is not None,
    # Questions that are made differ from one evaluation to the next, and only those of both are compared.
    scored=False,
)
registry.SECTIONS.register(GENERATION.name, GENERATION)
