"""Known items: what is typed exactly, and few texts have, stands among the first passages of every ranking.

Vectors do not know a name that their encoder never read, coarse levels dilute it, and a trained ranking has learned
from questions that contain none. People try a search with just such a word. So whatever orders the candidates, those
that have a rare word of the question stand at a certain place at the latest. In the order of BM25 of level 1:

- where few candidates have any word of the question, these come first;
- where one document alone has words that no other piece has, the pieces with them come first;
- other pieces with a rare word come after two that have none, after three more, and so on.

What this costs and gains was measured on eleven collections (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.arrays import pairs, places, unpaired
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.gold import ordered
from mog_assets.retrieval.bm25 import Bm25Index, Statistics
from mog_assets.retrieval.tokens import is_word

# A word is rare that so many level-1 chunks have, or fewer. N-grams of scripts without blanks are no words.
RARE = 2
# Where so few candidates have any word of the question, these come first.
FEW = 24
# At most so many other pieces with a rare word are raised, each behind so many without, the first behind one less.
MOST, STEP = 8, 3


def rare_words(terms: Sequence[str], statistics: Statistics) -> dict[str, int]:
    """The rare words of a question, with how many pieces each has.

    Args:
        terms: Of the question.
        statistics: Those that weigh the words of level 1: they are held while few documents change.
    """
    words = [term for term in dict.fromkeys(terms) if is_word(term)]
    times = statistics.frequencies_of(words).astype(int).tolist()
    return {word: frequency for word, frequency in zip(words, times, strict=True) if frequency <= RARE}


@dataclass(frozen=True)
class RareWords:
    """The pieces that have a rare word of a question.

    Attributes:
        index: Of level 1 of all corpora.
        statistics: See `rare_words`.
        terms: Of every question.
    """

    index: Bm25Index
    statistics: Statistics
    terms: Sequence[Sequence[str]]

    def pieces(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """The pieces with rare words of some questions, numbered from 0.

        Returns:
            `arrays.pairs` of question and piece, ascending; and how many pieces have the rarest of its words, int8.
        """
        keys, times = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
        for number, terms in enumerate(self.terms[rows]):
            for word, frequency in rare_words(terms, self.statistics).items():
                chunks = self.index.chunks_of(word).astype(np.int64)
                keys.append(pairs(np.full(len(chunks), number), chunks))
                times.append(np.full(len(chunks), frequency, np.int8))
        joined, frequencies = np.concatenate(keys), np.concatenate(times)
        order = np.lexsort((frequencies, joined))
        distinct, first = np.unique(joined[order], return_index=True)
        return distinct, frequencies[order][first]


def latest(found: Candidates) -> np.ndarray:
    """The place at which each candidate stands at the latest, from 0: float64 of shape (n,), infinite for most."""
    question, words = found.question, found.scores[:, 0]
    document = found.piece - found.place[:, 0]
    last = np.full(len(question), np.inf)

    rows = np.flatnonzero(found.rare)
    order = rows[np.lexsort((found.piece[rows], -words[rows], found.rare[rows], question[rows]))]
    place = places(question[order])
    kept = place < MOST
    # Half a place before the piece that stands there by its score.
    last[order[kept]] = STEP * (place[kept] + 1) - 1.5

    alone = np.flatnonzero(found.rare == 1)
    of_question, _ = unpaired(np.unique(pairs(question[alone], document[alone])))
    documents = np.bincount(of_question, minlength=len(found.floors))
    matching = np.bincount(question, words > 0, len(found.floors))
    few = (words > 0) & (matching <= FEW)[question]
    first = few | ((found.rare == 1) & (documents == 1)[question] & ~(matching <= FEW)[question])
    rows = np.flatnonzero(first)
    order = rows[np.lexsort((found.piece[rows], -words[rows], question[rows]))]
    # Before all that have a place by their score.
    last[order] = places(question[order]) - float(len(question))
    return last


def lifted(found: Candidates, scores: np.ndarray) -> np.ndarray:
    """Scores of a ranking with known items at their places: float64 of shape (n,).

    The scores of a question stay the same and go to other candidates; only of equal ones the later are a trifle less.

    Args:
        found: The candidates.
        scores: Of the ranking, shape (n,).
    """
    raised, last = np.asarray(scores, np.float64).copy(), latest(found)
    moved = np.zeros(len(found.floors), bool)
    moved[found.question[np.isfinite(last)]] = True
    rows = np.flatnonzero(moved[found.question])
    if not len(rows):
        return raised
    before = ordered(found, scores)
    before = before[moved[found.question[before]]]
    place = places(found.question[before])
    at = np.empty(len(found.question))
    at[before] = place
    after = rows[np.lexsort((np.minimum(at, last)[rows], found.question[rows]))]
    trifle = 1e-12 * max(float(np.abs(raised[rows]).max()), 1.0)
    raised[after] = raised[before] - trifle * place
    return raised
