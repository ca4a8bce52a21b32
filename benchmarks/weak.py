"""What a ranking learns from relevant documents or from answers alone, against the places that answer.

python benchmarks/weak.py medquad.yaml squad.yaml pubmedqa-bioasq.yaml

Each project must be built up to `candidates`. Its training questions are reduced to what a spreadsheet has: the
documents of their evidence; or an answer (the answer of the set; where it has none, the text of the first place).
`mix` is trained on them and measured on the places of questions about other documents: five folds by document, ER of
ranked pieces, intervals and paired tests by document. The questions are training questions only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.candidates_assets import read_examples
from mog_assets.evaluate.significance import bootstrap_interval, by_document, holm, permutation_p
from mog_assets.index.corpora import Corpora
from mog_assets.questions.sets import LEVELS, Level, Question, Relevant, load_questions
from mog_assets.search import weak_labels
from mog_assets.search.candidates import ordered
from mog_assets.search.index import expert_names, finest
from mog_assets.search.rankings import fused
from mog_assets.search.relevance import Relevance
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.trainers import trained_mix
from mog_assets.search.training import FOLDS, Examples

SEED = 0
SIZES = (100, 300, 1000, None)


def reduced(questions: Sequence[Question], level: Level, corpora: Corpora) -> list[Question]:
    """Questions of which less is known."""
    if level == "documents":
        # Without their answers: those are the other way.
        return [
            replace(
                q,
                answer="",
                long_answer="",
                aliases=(),
                options={},
                evidence=(),
                relevant=tuple(Relevant(*document, grade) for document, grade in q.grades.items()),
            )
            for q in questions
        ]
    firsts = [q.evidence[0] for q in questions]
    texts = corpora.texts({corpora.position[e.corpus, e.doc] for e in firsts})
    found = []
    for q, e in zip(questions, firsts, strict=True):
        answered = q if weak_labels.texts_of_answer(q) else None
        text = texts[corpora.position[e.corpus, e.doc]][1][e.start : e.end]
        found.append(replace(answered or replace(q, answer=text, options={}), evidence=(), relevant=()))
    return found


def as_known(examples: Examples, questions: Sequence[Question], corpora: Corpora, names: Sequence[str]) -> Examples:
    """The same candidates with the evidence that reduced questions have."""
    known = weak_labels.taught(questions, examples.candidates, fused(examples.candidates, names), corpora)
    gold, taught = (
        Relevance.located(examples.candidates, spans, corpora.layout)
        for spans in (weak_labels.measured(questions, corpora), known)
    )
    return replace(examples, gold=gold, taught=taught, levels=np.array([LEVELS.index(q.level) for q in questions]))


def measured(train: Examples, truth: Examples, size: int | None) -> np.ndarray:
    """ER of every question by `mix` trained on at most so many questions about documents of other folds."""
    recalls, order = np.zeros(len(truth.documents)), truth.sampling_order
    for fold in range(FOLDS):
        own = truth.folds == fold
        rows = ~own & (train.taught.characters > 0)
        if size is not None:
            rows[order[rows[order]][size:]] = False
        tested = truth.of(own)
        trained = trained_mix(train.of(rows), SEED)
        recalls[own] = tested.gold.recall(ordered(tested.candidates, trained.scores(tested.inputs)))
    return recalls


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--questions", type=int, help="At most so many questions of each project.")
def main(paths: tuple[Path, ...], questions: int | None) -> None:
    """Print a table for each project."""
    for path in paths:
        settings = config.load(path)
        tools = Tools(settings)
        names = expert_names(settings)
        truth, identities = read_examples(tools.store.read("candidates"), names, finest(settings))
        rows = np.zeros(len(identities), bool)
        rows[truth.sampling_order[:questions]] = True
        rows &= truth.levels == LEVELS.index("spans")
        truth = truth.of(rows)
        known: dict[str, Question] = {}
        for name, question_set in settings.question_sets.items():
            if question_set.train:
                stored = tools.store.read("questions").path(f"{name}.parquet")
                known |= {f"{name}/{q.id}": q for q in load_questions(stored, question_set.train)}
        asked = [known[identity] for identity, kept in zip(identities, rows, strict=True) if kept]
        corpora = Retrieval.open(tools, tools.store.read, list(settings.corpora)).corpora
        versions = {"places": truth}
        for level in ("documents", "answer"):
            versions[level] = as_known(truth, reduced(asked, level, corpora), corpora, names)
        base = truth.gold.recall(ordered(truth.candidates, fused(truth.candidates, names)))
        documents = np.asarray(truth.documents, str)
        cells = {"fused": base}
        for size in SIZES:
            if size is not None and size >= len(asked) * (FOLDS - 1) / FOLDS:
                continue
            for level, train in versions.items():
                started = time.monotonic()
                cells[f"mix, {level}, {size or 'all'}"] = measured(train, truth, size)
                click.echo(f"{path.stem}: {level} {size or 'all'} {time.monotonic() - started:.0f} s", err=True)
        others = [name for name in cells if name != "fused"]
        above = np.stack([cells[name] - base for name in others], axis=1)
        totals = by_document(above, documents)
        p = holm(permutation_p(totals, seed=SEED))
        low, high = bootstrap_interval(totals, seed=SEED)
        table = [{"trained on": "fused", "ER": f"{base.mean():.3f}", "above fused": "", "p": ""}]
        table += [
            {
                "trained on": name,
                "ER": f"{cells[name].mean():.3f}",
                "above fused": f"{above[:, i].mean():+.3f} [{low[i]:+.3f}, {high[i]:+.3f}]",
                "p": f"{p[i]:.3f}",
            }
            for i, name in enumerate(others)
        ]
        labelled = {level: int((train.taught.characters > 0).sum()) for level, train in versions.items()}
        told = ", ".join(f"{level}: {n:,}" for level, n in labelled.items())
        click.echo(
            f"\n{path.stem}: {len(asked):,} questions on {len(set(documents)):,} documents; with labels {told}\n"
        )
        click.echo(markdown.table(table))


if __name__ == "__main__":
    main()
