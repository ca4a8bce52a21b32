"""The command `prune`."""

from __future__ import annotations

import click

from mog_assets.cli.common import config_option, echo, guarded, settings_of


@click.command()
@config_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and how many bytes, without removing it.")
@click.option("--answers", is_flag=True, help="Also remove cached answers of language models that may have cost money.")
@click.option(
    "--runs-older-than", "days", type=click.IntRange(min=0), help="Also remove Dagster runs started DAYS or more ago."
)
@guarded
def prune(path: str | None, dry_run: bool, answers: bool, days: int | None) -> None:
    """Remove data that is no longer needed: old vectors, interrupted trainings, unused files of the store.

    Nothing has to be rebuilt afterwards. Runs with the latest materialisation of an asset are kept.
    """
    from mog_assets.cli.pruning import alone, removable

    settings = settings_of(path)
    verb = "would remove" if dry_run else "removed"
    with alone(settings):
        leftovers = removable(settings, answers)
        for one in leftovers:
            if not dry_run:
                one.remove()
            echo(f"{verb} {one.what}: {one.bytes:,} bytes")
    echo(f"{verb} {sum(one.bytes for one in leftovers):,} bytes")
    if days is not None:
        from mog_assets.build.records import remove_old_runs
        from mog_assets.build.runner import instance

        with instance(settings) as opened:
            echo(f"{verb} {remove_old_runs(opened, days, dry_run):,} Dagster runs")
