"""Count the files of ours, and their lines, that run for a question, a document, an edit and an asset.

An asset is what runs between Dagster, the functions of its recipe and the store; with its building, these, too.
The graph, and what is read of it, are there before a document or an asset sets out; an edit begins with `mog run`.

python benchmarks/walks.py             a table
python benchmarks/walks.py question    the files of one of them, in the order in which they are reached
"""

import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import click
import dagster as dg
import yaml

import mog_assets
from mog_assets import config
from mog_assets.build import automation, runner
from mog_assets.build.demand import demand
from mog_assets.build.materialising import materialise
from mog_assets.build.plan import graph, needed
from mog_assets.build.tools import Tools

ROOT = Path(mog_assets.__file__).resolve().parents[1]
NAMES = ("mog_assets", "resources")
BUILT = "asset with its building"
WALKS = ("question", "opening", "document", "edit", "asset", BUILT)
_FUNCTION = 0x1  # inspect.CO_OPTIMIZED: no module, no class


# The functions of recipes that are running.
_running = []


def noted(function):
    """Return a function of a recipe that says when it runs."""

    @wraps(function.func if isinstance(function, partial) else function)
    def call(*arguments):
        _running.append(function)
        try:
            return function(*arguments)
        finally:
            _running.pop()

    return call


def with_notes(recipes):
    """Return recipes whose functions say when they run."""
    names = ("build", "settings", "source", "intact")
    return {key: replace(r, **{name: noted(getattr(r, name)) for name in names}) for key, r in recipes.items()}


@contextmanager
def walking(files, between=None):
    """Note files of functions of ours that are called, in any thread, and those of the calls between recipes."""
    ours = {}

    def note(frame, event, argument):
        code, running = frame.f_code, bool(_running)
        if event != "call" or not code.co_flags & _FUNCTION or (code.co_filename, running) in ours:
            return
        path = Path(code.co_filename).resolve()
        mine = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in NAMES
        ours[code.co_filename, running] = mine
        if mine:
            files.setdefault(path)
            if between is not None and not running:
                between.setdefault(path)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def project(folder):
    """Return the settings of the samples with a home of their own."""
    samples = shutil.copytree(ROOT / "mog_assets" / "samples", folder / "samples")
    values = yaml.safe_load((ROOT / "mog.yaml").read_text())
    values = yaml.safe_load(yaml.safe_dump(values).replace("mog_assets/samples", str(samples)))
    (folder / "mog.yaml").write_text(yaml.safe_dump({**values, "home": str(folder / "home")}))
    return config.load(folder / "mog.yaml")


def edit(settings, number):
    """Change a document of the first corpus that is a folder."""
    path = next(p for corpus in settings.corpora.values() for p in sorted(Path(corpus.path).glob("*.md")))
    path.write_text(path.read_text() + f"\nLine {number} is new, and says nothing of bread.\n")
    return next(name for name, corpus in settings.corpora.items() if path.is_relative_to(Path(corpus.path)))


def walks(folder):
    """Return the files of each walk by name."""
    settings = project(folder)
    recipes, tools = graph(settings), Tools(settings).settled()
    # From files to what every search reads of them.
    keys = needed(recipes, demand(settings).search.per_corpus)
    result = {name: {} for name in WALKS}
    with walking(result["document"]):
        for key in keys:
            for corpus in settings.corpora if recipes[key].partitioned else [None]:
                materialise(recipes[key], corpus, tools, recipes)
    runner.run(settings)
    with walking(result["opening"]):
        opened = mog_assets.open(settings, refresh=None)
    with opened, walking(result["question"]):
        opened.search("How long does bread dough rise?")
    edit(settings, 1)
    with walking(result["edit"]):
        runner.run(settings, select=list(demand(settings).search.per_corpus))
    corpus = edit(settings, 2)
    automation.graph = lambda settings: with_notes(graph(settings))
    job = automation.build(settings).resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("corpus", list(settings.corpora))
        with walking(result[BUILT], result["asset"]):
            job.execute_in_process(
                instance=instance,
                partition_key=corpus,
                asset_selection=[dg.AssetKey("documents")],
                run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            )
    return {name: list(files) for name, files in result.items()}


def lines(path):
    """Count the lines of a file."""
    return len(path.read_text().splitlines())


@click.command(help=__doc__)
@click.argument("walk", required=False, type=click.Choice(WALKS))
def main(walk):
    with tempfile.TemporaryDirectory() as temporary:
        files_of = walks(Path(temporary))
    if walk is not None:
        for path in files_of[walk]:
            print(f"{lines(path):5} {path.relative_to(ROOT)}")
        return
    print("| walk | files | lines |\n|---|---|---|")
    for name, files in files_of.items():
        print(f"| {name} | {len(files)} | {sum(map(lines, files)):,} |")


if __name__ == "__main__":
    main()
