"""Finding a million titles in texts: time and memory, beside what a user would use.

python benchmarks/mentions.py
python benchmarks/mentions.py --titles 100000 --megabytes 10

Titles and texts are made from a seed: words by Zipf's law, titles of one to six words, some of which are everyday
words, and some of which have an addition in brackets, so that they give two names. Every way of finding runs in a
process of its own, CPU seconds on one core. `re` and `str.find` search 1/500 of the texts for 2,000 names; their time
for everything is extrapolated, as it grows with the texts and with the names: `re` tries one name after the other
where first letters agree.
"""

import multiprocessing
import re
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.index.mentions.matching import Matcher, read_names, search_bucket
from mog_assets.index.mentions.names import folded, names_of

WORDS, TEXT = 150_000, 3_000
# Names that slow ways search for.
SLICE = 2_000
ONSETS, RHYMES = "b c d f g h k l m n p r s t v z br st tr pl ch", "a e i o u ar en in or um"
SYLLABLES = [onset + rhyme for onset in ONSETS.split() for rhyme in RHYMES.split()]


def draw(titles: int, megabytes: float, seed: int, folder: Path) -> None:
    """Write names as the asset `names` has them, and texts as buckets of documents."""
    rng = np.random.default_rng(seed)
    sizes = 1 + rng.poisson(1.6, 3 * WORDS)
    syllables, ends = rng.choice(SYLLABLES, int(sizes.sum())).tolist(), np.cumsum(sizes).tolist()
    made = dict.fromkeys("".join(syllables[first:last]) for first, last in pairwise([0, *ends]))
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


def texts_of(folder: Path, share: float = 1) -> list[str]:
    """The texts, or the first of them."""
    found = [t for path in sorted(folder.glob("b*.parquet")) for t in pq.read_table(path)["text"].to_pylist()]
    return found[: max(int(share * len(found)), 1)]


def names_in(folder: Path) -> list[str]:
    """All names."""
    found: list[str] = read_names(folder / "names.parquet")[0].to_pylist()
    return found


def by_mentions(folder: Path) -> dict[str, float]:
    """As the asset does it, bucket by bucket."""
    names, buckets = folder / "names.parquet", sorted(folder.glob("b*.parquet"))
    started = time.process_time()
    Matcher(names_in(folder), *read_names(names)[1:])
    build, places, size = time.process_time() - started, 0, 0
    started = time.process_time()
    for bucket in buckets:
        search_bucket(str(bucket), str(names), None, None, str(folder / "places"))
        places += pq.read_metadata(folder / "places").num_rows
        size += sum(map(len, pq.read_table(bucket)["text"].to_pylist()))
    # The names are read once more for the first bucket.
    seconds = time.process_time() - started - build
    return {"build, s": build, "match, s": seconds, "MB": size / 1e6, "places": places}


def by_expression(folder: Path) -> dict[str, float]:
    """`re` with an alternation of some names, longest first: overlapping places are not found."""
    some, texts = names_in(folder)[:SLICE], texts_of(folder, 0.002)
    started = time.process_time()
    expression = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(some, key=len, reverse=True))) + r")\b", re.I)
    build = time.process_time() - started
    started = time.process_time()
    places = sum(len(expression.findall(text)) for text in texts)
    return {"build, s": build, "match, s": time.process_time() - started, "MB": sum(map(len, texts)) / 1e6} | {
        "names": SLICE,
        "places": places,
    }


def by_find(folder: Path) -> dict[str, float]:
    """`str.find` for one name after the other, in folded texts."""
    some, texts = names_in(folder)[:SLICE], [folded(text)[0] for text in texts_of(folder, 0.002)]
    places, started = 0, time.process_time()
    for text in texts:
        for name in some:
            at = text.find(f" {name} ")
            while at >= 0:
                places, at = places + 1, text.find(f" {name} ", at + 1)
    size = sum(map(len, texts)) / 1e6
    return {"build, s": 0, "match, s": time.process_time() - started, "MB": size, "names": SLICE, "places": places}


def measured(way: str, folder: str, told: Any) -> None:
    """Run one way of finding, in a process of its own."""
    found = WAYS[way](Path(folder))
    told.send({"way": way, **found, "peak MiB": peak()})


WAYS: dict[str, Callable[[Path], dict[str, float]]] = {
    "names and mentions": by_mentions,
    "re": by_expression,
    "str.find": by_find,
}


@click.command(help=__doc__)
@click.option("--titles", default=1_000_000, show_default=True)
@click.option("--megabytes", default=50.0, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(titles: int, megabytes: float, seed: int) -> None:
    """Measure, and print a table."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        # A process begins with the peak of the one that starts it: this one stays small.
        drawing = context.Process(target=draw, args=(titles, megabytes, seed, Path(folder)))
        drawing.start()
        drawing.join()
        names, rows = pq.read_metadata(Path(folder) / "names.parquet").num_rows, []
        for way in WAYS:
            ours, theirs = context.Pipe()
            process = context.Process(target=measured, args=(way, folder, theirs))
            process.start()
            theirs.close()
            try:
                rows.append(ours.recv())
            except EOFError:
                # All others are compared with the first.
                if not rows:
                    raise
                print(f"{way}: ended without a figure (is it installed?)")
            process.join()
    for row in rows:
        # What searches for a part of the names is taken to need as many times as long for all.
        row["s for all"] = row["match, s"] * megabytes / row["MB"] * names / row.get("names", names) + row["build, s"]
        row["MB/s"] = megabytes / (row["s for all"] - row["build, s"])
        row["ratio"] = row["s for all"] / rows[0]["s for all"]
    print(f"{names:,} names", end="\n\n")
    print(pd.DataFrame(rows).to_markdown(index=False, floatfmt=",.6g"))


if __name__ == "__main__":
    main()
