"""Bring artefacts up to date: whether one is stale, and why, is decided here for plans and for builds alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mog_assets.build.measuring import changed_since, noted, read_documents
from mog_assets.build.recipe import Recipe, Work, fingerprint
from mog_assets.build.tools import Tools
from mog_assets.resources.errors import MissingArtefact, MogError, TooFewQuestions
from mog_assets.resources.progress import Log, duration, stage
from mog_assets.resources.publishing import publish, sweep
from mog_assets.resources.store import Artefact, label

Place = tuple[str, str | None]
"""Key and corpus of an artefact."""
# Looks an artefact up by asset and corpus.
Find = Callable[[str, str | None], Artefact | None]


@dataclass(frozen=True)
class State:
    """An artefact beside what would be built now.

    Attributes:
        previous: The artefact; None if there is none, or a damaged one.
        inputs: Versions of what it is built from now, by label.
        missing: Keys of assets that it is built from and that are missing or damaged.
        wanted: Fingerprint of what would be built now; empty if an input is missing.
        why: Why it is built again, in a few words; empty if it is up to date.
    """

    previous: Artefact | None
    inputs: dict[str, str]
    missing: list[str]
    wanted: str
    why: str


def state(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find | None = None
) -> State:
    """Return whether an artefact is up to date: it exists, and nothing that it was built from has changed.

    Args:
        recipe: How it is built.
        partition: Its corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        find: Looks up artefacts: `Store.sound`, or a cache of it for a plan that looks each up many times.

    Raises:
        MogError: what it is built from outside the store cannot be read.
    """
    find = find or tools.store.sound
    previous, inputs, missing = find(recipe.key, partition), dict[str, str](), list[str]()
    for key, corpus in made_from(recipe, partition, recipes, list(tools.settings.corpora)):
        artefact = find(key, corpus)
        if artefact is None:
            missing.append(key)
        else:
            inputs[label(key, corpus)] = artefact.manifest.version
    if missing:
        return State(previous, inputs, list(dict.fromkeys(missing)), "", f"without {', '.join(dict.fromkeys(missing))}")
    wanted = fingerprint(recipe, partition, tools, inputs)
    return State(previous, inputs, [], wanted, _why(recipe, partition, tools, previous, inputs, wanted))


def made_from(recipe: Recipe, corpus: str | None, recipes: dict[str, Recipe], corpora: Sequence[str]) -> list[Place]:
    """Return the inputs of an artefact, of some corpora."""
    own = [corpus] if recipe.partitioned else corpora
    return [(dep, c) for dep in recipe.deps for c in (own if recipes[dep].partitioned else [None])]


def _why(
    recipe: Recipe,
    partition: str | None,
    tools: Tools,
    previous: Artefact | None,
    inputs: dict[str, str],
    wanted: str,
) -> str:
    if previous is None:
        return "new"
    manifest = previous.manifest
    if manifest.recipe == wanted:
        return "" if is_intact(recipe, tools, previous) else "what it names is not there"
    before, made_of = manifest.info.get("made of"), recipe.made_of(partition, tools)
    changed = [] if before is None else [part for part in made_of if before.get(part) != made_of[part]]
    keys = [key for key in {**manifest.inputs, **inputs} if manifest.inputs.get(key) != inputs.get(key)]
    changed += sorted({key.partition(" of corpus ")[0] for key in keys})
    if not changed:
        return "made by an earlier version" if before is None else "not finished"
    return f"changed: {', '.join(changed)}"


def is_fresh(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find | None = None
) -> bool:
    """Return whether an artefact is up to date; arguments as for `state`."""
    try:
        return not state(recipe, partition, tools, recipes, find).why
    except MogError:
        # The source cannot be read: building it reports that, and other corpora can still be built.
        return False


def is_intact(recipe: Recipe, tools: Tools, artefact: Artefact) -> bool:
    """Return whether the data outside the store that an artefact names is there."""
    try:
        return bool(artefact.manifest.info.get("untrained")) or recipe.intact(tools, artefact)
    except LookupError:
        # A manifest without a seal that was edited by hand.
        return False


@dataclass(frozen=True)
class Materialised:
    """The result of materialising: the artefact, whether it was built now, and faults by name of the check.

    If a blocking check has a fault, the artefact is the previous one. `damage` says what was wrong with the artefact
    before, and `why` why it was built.
    """

    artefact: Artefact | None
    built: bool
    faults: dict[str, str] = field(default_factory=dict)
    damage: str | None = None
    why: str = ""


def materialise(
    recipe: Recipe,
    partition: str | None,
    tools: Tools,
    recipes: dict[str, Recipe],
    log: Log | None = None,
    force: bool = False,
) -> Materialised:
    """Bring an artefact up to date. If a blocking check fails, the previous artefact stays in place.

    What searches read is published once it belongs together, and what nobody needs any more is deleted.

    Args:
        recipe: What to build.
        partition: The corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        log: Receives progress messages.
        force: Build it even if it is up to date.

    Raises:
        MissingArtefact: an input has not been materialised.
        MogError: raised by `build`.
    """
    store, what = tools.store, label(recipe.key, partition)
    # What a run that was killed had completed, before some of it is replaced.
    publish(store, *tools.read)
    # Before the lock, whose file would hide what is wrong with the folder.
    damage = store.damage(recipe.key, partition)
    with store.lock(recipe.key, partition):
        now = state(recipe, partition, tools, recipes)
        if now.missing:
            raise MissingArtefact(
                f"{what} is built from {', '.join(now.missing)}, not materialised yet or damaged: materialise that "
                "first, or run `mog run`"
            )
        _check_measured(recipe, tools, recipes)
        measured, previous, fresh = noted(recipe, recipes, tools) if recipe.measured else {}, now.previous, not now.why
        if previous is not None and fresh and not force:
            sweep(store, previous)
            if any(previous.manifest.info.get(name) != value for name, value in measured.items()):
                previous = store.note(previous, **measured)
            return Materialised(previous, built=False, faults=previous.manifest.info.get("faults", {}), damage=damage)
        started, made_of = time.monotonic(), recipe.made_of(partition, tools)
        reason = "damaged" if damage else now.why or "forced"
        draft = store.draft(recipe.key, partition)
        work = Work(tools, recipe, partition, draft, log, previous if fresh else None)
        before = f"; {duration(previous.manifest.seconds)} last time" if previous else ""
        with stage(what, f"damaged: {damage}" if damage else reason + before, log):
            _build(work, recipes)
            faults = {check.name: fault for check in recipe.checks if (fault := check.run(work)) is not None}
        if any(check.blocking and check.name in faults for check in recipe.checks):
            return Materialised(previous, built=True, faults=faults, damage=damage, why=reason)
        artefact = store.commit(
            work.draft,
            recipe.key,
            partition,
            recipe=now.wanted,
            inputs=now.inputs,
            counts=work.counts,
            info={**work.info, "recomputed": work.recomputed, "faults": faults, "made of": made_of, **measured},
            seconds=time.monotonic() - started,
            shown=work.shown,
        )
        publish(store, *tools.read)
        sweep(store, artefact)
        return Materialised(artefact, built=True, faults=faults, damage=damage, why=reason)


def _check_measured(recipe: Recipe, tools: Tools, recipes: dict[str, Recipe]) -> None:
    """Check that what a measurement is built from was measured with the documents of now.

    Raises:
        MissingArtefact: something was not.
    """
    now = read_documents(tools, tools.store.find) if recipe.measured else {}
    for dep in recipe.deps if recipe.measured else ():
        artefact = tools.store.find(dep) if recipes[dep].measured else None
        if artefact and changed_since(artefact, now):
            raise MissingArtefact(
                f"{recipe.key} is built from {dep}, which is of earlier documents: materialise that first, or run "
                "`mog run --evaluate`"
            )


def _build(work: Work, recipes: dict[str, Recipe]) -> None:
    """Build; if that fails with an unexpected error, check whether the inputs are damaged.

    Raises:
        MogError: an input is damaged, or `build` raised it.
    """
    try:
        work.recipe.build(work)
    except TooFewQuestions as error:
        work.info["untrained"] = str(error)
    except MogError:
        raise
    # Damaged bytes can make a library raise anything.
    except Exception as error:
        store, recipe = work.tools.store, work.recipe
        read = [
            store.find(*place) for place in made_from(recipe, work.corpus, recipes, list(work.tools.settings.corpora))
        ]
        faults = [fault for artefact in (*read, work.draft.previous) if artefact for fault in store.verify(artefact)]
        if faults:
            raise MogError(f"{label(recipe.key, work.corpus)} could not be built: {'; '.join(faults)}") from error
        raise
