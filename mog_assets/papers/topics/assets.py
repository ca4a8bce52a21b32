"""Assets of the topics stage: `topics/model` and `topics/assigned`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.index.encoding import vector_buckets
from mog_assets.papers.topics import checks
from mog_assets.papers.topics.assign import file_name
from mog_assets.papers.topics.fitting import fit_apart, fit_buckets, made_with, may_have_topics
from mog_assets.papers.topics.model import (
    MODEL,
    OUTLIER,
    Bucket,
    TopicModel,
    decoded,
    is_intact,
    open_model,
    share_unseen,
    vector_hashes,
)
from mog_assets.papers.topics.settings import TOPICS
from mog_assets.resources.errors import MogError

GROUP = "topics"
# Columns of a table.
_MOST_CORPORA = 30


def _vector_keys(level: int) -> tuple[str, ...]:
    """Return keys of the assets that vectors of a level are read from, besides `documents` and `chunks/level_1`."""
    return tuple(dict.fromkeys(("embeddings/level_1", f"embeddings/level_{level}")))


def fit_level(settings: Settings) -> int:
    """Return the level on whose chunks topics are fitted."""
    return min(2, settings.levels)


def build_model(work: Work) -> None:
    """Fit the topic model, or keep the previous one if it was fitted on most of the chunks."""
    level, corpora = fit_level(work.settings), list(work.settings.corpora)
    buckets: dict[str, list[Bucket]] = {corpus: _buckets(work, corpus, level) for corpus in corpora}
    info = work.input(f"embeddings/level_{level}", corpora[0]).manifest.info
    wanted = made_with(level, TOPICS.of(work.settings), work.settings.seed, info["encoder"], info["made by"])
    previous, reason = _previous(work, wanted)
    if previous is not None:
        share = share_unseen(
            previous, [vector_hashes(bucket.vector_bucket.open()) for c in corpora for bucket in buckets[c]]
        )
        limit = TOPICS.of(work.settings).refit_share
        if share > limit:
            previous, reason = None, f"{share:.1%} of chunks are new since the last fit, more than {limit:.0%}"
        else:
            reason = f"kept: {share:.1%} of chunks are new since the fit"
    work.recomputed["chunks fitted on"] = 0
    if previous is not None and work.draft.previous is not None:
        work.keep(work.draft.previous)
        model = previous
    else:
        model = _fit(work, [bucket for c in corpora for bucket in buckets[c]], wanted)
    work.info["fitted"] = reason
    work.shown["which model"] = reason
    _show(work, model, buckets)


def _buckets(work: Work, corpus: str, level: int) -> list[Bucket]:
    buckets_of = vector_buckets(lambda key: work.input(key, corpus), level)
    return [Bucket(each.documents, each.spans, each.vectors, level, each.pooled) for each in buckets_of]


def _previous(work: Work, wanted: dict[str, Any]) -> tuple[TopicModel | None, str]:
    """Return the previous model if it can be reused, and why not otherwise."""
    artefact = work.draft.previous
    if artefact is None:
        return None, "fitted: there was no model, or a damaged one"
    if work.repeats is not None:
        return None, "fitted again on demand"
    try:
        model = open_model(artefact)
    except MogError as error:
        # The new one may get the same name.
        artefact.path(MODEL).unlink(missing_ok=True)
        return None, f"fitted again: {str(error).replace('<', '&lt;')}"
    other = [name for name, value in wanted.items() if model.facts.get(name) != value]
    return (None, f"fitted again: other {', '.join(other)}") if other else (model, "")


def _fit(work: Work, buckets: list[Bucket], wanted: dict[str, Any]) -> TopicModel:
    versions = [
        work.input(f"embeddings/level_{wanted['level']}", corpus).manifest.version for corpus in work.settings.corpora
    ]
    path, exists = work.file(MODEL, wanted, versions)
    if not exists:
        with work.progress(1, "models fitted") as advance, work.writing(path) as temporary:
            arguments = {
                "buckets": [asdict(bucket) for bucket in buckets],
                **{name: value for name, value in wanted.items() if name != "form"},
                "settings": TOPICS.of(work.settings).model_dump(),
                "out": str(temporary),
            }
            # A separate process takes seconds to start, and is needed only for UMAP.
            if may_have_topics(buckets, TOPICS.of(work.settings)):
                fit_apart(arguments)
            else:
                fit_buckets(**arguments)
            advance(1)
    model = decoded(path.read_bytes(), path)
    work.recomputed["chunks fitted on"] = model.facts["sample"]
    return model


def _show(work: Work, model: TopicModel, buckets: dict[str, list[Bucket]]) -> None:
    """Show the topics, and the distribution of every corpus's chunks over them (AT-RAG, figure 3)."""
    number, labels = len(model.centroids), model.labels
    counts = np.zeros((len(buckets), number + 1), np.int64)
    for row, sizes in enumerate(buckets.values()):
        for bucket in sizes:
            counts[row] += np.bincount(model.assign(bucket.vector_bucket.open())[0] - OUTLIER, minlength=number + 1)
    shown, shares = list(buckets)[:_MOST_CORPORA], counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    outliers = counts[:, 0].sum() / max(int(counts.sum()), 1)
    work.counts |= {
        "topics": number,
        "sample": model.facts["sample"],
        "sample: outliers by HDBSCAN": model.facts["outliers"],
        "sample: assigned as by HDBSCAN": model.facts["agreeing"],
        "share of outliers": round(float(outliers), 4),
    }
    work.show_table(
        "topics",
        [
            {
                "topic": t,
                "label": labels[t],
                "in the sample": model.facts["size"][t],
                "chunks": int(counts[:, t + 1].sum()),
                **{f"share of {corpus}": round(float(shares[row, t + 1]), 4) for row, corpus in enumerate(shown)},
            }
            for t in range(min(number, 50))
        ],
    )


