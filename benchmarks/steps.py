"""Print the time that a question takes beside encoding, by step: milliseconds of CPU, the best of several tries.

python benchmarks/steps.py .mog/development/medquad/mog.yaml fused

A step is a function, without the steps that it calls. Questions are those of `goldens.py`, asked on one thread. On a
machine that is busy with other work the figures grow, so compare two versions in turn.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import functools
import importlib
import inspect
import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from goldens import sampled_questions

import mog_assets
from mog_assets import config

STEPS = {
    "encoding": "mog_assets.resources.embedded:FewTexts.__call__",
    "terms of the question": "mog_assets.index.analysis:Analysis.analysed",
    "postings": "mog_assets.index.postings:Postings.matches",
    "BM25 of all pieces": "mog_assets.index.postings:Matches.scores",
    "typed exactly": "mog_assets.search.search:find_typed",
    "near vectors, rounded": "mog_assets.search.search:near",
    "near vectors, exact": "mog_assets.search.search:Scoring.products",
    "texts of sections": "mog_assets.search.search:Scoring.of_sections",
    "best pieces": "mog_assets.search.search:best_pieces",
    "candidates described": "mog_assets.search.search:scored",
    "weights of experts": "mog_assets.search.router:Features.__init__",
    "documents named": "mog_assets.search.search:follow_mentions",
    "relations": "mog_assets.search.search:related",
    "final scores": "mog_assets.search.retrieval:Retrieval.scores",
    "order, passages joined": "mog_assets.search.retrieval:Retrieval.passages",
    "texts of passages": "mog_assets.serve.reading:passages",
    "the rest": "mog_assets.serve.retriever:Retriever.search_many",
}
QUESTIONS, WARM, TRIES = 60, 20, 7


class Clock:
    """Measures steps; `spent` has the seconds of each since it was cleared."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._within: list[float] = []

    def wrap(self, step: str, place: str) -> None:
        """Measure a function wherever it is called by its name."""
        module, _, path = place.partition(":")
        owner, *names = importlib.import_module(module), *path.split(".")
        for name in names[:-1]:
            owner = getattr(owner, name)
        function = inspect.getattr_static(owner, names[-1])

        @functools.wraps(function)
        def measured(*arguments: Any, **options: Any) -> Any:
            began = time.thread_time()
            self._within.append(0.0)
            try:
                return function(*arguments, **options)
            finally:
                seconds = time.thread_time() - began
                self.spent[step] = self.spent.get(step, 0.0) + seconds - self._within.pop()
                if self._within:
                    self._within[-1] += seconds

        setattr(owner, names[-1], measured)


@click.command(help=__doc__)
@click.argument("project", type=click.Path(exists=True, path_type=Path))
@click.argument("method", default="fused")
def main(project: Path, method: str) -> None:
    settings, clock, rows = config.load(project), Clock(), []
    questions = [question.question for question in sampled_questions(settings)[:QUESTIONS]]
    for step, place in STEPS.items():
        clock.wrap(step, place)
    with mog_assets.open(settings, refresh=None) as opened:
        for question in questions[:WARM]:
            opened.search(question, method=method, budget=4000)
        for question in questions:
            tries = []
            for _ in range(TRIES):
                clock.spent = {}
                opened.search(question, method=method, budget=4000)
                tries.append(clock.spent)
            rows.append(min(tries, key=lambda spent: sum(spent.values()) - spent.get("encoding", 0.0)))
    click.echo(f"| step of `{method}`, {len(questions)} questions | ms, mean |\n|---|---|")
    for step in STEPS:
        click.echo(f"| {step} | {1000 * np.mean([row.get(step, 0.0) for row in rows]):.2f} |")
    beside = [1000 * (sum(row.values()) - row.get("encoding", 0.0)) for row in rows]
    click.echo(f"\nBeside encoding: p50 {np.median(beside):.1f} ms, p95 {np.percentile(beside, 95):.1f} ms")


if __name__ == "__main__":
    main()
