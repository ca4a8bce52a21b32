"""The inputs and results of experiments.

An experiment is a function from a `Lab` to `Findings`. Expensive parts are cells: tables that are computed once, cached
with the asset, and found again by the next run, even if the previous one was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from mog_assets.answer.answerers import Each
from mog_assets.answer.roles import Roles
from mog_assets.config import Settings
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.runs import run_table
from mog_assets.evaluate.scores import compare, interval, on_documents, p_said, p_text
from mog_assets.evaluate.significance import least_p
from mog_assets.index.corpora import Encode, Read
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS
from mog_assets.questions.sets import Question, load_questions
from mog_assets.registry import EXPERIMENTS
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MogError
from mog_assets.search.depth import cut
from mog_assets.search.passages import Passages
from mog_assets.search.retrieval import Retrieval

Verdict = Literal["seen", "not seen", "undecided", "not testable here"]
# Level of the two-sided tests, Holm-corrected over the cells of a table, that decide whether a claim is seen.
ALPHA = 0.05
# Negligible difference of measures in 0 … 1; it decides claims of equality.
MARGIN = 0.02
# Version of how cells become figures and claims. Raising it makes experiments stale but keeps their cells.
STATISTICS = "documents"


class NothingToMeasure(MogError):
    """A project has no questions for an experiment; reported without failing anything else."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and our verdict on it.

    Attributes:
        paper: Paper with section, table or figure.
        claim: The claim in one sentence.
        verdict: `undecided` if there are too few questions; `not testable here` if it needs a language model, or data
            that these corpora do not have.
        because: The figures that decided it, in one sentence.
    """

    paper: str
    claim: str
    verdict: Verdict
    because: str


@dataclass(frozen=True)
class Findings:
    """The results of an experiment.

    Attributes:
        scores: A row per question set, cell and measure, with the columns of `score_rows`; empty if the results are not
            means over questions.
        tables: Further tables, rows by title.
        claims: Claims of the papers, with verdicts.
    """

    scores: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    claims: Sequence[Claim] = ()


class Cached(Protocol):
    """A cache of tables."""

    def __call__(self, name: str, key: Any, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        """Return the table of this name and key, computed if it is not cached yet.

        Args:
            name: Descriptive name of letters, digits, `-`, `_`, `.` and spaces.
            key: JSON values that its content depends on, besides the code and the assets that the experiment reads.
            make: Computes it.
        """


@dataclass(frozen=True)
class Lab:
    """The resources of experiments.

    Attributes:
        read: Reads an asset of a corpus, or of all corpora, from the store.
        encode: Texts to unit vectors, by the configured encoder.
        encode_anew: Like `encode` without a cache, for timing.
        encoder: Its fingerprint.
        other_encoder: Opens another encoder, which caches its vectors next to those of the first.
        open_retrieval: `Retrieval.open` of the project, for names of corpora and questions.
        cached: The cache of cells.
        progress: Shows progress: number of steps, and what they are.
        open_reader: Opens the configured reader.
        each: Runs the calls of a round of answering.
    """

    settings: Settings
    read: Read
    encode: Encode
    encode_anew: Encode
    encoder: str
    other_encoder: Callable[[EncoderSettings], tuple[Encode, str]]
    open_retrieval: Callable[[Sequence[str], Sequence[str]], Retrieval]
    cached: Cached
    progress: Callable[[int, str], AbstractContextManager[Callable[[int], None]]]
    open_reader: Callable[[], Roles]
    each: Each
    _computed: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def seed(self) -> int:
        """Seed of all random draws."""
        return self.settings.seed

    def tested(self, evidence: bool = True) -> dict[str, list[Question]]:
        """Test questions by question set: those with evidence, else those with an answer; without empty sets."""
        return self._questions("test", lambda q: bool(q.evidence if evidence else q.answer))

    def trained_on(self) -> dict[str, list[Question]]:
        """Return the training questions of every question set that has any."""
        return self._questions("train", lambda q: True)

    def _questions(
        self, which: Literal["train", "test"], wanted: Callable[[Question], bool]
    ) -> dict[str, list[Question]]:
        stored, by_set = self.read("questions", None), {}
        for name, question_set in self.settings.question_sets.items():
            if splits := getattr(question_set, which):
                members = [q for q in load_questions(stored.path(f"{name}.parquet"), splits) if wanted(q)]
                if members:
                    by_set[name] = members
        return by_set

    def retrieval(self, name: str, questions: Sequence[Question] | None = None) -> Retrieval:
        """Return retrieval over the corpora of a question set, for its test questions with evidence or other questions.

        Each search runs once per experiment and is shared.
        """
        if questions is None:
            key = ("retrieval", name)
            if key not in self._computed:
                self._computed[key] = self.retrieval(name, self.tested()[name])
            opened: Retrieval = self._computed[key]
            return opened
        names = self.settings.question_sets[name].corpora
        return self.open_retrieval(names, [q.question for q in questions])

    def measured(
        self,
        question_set: str,
        cell: str,
        key: Any,
        find: Callable[[], Passages],
        questions: Sequence[Question] | None = None,
    ) -> pd.DataFrame:
        """Return every measure of every question for some passages, as a cell.

        Args:
            question_set: Name of the question set.
            cell: The varied value, as named in tables.
            key: JSON values that the passages depend on, besides the assets that the experiment reads.
            find: Finds them; not called if the cell is cached.
            questions: The questions; by default the test questions with evidence.

        Returns:
            Columns question, document, cell, and the measures.
        """
        questions_measured = self.tested()[question_set] if questions is None else questions

        def make() -> pd.DataFrame:
            k, corpora = self.settings.k, self.retrieval(question_set).corpora
            table = run_table(question_set, questions_measured, cell, cut(find(), k), corpora).to_pandas()
            measured = evaluate(table, {question_set: questions_measured}, k)
            if measured.empty:
                raise MogError(f"{cell}: expected passages for at least one question of {question_set}, found none")
            return measured.drop(columns=["question_set", "split", "method"])

        rows = self.cached(f"{question_set} {cell}", [self.settings.k, key], make)
        return about(rows, questions_measured).assign(cell=cell)

    def reader(self) -> Roles:
        """Return the configured reader."""
        if "reader" not in self._computed:
            self._computed["reader"] = self.open_reader()
        roles_of: Roles = self._computed["reader"]
        return roles_of

    @property
    def reads(self) -> bool:
        """Return whether answers depend on more than rules: whether a model, small or large, reads the passages."""
        return self.settings.answering.reader != "extractive"

    def sample(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions that experiments answer: all, or a fixed sample of the configured size."""
        most = EXPERIMENT_SETTINGS.of(self.settings).questions
        if most is None or most >= len(questions):
            return list(questions)
        chosen = np.random.default_rng(self.seed).choice(len(questions), most, replace=False)
        return [questions[i] for i in sorted(chosen)]


