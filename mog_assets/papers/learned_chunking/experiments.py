"""Compare chunkers at equal mean chunk size, on questions that none of them was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from mog_assets.config import Settings
from mog_assets.evaluate.significance import by_document, permutation_p
from mog_assets.papers.experiments.conclusions import joined, over_sets
from mog_assets.papers.experiments.lab import (
    ALPHA,
    Experiment,
    Findings,
    Lab,
    Verdict,
    difference_text,
    greater,
    registered,
    score_row,
    score_rows,
)
from mog_assets.papers.learned_chunking.grounds import (
    EQUAL,
    FOLDS,
    MEASURES,
    TOKENS,
    Ground,
    cell_of,
    grounds_of,
    heuristic_row,
    learned_row,
    mean_of,
)
from mog_assets.papers.learned_chunking.settings import CHUNKER
from mog_assets.text.chunkers import CHUNKERS, sentences

# A chunker is worth its training if it saves this share of the tokens.
_WORTH = 0.05
_HEURISTICS = tuple(name for name, chunker in CHUNKERS.items() if not chunker.trained)


def chunkers(lab: Lab) -> Findings:
    """Return every chunker at the mean length of `sentences`, with chunks ranked by similarity to the question."""
    grounds = grounds_of(lab)
    tables, by_article = [], []
    claims: dict[str, tuple[Verdict, str]] = {}
    recall: dict[str, tuple[Verdict, str]] = {}
    for name, ground in grounds.items():
        mean = mean_of(ground, [sentences(source.text, lab.settings.finest_chars) for source in ground.sources])
        cells = {
            h: cell_of(lab, name, ground, h, [mean, h], partial(heuristic_row, ground, h, mean)) for h in _HEURISTICS
        }
        equal = [h for h in _HEURISTICS if abs(cells[h]["characters"].iloc[0] / mean - 1) <= EQUAL]
        best = min(equal, key=lambda h: cells[h][TOKENS].mean())
        training = CHUNKER.of(lab.settings).training
        cells["learned"] = learned_row(lab, name, ground, "learned", training, mean)
        tables.append(score_rows(name, list(cells.values()), MEASURES, best, lab.seed))
        row = score_row(tables[-1], name, "learned", TOKENS)
        claims[name] = _fewer(row, cells["learned"], cells[best], mean)
        row = score_row(tables[-1], name, "learned", "ER")
        recall[name] = (greater(row), f"ER of learned against {best} {difference_text(row)}")
        by_article += _by_article(name, ground, cells, lab.seed)
        others = {
            "no vectors": learned_row(lab, name, ground, "no vectors", training, mean, blind=True),
            "best end of each window": learned_row(lab, name, ground, "best end", training, mean, greedy=True),
        }
        of_paper = f"{name}, ways to train"
        frames = [cells[best], cells["learned"], *(f.assign(cell=what) for what, f in others.items())]
        tables.append(score_rows(of_paper, frames, MEASURES[:3], best, lab.seed))
    return Findings(
        joined(tables),
        tables={
            "documents": [_described(n, g) for n, g in grounds.items()],
            "learned, differences by document": by_article,
        },
        claims=[
            *over_sets(
                "Ours; after Learned Chunking",
                f"A learned chunker needs at least {_WORTH:.0%} fewer tokens to answer than the best heuristic with "
                "the same mean chunk size.",
                claims,
            ),
            *over_sets(
                "Ours; after Learned Chunking", "Its chunks cover more of the evidence at equal context.", recall
            ),
        ],
    )


def _fewer(row: pd.Series, learned: pd.DataFrame, best: pd.DataFrame, mean: float) -> tuple[Verdict, str]:
    """Return whether a chunker saves enough tokens to be worth its training.

    Args:
        row: Tokens to answer of the learned chunker, compared with the best heuristic.
        learned: The cell of the learned chunker.
        best: The cell of the heuristic.
        mean: Target mean length of chunks for both, in characters.
    """
    tokens = float(best[TOKENS].mean())
    text = (
        f"tokens to answer {row['value']:.0f}, of {best['cell'].iloc[0]} {tokens:.0f}: {difference_text(row)}; "
        f"{-row['difference'] / tokens:.1%} fewer [{-row['difference_high'] / tokens:.1%}, "
        f"{-row['difference_low'] / tokens:.1%}]"
    )
    if abs(learned["characters"].iloc[0] / mean - 1) > EQUAL:
        return "undecided", f"{text}; chunks differ in mean length"
    if -row["difference"] >= _WORTH * tokens and row["p"] < ALPHA:
        return "seen", text
    return ("not seen" if -row["difference_low"] < _WORTH * tokens else "undecided"), text


def _differences(learned: pd.DataFrame, other: pd.DataFrame) -> pd.Series:
    """Return tokens to answer of one cell minus those of another, by question and document."""
    keys = ["question", "document"]
    return learned.set_index(keys)[TOKENS] - other.set_index(keys)[TOKENS]


def _by_article(name: str, ground: Ground, cells: dict[str, pd.DataFrame], seed: int) -> list[dict[str, Any]]:
    """Return the learned chunker against each of the others, by document."""
    rows = []
    for what, cell in cells.items():
        if what == "learned":
            continue
        difference = _differences(cells["learned"], cell)
        means = difference.groupby(level="document").mean()
        totals = by_document(difference.to_numpy(), difference.index.get_level_values("document").to_numpy(str))
        rows.append(
            {
                "question set": name,
                "learned against": what,
                "characters of a chunk": ", ".join(f"{c['characters'].iloc[0]:.0f}" for c in (cells["learned"], cell)),
                "tokens to answer": f"{difference.mean():+.1f} ({difference.mean() / cell[TOKENS].mean():+.1%})",
                "median of documents": f"{means.median():+.1f}",
                "documents with fewer": f"{int((means < 0).sum())} of {len(means)}",
                "p": f"{permutation_p(totals, seed=seed)[0]:.4f}",
            }
        )
    return rows


def _described(name: str, ground: Ground) -> dict[str, Any]:
    return {
        "question set": name,
        "documents": len(ground.sources),
        "characters": f"{ground.characters:,}",
        "questions": len(ground.questions),
        "possible chunks": f"{sum(len(article.possible) for article in ground.articles):,}",
        "folds": FOLDS,
    }


def _reads(settings: Settings) -> Sequence[str]:
    return ("documents", "chunks/level_1", "questions") if settings.trains else ()


registered(
    Experiment(
        "chunkers",
        "Chunkers at equal chunk size",
        "Tokens to answer over all chunks of the documents, and ER, with chunks of every chunker at the mean length of "
        "`sentences`, ranked by similarity to the question; the learned one splits documents that it was not trained "
        "on (three folds of documents with training questions). Variants: without vectors, and with the best end of "
        "each window instead of the best cut of the text.",
        chunkers,
        _reads,
        lambda settings: [CHUNKER.of(settings).training.model_dump(), settings.finest_chars],
        asks_test_questions=False,
    ),
)
