"""Freeze what the project returns before its parts move: passages, their scores and ER, the graph, the samples.

python benchmarks/development.py build --data ../shared/data --homes .mog/development            the large projects
python benchmarks/goldens.py write .mog/goldens --homes .mog/development                          before a change
python benchmarks/goldens.py compare .mog/goldens --homes .mog/development                        after it
python benchmarks/goldens.py small --write                                  the small ones, which `make test` compares

Everything is asked through the public Python interface, so that the same goldens hold whatever stands behind it. Of a
collection: the first 20 passages of 500 questions by each method, with offsets and scores to 1e-4, and ER of every
question. `compare` counts questions whose passages differ, and tests ER by document; it exits with 1 where ER is
significantly lower, or lower by more than .001. Small goldens are the graph of the samples as Dagster resolves it, and
what a run would build: `tests/goldens/*.json`.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import dagster as dg
import numpy as np

import mog_assets
from mog_assets import config
from mog_assets.build import automation, markdown, runner
from mog_assets.build.plan import default, graph, in_order
from mog_assets.build.tools import Tools
from mog_assets.config import Settings
from mog_assets.evaluate.significance import bootstrap_interval, by_document, permutation_p
from mog_assets.questions.sets import Question, load_questions
from mog_assets.search.methods import needs, parse

ROOT = Path(__file__).resolve().parents[1]
SMALL = ROOT / "tests" / "goldens"
METHODS = ("fused", "fixed-2", "dense-2")
QUESTIONS, PASSAGES, BUDGETS = 500, 20, (1000, 2000, 4000, 8000)
# Scores are compared to this many digits, and ER may fall by so much.
DIGITS, MARGIN, ALPHA = 4, 0.001, 0.05


def sampled_questions(settings: Settings) -> list[Question]:
    """Choose at most `QUESTIONS` questions with evidence, evenly over all sets, in the order of their files."""
    store = Tools(settings).store
    questions = [
        question
        for name, question_set in settings.question_sets.items()
        for question in load_questions(store.read("questions").path(f"{name}.parquet"), question_set.test)
        if question.evidence
    ]
    step = max(len(questions) / QUESTIONS, 1)
    return [questions[int(at * step)] for at in range(min(len(questions), QUESTIONS))]


def recall(question: Question, passages: Iterable[Any], budget: int) -> float:
    """Compute the share of the characters of the evidence that the first `budget` characters of passages contain."""
    wanted = {(e.corpus, e.doc, at) for e in question.evidence for at in range(e.start, e.end)}
    found, left = set[tuple[str, str, int]](), budget
    for passage in passages:
        for span in passage.spans:
            end = min(span.end, span.start + left)
            found |= wanted & {(span.corpus, span.document, at) for at in range(span.start, end)}
            left -= max(end - span.start, 0)
    return len(found) / len(wanted)


def measure(path: Path, methods: Sequence[str]) -> dict[str, Any]:
    """Measure passages, ER and milliseconds of the questions of a project, by method."""
    settings = config.load(path)
    # What every search reads; `development.py build` leaves out what its tables do not need.
    searched = {"method", *needs([parse("auto", settings)], settings).keys}
    if failures := runner.run(settings, select=sorted(searched)).failures:
        raise click.ClickException(f"{path}: {failures[0]}")
    questions = sampled_questions(settings)
    documents = ["\n".join(sorted({f"{e.corpus}/{e.doc}" for e in q.evidence})) for q in questions]
    result: dict[str, Any] = {"questions": [q.id for q in questions], "documents": documents, "methods": {}}
    with mog_assets.open(path) as project:
        project.search(questions[0].question, method=methods[0])
        for method in methods:
            rows, recalls, seconds = [], [], []
            for question in questions:
                began = time.perf_counter()
                passages = project.search(question.question, method=method, budget=BUDGETS[-1]).passages
                seconds.append(time.perf_counter() - began)
                recalls.append(float(np.mean([recall(question, passages, budget) for budget in BUDGETS])))
                rows.append(
                    [[p.corpus, p.document, p.start, p.end, round(p.score, DIGITS)] for p in passages[:PASSAGES]]
                )
            milliseconds = np.percentile(seconds, [50, 95]) * 1000
            result["methods"][method] = {
                "passages": rows,
                "er": recalls,
                "ms": [round(float(ms), 2) for ms in milliseconds],
            }
    result["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return result


def compare_measurements(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, str]]:
    """Compare two measurements: a row for each method with what differs, and whether ER is lower."""
    if before["questions"] != after["questions"]:
        raise click.ClickException(
            f"{name}: expected the {len(before['questions'])} questions of the goldens, got {len(after['questions'])} "
            "others: build the project from the same data"
        )
    rows = []
    for method, old in before["methods"].items():
        new = after["methods"][method]
        pairs = list(zip(old["passages"], new["passages"], strict=True))
        gain = np.array(new["er"]) - np.array(old["er"])
        totals = by_document(gain[:, None], np.array(before["documents"]))
        p, (low, high) = float(permutation_p(totals)[0]), (float(b[0]) for b in bootstrap_interval(totals))
        lost = gain.mean() < -MARGIN or (gain.mean() < 0 and p < ALPHA)
        rows.append(
            {
                "collection": f"{name}, {len(pairs)} questions",
                "method": method,
                "other passages": str(sum([p[:4] for p in a] != [p[:4] for p in b] for a, b in pairs)),
                "other scores": str(sum(a != b for a, b in pairs)),
                "ER": f"{np.mean(old['er']):.4f} → {np.mean(new['er']):.4f}",
                "difference": f"{gain.mean():+.4f} [{low:+.4f}, {high:+.4f}], p {p:.3f}",
                "ms p50, p95": f"{old['ms']} → {new['ms']}",
                "MiB": f"{before['peak MiB']} → {after['peak MiB']}",
                "verdict": "LOWER" if lost else "equal" if not gain.any() else "not lower",
            }
        )
    return rows


def describe(condition: Any) -> str:
    """Describe a condition of Dagster with those that it is made of."""
    own = condition.get_label() or condition.name
    parts = ", ".join(describe(child) for child in condition.children)
    return f"{own}({parts})" if parts else own


def resolve_graph() -> dict[str, Any]:
    """Resolve the samples' graph with Dagster: by asset, its dependencies, group, partitions and condition."""
    with tempfile.TemporaryDirectory() as folder:
        settings = config.load(ROOT / "mog.yaml").model_copy(update={"home": Path(folder)})
        before = os.environ.get("DAGSTER_HOME")
        os.environ["DAGSTER_HOME"] = folder
        try:
            definitions = automation.build(settings)
            assets = definitions.resolve_asset_graph()
            rows, conditions = {}, list[str]()
            for key in sorted(assets.get_all_asset_keys(), key=lambda key: key.to_user_string()):
                node = assets.get(key)
                text = describe(node.automation_condition) if node.automation_condition else None
                if text and text not in conditions:
                    conditions.append(text)
                rows[key.to_user_string()] = {
                    "deps": sorted(parent.to_user_string() for parent in node.parent_keys),
                    "group": node.group_name,
                    "partitions": type(node.partitions_def).__name__ if node.partitions_def else None,
                    "condition": conditions.index(text) if text else None,
                    "checks": sorted(check.name for check in assets.get_check_keys_for_assets({key})),
                    "executable": node.is_executable,
                }
            jobs = sorted(job.name for job in definitions.resolve_all_job_defs() if not job.name.startswith("__"))
            sensors = sorted(sensor.name for sensor in definitions.sensors or [])
            schedules = {
                s.name: s.cron_schedule for s in definitions.schedules or [] if isinstance(s, dg.ScheduleDefinition)
            }
        finally:
            os.environ.pop("DAGSTER_HOME")
            if before is not None:
                os.environ["DAGSTER_HOME"] = before
    return {"assets": rows, "conditions": conditions, "jobs": jobs, "sensors": sensors, "schedules": schedules}


