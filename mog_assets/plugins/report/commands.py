"""The command `mog compare`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from mog_assets import config
from mog_assets.cli.common import check_measured, echo, guarded, print_table
from mog_assets.registry import COMMANDS
from mog_assets.resources.errors import MogError


@click.command()
@click.argument("base")
@click.argument("other")
@click.option("--measure", "measures", multiple=True, help="Measures. [default: ER, nDCG@10, tokens_to_answer]")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="Also write this Markdown file.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def compare(base: str, other: str, measures: tuple[str, ...], to: Path | None, as_json: bool) -> None:
    """Compare the scores of two configurations, BASE and OTHER, by method, on the questions they share."""
    import pandas as pd

    from mog_assets.build import markdown
    from mog_assets.evaluate.scores import on_documents
    from mog_assets.plugins.report.comparing import side_by_side
    from mog_assets.resources.files import atomic
    from mog_assets.resources.store import Store

    wanted = list(dict.fromkeys(measures or ("ER", "nDCG@10", "tokens_to_answer")))
    both = [config.load(path) for path in (base, other)]
    for path, settings in zip((base, other), both, strict=True):
        check_measured(settings, path)
    tables = [pd.read_parquet(Store(s.home).read("scores").path("per_question.parquet")) for s in both]
    for path, table in zip((base, other), tables, strict=True):
        available = [column for column in table if table[column].dtype.kind == "f"]
        if unknown := [name for name in wanted if name not in available]:
            raise MogError(f"--measure: expected measures of {path} ({', '.join(available)}), got {', '.join(unknown)}")
    differences = side_by_side(tables[0], tables[1], wanted, both[0].seed)
    if not differences:
        raise MogError(f"{other}: expected questions and methods that {base} has scores for too, got none")
    if as_json:
        frames = {name: table.astype(object) for name, table in differences.items()}
        rows_of = {name: frame.where(frame.notna(), None).to_dict("records") for name, frame in frames.items()}
        echo(json.dumps(rows_of, ensure_ascii=False, indent=1))
        return
    page = [f"# {Path(other).name} against {Path(base).name}\n"]
    for name, table in differences.items():
        rows = _compared(table, wanted)
        counts = on_documents(int(table["n"].max()), int(table["documents"].max()))
        title = f"{name}: {counts}, {Path(base).name} → {Path(other).name}, p (Holm)"
        print_table(title, rows)
        page += [f"## {title}\n", markdown.table(rows, 200)]
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        command = f"`mog compare {base} {other} --to {to}`: mean paired differences with 95 % intervals over documents."
        with atomic(to, private=False) as temporary:
            temporary.write_text("\n".join([page[0], command + "\n", *page[1:], ""]), encoding="utf-8")


def _compared(table: Any, measures: Sequence[str]) -> list[dict[str, str]]:
    """Return one row per method; measures with means above 10 have no decimals."""
    from mog_assets.evaluate.scores import interval, p_text

    rows = []
    for method, part in table.groupby("cell", sort=False):
        row = {"method": str(method)}
        for name in measures:
            one = part.set_index("measure").loc[name]
            digits = 0 if one["value"] > 10 else 3
            row[name] = f"{one['value']:.{digits}f} → {one['other']:.{digits}f}"
            value, low, high = (float(one[key]) for key in ("difference", "difference_low", "difference_high"))
            row[f"difference of {name}"] = f"{interval(value, low, high, f'+.{digits}f')}, {p_text(one['p'])}"
        rows.append(row)
    return rows


COMMANDS.register("compare", compare)
