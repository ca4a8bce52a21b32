"""Assets `experiments/NAME`: run on demand, never automatically."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.answer.ask import reader, reader_name, side_by_side
from mog_assets.answer.extractive import Extractive
from mog_assets.answer.roles import Roles
from mog_assets.build.recipe import Recipe, Work
from mog_assets.build.tools import Tools
from mog_assets.config import QuestionSetSettings, Settings
from mog_assets.evaluate.configuration import shown_configuration
from mog_assets.index.corpora import Encode
from mog_assets.papers.experiments.lab import STATISTICS, Experiment, Findings, Lab, NothingToMeasure
from mog_assets.papers.experiments.results import ProjectResults, StoredFindings, verdicts
from mog_assets.papers.experiments.settings import EXPERIMENT_SETTINGS, RetrieverEncoderSettings
from mog_assets.registry import EXPERIMENTS, VECTOR_STORES
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.encoder_settings import EncoderSettings
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store, digest
from mog_assets.search.retrieval import Retrieval

GROUP = "experiments"
PREFIX = "experiments/"
FINDINGS = "findings.json"
_PACKAGES = ("mog-assets", "dagster", "torch", "transformers", "bm25s")

# Vectors of size 384 that a reader remembers take about 80 MB.
_REMEMBERED = 100_000


def offered(settings: Settings) -> list[Experiment]:
    """Return the experiments that a project supports."""
    return [e for e in EXPERIMENTS.values() if e.reads(settings) and (settings.tests or not e.asks_test_questions)]


def build_experiment(experiment: Experiment, work: Work) -> None:
    """Run an experiment; cells cached by an earlier run, finished or not, are not computed again."""
    try:
        findings = experiment.run(_lab(experiment, work))
    except NothingToMeasure as reason:
        findings = Findings(tables={"questions": [{"asked": "none", "because": str(reason)}]})
    result = StoredFindings.of(experiment.name, experiment.title, experiment.asks, _facts(work.tools), findings)
    scores = findings.scores
    work.write("scores.parquet", [scores.to_json()], scores.to_parquet)
    text = json.dumps(result.to_json(), ensure_ascii=False, indent=1, default=_plain)
    work.write(FINDINGS, [text], lambda path: path.write_text(text, encoding="utf-8"))
    work.counts |= {"rows": len(scores), "claims": len(findings.claims)}
    for title, rows in result.tables.items():
        work.show_table(title, rows)
    if result.claims:
        work.show_table("claims", verdicts([result]))


def _plain(value: Any) -> Any:
    """Return Numpy numbers as JSON."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"expected JSON values, got {type(value).__name__}")


def findings(store: Store, name: str) -> StoredFindings | None:
    """Return the latest results of an experiment; None if it has never run."""
    artefact = store.find(f"{PREFIX}{name}")
    if artefact is None:
        return None
    return StoredFindings(**json.loads(artefact.path(FINDINGS).read_text(encoding="utf-8")))


def project(name: str, settings: Settings) -> ProjectResults:
    """Return the results of all experiments of a project.

    Args:
        name: Name of the project in the results.
        settings: The settings of the project.

    Raises:
        MogError: no experiment has been run.
    """
    store = Store(settings.home)
    results = [result for experiment in offered(settings) if (result := findings(store, experiment.name)) is not None]
    if not results:
        raise MogError(f"{name}: expected results of experiments, got none: run `mog experiment --all`")
    return ProjectResults(name, results)


def _facts(tools: Tools) -> dict[str, str]:
    """Return facts about the data and software of the measurements."""
    settings = tools.settings
    packages = (*_PACKAGES, *(name for store in VECTOR_STORES.values() for name in store.packages))
    return {
        "corpora": ", ".join(settings.corpora),
        "questions": ", ".join(f"{name} ({_described(q)})" for name, q in settings.question_sets.items()),
        "encoder": f"{settings.encoder.model} {tools.encoder.fingerprint[:12]}",
        "reader": reader_name(tools),
        "k": str(settings.k),
        "seed": str(settings.seed),
        "levels": f"{settings.levels} from {settings.finest_chars} characters, chunker {settings.chunker.name}",
        "versions": ", ".join(f"{package} {version(package)}" for package in packages),
    }


def _described(question_set: QuestionSetSettings) -> str:
    """Return `kinds pubmedqa, bioasq; test: test`."""
    kinds = [f"kinds {', '.join(question_set.kinds)}"] if question_set.kinds else []
    splits = [("training", question_set.train), ("test", question_set.test)]
    return "; ".join([*kinds, *(f"{what}: {', '.join(names)}" for what, names in splits if names)])


