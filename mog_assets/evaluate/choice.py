"""Which ranking a project uses: the one that its own questions say is better, and `fused` where they cannot tell.

A ranking that was trained on other texts can be far worse than none (one trained on one domain lost a third of its
recall on another), so a learned one is used only if it is significantly better on questions of these corpora that it
was not trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mog_assets.evaluate.significance import by_document, holm, permutation_p

ALPHA = 0.05
# A smaller gain in ER is not worth a ranking with more parameters unless it is significant: it changes sign with the
# rounding of vectors, which differs between processors.
MARGIN = 0.01
UNTRAINED = "fused"


@dataclass(frozen=True)
class Choice:
    """The ranking in use.

    Attributes:
        method: Its name.
        why: One sentence.
        rows: A row per ranking: method, ER (mean over questions), difference from the best that is not learned, and p.
    """

    method: str
    why: str
    rows: list[dict[str, Any]]


def choose(
    recalls: Mapping[str, np.ndarray],
    learned: Sequence[str],
    documents: Sequence[str],
    seed: int,
    remark: str = "",
    losing: Sequence[str] = (),
) -> Choice:
    """Choose a ranking.

    A fixed level replaces `fused` only if it is significantly better: the best of many levels looks good by chance.
    A learned ranking replaces both only if it is significantly better than what was chosen without it; of several, one
    with more parameters replaces a simpler one if it is better by `MARGIN`, or significantly. The simplest is tested
    alone: it hardly fits noise, and its p should not depend on how many others there are.

    Args:
        recalls: ER of every question by ranking, each of shape (questions,): `fused`, fixed levels, and learned ones,
            by models that were not trained on the question's document.
        learned: Names of the learned ones, the simplest first.
        documents: What each question is about.
        seed: Of the random signs.
        remark: What else to say of the questions.
        losing: Learned rankings that find fewer known items than BM25 at level 1: they are not chosen.
    """
    means = {name: float(values.mean()) for name, values in recalls.items()}
    plain = [name for name in recalls if name not in learned]
    p_plain = _p(recalls, plain, UNTRAINED, documents, seed)
    best_fixed = max(plain, key=lambda name: means[name])
    base = best_fixed if p_plain.get(best_fixed, 1.0) < ALPHA and means[best_fixed] > means[UNTRAINED] else UNTRAINED
    trained = [name for name in learned if name in recalls]
    p_learned = {
        k: v for part in (trained[:1], trained[1:]) for k, v in _p(recalls, part, base, documents, seed).items()
    }
    usable = {name: p for name, p in p_learned.items() if name not in losing}
    method, better = base, [n for n in trained if usable.get(n, 1.0) < ALPHA and means[n] > means[base]]
    for name in better:
        gain = means[name] - means[method]
        if (
            method == base
            or gain >= MARGIN
            or (gain > 0 and _p(recalls, [name], method, documents, seed)[name] < ALPHA)
        ):
            method = name
    p = {**p_plain, **p_learned} if base == UNTRAINED else {**_p(recalls, plain, base, documents, seed), **p_learned}
    rows = [
        {"method": name, "ER": means[name], "difference": means[name] - means[base], "p": p.get(name, float("nan"))}
        for name in sorted(means, key=lambda name: -means[name])
    ]
    many = f"{len(documents):,} training questions on {len(set(documents)):,} documents{remark}"
    if method in learned:
        why = (
            f"`{method}` has ER {means[method]:.3f} on questions of documents it was not trained on, `{base}` "
            f"{means[base]:.3f} ({_p_text(p_learned[method])}, cross-validated on {many})"
        )
        if means[best := max(better, key=lambda name: means[name])] > means[method]:
            why += f"; `{best}` ({means[best]:.3f}) is not significantly better than `{method}`, which is simpler"
    elif usable:
        nearest = max(usable, key=lambda name: means[name])
        # A small p without a word would read as if it were better.
        worse = "is worse with" if means[nearest] < means[base] and p_learned[nearest] < ALPHA else "has"
        why = (
            f"no other ranking is significantly better than `{base}` (ER {means[base]:.3f}): `{nearest}` {worse} "
            f"{means[nearest]:.3f} ({_p_text(p_learned[nearest])}, cross-validated on {many})"
        )
        if needed := deciding(recalls[nearest] - recalls[base], documents):
            why += f"; about {needed:,} questions like these would decide"
    else:
        why = f"`{base}` has ER {means[base]:.3f} on {many}" + ("" if p_learned else ", and nothing is trained")
    if passed := sorted({n for n in losing if p_learned.get(n, 1.0) < ALPHA and means[n] > means[base]}):
        losses = ", ".join(f"`{name}`, ER {means[name]:.3f}," for name in passed)
        why += f"; {losses} {'find' if len(passed) > 1 else 'finds'} fewer known items than BM25"
    return Choice(method, why, rows)


def deciding(gains: np.ndarray, documents: Sequence[str]) -> int | None:
    """Return with how many questions like these the mean gain would be above 0 by 1.96 standard errors, by document.

    Args:
        gains: Of every question, shape (questions,).
        documents: What each question is about.

    Returns:
        More than there are; None if the mean is not above 0, or is already so far above it.
    """
    totals = by_document(gains[:, None], np.asarray(documents, str))
    mean = float(totals.mean[0])
    if mean <= 0 or len(totals.sizes) < 2:
        return None
    error = float(np.sqrt(np.square(totals.sums[:, 0] - mean * totals.sizes).sum())) / totals.questions
    needed = int(np.ceil(totals.questions * (1.96 * error / mean) ** 2))
    return needed if totals.questions < needed else None


def _p(
    recalls: Mapping[str, np.ndarray], names: Sequence[str], base: str, documents: Sequence[str], seed: int
) -> dict[str, float]:
    """Return p-values of differences from one ranking, Holm-corrected over the others."""
    others = [name for name in names if name != base]
    if not others:
        return {}
    differences = np.stack([recalls[name] - recalls[base] for name in others], axis=1)
    p = holm(permutation_p(by_document(differences, np.asarray(documents, str)), seed=seed))
    return dict(zip(others, p.tolist(), strict=True))


def _p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
