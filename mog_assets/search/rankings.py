"""Rankings of pieces: orders of a question's candidates by what all experts say of them.

A `Ranking` makes a kind of method by `ranked_by`; see `methods`. Those without training weigh the experts by a rule
(`blend.Blend`); trained ones read the model that an asset of their own holds, see `trainers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mog_assets.build.demand import Needs
from mog_assets.config import Settings
from mog_assets.config.budget import Budget
from mog_assets.index.mentions.edges import Mentions
from mog_assets.index.postings import Words
from mog_assets.index.vocabulary import TERMS, known_share, known_shares
from mog_assets.resources import tracing
from mog_assets.resources.arrays import mixed, places
from mog_assets.resources.lazy import cached_property
from mog_assets.resources.store import Artefact
from mog_assets.search import models, multihop
from mog_assets.search.blend import Blend
from mog_assets.search.candidate_search import find
from mog_assets.search.candidates import Candidates
from mog_assets.search.definitions import HEADED, MENTIONED, Definitions
from mog_assets.search.document_states import DocumentStates
from mog_assets.search.exact import Typed
from mog_assets.search.experts import DEPTHS
from mog_assets.search.explain import reasons
from mog_assets.search.methods import METHODS, Kind, Method, named_methods
from mog_assets.search.models import Inputs, Opening
from mog_assets.search.passages import joined
from mog_assets.search.ranked_passages import Passages
from mog_assets.search.relations import EXPERTS, Mentioned, Queries, Relations, Unasked, mentions, reads_mentions
from mog_assets.search.relevance import ordered
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.sources import EXHAUSTIVE, source_of

# Pieces that are read to find the definition of a name.
_READ = 200
# Why a passage is there that a question finds only together with its best piece.
FOLLOWED = "the question together with its best passage"


@dataclass(frozen=True)
class Ranking:
    """How candidates are ordered.

    Attributes:
        rule: What weighs the experts without training; None if a model is trained.
        asset: Key of the trained model.
        opened: Loads the model, given it and what it must have been trained for.
        trainer: How the model is trained, see `trainers.Trainer`.
        library: What trains it, as a kind of Dagster's.
        said: Description of the asset.
        complexity: Its place among the rankings that are trained wherever there are training questions, from 1, the one
            with the fewest parameters; 0 if it is trained only where a method names it.
        again: Whether questions are asked again together with their best pieces, see `multihop`.
        reads: Whether experts are asked that read texts together with the question.
    """

    rule: models.Weighing | None = None
    asset: str = ""
    opened: Callable[[Artefact, Opening], Any] | None = None
    trainer: Any = None
    library: str = "python"
    said: str = ""
    complexity: int = 0
    again: bool = False
    reads: bool = False


# What rankings are listed under; the page has what they tell of each passage.
RANKINGS = "rankings"


def ranked_by(ranking: Ranking, description: str, look: tuple[str, str]) -> Kind:
    """A ranking as a kind of method."""
    return Kind(
        lambda retrieval, method, groups: retrieval.once(Rankings).passages(method.kind),
        lambda method, settings: _needs(ranking, settings),
        description,
        look,
        trained=ranking.rule is None,
        ranking=ranking,
        reasons=lambda retrieval, method, passages: retrieval.once(Rankings).reasons(method.kind, passages),
        weights=_weights,
        family=RANKINGS,
    )


def _needs(ranking: Ranking, settings: Settings) -> Needs:
    experts = [EXPERTS[name] for name in settings.ranking.experts]
    indexes = [f"{kind}/level_{level}" for kind in ("bm25", "embeddings") for level in settings.level_range]
    per_corpus = ["documents", "chunks/level_1", "tokens", *(key for expert in experts for key in expert.per_corpus)]
    if settings.ranking.candidates != EXHAUSTIVE:
        per_corpus.append("neighbours")
    shared = ["statistics", *([ranking.asset] if ranking.asset else [])]
    shared += [key for expert in experts for key in expert.shared(settings)]
    return Needs(tuple(dict.fromkeys([*per_corpus, *indexes])), tuple(dict.fromkeys(shared)))


def _weights(retrieval: Retrieval, method: Method, explain: bool) -> list[dict[str, float] | None]:
    """With `explain`, the share of each expert in the weight of all, if the ranking weighs them."""
    shares = retrieval.once(Rankings).shares(method.kind) if explain else None
    if shares is None:
        return [None] * len(retrieval.queries)
    names = expert_names(retrieval.corpora.settings)
    return [{name: float(share) for name, share in zip(names, row, strict=True) if share > 0} for row in shares]


RERANKED = "reranked"


def trained_by_default() -> list[str]:
    """Return the rankings that are trained wherever there are training questions, the simplest first."""
    rankings = {name: kind.ranking for name, kind in METHODS.items() if kind.ranking and kind.ranking.complexity}
    return sorted(rankings, key=lambda name: rankings[name].complexity)


def models_of(settings: Settings) -> dict[str, str]:
    """Return the learned rankings that `auto` may stand for, the simplest last, with the keys of their models."""
    # Those of the group `default` are trained whatever is compared.
    named = {method.kind for method in named_methods(settings)} | set(trained_by_default())
    rankings = {name: kind.ranking for name, kind in METHODS.items() if kind.ranking is not None and name in named}
    learned = [name for name, ranking in rankings.items() if ranking.asset]
    return {name: rankings[name].asset for name in sorted(learned, key=lambda name: -rankings[name].complexity)}


def rereads(settings: Settings) -> list[str]:
    """The ranking that asks experts which read texts together with the question, if there are any."""
    return [RERANKED] if any(EXPERTS[name].reads for name in settings.ranking.experts) else []


def expert_names(settings: Settings) -> list[str]:
    """Names of the experts, in the order of their scores."""
    levels = settings.level_range
    of_texts = [*(f"bm25-{level}" for level in levels), *(f"dense-{level}" for level in levels), "title"]
    return [*of_texts, *settings.ranking.experts]


def finest(settings: Settings) -> list[int]:
    """Positions of the experts that score pieces themselves."""
    return [0, settings.levels]


def fused(candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
    """Score of every candidate by `fused`; `experts` are the names of the experts."""
    return Blend().scores(candidates, experts)


def documents_of(retrieval: Retrieval, hashes: Mapping[str, np.ndarray]) -> DocumentStates:
    """What rankings of pieces know of documents: their texts and what they name.

    Args:
        retrieval: The corpora.
        hashes: Of the documents of each corpus, see `document_states.document_hashes`.
    """
    documents = DocumentStates.of(retrieval.corpora, hashes)
    if not reads_mentions(retrieval.corpora.settings.ranking.experts):
        return documents
    edges: Mentions = retrieval.shared(mentions)
    return replace(documents, hashes=mixed(documents.hashes ^ edges.signature()))


def vocabulary(retrieval: Retrieval) -> tuple[float, dict[str, float]]:
    """See `vocabulary.known_share`: of the level-1 chunks of all corpora; and of documents, by language."""
    stored, is_token = retrieval.corpora.statistics(), retrieval.is_token
    by_language = {code: known_share(*words, is_token) for code, words in stored.by_language().items()}
    return known_share(*stored.of("level_1").most_frequent(2 * TERMS), is_token), by_language


def opened(ranking: Ranking, retrieval: Retrieval) -> Any:
    """The model of a ranking: trained, or the rule of one without training."""
    settings = retrieval.corpora.settings
    names = expert_names(settings)
    if ranking.opened is None:
        assert ranking.rule is not None
        return models.Rules(ranking.rule, names)
    best = [names[i] for i in finest(settings)]
    opening = Opening(retrieval.encoder(), names, best, list(settings.corpora))
    return ranking.opened(retrieval.corpora.read(ranking.asset, None), opening)


def _models(retrieval: Retrieval) -> dict[str, Any]:
    """Models by ranking, as they are opened."""
    return {}


def _whole(retrieval: Retrieval, index: Words, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The pieces that have a question, or what it quotes, as it stands, and how; see `definitions`."""
    question, corpora = retrieval.analysed[number], retrieval.corpora
    if not question.whole:
        return retrieval.quoted, np.full(len(retrieval.quoted), MENTIONED, np.int8)
    pieces, _ = index.search([question.terms], _READ)
    pieces = pieces[pieces >= 0]
    typed, spans, offsets = Definitions(retrieval.queries[number]), corpora.layout.spans, corpora.layout.offsets
    texts, ranks = corpora.texts(corpora.layout.document_of[pieces].tolist()), []
    for piece in pieces.tolist():
        document = int(corpora.layout.document_of[piece])
        title, text = texts[document]
        of_name = piece == offsets[document] and typed.named(title, corpora.layout.documents[document])
        ranks.append(HEADED if of_name else typed.rank(text, *spans[piece].tolist()))
    values = np.array(ranks, np.int8)
    # Of what is analysed to the same terms, other spellings are none of it, unless there is no other.
    values[: DEPTHS[0]][values[: DEPTHS[0]] == 0] = 0 if values.any() else MENTIONED
    return pieces[values > 0], values[values > 0]


