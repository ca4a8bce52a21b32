"""Measures of retrieval: how much gold evidence a run's passages contain, per question."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from mog_assets import registry
from mog_assets.evaluate.ranked import KEYS, Ranked, fresh, gold_of, groups
from mog_assets.questions.sets import Level, Question
from mog_assets.questions.sources import Origins, is_generated
from mog_assets.registry import Registry
from mog_assets.resources.arrays import pairs as join
from mog_assets.search.depth import CONTEXTS

# The longest context in tokens, at four characters each; `tokens_to_answer` counts no further.
TOKENS = 2000


class Board(NamedTuple):
    """Questions that are compared with each other: of one set and split whose answers are known equally precisely.

    `evidence` is `spans` or `documents`, see `Question.level`.
    """

    question_set: str
    split: str
    evidence: str = "spans"

    @property
    def name(self) -> str:
        """`samples (dev)`; relevant documents are named."""
        return f"{self.question_set} ({self.split}{KNOWN_BY[self.evidence]})"


# The measure that orders the methods of a board.
LEADS = {"spans": "ER", "documents": "nDCG@10"}
# What a leaderboard says after the name of its split.
KNOWN_BY = {"spans": "", "documents": ", by relevant documents"}


def named(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns of `Board`; where it does not say what is known, it is spans."""
    return table if "evidence" in table else table.assign(evidence="spans")


def boards(table: pd.DataFrame, origins: Origins | None = None) -> Iterator[tuple[Board, pd.DataFrame]]:
    """Yield the rows of each board, in the order of the table.

    Args:
        table: With the columns of `Board`.
        origins: Who made the questions: those of people then come first.
    """
    parts = named(table).groupby(list(Board._fields), sort=False, observed=True)
    every = [(Board(*map(str, key)), part) for key, part in parts]
    yield from sorted(every, key=lambda pair: is_generated(pair[0].question_set, origins or {}))


@dataclass(frozen=True)
class Measure:
    """A measure of retrieval; `@k` in its name stands for the setting `k`.

    Attributes:
        values: Its value of every ranking, given `Ranked`: float of shape (rankings,), the worst where nothing was
            ranked.
        description: What it is, in one line.
        needs: What must be known of a question: `spans` or `documents`.
        least, most: Its range.
        lower_is_better: Whether less is better.
        headline: Whether it stands on leaderboards.
        version: Raised when it gives other values for the same.
    """

    values: Callable[[Ranked], np.ndarray]
    description: str
    needs: Level = "spans"
    least: float = 0
    most: float = 1
    lower_is_better: bool = False
    headline: bool = False
    version: str = "1"


MEASURES: Registry[Measure] = registry.MEASURES
"""The measures by name, in the order in which tables show them."""

for _characters in CONTEXTS:
    MEASURES.register(
        f"ER@{_characters}",
        Measure(
            partial(Ranked.recall_at, characters=_characters),
            f"evidence recall: share of min(gold characters, {_characters:,}) in the first {_characters:,} characters",
            headline=True,
        ),
    )
MEASURES.register(
    "ER",
    Measure(
        lambda ranked: np.mean([ranked.recall_at(characters) for characters in CONTEXTS], axis=0),
        "the mean of the four",
        headline=True,
    ),
)
for _name, _headline, _description in (
    ("hit@k", True, "whether the k best passages have a relevant document (Success@k)"),
    ("nDCG@10", True, "discounted cumulative gain of documents, each at the rank of its first passage"),
    ("MRR", False, "reciprocal rank of the first relevant document"),
    ("Recall@10", False, "share of relevant documents among the first ten"),
):
    MEASURES.register(
        _name, Measure(partial(Ranked.of_documents, name=_name), _description, "documents", headline=_headline)
    )
_OF_CHARACTERS: dict[str, tuple[Callable[[Ranked], np.ndarray], str]] = {
    "recall": (lambda r: r.characters, "share of the gold characters in the k best passages"),
    "precision": (lambda r: r.passed_on, "share of the characters of the k best passages that are gold"),
    "iou": (
        lambda r: r.characters + r.passed_on - r.hit,
        "gold characters and the k best passages: intersection over union",
    ),
}
for _name, (_of, _description) in _OF_CHARACTERS.items():
    _share = partial(lambda of, ranked: ranked.hit / np.maximum(of(ranked), 1), _of)
    MEASURES.register(f"char_{_name}@k", Measure(_share, _description))
MEASURES.register(
    "tokens_to_answer",
    Measure(
        lambda ranked: _tokens_to_answer(ranked),
        "tokens of passages up to the first with which one whole piece of evidence was read",
        least=1,
        most=TOKENS,
        lower_is_better=True,
    ),
)


def measure_names(k: int) -> tuple[str, ...]:
    """Return names of the measures, in the order in which tables show them.

    Args:
        k: Number of passages per question.
    """
    return tuple(measures_at(k))


def measures_at(k: int) -> dict[str, Measure]:
    """Return the measures by the names that they have for a number of passages."""
    return {name.replace("@k", f"@{k}"): measure for name, measure in MEASURES.items()}


def measure_of(name: str) -> Measure | None:
    """Return a measure by its name for any number of passages; None if it is one of answers."""
    return MEASURES.get(name) or MEASURES.get(re.sub(r"@\d+$", "@k", name))


def lower_is_better(name: str) -> bool:
    """Return whether less of a measure is better."""
    measure = measure_of(name)
    return measure is not None and measure.lower_is_better


def range_of(name: str) -> tuple[float, float]:
    """Return the least and the greatest value of a measure."""
    measure = measure_of(name)
    return (0, 1) if measure is None else (measure.least, measure.most)


def measure_versions() -> list[list[str]]:
    """Return names of the measures with their versions: what scores depend on."""
    return [[name, measure.version] for name, measure in MEASURES.items()]


