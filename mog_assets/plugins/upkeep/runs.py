"""Dagster's records of old runs, removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg

from mog_assets.build.records import FINISHED


def remove_old_runs(instance: dg.DagsterInstance, days: int, dry_run: bool = False) -> int:
    """Remove finished runs that started `days` ago or earlier; returns their number.

    The run that last materialised an asset or partition is kept: without its events, automation would see the asset as
    missing and start a run.
    """
    before = datetime.now(UTC) - timedelta(days=days)
    needed = set()
    for key in instance.all_asset_keys():
        latest = instance.get_latest_storage_id_by_partition(key, dg.DagsterEventType.ASSET_MATERIALIZATION)
        if event := instance.get_latest_materialization_event(key):
            needed.add(event.run_id)
        ids = list(latest.values())
        if ids:
            records_wanted = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids)
            needed |= {r.run_id for r in instance.fetch_materializations(records_wanted, limit=len(ids)).records}
    chosen = dg.RunsFilter(statuses=FINISHED, created_before=before)
    old = [run.run_id for run in instance.get_runs(chosen) if run.run_id not in needed]
    for run_id in [] if dry_run else old:
        instance.delete_run(run_id)
    return len(old)
