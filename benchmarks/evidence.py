"""Quotes instead of offsets: how many are located where they were cut from, undamaged and damaged.

python benchmarks/evidence.py --data ../shared/data

Each gold span of a question set becomes a quote, its text, and is looked for in all corpora of the set. Damage is drawn
with a seed. `--threshold` instead measures what the least similarity of a fuzzy place costs: quotes of training
questions, damaged, with their documents there, and undamaged, with their documents taken away.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import string
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from mog_assets.build import markdown
from mog_assets.questions import locate as locating
from mog_assets.questions.locate import LONG, Located, Location, Quote, fold, locate

SETS = ("medquad", "squad", "pubmedqa", "bioasq", "musique")
TRAINING = ("medquad", "squad", "pubmedqa", "bioasq")
CONTEXT = 32
# A damaged quote is found if the place and the gold span have so much in common of what they have together.
LEAST_OVERLAP = 0.9
EVERY = 50
THRESHOLDS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
SAMPLE = 3_000
SEED = 0
Texts = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Span:
    corpus: str
    doc: str
    start: int
    end: int


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def load(folder: Path) -> tuple[Texts, list[list[Span]], list[str]]:
    """Texts, and the different gold spans and the split of every question that has some."""
    files = sorted((folder / "corpora").iterdir())
    texts = {(file.name.split(".")[0], row["id"]): row["text"] for file in files for row in lines(file)}
    questions = [row for row in lines(folder / "questions.jsonl.gz") if row.get("evidence")]
    spans = [list(dict.fromkeys(Span(**span) for span in row["evidence"])) for row in questions]
    return texts, spans, [row["split"] for row in questions]


def merged(spans: list[tuple[str, str, int, int]]) -> set[tuple[str, str, int, int]]:
    """Spans with those that overlap or touch made one."""
    found: list[tuple[str, str, int, int]] = []
    for corpus, doc, start, end in sorted(spans):
        if found and found[-1][:2] == (corpus, doc) and start <= found[-1][3]:
            found[-1] = corpus, doc, found[-1][2], max(end, found[-1][3])
        else:
            found.append((corpus, doc, start, end))
    return set(found)


def place(found: Location | Span) -> tuple[str, str, int, int]:
    return found.corpus, found.doc, found.start, found.end


def timed(quotes: list[Quote], texts: Texts) -> tuple[list[Located], float]:
    """What `locate` finds, and seconds of processor time, the index included."""
    started = time.process_time()
    return locate(quotes, texts), time.process_time() - started


def quoted(span: Span, texts: Texts) -> Quote:
    return Quote(texts[span.corpus, span.doc][span.start : span.end])


def named(span: Span, texts: Texts) -> Quote:
    return replace(quoted(span, texts), corpus=span.corpus, doc=span.doc)


def surrounded(span: Span, texts: Texts) -> Quote:
    text = texts[span.corpus, span.doc]
    before, after = text[max(0, span.start - CONTEXT) : span.start], text[span.end : span.end + CONTEXT]
    return replace(quoted(span, texts), prefix=before, suffix=after)


def both(span: Span, texts: Texts) -> Quote:
    return replace(surrounded(span, texts), corpus=span.corpus, doc=span.doc)


WAYS: dict[str, Callable[[Span, Texts], Quote]] = {
    "text alone": quoted,
    "document named": named,
    "prefix and suffix": surrounded,
    "document named, prefix and suffix": both,
}


def undamaged(name: str, texts: Texts, questions: list[list[Span]]) -> Iterator[dict[str, str]]:
    """A row a way of quoting: shares of questions."""
    for way, quote in WAYS.items():
        located, seconds = timed([quote(span, texts) for spans in questions for span in spans], texts)
        rows, counts = iter(located), Counter[str]()
        for spans in questions:
            results = [next(rows) for _ in spans]
            places = [[place(found) for found in result.places] for result in results]
            if merged([p for its in places for p in its]) == merged(list(map(place, spans))):
                counts["same"] += 1
            elif all(place(span) in its for span, its in zip(spans, places, strict=True)):
                counts["among"] += 1
            elif all(places):
                counts["elsewhere"] += 1
            elif any("places" in result.problem for result in results):
                counts["many"] += 1
            else:
                counts["not found"] += 1
        total = len(questions)
        yield {
            "set": name,
            "questions": f"{total:,}",
            "quoted": way,
            "same offsets": f"{counts['same'] / total:.2%}",
            "gold among several places": f"{counts['among'] / total:.2%}",
            "over 20 places": f"{counts['many'] / total:.2%}",
            "not found": f"{counts['not found'] / total:.2%}",
            "only elsewhere": f"{counts['elsewhere'] / total:.2%}",
            "seconds": f"{seconds:.1f}",
        }


def other_case(text: str, rng: random.Random) -> str:
    return rng.choice((str.upper, str.lower, str.title, str.swapcase))(text)


def other_blanks(text: str, rng: random.Random) -> str:
    return "".join(rng.choice(("  ", "\n", " ")) if c.isspace() else c for c in text)


def other_characters(text: str, rng: random.Random) -> str:
    """One character in fifty replaced by a letter, left out, or followed by a letter."""
    letters = string.ascii_lowercase
    return "".join(
        rng.choice((rng.choice(letters), "", c + rng.choice(letters))) if rng.random() < 1 / EVERY else c for c in text
    )


DAMAGE = {"case": other_case, "blanks": other_blanks, "1 character in 50": other_characters}


def overlap(a: Span, b: Location) -> float:
    """Characters in both, as a share of those in either."""
    if (a.corpus, a.doc) != (b.corpus, b.doc):
        return 0.0
    common = max(0, min(a.end, b.end) - max(a.start, b.start))
    return common / (a.end - a.start + b.end - b.start - common)


def damaged(name: str, texts: Texts, questions: list[list[Span]]) -> Iterator[dict[str, str]]:
    """A row a kind of damage: shares of quotes."""
    spans = [span for its in questions for span in its]
    for kind, damage in DAMAGE.items():
        for way in (quoted, named):
            rng = random.Random(SEED)
            quotes = [way(span, texts) for span in spans]
            located, seconds = timed([replace(q, text=damage(q.text, rng)) for q in quotes], texts)
            counts = Counter[str]()
            for span, quote, result in zip(spans, quotes, located, strict=True):
                overlaps = [overlap(span, found) for found in result.places]
                others = [found for found, share in zip(result.places, overlaps, strict=True) if not share]
                gold = fold(quote.text) if others else ""
                copies = [gold == fold(texts[f.corpus, f.doc][f.start : f.end]) for f in others]
                counts["found"] += max(overlaps, default=0) >= LEAST_OVERLAP
                counts["wrong"] += not all(copies)
                counts["copy"] += any(copies)
                counts["inexact"] += 0 < max(overlaps, default=0) < LEAST_OVERLAP
                counts["none"] += not result.places
                counts["many"] += "places" in result.problem
            shares = {what: f"{counts[what] / len(spans):.2%}" for what in counts}
            yield {
                "set": name,
                "quotes": f"{len(spans):,}",
                "damage": kind,
                "quoted": "text alone" if way is quoted else "document named",
                "found": shares["found"],
                "other ends": shares["inexact"],
                "not found": shares["none"],
                "of these over 20 places": shares["many"],
                "found wrongly": shares["wrong"],
                "copies found": shares["copy"],
                "seconds": f"{seconds:.1f}",
            }


def thresholds(name: str, texts: Texts, questions: list[list[Span]]) -> Iterator[dict[str, str]]:
    """A row a least similarity: shares of quotes with a place, from training questions."""
    rng = random.Random(SEED)
    spans = [span for its in questions for span in its if span.end - span.start >= LONG]
    spans = rng.sample(spans, min(SAMPLE, len(spans)))
    gone = {(span.corpus, span.doc) for span in spans}
    gone = set(rng.sample(sorted(gone), len(gone) // 10))
    kept = {key: text for key, text in texts.items() if key not in gone}
    here, there = best(spans, texts, texts, rng), best([s for s in spans if (s.corpus, s.doc) in gone], texts, kept)
    for least in THRESHOLDS:
        yield {
            "set": name,
            "least similarity": str(least),
            "damaged, found": f"{sum(right and score >= least for score, right in here) / len(here):.2%}",
            "damaged, elsewhere": f"{sum(not right and score >= least for score, right in here) / len(here):.2%}",
            "document taken away, found": f"{sum(score >= least for score, _ in there) / len(there):.2%}",
        }


def best(spans: list[Span], source: Texts, texts: Texts, rng: random.Random | None = None) -> list[tuple[float, bool]]:
    """For each span the similarity of the most similar place that is no copy, and whether it is that of the span."""
    locating.THRESHOLD = min(THRESHOLDS)
    originals = [quoted(span, source).text for span in spans]
    quotes = [Quote(other_characters(text, rng) if rng else text) for text in originals]
    found = []
    for span, text, quote, located in zip(spans, originals, quotes, locate(quotes, texts), strict=True):
        if len(fold(quote.text)) < LONG:
            continue
        # Copies stand in other documents as well, and are found without similarity.
        places = [place for place in located.places if rng or place.how == "fuzzy"]
        best = max(places, key=lambda place: place.score, default=None)
        right = best is not None and (best.corpus, best.doc) == (span.corpus, span.doc)
        if best is not None and not right and rng:
            right = fold(texts[best.corpus, best.doc][best.start : best.end]) == fold(text)
        found.append((best.score if best else 0.0, right))
    return found


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True), default="../shared/data", show_default=True)
@click.option("--set", "names", multiple=True, type=click.Choice(SETS), default=SETS, help="Only these sets.")
@click.option("--threshold", is_flag=True, help="Measure the least similarity of fuzzy places.")
def main(data: Path, names: tuple[str, ...], threshold: bool) -> None:
    """Measure, and print the tables."""
    tables: list[list[dict[str, str]]] = [[], []]
    for name in names:
        texts, questions, splits = load(data / name)
        if threshold:
            if name in TRAINING:
                training = [spans for spans, split in zip(questions, splits, strict=True) if split == "train"]
                tables[0] += thresholds(name, texts, training)
            continue
        tables[0] += undamaged(name, texts, questions)
        tables[1] += damaged(name, texts, questions)
        click.echo(f"{name}: done", err=True)
    for table in tables:
        if table:
            click.echo(markdown.table(table) + "\n")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    click.echo(f"Most memory of the process, with all texts: {peak:,.0f} MiB.")


if __name__ == "__main__":
    main()
