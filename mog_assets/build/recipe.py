"""How an artefact is built, as data: one description for Dagster, the planner of `mog run`, and `mog verify`.

A recipe names its inputs, the settings it depends on, and the function that builds it. These give its fingerprint;
an artefact whose manifest has the same fingerprint is up to date and is not built again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mog_assets.build import markdown
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.resources.files import atomic
from mog_assets.resources.progress import Advance, Log, track
from mog_assets.resources.store import Artefact, Draft, digest, file_digest, label

# Tag of a run that builds repeatable assets even if they are up to date: their keys separated by commas, or `true`
# for all of them.
FORCE = "mog/force"
# Tag of a run of one corpus that also builds assets of all corpora, and what follows from those in the others: the
# name of the sensor that asked for it.
JOINED = "mog/joined"
SOURCES = "sources"
"""The external asset that stands for the files of the corpora."""
MEASURING = "measuring"
"""The external asset that stands for the time to measure: questions, settings, the share of documents that changed."""
# Maximum characters of a cell in a table shown with an artefact.
_WIDEST = 160

Checker = Callable[["Work"], str | None]


@dataclass(frozen=True)
class Check:
    """A condition on a new artefact, checked before it replaces the previous one.

    `run` returns what is wrong, or None. A fault of a check that is not `blocking` is shown, but the artefact is used;
    `mog run` repeats it as long as it lasts if it is `repeated`.
    """

    name: str
    description: str
    run: Checker
    blocking: bool = True
    repeated: bool = False


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
        is_result: Whether it is built for its own sake; the rest is built for these, or for searches.
        page: The file of it that people open: a run that built it says where that is.
        measured: Whether it follows documents only when it is time to measure; so does what is made from it.
        steady: Whether the nightly evaluation leaves it as it is, because all that is made from it would change.
        on_demand: Whether it is built only when named explicitly.
        job: Name of a Dagster job that builds all assets that name it; empty for those of the graph's own jobs.
        turn: 0 for what searches by words need, which is built first, 1 for what every search needs, 2 for the rest.
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
    is_result: bool = False
    page: str = ""
    measured: bool = False
    steady: bool = False
    on_demand: bool = False
    job: str = ""
    turn: int = 2
    checks: tuple[Check, ...] = ()
    intact: Callable[[Tools, Artefact], bool] = lambda tools, artefact: True
    version: str = "1"
    kinds: tuple[str, ...] = ("python",)
    pool: str | None = None

    def made_of(self, corpus: str | None, tools: Tools) -> dict[str, str]:
        """Return what decides its content beside its inputs: parts of `fingerprint`, to say which has changed."""
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
        """Return an input artefact; of this partition unless another corpus is named."""
        return self.tools.store.read(key, corpus or self.corpus)

    def made_by(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return what made inputs of the corpora: version of the code, and of vectors the encoder and its precision.

        Rows that are kept from an earlier artefact must have been made from inputs that the same made.
        """
        made_of = {}
        for key in dict.fromkeys(keys):
            for corpus in self.settings.corpora:
                info = self.input(key, corpus).manifest.info
                made_of[label(key, corpus)] = [info["made of"]["code"], info.get("made by")]
        return made_of

    def file(self, name: str, *key: Any) -> tuple[Path, bool]:
        """Return path of a file whose content is determined by `key`, and whether it exists already."""
        # A forced rebuild uses new file names, so that no existing file counts as done.
        repeats = [self.repeats.manifest.created] if self.repeats else []
        return self.draft.file(name, digest(self.recipe.key, self.recipe.version, *key, *repeats))

    @cached_property
    def _comparable(self) -> Artefact | None:
        """The previous artefact, if the same recipe made it with the same settings from earlier inputs."""
        previous = self.draft.previous
        if previous is None or self.repeats:
            return None
        unchanged = previous.manifest.recipe == fingerprint(
            self.recipe, self.corpus, self.tools, previous.manifest.inputs
        )
        return previous if unchanged else None

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

    def write(self, name: str, key: Sequence[Any], write: Callable[[Path], object]) -> Path:
        """Return the path of a file whose content is determined by `key`; `write` writes one that does not exist."""
        path, exists = self.file(name, *key)
        if not exists:
            with self.writing(path) as temporary:
                write(temporary)
        return path

    @contextmanager
    def writing(self, path: Path) -> Iterator[Path]:
        """Yield a path next to `path` to write to, moved into place when complete."""
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


def fingerprint(recipe: Recipe, partition: str | None, tools: Tools, inputs: dict[str, str]) -> str:
    """Return a digest that changes exactly when the recipe would give a different artefact."""
    source = recipe.source(tools.settings, partition)
    return digest(recipe.key, recipe.version, recipe.settings(tools), source, inputs)
