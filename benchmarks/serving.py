"""Time of one question, of all test questions, and of training, against bm25s and numpy alone.

taskset -c 0 python benchmarks/serving.py --config medquad.yaml --question-set medquad

The project must be built up to `method`. One core, warm: everything is open, and 20 questions have been asked.
"""

import os

# Before numpy and torch are imported.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.evaluate.candidates_assets import read_examples
from mog_assets.index.vectors import near
from mog_assets.papers.level_search.search import bm25
from mog_assets.papers.mix_of_granularity import mog
from mog_assets.questions.sets import load_questions
from mog_assets.search.index import expert_names, finest
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.trainers import trained_mix

WARM = 20


def times(call: Callable[[str], Any], questions: Sequence[str]) -> np.ndarray:
    """Milliseconds of each question, after some that are not counted."""
    found = []
    for question in questions:
        started = time.perf_counter()
        call(question)
        found.append((time.perf_counter() - started) * 1000)
    return np.array(found[WARM:])


def once(call: Callable[[], Any]) -> float:
    """Seconds."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def memory() -> str:
    """Peak memory of this process so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB"


@click.command()
@click.option("--config", "path", required=True)
@click.option("--question-set", "name", required=True)
@click.option("--questions", "count", default=300, show_default=True, help="Questions that are timed one by one.")
def main(path: str, name: str, count: int) -> None:
    import torch

    torch.set_num_threads(1)
    settings = config.load(path)
    tools = Tools(settings)
    question_set = settings.question_sets[name]
    stored = tools.store.read("questions").path(f"{name}.parquet")
    asked = [q.question for q in load_questions(stored, question_set.test) if q.evidence]
    some = asked[: count + WARM]
    opened = Retrieval.open(tools, tools.store.read, question_set.corpora)
    served = replace(
        opened, index=replace(opened.index, open_encoder=lambda: partial(tools.encoder.encode, keep=False))
    )
    rows = []

    def add(what: str, call: Callable[[str], Any]) -> None:
        found = times(call, some)
        p50, p95 = np.percentile(found, [50, 95])
        rows.append({"one question": what, "p50, ms": f"{p50:.1f}", "p95, ms": f"{p95:.1f}", "peak memory": memory()})

    # What a user would write: the level-1 vectors in float32, one product, the best 40.
    held = opened.corpora.vectors.float_rows(np.arange(len(opened.corpora.vectors)))

    def plain(question: str) -> np.ndarray:
        scores = held @ served.index.encode([question])[0].astype(np.float32)
        return np.argpartition(-scores, 40)[:40]

    indexes = bm25(opened.corpora, 1)

    def by_words(question: str) -> None:
        (terms,) = served.with_queries([question]).terms
        for index in indexes:
            index.search([terms], 40)

    add("the encoder alone", lambda q: served.index.encode([q]))
    add("bm25s alone: best 40 pieces", by_words)
    add("numpy alone: encode, one product, best 40 pieces", plain)

    def passages(method: str, **limit: int) -> Callable[[str], Any]:
        return lambda question: served.with_queries([question]).passages(parse(method, settings), **limit)

    for method in ("fused", "mog", "mix"):
        add(f"{method}: passages of 4,000 characters", passages(method, budget=Budget(4000)))
    click.echo(f"{len(held):,} pieces, {len(some) - WARM} questions\n\n{markdown.table(rows)}\n")

    # Recall of the rounded vectors that serving uses, at 40, against the product in float32.
    vectors = np.asarray(opened.index.encode(some), np.float32)
    same = []
    for vector in vectors:
        exact = np.argsort(-(held @ vector), kind="stable")[:40]
        same.append(np.isin(exact, near(opened.index.corpora.neighbours, vector, 40, None)).mean())
    click.echo(f"recall of the best 40 pieces by rounded vectors against float32: {np.mean(same):.4f}")
    every = opened.with_queries(asked)
    click.echo(f"encoding {len(asked):,} questions: {once(lambda: served.index.encode(asked)):.1f} s")
    seconds = once(lambda: every.rank(parse("mix", settings), settings.k))
    click.echo(f"ranking {len(asked):,} questions by mix: {seconds:.1f} s, peak memory {memory()}")

    examples, _ = read_examples(tools.store.read("candidates"), expert_names(settings), finest(settings))
    held_out = np.arange(len(examples.words)) % 10 == 0
    seconds = once(lambda: trained_mix(examples, 0))
    click.echo(f"training mix on {len(examples.words):,} questions: {seconds:.1f} s, peak memory {memory()}")
    seconds = once(lambda: mog.train(examples.candidates, examples.gold.covered, examples.vectors, held_out, 0))
    click.echo(f"training mog: {seconds:.1f} s, peak memory {memory()}")


if __name__ == "__main__":
    main()
