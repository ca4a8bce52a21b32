"""The leaderboard of a project with quotes in place of offsets, beside its own.

python benchmarks/quotes.py medquad.yaml pubmedqa-bioasq.yaml

Each project must be built up to `runs`. Every gold span of a test question becomes a quote, its text, without its
document's name, and is located anew; then the same runs are measured with both.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click
import pandas as pd
import pyarrow.parquet as pq

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.measures import evaluate
from mog_assets.evaluate.runs import read_runs
from mog_assets.questions.locate import Quote, locate
from mog_assets.questions.sets import Evidence, Question, load_questions
from mog_assets.search.controls import pieces

Texts = dict[tuple[str, str], str]


def quoted(e: Evidence, texts: Texts, context: int) -> Quote:
    """The text of a span, with so many characters before and after it."""
    text = texts[e.corpus, e.doc]
    before, after = text[max(e.start - context, 0) : e.start], text[e.end : e.end + context]
    return Quote(text[e.start : e.end], prefix=before, suffix=after)


def by_quotes(questions: list[Question], texts: Texts, context: int) -> list[Question]:
    """Questions whose evidence is where their quotes are found."""
    quotes = [(q, quoted(e, texts, context)) for q in questions for e in q.evidence]
    found: dict[str, list[Evidence]] = {}
    for (question, _), located in zip(quotes, locate([quote for _, quote in quotes], texts), strict=True):
        spans = [Evidence(place.corpus, place.doc, place.start, place.end) for place in located.places]
        found.setdefault(question.id, []).extend(spans)
    return [replace(question, evidence=tuple(dict.fromkeys(found[question.id]))) for question in questions]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--context", default=0, show_default=True, help="Characters of prefix and suffix of a quote.")
@click.option("--methods", default=8, show_default=True, help="Rows of a table, the best methods.")
def main(paths: tuple[Path, ...], context: int, methods: int) -> None:
    """Print a table for each project."""
    for path in paths:
        settings = config.load(path)
        store = Tools(settings).store
        texts: Texts = {}
        for corpus in settings.corpora:
            documents = store.read("documents", corpus)
            for name in documents.names("bucket"):
                table = pq.read_table(documents.path(name), columns=["id", "text"]).to_pydict()
                texts |= {(corpus, i): text for i, text in zip(table["id"], table["text"], strict=True)}
        stored = store.read("questions")
        given = {
            name: [q for q in load_questions(stored.path(f"{name}.parquet"), s.test) if q.evidence]
            for name, s in settings.question_sets.items()
            if s.test
        }
        started = time.monotonic()
        own = {}
        for name, questions in given.items():
            there = {key: text for key, text in texts.items() if key[0] in settings.question_sets[name].corpora}
            own[name] = by_quotes(questions, there, context)
        seconds = time.monotonic() - started
        pairs = [(a, b) for name in given for a, b in zip(given[name], own[name], strict=True)]
        same = sum(sorted(pieces(a)) == sorted(pieces(b)) for a, b in pairs)
        runs = read_runs(store.read("runs").path("runs.parquet"))
        tables = [evaluate(runs, questions, settings.k) for questions in (given, own)]
        means = pd.concat(
            [
                table.groupby("method")[["ER", "nDCG@10"]].mean().add_suffix(f", {what}")
                for what, table in zip(("offsets", "quotes"), tables, strict=True)
            ],
            axis=1,
        ).sort_values("ER, offsets", ascending=False)
        apart = (means["ER, offsets"] - means["ER, quotes"]).abs().max()
        order = means["ER, offsets"].rank().corr(means["ER, quotes"].rank())
        click.echo(
            f"\n{path.stem}: {len(pairs):,} test questions, {same / len(pairs):.2%} at the same offsets, located in "
            f"{seconds:.0f} s; ER of {len(means)} methods "
            f"differs by at most {apart:.4f}, rank correlation {order:.4f}\n"
        )
        shown = means.head(methods).reset_index()
        click.echo(
            markdown.table(
                [
                    {k: v if isinstance(v, str) else f"{v:.4f}" for k, v in row.items()}
                    for row in shown.to_dict("records")
                ]
            )
        )


if __name__ == "__main__":
    main()
