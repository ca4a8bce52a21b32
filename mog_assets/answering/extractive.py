"""The extractive reader: every role by classical retrieval and similarity, with no weights except the encoder's.

It is deterministic and uses only the passages. Its answers are a baseline; each rule is stated where it is applied.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mog_assets.answering.preflight import Encode, bm25_scores
from mog_assets.answering.roles import (
    NOTHING,
    AnswerRequest,
    Judgement,
    Passage,
    Reply,
    Route,
    Support,
    Usage,
    Usefulness,
)
from mog_assets.chunking.sentences import sentence_ends
from mog_assets.text.languages import of_texts
from mog_assets.text.terms import terms_of

T = TypeVar("T")

# Increased when a rule below changes.
VERSION = "4"
# Number of sentences that are encoded: the best by BM25, so that long passages cost as much as short ones.
SENTENCES = 24
# Number of sentences that decide a yes/no question.
VOTERS = 8
# Share of the votes, with half a vote for yes added, from which the answer is no. This, the number of voters and the
# square of the cosine were chosen on the 500 training questions of PubMedQA with their own abstracts: accuracy there,
# in sample, is .574; always "yes" has .552 (McNemar p = .25: within noise).
DENIED = 0.4
# Cosines of all-MiniLM-L6-v2: above for a question and a sentence that answers it, below .2 for a random pair.
RELEVANT = 0.35
USEFUL = 0.2
# Share of the words of an open answer that the documents must contain.
SUPPORTED = 0.6
NEW_TERMS = 5

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
_CLAUSE = re.compile(r"(?<=\w )(?:who|whom|whose|which|that|where|when)\b", re.IGNORECASE)
_OF_THE = re.compile(r"\b(?:of|by|in|from) (?:the|an?) \w+", re.IGNORECASE)
_BOTH = re.compile(
    r"\b(?:both|compared? (?:to|with)|difference between|earlier|older|larger|same .* as)\b", re.IGNORECASE
)


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

    def answer(self, request: AnswerRequest, passages: Sequence[Passage], thoughts: Sequence[str] = ()) -> Reply[str]:
        """The best supported option or sentence of passages and thoughts.

        Choice: the option with the highest support in any sentence (`_support`); without sentences, the option whose
        vector is closest to the question's. Yes/no: `_verdict`; without sentences, the option yes, the most common
        answer in published question sets. Open: the sentence with the highest cosine plus share of the question's
        terms; without sentences, there is no answer.
        """
        return self._reply(
            [*read_of(request), *_texts(passages), *thoughts], lambda: self._answer(request, passages, thoughts)
        )

    def think(
        self, request: AnswerRequest, query: str, passages: Sequence[Passage], thoughts: Sequence[str] = ()
    ) -> Reply[str]:
        """The sentence of the passages that is closest to the query and not a thought already."""

        def best() -> str:
            sentences = self._sentences(query, _texts(passages))
            for i in np.argsort(-self._cosines(query, sentences), kind="stable"):
                if sentences.texts[i] not in thoughts:
                    return sentences.texts[i]
            raise Nothing("no sentence that is not a thought already")

        return self._reply([*read_of(request), query, *_texts(passages), *thoughts], best)

    def extract(self, request: AnswerRequest, passages: Sequence[Passage]) -> Reply[str]:
        """Sentences, one per line, whose cosine with the question (and one of its options) is at least `RELEVANT`."""

        def relevant() -> str:
            sentences = self._sentences(_query(request), _texts(passages))
            if not sentences.texts:
                return ""
            cosines = np.max([self._cosines(text, sentences) for text in _statements(request)], axis=0)
            return "\n".join(text for text, cosine in zip(sentences.texts, cosines, strict=True) if cosine >= RELEVANT)

        return self._reply([*read_of(request), *_texts(passages)], relevant, NOTHING)

    def reduce(self, request: AnswerRequest, extractions: Sequence[str]) -> Reply[str]:
        """As `answer`, from the sentences of the extractions."""
        return self._reply([*read_of(request), *extractions], lambda: self._answer(request, (), extractions))

    def grade_usefulness(self, request: AnswerRequest, answer: str) -> Reply[Usefulness]:
        """Useful if the answer's cosine with the question is at least `USEFUL`; an option of yes/no/maybe always is."""

        def grade() -> Usefulness:
            if request.kind == "yesno":
                return "useful" if answer in request.options else "not_useful"
            question, said = self._vectors([request.question, request.spelled(answer)])
            return "useful" if float(question @ said) >= USEFUL else "not_useful"

        return self._reply([*read_of(request), answer], grade)

    def grade_support(self, request: AnswerRequest, passages: Sequence[Passage], answer: str) -> Reply[Support]:
        """Supported if the documents contain the share `SUPPORTED` of the answer's terms.

        For a yes/no question, supported if a sentence has a cosine of at least `RELEVANT` with the question.
        """

        def grade() -> Support:
            sentences = self._sentences(f"{request.question} {request.spelled(answer)}", _texts(passages))
            if not sentences.texts:
                return "unsupported"
            if request.kind == "yesno":
                return "supported" if self._cosines(request.question, sentences).max() >= RELEVANT else "unsupported"
            terms_there = set[str]().union(*map(set, terms_of(_texts(passages), sentences.language)))
            terms = _terms(request.spelled(answer), sentences.language)
            return "supported" if _share(terms, terms_there) >= SUPPORTED else "unsupported"

        return self._reply([*read_of(request), *_texts(passages), answer], grade)

    def rewrite(self, request: AnswerRequest, query: str, answer: str, thoughts: Sequence[str]) -> Reply[str]:
        """Pseudo-relevance feedback (Rocchio, unweighted): the query and frequent new terms of answer and thoughts.

        Adds at most `NEW_TERMS` words that the query does not have in any form, the most frequent first, then in order
        of occurrence.
        """

        def expanded() -> str:
            texts = (request.spelled(answer), *thoughts)
            language = of_texts(texts)
            words = [word for text in texts for word in _content(text)]
            rows = terms_of(words, language)
            stems = [row[0] if row and word.isalnum() else "" for word, row in zip(words, rows, strict=True)]
            terms_known = _terms(query, language) | {""}
            first: dict[str, str] = {}
            for stem, word in zip(stems, words, strict=True):
                if stem not in terms_known:
                    first.setdefault(stem, word)
            counts = Counter(stem for stem in stems if stem in first)
            new = [first[stem] for stem, _ in counts.most_common(NEW_TERMS)]
            if not new:
                raise Nothing("answer and thoughts have no term that the query does not have")
            return " ".join([query, *new])

        return self._reply([*read_of(request), query, answer, *thoughts], expanded)

    def judge(self, request: AnswerRequest, answer: str, reference: str) -> Reply[Judgement]:
        """Marks by overlap with the reference, ten times each.

        Correctness: the cosine of the two; completeness: the share of the reference's terms that the answer has;
        relevance: the cosine of answer and question.
        """

        def mark() -> Judgement:
            said, right = request.spelled(answer), request.spelled(reference)
            a, r, q = self._vectors([said, right, request.question])
            language = of_texts([right])
            shared = _share(_terms(right, language), _terms(said, language))
            complete = 1.0 if said.strip().lower() == right.strip().lower() else shared
            return Judgement(_mark(float(a @ r)), _mark(complete), _mark(float(a @ q)))

        return self._reply([*read_of(request), answer, reference], mark)

    def classify(self, request: AnswerRequest) -> Reply[Route]:
        """By the form of the question.

        None: it has no search terms. Iterative: two or more steps, counted as relative clauses, chains of "of the …",
        and comparisons. Single: everything else.
        """

        def route() -> Route:
            if not _terms(request.question, of_texts([request.question])):
                return "none"
            last = re.split(r"(?<=[.!?])\s+", request.question.strip())[-1]
            steps = len(_CLAUSE.findall(last)) + len(_OF_THE.findall(last)) + len(_BOTH.findall(last))
            return "iterative" if steps >= 2 else "single"

        return self._reply(read_of(request), route)

    def _reply(self, read: Sequence[str], work: Callable[[], T], empty: str = "") -> Reply[T]:
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

    def _answer(self, request: AnswerRequest, passages: Sequence[Passage], thoughts: Sequence[str]) -> str:
        sentences = self._sentences(_query(request), [*_texts(passages), *thoughts])
        if request.kind == "yesno":
            said = _verdict(request.question, sentences, self._cosines(request.question, sentences))
            letters = {text.strip().lower(): key for key, text in request.options.items()}
            if said not in letters:
                raise Nothing(f"says {said}, which is not among the options")
            return letters[said]
        if request.kind == "choice":
            return self._choose(request, sentences)
        if not sentences.texts:
            raise Nothing("no sentence to answer from")
        terms = _terms(request.question, sentences.language)
        covered = np.array([_share(terms, row) for row in sentences.terms])
        return sentences.texts[int(np.argmax(self._cosines(request.question, sentences) + covered))]

    def _choose(self, request: AnswerRequest, sentences: Sentences) -> str:
        keys, statements = list(request.options), _statements(request)
        if not sentences.texts:
            question, *options = self._vectors([request.question, *request.options.values()])
            return keys[int(np.argmax([float(question @ option) for option in options]))]
        cosines = self._vectors(statements) @ sentences.vectors.T
        question_terms = _terms(request.question, sentences.language)
        values = [
            _support(question_terms, _terms(option, sentences.language), sentences, row)
            for option, row in zip(request.options.values(), cosines, strict=True)
        ]
        return keys[int(np.argmax(values))]

    def _sentences(self, query: str, texts: Sequence[str]) -> Sentences:
        """The sentences relevant to a query, in order, each once."""
        split = [text[a:b].strip() for text in texts for a, b in _pairs(text)]
        unique = list(dict.fromkeys(text for text in split if text))
        if len(unique) > SENTENCES:
            best = np.argsort(-bm25_scores(query, unique), kind="stable")[:SENTENCES]
            unique = [unique[i] for i in sorted(best)]
        language = of_texts(unique)
        terms = [set(row) for row in terms_of(unique, language)] if unique else []
        return Sentences(unique, self._vectors(unique), terms, language)

    def _cosines(self, text: str, sentences: Sentences) -> np.ndarray:
        return sentences.vectors @ self._vectors([text])[0] if sentences.texts else np.zeros(0, np.float32)

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.encode(texts), np.float32) if texts else np.zeros((0, 1), np.float32)


