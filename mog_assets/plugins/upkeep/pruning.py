"""Find and remove data in a home that is no longer needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mog_assets import registry
from mog_assets.build.plan import default, graph, stale
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.questions.sets import load_questions
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.errors import MogError
from mog_assets.resources.progress import note
from mog_assets.resources.publishing import unused
from mog_assets.resources.sqlite import connect
from mog_assets.resources.store import Store, label
from mog_assets.resources.vector_cache import text_hash


@dataclass(frozen=True)
class Removable:
    """Data that is no longer needed.

    Attributes:
        what: A one-line description.
        bytes: Bytes that removing it frees, if known in advance.
        remove: Removes it.
    """

    what: str
    bytes: int
    remove: Callable[[], object]


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Hold the lock of the home: no other process writes an artefact meanwhile, and a run that starts waits.

    Raises:
        MogError: another process holds it; the message names it.
    """
    store = Store(settings.home, lock_seconds=0)
    with ExitStack() as locks:
        for recipe in graph(settings).values():
            for corpus in settings.corpora if recipe.partitioned else [None]:
                if store.folder(recipe.key, corpus).is_dir():
                    locks.enter_context(store.lock(recipe.key, corpus))
        yield


def removable(settings: Settings, answers: bool = False) -> list[Removable]:
    """Return data that can be removed without rebuilding anything: call it, and use its result, within `alone`."""
    tools, cache = Tools(settings), settings.home / "cache"
    leftovers = [*_orphans(tools), *_vectors(tools, cache)]
    if answers and (files := _with_logs(cache / "llm.sqlite")):
        leftovers.append(_files(f"answers of language models, {cache / 'llm.sqlite'}", files))
    return leftovers


def _files(what: str, paths: list[Path]) -> Removable:
    def remove() -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    return Removable(what, sum(path.stat().st_size for path in paths), remove)


def _with_logs(path: Path) -> list[Path]:
    """Return a SQLite file and its logs, if they exist."""
    return [p for p in (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "")) if p.is_file()]


def _orphans(tools: Tools) -> Iterator[Removable]:
    """Yield files of artefacts that no manifest names and nobody reads: of earlier versions, or of stopped runs."""
    for recipe in graph(tools.settings).values():
        for corpus in tools.settings.corpora if recipe.partitioned else [None]:
            # Without an artefact the next run continues from them.
            if (artefact := tools.store.sound(recipe.key, corpus)) is not None:
                for path in unused(tools.store, artefact, 0):
                    yield _files(f"unused file {path}", [path])


def _vectors(tools: Tools, cache: Path) -> Iterator[Removable]:
    """Yield caches of encoders that are no longer configured; of the configured one, vectors of removed texts."""
    settings = tools.settings
    named = [settings.encoder]
    for section in registry.SECTIONS.values():
        named += section.encoders(section.of(settings))
    try:
        fingerprints = {Encoder(chosen).fingerprint for chosen in named}
    except MogError:
        # If an encoder cannot be read now, its cache file is unknown, so all are kept.
        fingerprints = None
    for path in sorted(cache.glob("vectors-*.sqlite")):
        if fingerprints is not None and path.stem.removeprefix("vectors-") not in fingerprints:
            yield _files(f"vectors of an encoder that is no longer configured, {path}", _with_logs(path))
    current = cache / f"vectors-{tools.encoder.fingerprint}.sqlite"
    sets = tools.store.sound("questions") if settings.question_sets else None
    recipes = graph(settings)
    unfinished = [place for place in stale(tools, recipes, default(recipes), list(settings.corpora)) if place[1]]
    if current.is_file() and unfinished:
        # A run that was stopped goes on from vectors that no artefact holds yet.
        note(f"vectors of removed texts stay until {label(*unfinished[0])} is built: run `mog run` before `mog prune`")
    elif current.is_file() and (sets is not None or not settings.question_sets):
        # Vectors of chunks lie in artefacts; of the rest, those of the questions of question sets are encoded again.
        files = [sets.path(f"{name}.parquet") for name in settings.question_sets] if sets else []
        questions = [question.question for file in files for question in load_questions(file)]
        try:
            rows, size = _unused(current, questions, remove=False)
        except sqlite3.DatabaseError:
            # The encoder discards a damaged cache when it needs it next.
            return
        if rows:
            what = f"{rows:,} vectors of removed texts, {current}"
            yield Removable(what, size, lambda: _unused(current, questions, remove=True))


def _unused(path: Path, texts: Iterable[str], remove: bool) -> tuple[int, int]:
    """Return number and bytes of the cached vectors of texts other than these; removes them if `remove`."""
    with closing(connect(path)) as cache:
        cache.execute("CREATE TEMP TABLE wanted (key BLOB PRIMARY KEY) WITHOUT ROWID")
        keys = ((text_hash(text),) for text in texts)
        cache.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", keys)
        unused = "FROM vectors WHERE key NOT IN (SELECT key FROM wanted)"
        rows, size = cache.execute(
            f"SELECT count(*), coalesce(sum(length(key) + length(vector)), 0) {unused}"
        ).fetchone()
        if remove:
            cache.execute(f"DELETE {unused}")
            cache.commit()
            cache.execute("VACUUM")
        return rows, size
