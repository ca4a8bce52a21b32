"""How well the preflight foretells where the key document stands (BriefContext, section 2.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mog_assets.answer.notation import combinations
from mog_assets.config import Settings
from mog_assets.evaluate.scores import interval, on_documents, p_said
from mog_assets.evaluate.significance import RESAMPLES, by_document, detectable, ends, permutation_p, resampled_means
from mog_assets.papers.briefcontext.preflight import TOP
from mog_assets.papers.briefcontext.preflight_quality import Confusion, preflight_cases
from mog_assets.papers.experiments.answers import AnsweredCases, of_answers
from mog_assets.papers.experiments.conclusions import untestable
from mog_assets.papers.experiments.lab import ALPHA, Claim, Experiment, Findings, Lab, Verdict, registered
from mog_assets.papers.experiments.shares import share_interval

# BriefContext, supplementary table 4.
_PAPER = Confusion(426, 423, 34, 235)

_PAPERS = {
    "foresees": (
        "BriefContext, section 2.5, supplementary table 4",
        "The preflight predicts most cases of a key document below the top 3 (there 92.6 %).",
    ),
    "asks": (
        "BriefContext, section 2.5",
        "Agreement of two rankings indicates the rank of the key document: the preflight asks for the map-reduce more "
        "often if it is below the top 3.",
    ),
}


def preflight(lab: Lab) -> Findings:
    """Return how well the preflight of stored map-reduces predicts that the key document is ranked below the top."""
    stored, tables, claims = AnsweredCases.read(lab), {}, []
    cases = preflight_cases(stored.answers, stored.questions)
    for (question_set, method), part in cases.groupby(["question_set", "method"], sort=False):
        name, counts = f"{question_set}, {method}", Confusion.of(part["foreseen"].tolist(), part["below"].tolist())
        low, high = preflight_intervals(part, lab.seed)
        tables[f"{name}: preflight"] = [
            {
                "measure": measure,
                "here": "" if here is None else interval(here, low[i], high[i]),
                "in the paper": f"{below:.4f}",
            }
            for i, (measure, here, below) in enumerate(
                (measure, getattr(counts, key), getattr(_PAPER, key))
                for measure, key in (("precision", "precision"), ("recall", "recall"), ("F1", "f1"))
            )
        ]
        tables[f"{name}: preflight"] += [
            {"measure": key.upper(), "here": str(getattr(counts, key)), "in the paper": str(getattr(_PAPER, key))}
            for key in ("tp", "fp", "fn", "tn")
        ]
        claims += _preflight_claims(name, part, lab.seed)
    if not tables:
        because = "no map-reduce answer has a gold document among its passages"
        claims = [untestable(*_PAPERS[name], because) for name in _PAPERS]
    return Findings(tables=tables, claims=claims)


def preflight_intervals(cases: pd.DataFrame, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 95 % intervals of precision, recall and F1, lower and upper ends, each of shape (3,).

    Args:
        cases: Result of `preflight_quality.preflight_cases` for one answering method.
        seed: Seed of the resamples.
    """
    foreseen, below = cases["foreseen"].to_numpy(bool), cases["below"].to_numpy(bool)
    counted = np.stack([foreseen & below, foreseen & ~below, ~foreseen & below], axis=1)
    totals = by_document(counted, cases["document"].to_numpy(str))
    tp, fp, fn = resampled_means(totals, RESAMPLES, seed).T
    with np.errstate(invalid="ignore"):
        values = np.stack([tp / (tp + fp), tp / (tp + fn), 2 * tp / (2 * tp + fp + fn)])
    # A resample that predicts nothing has no precision.
    samples = [row[~np.isnan(row)] if not np.isnan(row).all() else row for row in values]
    low, high = np.array([ends(row, totals) for row in samples]).T
    return low, high


def _preflight_claims(name: str, cases: pd.DataFrame, seed: int) -> list[Claim]:
    documents, foreseen, below = (cases[column].to_numpy() for column in ("document", "foreseen", "below"))
    if not below.any():
        because = f"{name}: no key document of {on_documents(len(below), len(set(documents)))} is below the top {TOP}"
        return [untestable(*_PAPERS[claim], because) for claim in _PAPERS]
    most = by_document(foreseen[below] - 0.5, documents[below])
    (p,), (least,) = permutation_p(most, seed=seed), detectable(most, ALPHA)
    # Zero on average if the preflight asks equally often in both cases: a score test of the two shares.
    together = by_document((foreseen - foreseen.mean()) * (below - below.mean()), documents)
    (p_together,) = permutation_p(together, seed=seed)
    shares = [_share(foreseen[part], documents[part]) for part in (below, ~below)]
    _, high = share_interval(foreseen[below], documents[below])
    asks: Verdict = "undecided" if p_together >= ALPHA else "seen" if together.mean[0] > 0 else "not seen"
    return [
        Claim(
            *_PAPERS["foresees"],
            "seen" if p < ALPHA and most.mean[0] > 0 else "not seen" if high < 0.5 else "undecided",
            f"{name}: {shares[0]}, {p_said(p)} against half of them"
            + ("" if p < ALPHA or np.isnan(least) else f"; the smallest detectable share is {min(0.5 + least, 1):.0%}"),
        ),
        Claim(
            *_PAPERS["asks"],
            asks,
            f"{name}: below the top for {shares[0]}, in it for {shares[1]}; {p_said(p_together)}",
        ),
    ]


def _share(outcomes: np.ndarray, documents: np.ndarray) -> str:
    """Return `66.7% [10.1%, 98.0%] of 3 questions on 2 documents`."""
    counts = on_documents(len(outcomes), len(set(documents)))
    return (
        f"{interval(outcomes.mean(), *share_interval(outcomes, documents), '.1%')} of {counts}"
        if len(outcomes)
        else f"{counts}"
    )


def _with_preflight(settings: Settings) -> Sequence[str]:
    return of_answers(settings) if any(way.way == "briefcontext" for way in combinations(settings)) else ()


registered(
    Experiment(
        "preflight",
        "Quality of the preflight",
        "Precision, recall and F1 of the preflight of every map-reduce answer; true means a key document below the "
        "top 3 (BriefContext, section 2.5, supplementary table 4).",
        preflight,
        _with_preflight,
        version="3",
    ),
)
