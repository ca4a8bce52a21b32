"""How good each ranking is: on documents nothing was trained on, and on collections nothing was trained on.

python benchmarks/ranking.py medquad.yaml squad.yaml pubmedqa-bioasq.yaml --only-test musique.yaml
python benchmarks/ranking.py medquad.yaml squad.yaml --beyond     what was tried on top

Each project must be built up to `method`: `mog run --config … --select candidates …`. A project with a test split is
measured on it, trained on its training questions; one without by cross-validation over documents. Then each is left
out: trained on the others, measured on it. ER is that of ranked pieces. Differences are from the best fixed level of
all retrievers, chosen on the questions it is measured on, which favours it; tests are paired and by document.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.candidates_assets import read_examples
from mog_assets.evaluate.significance import bootstrap_interval, by_document, holm, permutation_p
from mog_assets.papers.mix_of_granularity import mog
from mog_assets.papers.mix_of_granularity.ranking import Router
from mog_assets.questions.sets import LEVELS, Question, load_questions
from mog_assets.resources.arrays import places
from mog_assets.search import answer_places, features, mix, router, trainers
from mog_assets.search.candidates import COLUMNS, OF_QUESTIONS, TEMPERATURE, Candidates, ordered
from mog_assets.search.index import expert_names, finest
from mog_assets.search.rankings import fused
from mog_assets.search.relevance import Relevance
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.rule import of_texts
from mog_assets.search.training import FOLDS, Examples, fixed_recalls
from mog_assets.search.weak_labels import measured

if os.environ.get("ROUTER"):
    # Weights learned without the collection that is measured, see `router.py`.
    router.FILE = Path(os.environ["ROUTER"])
SEED = 0
LEARNED = ("mog", "mix")
# Others' rankings without training.
Recalls = dict[str, np.ndarray]
Ranking = Callable[[Examples], np.ndarray]
"""Scores of the candidates of some questions."""


@dataclass(frozen=True)
class ReciprocalRanks:
    """RRF (Cormack, Clarke and Büttcher 2009): the sum of 1 / (`constant` + rank) over all experts of texts.

    Ranks are those of texts among the candidates of the question, from 1: pieces of one chunk have the same score at
    its level, and so the same rank. An expert gives nothing to a text that it scores 0 or less.
    """

    constant: int = 60

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """1 for every expert of texts, 0 for others; see `Router.weights`."""
        return np.repeat(of_texts(experts)[None].astype(np.float32), len(candidates.floors), axis=0)

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Score some candidates by every expert; see `Router.parts`."""
        parts = np.zeros((len(rows), len(experts)))
        for column in np.flatnonzero(of_texts(experts)).tolist():
            parts[:, column] = self._reciprocal(candidates, candidates.scores[:, column])[rows]
        return parts

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, float64 of shape (n,); see `Router.scores`."""
        total = np.zeros(len(candidates.question))
        for column in np.flatnonzero(of_texts(experts)).tolist():
            total += self._reciprocal(candidates, candidates.scores[:, column])
        return total

    def _reciprocal(self, candidates: Candidates, scores: np.ndarray) -> np.ndarray:
        question = candidates.question
        # By question they are in order already, so rows of a question stay together.
        order = np.lexsort((-scores, question))
        scores = scores[order]
        other = np.concatenate([[True], scores[1:] != scores[:-1]])[: len(scores)] | (places(question) == 0)
        count = np.cumsum(other)
        rank = count - count[candidates.offsets[question]] + 1
        gains = np.zeros(len(scores))
        gains[order] = np.where(scores > 0, 1 / (self.constant + rank), 0)
        return gains


@dataclass(frozen=True)
class Entropy:
    """UMG (Jung and Wang 2026, arXiv 2606.13550), made from its abstract: its text was not at hand.

    The scores of every expert become a distribution over the candidates (a softmax), and these are added, weighed by
    one minus the normalised entropy. The temperature, the range of the scores (0 to 1) and the candidates (all that any
    expert finds) are ours. It leaves out UMGP, which returns the parents of the best fine chunks, and the paper's
    reader.
    """

    def weights(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """One minus the normalised entropy of every expert of texts, 0 for others; see `Router.weights`."""
        chances, question = self._chances(candidates), candidates.question
        parts = [np.bincount(question, -column * np.log(column), candidates.count) for column in chances.T]
        most = np.log(np.maximum(np.bincount(question, minlength=candidates.count), 2))[:, None]
        certainty = np.maximum(1 - np.array(parts).T / most, 0)
        return np.where(of_texts(experts), certainty, 0).astype(np.float32)

    def parts(self, candidates: Candidates, experts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Score some candidates by every expert; see `Router.parts`."""
        weights = self.weights(candidates, experts)[candidates.question[rows]]
        return np.asarray(self._chances(candidates)[rows] * weights)

    def _chances(self, candidates: Candidates) -> np.ndarray:
        """Return the distribution of every expert over a question's candidates, float64 of shape (n, experts)."""
        powers = np.exp((candidates.relative.astype(np.float64) - 1) / TEMPERATURE)
        total = np.array([np.bincount(candidates.question, column, candidates.count) for column in powers.T]).T
        return np.asarray(powers / np.maximum(total, 1e-300)[candidates.question])

    def scores(self, candidates: Candidates, experts: Sequence[str]) -> np.ndarray:
        """Score of every candidate, float64 of shape (n,); see `Router.scores`."""
        return self.parts(candidates, experts, np.arange(len(candidates.question))).sum(axis=1)


