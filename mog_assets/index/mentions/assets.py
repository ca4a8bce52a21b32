"""Assets of the mentions stage: `names` and `mentions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.config import Settings
from mog_assets.index.mentions.edges import names_file
from mog_assets.index.mentions.matching import read_names
from mog_assets.index.mentions.names import Name, folded, names_of
from mog_assets.resources.arrays import pairs, unpaired
from mog_assets.resources.files import save_array
from mog_assets.resources.store import Artefact

GROUP = "mentions"
# Files: every name once; of `mentions`, the digests of the names that texts were searched for.
DISTINCT, SEARCHED = "distinct.parquet", "searched.npy"
# A change of what a name is, or of how texts are compared with it, changes these.
_NAMES, _MATCHING = "2", "3"
# Places of each bucket that are read again.
_SAMPLE = 50


def build_names(work: Work) -> None:
    """Write what every document is called."""
    distinct: dict[Name, int] = {}
    bearers: Counter[Name] = Counter()
    rows = []
    with work.progress(len(work.settings.corpora), "corpora read") as advance:
        for corpus in work.settings.corpora:
            names_of_documents = _names_of(work.input("documents", corpus))
            distinct.update(dict.fromkeys((name for _, name in names_of_documents), 0))
            bearers.update({name for _, name in names_of_documents})
            documents = np.array([document for document, _ in names_of_documents], np.int32)
            digests = np.array([name.digest for _, name in names_of_documents], np.uint64)
            table = pa.table({"digest": digests, "document": documents})
            made_of = [documents.tobytes().hex(), digests.tobytes().hex()]
            work.write(names_file(corpus), made_of, partial(pq.write_table, table, compression="zstd"))
            documents_named = sum(1 for _ in dict.fromkeys(document for document, _ in names_of_documents))
            rows.append({"corpus": corpus, "documents with names": documents_named, "names": len(names_of_documents)})
            advance(1)
    ordered = sorted(distinct, key=lambda name: (name.digest, name))
    columns = {
        "name": [name.folded for name in ordered],
        "digest": pa.array([name.digest for name in ordered], pa.uint64()),
        "capitals": pa.array([name.capitals for name in ordered], pa.bool_()),
    }
    work.write(DISTINCT, [ordered], partial(pq.write_table, pa.table(columns), compression="zstd"))
    work.counts |= {"names": len(ordered), "of several documents": sum(1 for count in bearers.values() if count > 1)}
    work.show_table("names", rows)


def _names_of(documents: Artefact) -> list[tuple[int, Name]]:
    """Return position in the corpus and name, for all names of all documents."""
    rows, first = [], 0
    for bucket in documents.names("bucket"):
        table = pq.read_table(documents.path(bucket), columns=["title", "text", "metadata"])
        for row, values in enumerate(zip(*(table[name].to_pylist() for name in table.column_names), strict=True)):
            rows += [(first + row, name) for name in names_of(*values)]
        first += table.num_rows
    return rows


def build_mentions(work: Work) -> None:
    """Find where the texts of a corpus name documents of any corpus.

    Texts that were searched before are searched for new names only.
    """
    documents, stored = work.input("documents"), work.tools.store.read("names")
    names = stored.path(DISTINCT)
    words, digests, capitals = read_names(names)
    work.write(SEARCHED, [stored.manifest.files[DISTINCT]["sha256"]], lambda path: save_array(path, digests))
    before = work.comparable
    added = removed = None
    folder = work.tools.settings.home / "cache"
    count = len(words)
    if before is not None and before.names(SEARCHED):
        searched = np.load(before.path(SEARCHED))
        fresh = ~np.isin(digests, searched)
        count = int(fresh.sum())
        added, removed = folder / f"added-{work.corpus}.parquet", folder / f"removed-{work.corpus}.npy"
        folder.mkdir(parents=True, exist_ok=True)
        chosen = pa.array(fresh)
        with work.writing(added) as temporary:
            columns = {"name": words.filter(chosen), "digest": digests[fresh], "capitals": capitals[fresh]}
            pq.write_table(pa.table(columns), temporary)
        with work.writing(removed) as temporary:
            save_array(temporary, np.setdiff1d(searched, digests))
    jobs, keys = {}, {}
    for bucket in documents.names("bucket"):
        jobs[bucket] = {
            "documents": str(documents.path(bucket)),
            "names": str(names),
            "added": str(added) if added else None,
            "removed": str(removed) if removed else None,
        }
        keys[bucket] = [documents.manifest.files[bucket]["sha256"], stored.manifest.files[DISTINCT]["sha256"]]
    try:
        target = "mog_assets.index.mentions.matching:search_bucket"
        results = work.map(target, jobs, keys, "buckets searched for names", True)
    finally:
        for temporary in filter(None, (added, removed)):
            temporary.unlink(missing_ok=True)
    work.recomputed |= {
        "texts searched for all names": sum(one["searched"] for one in results),
        "names searched for in other texts": count if before is not None else 0,
    }
    _show(work, documents.names("bucket"), words, digests)


def _show(work: Work, buckets: Sequence[str], words: pa.ChunkedArray, digests: np.ndarray) -> None:
    """Show how many texts have names, and the names that most texts have."""
    texts, places, of_name = 0, 0, Counter[int]()
    for bucket in buckets:
        table = pq.read_table(work.draft.path(bucket), columns=["document", "name"])
        document, name = (table[column].to_numpy() for column in table.column_names)
        texts, places = texts + len(np.unique(document)), places + len(name)
        distinct, of = np.unique(name, return_inverse=True)
        _, distinct_names = unpaired(np.unique(pairs(document, of)))
        of_name.update(
            dict(zip(distinct.tolist(), np.bincount(distinct_names, minlength=len(distinct)).tolist(), strict=True))
        )
    # Names are in the order of their digests.
    usual = of_name.most_common(20)
    rows = np.searchsorted(digests, np.array([digest for digest, _ in usual], np.uint64)).tolist()
    most = [{"name": words[row].as_py(), "texts": count} for row, (_, count) in zip(rows, usual, strict=True)]
    work.counts |= {"texts that have names": texts, "places": places}
    work.show_table("names that most texts have", most)


def _places_are_names(work: Work) -> str | None:
    documents, stored = work.input("documents"), work.tools.store.read("names")
    table = pq.read_table(stored.path(DISTINCT), columns=["digest", "name"])
    names = dict(zip(table["digest"].to_pylist(), table["name"].to_pylist(), strict=True))
    for bucket in documents.names("bucket"):
        places = pq.read_table(work.draft.path(bucket))
        if not len(places):
            continue
        texts = pq.read_table(documents.path(bucket), columns=["text"])["text"]
        rows = np.unique(np.linspace(0, len(places) - 1, _SAMPLE).astype(int))
        for place in places.take(rows).to_pylist():
            text = texts[place["document"]].as_py() if place["document"] < len(texts) else ""
            text_there = folded(text[place["start"] : place["end"]])[0].strip()
            if text_there != names.get(place["name"]):
                where = f"{bucket}, document {place['document']}, {place['start']} to {place['end']}"
                return f"{where}: expected the name {names.get(place['name'])!r}, got {text_there!r}"
    return None


PLACES_ARE_NAMES = Check(
    "places_are_names", "A sample of the places where a name stands has that name.", _places_are_names
)


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    return [
        Recipe(
            key="names",
            build=build_names,
            description="What every document is called: its title, abbreviations, headings and aliases.",
            group=GROUP,
            deps=("documents",),
            partitioned=False,
            settings=lambda tools: sorted(tools.settings.corpora),
            version=_NAMES,
            kinds=("parquet",),
        ),
        Recipe(
            key="mentions",
            build=build_mentions,
            description="Where texts name documents of any corpus.",
            group=GROUP,
            deps=("documents", "names"),
            version=_MATCHING,
            checks=(PLACES_ARE_NAMES,),
            kinds=("parquet",),
        ),
    ]
