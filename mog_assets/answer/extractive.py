"""The extractive reader: answers and marks by classical retrieval and similarity, with no weights except the encoder's.

It is deterministic and uses only the passages. Its answers are a baseline; each rule is stated where it is applied.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from mog_assets.answer.roles import AnswerRequest, Reply, RetrievedPassage, Role, Usage
from mog_assets.index.postings import idf, saturation
from mog_assets.text.cuts import sentence_ends
from mog_assets.text.languages import of_texts
from mog_assets.text.terms import terms_of

T = TypeVar("T")

Encode = Callable[[Sequence[str]], np.ndarray]

# Increased when a rule below changes.
VERSION = "4"
# Number of sentences that are encoded: the best by BM25, so that long passages cost as much as short ones.
SENTENCES = 24
# BM25, see `config.Bm25Settings`.
K1, B = 1.5, 0.75
# Number of sentences that decide a yes/no question.
VOTERS = 8
# Share of the votes, with half a vote for yes added, from which the answer is no. This, the number of voters and the
# square of the cosine were chosen on the 500 training questions of PubMedQA with their own abstracts: accuracy there,
# in sample, is .574; always "yes" has .552 (McNemar p = .25: within noise).
DENIED = 0.4

_WORD = re.compile(r"\w[\w'-]*\w|\w")
_NO = re.compile(
    r"\b(?:no|not|nor|none|never|neither|without|fail(?:s|ed)?|failure|lacks?|lacked|unable|cannot|unlikely|absence|"
    r"insignificant\w*|non-?significant\w*|nonsignificant\w*|unchanged|unrelated|ineffective|similar\w*|comparable|"
    r"\w+n't|p\s*>\s*0?\.\d+)\b",
    re.IGNORECASE,
)
_YES = re.compile(
    r"\b(?:significant(?:ly)?|associat\w+|correlat\w+|predict\w+|effective\w*|improv\w+|increas\w+|reduc\w+|greater|"
    r"higher|lower|better|more|confirm\w*|demonstrat\w+|show\w*|support\w*|useful|safe\w*|feasible|beneficial|"
    r"p\s*[<=]\s*0?\.0\d+)\b",
    re.IGNORECASE,
)
# For these words, a finding of no difference means yes.
_SAMENESS = re.compile(r"\b(?:similar|same|equal\w*|equivalent|comparable|safe\w*|as \w+ as)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Sentences:
    """Sentences of passages, in order, with unit vectors of shape (n, size) and the terms of each in their language."""

    texts: list[str]
    vectors: np.ndarray
    terms: list[set[str]]
    language: str


@dataclass(frozen=True)
class Extractive:
    """Implements the roles without a language model.

    Tokens are whitespace-separated words, read and written, so that the cost of answering methods can be compared in
    one unit; no model reads them, and the cost in dollars is 0. Not thread-safe: threads would share a stemmer.

    Attributes:
        encode: n texts to unit vectors of shape (n, size).
        encoder: Its name and version.
    """

    encode: Encode
    encoder: str
    token_unit: str = "words"

    @property
    def reader(self) -> str:
        """See `Roles.reader`."""
        return f"extractive-{VERSION}@{self.encoder}"

    def answer(
        self, request: AnswerRequest, passages: Sequence[RetrievedPassage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """Return the best supported option or sentence of passages and thoughts.

        Choice: the option with the highest support in any sentence (`_support`); without sentences, the option whose
        vector is closest to the question's. Yes/no: `_verdict`; without sentences, the option yes, the most common
        answer in published question sets. Open: the sentence with the highest cosine plus share of the question's
        terms; without sentences, there is no answer.
        """
        return self.reply(
            [*read_of(request), *texts_of(passages), *thoughts], lambda: self._answer(request, passages, thoughts)
        )

    def play(self, role: Role[T], request: AnswerRequest, *read: Any) -> Reply[T]:
        """See `Roles.play`."""
        return role.rules(self, request, *read)

    def reply(self, read: Sequence[str], work: Callable[[], T], empty: str = "") -> Reply[T]:
        """Return what work gives as a reply; it may raise `Nothing`."""
        start = time.perf_counter()
        failure, declined = "", False
        value: T | None = None
        try:
            value = work()
        except Nothing as nothing:
            failure, declined = str(nothing), isinstance(nothing, NoAnswer)
        raw = "" if failure else (str(value) or empty)
        usage = Usage(1, sum(len(text.split()) for text in read), len(raw.split()), 0.0, time.perf_counter() - start)
        return Reply(value, raw, self.reader, usage, failure, declined)

    def _answer(self, request: AnswerRequest, passages: Sequence[RetrievedPassage], thoughts: Sequence[str]) -> str:
        sentences = self.sentences(query_of(request), [*texts_of(passages), *thoughts])
        if request.kind == "yesno":
            verdict = _verdict(request.question, sentences, self.cosines(request.question, sentences))
            letters = {text.strip().lower(): key for key, text in request.options.items()}
            if verdict not in letters:
                raise Nothing(f"says {verdict}, which is not among the options")
            return letters[verdict]
        if request.kind == "choice":
            return self._choose(request, sentences)
        if not sentences.texts:
            raise Nothing("no sentence to answer from")
        terms = terms_in(request.question, sentences.language)
        covered = np.array([share(terms, row) for row in sentences.terms])
        return sentences.texts[int(np.argmax(self.cosines(request.question, sentences) + covered))]

    def _choose(self, request: AnswerRequest, sentences: Sentences) -> str:
        keys, statements = list(request.options), statements_of(request)
        if not sentences.texts:
            question, *options = self.vectors([request.question, *request.options.values()])
            return keys[int(np.argmax([float(question @ option) for option in options]))]
        cosines = self.vectors(statements) @ sentences.vectors.T
        question_terms = terms_in(request.question, sentences.language)
        values = [
            _support(question_terms, terms_in(option, sentences.language), sentences, row)
            for option, row in zip(request.options.values(), cosines, strict=True)
        ]
        return keys[int(np.argmax(values))]

    def sentences(self, query: str, texts: Sequence[str]) -> Sentences:
        """Return the sentences relevant to a query, in order, each once."""
        split = [text[a:b].strip() for text in texts for a, b in _pairs(text)]
        unique = list(dict.fromkeys(text for text in split if text))
        if len(unique) > SENTENCES:
            best = np.argsort(-bm25_scores(query, unique), kind="stable")[:SENTENCES]
            unique = [unique[i] for i in sorted(best)]
        language = of_texts(unique)
        terms = [set(row) for row in terms_of(unique, language)] if unique else []
        return Sentences(unique, self.vectors(unique), terms, language)

    def cosines(self, text: str, sentences: Sentences) -> np.ndarray:
        """Return the cosine of each sentence with a text."""
        return sentences.vectors @ self.vectors([text])[0] if sentences.texts else np.zeros(0, np.float32)

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Return the unit vectors of texts, of shape (texts, size)."""
        return np.asarray(self.encode(texts), np.float32) if texts else np.zeros((0, 1), np.float32)