RRF, UMG = ReciprocalRanks(), Entropy()
RIVALS = {"rrf": RRF, "umg": UMG}


@dataclass
class Collection:
    """A project: training questions, and test questions if it has a test split."""

    name: str
    train: Examples | None
    test: Examples | None

    @property
    def measured(self) -> Examples:
        """The questions it is measured on."""
        found = self.test or self.train
        assert found is not None
        return found


def opened(path: Path) -> Collection:
    """The questions of a project with their candidates."""
    settings = config.load(path)
    tools = Tools(settings)
    names, best = expert_names(settings), finest(settings)
    train = None
    if settings.trains:
        train, _ = read_examples(tools.store.read("candidates"), names, best)
    tests = []
    for name, question_set in settings.question_sets.items():
        if question_set.test:
            stored = tools.store.read("questions").path(f"{name}.parquet")
            asked = [q for q in load_questions(stored, question_set.test) if q.evidence]
            tests.append(examples(Retrieval.open(tools, tools.store.read, question_set.corpora), asked))
    return Collection(path.stem, train, merged(tests) if tests else None)


def fewer(collection: Collection, questions: int | None) -> Collection:
    """At most so many training questions, those about a document together."""
    train = collection.train
    if train is None or questions is None:
        return collection
    rows = np.zeros(len(train.words), bool)
    rows[train.sampling_order[:questions]] = True
    return replace(collection, train=train.of(rows))


def examples(retrieval: Retrieval, questions: Sequence[Question]) -> Examples:
    """Questions with their candidates."""
    retrieved = retrieval.with_queries([q.question for q in questions])
    inputs, corpora = retrieved.read, retrieved.corpora
    names = expert_names(corpora.settings)
    gold = Relevance.located(inputs.candidates, measured(questions, corpora), corpora.layout)
    levels = np.array([LEVELS.index(q.level) for q in questions])
    documents = [q.document for q in questions]
    is_synthetic = np.zeros(len(questions), bool)
    return Examples(gold, gold, inputs.vectors, inputs.words, documents, levels, is_synthetic, names, inputs.finest)


def merged(parts: Sequence[Examples]) -> Examples:
    """Questions of several collections together."""
    questions = np.cumsum([0, *(len(part.words) for part in parts)])
    rows = np.cumsum([0, *(len(part.candidates.question) for part in parts)])

    def joined(get: Callable[[Examples], np.ndarray]) -> np.ndarray:
        return np.concatenate([get(part) for part in parts])

    found = Candidates(
        np.concatenate([part.candidates.question + q for part, q in zip(parts, questions, strict=False)]),
        *(joined(lambda p, n=n: getattr(p.candidates, n)) for n in (*COLUMNS[1:], *OF_QUESTIONS)),
    )
    gold, taught = (
        Relevance(
            found,
            joined(lambda p, what=what: getattr(p, what).characters),
            np.concatenate([getattr(part, what).row + r for part, r in zip(parts, rows, strict=False)]),
            joined(lambda p, what=what: getattr(p, what).start),
            joined(lambda p, what=what: getattr(p, what).end),
        )
        for what in ("gold", "taught")
    )
    documents = [f"{i}/{document}" for i, part in enumerate(parts) for document in part.documents]
    first = parts[0]
    questions_of = (joined(lambda p: p.vectors), joined(lambda p: p.words), documents)
    questions_of = (*questions_of, joined(lambda p: p.levels), joined(lambda p: p.is_synthetic))
    return Examples(gold, taught, *questions_of, first.experts, first.finest)


