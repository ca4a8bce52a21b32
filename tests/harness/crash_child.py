"""Runs `mog` in processes that can be killed, forked from one that has everything imported and nothing started.

Each line of standard input is a JSON object: `arguments` of `mog`, the first of which may also be `build`: what `run`
makes, without Dagster and without pictures; the `point` and the `occurrence` at which the process sends itself the
`signal`, or null; `fsize`, the most bytes that a file may have, or null; the seconds `after` which it is killed, or
null. Each line of standard output tells how the
process ended (negative: by that signal), which points it reached how often, and what it said; or that it stopped, and
then a further line resumes it.
"""

import gc
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

# What a run needs.
PRELOADED = (
    "shared",
    "dagster._core.launcher.default_run_launcher",
    "dagster._core.storage.local_compute_log_manager",
    "dagster._core.storage.sqlite_storage",
    "matplotlib.pyplot",
    "numba",
    "pyarrow.parquet",
    "qdrant_edge",
    "torch",
    "transformers",
    "mog_assets.cli",
    "mog_assets.build.runner",
    "mog_assets.serve.project",
)


def build(path: Path) -> None:
    """Materialise everything, each artefact after what it is made from."""
    from shared import blank_pictures

    from mog_assets import config
    from mog_assets.build import plan
    from mog_assets.build.materialising import materialise
    from mog_assets.build.tools import Tools
    from mog_assets.resources.files import sweep_orphans

    settings = config.load(path)
    tools, recipes = Tools(settings), plan.graph(settings)
    sweep_orphans(settings.home / "cache")
    with blank_pictures():
        for recipe in recipes.values():
            for corpus in settings.corpora if recipe.partitioned else [None]:
                if not recipe.on_demand:
                    materialise(recipe, corpus, tools, recipes)


def child(order: dict, reached_by: int) -> None:
    """Be `mog` until the end, or until the point."""
    from mog_assets import cli
    from mog_assets.resources import publishing
    from mog_assets.resources.files import interrupt_with

    # What nobody needs goes at once: nothing that anybody needs may go with it.
    publishing.GRACE = 1e-9

    reached: Counter[str] = Counter()

    def interrupt(point: str) -> None:
        reached[point] += 1
        os.pwrite(reached_by, json.dumps(reached).encode(), 0)
        if (point, reached[point]) == (order["point"], order["occurrence"]):
            os.kill(os.getpid(), order["signal"])

    interrupt_with(interrupt)
    if order["fsize"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["fsize"], order["fsize"]))
    code = 0
    try:
        if order["arguments"][0] == "build":
            build(Path(order["arguments"][-1]))
        else:
            cli.main(order["arguments"])
    except SystemExit as end:
        code = end.code
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0))


def tell(value: dict) -> None:
    """Write a line of standard output."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Fork a process per line."""
    # Here, since what a run starts imports this file as well, and needs none of it.
    for name in PRELOADED:
        importlib.import_module(name)
    # A collection would write to every object, and each process so copy all memory that it shares with this one.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as reached:
            pid = os.fork()
            if pid == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                child(order, reached.fileno())
            if order.get("after") is not None:
                time.sleep(order["after"])
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, os.WUNTRACED)
            if os.WIFSTOPPED(status):
                tell({"stopped": pid})
                sys.stdin.readline()
                os.kill(pid, signal.SIGCONT)
                _, status = os.waitpid(pid, 0)
            said.seek(0)
            reached.seek(0)
            ended = {
                "code": os.waitstatus_to_exitcode(status),
                "reached": json.loads(reached.read() or b"{}"),
                "said": said.read().decode("utf-8", "replace"),
            }
        tell(ended)


if __name__ == "__main__":
    main()
