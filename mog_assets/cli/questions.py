"""The command `mog questions`, and what `mog run` and `mog scores` say of question sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from mog_assets import registry
from mog_assets.cli.common import config_option, echo, guarded, print_table, settings_of
from mog_assets.config import QuestionSetSettings, Settings
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.printable import printable

# Characters of a question or a reason in a table.
_WIDEST = 70


@click.command()
@config_option
@click.option("--set", "only", help="Only this question set.")
@click.option("--lost", is_flag=True, help="Only questions with evidence that was not found, or that are not used.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, with whole texts.")
@guarded
def questions(path: str | None, only: str | None, lost: bool, as_json: bool) -> None:
    """Print what was found of each question, how, and what was not."""
    from mog_assets.questions.sets import report_rows
    from mog_assets.resources.store import Store

    settings = settings_of(path)
    if not settings.question_sets:
        raise ConfigError("questions: this project has no question set: name one under question_sets, see `mog init`")
    if only is not None and only not in settings.question_sets:
        raise ConfigError(
            f"--set: expected a question set ({', '.join(settings.question_sets)}), got {printable(only)!r}"
        )
    stored = Store(settings.home).read("questions")
    by_set = {name: report_rows(stored, name) for name in settings.question_sets if only in (None, name)}
    if lost:
        by_set = {name: [row for row in rows if row["not found"] or row["skipped"]] for name, rows in by_set.items()}
    if as_json:
        every = [{"question set": name, **row} for name, rows in by_set.items() for row in rows]
        echo(json.dumps(every, ensure_ascii=False, indent=1))
        return
    for name, rows in by_set.items():
        if rows:
            many = f"{len(rows):,} question{'s' * (len(rows) != 1)}"
            print_table(f"{name}: {many}", [_printed(row) for row in rows])
        else:
            echo(f"{name}: all evidence was found." if lost else f"{name}: no question.")


def _printed(row: dict[str, Any]) -> dict[str, str]:
    """Return a row of text that every terminal can show."""
    texts = {key: _cut(row[key]) for key in ("id", "question", "split")}
    return {
        **texts,
        "known": row["level"],
        "found": row["found"],
        "places": str(row["places"] or ""),
        "score": f"{row['score']:.2f}" if row["found"] in ("normalised", "fuzzy") else "",
        "not found, or not used": "; ".join(printable(row[key]) for key in ("not found", "skipped") if row[key]),
    }


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def print_question_sets(settings: Settings) -> None:
    """Print what is worth knowing of how each question set was read; nothing if all was given."""
    from mog_assets.resources.store import Store

    artefact = Store(settings.home).find("questions") if settings.question_sets else None
    if artefact is None:
        return
    for name, question_set in settings.question_sets.items():
        for sentence in _sentences(name, question_set, artefact.manifest.info, artefact.manifest.counts):
            echo(printable(f"{name}: {sentence}"))


def _sentences(
    name: str, question_set: QuestionSetSettings, info: dict[str, Any], counts: dict[str, float]
) -> Iterator[str]:
    from mog_assets.evaluate.scores import on_documents
    from mog_assets.questions.sets import MEASURED

    summary = info.get("summary", {}).get(name)
    if summary is None:
        # The set is new.
        return
    train, test = summary["train"], summary["test"]
    if not counts[f"{name}: questions"]:
        yield "no question can be used, so this set neither trains nor measures."
    # With one part only, nothing was divided.
    if summary["divided"] and question_set.train and question_set.test:
        every = summary["divided"] == sum(info["splits"][name].values())
        then = "" if every else "with the others, there are "
        yield (
            f"{_many(summary['divided'])} without a split {_were(summary['divided'])} divided by document: {then}"
            f"{on_documents(train['questions'], train['documents'])} to train on, "
            f"{test['questions']:,} on {test['documents']:,} to measure with."
        )
    # What was built by an earlier version does not say it.
    if n := summary.get("skipped", 0):
        first = summary["first skipped"]
        yield f"{_many(n)} {_were(n)} skipped; the first: {first}; `mog questions --lost` lists them."
    if n := summary["lost"]:
        all_of_them = "" if n == 1 else "; `mog questions --lost` lists all"
        yield f"the evidence of {_many(n)} was not found; the first: {summary['first lost']}{all_of_them}."
    if n := int(counts[f"{name}: with evidence of test questions"]):
        yield f"{_many(n)} to train on {_were(n)} left out, because test questions ask for the same."
    if unmeasured := sum(n for level, n in test["levels"].items() if level not in MEASURED):
        yield (
            f"{unmeasured:,} of the {_many(test['questions'])} to measure with cannot measure retrieval: neither a "
            "place nor a document that answers them is known."
        )


def _many(n: int) -> str:
    return f"{n:,} question{'s' * (n != 1)}"


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


registry.COMMANDS.register("questions", questions)
