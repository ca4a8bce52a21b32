import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from shared import ROOT

from mog_assets.resources.errors import MissingArtefact, MogError
from mog_assets.resources.files import atomic, sweep_orphans
from mog_assets.resources.publishing import GRACE, newest, remove, sweep, unused, write_set
from mog_assets.resources.sets import touch_set
from mog_assets.resources.store import Store, digest


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path, lock_seconds=0.2)


def write(draft, name="data.txt", content="content", key=None):
    path, there = draft.file(name, digest(key or content))
    if not there:
        with atomic(path) as temporary:
            temporary.write_text(content)
    return path


def commit(store, content="content", partition=None, **files):
    with store.lock("asset", partition):
        draft = store.draft("asset", partition)
        for name, text in (files or {"data": content}).items():
            write(draft, f"{name}.txt", text)
        return store.commit(draft, "asset", partition, recipe="r", inputs={}, counts={}, info={}, seconds=0.0)


def test_draft_that_was_not_committed_is_invisible(store):
    with store.lock("asset"):
        write(store.draft("asset"))
    assert store.find("asset") is None
    with pytest.raises(MissingArtefact, match=r"asset has not been materialised: run `mog run`"):
        store.read("asset")


def test_an_artefact_with_a_truncated_or_missing_file_is_not_found_and_is_written_again(store):
    commit(store).path("data.txt").write_text("con")
    assert store.find("asset") is None
    commit(store).path("data.txt").unlink()
    assert store.find("asset") is None
    assert commit(store).path("data.txt").read_text() == "content"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"asset": 1, "unknown": 2}'])
def test_manifest_that_is_none_makes_the_artefact_not_found(store, content):
    (commit(store).folder / "manifest.json").write_text(content)
    assert store.find("asset") is None


def test_verify_sees_a_flipped_byte(store):
    artefact = commit(store)
    assert store.verify(artefact) == []
    path = artefact.path("data.txt")
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    assert store.find("asset") is not None
    assert store.verify(artefact) == ["asset: data.txt has changed since it was written: run `mog run`"]
    path.unlink()
    assert store.find("asset") is None
    assert store.verify(commit(store)) == []


def published(store, *artefacts):
    """Publish a set of these artefacts; returns its file."""
    write_set(store.home, [artefact.manifest for artefact in artefacts])
    return newest(store.home)


def names_of(artefact):
    return {path.name for path in artefact.folder.iterdir()} - {".lock", "manifest.json"}


def test_a_commit_deletes_nothing_and_what_nobody_needs_goes_after_an_hour(store, monkeypatch):
    first = commit(store, "old")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pass
    (first.folder / f".tmp-{process.pid}-data.txt").write_text("left by a process that was killed")
    second = commit(store, "new")
    assert first.path("data.txt").read_text() == "old"
    sweep(store, second)
    assert names_of(second) == {artefact.path("data.txt").name for artefact in (first, second)}
    # The hour begins when another took its place, whatever its time.
    os.utime(first.path("data.txt"), (0, 0))
    sweep(store, second)
    assert first.path("data.txt").exists()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + GRACE + 1)
    sweep(store, second)
    assert names_of(second) == {second.path("data.txt").name}
    third = commit(store, "newer")
    assert set(third.manifest.retired) == {second.path("data.txt").name}


def test_a_file_that_a_stopped_run_has_begun_stays_for_the_next(store, monkeypatch):
    artefact = commit(store)
    with store.lock("asset"):
        begun = write(store.draft("asset"), "more.txt", "begun")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * GRACE)
    sweep(store, artefact)
    assert begun.exists()
    assert unused(store, artefact, 0) == [begun]


def test_the_last_set_and_those_that_are_read_hold_their_files(store, monkeypatch):
    artefacts = [commit(store, text) for text in ("old", "read", "last", "new")]
    sets = [published(store, artefact) for artefact in artefacts[:3]]
    paths = [artefact.path("data.txt") for artefact in artefacts]
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + GRACE + 1)
    os.utime(sets[1], (now + GRACE, now + GRACE))
    sweep(store, artefacts[3])
    assert [path.exists() for path in paths] == [False, True, True, True]
    assert not touch_set(sets[0]) and touch_set(sets[2])


def test_what_prune_removes_has_no_hour_but_readers(store):
    artefacts = [commit(store, text) for text in ("old", "read", "new")]
    paths = [artefact.path("data.txt") for artefact in artefacts]
    touch_set(published(store, artefacts[1]))
    published(store, artefacts[2])
    assert unused(store, artefacts[2], 0) == [paths[0]]


