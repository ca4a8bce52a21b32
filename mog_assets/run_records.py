"""What Dagster keeps of runs that ended long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from mog_assets.config import Settings
from mog_assets.runner import instance


def remove_old_runs(settings: Settings, days: int, dry_run: bool = False) -> int:
    """Remove finished runs that began `days` ago or earlier; returns how many.

    A run stays that materialised an asset or a partition last: without its events automation would take that for
    missing and start a run.
    """
    before = datetime.now(UTC) - timedelta(days=days)
    with instance(settings) as opened:
        needed = set()
        for key in opened.all_asset_keys():
            latest = opened.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
            if event := opened.get_latest_materialization_event(key):
                needed.add(event.run_id)
            ids = list(latest.values())
            if ids:
                asked = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids)
                needed |= {r.run_id for r in opened.fetch_materializations(asked, limit=len(ids)).records}
        chosen = dg.RunsFilter(statuses=FINISHED_STATUSES, created_before=before)
        old = [run.run_id for run in opened.get_runs(chosen) if run.run_id not in needed]
        for run_id in [] if dry_run else old:
            opened.delete_run(run_id)
    return len(old)
