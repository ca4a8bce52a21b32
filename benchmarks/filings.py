"""PDFs with tables: are the quotes of financial reports located, and are questions answered in 4,000 characters?

python benchmarks/filings.py --data ../shared/data

Builds a home for FinanceBench's reports from the checkout it is run in; to compare two ways of reading PDFs, run it in
two checkouts with `--home` of their own. A quote is in the text if the project locates it. Of each question: the share
of the gold evidence within the first 4,000 characters of passages, and whether all of it is there.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

import mog_assets
from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.questions.sets import load_questions

RANKINGS = ("fused", "fixed-2", "dense-2", "hybrid:fixed-2", "dense-3", "hybrid:fixed-3")


def share(passages: Iterable[Any], evidence: Sequence[Any]) -> float:
    """The share of the characters of some evidence that is in passages."""
    covered = total = 0
    spans = [span for passage in passages for span in passage.spans]
    for e in evidence:
        within = [span for span in spans if (span.corpus, span.document) == (e.corpus, e.doc)]
        covered += len({at for span in within for at in range(max(span.start, e.start), min(span.end, e.end))})
        total += e.end - e.start
    return covered / total


@click.command()
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--home", type=click.Path(path_type=Path), default=Path(".mog/filings"))
@click.option("--budget", default=4000)
@click.option("--show", is_flag=True, help="Print every question's share by `fused`.")
def main(data: Path, home: Path, budget: int, show: bool) -> None:
    folder = (data / "financebench").resolve()
    file = home / "mog.yaml"
    home.mkdir(parents=True, exist_ok=True)
    questions = {"path": str(folder / "questions.csv"), "corpora": ["filings"], "train": [], "test": ["test"]}
    values = {
        "home": "home",
        "corpora": {"filings": {"path": str(folder / "pdf")}},
        "question_sets": {"finance": questions},
    }
    file.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "mog_assets.cli", "run"], cwd=home, check=True)
    stored = Tools(config.load(file)).store.read("questions").path("finance.parquet")
    rows = list(csv.DictReader((folder / "questions.csv").open(encoding="utf-8")))
    kept = [question for question in load_questions(stored) if question.evidence]
    print(f"quotes located: {sum(len(question.evidence) for question in kept)} of {len(rows)}, {len(kept)} questions")
    with mog_assets.open(file) as project:
        for name in RANKINGS:
            shares = []
            for question in kept:
                passages = project.search(question.question, budget=budget, method=name).passages
                shares.append(share(passages, question.evidence))
            whole = sum(part > 0.999 for part in shares)
            print(f"{name:16} evidence in {budget} characters {sum(shares) / len(shares):.3f}, all of it {whole}")
            if show and name == "fused":
                print(json.dumps([[round(s, 2), q.question] for s, q in zip(shares, kept, strict=True)], indent=0))


if __name__ == "__main__":
    main()
