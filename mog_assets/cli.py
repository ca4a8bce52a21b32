"""The command `mog`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from mog_assets import config
from mog_assets.errors import ConfigError, MogError

FAILED, BAD_USAGE = 1, 2


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Errors for people become one line on standard error and an exit code."""

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MogError as error:
            click.echo(f"mog: {error}", err=True)
            sys.exit(BAD_USAGE if isinstance(error, ConfigError) else FAILED)

    return guarded


def _settings(path: str | None) -> config.Settings:
    if path:
        os.environ[config.CONFIG_VARIABLE] = os.path.abspath(path)
    return config.load()


_config_option = click.option("--config", "path", help="Configuration file instead of mog.yaml (or MOG_CONFIG).")


@click.group()
@click.version_option(package_name="mog-assets")
def main() -> None:
    """Build, search and measure retrieval that chooses its own granularity."""


@main.command()
@_config_option
@click.option("--corpus", "corpora", multiple=True, help="Only this corpus; may be given several times.")
@click.option("--select", multiple=True, help="Only this asset, or selection of assets (`+router`, `group:corpus`).")
@click.option("--force", multiple=True, help="Make this asset again though it is up to date: `topics/model`, `runs`.")
@click.option("--json", "as_json", is_flag=True, help="What was done, as JSON.")
@_guarded
def run(
    path: str | None, corpora: tuple[str, ...], select: tuple[str, ...], force: tuple[str, ...], as_json: bool
) -> None:
    """Materialise what is stale and print the leaderboard."""
    from resources.progress import bars

    settings = _settings(path)
    started = time.monotonic()
    with bars():
        from mog_assets.automation import run as materialise

        report = materialise(settings, corpora, select, force)
    seconds = time.monotonic() - started
    if as_json:
        summary = {"seconds": seconds, "peak_memory_bytes": _peak_memory(), "steps": report.steps}
        click.echo(json.dumps({**summary, "failures": report.failures}, indent=1))
    else:
        if report.steps or not report.failures:
            _print_steps(report.steps, seconds)
        _print_passed_over(settings, corpora)
    for failure in report.failures:
        click.echo(f"mog: {failure}", err=True)
    if report.failures:
        sys.exit(FAILED)
    if not as_json:
        _print_leaderboard(settings)