def bm25_scores(query: str, texts: Sequence[str]) -> np.ndarray:
    """Return BM25 score of each text for a query, in the language of the texts: float64 array of shape (texts,).

    Statistics are of these texts only.
    """
    *rows, question_terms = terms_of([*texts, query], of_texts(texts))
    scores = np.zeros(len(texts))
    terms = sorted({term for row in rows for term in row})
    if not terms:
        return scores
    number = {term: i for i, term in enumerate(terms)}
    columns = [number[term] for row in rows for term in row]
    owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    counts = np.zeros((len(rows), len(terms)))
    np.add.at(counts, (owner, np.array(columns)), 1)
    lengths = counts.sum(axis=1)
    weights = idf(len(rows), np.count_nonzero(counts, axis=0))
    added = weights * counts / (counts + saturation(lengths, lengths.mean(), K1, B)[:, None])
    for term in question_terms:
        if term in number:
            scores += added[:, number[term]]
    return scores


class Nothing(Exception):
    """A rule that gives no result."""


class NoAnswer(Nothing):
    """The passages were read, and have no answer."""


def read_of(request: AnswerRequest) -> list[str]:
    """Return what is read of a question."""
    return [request.question, *request.options.values()]


def texts_of(passages: Sequence[RetrievedPassage]) -> list[str]:
    """Return the texts of passages."""
    return [p.text for p in passages]


def query_of(request: AnswerRequest) -> str:
    """Return the words by which sentences are chosen."""
    return request.question if request.kind == "yesno" else " ".join(read_of(request))


def statements_of(request: AnswerRequest) -> list[str]:
    """Return the question with each of its options, or alone for yes/no."""
    if request.kind != "choice":
        return [request.question]
    return [f"{request.question} {option}" for option in request.options.values()]


def _pairs(text: str) -> list[tuple[int, int]]:
    ends = sentence_ends(text).tolist()
    return list(zip([0, *ends], ends, strict=False))


def content_words(text: str) -> list[str]:
    """Search words: without question words, pronouns and auxiliaries."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return [word for word in _WORD.findall(text) if word.lower() not in STOPWORDS_EN_PLUS]


def terms_in(text: str, language: str) -> set[str]:
    """Return the terms of a text's search words."""
    return set(terms_of([" ".join(content_words(text))], language)[0])


def share(terms: set[str], others: set[str]) -> float:
    """Return share of the terms that are contained, in [0, 1]; 0 without terms."""
    return len(terms & others) / len(terms) if terms else 0.0


def _support(question: set[str], option: set[str], sentences: Sentences, cosines: np.ndarray) -> float:
    """Return the highest, over sentences, of cosine + share of the option's terms × (1 + share of the question's) / 2.

    Args:
        question: Terms of the question.
        option: Terms of the option; terms shared with the question are ignored because they do not discriminate.
        sentences: Sentences.
        cosines: Cosines with "question option", float array of shape (sentences,).
    """
    distinctive = option - question or option
    lexical = [share(distinctive, row) * (1 + share(question, row)) / 2 for row in sentences.terms]
    return float(np.max(cosines + np.array(lexical, np.float32)))


def _verdict(question: str, sentences: Sentences, cosines: np.ndarray) -> str:
    """Return `yes` or `no` by the words of the `VOTERS` sentences closest to the question.

    A sentence with a negation votes no; one that affirms without a negation votes yes; each with the square of its
    cosine as weight. A finding of sameness is not a negation for a question about sameness or safety. The result is
    never `maybe`: no word that was tried indicates it.
    """
    no = yes = 0.0
    for i in np.argsort(-cosines, kind="stable")[:VOTERS]:
        vote = max(float(cosines[i]), 0.0) ** 2
        if _NO.search(sentences.texts[i]):
            no += vote
        elif _YES.search(sentences.texts[i]):
            yes += vote
    denied = no > DENIED * (no + yes + 0.5)
    return "no" if denied and not _SAMENESS.search(question) else "yes"
