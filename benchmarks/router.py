"""The weights of `fused`: how they are learned, and what they do to collections that they were not learned on.

python benchmarks/development.py build --homes .mog/development                the collections
python benchmarks/router.py learn --homes .mog/development --out mog_assets/search/router.safetensors
python benchmarks/router.py learn --homes .mog/development --without squad --out squad.safetensors
ROUTER=squad.safetensors python benchmarks/rivals.py table squad               any benchmark, with other weights
python benchmarks/router.py measure --homes .mog/development                   each left out in turn
python benchmarks/router.py curve --homes .mog/development                     by number of collections learned on

A second `--homes` has the same collections by another encoder. What shares its texts is left out together: the
languages of XQuAD, whose articles are SQuAD's, and a collection by two encoders. The pairwise loss of LambdaRank
(Burges 2010): pairs of candidates by the logistic loss, each weighed by what changing places would do to nDCG, over the
64 best candidates by rule and all with evidence; Adam, `STEPS` steps of `BATCH` questions of each collection. Weights
are of features divided by their standard deviation, with a penalty on their squares, so that they stay near the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from development import COLLECTIONS, differences, questions_of
from ranking import RRF, UMG, recall

from mog_assets.build import markdown
from mog_assets.resources.arrays import places
from mog_assets.resources.tensors import encode
from mog_assets.search.candidates import ordered
from mog_assets.search.exact import boosted
from mog_assets.search.router import FORMS, FURTHER, Features, Router
from mog_assets.search.rule import Rule
from mog_assets.search.training import Examples, fixed_recalls

# What shares texts with others.
SHARED = {"xquad_de": "squad", "xquad_zh": "squad", "xquad_hi": "squad"}
# Nothing is learned from test questions that are for measuring alone, or from so few.
MEASURED = ("musique", "financebench")
RANKS = {"RRF": RRF, "UMG": UMG}
QUESTIONS, BEST, STEPS, BATCH, RATE, PENALTY = 400, 64, 300, 8, 5e-3, 0.25


def family(name: str) -> str:
    """What a collection is left out with."""
    plain = name.partition(" ")[0]
    return SHARED.get(plain, plain)


def drawn(of: Examples, most: int = QUESTIONS) -> Examples:
    """Some of the questions."""
    keep = np.zeros(len(of.words), bool)
    keep[np.random.default_rng(0).permutation(len(keep))[:most]] = True
    return of.of(keep)


class Lessons:
    """The candidates of a collection that weights are learned from, of shape (questions, `BEST`).

    Attributes:
        features, rule, grades, filled: Tensors: features, score by rule, relevance, and whether there is a candidate.
    """

    def __init__(self, of: Examples) -> None:
        found = Features(of.candidates, of.experts)
        order = ordered(of.candidates, found.rule + 10 * (of.gold.covered > 0))
        place = places(of.candidates.question[order])
        order, place = order[place < BEST], place[place < BEST]
        at = of.candidates.question[order], place
        shape = of.candidates.count, BEST
        features, filled = np.zeros((*shape, found.table.shape[1]), np.float32), np.zeros(shape, bool)
        rule, grades = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        features[at], filled[at] = found.table[order], True
        rule[at], grades[at] = found.rule[order], of.gold.grades[order]
        usable = (grades.max(axis=1) > 0) & (filled.sum(axis=1) > 1)
        self.features, self.rule, self.grades, self.filled = (
            torch.from_numpy(array[usable]) for array in (features, rule, grades, filled)
        )


def loss(scores: torch.Tensor, grades: torch.Tensor, filled: torch.Tensor) -> torch.Tensor:
    """LambdaRank's loss of each question."""
    scores = scores.masked_fill(~filled, -1e4)
    discounts = 1 / torch.log2(torch.arange(scores.shape[1]) + 2.0)
    own = discounts[scores.argsort(dim=1, descending=True).argsort(dim=1)]
    ideal = (grades.sort(dim=1, descending=True).values * discounts).sum(dim=1).clamp(min=1e-6)
    gain = (grades[:, :, None] - grades[:, None]).clamp(min=0)
    worth = gain * (own[:, :, None] - own[:, None]).abs() * filled[:, :, None] * filled[:, None]
    pairs = torch.nn.functional.softplus(scores[:, None] - scores[:, :, None])
    return (worth * pairs).sum(dim=(1, 2)) / ideal