def document_measures(k: int) -> tuple[str, ...]:
    """Return measures of questions of which only relevant documents are known, the leading one first."""
    names = [name for name, measure in measures_at(k).items() if measure.needs == "documents"]
    return tuple(sorted(names, key=lambda name: name != LEADS["documents"]))


def headline_measures(k: int) -> list[str]:
    """Return the measures of a leaderboard; it is sorted by the first one."""
    names = [name for name, measure in measures_at(k).items() if measure.headline]
    return sorted(names, key=lambda name: name != LEADS["spans"])


def leading_measure(measures: Collection[str]) -> str:
    """Return the measure that orders methods, of those that a board has."""
    return LEADS["spans" if LEADS["spans"] in measures else "documents"]


def evaluate(
    runs: pd.DataFrame,
    questions: Mapping[str, Sequence[Question]],
    k: int,
    advance: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """Return every measure of every question under every method.

    `ER@c` is the share of min(gold characters, c) that the first c characters of passages cover, in ranked order, with
    the last passage cut; a character that passages repeat uses context each time but counts once. `ER` is the mean of
    the four. `char_recall@k`, `char_precision@k` and `char_iou@k` compare the gold characters with the union of the k
    best passages. `hit@k` (Success@k over the documents of the k best passages), `nDCG@10`, `MRR` (RR) and `Recall@10`
    (R@10) rank documents, each at the rank of its first passage, and are computed by ir_measures: documents have the
    grades of the question, and at least 1 if they have evidence. Of questions of which only relevant documents are
    known (evidence `documents`) these four are the only measures.

    `tokens_to_answer` counts the tokens of ranked passages up to and including the first with which the passages read
    so far contain one whole piece of gold evidence (see `pieces`), in 1 … `TOKENS`. If that takes more tokens, or there
    are too few passages, it is `TOKENS`: a mean truncated at this bound, which no failure can lower. The papers count
    over all chunks; runs are cut, hence the bound.

    Args:
        runs: A row per span of a passage: question_set, question, method, rank of the passage (from 1), corpus, doc,
            start, end, tokens. Spans of a passage share its rank and are read in the order of their rows. Rows of
            questions that are not in `questions` are skipped.
        questions: The questions to score, by question set; those without evidence and relevant documents are left out.
        k: Number of passages per question.
        advance: Called with 1 after each method.

    Returns:
        Columns question_set, split, evidence (`spans` or `documents`), method, question, document (see
        `Question.document`), each measure in [0, 1] (or in its range; NaN where it is none), and answered. A
        question has a row for every method that ranked anything in its question set; if that method ranked nothing for
        the question, answered is False and every measure has its worst value (0, and `TOKENS` for tokens_to_answer), so
        that failures cannot improve a mean.
    """
    gold = gold_of(questions)
    table, passages = groups(runs, gold)
    names = measure_names(k)
    if table.empty:
        return pd.DataFrame({**{key: pd.Series(dtype=object) for key in KEYS}, **dict.fromkeys(names, 0.0)}).assign(
            answered=pd.Series(dtype=bool)
        )
    ranked = Ranked(table, passages, gold, k, advance)
    answered = np.zeros(len(table), bool)
    answered[passages["group"].to_numpy()] = True
    precise = table["evidence"].to_numpy() == "spans"
    for name, measure in zip(names, MEASURES.values(), strict=True):
        values = measure.values(ranked)
        table[name] = values if measure.needs == "documents" else np.where(precise, values, np.nan)
    table["answered"] = answered
    return table[[*KEYS, *names, "answered"]]


def _tokens_to_answer(ranked: Ranked) -> np.ndarray:
    """See `evaluate`; float array of shape (rankings,)."""
    passages, pairs, groups = ranked.passages, ranked.pairs, ranked.count
    group, rank, tokens = (passages[name].to_numpy() for name in ("group", "rank", "tokens"))
    row, piece, gold_start, gold_end = (pairs[name].to_numpy() for name in ("row", "piece", "start", "end"))
    low = np.maximum(passages["start"].to_numpy()[row], gold_start)
    high = np.minimum(passages["end"].to_numpy()[row], gold_end)
    rows = np.flatnonzero(high > low)
    if not len(rows):
        return np.full(groups, float(TOKENS))
    # From here on, each piece belongs to one group.
    _, first, piece = np.unique(join(group[row], piece)[rows], return_index=True, return_inverse=True)
    owner, wanted = group[row[rows]][first], (gold_end - gold_start)[rows][first]
    order = np.lexsort((low[rows], piece))
    piece, low, high, rank_of = piece[order], low[rows][order], high[rows][order], rank[row[rows]][order]
    offset = piece * (high.max() + 1)
    low, high = low + offset, high + offset

    def contains_piece(last: np.ndarray) -> np.ndarray:
        """Return whether passages up to a rank (pieces,) contain each whole piece."""
        added = fresh(low, np.where(rank_of <= last[piece], high, low))
        return np.bincount(piece, weights=added, minlength=len(wanted)) == wanted

    # The first rank at which a piece is complete, by bisection of all pieces at once.
    least, most = np.zeros(len(wanted), np.int64), np.full(len(wanted), rank_of.max())
    ever = contains_piece(most)
    while (least < most).any():
        middle = (least + most) // 2
        inside = contains_piece(middle)
        least, most = np.where(inside, least, middle + 1), np.where(inside, middle, most)
    never = np.iinfo(np.int64).max
    last = np.full(groups, never)
    np.minimum.at(last, owner[ever], most[ever])
    read = np.bincount(group, weights=np.where(rank <= last[group], tokens, 0), minlength=groups)
    return np.where(last == never, TOKENS, np.clip(read, 1, TOKENS)).astype(np.float64)
