"""How questions are analysed: in the languages, and by the words, of the documents that they are asked of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mog_assets.index.postings import open_tables
from mog_assets.index.term_tables import Terms, Together
from mog_assets.resources.errors import MogError
from mog_assets.text.languages import DEFAULT, of_question
from mog_assets.text.questions import Analysed, Vocabulary, analysed


def languages_in(documents: Any) -> dict[str, int]:
    """Documents of a corpus by code of their language, given its artefact `documents`; empty for undecided ones.

    Raises:
        MogError: an earlier version of this package read them.
    """
    counts: dict[str, int] | None = documents.manifest.info.get("languages")
    if counts is None:
        place = f"documents of {documents.manifest.partition}"
        raise MogError(f"{place}: expected them with their languages, got what an earlier version read: run `mog run`")
    return counts


@dataclass(frozen=True)
class Analysis:
    """What questions are analysed by.

    Attributes:
        read: Reads an asset of a corpus, see `corpora.Read`.
        names: The corpora.
        vocabularies: Looks terms up in the vocabularies of all shards; called when there are some.
    """

    read: Callable[[str, str | None], Any]
    names: Sequence[str]
    vocabularies: Callable[[], Terms]

    @cached_property
    def languages(self) -> dict[str, int]:
        """Documents by code of the language that they are analysed in."""
        counts: Counter[str] = Counter()
        for name in self.names:
            for code, documents in languages_in(self.read("documents", name)).items():
                counts[code or DEFAULT] += documents
        return dict(counts)

    def language_of(self, question: str) -> str:
        """Code of the language that a question is analysed in."""
        return of_question(question, self.languages)

    def analysed(self, questions: Sequence[str]) -> list[Analysed]:
        """Questions as they are searched for."""
        return [analysed(q, self.language_of(q), self._vocabulary) for q in questions]

    def terms(self, questions: Sequence[str]) -> list[list[str]]:
        """Terms of each question."""
        return [question.terms for question in self.analysed(questions)]

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        stored = [self.read("tokens", name) for name in self.names]
        # What titles alone have is counted as occurring in no text.
        occurrences = Together(self.vocabularies(), "occurrences", least=1)
        words = Terms([table for tokens in stored for table in open_tables(tokens, "words_")])
        letters = "".join(tokens.manifest.info["letters"] for tokens in stored)
        return Vocabulary(occurrences, letters, Together(words, "occurrences"))
