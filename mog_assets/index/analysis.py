"""How questions are analysed: in the languages, and by the words, of the documents that they are asked of.

And how much of these languages an encoder knows, by how its tokenizer cuts their words. It has the frequent words of
the languages that its model was trained on as one token each; words of others it cuts into pieces of a few letters, or
does not know at all. So the share of the frequent terms of a collection that are one token tells, without a question,
how much its vectors can be trusted: of the texts in each language, because a question is about those of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mog_assets.index.postings import Terms
from mog_assets.index.spelling import Vocabulary, taken_for
from mog_assets.index.statistics import Together
from mog_assets.index.term_counts import open_tables
from mog_assets.resources.errors import MogError
from mog_assets.text.characters import plain
from mog_assets.text.languages import DEFAULT, detected, of_question
from mog_assets.text.terms import EXACT, LETTERS, SHORTEST, folded, is_word, terms_of, words_in

# Names in code with the parts that they belong to, such as gc.auto, os.path.join() and std::vector.
QUALIFIED = re.compile(r"(?!\d)\w+(?:(?:\.|::|->|#)\w+)+")
NAME_IN_CODE = re.compile(r"\w*(?:_\w|\d|[a-z][A-Z]|[A-Z]{2}[a-z]{2})\w*")
# The most frequent terms that are looked at.
TERMS = 2000
_WORD = re.compile(r"[^\W\d_]+")

Known = Callable[[Sequence[str]], np.ndarray]
"""Tells of some terms whether each is one token of an encoder, bool of shape (terms,)."""


def languages_in(documents: Any) -> dict[str, int]:
    """Return documents of a corpus by code of their language, given its artefact `documents`; empty for undecided ones.

    Raises:
        MogError: an earlier version of this package read them.
    """
    counts: dict[str, int] | None = documents.manifest.info.get("languages")
    if counts is None:
        place = f"documents of {documents.manifest.partition}"
        raise MogError(f"{place}: expected them with their languages, got what an earlier version read: run `mog run`")
    return counts


@dataclass(frozen=True)
class Analysed:
    """A question as it is searched for.

    Attributes:
        terms: In order, repetitions included.
        taken: Words that no document has, case folded, with the word that each is taken for.
        is_literal: Whether the question is one option, version or name in code that documents have as it stands.
    """

    terms: list[str]
    taken: dict[str, str] = field(default_factory=dict)
    is_literal: bool = False


@dataclass(frozen=True)
class Analysis:
    """Analysis of questions.

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

    @cached_property
    def _only(self) -> str:
        """The language that every question is analysed in; empty if there are several."""
        return of_question("", self.languages) if len(self.languages) < 2 else ""

    def language_of(self, question: str) -> str:
        """Return code of the language that a question is analysed in."""
        return self._only or of_question(question, self.languages)

    def analysed(self, questions: Sequence[str]) -> list[Analysed]:
        """Return questions as they are searched for."""
        return [analysed(q, self.language_of(q), self._vocabulary) for q in questions]

    def terms(self, questions: Sequence[str]) -> list[list[str]]:
        """Return terms of each question."""
        return [question.terms for question in self.analysed(questions)]

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        stored = [self.read("tokens", name) for name in self.names]
        # What titles alone have is counted as occurring in no text.
        occurrences = Together(self.vocabularies(), "occurrences", least=1)
        words = Terms([table for tokens in stored for table in open_tables(tokens, "words_")])
        letters = "".join(tokens.manifest.info["letters"] for tokens in stored)
        return Vocabulary(occurrences, letters, Together(words, "occurrences"))


def analysed(question: str, language: str, vocabulary: Vocabulary) -> Analysed:
    """Return a question in a language.

    A word that no document has is taken for one of theirs that is an edit away (a letter more, less or another, or two
    in the other order), the most frequent if there are several; else for another form of such a word. A question that
    is one option, version or name in code, and that documents have as it stands, has no other term.

    Args:
        question: The question.
        language: Code of its language.
        vocabulary: Of the documents that it is asked of.
    """
    question = (question if question.isascii() else plain(question)[0]).strip()
    typed = question.removesuffix("()")
    # A Japanese sentence with a number in it looks like a name in code.
    called = typed != question and re.fullmatch(r"\w+", typed)
    if EXACT.fullmatch(typed) or ((called or NAME_IN_CODE.fullmatch(typed)) and is_word(typed)):
        literal = terms_of([typed], language)[0][:1]
        if vocabulary.occurrences.values_of(literal).any():
            return Analysed(literal, is_literal=True)
    elif QUALIFIED.fullmatch(typed) and is_word(typed):
        terms = terms_of([typed], language)[0]
        if terms and vocabulary.occurrences.values_of(terms).all():
            return Analysed(terms, is_literal=True)
    unknown = _unknown(question, language, vocabulary)
    taken = taken_for(unknown, language, vocabulary) if unknown else {}
    if taken:
        question = LETTERS.sub(lambda match: taken.get(folded(match[0]), match[0]), question)
    return Analysed(terms_of([question], language)[0], taken)


def _unknown(question: str, language: str, vocabulary: Vocabulary) -> list[str]:
    """Return the words of a question that no document has."""
    words = sorted({word for word in words_in(question) if len(word) >= SHORTEST})
    terms_of_words = terms_of(words, language)
    every = list(dict.fromkeys(term for terms in terms_of_words for term in terms))
    times = vocabulary.occurrences.values_of(every).tolist()
    present = {term for term, count in zip(every, times, strict=True) if count}
    columns = zip(words, terms_of_words, vocabulary.words.values_of(words).tolist(), strict=True)
    # Documents of other languages may have it as it is written.
    return [word for word, terms, written in columns if terms and not written and present.isdisjoint(terms)]


def known_share(terms: Sequence[str], counts: np.ndarray, is_token: Known) -> float:
    """Return share of the occurrences of frequent terms that the encoder's vocabulary has as one token, from 0 to 1.

    Args:
        terms: The most frequent first. They are stems, which costs English some of them.
        counts: How often each occurs, shape (terms,).
        is_token: Of the encoder.

    Returns:
        1 if no term has a letter.
    """
    rows = [row for row, term in enumerate(terms) if any(map(str.isalpha, term))][:TERMS]
    if not rows:
        return 1.0
    weights = counts[rows].astype(np.float64)
    return float(weights @ is_token([terms[row] for row in rows]) / weights.sum())


def known_shares(
    questions: Sequence[str],
    documents: Analysis,
    every: float,
    shares: Mapping[str, float],
    is_token: Known,
) -> np.ndarray:
    """Return how much of the texts that each question is about an encoder knows: float32 of shape (questions,).

    That is the share of the texts in its language, if there are several. A question in a language that no text has is
    known no better than its own words are.

    Args:
        questions: The questions.
        documents: Analyses questions that are asked of them.
        every: `known_share` of all texts together.
        shares: Of those in each language, by its code.
        is_token: Of the encoder.
    """
    several = shares if len(shares) > 1 else {}
    values = np.array([several.get(documents.language_of(question), every) for question in questions], np.float32)
    for row, question in enumerate(questions):
        words = _WORD.findall(question.lower())
        # What is known this well is in the language of the texts; to tell it of others, a model has to be loaded.
        if known_share(words, np.ones(len(words)), is_token) >= values[row]:
            continue
        if (code := detected(question)) and code not in shares:
            (terms,) = terms_of([question], code)
            values[row] = min(values[row], known_share(terms, np.ones(len(terms)), is_token))
    return values
