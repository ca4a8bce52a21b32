"""What each further expert adds to each ranking, collection by collection.

python benchmarks/ablation.py medquad.yaml squad.yaml pubmedqa-bioasq.yaml --only-test musique.yaml

The projects must be built up to `candidates`, `sentence_graph`, `hop_statistics` and `topics/model`. A project with a
test split is measured on it and trained on its training questions; one without by cross-validation over documents; one
that is only tested (`--only-test`) is ranked by what was trained on the others, of which some are only trained on
(`--only-train`). ER is that of ranked pieces; `all in 4,000` is the share of questions whose gold documents are all
among the first 4,000 characters. Differences are from the same ranking with the first set of experts (`--variant`),
those of texts alone; tests are paired, by document, Holm-corrected over the experts of a ranking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
import numpy as np
from ranking import TRAINERS, merged

from mog_assets import config, markdown
from mog_assets.arrays import running
from mog_assets.questions.sets import LEVELS, Question, load_questions
from mog_assets.ranking.blend import Blend
from mog_assets.ranking.gold import Gold, ordered
from mog_assets.ranking.retrieve import Retrieval, finest
from mog_assets.ranking.training import Examples, drawn
from mog_assets.ranking.weak import measured
from mog_assets.significance import by_document, holm, permutation_p
from mog_assets.tools import Tools

RELATED = ["mention", "pagerank", "sentence", "topics", "feedback"]
Keep = Callable[[str], bool]
# What `fused` weighs an expert with where it counts nothing by default.
TRIED = {"sentence": 1.0, "topics": 1.0, "feedback": 1.0}


def of_texts(name: str) -> bool:
    """Whether it is an expert of texts."""
    return name.partition("-")[0] in ("bm25", "dense", "title")


def also(*names: str) -> Keep:
    """The experts of texts, and some others."""
    return lambda name: of_texts(name) or name in names


VARIANTS: dict[str, Keep] = {
    "texts": of_texts,
    "+ mention": also("mention"),
    "+ mention, pagerank": also("mention", "pagerank"),
    "+ sentence": also("sentence"),
    "+ topics": also("topics"),
    "+ feedback": also("feedback"),
    "+ hops": lambda name: of_texts(name) or name.startswith("hop-"),
    "+ mention, pagerank, hops": lambda name: also("mention", "pagerank")(name) or name.startswith("hop-"),
    "+ all": lambda name: True,
}


@dataclass
class Collection:
    """A project's questions with the scores of all experts.

    Attributes:
        whole: By `test` (measured) and `train`, if there are any.
        gold: Documents with evidence, of every question that is measured.
        multihop: ER and `all in 4,000` of every question that is measured, by `multihop`.
    """

    name: str
    whole: dict[str, Examples]
    gold: list[set[int]]
    documents_of: np.ndarray
    multihop: tuple[np.ndarray, np.ndarray]

    @property
    def measured(self) -> Examples:
        """The questions it is measured on."""
        return self.whole.get("test") or self.whole["train"]


def sampled(questions: Sequence[Question], every: int) -> list[Question]:
    """One of so many questions, by a hash."""
    import hashlib

    return [q for q in questions if int(hashlib.sha256(q.id.encode()).hexdigest()[:8], 16) % every == 0]


def opened(path: Path, most: int, every: int, measures: bool = True) -> Collection:
    """A project with the scores of all experts for its questions, or for those alone that are trained on."""
    settings = config.load(path)
    settings = settings.model_copy(update={"ranking": settings.ranking.model_copy(update={"experts": RELATED})})
    tools, whole, gold, documents = Tools(settings), dict[str, list[Examples]](), list[set[int]](), list[np.ndarray]()
    hopped: list[tuple[np.ndarray, np.ndarray]] = []
    for name, question_set in settings.question_sets.items():
        opened_set = Retrieval.open(tools, tools.store.read, question_set.corpora, keep=True)
        stored = tools.store.read("questions").path(f"{name}.parquet")
        for split, kinds in (("test", question_set.test if measures else []), ("train", question_set.train)):
            asked = [q for q in load_questions(stored, kinds) if q.evidence] if kinds else []
            trains = split == "train" and (settings.tests or not measures)
            asked = drawn(asked, most) if trains else sampled(asked, every)
            if not asked:
                continue
            retrieval = opened_set.again([q.question for q in asked])
            made = examples(retrieval, asked)
            whole.setdefault(split, []).append(made)
            if not trains:
                layout, spans = retrieval.corpora.layout, measured(asked, retrieval.corpora)
                own = [{document for document, _, _ in spans_of} for spans_of in spans]
                gold += own
                documents.append(layout.document_of[made.found.piece])
                question, piece, _ = retrieval._ordered("multihop")
                hopped.append(of_order(made, question, piece, own, retrieval))
    joined = {split: merged(parts) for split, parts in whole.items()}
    er, every_gold = (np.concatenate([np.zeros(0), *parts]) for parts in zip(*(hopped or [((), ())]), strict=True))
    return Collection(path.stem, joined, gold, np.concatenate([np.zeros(0, int), *documents]), (er, every_gold))


def of_order(
    made: Examples, question: np.ndarray, piece: np.ndarray, gold: Sequence[set[int]], retrieval: Retrieval
) -> tuple[np.ndarray, np.ndarray]:
    """ER and `all in 4,000` of pieces in an order that is not one of the candidates alone."""
    layout = retrieval.corpora.layout
    found = replace_rows(made, question, piece, layout)
    order = np.lexsort((np.arange(len(question)), question))
    place = np.empty(len(order), np.int64)
    by_piece = np.lexsort((piece, question))
    place[by_piece] = np.arange(len(order))
    return found.recall(place[order]), complete(found.found, place[order], gold, layout.document_of[found.found.piece])


def replace_rows(made: Examples, question: np.ndarray, piece: np.ndarray, layout: object) -> Gold:
    """Evidence in other candidates: these pieces."""
    order = np.lexsort((piece, question))
    question, piece = question[order], piece[order]
    sizes = layout.spans[piece, 1] - layout.spans[piece, 0]  # type: ignore[attr-defined]
    document = layout.document_of[piece]  # type: ignore[attr-defined]
    number = piece - layout.offsets[document]  # type: ignore[attr-defined]
    place = np.stack([number, number, sizes, number], axis=1).astype(np.int32)
    empty = np.zeros((len(piece), 1), np.float32)
    floors = made.found.floors[:, :1]
    found = replace(
        made.found, question=question, piece=piece, scores=empty, beside=empty[:, None], place=place, floors=floors
    )
    return Gold.located(found, _EVIDENCE[id(made)], layout)  # type: ignore[arg-type]


_EVIDENCE: dict[int, list[list[tuple[int, int, int]]]] = {}


def examples(retrieval: Retrieval, questions: Sequence[Question]) -> Examples:
    """Questions with the scores of all experts, hops included."""
    asked, corpora = retrieval.asked_by("mogg"), retrieval.corpora
    experts = [*(e.name for e in retrieval.experts), *RELATED, *retrieval.hops.names]
    evidence = measured(questions, corpora)
    gold = Gold.located(asked.found, evidence, corpora.layout)
    levels = np.array([LEVELS.index(q.level) for q in questions])
    about, made = [q.document for q in questions], np.zeros(len(questions), bool)
    found = Examples(gold, gold, asked.vectors, asked.words, about, levels, made, experts, finest(corpora.settings))
    _EVIDENCE[id(found)] = [list(spans) for spans in evidence]
    return found


def only(of: Examples, keep: Keep) -> Examples:
    """With some experts."""
    columns = [i for i, name in enumerate(of.experts) if keep(name)]
    found = replace(
        of.found, scores=np.ascontiguousarray(of.found.scores[:, columns]), floors=of.found.floors[:, columns]
    )
    gold, taught = (replace(own, found=found) for own in (of.gold, of.taught))
    return replace(of, gold=gold, taught=taught, experts=[of.experts[i] for i in columns])


def fused(of: Examples) -> np.ndarray:
    """`fused`, where experts that it does not weigh by default have a weight, too."""
    weights = Blend().weights(of.found, of.experts)
    for i, name in enumerate(of.experts):
        if name in TRIED or name.startswith("hop-"):
            weights[:, i] = TRIED.get(name, 0.25)
    return np.einsum("ij,ij->i", of.found.relative, weights[of.found.question])


def complete(found: object, order: np.ndarray, gold: Sequence[set[int]], document: np.ndarray) -> np.ndarray:
    """Whether all gold documents are among the first 4,000 characters, by question."""
    question = found.question[order]  # type: ignore[attr-defined]
    inside = running(found.place[order, 2].astype(np.int64), question) < 4000  # type: ignore[attr-defined]
    have: list[set[int]] = [set() for _ in gold]
    for own, of in zip(question[inside].tolist(), document[order][inside].tolist(), strict=True):
        have[own].add(of)
    return np.array([wanted <= there for wanted, there in zip(gold, have, strict=True)], float)


def ranked(
    collection: Collection, keep: Keep, kind: str, trained_on: Sequence[Collection], seed: int
) -> np.ndarray | None:
    """Scores of the candidates that are measured; None where there is nothing to train on."""
    of = only(collection.measured, keep)
    if kind == "fused":
        return fused(of)
    train = partial(TRAINERS[kind], seed=seed)
    if trained_on:
        return train(merged([only(other.whole["train"], keep) for other in trained_on]))(of)
    if "test" in collection.whole and "train" in collection.whole:
        return train(only(collection.whole["train"], keep))(of)
    if "train" not in collection.whole:
        return None
    scores = np.zeros(len(of.found.question))
    for fold in np.unique(of.folds).tolist():
        own = of.folds == fold
        scores[own[of.found.question]] = train(of.of(~own))(of.of(own))
    return scores


def study(
    collection: Collection,
    trained_on: Sequence[Collection],
    rankings: Sequence[str],
    variants: Sequence[str],
    seeds: int,
) -> list[dict[str, str]]:
    """A row per ranking and set of experts, of which the first is what the others are compared with."""
    of, rows = collection.measured, []
    documents, levels = of.documents, {n: i for i, n in enumerate(of.experts) if n.startswith(("bm25-", "dense-"))}
    fixed = {}
    for name, column in levels.items():
        order = ordered(of.found, of.found.scores[:, column])
        fixed[name] = (
            of.gold.recall(order),
            complete(of.found, order, collection.gold, collection.documents_of),
        )
    best = [max(fixed, key=lambda name, i=i: fixed[name][i].mean()) for i in (0, 1)]
    rows.append({"ranking": "best level of pieces", "experts": " / ".join(best)})
    rows[-1] |= {"ER": f"{fixed[best[0]][0].mean():.4f}", "all in 4,000": f"{fixed[best[1]][1].mean():.3f}"}
    for kind in rankings:
        measures: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for variant in variants:
            own = []
            for seed in range(seeds if kind in TRAINERS else 1):
                scores = ranked(collection, VARIANTS[variant], kind, trained_on, seed)
                if scores is not None:
                    order = ordered(of.found, scores)
                    all_in = complete(of.found, order, collection.gold, collection.documents_of)
                    own.append((of.gold.recall(order), all_in))
            if not own:
                continue
            measures[variant] = np.mean([er for er, _ in own], axis=0), np.mean([all_in for _, all_in in own], axis=0)
            click.echo(f"  {collection.name} {kind} {variant} {measures[variant][0].mean():.4f}", err=True)
        if kind == "fused" and measures:
            measures["multihop (mention, pagerank)"] = collection.multihop
        rows += compared(kind, measures, documents, fixed[best[1]][1])
    return rows


def compared(
    kind: str, measures: dict[str, tuple[np.ndarray, np.ndarray]], documents: Sequence[str], fixed: np.ndarray
) -> list[dict[str, str]]:
    """Rows of a ranking, compared with the first."""
    if len(measures) < 2:
        return []
    names = list(measures)
    base, others = measures[names[0]], names[1:]
    p = []
    for i in (0, 1):
        totals = by_document(np.stack([measures[name][i] - base[i] for name in others], axis=1), documents)
        p.append(holm(permutation_p(totals, seed=0)))
    above = by_document(np.stack([measures[name][1] - fixed for name in names], axis=1), documents)
    sure = permutation_p(above, seed=0)
    rows = []
    for n, name in enumerate(names):
        er, complete_ = measures[name]
        row = {"ranking": kind, "experts": name, "ER": f"{er.mean():.4f}", "all in 4,000": f"{complete_.mean():.3f}"}
        if n:
            row["ER"] += f" ({(er - base[0]).mean():+.4f}, p {p[0][n - 1]:.4f})"
            row["all in 4,000"] += f" ({(complete_ - base[1]).mean():+.3f}, p {p[1][n - 1]:.4f})"
        row["above best level"] = f"{above.mean[n]:+.3f}, p {sure[n]:.4f}"
        rows.append(row)
    return rows


@click.command()
@click.argument("projects", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--only-test", multiple=True, type=click.Path(exists=True, path_type=Path), help="Never trained on.")
@click.option("--only-train", multiple=True, type=click.Path(exists=True, path_type=Path), help="Not measured.")
@click.option("--questions", default=2000, help="Most training questions of a question set.")
@click.option("--every", default=1, help="Measure one of so many questions.")
@click.option("--ranking", "rankings", multiple=True, default=["fused", "mog", "mix"])
@click.option("--seeds", default=1, help="Train so many times: measures of a question are their means.")
@click.option("--variant", "variants", multiple=True, type=click.Choice(list(VARIANTS)), default=list(VARIANTS))
def main(
    projects: Sequence[Path],
    only_test: Sequence[Path],
    only_train: Sequence[Path],
    questions: int,
    every: int,
    rankings: Sequence[str],
    seeds: int,
    variants: Sequence[str],
) -> None:
    started = time.monotonic()
    taught = [opened(path, questions, every, measures=False) for path in only_train]
    collections = [opened(path, questions, every) for path in projects]
    for collection in collections:
        rows = study(collection, [], rankings, variants, seeds)
        click.echo(f"\n{collection.name}, {len(collection.gold):,} questions\n\n{markdown.table(rows, 100)}")
    for path in only_test:
        collection = opened(path, questions, 1)
        rows = study(
            collection, [*taught, *collections], rankings if taught or collections else ["fused"], variants, seeds
        )
        click.echo(f"\n{collection.name}, trained on the others\n\n{markdown.table(rows, 100)}")
    click.echo(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
