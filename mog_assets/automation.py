"""From settings to Definitions: the graph, its jobs and sensor, and runs started by the command line."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets.config import Settings
from mog_assets.corpus import assets as corpus_assets
from mog_assets.errors import ConfigError
from mog_assets.evaluation import assets as evaluation_assets
from mog_assets.retrieval import assets as retrieval_assets
from mog_assets.routing import assets as routing_assets
from resources.recipe import CORPUS, Recipe, Tools, as_asset, is_fresh
from resources.store import label

_STAGES = (corpus_assets, retrieval_assets, routing_assets, evaluation_assets)


def graph(settings: Settings) -> dict[str, Recipe]:
    """The recipes of every stage by key, each after all that it is made from."""
    return _ordered({recipe.key: recipe for stage in _STAGES for recipe in stage.recipes(settings)})


def _ordered(recipes: dict[str, Recipe]) -> dict[str, Recipe]:
    ordered: dict[str, Recipe] = {}

    def visit(key: str) -> None:
        if key not in ordered:
            for dep in recipes[key].deps:
                visit(dep)
            ordered[key] = recipes[key]

    for key in recipes:
        visit(key)
    return ordered


def build(settings: Settings) -> dg.Definitions:
    """Definitions for some settings."""
    recipes = graph(settings)
    assets = [as_asset(recipe, recipes) for recipe in recipes.values()]
    by_corpus = [dg.AssetKey(r.key.split("/")) for r in recipes.values() if r.partitioned]
    overall = [dg.AssetKey(r.key.split("/")) for r in recipes.values() if not r.partitioned]
    jobs = [dg.define_asset_job("build", dg.AssetSelection.assets(*by_corpus))]
    if overall:
        jobs.append(dg.define_asset_job("evaluate", dg.AssetSelection.assets(*overall)))
    return dg.Definitions(
        assets=assets,
        jobs=jobs,
        sensors=[_corpora_sensor(settings)],
        resources=Tools(settings).resources(),
        executor=dg.in_process_executor,
    )


def _corpora_sensor(settings: Settings) -> dg.SensorDefinition:
    @dg.sensor(
        name="corpora",
        description="Keeps the partitions equal to the corpora of mog.yaml.",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def corpora(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        there = set(context.instance.get_dynamic_partitions("corpus"))
        added, gone = sorted(set(settings.corpora) - there), sorted(there - set(settings.corpora))
        requests: list[Any] = []
        if added:
            requests.append(CORPUS.build_add_request(added))
        if gone:
            requests.append(CORPUS.build_delete_request(gone))
        return dg.SensorResult(dynamic_partitions_requests=requests)

    return corpora


def prepare_home(settings: Settings) -> Path:
    """The folder of the Dagster instance, made with the project's `dagster.yaml` where there is none."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").resolve()
    home.mkdir(parents=True, exist_ok=True)
    own = Path(str(files("mog_assets"))).parent / "dagster.yaml"
    if not (home / "dagster.yaml").exists():
        if own.exists():
            shutil.copyfile(own, home / "dagster.yaml")
        else:
            (home / "dagster.yaml").touch()
    return home


