"""Term counts: one tokenisation of every document serves the BM25 indexes of all levels.

Terms are words, and n-grams of characters where a script has no blanks between words. A term belongs to the level-1
chunk that it starts in, even if the text is cut inside it. So the counts of a coarser chunk are sums of the counts of
the level-1 chunks it covers, for every chunker.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from mog_assets.chunking.chunks import Layout
from mog_assets.chunking.layouts import bucket_layout
from mog_assets.chunking.reuse import write_rows

# Part of the fingerprint of all term counts.
TOKENIZER = (
    "words of two characters and more, counted where they start, lower case, no final sigma, English stop words, "
    "Snowball English stems; bigrams of Han, kana and Hangul, trigrams of Thai, Lao, Khmer and Myanmar"
)
# Letters and marks by script, for character classes. Digits and punctuation marks are none.
_HAN = r"\u3005-\u3007\u302a-\u302d\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_KANA = r"\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"
# Written with blanks, but a word is one with its endings.
_HANGUL = r"\u1100-\u11ff\u302e\u302f\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb\uffa0-\uffdc"
_THAI_LAO = r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
_KHMER = r"\u1780-\u17d3\u17d7\u17dc\u17dd"
_MYANMAR = r"\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f"
_BIGRAMS, _TRIGRAMS = _HAN + _KANA + _HANGUL, _THAI_LAO + _KHMER + _MYANMAR
_WITHOUT_BLANKS = re.compile(f"[{_BIGRAMS}{_TRIGRAMS}]")
_RUN = re.compile(f"([{_BIGRAMS}]+)|([{_TRIGRAMS}]+)")
_WORD = re.compile(r"\b\w\w+\b")
# Of a text with blanks around n-grams. A vowel sign is no character of a word, but one of an n-gram.
_TERM = re.compile(rf"[{_BIGRAMS}{_TRIGRAMS}]+|{_WORD.pattern}")
# The rest of the word, or as much as an n-gram has of the rest of the run, after a place inside it.
_REST = re.compile(
    rf"(?<=[^\W{_BIGRAMS}{_TRIGRAMS}])[^\W{_BIGRAMS}{_TRIGRAMS}]+"
    rf"|(?<=[{_BIGRAMS}])([{_BIGRAMS}]{{1,2}})|(?<=[{_TRIGRAMS}])([{_TRIGRAMS}]{{1,3}})"
)


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


def stem(word: str) -> str:
    """The stem of a word in lower case, as in term counts."""
    stem: str = _stemmer().stemWord(word.replace("ς", "σ"))
    return stem


def _spaced(run: re.Match[str]) -> str:
    """The n-grams of a run, with blanks around them; a run that is shorter than n as it is."""
    text, n = run[0], 2 if run[1] else 3
    return f" {' '.join(text[i : i + n] for i in range(max(len(text) - n + 1, 1)))} "


def _words(text: str) -> list[str]:
    """The terms of a text in lower case, neither stemmed nor without stop words."""
    if text.isascii() or not _WITHOUT_BLANKS.search(text):
        return _WORD.findall(text)
    return _TERM.findall(_RUN.sub(_spaced, text))


def tokenise(texts: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Token ids of each text, and the terms that the ids stand for."""
    from bm25s.stopwords import STOPWORDS_EN

    stop, number = frozenset(STOPWORDS_EN), dict[str, int]()
    # Which small sigma a capital one becomes depends on the text after the word.
    rows = [
        [number.setdefault(word, len(number)) for word in _words(text.lower().replace("ς", "σ")) if word not in stop]
        for text in texts
    ]
    stems = _stemmer().stemWords(list(number))
    ids = {term: i for i, term in enumerate(dict.fromkeys(stems))}
    of_word = [ids[term] for term in stems]
    return [[of_word[word] for word in row] for row in rows], list(ids)


def is_word(term: str) -> bool:
    """Whether a term is a word, and no n-gram of a script without blanks."""
    return _WITHOUT_BLANKS.search(term) is None


def query_terms(questions: Sequence[str]) -> list[list[str]]:
    """Terms of each question, in order, repetitions included."""
    ids, terms = tokenise(questions)
    return [[terms[i] for i in row] for row in ids]


def whole_words(text: str, spans: np.ndarray) -> list[str]:
    """The texts of spans, each with exactly the terms that start in it, complete.

    Args:
        text: The text.
        spans: Int array of shape (n, 2): start and end offsets.
    """

    def first(start: int) -> int:
        rest = _REST.match(text, start)
        # An n-gram that starts here is complete.
        return start if rest is None or rest.lastindex == len(rest[0]) - 1 else rest.end()

    def last(end: int) -> int:
        rest = _REST.match(text, end)
        if rest is None:
            return end
        return rest.end() if rest.lastindex is None else min(end + rest.lastindex, rest.end())

    return [text[first(start) : last(end)] for start, end in spans.tolist()]


