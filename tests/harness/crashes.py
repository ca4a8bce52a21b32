"""Projects whose builds are killed at every point."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import qdrant_edge as edge
import yaml
from shared import PAPERS, QDRANT, ROOT, VARIABLES, copy_folder

from mog_assets import config
from mog_assets.build.tools import Tools

LEVELS = 2
CORPORA = {
    "pond": {
        "heron": "The grey heron stands still in shallow water. It waits for a fish. Then it strikes.",
        "otter": "The otter swims at dusk. It eats fish and crayfish. Its holt is under a bank.",
        "newt": "The newt lives in the pond. It sheds its skin. It hunts at night.",
    },
    "hill": {
        "hare": "The hare rests in a form. It runs fast uphill. It eats grass and herbs.",
        "kite": "The kite soars over the hill. It has a forked tail. It eats carrion.",
        "adder": "The adder basks in the sun. It is shy. Its bite is venomous.",
    },
    "moor": {"grouse": "The grouse feeds on heather. It flies up late and fast. Its call carries far."},
}


@contextmanager
def forking():
    """Runs `mog` in a process of its own, which kills or stops itself at a point where that is asked for."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("crash_child.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT)},
    ) as forker:

        def say(value):
            forker.stdin.write(json.dumps(value) + "\n")
            forker.stdin.flush()
            return SimpleNamespace(**json.loads(forker.stdout.readline()))

        def run(folder, command, kill_at=None, stop_at=None, fsize=None, after=None):
            point, occurrence = kill_at or stop_at or (None, None)
            order = {"arguments": [command, "--config", str(folder / "mog.yaml")], "fsize": fsize, "after": after}
            order |= {"point": point, "occurrence": occurrence}
            return say({**order, "signal": signal.SIGSTOP if stop_at else signal.SIGKILL})

        run.resume = lambda: say(None)
        yield run
        forker.stdin.close()


@pytest.fixture(scope="module")
def mog():
    """See `forking`."""
    with forking() as run:
        yield run


def write_project(folder, corpora, **values):
    folder.mkdir(parents=True, exist_ok=True)
    for name, documents in corpora.items():
        rows = [json.dumps({"id": i, "title": i, "text": text}) + "\n" for i, text in documents.items()]
        (folder / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    settings = {
        "home": "home",
        "corpora": {name: {"path": f"{name}.jsonl"} for name in corpora},
        "levels": LEVELS,
        "buckets": 4,
        "finest_chars": 50,
        "encoder": {"device": "cpu"},
        "methods": ["default", "papers"] if PAPERS else ["default"],
        **QDRANT,
        **values,
    }
    (folder / "mog.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def artefacts(folder):
    """Every artefact that a reader finds, by asset and corpus, its bytes checked; removed corpora as well."""
    store = Tools(config.load(folder / "mog.yaml")).store
    found = {}
    for manifest in sorted(store.folder("").rglob("manifest.json")):
        written = json.loads(manifest.read_text(encoding="utf-8"))
        artefact = store.find(written["asset"], written["partition"])
        if artefact is not None:
            assert store.verify(artefact) == []
            # They say when things were measured, which is another time in every home.
            if written["asset"] in ("history", "report"):
                continue
            found[written["asset"], written["partition"]] = artefact.manifest.version
    return found


def points(folder):
    """Payload of every point of every collection by name and id."""
    held = {}
    for collection in (folder / "home/qdrant").glob("mog_*/"):
        shard = edge.EdgeShard.load(str(collection))
        records, more = shard.scroll(edge.ScrollRequest(limit=10_000, with_payload=True))
        assert more is None
        held |= {(collection.name, str(record.id)): record.payload for record in records}
        shard.close()
    return held


def temporary(folder):
    return [path for path in (folder / "home").rglob(".tmp-*")]


def change(folder):
    """What makes one run reach every point.

    A document edited, one added, one removed; a corpus removed; a collection lost; a file truncated.
    """
    pond = {**CORPORA["pond"], "otter": "The otter swims at dawn. It eats fish, frogs and crayfish. It has a holt."}
    del pond["heron"]
    pond["toad"] = "The toad walks to the pond in March. It lays its eggs in strings."
    write_project(folder, {"pond": pond, "hill": CORPORA["hill"]})
    shutil.rmtree(folder / "home/qdrant/mog_hill", ignore_errors=True)
    tokens = Tools(config.load(folder / "mog.yaml")).store.read("tokens", "hill").path("terms_0000.arrow")
    os.truncate(tokens, 10)


@pytest.fixture(scope="module")
def before(mog, tmp_path_factory):
    """A project that is complete; its artefacts."""
    folder = tmp_path_factory.mktemp("crash") / "before"
    write_project(folder, CORPORA)
    done = mog(folder, "run")
    assert done.code == 0, done.said
    return SimpleNamespace(folder=folder, artefacts=artefacts(folder), points=points(folder))


@pytest.fixture(scope="module")
def after(mog, before):
    """The project after a change and a run that nothing interrupted."""
    folder = copy_folder(before.folder, before.folder.with_name("after"))
    change(folder)
    done = mog(folder, "run")
    assert done.code == 0, done.said
    verified = mog(folder, "verify")
    assert verified.code == 0, verified.said
    return SimpleNamespace(folder=folder, artefacts=artefacts(folder), points=points(folder), reached=done.reached)