def about(table: pd.DataFrame, questions: Iterable[Question]) -> pd.DataFrame:
    """Add the document of each question to a table with column `question`: older cells may lack it."""
    return table.assign(document=table["question"].map({q.id: q.document for q in questions}))


@dataclass(frozen=True)
class Experiment:
    """An experiment of a paper, or one of ours.

    Attributes:
        name: Name on the command line.
        title: Short title.
        asks: What is varied, over which data, and in which paper, in one or two sentences.
        run: Runs it.
        reads: Keys of the assets that it reads; none if this project does not support it (without test questions, say).
        options: The settings it depends on besides those of the assets it reads, as JSON values; encoder settings
            represent the encoder that they open.
        version: Version of the code; raised when the same inputs give different content.
        asks_test_questions: Whether it needs test questions.
    """

    name: str
    title: str
    asks: str
    run: Callable[[Lab], Findings]
    reads: Callable[[Settings], Sequence[str]]
    options: Callable[[Settings], Any] = lambda settings: None
    version: str = "1"
    asks_test_questions: bool = True


def registered(*experiments: Experiment) -> None:
    """Offer experiments."""
    for experiment in experiments:
        EXPERIMENTS.register(experiment.name, experiment)


def score_rows(
    question_set: str, cells: Sequence[pd.DataFrame], measures: Sequence[str], baseline: str | None, seed: int
) -> pd.DataFrame:
    """Return means of cells with intervals, and their comparison with one of them.

    Args:
        question_set: Name of the question set.
        cells: Tables with columns question, document, cell and the measures; all of the same questions.
        measures: Measures to compute.
        baseline: Cell that the others are compared with; None for no comparison.
        seed: Seed of the resamples.

    Returns:
        question_set, cell, measure, value, low, high, n, documents, difference, difference_low, difference_high,
        effect, p, detectable: see `evaluate.scores.compare`; and against, the baseline if there is a comparison.
        If cells have a column `answered`, also coverage, its mean.
    """
    columns = ["question", "document", "cell", *measures]
    table = compare(pd.concat([cell[columns] for cell in cells], ignore_index=True), measures, baseline, seed)
    table["against"] = np.where(table["difference"].notna(), baseline or "", "")
    answered = [cell.groupby("cell")["answered"].mean() for cell in cells if "answered" in cell]
    if len(answered) == len(cells):
        table["coverage"] = table["cell"].map(pd.concat(answered))
    table.insert(0, "question_set", question_set)
    return table


