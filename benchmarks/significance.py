"""Intervals and tests of a whole leaderboard: their cost against scipy.stats, and how often they are right.

python benchmarks/significance.py            time and memory, every question on a document of its own (the costliest)
python benchmarks/significance.py --coverage  how often 95 % intervals hold the truth, and tests at .05 reject it
"""

import resource
import time

import click
import numpy as np
import pandas as pd
from scipy import stats

from mog_assets.evaluate.scores import compare
from mog_assets.evaluate.significance import Totals, bootstrap_interval, by_document, permutation_p, resampled_means

RESAMPLES, SIGNS = 2_000, 10_000
# scipy lays all of a batch out at once: this many rows of 14,000 questions are 56 MB.
BATCH = 500
# Values of questions about one document have this correlation before they are cut to what a measure can be.
CORRELATION = 0.3
# Questions of each document. The second is the sample project's test split, the last looks like MedQuAD's dev split.
DESIGNS = {
    "19 of 2 to 10 questions": [*range(2, 11), *range(2, 11), 6],
    "samples (19 of 1 to 17)": [1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 9, 10, 11, 12, 17],
    "8 of 1 to 9": [1, 3, 4, 4, 6, 7, 7, 9],
    "5 of 2 to 10": [2, 5, 5, 6, 10],
    "500 of 1 to 21": [1 + i % 5 + 15 * (i % 25 == 0) for i in range(500)],
}
VALUES = {
    "ER": lambda z: np.clip(0.7 + 0.5 * z, 0, 1),
    "hit": lambda z: (z < 0.5).astype(float),
    "difference": lambda z: np.where(np.abs(z) < 0.6, 0.0, 0.3 * z),
}


@click.command()
@click.option("--questions", default=14_000, show_default=True)
@click.option("--methods", default=30, show_default=True, help="The first is the baseline.")
@click.option("--measures", default=14, show_default=True)
@click.option("--part", default=2, show_default=True, help="Comparisons that scipy is asked for; scaled up to all.")
@click.option("--coverage", is_flag=True, help="Simulate coverage instead.")
@click.option("--studies", default=2000, show_default=True, help="Simulated for each row of the coverage.")
def main(questions: int, methods: int, measures: int, part: int, coverage: bool, studies: int) -> None:
    if coverage:
        simulate(studies)
        return
    rng = np.random.default_rng(0)
    names = [f"measure {j}" for j in range(measures)]
    values = np.clip(rng.normal(0.5, 0.3, (methods, questions, measures)), 0, 1)
    ids = [f"q{i}" for i in range(questions)]
    table = pd.concat(
        [pd.DataFrame(v, columns=names).assign(question=ids, document=ids, cell=f"m{i}") for i, v in enumerate(values)],
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


def simulate(studies: int) -> None:
    rng = np.random.default_rng(0)
    print("| documents | values | ours | plain percentiles | BCa | resampled questions | test rejects |")
    print("|---|---|---|---|---|---|---|")
    for design, sizes in DESIGNS.items():
        documents = np.repeat(np.arange(len(sizes)), sizes)
        runs = studies if len(sizes) < 100 else studies // 4
        for name, value in VALUES.items():
            truth = value(rng.normal(size=4_000_000)).mean()
            shared = np.sqrt(CORRELATION) * rng.normal(size=(len(sizes), runs))[documents]
            values = value(shared + np.sqrt(1 - CORRELATION) * rng.normal(size=(len(documents), runs)))
            totals = by_document(values, documents)
            drawn = resampled_means(totals, RESAMPLES, 1)
            intervals = [
                bootstrap_interval(totals, seed=1),
                np.quantile(drawn, [0.025, 0.975], axis=0),
                bca(drawn, totals),
                bootstrap_interval(by_document(values, np.arange(len(documents))), seed=1),
            ]
            covered = [f"{np.mean((low <= truth) & (truth <= high)):.3f}" for low, high in intervals]
            rejected = ""
            if abs(truth) < 0.01:
                rejected = f"{np.mean(permutation_p(totals, samples=1999) <= 0.05):.3f}"
            print(f"| {design} | {name} | **{covered[0]}** | {' | '.join(covered[1:])} | {rejected} |", flush=True)


def bca(drawn: np.ndarray, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
    """Bias-corrected and accelerated 95 % interval of resampled means; jackknife over documents."""
    mean, samples = totals.mean, len(drawn)
    below = ((drawn < mean).mean(axis=0) + (drawn <= mean).mean(axis=0)) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / samples, 1 - 1 / samples))
    without = (totals.sums.sum(axis=0) - totals.sums) / (totals.sizes.sum() - totals.sizes)[:, None]
    apart = without.mean(axis=0) - without
    with np.errstate(invalid="ignore"):
        acceleration = np.nan_to_num((apart**3).sum(axis=0) / (6 * (apart**2).sum(axis=0) ** 1.5))
    ordered, found = np.sort(drawn, axis=0), []
    for z in stats.norm.ppf([0.025, 0.975]):
        tail = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z)))
        found.append(ordered[np.rint(tail * (samples - 1)).astype(int), np.arange(ordered.shape[1])])
    return found[0], found[1]


if __name__ == "__main__":
    main()
