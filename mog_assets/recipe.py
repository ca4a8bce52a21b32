"""How an artefact is made, as data: one description serves Dagster, the planner of `mog run`, and `mog verify`.

A recipe names its inputs, the settings it depends on, and the function that builds it. From these follows a
fingerprint; an artefact whose manifest has the same fingerprint is up to date and is never built again.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mog_assets import markdown
from mog_assets.config import Settings
from mog_assets.tools import Tools
from resources.errors import MissingArtefact, MogError
from resources.files import make_way
from resources.progress import Advance, Log, track
from resources.store import Artefact, Draft, atomic, digest, file_digest, label

# Tag of a run that builds repeatable assets also where they are up to date: their keys with commas between, or `true`
# for all of them.
FORCE = "mog/force"
# Characters of a cell of a table that is shown with an artefact.
_WIDEST = 160

Checker = Callable[["Work"], str | None]
# Looks an artefact up by asset and corpus.
Find = Callable[[str, str | None], Artefact | None]


@dataclass(frozen=True)
class Check:
    """Something that must hold of an artefact before it replaces the previous one.

    `run` returns what is wrong, or None. What a check that is not `blocking` finds is shown, and the artefact is used.
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
        source: State of the files outside the store that it reads, as JSON values.
        outside: Name of the external asset that stands for `source` in Dagster, where there is one.
        repeatable: Whether a forced run builds it again although it is up to date: for what is worth measuring twice.
        on_demand: Whether it is made only when somebody asks for it by name.
        irreplaceable: Whether it holds what cannot be made again. Damaged files of it are never removed, and `build`
            keeps what is left of them.
        intact: Whether what an artefact names outside the store is there (cheap: it is asked of every artefact).
        version: Of the code; raised when the same inputs give another content.
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
    irreplaceable: bool = False
    checks: tuple[Check, ...] = ()
    intact: Callable[[Tools, Artefact], bool] = lambda tools, artefact: True
    version: str = "1"
    kinds: tuple[str, ...] = ("python",)
    pool: str | None = None


@dataclass
class Work:
    """What a recipe's `build` works with: its inputs, the draft of its files, and what it reports.

    Attributes:
        corpus: The partition, None for an unpartitioned asset.
        repeats: The artefact that is up to date and is built again all the same; None unless the run is forced.
        damage: What was wrong with the artefact that is replaced, in a few words; None where nothing was.
        counts: Figures about the artefact, kept in the manifest.
        recomputed: What had to be done this time (documents split, texts encoded, …).
        info: Further facts for readers of the artefact, as JSON values.
        shown: What people look at: Markdown by title.
    """

    tools: Tools
    recipe: Recipe
    corpus: str | None
    draft: Draft
    log: Log | None = None
    repeats: Artefact | None = None
    damage: str | None = None
    counts: dict[str, float] = field(default_factory=dict)
    recomputed: dict[str, float] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.tools.settings

    def input(self, key: str, corpus: str | None = None) -> Artefact:
        """An artefact that this one is made from; of this partition unless another corpus is named."""
        return self.tools.store.read(key, corpus or self.corpus)

    def file(self, name: str, *key: Any) -> tuple[Path, bool]:
        """Path for a file whose content follows from `key`, and whether it is there already."""
        # What is built again gets names of its own, so that nothing of it is taken for done.
        again = [self.repeats.manifest.created] if self.repeats else []
        return self.draft.file(name, digest(self.recipe.key, self.recipe.version, *key, *again))

    def keep(self, artefact: Artefact, *names: str) -> None:
        """Take files of the previous artefact over as they are; all of them where none is named."""
        files = artefact.manifest.files
        self.draft.files.update({name: files[name]["file"] for name in names or files})

    @contextmanager
    def writing(self, path: Path) -> Iterator[Path]:
        """A path beside `path` to write to, moved into place when complete."""
        make_way(path)
        with atomic(path) as temporary:
            yield temporary

    def map(
        self, target: str, jobs: dict[str, dict[str, Any]], keys: dict[str, Any], what: str, reuse: bool = False
    ) -> list[Any]:
        """Make one file per bucket by `target`, those that are not there yet; returns what the calls returned.

        Args:
            target: `"module:function"` for `Engine.map`.
            jobs: Arguments by logical name of the file to write.
            keys: What each file's content follows from.
            what: Names the work in the progress display.
            reuse: Also pass `previous`: the file of the same name that the same recipe has made, with the same
                settings, from earlier inputs; None where there is none.
        """
        held = self.draft.previous if reuse and not self.repeats else None
        if held and held.manifest.recipe != fingerprint(self.recipe, self.corpus, self.tools, held.manifest.inputs):
            held = None
        missing = []
        for name, arguments in jobs.items():
            path, there = self.file(name, keys[name])
            if not there:
                entry = held.manifest.files.get(name) if held else None
                # Bytes that are not those of the manifest would get a checksum of their own in the new one.
                sound = held and entry and file_digest(held.path(name)) == entry["sha256"]
                previous = {"previous": str(held.path(name)) if held and sound else None} if reuse else {}
                missing.append({**arguments, **previous, "out": str(path)})
        with self.progress(len(missing), what) as advance:
            results = []
            for result in self.tools.engine.map(target, missing):
                results.append(result)
                advance(1)
            return results

    @contextmanager
    def progress(self, total: int, what: str) -> Iterator[Advance]:
        """Show how far a long piece of work is."""
        with track(total, f"{what} · {label(self.recipe.key, self.corpus)}", self.log) as advance:
            yield advance

    def show_plot(self, title: str, png: bytes) -> None:
        """Show a picture with the artefact."""
        data = base64.b64encode(png).decode("ascii")
        self.shown[title] = f"![{title}](data:image/png;base64,{data})"

    def show_table(self, title: str, rows: Sequence[dict[str, Any]]) -> None:
        """Show a table with the artefact."""
        self.shown[title] = markdown.table(rows, _WIDEST)