def board(scores: pd.DataFrame, question_set: str, measures: Sequence[str] | None = None) -> list[dict[str, str]]:
    """Return cells of a question set as text: values with intervals; difference, p and effect of the first measure.

    Args:
        scores: Result of `score_rows`.
        question_set: The question set to show.
        measures: The measures to show; all if empty.
    """
    here = scores[scores["question_set"] == question_set]
    measures = list(measures or dict.fromkeys(here["measure"]))
    rows = []
    for cell, part in here.groupby("cell", sort=False):
        by_measure = part.set_index("measure")
        row = {"": str(cell)}
        for name in measures:
            if name in by_measure.index:
                row[name] = interval(*by_measure.loc[name, ["value", "low", "high"]])
        first = by_measure.iloc[0] if measures[0] not in by_measure.index else by_measure.loc[measures[0]]
        numbers = {"p": p_text(first["p"]), "d": _signed(first["effect"]), "detectable": _number(first["detectable"])}
        if np.isnan(first["difference"]):
            row |= dict.fromkeys(("difference", "against", *numbers), "")
        else:
            row |= {"difference": difference_interval(first), "against": str(first["against"]), **numbers}
        row |= {"n": str(int(first["n"])), "documents": str(int(first["documents"]))}
        if "coverage" in first:
            row["coverage"] = f"{first['coverage']:.1%}"
        rows.append(row)
    return rows


def _signed(value: float) -> str:
    return "" if np.isnan(value) else f"{value:+.2f}"


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}"


def score_row(scores: pd.DataFrame, question_set: str, cell: str, measure: str) -> pd.Series:
    """Return the row of a cell and measure."""
    keys = (scores["question_set"] == question_set) & (scores["cell"] == cell) & (scores["measure"] == measure)
    return scores[keys].iloc[0]


def equivalence(row: Any, margin: float = MARGIN) -> Verdict:
    """Return whether a row is equivalent to its baseline, by the interval of their difference.

    `seen` if the interval is within the margin, `not seen` if it is outside, `undecided` if neither or if there are too
    few documents for any test to show a difference: a p-value above .05 does not show equivalence.

    References: Schuirmann 1987 (two one-sided tests), by intervals.
    """
    low, high = row["difference_low"], row["difference_high"]
    if least_p(row["documents"]) > ALPHA:
        return "undecided"
    if -margin <= low and high <= margin:
        return "seen"
    return "not seen" if low > margin or high < -margin else "undecided"


def greater(row: Any, margin: float = MARGIN) -> Verdict:
    """Return whether a row is better than its baseline, for a measure where more is better.

    `seen` if it is significantly better; `not seen` if the interval of the difference is below the margin; else
    `undecided`.
    """
    if row["difference"] > 0 and row["p"] < ALPHA:
        return "seen"
    return "not seen" if row["difference_high"] < margin else "undecided"


def difference_text(row: pd.Series) -> str:
    """Return `+0.012 [+0.003, +0.021], p = 0.008`; for a null result also the smallest detectable difference."""
    text = f"{difference_interval(row)}, {p_said(row['p'])}"
    if row["p"] < ALPHA:
        return text
    counts = on_documents(int(row["n"]), int(row["documents"]))
    # All differences are equal, or there are too few documents.
    if np.isnan(row["detectable"]):
        return f"{text} ({counts} that show nothing)"
    return f"{text} ({counts}: {row['detectable']:.3f} would have shown)"


def difference_interval(row: Any) -> str:
    """Return `+0.012 [+0.003, +0.021]`."""
    return interval(row["difference"], row["difference_low"], row["difference_high"], "+.3f")
