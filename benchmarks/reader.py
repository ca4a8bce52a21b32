"""Answers of the neural reader against those of the rules, on documents and questions that it never saw.

python benchmarks/reader.py squad.yaml musique.yaml --method fused --method multihop

The projects must be built up to what the methods need. Of a question set that is trained on, only the documents that
the asset `reader` holds out are measured. Both readers get the same passages, within the budget of the settings.
Differences are tested by document. Answers per second are those of one core, with passages at hand.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
import torch

from mog_assets import config
from mog_assets.answer.extractive import Extractive
from mog_assets.answer.neural import LEAST
from mog_assets.answer.reader import calibration
from mog_assets.answer.reader.model import SHIPPED, TrainedReader, shipped
from mog_assets.answer.roles import AnswerRequest
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.papers.experiments.assets import remembering
from mog_assets.plugins.reader_training import fitting
from mog_assets.plugins.reader_training.assets import held_out
from mog_assets.plugins.reader_training.lessons import answers, teaches
from mog_assets.questions.marks import exact_match, f1
from mog_assets.questions.sets import Question, load_questions
from mog_assets.search.methods import parse
from mog_assets.search.passages import texts
from mog_assets.search.retrieval import Retrieval


def measured_questions(tools: Tools, name: str) -> list[Question]:
    """Test questions, or those on the documents that the reader was not trained on."""
    sets, stored = tools.settings.question_sets, tools.store.read("questions")

    def asked(own: str, splits: list[str]) -> list[Question]:
        return [q for q in load_questions(stored.path(f"{own}.parquet"), splits) if teaches(q)] if splits else []

    if sets[name].test:
        return asked(name, sets[name].test)
    measuring = held_out(q.document for own in sets for q in asked(own, sets[own].train))
    return [q for q in asked(name, sets[name].train) if q.document in measuring]


def compared(tools: Tools, name: str, method: str, most: int, reader: TrainedReader) -> list[dict[str, str]]:
    """A row per reader."""
    asked = measured_questions(tools, name)
    if not asked:
        return []
    asked = [asked[i] for i in sorted(np.random.default_rng(0).permutation(len(asked))[:most].tolist())]
    question_set = tools.settings.question_sets[name]
    retrieval = Retrieval.open(tools, tools.store.read, question_set.corpora, [q.question for q in asked])
    ranked = retrieval.passages(parse(method, tools.settings), budget=Budget.of(tools.settings.budget))
    passages = texts(retrieval.corpora, ranked, len(asked))
    rules = Extractive(remembering(tools.encoder.encode), "")
    marks: dict[str, list[tuple[float, float]]] = {"extractive": [], "neural": [], "neural, always": []}
    seconds, chances = dict.fromkeys(("extractive", "neural"), 0.0), []
    for question, own in zip(asked, passages, strict=True):
        gold, start = answers(question), time.perf_counter()
        said = rules.answer(AnswerRequest(question.id, question.question), own).value or ""
        seconds["extractive"] += time.perf_counter() - start
        marks["extractive"].append((exact_match(said, gold), f1(said, gold)))
        start = time.perf_counter()
        spans = reader.best(question.question, [(p.title, p.text) for p in own])
        seconds["neural"] += time.perf_counter() - start
        best = (exact_match(spans[0].text, gold), f1(spans[0].text, gold)) if spans else (0.0, 0.0)
        chance = spans[0].probability if spans else 0.0
        chances.append((chance, best[1] >= calibration.RIGHT))
        marks["neural, always"].append(best)
        marks["neural"].append(best if chance >= LEAST else (0.0, 0.0))
    documents, rows = [q.document for q in asked], []
    base = np.array(marks["extractive"])
    for kind, values in marks.items():
        table = np.array(values)
        low, high = bootstrap_interval(by_document(table, documents))
        p = permutation_p(by_document(table - base, documents)) if kind != "extractive" else [np.nan, np.nan]
        row = {"questions": f"{name}, {len(asked)} on {len(set(documents))} documents", "passages": method}
        row |= {"reader": kind}
        for i, measure in enumerate(("exact match", "F1")):
            told = "" if np.isnan(p[i]) else f", p {p[i]:.4f}"
            row[measure] = f"{table[:, i].mean():.3f} [{low[i]:.3f}, {high[i]:.3f}]{told}"
        row["answers a second"] = f"{len(asked) / seconds[kind]:.1f}" if kind in seconds else ""
        rows.append(row)
    said, right = (np.array(column) for column in zip(*chances, strict=True))
    curve, error = fitting.curve(said, right.astype(bool))
    click.echo(f"\n{name}, {method}: calibration error {error:.3f}; no answer to {(said < LEAST).mean():.1%}\n")
    click.echo(markdown.table(curve, 100))
    return rows


@click.command()
@click.argument("projects", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--method", "methods", multiple=True, default=["fused"], help="What finds the passages.")
@click.option("--questions", default=500, help="Most questions of a set.")
@click.option("--weights", type=click.Path(exists=True, path_type=Path), default=SHIPPED, help="A file of a reader.")
def main(projects: Sequence[Path], methods: Sequence[str], questions: int, weights: Path) -> None:
    torch.set_num_threads(1)
    reader = shipped() if weights == SHIPPED else TrainedReader(weights.read_bytes(), str(weights))
    click.echo(f"{weights}: {weights.stat().st_size:,} bytes")
    rows = []
    for path in projects:
        tools = Tools(config.load(path))
        for name in tools.settings.question_sets:
            for method in methods:
                rows += compared(tools, name, method, questions, reader)
    click.echo(f"\n{markdown.table(rows, 100)}")


if __name__ == "__main__":
    main()
