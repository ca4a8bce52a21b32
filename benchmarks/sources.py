"""Candidates of all texts, and candidates of the documents with the best pieces: what is lost, and what is gained.

python benchmarks/sources.py --homes .mog/development squad cuad medquad

Homes are those of `development.py build`. ER is that of `fused`; recall is the share of the exhaustive candidates that
are found, and of the 20 of each question that `fused` has first; milliseconds are those of a question asked alone,
without encoding it, on the threads that OMP_NUM_THREADS allows; "first" is the first one, which opens the indexes, in
seconds.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from development import measured_questions
from ranking import examples, merged, recall

from mog_assets import config
from mog_assets.build import markdown, runner
from mog_assets.build.tools import Tools
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.resources.arrays import pairs, places
from mog_assets.search.rankings import Rankings, fused
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.sources import EXHAUSTIVE, INDEXED, SOURCES

TIMED, FIRST = 200, 20


def opened(path: Path, source: str) -> tuple[Tools, Retrieval]:
    """A project with a source; graphs are made if there are none."""
    settings = config.load(path)
    ranking = settings.ranking.model_copy(update={"candidates": source})
    settings = settings.model_copy(update={"ranking": ranking})
    tools = Tools(settings)
    if source == INDEXED and not all(tools.store.find("neighbours", corpus) for corpus in settings.corpora):
        runner.run(settings, select=["neighbours"])
    return tools, Retrieval.open(tools, tools.store.read, list(settings.corpora), keep=True)


def timed(path: Path, source: str) -> dict[str, Any]:
    """Milliseconds of questions, and seconds of the first."""
    tools, retrieval = opened(path, source)
    questions = [q.question for part in measured_questions(tools).values() for q in part]
    questions = [questions[i] for i in np.random.default_rng(0).permutation(len(questions))[:TIMED].tolist()]
    vectors, times = retrieval.encode(questions), []
    for number, question in enumerate([*questions[:1], *questions]):
        row = vectors[max(number - 1, 0)][None]
        asked = replace(retrieval.again([question]), encode=lambda _, row=row: row)
        start = time.perf_counter()
        asked.once(Rankings).passages("fused")
        times.append(time.perf_counter() - start)
    return {"times": np.array(times[1:]) * 1000, "first": times[0]}


def row_of(path: Path) -> dict[str, str]:
    """What a collection says."""
    found, row = {}, {"collection": path.parent.name}
    for source in SOURCES:
        tools, retrieval = opened(path, source)
        parts = [examples(retrieval, questions) for questions in measured_questions(tools).values()]
        of = merged(parts) if len(parts) > 1 else parts[0]
        found[source] = (of, recall(of, fused(of.candidates, of.experts)))
        row |= {"pieces": f"{retrieval.corpora.layout.count(1):,}", "questions": f"{len(of.words):,}"}
    (every, er), (of, indexed) = found[EXHAUSTIVE], found[INDEXED]
    keys, wanted = (pairs(these.candidates.question, these.candidates.piece) for these in (of, every))
    p = permutation_p(by_document((indexed - er)[:, None], of.documents))[0]
    row |= {"ER exhaustive": f"{er.mean():.4f}", "ER indexed": f"{indexed.mean():.4f}", "p": f"{p:.3f}"}
    row["recall"] = f"{np.isin(wanted, keys).mean():.4f}"
    question, scores = every.candidates.question, fused(every.candidates, every.experts)
    first = np.lexsort((-scores, question))
    first = first[places(question[first]) < FIRST]
    row[f"recall of the first {FIRST}"] = f"{np.isin(wanted[first], keys).mean():.4f}"
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for source in SOURCES:
            one = pool.apply(timed, (path, source))
            row[f"{source}: ms p50, p95"] = ", ".join(f"{np.quantile(one['times'], at):.1f}" for at in (0.5, 0.95))
            row[f"{source}: first, s"] = f"{one['first']:.1f}"
    return row


@click.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--homes", type=click.Path(path_type=Path), required=True)
def main(names: tuple[str, ...], homes: Path) -> None:
    rows = []
    for name in names:
        rows.append(row_of(homes / name / "mog.yaml"))
        click.echo(str(rows[-1]), err=True)
    click.echo(markdown.table(rows, 100))


if __name__ == "__main__":
    main()
