"""The asset `chunker`: the trained scorer of the chunker `learned`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from mog_assets.build.recipe import Recipe, Work
from mog_assets.config import Settings
from mog_assets.papers.learned_chunking import learned, training
from mog_assets.papers.learned_chunking.articles import ArticleSource, encode_articles, sources, within
from mog_assets.papers.learned_chunking.settings import CHUNKER
from mog_assets.papers.mix_of_granularity.validation import validation_rows
from mog_assets.questions.sets import load_questions
from mog_assets.resources.errors import MogError
from mog_assets.text.chunkers import CHUNKERS, WEIGHTS
from mog_assets.text.cuts import unit_chars


def build_chunker(work: Work) -> None:
    """Train the chunker on the training questions with evidence in documents."""
    settings, encoder = work.settings, work.tools.encoder
    options, longest = CHUNKER.of(settings).training, unit_chars(settings.finest_chars)
    questions = [
        question
        for name, question_set in settings.question_sets.items()
        for question in load_questions(work.input("questions").path(f"{name}.parquet"), question_set.train)
    ]
    documents = {(span.corpus, span.doc) for question in questions for span in question.evidence}
    all_sources = sources(_titles_and_texts(work, documents), questions, longest)
    used_sources = within(all_sources, longest, options.spans)
    if len(used_sources) < 2:
        raise MogError(
            f"chunker.name: 'learned' expects training questions with evidence of at most {longest} characters in at "
            f"least 2 documents, got {len(used_sources)}: add such questions to a train split, or choose another "
            "chunker"
        )
    decided_by = [learned.VERSION, options.model_dump(), settings.finest_chars, settings.seed, encoder.fingerprint]
    content = [[vars(source) | {"answers": source.answers.tolist()} for source in used_sources], decided_by]
    paths = {name: work.file(name, content) for name in ("curve.parquet", WEIGHTS)}
    path, curve_path = paths[WEIGHTS][0], paths["curve.parquet"][0]
    if not all(exists for _, exists in paths.values()):
        trained = _train_chunker(work, used_sources, longest)
        with work.writing(curve_path) as temporary:
            pd.DataFrame(trained.curve).to_parquet(temporary)
        with work.writing(path) as temporary:
            temporary.write_bytes(learned.stored(trained.scorer))
        work.recomputed["epochs trained"] = len(trained.curve)
    scorer, _ = learned.opened(path)
    curve = pd.read_parquet(curve_path).to_dict("records")
    best = training.best_epoch(curve)
    answers = sum(len(source.questions) for source in used_sources)
    work.counts |= {
        "documents": len(used_sources),
        "answers": answers,
        "documents beyond chunker.training.spans": len(all_sources) - len(used_sources),
        "best epoch": best,
        "tokens to answer on held-out documents": round(curve[best - 1]["validation_tokens"], 1),
    }
    work.info |= {"encoder": encoder.fingerprint, "device": scorer.facts["device"]}
    work.show_table("training", curve)
    work.show_table("facts", [{"fact": name, "value": str(value)} for name, value in scorer.facts.items()])


def _train_chunker(work: Work, used: list[ArticleSource], longest: int) -> training.TrainedScorer:
    settings, encoder = work.settings, work.tools.encoder
    options = CHUNKER.of(settings).training

    def encode(texts: Sequence[str]) -> np.ndarray:
        with work.progress(len(texts), "texts encoded") as advance:
            return encoder.encode(texts, advance)

    articles = encode_articles(used, longest, encode)
    held_out = validation_rows([article.name for article in articles], options.validation, "chunker")
    with work.progress(options.epochs, "epochs trained (at most)") as advance:
        return training.train(articles, held_out, settings.finest_chars, options, settings.seed, advance)


def _titles_and_texts(work: Work, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
    texts = {}
    for corpus in sorted({corpus for corpus, _ in wanted}):
        documents = work.input("documents", corpus)
        for name in documents.names("bucket"):
            table = pq.read_table(documents.path(name), columns=["id", "title", "text"])
            for identity, title, text in zip(*(table[c].to_pylist() for c in ("id", "title", "text")), strict=True):
                if (corpus, identity) in wanted:
                    texts[corpus, identity] = (title, text)
    return texts


def recipes(settings: Settings) -> list[Recipe]:
    """Return the trained chunker, where it is the one in use."""
    if not CHUNKERS[settings.chunker.name].trained:
        return []
    return [
        Recipe(
            key="chunker",
            build=build_chunker,
            description="The scorer of the learned chunker, trained on the training questions with evidence.",
            group="learned_chunking",
            deps=("documents", "questions"),
            partitioned=False,
            settings=lambda tools: [
                CHUNKER.of(tools.settings).training.model_dump(),
                tools.settings.finest_chars,
                tools.settings.seed,
                {name: q.train for name, q in tools.settings.question_sets.items()},
                tools.encoder.identity,
            ],
            version=learned.VERSION,
            kinds=("pytorch",),
            pool="gpu",
        )
    ]
