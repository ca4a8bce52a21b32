"""Calibrate the reader that comes with the package: which answers are right, on collections that it never saw.

python benchmarks/withholding.py ../shared/data --write

A question is read with the passages that are found for it, with passages of other documents than those of its answer,
and, every third one, with passages of another collection. So most questions have no answer in what is read. An answer
is right if its F1 with the answer, an alias, or the text of the evidence is at least .5. Each collection is judged by a
calibration that was fitted on the others. Passages are pieces of 500 characters, the best by BM25, joined where they
are neighbours, 4,000 characters in all.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import click
import numpy as np

from mog_assets.answer.reader import calibration
from mog_assets.answer.reader.calibration import features
from mog_assets.answer.reader.model import SHIPPED, encoded, source
from mog_assets.answer.reader.spans import SpanReader
from mog_assets.build import markdown
from mog_assets.plugins.reader_training import fitting
from mog_assets.plugins.reader_training.assets import held_out
from mog_assets.questions.marks import f1
from mog_assets.resources import tensors
from mog_assets.resources.files import atomic
from mog_assets.text.cuts import units
from mog_assets.text.terms import tokenise

COLLECTIONS = ("policyqa", "cuad", "lihua_world", "squad")
# The reader was trained on the other articles of it.
TRAINED_ON = "squad"
BUDGET, PIECE, CANDIDATES = 4000, 500, 300
CLOSED = {"yes", "no", "maybe", "true", "false", "none"}


def read_lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


@dataclass(frozen=True)
class Collection:
    """Documents by id, open questions in random order, and pieces (document, start, end) with their index."""

    documents: dict[str, dict[str, Any]]
    questions: list[dict[str, Any]]
    pieces: list[tuple[str, int, int]]
    index: bm25s.BM25

    @classmethod
    def read(cls, folder: Path, name: str) -> Collection:
        documents = {d["id"]: d for d in read_lines(folder / name / "corpora" / f"{name}.jsonl.gz")}
        questions = [q for q in read_lines(folder / name / "questions.jsonl.gz") if is_open(q)]
        if name == TRAINED_ON:
            unread = held_out(f"{name}/{q['evidence'][0]['doc']}" for q in questions)
            questions = [q for q in questions if f"{name}/{q['evidence'][0]['doc']}" in unread]
        random.Random(0).shuffle(questions)
        pieces = [(id, a, b) for id, document in documents.items() for a, b in cut(document["text"])]
        texts = [f"{documents[d]['title']} {documents[d]['text'][a:b]}" for d, a, b in pieces]
        index = bm25s.BM25()
        index.index(as_words(texts), show_progress=False)
        return cls(documents, questions, pieces, index)

    def context(self, question: str, without: set[str] = frozenset()) -> list[tuple[str, str]]:
        """Title and text of the passages of a question, none of some documents."""
        found, _ = self.index.retrieve(as_words([question]), k=min(CANDIDATES, len(self.pieces)), show_progress=False)
        taken, left = list[int](), BUDGET
        for piece in found[0].tolist():
            document, start, end = self.pieces[piece]
            if document not in without:
                if taken and end - start > left:
                    break
                taken.append(piece)
                left -= end - start
        runs = list[list[int]]()
        for piece in sorted(taken):
            joins = runs and runs[-1][-1] == piece - 1 and self.pieces[piece][0] == self.pieces[piece - 1][0]
            runs[-1].append(piece) if joins else runs.append([piece])
        runs.sort(key=lambda run: min(map(taken.index, run)))
        spans = [
            (self.documents[self.pieces[run[0]][0]], self.pieces[run[0]][1], self.pieces[run[-1]][2]) for run in runs
        ]
        return [(document["title"], document["text"][start:end]) for document, start, end in spans]


def is_open(question: dict[str, Any]) -> bool:
    answer = (question.get("answer") or "").strip().lower()
    return bool(answer and question.get("evidence")) and answer not in CLOSED and not question.get("options")


def cut(text: str) -> Iterator[tuple[int, int]]:
    """Spans of whole sentences with at most `PIECE` characters."""
    start = last = 0
    for end in units(text, PIECE).tolist():
        if end - start > PIECE and last > start:
            yield start, last
            start = last
        last = end
    if last > start:
        yield start, last


def as_words(texts: Sequence[str]) -> list[list[str]]:
    ids, terms = tokenise(texts)
    return [[terms[i] for i in row] for row in ids]


def reads(collections: dict[str, Collection], name: str, most: int) -> Iterator[tuple[str, list[str], Any]]:
    """Question, what is right (nothing if the passages lack it), and passages, for a collection."""
    own, names = collections[name], list(collections)
    for number, question in enumerate(own.questions[:most]):
        asked, evidence = question["question"], question["evidence"]
        texts = [own.documents[e["doc"]]["text"][e["start"] : e["end"]] for e in evidence]
        yield asked, [question["answer"], *question.get("aliases", []), *texts], own.context(asked)
        yield asked, [], own.context(asked, {e["doc"] for e in evidence})
        if number % 3 == 0:
            other = names[(names.index(name) + 1 + number // 3 % (len(names) - 1)) % len(names)]
            foreign = collections[other].questions[number]["question"]
            yield foreign, [], own.context(foreign)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--questions", default=60, show_default=True, help="Most questions of a collection.")
@click.option("--write", is_flag=True, help="Store the calibration of all collections in the reader's file.")
def main(folder: Path, questions: int, write: bool) -> None:
    arrays, facts = tensors.decode(SHIPPED.read_bytes())
    reader, collections = SpanReader(source(), arrays), {name: Collection.read(folder, name) for name in COLLECTIONS}
    values, right, there, of = [], list[bool](), list[bool](), list[str]()
    for name in collections:
        for asked, gold, passages in reads(collections, name, questions):
            spans = reader.best(asked, passages)
            values.append(features(asked, passages, spans)[0])
            right.append(bool(gold) and f1(spans[0].text, gold) >= calibration.RIGHT)
            there.append(bool(gold))
            of.append(name)
        click.echo(f"{name}: {of.count(name)} contexts read", err=True)
    table, correct, answerable, owner = np.array(values), np.array(right), np.array(there), np.array(of)
    chances = np.empty(len(correct))
    for name in collections:
        own = owner == name
        chances[own] = fitting.fitted(table[~own], correct[~own]).probabilities(table[own])
    rows = []
    for name, own in {**{name: owner == name for name in collections}, "all": np.ones(len(owner), bool)}.items():
        row = {"left out": name, "contexts": int(own.sum()), "with the answer": int((own & answerable).sum())}
        row["best span right"] = int(correct[own].sum())
        for least in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
            shown = own & (chances >= least)
            row[f"right / shown from {least}"] = f"{int(correct[shown].sum())} / {int(shown.sum())}"
        rows.append(row)
    click.echo(markdown.table(rows, 100))
    curve, error = fitting.curve(chances, correct)
    certain = fitting.certain_from(chances, correct)
    click.echo(
        f"\ncalibration error {error:.3f}; shown from a probability of {certain}\n\n{markdown.table(curve, 100)}"
    )
    made = fitting.fitted(table, correct, certain)
    click.echo(f"\n{json.dumps(made.to_json(), indent=1)}")
    if write:
        told = {name: value for name, value in facts.items() if name != "reader"}
        with atomic(SHIPPED) as temporary:
            told |= {"calibration": made.to_json(), "calibration error": round(error, 4)}
            temporary.write_bytes(encoded(arrays, told))


if __name__ == "__main__":
    main()
