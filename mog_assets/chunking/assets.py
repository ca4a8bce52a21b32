"""Assets of the chunking stage: `sentence_vectors`, `chunker`, `chunks/level_j`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from mog_assets import tensors
from mog_assets.arrays import save_array
from mog_assets.chunking import checks, learned, plots, text_encoder, training
from mog_assets.chunking.articles import Source, encode_articles, sources, within
from mog_assets.chunking.chunkers import CHUNKERS, takes_vectors
from mog_assets.chunking.chunks import bucket_units
from mog_assets.chunking.cuts import unit_chars
from mog_assets.chunking.encoding import encode_buckets
from mog_assets.chunking.layouts import open_layout
from mog_assets.config import EncoderSettings, Settings
from mog_assets.corpus.documents import READER
from mog_assets.questions.sets import load_questions
from mog_assets.questions.splits import validation_rows
from mog_assets.recipe import Recipe, Work
from mog_assets.resources.encoder import Encoder
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Artefact, digest

GROUP = "chunking"

# Logical name of the weights of the learned chunker.
CHUNKER = "chunker.safetensors"


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


def _own_encoder(settings: Settings) -> Encoder | None:
    """The encoder that is trained with the chunker, if the settings name one."""
    model = settings.chunker.training.encoder
    if model is None:
        return None
    return Encoder(EncoderSettings(model=model, dtype="float32"), setting="chunker.training.encoder")


def _encoder_files(settings: Settings) -> tuple[str, ...]:
    """Logical names of the files of that encoder, besides its weights."""
    return text_encoder.FILES if settings.chunker.training.encoder else ()


def build_chunker(work: Work) -> None:
    """Train the chunker on the training questions with evidence in documents."""
    settings, encoder = work.settings, work.tools.encoder
    options, longest = settings.chunker.training, unit_chars(settings.finest_chars)
    asked = [
        question
        for name, question_set in settings.question_sets.items()
        for question in load_questions(work.input("questions").path(f"{name}.parquet"), question_set.train)
    ]
    documents = {(span.corpus, span.doc) for question in asked for span in question.evidence}
    found = sources(_titles_and_texts(work, documents), asked, longest)
    held = within(found, longest, options.spans)
    if len(held) < 2:
        raise MogError(
            f"chunker.name: 'learned' expects training questions with evidence of at most {longest} characters in at "
            f"least 2 documents, got {len(held)}: add such questions to a train split, or choose another chunker"
        )
    own = _own_encoder(settings)
    read_by = [own.fingerprint] if own else []
    decided_by = [
        learned.VERSION,
        options.model_dump(),
        settings.finest_chars,
        settings.seed,
        encoder.fingerprint,
        *read_by,
    ]
    content = [[vars(source) | {"answers": source.answers.tolist()} for source in held], decided_by]
    files = {name: work.file(name, content) for name in (CHUNKER, "curve.parquet", *_encoder_files(settings))}
    path, curve_path = files[CHUNKER][0], files["curve.parquet"][0]
    if not all(there for _, there in files.values()):
        trained = _train_chunker(work, held, longest, digest(content))
        with work.writing(curve_path) as temporary:
            pd.DataFrame(trained.curve).to_parquet(temporary)
        with work.writing(path) as temporary:
            temporary.write_bytes(learned.stored(trained.scorer))
        for name, text in trained.files.items():
            with work.writing(files[name][0]) as temporary:
                temporary.write_text(text, encoding="utf-8")
        work.recomputed["epochs trained"] = len(trained.curve)
    encoder_files = {name: files[name][0] for name in _encoder_files(settings)}
    scorer, _ = learned.opened(path, encoder_files or None)
    curve = pd.read_parquet(curve_path).to_dict("records")
    best = training.best_epoch(curve)
    answers = sum(len(source.questions) for source in held)
    work.counts |= {
        "documents": len(held),
        "answers": answers,
        "documents beyond chunker.training.spans": len(found) - len(held),
        "best epoch": best,
        "tokens to answer on held-out documents": round(curve[best - 1]["validation_tokens"], 1),
    }
    work.info |= {"encoder": encoder.fingerprint, "device": scorer.facts["device"]}
    work.show_plot("training", plots.chunker_curves(curve, best))
    work.show_table("facts", [{"fact": name, "value": str(value)} for name, value in scorer.facts.items()])


def _train_chunker(work: Work, held: list[Source], longest: int, content: str) -> training.TrainedScorer:
    settings, encoder = work.settings, work.tools.encoder
    options = settings.chunker.training

    def encode(texts: Sequence[str]) -> np.ndarray:
        with work.progress(len(texts), "texts encoded") as advance:
            return encoder.encode(texts, advance)

    own = _own_encoder(settings)
    reads = text_encoder.load(own.source, own.setting) if own else None
    articles = encode_articles(held, longest, encode, reads)
    held_out = validation_rows([article.name for article in articles], options.validation, "chunker")
    # After an interruption, finished epochs are not trained again. The file is deleted when training ends.
    left = settings.home / "cache" / f"chunker-{content}.safetensors"

    def save(state: training.State) -> None:
        left.parent.mkdir(parents=True, exist_ok=True)
        with work.writing(left) as temporary:
            temporary.write_bytes(tensors.encode(state["arrays"], state["facts"]))

    resume = None
    if left.exists():
        # If the file is incomplete or of other training, training starts from the beginning.
        with suppress(ValueError):
            arrays, facts = tensors.decode(left.read_bytes())
            resume = {"arrays": arrays, "facts": facts}
    with work.progress(options.epochs, "epochs trained (at most)") as advance:
        trained = training.train(
            articles, held_out, settings.finest_chars, options, settings.seed, advance, resume, save
        )
    left.unlink(missing_ok=True)
    return trained


def _titles_and_texts(work: Work, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    found = {}
    for corpus in sorted({corpus for corpus, _ in wanted}):
        documents = work.input("documents", corpus)
        for name in documents.names("bucket"):
            table = pq.read_table(documents.path(name), columns=["id", "title", "text"])
            for identity, title, text in zip(*(table[c].to_pylist() for c in ("id", "title", "text")), strict=True):
                if (corpus, identity) in wanted:
                    found[corpus, identity] = (title, text)
    return found


def _texts(documents: Artefact, name: str) -> list[str]:
    """What identifies the texts of a bucket."""
    found: list[str] = pq.read_table(documents.path(name), columns=["sha256"])["sha256"].to_pylist()
    return found


def _chunker_options(settings: Settings) -> dict[str, Any]:
    """Everything that affects the spans besides texts, vectors and weights; unset options are left out."""
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
    if takes_vectors(work.settings.chunker):
        stored = work.input("sentence_vectors")
        for name in names:
            vectors = name.replace(".parquet", ".npy")
            jobs[name]["vectors"] = str(stored.path(vectors))
            keys[name].append(stored.manifest.files[vectors]["sha256"])
    if CHUNKERS[work.settings.chunker.name].trained:
        trained = work.tools.store.read("chunker")
        read_by = _encoder_files(work.settings)
        for file in (CHUNKER, *read_by):
            tensors.read(trained, file, "chunker")
        for name in names:
            jobs[name]["weights"] = str(trained.path(CHUNKER))
            if read_by:
                jobs[name]["encoder"] = {file: str(trained.path(file)) for file in read_by}
            keys[name] += [trained.manifest.files[file]["sha256"] for file in (CHUNKER, *read_by)]
    split = sum(work.map("mog_assets.chunking.chunks:split_bucket", jobs, keys, "buckets split", reuse=True))
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
    path, there = work.file("counts.npy", counts.tolist())
    if not there:
        with work.writing(path) as temporary:
            save_array(temporary, counts.astype(np.int32))
    work.counts |= {
        "chunks": len(lengths),
        "mean characters": round(float(lengths.mean()), 1),
        "longest": int(lengths.max()),
    }
    work.show_plot("length of chunks", plots.length_histogram(lengths, level))


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage."""
    chunker = CHUNKERS[settings.chunker.name]
    found = []
    if takes_vectors(settings.chunker):
        found.append(
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
    if chunker.trained:
        found.append(
            Recipe(
                key="chunker",
                build=build_chunker,
                description="The scorer of the learned chunker, trained on the training questions with evidence.",
                group=GROUP,
                deps=("documents", "questions"),
                partitioned=False,
                settings=lambda tools: [
                    tools.settings.chunker.training.model_dump(),
                    tools.settings.finest_chars,
                    tools.settings.seed,
                    {name: q.train for name, q in tools.settings.question_sets.items()},
                    tools.encoder.identity,
                    *([own.identity] if (own := _own_encoder(tools.settings)) else []),
                ],
                version=learned.VERSION,
                kinds=("pytorch",),
                pool="gpu",
            )
        )
    looked_at = ["sentence_vectors"] * takes_vectors(settings.chunker) + ["chunker"] * chunker.trained
    found.append(
        Recipe(
            key="chunks/level_1",
            build=build_finest,
            description="Level-1 spans from the chunker. Only these chunks are stored.",
            group=GROUP,
            deps=("documents", *looked_at),
            settings=lambda tools: list(_chunker_options(tools.settings).values()),
            checks=(checks.SPANS_TILE,),
            version=READER if chunker.version == "1" else f"{READER}-{chunker.version}",
            kinds=("parquet",),
            pool="gpu" if chunker.trained and settings.chunker.training.encoder else None,
        )
    )
    for level in settings.level_range[1:]:
        found.append(
            Recipe(
                key=f"chunks/level_{level}",
                build=partial(build_coarser, level),
                description=f"Chunks of level {level}: two adjacent chunks of level {level - 1} of the same document.",
                group=GROUP,
                deps=("documents", "chunks/level_1", f"chunks/level_{level - 1}")
                if level > 2
                else ("documents", "chunks/level_1"),
                checks=(checks.halved(level),),
                kinds=("numpy",),
            )
        )
    return found