def test_what_comes_back_is_written_beside_what_was(store):
    first = commit(store, "first")
    commit(store, "second")
    first.path("data.txt").write_text("other")
    again = commit(store, "first")
    assert again.path("data.txt") != first.path("data.txt")
    assert again.manifest.version == first.manifest.version and store.verify(again) == []
    # What nobody needs is gone, and its name is free again.
    for path in unused(store, again, 0):
        path.unlink()
    commit(store, "second")
    assert commit(store, "first").manifest.files == first.manifest.files


def test_a_corpus_that_is_removed_stays_for_those_who_read_it(store):
    artefact = commit(store, "garden", "garden")
    path = published(store, artefact)
    touch_set(path)
    remove(store, "asset", "garden")
    assert store.find("asset", "garden") is None and artefact.path("data.txt").exists()
    os.utime(path, (0, 0))
    remove(store, "asset", "garden")
    assert not artefact.folder.exists()


def test_under_a_damaged_manifest_files_stay_for_readers_and_are_written_again(store):
    first = commit(store, one="1", two="2")
    (first.folder / "manifest.json").write_text("{")
    first.path("two.txt").write_text("3")
    with store.lock("asset"):
        path, there = store.draft("asset").file("one.txt", digest("1"))
        assert not there and path != first.path("one.txt")
    assert first.path("one.txt").exists()
    again = commit(store, one="1", two="2")
    assert store.verify(again) == [] and again.path("two.txt").read_text() == "2"


