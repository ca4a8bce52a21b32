"""A cross-encoder trained on squad as a reranker, on collections that it never saw.

python benchmarks/crossencoder.py train model --homes .mog/development
python benchmarks/crossencoder.py table model --homes .mog/development     `reranked` with it, beside `fused`

The embedded encoder reads question and piece together. It is trained on the training questions of squad: a piece with
the answer against others that `fused` ranks high (listwise softmax). Homes are those of `development.py build`. ER is
that of ranked pieces; p is by document.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
import numpy as np
import torch
import yaml
from development import measured_questions
from ranking import examples, merged, recall

from mog_assets import config
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.questions.sets import load_questions
from mog_assets.resources.embedded import embedded_folder
from mog_assets.search.rankings import fused
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router

BATCH, NEGATIVES, RATE, LENGTH = 8, 3, 1e-4, 128
# Of these, the best pieces without the answer are what it must tell from the answer.
BEST = 12
UNSEEN = ("cuad", "policyqa", "biomedical", "lihua_world", "musique", "medquad")

Group = tuple[str, list[str]]
"""A question, and texts of which the first has its answer."""


def groups(homes: Path, most: int) -> list[Group]:
    """What is trained on."""
    tools = Tools(config.load(homes / "squad" / "mog.yaml"))
    retrieval = Retrieval.open(tools, tools.store.read, ["squad"])
    path = tools.store.read("questions").path("squad.parquet")
    questions = [question for question in load_questions(path, ["train"]) if question.evidence]
    questions = [questions[i] for i in np.random.default_rng(0).permutation(len(questions))[:most].tolist()]
    of = examples(retrieval, questions)
    candidates, layout = of.candidates, retrieval.corpora.layout
    scores, covered = fused(candidates, of.experts), np.zeros(len(candidates.piece))
    np.add.at(covered, of.gold.row, of.gold.end - of.gold.start)
    made = []
    for number, question in enumerate(questions):
        rows = np.arange(*candidates.offsets[number : number + 2])
        best = rows[np.argsort(-scores[rows], kind="stable")]
        right = rows[covered[rows] == of.gold.characters[number]][:1]
        wrong = [row for row in best[:BEST].tolist() if not covered[row]][:NEGATIVES]
        if len(right) and wrong:
            chosen = [int(right[0]), *wrong]
            documents, spans = layout.document_of[candidates.piece[chosen]], layout.spans[candidates.piece[chosen]]
            texts = retrieval.corpora.texts(np.unique(documents).tolist())
            pairs = zip(documents.tolist(), spans.tolist(), strict=True)
            made.append((question.question, [f"{texts[d][0]}\n{texts[d][1][a:b]}" for d, (a, b) in pairs]))
    return made


@click.group()
def main() -> None:
    pass


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--homes", type=click.Path(path_type=Path), required=True)
@click.option("--questions", default=4000, help="How many are learned from.")
@click.option("--epochs", default=1)
def train(folder: Path, homes: Path, questions: int, epochs: int) -> None:
    import transformers

    torch.manual_seed(0)
    source = embedded_folder("encoder")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    random = np.random.default_rng(0)
    data = groups(homes, questions)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = epochs * -(-len(data) // BATCH)
    schedule = transformers.get_linear_schedule_with_warmup(optimiser, steps // 10, steps)
    click.echo(f"{len(data)} questions, {steps} steps")
    start, losses = time.perf_counter(), []
    model.train()
    for _ in range(epochs):
        for rows in np.array_split(random.permutation(len(data)), -(-len(data) // BATCH)):
            some = [data[row] for row in rows.tolist()]
            pairs = [(question, text) for question, texts in some for text in texts]
            batch = tokenizer(pairs, truncation="only_second", max_length=LENGTH, padding=True, return_tensors="pt")
            parts = model(**batch).logits[:, 0].split([len(texts) for _, texts in some])
            loss = torch.stack([-part.log_softmax(0)[0] for part in parts]).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(float(loss.detach()))
            if len(losses) % 50 == 0:
                click.echo(f"{len(losses)} {np.mean(losses[-50:]):.3f} {time.perf_counter() - start:.0f} s")
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@main.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--homes", type=click.Path(path_type=Path), required=True)
@click.option("--questions", default=300, help="Most questions of a set.")
@click.option("--only", multiple=True, default=UNSEEN, help="Names of collections.")
def table(folder: Path, homes: Path, questions: int, only: tuple[str, ...]) -> None:
    rows = []
    for name in only:
        path = homes / name / "mog.yaml"
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        values |= {"home": str((path.parent / values["home"]).resolve()), "reranker": {"model": str(folder.resolve())}}
        given = folder.parent / f"{name}.yaml"
        given.write_text(yaml.safe_dump(values), encoding="utf-8")
        tools = Tools(config.load(given))
        retrieval = Retrieval.open(tools, tools.store.read, list(tools.settings.corpora))
        sets = [part[:questions] for part in measured_questions(tools).values()]
        start = time.perf_counter()
        of = merged([examples(retrieval, part) for part in sets]) if len(sets) > 1 else examples(retrieval, sets[0])
        seconds = (time.perf_counter() - start) / len(of.words)
        plain = recall(of, fused(of.candidates, of.experts))
        read = recall(of, Router.reading().scores(of.candidates, of.experts))
        difference = by_document((read - plain)[:, None], of.documents)
        rows.append(
            {
                "collection": name,
                "questions": len(of.words),
                "fused": f"{plain.mean():.3f}",
                "reranked": f"{read.mean():.3f}",
                "p": f"{permutation_p(difference)[0]:.4f}",
                "s a question": f"{seconds:.2f}",
            }
        )
        click.echo(f"{rows[-1]}")
    click.echo(markdown.table(rows, 100))


if __name__ == "__main__":
    main()
