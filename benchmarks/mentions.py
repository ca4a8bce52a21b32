"""Finding a million titles in texts: time and memory, beside what a user would use.

python benchmarks/mentions.py
python benchmarks/mentions.py --titles 100000 --megabytes 10

Titles and texts are made from a seed: words by Zipf's law, titles of one to six words, some of which are everyday words,
and some of which have an addition in brackets, so that several documents have a name. One word in forty of the texts
begins a title. Every way of finding runs in a process of its own, on one core, over the same texts; peak memory is that of
the process, less what it had with the names and the texts read. `re` and `str.find` get a slice, and their time for
everything is extrapolated: that of `re` grows with names times text where it has no automaton, which is checked with two
sizes; that of `str.find` does so always.
"""

import json
import multiprocessing
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.mentions.folding import folded
from mog_assets.mentions.matching import Matcher, read_names, search_bucket
from mog_assets.mentions.names import names_of

WORDS, TEXT = 150_000, 3_000
ONSETS, RHYMES = "b c d f g h k l m n p r s t v z br st tr pl ch", "a e i o u ar en in or um"
SYLLABLES = [onset + rhyme for onset in ONSETS.split() for rhyme in RHYMES.split()]


def draw(titles: int, megabytes: float, seed: int, folder: Path) -> None:
    """Write names as the asset `names` has them, and texts as buckets of documents."""
    rng = np.random.default_rng(seed)
    made = dict.fromkeys("".join(rng.choice(SYLLABLES, n)) for n in 1 + rng.poisson(1.6, 3 * WORDS))
    # The shorter a word, the more often it is used.
    words = np.array(sorted(list(made)[:WORDS], key=lambda word: len(word) + rng.random() * 4), object)
    chance = 1 / (np.arange(len(words)) + 3.0)
    chance /= chance.sum()
    cumulative = np.cumsum(chance)

    def some(count: int) -> np.ndarray:
        return words[np.minimum(np.searchsorted(cumulative, rng.random(count)), len(words) - 1)]

    told = words[:300].tolist()
    lengths = rng.choice([1, 2, 3, 4, 5, 6], 2 * titles, p=[0.12, 0.4, 0.25, 0.13, 0.06, 0.04])
    # Titles have rarer words than texts.
    drawn = words[(rng.random(int(lengths.sum())) ** 2 * len(words)).astype(int)].tolist()
    first, known = 0, dict.fromkeys(word.capitalize() for word in told)
    for length in lengths.tolist():
        known[" ".join(drawn[first : first + length]).title()] = None
        first += length
        if len(known) >= titles:
            break
    called = list(known)
    for number in range(0, len(called), 50):
        called[number] += f" ({drawn[number]})"
    names = {name: None for title in called for name in names_of(title, "", "")}
    rows = sorted((name.digest, name.folded, name.capitals) for name in names)
    digests, plain, capitals = zip(*rows, strict=True)
    columns = {"name": list(plain), "digest": pa.array(digests, pa.uint64()), "capitals": list(capitals)}
    pq.write_table(pa.table(columns), folder / "names.parquet")
    texts, size = [], 0
    while size < megabytes * 1e6:
        body = some(TEXT // 6).tolist()
        for place in rng.integers(0, len(body), TEXT // 6 // 40).tolist():
            body[place] = called[int(rng.integers(len(called)))]
        for place in range(11, len(body), 12):
            body[place] += "."
        texts.append(" ".join(body))
        size += len(texts[-1])
    for bucket in range(32):
        own = texts[bucket::32]
        keys = [f"{bucket}-{row}" for row in range(len(own))]
        pq.write_table(pa.table({"text": pa.array(own, pa.string()), "sha256": keys}), folder / f"b{bucket:02}.parquet")


def peak() -> float:
    """MiB that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
