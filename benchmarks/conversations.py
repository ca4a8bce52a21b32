"""Follow-up questions: how much of the evidence is found as they are asked, and made to stand alone.

python benchmarks/conversations.py --config mog.yaml --set squad=squad/mog.yaml --set medquad=medquad/mog.yaml

The pairs are in `followups.jsonl`, written over the sample questions: a question of the sample set, a follow-up, and
the sample question that it means, whose evidence counts. The last six change the topic.

Of each other project, the pairs are made of the questions of its first set that are for development: of two that follow
one another about a document, the longest words of both become `it` in the second. And questions that stand alone and
are taken for follow-ups come after one about another document: what is lost there is the price.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import click
import numpy as np
from filings import share

import mog_assets
from mog_assets.plugins.frameworks import conversation
from mog_assets.serve.project import Project
from mog_assets.text.languages import DEFAULT, LANGUAGES, of_texts
from mog_assets.text.terms import located

PAIRS = Path(__file__).with_name("followups.jsonl")
RESAMPLES = 10_000
# What stands for something that was named before, which the rules know.
PRONOUNS = {"en": "it", "de": "sie", "zh": "它", "ja": "それ"}


class Pair(NamedTuple):
    """A question, what is asked after it, and the question whose evidence counts."""

    first: str
    follow_up: str
    gold: SimpleNamespace


def questions_of(project: Project) -> list[SimpleNamespace]:
    """The questions of the first set that have evidence and are for development."""
    path = next(one.path for one in project.settings.question_sets.values() if one.path is not None)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        every = [json.loads(line, object_hook=lambda values: SimpleNamespace(**values)) for line in stream]
    every = [question for question in every if getattr(question, "evidence", None)]
    return [question for question in every if question.split != "test"] or every


def document(question: SimpleNamespace) -> tuple[str, str]:
    return question.evidence[0].corpus, question.evidence[0].doc


def searched_by(language: str) -> dict[str, Callable[[Pair], str]]:
    return {
        "as asked": lambda pair: pair.follow_up,
        "after the question before": lambda pair: f"{pair.first} {pair.follow_up}",
        "twice, around its words": lambda pair: conversation.around(pair.follow_up, pair.first, language),
        "made to stand alone": lambda pair: conversation.standalone(pair.follow_up, [pair.first]),
    }


def of_samples(project: Project) -> Iterator[tuple[str, list[Pair]]]:
    """The pairs that were written."""
    questions = {question.id: question for question in questions_of(project)}
    rows = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    pairs = [Pair(questions[row["first"]].question, row["follow_up"], questions[row["gold"]]) for row in rows]
    yield "follow-ups", pairs[:30]
    yield "other topics", pairs[30:]


def subject(first: str, second: str, language: str) -> tuple[int, int] | None:
    """Where the longest part that both questions have stands in the second: whole words, a stop word at neither end."""
    (starts,), _, _ = located([second], language)
    parts = [word.span() for word in re.finditer(r"[\w'’-]+", second)]
    if not LANGUAGES[language].blanks:
        parts = [(at, at + 1) for at in range(len(second))]
    content = [not set(starts).isdisjoint(range(*part)) for part in parts]
    runs = [
        (parts[a][0], parts[b][1])
        for a in range(len(parts))
        for b in range(a, len(parts))
        if content[a] and content[b] and second[parts[a][0] : parts[b][1]].casefold() in first.casefold()
    ]
    return max(runs, key=lambda run: run[1] - run[0], default=None)


def made(questions: Sequence[SimpleNamespace], language: str, most: int) -> Iterator[tuple[str, list[Pair]]]:
    """Pairs of questions of a set, a few of each document, and those that only seem to follow."""
    draw, by_document = random.Random(0), defaultdict[tuple[str, str], list[SimpleNamespace]](list)
    for question in questions:
        by_document[document(question)].append(question)
    pairs, each = [], -(-most // len(by_document)) + 1
    for rows in draw.sample(sorted(by_document.values(), key=lambda rows: rows[0].id), len(by_document)):
        candidates = []
        for first, second in zip(rows, rows[1:], strict=False):
            if (place := subject(first.question, second.question, language)) and place[1] - place[0] > 1:
                text = second.question[: place[0]] + PRONOUNS[language] + second.question[place[1] :]
                candidates.append(Pair(first.question, re.sub(r"\b(the|an?) it\b", "it", text, flags=re.I), second))
        pairs += draw.sample(candidates, min(each, len(candidates)))
    yield "follow-ups", pairs[:most]
    alone = [question for question in questions if conversation.refers_back(question.question, language)]
    click.echo(f"  of {len(questions)} questions, which stand alone, {len(alone)} are taken for follow-ups")
    alone = draw.sample(alone, min(most // 2, len(alone)))
    yield "only seem to follow", [Pair(draw.choice(questions).question, one.question, one) for one in alone]


def compare(project: Project, part: str, pairs: Sequence[Pair], language: str, budget: int) -> None:
    """Print the evidence recall of each way, and its difference to the first, with an interval by document."""
    shares = {}
    for name, text in searched_by(language).items():
        passages = [project.search(text(pair), budget=budget).passages for pair in pairs]
        rows = zip(passages, (pair.gold.evidence for pair in pairs), strict=True)
        shares[name] = np.array([share(*row) for row in rows])
    documents, owner = np.unique([str(document(pair.gold)) for pair in pairs], return_inverse=True)
    drawn = np.random.default_rng(0).multinomial(len(documents), np.full(len(documents), 1 / len(documents)), RESAMPLES)
    weights = drawn[:, owner]
    for name, values in shares.items():
        change = values - shares["as asked"]
        low, high = np.quantile((weights * change).sum(1) / weights.sum(1), [0.025, 0.975])
        said = f"ER {values.mean():.3f}, {change.mean():+.3f} [{low:+.3f}, {high:+.3f}]"
        click.echo(f"  {len(pairs)} {part} ({len(documents)} documents), {name}: {said}")


@click.command()
@click.option("--config", type=click.Path(path_type=Path, exists=True), default=Path("mog.yaml"), show_default=True)
@click.option("--set", "others", multiple=True, help="NAME=CONFIG of another built project with a question set.")
@click.option("--budget", default=2000, show_default=True)
@click.option("--most", default=240, show_default=True, help="Pairs of a set.")
def main(config: Path, others: tuple[str, ...], budget: int, most: int) -> None:
    with mog_assets.open(config) as project:
        click.echo("samples")
        for part, pairs in of_samples(project):
            compare(project, part, pairs, DEFAULT, budget)
    for name, _, path in (other.partition("=") for other in others):
        with mog_assets.open(path) as project:
            questions = questions_of(project)
            language = of_texts([question.question for question in questions]) or DEFAULT
            click.echo(f"{name}, {language}")
            for part, pairs in made(questions, language, most):
                compare(project, part, pairs, language, budget)


if __name__ == "__main__":
    main()