class Nothing(Exception):
    """A rule that gives no result."""


class NoAnswer(Nothing):
    """The passages were read, and have no answer."""


def read_of(request: AnswerRequest) -> list[str]:
    """What is read of a question."""
    return [request.question, *request.options.values()]


def _texts(passages: Sequence[Passage]) -> list[str]:
    return [p.text for p in passages]


def _query(request: AnswerRequest) -> str:
    return request.question if request.kind == "yesno" else " ".join(read_of(request))


def _statements(request: AnswerRequest) -> list[str]:
    """The question with each of its options, or alone for yes/no."""
    if request.kind != "choice":
        return [request.question]
    return [f"{request.question} {option}" for option in request.options.values()]


def _pairs(text: str) -> list[tuple[int, int]]:
    ends = sentence_ends(text).tolist()
    return list(zip([0, *ends], ends, strict=False))


def _content(text: str) -> list[str]:
    """Search words: without question words, pronouns and auxiliaries."""
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    return [word for word in _WORD.findall(text) if word.lower() not in STOPWORDS_EN_PLUS]


def _terms(text: str, language: str) -> set[str]:
    return set(terms_of([" ".join(_content(text))], language)[0])


def _share(terms: set[str], others: set[str]) -> float:
    """Share of the terms that are contained, in [0, 1]; 0 without terms."""
    return len(terms & others) / len(terms) if terms else 0.0


def _mark(value: float) -> float:
    return round(10 * min(max(value, 0.0), 1.0), 3)


def _support(question: set[str], option: set[str], sentences: Sentences, cosines: np.ndarray) -> float:
    """Highest, over sentences, of cosine + share of the option's own terms × (1 + share of the question's terms) / 2.

    Args:
        question: Terms of the question.
        option: Terms of the option; terms shared with the question are ignored because they do not discriminate.
        sentences: Sentences.
        cosines: Cosines with "question option", float array of shape (sentences,).
    """
    distinctive = option - question or option
    lexical = [_share(distinctive, row) * (1 + _share(question, row)) / 2 for row in sentences.terms]
    return float(np.max(cosines + np.array(lexical, np.float32)))


def _verdict(question: str, sentences: Sentences, cosines: np.ndarray) -> str:
    """`yes` or `no` by the words of the `VOTERS` sentences closest to the question.

    A sentence with a negation votes no; one that affirms without a negation votes yes; each with the square of its
    cosine as weight. A finding of sameness is not a negation for a question about sameness or safety. The result is
    never `maybe`: no word that was tried indicates it.

    Args:
        question: Text of the question.
        sentences: Sentences.
        cosines: Cosines with the question, float array of shape (sentences,).
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