def trained_mog(train: Examples, seed: int = SEED) -> Ranking:
    """`mog` trained on some questions."""
    held_out = np.array([part == 0 for part in _tenths(train.documents)])
    arrays, _ = mog.train(train.candidates, train.taught.covered, train.vectors, held_out, seed)
    return lambda of: Router(arrays).scores(of.inputs)


def trained_mix(train: Examples, seed: int = SEED, options: Mapping[str, object] | None = None) -> Ranking:
    """`mix` trained on some questions."""
    kept = dict(mix.OPTIONS)
    mix.OPTIONS.update(options or {})
    try:
        trained = trainers.trained_mix(train, seed)
    finally:
        mix.OPTIONS.clear()
        mix.OPTIONS.update(kept)
    return lambda of: trained.scores(of.inputs)


def _tenths(documents: Sequence[str]) -> list[int]:
    from mog_assets.search.training import part_of

    return [part_of(f"tenth {document}", 10) for document in documents]


def recall(of: Examples, scores: np.ndarray) -> np.ndarray:
    """ER of every question by candidates in the order of their scores."""
    return of.gold.recall(ordered(of.candidates, scores))


def cross_validated(of: Examples, train: Callable[[Examples], Ranking]) -> np.ndarray:
    """ER of every question by rankings trained on documents of other folds."""
    found = np.zeros(len(of.words))
    for fold in range(FOLDS):
        own = of.folds == fold
        if not own.any():
            continue
        tested = of.of(own)
        found[own] = recall(tested, train(of.of(~own))(tested))
    return found


def untrained(of: Examples) -> Recalls:
    """ER of every fixed level, of `fused`, of others' rankings, and of gold evidence as candidates allow."""
    gold = of.gold.covered / np.maximum(of.candidates.place[:, 2], 1)
    others = {name: recall(of, rival.scores(of.candidates, of.experts)) for name, rival in RIVALS.items()}
    ours = recall(of, fused(of.candidates, of.experts))
    return {**fixed_recalls(of), "fused": ours, **others, "ceiling": recall(of, gold)}


def row(name: str, recalls: Recalls, documents: Sequence[str]) -> dict[str, str]:
    """A row of the table: ER of each ranking, with difference from the best fixed level and p."""
    fixed = {key: values.mean() for key, values in recalls.items() if ":fixed-" in key}
    best = max(fixed, key=lambda key: fixed[key])
    compared = [key for key in recalls if ":fixed-" not in key and key != "ceiling"]
    totals = by_document(np.stack([recalls[key] - recalls[best] for key in compared], axis=1), documents)
    # Holm over ours and over others' apart: what we are compared with makes nothing of ours less significant.
    p, others = permutation_p(totals, seed=SEED), np.array([key in RIVALS for key in compared])
    p[others], p[~others] = holm(p[others]), holm(p[~others])
    low, high = bootstrap_interval(totals, seed=SEED)
    line = {"collection": f"{name}, {len(documents):,} questions, {len(set(documents)):,} documents"}
    line["best fixed"] = f"{best.replace(':fixed', '')} {fixed[best]:.3f}"
    for key, a, b, sure in zip(compared, low, high, p, strict=True):
        mean = recalls[key].mean()
        line[key] = f"{mean:.3f} ({mean - fixed[best]:+.3f} [{a:+.3f}, {b:+.3f}], p {sure:.4f})"
    ceiling = recalls["ceiling"].mean()
    line["ceiling"] = f"{ceiling:.3f}"
    if "mix" in recalls:
        line["mix / best fixed"] = f"{recalls['mix'].mean() / fixed[best]:.3f}"
        line["gap closed by mix"] = f"{(recalls['mix'].mean() - fixed[best]) / (1 - fixed[best]):.0%}"
        versus = by_document((recalls["mix"] - recalls["fused"])[:, None], documents)
        line["mix against fused"] = f"{versus.mean[0]:+.3f}, p {permutation_p(versus, seed=SEED)[0]:.4f}"
    return line