def learned(lessons: Mapping[str, Lessons], seed: int = 0) -> Router:
    """Weights learned on some collections, families alike."""
    names = [name for name in lessons if family(name) not in MEASURED]
    shares = Counter(family(name) for name in names)
    sample = torch.cat([lessons[n].features[:100][lessons[n].filled[:100]] for n in names])
    deviations = sample.std(dim=0) + 1e-3
    draw, weights = np.random.default_rng(seed), torch.zeros(sample.shape[1], requires_grad=True)
    weighing = torch.cat([torch.full((BATCH,), shares[family(name)] ** -0.7) for name in names])
    optimizer = torch.optim.Adam([weights], lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        picked = [(lessons[n], torch.from_numpy(draw.integers(0, len(lessons[n].rule), BATCH))) for n in names]
        features, rule, grades, filled = (
            torch.cat([getattr(own, what)[rows] for own, rows in picked])
            for what in ("features", "rule", "grades", "filled")
        )
        losses = loss(Router.rule * rule + (features / deviations) @ weights, grades, filled)
        total = (losses * weighing).sum() / weighing.sum() + PENALTY * (weights**2).sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        schedule.step()
    return unlearned(deviations.numpy()).moved(weights.detach().numpy(), 1.0)


def unlearned(deviations: np.ndarray) -> Router:
    """The rule alone, given the deviation of each feature."""
    experts = len(deviations) - len(FURTHER)
    nothing = np.zeros(len(deviations), np.float32)
    return Router(nothing[:experts].reshape(len(FORMS), 2, -1), nothing[experts:], deviations)


def left_out(of: Mapping[str, Examples]) -> dict[str, np.ndarray]:
    """ER of every question by weights that were learned without its collection's family."""
    lessons = {name: Lessons(drawn(own)) for name, own in of.items()}
    recalls = {}
    for out in sorted({family(name) for name in of}):
        own = learned({name: lesson for name, lesson in lessons.items() if family(name) != out})
        for name in of:
            if family(name) == out:
                recalls[name] = recall(of[name], own.scores(of[name].candidates, of[name].experts))
        click.echo(f"{out} left out", err=True)
    return recalls


def steering(gains: Sequence[float]) -> str:
    """Mean of gains over the best fixed level with losses counted three times, and the worst."""
    values = np.array(gains)
    steer = values.mean() + 2 * np.minimum(values, 0).mean()
    return f"{values.mean():+.4f}, steered by {steer:+.4f}, worst {values.min():+.4f}, above on {(values > 0).sum()}"


def before(of: Examples) -> np.ndarray:
    """`fused` before there was a router: the rule with a steeper slope, and what texts name where it is sure."""
    candidates = of.candidates
    weights = Rule(slope=0.4).weights(candidates, of.experts)
    for name in {"mention", "pagerank"} & set(of.experts):
        column = of.experts.index(name)
        weights[:, column] = np.interp(candidates.confidence[:, column], (1.5, 4.0), (0, 2))
    return boosted(candidates, np.einsum("ij,ij->i", candidates.relative, weights[candidates.question]))


def measured(of: Mapping[str, Examples]) -> list[dict[str, Any]]:
    """A row for each collection: the best fixed level, hybrid-2, RRF, UMG, `fused` as it was, and left out."""
    rows, gains = [], {"before": [], "fused": []}
    for name, recalls in left_out(of).items():
        own = of[name]
        fixed = fixed_recalls(own)
        best = max(fixed, key=lambda level, fixed=fixed: fixed[level].mean())
        row = {"collection": f"{name}, {len(own.words):,} questions, {len(set(own.documents)):,} documents"}
        row["best fixed"] = f"{best.replace(':fixed', '')} {fixed[best].mean():.3f}"
        row["hybrid-2"] = f"{fixed['hybrid:fixed-2'].mean():.3f}"
        others = {"best fixed": fixed[best], "before": recall(own, before(own))}
        row |= {n: f"{recall(own, rank.scores(own.candidates, own.experts)).mean():.3f}" for n, rank in RANKS.items()}
        row["before"] = f"{others['before'].mean():.3f}"
        gains["before"].append(float((others["before"] - fixed[best]).mean()))
        gains["fused"].append(float((recalls - fixed[best]).mean()))
        row["fused, left out"] = f"{recalls.mean():.3f}"
        row |= {f"fused − {other}": text for other, text in differences(recalls, others, own.documents).items()}
        rows.append(row)
    for what, values in gains.items():
        click.echo(f"{what} above the best fixed level: {steering(values)}")
    return rows


def curve(of: Mapping[str, Examples], sizes: Sequence[int] = (5, 10, 15), draws: int = 3) -> list[dict[str, Any]]:
    """Mean gain over the rule alone on families left out, by number of families learned on."""
    lessons = {name: Lessons(drawn(own)) for name, own in of.items()}
    families = sorted({family(name) for name in of})
    rule = unlearned(np.ones(next(iter(lessons.values())).features.shape[2], np.float32))
    base = {name: recall(own, rule.scores(own.candidates, own.experts)).mean() for name, own in of.items()}
    rows = []
    for size in (*sizes, len(families) - 1):
        gains = []
        for out in families:
            for seed in range(draws if size < len(families) - 1 else 1):
                others = [own for own in families if own != out]
                taken = set(np.random.default_rng([seed, size]).permutation(others)[:size])
                own = learned({name: lesson for name, lesson in lessons.items() if family(name) in taken}, seed)
                for name in of:
                    if family(name) == out:
                        scores = own.scores(of[name].candidates, of[name].experts)
                        gains.append(recall(of[name], scores).mean() - base[name])
        row = {"collections": size, "gain over the rule": f"{np.mean(gains):+.4f}", "worst": f"{np.min(gains):+.4f}"}
        rows.append(row)
        click.echo(str(rows[-1]), err=True)
    return rows


def collections(homes: Sequence[Path], names: Sequence[str]) -> dict[str, Examples]:
    """The questions of all collections that are built, with candidates."""
    found = {}
    for number, folder in enumerate(homes):
        for name in names:
            if (folder / name / "home").exists():
                found[f"{name} {folder.name}" if number else name] = questions_of(name, folder)
                click.echo(f"{name} opened", err=True)
    return found


@click.command()
@click.argument("what", type=click.Choice(["learn", "measure", "curve"]))
@click.argument("names", nargs=-1, type=click.Choice(list(COLLECTIONS)))
@click.option("--homes", multiple=True, type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--without", multiple=True, help="What `learn` leaves out with all that shares its texts.")
@click.option("--out", type=click.Path(path_type=Path), help="Where learned weights are written.")
@click.option("--most", default=QUESTIONS, help="Questions of each collection that are measured.")
def main(
    what: str, names: Sequence[str], homes: Sequence[Path], without: Sequence[str], out: Path | None, most: int
) -> None:
    of = {name: drawn(own, most) for name, own in collections(homes, names or list(COLLECTIONS)).items()}
    if what == "learn":
        of = {name: own for name, own in of.items() if family(name) not in {family(other) for other in without}}
        own = learned({name: Lessons(drawn(found)) for name, found in of.items()})
        known = [name for name in of if family(name) not in MEASURED]
        facts = {"collections": known, "questions of each": QUESTIONS, "steps": STEPS, "penalty": PENALTY}
        (out or Path("router.safetensors")).write_bytes(encode(own.arrays, facts))
        return
    click.echo(markdown.table(measured(of) if what == "measure" else curve(of), 400))


if __name__ == "__main__":
    main()
