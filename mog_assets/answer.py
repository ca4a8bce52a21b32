"""What the command line asks of a materialised home: passages for a question, and whether all is as manifests say."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mog_assets.config import Settings
from mog_assets.errors import ConfigError, MogError
from mog_assets.retrieval.checks import collection_fault
from mog_assets.retrieval.corpora import Corpora
from mog_assets.retrieval.methods import parse
from mog_assets.routing import router
from resources.recipe import Tools


@dataclass(frozen=True)
class Found:
    """Passages in rank order, and the router's weights where a router chose the level."""

    passages: list[dict[str, Any]]
    weights: list[float] | None


def find(settings: Settings, question: str, method_name: str, k: int, names: list[str]) -> Found:
    """The k best passages for a question.

    Raises:
        ConfigError: no such method, or one that needs gold evidence.
        MissingArtefact: something it needs has not been materialised.
        MogError: the router is damaged, or belongs to another encoder or other levels.
    """
    method = parse(method_name, settings.retriever, settings.levels)
    if method.kind == "oracle":
        raise ConfigError("--method: expected a method for questions without gold evidence, got 'oracle'")
    tools = Tools(settings)
    corpora = Corpora.open(tools.store.read, settings, names)
    weights = None
    if method.kind == "mog":
        opened = router.open_router(tools.store.read("router"), tools.encoder.fingerprint, settings.levels)
        weights = router.predict(opened.weights, tools.encoder.encode([question]))
    ranker = corpora.rankers({method.retriever}, [question], tools.encoder.encode, tools.qdrant)[method.retriever]
    found = ranker.rank(method, weights)
    best = found.at(np.arange(min(k, len(found.question))))
    texts = corpora.texts(best.document.tolist())
    passages = [
        {
            "corpus": corpora.names[corpora.owners[document]],
            "doc": corpora.layout.documents[document],
            "start": start,
            "end": end,
            "level": level,
            "score": score,
            "text": texts[document][1][start:end],
        }
        for _, document, start, end, level, score in zip(
            *(getattr(best, field.name).tolist() for field in fields(best)), strict=True
        )
    ]
    return Found(passages, None if weights is None else [float(w) for w in np.asarray(weights)[0]])


def verify(settings: Settings) -> tuple[int, list[str]]:
    """Number of artefacts checked, and what is wrong, a sentence each."""
    from mog_assets.automation import graph
    from mog_assets.corpus.assets import leftovers
    from resources.store import label

    tools, checked, faults = Tools(settings), 0, []
    for recipe in graph(settings).values():
        for corpus in settings.corpora if recipe.partitioned else [None]:
            artefact = tools.store.find(recipe.key, corpus)
            checked += 1
            if artefact is None:
                faults.append(f"{label(recipe.key, corpus)}: not materialised, or files are missing: run `mog run`")
                continue
            faults += tools.store.verify(artefact)
            if recipe.key.startswith("collections/") and corpus is not None:
                level = int(recipe.key.rsplit("_", 1)[1])
                size = artefact.manifest.info["size"]
                try:
                    fault = collection_fault(tools.qdrant, level, size, corpus, artefact.path("ids.npy"))
                except MogError as error:
                    fault = str(error)
                faults += [fault] if fault else []
    left = leftovers(tools.store, settings.corpora)
    for corpus, assets in left.items():
        faults.append(f"corpus {corpus} is not in mog.yaml, but {', '.join(assets)} of it are there: run `mog run`")
    for level in settings.level_range:
        try:
            held = tools.qdrant.counts(f"level_{level}")
        except MogError as error:
            faults.append(str(error))
            continue
        for corpus in sorted(held.keys() - settings.corpora.keys() - left.keys()):
            faults.append(
                f"collection level_{level} holds {held[corpus]} points of corpus {corpus}, which is not in mog.yaml: "
                f"delete the collection (`qdrant/level_{level}` of the home folder) and run `mog run`"
            )
    return checked, faults