def build_assigned(work: Work) -> None:
    """Assign a topic to every chunk."""
    stored = work.tools.store.read("topics/model")
    model = open_model(stored)
    labels = model.labels
    # For filters and questions.
    work.info["labels"] = [labels[topic] for topic in range(len(model.centroids))]
    jobs, keys = {}, {}
    levels, spans = work.settings.level_range, work.input("chunks/level_1").manifest.files
    for level in levels:
        embeddings = work.input(f"embeddings/level_{level}")
        buckets_of = vector_buckets(work.input, level)
        sources = [work.input(key) for key in _vector_keys(level)]
        for name, bucket in zip(embeddings.names("bucket"), buckets_of, strict=True):
            target = file_name(level, name)
            jobs[target] = {"bucket": asdict(bucket), "model": str(stored.path(MODEL))}
            made_of = [source.manifest.files[name]["sha256"] for source in sources]
            made_of.append(spans[name.replace(".npy", ".parquet")]["sha256"])
            keys[target] = [*made_of, stored.manifest.files[MODEL]["sha256"]]
    assigned = work.map("mog_assets.papers.topics.assign:assign_bucket", jobs, keys, "buckets assigned")
    work.recomputed["chunks assigned"] = sum(assigned)
    rows = []
    for level in levels:
        topics_of = checks.drafted(work, level)
        topics, sizes = np.unique(topics_of["topic"], return_counts=True)
        outliers = float((topics_of["topic"] == OUTLIER).mean())
        work.counts[f"level {level}: share of outliers"] = round(outliers, 4)
        largest = [int(topics[i]) for i in np.argsort(-sizes, kind="stable") if topics[i] != OUTLIER][:3]
        shown = "; ".join(labels[topic] for topic in largest)
        rows.append({"level": level, "chunks": len(topics_of), "outliers": outliers, "largest topics": shown})
    work.counts["topics"] = len(model.centroids)
    work.show_table("by level", rows)


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    level, levels = fit_level(settings), settings.level_range
    return [
        Recipe(
            key="topics/model",
            build=build_model,
            description="BERTopic model of the chunks of all corpora; fitted again only if many of them are new.",
            group=GROUP,
            deps=("documents", "chunks/level_1", *_vector_keys(level)),
            partitioned=False,
            settings=lambda tools: [TOPICS.of(tools.settings).model_dump(), tools.settings.seed],
            repeatable=True,
            steady=True,
            version="3",
            intact=lambda tools, stored: is_intact(stored),
            kinds=("scikitlearn",),
        ),
        Recipe(
            key="topics/assigned",
            build=build_assigned,
            description="Topic and probability of every chunk of every level.",
            group=GROUP,
            deps=("documents", "chunks/level_1", "topics/model", *(f"embeddings/level_{j}" for j in levels)),
            checks=(checks.EVERY_CHUNK,),
            kinds=("numpy",),
        ),
    ]
