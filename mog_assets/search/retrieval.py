"""Questions with what they are asked of: everything that wants passages begins with `Retrieval.open`.

How passages are ranked is registered, see `search.methods.METHODS`; `search.search` finds what rankings order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mog_assets.build.tools import Tools
from mog_assets.config import RetrieverName
from mog_assets.config.budget import Budget
from mog_assets.index.analysis import known_shares
from mog_assets.index.corpora import Corpora, Read
from mog_assets.questions.sets import Question
from mog_assets.registry import EXPERTS
from mog_assets.resources import tracing
from mog_assets.resources.arrays import places
from mog_assets.resources.lazy import cached_property
from mog_assets.search import multihop
from mog_assets.search.candidates import Candidates, Inputs, concatenated, ordered
from mog_assets.search.exact import Quoted
from mog_assets.search.explain import reasons
from mog_assets.search.index import Index, Query, finest
from mog_assets.search.methods import AUTO, LIMITS, METHODS, Method
from mog_assets.search.passages import GAP, Passages, Sizes, characters, fitting, joined
from mog_assets.search.relevance import chunk_scores
from mog_assets.search.search import search, search_all
from mog_assets.text.questions import Analysed

# Why a passage is there that a question finds only together with its best piece.
FOLLOWED = "the question together with its best passage"


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
    _limited: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, tools: Tools, read: Read, corpora: Sequence[str], queries: Sequence[str] = ()) -> Retrieval:
        """Open the artefacts of the graph for retrieval; used by the command, by assets and by experiments.

        Args:
            tools: The resources.
            read: Reads an asset of a corpus, or one of all corpora, from the store.
            corpora: Names of the corpora that are searched together.
            queries: The questions; `again` replaces them.

        Raises:
            MissingArtefact: a corpus has not been materialised.
        """
        return cls(Index.open(tools, Corpora.open(read, tools.settings, corpora)), queries)

    def again(self, queries: Sequence[str], given: np.ndarray | None = None) -> Retrieval:
        """Return the same for other questions, with their vectors where these are known."""
        return self._replaced(queries=queries, question_set="", measured=(), given=given)

    def measuring(self, question_set: str, questions: Sequence[Question], inputs: Inputs | None = None) -> Retrieval:
        """Return the same for questions whose evidence is known, with their candidates where these are known."""
        queries = [question.question for question in questions]
        return self._replaced(queries=queries, question_set=question_set, measured=questions, inputs=inputs, given=None)

    def among(self, allowed: np.ndarray | None) -> Retrieval:
        """Return the same with passages of some documents only; see `allowed`."""
        return self._replaced(allowed=allowed)

    def having(self, quoted: Quoted | None) -> Retrieval:
        """Return the same with passages of documents that have what the question quotes."""
        if quoted is None:
            return self
        allowed = quoted.documents if self.allowed is None else self.allowed & quoted.documents
        return self._replaced(allowed=allowed, quoted=quoted.pieces)

    def _replaced(self, **changes: Any) -> Retrieval:
        return replace(self, **{"inputs": None, "_scores": {}, "_limited": {}, **changes})

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

    def _as_searched(self, vectors: Sequence[np.ndarray | None], vocabulary: Sequence[float]) -> Iterator[Query]:
        """Yield the questions as they are searched for."""
        allowed = None if self.allowed is None else self.allowed[self.corpora.layout.document_of]
        for row, (text, analysed) in enumerate(zip(self.queries, self.analysed, strict=True)):
            mask = allowed
            if self.pieces_of is not None:
                pieces, questions = self.pieces_of
                mask = (pieces == questions[row]) & (questions[row] >= 0)
                mask = mask if allowed is None else mask & allowed
            yield Query(text, analysed.terms, vectors[row], vocabulary[row], analysed.whole, self.quoted, mask)

    @cached_property
    def read(self) -> Inputs:
        """The questions with their candidates, scored by all experts."""
        return self.inputs if self.inputs is not None else self._searched(True)

    @cached_property
    def unread(self) -> Inputs:
        """The same where no text was read together with the question: such experts score 0."""
        reading = any(EXPERTS[name].reads for name in self.corpora.settings.ranking.experts)
        return self._searched(False) if reading and self.inputs is None else self.read

    @property
    def searched(self) -> Iterator[Query]:
        """The questions as they are searched for, by words and by vectors."""
        index = self.index
        shares = known_shares(self.queries, self.corpora.analysis, *index.vocabulary, index.is_token)
        return self._as_searched(list(np.asarray(self.vectors, np.float32)), shares.tolist())

    def _searched(self, reads: bool) -> Inputs:
        with tracing.span("search", questions=len(self.queries)):
            candidates = search_all(self.index, self.searched, reads)
            words = np.array([len(terms) for terms in self.terms], np.int64)
            return Inputs(candidates, np.asarray(self.vectors, np.float32), words, finest(self.index.settings))

    @cached_property
    def by_words(self) -> Candidates:
        """The candidates by words alone."""
        queries = self._as_searched([None] * len(self.queries), [0.0] * len(self.queries))
        parts = [search(self.index, query) for query in queries]
        return concatenated(parts, len(self.index.text_experts))

    def candidates_for(self, kind: str) -> Inputs:
        """Return the questions with their candidates, as a ranking needs them."""
        return self.read if METHODS[kind].ranking.reads else self.unread

    def model(self, kind: str) -> Any:
        """Return the model of a ranking: trained, or the rule of one without training.

        Raises:
            MogError: it is damaged, or was trained for another encoder or other experts.
        """
        models = self.index.models
        if kind not in models:
            models[kind] = METHODS[kind].ranking.open(self.index)
        return models[kind]

    def scores(self, kind: str) -> np.ndarray:
        """Score of every candidate by a ranking; by `multihop`, what it has for the question alone."""
        if kind not in self._scores:
            self._scores[kind] = self.model(kind).scores(self.candidates_for(kind))
        return self._scores[kind]

    def shares(self, kind: str) -> np.ndarray | None:
        """Return the share of each expert in the weight of all, shape (questions, experts); None if none is weighed."""
        model = self.model(kind)
        if not hasattr(model, "weights"):
            return None
        weights = model.weights(self.candidates_for(kind))
        return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))

    def expert_shares(self, method: Method, explain: bool) -> list[dict[str, float] | None]:
        """Return with `explain` for each question the `shares` of experts by name, if the ranking weighs them."""
        shares = self.shares(method.kind) if explain else None
        if shares is None:
            return [None] * len(self.queries)
        names = self.index.experts
        return [{name: float(share) for name, share in zip(names, row, strict=True) if share > 0} for row in shares]

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
            of_group, dropped = self._of_group(method), self.fell_back(method, k)
            ranked = of_group.at(~dropped[of_group.question]).joined(ranked.at(dropped[ranked.question]))
        # Neighbours of a sentence may be of any document.
        return ranked if self.allowed is None else ranked.at(self.allowed[ranked.document])

    def fell_back(self, method: Method, k: int) -> np.ndarray:
        """Return questions for which a method with a limit gives passages of all groups, bool of shape (questions,).

        They are of no group, or fewer than k passages are of theirs.
        """
        method = self.resolved(method)
        of_group, count = self._of_group(method), np.zeros(len(self.queries), np.int64)
        np.maximum.at(count, of_group.question, of_group.rank + 1)
        return np.asarray(self.groups(method.limit).none | (count < k))

    def groups(self, limit: str) -> Groups:
        """Limit each question to some chunks: see `methods.LIMITS`."""
        if limit not in self._limited:
            self._limited[limit] = LIMITS[limit].groups(self)
        groups: Groups = self._limited[limit]
        return groups

    def _of_group(self, method: Method) -> Passages:
        """Return passages of each question's group alone."""
        if method not in self._limited:
            self._limited[method] = method.of.rank(self, method, self.groups(method.limit))
        passages: Passages = self._limited[method]
        return passages

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
        """Return the best passages for every question, as people and readers get them.

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
        """Return what a budget counts: characters, or tokens of what reads passages.

        Args:
            budget: The budget.
            joined: Whether passages are of one span each.
        """
        return partial(_token_sizes, self, joined) if budget.tokens else characters

    def reasons(self, method: Method, passages: Passages) -> list[str]:
        """Say why each passage is there: what raised the score of its best piece; empty unless it is a ranking's.

        Args:
            method: What found them.
            passages: Result of `passages` or `rank`.
        """
        method = self.resolved(method)
        return method.of.reasons(self, method, passages)

    def ranked_pieces(self, method: Method, groups: Groups | None) -> Passages:
        """Return the best pieces for every question by a ranking, one passage each; rankings know no groups."""
        question, piece, scores = self._by_score(method.kind)
        if method.of.ranking.again:
            second = self._following(question, piece)._by_score(method.kind)
            question, piece, scores = multihop.merged((question, piece), second[:2])
        return self._of_pieces(question, piece, scores)

    def best_chunks(self, retriever: RetrieverName, level: int, groups: Groups | None = None) -> Passages:
        """Return the best chunks of a level for every question, of those that candidates are of.

        Args:
            retriever: What scores them: BM25, vectors, or both, fused by reciprocal ranks.
            level: The level.
            groups: Limits each question to some chunks.
        """
        layout, retrieval = self.corpora.layout, self
        if groups is not None:
            chunks = np.concatenate(groups.chunks(level))
            pieces = chunks[layout.containing(np.arange(layout.count(1)), level)]
            retrieval = self._replaced(pieces_of=(pieces, groups.questions))
        # Words need no vectors, which are made last; what is measured is what people get.
        candidates = retrieval.by_words if retriever == "bm25" else retrieval.unread.candidates
        by_words, by_vectors = level - 1, self.index.levels + level - 1
        columns = {"bm25": [by_words], "dense": [by_vectors], "hybrid": [by_words, by_vectors]}[retriever]
        chunk = layout.containing(candidates.piece, level)
        scores = chunk_scores(candidates, chunk, [candidates.scores[:, column] for column in columns])
        order = np.lexsort((chunk, -scores, candidates.question))
        order = order[scores[order] > 0]
        question, chunk = candidates.question[order], chunk[order]
        first = np.flatnonzero(np.concatenate([[True], (np.diff(chunk) != 0) | (np.diff(question) != 0)])[: len(order)])
        question, spans = question[first], layout.chunk_spans(chunk[first], level)
        levels = np.full(len(first), level)
        return Passages(question, places(question), *spans, levels, scores[order[first]].astype(np.float64))

    def passages_after(self, question: np.ndarray, piece: np.ndarray, budget: Budget) -> Passages:
        """Return pieces that were read, in turn with what the questions find together with the best of them.

        Args:
            question: Positions of the questions of what was read, by question, best first.
            piece: What was read.
            budget: Most of it.
        """
        second = self._following(question, piece)._by_score("multihop")
        merged = multihop.merged((question, piece), second[:2], 1)
        return joined(self._of_pieces(*merged), self.corpora.layout, budget.amount, sizes=self.sizes(budget))

    def reasons_of(self, method: Method, passages: Passages) -> list[str]:
        """Return what raised the score of the best piece of each passage of a ranking most."""
        kind = method.kind
        candidates, scores, rows = self.candidates_for(kind).candidates, self.scores(kind), []
        first, last = self.corpora.layout.pieces(passages.document, passages.start, passages.end)
        for question, begin, end in zip(passages.question.tolist(), first.tolist(), last.tolist(), strict=True):
            start, stop = candidates.offsets[question : question + 2]
            low, high = start + np.searchsorted(candidates.piece[start:stop], [begin, end])
            # `multihop` also returns what the question alone does not find.
            rows.append(low + int(np.argmax(scores[low:high])) if low < high else -1)
        names, positions = self.index.experts, np.array(rows, np.int64)
        best = [names[0], names[self.index.levels]]
        scored = positions[positions >= 0]
        why = iter(reasons(self.model(kind), self.candidates_for(kind), scores, scored, names, best))
        return [next(why) if row >= 0 else FOLLOWED for row in rows]

    def _of_pieces(self, question: np.ndarray, piece: np.ndarray, scores: np.ndarray) -> Passages:
        """Return pieces as passages, one each."""
        layout = self.corpora.layout
        spans, level = layout.spans[piece], np.ones(len(piece), np.int64)
        return Passages(question, places(question), layout.document_of[piece], spans[:, 0], spans[:, 1], level, scores)

    def _by_score(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return question, piece and score by question, best first."""
        candidates, scores = self.candidates_for(kind).candidates, np.asarray(self.scores(kind), np.float64)
        order = ordered(candidates, scores)
        return candidates.question[order], candidates.piece[order], scores[order]

    def _following(self, question: np.ndarray, piece: np.ndarray) -> Retrieval:
        """Return the same for questions together with their best pieces; nothing is encoded for that.

        Args:
            question: Positions of the questions of some pieces, by question, best first.
            piece: The pieces.
        """
        layout, first = self.corpora.layout, np.flatnonzero(places(question) == 0)
        best = np.zeros((len(self.queries), self.vectors.shape[1]), np.float32)
        best[question[first]] = self.corpora.vectors.rows(piece[first])
        documents = layout.document_of[piece[first]].tolist()
        texts, queries = self.corpora.texts(documents), list(self.queries)
        for number, document, (start, end) in zip(
            question[first].tolist(), documents, layout.spans[piece[first]].tolist(), strict=True
        ):
            title, text = texts[document]
            queries[number] = f"{queries[number]} {title} {text[start:end]}"
        return self.again(queries, multihop.following(self.vectors, best))


def _token_sizes(
    retrieval: Retrieval, joined: bool, document: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Return sizes of spans in tokens, each with what may stand between it and another one of its passage."""
    texts, spans = retrieval.corpora.texts(document.tolist()), []
    for of, first, last in zip(document.tolist(), start.tolist(), end.tolist(), strict=True):
        title, text = texts[of]
        while last < len(text) and text[last].isspace():
            last += 1
        spans.append(text[first:last] if joined else f"{GAP}{title}: {text[first:last]}")
    return np.array(retrieval.index.count_tokens(spans), np.int64)
