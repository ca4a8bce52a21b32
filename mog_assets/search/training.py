"""What rankings are trained and chosen on: candidates of training questions with their evidence, as arrays.

And how good a ranking is on documents that it was not trained on, by cross-validation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from mog_assets.questions.sets import LEVELS, MEASURED, Question
from mog_assets.search.candidates import Candidates, Inputs, ordered
from mog_assets.search.relevance import Relevance, fixed_order
from mog_assets.search.router import Router

# Folds of the cross-validation.
FOLDS = 5


@dataclass(frozen=True)
class Examples:
    """Training questions with their candidates.

    Attributes:
        gold: Candidates and evidence, for measuring.
        taught: Candidates and evidence, for training: differs where no place is known, see `weak_labels`.
        vectors: Of the questions, float32 of shape (questions, size).
        words: Terms of each question, int64 of shape (questions,).
        documents: What each question is about.
        levels: How precisely its answer is known: position in `questions.sets.LEVELS`, int64 of shape (questions,).
        is_synthetic: Whether a model made the question, or it is from use; bool of shape
            (questions,).
        experts: Names of the experts, in the order of the scores.
        finest: Positions of those that score pieces themselves.
        columns: Result of `features.of_candidates`, float32 of shape (n, columns), for models that are trained on it
            many times; None if each is to compute it.
    """

    gold: Relevance
    taught: Relevance
    vectors: np.ndarray
    words: np.ndarray
    documents: Sequence[str]
    levels: np.ndarray
    is_synthetic: np.ndarray
    experts: Sequence[str]
    finest: Sequence[int]
    columns: np.ndarray | None = None

    @property
    def measured(self) -> np.ndarray:
        """Questions that rankings are measured on, bool of shape (questions,): those whose places are known.

        Without such questions, those whose relevant documents are known; passages that hold an answer are guesses.
        Questions that people gave come before those that were made, which are easier, and those from use, which favour
        the ranking that was used.
        """
        able = self.levels < len(MEASURED)
        chosen = able & ~self.is_synthetic if (able & ~self.is_synthetic).any() else able
        return chosen & (self.levels == self.levels[chosen].min(initial=len(MEASURED)))

    @property
    def trainable(self) -> np.ndarray:
        """Candidates that a ranking is trained on, bool of shape (n,): all but those that may be relevant or not.

        Of a relevant document, nobody said which passages are: only the best guess trains, and the others are neither
        right nor wrong.
        """
        by_document = self.levels[self.candidates.question] == LEVELS.index("documents")
        return ~(by_document & (self.gold.covered > 0) & (self.taught.covered == 0))

    @property
    def inputs(self) -> Inputs:
        """The questions without their evidence."""
        return Inputs(self.candidates, self.vectors, self.words, self.finest, self.columns)

    @property
    def candidates(self) -> Candidates:
        """The candidates."""
        return self.gold.candidates

    @property
    def folds(self) -> np.ndarray:
        """Fold 0 … `FOLDS` − 1 of every question: all questions about a document are in one."""
        distinct = sorted(set(self.documents), key=lambda document: (_hash(document), document))
        number = {document: part_of(document, FOLDS) for document in distinct}
        if len(distinct) < 4 * FOLDS:
            # Hashes alone might leave a fold empty; with many documents they keep each where it is.
            number = {document: i % FOLDS for i, document in enumerate(distinct)}
        return np.array([number[document] for document in self.documents])

    @property
    def sampling_order(self) -> np.ndarray:
        """Positions of the questions in the order in which they are drawn, those about a document together."""
        return np.array(
            sorted(range(len(self.documents)), key=lambda i: (_sampling_key(self.documents[i]), i)), np.int64
        )

    def of(self, rows: np.ndarray) -> Examples:
        """Return some questions, bool of shape (questions,)."""
        chosen = np.flatnonzero(rows)
        return Examples(
            self.gold.of(chosen),
            self.taught.of(chosen),
            self.vectors[chosen],
            self.words[chosen],
            [self.documents[i] for i in chosen.tolist()],
            self.levels[chosen],
            self.is_synthetic[chosen],
            self.experts,
            self.finest,
            None if self.columns is None else self.columns[np.asarray(rows, bool)[self.candidates.question]],
        )


def sample_questions(questions: Sequence[Question], most: int) -> list[Question]:
    """Return at most so many questions, by a hash of their document, so that few change when questions are added."""
    ordered = sorted(questions, key=lambda q: (_sampling_key(q.document), q.document, q.id))
    return sorted(ordered[:most], key=lambda q: q.id)


def part_of(document: str, parts: int) -> int:
    """Return the part, from 0, that a document's questions are in, whatever else there is."""
    return int(_hash(document), 16) % parts