TRAINERS = {"mog": trained_mog, "mix": trained_mix}


def within(collection: Collection) -> dict[str, str]:
    """Trained on the collection's own training questions."""
    of = collection.measured
    recalls = untrained(of)
    for name, train in TRAINERS.items():
        if collection.train is None:
            continue
        if collection.test is None:
            recalls[name] = cross_validated(of, train)
        else:
            recalls[name] = recall(of, train(collection.train)(of))
    return row(collection.name, recalls, of.documents)


def left_out(collection: Collection, others: Sequence[Collection]) -> dict[str, str]:
    """Trained on other collections."""
    of, train = collection.measured, merged([other.train for other in others if other.train])
    recalls = untrained(of)
    for name, make in TRAINERS.items():
        recalls[name] = recall(of, make(train)(of))
    return row(f"{' + '.join(o.name for o in others)} → {collection.name}", recalls, of.documents)


def learning(collection: Collection, sizes: Sequence[int]) -> list[dict[str, str]]:
    """Trained on fewer questions."""
    found = []
    if collection.train is None or collection.test is None:
        return found
    of, order = collection.test, collection.train.sampling_order
    for size in [*(s for s in sizes if s < len(order)), len(order)]:
        rows = np.zeros(len(order), bool)
        rows[order[:size]] = True
        recalls = untrained(of)
        for name, make in TRAINERS.items():
            recalls[name] = recall(of, make(collection.train.of(rows))(of))
        found.append(row(f"{collection.name}: {size:,} training questions", recalls, of.documents))
    return found


