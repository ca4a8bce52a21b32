"""Assets of the corpus stage: `documents`, `chunks/level_j`, `questions`."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from mog_assets import tensors
from mog_assets.arrays import save_array
from mog_assets.config import EncoderSettings, Settings
from mog_assets.corpus import checks, chunker_training, learned, plots, text_encoder
from mog_assets.corpus.chunkers import CHUNKERS, takes_vectors, unit_chars
from mog_assets.corpus.chunks import bucket_units
from mog_assets.corpus.documents import (
    READER,
    Document,
    into_buckets,
    load_documents,
    read_corpus,
    write_documents,
    write_quarantine,
)
from mog_assets.corpus.folders import source_state
from mog_assets.corpus.layouts import GRANULARITY, levels_of, open_layout
from mog_assets.corpus.memory import load_memory
from mog_assets.corpus.questions import (
    KnownDocument,
    QuestionReading,
    load_questions,
    read_questions,
    sharing_evidence,
    split_counts,
    validation_rows,
    write_questions,
)
from mog_assets.errors import MissingArtefact, MogError
from resources.encoder import Encoder
from resources.encoding import encode_buckets
from resources.recipe import Recipe, Tools, Work
from resources.store import Artefact, Store, digest

GROUP = "corpus"
# Logical name of the weights of the learned chunker.
CHUNKER = "chunker.safetensors"
# What the asset `granularity` has chosen: `finest_chars` and `levels` by corpus.
CHOICE = "choice.json"
# Alone in the artefact of a level that is an alias: `level` says of which.
ALIAS = "same_as.json"
# What is read also follows from these.
_LIBRARIES = [unicodedata.unidata_version, *map(version, ("beautifulsoup4", "charset-normalizer"))]


def _source(settings: Settings, corpus: str | None) -> object:
    assert corpus is not None
    source = settings.corpora[corpus]
    return [source_state(source.path, source.max_document_bytes), source.max_document_bytes]


def build_documents(work: Work) -> None:
    """Read, normalise and bucket the documents of a corpus, those that have not changed from the previous artefact."""
    assert work.corpus is not None
    source = work.settings.corpora[work.corpus]
    remembered = work.settings.home / "cache" / f"reading-{work.corpus}.parquet"
    signature = digest(READER, source.max_document_bytes, *_LIBRARIES)
    memory = load_memory(remembered, signature)
    while True:
        reading = read_corpus(source.path, source.max_document_bytes, memory)
        work.draft.files.clear()
        wanted = {}
        for bucket, outcomes in into_buckets(reading.used, work.settings.buckets).items():
            name = f"bucket_{bucket:04d}.parquet"
            path, there = work.file(name, [outcome.digest for outcome in outcomes])
            if not there:
                wanted[name] = path, outcomes
        documents = {**_previous_documents(work, wanted), **reading.normalised}
        lost = {o.digest for _, outcomes in wanted.values() for o in outcomes} - documents.keys()
        if not lost:
            break
        # Known, but in no artefact: it was interrupted, damaged, or another document had the same id.
        memory.forget(lost)
    for path, outcomes in wanted.values():
        with work.writing(path) as temporary:
            write_documents([documents[outcome.digest] for outcome in outcomes], temporary)
    path, there = work.file("quarantine.parquet", [vars(q) for q in reading.quarantined])
    if not there:
        with work.writing(path) as temporary:
            write_quarantine(reading.quarantined, temporary)
    remembered.parent.mkdir(parents=True, exist_ok=True)
    with work.writing(remembered) as temporary:
        reading.journal.write(temporary, signature)
    work.counts |= {
        "documents": len(reading.used),
        "characters": sum(outcome.characters for outcome in reading.used),
        "text bytes": sum(outcome.bytes for outcome in reading.used),
        "quarantined": len(reading.quarantined),
    }
    read = sum(outcome.digest in reading.normalised for outcome in reading.used)
    work.recomputed |= {"documents read": read, "documents skipped": len(reading.used) - read}
    first = next(name for name in work.draft.files if name.startswith("bucket"))
    sample = pq.read_table(work.draft.path(first), columns=["id", "title", "characters", "text"])[:5]
    work.show_table("sample", sample.to_pylist())
    work.show_table("quarantine", [vars(q) for q in reading.quarantined[:20]])


def _previous_documents(work: Work, names: Iterable[str]) -> dict[str, Document]:
    previous = work.draft.previous
    found: dict[str, Document] = {}
    for name in names:
        if previous is not None and name in previous.manifest.files:
            found |= load_documents(previous.path(name))
    return found


def build_sentence_vectors(work: Work) -> None:
    """Encode the units of every document, for the chunker."""
    documents, finest_chars = work.input("documents"), _finest(work)
    names = documents.names("bucket")
    keys = {name: [_texts(documents, name), unit_chars(finest_chars)] for name in names}

    def texts(name: str) -> list[str]:
        return bucket_units(documents.path(name), finest_chars)

    encode_buckets(work, keys, lambda name: len(texts(name)), texts)
    shapes = [np.load(work.draft.path(n), mmap_mode="r").shape for n in sorted(work.draft.files)]
    work.counts |= {"vectors": sum(rows for rows, _ in shapes), "size": shapes[0][1]}
    work.info["encoder"] = work.tools.encoder.fingerprint


def _own_encoder(settings: Settings) -> Encoder | None:
    """The encoder that is trained with the chunker, where the settings name one."""
    model = settings.chunker.training.encoder
    if model is None:
        return None
    return Encoder(EncoderSettings(model=model, dtype="float32"), setting="chunker.training.encoder")


def _encoder_files(settings: Settings) -> tuple[str, ...]:
    """Logical names of the files of that encoder, besides its weights."""
    return text_encoder.FILES if settings.chunker.training.encoder else ()


def build_chunker(work: Work) -> None:
    """Train the chunker on the training questions whose answers stand in documents."""
    settings, encoder = work.settings, work.tools.encoder
    training, longest = settings.chunker.training, unit_chars(settings.finest_chars)
    asked = [
        question
        for name, question_set in settings.question_sets.items()
        for question in load_questions(work.input("questions").path(f"{name}.parquet"), question_set.train)
    ]
    documents = {(span.corpus, span.doc) for question in asked for span in question.evidence}
    found = chunker_training.sources(_titles_and_texts(work, documents), asked, longest)
    held = chunker_training.within(found, longest, training.spans)
    if len(held) < 2:
        raise MogError(
            f"chunker.name: 'learned' expects training questions with evidence of at most {longest} characters in at "
            f"least 2 documents, got {len(held)}: add such questions to a train split, or name another chunker"
        )
    own = _own_encoder(settings)
    read_by = [own.fingerprint] if own else []
    options = [
        learned.VERSION,
        training.model_dump(),
        settings.finest_chars,
        settings.seed,
        encoder.fingerprint,
        *read_by,
    ]
    content = [[vars(source) | {"answers": source.answers.tolist()} for source in held], options]
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
    best = chunker_training.best_epoch(curve)
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


def _train_chunker(
    work: Work, held: list[chunker_training.Source], longest: int, content: str
) -> chunker_training.Trained:
    settings, encoder = work.settings, work.tools.encoder
    training = settings.chunker.training

    def encode(texts: Sequence[str]) -> np.ndarray:
        with work.progress(len(texts), "texts encoded") as advance:
            return encoder.encode(texts, advance)

    own = _own_encoder(settings)
    reads = text_encoder.load(own.source, own.setting) if own else None
    articles = chunker_training.articles(held, longest, encode, reads)
    held_out = validation_rows([article.name for article in articles], training.validation, "chunker")
    # An epoch that was learned is not learned again: what training leaves here goes when it is over.
    left = settings.home / "cache" / f"chunker-{content}.safetensors"

    def save(state: chunker_training.State) -> None:
        left.parent.mkdir(parents=True, exist_ok=True)
        with work.writing(left) as temporary:
            temporary.write_bytes(tensors.encode(state["arrays"], state["facts"]))

    resume = None
    if left.exists():
        # Half of a file, or another's, is no reason to fail: training begins anew.
        with suppress(ValueError):
            arrays, facts = tensors.decode(left.read_bytes())
            resume = {"arrays": arrays, "facts": facts}
    with work.progress(training.epochs, "epochs trained (at most)") as advance:
        trained = chunker_training.train(
            articles, held_out, settings.finest_chars, training, settings.seed, advance, resume, save
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
    """What tells the texts of a bucket."""
    found: list[str] = pq.read_table(documents.path(name), columns=["sha256"])["sha256"].to_pylist()
    return found


def _finest(work: Work) -> int:
    """The finest size of the corpus, in characters."""
    return _granularity(work).get("finest_chars", work.settings.finest_chars)


def _chunker_options(settings: Settings, finest_chars: int | str) -> dict[str, Any]:
    """All that decides the spans besides the texts, their vectors and weights; what is not set is not there."""
    chunker = settings.chunker
    tokens = {} if chunker.tokens is None else {"tokens": chunker.tokens}
    return {"chunker": chunker.name, "finest_chars": finest_chars, **tokens}


def build_finest(work: Work) -> None:
    """Split the documents of every bucket into level-1 spans; with `levels: auto` of the finest size of the corpus."""
    documents = work.input("documents")
    names = documents.names("bucket")
    chosen = _granularity(work)
    options = _chunker_options(work.settings, _finest(work))
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
    split = sum(work.map("mog_assets.corpus.chunks:split_bucket", jobs, keys, "buckets split", reuse=True))
    total = sum(len(bucket) for bucket in texts.values())
    work.recomputed |= {"documents split": split, "documents skipped": total - split}
    counts, lengths = [], []
    for name in names:
        table = pq.read_table(work.draft.path(name))
        counts.append(np.bincount(table["document"].to_numpy(), minlength=len(texts[name])))
        lengths.append(table["end"].to_numpy() - table["start"].to_numpy())
    if chosen:
        work.counts |= {"finest characters": chosen["finest_chars"], "levels": chosen["levels"]}
        _write_json(work, GRANULARITY, chosen)
    _finish_level(work, 1, np.concatenate(counts), np.concatenate(lengths))


def _granularity(work: Work) -> dict[str, int]:
    """Finest size and number of levels that were chosen for the corpus; empty where the settings name them."""
    if work.settings.levels != "auto":
        return {}
    chosen: dict[str, dict[str, int]] = json.loads(
        work.tools.store.read("granularity").path(CHOICE).read_text(encoding="utf-8")
    )
    if str(work.corpus) not in chosen:
        raise MissingArtefact(
            f"granularity was chosen for {', '.join(chosen)}, not yet for {work.corpus}: materialise it first, or run "
            "`mog run`"
        )
    return chosen[str(work.corpus)]


def _write_json(work: Work, name: str, value: Any) -> None:
    path, there = work.file(name, value)
    if not there:
        with work.writing(path) as temporary:
            temporary.write_text(json.dumps(value), encoding="utf-8")


def of_level(build: Callable[[int, Work], None], level: int, nothing: str) -> Callable[[Work], None]:
    """What builds the artefact of a level: `build`, unless the corpus has fewer levels.

    The level is then an alias of the coarsest one, of which the artefact says no more than the number, so that nothing
    is stored twice.

    Args:
        build: Given level and work.
        level: The level.
        nothing: The count of the artefact that is 0 for an alias.
    """

    def build_stored(work: Work) -> None:
        coarsest = levels_of(work.input("chunks/level_1"))
        if level <= coarsest:
            build(level, work)
            return
        _write_json(work, ALIAS, {"level": coarsest})
        work.counts[nothing] = 0
        work.shown["alias"] = f"of level {coarsest}, the coarsest of corpus {work.corpus}"

    return build_stored


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


def build_questions(work: Work) -> None:
    """Read the question sets, check their evidence against the documents, and keep training apart from test."""
    sets = work.settings.question_sets
    readings = {name: _read_question_set(work, name) for name in sets}
    tested = [q for name, reading in readings.items() for q in reading.questions if q.split in sets[name].test]
    problems = []
    for name, reading in readings.items():
        trained_on = [q for q in reading.questions if q.split in sets[name].train]
        shared = {q.id for q in sharing_evidence(trained_on, tested)}
        reading.questions = [q for q in reading.questions if q.id not in shared]
        reason = "training question with evidence of a test question: what is trained on is never scored"
        reading.problems += [
            {"place": sets[name].path.name, "id": identity, "reason": reason} for identity in sorted(shared)
        ]
        path, there = work.file(f"{name}.parquet", [repr(q) for q in reading.questions])
        if not there:
            with work.writing(path) as temporary:
                write_questions(reading.questions, temporary)
        problems += [{"question set": name, **problem} for problem in reading.problems]
        work.counts |= {
            f"{name}: questions": len(reading.questions),
            f"{name}: passed over": len(reading.problems),
            f"{name}: with evidence of test questions": len(shared),
            f"{name}: evidence in other corpora": reading.elsewhere,
        }
        work.counts |= {f"{name}: {split}": n for split, n in split_counts(reading.questions).items()}
        kinds = Counter(q.kind for q in reading.questions).most_common(20)
        work.show_table(f"{name}: kinds", [{"kind": kind, "questions": n} for kind, n in kinds])
        sample = [{"question": q.question, "kind": q.kind, "split": q.split} for q in reading.questions[:5]]
        work.show_table(f"{name}: sample", sample)
    work.recomputed["questions read"] = sum(n for name, n in work.counts.items() if name.endswith(": questions"))
    work.show_table("passed over", problems[:20])
    work.info["problems"] = problems[:1000]


def _read_question_set(work: Work, name: str) -> QuestionReading:
    """The questions of the kinds that are wanted."""
    question_set = work.settings.question_sets[name]
    known = {corpus: _known_documents(work, corpus) for corpus in question_set.corpora}
    reading = read_questions(question_set.path, known)
    if question_set.kinds is not None:
        kept = [q for q in reading.questions if q.kind in question_set.kinds]
        if not kept:
            known_kinds = ", ".join(sorted({q.kind for q in reading.questions}))
            raise MogError(
                f"question_sets.{name}.kinds: expected kinds of its questions ({known_kinds}), "
                f"got {', '.join(question_set.kinds)}"
            )
        reading.questions = kept
    return reading


def _known_documents(work: Work, corpus: str) -> dict[str, KnownDocument]:
    documents = work.input("documents", corpus)
    known = {}
    for name in documents.names("bucket"):
        table = pq.read_table(documents.path(name), columns=["id", "characters", "shifts"])
        columns = (table[column].to_pylist() for column in ("id", "characters", "shifts"))
        known.update({i: KnownDocument(characters, shifts) for i, characters, shifts in zip(*columns, strict=True)})
    return known


def _question_sources(settings: Settings, _: str | None) -> object:
    def state(path: Path) -> object:
        return [path.stat().st_size, path.stat().st_mtime_ns] if path.exists() else None

    return {name: state(q.path) for name, q in settings.question_sets.items()}


def leftovers(store: Store, corpora: Iterable[str]) -> dict[str, list[str]]:
    """What the store holds of corpora that are not among `corpora`: keys of assets by corpus, whole or not."""
    found: dict[str, list[str]] = {}
    root = store.folder("")
    # An asset's key has one part or two.
    for folder in sorted([*root.glob("*/corpus/*"), *root.glob("*/*/corpus/*")]):
        found.setdefault(folder.name, []).append(folder.parent.parent.relative_to(root).as_posix())
    return {corpus: assets for corpus, assets in found.items() if corpus not in set(corpora)}


def build_registry(work: Work) -> None:
    """Write down which corpora there are, and remove all that is held of others."""
    store, corpora = work.tools.store, sorted(work.settings.corpora)
    gone = leftovers(store, corpora)
    artefacts = points = 0
    for corpus, assets in gone.items():
        # Points first: as long as an artefact is there, an interrupted removal is known to be unfinished.
        points += sum(_remove_points(work, asset, corpus) for asset in assets if asset.startswith("collections/"))
        for asset in assets:
            with store.lock(asset, corpus):
                store.remove(asset, corpus)
        (work.settings.home / "cache" / f"reading-{corpus}.parquet").unlink(missing_ok=True)
        artefacts += len(assets)
    _write_json(work, "corpora.json", corpora)
    work.counts["corpora"] = len(corpora)
    work.recomputed |= {"corpora removed": len(gone), "artefacts removed": artefacts, "points deleted": points}
    work.show_table("corpora", [{"corpus": c, "path": str(work.settings.corpora[c].path)} for c in corpora])
    work.show_table("removed", [{"corpus": c, "artefacts": len(assets)} for c, assets in gone.items()])


def _remove_points(work: Work, asset: str, corpus: str) -> int:
    store, level = work.tools.store, asset.rsplit("_", 1)[1]
    # An interrupted first upsert leaves points and no manifest of theirs: vectors, of whichever corpus, tell the size.
    known = (store.find(f"embeddings/level_{level}", c) for c in (corpus, *work.settings.corpora))
    # Aliases of coarsest levels hold none.
    sizes = (vectors.manifest.counts.get("size") for vectors in known if vectors is not None)
    size = next((int(size) for size in sizes if size is not None), None)
    if size is None:
        return 0
    with work.tools.qdrant.open(f"level_{level}", size) as collection:
        held = sorted(collection.ids(corpus))
        collection.delete(held)
    return len(held)


def _size(tools: Tools) -> int | str:
    """The finest size, as far as settings name it."""
    return "auto" if tools.settings.levels == "auto" else tools.settings.finest_chars


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage."""
    found = [
        Recipe(
            key="corpus_registry",
            build=build_registry,
            description="The corpora of mog.yaml. Building it removes what is held of any other corpus.",
            group=GROUP,
            partitioned=False,
            source=lambda settings, _: sorted(settings.corpora),
            outside="configured_corpora",
            intact=lambda tools, _: not leftovers(tools.store, tools.settings.corpora),
            kinds=("json",),
        ),
        Recipe(
            key="documents",
            build=build_documents,
            description="Documents of a corpus, normalised, in buckets; what could not be used, and why.",
            group=GROUP,
            settings=lambda tools: tools.settings.buckets,
            source=_source,
            outside="sources",
            version=READER,
            kinds=("parquet",),
        ),
    ]
    chunker = CHUNKERS[settings.chunker.name]
    by_choice = ["granularity"] if settings.levels == "auto" else []
    if takes_vectors(settings.chunker):
        found.append(
            Recipe(
                key="sentence_vectors",
                build=build_sentence_vectors,
                description="Unit vectors of the sentences of every document, which the chunker looks at.",
                group=GROUP,
                deps=("documents", *by_choice),
                settings=lambda tools: [_size(tools), tools.encoder.identity],
                kinds=("pytorch",),
                pool="gpu",
            )
        )
    if chunker.trained:
        found.append(
            Recipe(
                key="chunker",
                build=build_chunker,
                description="The scorer of the learned chunker, trained on training questions with evidence.",
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
            description="Level-1 spans, as the chunker cuts them. The only chunks that are stored.",
            group=GROUP,
            deps=("documents", *looked_at, *by_choice),
            settings=lambda tools: list(_chunker_options(tools.settings, _size(tools)).values()),
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
                build=of_level(build_coarser, level, "chunks"),
                description=f"Chunks of level {level}: two adjacent chunks of level {level - 1} of the same document.",
                group=GROUP,
                deps=("documents", "chunks/level_1", f"chunks/level_{level - 1}")
                if level > 2
                else ("documents", "chunks/level_1"),
                checks=(checks.halved(level),),
                kinds=("numpy",),
            )
        )
    if settings.question_sets:
        found.append(
            Recipe(
                key="questions",
                build=build_questions,
                description="Question sets with their gold evidence, checked against the documents.",
                group=GROUP,
                deps=("documents",),
                partitioned=False,
                settings=lambda tools: {
                    name: [q.path.name, q.corpora, q.kinds, q.train, q.test]
                    for name, q in tools.settings.question_sets.items()
                },
                source=_question_sources,
                outside="question_files",
                version="3",
                kinds=("parquet",),
            )
        )
    return found
