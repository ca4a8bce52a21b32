"""How each ranking is trained on parts of the same questions: what does not depend on the part is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mog_assets.arrays import places as positions
from mog_assets.config import Settings
from mog_assets.questions.sets import LEVELS, load_questions
from mog_assets.questions.splits import validation_rows
from mog_assets.ranking import features, mix, mog
from mog_assets.ranking.crossvalidation import Train
from mog_assets.ranking.features import Components
from mog_assets.ranking.gold import ordered
from mog_assets.ranking.models import Mix, Router
from mog_assets.ranking.places import NAMES, Places
from mog_assets.ranking.retrieve import Retrieval, expert_names, fused
from mog_assets.ranking.training import Examples
from mog_assets.routing.retrieve import graph_of_question_sets
from resources.store import Artefact

Advance = Callable[[int], object]


def _silent(done: int) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class TrainedRouter(Router):
    """A router that was trained now.

    Attributes:
        curve: A row per epoch, see `mog.train`.
    """

    curve: Sequence[Mapping[str, float]]


def router_trainer(examples: Examples, settings: Settings, advance: Advance = _silent) -> Train[TrainedRouter]:
    """Training of the router of `mog` or `mogg`.

    Args:
        examples: The training questions.
        settings: Of the project.
        advance: Called with 1 after each epoch, at most `mog.EPOCHS` times a training.
    """
    stopping = validation_rows(examples.documents, settings.ranking.validation, "ranking")

    def train(rows: np.ndarray) -> TrainedRouter:
        part = examples.of(rows)
        # The documents that decide when to stop are the same with and without a fold.
        arrays, curve = mog.train(
            part.found,
            part.taught.covered,
            part.vectors,
            stopping[rows],
            settings.seed,
            advance,
            part.known,
            part.experts,
        )
        return TrainedRouter(arrays, curve)

    return train


@dataclass(frozen=True)
class MixTrainer:
    """Training of `mix`.

    The bins of features and the components of question vectors are those of all questions, whichever train: no label
    enters them. Where answers stood is learned from the questions that train alone.

    Attributes:
        examples: The training questions, with `columns`.
        components: Of the vectors of all questions.
        binned: Result of `mix.binned` for all candidates.
        seed: Of the samples of rows and columns.
        advance: Called with 1 after each tree, `MixTrainer.TREES` times a training.
    """

    examples: Examples
    components: Components
    binned: Any
    seed: int
    advance: Advance

    TREES: ClassVar = mix.FIRST_TREES + mix.TREES

    @classmethod
    def of(cls, examples: Examples, seed: int, advance: Advance = _silent) -> MixTrainer:
        """Prepare the training on some questions."""
        found, experts = examples.found, examples.experts
        columns = features.of_candidates(found, examples.finest, examples.words)
        components = Components.of(examples.vectors)
        table = features.table(columns, components.apply(examples.vectors)[found.question])
        names = features.names(experts, [experts[i] for i in examples.finest])
        binned = mix.binned(table, names[: -len(NAMES)], seed)
        return cls(replace(examples, columns=columns), components, binned, seed, advance)

    def __call__(self, rows: np.ndarray) -> Mix:
        """Train on some questions, bool of shape (questions,)."""
        part = self.examples.of(rows)
        # Only places that somebody named say where in documents answers stand.
        named = part.taught.only(part.levels == LEVELS.index("spans"))
        places = Places.of(named, part.vectors, part.documents)
        answered = places.features(part.found, part.vectors, themselves=True)
        at = np.flatnonzero(np.asarray(rows, bool)[self.examples.found.question])
        question, grades = part.found.question, part.taught.grades

        def trees(scores: np.ndarray, best: int, first: bool) -> Any:
            kept = hard(part, scores, best, mix.OTHERS, self.seed)
            sizes = np.bincount(question[kept], minlength=len(part.words))
            return mix.train(
                self.binned,
                at[kept],
                answered[kept],
                NAMES,
                grades[kept],
                sizes,
                self.seed,
                lambda: self.advance(1),
                first,
            )

        first = trees(fused(part.found, part.experts), mix.BEST_BY_FUSED, True)
        assert part.columns is not None
        table = features.table(part.columns, self.components.apply(part.vectors)[question], answered)
        return Mix(trees(mix.scores(first, table), mix.BEST_BY_FIRST, False), self.components, places)


def hard(examples: Examples, scores: np.ndarray, best: int, others: int, seed: int) -> np.ndarray:
    """Candidates that are worth training on, bool of shape (n,): none that may be relevant or not.

    Args:
        examples: Questions with their candidates.
        scores: Of every candidate, shape (n,).
        best: How many candidates of each question are taken that have the greatest scores.
        others: How many of those that are neither among them nor hold evidence are drawn at random, on average.
        seed: Of the draw.
    """
    usable = examples.known
    question = examples.found.question
    order = ordered(examples.found, np.where(usable, scores, -np.inf))
    among = np.zeros(len(order), bool)
    among[order] = positions(question[order]) < best
    kept = usable & ((examples.taught.grades > 0) | among)
    rest = usable & ~kept
    share = others / np.maximum(np.bincount(question[rest], minlength=len(examples.words)), 1)
    return kept | (rest & (np.random.default_rng(seed).random(len(order)) < share[question]))


def trained_mix(examples: Examples, seed: int) -> Mix:
    """`mix` trained on all of some questions."""
    return MixTrainer.of(examples, seed)(np.ones(len(examples.documents), bool))


def hops_read(settings: Settings) -> tuple[str, ...]:
    """Keys of the assets that `with_hops` reads."""
    nodes = ("questions", "documents", "chunks/level_1", "embeddings/level_1", "sentence_graph")
    return (*nodes, *graph_of_question_sets(settings))


def with_hops(
    examples: Examples,
    names: Sequence[str],
    questions: Artefact,
    settings: Settings,
    open_retrieval: Callable[[Sequence[str], Sequence[str]], Retrieval],
    advance: Advance = _silent,
) -> Examples:
    """Examples with the scores of the experts of the sentence graph.

    Args:
        examples: The training questions.
        names: `question set/id` of each.
        questions: The asset `questions`.
        settings: Of the project.
        open_retrieval: `Retrieval.open` of the project, for names of corpora and questions.
        advance: Called with numbers of questions, as many as there are in all.
    """
    texts: dict[str, dict[str, str]] = {}
    for name, question_set in settings.question_sets.items():
        if question_set.train:
            loaded = load_questions(questions.path(f"{name}.parquet"), question_set.train)
            texts[name] = {q.id: q.question for q in loaded}
    split = [name.partition("/") for name in names]
    parts = []
    # Questions of a set lie together.
    for name in dict.fromkeys(question_set for question_set, _, _ in split):
        rows = np.array([row for row, (question_set, _, _) in enumerate(split) if question_set == name], np.int64)
        queries = [texts[name][split[row][2]] for row in rows.tolist()]
        retrieval = open_retrieval(settings.question_sets[name].corpora, queries)
        found = examples.found.of(rows)
        parts.append(retrieval.hops.with_hops(found, examples.vectors[rows], retrieval.terms, advance))
    scores, floors = (np.concatenate([getattr(part, what) for part in parts]) for what in ("scores", "floors"))
    found = replace(examples.found, scores=scores, floors=floors)
    gold, taught = (replace(evidence, found=found) for evidence in (examples.gold, examples.taught))
    return replace(examples, gold=gold, taught=taught, experts=expert_names(settings, "mogg"))
