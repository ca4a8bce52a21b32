"""Vectors of the texts of buckets, one file per bucket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mog_assets.build.recipe import Work
from mog_assets.resources.arrays import save_array

# Texts that are in memory at a time while a corpus is encoded.
_TEXTS_AT_ONCE = 20_000


def encode_buckets(
    work: Work, keys: dict[str, Any], count: Callable[[str], int], texts: Callable[[str], list[str]]
) -> None:
    """Write an `.npy` file of unit vectors, float16 of shape (texts, size), for every bucket that has none yet.

    Args:
        work: Of the artefact that the files belong to.
        keys: What determines the texts of each bucket, by logical name of a `.parquet` file.
        count: Number of texts of a bucket.
        texts: The texts of a bucket, in order; called only for those that are encoded.
    """
    encoder = work.tools.encoder
    before = encoder.encoded
    wanted = []
    for name, key in keys.items():
        _, exists = work.file(name.replace(".parquet", ".npy"), *key, encoder.fingerprint)
        if not exists:
            wanted.append(name)
    pending: list[tuple[str, list[str]]] = []
    total = sum(map(count, wanted))
    with (
        work.progress(total, "texts encoded") as advance,
        work.tools.engine.encoding(encoder, total),
    ):

        def flush() -> None:
            vectors = encoder.encode([text for _, texts_of in pending for text in texts_of], advance)
            start = 0
            for name, texts_of in pending:
                path = work.draft.path(name.replace(".parquet", ".npy"))
                with work.writing(path) as temporary:
                    save_array(temporary, vectors[start : start + len(texts_of)])
                start += len(texts_of)
            pending.clear()

        for name in wanted:
            pending.append((name, texts(name)))
            if sum(len(held) for _, held in pending) >= _TEXTS_AT_ONCE:
                flush()
        if pending:
            flush()
    work.recomputed["texts encoded"] = encoder.encoded - before
    if wanted:
        work.shown["encoder"] = encoder.model.said
