"""Rankings without training on the development collections, and what their constants were chosen on.

python benchmarks/development.py build --data ../shared/data --homes .mog/development
python benchmarks/development.py table --homes .mog/development        rankings, by collection
python benchmarks/development.py build --set finest_chars=250 --homes .mog/250        with another setting, and
python benchmarks/development.py pieces --homes .mog/development --other .mog/250     what it does to `fused`
python benchmarks/development.py few --homes .mog/development          trained rankings with 10 to all questions
python benchmarks/development.py hops --homes .mog/development         `multihop` beside `fused`
python benchmarks/development.py known --homes .mog/development        words that only one document has
python benchmarks/development.py choose --homes .mog/development       the constants of `fused`, one collection left out

ER is that of ranked pieces; intervals and p are by document. The best fixed level is chosen on the questions it is
measured on, which favours it. Beside `fused` and what it was before (one weight for all levels and questions) stand
what others do: chunks of 1,000 characters by BM25 and vectors fused by ranks (hybrid-2), reciprocal ranks over all
sizes (RRF), and UMG (Jung and Wang 2026, arXiv 2606.13550); `ranking.py` says what it leaves out.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml
from ranking import RRF, UMG, examples, merged, recall

from mog_assets import config
from mog_assets.build import markdown, runner
from mog_assets.build.plan import graph, needed
from mog_assets.build.tools import Tools
from mog_assets.evaluate.choice import ALPHA, UNTRAINED, choose
from mog_assets.evaluate.known_items import FORMS, KnownItem, drawn_items, placed
from mog_assets.evaluate.significance import bootstrap_interval, by_document, holm, permutation_p
from mog_assets.questions.sets import Question, load_questions
from mog_assets.resources.arrays import running
from mog_assets.search.candidates import Candidates
from mog_assets.search.depth import CONTEXTS
from mog_assets.search.exact import boosted
from mog_assets.search.index import expert_names
from mog_assets.search.methods import METHODS
from mog_assets.search.passages import Passages, pieces_in
from mog_assets.search.retrieval import Retrieval
from mog_assets.search.router import Router
from mog_assets.search.rule import Rule, kind
from mog_assets.search.training import FOLDS, Examples, Train, fixed_recalls, fused_recalls, sample_questions
from mog_assets.search.weak_labels import measured

MEDQUAD = ("cancergov", "cdc", "gard", "ghr", "medlineplus", "nhlbi", "niddk", "ninds", "seniorhealth")
# Name: corpora by folder of the data; folders with questions; split.
COLLECTIONS = {
    "medquad": ({"medquad": MEDQUAD}, ("medquad",), "train"),
    "squad": ({"squad": ("squad",)}, ("squad",), "train"),
    "biomedical": (
        {"pubmedqa": ("pubmedqa_abstracts",), "bioasq": ("bioasq_snippets",)},
        ("pubmedqa", "bioasq"),
        "train",
    ),
    "musique": ({"musique": ("musique",)}, ("musique",), "test"),
    "cuad": ({"cuad": ("cuad",)}, ("cuad",), "test"),
    "policyqa": ({"policyqa": ("policyqa",)}, ("policyqa",), "test"),
    "lihua_world": ({"lihua_world": ("lihua_world",)}, ("lihua_world",), "test"),
    "financebench": ({}, ("financebench",), "test"),
    "xquad_de": ({"xquad_de": ("xquad_de",)}, ("xquad_de",), "test"),
    "xquad_zh": ({"xquad_zh": ("xquad_zh",)}, ("xquad_zh",), "test"),
    "jsquad_ja": ({"jsquad_ja": ("jsquad_ja",)}, ("jsquad_ja",), "test"),
    "claude_docs": ({"claude_docs": ("claude_docs",)}, ("claude_docs",), "test"),
    "anthropic_code": ({"anthropic_code": ("anthropic_code",)}, ("anthropic_code",), "test"),
    "mtrag": ({"mtrag": ("mtrag",)}, ("mtrag",), "test"),
    "qmsum": ({"qmsum": ("qmsum",)}, ("qmsum",), "test"),
    "locomo": ({"locomo": ("locomo",)}, ("locomo",), "test"),
    "dragonball_en": ({"dragonball_en": ("dragonball_en",)}, ("dragonball_en",), "test"),
    "chunkeval": (
        {"chunkeval": ("chatlogs", "finance", "pubmed", "state_of_the_union", "wikitexts")},
        ("chunkeval",),
        "test",
    ),
    "faquad_pt": ({"faquad_pt": ("faquad_pt",)}, ("faquad_pt",), "test"),
    "norquad_no": ({"norquad_no": ("norquad_no",)}, ("norquad_no",), "test"),
    "xquad_hi": ({"xquad_hi": ("xquad_hi",)}, ("xquad_hi",), "test"),
    "piaf_fr": ({"piaf_fr": ("piaf_fr",)}, ("piaf_fr",), "test"),
}
# Questions of each collection, those about a document together.
MOST = 1500
# The collections whose language the embedded encoder does not know.
FOREIGN = ("xquad_de", "xquad_zh", "jsquad_ja")
GRID = {
    "confidence": (0.2, 0.25, 0.35),
    "slope": (0.2, 0.3, 0.4),
    "vectors": (1.5, 2.0, 2.5),
    "foreign": (0.5, 0.75, 1.0),
}
# Training questions of trained rankings, and how often they are drawn.
SIZES, DRAWS = (10, 20, 50, 100, None), 3
WORDS = 150
_WORD = re.compile(r"\w[\w-]{2,23}\w")

Ranking = Callable[[Examples], np.ndarray]


def written(name: str, data: Path, homes: Path, further: Sequence[str] = ()) -> Path:
    """The settings of a collection, as a file; `further` ones as `key=value`."""
    corpora, sets, split = COLLECTIONS[name]
    named = {
        corpus: data / folder / "corpora" / f"{corpus}.jsonl.gz" for folder in corpora for corpus in corpora[folder]
    }
    questions = {folder: data / folder / "questions.jsonl.gz" for folder in sets}
    if name == "financebench":
        named, questions = {name: data / name / "pdf"}, {name: data / name / "questions.csv"}
    values = {
        "home": "home",
        "corpora": {corpus: {"path": str(path.resolve())} for corpus, path in named.items()},
        "question_sets": {
            folder: {"path": str(path.resolve()), "corpora": list(named), "train": [], "test": [split]}
            for folder, path in questions.items()
        },
    }
    values |= {key: yaml.safe_load(value) for key, _, value in (text.partition("=") for text in further)}
    path = homes / name / "mog.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


def opened(name: str, homes: Path) -> tuple[Tools, Retrieval]:
    """The indexes of a collection."""
    tools = Tools(config.load(homes / name / "mog.yaml"))
    return tools, Retrieval.open(tools, tools.store.read, list(tools.settings.corpora))


def measured_questions(tools: Tools) -> dict[str, list[Question]]:
    """The questions that a collection is measured on, by question set."""
    found = {}
    for name, question_set in tools.settings.question_sets.items():
        stored = tools.store.read("questions").path(f"{name}.parquet")
        found[name] = sample_questions([q for q in load_questions(stored, question_set.test) if q.evidence], MOST)
    return found


def questions_of(name: str, homes: Path) -> Examples:
    """The questions of a collection with their candidates."""
    tools, retrieval = opened(name, homes)
    parts = [examples(retrieval, questions) for questions in measured_questions(tools).values()]
    return merged(parts) if len(parts) > 1 else parts[0]


def equal(of: Examples) -> np.ndarray:
    """`fused` as it was: one weight for all levels and questions."""
    return _equal(of.candidates, of.experts)


def _equal(found: Candidates, experts: Sequence[str]) -> np.ndarray:
    weight = {"bm25": 1.0, "dense": 1.5, "mention": 0.5, "pagerank": 0.25}
    return found.relative @ np.array([weight.get(kind(name), 0.0) for name in experts], np.float32)


def by(weighing: Any) -> Ranking:
    """A ranking without training."""
    return lambda of: weighing.scores(of.candidates, of.experts)


def by_rule(rule: Rule) -> Ranking:
    """What the router starts from, alone."""

    def scores(of: Examples) -> np.ndarray:
        weights = rule.weights(of.candidates, of.experts)[of.candidates.question]
        return boosted(of.candidates, np.einsum("ij,ij->i", of.candidates.relative, weights))

    return scores


RANKINGS: dict[str, Ranking] = {
    "RRF": by(RRF),
    "UMG": by(UMG),
    "equal weights": equal,
    "rule": by_rule(Rule()),
    "fused": by(Router.shipped()),
}


def differences(own: np.ndarray, others: Mapping[str, np.ndarray], documents: Sequence[str]) -> dict[str, str]:
    """Mean difference from each of some others on the same questions, with its interval and p by document."""
    totals = by_document(np.stack([own - other for other in others.values()], axis=1), documents)
    p, (low, high) = holm(permutation_p(totals)), bootstrap_interval(totals)
    return {
        name: f"{mean:+.3f} [{a:+.3f}, {b:+.3f}], p {sure:.3f}"
        for name, mean, a, b, sure in zip(others, totals.mean, low, high, p, strict=True)
    }


def table(names: Sequence[str], homes: Path) -> list[dict[str, str]]:
    """ER of every ranking, and how `fused` compares."""
    rows = []
    for name in names:
        of = questions_of(name, homes)
        fixed = fixed_recalls(of)
        best = max(fixed, key=lambda level: fixed[level].mean())
        recalls = {"hybrid-2": fixed["hybrid:fixed-2"], **{n: recall(of, rank(of)) for n, rank in RANKINGS.items()}}
        others = {"best fixed": fixed[best], **{n: own for n, own in recalls.items() if n != "fused"}}
        row = {"collection": f"{name}, {len(of.words):,} questions, {len(set(of.documents)):,} documents"}
        row["best fixed"] = f"{best.replace(':fixed', '')} {fixed[best].mean():.3f}"
        row |= {n: f"{own.mean():.3f}" for n, own in recalls.items()}
        row |= {f"fused − {n}": text for n, text in differences(recalls["fused"], others, of.documents).items()}
        row["vocabulary"] = f"{of.candidates.vocabulary.mean():.2f}"
        rows.append(row)
        click.echo(f"{name} measured", err=True)
    return rows


def trained(names: Sequence[str], homes: Path, kinds: Sequence[str] = ("tuned", "mog", "mix")) -> list[dict[str, str]]:
    """How trained rankings compare with `fused`, by number of training questions, cross-validated by document.

    The questions that train are drawn at random from those about other documents, `DRAWS` times; p is of the mean over
    the draws, by document, Holm-corrected over the numbers of questions, and the worst draw stands beside it.
    """
    rows = []
    for name in names:
        tools, of = opened(name, homes)[0], questions_of(name, homes)
        untrained = fused_recalls(of)
        for ranking in kinds:
            whole, train = METHODS[ranking].ranking.trainer.prepared(of, tools.settings, lambda _: None)
            gains = {}
            for size in SIZES:
                draws = [_recalls(whole, train, size, seed) for seed in range(DRAWS if size else 1)]
                if draws[0] is not None:
                    gains[size] = np.stack([recalls - untrained for recalls in draws if recalls is not None])
            totals = by_document(np.stack([own.mean(axis=0) for own in gains.values()], axis=1), of.documents)
            row = {"collection": name, "ranking": ranking}
            for size, own, p in zip(gains, gains.values(), holm(permutation_p(totals)), strict=True):
                worst = f" ({own.mean(axis=1).min():+.3f})" if len(own) > 1 else ""
                row[str(size or "all")] = f"{own.mean():+.3f}{worst}, p {p:.3f}"
            rows.append(row)
            click.echo(markdown.table([row], 400), err=True)
    return rows


def _recalls(of: Examples, train: Train[Any], size: int | None, seed: int) -> np.ndarray | None:
    """ER of every question by models trained on so many questions about documents of other folds; None if too few."""
    recalls, draw = np.zeros(len(of.words)), np.random.default_rng(seed)
    for fold in range(FOLDS):
        tested = of.folds == fold
        others = np.flatnonzero(~tested)
        if len(others) < (size or 0):
            return None
        rows = np.zeros(len(tested), bool)
        rows[others if size is None else draw.permutation(others)[:size]] = True
        if tested.any():
            part = of.of(tested)
            recalls[tested] = recall(part, train(rows).scores(part.inputs))
    return recalls


def hops(names: Sequence[str], homes: Path) -> list[dict[str, str]]:
    """`multihop` beside `fused`: ER, and all documents with evidence within 4,000 characters."""
    rows = []
    for name in names:
        tools, retrieval = opened(name, homes)
        values: dict[str, list[np.ndarray]] = defaultdict(list)
        documents: list[str] = []
        for questions in measured_questions(tools).values():
            measuring = retrieval.with_queries([question.question for question in questions])
            evidence = measured(questions, measuring.corpora)
            documents += [question.document for question in questions]
            for method in ("fused", "multihop"):
                values[method].append(_of_order(measuring.best_pieces(method), evidence))
        both = {method: np.concatenate(parts) for method, parts in values.items()}
        gain = both["multihop"] - both["fused"]
        totals = by_document(gain, documents)
        row = {"collection": f"{name}, {len(documents):,} questions"}
        for column, measure in enumerate(("ER", "all documents in 4,000 characters")):
            row[measure] = (
                f"fused {both['fused'][:, column].mean():.3f}, multihop {both['multihop'][:, column].mean():.3f}"
            )
            row[measure] += f", p {permutation_p(totals)[column]:.3f}"
        rows.append(row)
        click.echo(f"{name} measured", err=True)
    return rows


def _of_order(passages: Passages, evidence: Sequence[Any]) -> np.ndarray:
    """Of pieces in order of question and rank: ER, and whether every document with evidence is in 4,000 characters."""
    question, of = passages.question, passages.document
    spans = np.stack([passages.start, passages.end], axis=1)
    length = passages.end - passages.start
    before = running(length, question)
    values = np.zeros((len(evidence), 2))
    for number, gold in enumerate(evidence):
        rows = np.flatnonzero(question == number)
        characters = sum(end - start for _, start, end in gold)
        for document, start, end in gold:
            own = rows[of[rows] == document]
            for context in CONTEXTS:
                room = np.clip(context - before[own], 0, length[own])
                last = np.minimum(np.minimum(end, spans[own, 1]), spans[own, 0] + room)
                hit = np.clip(last - np.maximum(start, spans[own, 0]), 0, None).sum()
                values[number, 0] += hit / min(characters, context) / len(CONTEXTS)
        near = set(of[rows][before[rows] < 4000].tolist())
        values[number, 1] = {document for document, _, _ in gold} <= near
    return values


def known_items(name: str, homes: Path) -> list[dict[str, str]]:
    """Where the piece of a known item stands: first, and within 4,000 characters, by trained rankings, too.

    Items are words, numbers and titles that one text has, as `mog run` asks for them, and words that one document has
    as they are written, whose stem others may share.
    """
    tools, retrieval = opened(name, homes)
    of = questions_of(name, homes)
    trained_models, recalls = {}, {UNTRAINED: fused_recalls(of), **fixed_recalls(of)}
    for ranking in ("tuned", "mog", "mix"):
        whole, train = METHODS[ranking].ranking.trainer.prepared(of, tools.settings, lambda _: None)
        trained_models[ranking] = train(np.ones(len(whole.words), bool))
        recalls[ranking] = _recalls(whole, train, None, 0)
    rows, losing = [], set()
    kinds = {"words as written": _written_words(retrieval), "words, numbers, titles": drawn_items(retrieval.corpora)}
    for kind_of, items in kinds.items():
        documents = [str(item.document) for item in items]
        for form, template in FORMS.items():
            phrased = retrieval.with_queries([template.format(item.text) for item in items])
            candidates, experts = phrased.read.candidates, expert_names(tools.settings)
            scores = {"BM25, level 1": candidates.scores[:, 0], "equal weights": _equal(candidates, experts)}
            scores["fused"] = Router.shipped().scores(candidates, experts)
            scores |= {ranking: model.scores(phrased.read) for ranking, model in trained_models.items()}
            row = {"collection": name, "items": f"{len(items)} {kind_of}", "asked": form}
            least = None
            for ranking, values in scores.items():
                first, near = placed(candidates, values, items, retrieval.corpora.layout)
                row[ranking] = f"{first.mean():.2f}, {near.mean():.2f}"
                gains = near.astype(float) - (near if least is None else least)
                least = near if least is None else least
                # `auto` is told of the items that `mog run` asks for, not of words as they are written.
                if kind_of != "words as written" and gains.mean() < 0:
                    losing |= {ranking} if permutation_p(by_document(gains[:, None], documents))[0] < ALPHA else set()
            rows.append(row)
    method = choose(recalls, list(trained_models), of.documents, 0, losing=sorted(losing)).method
    # A fixed level has no column of its own.
    rows = [{**row, "`auto`": f"`{method}`: {row.get(method, '')}".removesuffix(": ")} for row in rows]
    click.echo(markdown.table(rows, 400), err=True)
    return rows


def _written_words(retrieval: Retrieval) -> list[KnownItem]:
    """Words that one document has as they are written; of several places in it the first."""
    corpora, layout = retrieval.corpora, retrieval.corpora.layout
    documents: dict[str, set[int]] = defaultdict(set)
    places_of: dict[str, tuple[int, int, int]] = {}
    for first in range(0, len(layout.documents), 500):
        numbers = list(range(first, min(first + 500, len(layout.documents))))
        for document, (title, text) in corpora.texts(numbers).items():
            for match in _WORD.finditer(text):
                word = match.group().lower()
                documents[word].add(document)
                places_of.setdefault(word, (document, match.start(), match.end()))
            for match in _WORD.finditer(title):
                documents[match.group().lower()].add(document)
    words = sorted(word for word, own in documents.items() if len(own) == 1 and word in places_of)
    words = [words[i] for i in np.random.default_rng(0).permutation(len(words))[:WORDS]]
    spots = np.array([places_of[word] for word in words], np.int64).reshape(-1, 3)
    after, _ = pieces_in(layout, spots[:, 0], spots[:, 1] + 1, spots[:, 2])
    documents_of = spots[:, 0].tolist()
    return [KnownItem("word", *own) for own in zip(words, documents_of, (after - 1).tolist(), strict=True)]


def pieces(names: Sequence[str], homes: Path, others: Sequence[Path]) -> list[dict[str, str]]:
    """ER of `fused` with other settings of chunks, minus that with those of `homes`, on the same questions."""
    rows = []
    for name in names:
        base, row = questions_of(name, homes), {"collection": name}
        recalls = recall(base, RANKINGS["fused"](base))
        row["default"] = f"{recalls.mean():.3f}"
        for other in others:
            if (other / name / "home").exists():
                of = questions_of(name, other)
                row |= differences(recall(of, RANKINGS["fused"](of)), {other.name: recalls}, of.documents)
        rows.append(row)
        click.echo(markdown.table([row], 400), err=True)
    return rows


def chosen(names: Sequence[str], homes: Path) -> list[dict[str, str]]:
    """The constants that are best on all collections, and on all but one, with what they do to that one.

    Best is the mean gain over equal weights, of at most .02 a collection, with losses counted three times. financebench
    has so few questions that it counts a tenth.
    """
    gains: dict[str, dict[tuple[float, ...], float]] = {}
    for name in names:
        of = questions_of(name, homes)
        before = recall(of, equal(of)).mean()
        own = {}
        for values in itertools.product(*GRID.values()):
            rule = Rule(**dict(zip(GRID, values, strict=True)))
            # Of the two weights of vectors only one matters for a collection.
            idle = list(GRID).index("vectors" if name in FOREIGN else "foreign")
            same = (*values[:idle], *values[idle + 1 :])
            if same not in own:
                own[same] = float(recall(of, by_rule(rule)(of)).mean() - before)
            own[values] = own[same]
        gains[name] = own
        click.echo(f"{name} measured", err=True)

    def worth(values: tuple[float, ...], among: Sequence[str]) -> float:
        own = np.array([gains[name][values] * (0.1 if name == "financebench" else 1) for name in among])
        return float(np.minimum(own, 0.02).mean() + 2 * np.minimum(own, 0).mean())

    grid, rows = list(itertools.product(*GRID.values())), []
    for out in [None, *names]:
        among = [name for name in names if name != out]
        best = max(grid, key=lambda values: worth(values, among))
        row = {"left out": out or "none", **{n: str(v) for n, v in zip(GRID, best, strict=True)}}
        row["gain"] = ", ".join(f"{name} {gains[name][best]:+.4f}" for name in ([out] if out else names))
        rows.append(row)
    return rows


@click.command()
@click.argument("what", type=click.Choice(["build", "table", "few", "hops", "pieces", "known", "choose"]))
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--data", type=click.Path(exists=True, path_type=Path), default=Path("../shared/data"))
@click.option("--homes", type=click.Path(path_type=Path), default=Path(".mog/development"))
@click.option("--set", "further", multiple=True, help="A setting as KEY=VALUE, for build.")
@click.option("--other", "others", multiple=True, type=click.Path(exists=True, path_type=Path))
def main(
    what: str, names: Sequence[str], data: Path, homes: Path, further: Sequence[str], others: Sequence[Path]
) -> None:
    names = names or list(COLLECTIONS)
    if what == "build":
        for name in names:
            settings = config.load(written(name, data, homes, further))
            indexes = ["neighbours", *(f"embeddings/level_{level}" for level in settings.level_range)]
            keys = needed(graph(settings), ["questions", "statistics", "mentions", "names", *indexes])
            failures = runner.run(settings, select=sorted(keys)).failures
            click.echo(f"{name}: {'; '.join(failures) or 'built'}")
        return
    rows = {
        "few": lambda: trained(names, homes),
        "pieces": lambda: pieces(names, homes, others),
        "hops": lambda: hops(names, homes),
        "table": lambda: table(names, homes),
        "known": lambda: [row for name in names for row in known_items(name, homes)],
        "choose": lambda: chosen(names, homes),
    }[what]()
    click.echo(markdown.table(rows, 400))


if __name__ == "__main__":
    main()