@dataclass(frozen=True)
class Rankings:
    """Rankings of pieces for some questions: `retrieval.once(Rankings)`."""

    retrieval: Retrieval
    _scores: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @cached_property
    def inputs(self) -> Inputs:
        """The questions with their candidates, scored by all experts."""
        if self.retrieval.inputs is not None:
            return self.retrieval.inputs
        with tracing.span("search", questions=len(self.retrieval.queries)):
            return self._made(True)

    @cached_property
    def _unread(self) -> Inputs:
        """The same where no text was read together with the question: such experts score 0."""
        reading = any(EXPERTS[name].reads for name in self.retrieval.corpora.settings.ranking.experts)
        return self._made(False) if reading and self.retrieval.inputs is None else self.inputs

    def _inputs(self, kind: str) -> Inputs:
        """The questions with their candidates, as a ranking needs them."""
        return self.inputs if METHODS[kind].ranking.reads else self._unread

    def _made(self, reading: bool) -> Inputs:
        retrieval, corpora = self.retrieval, self.retrieval.corpora
        settings, best = corpora.settings, finest(corpora.settings)
        every = list(settings.corpora)
        numbers = np.array([every.index(name) for name in corpora.names], np.int64)[corpora.owners]
        source, vectors = source_of(retrieval), np.asarray(retrieval.vectors, np.float32)
        names = settings.ranking.experts
        mentioned = Mentioned(retrieval.shared(mentions), corpora.layout) if reads_mentions(names) else None
        queries = Queries(retrieval.queries, vectors, retrieval.terms)
        candidates = find(
            source,
            best,
            corpora.layout,
            numbers,
            len(retrieval.queries),
            Blend().weights,
            known_shares(retrieval.queries, corpora.analysis, *retrieval.shared(vocabulary), retrieval.is_token),
            allowed=retrieval.allowed,
            related=Relations(
                [EXPERTS[n].make(retrieval) if reading or not EXPERTS[n].reads else Unasked(n) for n in names],
                queries,
                mentioned,
            ),
            exact=Typed(
                source.words,
                corpora.titles,
                corpora.title_sizes,
                corpora.statistics().of("level_1"),
                retrieval.terms,
                [_whole(retrieval, source.words, number) for number in range(len(retrieval.queries))],
            ),
        )
        words = np.array([len(terms) for terms in retrieval.terms], np.int64)
        return Inputs(candidates, vectors, words, best)

    def scores(self, kind: str) -> np.ndarray:
        """Score of every candidate by a ranking; by `multihop`, what it has for the question alone.

        Raises:
            MogError: its model is damaged, or was trained for another encoder or other experts.
        """
        if kind not in self._scores:
            self._scores[kind] = self.model(kind).scores(self._inputs(kind))
        return self._scores[kind]

    def model(self, kind: str) -> Any:
        """The model of a ranking: trained, or the rule of one without training."""
        models = self.retrieval.shared(_models)
        if kind not in models:
            models[kind] = opened(METHODS[kind].ranking, self.retrieval)
        return models[kind]

    def shares(self, kind: str) -> np.ndarray | None:
        """Share of each expert in the weight of all, float of shape (questions, experts); None if it weighs none."""
        model = self.model(kind)
        if not hasattr(model, "weights"):
            return None
        weights = model.weights(self._inputs(kind))
        return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))

    def passages(self, kind: str) -> Passages:
        """The best pieces for every question, one passage each."""
        question, piece, scores = self._by_score(kind)
        if METHODS[kind].ranking.again:
            again = self._following(question, piece)._by_score(kind)
            question, piece, scores = multihop.merged((question, piece), again[:2])
        return self._passages(question, piece, scores)

    def passages_after(self, question: np.ndarray, piece: np.ndarray, budget: Budget) -> Passages:
        """Passages once some pieces were read: these, in turn with what the questions find together with the best.

        Args:
            question: Positions of the questions of what was read, by question, best first.
            piece: What was read.
            budget: Most of it.
        """
        again = self._following(question, piece)._by_score("multihop")
        merged = multihop.merged((question, piece), again[:2], 1)
        sizes = self.retrieval.sizes(budget)
        return joined(self._passages(*merged), self.retrieval.corpora.layout, budget.amount, sizes=sizes)

    def reasons(self, kind: str, passages: Passages) -> list[str]:
        """What raised the score of the best piece of each passage most."""
        candidates, scores, rows = self._inputs(kind).candidates, self.scores(kind), []
        layout, settings = self.retrieval.corpora.layout, self.retrieval.corpora.settings
        first, last = layout.pieces(passages.document, passages.start, passages.end)
        for question, begin, end in zip(passages.question.tolist(), first.tolist(), last.tolist(), strict=True):
            start, stop = candidates.offsets[question : question + 2]
            low, high = start + np.searchsorted(candidates.piece[start:stop], [begin, end])
            # `multihop` also returns what the question alone does not find.
            rows.append(low + int(np.argmax(scores[low:high])) if low < high else -1)
        names, positions = expert_names(settings), np.array(rows, np.int64)
        best = [names[i] for i in finest(settings)]
        scored = positions[positions >= 0]
        why = iter(reasons(self.model(kind), self._inputs(kind), scores, scored, names, best))
        return [next(why) if row >= 0 else FOLLOWED for row in rows]

    def _passages(self, question: np.ndarray, piece: np.ndarray, scores: np.ndarray) -> Passages:
        """Pieces as passages, one each."""
        layout = self.retrieval.corpora.layout
        spans, level = layout.spans[piece], np.ones(len(piece), np.int64)
        return Passages(question, places(question), layout.document_of[piece], spans[:, 0], spans[:, 1], level, scores)

    def _by_score(self, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Question, piece and score by question, best first."""
        candidates, scores = self._inputs(kind).candidates, np.asarray(self.scores(kind), np.float64)
        order = ordered(candidates, scores)
        return candidates.question[order], candidates.piece[order], scores[order]

    def _following(self, question: np.ndarray, piece: np.ndarray) -> Rankings:
        """The same for questions together with their best pieces; nothing is encoded for that.

        Args:
            question: Positions of the questions of some pieces, by question, best first.
            piece: The pieces.
        """
        retrieval, layout = self.retrieval, self.retrieval.corpora.layout
        first = np.flatnonzero(places(question) == 0)
        best = np.zeros((len(retrieval.queries), retrieval.vectors.shape[1]), np.float32)
        best[question[first]] = retrieval.corpora.vectors(1).rows(piece[first])
        vectors = multihop.following(retrieval.vectors, best)
        documents = layout.document_of[piece[first]].tolist()
        texts, queries = retrieval.corpora.texts(documents), list(retrieval.queries)
        for number, document, (start, end) in zip(
            question[first].tolist(), documents, layout.spans[piece[first]].tolist(), strict=True
        ):
            title, text = texts[document]
            queries[number] = f"{queries[number]} {title} {text[start:end]}"
        return replace(retrieval.again(queries), encode=lambda _: vectors).once(Rankings)
