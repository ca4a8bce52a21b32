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
from mog_assets.resources.vector_cache import VectorCache, text_hashes

# Logical names of the files with the hashes of the texts of a bucket begin with this.
TEXTS = "texts-"


@contextmanager
def one_copy(work: Work, keys: Mapping[str, Sequence[Any]], texts: Callable[[str], list[str]]) -> Iterator[None]:
    """Encode the buckets of an artefact within this, by `encode_buckets` with the same arguments.

    The hashes of a bucket's texts are stored beside its vectors. Before, the cache receives what the artefact is about
    to lose; so a text is encoded once, although a setting changes and changes back. Afterwards, the vectors of the
    artefact are removed from the cache.

    Args:
        work: Of the artefact.
        keys: What determines the texts of each bucket, by logical name of a `.parquet` file.
        texts: The texts of a bucket, in order.
    """
    encoder = work.tools.encoder
    every = []
    for name, key in keys.items():
        vectors = name.replace(".parquet", ".npy")
        # Which of the previous ones stay.
        work.file(vectors, *key, encoder.fingerprint)
        path, listed = work.file(TEXTS + vectors, *key)
        if not listed:
            with work.writing(path) as temporary:
                save_array(temporary, text_hashes(texts(name)))
        every.append(path)
    if encoder.cache is None:
        yield
        return
    if work.draft.previous:
        _save(work, work.draft.previous, encoder.cache)
    yield
    # The files of the buckets are complete; if this process is killed before their manifest, the next finds them.
    most = encoder.settings.cache_mb << 20
    VectorCache(encoder.cache, encoder.fingerprint).drop(_joined(every), most)
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


def _sound(artefact: Artefact, name: str) -> bool:
    """Return whether a file has the bytes that were stored: damaged ones must not get into other files."""
    return file_digest(artefact.path(name)) == artefact.manifest.files[name]["sha256"]