def count_bucket(documents: str, spans: str, out: str, previous: str | None = None) -> int:
    """Count the terms of a bucket: a table of `document` (row of the bucket), `chunk`, `term`, `count`.

    Chunks are level-1 chunks, numbered from 0 in every document; −1 is its title.

    Args:
        documents: Parquet file with columns `title`, `text` and `sha256`.
        spans: Parquet file of their level-1 spans.
        out: Parquet file to write.
        previous: Output of this function for an earlier state of the bucket.

    Returns:
        Number of documents tokenised: those that are not in `previous`.
    """
    table = pq.read_table(documents, columns=["title", "text", "sha256"])
    layout = bucket_layout(Path(documents), Path(spans))
    cuts = [layout.spans[first:last] for first, last in pairwise(layout.offsets)]

    def count(positions: list[int]) -> pa.Table:
        pieces = []
        for position in positions:
            text = table["text"][position].as_py()
            pieces += [table["title"][position].as_py(), *whole_words(text, cuts[position])]
        ids, terms = tokenise(pieces)
        order = sorted(range(len(terms)), key=terms.__getitem__)
        rank = np.empty(len(terms), np.int64)
        rank[order] = np.arange(len(terms))
        flat = rank[np.fromiter((i for row in ids for i in row), np.int64)]
        rows = np.repeat(np.arange(len(ids)), [len(i) for i in ids])
        pairs, counts = np.unique(rows * max(len(terms), 1) + flat, return_counts=True)
        piece, code = pairs // max(len(terms), 1), pairs % max(len(terms), 1)
        sizes = [1 + len(cuts[position]) for position in positions]
        document = np.repeat(np.asarray(positions, np.int32), sizes)
        chunk = np.concatenate([np.arange(-1, size - 1, dtype=np.int32) for size in sizes])
        return pa.table(
            {
                "document": document[piece],
                "chunk": chunk[piece],
                "term": pa.array([terms[i] for i in order], pa.string()).take(code),
                "count": counts.astype(np.int32),
            }
        )

    # Counts depend on title and text (the hash of the document) and on where the text is cut.
    keys = [
        hashlib.sha256(sha256.encode() + cut.tobytes()).hexdigest()
        for sha256, cut in zip(table["sha256"].to_pylist(), cuts, strict=True)
    ]
    return write_rows(Path(out), keys, Path(previous) if previous else None, count)


def assemble(buckets: Sequence[Path], layouts: Sequence[Layout]) -> dict[str, Any]:
    """Combine the counts of all buckets.

    Args:
        buckets: Files that `count_bucket` wrote, in order.
        layouts: Layouts of the buckets.

    Returns:
        `terms`: sorted list; `chunks` and `titles`: int32 CSR matrices of shape (level-1 chunks, terms) and
        (documents, terms).
    """
    tables = [pq.read_table(path, read_dictionary=["term"]).unify_dictionaries().combine_chunks() for path in buckets]
    local = [table["term"].combine_chunks() for table in tables]
    terms = sorted({term for column in local for term in column.dictionary.to_pylist()})
    number = {term: i for i, term in enumerate(terms)}
    parts: dict[str, list[Any]] = {"chunks": [], "titles": []}
    for table, column, layout in zip(tables, local, layouts, strict=True):
        to_global = np.array([number[t] for t in column.dictionary.to_pylist()], np.int32)
        term = to_global[column.indices.to_numpy()] if len(table) else np.zeros(0, np.int32)
        document, chunk, count = (table[name].to_numpy() for name in ("document", "chunk", "count"))
        title = chunk < 0
        for name, here, row, rows in (
            ("chunks", ~title, layout.offsets[document] + chunk, layout.count(1)),
            ("titles", title, document, len(layout.documents)),
        ):
            entries = (count[here], (row[here], term[here]))
            parts[name].append(sparse.csr_matrix(entries, shape=(rows, len(terms)), dtype=np.int32))
    return {"terms": terms, **{name: sparse.vstack(part, "csr") for name, part in parts.items()}}


def level_counts(chunks: Any, titles: Any, layout: Layout, level: int) -> Any:
    """Counts of "title + text" of every chunk of a level: int32 CSC matrix of shape (chunks of the level, terms)."""
    document = np.repeat(np.arange(len(layout.documents)), np.diff(layout.level_offsets(level)))
    finest = np.arange(layout.count(1))
    one = np.ones(len(finest), np.int32)
    grouped = sparse.csr_matrix((one, (layout.containing(finest, level), finest)), dtype=np.int32)
    counts = (grouped @ chunks + titles[document]).tocsc()
    counts.sort_indices()
    return counts
