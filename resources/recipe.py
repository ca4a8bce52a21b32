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
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg

from mog_assets import markdown
from mog_assets.config import Settings
from mog_assets.errors import MissingArtefact, MogError
from resources.encoder import Encoder
from resources.engine import Engine
from resources.llm import OpenAIModel
from resources.progress import Advance, Log, track
from resources.qdrant import VectorStore, connect
from resources.store import Artefact, Draft, Store, atomic, digest, file_digest, label

CORPUS = dg.DynamicPartitionsDefinition(name="corpus")
# Tag of a run that builds repeatable assets also where they are up to date.
FORCE = "mog/force"
# Characters of a cell of a table that is shown with an artefact.
_WIDEST = 160

Checker = Callable[["Work"], str | None]


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
    checks: tuple[Check, ...] = ()
    intact: Callable[[Tools, Artefact], bool] = lambda tools, artefact: True
    version: str = "1"
    kinds: tuple[str, ...] = ("python",)
    pool: str | None = None


@dataclass(frozen=True)
class Tools:
    """The resources of the graph, made from the settings; nothing is opened before it is used."""

    settings: Settings

    @cached_property
    def store(self) -> Store:
        """Artefacts on disk."""
        return Store(self.settings.home)

    @cached_property
    def engine(self) -> Engine:
        """Where work on buckets runs."""
        return Engine(self.settings.engine)

    @cached_property
    def encoder(self) -> Encoder:
        """Texts to vectors, cached under the home folder."""
        return Encoder(self.settings.encoder, self.settings.home / "cache")

    @cached_property
    def qdrant(self) -> VectorStore:
        """The vector store."""
        return connect(self.settings.home)

    @cached_property
    def llm(self) -> OpenAIModel:
        """The language model that the settings name; what it answered is kept under the home folder."""
        return OpenAIModel(self.settings.llm, self.settings.seed, self.settings.home / "cache")

    def resources(self) -> dict[str, Any]:
        """Every resource under the name that assets ask for it by."""
        return {"tools": self}


@dataclass
class Work:
    """What a recipe's `build` works with: its inputs, the draft of its files, and what it reports.

    Attributes:
        corpus: The partition, None for an unpartitioned asset.
        repeats: The artefact that is up to date and is built again all the same; None unless the run is forced.
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
    recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]
) -> dict[str, str] | None:
    """Versions of the artefacts that a recipe reads, None where one is missing."""
    versions = {}
    for key in recipe.deps:
        corpora = [partition] if recipe.partitioned else list(tools.settings.corpora)
        for corpus in corpora if recipes[key].partitioned else [None]:
            artefact = tools.store.find(key, corpus)
            if artefact is None:
                return None
            versions[label(key, corpus)] = artefact.manifest.version
    return versions


def fingerprint(recipe: Recipe, partition: str | None, tools: Tools, inputs: dict[str, str]) -> str:
    """Equal exactly as long as a recipe would give the same artefact again."""
    source = recipe.source(tools.settings, partition)
    return digest(recipe.key, recipe.version, recipe.settings(tools), source, inputs)


def is_fresh(recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]) -> bool:
    """Whether the artefact is there and nothing that it was made from has changed."""
    artefact = tools.store.find(recipe.key, partition)
    if artefact is None:
        return False
    inputs = input_versions(recipe, partition, tools, recipes)
    try:
        wanted = None if inputs is None else fingerprint(recipe, partition, tools, inputs)
        return artefact.manifest.recipe == wanted and recipe.intact(tools, artefact)
    except MogError:
        # A source that cannot be read: building it says so, and keeps no other corpus from being built.
        return False


@dataclass(frozen=True)
class Outcome:
    """What materialising came to: the artefact, whether it was built now, and what checks found, by their names.

    Of `faults`, one of a blocking check means that the artefact is the previous one.
    """

    artefact: Artefact | None
    built: bool
    faults: dict[str, str] = field(default_factory=dict)


def materialise(
    recipe: Recipe,
    partition: str | None,
    tools: Tools,
    recipes: dict[str, Recipe],
    log: Log | None = None,
    force: bool = False,
) -> Outcome:
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
    with store.lock(recipe.key, partition):
        inputs = input_versions(recipe, partition, tools, recipes)
        if inputs is None:
            missing = [key for key in recipe.deps if not _there(key, recipe, partition, tools, recipes)]
            raise MissingArtefact(
                f"{label(recipe.key, partition)} is made from {', '.join(missing)}, not materialised yet: "
                "materialise that first, or run `mog run`"
            )
        wanted = fingerprint(recipe, partition, tools, inputs)
        previous = store.find(recipe.key, partition)
        fresh = previous is not None and previous.manifest.recipe == wanted and recipe.intact(tools, previous)
        if fresh and not force:
            assert previous is not None
            return Outcome(previous, built=False, faults=previous.manifest.info["faults"])
        started = time.monotonic()
        repeats = previous if fresh else None
        work = Work(tools, recipe, partition, store.draft(recipe.key, partition), log, repeats)
        recipe.build(work)
        faults = {check.name: fault for check in recipe.checks if (fault := check.run(work)) is not None}
        if any(check.blocking and check.name in faults for check in recipe.checks):
            return Outcome(previous, built=True, faults=faults)
        artefact = store.commit(
            work.draft,
            recipe.key,
            partition,
            recipe=wanted,
            inputs=inputs,
            counts=work.counts,
            info={**work.info, "recomputed": work.recomputed, "shown": work.shown, "faults": faults},
            seconds=time.monotonic() - started,
        )
        return Outcome(artefact, built=True, faults=faults)


def _there(key: str, recipe: Recipe, partition: str | None, tools: Tools, recipes: dict[str, Recipe]) -> bool:
    corpora = [partition] if recipe.partitioned else list(tools.settings.corpora)
    return all(tools.store.find(key, corpus) for corpus in (corpora if recipes[key].partitioned else [None]))


def code_version(recipe: Recipe, tools: Tools) -> str:
    """The recipe's version and a digest of the settings that it depends on: either one changes what would be built."""
    try:
        return f"{recipe.version}-{digest(recipe.settings(tools))[:12]}"
    except MogError as error:
        # The graph has to load all the same: building the asset says what is wrong.
        return f"{recipe.version}-{digest(str(error))[:12]}"


