"""The asset `history`: scores by date, and the accepted scores that new ones are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from mog_assets.evaluation import history, plots, salvage
from mog_assets.evaluation.configuration import configuration
from mog_assets.evaluation.measures import headline_measures
from mog_assets.questions.origins import origins
from mog_assets.recipe import Work
from mog_assets.retrieval.methods import controls


def build_history(work: Work) -> None:
    """Add the scores to those of earlier evaluations, and compare them with the evaluation that was accepted last.

    An evaluation without a significant drop is accepted. One with a drop is accepted only if the configuration has
    changed since the accepted one: the drop is reported once, and later evaluations are compared with the new scores.

    The intact part of a damaged history is kept, and lost evaluations are listed.
    """
    settings, stored, previous = work.settings, work.input("scores"), work.draft.previous
    past = _past(work)
    measured = pd.read_parquet(stored.path("per_question.parquet"))
    # Random and gold controls say nothing about the system.
    said = ~measured["method"].isin(controls())
    made_by = origins(settings)
    now = history.leading(measured[said])
    when = datetime.fromtimestamp(round(stored.manifest.created, 6), UTC)
    this = {
        "time": when.isoformat(timespec="seconds"),
        "scores": stored.manifest.version,
        "configuration": configuration(settings),
    }
    earlier, basis, accepted = past.table, past.basis, past.accepted
    if basis is None or accepted is None:
        basis, accepted = this, now
    with work.progress(0, "compared with the accepted scores"):
        comparison = history.compare(now, accepted, settings.seed)
    dropped = history.drops(comparison)
    changed = this["configuration"] != basis["configuration"]

    table, added = earlier, earlier is None or pd.Timestamp(when) not in set(earlier["time"])
    if added:
        scores = pd.read_parquet(stored.path("scores.parquet"))
        measures = headline_measures(settings.k)
        table = history.appended(
            earlier, history.rows(scores, measures, when, this["scores"], this["configuration"], comparison)
        )
    assert table is not None
    stands = basis if dropped and not changed else this
    _write_or_keep(work, salvage.TABLE, table if added else None, this, len(table), otherwise=table)
    _write_or_keep(work, salvage.ACCEPTED, now if stands is this else None, stands, otherwise=accepted)
    path, there = work.file(salvage.LINES, this, len(table), stands)
    if not there:
        with work.writing(path) as temporary:
            temporary.write_text(salvage.lines(table, stands), encoding="utf-8")
    work.info |= {"accepted": stands, "drop": _explained(dropped, basis, changed), "evaluations": salvage.times(table)}
    before = previous.manifest.info.get("lost", []) if previous else []
    work.info["lost"] = [*before, *([] if previous else past.lost(table))]
    if previous is None and (work.damage or set(past.known) - {pd.Timestamp(when).isoformat()}):
        kept = 0 if earlier is None else earlier["time"].nunique()
        lost = f"lost: {', '.join(work.info['lost'])}" if work.info["lost"] else "no known evaluation is lost"
        work.damage = f"{work.damage or 'manifest.json is missing'}; earlier evaluations kept: {kept}, {lost}"
    evaluations = table["time"].nunique()
    work.counts |= {"evaluations": evaluations, "rows": len(table), "methods that dropped": len(dropped)}
    work.recomputed["evaluations added"] = int(added)
    for board, own in history.boards(table, made_by):
        work.show_plot(
            f"{history.LEADS[board.evidence]} over time: {board.name}", plots.er_over_time(own, board.question_set)
        )
    work.show_table("accepted", [work.info["accepted"]])
    work.show_table("significant drops", [{"drop": drop} for drop in dropped])
    work.show_table("lost by damage", [{"lost": lost} for lost in work.info["lost"]])


def _past(work: Work) -> salvage.Remains:
    """The history so far, or its intact part."""
    previous = work.draft.previous
    if previous is None:
        return salvage.remains(work.draft.folder)
    return salvage.Remains(
        pd.read_parquet(previous.path(salvage.TABLE)),
        pd.read_parquet(previous.path(salvage.ACCEPTED)),
        previous.manifest.info["accepted"],
    )


def _write_or_keep(
    work: Work, name: str, table: pd.DataFrame | None, *key: Any, otherwise: pd.DataFrame | None = None
) -> None:
    """Write a table; if there is none, keep that of the previous artefact, or write its intact part."""
    if table is None and work.draft.previous is not None:
        work.keep(work.draft.previous, name)
        return
    path, there = work.file(name, *key)
    if not there:
        table = otherwise if table is None else table
        assert table is not None
        with work.writing(path) as temporary:
            table.to_parquet(temporary)


def _explained(dropped: list[str], basis: Mapping[str, str], changed: bool) -> str | None:
    if not dropped:
        return None
    what = f"against the scores accepted on {basis['time']}: {'; '.join(dropped)}"
    if changed:
        return f"{what}. The configuration has changed since, so the new scores are the accepted ones from now on"
    return f"{what}. Later evaluations are compared with the same accepted scores until the configuration changes"
