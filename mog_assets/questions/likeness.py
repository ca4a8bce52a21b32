"""Near copies among questions: the same words but for inflection, order and words of no content.

Two texts are near copies if every word of content of each has a counterpart in the other: an equal word, or one with
the same beginning (`planted`, `plant`). Question words other than "what" and "which" are words of content, and so are
numbers: "Who wrote it?" and "When was it written?", type 1 and type 2 differ.

Only texts that are alike are compared word by word: those whose vectors of four-character runs of these words, weighted
by how rare the runs are, have a cosine of at least `_ALIKE`. Most pairs below it are never looked at, because of two
unit vectors with such a cosine, each shares a feature with the smallest set of the other's rarest features without
which the other would be shorter than `_ALIKE` (Bayardo et al. 2007, "Scaling up all pairs similarity search", section
3.2). Weights alone would not do: of two questions about a rare disease, most of the weight is in its name.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse

_ALIKE = 0.5
_RUN = 4
# Characters at the beginning that inflections of a word share, as a share of the longer form.
_STEM = 0.65
# Words of no content in English, German and French; other languages lose only copies that differ in such words.
_EMPTY_WORDS = """
a an the is are was were be been being am do does did done has have had having can could should would will may might
must shall of in on at to for from by with as and or that this these those it its there i you my your me we our one
what which s t
der die das den dem des ein eine einen einem einer eines ist sind war waren wird werden wurde wurden hat haben hatte
kann können soll sollte sollten muss man ich mein meine meinen es im am an von vom zu zum zur mit für auf und oder
was welche welcher welches
le la les l un une des du de d est sont était être ont peut doit on je mon ma mes il elle ce cette que qu quel
quelle quels quelles en dans à au aux par pour avec et ou
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_WORD = re.compile(r"\w+")
# Rows whose candidates are in memory at a time.
_ROWS = 1024


def normalised(text: str) -> str:
    """A text without case, punctuation, and differences of composition or width."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def near_copies(texts: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Whether each text is a near copy of any of some others.

    Args:
        texts: n texts.
        others: Texts that are kept, such as test questions.

    Returns:
        n booleans.
    """
    if not texts or not others:
        return [False] * len(texts)
    vectors = _vectors([*texts, *others])
    words, kept = [_content(text) for text in texts], [_content(text) for text in others]
    same = {normalised(text) for text in others}
    copies = [normalised(text) in same for text in texts]
    for first, second in _alike(vectors[: len(texts)], vectors[len(texts) :]):
        copies[first] = copies[first] or _agree(words[first], kept[second])
    return copies


def repetitions(texts: Sequence[str]) -> list[bool]:
    """Whether each text is a near copy of an earlier one that is not a repetition itself.

    Args:
        texts: n texts; of two near copies, the first is kept.

    Returns:
        n booleans.
    """
    if len(texts) < 2:
        return [False] * len(texts)
    vectors, words = _vectors(texts), [_content(text) for text in texts]
    earlier: dict[int, list[int]] = {}
    for first, second in _alike(vectors, vectors):
        if second < first and _agree(words[first], words[second]):
            earlier.setdefault(first, []).append(second)
    repeated, seen = [False] * len(texts), set[str]()
    for i, text in enumerate(texts):
        said = normalised(text)
        repeated[i] = said in seen or any(not repeated[j] for j in earlier.get(i, ()))
        seen.add(said)
    return repeated


def _content(text: str) -> list[str]:
    """The words of content; all words if there is none of content."""
    words = normalised(text).split()
    return [word for word in words if word not in _EMPTY] or words


def _agree(words: Sequence[str], others: Sequence[str]) -> bool:
    """Whether every word has a counterpart on the other side."""
    return all(
        word in counterpart or any(_inflected(word, other) for other in counterpart)
        for these, counterpart in ((words, set(others)), (others, set(words)))
        for word in these
    )


def _inflected(word: str, other: str) -> bool:
    """Whether two words may be forms of one."""
    least = math.ceil(_STEM * max(len(word), len(other)))
    return least > 2 and word[:least] == other[:least] and (word + other).isalpha()


def _vectors(texts: Sequence[str]) -> sparse.csr_matrix:
    """Unit vectors of texts, columns from the rarest feature to the most frequent."""
    number: dict[str, int] = {}
    columns, sizes = [], []
    for text in texts:
        runs = [run for word in _content(text) for run in _runs(f" {word} ")]
        columns += [number.setdefault(run, len(number)) for run in runs]
        sizes.append(len(runs))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    counts = sparse.csr_matrix(
        (np.ones(len(columns)), np.array(columns, np.int64), offsets), shape=(len(texts), len(number))
    )
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=len(number))
    # Smoothed, so that features of all texts still count: texts of a few may have no others.
    weights = counts @ sparse.diags(np.log((1 + len(texts)) / (1 + frequency)) + 1)
    lengths = np.sqrt(weights.multiply(weights).sum(axis=1)).A1 if len(number) else np.zeros(len(texts))
    unit = sparse.csr_matrix(sparse.diags(1 / np.maximum(lengths, 1e-12)) @ weights)
    # Equally frequent features in the order of their names: the result must not depend on the order of the texts.
    names = np.array(list(number), dtype=object)
    return unit[:, np.lexsort((np.argsort(np.argsort(names)), frequency))] if len(number) else unit


def _runs(word: str) -> list[str]:
    return [word[i : i + _RUN] for i in range(max(len(word) - _RUN + 1, 1))]


def _alike(left: sparse.csr_matrix, right: sparse.csr_matrix) -> Iterator[tuple[int, int]]:
    """Pairs of rows of two matrices whose product is at least `_ALIKE`."""
    columns = right.T.tocsr()
    rare = _rarest(left)
    for start in range(0, left.shape[0], _ROWS):
        candidates = (rare[start : start + _ROWS] @ columns).tocoo()
        first, second = candidates.row.astype(np.int64) + start, candidates.col.astype(np.int64)
        exact = left[first].multiply(right[second]).sum(axis=1).A1 if len(first) else np.zeros(0)
        kept = exact >= _ALIKE - 1e-9
        yield from zip(first[kept].tolist(), second[kept].tolist(), strict=True)


def _rarest(vectors: sparse.csr_matrix) -> sparse.csr_matrix:
    """The rarest features of every row, as many as leave the others with a length below the threshold."""
    vectors = vectors.sorted_indices()
    squares = np.concatenate([[0], np.cumsum(vectors.data**2)])
    rows = np.repeat(np.arange(vectors.shape[0]), np.diff(vectors.indptr))
    # What the entry and those after it in its row add up to.
    rest = squares[vectors.indptr[rows + 1]] - squares[:-1]
    kept = rest >= _ALIKE**2 - 1e-9
    sizes = np.bincount(rows[kept], minlength=vectors.shape[0])
    return sparse.csr_matrix(
        (vectors.data[kept], vectors.indices[kept], np.concatenate([[0], np.cumsum(sizes)])), shape=vectors.shape
    )
