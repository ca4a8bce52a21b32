"""Runs started from the command line: a loop over what is stale."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets.build.asset import built, faults
from mog_assets.build.asset import report as tell_dagster
from mog_assets.build.demand import demand
from mog_assets.build.materialising import Materialised, Place, made_from
from mog_assets.build.measuring import DOCUMENTS
from mog_assets.build.plan import REGISTRY, built_unasked, due, graph, needed, stale
from mog_assets.build.recipe import Recipe
from mog_assets.build.records import opened_instance, readable_errors
from mog_assets.build.tools import Tools
from mog_assets.config import Settings, check_corpora
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.files import atomic, hold, make_home, sweep_orphans
from mog_assets.resources.progress import duration, note, tell
from mog_assets.resources.publishing import GRACE, publish, sweep, unused
from mog_assets.resources.store import label

# Seconds to wait for another run, of FileLock: without an end.
_FOREVER = -1.0


def prepare_home(settings: Settings) -> Path:
    """Return folder of the Dagster instance, with the package's `dagster.yaml` unless the user wrote or changed it."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster").resolve()
    used = home / "dagster.yaml"
    make_home(settings.home)
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Dagster and other tools make an empty one.
        if not used.exists() or not used.stat().st_size:
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
def instance(settings: Settings, recipes: dict[str, Recipe] | None = None) -> Iterator[dg.DagsterInstance]:
    """Yield the Dagster instance of the home folder (or of DAGSTER_HOME), with the settings' corpora as partitions.

    Pools that the recipes name are limited; by default, of all recipes.
    """
    home = prepare_home(settings)
    with readable_errors(home), opened_instance(home) as opened:
        partitions = set(opened.get_dynamic_partitions("corpus"))
        opened.add_dynamic_partitions("corpus", sorted(set(settings.corpora) - partitions))
        _limit_pools(opened, {recipe.pool for recipe in (recipes or graph(settings)).values() if recipe.pool})
        yield opened


def _limit_pools(opened: dg.DagsterInstance, pools: set[str]) -> None:
    """Give pools the default limit: Dagster does when it first sees runs of them, and starts all of those at once."""
    storage = opened.event_log_storage
    if opened.global_op_concurrency_default_limit is not None and storage.supports_global_concurrency_limits:
        for pool in sorted(pools - storage.get_concurrency_keys()):
            storage.initialize_concurrency_limit_to_default(pool)