def list_plan() -> dict[str, Any]:
    """List what a run of the samples builds by default, and with everything, in its order."""
    settings = config.load(ROOT / "mog.yaml")
    recipes = graph(settings)
    return {"default": in_order(recipes, default(recipes)), "all": list(recipes)}


SNAPSHOTS = {"graph": resolve_graph, "plan": list_plan}


def as_text(value: Any) -> str:
    """Write JSON as it stands in the files."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


@click.group(help=__doc__)
def main() -> None:
    """Write and compare goldens."""


def projects(homes: Path, names: Sequence[str]) -> dict[str, Path]:
    """Find the `mog.yaml` of each collection."""
    found = {path.parent.name: path for path in sorted(homes.glob("*/mog.yaml"))}
    if missing := sorted(set(names) - set(found)):
        raise click.ClickException(
            f"--homes: expected the project {missing[0]} below {homes}, found {', '.join(found) or 'none'}: build it "
            "with `development.py build`"
        )
    return {name: found[name] for name in names or found}


@main.command()
@click.argument("goldens", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
@click.option("--methods", default=",".join(METHODS))
def write(goldens: Path, names: Sequence[str], homes: Path, methods: str) -> None:
    """Measure projects and keep the figures."""
    goldens.mkdir(parents=True, exist_ok=True)
    for name, path in projects(homes, names).items():
        with gzip.open(goldens / f"{name}.json.gz", "wt", encoding="utf-8") as stream:
            json.dump(measure(path, methods.split(",")), stream)
        click.echo(f"{name} written", err=True)


@main.command()
@click.argument("goldens", type=click.Path(exists=True, path_type=Path))
@click.argument("names", nargs=-1)
@click.option("--homes", type=click.Path(exists=True, path_type=Path), default=Path(".mog/development"))
def compare(goldens: Path, names: Sequence[str], homes: Path) -> None:
    """Measure projects and compare them with the goldens."""
    rows = []
    names = names or [path.name.removesuffix(".json.gz") for path in sorted(goldens.glob("*.json.gz"))]
    for name, path in projects(homes, names).items():
        with gzip.open(goldens / f"{name}.json.gz", "rt", encoding="utf-8") as stream:
            before = json.load(stream)
        rows += compare_measurements(name, before, measure(path, list(before["methods"])))
        click.echo(f"{name} compared", err=True)
    click.echo(markdown.table(rows, 400))
    if any(row["verdict"] == "LOWER" for row in rows):
        raise SystemExit(1)


@main.command()
@click.option("--write", "keep", is_flag=True, help="Take what there is now as golden.")
def small(keep: bool) -> None:
    """Compare, or write, the graph and the plan of the samples."""
    different = []
    for name, make in SNAPSHOTS.items():
        path, text = SMALL / f"{name}.json", as_text(make())
        if keep:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            different.append(name)
    if different:
        raise click.ClickException(
            f"{', '.join(different)} differ from tests/goldens: `small --write`, then `git diff`"
        )


if __name__ == "__main__":
    main()
