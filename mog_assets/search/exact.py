"""Known items: what is typed exactly, and few texts have, stands among the first passages of every ranking.

Vectors do not know a name that their encoder never read, coarse levels dilute it, and a trained ranking has learned
from questions that contain none. People try a search with just such a word. So whatever orders the candidates, those
that have what is typed stand at a certain place at the latest, in the order of BM25 of level 1:

- where the question is one option, version or name in code, or quotes words, the pieces that have it as it stands come
  first, before others those that define the name, see `definitions`;
- where few candidates have any word of the question, these come first;
- where a short question has words that one piece alone has, and these pieces are of one document, they come first;
- where the question has all words of a document's title, two or more, the best piece of the document comes first: that
  of the title with most words, if there is one;
- other pieces with a rare word come after two that have none, after three more, and so on.

In long questions and small collections rare words are often there by chance, so a word must be rarer there.

What this costs and gains was measured on eleven collections (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mog_assets.index.bm25 import Statistics
from mog_assets.index.postings import Words
from mog_assets.resources.arrays import pairs, places, unpaired
from mog_assets.search.candidates import Candidates
from mog_assets.search.definitions import MENTIONED
from mog_assets.search.relevance import ordered
from mog_assets.text.terms import is_word

# A word is rare that so many level-1 chunks have, or fewer; in a question of more than `SHORT` terms also no more than
# this share of them. N-grams of scripts without blanks are no words.
RARE, SHORT, SHARE = 2, 4, 1 / 500
# Values of `Candidates.rare`: what the question is or quotes as it stands, at most (see `definitions`), a word of one
# piece alone in a short question, and another rare word.
WHOLE, SOLE, OTHER = MENTIONED, MENTIONED + 1, MENTIONED + 2
# Where so few candidates have any word of the question, these come first.
FEW = 12
# At most so many other pieces with a rare word are raised, each behind so many without, the first behind one less.
MOST, STEP = 8, 3


def rare_words(terms: Sequence[str], statistics: Statistics) -> dict[str, int]:
    """The rare words of a question, each with its value of `Candidates.rare`.

    Args:
        terms: Of the question.
        statistics: Those that weigh the words of level 1.
    """
    words = [term for term in dict.fromkeys(terms) if is_word(term)]
    times = statistics.frequencies_of(words).astype(int).tolist()
    short = len(terms) <= SHORT
    limit = RARE if short else min(RARE, SHARE * statistics.chunks)
    rare = {word: frequency for word, frequency in zip(words, times, strict=True) if frequency <= limit}
    return {word: SOLE if short and frequency == 1 else OTHER for word, frequency in rare.items()}


@dataclass(frozen=True)
class Typed:
    """What of questions stands exactly in few texts.

    Attributes:
        index: Of level 1 of all corpora.
        titles: Of the titles of all documents.
        sizes: Different words of each title, int64 of shape (documents,).
        statistics: See `rare_words`.
        terms: Of every question.
        whole: Of every question the pieces that have it, or what it quotes, as it stands, and the value of each.
    """

    index: Words
    titles: Words
    sizes: np.ndarray
    statistics: Statistics
    terms: Sequence[Sequence[str]]
    whole: Sequence[tuple[np.ndarray, np.ndarray]]

    def named(self, question: int) -> tuple[np.ndarray, np.ndarray]:
        """Documents with a title of two words or more that a question has all of, ascending, and how many words."""
        parts = [self.titles.chunks_of(term) for term in set(self.terms[question])]
        shared = np.bincount(np.concatenate([np.zeros(0, np.int64), *parts]), minlength=len(self.sizes))
        documents = np.flatnonzero((shared > 1) & (shared == self.sizes))
        return documents, shared[documents]

    def pieces(self, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """The pieces with rare words of some questions, which are numbered from 0.

        Returns:
            `arrays.pairs` of question and piece, ascending; and the least of `Candidates.rare` by its words: int8.
        """
        keys, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
        for number, (terms, whole) in enumerate(zip(self.terms[rows], self.whole[rows], strict=True)):
            rare = rare_words(terms, self.statistics).items()
            for chunks, value in [whole, *((self.index.chunks_of(word), value) for word, value in rare)]:
                keys.append(pairs(np.full(len(chunks), number), chunks.astype(np.int64)))
                values.append(np.broadcast_to(np.asarray(value, np.int8), len(chunks)))
        joined, least = np.concatenate(keys), np.concatenate(values)
        order = np.lexsort((least, joined))
        distinct, first = np.unique(joined[order], return_index=True)
        return distinct, least[order][first]


def latest(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """The place at which each candidate stands at the latest, from 0: float64 of shape (n,), infinite for most.

    Args:
        candidates: The candidates.
        scores: Of the ranking, shape (n,).
    """
    question, words = candidates.question, candidates.scores[:, 0]
    document = candidates.piece - candidates.place[:, 0]
    last = np.full(len(question), np.inf)

    rows = np.flatnonzero(candidates.rare)
    order = rows[np.lexsort((candidates.piece[rows], -words[rows], candidates.rare[rows], question[rows]))]
    place = places(question[order])
    kept = place < MOST
    # Half a place before the piece that stands there by its score.
    last[order[kept]] = STEP * (place[kept] + 1) - 1.5

    alone = np.flatnonzero(candidates.rare == SOLE)
    of_question, _ = unpaired(np.unique(pairs(question[alone], document[alone])))
    documents = np.bincount(of_question, minlength=len(candidates.floors))
    matching = np.bincount(question, words > 0, len(candidates.floors))
    few = (words > 0) & (matching <= FEW)[question]
    first = few | ((candidates.rare == SOLE) & (documents == 1)[question] & ~(matching <= FEW)[question])
    whole = (candidates.rare > 0) & (candidates.rare <= WHOLE)
    # Nothing else comes before what stands exactly.
    first = whole | (first & ~(np.bincount(question, whole, len(candidates.floors)) > 0)[question])
    rows = np.flatnonzero(first)
    # 0 is no rare word at all, which is not better than a mention.
    value = np.where(candidates.rare[rows] > 0, np.minimum(candidates.rare[rows], WHOLE), WHOLE)
    order = rows[np.lexsort((candidates.piece[rows], -words[rows], value, question[rows]))]
    # Before all that have a place by their score.
    last[order] = places(question[order]) - float(len(question))
    best = _of_titles(candidates, scores)
    last[best] = np.minimum(last[best], -1)
    return last


def _of_titles(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Rows of the best pieces of documents whose title a question has, at most one of each question."""
    document = candidates.piece - candidates.place[:, 0]
    most = np.zeros(len(candidates.floors), np.int8)
    np.maximum.at(most, candidates.question, candidates.title)
    rows = np.flatnonzero((candidates.title > 0) & (candidates.title == most[candidates.question]))
    of_question, _ = unpaired(np.unique(pairs(candidates.question[rows], document[rows])))
    rows = rows[(np.bincount(of_question, minlength=len(most)) == 1)[candidates.question[rows]]]
    order = rows[np.lexsort((candidates.piece[rows], -scores[rows], candidates.question[rows]))]
    best: np.ndarray = order[places(candidates.question[order]) == 0]
    return best


def lifted(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Scores of a ranking with known items at their places: float64 of shape (n,).

    The scores of a question stay the same and go to other candidates; only of equal ones the later are a trifle less.

    Args:
        candidates: The candidates.
        scores: Of the ranking, shape (n,).
    """
    raised, last = np.asarray(scores, np.float64).copy(), latest(candidates, scores)
    moved = np.zeros(len(candidates.floors), bool)
    moved[candidates.question[np.isfinite(last)]] = True
    rows = np.flatnonzero(moved[candidates.question])
    if not len(rows):
        return raised
    before = ordered(candidates, scores)
    before = before[moved[candidates.question[before]]]
    place = places(candidates.question[before])
    at = np.empty(len(candidates.question))
    at[before] = place
    after = rows[np.lexsort((np.minimum(at, last)[rows], candidates.question[rows]))]
    trifle = 1e-12 * max(float(np.abs(raised[rows]).max()), 1.0)
    raised[after] = raised[before] - trifle * place
    return raised