def scaled(of: Examples, scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0 and deviation 1 among the candidates of each question."""
    question, count = of.candidates.question, np.maximum(np.diff(of.candidates.offsets), 1)
    mean = np.bincount(question, scores, len(count)) / count
    spread = np.sqrt(np.maximum(np.bincount(question, scores**2, len(count)) / count - mean**2, 1e-12))
    return (scores - mean[question]) / spread[question]


def ensemble(train: Examples) -> Ranking:
    """`mog` and `mix`, added."""
    both = [make(train) for make in TRAINERS.values()]
    return lambda of: np.sum([scaled(of, ranking(of)) for ranking in both], axis=0)


def monotone(train: Examples) -> Ranking:
    """`mix`, whose score may not fall where an expert's rises."""
    names = features.names(train.experts, [train.experts[i] for i in train.finest])
    rising = [int(name.startswith(("score ", "z ", "rank "))) for name in names]
    return trained_mix(train, options={"monotone_constraints": rising})


def few_leaves(train: Examples) -> Ranking:
    """`mix` with smaller trees."""
    return trained_mix(train, options={"num_leaves": 7, "learning_rate": 0.1})


def without(prefix: Sequence[str]) -> Callable[[Examples], Ranking]:
    """`mix` without the features whose names begin so: they are made constant."""

    def make(train: Examples) -> Ranking:
        names = features.names(train.experts, [train.experts[i] for i in train.finest])
        gone = np.array([name.startswith(tuple(prefix)) for name in names])
        table, answered = features.table, answer_places.Places.features

        def blind_table(*columns: np.ndarray) -> np.ndarray:
            found = table(*columns)
            found[:, gone[: found.shape[1]]] = 0
            return found

        def blind_places(*args: object, **named: object) -> np.ndarray:
            found = answered(*args, **named)
            found[:, gone[-found.shape[1] :]] = 0
            return found

        def blinded(do: Callable[[], Any]) -> Any:
            features.table, answer_places.Places.features = blind_table, blind_places
            try:
                return do()
            finally:
                features.table, answer_places.Places.features = table, answered

        ranking = blinded(lambda: trained_mix(train))
        return lambda of: blinded(lambda: ranking(of))

    return make


ANSWERS = ("answers ", "corpus")
BEYOND: dict[str, Callable[[Examples], Ranking]] = {
    "mix": trained_mix,
    "mog + mix": ensemble,
    "mix, monotone": monotone,
    "mix, 7 leaves": few_leaves,
    "mix without places of answers": without(ANSWERS),
    "mix without the question's vector": without(("component",)),
    "mix without neighbours": without(tuple(f"{e} {s}" for e in ("bm25-1", "dense-1") for s in ("before", "after"))),
}


def warm(foreign: Ranking) -> Callable[[Examples], Ranking]:
    """`mix` of the project added to one of other collections."""

    def make(train: Examples) -> Ranking:
        own = trained_mix(train)
        return lambda of: scaled(of, own(of)) + scaled(of, foreign(of))

    return make


def beyond(collections: Sequence[Collection]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Variants within each collection, and left out; and warm starts with few questions."""
    inside, few = [], []
    for collection in collections:
        of, train = collection.measured, collection.train
        assert train is not None
        others = merged([c.train for c in collections if c is not collection and c.train])
        line, away = {"collection": collection.name}, {"collection": f"others → {collection.name}"}
        for name, make in BEYOND.items():
            own = cross_validated(of, make) if collection.test is None else recall(of, make(train)(of))
            line[name] = _against(own, line, of)
            away[name] = _against(recall(of, make(others)(of)), away, of)
        inside += [line, away]
        foreign = trained_mix(others)
        for size in (100, 300):
            rows = np.zeros(len(train.documents), bool)
            rows[train.sampling_order[:size]] = True
            # Without a test split, what is not drawn is measured; documents are drawn as a whole but for one.
            tested = of if collection.test is not None else of.of(~np.isin(of.documents, np.array(of.documents)[rows]))
            some = train.of(rows)
            line = {"collection": f"{collection.name}, {size} questions"}
            line["fused"] = _against(recall(tested, fused(tested.candidates, tested.experts)), line, tested)
            for name, ranking in (
                ("own", trained_mix(some)),
                ("others", foreign),
                ("own + others", warm(foreign)(some)),
                ("trained on both", trained_mix(merged([some, others]))),
            ):
                line[name] = _against(recall(tested, ranking(tested)), line, tested)
            few.append(line)
    return inside, few


_FIRST: dict[int, np.ndarray] = {}


def _against(recalls: np.ndarray, line: dict[str, str], of: Examples) -> str:
    """ER, and its difference from the first of the line with p."""
    if len(line) == 1:
        _FIRST[id(line)] = recalls
        return f"{recalls.mean():.4f}"
    totals = by_document((recalls - _FIRST[id(line)])[:, None], of.documents)
    return f"{recalls.mean():.4f} ({totals.mean[0]:+.4f}, p {permutation_p(totals, seed=SEED)[0]:.3f})"


@click.command()
@click.argument("projects", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--only-test", multiple=True, type=click.Path(exists=True, path_type=Path), help="Never trained on.")
@click.option("--beyond", "further", is_flag=True, help="Measure what was tried on top of `mix` instead.")
@click.option("--questions", type=int, help="Train on at most so many questions of each project.")
def main(projects: Sequence[Path], only_test: Sequence[Path], further: bool, questions: int | None) -> None:
    started = time.monotonic()
    collections = [fewer(opened(path), questions) for path in projects]
    foreign = [replace(opened(path), train=None) for path in only_test]
    if further:
        for title, rows in zip(("variants of `mix`", "few questions"), beyond(collections), strict=True):
            click.echo(f"\n{title}\n\n{markdown.table(rows, 100)}")
        return
    click.echo(f"\nown questions\n\n{markdown.table([within(c) for c in [*collections, *foreign]], 100)}")
    away = [left_out(c, [o for o in collections if o is not c]) for c in collections]
    away += [left_out(c, collections) for c in foreign]
    click.echo(f"\none collection left out\n\n{markdown.table(away, 100)}")
    curves = [line for c in collections for line in learning(c, (100, 300, 1000))]
    click.echo(f"\nlearning curve\n\n{markdown.table(curves, 100)}")
    click.echo(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
