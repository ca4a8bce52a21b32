"""Assets of the routing stage: `soft_labels` and `router`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.corpus.questions import Question, load_questions
from mog_assets.errors import MogError
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.tokens import query_terms
from mog_assets.routing import checks, labels, router
from mog_assets.routing.plots import loss_curve, weights_by_kind
from resources.recipe import Recipe, Work
from resources.store import digest

GROUP = "routing"


def _used(settings: Settings, name: str) -> list[str]:
    question_set = settings.question_sets[name]
    return [*question_set.train, *question_set.test]


def build_soft_labels(work: Work) -> None:
    """Compare the best BM25 chunk of each level with what the question's evidence says."""
    settings = work.settings
    stored = work.input("questions")
    tables = []
    for name, question_set in settings.question_sets.items():
        questions = load_questions(stored.path(f"{name}.parquet"), _used(settings, name))
        if not questions:
            continue
        corpora = Corpora.open(work.input, settings, question_set.corpora)
        similarities = _similarities(work, corpora, questions)
        values = labels.soft_labels(similarities, settings.soft_labels.values)
        kept = values.any(axis=1)
        tables.append(
            pd.DataFrame(
                {
                    "question_set": name,
                    "question": [q.id for q in questions],
                    "kind": [q.kind for q in questions],
                    "split": [q.split for q in questions],
                    "train": [q.split in question_set.train for q in questions],
                    "group": [f"{q.evidence[0].corpus}/{q.evidence[0].doc}" if q.evidence else q.id for q in questions],
                    "text": [q.question for q in questions],
                    "label": list(values),
                    "similarity": list(similarities),
                }
            )[kept]
        )
        work.counts |= {f"{name}: labels": int(kept.sum()), f"{name}: without label": int((~kept).sum())}
    columns = ["question_set", "question", "kind", "split", "train", "group", "text", "label", "similarity"]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)
    path, there = work.file("labels.parquet", table.to_json())
    if not there:
        with work.writing(path) as temporary:
            table.to_parquet(temporary)
    work.recomputed["questions labelled"] = len(table)
    best = Counter((np.argmax(np.stack(table["label"]), axis=1) + 1).tolist()) if len(table) else Counter()
    work.show_table("best level", [{"level": level, "questions": best[level]} for level in settings.level_range])


def _similarities(work: Work, corpora: Corpora, questions: list[Question]) -> np.ndarray:
    settings = work.settings
    searcher = corpora.searcher("bm25", [q.question for q in questions], work.tools.encoder.encode, work.tools.qdrant)
    best = labels.best_chunks(searcher, list(settings.level_range))
    if settings.soft_labels.method == "embedding":
        tables = {level: corpora.vectors(level) for level in settings.level_range}
        vectors = labels.evidence_vectors(questions, corpora.layouts, tables[1])
        without = [i for i, question in enumerate(questions) if not question.evidence]
        with work.progress(len(without), "label texts encoded") as advance:
            texts = [labels.label_text(questions[i], {}) for i in without]
            vectors[without] = work.tools.encoder.encode(texts, advance)
        return labels.similarities_embedding(vectors, tables, best)
    documents = _evidence_documents(corpora, questions)
    texts = [labels.label_text(question, documents) for question in questions]
    counts = {level: corpora.counts(level) for level in settings.level_range}
    measure = labels.similarities_tfidf if settings.soft_labels.method == "tfidf" else labels.similarities_hitrate
    return measure(query_terms(texts), counts, best)


def _evidence_documents(corpora: Corpora, questions: list[Question]) -> dict[tuple[str, str], str]:
    """Texts of the documents that hold evidence, by corpus and id."""
    wanted = {(e.corpus, e.doc) for q in questions for e in q.evidence}
    texts = {}
    for number, (name, layout) in enumerate(zip(corpora.names, corpora.layouts, strict=True)):
        positions = [i for i, identity in enumerate(layout.documents) if (name, identity) in wanted]
        found = corpora.texts(number, positions)
        texts.update({(name, layout.documents[i]): text for i, text in found.items()})
    return texts