@contextlib.contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the home folder (or of DAGSTER_HOME), its partitions those of the settings."""
    with dg.DagsterInstance.from_config(str(prepare_home(settings))) as opened:
        there = set(opened.get_dynamic_partitions("corpus"))
        opened.add_dynamic_partitions("corpus", sorted(set(settings.corpora) - there))
        yield opened


@dataclass
class Report:
    """What a run came to.

    Attributes:
        steps: Per materialised artefact: asset, partition, seconds, whether it was built, what was recomputed.
        failures: What went wrong, a sentence each.
    """

    steps: list[dict[str, object]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def selected(settings: Settings, recipes: dict[str, Recipe], select: Sequence[str]) -> set[str]:
    """Keys of the assets that a selection names: asset keys, groups, or Dagster's selection syntax.

    Raises:
        ConfigError: it names nothing.
    """
    if not select:
        return set(recipes)
    graph_of_assets = build(settings).resolve_asset_graph()
    keys: set[str] = set()
    for text in select:
        if text in recipes:
            keys.add(text)
            continue
        try:
            found = dg.AssetSelection.from_string(text).resolve(graph_of_assets)
        except Exception as error:  # Dagster raises several classes for text it cannot read or resolve.
            raise ConfigError(f"--select: expected an asset or a selection of assets, got {text!r}") from error
        if not found:
            known = ", ".join(recipes)
            raise ConfigError(f"--select: expected one of {known}, or a selection of assets, got {text!r}")
        keys |= {"/".join(key.path) for key in found}
    return keys


def stale(
    tools: Tools, recipes: dict[str, Recipe], keys: set[str], corpora: Sequence[str]
) -> dict[str | None, list[str]]:
    """What has to be materialised, by corpus (None: assets of all corpora): the stale, and all that follows."""
    plan: dict[str | None, list[str]] = {}
    doubtful: set[tuple[str, str | None]] = set()
    for recipe in recipes.values():
        for corpus in corpora if recipe.partitioned else [None]:
            above = [
                (dep, c)
                for dep in recipe.deps
                for c in (corpora if recipes[dep].partitioned and corpus is None else [corpus])
            ]
            above = [(dep, c if recipes[dep].partitioned else None) for dep, c in above]
            if any(a in doubtful for a in above) or not is_fresh(recipe, corpus, tools, recipes):
                doubtful.add((recipe.key, corpus))
                if recipe.key in keys:
                    plan.setdefault(corpus, []).append(recipe.key)
    return plan


def run(settings: Settings, corpora: Sequence[str] = (), select: Sequence[str] = ()) -> Report:
    """Materialise what is stale, in this process: corpora one after the other, then what is made from all of them.

    A corpus that fails does not keep the others from being built; what is made from all of them then waits.
    """
    unknown = [name for name in corpora if name not in settings.corpora]
    if unknown:
        raise ConfigError(f"--corpus: expected one of {', '.join(settings.corpora)}, got {unknown[0]!r}")
    recipes, tools, report = graph(settings), Tools(settings), Report()
    plan = stale(tools, recipes, selected(settings, recipes, select), list(corpora or settings.corpora))
    if not plan:
        return report
    definitions = build(settings)
    with instance(settings) as opened:
        for corpus in [c for c in plan if c is not None]:
            _execute(definitions, opened, tools, plan[corpus], corpus, report)
        waiting = [c for c in settings.corpora if tools.store.find("documents", c) is None]
        if None in plan and not report.failures and waiting and not select:
            report.failures.append(f"what is made from all corpora waits for {', '.join(waiting)}: run `mog run`")
        elif None in plan and not report.failures:
            _execute(definitions, opened, tools, plan[None], None, report)
    return report


def _execute(
    definitions: dg.Definitions,
    opened: dg.DagsterInstance,
    tools: Tools,
    keys: list[str],
    corpus: str | None,
    report: Report,
) -> None:
    job = definitions.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=opened,
        asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
        partition_key=corpus,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    for event in result.all_events:
        if event.is_step_failure:
            error = event.step_failure_data.error
            failure = event.step_failure_data.user_failure_data
            cause = failure.description if failure else None
            if cause is None and error is not None:
                inner = error
                while inner.cause is not None:
                    inner = inner.cause
                cause = " ".join(inner.message.split())
            report.failures.append(cause or f"step {event.step_key} failed")
    if not result.success and not report.failures:
        report.failures.append(f"the run of {label('the graph', corpus)} failed: see the Dagster UI (`mog ui`)")
    for event in result.get_asset_materialization_events():
        key = "/".join(event.asset_key.path) if event.asset_key else ""
        artefact = tools.store.find(key, corpus)
        recomputed = event.step_materialization_data.materialization.metadata["recomputed"].value
        report.steps.append(
            {
                "asset": key,
                "corpus": corpus,
                "seconds": artefact.manifest.seconds if artefact else 0.0,
                "recomputed": recomputed,
            }
        )
