"""Sets of artefacts that belong together: what a run publishes when it is done, and what whoever searches opens.

A run replaces one artefact after another; whoever searches must see those of a corpus all old or all new. So a run ends
as a commit does, with a manifest: once the artefacts that searches read were made from each other, their manifests are
written together into one new file, `sets/NUMBER-STATE.json`. The last of these files is what a reader opens, whatever a
run does meanwhile or has left half done. It needs no other file: it holds the manifests in memory.

Files are never written over, and a commit deletes none. What no manifest names any more stays an hour, and as long as a
set names it that is the last one or that somebody reads. Who reads says so by touching the set's file, every
minute as long as the project is open: no lock, no file per reader, nothing to clean up after one that was killed, and
the same on every file system. Opening all files at once would do without even that, but costs what most questions never
need. Who may not write to the home reads, too: it has the hour, and takes over the next set within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.manifest import Manifest, digest, label
from mog_assets.resources.set_files import published, read_set, touch_set, write_set
from mog_assets.resources.store import Artefact, Store

Place = tuple[str, str | None]
"""An asset and a corpus, None for an asset of all corpora."""

_log = logging.getLogger(__name__)


class ArtefactsDisagree(MogError):
    """Artefacts were made from others than there are now: a run is replacing them, or was stopped while it did."""


@dataclass(frozen=True)
class ArtefactSet:
    """Artefacts that were made from each other.

    Attributes:
        artefacts: By asset and corpus.
        path: The file that names them; None if no run has published a set yet, and these are what there is.
    """

    artefacts: dict[Place, Artefact]
    path: Path | None

    @cached_property
    def version(self) -> str:
        """A digest of their content."""
        return digest({label(*place): artefact.manifest.version for place, artefact in self.artefacts.items()})[:12]

    @cached_property
    def encoders(self) -> dict[str, str]:
        """Fingerprints of the encoders that made vectors of chunks, with the name of an artefact of each."""
        # Of several artefacts of an encoder the first is named.
        vectors = [(at, own) for at, own in reversed(self.artefacts.items()) if at[0].startswith("embeddings/")]
        made = {own.manifest.info.get("encoder"): label(*at) for at, own in vectors}
        return {encoder: name for encoder, name in made.items() if encoder}

    def read(self, asset: str, partition: str | None = None) -> Artefact:
        """Return an artefact, as `Store.read`."""
        try:
            return self.artefacts[asset, partition]
        except KeyError:
            raise MissingArtefact(
                f"{label(asset, partition)} has not been materialised for what is searched now: run `mog run`, or "
                f"`mog run --select {asset}` if no configured method needs it"
            ) from None

    def touch(self) -> bool:
        """Say that these are read, so that their files stay; False if it is too late for that: open the set again."""
        return self.path is None or touch_set(self.path)


def open_set(store: Store, required: Iterable[Place], others: Iterable[Place]) -> ArtefactSet:
    """Open the last set that a run has published; what there is where none has, or where it lacks something.

    Raises:
        MissingArtefact: a required one has not been materialised.
        ArtefactsDisagree: the required ones were not made from each other.
    """
    required, others = list(required), list(others)
    if (published_set := _open_published(store, required, others)) is not None:
        return published_set
    for place in required:
        store.read(*place)
    agreeing = _agreeing(store.manifest, required, others)
    artefacts = {place: stored for place, m in agreeing.items() if (stored := store.complete(m)) is not None}
    return ArtefactSet(artefacts, None)


def _open_published(store: Store, required: Sequence[Place], others: Sequence[Place]) -> ArtefactSet | None:
    """Open the last set that can be read; None if there is none, or if it lacks what is required."""
    wanted, paths = {*required, *others}, published(store.home)
    for path in paths:
        try:
            # Before it is read and afterwards: then it stays, with its files.
            if not touch_set(path):
                continue
            manifests = read_set(path)
            if not touch_set(path):
                continue
        except (OSError, ValueError) as error:
            _log.warning("%s cannot be read (%s): the set before it is opened", path, error)
            continue
        named = {(m.asset, m.partition): m for m in manifests if (m.asset, m.partition) in wanted}
        artefacts = {place: stored for place, m in named.items() if (stored := store.complete(m)) is not None}
        return ArtefactSet(artefacts, path) if artefacts.keys() >= set(required) else None
    # A newer one took their place meanwhile.
    return None if published(store.home)[:1] == paths[:1] else _open_published(store, required, others)


def publish(store: Store, required: Iterable[Place], others: Iterable[Place]) -> None:
    """Write the set of the artefacts as they are now, if they were made from each other and are not the last set.

    A corpus that lacks some is not of the set: it is new, and the others go on.
    """
    required = list(required)
    lacking = {corpus for asset, corpus in required if store.manifest(asset, corpus) is None}
    if None in lacking or lacking >= {corpus for _, corpus in required} - {None}:
        return
    required, others = ([place for place in part if place[1] not in lacking] for part in (required, others))
    try:
        manifests = _agreeing(store.manifest, required, others).values()
    except (ArtefactsDisagree, MissingArtefact):
        return
    write_set(store.home, manifests)


def _agreeing(
    find: Callable[[str, str | None], Manifest | None], required: Sequence[Place], others: Iterable[Place]
) -> dict[Place, Manifest]:
    """Return the manifests of artefacts that were made from each other."""
    manifests: dict[Place, Manifest] = {}
    for place in required:
        manifest = find(*place)
        if manifest is None:
            raise MissingArtefact(f"{label(*place)} has not been materialised: run `mog run`")
        manifests[place] = manifest
    versions = {label(*place): manifest.version for place, manifest in manifests.items()}
    for place, manifest in manifests.items():
        if source := _other_source(manifest, versions):
            raise ArtefactsDisagree(
                f"{label(*place)} was made from another version of {source}: a run is replacing them, or was stopped "
                "while it did; wait for it, or run `mog run`"
            )
    for place in others:
        manifest = find(*place)
        if manifest is None:
            continue
        # Models need not be of the same documents: they are trained again when there is time. What else is out of date
        # is not there: it may name pieces that are gone.
        if place[1] is None or not _other_source(manifest, versions):
            manifests[place] = manifest
            versions[label(*place)] = manifest.version
    return manifests


def _other_source(manifest: Manifest, versions: dict[str, str]) -> str | None:
    """Return what an artefact was made from of which there is another version now."""
    return next((source for source, v in manifest.inputs.items() if versions.get(source, v) != v), None)
