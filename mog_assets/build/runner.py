"""Runs started from the command line."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets.build.automation import build
from mog_assets.build.demand import demand, places
from mog_assets.build.plan import REGISTRY, default, graph, in_order, needed, phases, stale, waits
from mog_assets.build.recipe import FORCE, Recipe
from mog_assets.build.records import cancel, end_killed, holding, opened_instance, readable_errors, sleep_in_claims
from mog_assets.build.stopping import on_stop
from mog_assets.build.tools import Tools
from mog_assets.config import Settings, check_corpora
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.files import make_home
from mog_assets.resources.holding import sweep_orphans
from mog_assets.resources.progress import duration, note, tell
from mog_assets.resources.set_files import GRACE
from mog_assets.resources.sets import publish
from mog_assets.resources.store import file_digest, label
from mog_assets.resources.writing import atomic

# SHA-256 of the `dagster.yaml` files that earlier versions wrote; the last is of an empty file.
_EARLIER_DEFAULTS = {
    "6726d17438a617d795a3710ef0d5a08212d1f7427c2c19c55d8b6d79fba423be",
    "6dcbf3c5636d7456a813475375d80a1e645b180fe7a1b3ffeaf6a7b628791653",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
}
# Below the home: hard links that earlier versions kept for readers.
_EARLIER_SNAPSHOTS = "snapshots"
# `mog run` prints to its terminal. To capture that output as well, Dagster would start four processes per run.
_NO_CAPTURE = {
    "compute_logs": {"module": "dagster._core.storage.noop_compute_log_manager", "class": "NoOpComputeLogManager"}
}


def prepare_home(settings: Settings) -> Path:
    """The folder of the Dagster instance, with the package's `dagster.yaml` unless the user wrote or changed it."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").resolve()
    used = home / "dagster.yaml"
    make_home(settings.home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not used.exists() or file_digest(used) in _EARLIER_DEFAULTS:
            with atomic(used) as temporary:
                temporary.write_bytes((files("mog_assets") / "dagster.yaml").read_bytes())
    except OSError as error:
        named = "DAGSTER_HOME" if os.environ.get("DAGSTER_HOME") else "home"
        raise MogError(
            f"{named}: expected a writable folder, got {home} ({error.strerror}): name another, "
            "or give this process write permission"
        ) from error
    return home


@contextlib.contextmanager
def instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The Dagster instance of the home folder (or of DAGSTER_HOME), with the settings' corpora as partitions."""
    home = prepare_home(settings)
    with readable_errors(home), opened_instance(home, _NO_CAPTURE) as opened:
        partitions = set(opened.get_dynamic_partitions("corpus"))
        opened.add_dynamic_partitions("corpus", sorted(set(settings.corpora) - partitions))
        yield opened


@dataclass
class RunReport:
    """The result of a run.

    Attributes:
        steps: Per materialised artefact: asset, corpus, seconds (0 if it was up to date), what was recomputed, `why` it
            was built (empty if it was not), and what was wrong with the previous one (`damage`, None if nothing).
        failures: What went wrong, one sentence each.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def selected(settings: Settings, recipes: dict[str, Recipe], select: Sequence[str]) -> set[str]:
    """Keys of the assets that a selection names: asset keys, groups, or Dagster's selection syntax.

    With all that they rest on.

    Raises:
        ConfigError: it selects nothing.
    """
    if not select:
        return default(recipes)
    graph_of_assets = build(settings).resolve_asset_graph()
    keys: set[str] = set()
    for text in select:
        if text in recipes:
            keys.add(text)
            continue
        try:
            assets = dg.AssetSelection.from_string(text).resolve(graph_of_assets)
        except Exception as error:  # Dagster raises several classes for text it cannot read or resolve.
            raise ConfigError(f"--select: expected an asset or an asset selection, got {text!r}") from error
        names = {"/".join(key.path) for key in assets} & set(recipes)
        if not names:
            raise ConfigError(f"--select: expected one of {', '.join(recipes)}, or an asset selection, got {text!r}")
        keys |= names
    return set(needed(recipes, keys))


def run(
    settings: Settings, corpora: Sequence[str] = (), select: Sequence[str] = (), force: Collection[str] = ()
) -> RunReport:
    """Materialise stale assets in this process: one corpus after the other, then the assets built from all corpora.

    A failure stops only what is built from the failed asset.

    Args:
        settings: The settings of the project.
        corpora: Only these corpora; all if empty.
        select: Only these assets or asset selections.
        force: Assets to rebuild even if they are up to date.
    """
    check_corpora(settings, corpora)
    recipes, tools, report = graph(settings), Tools(settings), RunReport()
    keys, named = selected(settings, recipes, select), list(corpora or settings.corpora)
    repeatable = [key for key, recipe in recipes.items() if recipe.repeatable]
    if unknown := [key for key in force if key not in repeatable]:
        raise ConfigError(f"--force: expected one of {', '.join(repeatable)}, got {unknown[0]!r}")
    shutil.rmtree(settings.home / _EARLIER_SNAPSHOTS, ignore_errors=True)
    publish(tools.store, *places(settings, list(settings.corpora)))
    _sweep(tools, recipes)
    plan, forced = stale(tools, recipes, keys, named), set(force)
    if not plan and not forced:
        return report
    definitions = build(settings)
    with instance(settings) as opened:
        end_killed(opened)
        _announce(tools, plan)
        sleep_in_claims(opened, note)
        sweep_orphans(settings.home / "cache")
        # Data of removed corpora is deleted first, so that failing corpora do not delay it.
        if REGISTRY in plan.get(None, ()):
            _execute(definitions, opened, tools, [REGISTRY], None, report)
            plan[None].remove(REGISTRY)
        undone: set[tuple[str, str | None]] = set()
        tried: set[tuple[str, str | None]] = set()
        phase_of = phases(recipes)
        vectors = "embeddings/level_1"
        first_vectors = vectors in keys and not any(tools.store.find(vectors, corpus) for corpus in settings.corpora)
        # Assets downstream of a forced asset in the same phase get a second turn.
        turns = sorted([*range(max(phase_of.values()) + 1), *{phase_of[key] for key in forced}])
        for turn, phase in enumerate(turns):
            # The assets built from all corpora may be unchanged: a model that is kept changes no chunk.
            # The forced asset may have changed.
            if phase > 1 or phase in turns[:turn]:
                plan = stale(tools, recipes, keys, named)
            # Only unpartitioned assets are repeatable.
            plan[None] = in_order(recipes, [*plan.get(None, []), *forced])
            for corpus, stale_keys in plan.items():
                planned = [key for key in stale_keys if phase_of[key] == phase and (key, corpus) not in tried]
                tried |= {(key, corpus) for key in planned}
                due = []
                # Each after its inputs: what waits for one that waits must wait as well.
                for key in planned:
                    if waits(recipes[key], corpus, recipes, undone):
                        undone.add((key, corpus))
                    else:
                        due.append(key)
                waiting = [c for c in settings.corpora if tools.store.find("documents", c) is None]
                if due and corpus is None and waiting and not select:
                    if not report.failures:
                        names = ", ".join(waiting)
                        report.failures.append(f"the assets built from all corpora wait for {names}: run `mog run`")
                    due = []
                tags = {FORCE: ",".join(forced & set(due))} if forced & set(due) else {}
                forced -= set(planned)
                done = _execute(definitions, opened, tools, due, corpus, report, tags) if due else set()
                undone |= {(key, corpus) for key in planned if key not in done}
                if first_vectors and "statistics" in done:
                    note(f'Words can be searched from now on: mog retrieve --method {demand(settings).by_words} "…"')
    return report


def _sweep(tools: Tools, recipes: dict[str, Recipe]) -> None:
    """Delete what nobody needs any more, also of artefacts that are not built again."""
    for recipe in recipes.values():
        for corpus in tools.settings.corpora if recipe.partitioned else [None]:
            artefact = tools.store.find(recipe.key, corpus)
            if artefact is not None and tools.store.unused(artefact, GRACE):
                with tools.store.lock(recipe.key, corpus):
                    tools.store.sweep(tools.store.read(recipe.key, corpus))


def _announce(tools: Tools, plan: dict[str | None, list[str]]) -> None:
    """Say how much there is to do, and how long it took last time."""
    places = [(key, corpus) for corpus, keys in plan.items() for key in keys]
    previous = [artefact for place in places if (artefact := tools.store.find(*place)) is not None]
    sentence = f"{len(places)} {'asset' if len(places) == 1 else 'assets'} to check or build"
    if new := len(places) - len(previous):
        sentence += f", {new} of them for the first time: what takes longer than some seconds says how long, once known"
    if previous:
        seconds = duration(sum(artefact.manifest.seconds for artefact in previous))
        sentence += f"; {'the others' if new else 'they'} took {seconds} last time"
    tell(sentence)


def _execute(
    definitions: dg.Definitions,
    opened: dg.DagsterInstance,
    tools: Tools,
    keys: list[str],
    corpus: str | None,
    report: RunReport,
    tags: dict[str, str] | None = None,
) -> set[str]:
    """Materialise some assets in one Dagster run; returns those that succeeded."""
    job, run_id = definitions.resolve_implicit_global_asset_job_def(), str(uuid.uuid4())
    with holding(opened, run_id) as process, on_stop(lambda: cancel(opened, run_id)):
        result = job.execute_in_process(
            instance=opened,
            asset_selection=[dg.AssetKey(key.split("/")) for key in keys],
            partition_key=corpus,
            raise_on_error=False,
            run_id=run_id,
            tags={**process, **(tags or {})},
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
        metadata = event.step_materialization_data.materialization.metadata
        report.steps.append(
            {
                "asset": key,
                "corpus": corpus,
                "seconds": metadata["seconds to build"].value if metadata["built now"].value else 0.0,
                "recomputed": metadata["recomputed"].value,
                "why": metadata["why"].value if "why" in metadata else "",
                "damage": metadata["damage"].value if "damage" in metadata else None,
            }
        )
    return {"/".join(event.asset_key.path) for event in result.get_asset_materialization_events() if event.asset_key}
