"""Bucket functions on the nodes of a Ray cluster. Only this module and `node` import Ray.

A task is the name of a function with paths. Nothing but the name, the arguments and a small result travels through Ray:
what a task reads and writes are files of the shared home folder. They are moved into place when complete, under names
that stand for their content, so a task may run twice.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from mog_assets.plugins.ray.settings import RaySettings
from mog_assets.resources import extras
from mog_assets.resources.engine import PoolMap
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import alive, make_folder

with extras.needed("engine.kind: ray"):
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mog_assets.plugins.ray.node import Keeper, NodeRequirements, versions, work_on

_log = logging.getLogger(__name__)
# A Ray that is started here holds no artefacts; Ray asks for at least 75 MiB.
_OBJECT_STORE_BYTES = 80 << 20
_CONNECT_SECONDS = 5.0
# How long a client of a network file system may not see a file that another has written.
_VISIBLE_SECONDS = 60.0


class Cluster:
    """A connection to a Ray cluster, checked.

    Args:
        settings: Of the engine.
        home: The shared folder.
        started: Whether this process started the Ray, or connected to it.
    """

    def __init__(self, settings: RaySettings, home: Path, started: bool) -> None:
        self.settings = settings
        self.started = started
        make_folder(home / "cache" / "ray")
        _sweep(home / "cache" / "ray")
        self.scratch = home / "cache" / "ray" / f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:12]}"
        self.scratch.mkdir()
        probe, token = self.scratch / "probe", uuid4().hex
        with probe.open("w", encoding="ascii") as stream:
            stream.write(token)
            stream.flush()
            os.fsync(stream.fileno())
        self.terms = NodeRequirements(versions(), str(probe), token)
        # Results of tasks are numbers; an exception of a task is never retried.
        self._task = ray.remote(num_cpus=1, max_retries=settings.retries, retry_exceptions=False)(work_on)
        try:
            self._check()
        except BaseException:
            self.leave()
            raise

    def leave(self) -> None:
        """Delete the folder of this connection."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def pending(self) -> int:
        """Return how many tasks are submitted at a time."""
        return self.settings.pending or 4 * max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def describe(self) -> str:
        """Return nodes, CPUs and GPUs."""
        have, nodes = ray.cluster_resources(), [node for node in ray.nodes() if node["Alive"]]
        place = "started on this machine" if self.started else "connected"
        return f"ray {ray.__version__} ({place}), nodes: {len(nodes)}, CPUs: {have.get('CPU', 0):.0f}, GPUs: " + (
            f"{have.get('GPU', 0):.0f}; every node has the same versions, reads and writes {self.scratch.parent}"
        )

    def _check(self) -> None:
        """Have every node read a file of this process, and this process one of every node."""
        needs = {}
        for node in ray.nodes():
            if node["Alive"]:
                strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                job = {"out": str(self.scratch / node["NodeID"])}
                remote = self._task.options(scheduling_strategy=strategy, num_cpus=0)
                needs[remote.remote(self.terms, "mog_assets.plugins.ray.node:greet", job)] = (node, job)
        if not needs:
            raise MogError("engine.address: expected a cluster with nodes, got one without")
        done, waiting = ray.wait(list(needs), num_returns=len(needs), timeout=self.settings.wait_seconds)
        if waiting:
            node = needs[waiting[0]][0]
            raise MogError(
                f"engine: node {node['NodeID'][:8]} ({node['NodeManagerHostname']}, {node['NodeManagerAddress']}) did "
                f"not answer within {self.settings.wait_seconds:g} seconds (engine.wait_seconds): look at its log in "
                "/tmp/ray/session_latest/logs, or raise it"
            )
        for ref in done:
            self.finish(ref, "mog_assets.plugins.ray.node:greet", needs[ref][1])

    def map(self, target: str, jobs: Sequence[dict[str, Any]]) -> Iterator[Any]:
        """Do as `Engine.map`: a bounded number of tasks is pending at a time."""
        waiting = list(reversed(jobs))
        running: dict[Any, dict[str, Any]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.pending:
                    job = waiting.pop()
                    running[self._task.remote(self.terms, target, job)] = job
                done, _ = ray.wait(list(running), num_returns=1)
                for ref in done:
                    yield self.finish(ref, target, running.pop(ref))
        finally:
            for ref in running:
                ray.cancel(ref, force=True)

    def finish(self, ref: Any, target: str, job: dict[str, Any]) -> Any:
        """Return the result of a task that ended; its file can be read here."""
        try:
            result, size, node = ray.get(ref)
        except RayTaskError as error:
            raise_cause(error)
        except RayError as error:
            raise MogError(
                f"engine: {target} for {job['out']} died, with {self.settings.retries} retries (engine.retries): "
                f"{_line_of(error)}: look for nodes that ran out of memory or were removed, then run `mog run` again"
            ) from error
        _until_visible(Path(job["out"]), size, node)
        return result

    @contextmanager
    def open_pool(self, most: int) -> Iterator[PoolMap]:
        """Do as `Engine.open_pool`: actors, replaced when they die."""
        have = ray.cluster_resources()
        gpus = self.settings.gpus
        if gpus is None:
            gpus = 1 if have.get("GPU", 0) >= 1 else 0
        if gpus > have.get("GPU", 0):
            raise MogError(f"engine.gpus: expected at most {have.get('GPU', 0):g}, which the cluster has, got {gpus:g}")
        room = int(have["GPU"] // gpus) if gpus else int(have.get("CPU", 1))
        count = min(self.settings.encoders or max(room, 1), max(most, 1))
        make: Any = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(Keeper)
        keepers = _Keepers(self, make, count)
        try:
            yield keepers.map
        finally:
            keepers.end()


class _Keepers:
    """Actors that do one job at a time. A job whose actor died goes to another, and a new actor is asked for.

    A cluster that lost a node may have no room for the new one: it gets jobs when it runs, not before.
    """

    def __init__(self, cluster: Cluster, make: Any, count: int) -> None:
        self._cluster, self._make = cluster, make
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        actor = self._make.remote()
        self._starting[actor.ready.remote()] = actor

    def end(self) -> None:
        """End all actors."""
        for actor in [*self._idle, *self._starting.values()]:
            ray.kill(actor)

    def map(self, target: str, jobs: Sequence[dict[str, Any]]) -> Iterator[Any]:
        """Do as `Engine.map`."""
        settings, terms = self._cluster.settings, self._cluster.terms
        waiting = [(job, 0) for job in reversed(jobs)]
        running: dict[Any, tuple[Any, dict[str, Any], int]] = {}
        try:
            while waiting or running:
                while waiting and self._idle:
                    actor, (job, died) = self._idle.pop(), waiting.pop()
                    running[actor.work.remote(terms, target, job)] = (actor, job, died)
                seconds = None if running else settings.wait_seconds
                done, _ = ray.wait([*running, *self._starting], num_returns=1, timeout=seconds)
                if not done:
                    raise MogError(
                        f"engine.encoders: no process that encodes could be started within {settings.wait_seconds:g} "
                        "seconds (engine.wait_seconds): the cluster has no free CPU or GPU for it, or no nodes are left"
                    )
                if done[0] in self._starting:
                    self._begin(done[0])
                    continue
                actor, job, died = running.pop(done[0])
                try:
                    ray.get(done[0])
                except RayTaskError as error:
                    self._idle.append(actor)
                    raise_cause(error)
                except RayError as error:
                    # It may be alive and out of reach.
                    ray.kill(actor)
                    self._start()
                    if died >= settings.retries:
                        self._cluster.finish(done[0], target, job)
                    _log.warning("engine: a process that encodes died (%s): another one does its work", _line_of(error))
                    waiting.append((job, died + 1))
                    continue
                self._idle.append(actor)
                yield self._cluster.finish(done[0], target, job)
        finally:
            # What they are doing is no longer wanted.
            for actor, _, _ in running.values():
                ray.kill(actor)
                self._start()

    def _begin(self, ref: Any) -> None:
        actor = self._starting.pop(ref)
        try:
            ray.get(ref)
        except RayError:
            # Its node died while it started.
            self._start()
            return
        self._idle.append(actor)


def raise_cause(error: RayTaskError) -> NoReturn:
    """Raise the exception of a function as it was raised there."""
    if isinstance(error.cause, Exception):
        raise error.cause from error
    raise MogError(f"engine: a task failed with an exception that cannot be sent: {_line_of(error)}") from error


def _line_of(error: BaseException) -> str:
    """Return what an exception says, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _until_visible(path: Path, size: int, node: str) -> None:
    """Wait until a file that another machine has written can be read here, whole."""
    deadline = time.monotonic() + _VISIBLE_SECONDS
    while True:
        try:
            visible = path.stat().st_size
        except FileNotFoundError:
            visible = None
        if visible == size:
            return
        if time.monotonic() > deadline:
            raise MogError(
                f"engine: {node} wrote {size} bytes to {path}, here it has "
                f"{'no file' if visible is None else visible}: "
                "mount the same folder at the same path on every node, with read-after-write consistency"
            )
        # Reading a folder makes a client of NFS ask the server again for names that it did not find before.
        os.listdir(path.parent)
        time.sleep(0.05)


def _sweep(folder: Path) -> None:
    """Delete what ended processes of this machine left."""
    for entry in folder.glob(f"{socket.gethostname()}-*"):
        pid = entry.name.rsplit("-", 2)[1]
        if pid.isdecimal() and not alive(int(pid)):
            shutil.rmtree(entry, ignore_errors=True)


_opened: dict[tuple[RaySettings, Path], Cluster] = {}
_opening = threading.RLock()


def cluster(settings: RaySettings, home: Path) -> Cluster:
    """Return connection of this process, made at its first use and kept until the process ends or `leave` is called.

    Raises:
        MogError: there is no cluster, or a node of it cannot be used.
    """
    with _opening:
        place = (settings.address, settings.workers)
        if any((other.address, other.workers) != place for other, _ in _opened) or not ray.is_initialized():
            leave()
        if (settings, home) not in _opened:
            _opened[settings, home] = _joined(settings, home)
        return _opened[settings, home]


def _joined(settings: RaySettings, home: Path) -> Cluster:
    """Return a checked connection; one that the program has made itself is used, and stays if the check fails."""
    started = not ray.is_initialized()
    try:
        return Cluster(settings, home, _connect(settings))
    except BaseException:
        if started:
            ray.shutdown()
        raise


def leave() -> None:
    """Leave the cluster, and end a Ray that this process started."""
    with _opening:
        for one in _opened.values():
            one.leave()
        if _opened:
            ray.shutdown()
        _opened.clear()


atexit.register(leave)


def _connect(settings: RaySettings) -> bool:
    """Connect to Ray, or start one; returns whether one was started."""
    if ray.is_initialized():
        return False
    address = settings.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options = {
            "num_cpus": settings.workers,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    elif address != "auto":
        _reach(address)
    failed: list[BaseException] = []
    answered = threading.Event()

    def connect() -> None:
        try:
            ray.init(address, log_to_driver=False, configure_logging=False, **options)
        except BaseException as error:  # To be raised in the thread that asks.
            failed.append(error)
        answered.set()
        # The kernel ends the servers of a Ray that is started here with the thread that started them.
        threading.Event().wait()

    # In the main thread Ray would replace the handler of SIGTERM; and it waits for minutes where nobody answers.
    threading.Thread(target=connect, name="ray", daemon=True).start()
    if not answered.wait(settings.wait_seconds):
        raise MogError(
            f"engine.address: no Ray cluster answered at {address} within {settings.wait_seconds:g} seconds "
            "(engine.wait_seconds)"
        )
    if failed:
        raise MogError(
            f"engine.address: cannot use Ray at {address} ({_line_of(failed[0])}): start a node of the cluster on this "
            "machine with `ray start --address=HOST:PORT`, with the same versions of Python and Ray"
        ) from failed[0]
    return address == "local"


def _reach(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise MogError(
            f"engine.address: no Ray cluster at {address} ({error}): start one with `ray start --head`, or correct "
            "the address"
        ) from error
