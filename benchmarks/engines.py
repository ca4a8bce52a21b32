"""The stages of every corpus with each engine: seconds, and whether versions and bytes equal those of `inprocess`.

python benchmarks/engines.py --corpora DIR cdc ninds seniorhealth

Starts Ray nodes of one CPU each on this machine. With --kill, the last one is killed while it works. Each project has a
home of its own in a scratch folder, the warm ones with a copy of the vector cache of the first.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import click
import yaml

from mog_assets import config
from mog_assets.build import markdown, runner
from mog_assets.build.tools import Tools

STAGES = ["group:corpus", "group:chunking", "group:retrieval", "sentence_graph"]
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}


def project(folder: Path, corpora: Path, names: tuple[str, ...], engine: dict) -> config.Settings:
    paths = {name: {"path": str((corpora / f"{name}.jsonl.gz").resolve())} for name in names}
    folder.mkdir()
    values = {"home": "home", "corpora": paths, "engine": engine}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return config.load(folder / "mog.yaml")


def content(settings: config.Settings) -> dict[str, object]:
    """Version of every artefact, and bytes of each of its files."""
    store, found = Tools(settings).store, {}
    for path in store.folder("").rglob("manifest.json"):
        asset, _, corpus = path.parent.relative_to(store.folder("")).as_posix().partition("/corpus/")
        artefact = store.read(asset, corpus or None)
        found[f"{asset} {corpus}"] = artefact.manifest.version
        found |= {f"{asset} {corpus} {name}": artefact.path(name).read_bytes() for name in artefact.names()}
    return found


@contextlib.contextmanager
def nodes(count: int, kill: bool):
    """A Ray of so many nodes; gives its address, and what to do once work has begun."""
    # Ray's workers yield to other processes otherwise, which the other engines do not.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    os.environ["RAY_raylet_start_wait_time_s"] = "120"  # noqa: SIM112
    from ray.cluster_utils import Cluster

    from mog_assets.plugins.ray import cluster as connections

    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        added = [cluster.add_node(**NODE) for _ in range(count - 1)]

        def end(home: Path) -> None:
            while not list(home.glob("store/**/bucket_*.npy")) and not list(home.glob("cache/ray/*/*.npy")):
                time.sleep(0.1)
            print(f"killing a node of {count} while vectors are made", file=sys.stderr)
            added[-1].kill_raylet(check_alive=True)

        yield cluster.address, end if kill else None
    finally:
        connections.leave()
        cluster.shutdown()


def build(settings: config.Settings, end) -> float:
    if end is not None:
        threading.Thread(target=end, args=(settings.home,), daemon=True).start()
    started = time.monotonic()
    report = runner.run(settings, select=STAGES)
    if report.failures:
        raise click.ClickException("; ".join(report.failures))
    return time.monotonic() - started


@click.command()
@click.option("--corpora", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of the corpora.")
@click.option("--workers", "counts", type=int, multiple=True, default=(1, 2, 4), help="Nodes of Ray; may be repeated.")
@click.option("--cold/--only-warm", default=True, help="Also without a vector cache.")
@click.option("--kill", is_flag=True, help="Only: two nodes, one killed in the middle, no vector cache.")
@click.argument("names", nargs=-1, required=True)
def main(corpora: Path, counts: tuple[int, ...], cold: bool, kill: bool, names: tuple[str, ...]) -> None:
    """Time the stages of the corpora NAMES with each engine."""
    os.environ.pop("QDRANT_URL", None)
    engines = [(f"ray, {n} nodes", {"kind": "ray"}, n) for n in counts]
    if kill:
        engines = [("ray, 2 nodes, one killed", {"kind": "ray"}, 2)]
    with tempfile.TemporaryDirectory() as scratch:
        settings = project(Path(scratch) / "first", corpora, names, {"kind": "inprocess"})
        first = build(settings, None)
        wanted = content(settings)
        rows = [
            {"engine": "inprocess", "vector cache": "cold", "seconds": round(first, 1), "same": "", "": len(wanted)}
        ]
        # None: the caches of a project that is warm; its own for one that is cold.
        caches = [settings.home / "cache"] if not kill else []
        for cache in [*caches, *([None] if cold or kill else [])]:
            chosen = engines if kill else [("inprocess", {"kind": "inprocess"}, 0), *engines]
            for number, (name, values, count) in enumerate(chosen):
                with contextlib.ExitStack() as held:
                    address, end = held.enter_context(nodes(count, kill)) if count else (None, None)
                    engine = {**values, **({"address": address} if address else {})}
                    folder = Path(scratch) / f"{number}-{cache is None}"
                    settings = project(folder, corpora, names, engine)
                    if cache is not None:
                        vectors = shutil.ignore_patterns("ray", "reading-*")
                        shutil.copytree(cache, settings.home / "cache", ignore=vectors)
                    seconds = build(settings, end)
                made = content(settings)
                differ = [key for key in wanted.keys() | made.keys() if wanted.get(key) != made.get(key)]
                state = "cold" if cache is None else "warm"
                same = "yes" if not differ else f"no: {', '.join(sorted(differ)[:3])}"
                row = {"engine": name, "vector cache": state, "seconds": round(seconds, 1), "same": same}
                rows.append({**row, "": len(made)})
                print(rows[-1], file=sys.stderr, flush=True)
                shutil.rmtree(folder)
    for row in rows:
        row["versions and files"] = row.pop("")
    print(markdown.table(rows, 120))


if __name__ == "__main__":
    main()
