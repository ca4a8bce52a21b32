"""What each round of AT-RAG gains: evidence read, answers, and words read for them.

python benchmarks/rounds.py musique.yaml --reader neural --method fused --method multihop

The project must be built up to what the methods need. A row is the loop ended after so many rounds, without topics; a
question whose answer passes both graders earlier ends earlier. `gain` is F1 against the row above, tested by document;
`per 1,000 words` divides it by what was read more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from mog_assets import config
from mog_assets.answer.answerers import Means, one_step
from mog_assets.answer.ask import reader, retrieve_by, side_by_side
from mog_assets.answer.roles import AnswerRequest
from mog_assets.answer.rows import AnswerRow
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.papers.at_rag.answerer import at_rag
from mog_assets.plugins.reader_training.lessons import answers
from mog_assets.questions.marks import exact_match, f1
from mog_assets.questions.sets import Question, load_questions
from mog_assets.search.methods import parse
from mog_assets.search.retrieval import Retrieval


def measures(question: Question, row: AnswerRow) -> list[float]:
    """Exact match, F1, whether what the answer was read from is of every gold document, words read, rounds."""
    said, gold = row.answer or "", answers(question)
    read = {(span[0], span[1]) for passage in row.passages for span in passage.spans}
    complete = {(e.corpus, e.doc) for e in question.evidence} <= read
    return [exact_match(said, gold), f1(said, gold), float(complete), float(row.usage.tokens_in), float(row.rounds)]


def told(mean: float, low: float, high: float) -> str:
    """A mean with its interval."""
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


@click.command()
@click.argument("project", type=click.Path(exists=True, path_type=Path))
@click.option("--reader", "read_by", default="neural", help="See `answering.reader`.")
@click.option("--method", "methods", multiple=True, default=["fused", "multihop"])
@click.option("--rounds", default=4)
def main(project: Path, read_by: str, methods: Sequence[str], rounds: int) -> None:
    settings = config.load(project)
    answering = settings.answering.model_copy(update={"reader": read_by})
    tools = Tools(settings.model_copy(update={"answering": answering}))
    means_of = reader(tools)
    for name, question_set in settings.question_sets.items():
        stored = tools.store.read("questions").path(f"{name}.parquet")
        asked = [q for q in load_questions(stored, question_set.test) if q.answer and q.evidence and not q.options]
        if not asked:
            continue
        documents, rows = [q.document for q in asked], []
        for method in methods:
            retrieval = Retrieval.open(tools, tools.store.read, question_set.corpora)
            means = Means(means_of, retrieve_by(parse(method, settings), retrieval), side_by_side(tools))
            before: np.ndarray | None = None
            for number in range(rounds + 1):
                questions = [AnswerRequest.of(q) for q in asked]
                found = at_rag(questions, means, number, limit="") if number else one_step(questions, means)
                table = np.array([measures(q, row) for q, row in zip(asked, found, strict=True)])
                low, high = bootstrap_interval(by_document(table, documents))
                mean = table.mean(axis=0)
                row = {"passages": method, "ended after": f"{number} rounds" if number else "one step"}
                for i, measure in enumerate(("exact match", "F1", "all gold documents read")):
                    row[measure] = told(mean[i], low[i], high[i])
                row |= {"words read": f"{mean[3]:,.0f}", "rounds": f"{mean[4]:.2f}", "gain": "", "per 1,000 words": ""}
                if before is not None:
                    gain = table - before
                    p = permutation_p(by_document(gain, documents))
                    row["gain"] = f"{gain[:, 1].mean():+.3f}, p {p[1]:.4f}"
                    more = gain[:, 3].mean()
                    row["per 1,000 words"] = f"{1000 * gain[:, 1].mean() / more:+.4f}" if more > 0 else ""
                before = table
                rows.append(row)
                click.echo(f"  {name} {method} {row['ended after']}: F1 {row['F1']}", err=True)
        click.echo(f"\n{name}, {len(asked)} questions, read by {means_of.reader}\n\n{markdown.table(rows, 120)}")


if __name__ == "__main__":
    main()
