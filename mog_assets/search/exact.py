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

from dataclasses import dataclass

import numpy as np

from mog_assets.index.corpora import Corpora
from mog_assets.index.postings import Matches
from mog_assets.resources.arrays import greatest_of, pairs, places, unpaired
from mog_assets.search.candidates import DEPTHS, Candidates, looked_up, ordered
from mog_assets.search.definitions import HEADED, MENTIONED, Definitions
from mog_assets.search.index import Query
from mog_assets.text.terms import is_word

# A word is rare that so many level-1 chunks have, or fewer; in a question of more than `SHORT` terms also no more than
# this share of them. N-grams of scripts without blanks are no words.
RARE, SHORT, SHARE = 2, 4, 1 / 500
# Values of `Candidates.rare`: what the question is or quotes as it stands, at most (see `definitions`), a word of one
# piece alone in a short question, and another rare word.
LITERAL, SOLE, OTHER = MENTIONED, MENTIONED + 1, MENTIONED + 2
# Where so few candidates have any word of the question, these come first.
FEW = 12
# Pieces that are read to find the definition of a name, or that have what is quoted.
_READ = 200
# At most so many other pieces with a rare word are raised, each behind so many without, the first behind one less.
MOST, STEP = 8, 3


@dataclass(frozen=True)
class Typed:
    """Parts of a question that stand exactly in few texts.

    Attributes:
        pieces: Those with a rare word, or with what the question is or quotes as it stands, ascending.
        values: Of `Candidates.rare`, for each.
        documents: Those with a title of two words or more that the question has all of, ascending.
        words: How many words each title has.
    """

    pieces: np.ndarray
    values: np.ndarray
    documents: np.ndarray
    words: np.ndarray

    def restricted_to(self, allowed: np.ndarray | None) -> np.ndarray:
        """Return those of the pieces that may be found."""
        return self.pieces if allowed is None else self.pieces[allowed[self.pieces]]

    def values_of(self, pieces: np.ndarray) -> np.ndarray:
        """Return `Candidates.rare` of pieces."""
        return looked_up(pieces, self.pieces, self.values)

    def title_words(self, documents: np.ndarray) -> np.ndarray:
        """Return `Candidates.title` of pieces of these documents."""
        return looked_up(documents, self.documents, self.words)


def find_typed(corpora: Corpora, query: Query, words: Matches, titles: Matches, scores: np.ndarray) -> Typed:
    """Find what of a question stands exactly in few texts.

    Args:
        corpora: The texts.
        query: The question.
        words: Its terms in pieces with their titles.
        titles: Its terms in titles.
        scores: BM25 of all pieces, shape (pieces,).
    """
    literal, rank = _literal_matches(corpora, query, scores)
    pieces, values = [literal], [rank]
    for place, value in rare_words(words):
        pieces.append(words.texts_of(place))
        values.append(np.full(len(pieces[-1]), value, np.int8))
    every, least = np.concatenate(pieces), np.concatenate(values)
    order = np.lexsort((least, every))
    every = every[order]
    first = np.flatnonzero(np.diff(every, prepend=-1))
    common = np.bincount(titles.text)
    documents = np.flatnonzero(common > 1)
    documents = documents[common[documents] == titles.of.sizes[documents]]
    shared_words = np.minimum(common[documents], np.iinfo(np.int8).max).astype(np.int8)
    return Typed(every[first], least[order[first]], documents, shared_words)


def rare_words(words: Matches) -> list[tuple[int, int]]:
    """Return the places of the rare words of a question, each with its value of `Candidates.rare`."""
    short = len(words.order) <= SHORT
    limit = RARE if short else min(RARE, SHARE * words.of.count)
    times = enumerate(zip(words.terms, words.frequencies.tolist(), strict=True))
    rare = [(place, frequency) for place, (term, frequency) in times if 0 < frequency <= limit and is_word(term)]
    return [(place, SOLE if short and frequency == 1 else OTHER) for place, frequency in rare]


