"""Assets of the ranking stage: `candidates`, a model for each learned ranking, `known_items` and `method`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.build.measuring import DOCUMENTS, changes_between
from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.evaluate.candidates_assets import build_candidates, training_examples
from mog_assets.evaluate.choice import ALPHA, UNTRAINED, Choice, choose
from mog_assets.evaluate.known_items import (
    ITEMS,
    KINDS,
    drawn_items,
    losing,
    rankings_of,
    read_for_items,
    standing,
    summary,
)
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.questions.sets import LEVELS
from mog_assets.resources.store import Artefact, digest
from mog_assets.resources.tensors import decode
from mog_assets.search import features, models
from mog_assets.search.experts import costs, versions
from mog_assets.search.index import CHOSEN
from mog_assets.search.methods import METHODS, needs, parse, trained_methods
from mog_assets.search.rankings import models_of, rereads
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router
from mog_assets.search.training import (
    TRAININGS,
    Examples,
    cross_validated,
    fixed_recalls,
    fused_recalls,
)

GROUP = "ranking"
# ER of every training question by the model in use, and by the one that was trained last.
RECALLS, NOW = "recalls.parquet", "now.parquet"
# Of which questions and documents the candidates are; facts about a model that stay with it.
_STATE = "trained on"
_COPIED_INFO = ("kept", "comparison", _STATE)


def _keep_unchanged(work: Work) -> bool:
    """Keep the previous model if few documents changed since it was trained, and no question; whether it stays."""
    previous, limit = work.comparable, work.settings.drift.training
    before, now = {} if previous is None else previous.manifest.info.get(_STATE, {}), _state(work)
    if previous is None or {**before, DOCUMENTS: None} != {**now, DOCUMENTS: None}:
        return False
    count = work.input("candidates").manifest.counts["documents"]
    share = changes_between(before[DOCUMENTS], now[DOCUMENTS]) / max(count, 1)
    if share > limit or not limit:
        work.info["changed"] = share
        return False
    work.keep(previous)
    work.counts |= previous.manifest.counts
    work.info |= {name: previous.manifest.info[name] for name in _COPIED_INFO if name in previous.manifest.info}
    work.shown |= previous.shown()
    work.counts["documents changed since, %"] = round(100 * share, 2)
    work.recomputed["models trained"] = 0
    work.shown["trained on"] = (
        f"Not trained again: {share:.2%} of the documents it was trained on changed since, at most {limit:.0%} may."
    )
    return True


def _state(work: Work) -> dict[str, Any]:
    """Return what the candidates say of what they were made from."""
    return dict(work.input("candidates").manifest.info[_STATE])


def build_ranking(kind: str, work: Work) -> None:
    """Train a ranking, see `trainers`, and cross-validate it by document."""
    if _keep_unchanged(work):
        return
    settings, trainer = work.settings, METHODS[kind].ranking.trainer
    examples, names = training_examples(work.input("candidates"), settings)
    with work.progress(TRAININGS * trainer.steps, trainer.unit) as advance:
        prepared, train = trainer.prepared(examples, settings, advance)
        recalls, model = cross_validated(prepared, train, trainer.threads)
    opening = models.Opening(work.tools.encoder.fingerprint, examples.experts, [], list(settings.corpora))
    trained_for = models.facts(kind, opening)
    if _written(work, model.files(trained_for), trained_for, examples, names, recalls):
        for title, picture in trainer.pictures(model, examples).items():
            work.show_plot(title, picture)


def _better_previous(
    work: Work, trained_for: dict[str, Any], examples: Examples, names: Sequence[str], recalls: np.ndarray
) -> Artefact | None:
    """Return the previous model if it stays, because the new one is significantly worse on questions that both know.

    Each is compared by how much better it is than `fused` on the documents of its time: with more documents every
    ranking finds less. A model for another encoder, other experts or other features could not be used.
    """
    previous = work.draft.previous
    if previous is None or not {models.ARRAYS, RECALLS} <= set(previous.manifest.files):
        return None
    if decode(previous.path(models.ARRAYS).read_bytes())[1] != trained_for:
        return None
    table = pd.read_parquet(previous.path(RECALLS)).set_index("question")
    before = table["ER"] - table["fused"]
    both = np.array([name in before.index for name in names]) & examples.measured
    if not both.any():
        return None
    gains = recalls - fused_recalls(examples)
    differences = gains[both] - before.loc[[n for n, common in zip(names, both, strict=True) if common]].to_numpy()
    documents = [d for d, common in zip(examples.documents, both, strict=True) if common]
    p = float(permutation_p(by_document(differences[:, None], np.asarray(documents, str)), seed=work.settings.seed)[0])
    comparison = {"questions": int(both.sum()), "difference": float(differences.mean()), "p": p}
    work.info["comparison"] = comparison
    work.show_table("ER above fused, new minus previous model, each on documents it was not trained on", [comparison])
    if not (differences.mean() < 0 and p < ALPHA):
        return None
    work.info["kept"] = (
        f"the new model is significantly worse: ER above `fused` {differences.mean():+.3f} on {both.sum()} questions "
        f"(p = {p:.4f}); "
        "the previous one stays in use"
    )
    work.shown["which model"] = f"**The previous model stays in use.** {work.info['kept']}"
    return previous


def _written(
    work: Work,
    data: dict[str, bytes],
    trained_for: dict[str, Any],
    examples: Examples,
    names: Sequence[str],
    recalls: np.ndarray,
) -> bool:
    """Store a model with its figures; or those of the previous one, if that stays. Returns whether the new is used."""
    work.info |= {"kept": None, _STATE: _state(work)}
    previous = _better_previous(work, trained_for, examples, names, recalls)
    version = work.input("candidates").manifest.version
    columns = {"ER": recalls, "fused": fused_recalls(examples)}
    table = pd.DataFrame({"question": names, "document": examples.documents, **columns})
    files: dict[str, Any] = {NOW: table} if previous else {**data, RECALLS: table, NOW: table}
    if previous:
        work.keep(previous, *(n for n in previous.manifest.files if n != NOW))
    for name, content in files.items():
        path, exists = work.file(name, version, work.recipe.settings(work.tools))
        if not exists or (isinstance(content, bytes) and path.read_bytes() != content):
            with work.writing(path) as temporary:
                if isinstance(content, bytes):
                    temporary.write_bytes(content)
                else:
                    content.to_parquet(temporary)
    work.counts |= {"questions": len(names), "documents": len(set(examples.documents))}
    if examples.measured.any():
        work.counts["ER"] = round(float(recalls[examples.measured].mean()), 4)
    work.recomputed["models trained"] = TRAININGS
    return previous is None


def build_known_items(work: Work) -> None:
    """Ask rankings for words, numbers and titles of the corpora; again when words are counted or rankings trained."""
    settings, named = work.settings, [parse(name, work.settings) for name in rankings_of(work.settings)]
    rankings = [method.name for method in trained_methods(named, settings, work.input)]
    basis = digest([work.input(key).manifest.version for key in ("statistics", *_trained(settings))], rankings)
    previous = work.comparable
    if previous is not None and previous.manifest.info.get("basis") == basis:
        work.keep(previous)
        work.counts |= previous.manifest.counts
        work.info |= {name: previous.manifest.info[name] for name in ("basis", "rows")}
        work.shown |= previous.shown()
        return
    opened = Retrieval.open(work.tools, work.input, list(settings.corpora))
    # Nobody asks these questions again, so their vectors are not kept.
    encode = partial(work.tools.encoder.encode_questions, keep=False)
    retrieval = replace(opened, index=replace(opened.index, open_encoder=lambda: encode))
    items = drawn_items(retrieval.corpora)
    with work.progress(len(items), "known items asked for") as advance:
        table = standing(retrieval, items, rankings) if items else pd.DataFrame(columns=["form", "ranking"])
        advance(len(items))
    rows = summary(table, settings.seed) if items else []
    work.write(ITEMS, [basis, [repr(item) for item in items]], table.to_parquet)
    work.counts |= {"items": len(items), **{kind: sum(i.kind == kind for i in items) for kind in KINDS}}
    work.info |= {"basis": basis, "rows": rows}
    work.recomputed["items"] = len(items)
    if rows:
        work.show_table("words, numbers and titles that one text has, found by each ranking", rows)
    else:
        work.shown["known items"] = "No word, number or title is of one text alone, so none was asked for."


def _trained(settings: Settings) -> list[str]:
    """Return keys of the models that `auto` may stand for."""
    return list(models_of(settings).values()) if settings.trains else []


def _too_few(work: Work) -> str:
    """Return why none of the rankings that learn is trained; empty if one is."""
    reasons = [work.input(key).manifest.info.get("untrained", "") for key in models_of(work.settings).values()]
    return reasons[0] if all(reasons) else ""


def build_method(work: Work) -> None:
    """Choose the ranking that is used by default."""
    settings, previous = work.settings, work.comparable
    losers = losing(work.input("known_items").manifest.info["rows"]) if settings.trains else []
    unchanged = previous is not None and previous.manifest.info.get("losing") == losers
    if previous is not None and unchanged and settings.trains and _same_models(work, previous):
        work.keep(previous)
        work.info |= {name: previous.manifest.info[name] for name in ("method", "why", "content", "losing")}
        work.shown |= previous.shown()
        return
    if not settings.trains:
        chosen = Choice(UNTRAINED, "it needs no training, and no question set has a train split", [])
    elif few := _too_few(work):
        chosen = Choice(UNTRAINED, f"it needs no training, and there is too little to train others on ({few})", [])
    else:
        examples, names = training_examples(work.input("candidates"), work.settings)
        recalls = {UNTRAINED: fused_recalls(examples)}
        recalls |= {parse(name, settings).name: values for name, values in fixed_recalls(examples).items()}
        # Of the models that were trained now: an earlier one that stays in use was not measured on these documents, and
        # did significantly better against `fused`.
        trained = {name: work.input(key) for name, key in models_of(settings).items()}
        trained = {name: stored for name, stored in trained.items() if NOW in stored.manifest.files}
        for name, stored in trained.items():
            recall = pd.read_parquet(stored.path(NOW)).set_index("question")["ER"].reindex(names)
            recalls[name] = recall.to_numpy()
        reading = rereads(settings)
        recalls |= {name: fused_recalls(examples, Router.reading) for name in reading}
        # A model that stays was not measured on questions that came since.
        rows = examples.measured & ~np.isnan(np.stack(list(recalls.values()))).any(axis=0)
        if rows.any():
            documents = [examples.documents[i] for i in np.flatnonzero(rows).tolist()]
            measured_on = {name: er[rows] for name, er in recalls.items()}
            remark = _remark(examples, names)
            # The simplest first.
            learned = [*reversed(trained), *reading]
            chosen = choose(measured_on, learned, documents, settings.seed, remark, losers)
            work.show_table("rankings on training questions, cross-validated", chosen.rows)
        else:
            chosen = Choice(UNTRAINED, "training questions with answers alone cannot tell which ranking is better", [])
    if rereads(settings) and METHODS[parse(chosen.method, settings).kind].ranking is not None:
        chosen = replace(chosen, why=chosen.why + _reading(chosen.method, settings))
        if METHODS[chosen.method].ranking.reads:
            measured = {name: cost.seconds for name, cost in costs(settings).items() if cost.seconds}
            work.shown |= {name: f"{seconds():.2f} s a question" for name, seconds in measured.items()}
    text = json.dumps({"method": chosen.method, "why": chosen.why}, indent=1)
    work.write(CHOSEN, [[chosen.method, chosen.why]], lambda path: path.write_text(text, encoding="utf-8"))
    work.info |= {"method": chosen.method, "why": chosen.why, "content": digest(chosen.method, chosen.why)}
    work.info["losing"] = losers
    work.shown["in use"] = f"**`{chosen.method}`**: {chosen.why}."


def _reading(method: str, settings: Settings) -> str:
    """Return what a ranking costs that asks a reranker, or that it asks none."""
    if not METHODS[method].ranking.reads:
        return "; it asks no reranker"
    return f"; for every question a reranker reads {' and '.join(cost.read for cost in costs(settings).values())}"


def _same_models(work: Work, previous: Artefact) -> bool:
    """Return whether the choice was made between the models in use, which few changed candidates do not change."""
    made_of, keys = previous.manifest.inputs, models_of(work.settings).values()
    return all(made_of.get(key) == work.input(key).manifest.version for key in keys)


def _remark(examples: Examples, names: Sequence[str]) -> str:
    """Return what readers of the choice must know of the questions that it was made with."""
    remark = ""
    if list(examples.documents) == list(names):
        remark = " (parts of a single one: this says nothing of other documents)"
    if not (examples.levels[examples.measured] == LEVELS.index("spans")).all():
        remark += ", by relevant documents"
    if examples.is_synthetic[examples.measured].any():
        remark += ", all generated or from use"
    return remark


NEW_MODEL_IS_USED = Check(
    "new_model_is_used",
    "A new model was trained, and is not significantly worse than the previous one.",
    lambda work: work.info.get("untrained") or work.info.get("kept"),
    blocking=False,
)


def _of_models(tools: Tools) -> list[Any]:
    """Return settings that a trained ranking depends on."""
    settings = tools.settings
    model = [settings.ranking.validation, settings.seed, tools.encoder.identity, features.VERSION]
    return [*model, list(settings.corpora), versions(settings), settings.drift.training]


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage; without training questions nothing is trained."""
    candidates = Recipe(
        key="candidates",
        build=build_candidates,
        description="Pieces that training and test questions may need: scores by every expert, evidence.",
        group=GROUP,
        deps=("questions", *needs([parse("fused", settings)], settings).keys),
        partitioned=False,
        settings=lambda tools: [
            tools.settings.ranking.questions,
            versions(tools.settings),
            tools.settings.bm25.model_dump(),
            {name: [q.corpora, q.train, q.test] for name, q in tools.settings.question_sets.items()},
            list(tools.settings.corpora),
            tools.encoder.identity,
        ],
        version="10",
        kinds=("safetensors",),
        pool="measuring",
    )
    trained = [
        Recipe(
            key=key,
            build=partial(build_ranking, kind),
            description=METHODS[kind].ranking.description,
            group=GROUP,
            deps=("candidates",),
            partitioned=False,
            settings=_of_models,
            checks=(NEW_MODEL_IS_USED,),
            kinds=(METHODS[kind].ranking.library,),
        )
        for kind, key in models_of(settings).items()
    ]
    known_items = Recipe(
        key="known_items",
        build=build_known_items,
        description="Whether rankings find words, numbers and titles that one text has, beside BM25 at level 1.",
        group=GROUP,
        deps=read_for_items(settings),
        partitioned=False,
        measured=True,
        settings=lambda tools: [
            rankings_of(tools.settings),
            tools.settings.seed,
            versions(tools.settings),
            tools.settings.bm25.model_dump(),
            tools.encoder.identity,
        ],
        kinds=("parquet",),
        pool="measuring",
    )
    method = Recipe(
        key="method",
        build=build_method,
        description="The ranking in use: the best on training questions whose documents it was not trained on.",
        is_result=True,
        group=GROUP,
        deps=("candidates", "known_items", *models_of(settings).values()) if settings.trains else ("corpus_registry",),
        partitioned=False,
        # The names of fixed levels depend on the default retriever.
        settings=lambda tools: [
            tools.settings.seed,
            tools.settings.retriever,
            versions(tools.settings),
            _trained(tools.settings),
            next((cost.depends for cost in costs(tools.settings).values() if cost.depends), None),
        ],
        version="2",
        kinds=("json",),
    )
    questions = [candidates] if settings.trains or settings.tests else []
    return [*questions, *(trained if settings.trains else []), known_items, method]
