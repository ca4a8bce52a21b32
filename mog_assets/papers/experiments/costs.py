"""What answers cost: calls, tokens, time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mog_assets.evaluate.answers import score_answers
from mog_assets.evaluate.scores import interval
from mog_assets.evaluate.significance import bootstrap_interval, by_document
from mog_assets.papers.experiments.answers import EXTRA, AnsweredCases, of_answers, of_model, without
from mog_assets.papers.experiments.lab import (
    ALPHA,
    Experiment,
    Findings,
    Lab,
    Verdict,
    registered,
)

# Minimum number of single-call answers from which the length of an instruction is estimated.
_ENOUGH = 10


def map_reduce_relation(answers: pd.DataFrame, seed: int) -> list[dict[str, Any]] | None:
    """Return tokens read by map-reduces, compared with BriefContext's equations 4 and 5.

    N_con and N_ins are estimated from single-call answers: their input is fitted as a constant, N_ins, plus a number of
    tokens per word of their passages. `beyond` is the input beyond N_con + M N_ins, as a share of it; `extra` the input
    beyond N_con + N_ins, as a share of that. Their intervals hold for all methods jointly: 95 % by Bonferroni.

    Args:
        answers: `Answered.answers` of a question set.
        seed: Seed of the resamples.

    Returns:
        A row per answering method with a map-reduce; None if there is none, or if there are too few single-call answers
        for the fit.
    """
    words = answers["passages"].map(lambda text: words_of(json.loads(text)))
    # Null is the text "null" in a file in which some answers reduced, and missing in one in which none did.
    extractions = answers.reindex(columns=["extractions"])["extractions"].map(
        lambda text: json.loads(text) if isinstance(text, str) else None
    )
    partitions = extractions.map(lambda parts: len(parts) if parts is not None else 0).astype(float)
    reduced = partitions > 0
    failed = answers["failures"].map(lambda text: bool(json.loads(text)))
    one = ~reduced & ~failed & (answers["calls"] == 1) & (words > 0)
    if not reduced.any() or one.sum() < _ENOUGH or words[one].nunique() < 2:
        return None
    per_word, instruction = np.polyfit(words[one], answers.loc[one, "tokens_in"], 1)
    rows = []
    groups = answers[reduced & ~failed].groupby("method", sort=False)
    level = 1 - ALPHA / max(len(groups), 1)
    for way, part in groups:
        context = per_word * words[part.index].to_numpy(float)
        parts = partitions[part.index].to_numpy()
        read = part["tokens_in"].to_numpy(float)
        prompt, formula = context + instruction, context + parts * instruction
        shares = np.stack([read / formula - 1, read / prompt - 1], axis=1)
        totals = by_document(shares, part["document"].to_numpy(str))
        lows, highs = bootstrap_interval(totals, seed=seed, level=level)
        beyond, extra = shares.mean(axis=0)
        rows.append(
            {
                "way": str(way),
                "n": len(part),
                "documents": len(totals.sizes),
                "unit": str(part["token_unit"].iloc[0]),
                "M": parts.mean(),
                "N_con": context.mean(),
                "N_ins": float(instruction),
                "N_con + N_ins": prompt.mean(),
                "N_con + M N_ins": formula.mean(),
                "read": read.mean(),
                "beyond": beyond,
                "beyond_interval": (float(lows[0]), float(highs[0])),
                "extra": extra,
                "extra_interval": (float(lows[1]), float(highs[1])),
            }
        )
    return rows or None


def cost(lab: Lab) -> Findings:
    """Return calls, tokens, money and accuracy of every answering method."""
    tables, claims = {}, []
    for name, answers, marks in AnsweredCases.read(lab).parts():
        scores = score_answers(marks, lab.seed)
        tables[f"{name}: cost and accuracy"] = cost_rows(answers, scores)
        relation = map_reduce_relation(answers, lab.seed)
        if relation is None:
            continue
        tables[f"{name}: what the map-reduce reads"] = [
            without([row], "beyond_interval", "extra_interval")[0]
            | {"beyond interval": percents(row["beyond_interval"]), "extra interval": percents(row["extra_interval"])}
            for row in relation
        ]
        unit = relation[0]["unit"]
        claims.append(
            of_model(
                lab,
                "BriefContext, section 5.2, equations 4 and 5",
                "The map-reduce reads O(N_con) + M N_ins: the context, and the instruction for every partition.",
                _within([row["beyond_interval"] for row in relation]),
                f"{name}, by whether it lies within {EXTRA:.0%} of that: "
                + "; ".join(
                    f"{row['way']} reads {row['read']:,.0f} {unit} a question with M = {row['M']:.3g}, N_con + M N_ins "
                    f"is {row['N_con + M N_ins']:,.0f} and one prompt {row['N_con + N_ins']:,.0f}: "
                    f"{row['beyond']:+.1%} {percents(row['beyond_interval'])}"
                    for row in relation
                ),
            )
        )
        claims.append(
            of_model(
                lab,
                "BriefContext, section 5.2",
                "The prompts of the map-reduce cost about 10 % more input than one prompt.",
                _within([row["extra_interval"] for row in relation]),
                f"{name}, by whether it is more than {EXTRA:.0%}: "
                + "; ".join(f"{row['way']} {row['extra']:+.1%} {percents(row['extra_interval'])}" for row in relation)
                + "; the paper's own averages, 5,496.5 tokens against 3,066.0, are +79.3%",
            )
        )
    return Findings(tables=tables, claims=claims)


def _within(intervals: Sequence[tuple[float, float]]) -> Verdict:
    """Return whether all shares are at most `EXTRA`: an interval can show this, a p-value above .05 cannot."""
    if all(high <= EXTRA for _, high in intervals):
        return "seen"
    return "not seen" if any(low > EXTRA for low, _ in intervals) else "undecided"


def percents(ends: tuple[float, float]) -> str:
    """Return `[+1.2%, +3.4%]`."""
    return f"[{ends[0]:+.1%}, {ends[1]:+.1%}]"


def cost_rows(answers: pd.DataFrame, scores: pd.DataFrame) -> list[dict[str, Any]]:
    """Return total cost of every answering method for a question set, best method first.

    Args:
        answers: Result of `rows.read_answers` for the question set.
        scores: Result of `evaluate.answers.score_answers`.
    """
    measured = scores[scores["measure"] == "exact match"].set_index("method")
    rows = []
    for way, part in answers.groupby("method", sort=False):
        accuracy = measured.loc[way]
        passed = [json.loads(passages) for passages in part["passages"]]
        rows.append(
            {
                "way": str(way),
                "accuracy": interval(*accuracy[["value", "low", "high"]]),
                "n": len(part),
                "calls": int(part["calls"].sum()),
                "read": int(part["tokens_in"].sum()),
                "written": int(part["tokens_out"].sum()),
                "unit": str(part["token_unit"].iloc[0]),
                "read a question": round(float(part["tokens_in"].mean()), 1),
                "USD": round(float(part["cost"].sum()), 6),
                "passages passed on": sum(map(len, passed)),
                "characters passed on": sum(len(p["text"]) for passages in passed for p in passages),
                "words passed on": sum(words_of(passages) for passages in passed),
            }
        )
    return sorted(rows, key=lambda row: -measured.loc[row["way"], "value"])


def words_of(passages: Sequence[Mapping[str, Any]]) -> int:
    """Return words of some passages."""
    return sum(len(p["text"].split()) for p in passages)


registered(
    Experiment(
        "cost",
        "Cost of answers",
        "Calls, tokens, money, characters of passages and accuracy of every answering method; tokens read by "
        "map-reduce against one prompt (BriefContext, section 5.2, equations 4 and 5).",
        cost,
        of_answers,
        version="2",
    ),
)
