"""Sets of artefacts that belong together, as who searches opens them: see `publishing`.

The last set that a run has published is opened, whatever a run does meanwhile or has left half done. It needs no other
file: it holds the manifests in memory. Its files stay as long as its own file is touched, every minute as long as the
project is open. Opening all files at once would do without even that, but costs what most questions never need. Who may
not write to the home reads, too: it has the hour, and takes over the next set within seconds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mog_assets.resources.errors import MissingArtefact
from mog_assets.resources.manifest import Manifest, digest, label
from mog_assets.resources.publishing import Place, agreeing, published, read_set
from mog_assets.resources.store import Artefact, Store

TOUCH = 60.0
"""Seconds between two touches of a set that is read."""

_log = logging.getLogger(__name__)


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
        names = {own.manifest.info.get("encoder"): label(*at) for at, own in vectors}
        return {encoder: name for encoder, name in names.items() if encoder}

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
    return ArtefactSet(_complete(store, agreeing(store.manifest, required, others).values()), None)


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
        artefacts = _complete(store, (m for m in manifests if (m.asset, m.partition) in wanted))
        return ArtefactSet(artefacts, path) if artefacts.keys() >= set(required) else None
    # A newer one took their place meanwhile.
    return None if published(store.home)[:1] == paths[:1] else _open_published(store, required, others)


def _complete(store: Store, manifests: Iterable[Manifest]) -> dict[Place, Artefact]:
    """Return the artefacts of manifests, without those that lack a file."""
    stored = ((m.asset, m.partition, store.complete(m)) for m in manifests)
    return {(asset, partition): artefact for asset, partition, artefact in stored if artefact is not None}


def touch_set(path: Path) -> bool:
    """Say that a set is read, so that its files stay; False if it is gone."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        _log.debug("%s cannot be touched (%s): what is read stays for an hour", path, error)
    return True