def _sampling_key(document: str) -> str:
    # Another hash than those of folds and of documents that are held out, whose shares it would change.
    return _hash(f"drawn {document}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def fixed_recalls(examples: Examples) -> dict[str, np.ndarray]:
    """Return ER of every question by every fixed level of each retriever, by name such as `bm25:fixed-2`."""
    candidates, of = examples.candidates, {name: i for i, name in enumerate(examples.experts)}
    recalls = {}
    for level in sorted(int(name.removeprefix("bm25-")) for name in of if name.startswith("bm25-")):
        # Of a question's candidates, those of one chunk: the document's first piece, and which of its chunks it is in.
        chunk = candidates.piece - candidates.place[:, 0] + (candidates.place[:, 0] >> (level - 1))
        by_retriever = {retriever: candidates.scores[:, of[f"{retriever}-{level}"]] for retriever in ("bm25", "dense")}
        for name, scores in (*((r, [s]) for r, s in by_retriever.items()), ("hybrid", list(by_retriever.values()))):
            recalls[f"{name}:fixed-{level}"] = examples.gold.recall(fixed_order(candidates, chunk, scores))
    return recalls


# Of each fold but one, and of all questions.
TRAININGS = FOLDS + 1


class TrainedRanking(Protocol):
    """A trained ranking."""

    def scores(self, inputs: Inputs) -> np.ndarray:
        """Score of every candidate."""


M = TypeVar("M", bound=TrainedRanking)
Train = Callable[[np.ndarray], M]
"""Trains a model on some questions, bool of shape (questions,)."""


def cross_validated(examples: Examples, train: Train[M], threads: int = 1) -> tuple[np.ndarray, M]:
    """Train a ranking on all questions, and on all folds but one for every fold.

    Args:
        examples: The training questions.
        train: Trains a model.
        threads: How many trainings run side by side; the results are the same.

    Returns:
        ER of every question by the model that was trained on documents of other folds, float64 of shape (questions,);
        and the model that was trained on all, which is trained last.
    """
    with ThreadPoolExecutor(threads, "training") as pool:
        tested = [pool.submit(_tested, examples, train, fold, None) for fold in range(FOLDS)]
        model = pool.submit(train, np.ones(len(examples.documents), bool))
        return np.sum([part.result() for part in tested], axis=0), model.result()


def recalls_of_fewer(examples: Examples, train: Train[M], questions: int | None, threads: int = 1) -> np.ndarray:
    """Return ER of every question as by `cross_validated`, each trained on at most so many questions; None for all."""
    with ThreadPoolExecutor(threads, "training") as pool:
        return np.sum([*pool.map(lambda fold: _tested(examples, train, fold, questions), range(FOLDS))], axis=0)


def fused_recalls(examples: Examples, opened: Callable[[], Router] = Router.shipped) -> np.ndarray:
    """Return ER of every question by `fused`, or another ranking without training, float64 of shape (questions,)."""
    scores = opened().scores(examples.candidates, examples.experts)
    return examples.gold.recall(ordered(examples.candidates, scores))


def _tested(examples: Examples, train: Train[M], fold: int, most: int | None) -> np.ndarray:
    """Return ER of the questions of a fold by a model trained on the others, float64 (questions,); 0 elsewhere."""
    recalls, tested = np.zeros(len(examples.documents)), examples.folds == fold
    rows, order = ~tested, examples.sampling_order
    if most is not None:
        rows[order[rows[order]][most:]] = False
    # With nothing to learn from, the ranking finds nothing.
    if tested.any() and examples.taught.covered[rows[examples.candidates.question]].any():
        model, part = train(rows), examples.of(tested)
        recalls[tested] = part.gold.recall(ordered(part.candidates, model.scores(part.inputs)))
    return recalls