def _peak_memory() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _print_steps(steps: list[dict[str, Any]], seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    if not steps:
        console.print(f"Everything is up to date: nothing was recomputed ({seconds:.1f} s).")
        return
    totals: dict[str, dict[str, Any]] = {}
    for step in steps:
        total = totals.setdefault(step["asset"], {"corpora": 0, "seconds": 0.0, "recomputed": {}})
        total["corpora"] += step["corpus"] is not None
        total["seconds"] += step["seconds"]
        for name, count in step["recomputed"].items():
            total["recomputed"][name] = total["recomputed"].get(name, 0) + count
    table = Table("asset", "corpora", "seconds", "recomputed")
    for asset, total in totals.items():
        done = ", ".join(f"{count:,} {name}" for name, count in total["recomputed"].items())
        table.add_row(asset, str(total["corpora"] or ""), f"{total['seconds']:.2f}", done)
    console.print(table)
    console.print(f"{seconds:.1f} s, {_peak_memory() / 2**20:,.0f} MiB at most")


def _print_passed_over(settings: config.Settings, corpora: Sequence[str]) -> None:
    """Say how many documents could not be used; nobody should have to look for that."""
    import pyarrow.parquet as pq

    from resources.store import Store

    for corpus in corpora or settings.corpora:
        artefact = Store(settings.home).find("documents", corpus)
        if artefact is not None and (count := int(artefact.manifest.counts["quarantined"])):
            first = pq.read_table(artefact.path("quarantine.parquet")).slice(0, 1).to_pylist()[0]
            documents = "document was" if count == 1 else "documents were"
            click.echo(f"{corpus}: {count:,} {documents} passed over; the first: {first['place']}: {first['reason']}")


def _print_leaderboard(settings: config.Settings) -> None:
    import pandas as pd

    from mog_assets.evaluation.answers import answer_board
    from mog_assets.evaluation.measures import headline_measures
    from mog_assets.evaluation.scores import leaderboard
    from resources.store import Store

    store = Store(settings.home)
    boards: list[tuple[str, Callable[[pd.DataFrame, str], list[dict[str, Any]]], str]] = [
        ("scores", lambda scores, name: leaderboard(scores, name, headline_measures(settings.k)), ""),
        ("answer_scores", answer_board, ", answers"),
    ]
    for key, board, what in boards:
        artefact = store.find(key)
        scores = pd.read_parquet(artefact.path("scores.parquet")) if artefact else pd.DataFrame()
        for name in sorted(set(scores["question_set"])) if len(scores) else ():
            rows = board(scores, name)
            questions = int(scores[scores["question_set"] == name]["n"].max())
            _print_table(f"{name}{what}: {questions} questions, value [95 % interval]", rows)


def _print_table(title: str, rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _print_routing(weights: dict[str, float] | None, topic: dict[str, Any] | None) -> None:
    if weights is not None:
        click.echo("weights: " + "  ".join(f"{name} {weight:.2f}" for name, weight in weights.items()))
    if topic is not None:
        click.echo(f"topic: {topic['label']}" + (" (passages of all topics)" if topic["all topics"] else ""))


def _print_passage(rank: int, passage: dict[str, Any], what: str) -> None:
    own = [[passage[key] for key in ("corpus", "doc", "start", "end")]] if "spans" not in passage else passage["spans"]
    places = [f"{corpus}/{doc} {start}-{end}" for corpus, doc, start, end in own]
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    click.secho(f"{rank}. {', '.join(places[:3])}{more}  {what}".rstrip(), bold=True)
    click.echo(passage["text"].strip() + "\n")


@main.command()
@click.argument("question")
@_config_option
@click.option("--method", default="mog", show_default=True, help="How passages are ranked.")
@click.option("--k", type=click.IntRange(min=1), help="How many passages (default: k of the configuration).")
@click.option("--question-set", help="Search the corpora of this question set (default: all corpora).")
@click.option("--json", "as_json", is_flag=True, help="Passages as JSON.")
@_guarded
def retrieve(
    question: str, path: str | None, method: str, k: int | None, question_set: str | None, as_json: bool
) -> None:
    """Print the passages that answer QUESTION best."""
    settings = _settings(path)
    if not question.strip():
        raise ConfigError("QUESTION: expected a question, got white space")
    from mog_assets.answer import find

    found = find(settings, question, method, k or settings.k, _corpora_of(settings, question_set))
    if as_json:
        click.echo(json.dumps(found.passages, ensure_ascii=False, indent=1))
        return
    _print_routing(found.weights, found.topic)
    for rank, passage in enumerate(found.passages, 1):
        _print_passage(rank, passage, f"level {passage['level']}  score {passage['score']:.3f}")
    if not found.passages:
        click.echo("No passage has a word in common with the question.")


@main.command()
@_config_option
@click.option("--json", "as_json", is_flag=True, help="Every measure of every method as JSON.")
@click.option("--answers", is_flag=True, help="With --json: the scores of answers, not of retrieval.")
@_guarded
def scores(path: str | None, as_json: bool, answers: bool) -> None:
    """Print the scores that were measured last."""
    from resources.store import Store

    settings = _settings(path)
    stored = Store(settings.home).read("answer_scores" if answers else "scores")
    if as_json:
        import pandas as pd

        frame = pd.read_parquet(stored.path("scores.parquet")).astype(object)
        rows = frame.where(frame.notna(), None).to_dict("records")
        click.echo(json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        _print_leaderboard(settings)


@main.command()
@click.argument("base")
@click.argument("other")
@click.option("--measure", "measures", multiple=True, help="[ER, nDCG@10, tokens_to_answer]")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="Markdown file to write as well.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@_guarded
def compare(base: str, other: str, measures: tuple[str, ...], to: Path | None, as_json: bool) -> None:
    """Compare the scores of the configuration OTHER with those of BASE, method by method, question by question."""
    import pandas as pd

    from mog_assets import markdown
    from mog_assets.evaluation.scores import side_by_side
    from resources.store import Store, atomic

    wanted = list(dict.fromkeys(measures or ("ER", "nDCG@10", "tokens_to_answer")))
    both = [config.load(path) for path in (base, other)]
    tables = [pd.read_parquet(Store(s.home).read("scores").path("per_question.parquet")) for s in both]
    for path, table in zip((base, other), tables, strict=True):
        known = [column for column in table if table[column].dtype.kind == "f"]
        if unknown := [name for name in wanted if name not in known]:
            raise MogError(f"--measure: expected measures of {path} ({', '.join(known)}), got {', '.join(unknown)}")
    found = side_by_side(tables[0], tables[1], wanted, both[0].seed)
    if not found:
        raise MogError(f"{other}: expected questions and methods that {base} was scored on as well, got none")
    if as_json:
        frames = {name: table.astype(object) for name, table in found.items()}
        rows_of = {name: frame.where(frame.notna(), None).to_dict("records") for name, frame in frames.items()}
        click.echo(json.dumps(rows_of, ensure_ascii=False, indent=1))
        return
    page = [f"# {Path(other).name} against {Path(base).name}\n"]
    for name, table in found.items():
        rows = _compared(table, wanted)
        title = f"{name}: {int(table['n'].max())} questions, {Path(base).name} → {Path(other).name}, p (Holm)"
        _print_table(title, rows)
        page += [f"## {title}\n", markdown.table(rows, 200)]
    if to is not None:
        to.parent.mkdir(parents=True, exist_ok=True)
        command = f"`mog compare {base} {other} --to {to}`: mean paired differences with 95 % intervals."
        with atomic(to) as temporary:
            temporary.write_text("\n".join([page[0], command + "\n", *page[1:], ""]), encoding="utf-8")


def _compared(table: Any, measures: Sequence[str]) -> list[dict[str, str]]:
    """A row per method; measures whose means are above 10 have no decimals."""
    from mog_assets.evaluation.scores import p_text

    rows = []
    for method, part in table.groupby("cell", sort=False):
        row = {"method": str(method)}
        for name in measures:
            one = part.set_index("measure").loc[name]
            digits = 0 if one["value"] > 10 else 3
            row[name] = f"{one['value']:.{digits}f} → {one['other']:.{digits}f}"
            row[f"difference of {name}"] = (
                f"{one['difference']:+.{digits}f} [{one['difference_low']:+.{digits}f}, "
                f"{one['difference_high']:+.{digits}f}], {p_text(one['p'])}"
            )
        rows.append(row)
    return rows


@main.command()
@_config_option
@click.option("--to", "folder", type=click.Path(path_type=Path), help="Where to. [`export` beside the configuration]")
@_guarded
def export(path: str | None, folder: Path | None) -> None:
    """Write TREC runs and qrels, and all scores as Parquet and CSV, and print which files were written.

    In TREC files and in file names a character that does no good there is percent-encoded. In CSV a text that a
    spreadsheet would take for a formula has an apostrophe before it.
    """
    from resources.store import atomic

    settings = _settings(path)
    used = Path(os.environ.get(config.CONFIG_VARIABLE) or config.DEFAULT_CONFIG).resolve()
    folder = folder or used.parent / "export"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--to: expected a folder, or a path where there is nothing, got the file {folder}")
    files = _exported(settings)
    try:
        for name, write in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic(target) as temporary:
                write(temporary)
            click.echo(target)
    except OSError as error:
        raise MogError(f"--to: expected a folder that can be written to, got {folder} ({error})") from error
    # Who measures the whole folder must not take a method of an earlier export for one of this.
    there = {
        file.relative_to(folder).as_posix() for kind in ("runs", "qrels") for file in (folder / kind).rglob("*.t*")
    }
    for name in sorted(there - set(files)):
        click.echo(f"mog: {folder / name} is of an earlier export, or not of one: left as it is", err=True)


def _exported(settings: config.Settings) -> dict[str, Callable[[Path], object]]:
    """What writes each file of the export, by its path in the folder."""
    from mog_assets.answering.assets import read_answers
    from mog_assets.corpus.questions import load_questions
    from mog_assets.evaluation.export import answer_files, retrieval_files
    from resources.store import Store

    store = Store(settings.home)
    runs, scores, stored = (store.read(key) for key in ("runs", "scores", "questions"))
    questions = {Path(name).stem: load_questions(stored.path(name)) for name in stored.names()}
    tables = (scores.path("per_question.parquet"), scores.path("scores.parquet"))
    files = retrieval_files(runs.path("runs.parquet"), *tables, questions)
    if (marked := store.find("answer_scores")) is not None and (answers := store.find("answers")) is not None:
        tables = (marked.path("per_question.parquet"), marked.path("scores.parquet"))
        files |= answer_files(read_answers(answers.path, answers.names()), *tables)
    return files


@main.command()
@click.argument("question")
@_config_option
@click.option("--method", help="A way of answering: `at-rag`, `mogg+topics -> briefcontext`. [the first configured]")
@click.option("--option", "options", multiple=True, metavar="LETTER=TEXT", help="A choice; may be given several times.")
@click.option("--question-set", help="Search the corpora of this question set (default: all corpora).")
@click.option("--json", "as_json", is_flag=True, help="The answer and all that it rests on as JSON.")
@_guarded
def ask(
    question: str,
    path: str | None,
    method: str | None,
    options: tuple[str, ...],
    question_set: str | None,
    as_json: bool,
) -> None:
    """Answer QUESTION, and show what the answer rests on."""
    settings = _settings(path)
    if not question.strip():
        raise ConfigError("QUESTION: expected a question, got white space")
    choices = dict(option.partition("=")[::2] for option in options)
    if bad := [letter for letter, text in choices.items() if not letter.strip() or not text.strip()]:
        raise ConfigError(f"--option: expected LETTER=TEXT, got {bad[0]!r}")
    from mog_assets.answer import ask as answer

    told = answer(settings, question, method, choices, _corpora_of(settings, question_set))
    if as_json:
        click.echo(json.dumps(told.to_json(), ensure_ascii=False, indent=1))
    else:
        _print_told(told, choices)
    if told.row.answer is None:
        click.echo(f"mog: no answer: {told.row.failure}", err=True)
        sys.exit(FAILED)


def _corpora_of(settings: config.Settings, question_set: str | None) -> list[str]:
    if question_set is None:
        return list(settings.corpora)
    if question_set not in settings.question_sets:
        known = ", ".join(settings.question_sets) or "none"
        raise ConfigError(f"--question-set: expected one of {known}, got {question_set!r}")
    return settings.question_sets[question_set].corpora


def _print_told(told: Any, choices: dict[str, str]) -> None:
    row = told.row
    if row.answer is not None:
        text = f"{row.answer}. {choices[row.answer]}" if row.answer in choices else row.answer
        click.secho(text + "\n", bold=True)
    click.echo(f"{told.method}, {row.reader}")
    _print_routing(told.weights, None)
    if row.route:
        click.echo(f"route: {row.route}")
    if row.preflight:
        way = "map-reduce" if row.preflight["map_reduce"] else "one prompt"
        click.echo(f"preflight: overlap {row.preflight['iou']:.2f}, {way}")
    for number, query in enumerate(row.queries, 1):
        topic = f"  topic: {query['label']}" if query["topic"] is not None else ""
        verdicts = row.grades[number - 1].values() if number <= len(row.grades) else ()
        grades = "".join(f"  {verdict}" for verdict in verdicts if verdict)
        click.echo(f"round {number}: {query['query']}{topic}{' (all topics)' if query['fallback'] else ''}{grades}")
    if row.graded is False:
        click.echo("no answer passed both grades: this is the last one")
    for failure in row.failures:
        click.echo(f"failed: {failure['role']}, round {failure['round']}: {failure['reason']}")
    click.echo(
        f"read {row.tokens_in} and wrote {row.tokens_out} {row.token_unit} in {row.calls} calls, ${row.cost:.4f}\n"
    )
    for rank, passage in enumerate(told.passages, 1):
        level = "" if passage["level"] is None else f"level {passage['level']}  "
        _print_passage(rank, passage, f"{level}{passage['title']}")


@main.command()
@click.argument("names", nargs=-1)
@_config_option
@click.option("--all", "every", is_flag=True, help="Every experiment that this project can have.")
@click.option("--json", "as_json", is_flag=True, help="What was found, as JSON.")
@_guarded
def experiment(names: tuple[str, ...], path: str | None, every: bool, as_json: bool) -> None:
    """Do the experiments NAMES and print what they found; list them where none is named."""
    from mog_assets.experiments.assets import PREFIX, findings, offered

    settings = _settings(path)
    there = {found.name: found for found in offered(settings)}
    if unknown := [name for name in names if name not in there]:
        raise ConfigError(f"NAMES: expected some of {', '.join(there) or 'none'}, got {unknown[0]!r}")
    wanted = list(there) if every else list(dict.fromkeys(names))
    if not wanted:
        _list_experiments(settings, list(there.values()), as_json)
        return
    from mog_assets.automation import experiment as do
    from mog_assets.automation import up_to_date
    from resources.progress import bars
    from resources.store import Store

    with bars():
        report = do(settings, [f"{PREFIX}{name}" for name in wanted])
    store, states = Store(settings.home), up_to_date(settings, [f"{PREFIX}{name}" for name in wanted])
    done = [name for name in wanted if states[f"{PREFIX}{name}"] == "up to date"]
    found = [told for name in done if (told := findings(store, name)) is not None]
    if as_json:
        click.echo(json.dumps([told.to_json() for told in found], ensure_ascii=False, indent=1))
    else:
        _print_found(found)
    for failure in report.failures:
        click.echo(f"mog: {failure}", err=True)
    if report.failures:
        sys.exit(FAILED)


def _list_experiments(settings: config.Settings, there: Sequence[Any], as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from mog_assets.automation import up_to_date
    from mog_assets.experiments.assets import PREFIX

    states = up_to_date(settings, [f"{PREFIX}{found.name}" for found in there])
    rows = [{"name": e.name, "title": e.title, "asks": e.asks, "state": states[f"{PREFIX}{e.name}"]} for e in there]
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = Table("experiment", "state", "asks")
    for row in rows:
        table.add_row(row["name"], row["state"], row["asks"])
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _print_found(found: Sequence[Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 200)
    for told in found:
        console.rule(escape(told.title))
        console.print(escape(told.asks))
        for title, rows in told.tables.items():
            head = list(dict.fromkeys(name for row in rows for name in row))
            table = Table(*(escape(name) for name in head), title=escape(title))
            for row in rows:
                cells = (row.get(name) for name in head)
                table.add_row(
                    *(f"{c:.4g}" if isinstance(c, float) else escape(str("" if c is None else c)) for c in cells)
                )
            console.print(table)
        for claim in told.claims:
            console.print(f"[bold]{claim['verdict']}[/bold]: {escape(claim['claim'])} ({escape(claim['paper'])})")
            console.print(f"  {escape(claim['because'])}")


@main.command()
@click.argument("configs", nargs=-1, metavar="[CONFIG]...")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="File to write. [standard output]")
@_guarded
def results(configs: tuple[str, ...], to: Path | None) -> None:
    """Write what the experiments of one or several configurations found as one Markdown page."""
    from mog_assets.automation import up_to_date
    from mog_assets.experiments.assets import PREFIX, offered, project
    from mog_assets.experiments.results import markdown
    from resources.store import atomic

    projects = []
    for path in configs or (config.file(),):
        settings = config.load(path)
        states = up_to_date(settings, [f"{PREFIX}{found.name}" for found in offered(settings)])
        if stale := [key.removeprefix(PREFIX) for key, state in states.items() if state == "stale"]:
            raise MogError(
                f"{path}: expected experiments that are up to date, but something has changed since "
                f"{', '.join(stale)} were done: run `mog experiment {' '.join(stale)}`"
            )
        file = Path(path).resolve()
        projects.append(project(file.parent.name if file.stem == "mog" else file.stem, settings))
    names = [os.path.relpath(path) for path in configs]
    text = markdown(projects, " ".join(["mog results", *names, *(["--to", str(to)] if to else [])]))
    if to is None:
        click.echo(text, nl=False)
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    with atomic(to) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(f"{to}: {sum(len(p.told) for p in projects)} experiments of {len(projects)} projects")


@main.command("score-mirage")
@click.argument("predictions", type=click.Path(path_type=Path))
@_config_option
@click.option("--questions", type=click.Path(path_type=Path), help="MIRAGE's questions. [question set `mirage`]")
@click.option("--json", "as_json", is_flag=True, help="Set, n, accuracy and se as JSON.")
@_guarded
def score_mirage(predictions: Path, path: str | None, questions: Path | None, as_json: bool) -> None:
    """Score PREDICTIONS, lines of {"id", "output"}, as the MIRAGE benchmark does."""
    from dataclasses import asdict

    from mog_assets.evaluation import mirage

    answers = mirage.read_answers(questions or _mirage_questions(path))
    found = mirage.score(mirage.read_outputs(predictions, answers), answers)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in found], indent=1))
        return
    for row in found:
        click.echo(f"{row.set:10s} {row.n:6,d} questions  accuracy {row.accuracy:.4f} ± {row.se:.4f}")


# Where development machines keep the public sets.
_SHARED_MIRAGE = Path("../shared/data/mirage/questions.jsonl.gz")


def _mirage_questions(path: str | None) -> Path:
    """The question set `mirage` of the configuration, else the shared one."""
    try:
        configured = _settings(path).question_sets.get("mirage")
    except ConfigError:
        if path:
            raise
        configured = None
    if configured is not None:
        return configured.path
    if _SHARED_MIRAGE.exists():
        return _SHARED_MIRAGE
    raise ConfigError("--questions: expected MIRAGE's questions, or a question set `mirage` in mog.yaml, got neither")


@main.command()
@_config_option
@_guarded
def verify(path: str | None) -> None:
    """Check every artefact against its manifest, Qdrant against its collections' manifests, and for leftovers."""
    from mog_assets.answer import verify as check

    settings = _settings(path)
    checked, faults = check(settings)
    for fault in faults:
        click.echo(f"mog: {fault}", err=True)
    click.echo(f"{checked} artefacts checked, {len(faults)} faults")
    if faults:
        sys.exit(FAILED)


@main.command()
@_config_option
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
@_guarded
def ui(path: str | None, port: int, host: str) -> None:
    """Open the Dagster UI on this project's home (Ctrl-C ends it)."""
    settings = _settings(path)
    from mog_assets.automation import instance, prepare_home

    with instance(settings):
        pass
    click.echo(f"http://{host}:{port}")
    command = [sys.executable, "-m", "dagster", "dev", "-p", str(port), "-h", host]
    command += ["-f", str(files("mog_assets") / "definitions.py")]
    sys.exit(subprocess.call(command, env={**os.environ, "DAGSTER_HOME": str(prepare_home(settings))}))


if __name__ == "__main__":
    main()