def as_asset(
    recipe: Recipe,
    recipes: dict[str, Recipe],
    tools: Tools,
    after: Sequence[str] = (),
    condition: dg.AutomationCondition | None = None,
) -> dg.AssetsDefinition:
    """The Dagster asset of a recipe: content hash as data version, counts and pictures as metadata, blocking checks.

    Args:
        recipe: What the asset makes.
        recipes: All recipes, by key.
        tools: Resources that tell the settings the asset depends on.
        after: Keys of assets that it follows without reading them.
        condition: When it is materialised by itself.
    """
    key = dg.AssetKey(recipe.key.split("/"))

    @dg.asset(
        key=key,
        deps=[dg.AssetKey(dep.split("/")) for dep in (*recipe.deps, *after)],
        partitions_def=CORPUS if recipe.partitioned else None,
        group_name=recipe.group,
        description=recipe.description,
        code_version=code_version(recipe, tools),
        automation_condition=condition,
        kinds=set(recipe.kinds),
        pool=recipe.pool,
        required_resource_keys={"tools"},
        check_specs=[
            dg.AssetCheckSpec(check.name, asset=key, description=check.description, blocking=check.blocking)
            for check in recipe.checks
        ],
        op_tags={"nvidia.com/gpu": "1"} if recipe.pool == "gpu" else None,
    )
    def compute(context):  # type: ignore[no-untyped-def]  # Dagster reads the annotation, and cannot read a string
        partition = context.partition_key if recipe.partitioned else None
        tools: Tools = context.resources.tools
        if partition is not None and partition not in tools.settings.corpora:
            known = ", ".join(tools.settings.corpora)
            raise dg.Failure(
                description=f"{label(recipe.key, partition)}: expected a corpus of mog.yaml ({known}), "
                f"got {partition!r}: name it there, or delete the partition",
                allow_retries=False,
            )
        try:
            force = recipe.repeatable and context.run.tags.get(FORCE) == "true"
            outcome = materialise(recipe, partition, tools, recipes, context.log.info, force)
        except MogError as error:
            # A message for people needs no retry and no traceback of ours.
            raise dg.Failure(description=str(error), allow_retries=False) from error
        for check in recipe.checks:
            fault = outcome.faults.get(check.name)
            yield dg.AssetCheckResult(
                check_name=check.name,
                asset_key=key,
                passed=fault is None,
                severity=dg.AssetCheckSeverity.ERROR if check.blocking else dg.AssetCheckSeverity.WARN,
                metadata={"fault": fault} if fault else {"checked": "now" if outcome.built else "when it was built"},
            )
        blocking = {check.name for check in recipe.checks if check.blocking}
        if faults := "; ".join(f"{name}: {fault}" for name, fault in outcome.faults.items() if name in blocking):
            raise dg.Failure(description=f"{label(recipe.key, partition)}: {faults}", allow_retries=False)
        assert outcome.artefact is not None
        yield dg.MaterializeResult(
            metadata=_metadata(outcome), data_version=dg.DataVersion(outcome.artefact.manifest.version)
        )

    return compute


def _metadata(outcome: Outcome) -> dict[str, Any]:
    assert outcome.artefact is not None
    manifest = outcome.artefact.manifest
    recomputed = manifest.info["recomputed"] if outcome.built else dict.fromkeys(manifest.info["recomputed"], 0)
    metadata: dict[str, Any] = dict(manifest.counts)
    metadata["bytes"] = sum(entry["bytes"] for entry in manifest.files.values())
    metadata["seconds to build"] = round(manifest.seconds, 3)
    metadata["built now"] = outcome.built
    metadata["recomputed"] = dg.MetadataValue.json(recomputed)
    for title, text in manifest.info["shown"].items():
        metadata[title] = dg.MetadataValue.md(text)
    return metadata
