"""Intervals, tests and effect sizes of a whole leaderboard against scipy.stats, column by column, on made-up values.

python benchmarks/significance.py
"""

import resource
import time

import click
import numpy as np
import pandas as pd
from scipy import stats

from mog_assets.evaluation.scores import compare

RESAMPLES, SIGNS = 2_000, 10_000
# scipy lays all of a batch out at once: this many rows of 14,000 questions are 56 MB.
BATCH = 500


@click.command()
@click.option("--questions", default=14_000, show_default=True)
@click.option("--methods", default=30, show_default=True, help="The first is the baseline.")
@click.option("--measures", default=14, show_default=True)
@click.option("--part", default=2, show_default=True, help="Comparisons that scipy is asked for; scaled up to all.")
def main(questions: int, methods: int, measures: int, part: int) -> None:
    rng = np.random.default_rng(0)
    names = [f"measure {j}" for j in range(measures)]
    values = np.clip(rng.normal(0.5, 0.3, (methods, questions, measures)), 0, 1)
    ids = [f"q{i}" for i in range(questions)]
    table = pd.concat(
        [pd.DataFrame(v, columns=names).assign(question=ids, cell=f"m{i}") for i, v in enumerate(values)],
        ignore_index=True,
    )
    started = time.perf_counter()
    found = compare(table, names, "m0", seed=0)
    ours = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert len(found) == methods * measures

    cells, comparisons = methods * measures, (methods - 1) * measures
    bootstrap = permutation = 0.0
    for at in range(part):
        column, difference = values[1, :, at % measures], (values[1 + at % (methods - 1)] - values[0])[:, at % measures]
        started = time.perf_counter()
        stats.bootstrap((column,), np.mean, method="percentile", n_resamples=RESAMPLES, batch=BATCH, rng=at)
        bootstrap += time.perf_counter() - started
        started = time.perf_counter()
        options = {"permutation_type": "samples", "n_resamples": SIGNS, "batch": BATCH, "vectorized": True, "rng": at}
        stats.permutation_test((difference,), np.mean, **options)
        permutation += time.perf_counter() - started
    # An interval for every mean and one for every difference.
    theirs = bootstrap / part * (cells + comparisons) + permutation / part * comparisons
    print("| questions | methods x measures | ours, s | peak memory, GB | scipy.stats, s | ratio |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {questions:,} | {methods} x {measures} | **{ours:.1f}** | {peak:.2f} | {theirs:,.0f} (from {part} of "
        f"{comparisons} comparisons: {bootstrap / part:.2f} an interval, {permutation / part:.2f} a test) | "
        f"{theirs / ours:,.0f} |"
    )


if __name__ == "__main__":
    main()
