"""Chunkers of level 1: each cuts a text into spans that tile it; and the documents of buckets cut by one.

A chunker is a function of a text, its options, and, if it uses meaning, the vectors of the text's units (`units` of
text/cuts.py). Its spans start at 0, are adjacent, and end at len(text); an empty text has none.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets import registry
from mog_assets.build.reuse import write_rows
from mog_assets.registry import Registry
from mog_assets.text.characters import characters
from mog_assets.text.cuts import (
    WINDOW,
    Spans,
    candidates,
    cut,
    least,
    led,
    opening,
    sentence_ends,
    spans_to,
    token_starts,
    unit_chars,
    units,
)

# Logical name of the weights of a trained chunker.
WEIGHTS = "chunker.safetensors"
Split = Callable[[str, np.ndarray | None], Spans]
"""Maps a text, and unit vectors of its units (shape (units, size)) or None if not used, to its spans."""


@dataclass(frozen=True)
class Options:
    """Inputs of a chunker besides the text.

    Attributes:
        finest_chars: Characters of a chunk, ≥ 1; each chunker documents how close it comes.
        tokens: Tokens of a chunk, ≥ 1, for chunkers that count them; None for characters.
        weights: File of a trained model, for chunkers that have one.
    """

    finest_chars: int
    tokens: int | None = None
    weights: Path | None = None


@dataclass(frozen=True)
class Chunker:
    """A chunking method.

    Attributes:
        make: Makes the cutting function from its options. Slow work, such as reading weights, is done here, once.
        sentence_vectors: Whether it uses vectors, of the units of at most `unit_chars` characters.
        trained: Whether it uses the weights of a trained model, the file `WEIGHTS` of the asset `chunker`.
        leads: Whether a heading at the end of a span goes to the next, see `cuts.led`.
        version: Raised when it gives other spans for the same text.
    """

    make: Callable[[Options], Split]
    sentence_vectors: bool = False
    trained: bool = False
    leads: bool = True
    version: str = "2"


def sentences(text: str, finest_chars: int) -> Spans:
    """Return whole sentences packed up to `finest_chars` characters; no chunk is longer.

    A longer sentence is cut at white space, or anywhere if there is none.
    """
    ends = sentence_ends(text).tolist()
    ends_of: list[int] = []
    start, sentence = 0, 0
    while start < len(text):
        limit = start + finest_chars
        reached = bisect_right(ends, limit, sentence)
        if reached > sentence:
            start, sentence = ends[reached - 1], reached
        else:
            start = cut(text, start, limit)
        ends_of.append(start)
    return spans_to(ends_of)


def fixed(text: str, finest_chars: int, tokens: int | None = None) -> Spans:
    """Return equal lengths, regardless of the content; the last chunk has the rest."""
    starts = np.arange(0, len(text), finest_chars) if tokens is None else token_starts(text)[::tokens]
    return spans_to([*starts[1:].tolist(), len(text)] if text else [])


# In the order in which they are tried; after the last, the text is cut anywhere.
_SEPARATORS = tuple(re.compile(separator) for separator in ("\n\n", "\n", " "))


def recursive(text: str, finest_chars: int) -> Spans:
    """Return pieces between blank lines packed up to `finest_chars`; longer ones are cut by lines, words or anywhere.

    A separator belongs to the piece before it. No chunk is longer than `finest_chars`.

    References: the spans are those of LangChain's `RecursiveCharacterTextSplitter` (langchain-text-splitters 1.1.3)
    with its separators, `chunk_overlap=0`, `keep_separator="end"` and `strip_whitespace=False`.
    """
    ends_of: list[int] = []

    def split(start: int, end: int, separators: Sequence[re.Pattern[str]]) -> None:
        if end - start <= finest_chars:
            ends_of.append(end)
            return
        if not separators:
            ends_of.extend([*range(start + finest_chars, end, finest_chars), end])
            return
        pieces = [match.end() for match in separators[0].finditer(text, start, end)]
        if not pieces or pieces[-1] != end:
            pieces.append(end)
        piece = 0
        while start < end:
            reached = bisect_right(pieces, start + finest_chars, piece)
            if reached > piece:
                ends_of.append(pieces[reached - 1])
            else:
                reached = piece + 1
                split(start, pieces[piece], separators[1:])
            start, piece = pieces[reached - 1], reached

    if text:
        split(0, len(text), _SEPARATORS)
    return spans_to(ends_of)


def semantic(text: str, finest_chars: int, vectors: np.ndarray) -> Spans:
    """Return breaks between sentences where the meaning changes most; no chunk is longer than twice `finest_chars`.

    A drop is 1 − the cosine of the two windows around the units on either side; a window is the mean of a unit's vector
    and those of its neighbours. Drops are taken in descending order, the earlier of two equal ones first:

    1. as long as they break a chunk that is longer than twice `finest_chars`;
    2. until there are ⌈characters / `finest_chars`⌉ chunks.

    A drop that would leave a chunk of less than a quarter of `finest_chars` is skipped, unless a chunk that is too long
    has no other.

    References: Kamradt 2023, "5 Levels of Text Splitting", level 4, with a window of one sentence on each side; the
    number of chunks is given, as with `number_of_chunks` of langchain-experimental's `SemanticChunker`. There the text
    of a window is encoded; here the vectors of its sentences are averaged, so each is encoded once.
    """
    ends = units(text, unit_chars(finest_chars)).tolist()
    if len(vectors) != len(ends):
        raise ValueError(f"vectors must have a row for each of the {len(ends)} units of the text, got {len(vectors)}")
    if len(ends) < 2 or len(text) <= finest_chars:
        return spans_to(ends[-1:])
    windows = vectors.astype(np.float32)
    windows[1:] += vectors[:-1]
    windows[:-1] += vectors[1:]
    windows /= np.maximum(np.linalg.norm(windows, axis=1, keepdims=True), 1e-12)
    order = np.argsort((windows[:-1] * windows[1:]).sum(axis=1), kind="stable").tolist()
    breaks = [0, len(text)]

    def take(longer_than: int, crumb: int, chunks: int) -> None:
        for unit in order:
            if len(breaks) > chunks:
                return
            place = ends[unit]
            right = bisect_left(breaks, place)
            before, after = breaks[right - 1], breaks[right]
            if after - before > longer_than and min(place - before, after - place) >= crumb:
                breaks.insert(right, place)

    crumb = max(1, finest_chars // 4)
    longest = unit_chars(finest_chars)
    take(longest, crumb, len(ends))
    take(longest, 1, len(ends))
    take(0, crumb, -(-len(text) // finest_chars))
    return spans_to(breaks[1:])


# Cost of a paragraph that begins inside a chunk; a chunk of twice the target length costs 1.
_PARAGRAPH = 0.6


def paragraphs(text: str, finest_chars: int) -> Spans:
    """Return whole sentences in chunks of similar length that preferably end at a paragraph end.

    Minimises the sum over all chunks of the squared relative distance from `finest_chars`, plus `_PARAGRAPH` for every
    paragraph that begins inside a chunk. No chunk is longer than twice `finest_chars`.
    """
    ends = units(text, unit_chars(finest_chars))
    length, possible = candidates(ends, unit_chars(finest_chars))
    if not len(ends):
        return spans_to([])
    begun = np.cumsum(opening(text, ends))
    last = np.minimum(np.arange(len(ends))[:, None] + np.arange(WINDOW), len(ends) - 1)
    cost = (length / finest_chars - 1) ** 2 + _PARAGRAPH * (begun[last] - begun[:, None])
    taken = least(np.where(possible, cost, np.inf))
    return spans_to(ends[np.asarray(taken) - 1])


def _make_semantic(options: Options) -> Split:
    def split(text: str, vectors: np.ndarray | None) -> Spans:
        assert vectors is not None
        return semantic(text, options.finest_chars, vectors)

    return split


CHUNKERS: Registry[Chunker] = registry.CHUNKERS
"""All chunkers by their name in `mog.yaml`."""

CHUNKERS.register("sentences", Chunker(lambda options: lambda text, _: sentences(text, options.finest_chars)))
CHUNKERS.register(
    "fixed", Chunker(lambda o: lambda text, _: fixed(text, o.finest_chars, o.tokens), leads=False, version="1")
)
CHUNKERS.register(
    "recursive", Chunker(lambda o: lambda text, _: recursive(text, o.finest_chars), leads=False, version="1")
)
CHUNKERS.register("paragraphs", Chunker(lambda options: lambda text, _: paragraphs(text, options.finest_chars)))
CHUNKERS.register("semantic", Chunker(_make_semantic, sentence_vectors=True))


def split_bucket(
    documents: str,
    out: str,
    chunker: str,
    finest_chars: int,
    previous: str | None = None,
    tokens: int | None = None,
    vectors: str | None = None,
    weights: str | None = None,
) -> int:
    """Split the documents of a bucket; writes a table of `document` (row of the bucket), `start`, `end`.

    Args:
        documents: Parquet file with columns `text` and `sha256`.
        out: Parquet file to write.
        chunker: Name of the chunker.
        finest_chars: See `Options`, like `tokens`; of Latin text: see `text.characters.characters`.
        previous: Output of this function for an earlier state of the bucket, with any options.
        tokens: See `Options`.
        vectors: `.npy` file of the vectors of the documents' units in order, for a chunker that takes them.
        weights: File of a trained model, for a chunker that has one.

    Returns:
        Number of documents split: those without an entry in `previous` for the same text, vectors and options.
    """
    table = pq.read_table(documents, columns=["text", "sha256"])
    texts = table["text"].to_pylist()
    unit_vectors = _unit_vectors(texts, finest_chars, vectors) if vectors else [None] * len(texts)
    trained = _sha256(weights) if weights else None
    # Chunkers that take vectors count units.
    lengths = [finest_chars if vectors else characters(text, finest_chars) for text in texts]
    decides = [json.dumps([chunker, CHUNKERS[chunker].version, length, tokens, trained]).encode() for length in lengths]
    keys = [
        hashlib.sha256(sha.encode() + others + (b"" if rows is None else rows.tobytes())).hexdigest()
        for sha, others, rows in zip(table["sha256"].to_pylist(), decides, unit_vectors, strict=True)
    ]

    def compute(positions: list[int]) -> pa.Table:
        chunkers = {
            length: CHUNKERS[chunker].make(Options(length, tokens, Path(weights) if weights else None))
            for length in {lengths[position] for position in positions}
        }
        spans = [chunkers[lengths[position]](texts[position], unit_vectors[position]) for position in positions]
        if CHUNKERS[chunker].leads:
            spans = [led(texts[position], cut) for position, cut in zip(positions, spans, strict=True)]
        both = np.concatenate(spans).astype(np.int32)
        rows = np.repeat(np.asarray(positions, np.int32), [len(s) for s in spans])
        return pa.table({"document": rows, "start": both[:, 0], "end": both[:, 1]})

    return write_rows(Path(out), keys, Path(previous) if previous else None, compute)


def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def bucket_units(documents: Path, finest_chars: int) -> list[str]:
    """Return the texts of the units of a bucket's documents, in order, whose vectors chunkers use."""
    chunks_of = []
    for text in pq.read_table(documents, columns=["text"])["text"].to_pylist():
        chunks_of += [text[start:end] for start, end in spans_to(units(text, unit_chars(finest_chars))).tolist()]
    return chunks_of


def _unit_vectors(texts: Sequence[str], finest_chars: int, path: str) -> list[np.ndarray]:
    """Return the vectors of each text's units, from a file with those of all texts."""
    stops = np.cumsum([len(units(text, unit_chars(finest_chars))) for text in texts])
    vectors = np.load(path, mmap_mode="r")
    if stops[-1] != len(vectors):
        raise ValueError(f"vectors must have a row for each of the {stops[-1]} units of the texts, got {len(vectors)}")
    return np.split(vectors, stops[:-1])
