"""Terms that tell topics apart, for people: words and pairs of words by c-TF-IDF, one form of each word.

References: Grootendorst 2022 (BERTopic), section 3.3, equation 2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache

import numpy as np
from scipy import sparse

from mog_assets.text.terms import stem

# A pair is shown for two words if it makes up this share of the occurrences of the rarer one in the topic.
_TOGETHER = 0.5
# A word that this share of the chunks of at least half of all topics have tells no topics apart.
_COMMON = 0.1
# Words of a topic, by c-TF-IDF, that terms are made of.
_CANDIDATES = 30
# Between two words of a pair there is nothing else.
_APART = re.compile(r"[^\w\s\-‐‑]+")
_POSSESSIVE = re.compile(r"['’]s\b")
_UNITS = frozenset(("cm", "ft", "hz", "kg", "km", "lb", "mg", "ml", "mm"))

Word = tuple[str, str]
"""A word as it stands in a text, and its stem."""


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return ENGLISH_STOP_WORDS | _UNITS


def topic_terms(texts: Sequence[str], topics: np.ndarray, number: int, most: int = 10) -> list[list[str]]:
    """Return the terms of every topic, the best first.

    A term is a word, or a pair of words that mostly stand together. Of words with the same stem, only the most frequent
    form is shown. Stop words, units, numbers, and words that are common in most topics are left out.

    Args:
        texts: Of the chunks of a sample.
        topics: Topic of each chunk, −1 for none, int of shape (chunks,).
        number: How many topics there are.
        most: Most terms of a topic.

    Returns:
        `number` lists; a topic without words has an empty one.
    """
    lines = [list(_lines(text)) for text in texts]
    stems = _stems({word for text in lines for line in text for word in line})
    names = sorted(set(stems.values()))
    code = {name: i for i, name in enumerate(names)}
    rows = [[code[stems[word]] for line in text for word in line] for text in lines]
    scores = _weighed(_counted(rows, topics, number, len(names)))
    common = _common(_counted([set(row) for row in rows], topics, number, len(names)), topics)
    by_topic: list[list[list[list[str]]]] = [[] for _ in range(number)]
    for topic, text in zip(np.asarray(topics).tolist(), lines, strict=True):
        if topic >= 0:
            by_topic[topic].append(text)
    terms = []
    for topic in range(number):
        scores_of = scores[topic + 1]
        distinctive = ~common[scores_of.indices]
        order = np.lexsort((scores_of.indices[distinctive], -scores_of.data[distinctive]))[:_CANDIDATES]
        best = scores_of.indices[distinctive][order].tolist()
        terms.append(_chosen([names[i] for i in best], by_topic[topic], stems, most))
    return terms


def _lines(text: str) -> Iterator[list[str]]:
    """Yield the words of a text, in runs that nothing interrupts."""
    for part in _APART.split(_POSSESSIVE.sub("", text)):
        run: list[str] = []
        for word in re.findall(r"\w+", part):
            if len(word) > 1 and any(map(str.isalpha, word)) and word.lower() not in _stop_words():
                run.append(word)
            elif run:
                yield run
                run = []
        if run:
            yield run


def _stems(words: Collection[str]) -> dict[str, str]:
    """Return stem of every word; the plurals of "leaf" and "knife", which the stemmer does not know, have theirs."""
    lower = {word.lower() for word in words}
    singulars = {}
    for word in words:
        lowered = word.lower()
        if lowered.endswith("ves"):
            lowered = next((base for base in (f"{lowered[:-3]}f", f"{lowered[:-3]}fe") if base in lower), lowered)
        singulars[word] = stem(lowered)
    return singulars


def _counted(rows: Sequence[Collection[int]], topics: np.ndarray, number: int, words: int) -> sparse.csr_matrix:
    """Return how often each topic has each word, shape (1 + topics, words); the first row has chunks without one."""
    owner = np.repeat(np.asarray(topics, np.int64) + 1, [len(row) for row in rows])
    flat = np.fromiter((i for row in rows for i in row), np.int64, len(owner))
    counts = sparse.csr_matrix((np.ones(len(flat)), (owner, flat)), shape=(number + 1, words))
    counts.sort_indices()
    return counts


def _weighed(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return c-TF-IDF of counts of words per topic."""
    sums, of_word = (np.asarray(counts.sum(axis=axis)).ravel() for axis in (1, 0))
    owner = np.repeat(np.arange(len(sums)), np.diff(counts.indptr))
    rarity = np.log1p(sums.mean() / of_word[counts.indices])
    # Rounded, so that what is equal stays equal whatever the order of the sums.
    weights = np.round(counts.data / sums[owner] * rarity, 12)
    return sparse.csr_matrix((weights, counts.indices, counts.indptr), counts.shape)


def _common(counts: sparse.csr_matrix, topics: np.ndarray) -> np.ndarray:
    """Return words that half of the topics have often, bool of shape (words,).

    Args:
        counts: How many chunks of each topic have each word, as `_counted`.
        topics: Topic of each chunk.
    """
    number, words = counts.shape[0] - 1, counts.shape[1]
    if number < 2:
        return np.zeros(words, bool)
    sizes = np.bincount(np.asarray(topics, np.int64) + 1, minlength=number + 1)
    owner = np.repeat(np.arange(number + 1), np.diff(counts.indptr))
    often = (owner > 0) & (counts.data >= _COMMON * sizes[owner])
    return np.bincount(counts.indices[often], minlength=words) >= number - (number - 1) // 2


def _chosen(best: Sequence[str], texts: Sequence[list[list[str]]], stems: dict[str, str], most: int) -> list[str]:
    """Return terms of the best stems of a topic, in their order."""
    wanted = set(best)
    single, pairs = Counter[str](), Counter[tuple[str, str]]()
    words, shown = Counter[Word](), Counter[tuple[str, str, tuple[str, str]]]()
    capitals = Counter[str]()
    for text in texts:
        for line in text:
            stems_of = [stems[word] for word in line]
            for word, base in zip(line, stems_of, strict=True):
                if base in wanted:
                    single[base] += 1
                    words[word.lower(), base] += 1
                    capitals[word.lower()] += word.isupper()
            for (one, other), pair in zip(
                zip(line, line[1:], strict=False), zip(stems_of, stems_of[1:], strict=False), strict=True
            ):
                if pair[0] in wanted and pair[1] in wanted and pair[0] != pair[1]:
                    pairs[pair] += 1
                    shown[one.lower(), other.lower(), pair] += 1
    form: dict[str, str] = {}
    for (word, base), _ in sorted(words.items(), key=lambda item: (-item[1], item[0])):
        form.setdefault(base, word)
    of_pair: dict[tuple[str, str], tuple[str, str]] = {}
    for (one, other, pair), _ in sorted(shown.items(), key=lambda item: (-item[1], item[0])):
        of_pair.setdefault(pair, (one, other))
    every = {word: count for (word, _), count in words.items()}

    def cased(word: str) -> str:
        return word.upper() if 2 * capitals[word] > every[word] else word

    terms, used = [], set[str]()
    for base in best:
        if base in used:
            continue
        together = [
            (count, pair)
            for pair, count in pairs.items()
            if base in pair and not used & set(pair) and count >= _TOGETHER * min(single[pair[0]], single[pair[1]])
        ]
        if together and max(together)[0] > 1:
            count, pair = min(together, key=lambda item: (-item[0], item[1]))
            used |= set(pair)
            terms.append(" ".join(map(cased, of_pair[pair])))
        else:
            used.add(base)
            terms.append(cased(form[base]))
        if len(terms) == most:
            break
    return terms
