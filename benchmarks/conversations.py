"""Follow-up questions: how much of the evidence is found as they are asked, and made to stand alone.

python benchmarks/conversations.py --config mog.yaml

The pairs are in `followups.jsonl`, written over the sample questions: a question of the sample set, a follow-up, and
the sample question that it means, whose evidence counts. The last six change the topic. `--data ../shared/data` counts
how many questions of public sets, which all stand alone, are taken for follow-ups.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
from filings import share

import mog_assets
from mog_assets.answering import conversation

PAIRS = Path(__file__).with_name("followups.jsonl")
SAMPLES = Path(mog_assets.__file__).parent / "samples" / "questions.jsonl"
SETS = {"squad": "en", "policyqa": "en", "musique": "en", "xquad_de": "de", "xquad_zh": "zh", "jsquad_ja": "ja"}
MOST, RESAMPLES = 3000, 10_000


def lines(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)


@click.command()
@click.option("--config", type=click.Path(path_type=Path, exists=True), default=Path("mog.yaml"))
@click.option("--budget", default=2000)
@click.option("--data", type=click.Path(path_type=Path, exists=True))
def main(config: Path, budget: int, data: Path | None) -> None:
    questions, pairs = {row["id"]: row for row in lines(SAMPLES)}, list(lines(PAIRS))
    ways = {
        "as asked": lambda first, follow: follow,
        "after the question before": lambda first, follow: f"{first} {follow}",
        "made to stand alone": lambda first, follow: conversation.standalone(follow, [first]),
    }
    with mog_assets.open(config) as project:
        for part, of in (("follow-ups", pairs[:30]), ("other topics", pairs[30:])):
            shares = {}
            for name, way in ways.items():
                texts = [way(questions[pair["first"]]["question"], pair["follow_up"]) for pair in of]
                golds = [[SimpleNamespace(**row) for row in questions[pair["gold"]]["evidence"]] for pair in of]
                passages = [project.retrieve(text, budget=budget).passages for text in texts]
                shares[name] = np.array([share(*row) for row in zip(passages, golds, strict=True)])
            random = np.random.default_rng(0)
            drawn = random.integers(0, len(of), (RESAMPLES, len(of)))
            for name, values in shares.items():
                low, high = np.quantile((values - shares["as asked"])[drawn].mean(axis=1), [0.025, 0.975])
                change = f"{(values - shares['as asked']).mean():+.3f} [{low:+.3f}, {high:+.3f}]"
                print(f"{len(of)} {part}, {name}: ER {values.mean():.3f}, {change}")
    print("follow-ups that are seen as such:", sum(conversation.refers_back(p["follow_up"], "en") for p in pairs[:30]))
    for name, language in SETS.items() if data else ():
        texts = [row["question"] for row in lines(data / name / "questions.jsonl.gz")][:MOST]
        taken = sum(conversation.refers_back(text, language) for text in texts)
        print(f"{name}: {taken} of {len(texts)} taken for follow-ups, {taken / len(texts):.3f}")


if __name__ == "__main__":
    main()
