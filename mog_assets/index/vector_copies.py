"""One copy of every vector on disk: in an artefact, or in the encoder's cache if no artefact holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mog_assets.build.recipe import Work
from mog_assets.resources.files import save_array
from mog_assets.resources.store import Artefact, file_digest
from mog_assets.resources.vector_cache import VectorCache, prefixes, text_hashes

# Logical names of the files with the hashes of the texts of a bucket begin with this.
TEXTS = "texts-"


@contextmanager
def one_copy(
    work: Work, keys: Mapping[str, Sequence[Any]], texts: Callable[[str], list[str]], holder: str
) -> Iterator[None]:
    """Encode the buckets of an artefact within this, by `encode_buckets` with the same arguments.

    The hashes of a bucket's texts are stored beside its vectors. Before, the cache receives what the artefact is about
    to lose, and what other artefacts hold of the texts to encode; so a text is encoded once, although a setting changes
    and changes back, or its document moves. Afterwards, the vectors of the artefact are removed from the cache.

    Args:
        work: Of the artefact.
        keys: What determines the texts of each bucket, by logical name of a `.parquet` file.
        texts: The texts of a bucket, in order.
        holder: Key of the asset that holds vectors of texts, with an artefact for each corpus.
    """
    encoder = work.tools.encoder
    wanted, every = [], []
    for name, key in keys.items():
        vectors = name.replace(".parquet", ".npy")
        _, encoded = work.file(vectors, *key, encoder.fingerprint)
        path, listed = work.file(TEXTS + vectors, *key)
        if not listed:
            with work.writing(path) as temporary:
                save_array(temporary, text_hashes(texts(name)))
        every.append(path)
        if not encoded:
            wanted.append(path)
    if encoder.cache is None:
        yield
        return
    if work.draft.previous:
        _save(work, work.draft.previous, encoder.cache)
    cache = VectorCache(encoder.cache, encoder.fingerprint)
    if wanted:
        _borrow(work, cache, _joined(wanted), holder)
    yield
    # The files of the buckets are complete; if this process is killed before their manifest, the next finds them.
    most = encoder.settings.cache_mb << 20
    cache.drop(_joined(every), most)
    if encoder.questions is not encoder:
        VectorCache(encoder.cache, encoder.questions.fingerprint).drop(_joined([]), most)


def _joined(paths: Sequence[Path]) -> np.ndarray:
    return np.concatenate([np.zeros((0, 32), np.uint8), *(np.load(path) for path in paths)])


def _save(work: Work, previous: Artefact, folder: Path) -> None:
    """Put vectors of an artefact that its draft does not keep into the cache."""
    cache = VectorCache(folder, str(previous.manifest.info["encoder"]))
    for name in previous.names(TEXTS):
        vectors = name.removeprefix(TEXTS)
        unchanged = work.draft.files.get(vectors) == previous.manifest.files[vectors]["file"]
        if not unchanged and _sound(previous, name) and _sound(previous, vectors):
            cache.add(np.load(previous.path(name)), np.load(previous.path(vectors), mmap_mode="r"))


def _borrow(work: Work, cache: VectorCache, hashes: np.ndarray, holder: str) -> None:
    """Put vectors of some texts into the cache that artefacts of other corpora hold."""
    hashes = hashes[cache.missing(hashes)]
    for corpus in work.settings.corpora:
        artefact = work.tools.store.find(holder, corpus) if len(hashes) else None
        if artefact is None or artefact.manifest.info.get("encoder") != work.tools.encoder.fingerprint:
            continue
        for name in artefact.names(TEXTS):
            hashes = _borrowed(cache, artefact, name, hashes)


def _borrowed(cache: VectorCache, artefact: Artefact, name: str, hashes: np.ndarray) -> np.ndarray:
    """Put vectors of some texts into the cache that one bucket holds; returns the hashes that are still wanted."""
    vectors = name.removeprefix(TEXTS)
    try:
        available = np.load(artefact.path(name))
        rows = np.flatnonzero(np.isin(prefixes(available), prefixes(hashes)))
        if not len(rows) or not (_sound(artefact, name) and _sound(artefact, vectors)):
            return hashes
        cache.add(available[rows], np.load(artefact.path(vectors), mmap_mode="r")[rows])
    except FileNotFoundError:
        # Another process has just replaced the artefact: its vectors are in the cache, or will be encoded.
        return hashes
    return hashes[~np.isin(prefixes(hashes), prefixes(available))]


def _sound(artefact: Artefact, name: str) -> bool:
    """Return whether a file has the bytes that were stored: damaged ones must not get into other files."""
    return file_digest(artefact.path(name)) == artefact.manifest.files[name]["sha256"]