def remembering(encode: Encode, most: int = _REMEMBERED) -> Encode:
    """Return the same with a cache in memory: looking up vectors on disk takes longer than the rest of an answer."""
    vectors: dict[str, np.ndarray] = {}

    def remembered(texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return encode(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in vectors]
        if len(vectors) + len(missing) > most:
            vectors.clear()
            missing = list(dict.fromkeys(texts))
        if missing:
            vectors.update(zip(missing, encode(missing), strict=True))
        return np.stack([vectors[text] for text in texts])

    return remembered


def _open_reader(tools: Tools) -> Roles:
    roles = reader(tools)
    return replace(roles, encode=remembering(roles.encode)) if isinstance(roles, Extractive) else roles


def _lab(experiment: Experiment, work: Work) -> Lab:
    tools = work.tools
    versions = digest(
        [experiment.name, experiment.version, _inputs(work), _searched(work.settings), tools.encoder.identity]
    )

    def cached(name: str, key: Any, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        safe = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:80]
        path, exists = work.file(f"{safe}-{digest(name)[:8]}.parquet", versions, name, key)
        if not exists:
            with all_answered(tools, name):
                table = make()
            with work.writing(path) as temporary:
                table.to_parquet(temporary)
            work.recomputed["cells"] = work.recomputed.get("cells", 0) + 1
        return pd.read_parquet(path)

    def other(chosen: EncoderSettings) -> tuple[Encode, str]:
        # `_identified` declares it whole.
        encoder = Encoder(copy(chosen), work.settings.home / "cache")
        return encoder.encode, encoder.fingerprint

    return Lab(
        settings=work.settings,
        read=work.input,
        encode=tools.encoder.encode,
        encode_anew=partial(tools.encoder.encode, keep=False),
        encoder=tools.encoder.fingerprint,
        other_encoder=other,
        open_retrieval=partial(Retrieval.open, tools, work.input),
        cached=cached,
        progress=work.progress,
        open_reader=partial(_open_reader, tools),
        each=side_by_side(tools),
    )


def _inputs(work: Work) -> list[str]:
    """Return versions of all assets that the experiment reads."""
    versions_of = []
    for key in work.recipe.deps:
        common = work.tools.store.find(key)
        stored = [common] if common else [work.input(key, corpus) for corpus in work.settings.corpora]
        versions_of += [artefact.manifest.version for artefact in stored]
    return versions_of


def recipes(settings: Settings) -> list[Recipe]:
    """Return one recipe per experiment."""
    return [
        Recipe(
            key=f"{PREFIX}{experiment.name}",
            build=partial(build_experiment, experiment),
            description=f"{experiment.title}: {experiment.asks}",
            group=GROUP,
            deps=tuple(dict.fromkeys(experiment.reads(settings))),
            partitioned=False,
            settings=lambda tools, experiment=experiment: [  # type: ignore[misc]
                _identified(experiment.options(tools.settings)),
                _searched(tools.settings),
                tools.encoder.identity,
                STATISTICS,
                # What it needs of them is in the keys of its cells: of a changed setting that it does not need, none is
                # measured again.
                shown_configuration(tools.settings),
                EXPERIMENT_SETTINGS.of(tools.settings).model_dump(mode="json", exclude={"encoders"}),
            ],
            on_demand=True,
            job=GROUP,
            version=experiment.version,
            kinds=("python",),
            pool="gpu",
        )
        for experiment in offered(settings)
    ]


def _identified(options: Any) -> Any:
    """Return options with each encoder replaced by its identity, including the files of a local folder."""
    if isinstance(options, RetrieverEncoderSettings):
        return [Encoder(options).identity, Encoder(options.of_questions).identity, options.levels]
    if isinstance(options, (list, tuple)):
        return [_identified(option) for option in options]
    return options


def _searched(settings: Settings) -> list[Any]:
    """Return the settings that every experiment depends on: retrieval, measures and questions."""
    sets = {name: [q.corpora, q.train, q.test] for name, q in settings.question_sets.items()}
    return [settings.retriever, settings.bm25.model_dump(), settings.k_r, settings.k, settings.seed, sets]


@contextmanager
def all_answered(tools: Tools, what: str) -> Iterator[None]:
    """Check work whose result is stored: requests that an unreachable endpoint missed must not count as wrong answers.

    Raises:
        MogError: after the work, if some requests got no response. A refusal is a response.
    """
    before = tools.llm.tally
    yield
    if lost := (tools.llm.tally - before).unanswered:
        raise MogError(
            f"{what}: expected a response to every request, got none to {lost}: the result is discarded, but received "
            "responses are cached; run again when the endpoint is reachable"
        )
