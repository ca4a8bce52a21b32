"""Assets of the routing stage: soft labels and routers, of levels and of hops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.papers.mix_of_granularity import checks, labels, router
from mog_assets.papers.mix_of_granularity.families import RouterFamily, families
from mog_assets.papers.mix_of_granularity.ranker import Retrieval
from mog_assets.papers.mix_of_granularity.settings import GRAPH, ROUTER, SOFT_LABELS
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.errors import MogError, TooFewQuestions
from mog_assets.resources.store import digest
from mog_assets.resources.tensors import encode
from mog_assets.search.models import ARRAYS

GROUP = "mix_of_granularity"


def _used(settings: Settings, name: str) -> list[str]:
    question_set = settings.question_sets[name]
    return [*question_set.train, *question_set.test]


def build_soft_labels(family: RouterFamily, work: Work) -> None:
    """Compare the best BM25 chunk of each granularity with the question's gold evidence."""
    settings, stored, tables = work.settings, work.input("questions"), []
    for name, question_set in settings.question_sets.items():
        questions = load_questions(stored.path(f"{name}.parquet"), _used(settings, name))
        if not questions:
            continue
        compared = _compared(family, work, name, questions)
        table = labels.label_table(name, questions, question_set.train, compared, SOFT_LABELS.of(settings).values)
        tables.append(table)
        work.counts |= {f"{name}: labels": len(table), f"{name}: without label": len(questions) - len(table)}
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(labels.COLUMNS))
    work.write("labels.parquet", [table.to_json()], table.to_parquet)
    if SOFT_LABELS.of(settings).method == "embedding":
        work.info["device"] = work.tools.encoder.model.description
    best = Counter(np.argmax(np.stack(table["label"]), axis=1).tolist()) if len(table) else Counter()
    work.show_table("best", [{"best": name, "questions": best[i]} for i, name in enumerate(family.names)])


def _compared(family: RouterFamily, work: Work, name: str, questions: Sequence[Question]) -> np.ndarray:
    """Return similarities of a question set, see `labels.similarities`."""

    def encode(texts: Sequence[str]) -> np.ndarray:
        with work.progress(len(texts), "label texts encoded") as advance:
            return work.tools.encoder.encode(texts, advance)

    retrieval = Retrieval.open(work.tools, work.input, work.settings.question_sets[name].corpora)
    retrieval = retrieval.with_queries([question.question for question in questions])
    graph, method = family.kind == "mogg-paper", SOFT_LABELS.of(work.settings).method
    return labels.similarities(retrieval, questions, method, graph, encode)


def build_router(family: RouterFamily, work: Work) -> None:
    """Train the multi-layer perceptron from query vector to level weights."""
    settings, soft = work.settings, work.input(family.labels)
    table = pd.read_parquet(soft.path("labels.parquet"))
    table = table[table["train"].astype(bool)].reset_index(drop=True)
    if table.empty:
        raise TooFewQuestions(
            "question_sets: expected at least one split under `train` with labelled questions to train the router on, "
            "got none: name one in mog.yaml"
        )
    with work.progress(len(table), "questions encoded") as advance:
        vectors = work.tools.encoder.questions.encode(table["text"].tolist(), advance).astype(np.float32)
    options, targets, groups = ROUTER.of(settings), np.stack(table["label"]), table["group"].tolist()
    with work.progress(options.epochs, "epochs trained (at most)") as advance:
        trained = router.train(vectors, targets, groups, options, settings.seed, advance)
    outputs = router.predict(trained.weights, vectors)
    if fault := router.weights_fault(outputs):
        raise MogError(f"router: {fault}; change router.hidden or router.learning_rate, or add training questions")
    facts = {
        "encoder": work.tools.encoder.fingerprint,
        "labels": soft.manifest.version,
        "levels": len(family.names),
        "seed": settings.seed,
        "training": {str(name): len(part) for name, part in table.groupby("question_set", sort=False)},
    }
    data, curve = encode(trained.weights, facts), pd.DataFrame(trained.curve)
    path, exists = work.file(ARRAYS, digest(data.hex()))
    # The file of a damaged router has the same name if training gave the same weights.
    if not exists or path.read_bytes() != data:
        with work.writing(path) as temporary:
            temporary.write_bytes(data)
    work.write("curve.parquet", [curve.to_json()], curve.to_parquet)
    work.recomputed["epochs trained"] = len(trained.curve)
    work.counts |= {
        "questions": int((~trained.held_out).sum()),
        "validation questions": int(trained.held_out.sum()),
        "best epoch": trained.best_epoch,
        "validation loss": round(min(row["validation_loss"] for row in trained.curve), 5),
    }
    work.info |= {"device": work.tools.encoder.model.description, "router": facts}
    work.show_table("facts", [{"fact": name, "value": str(value)} for name, value in facts.items()])
    kinds = [kind for kind, _ in Counter(table["kind"]).most_common(20)]
    work.show_table(
        "mean weights by kind of question",
        [
            {"kind": kind} | dict(zip(family.names, outputs[table["kind"] == kind].mean(axis=0).tolist(), strict=True))
            for kind in kinds
        ],
    )


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage; without training questions there is no router."""
    if not any(_used(settings, name) for name in settings.question_sets):
        return []
    levels = settings.level_range
    embedded = SOFT_LABELS.of(settings).method == "embedding"
    chunks = ("documents", "chunks/level_1")
    searched = {
        "mog-paper": [*chunks, "tokens", "bm25/level_1", "statistics"],
        "mogg-paper": [*chunks, "sentence_graph", "hop_statistics"],
    }
    vectors = {"mog-paper": [f"embeddings/level_{level}" for level in levels], "mogg-paper": ["embeddings/level_1"]}
    recipes_of = []
    for family in families(settings):
        deps = searched[family.kind] + (vectors[family.kind] if embedded else [])
        recipes_of.append(
            Recipe(
                key=family.labels,
                build=partial(build_soft_labels, family),
                description=f"Soft labels: which of {family.names[0]} to {family.names[-1]} matches the gold evidence "
                "best, for every question.",
                group=GROUP,
                deps=(*deps, "questions"),
                partitioned=False,
                settings=lambda tools, family=family: [  # type: ignore[misc]
                    SOFT_LABELS.of(tools.settings).model_dump(),
                    tools.settings.bm25.model_dump(),
                    tools.settings.k_r,
                    GRAPH.of(tools.settings).hops,
                    {name: [q.corpora, q.train, q.test] for name, q in tools.settings.question_sets.items()},
                    tools.encoder.identity,
                ],
                checks=(checks.soft_label_values(len(family.names)),),
                kinds=("parquet",),
                pool="gpu" if embedded else None,
                version="7",
            )
        )
        if settings.trains:
            recipes_of.append(
                Recipe(
                    key=family.router,
                    build=partial(build_router, family),
                    description=f"The router of `{family.kind}`, as in the paper: a multi-layer perceptron from query "
                    f"vector to weights of {family.names[0]} to {family.names[-1]}.",
                    group=GROUP,
                    deps=(family.labels,),
                    partitioned=False,
                    settings=lambda tools: [
                        ROUTER.of(tools.settings).model_dump(),
                        tools.settings.seed,
                        {name: q.train for name, q in tools.settings.question_sets.items()},
                        tools.encoder.identity,
                    ],
                    checks=(checks.WEIGHTS_ALIVE, checks.ROUTER_IS_TRAINED),
                    kinds=("pytorch",),
                    pool="gpu",
                    version="5",
                )
            )
    return recipes_of
