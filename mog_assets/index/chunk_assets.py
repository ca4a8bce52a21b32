"""Assets of the chunking stage: `sentence_vectors`, `chunks/level_j`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mog_assets.build.plots import new_figure, png
from mog_assets.build.recipe import Check, Recipe, Work
from mog_assets.config import Settings
from mog_assets.documents.documents import READER
from mog_assets.index.encoding import encode_buckets
from mog_assets.index.layouts import open_layout
from mog_assets.resources import tensors
from mog_assets.resources.files import save_array
from mog_assets.resources.store import Artefact
from mog_assets.text.chunkers import CHUNKERS, WEIGHTS, bucket_units
from mog_assets.text.cuts import unit_chars


def length_histogram(lengths: np.ndarray, level: int) -> bytes:
    """Return histogram of chunk lengths in characters, as PNG."""
    # One for every level of every corpus: with fixed margins it is drawn only once.
    figure = new_figure(5, 2.4, layout=None)
    axes = figure.add_axes((0.14, 0.21, 0.83, 0.67))
    axes.hist(lengths, bins=40, color="#4c72b0")
    axes.set_xlabel("characters")
    axes.set_ylabel("chunks")
    axes.set_title(f"Length of {len(lengths):,} chunks of level {level}")
    return png(figure)


def _spans_tile(work: Work) -> str | None:
    documents = work.input("documents")
    for name in documents.names("bucket"):
        lengths = pq.read_table(documents.path(name), columns=["characters"])["characters"].to_numpy()
        table = pq.read_table(work.draft.path(name))
        document, start, end = (table[column].to_numpy() for column in ("document", "start", "end"))
        first = np.concatenate([[True], document[1:] != document[:-1]])
        last = np.concatenate([first[1:], [True]])
        touches = np.where(first, start == 0, start == np.concatenate([[0], end[:-1]]))
        closes = ~last | (end == lengths[document])
        if not (touches.all() and closes.all() and (start < end).all() and len(np.unique(document)) == len(lengths)):
            row = int(np.argmin(touches & closes & (start < end)))
            return f"spans of {name} do not tile their documents, first at row {row}"
    return None


SPANS_TILE = Check(
    "spans_tile", "The spans of every document start at 0, are adjacent, and end at its end.", _spans_tile
)


def halved(level: int) -> Check:
    """Check that level j has ⌈n/2⌉ of the n chunks of level j − 1, in every document."""

    def run(work: Work) -> str | None:
        below = np.load(work.input(f"chunks/level_{level - 1}").path("counts.npy")).astype(np.int64)
        here = np.load(work.draft.path("counts.npy"))
        layout = open_layout(str(work.corpus), work.input("documents"), work.input("chunks/level_1"))
        counted = np.diff(layout.level_offsets(level))
        # ⌈n/2⌉ computed in another way than in the build, and compared with the layout that every reader uses.
        if not (np.array_equal(here, np.ceil(below / 2)) and np.array_equal(here, counted)):
            return f"level {level} does not have half of the chunks of level {level - 1} in every document"
        return None

    return Check("halves_level_below", f"Every document has ⌈n/2⌉ of its n chunks of level {level - 1}.", run)


GROUP = "chunking"


def build_sentence_vectors(work: Work) -> None:
    """Encode the units of every document, for the chunker."""
    documents, finest_chars = work.input("documents"), work.settings.finest_chars
    names = documents.names("bucket")
    keys = {name: [_texts(documents, name), unit_chars(finest_chars)] for name in names}

    def texts(name: str) -> list[str]:
        return bucket_units(documents.path(name), finest_chars)

    encode_buckets(work, keys, lambda name: len(texts(name)), texts)
    shapes = [np.load(work.draft.path(n), mmap_mode="r").shape for n in sorted(work.draft.files)]
    work.counts |= {"vectors": sum(rows for rows, _ in shapes), "size": shapes[0][1]}
    work.info["encoder"] = work.tools.encoder.fingerprint


def _texts(documents: Artefact, name: str) -> list[str]:
    """Return what identifies the texts of a bucket."""
    digests: list[str] = pq.read_table(documents.path(name), columns=["sha256"])["sha256"].to_pylist()
    return digests


def _chunker_options(settings: Settings) -> dict[str, Any]:
    """Return everything that affects the spans besides texts, vectors and weights; unset options are left out."""
    chunker = settings.chunker
    tokens = {} if chunker.tokens is None else {"tokens": chunker.tokens}
    return {"chunker": chunker.name, "finest_chars": settings.finest_chars, **tokens}


def build_finest(work: Work) -> None:
    """Split the documents of every bucket into level-1 spans."""
    documents = work.input("documents")
    names = documents.names("bucket")
    options = _chunker_options(work.settings)
    texts = {name: _texts(documents, name) for name in names}
    jobs = {name: {"documents": str(documents.path(name)), **options} for name in names}
    keys: dict[str, list[Any]] = {name: [texts[name], options] for name in names}
    chunker = CHUNKERS[work.settings.chunker.name]
    if chunker.sentence_vectors:
        stored = work.input("sentence_vectors")
        for name in names:
            vectors = name.replace(".parquet", ".npy")
            jobs[name]["vectors"] = str(stored.path(vectors))
            keys[name].append(stored.manifest.files[vectors]["sha256"])
    if chunker.trained:
        trained = work.tools.store.read("chunker")
        tensors.read(trained, WEIGHTS, "chunker")
        for name in names:
            jobs[name]["weights"] = str(trained.path(WEIGHTS))
            keys[name].append(trained.manifest.files[WEIGHTS]["sha256"])
    split = sum(work.map("mog_assets.text.chunkers:split_bucket", jobs, keys, "buckets split", reuse=True))
    total = sum(len(bucket) for bucket in texts.values())
    work.recomputed |= {"documents split": split, "documents unchanged": total - split}
    counts, lengths = [], []
    for name in names:
        table = pq.read_table(work.draft.path(name))
        counts.append(np.bincount(table["document"].to_numpy(), minlength=len(texts[name])))
        lengths.append(table["end"].to_numpy() - table["start"].to_numpy())
    _finish_level(work, 1, np.concatenate(counts), np.concatenate(lengths))


def build_coarser(level: int, work: Work) -> None:
    """Pair the chunks of the level below within every document."""
    layout = open_layout(str(work.corpus), work.input("documents"), work.input("chunks/level_1"))
    below = np.load(work.input(f"chunks/level_{level - 1}").path("counts.npy"))
    counts = (below + 1) // 2
    _, start, end = layout.chunk_spans(np.arange(int(counts.sum())), level)
    _finish_level(work, level, counts, end - start)


def _finish_level(work: Work, level: int, counts: np.ndarray, lengths: np.ndarray) -> None:
    work.write("counts.npy", [counts.tolist()], lambda path: save_array(path, counts.astype(np.int32)))
    work.counts |= {
        "chunks": len(lengths),
        "mean characters": round(float(lengths.mean()), 1),
        "longest": int(lengths.max()),
    }
    work.show_plot("length of chunks", length_histogram(lengths, level))


def recipes(settings: Settings) -> list[Recipe]:
    """Return the recipes of this stage."""
    chunker = CHUNKERS[settings.chunker.name]
    recipes_of = []
    if chunker.sentence_vectors:
        recipes_of.append(
            Recipe(
                key="sentence_vectors",
                build=build_sentence_vectors,
                description="Unit vectors of the sentences of every document, as input of the chunker.",
                group=GROUP,
                deps=("documents",),
                settings=lambda tools: [tools.settings.finest_chars, tools.encoder.identity],
                kinds=("pytorch",),
                pool="gpu",
            )
        )
    looked_at = ["sentence_vectors"] * chunker.sentence_vectors + ["chunker"] * chunker.trained
    recipes_of.append(
        Recipe(
            key="chunks/level_1",
            build=build_finest,
            description="Level-1 spans from the chunker. Only these chunks are stored.",
            group=GROUP,
            deps=("documents", *looked_at),
            settings=lambda tools: [*_chunker_options(tools.settings).values()],
            checks=(SPANS_TILE,),
            version=READER if chunker.version == "1" else f"{READER}-{chunker.version}",
            kinds=("parquet",),
        )
    )
    for level in settings.level_range[1:]:
        recipes_of.append(
            Recipe(
                key=f"chunks/level_{level}",
                build=partial(build_coarser, level),
                description=f"Chunks of level {level}: two adjacent chunks of level {level - 1} of the same document.",
                group=GROUP,
                deps=("documents", "chunks/level_1", f"chunks/level_{level - 1}")
                if level > 2
                else ("documents", "chunks/level_1"),
                checks=(halved(level),),
                kinds=("numpy",),
            )
        )
    return recipes_of
