"""Two public benchmarks beside what their authors publish: MTRAG's follow-up questions, and the chunking benchmark.

python benchmarks/published.py mtrag --homes .mog/development        after `development.py build`
python benchmarks/published.py chunkeval --homes .mog/development

MTRAG (Katsis et al. 2025, arXiv 2501.03468): 179 answerable questions of its conversations, over the passages that are
relevant to any of them: first questions, follow-ups that stand alone as they are said, and the others, which are
searched as people rewrote them, as they were said, and as the project makes them stand alone from the questions before,
without a language model. ER, what `fused` has more [95 % interval], and p by document (Holm over the row).

The chunking benchmark (Smith and Troynikov 2024, research.trychroma.com/evaluating-chunking): share of the gold
characters in the first 6,000 and 8,000 characters, as many as its five chunks of 1,200 characters or 400 tokens have.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from development import differences, measured_questions, opened
from ranking import examples
from rivals import measured, own_passages, short

from mog_assets.build import markdown
from mog_assets.plugins.frameworks.conversation import standalone
from mog_assets.questions.sets import Question
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.training import fixed_recalls
from mog_assets.search.weak_labels import measured as places_of

CHARACTERS = (6000, 8000)


def compared(name: str, retrieval: Retrieval, questions: Sequence[Question]) -> dict[str, str]:
    """Return a row: ER of the best fixed level, hybrid-2 and `fused`."""
    of = examples(retrieval, questions)
    fixed, sets = fixed_recalls(of), {"mtrag": list(questions)}
    own = measured(retrieval, sets, own_passages(retrieval, sets, "fused"))
    best = max(fixed, key=lambda level: fixed[level].mean())
    others = {"best fixed": fixed[best], "hybrid-2": fixed["hybrid:fixed-2"]}
    more = differences(own, others, of.documents)
    cells = {n: f"{er.mean():.3f} ({more[n]})" for n, er in others.items()}
    cells["best fixed"] = f"{best.replace(':fixed', '')} {cells['best fixed']}"
    row = {"questions": name, "number": str(len(questions)), "`fused`": f"{own.mean():.3f}", **cells}
    return {column: short(cell) for column, cell in row.items()}


def mtrag(homes: Path, data: Path) -> list[dict[str, str]]:
    """Return a row for every kind of questions."""
    tools, retrieval = opened("mtrag", homes)
    questions = [question for own in measured_questions(tools).values() for question in own]
    with gzip.open(data / "mtrag" / "questions.jsonl.gz", "rt", encoding="utf-8") as stream:
        said = {row["id"]: (row["last_turn"], row["user_history"]) for row in map(json.loads, stream)}
    kinds = {kind: [q for q in questions if q.kind.endswith(kind)] for kind in ("first", "same as said", "rewritten")}
    rewritten = kinds.pop("rewritten")
    kinds = {"first of a conversation": kinds["first"], "follow-ups that stand alone": kinds["same as said"]}
    kinds["other follow-ups, rewritten by people"] = rewritten
    kinds["the same, as said"] = [replace(q, question=said[q.id][0]) for q in rewritten]
    kinds["the same, made to stand alone"] = [replace(q, question=standalone(*said[q.id])) for q in rewritten]
    return [compared(kind, retrieval, own) for kind, own in kinds.items()]


def chunkeval(homes: Path) -> list[dict[str, str]]:
    """Return a row for every method: the share of the gold characters in the first characters."""
    tools, retrieval = opened("chunkeval", homes)
    questions = [question for own in measured_questions(tools).values() for question in own]
    asking, gold = retrieval.with_queries([q.question for q in questions]), places_of(questions, retrieval.corpora)
    rows = []
    for method in ("dense:fixed-1", "dense:fixed-2", "hybrid:fixed-2", "fused"):
        ranked = asking.rank(parse(method, tools.settings), 1)
        bounds = np.searchsorted(ranked.question, np.arange(len(questions) + 1)).tolist()
        shares = np.zeros((len(questions), len(CHARACTERS)))
        for number, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            start, end, document = (c[first:last] for c in (ranked.start, ranked.end, ranked.document))
            before = np.cumsum(end - start) - (end - start)
            for column, most in enumerate(CHARACTERS):
                stop = np.minimum(end, start + np.maximum(most - before, 0))
                for of, low, high in gold[number]:
                    hit = np.clip(np.minimum(stop, high) - np.maximum(start, low), 0, None)[document == of].sum()
                    shares[number, column] += hit / sum(b - a for _, a, b in gold[number])
        values = zip(CHARACTERS, shares.mean(axis=0), strict=True)
        rows.append(
            {
                "method": method.replace(":fixed", ""),
                **{f"{most:,} characters": short(f"{v:.3f}") for most, v in values},
            }
        )
    return rows


@click.command()
@click.argument("what", type=click.Choice(["mtrag", "chunkeval"]))
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("../shared/data"))
def main(what: str, homes: Path, data: Path) -> None:
    click.echo(markdown.table(mtrag(homes, data) if what == "mtrag" else chunkeval(homes), 400))


if __name__ == "__main__":
    main()