def _literal_matches(corpora: Corpora, query: Query, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pieces that have a question, or what it quotes, as it stands, and how; see `definitions`."""
    if not query.is_literal:
        quoted = query.quoted if query.allowed is None else query.quoted[query.allowed[query.quoted]]
        if len(quoted) > _READ:
            quoted = quoted[greatest_of(scores[quoted], _READ)]
        return quoted, np.full(len(quoted), MENTIONED, np.int8)
    # What may not be found says nothing of the rest.
    words = scores if query.allowed is None else np.where(query.allowed, scores, 0)
    pieces = greatest_of(words, _READ)
    pieces = pieces[np.lexsort((pieces, -words[pieces]))][: np.count_nonzero(words[pieces] > 0)]
    layout, document_of = corpora.layout, corpora.layout.document_of[pieces]
    texts = corpora.texts(document_of.tolist())
    typed = Definitions(query.text, [text for _, text in texts.values()])
    values = np.array(
        [
            typed.rank(texts[document][1], start, end, layout.documents[document])
            for document, (start, end) in zip(document_of.tolist(), layout.spans[pieces].tolist(), strict=True)
        ],
        np.int8,
    )
    # A document of that name defines it where it begins, unless a piece of it does.
    defined = set(document_of[values == HEADED].tolist())
    for i in np.flatnonzero(pieces == layout.offsets[document_of]).tolist():
        document = int(document_of[i])
        if document not in defined and typed.named(texts[document][0], layout.documents[document]):
            values[i] = HEADED
    # Of what is analysed to the same terms, other spellings are none of it, unless there is no other.
    values[: DEPTHS[0]][values[: DEPTHS[0]] == 0] = 0 if values.any() else MENTIONED
    return pieces[values > 0], values[values > 0]


def latest(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Return the place at which each candidate stands at the latest, from 0: float64 of shape (n,), infinite for most.

    Args:
        candidates: The candidates.
        scores: Of the ranking, shape (n,).
    """
    question, words = candidates.question, candidates.scores[:, 0]
    document = candidates.piece - candidates.place[:, 0]
    last = np.full(len(question), np.inf)
    matching = np.bincount(question, words > 0, candidates.count)
    first = (words > 0) & (matching <= FEW)[question]
    rows = np.flatnonzero(candidates.rare)
    if len(rows):
        order = rows[np.lexsort((candidates.piece[rows], -words[rows], candidates.rare[rows], question[rows]))]
        place = places(question[order])
        within = place < MOST
        # Half a place before the piece that stands there by its score.
        last[order[within]] = STEP * (place[within] + 1) - 1.5

        alone = np.flatnonzero(candidates.rare == SOLE)
        of_question, _ = unpaired(np.unique(pairs(question[alone], document[alone])))
        documents = np.bincount(of_question, minlength=candidates.count)
        first |= (candidates.rare == SOLE) & (documents == 1)[question] & ~(matching <= FEW)[question]
        literal = (candidates.rare > 0) & (candidates.rare <= LITERAL)
        # Nothing else comes before what stands exactly.
        first = literal | (first & ~(np.bincount(question, literal, candidates.count) > 0)[question])
    rows = np.flatnonzero(first)
    if len(rows):
        # 0 is no rare word at all, which is not better than a mention.
        value = np.where(candidates.rare[rows] > 0, np.minimum(candidates.rare[rows], LITERAL), LITERAL)
        order = rows[np.lexsort((candidates.piece[rows], -words[rows], value, question[rows]))]
        # Before all that have a place by their score.
        last[order] = places(question[order]) - float(len(question))
    if candidates.title.any():
        best = _of_titles(candidates, scores)
        last[best] = np.minimum(last[best], -1)
    return last


def _of_titles(candidates: Candidates, scores: np.ndarray) -> list[int]:
    """Return rows of the best pieces of documents whose title a question has, at most one of each question."""
    rows = np.flatnonzero(candidates.title)
    columns = (candidates.question, candidates.title, candidates.piece - candidates.place[:, 0], scores)
    best: dict[int, tuple[int, dict[int, tuple[float, int]]]] = {}
    for row, (question, words, document, score) in zip(
        rows.tolist(), zip(*(column[rows].tolist() for column in columns), strict=True), strict=True
    ):
        most, documents = best.get(question, (0, {}))
        if words > most:
            most, documents = best[question] = words, {}
        # Of equal ones the earlier piece.
        if words == most and (document not in documents or score > documents[document][0]):
            documents[document] = score, row
    return [row for _, documents in best.values() if len(documents) == 1 for _, row in documents.values()]


def boosted(candidates: Candidates, scores: np.ndarray) -> np.ndarray:
    """Return scores of a ranking with known items at their places: float64 of shape (n,).

    The scores of a question stay the same and go to other candidates; only of equal ones the later are a trifle less.

    Args:
        candidates: The candidates.
        scores: Of the ranking, shape (n,).
    """
    raised, last = np.asarray(scores, np.float64).copy(), latest(candidates, scores)
    placed = np.flatnonzero(last < np.inf)
    if not len(placed):
        return raised
    moved = np.zeros(candidates.count, bool)
    moved[candidates.question[placed]] = True
    rows = np.flatnonzero(moved[candidates.question])
    before = ordered(candidates, scores)
    before = before[moved[candidates.question[before]]]
    place = places(candidates.question[before])
    at = np.empty(len(candidates.question))
    at[before] = place
    after = rows[np.lexsort((np.minimum(at, last)[rows], candidates.question[rows]))]
    trifle = 1e-12 * max(float(np.abs(raised[rows]).max()), 1.0)
    raised[after] = raised[before] - trifle * place
    return raised
