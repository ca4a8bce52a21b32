"""Parts of corpora: shards that follow each other, which a process can search without the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.retrieval.corpora import Read

# Files of a bucket, and of a shard.
_OF_BUCKET, _OF_SHARD = re.compile(r"(bucket_\d+)\."), re.compile(r"[a-z]+_(\d+)\.")


@dataclass(frozen=True)
class Part:
    """Shards that follow each other.

    Attributes:
        shards: Their names and those of their buckets, by corpus.
        documents, pieces: Which of those of all corpora, as first and last-plus-one.
    """

    shards: Mapping[str, Mapping[str, Sequence[str]]]
    documents: tuple[int, int]
    pieces: tuple[int, int]

    def reading(self, read: Read) -> Read:
        """Reads artefacts of corpora with the files of this part alone; those of all corpora as they are."""

        def of_part(asset: str, corpus: str | None) -> Any:
            stored = read(asset, corpus)
            if corpus is None:
                return stored
            shards, manifest = self.shards.get(corpus, {}), stored.manifest
            buckets = {name.partition(".")[0] for names in shards.values() for name in names}
            files = {name: entry for name, entry in manifest.files.items() if _is_of(name, buckets, shards)}
            info = manifest.info | ({"shards": dict(shards)} if "shards" in manifest.info else {})
            return replace(stored, manifest=replace(manifest, files=files, info=info))

        return of_part


def _is_of(name: str, buckets: set[str], shards: Mapping[str, Any]) -> bool:
    if bucket := _OF_BUCKET.match(name):
        return bucket[1] in buckets
    shard = _OF_SHARD.match(name)
    return shard is None or shard[1] in shards


def divided(read: Read, names: Sequence[str], most: int) -> list[Part]:
    """Some corpora as at most so many parts of about as many pieces; a shard is of one part.

    Args:
        read: Reads an asset of a corpus.
        names: The corpora.
        most: How many parts.
    """
    shards, documents, pieces = [], [0], [0]
    for name in names:
        texts, spans = read("documents", name), read("chunks/level_1", name)
        for shard, buckets in read("tokens", name).manifest.info["shards"].items():
            shards.append((name, shard, buckets))
            documents.append(documents[-1] + sum(_rows(texts.path(bucket)) for bucket in buckets))
            pieces.append(pieces[-1] + sum(_rows(spans.path(bucket)) for bucket in buckets))
    ends = np.array(pieces)
    # A shard goes to the part that its middle is in.
    middle = (ends[:-1] + ends[1:]) / 2
    number = np.minimum(middle * most // max(pieces[-1], 1), most - 1).astype(int)
    parts = []
    for part in np.unique(number).tolist():
        first, last = np.searchsorted(number, [part, part + 1]).tolist()
        by_corpus: dict[str, dict[str, Sequence[str]]] = {}
        for corpus, shard, buckets in shards[first:last]:
            by_corpus.setdefault(corpus, {})[shard] = buckets
        parts.append(Part(by_corpus, (documents[first], documents[last]), (pieces[first], pieces[last])))
    return parts


def _rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)
