"""Assets of the routing stage: soft labels and routers, of levels and of hops."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pandas as pd

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.papers.mix_of_granularity import checks, labels, router
from mog_assets.papers.mix_of_granularity.families import RouterFamily, families
from mog_assets.papers.mix_of_granularity.plots import loss_curve, weights_by_kind
from mog_assets.papers.mix_of_granularity.ranker import Retrieval
from mog_assets.papers.mix_of_granularity.settings import GRAPH, ROUTER, SOFT_LABELS
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.errors import MogError, TooFewQuestions

GROUP = "mix_of_granularity"
# Facts about a router that stay with it.
_COPIED_INFO = ("router", "kept", "trained", "comparison")


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
    """Train the multi-layer perceptron from query vector to level weights.

    The previous router is kept if training fails or the new router is significantly worse on questions that neither
    was trained on; the reason is then part of the artefact.

    Raises:
        MogError: training failed, and there is no previous router for this encoder and these levels.
    """
    soft = work.input(family.labels)
    table = pd.read_parquet(soft.path("labels.parquet"))
    table = table[table["train"].astype(bool)].reset_index(drop=True)
    previous, unusable = _previous(family, work)
    if previous is not None and _keep_unchanged(work, table):
        return
    with work.progress(len(table), "questions encoded") as advance:
        vectors = work.tools.encoder.questions.encode(table["text"].tolist(), advance).astype(np.float32)
    try:
        trained, new = _train(family, work, table, vectors, soft.manifest.version)
    # Whatever makes training fail, from too few questions to a full GPU, must not cost a working router.
    except Exception as error:
        if previous is None:
            raise
        foreseen = isinstance(error, MogError)
        reason = str(error) if foreseen else f"{type(error).__name__}: {error}"
        _keep(work, previous, f"training failed: {' '.join(reason.split())}")
        # Our own errors follow from labels and settings and would recur; any other error may be temporary.
        work.info["retry"] = not foreseen
        _show(work, previous, table, vectors)
        return
    work.recomputed["epochs trained"] = len(trained.curve)
    work.show_plot("loss", loss_curve(trained.curve, trained.best_epoch))
    if previous is not None and (worse := _worse(work, previous, trained, table, vectors)):
        _keep(work, previous, worse)
        _show(work, previous, table, vectors)
        return
    if unusable:
        work.shown["previous router"] = f"Not compared: {_text(unusable)}"
    _write(work, new, trained, table, vectors)
    _show(work, new, table, vectors)


def _keep_unchanged(work: Work, table: pd.DataFrame) -> bool:
    """Keep the previous router if few of the labels it was trained on changed; whether it stays."""
    artefact = work.comparable
    if artefact is None or table.empty or artefact.manifest.info.get("retry"):
        return False
    earlier = pd.read_parquet(artefact.path("questions.parquet"))
    if "label" not in earlier:
        return False
    columns = ["question_set", "question", "text"]
    before, now = (
        {(*row[:3], np.asarray(row[3], np.float32).tobytes()) for row in t[[*columns, "label"]].itertuples(index=False)}
        for t in (earlier, table)
    )
    share = max(len(now - before), len(before - now)) / max(len(now), len(before))
    if share > work.settings.drift.training:
        return False
    work.keep(artefact)
    work.counts |= artefact.manifest.counts
    work.info |= {name: artefact.manifest.info[name] for name in _COPIED_INFO if name in artefact.manifest.info}
    work.shown |= artefact.shown()
    work.recomputed["epochs trained"] = 0
    limit = work.settings.drift.training
    work.shown["trained on"] = f"Not trained again: {share:.2%} of its labels changed since, at most {limit:.0%} may."
    return True


def _previous(family: RouterFamily, work: Work) -> tuple[router.PaperRouter | None, str | None]:
    """Return the previous router if it can replace a new one; else why it cannot, or None if there is none."""
    artefact = work.draft.previous
    if artefact is None:
        return None, None
    try:
        return router.open_router(artefact, work.tools.encoder.fingerprint, len(family.names)), None
    except MogError as error:
        return None, str(error)


def _train(
    family: RouterFamily, work: Work, table: pd.DataFrame, vectors: np.ndarray, version: str
) -> tuple[router.Trained, router.PaperRouter]:
    """Return a new router, sealed with facts about its training data."""
    settings = work.settings
    if table.empty:
        raise TooFewQuestions(
            "question_sets: expected at least one split under `train` with labelled questions to train the router on, "
            "got none: name one in mog.yaml"
        )
    with work.progress(ROUTER.of(settings).epochs, "epochs trained (at most)") as advance:
        trained = router.train(
            vectors, np.stack(table["label"]), table["group"].tolist(), ROUTER.of(settings), settings.seed, advance
        )
    outputs = router.predict(trained.weights, vectors)
    if fault := router.weights_fault(outputs):
        raise MogError(f"router: {fault}; change router.hidden or router.learning_rate, or add training questions")
    training = {
        name: {
            "splits": settings.question_sets[name].train,
            "questions": int((table["question_set"] == name).sum()),
            "chosen": router.chosen_levels(outputs[(table["question_set"] == name).to_numpy()]),
        }
        for name in table["question_set"].unique()
    }
    facts = {
        "encoder": work.tools.encoder.fingerprint,
        "labels": version,
        "levels": len(family.names),
        "seed": settings.seed,
        "training": training,
    }
    return trained, router.sealed(trained.weights, facts)


def _worse(
    work: Work, previous: router.PaperRouter, trained: router.Trained, table: pd.DataFrame, vectors: np.ndarray
) -> str | None:
    """Return why the previous router is kept, by the current labels on questions that neither was trained on."""
    assert work.draft.previous is not None
    earlier = pd.read_parquet(work.draft.previous.path("questions.parquet"))
    rows = router.unseen(table, trained.held_out, earlier)
    targets, groups = np.stack(table["label"])[rows], table["group"][rows].tolist()
    comparison = router.compare(previous.weights, trained.weights, vectors[rows], targets, groups, work.settings.seed)
    work.show_table("loss of the new and the previous router on questions that neither was trained on", [comparison])
    work.info["comparison"] = {name: None if np.isnan(value) else value for name, value in comparison.items()}
    if not (comparison["new"] > comparison["previous"] and comparison["p"] < router.ALPHA):
        return None
    return (
        f"the new router is significantly worse: loss {comparison['new']:.4f} against {comparison['previous']:.4f} of "
        f"the previous one on {comparison['questions']} questions about {comparison['groups']} documents that neither "
        "was trained on "
        f"(paired permutation test, p = {comparison['p']:.4f})"
    )


def _write(
    work: Work, new: router.PaperRouter, trained: router.Trained, table: pd.DataFrame, vectors: np.ndarray
) -> None:
    """Store a new router as the artefact."""
    path, exists = work.file(router.WEIGHTS, new.facts)
    # The file of a damaged router has the same name if training gave the same weights.
    if not exists or path.read_bytes() != router.encoded(new):
        with work.writing(path) as temporary:
            temporary.write_bytes(router.encoded(new))
    chosen = router.predict(trained.weights, vectors).argmax(axis=1).astype(np.int8)
    questions_known = table[["question_set", "question", "group", "text", "label"]]
    questions = questions_known.assign(held_out=trained.held_out, chosen=chosen)
    for name, frame in (("curve.parquet", pd.DataFrame(trained.curve)), ("questions.parquet", questions)):
        path, exists = work.file(name, new.facts)
        if not exists:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    work.counts |= {
        "questions": int((~trained.held_out).sum()),
        "validation questions": int(trained.held_out.sum()),
        "best epoch": trained.best_epoch,
        "validation loss": round(min(row["validation_loss"] for row in trained.curve), 5),
    }
    work.info |= {"device": work.tools.encoder.model.description}
    work.info |= {"router": new.facts, "kept": None, "trained": datetime.now(UTC).isoformat(timespec="seconds")}


def _keep(work: Work, previous: router.PaperRouter, reason: str) -> None:
    """Keep the previous router and record why."""
    artefact = work.draft.previous
    assert artefact is not None
    trained = artefact.manifest.info["trained"]
    work.keep(artefact)
    work.counts |= artefact.manifest.counts
    work.info |= {
        "router": previous.facts,
        "kept": f"{reason}; the router of {trained} stays in use",
        "trained": trained,
    }
    work.shown["which router"] = f"**The previous router stays in use.** {_text(work.info['kept'])}"


def _show(work: Work, used: router.PaperRouter, table: pd.DataFrame, vectors: np.ndarray) -> None:
    """Show facts about the current router and its outputs for the training questions."""
    facts = {**used.facts, "training": json.dumps(used.facts["training"])}
    work.show_table("facts", [{"fact": name, "value": value} for name, value in facts.items()])
    if table.empty:
        return
    outputs = router.predict(used.weights, vectors)
    kinds = [kind for kind, _ in Counter(table["kind"]).most_common(20)]
    means = np.stack([outputs[(table["kind"] == kind).to_numpy()].mean(axis=0) for kind in kinds])
    work.show_plot("mean weights by kind of question", weights_by_kind(kinds, means))


def _text(message: str) -> str:
    """Return a message as Markdown, with HTML escaped."""
    return message.replace("<", "&lt;")


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
                        tools.settings.drift.training,
                        tools.settings.seed,
                        {name: q.train for name, q in tools.settings.question_sets.items()},
                        tools.encoder.identity,
                    ],
                    intact=lambda tools, stored: router.is_intact(stored) and not stored.manifest.info.get("retry"),
                    checks=(checks.WEIGHTS_ALIVE, checks.NEW_ROUTER_IS_USED),
                    kinds=("pytorch",),
                    pool="gpu",
                    version="4",
                )
            )
    return recipes_of