def input_versions(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find
) -> dict[str, str] | None:
    """Versions of the artefacts that a recipe reads, None where one is missing or damaged."""
    versions = {}
    for dep in recipe.deps:
        for key, corpus in _places(dep, recipe, partition, tools, recipes):
            artefact = find(key, corpus)
            if artefact is None:
                return None
            versions[label(key, corpus)] = artefact.manifest.version
    return versions


def fingerprint(recipe: Recipe, partition: str | None, tools: Tools, inputs: dict[str, str]) -> str:
    """Equal exactly as long as a recipe would give the same artefact again."""
    source = recipe.source(tools.settings, partition)
    return digest(recipe.key, recipe.version, recipe.settings(tools), source, inputs)


def is_fresh(
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe], find: Find | None = None
) -> bool:
    """Whether the artefact is there and nothing that it was made from has changed.

    Args:
        recipe: What makes it.
        partition: Its corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        find: Looks artefacts up; `Store.sound`, unless a plan that asks for each many times keeps what it found.
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
        # A source that cannot be read: building it says so, and keeps no other corpus from being built.
        return False


def _is_intact(recipe: Recipe, tools: Tools, artefact: Artefact) -> bool:
    try:
        return recipe.intact(tools, artefact)
    except LookupError:
        # A manifest without a seal that somebody has edited.
        return False


@dataclass(frozen=True)
class Materialised:
    """What materialising came to: the artefact, whether it was built now, and what checks found, by their names.

    Of `faults`, one of a blocking check means that the artefact is the previous one. `damage` says what was wrong with
    the artefact before.
    """

    artefact: Artefact | None
    built: bool
    faults: dict[str, str] = field(default_factory=dict)
    damage: str | None = None


def materialise(
    recipe: Recipe,
    partition: str | None,
    tools: Tools,
    recipes: dict[str, Recipe],
    log: Log | None = None,
    force: bool = False,
) -> Materialised:
    """Bring an artefact up to date. A failed blocking check leaves the previous artefact where it is.

    Args:
        recipe: What to make.
        partition: The corpus, None for an asset of all corpora.
        tools: The resources.
        recipes: All recipes, by key.
        log: Where progress is reported.
        force: Build also what is up to date.

    Raises:
        MissingArtefact: something it is made from has not been materialised.
        MogError: whatever `build` says.
    """
    store = tools.store
    # Before the lock, which moves aside what stands in its way.
    damage = store.damage(recipe.key, partition)
    with store.lock(recipe.key, partition):
        inputs = input_versions(recipe, partition, tools, recipes, store.sound)
        if inputs is None:
            missing = [key for key in recipe.deps if not _there(key, recipe, partition, tools, recipes)]
            raise MissingArtefact(
                f"{label(recipe.key, partition)} is made from {', '.join(missing)}, not materialised yet or damaged: "
                "materialise that first, or run `mog run`"
            )
        wanted = fingerprint(recipe, partition, tools, inputs)
        previous = store.sound(recipe.key, partition)
        fresh = previous is not None and previous.manifest.recipe == wanted and _is_intact(recipe, tools, previous)
        if fresh and not force:
            assert previous is not None
            return Materialised(previous, built=False, faults=previous.manifest.info.get("faults", {}), damage=damage)
        if damage and log:
            log(f"{label(recipe.key, partition)} is damaged ({damage}): building it again")
        started = time.monotonic()
        repeats = previous if fresh else None
        draft = store.draft(recipe.key, partition, recipe.irreplaceable)
        work = Work(tools, recipe, partition, draft, log, repeats, damage)
        _build(work, recipes)
        faults = {check.name: fault for check in recipe.checks if (fault := check.run(work)) is not None}
        if any(check.blocking and check.name in faults for check in recipe.checks):
            return Materialised(previous, built=True, faults=faults, damage=work.damage)
        artefact = store.commit(
            work.draft,
            recipe.key,
            partition,
            recipe=wanted,
            inputs=inputs,
            counts=work.counts,
            info={**work.info, "recomputed": work.recomputed, "faults": faults},
            seconds=time.monotonic() - started,
            shown=work.shown,
        )
        return Materialised(artefact, built=True, faults=faults, damage=work.damage)


def _build(work: Work, recipes: dict[str, Recipe]) -> None:
    """Build; where that fails in a way that says nothing to people, look whether what it reads is damaged.

    Raises:
        MogError: it is, or `build` says so.
    """
    try:
        work.recipe.build(work)
    except MogError:
        raise
    # Whatever a library makes of bytes that are not what was written.
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
    """Key and corpus of the artefacts of an asset that a recipe reads."""
    corpora = [partition] if recipe.partitioned else list(tools.settings.corpora)
    return [(dep, corpus) for corpus in (corpora if recipes[dep].partitioned else [None])]


def _there(key: str, recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]) -> bool:
    return all(tools.store.sound(*place) for place in _places(key, recipe, partition, tools, recipes))
