"""The asset `runs`: the passages of every method for every test question."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from mog_assets.config import Settings
from mog_assets.evaluation import plots
from mog_assets.evaluation.ranked_set import RankedSet
from mog_assets.evaluation.reach import FAMILIES, family_of
from mog_assets.evaluation.reach import Family as Searched
from mog_assets.evaluation.runs import RUNS, read_runs, write_runs
from mog_assets.evaluation.shares import SHARES, mean_shares, table
from mog_assets.questions.origins import measures_nothing, origins
from mog_assets.questions.sets import MEASURED, Question, load_questions
from mog_assets.ranking.relations import versions
from mog_assets.ranking.retrieve import needs
from mog_assets.recipe import Work
from mog_assets.resources.store import digest
from mog_assets.retrieval.assets import hashes_of
from mog_assets.retrieval.methods import Method, named_methods, parse
from mog_assets.retrieval.tokens import TOKENIZER
from mog_assets.routing import router
from mog_assets.routing.families import Family, families
from mog_assets.significance import by_document, shift

# The levels chosen for test questions differ from those in training if this share of questions would have to change
# level (a population stability index of about .2 for two levels) and the p-value is below ALPHA.
SHIFTED = 0.15
ALPHA = 0.05


def methods_of(settings: Settings) -> list[Method]:
    """The methods that are compared, in order.

    The controls are always included, at the two ends: tables show methods with equal means in this order.
    """
    searching = [method for method in named_methods(settings) if not method.control]
    return [parse("gold", settings), *searching, parse("random", settings)]


def build_runs(work: Work) -> None:
    """Rank passages by every method for every test question.

    The rankings of a question are kept unless it, a text that they were made of, or a model is another now, or a new
    text may be among them; see `reach`.
    """
    settings, methods = work.settings, methods_of(work.settings)
    asked = {name: questions for name, questions in scored_questions(work).items() if questions}
    told = [work.recipe.settings(work.tools), _versions(work, methods)]
    path, there = work.file(RUNS, told)
    work.info["basis"] = {family: _basis(work, family, methods) for family in FAMILIES}
    hashes = {corpus: hashes_of(work, corpus) for corpus in settings.corpora}
    sets = {name: RankedSet(work, name, questions, methods, hashes, told) for name, questions in asked.items()}
    if not there or not all(ranked.written for ranked in sets.values()):
        with work.progress(len(asked) * len(methods), "methods ranked") as advance, work.writing(path) as temporary:
            write_runs(_tables(sets.values()), temporary, advance)
    path_of_shares, there = work.file(SHARES, told)
    if not there:
        with work.writing(path_of_shares) as temporary:
            _shares(work, sets).to_parquet(temporary)
    work.recomputed["rankings"] = sum(ranked.made for ranked in sets.values())
    passages = read_runs(path)
    work.counts |= {"passages": len(passages), **{f"{name}: questions": len(own) for name, own in asked.items()}}
    work.counts["methods"] = len(methods)
    work.show_table("sample", passages.head(8).to_dict("records"))
    _show_levels(work, sets, {method.kind for method in methods if method.routed})
    _show_topics(work, sets, methods)


def _tables(sets: Iterable[RankedSet]) -> Iterator[pa.Table]:
    for ranked in sets:
        yield from ranked.tables()
        ranked.write()


def _shares(work: Work, sets: Mapping[str, RankedSet]) -> pd.DataFrame:
    """How much each level and retriever counted for the questions of all sets, by method."""
    # Nobody asks as keyword questions do.
    asked = [own for name, own in sets.items() if not measures_nothing(name, origins(work.settings))]
    questions = [question for own in asked for question in own.questions]
    rows = []
    for method in asked[0].shares if asked else ():
        rows += mean_shares(method, questions, np.concatenate([own.shares[method] for own in asked]))
    return table(rows, work.settings.levels)


def _versions(work: Work, methods: Sequence[Method]) -> list[str]:
    needed, corpora = needs(methods, work.settings), work.settings.corpora
    shared = [work.input(key).manifest.version for key in ("questions", *needed.shared)]
    return shared + [work.input(key, c).manifest.version for key in needed.per_corpus for c in corpora]


def _basis(work: Work, family: Searched, methods: Sequence[Method]) -> str:
    """What the rankings of a family depend on beside the settings, the question, its soft label and the texts."""
    settings = work.settings
    needed = needs([method for method in methods if family_of(method, settings.graph.across) == family], settings)
    # A name matters where a text has it, which is part of what is known of the text.
    known = ("soft_labels", "names")
    shared = {key: work.input(key).manifest.version for key in needed.shared if key not in known}
    # Topics follow from vectors.
    vectors = [f"embeddings/level_{level}" for level in settings.level_range if "topics/assigned" in needed.per_corpus]
    made = work.made_by([*needed.per_corpus, *vectors])
    options = [settings.finest_chars, settings.buckets, settings.graph.model_dump(), TOKENIZER]
    return digest(shared, made, *options, versions(settings.ranking.experts))


def _show_levels(work: Work, sets: Mapping[str, RankedSet], kinds: Collection[str]) -> None:
    """Compare the levels that routers choose for test questions with those for their training questions.

    A question set without training questions is compared with all training questions. Documents are permuted, not
    questions.
    """
    work.info["levels chosen"] = {}
    rows = []
    for family in families(work.settings):
        if family.kind not in kinds:
            continue
        bars = []
        training, chosen = _trained_on(work, family)
        for name, ranked in sets.items():
            # Nobody asks like that, so the router may well choose otherwise.
            if measures_nothing(name, origins(work.settings)):
                continue
            own = (training["question_set"] == name).to_numpy()
            own = own if own.any() else np.ones(len(training), bool)
            seen = by_document(chosen[own], training["group"].to_numpy(str)[own])
            tested = by_document(
                router.choices(ranked.retrieval.weights(family.kind)), [q.document for q in ranked.questions]
            )
            before, now = (chosen.sums.sum(axis=0).astype(int) for chosen in (seen, tested))
            distance, p = shift(seen, tested, seed=work.settings.seed)
            work.info["levels chosen"][f"{name}, {family.kind}"] = {
                "training": before.tolist(),
                "test": now.tolist(),
                "distance": distance,
                "p": p,
                "shifted": distance >= SHIFTED and p < ALPHA,
            }
            bars += [(f"{name}: training", before), (f"{name}: test", now)]
            rows += [
                {"question set": name, "router": family.kind, "chosen": label, "training": int(a), "test": int(b)}
                for label, a, b in zip(family.names, before, now, strict=True)
            ]
        if bars:
            picture = plots.levels_chosen(bars, family.names)
            work.show_plot(f"chosen by the router of {family.kind} in training and test", picture)
    if rows:
        work.show_table("levels chosen", rows)


def _trained_on(work: Work, family: Family) -> tuple[pd.DataFrame, np.ndarray]:
    """The training questions of the current router, and 1 at the level it chooses for each: one row each."""
    stored, encoder = work.input(family.router), work.tools.encoder
    questions = pd.read_parquet(stored.path("questions.parquet"))
    if "chosen" in questions:
        return questions, np.eye(len(family.names))[questions["chosen"].to_numpy()]
    # An earlier version did not store it.
    opened = router.open_router(stored, encoder.fingerprint, len(family.names))
    return questions, router.choices(router.predict(opened.weights, encoder.encode(questions["text"].tolist())))


def _show_topics(work: Work, sets: Mapping[str, RankedSet], methods: Sequence[Method]) -> None:
    """Count the questions that had no topic, or too few passages of it."""
    rows = []
    for method in methods:
        for name, ranked in sets.items() if method.topics else ():
            back, total = int(ranked.fell_back[method.name].sum()), len(ranked.questions)
            outliers = int((ranked.retrieval.topics[0] < 0).sum())
            rows.append({"method": method.name, "question set": name, "questions": total, "without a topic": outliers})
            rows[-1] |= {"passages of all topics": back}
            work.counts[f"{name}, {method.name}: fallbacks"] = back
    if rows:
        work.show_table("topics", rows)


def scored_questions(work: Work) -> dict[str, list[Question]]:
    """The test questions that can measure a ranking, by question set."""
    stored = work.input("questions")
    return {
        name: [q for q in load_questions(stored.path(f"{name}.parquet"), question_set.test) if q.level in MEASURED]
        for name, question_set in work.settings.question_sets.items()
        if question_set.test
    }
