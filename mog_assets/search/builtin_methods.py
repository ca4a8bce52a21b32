"""The methods that come with the package, and the assets that searches by them read.

Rankings of pieces, fixed levels of a retriever, controls, and `auto`.
"""

from __future__ import annotations

import numpy as np

from mog_assets.build.demand import Demand, Needs
from mog_assets.config import Settings
from mog_assets.registry import DEMANDS
from mog_assets.resources.arrays import places
from mog_assets.resources.lazy import remembered
from mog_assets.search import models, trainers
from mog_assets.search.candidates import Candidates, concatenated
from mog_assets.search.controls import gold_passages, random_passages
from mog_assets.search.groups import Groups
from mog_assets.search.methods import (
    AUTO,
    GROUPS,
    METHODS,
    RETRIEVERS,
    Kind,
    Method,
    all_methods,
    by_words,
    named_methods,
    needs,
    parse,
)
from mog_assets.search.passages import Passages
from mog_assets.search.rankings import (
    RANKINGS,
    RERANKED,
    Ranking,
    models_of,
    ranked_by,
    rereads,
    searched,
    trained_by_default,
)
from mog_assets.search.relevance import chunk_scores
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router
from mog_assets.search.search import search
from mog_assets.search.where import FIELDS


def _auto(method: Method, settings: Settings) -> Needs:
    """Return what any method needs that it may stand for."""
    names = ["fused", *rereads(settings), *models_of(settings), *(f"{retriever}:fixed-1" for retriever in RETRIEVERS)]
    methods = [parse(name, settings) for name in names]
    possible = [one for one in methods if settings.trains or not one.trained]
    return needs(possible, settings) | Needs((), ("method",))


def _nothing(method: Method, settings: Settings) -> Needs:
    return Needs()


def _resolved(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    chosen = retrieval.resolved(method)
    return chosen.of.rank(retrieval, chosen, groups)


@remembered
def _by_words(retrieval: Retrieval) -> Candidates:
    """Return the candidates by words alone."""
    count = len(retrieval.queries)
    parts = [search(retrieval.index, query) for query in retrieval.as_searched([None] * count, [0.0] * count)]
    return concatenated(parts, len(retrieval.index.text_experts))


def _fixed(retrieval: Retrieval, method: Method, groups: Groups | None) -> Passages:
    """Return the best chunks of a level for every question, of those that candidates are of.

    What scores them is BM25, vectors, or both, fused by reciprocal ranks.
    """
    retriever, level = method.retriever, method.level
    assert retriever is not None and level is not None
    layout = retrieval.corpora.layout
    if groups is not None:
        chunks = np.concatenate(groups.chunks(level))
        pieces = chunks[layout.containing(np.arange(layout.count(1)), level)]
        retrieval = retrieval.within_groups(pieces, groups.questions)
    # Words need no vectors, which are made last; what is measured is what people get.
    candidates = _by_words(retrieval) if retriever == "bm25" else retrieval.unread.candidates
    by_words, by_vectors = level - 1, retrieval.index.levels + level - 1
    columns = {"bm25": [by_words], "dense": [by_vectors], "hybrid": [by_words, by_vectors]}[retriever]
    chunk = layout.containing(candidates.piece, level)
    scores = chunk_scores(candidates, chunk, [candidates.scores[:, column] for column in columns])
    order = np.lexsort((chunk, -scores, candidates.question))
    order = order[scores[order] > 0]
    question, chunk = candidates.question[order], chunk[order]
    first = np.flatnonzero(np.concatenate([[True], (np.diff(chunk) != 0) | (np.diff(question) != 0)])[: len(order)])
    question, spans = question[first], layout.chunk_spans(chunk[first], level)
    of_level = np.full(len(first), level)
    return Passages(question, places(question), *spans, of_level, scores[order[first]].astype(np.float64))


def _searched(method: Method, settings: Settings) -> Needs:
    """Return what a retriever searches: BM25 words alone."""
    if method.retriever == "bm25":
        return Needs(("documents", "chunks/level_1", "tokens", "bm25/level_1"), ("statistics",))
    return searched(settings)


def levels(settings: Settings) -> range:
    """Return the numbers of the levels."""
    return range(1, settings.levels + 1)


def _default(settings: Settings) -> list[str]:
    """Return rankings and, of every retriever, the levels they are compared with."""
    fixed = (f"{name}:fixed-{level}" for name in RETRIEVERS for level in settings.level_range)
    return ["fused", *rereads(settings), *trained_by_default(), *fixed]


METHODS.register(AUTO, Kind(_resolved, _auto, "the one that the project's own questions say is best", family=RANKINGS))
METHODS.register(
    "mix",
    ranked_by(
        Ranking(
            asset="mix",
            reads=True,
            opened=models.open_mix,
            trainer=trainers.MIX,
            library="lightgbm",
            complexity=3,
            description="Trees that order candidates by what the experts say and where they stand.",
        ),
        "trees over all retrievers and levels",
        ("#D55E00", "*"),
    ),
)
METHODS.register(
    "tuned",
    ranked_by(
        Ranking(
            asset="tuned",
            opened=models.open_tuned,
            trainer=trainers.TUNED,
            complexity=1,
            description="The weights of `fused`, fitted on few questions.",
        ),
        "fused with fitted weights",
        ("#117733", "8"),
    ),
)
METHODS.register(
    "fused", ranked_by(Ranking(Router.shipped), "all experts, weighed for each question", ("#000000", "p"))
)
METHODS.register(
    RERANKED,
    ranked_by(
        Ranking(Router.reading, reads=True),
        "as fused, and what the reranker says of its best pieces",
        ("#AA4499", "h"),
    ),
)
METHODS.register(
    "multihop",
    ranked_by(
        Ranking(Router.shipped, asks_twice=True),
        "what question and best text find together, in turn with fused",
        ("#882255", "d"),
    ),
)
METHODS.register(
    "fixed", Kind(_fixed, _searched, "one level of a retriever", ("#0072B2", "o"), levels, retrievers=RETRIEVERS)
)
METHODS.register(
    "gold",
    Kind(
        lambda retrieval, method, groups: gold_passages(retrieval.measured, retrieval.corpora),
        _nothing,
        "control: the evidence itself",
        gold=True,
        control=True,
    ),
)
METHODS.register(
    "random",
    Kind(
        lambda retrieval, method, groups: random_passages(retrieval.measured, retrieval.corpora),
        _nothing,
        "control: drawn at random",
        gold=True,
        control=True,
    ),
)
GROUPS.register("default", _default)


def _demand(settings: Settings) -> Demand:
    every = needs([parse(AUTO, settings)], settings)
    methods = [method for method in all_methods(settings) if method.kind != AUTO and not method.evaluation_only]
    models = tuple(models_of(settings).values()) if settings.trains else ()
    together = tuple(key for key in every.common if key not in models_of(settings).values())
    fields = tuple(field.asset for field in FIELDS.values())
    return Demand(
        words=needs([by_words(settings)], settings),
        search=every,
        current=Needs(every.per_corpus, together),
        methods=needs(named_methods(settings), settings),
        optional=Needs((), models) | needs(methods, settings) | Needs(fields),
        by_words=by_words(settings).name,
    )


DEMANDS.register("search", _demand)
