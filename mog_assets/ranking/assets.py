"""Assets of the ranking stage: `candidates`, `router`, `mix` and `method`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.config import Settings
from mog_assets.questions.sets import LEVELS, TRAINING, Question, load_questions
from mog_assets.questions.splits import validation_rows
from mog_assets.ranking import checks, features, models, mog, plots
from mog_assets.ranking.candidates import Candidates
from mog_assets.ranking.choice import ALPHA, UNTRAINED, Choice, choose
from mog_assets.ranking.gold import Gold, ordered
from mog_assets.ranking.models import Asked
from mog_assets.ranking.retrieve import CHOSEN, MODELS, Retrieval, expert_names, finest, fused
from mog_assets.ranking.training import FOLDS, Examples, drawn, fixed_recalls, part_of
from mog_assets.ranking.weak import measured, taught
from mog_assets.recipe import Recipe, Work
from mog_assets.retrieval.methods import parse
from mog_assets.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.tensors import decode, encode
from resources.errors import MogError
from resources.store import Artefact, digest

GROUP = "ranking"
# Training questions of a question set are stored in so many files, those about a document in one.
PARTS = 16
_ARRAYS = tuple(field.name for field in fields(Candidates))
_GOLD = ("characters", "row", "start", "end")
# ER of every training question by the model in use, and by the one that was trained last.
RECALLS, NOW = "recalls.parquet", "now.parquet"
# Training questions on the learning curve.
SIZES = (100, 300, 1000)


def build_candidates(work: Work) -> None:
    """Find the candidates of the training questions, with their scores by every expert and their evidence."""
    settings = work.settings
    stored = work.input("questions")
    # What scores and places depend on beside the inputs.
    weighted = [settings.bm25.model_dump(), list(settings.corpora)]
    versions = [work.input(key, c).manifest.version for key in work.recipe.deps[1:] for c in settings.corpora]
    rows, count = [], 0
    for name, question_set in settings.question_sets.items():
        loaded = load_questions(stored.path(f"{name}.parquet"), question_set.train) if question_set.train else []
        # Questions that were made without a model show that all works, and nothing else.
        usable = [q for q in loaded if q.level in TRAINING and q.origin != "keywords"]
        questions = drawn(usable, settings.ranking.questions)
        opened: list[Retrieval] = []
        with work.progress(len(questions), "questions") as advance:
            for number in range(PARTS):
                own = [q for q in questions if part_of(q.document, PARTS) == number]
                asked = [repr(q) for q in own]
                part = f"{name}-{number:02}.safetensors"
                if not own:
                    continue
                path, there = work.file(part, asked, question_set.corpora, *weighted, versions)
                if not there:
                    if not opened:
                        opened.append(Retrieval.open(work.tools, work.input, question_set.corpora, keep=True))
                    data = _part(opened[0].again([q.question for q in own]), own)
                    with work.writing(path) as temporary:
                        temporary.write_bytes(data)
                    work.recomputed["questions"] = work.recomputed.get("questions", 0) + len(own)
                advance(len(own))
        if questions:
            levels = Counter(q.level for q in questions)
            known: dict[str, Any] = {level: levels[level] for level in TRAINING}
            rows.append({"question set": name, "questions": len(questions), "of": len(loaded), **known})
            count += len(questions)
    work.counts |= {"questions": count}
    work.show_table("training questions", rows)


def _part(retrieval: Retrieval, questions: Sequence[Question]) -> bytes:
    """Candidates and evidence of some questions as the bytes of a file; of those that evidence is known or found of."""
    corpora, asked = retrieval.corpora, retrieval.asked
    scores = fused(asked.found, expert_names(corpora.settings))
    evidence = {"gold": measured(questions, corpora), "taught": taught(questions, asked.found, scores, corpora)}
    kept = [number for number, own in enumerate(evidence["taught"]) if own]
    found = asked.found.of(np.array(kept, np.int64))
    questions = [questions[number] for number in kept]
    arrays = {name: getattr(found, name) for name in _ARRAYS}
    for what, spans in evidence.items():
        located = Gold.located(found, [spans[number] for number in kept], corpora.layout)
        arrays |= {f"{what} {name}": getattr(located, name) for name in _GOLD}
    arrays |= {"vectors": asked.vectors[kept].astype(np.float32), "words": asked.words[kept]}
    arrays |= {"levels": np.array([LEVELS.index(q.level) for q in questions], np.int64)}
    arrays |= {"made": np.array([q.origin != "given" for q in questions], np.int64)}
    whole = {name: a.astype(np.int32) if a.dtype == np.int64 else a for name, a in arrays.items()}
    facts = {"questions": [q.id for q in questions], "documents": [q.document for q in questions]}
    return encode({name: np.ascontiguousarray(array) for name, array in whole.items()}, facts)


def read_examples(stored: Artefact, experts: Sequence[str], finest: Sequence[int]) -> tuple[Examples, list[str]]:
    """The training questions of the asset `candidates`, and the names `question set/id` of the questions."""
    parts, documents, names = [], [], []
    for name in sorted(stored.names()):
        arrays, known = decode(stored.path(name).read_bytes())
        parts.append({key: a.astype(np.int64) if a.dtype == np.int32 else a for key, a in arrays.items()})
        documents += known["documents"]
        names += [f"{name.rpartition('-')[0]}/{question}" for question in known["questions"]]
    questions = np.cumsum([0, *(len(part["words"]) for part in parts)])
    rows = np.cumsum([0, *(len(part["question"]) for part in parts)])
    for part, question, row in zip(parts, questions, rows, strict=False):
        part["question"] = part["question"] + question
        for what in ("gold", "taught"):
            part[f"{what} row"] = part[f"{what} row"] + row
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    found = Candidates(**{key: joined[key] for key in _ARRAYS})
    gold, taught = (Gold(found, *(joined[f"{what} {key}"] for key in _GOLD)) for what in ("gold", "taught"))
    if len(set(documents)) == 1:
        # Questions about one document say nothing of others, but they can be compared with each other.
        documents = names
    known = (joined["levels"], joined["made"].astype(bool))
    return Examples(gold, taught, joined["vectors"], joined["words"], documents, *known, experts, finest), names


def _examples(work: Work) -> tuple[Examples, list[str]]:
    stored = work.input("candidates")
    if not stored.names():
        raise MogError(
            "question_sets: expected training questions with a quote, a relevant document or an answer, got none: add "
            "them to questions of a split that is named under `train`, or set `train: []` and `test: [test]`"
        )
    examples, names = read_examples(stored, expert_names(work.settings), finest(work.settings))
    if len(set(examples.documents)) < 2:
        raise MogError(
            "question_sets: expected at least 2 training questions with a quote, a relevant document or an answer that "
            "passages hold, so that a ranking can be measured on others than it was trained on, got fewer: add some, "
            "or set `train: []` and `test: [test]`"
        )
    return examples, names


Train = Callable[[np.ndarray], "models.Router | models.Mix"]


def build_router(work: Work) -> None:
    """Train the router of `mog`, and cross-validate it by document."""
    examples, names = _examples(work)
    curves: list[list[dict[str, float]]] = []
    held_out = validation_rows(examples.documents, work.settings.ranking.validation, "ranking")
    with work.progress(_trainings(examples) * mog.EPOCHS, "epochs trained (at most)") as advance:

        def train(rows: np.ndarray) -> models.Router:
            own = examples.of(rows)
            # The documents that decide when to stop are the same with and without a fold.
            stop = held_out[rows]
            arrays, curve = mog.train(
                own.found, own.taught.covered, own.vectors, stop, work.settings.seed, advance, own.known
            )
            curves.append(curve)
            return models.Router(arrays)

        recalls, learning = _cross_validated(examples, train)
        curves.clear()
        trained = train(np.ones(len(names), bool))
    weighed = mog.weights(trained.arrays, examples.vectors)
    known = models.facts("mog", work.tools.encoder.fingerprint, examples.experts)
    data = {models.ARRAYS: models.router_bytes(trained.arrays, known)}
    if _written(work, data, known, examples, names, recalls, learning):
        work.show_plot("loss", plots.loss_curve(curves[-1]))
        work.show_plot("weights of the experts", plots.weights(examples.experts, weighed))


def build_mix(work: Work) -> None:
    """Train the trees of `mix`, and cross-validate them by document."""
    examples, names = _examples(work)
    with work.progress(_trainings(examples), "models trained") as advance:

        def train(rows: np.ndarray) -> models.Mix:
            trained = models.Mix.trained(examples.of(rows), work.settings.seed)
            advance(1)
            return trained

        recalls, learning = _cross_validated(examples, train)
        trained = train(np.ones(len(names), bool))
    encoder = work.tools.encoder.fingerprint
    known = models.facts("mix", encoder, examples.experts, list(work.settings.corpora))
    if _written(work, models.mix_bytes(trained, known), known, examples, names, recalls, learning):
        titles = features.names(examples.experts, [examples.experts[i] for i in examples.finest])
        work.show_plot("what the trees use", plots.importance(titles, trained.booster.feature_importance("gain")))


def _trainings(examples: Examples) -> int:
    """How often a model is trained."""
    return FOLDS * (1 + len(_sizes(examples))) + 1


def _sizes(examples: Examples) -> list[int]:
    """Numbers of training questions on the learning curve, below that of every fold."""
    fewest = len(examples.documents) - int(np.bincount(examples.folds, minlength=FOLDS).max())
    return [size for size in SIZES if size < fewest]


def _cross_validated(examples: Examples, train: Train) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """How good a ranking is on documents it was not trained on.

    Returns:
        ER of every question by a model that was trained on documents of other folds; and the learning curve: a row per
        number of training questions with the mean of ER and its interval, over the questions that are measured.
    """
    fused_recalls, own = _fused_recalls(examples), examples.measured
    curve, documents = [], np.asarray(examples.documents, str)
    recalls = fused_recalls
    for size in [*_sizes(examples), None]:
        recalls = _by_folds(examples, train, size)
        if not own.any():
            continue
        totals = by_document(np.stack([recalls, recalls - fused_recalls], axis=1)[own], documents[own])
        (low, gain_low), (high, gain_high) = bootstrap_interval(totals)
        most = len(documents) - int(np.bincount(examples.folds, minlength=FOLDS).min()) if size is None else size
        row = {"training questions": most, "ER": float(recalls[own].mean()), "low": low, "high": high}
        gain = float((recalls - fused_recalls)[own].mean())
        curve.append({**row, "above fused": gain, "above fused, low": gain_low, "above fused, high": gain_high})
    return recalls, curve


def _fused_recalls(examples: Examples) -> np.ndarray:
    """ER of every question by `fused`."""
    return examples.gold.recall(ordered(examples.found, fused(examples.found, examples.experts)))


def _by_folds(examples: Examples, train: Train, size: int | None) -> np.ndarray:
    """ER of every question by a model trained on at most so many questions on documents of other folds."""
    recalls, order = np.zeros(len(examples.documents)), examples.drawn
    for fold in range(FOLDS):
        own = examples.folds == fold
        if own.any() and not own.all():
            rows = ~own
            if size is not None:
                rows[order[rows[order]][size:]] = False
            if not examples.taught.covered[rows[examples.found.question]].any():
                # Nothing to learn from: the ranking finds nothing.
                continue
            tested = examples.of(own)
            recalls[own] = tested.gold.recall(ordered(tested.found, train(rows).scores(Asked.of(tested))))
    return recalls


def _kept(
    work: Work, known: dict[str, Any], examples: Examples, names: Sequence[str], recalls: np.ndarray
) -> Artefact | None:
    """The previous model if it stays, because the new one is significantly worse on questions that both know.

    Each is compared by how much better it is than `fused` on the documents of its time: with more documents every
    ranking finds less. A model for another encoder, other experts or other features could not be used.
    """
    previous = work.draft.previous
    # An earlier version stored the paper's router under the same key.
    if previous is None or not {models.ARRAYS, RECALLS} <= set(previous.manifest.files):
        return None
    if decode(previous.path(models.ARRAYS).read_bytes())[1] != known:
        return None
    table = pd.read_parquet(previous.path(RECALLS)).set_index("question")
    before = table["ER"] - table["fused"]
    both = np.array([name in before.index for name in names]) & examples.measured
    if not both.any():
        return None
    gains = recalls - _fused_recalls(examples)
    differences = gains[both] - before.loc[[n for n, there in zip(names, both, strict=True) if there]].to_numpy()
    documents = [d for d, there in zip(examples.documents, both, strict=True) if there]
    p = float(permutation_p(by_document(differences[:, None], np.asarray(documents, str)), seed=work.settings.seed)[0])
    found = {"questions": int(both.sum()), "difference": float(differences.mean()), "p": p}
    work.info["comparison"] = found
    work.show_table("ER above fused, new minus previous model, each on documents it was not trained on", [found])
    if not (differences.mean() < 0 and p < ALPHA):
        return None
    work.info["kept"] = (
        f"the new model is significantly worse: ER above `fused` {differences.mean():+.3f} on {both.sum()} questions "
        f"(p = {p:.4f}); "
        "the previous one stays in use"
    )
    work.shown["which model"] = f"**The previous model stays in use.** {work.info['kept']}"
    return previous


def _written(
    work: Work,
    data: dict[str, bytes],
    known: dict[str, Any],
    examples: Examples,
    names: Sequence[str],
    recalls: np.ndarray,
    learning: list[dict[str, Any]],
) -> bool:
    """Store a model with its figures; or those of the previous one, if that stays. Returns whether the new is used."""
    work.info |= {"kept": None, "learning curve": learning}
    previous = _kept(work, known, examples, names, recalls)
    version = work.input("candidates").manifest.version
    columns = {"ER": recalls, "fused": _fused_recalls(examples)}
    table = pd.DataFrame({"question": names, "document": examples.documents, **columns})
    files = {NOW: table} if previous else {**data, RECALLS: table, NOW: table}
    if previous:
        work.keep(previous, *(name for name in previous.manifest.files if name != NOW))
    for name, content in files.items():
        path, there = work.file(name, version, work.recipe.settings(work.tools))
        if not there or (isinstance(content, bytes) and path.read_bytes() != content):
            with work.writing(path) as temporary:
                if isinstance(content, bytes):
                    temporary.write_bytes(content)
                else:
                    content.to_parquet(temporary)
    work.counts |= {"questions": len(names), "documents": len(set(examples.documents))}
    if examples.measured.any():
        work.counts["ER"] = round(float(recalls[examples.measured].mean()), 4)
    work.recomputed["models trained"] = _trainings(examples)
    if learning:
        work.show_table("learning curve, cross-validated by document", learning)
        work.show_plot("learning curve", plots.learning_curve(learning))
    return previous is None


def build_method(work: Work) -> None:
    """Choose the ranking that is used by default."""
    settings = work.settings
    if not settings.trains_routers:
        chosen = Choice(UNTRAINED, "it needs no training, and no question set has a train split", [])
    else:
        examples, names = _examples(work)
        recalls = {UNTRAINED: _fused_recalls(examples)}
        recalls |= {parse(name, settings).name: values for name, values in fixed_recalls(examples).items()}
        # Of the models that were trained now: an earlier one that stays in use was not measured on these documents, and
        # did significantly better against `fused`.
        for name, key in MODELS.items():
            found = pd.read_parquet(work.input(key).path(NOW)).set_index("question")["ER"].reindex(names)
            if found.isna().any():
                raise MogError(f"{key}: was trained on other questions than `candidates` holds now: run `mog run`")
            recalls[name] = found.to_numpy()
        own = examples.measured
        if own.any():
            documents = [examples.documents[i] for i in np.flatnonzero(own).tolist()]
            measured_on = {name: er[own] for name, er in recalls.items()}
            chosen = choose(measured_on, tuple(MODELS), documents, settings.seed, _remark(examples, names))
            work.show_table("rankings on training questions, cross-validated", chosen.rows)
        else:
            chosen = Choice(UNTRAINED, "training questions with answers alone cannot tell which ranking is better", [])
    path, there = work.file(CHOSEN, [chosen.method, chosen.why])
    if not there:
        with work.writing(path) as temporary:
            temporary.write_text(json.dumps({"method": chosen.method, "why": chosen.why}, indent=1), encoding="utf-8")
    work.info |= {"method": chosen.method, "why": chosen.why, "content": digest(chosen.method, chosen.why)}
    work.shown["in use"] = f"**`{chosen.method}`**: {chosen.why}."


def _remark(examples: Examples, names: Sequence[str]) -> str:
    """What readers of the choice must know of the questions that it was made with."""
    remark = ""
    if list(examples.documents) == list(names):
        remark = " (parts of a single one: this says nothing of other documents)"
    if not (examples.levels[examples.measured] == LEVELS.index("spans")).all():
        remark += ", by relevant documents"
    if examples.made[examples.measured].any():
        remark += ", all generated or from use"
    return remark


def recipes(settings: Settings) -> list[Recipe]:
    """The recipes of this stage; without training questions nothing is trained."""
    levels = settings.level_range
    indexes = [f"{kind}/level_{level}" for kind in ("bm25", "embeddings") for level in levels]
    trained = [
        Recipe(
            key="candidates",
            build=build_candidates,
            description="Pieces that training questions may need: scores by every expert, evidence.",
            group=GROUP,
            deps=("questions", "documents", "chunks/level_1", "tokens", *indexes),
            partitioned=False,
            settings=lambda tools: [
                tools.settings.ranking.questions,
                tools.settings.bm25.model_dump(),
                {name: [q.corpora, q.train] for name, q in tools.settings.question_sets.items()},
                list(tools.settings.corpora),
                tools.encoder.identity,
            ],
            version="3",
            kinds=("safetensors",),
            pool="gpu",
        ),
        *(
            Recipe(
                key=key,
                build=build,
                description=description,
                group=GROUP,
                deps=("candidates",),
                partitioned=False,
                settings=lambda tools: [
                    tools.settings.ranking.validation,
                    tools.settings.seed,
                    tools.encoder.identity,
                    features.VERSION,
                    list(tools.settings.corpora),
                ],
                checks=(checks.NEW_MODEL_IS_USED,),
                kinds=(kind,),
            )
            for key, build, kind, description in (
                ("router", build_router, "pytorch", "Perceptron from question vector to a weight for every expert."),
                (
                    "mix",
                    build_mix,
                    "lightgbm",
                    "Trees that order candidates by what the experts say and where they stand.",
                ),
            )
        ),
    ]
    method = Recipe(
        key="method",
        build=build_method,
        description="The ranking in use: the best on training questions whose documents it was not trained on.",
        group=GROUP,
        deps=("candidates", "router", "mix") if settings.trains_routers else ("corpus_registry",),
        partitioned=False,
        # The names of fixed levels depend on the default retriever.
        settings=lambda tools: [tools.settings.seed, tools.settings.retriever],
        kinds=("json",),
    )
    return [*(trained if settings.trains_routers else []), method]
