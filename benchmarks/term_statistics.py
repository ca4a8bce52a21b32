"""BM25 statistics per corpus against statistics over all corpora of a question set, on a home that `mog run` has built.

python benchmarks/term_statistics.py --config mog.yaml --question-set medquad
"""

from dataclasses import replace

import click
import pandas as pd

from mog_assets import config
from mog_assets.evaluation.measures import evaluate
from mog_assets.evaluation.runs import ranked, table_of
from mog_assets.evaluation.scores import score
from mog_assets.questions.sets import load_questions
from mog_assets.ranking.retrieve import Retrieval
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import parse
from mog_assets.tools import Tools


@click.command()
@click.option("--config", "path", default="mog.yaml", show_default=True)
@click.option("--question-set", "name", required=True)
def main(path: str, name: str) -> None:
    settings = config.load(path)
    tools = Tools(settings)
    question_set = settings.question_sets[name]
    stored = tools.store.read("questions").path(f"{name}.parquet")
    questions = [q for q in load_questions(stored, question_set.test) if q.evidence]
    methods = [parse(f"bm25:{kind}-{j}", settings) for kind in ("fixed", "fused-paper") for j in settings.level_range]
    tables = []
    for statistics in ("corpus", "question_set"):
        bm25 = settings.bm25.model_copy(update={"statistics": statistics})
        corpora = Corpora.open(tools.store.read, settings.model_copy(update={"bm25": bm25}), question_set.corpora)
        opened = Retrieval.open(tools, tools.store.read, question_set.corpora, [q.question for q in questions])
        retrieval = replace(opened, corpora=corpora, vector_store=None)
        passages = {method: ranked(method, retrieval, settings.k) for method in methods}
        tables_of = [table_of(name, questions, method, found, retrieval) for method, found in passages.items()]
        runs = pd.concat([table.to_pandas() for table in tables_of])
        measured = evaluate(runs, {name: questions}, settings.k)
        scores = score(measured, settings.k, settings.seed, {m.name: (m.retriever, m.kind) for m in methods})
        wide = scores.pivot(index="method", columns="measure", values="value")
        tables.append(wide[[f"char_recall@{settings.k}", "ER@1000", "ER", "nDCG@10"]].add_suffix(f" · {statistics}"))
    print(pd.concat(tables, axis=1).round(3).to_string())


if __name__ == "__main__":
    main()
