"""What one edited document costs the sentence graph of a corpus, and what its files take on disk.

python benchmarks/graph_edit.py --config benchmarks/medquad.yaml --corpus cancergov

Everything is built in a temporary folder, from a copy of the corpus. `--drift 0` renews term statistics at every edit.
"""

import gzip
import json
import re
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import pandas as pd

from mog_assets import config
from mog_assets.corpus import assets as corpus_assets
from mog_assets.papers.mix_of_granularity.graph import assets as graph_assets
from mog_assets.recipe import materialise
from mog_assets.tools import Tools


def seconds() -> tuple[float, float]:
    """By the clock, and of the processors."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), used.ru_utime + used.ru_stime + children.ru_utime + children.ru_stime


def sizes(artefact) -> Counter:
    """Bytes by kind of file."""
    found = Counter()
    for name, entry in artefact.manifest.files.items():
        found[re.sub(r"_\d{4,}", "", name)] += entry["bytes"]
    return found


@click.command()
@click.option("--config", "path", required=True)
@click.option("--corpus", "corpora", multiple=True, help="Of the configuration; all if none is named.")
@click.option("--drift", type=float, help="`drift.documents`; the default if not given.")
@click.option("--edits", default=2, show_default=True, help="How many times a document is edited.")
def main(path: str, corpora: tuple[str, ...], drift: float | None, edits: int) -> None:
    settings = config.load(path)
    rows, disk = [], Counter()
    for corpus in corpora or tuple(settings.corpora):
        with tempfile.TemporaryDirectory() as name:
            source = Path(name) / f"{corpus}.jsonl"
            given = settings.corpora[corpus].path
            content = gzip.decompress(given.read_bytes()) if given.suffix == ".gz" else given.read_bytes()
            documents = [json.loads(line) for line in content.decode().split("\n") if line]
            held = settings.model_dump(include={"graph", "bm25", "finest_chars", "buckets"})
            held |= {"home": str(Path(name) / "home"), "corpora": {corpus: {"path": str(source)}}}
            held |= {} if drift is None else {"drift": {"documents": drift}}
            tools = Tools(config.Settings.model_validate(held))
            stages = (corpus_assets, graph_assets)
            recipes = {recipe.key: recipe for stage in stages for recipe in stage.recipes(tools.settings)}
            for edit in range(edits + 1):
                if edit:
                    place = edit * len(documents) // (edits + 1)
                    documents[place]["text"] += " The grey heron waits in shallow water for a fish."
                source.write_text("".join(json.dumps(d) + "\n" for d in documents), encoding="utf-8")
                materialise(recipes["documents"], corpus, tools, recipes)
                before = seconds()
                outcome = materialise(recipes["sentence_graph"], corpus, tools, recipes)
                after = seconds()
                done = outcome.artefact.manifest.info["recomputed"]
                rows.append(
                    {
                        "corpus": corpus,
                        "what": f"edit {edit}" if edit else "from nothing",
                        "nodes": outcome.artefact.manifest.counts["nodes"],
                        "seconds": after[0] - before[0],
                        "CPU seconds": after[1] - before[1],
                        "searched": done.get("nodes searched", 0),
                        "gathered": done.get("neighbourhoods gathered", 0),
                    }
                )
            disk += sizes(outcome.artefact)
    click.echo(pd.DataFrame(rows).round(2).to_markdown(index=False))
    table = pd.DataFrame(disk.most_common(), columns=["file", "bytes"])
    table.loc[len(table)] = ["all", table["bytes"].sum()]
    click.echo("\n" + table.to_markdown(index=False))


if __name__ == "__main__":
    main()
