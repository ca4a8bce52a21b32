"""How an artefact is built, as data: one description for Dagster, the planner of `mog run`, and `mog verify`.

A recipe names its inputs, the settings it depends on, and the function that builds it. These give its fingerprint;
an artefact whose manifest has the same fingerprint is up to date and is not built again.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mog_assets import markdown
from mog_assets.config import Settings
from mog_assets.declared import Declared
from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.files import make_way
from mog_assets.resources.progress import Advance, Log, duration, stage, track
from mog_assets.resources.store import Artefact, Draft, Replacing, atomic, digest, file_digest, label
from mog_assets.tools import Tools

# Tag of a run that builds repeatable assets even if they are up to date: their keys separated by commas, or `true`
# for all of them.
FORCE = "mog/force"
# Maximum characters of a cell in a table shown with an artefact.
_WIDEST = 160

Checker = Callable[["Work"], str | None]
# Looks an artefact up by asset and corpus.
Find = Callable[[str, str | None], Artefact | None]


@dataclass(frozen=True)
class Check:
    """A condition on a new artefact, checked before it replaces the previous one.

    `run` returns what is wrong, or None. A fault of a check that is not `blocking` is shown, but the artefact is used.
    """

    name: str
    description: str
    run: Checker
    blocking: bool = True


@dataclass(frozen=True)
class Recipe:
    """An asset of the graph.

    Attributes:
        key: Asset key, parts joined by `/`.
        build: Writes the artefact's files.
        deps: Keys of the assets it reads.
        partitioned: Whether there is one artefact per corpus.
        settings: The part of the settings (and of the resources) that its content depends on, as JSON values.
        source: State of the files it reads outside the store, as JSON values.
        outside: Name of the external asset that represents `source` in Dagster, if any.
        repeatable: Whether a forced run builds it again even if it is up to date, such as measurements.
        on_demand: Whether it is built only when named explicitly.
        first: Whether every search needs it: it is built before what no search waits for.
        intact: Whether the data outside the store that an artefact names exists (cheap: called for every artefact).
        version: Version of the code; raised when the same inputs give different content.
        pool: Dagster concurrency pool.
    """

    key: str
    build: Callable[[Work], None]
    description: str
    group: str
    deps: tuple[str, ...] = ()
    partitioned: bool = True
    settings: Callable[[Tools], Any] = lambda tools: None
    source: Callable[[Settings, str | None], Any] = lambda settings, corpus: None
    outside: str | None = None
    repeatable: bool = False
    on_demand: bool = False
    first: bool = False
    checks: tuple[Check, ...] = ()
    intact: Callable[[Tools, Artefact], bool] = lambda tools, artefact: True
    version: str = "1"
    kinds: tuple[str, ...] = ("python",)
    pool: str | None = None

    def made_of(self, corpus: str | None, tools: Tools) -> dict[str, str]:
        """What decides its content beside its inputs: parts of `fingerprint`, to say which of them has changed."""
        source = self.source(tools.settings, corpus)
        return {"code": self.version, "settings": digest(self.settings(tools)), "files": digest(source)}


@dataclass
class Work:
    """The context of a recipe's `build`: its inputs, the draft of its files, and what it reports.

    Attributes:
        corpus: The partition, None for an unpartitioned asset.
        repeats: The up-to-date artefact that is built again; None unless the run is forced.
        counts: Figures about the artefact, kept in the manifest.
        recomputed: Counts of work done this time (documents split, texts encoded, …).
        info: Further facts for readers of the artefact, as JSON values.
        shown: Tables and plots for the Dagster UI: Markdown by title.
    """

    tools: Tools
    recipe: Recipe
    corpus: str | None
    draft: Draft
    log: Log | None = None
    repeats: Artefact | None = None
    counts: dict[str, float] = field(default_factory=dict)
    recomputed: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.tools.settings

    def input(self, key: str, corpus: str | None = None) -> Artefact:
        """An input artefact; of this partition unless another corpus is named."""
        return self.tools.store.read(key, corpus or self.corpus)

    def made_by(self, keys: Iterable[str]) -> dict[str, Any]:
        """What made inputs of the corpora: the version of the code, and of vectors the encoder and its precision.

        Rows that are kept from an earlier artefact must have been made from inputs that the same made.
        """
        made_of = {}
        for key in dict.fromkeys(keys):
            for corpus in self.settings.corpora:
                info = self.input(key, corpus).manifest.info
                made_of[label(key, corpus)] = [info["made of"]["code"], info.get("made by")]
        return made_of

    def file(self, name: str, *key: Any) -> tuple[Path, bool]:
        """Path of a file whose content is determined by `key`, and whether it exists already."""
        # A forced rebuild uses new file names, so that no existing file counts as done.
        again = [self.repeats.manifest.created] if self.repeats else []
        return self.draft.file(name, digest(self.recipe.key, self.recipe.version, *key, *again))

    @cached_property
    def _comparable(self) -> Artefact | None:
        """The previous artefact, if the same recipe made it with the same settings from earlier inputs."""
        previous = self.draft.previous
        if previous is None or self.repeats:
            return None
        same = previous.manifest.recipe == fingerprint(self.recipe, self.corpus, self.tools, previous.manifest.inputs)
        return previous if same else None

    @cached_property
    def comparable(self) -> Artefact | None:
        """The previous artefact, if the same recipe made it with the same settings and every byte is as it was written.

        Rows of it can be kept. Damaged ones would otherwise get a valid checksum in the new manifest.
        """
        artefact = self._comparable
        return artefact if artefact is not None and not self.tools.store.verify(artefact) else None

    def keep(self, artefact: Artefact, *names: str) -> None:
        """Keep files of the previous artefact unchanged; all of them if none is named."""
        files = artefact.manifest.files
        self.draft.files.update({name: files[name]["file"] for name in names or files})

    @contextmanager
    def writing(self, path: Path) -> Iterator[Path]:
        """A path next to `path` to write to, moved into place when complete."""
        make_way(path)
        with atomic(path) as temporary:
            yield temporary

    def map(
        self, target: str, jobs: dict[str, dict[str, Any]], keys: dict[str, Any], what: str, reuse: bool = False
    ) -> list[Any]:
        """Build one file per bucket with `target`, skipping existing ones; returns what the calls returned.

        Args:
            target: `"module:function"` for `Engine.map`.
            jobs: Arguments by logical name of the file to write.
            keys: What determines each file's content.
            what: Name of the work in the progress display.
            reuse: Also pass `previous`: the file of the same name that the same recipe made, with the same settings,
                from earlier inputs; None if there is none.
        """
        artefact = self._comparable if reuse else None
        missing = []
        for name, arguments in jobs.items():
            path, exists = self.file(name, keys[name])
            if not exists:
                entry = artefact.manifest.files.get(name) if artefact else None
                # Damaged bytes would otherwise get a valid checksum in the new manifest.
                sound = artefact and entry and file_digest(artefact.path(name)) == entry["sha256"]
                previous = {"previous": str(artefact.path(name)) if artefact and sound else None} if reuse else {}
                missing.append({**arguments, **previous, "out": str(path)})
        with self.progress(len(missing), what) as advance:
            results = []
            for result in self.tools.engine.map(target, missing):
                results.append(result)
                advance(1)
            return results

    @contextmanager
    def progress(self, total: int, what: str) -> Iterator[Advance]:
        """Show the progress of long work."""
        with track(total, f"{what} · {label(self.recipe.key, self.corpus)}") as advance:
            yield advance

    def show_plot(self, title: str, png: bytes) -> None:
        """Show a plot with the artefact."""
        data = base64.b64encode(png).decode("ascii")
        self.shown[title] = f"![{title}](data:image/png;base64,{data})"

    def show_table(self, title: str, rows: Sequence[dict[str, Any]]) -> None:
        """Show a table with the artefact."""
        self.shown[title] = markdown.table(rows, _WIDEST)


def input_versions(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find
) -> dict[str, str] | None:
    """Versions of the artefacts that a recipe reads; None for one that is missing or damaged."""
    versions = {}
    for dep in recipe.deps:
        for key, corpus in _places(dep, recipe, partition, tools, recipes):
            artefact = find(key, corpus)
            if artefact is None:
                return None
            versions[label(key, corpus)] = artefact.manifest.version
    return versions


def fingerprint(recipe: Recipe, partition: str | None, tools: Tools, inputs: dict[str, str]) -> str:
    """A digest that changes exactly when the recipe would give a different artefact."""
    source = recipe.source(tools.settings, partition)
    return digest(recipe.key, recipe.version, recipe.settings(tools), source, inputs)


def why(
    previous: Artefact | None, inputs: Mapping[str, str], made_of: Mapping[str, str], wanted: str, force: bool
) -> str:
    """Why a sound artefact is built again, in a few words.

    Args:
        previous: The artefact, None if there is none.
        inputs: Versions of the inputs now, by label.
        made_of: Result of `Recipe.made_of` now.
        wanted: Fingerprint now.
        force: Whether it is built even if it is up to date.
    """
    if previous is None:
        return "new"
    manifest = previous.manifest
    if manifest.recipe == wanted:
        return "forced" if force else "what it names is not there"
    before = manifest.info.get("made of")
    changed = [] if before is None else [part for part in made_of if before.get(part) != made_of[part]]
    keys = [key for key in {**manifest.inputs, **inputs} if manifest.inputs.get(key) != inputs.get(key)]
    changed += sorted({key.partition(" of corpus ")[0] for key in keys})
    if not changed:
        return "made by an earlier version" if before is None else "not finished"
    return f"changed: {', '.join(changed)}"


def is_fresh(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find | None = None
) -> bool:
    """Whether the artefact exists and nothing that it was built from has changed.

    Args:
        recipe: How it is built.
        partition: Its corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        find: Looks up artefacts: `Store.sound`, or a cache of it for a plan that looks each up many times.
    """
    find = find or tools.store.sound
    artefact = find(recipe.key, partition)
    if artefact is None:
        return False
    inputs = input_versions(recipe, partition, tools, recipes, find)
    try:
        wanted = None if inputs is None else fingerprint(recipe, partition, tools, inputs)
        return artefact.manifest.recipe == wanted and _is_intact(recipe, tools, artefact)
    except MogError:
        # The source cannot be read: building it reports that, and other corpora can still be built.
        return False


def reason_now(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], previous: Artefact, find: Find
) -> str:
    """Why an artefact whose inputs are up to date would be built again; arguments as for `is_fresh`."""
    inputs = input_versions(recipe, partition, tools, recipes, find) or {}
    try:
        wanted = fingerprint(recipe, partition, tools, inputs)
        return why(previous, inputs, recipe.made_of(partition, tools), wanted, False)
    except MogError as error:
        return str(error)


def _is_intact(recipe: Recipe, tools: Tools, artefact: Artefact) -> bool:
    try:
        return recipe.intact(tools, artefact)
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
    replacing: Replacing = nullcontext,
) -> Materialised:
    """Bring an artefact up to date. If a blocking check fails, the previous artefact stays in place.

    Args:
        recipe: What to build.
        partition: The corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        log: Receives progress messages.
        force: Build it even if it is up to date.
        replacing: As for `Store.commit`.

    Raises:
        MissingArtefact: an input has not been materialised.
        MogError: raised by `build`.
    """
    store = tools.store
    # Before the lock, which moves aside files in its way.
    damage = store.damage(recipe.key, partition)
    with store.lock(recipe.key, partition):
        inputs = input_versions(recipe, partition, tools, recipes, store.sound)
        if inputs is None:
            missing = [key for key in recipe.deps if not _there(key, recipe, partition, tools, recipes)]
            raise MissingArtefact(
                f"{label(recipe.key, partition)} is built from {', '.join(missing)}, not materialised yet or damaged: "
                "materialise that first, or run `mog run`"
            )
        declared = Declared(tools, label(recipe.key, partition))
        wanted = fingerprint(recipe, partition, declared.declaring, inputs)
        previous = store.sound(recipe.key, partition)
        fresh = previous is not None and previous.manifest.recipe == wanted and _is_intact(recipe, tools, previous)
        if fresh and not force:
            assert previous is not None
            return Materialised(previous, built=False, faults=previous.manifest.info.get("faults", {}), damage=damage)
        started, made_of = time.monotonic(), recipe.made_of(partition, tools)
        reason = "damaged" if damage else why(previous, inputs, made_of, wanted, force)
        repeats = previous if fresh else None
        draft = store.draft(recipe.key, partition)
        work = Work(declared.tools(), recipe, partition, draft, log, repeats)
        before = f"; {duration(previous.manifest.seconds)} last time" if previous else ""
        with stage(label(recipe.key, partition), f"damaged: {damage}" if damage else reason + before, log):
            _build(work, recipes)
            faults = {check.name: fault for check in recipe.checks if (fault := check.run(work)) is not None}
        if any(check.blocking and check.name in faults for check in recipe.checks):
            return Materialised(previous, built=True, faults=faults, damage=damage, why=reason)
        artefact = store.commit(
            work.draft,
            recipe.key,
            partition,
            recipe=wanted,
            inputs=inputs,
            counts=work.counts,
            info={**work.info, "recomputed": work.recomputed, "faults": faults, "made of": made_of},
            seconds=time.monotonic() - started,
            shown=work.shown,
            replacing=replacing,
        )
        return Materialised(artefact, built=True, faults=faults, damage=damage, why=reason)


def _build(work: Work, recipes: dict[str, Recipe]) -> None:
    """Build; if that fails with an unexpected error, check whether the inputs are damaged.

    Raises:
        MogError: an input is damaged, or `build` raised it.
    """
    try:
        work.recipe.build(work)
    except MogError:
        raise
    # Damaged bytes can make a library raise anything.
    except Exception as error:
        store, recipe = work.tools.store, work.recipe
        read = [
            store.find(key, c)
            for dep in recipe.deps
            for key, c in _places(dep, recipe, work.corpus, work.tools, recipes)
        ]
        faults = [fault for artefact in (*read, work.draft.previous) if artefact for fault in store.verify(artefact)]
        if faults:
            raise MogError(f"{label(recipe.key, work.corpus)} could not be built: {'; '.join(faults)}") from error
        raise


def _places(
    dep: str, recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]
) -> list[tuple[str, str | None]]:
    """Keys and corpora of the artefacts of an asset that a recipe reads."""
    corpora = [partition] if recipe.partitioned else list(tools.settings.corpora)
    return [(dep, corpus) for corpus in (corpora if recipes[dep].partitioned else [None])]


def _there(key: str, recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]) -> bool:
    return all(tools.store.sound(*place) for place in _places(key, recipe, partition, tools, recipes))
