"""Questions with the corpora that they are asked of: everything that wants passages begins with `Retrieval.open`.

How passages are ranked is registered, see `search.methods.METHODS`; here is what all methods share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config import RetrieverName
from mog_assets.config.budget import Budget
from mog_assets.index.corpora import Corpora, Encode, Read
from mog_assets.index.vector_stores import CandidateStore
from mog_assets.questions.sets import Question
from mog_assets.resources import tensors, tracing
from mog_assets.resources.lazy import cached_property
from mog_assets.resources.tokens import Count, counter, of_file
from mog_assets.resources.transformer import embedded_folder
from mog_assets.search.level_search import Bm25Searcher, DenseSearcher, HybridSearcher, Remembering, Searcher
from mog_assets.search.methods import AUTO, LIMITS, Method, parse
from mog_assets.search.models import Inputs
from mog_assets.search.nearest import exactly_nearest, linked_nearest
from mog_assets.search.passages import GAP, Sizes, characters, fitting, joined
from mog_assets.search.phrases import Quoted
from mog_assets.search.ranked_passages import Passages
from mog_assets.text.questions import Analysed

# The file of the asset `method`.
CHOSEN = "method.json"
# From so many questions on, dense search is exact.
MANY = 8

Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Groups:
    """Limits each question to the chunks of its group.

    Attributes:
        questions: Group of every question, shape (questions,).
        chunks: Given a level, the group of every chunk, per corpus; no question is of a group below 0.
    """

    questions: np.ndarray
    chunks: Callable[[int], list[np.ndarray]]

    @property
    def none(self) -> np.ndarray:
        """Questions that are of no group, bool of shape (questions,)."""
        return np.asarray(self.questions < 0)


@dataclass(frozen=True)
class Retrieval:
    """Questions, with the data shared by all methods, each computed once.

    Args:
        corpora: The corpora of the question set.
        queries: The questions, without their options.
        encode: Texts to vectors; called only if vectors are needed.
        encoder: Gives the fingerprint of the encoder; called only if vectors are needed.
        is_token: Which words the encoder has as one token, see `mog_assets.resources.encoder.Encoder.is_token`.
        tools: The resources, for experts that need others.
        store: Opens what is searched for candidates in place of the files, if anything is.
        allowed: Documents that passages may be of, bool of shape (documents,); None if all.
        quoted: Pieces with what the question quotes, which come first.
        question_set, measured: The questions with their evidence, and where they are of, if they are measured.
        inputs: The questions with their candidates, if these are known already.
        until: What `auto` stands for, and why, as long as nothing was chosen.
    """

    corpora: Corpora
    queries: Sequence[str]
    encode: Encode
    encoder: Callable[[], str]
    is_token: Callable[[Sequence[str]], np.ndarray]
    tools: Tools | None = None
    store: Callable[[], CandidateStore | None] = lambda: None
    allowed: np.ndarray | None = None
    quoted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    question_set: str = ""
    measured: Sequence[Question] = ()
    inputs: Inputs | None = None
    until: tuple[Method, str] | None = None
    _shared: dict[Any, Any] = field(default_factory=dict, repr=False)
    _once: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls, tools: Tools, read: Read, corpora: Sequence[str], queries: Sequence[str] = (), keep: bool = False
    ) -> Retrieval:
        """Open the artefacts of the graph for retrieval; used by the command, by assets and by experiments.

        Args:
            tools: The resources.
            read: Reads an asset of a corpus, or one of all corpora, from the store.
            corpora: Names of the corpora that are searched together.
            queries: The questions; `again` replaces them.
            keep: Leave indexes open, for a few questions at a time.

        Raises:
            MissingArtefact: a corpus has not been materialised.
        """
        opened = Corpora.open(read, tools.settings, corpora, keep)
        encoder = tools.encoder
        encode, fingerprint = encoder.encode_questions, lambda: encoder.fingerprint
        return cls(opened, queries, encode, fingerprint, encoder.is_token, tools)

    def again(self, queries: Sequence[str]) -> Retrieval:
        """The same for other questions."""
        return replace(self, queries=queries, question_set="", measured=(), inputs=None, _once={})

    def measuring(self, question_set: str, questions: Sequence[Question], inputs: Inputs | None = None) -> Retrieval:
        """The same for questions whose evidence is known, with their candidates where these are known."""
        queries = [question.question for question in questions]
        return replace(self, queries=queries, question_set=question_set, measured=questions, inputs=inputs, _once={})

    def among(self, allowed: np.ndarray | None) -> Retrieval:
        """The same with passages of some documents only; see `allowed`."""
        return replace(self, allowed=allowed, inputs=None, _once={})

    def having(self, quoted: Quoted | None) -> Retrieval:
        """The same with passages of documents that have what the question quotes."""
        if quoted is None:
            return self
        allowed = quoted.documents if self.allowed is None else self.allowed & quoted.documents
        return replace(self, allowed=allowed, quoted=quoted.pieces, inputs=None, _once={})

    def shared(self, make: Callable[..., Made], *arguments: Any) -> Made:
        """What `make` gives for this and the arguments, whatever the questions: made once for all questions to come."""
        key = (make, *arguments)
        if key not in self._shared:
            self._shared[key] = make(self, *arguments)
        return cast(Made, self._shared[key])

    def once(self, make: Callable[..., Made], *arguments: Any) -> Made:
        """What `make` gives for these questions and the arguments: made once."""
        key = (make, *arguments)
        if key not in self._once:
            self._once[key] = make(self, *arguments)
        return cast(Made, self._once[key])

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the questions, shape (questions, size)."""
        return self.encode(self.queries)

    @cached_property
    def analysed(self) -> list[Analysed]:
        """The questions as they are searched for by words."""
        return self.corpora.analysis.analysed(self.queries)

    @cached_property
    def terms(self) -> list[list[str]]:
        """Terms of the questions."""
        return [question.terms for question in self.analysed]

    @property
    def chosen(self) -> tuple[Method, str]:
        """The method that `auto` stands for, and why, as one sentence."""
        return self.until or self.shared(_chosen)

    def resolved(self, method: Method) -> Method:
        """The method, or the chosen one for `auto`."""
        return self.chosen[0] if method.kind == AUTO else method

    def rank(self, method: Method, k: int) -> Passages:
        """The passages of every question; those of rankings are single pieces.

        Args:
            method: Any method.
            k: Number of passages that are used: a filter that leaves fewer is dropped.
        """
        method = self.resolved(method)
        ranked = method.of.rank(self, method, None)
        if method.limit:
            of_group, dropped = self.once(_of_group, method), self.fell_back(method, k)
            ranked = of_group.at(~dropped[of_group.question]).joined(ranked.at(dropped[ranked.question]))
        # Neighbours of a sentence may be of any document.
        return ranked if self.allowed is None else ranked.at(self.allowed[ranked.document])

    def fell_back(self, method: Method, k: int) -> np.ndarray:
        """Questions for which a method with a limit gives passages of all groups, bool of shape (questions,).

        They are of no group, or fewer than k passages are of theirs.
        """
        method = self.resolved(method)
        of_group, count = self.once(_of_group, method), np.zeros(len(self.queries), np.int64)
        np.maximum.at(count, of_group.question, of_group.rank + 1)
        return np.asarray(self.once(groups_of, method.limit).none | (count < k))

    def grouped(self, method: Method, k: int) -> list[dict[str, Any]]:
        """Tell the group of every question, and whether its passages are of all groups; nothing without a limit.

        Args:
            method: See `rank`.
            k: See `rank`.
        """
        limit = self.resolved(method).limit
        if not limit:
            return [{} for _ in self.queries]
        described = zip(LIMITS[limit].describe(self), self.fell_back(method, k).tolist(), strict=True)
        return [{**group, "fallback": fell_back} for group, fell_back in described]

    def passages(self, method: Method, k: int | None = None, budget: int | str | Budget | None = None) -> Passages:
        """The best passages for every question, as people and readers get them.

        With a budget, and for rankings, neighbouring pieces are joined and no text is repeated.

        Args:
            method: Any method except a control.
            k: Most passages.
            budget: See `Budget.of`; the best piece is taken whatever its size.

        Raises:
            ConfigError: the budget is none, or its tokens cannot be counted; see `resources.tokens.counter`.
        """
        method = self.resolved(method)
        most = None if budget is None else Budget.of(budget)
        with tracing.span("rank", method=method.name, questions=len(self.queries)):
            ranked = self.rank(method, k or self.corpora.settings.k)
        if budget is None and not method.ranking:
            return ranked if k is None else ranked.at(ranked.rank < k)
        with tracing.span("join", budget=None if most is None else str(most), k=k):
            amount, sizes = (None, characters) if most is None else (most.amount, self.sizes(most, method.of.joined))
            if method.of.joined:
                return joined(ranked, self.corpora.layout, amount, k, sizes)
            return fitting(ranked if k is None else ranked.at(ranked.rank < k), amount or 0, sizes)

    def sizes(self, budget: Budget, joined: bool = True) -> Sizes:
        """What a budget counts: characters, or tokens of what reads passages.

        Args:
            budget: The budget.
            joined: Whether passages are of one span each.
        """
        return partial(_token_sizes, self, joined) if budget.tokens else characters

    def reasons(self, method: Method, passages: Passages) -> list[str]:
        """Why each passage is there: what raised the score of its best piece most; empty unless it is a ranking's.

        Args:
            method: What found them.
            passages: Result of `passages` or `rank`.
        """
        method = self.resolved(method)
        return method.of.reasons(self, method, passages)

    def searcher(self, retriever: RetrieverName, groups: Groups | None = None) -> Searcher:
        """Search of levels by a retriever; the same hits are found once.

        Args:
            retriever: BM25, vectors, or both.
            groups: Limits each question to some chunks.
        """
        return self.once(_remembering, retriever, groups)

    def _searcher(self, retriever: RetrieverName, groups: Groups | None) -> Searcher:
        if retriever == "hybrid":
            return HybridSearcher([self.searcher("bm25", groups), self.searcher("dense", groups)])
        corpora, limited = self.corpora, self.within(groups)
        if retriever == "bm25":
            questions, chunks = (limited.questions, limited.chunks) if limited else (None, None)
            return Bm25Searcher(self.terms, corpora.bm25, corpora.starts, questions, chunks)
        return DenseSearcher(self.vectors, partial(self._exactly, limited), corpora.starts)

    def _exactly(
        self, groups: Groups | None, vectors: np.ndarray, level: int, k: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        limits = () if groups is None else (groups.questions, groups.chunks(level))
        if level == 1 and len(vectors) < MANY and self.corpora.indexed:
            return linked_nearest(self.corpora, vectors, k, *limits)
        return exactly_nearest(self.corpora, vectors, level, k, *limits)

    def within(self, groups: Groups | None) -> Groups | None:
        """Groups without the chunks of documents that are not allowed."""
        if self.allowed is None:
            return groups
        if groups is None:
            return Groups(np.zeros(len(self.queries), np.int64), partial(self._allowed_chunks, None))
        return Groups(groups.questions, partial(self._allowed_chunks, groups))

    def _allowed_chunks(self, groups: Groups | None, level: int) -> list[np.ndarray]:
        layouts = self.corpora.layouts
        chunks = groups.chunks(level) if groups else [np.zeros(layout.count(level), np.int64) for layout in layouts]
        return limited(layouts, level, chunks, self.allowed)


def limited(
    layouts: Sequence[Any], level: int, groups: Sequence[np.ndarray], allowed: np.ndarray | None
) -> list[np.ndarray]:
    """Groups of chunks per corpus, −1 for those of documents that are not allowed.

    Args:
        layouts: Of the corpora.
        level: Of the chunks.
        groups: Of every chunk, per corpus.
        allowed: See `Retrieval.allowed`.
    """
    if allowed is None:
        return list(groups)
    parts, first = [], 0
    for layout, group in zip(layouts, groups, strict=True):
        pieces, _ = layout.covered(np.arange(layout.count(level)), level)
        parts.append(np.where(allowed[first + layout.document_of[pieces]], group, -1))
        first += len(layout.documents)
    return parts


def _remembering(retrieval: Retrieval, retriever: RetrieverName, groups: Groups | None) -> Searcher:
    return Remembering(retrieval._searcher(retriever, groups))


def _counter(retrieval: Retrieval) -> Count:
    settings = retrieval.corpora.settings
    if settings.llm.tokenizer is None and settings.answering.reader != "openai":
        # Rules have none; the other readers read the tokens of the embedded encoder.
        return of_file(embedded_folder("answering.reader") / "tokenizer.json", "answering.reader")
    return counter(settings.llm.tokenizer, settings.llm.model)


def _token_sizes(
    retrieval: Retrieval, joined: bool, document: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Sizes of spans in tokens, each with what may stand between it and another one of its passage."""
    texts, spans = retrieval.corpora.texts(document.tolist()), []
    for of, first, last in zip(document.tolist(), start.tolist(), end.tolist(), strict=True):
        title, text = texts[of]
        while last < len(text) and text[last].isspace():
            last += 1
        spans.append(text[first:last] if joined else f"{GAP}{title}: {text[first:last]}")
    return np.array(retrieval.shared(_counter)(spans), np.int64)


def groups_of(retrieval: Retrieval, limit: str) -> Groups:
    """Limits each question to some chunks: `retrieval.once(groups_of, limit)`."""
    groups: Groups = LIMITS[limit].groups(retrieval)
    return groups


def _of_group(retrieval: Retrieval, method: Method) -> Passages:
    """Passages of each question's group alone."""
    return method.of.rank(retrieval, method, retrieval.once(groups_of, method.limit))


def _chosen(retrieval: Retrieval) -> tuple[Method, str]:
    stored = json.loads(tensors.read(retrieval.corpora.read("method", None), CHOSEN, "method"))
    return parse(stored["method"], retrieval.corpora.settings), stored["why"]