def build_router(work: Work) -> None:
    """Train the multi-layer perceptron from query vector to level weights."""
    settings, encoder = work.settings, work.tools.encoder
    stored = work.input("soft_labels")
    table = pd.read_parquet(stored.path("labels.parquet"))
    table = table[table["train"].astype(bool)].reset_index(drop=True)
    if table.empty:
        raise MogError(
            "question_sets: expected at least one split under `train` with labelled questions to train the router on, "
            "got none: name one in mog.yaml"
        )
    with work.progress(len(table), "questions encoded") as advance:
        vectors = encoder.encode(table["text"].tolist(), advance).astype(np.float32)
    with work.progress(settings.router.epochs, "epochs trained (at most)") as advance:
        trained = router.train(
            vectors, np.stack(table["label"]), table["group"].tolist(), settings.router, settings.seed, advance
        )
    outputs = router.predict(trained.weights, vectors)
    content = digest({name: array.tolist() for name, array in trained.weights.items()})
    path, there = work.file("router.safetensors", content)
    if not there:
        with work.writing(path) as temporary:
            router.save(trained.weights, temporary)
    path, there = work.file("curve.parquet", trained.curve)
    if not there:
        with work.writing(path) as temporary:
            pd.DataFrame(trained.curve).to_parquet(temporary)
    work.info |= {
        "fault": router.weights_fault(outputs),
        "encoder": encoder.fingerprint,
        "labels": stored.manifest.version,
        "levels": settings.levels,
        "seed": settings.seed,
    }
    work.counts |= {
        "questions": trained.n_train,
        "validation questions": trained.n_validation,
        "best epoch": trained.best_epoch,
        "validation loss": round(min(row["validation_loss"] for row in trained.curve), 5),
    }
    work.recomputed["epochs trained"] = len(trained.curve)
    work.show_plot("loss", loss_curve(trained.curve, trained.best_epoch))
    kinds = [kind for kind, _ in Counter(table["kind"]).most_common(20)]
    means = np.stack([outputs[(table["kind"] == kind).to_numpy()].mean(axis=0) for kind in kinds])
    work.show_plot("mean weights by kind of question", weights_by_kind(kinds, means))


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; there is no router without questions to train it on."""
    if not any(_used(settings, name) for name in settings.question_sets):
        return []
    levels = settings.level_range
    searched = ["documents", "chunks/level_1", "tokens", *(f"bm25/level_{level}" for level in levels)]
    if settings.soft_labels.method == "embedding":
        searched += [f"embeddings/level_{level}" for level in levels]
    found = [
        Recipe(
            key="soft_labels",
            build=build_soft_labels,
            description="Which level's best chunk says most of what the gold evidence says, for every question.",
            group=GROUP,
            deps=(*searched, "questions"),
            partitioned=False,
            settings=lambda tools: [
                tools.settings.soft_labels.model_dump(),
                tools.settings.bm25.model_dump(),
                {name: [q.corpora, q.train, q.test] for name, q in tools.settings.question_sets.items()},
                tools.encoder.identity,
            ],
            checks=(checks.SOFT_LABEL_VALUES,),
            kinds=("parquet",),
            version="2",
        )
    ]
    if any(question_set.train for question_set in settings.question_sets.values()):
        found.append(
            Recipe(
                key="router",
                build=build_router,
                description="Multi-layer perceptron from query vector to the weights of the levels.",
                group=GROUP,
                deps=("soft_labels",),
                partitioned=False,
                settings=lambda tools: [
                    tools.settings.router.model_dump(),
                    tools.settings.seed,
                    tools.encoder.identity,
                ],
                checks=(checks.ROUTER_ALIVE,),
                kinds=("pytorch",),
                pool="gpu",
            )
        )
    return found