@dataclass
class RunReport:
    """The result of a run.

    Attributes:
        steps: Per artefact that was built: asset, corpus, seconds, what was recomputed, `why` it was built, and what
            was wrong with the previous one (`damage`, None if nothing).
        failures: What went wrong, one sentence each.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def selected(settings: Settings, recipes: dict[str, Recipe], select: Sequence[str], evaluate: bool = False) -> set[str]:
    """Return keys of the assets that a selection names: asset keys, groups, or Dagster's selection syntax.

    With all that they rest on. Without a selection: those that are due, see `plan.due`.

    Raises:
        ConfigError: it selects nothing.
    """
    if not select:
        return due(Tools(settings), recipes, evaluate)
    keys = set(recipes).intersection(select)
    if not (others := [text for text in select if text not in keys]):
        return set(needed(recipes, keys))
    from mog_assets.build.automation import build

    graph_of_assets = build(settings).resolve_asset_graph()
    for text in others:
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
    settings: Settings,
    corpora: Sequence[str] = (),
    select: Sequence[str] = (),
    force: Collection[str] = (),
    evaluate: bool = False,
) -> RunReport:
    """Materialise what is stale in this process, each artefact after its inputs, and tell Dagster of it.

    A failure stops only what is built from the failed artefact. One run works on a home at a time; others wait for it.

    Args:
        settings: The settings of the project.
        corpora: Only these corpora; all if empty.
        select: Only these assets or asset selections.
        force: Assets to rebuild even if they are up to date.
        evaluate: Measure what changed, also if it is not time to.
    """
    check_corpora(settings, corpora)
    recipes, tools, report = _graph_of(settings, select, force), Tools(settings), RunReport()
    # What follows from a forced asset measures.
    keys = selected(settings, recipes, select, evaluate or bool(force))
    named = list(corpora or settings.corpora)
    repeatable = [key for key, recipe in recipes.items() if recipe.repeatable]
    if unknown := [key for key in force if key not in repeatable]:
        raise ConfigError(f"--force: expected one of {', '.join(repeatable)}, got {unknown[0]!r}")
    publish(tools.store, *tools.read)
    keys |= set(force)
    if not stale(tools, recipes, keys, named, force=force):
        _sweep(tools)
        return report
    with hold(settings.home / "run.lock", "the project", _FOREVER, note), instance(settings, recipes) as opened:
        sweep_orphans(settings.home / "cache")
        loop = _Loop(tools, recipes, named, opened, report, waits=not select)
        # Another run may have built some of it.
        loop.build(stale(tools, recipes, keys, named, force=force), force)
        # Now it is known how many documents have changed.
        if not select and (more := due(tools, recipes) - keys):
            loop.build(stale(tools, recipes, more, named))
        # Last, as it locks what it deletes from.
        _sweep(tools)
    return report


def _graph_of(settings: Settings, select: Sequence[str], force: Collection[str]) -> dict[str, Recipe]:
    """Return the recipes that a run needs; all, if it is not known before."""
    if not force:
        recipes = graph(settings, select or built_unasked(settings))
        if all(key in recipes for key in select):
            return recipes
    return graph(settings)


def _sweep(tools: Tools) -> None:
    """Delete what nobody needs any more, also of artefacts that are not built again."""
    for asset, corpus in tools.store.places():
        artefact = tools.store.find(asset, corpus)
        if artefact is not None and unused(tools.store, artefact, GRACE):
            with tools.store.lock(asset, corpus):
                sweep(tools.store, tools.store.read(asset, corpus))


@dataclass
class _Loop:
    """Builds artefacts, one after the other.

    Attributes:
        tools: The resources.
        recipes: All recipes, by key.
        corpora: Names of the corpora that are built.
        opened: Is told of each artefact.
        report: What was built, and what failed.
        waits: Whether assets of all corpora wait until all of them have been read.
        undone: What should have been built and was not.
    """

    tools: Tools
    recipes: dict[str, Recipe]
    corpora: Sequence[str]
    opened: dg.DagsterInstance
    report: RunReport
    waits: bool
    undone: set[Place] = field(default_factory=set)

    def build(self, plan: Sequence[Place], force: Collection[str] = ()) -> None:
        """Build what is planned, in its order, but for what is made from something that failed."""
        store, vectors = self.tools.store, "embeddings/level_1"
        first = any(key == vectors for key, _ in plan) and not any(store.find(vectors, c) for c in self.corpora)
        _announce(self.tools, plan)
        for key, corpus in plan:
            recipe = self.recipes[key]
            above = made_from(recipe, corpus, self.recipes, self.corpora)
            if self.undone.intersection(above) or self._waits(recipe):
                self.undone.add((key, corpus))
                continue
            outcome = self._built(recipe, corpus, key in force)
            if outcome is None or faults(recipe, outcome):
                self.undone.add((key, corpus))
            if outcome is not None:
                tell_dagster(self.opened, recipe, corpus, outcome)
            if first and key == "statistics" and (key, corpus) not in self.undone:
                by_words = demand(self.tools.settings).by_words
                note(f'Words can be searched from now on: mog search --method {by_words} "…"')

    def _waits(self, recipe: Recipe) -> bool:
        """Return whether an asset must wait for corpora that have not been read yet, and report that."""
        if recipe.partitioned or not self.waits or recipe.key == REGISTRY:
            return False
        waiting = [c for c in self.tools.settings.corpora if self.tools.store.find(DOCUMENTS, c) is None]
        if waiting and not self.report.failures:
            names = ", ".join(waiting)
            self.report.failures.append(f"the assets built from all corpora wait for {names}: run `mog run`")
        return bool(waiting)

    def _built(self, recipe: Recipe, corpus: str | None, force: bool) -> Materialised | None:
        """Materialise an artefact and report it; None if that failed."""
        try:
            outcome = built(recipe, corpus, self.tools, self.recipes, force=force)
        except MogError as error:
            self.report.failures.append(str(error))
            return None
        # Whatever a library raises, what is not built from this is still built.
        except Exception as error:
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            message = " ".join("".join(traceback.format_exception_only(cause)).split())
            self.report.failures.append(f"{label(recipe.key, corpus)}: {message}")
            return None
        if fault := faults(recipe, outcome):
            self.report.failures.append(f"{label(recipe.key, corpus)}: {fault}")
        # What lay in the way of a sound artefact is removed without building it.
        elif outcome.built or outcome.damage:
            assert outcome.artefact is not None
            manifest = outcome.artefact.manifest
            self.report.steps.append(
                {
                    "asset": recipe.key,
                    "corpus": corpus,
                    "seconds": round(manifest.seconds, 3) if outcome.built else 0.0,
                    "recomputed": manifest.info["recomputed"] if outcome.built else {},
                    "why": outcome.why,
                    "damage": outcome.damage,
                }
            )
        return outcome


def _announce(tools: Tools, plan: Sequence[Place]) -> None:
    """Say how much there is to do, and how long it took last time."""
    previous = [artefact for place in plan if (artefact := tools.store.find(*place)) is not None]
    sentence = f"{len(plan)} {'asset' if len(plan) == 1 else 'assets'} to check or build"
    if new := len(plan) - len(previous):
        sentence += f", {new} of them for the first time: what takes longer than some seconds says how long, once known"
    if previous:
        seconds = duration(sum(artefact.manifest.seconds for artefact in previous))
        sentence += f"; {'the others' if new else 'they'} took {seconds} last time"
    tell(sentence)
