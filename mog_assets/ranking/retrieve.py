"""Passages by any method: rankings (`fused`, `mix`, …) and `auto` here, all others as `routing.retrieve` has them.

Everything that asks for passages goes through `Retrieval.open`: commands, assets and experiments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mog_assets import tensors
from mog_assets.arrays import mixed, places
from mog_assets.config import Settings
from mog_assets.mentions.edges import Mentions
from mog_assets.ranking import hops, models, multihop, rivals
from mog_assets.ranking.blend import Blend
from mog_assets.ranking.candidates import Candidates, find
from mog_assets.ranking.experts import Bm25Expert, DenseExpert, Expert, Products, TitleExpert
from mog_assets.ranking.explain import reasons
from mog_assets.ranking.gold import ordered
from mog_assets.ranking.hops import Hops
from mog_assets.ranking.known import Typed
from mog_assets.ranking.models import Asked
from mog_assets.ranking.passages import fitting, joined
from mog_assets.ranking.relations import EXPERTS, Mentioned, Relations, reads_mentions
from mog_assets.retrieval.bm25 import Bm25Index
from mog_assets.retrieval.changes import Documents
from mog_assets.retrieval.methods import AUTO, LEARNED, RETRIEVERS, Method, Passages, compared, parse
from mog_assets.retrieval.vocabulary import known_share
from mog_assets.routing import retrieve as routed
from mog_assets.routing.retrieve import Needs

# The file of the asset `method`.
CHOSEN = "method.json"
# Why a passage is there that a question finds only together with its best piece.
FOLLOWED = "the question together with its best passage"
# Key of the model of each learned ranking.
MODELS = {"tuned": "tuned", "mog": "router", "mogg": "hop_router", "mix": "mix"}
# What weighs the experts of rankings without a model.
_RULES: dict[str, models.Weighing] = {
    "fused": Blend(),
    "multihop": Blend(),
    "rrf": rivals.RRF,
    "umg": rivals.UMG,
}


def models_of(settings: Settings) -> list[str]:
    """The learned rankings that `auto` may stand for."""
    return [kind for kind in compared(settings) if kind in LEARNED]


def expert_names(settings: Settings, kind: str = "") -> list[str]:
    """Names of the experts that a ranking uses, in the order of their scores.

    Args:
        settings: Of the project.
        kind: The ranking; all but `mogg` use the same.
    """
    levels = settings.level_range
    of_texts = [*(f"bm25-{level}" for level in levels), *(f"dense-{level}" for level in levels), "title"]
    return [*of_texts, *settings.ranking.experts, *(hops.names(settings.graph.hops) if kind == "mogg" else ())]


def finest(settings: Settings) -> list[int]:
    """Positions of the experts that score pieces themselves."""
    return [0, settings.levels]


def fused(found: Candidates, experts: Sequence[str]) -> np.ndarray:
    """Score of every candidate by `fused`; `experts` are the names of the experts."""
    return Blend().scores(found, experts)


def needs(methods: Sequence[Method], settings: Settings) -> Needs:
    """The assets that some methods need for ranking."""
    if any(method.kind == AUTO for method in methods):
        # It may be any of these.
        names = ["fused", *models_of(settings), *(f"{retriever}:fixed-1" for retriever in RETRIEVERS)]
        possible = [m for m in (parse(name, settings) for name in names) if settings.trains_routers or not m.trained]
        found = needs([*possible, *(m for m in methods if m.kind != AUTO)], settings)
        return Needs(found.per_corpus, (*found.shared, "method"))
    others = routed.needs([method for method in methods if not method.ranking], settings)
    rankings = [method.kind for method in methods if method.ranking]
    if not rankings:
        return others
    indexes = [f"{kind}/level_{level}" for kind in ("bm25", "embeddings") for level in settings.level_range]
    experts = [EXPERTS[name] for name in settings.ranking.experts]
    further = [key for expert in experts for key in expert.per_corpus]
    per_corpus = dict.fromkeys(("documents", "chunks/level_1", "tokens", *further, *indexes, *others.per_corpus))
    shared = ["statistics", *(MODELS[kind] for kind in rankings if kind in MODELS)]
    shared += [key for expert in experts for key in expert.shared(settings)]
    if "mogg" in rankings:
        per_corpus |= dict.fromkeys(["sentence_graph"])
        shared += routed.graph_of_question_sets(settings)
    return Needs(tuple(per_corpus), tuple(dict.fromkeys((*others.shared, *shared))))


@dataclass(frozen=True)
class Retrieval(routed.Retrieval):
    """Questions, with the data shared by all methods, each computed once."""

    @property
    def experts(self) -> list[Expert]:
        """The experts, for these questions."""
        return self._experts(self.corpora.joined_bm25(1))

    def _experts(self, index: Bm25Index) -> list[Expert]:
        """The experts, given that of level 1 by BM25."""
        corpora, layout = self.corpora, self.corpora.layout
        levels = corpora.settings.level_range
        finest = Products(corpora.vectors(1), self.vectors)
        dense = [DenseExpert(1, layout, finest)]
        for level in levels[1:]:
            pooling = corpora.pooling(level)
            own = finest if pooling else Products(corpora.vectors(level), self.vectors)
            dense.append(DenseExpert(level, layout, own, pooling))
        return [
            Bm25Expert(1, layout, index, self.terms),
            *(Bm25Expert(level, layout, corpora.joined_bm25(level), self.terms) for level in levels[1:]),
            *dense,
            TitleExpert(layout, corpora.titles, self.terms),
        ]

    @property
    def edges(self) -> Mentions:
        """What the documents of the corpora name."""
        if "mentions" not in self.opened:
            self.opened["mentions"] = Mentions.open(self.corpora)
        found: Mentions = self.opened["mentions"]
        return found

    def documents(self, hashes: Mapping[str, np.ndarray]) -> Documents:
        """What rankings of pieces know of documents: their texts and what they name.

        Args:
            hashes: Of the documents of each corpus, see `statistics.document_hashes`.
        """
        found = Documents.of(self.corpora, hashes)
        if not reads_mentions(self.corpora.settings.ranking.experts):
            return found
        return replace(found, hashes=mixed(found.hashes ^ self.edges.signature()))

    @property
    def vocabulary(self) -> float:
        """See `vocabulary.known_share`, of the level-1 chunks of all corpora."""
        if "vocabulary" not in self.opened:
            self.opened["vocabulary"] = known_share(self.corpora.held().of("level_1"), self.is_token)
        share: float = self.opened["vocabulary"]
        return share

    @property
    def _relations(self) -> Relations:
        corpora, names = self.corpora, self.corpora.settings.ranking.experts
        mentioned = Mentioned(self.edges, corpora.layout) if reads_mentions(names) else None
        each = [EXPERTS[name].make(self) for name in names]
        return Relations(each, np.asarray(self.vectors, np.float32), self.terms, mentioned)

    @cached_property
    def asked(self) -> Asked:
        """The candidates of every question."""
        best = finest(self.corpora.settings)
        every = list(self.corpora.settings.corpora)
        numbers = np.array([every.index(name) for name in self.corpora.names], np.int64)[self.corpora.owners]
        # One index for both: where indexes are not kept open, each would be made anew.
        corpora = self.corpora
        index = corpora.joined_bm25(1)
        found = find(
            self._experts(index),
            best,
            self.corpora.layout,
            numbers,
            len(self.queries),
            Blend().weights,
            self.vocabulary,
            allowed=self.allowed,
            related=self._relations,
            exact=Typed(index, corpora.titles, corpora.title_sizes, corpora.held().of("level_1"), self.terms),
        )
        words = np.array([len(terms) for terms in self.terms], np.int64)
        return Asked(found, np.asarray(self.vectors, np.float32), words, best)

    @property
    def hops(self) -> Hops:
        """The experts of the sentence graph."""
        if "hops" not in self.opened:
            self.opened["hops"] = Hops(self.neighbourhoods, self.corpora.vectors(1))
        found: Hops = self.opened["hops"]
        return found

    def asked_by(self, kind: str) -> Asked:
        """The candidates of every question with the scores of all experts that a ranking uses."""
        if kind != "mogg":
            return self.asked
        key = ("asked", kind)
        if key not in self._known:
            asked = self.asked
            self._known[key] = replace(asked, found=self.hops.with_hops(asked.found, asked.vectors, self.terms))
        found: Asked = self._known[key]
        return found

    def scores(self, kind: str) -> np.ndarray:
        """Score of every candidate by a ranking; by `multihop`, what it has for the question alone.

        Raises:
            MogError: its model is damaged, or was trained for another encoder or other experts.
        """
        key = ("scores", kind)
        if key not in self._known:
            self._known[key] = self.model(kind).scores(self.asked_by(kind))
        found: np.ndarray = self._known[key]
        return found

    def model(self, kind: str) -> models.Rules | models.Router | models.Mix:
        """The model of a ranking: trained, or the rules of those without training."""
        if kind in _RULES:
            return models.Rules(_RULES[kind], expert_names(self.corpora.settings, kind))
        if kind not in self.opened:
            settings, stored = self.corpora.settings, self.corpora.read(MODELS[kind], None)
            names, encoder = expert_names(settings, kind), self.encoder()
            if kind == "tuned":
                self.opened[kind] = models.open_tuned(stored, encoder, names)
            elif kind != "mix":
                self.opened[kind] = models.open_router(stored, encoder, names, kind)
            else:
                best = [names[i] for i in finest(settings)]
                self.opened[kind] = models.open_mix(stored, encoder, names, best, list(settings.corpora))
        found: models.Router | models.Mix = self.opened[kind]
        return found

    def shares(self, kind: str) -> np.ndarray | None:
        """Share of each expert in the weight of all, float of shape (questions, experts); None if it weighs none."""
        model = self.model(kind)
        if isinstance(model, models.Mix):
            return None
        weights = model.weights(self.asked_by(kind))
        return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)

    @property
    def chosen(self) -> tuple[Method, str]:
        """The method that `auto` stands for, and why, as one sentence."""
        if AUTO not in self.opened:
            stored = json.loads(tensors.read(self.corpora.read("method", None), CHOSEN, "method"))
            self.opened[AUTO] = parse(stored["method"], self.corpora.settings), stored["why"]
        found: tuple[Method, str] = self.opened[AUTO]
        return found

    def resolved(self, method: Method) -> Method:
        """The method, or the chosen one for `auto`."""
        return self.chosen[0] if method.kind == AUTO else method

    def passages(self, method: Method, k: int | None = None, budget: int | None = None) -> Passages:
        """The best passages for every question, as people and readers get them.

        With a budget, and for rankings, neighbouring pieces are joined and no text is repeated.

        Args:
            method: Any method except a control.
            k: Most passages.
            budget: Most characters; the best piece is taken whatever its length.
        """
        method = self.resolved(method)
        found = self.rank(method, k or self.corpora.settings.k)
        if budget is None and not method.ranking:
            return found if k is None else found.at(found.rank < k)
        if not method.graph:
            return joined(found, self.corpora.layout, budget, k)
        return fitting(found if k is None else found.at(found.rank < k), budget or 0)

    def reasons(self, method: Method, found: Passages) -> list[str]:
        """Why each passage is there: what raised the score of its best piece most; empty unless it is a ranking's.

        Args:
            method: What found them.
            found: Result of `passages` or `rank`.
        """
        method = self.resolved(method)
        if not method.ranking:
            return [""] * len(found.question)
        candidates, scores, rows = self.asked.found, self.scores(method.kind), []
        first, last = self.corpora.layout.pieces(found.document, found.start, found.end)
        for question, begin, end in zip(found.question.tolist(), first.tolist(), last.tolist(), strict=True):
            start, stop = candidates.offsets[question : question + 2]
            own = start + np.searchsorted(candidates.piece[start:stop], [begin, end])
            # `multihop` also returns what the question alone does not find.
            rows.append(own[0] + int(np.argmax(scores[own[0] : own[1]])) if own[0] < own[1] else -1)
        settings = self.corpora.settings
        names = expert_names(settings, method.kind)
        model = self.model(method.kind)
        there, best = np.array(rows, np.int64), [names[i] for i in finest(settings)]
        why = iter(reasons(model, self.asked_by(method.kind), scores, there[there >= 0], names, best))
        return [next(why) if row >= 0 else FOLLOWED for row in rows]

    def rank(self, method: Method, k: int, weights: np.ndarray | None = None) -> Passages:
        """The passages of every question; those of rankings are single pieces.

        Args:
            method: Any method except a control.
            k: Number of passages.
            weights: See `routing.retrieve.Retrieval.rank`.
        """
        method = self.resolved(method)
        if not method.ranking:
            return super().rank(method, k, weights)
        return self._passages(*self._ordered(method.kind))

    def _passages(self, question: np.ndarray, piece: np.ndarray, scores: np.ndarray) -> Passages:
        """Pieces as passages, one each."""
        layout = self.corpora.layout
        spans = layout.spans[piece]
        return Passages(
            question,
            places(question),
            layout.document_of[piece],
            spans[:, 0],
            spans[:, 1],
            np.ones(len(piece), np.int64),
            scores,
        )

    def _ordered(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Question, piece and score in the order of a ranking, by question, best first."""
        question, piece, scores = self._by_score(kind)
        if kind != "multihop":
            return question, piece, scores
        again = self._following(question, piece)._by_score(kind)
        return multihop.merged((question, piece), again[:2])

    def _by_score(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found, scores = self.asked.found, np.asarray(self.scores(kind), np.float64)
        order = ordered(found, scores)
        return found.question[order], found.piece[order], scores[order]

    def passages_after(self, question: np.ndarray, piece: np.ndarray, budget: int) -> Passages:
        """Passages once some pieces were read: these, in turn with what the questions find together with the best.

        Args:
            question: Positions of the questions of what was read, by question, best first.
            piece: What was read.
            budget: Most characters.
        """
        again = self._following(question, piece)._by_score("multihop")
        return joined(self._passages(*multihop.merged((question, piece), again[:2], 1)), self.corpora.layout, budget)

    def _following(self, question: np.ndarray, piece: np.ndarray) -> Retrieval:
        """The same for questions together with their best pieces; nothing is encoded for that.

        Args:
            question: Positions of the questions of what was found, by question, best first.
            piece: What was found.
        """
        first = np.flatnonzero(places(question) == 0)
        best = np.zeros((len(self.queries), self.vectors.shape[1]), np.float32)
        best[question[first]] = self.corpora.vectors(1).rows(piece[first])
        vectors, layout = multihop.following(self.vectors, best), self.corpora.layout
        document = layout.document_of[piece[first]]
        texts, queries = self.corpora.texts(document.tolist()), list(self.queries)
        for own, at, (start, end) in zip(
            question[first].tolist(), document.tolist(), layout.spans[piece[first]].tolist(), strict=True
        ):
            title, text = texts[at]
            queries[own] = f"{queries[own]} {title} {text[start:end]}"
        return replace(self.again(queries), encode=lambda _: vectors)
