"""Commands that query a built project: `search`, `ask`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from mog_assets import config, registry
from mog_assets.cli.common import (
    FAILED,
    QuestionCommand,
    config_option,
    echo,
    guarded,
    principal_option,
    seen_by,
    settings_of,
)
from mog_assets.registry import LIMITS
from mog_assets.resources.errors import ConfigError

if TYPE_CHECKING:
    from mog_assets.serve.results import Answer, Likeliest, Passage


def _where(context: click.Context, option: click.Parameter, value: str | None) -> Any:
    """Return the filter that a text says."""
    try:
        return None if value is None else json.loads(value)
    except ValueError as error:
        wanted = '{"year": {"gte": 2020}}'
        raise click.BadParameter(f"expected JSON such as {wanted}, got {value!r} ({error})") from None


@click.command(cls=QuestionCommand)
@click.argument("question")
@config_option
@click.option(
    "--method",
    default="auto",
    show_default=True,
    help="Ranking method. `auto` is the one that the project's own questions chose, or `fused`.",
)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    metavar="CHARS",
    help="Most characters. [default: budget of the configuration, unless --k is given]",
)
@click.option(
    "--budget-tokens", type=click.IntRange(min=1), metavar="N", help="Most tokens of what reads the passages, instead."
)
@click.option("--k", type=click.IntRange(min=1), help="Most passages.")
@click.option("--explain", is_flag=True, help="Say why each passage is there.")
@click.option("--question-set", help="Search the corpora of this question set (default: all corpora).")
@click.option("--where", callback=_where, metavar="JSON", help='Documents to search, as {"path": {"glob": "a/*.pdf"}}.')
@principal_option
@click.option("--json", "as_json", is_flag=True, help="Print the passages as JSON.")
@guarded
def search(
    question: str,
    path: str | None,
    method: str,
    budget: int | None,
    budget_tokens: int | None,
    k: int | None,
    explain: bool,
    question_set: str | None,
    where: dict[str, Any] | None,
    principal: str | None,
    as_json: bool,
) -> None:
    """Print the best passages for QUESTION."""
    if budget and budget_tokens:
        raise ConfigError("--budget-tokens: expected no --budget beside it, got both")
    most = f"{budget_tokens} tokens" if budget_tokens else budget
    settings = settings_of(path)
    from mog_assets.serve import project

    with project.open(settings, corpora_of(settings, question_set), keep=False) as opened:
        seen = seen_by(opened, principal)
        results = seen.search(question, budget=most, k=k, method=method, where=where, explain=explain)
    if results.method_reason:
        # Not on standard output, which may be JSON.
        echo(f"ranked by {results.method}" + (f", because {results.method_reason}" if explain else ""), err=True)
    for word, other in results.corrections.items():
        echo(f"no document has “{word}”: searched for “{other}”", err=True)
    if as_json:
        echo(json.dumps([passage.to_json() for passage in results.passages], ensure_ascii=False, indent=1))
        return
    _print_routing(results.weights, results.details)
    for rank, passage in enumerate(results.passages, 1):
        _print_passage(rank, passage, f"level {passage.level}  score {passage.score or 0:.3f}  {passage.title}")
    if results.empty_reason:
        echo(results.empty_reason)


@click.command(cls=QuestionCommand)
@click.argument("question")
@config_option
@click.option("--method", help="Answering method: `one-step`, `fixed-2 -> one-step`. [default: first configured]")
@click.option("--option", "options", multiple=True, metavar="LETTER=TEXT", help="A choice; may be given several times.")
@click.option("--question-set", help="Search the corpora of this question set (default: all corpora).")
@click.option("--where", callback=_where, metavar="JSON", help="Documents to search, as with `mog search`.")
@principal_option
@click.option("--json", "as_json", is_flag=True, help="Print the answer and everything it is based on as JSON.")
@guarded
def ask(
    question: str,
    path: str | None,
    method: str | None,
    options: tuple[str, ...],
    question_set: str | None,
    where: dict[str, Any] | None,
    principal: str | None,
    as_json: bool,
) -> None:
    """Answer QUESTION, and show the passages and steps behind the answer."""
    settings = settings_of(path)
    choices = dict(option.partition("=")[::2] for option in options)
    if bad := [letter for letter, text in choices.items() if not letter.strip() or not text.strip()]:
        raise ConfigError(f"--option: expected LETTER=TEXT, got {bad[0]!r}")
    from mog_assets.serve import project

    with project.open(settings, corpora_of(settings, question_set), keep=False) as opened:
        answer = seen_by(opened, principal).ask(question, method=method, options=choices, where=where)
    if as_json:
        echo(json.dumps(answer.to_json(), ensure_ascii=False, indent=1))
    else:
        _print_answer(answer, choices)
    if answer.answer is None:
        echo(f"mog: no answer: {answer.failure}", err=True)
        sys.exit(FAILED)


def corpora_of(settings: config.Settings, question_set: str | None) -> list[str]:
    """Return the corpora of a question set, or all."""
    if question_set is None:
        return list(settings.corpora)
    if question_set not in settings.question_sets:
        names = ", ".join(settings.question_sets) or "none"
        raise ConfigError(f"--question-set: expected one of {names}, got {question_set!r}")
    return settings.question_sets[question_set].corpora


def _print_routing(weights: dict[str, float] | None, details: Mapping[str, Any]) -> None:
    if weights is not None:
        echo("weights: " + "  ".join(f"{name} {weight:.2f}" for name, weight in weights.items()))
    for name, limit in LIMITS.items():
        if (group := details.get(limit.group)) is not None:
            echo(f"{limit.group}: {group['label']}" + (f" (passages of all {name})" if group[f"all {name}"] else ""))


def _group(query: Mapping[str, Any]) -> str:
    """Return the group of a query of an answer, in words."""
    named = [(name, limit.group) for name, limit in LIMITS.items() if query.get(limit.group) is not None]
    return "".join(
        f"  {group}: {query['label']}" + (f" (all {name})" if query["fallback"] else "") for name, group in named
    )


def _marked(passage: Passage, likeliest: Likeliest | None) -> str:
    """Return the text of a passage, with the likeliest sentence marked if it stands there."""
    if likeliest is None or likeliest.sentence not in passage.text:
        return passage.text
    if not any((s.corpus, s.document) == (likeliest.corpus, likeliest.document) for s in passage.spans):
        return passage.text
    return passage.text.replace(likeliest.sentence, f">>> {likeliest.sentence} <<<", 1)


def _print_passage(rank: int, passage: Passage, what: str, likeliest: Likeliest | None = None) -> None:
    places = [f"{span.corpus}/{span.document} {span.start}-{span.end}" for span in passage.spans]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    page = "" if passage.page is None else f"  page {passage.page}"
    echo(f"{rank}. {', '.join(places[:3])}{more}{page}  {_one_line(what)}".rstrip(), bold=True)
    if passage.headings:
        echo(f"   in: {_one_line(' > '.join(passage.headings))}")
    if passage.explanation:
        echo(f"   why: {passage.explanation}")
    echo(_marked(passage, likeliest).strip() + "\n")


def _one_line(text: str) -> str:
    # A title of several lines could pass for the next passage.
    return "  ".join(text.split("\n"))


def _print_answer(answer: Answer, choices: dict[str, str]) -> None:
    from mog_assets.answer.answerers import WAYS
    from mog_assets.answer.notation import ARROW

    row = SimpleNamespace(**answer.details)
    if answer.answer is not None:
        text = f"{answer.answer}. {choices[answer.answer]}" if answer.answer in choices else answer.answer
        echo(text + "\n", bold=True)
    elif answer.likeliest is not None:
        place = f"{answer.likeliest.corpus}/{answer.likeliest.document} {answer.likeliest.start}-{answer.likeliest.end}"
        echo(f"The most relevant sentence is in {place}, marked with >>> and <<<.\n")
    echo(f"{answer.method}, {answer.reader}" + (f"; auto is {answer.auto}" if answer.auto else ""))
    if answer.parameters:
        echo(f"parameters: {answer.parameters}")
    _print_routing(answer.weights, {})
    rounds = [f"round {n}: {_one_line(query['query'])}{_group(query)}" for n, query in enumerate(row.queries, 1)]
    for line in WAYS[answer.method.split(ARROW)[-1]].tell(answer.details, rounds):
        echo(line)
    for failure in row.failures:
        echo(f"failed: {failure['role']}, round {failure['round']}: {failure['reason']}")
    echo(f"read {row.tokens_in} and wrote {row.tokens_out} {row.token_unit} in {row.calls} calls, ${row.cost:.4f}\n")
    for rank, passage in enumerate(answer.passages, 1):
        level = "" if passage.level is None else f"level {passage.level}  "
        marked = None if answer.answer is not None else answer.likeliest
        _print_passage(rank, passage, f"{level}{passage.title}", marked)


registry.COMMANDS.register("search", search)
registry.COMMANDS.register("ask", ask)
