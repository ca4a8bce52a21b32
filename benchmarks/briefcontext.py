"""When map-reduce pays: its gain over one reading, and what foretells it.

python benchmarks/briefcontext.py squad.yaml musique.yaml --reader neural

Contexts are those of BriefContext by budget: what `--method` finds within 16/5 of the budget. They are read whole, and
in four parts whose extractions are read again (map-reduce). Each signal that could decide between the two is measured
by how well it tells (AUC; .5 is chance) that the key document is below the top three passages, which is what the
paper's preflight is judged by, and that map-reduce answers better than one reading, among questions where they differ;
and by F1 when the 30 % of the questions with the highest signal are map-reduced. Intervals are by document.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from reader import measured_questions

from mog_assets import config
from mog_assets.answer.ask import PASSAGES, reader
from mog_assets.answer.neural import Neural
from mog_assets.answer.roles import AnswerRequest, RetrievedPassage, Roles, Usage
from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.config.budget import Budget
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.papers.briefcontext.answerer import BRIEF_K, PARTITIONS, split
from mog_assets.papers.briefcontext.preflight import THRESHOLD, TOP, another, overlap
from mog_assets.papers.briefcontext.roles import EXTRACT, REDUCE
from mog_assets.plugins.reader_training.lessons import answers
from mog_assets.questions.marks import f1
from mog_assets.questions.sets import Question
from mog_assets.search.index import expert_names
from mog_assets.search.methods import parse
from mog_assets.search.passages import texts
from mog_assets.search.retrieval import Retrieval

# Pieces whose rankings by words and by meaning are compared.
AGREED = 10
SHARE = 0.3


def map_reduced(roles: Roles, asked: AnswerRequest, passages: Sequence[RetrievedPassage]) -> tuple[str, Usage]:
    """Answer and cost of map-reduce."""
    used, extractions = Usage(), []
    for part in split(passages, PARTITIONS):
        reply = roles.play(EXTRACT, asked, part)
        used += reply.usage
        if reply.value:
            extractions.append(reply.value)
    last = roles.play(REDUCE, asked, extractions)
    return last.value or "", used + last.usage


def area(signal: np.ndarray, truth: np.ndarray, documents: np.ndarray) -> str:
    """AUC with its interval over documents."""
    from sklearn.metrics import roc_auc_score

    if truth.all() or not truth.any():
        return ""
    names, member = np.unique(documents, return_inverse=True)
    random, drawn = np.random.default_rng(0), []
    for _ in range(500):
        counts = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
        rows = np.repeat(np.arange(len(truth)), counts[member])
        if truth[rows].any() and not truth[rows].all():
            drawn.append(roc_auc_score(truth[rows], signal[rows]))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return f"{roc_auc_score(truth, signal):.3f} [{low:.3f}, {high:.3f}]"


def signals(
    tools: Tools, roles: Roles, retrieval: Retrieval, method: str, passages: list[list[RetrievedPassage]]
) -> dict[str, np.ndarray]:
    """What could decide, by name: float array of shape (questions,), higher for map-reduce."""
    asked, count = retrieval.read.candidates, len(passages)
    how = retrieval.resolved(parse(method, tools.settings))
    found, rerank = retrieval.rank(how, TOP), another(how.retriever, tools.encoder.encode)
    words, meaning = (
        expert_names(retrieval.corpora.settings).index(name)
        for name in ("bm25-1", "dense-1")
        for name in ("bm25-1", "dense-1")
    )
    told: dict[str, list[float]] = {name: [] for name in ("two rankings (the paper's)", "margin", "agreement")}
    for number in range(count):
        query, own = retrieval.queries[number], passages[number]
        told["two rankings (the paper's)"].append(1 - overlap(range(len(own)), rerank(query, own), TOP))
        scores = found.score[found.question == number]
        told["margin"].append(-float(scores[0] - scores[1]) / float(scores[0]) if len(scores) > 1 else 0.0)
        rows = asked.scores[asked.offsets[number] : asked.offsets[number + 1]]
        first, second = (np.argsort(-rows[:, column], kind="stable")[:AGREED].tolist() for column in (words, meaning))
        told["agreement"].append(1 - overlap(first, second, AGREED))
    made = {name: np.array(values) for name, values in told.items()}
    if isinstance(roles, Neural):
        short = retrieval.passages(parse(method, tools.settings), budget=Budget.of(tools.settings.budget))
        chances = []
        for query, own in zip(retrieval.queries, texts(retrieval.corpora, short, count), strict=True):
            best = roles.network.best(query, [(p.title, p.text) for p in own])
            chances.append(1 - best[0].probability if best else 1.0)
        made["reader's doubt"] = np.array(chances)
    return made


def below_top(question: Question, passages: Sequence[RetrievedPassage]) -> bool:
    """Whether the first passage with evidence is below the top."""
    gold = {(e.corpus, e.doc) for e in question.evidence}
    places = [n for n, p in enumerate(passages) if any((c, d) in gold for c, d, _, _ in p.spans)]
    return bool(places) and places[0] >= TOP


@click.command()
@click.argument("projects", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--reader", "read_by", default="neural", help="See `answering.reader`.")
@click.option("--method", default="auto", help="What finds the contexts.")
@click.option("--questions", default=300, help="Most questions of a set.")
def main(projects: Sequence[Path], read_by: str, method: str, questions: int) -> None:
    for path in projects:
        settings = config.load(path)
        answering = settings.answering.model_copy(update={"reader": read_by})
        tools = Tools(settings.model_copy(update={"answering": answering}))
        roles = reader(tools)
        for name in settings.question_sets:
            study(tools, roles, name, method, questions)


def study(tools: Tools, roles: Roles, name: str, method: str, most: int) -> None:
    """Print the tables of a question set."""
    asked = [q for q in measured_questions(tools, name) if q.evidence]
    asked = [asked[i] for i in sorted(np.random.default_rng(0).permutation(len(asked))[:most].tolist())]
    corpora = tools.settings.question_sets[name].corpora
    retrieval = Retrieval.open(tools, tools.store.read, corpora, [q.question for q in asked])
    budget = tools.settings.budget * BRIEF_K // PASSAGES
    ranked = retrieval.passages(parse(method, tools.settings), budget=Budget(budget))
    passages = texts(retrieval.corpora, ranked, len(asked))
    rows = []
    for question, own in zip(asked, passages, strict=True):
        what, gold = AnswerRequest(question.id, question.question), answers(question)
        direct = roles.answer(what, own)
        said, used = map_reduced(roles, what, own)
        rows.append((f1(direct.value or "", gold), f1(said, gold), direct.usage.tokens_in, used.tokens_in))
    table, documents = np.array(rows, float), np.array([q.document for q in asked])
    gain = table[:, 1] - table[:, 0]
    low, high = bootstrap_interval(by_document(np.column_stack([table[:, :2], gain]), documents))
    p = permutation_p(by_document(gain, documents))[0]
    click.echo(f"\n{name}, {len(asked)} questions, contexts of {budget:,} characters by {method}, {roles.reader}\n")
    told = [
        {"way": way, "F1": f"{table[:, i].mean():.3f} [{low[i]:.3f}, {high[i]:.3f}]", "words read": f"{cost:,.0f}"}
        for i, way, cost in ((0, "one reading", table[:, 2].mean()), (1, "map-reduce", table[:, 3].mean()))
    ]
    told[1]["gain"] = f"{gain.mean():+.3f} [{low[2]:+.3f}, {high[2]:+.3f}], p {p:.4f}"
    told[1]["per 1,000 words more"] = f"{1000 * gain.mean() / (table[:, 3] - table[:, 2]).mean():+.4f}"
    click.echo(markdown.table(told, 100))
    truth = np.array([below_top(q, own) for q, own in zip(asked, passages, strict=True)])
    differ = gain != 0
    click.echo(f"\nkey document below the top {TOP}: {truth.mean():.1%}; the two differ: {differ.mean():.1%}\n")
    rows = []
    for what, signal in signals(tools, roles, retrieval, method, passages).items():
        chosen = np.zeros(len(signal), bool)
        chosen[np.argsort(-signal, kind="stable")[: int(SHARE * len(signal))]] = True
        if what.startswith("two"):
            chosen = signal >= 1 - THRESHOLD
        mixed = np.where(chosen, gain, 0.0)
        low, high = bootstrap_interval(by_document(mixed, documents))
        row = {"signal": what, "key document below the top": area(signal, truth, documents)}
        row["map-reduce better"] = area(signal[differ], gain[differ] > 0, documents[differ]) if differ.any() else ""
        row["map-reduced"] = f"{chosen.mean():.0%}"
        row["gain of F1"] = f"{mixed.mean():+.4f} [{low[0]:+.4f}, {high[0]:+.4f}]"
        rows.append(row)
    click.echo(markdown.table(rows, 100))


if __name__ == "__main__":
    main()
