"""Questions with what they are asked of: everything that wants passages begins with `Retrieval.open`.

How passages are ranked is registered, see `search.methods.METHODS`; `search.search` finds what rankings order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.index.analysis import Analysed, known_shares
from mog_assets.index.corpora import Corpora, Read
from mog_assets.questions.sets import Question
from mog_assets.resources import tracing
from mog_assets.resources.arrays import places
from mog_assets.resources.lazy import cached_property
from mog_assets.search.candidates import Inputs, ordered
from mog_assets.search.index import Index, Query
from mog_assets.search.methods import AUTO, LIMITS, Method
from mog_assets.search.passages import Passages, Sizes, characters, fitting, joined
from mog_assets.search.quotes import Quoted
from mog_assets.search.search import search_all


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Questions, with what is known of them, each computed once.

    Args:
        index: What they are asked of.
        queries: The questions, without their options.
        allowed: Documents that passages may be of, bool of shape (documents,); None if all.
        quoted: Pieces with what the question quotes, which come first.
        question_set, measured: The questions with their evidence, and where they are of, if they are measured.
        inputs: The questions with their candidates, if these are known already.
        given: Vectors of the questions, if these are known already.
        pieces_of: Group of every piece, and of every question, which finds those of its group alone; None if all.
        limited: What limits of methods remember, see `groups`.
    """

    index: Index
    queries: Sequence[str] = ()
    allowed: np.ndarray | None = None
    quoted: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    question_set: str = ""
    measured: Sequence[Question] = ()
    inputs: Inputs | None = None
    given: np.ndarray | None = None
    pieces_of: tuple[np.ndarray, np.ndarray] | None = None
    _scores: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    limited: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, tools: Tools, read: Read, corpora: Sequence[str], queries: Sequence[str] = ()) -> Retrieval:
        """Open the artefacts of the graph for retrieval; used by the command, by assets and by experiments.

        Args:
            tools: The resources.
            read: Reads an asset of a corpus, or one of all corpora, from the store.
            corpora: Names of the corpora that are searched together.
            queries: The questions; `with_queries` replaces them.

        Raises:
            MissingArtefact: a corpus has not been materialised.
        """
        return cls(Index.open(tools, Corpora.open(read, tools.settings, corpora)), queries)

    def with_queries(self, queries: Sequence[str], given: np.ndarray | None = None) -> Retrieval:
        """Return the same for other questions, with their vectors where these are known."""
        return self._replaced(queries=queries, question_set="", measured=(), given=given)

    def measuring(self, question_set: str, questions: Sequence[Question], inputs: Inputs | None = None) -> Retrieval:
        """Return the same for questions whose evidence is known, with their candidates where these are known."""
        queries = [question.question for question in questions]
        return self._replaced(queries=queries, question_set=question_set, measured=questions, inputs=inputs, given=None)

    def restricted_to(self, allowed: np.ndarray | None) -> Retrieval:
        """Return the same with passages of some documents only; see `allowed`."""
        return self._replaced(allowed=allowed)

    def requiring(self, quoted: Quoted | None) -> Retrieval:
        """Return the same with passages of documents that have what the question quotes."""
        if quoted is None:
            return self
        allowed = quoted.documents if self.allowed is None else self.allowed & quoted.documents
        return self._replaced(allowed=allowed, quoted=quoted.pieces)

    def within_groups(self, pieces: np.ndarray, questions: np.ndarray) -> Retrieval:
        """Return the same where a question finds pieces of its group alone; see `pieces_of`."""
        return self._replaced(pieces_of=(pieces, questions))

    def _replaced(self, **changes: Any) -> Retrieval:
        return replace(self, **{"inputs": None, "_scores": {}, "limited": {}, **changes})

    @property
    def corpora(self) -> Corpora:
        """The corpora that are searched."""
        return self.index.corpora

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors of the questions, shape (questions, size)."""
        return self.index.encode(self.queries) if self.given is None else self.given

    @cached_property
    def analysed(self) -> list[Analysed]:
        """The questions as they are searched for by words."""
        return self.corpora.analysis.analysed(self.queries)

    @cached_property
    def terms(self) -> list[list[str]]:
        """Terms of the questions."""
        return [question.terms for question in self.analysed]

    def as_searched(self, vectors: Sequence[np.ndarray | None], vocabulary: Sequence[float]) -> Iterator[Query]:
        """Yield the questions as they are searched for."""
        allowed = None if self.allowed is None else self.allowed[self.corpora.layout.document_of]
        for row, (text, analysed) in enumerate(zip(self.queries, self.analysed, strict=True)):
            mask = allowed
            if self.pieces_of is not None:
                pieces, questions = self.pieces_of
                mask = (pieces == questions[row]) & (questions[row] >= 0)
                mask = mask if allowed is None else mask & allowed
            yield Query(text, analysed.terms, vectors[row], vocabulary[row], analysed.is_literal, self.quoted, mask)

    @cached_property
    def read(self) -> Inputs:
        """The questions with their candidates, scored by all experts."""
        return self.inputs if self.inputs is not None else self._searched(True)

    @cached_property
    def unread(self) -> Inputs:
        """The same where no text was read together with the question: such experts score 0."""
        return self._searched(False) if self.index.reads and self.inputs is None else self.read

    @property
    def searched(self) -> Iterator[Query]:
        """The questions as they are searched for, by words and by vectors."""
        index = self.index
        shares = known_shares(self.queries, self.corpora.analysis, *index.vocabulary, index.is_token)
        return self.as_searched(list(np.asarray(self.vectors, np.float32)), shares.tolist())

    def _searched(self, reads: bool) -> Inputs:
        with tracing.span("search", questions=len(self.queries)):
            candidates = search_all(self.index, self.searched, reads)
            words = np.array([len(terms) for terms in self.terms], np.int64)
            return Inputs(candidates, np.asarray(self.vectors, np.float32), words, self.index.finest)

    def candidates_for(self, method: Method) -> Inputs:
        """Return the questions with their candidates, as a ranking needs them."""
        return self.read if method.of.ranking.reads else self.unread

    def model(self, method: Method) -> Any:
        """Return the model of a ranking: trained, or the rule of one without training.

        Raises:
            MogError: it is damaged, or was trained for another encoder or other experts.
        """
        models = self.index.models
        if method.kind not in models:
            models[method.kind] = method.of.ranking.open(self.index)
        return models[method.kind]

    def scores(self, method: Method) -> np.ndarray:
        """Score of every candidate by a ranking; by `multihop`, what it has for the question alone."""
        if method.kind not in self._scores:
            self._scores[method.kind] = self.model(method).scores(self.candidates_for(method))
        return self._scores[method.kind]

    @property
    def chosen(self) -> tuple[Method, str]:
        """The method that `auto` stands for, and why, as one sentence."""
        return self.index.chosen

    def resolved(self, method: Method) -> Method:
        """Return the method, or the chosen one for `auto`."""
        return self.chosen[0] if method.kind == AUTO else method

    def rank(self, method: Method, k: int) -> Passages:
        """Return the passages of every question; those of rankings are single pieces.

        Args:
            method: Any method.
            k: Number of passages that are used: a filter that leaves fewer is dropped.
        """
        method = self.resolved(method)
        ranked = method.of.rank(self, method, None)
        if method.limit:
            ranked = LIMITS[method.limit].limited(self, method, k, ranked)
        # Neighbours of a sentence may be of any document.
        return ranked if self.allowed is None else ranked.at(self.allowed[ranked.document])

    def passages(self, method: Method, k: int | None = None, budget: Budget | None = None) -> Passages:
        """Return the best passages for every question, as people and readers get them.

        With a budget, and for rankings, neighbouring pieces are joined and no text is repeated.

        Args:
            method: Any method except a control.
            k: Most passages.
            budget: Most of them together; the best piece is taken whatever its size.

        Raises:
            ConfigError: the tokens of the budget cannot be counted; see `resources.tokens.counter`.
        """
        method = self.resolved(method)
        with tracing.span("rank", method=method.name, questions=len(self.queries)):
            ranked = self.rank(method, k or self.corpora.settings.k)
        if budget is None and method.of.ranking is None:
            return ranked if k is None else ranked.at(ranked.rank < k)
        amount = None if budget is None else budget.amount
        with tracing.span("join", budget=amount, k=k):
            sizes = characters if budget is None else self.sizes(budget, method.of.joined)
            if method.of.joined:
                return joined(ranked, self.corpora.layout, amount, k, sizes)
            return fitting(ranked if k is None else ranked.at(ranked.rank < k), amount or 0, sizes)

    def sizes(self, budget: Budget, joined: bool = True) -> Sizes:
        """Return what a budget counts: characters, or tokens of what reads passages; `joined` if of one span each."""
        return partial(self.index.token_sizes, joined) if budget.tokens else characters

    def reasons(self, method: Method, passages: Passages) -> list[str]:
        """Say why each passage is there: what raised the score of its best piece; empty unless it is a ranking's.

        Args:
            method: What found them.
            passages: Result of `passages` or `rank`.
        """
        method = self.resolved(method)
        return method.of.reasons(self, method, passages)

    def ranked_pieces(self, method: Method, of_group: Any = None) -> Passages:
        """Return the best pieces for every question by a ranking, one passage each; rankings know no groups."""
        return self.of_pieces(*self.by_score(method))

    def of_pieces(self, question: np.ndarray, piece: np.ndarray, scores: np.ndarray) -> Passages:
        """Return pieces as passages, one each."""
        layout = self.corpora.layout
        spans, level = layout.spans[piece], np.ones(len(piece), np.int64)
        return Passages(question, places(question), layout.document_of[piece], spans[:, 0], spans[:, 1], level, scores)

    def by_score(self, method: Method) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return question, piece and score by question, best first."""
        candidates, scores = self.candidates_for(method).candidates, np.asarray(self.scores(method), np.float64)
        order = ordered(candidates, scores)
        return candidates.question[order], candidates.piece[order], scores[order]
