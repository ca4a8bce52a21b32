"""The asset `history`: scores by date, and the accepted scores that new ones are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pandas as pd

from mog_assets.build.recipe import Work
from mog_assets.config import Settings
from mog_assets.evaluate.configuration import NO_MATTER
from mog_assets.evaluate.measures import headline_measures
from mog_assets.plugins.report import history, plots
from mog_assets.questions.sources import origins
from mog_assets.registry import SECTIONS
from mog_assets.resources.store import digest
from mog_assets.search.methods import controls

TABLE, ACCEPTED = "history.parquet", "accepted.parquet"


def configuration(settings: Settings) -> str:
    """Return a digest of the settings in mog.yaml that scores depend on, without paths and execution settings."""
    # Questions that are made or noted differ from one evaluation to the next, and only those of both are compared.
    exclude = {"home", "corpora", "question_sets", "engine", "llm", "answering"}
    exclude |= {name for name, section in SECTIONS.items() if not section.scored}
    chosen = settings.model_dump(mode="json", exclude=exclude)
    for section, names in NO_MATTER.items():
        chosen[section] = {name: value for name, value in chosen[section].items() if name not in names}
    sets = {name: [q.corpora, q.train, q.test] for name, q in settings.question_sets.items()}
    return digest(chosen, sorted(settings.corpora), sets)


def build_history(work: Work) -> None:
    """Add the scores to those of earlier evaluations, and compare them with the evaluation that was accepted last.

    An evaluation without a significant drop is accepted. One with a drop is accepted only if the configuration has
    changed since the accepted one: the drop is reported once, and later evaluations are compared with the new scores.

    The file and the artefact complete each other: what one has lost is taken from the other.
    """
    settings, stored, previous = work.settings, work.input("scores"), work.draft.previous
    file = settings.home / history.FILE
    past, unreadable = history.read(file)
    restored = history.joined(past, pd.read_parquet(previous.path(TABLE)) if previous else past)
    measured = pd.read_parquet(stored.path("per_question.parquet"))
    # Random and gold controls say nothing about the system.
    now = history.leading(measured[~measured["method"].isin(controls())])
    when = datetime.fromtimestamp(round(stored.manifest.created, 6), UTC)
    this = {
        "time": when.isoformat(timespec="seconds"),
        "scores": stored.manifest.version,
        "configuration": configuration(settings),
    }
    basis, accepted = this, now
    if previous:
        basis, accepted = previous.manifest.info["accepted"], pd.read_parquet(previous.path(ACCEPTED))
    with work.progress(0, "compared with the accepted scores"):
        comparison = history.compare(now, accepted, settings.seed)
    dropped = history.drops(comparison)
    changed = this["configuration"] != basis["configuration"]

    table, added = restored, pd.Timestamp(when) not in set(restored["time"])
    if added:
        scores = pd.read_parquet(stored.path("scores.parquet"))
        configured = this["scores"], this["configuration"]
        new = history.rows(scores, headline_measures(settings.k), when, *configured, comparison)
        table = history.joined(restored, new)
    if missing := set(table["time"]) - set(past["time"]):
        history.append(file, table[table["time"].isin(missing)])
    stands = basis if dropped and not changed else this
    for name, frame in ((TABLE, table), (ACCEPTED, now if stands is this else accepted)):
        path, exists = work.file(name, stands, history.times(table) if name == TABLE else None)
        if not exists:
            with work.writing(path) as temporary:
                frame.to_parquet(temporary)
    lost = [f"lines of {file} that cannot be read: {unreadable}"] if unreadable else []
    if previous is None and len(past):
        lost.append("the last accepted scores, which later ones are compared with")
    work.info |= {"accepted": stands, "drop": _explained(dropped, basis, changed), "lost": lost}
    evaluations = table["time"].nunique()
    work.counts |= {"evaluations": evaluations, "rows": len(table), "methods that dropped": len(dropped)}
    work.recomputed["evaluations added"] = int(added)
    for board, part in history.boards(table, origins(settings)):
        work.show_plot(
            f"{history.LEADS[board.evidence]} over time: {board.name}", plots.er_over_time(part, board.question_set)
        )
    work.show_table("accepted", [work.info["accepted"]])
    work.show_table("significant drops", [{"drop": drop} for drop in dropped])
    work.show_table("lost by damage", [{"lost": phrase} for phrase in lost])


def _explained(dropped: list[str], basis: Mapping[str, str], changed: bool) -> str | None:
    if not dropped:
        return None
    what = f"against the scores accepted on {basis['time']}: {'; '.join(dropped)}"
    if changed:
        return f"{what}. The configuration has changed since, so the new scores are the accepted ones from now on"
    return f"{what}. Later evaluations are compared with the same accepted scores until the configuration changes"