def test_orphans_are_swept_and_files_of_the_living_stay(tmp_path):
    sweep_orphans(tmp_path / "none")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        for name in (f".tmp-{process.pid}-a.parquet", "b.parquet"):
            (tmp_path / name).touch()
        sweep_orphans(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2
        process.stdin.close()
    sweep_orphans(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b.parquet"]


def test_partitions_do_not_touch_each_other(store):
    commit(store, "whole")
    commit(store, "garden", "garden")
    commit(store, "sky", "sky")
    remove(store, "asset", "sky")
    assert store.partitions("asset") == ["garden"]
    commit(store, "whole again")
    assert store.read("asset", "garden").path("data.txt").read_text() == "garden"
    with pytest.raises(MissingArtefact, match="asset of corpus sky has not been"):
        store.read("asset", "sky")


def test_unchanged_file_keeps_its_name_and_bytes(store):
    before = commit(store, one="1", two="2").path("one.txt").stat()
    after = commit(store, one="1", two="changed").path("one.txt").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_version_follows_content_alone(store):
    first = commit(store, "same", "a").manifest
    second = commit(store, "same", "b").manifest
    other = commit(store, "other", "b").manifest
    assert first.version == second.version != other.version


def test_unknown_file_of_an_artefact_is_named(store):
    with pytest.raises(MissingArtefact, match=r"asset has no file 'nothing.txt': run `mog run`"):
        commit(store).path("nothing.txt")


HOLDER = """
import sys
from pathlib import Path
from mog_assets.resources.store import Store
from mog_assets.resources.files import atomic
store = Store(Path(sys.argv[1]))
with store.lock("asset", "garden"):
    if sys.argv[2] == "commit":
        draft = store.draft("asset", "garden")
        store.commit(draft, "asset", "garden", recipe="r", inputs={}, counts={}, info={}, seconds=0.0)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(store, stage="before"):
    """A process that holds the lock of an artefact."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(store.home), stage], **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        yield holder


@pytest.mark.parametrize("stage", ["before", "commit"])
def test_second_writer_fails_naming_the_holder(store, stage):
    with holding(store, stage) as holder:
        expected = (
            rf"asset of corpus garden is being written by process {holder.pid} "
            r"\(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\): wait for it or stop it"
        )
        with pytest.raises(MogError, match=expected), store.lock("asset", "garden"):
            pass
        holder.stdin.close()
        assert holder.wait(10) == 0
    with store.lock("asset", "garden"):
        pass


def test_killed_holder_blocks_nobody(store):
    with holding(store) as holder:
        with pytest.raises(MogError, match="is being written"), store.lock("asset", "garden"):
            pass
        holder.kill()
        assert holder.wait(10) == -signal.SIGKILL
    with store.lock("asset", "garden"):
        assert (store.folder("asset", "garden") / ".lock.holder").read_text().startswith(f"{os.getpid()} ")


@pytest.mark.parametrize("text", ["", "4194304999 1", "no number"])
def test_holder_that_is_not_known_is_not_named(store, text):
    with store.lock("asset"):
        holder = store.folder("asset") / ".lock.holder"
        holder.write_text(text)
        with pytest.raises(MogError, match="asset is being written by another process: wait"), store.lock("asset"):
            pass


RUNS = """
import sys, time
from pathlib import Path
from mog_assets.resources.store import Store
from mog_assets.resources.files import atomic
store = Store(Path(sys.argv[1]))
for n in range(40):
    with store.lock("asset"):
        busy = Path(sys.argv[1]) / "busy"
        busy.touch(exist_ok=False)
        draft = store.draft("asset")
        path, there = draft.file("data.txt", f"{sys.argv[2]}-{n}")
        with atomic(path) as temporary:
            temporary.write_text(sys.argv[2] * n)
        store.commit(draft, "asset", None, recipe="r", inputs={}, counts={}, info={}, seconds=0.0)
        busy.unlink()
"""


def test_two_processes_never_write_at_once(store):
    processes = [subprocess.Popen([sys.executable, "-c", RUNS, str(store.home), name], cwd=ROOT) for name in "ab"]
    assert [process.wait(60) for process in processes] == [0, 0]
    artefact = store.read("asset")
    assert store.verify(artefact) == []
    assert artefact.path("data.txt").read_text() in {"a" * 39, "b" * 39}


# No room

LIMITED = """
import json, resource, sys
from pathlib import Path
import numpy as np, pandas as pd
from safetensors.numpy import save_file
from mog_assets.resources.files import save_array
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store
from mog_assets.resources.files import atomic
store = Store(Path(sys.argv[1]))
draft = store.draft("asset")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
array = np.random.default_rng(0).random(1000)
write = {
    "text": lambda path: path.write_text("x" * 8000),
    "array": lambda path: save_array(path, array),
    "table": lambda path: pd.DataFrame({"a": array}).to_parquet(path),
    "weights": lambda path: save_file({"a": array}, path),

    "manifest": lambda path: path.write_text("new"),
}[sys.argv[2]]
try:
    path, _ = draft.file("data.txt", "new")
    with atomic(path) as temporary:
        write(temporary)
    info = {"long": "x" * 8000}
    store.commit(draft, "asset", None, recipe="r", inputs={}, counts={}, info=info, seconds=0.0)
except MogError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["text", "array", "table", "weights", "manifest"])
def test_file_that_may_not_be_so_large_leaves_the_previous_artefact(store, what):
    before = commit(store, "old")
    command = [sys.executable, "-c", LIMITED, str(store.home), what, "5000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    file = "manifest.json" if what == "manifest" else "data-.*txt"
    message = (
        rf"no room to write .*{file}: expected at least (\d+) bytes, \d+ are free \(.+\); existing files are unchanged"
    )
    (wanted,) = re.findall(message, done.stdout)
    assert done.stdout.count("\n") == 1
    assert int(wanted) >= (8000 if what == "manifest" else 1)
    assert store.read("asset").manifest == before.manifest
    assert store.verify(before) == []
    assert list(before.folder.rglob(".tmp-*")) == []
    assert commit(store, "next").path("data.txt").read_text() == "next"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("what", ["file", "manifest"])
def test_full_disk_leaves_the_previous_artefact(small_disk, what):
    store = Store(small_disk)
    before = commit(store, "old")
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space left"):
        while True:
            stream.write(bytes(4096))
    if what == "manifest":
        # Room for the lock's holder and the file, and none for the manifest after them.
        os.truncate(filler, filler.stat().st_size - 2 * 4096)
    with pytest.raises(MogError) as raised:
        commit(store, "new" * 1000)
    name = "manifest.json" if what == "manifest" else "data-"
    assert re.search(
        rf"no room to write .*{name}.*expected at least \d+ bytes, \d+ are free \(.*No space", str(raised.value)
    )
    assert store.read("asset").manifest == before.manifest
    assert store.verify(before) == []
    assert list(small_disk.rglob(".tmp-*")) == []
    filler.unlink()
    assert commit(store, "new" * 1000).path("data.txt").read_text() == "new" * 1000


def test_atomic_leaves_nothing_behind_on_error(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
