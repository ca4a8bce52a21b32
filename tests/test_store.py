import subprocess
import sys
from pathlib import Path

import pytest

from mog_assets.errors import MissingArtefact, MogError
from resources.store import Store, atomic, digest

ROOT = Path(__file__).parent.parent


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


def test_previous_artefact_stays_until_the_next_is_committed(store):
    commit(store, "old")
    with store.lock("asset"):
        write(store.draft("asset"), content="new")
    assert store.read("asset").path("data.txt").read_text() == "old"


def test_truncated_file_makes_the_artefact_not_found(store):
    path = commit(store).path("data.txt")
    path.write_text("con")
    assert store.find("asset") is None


def test_truncated_file_is_written_again(store):
    commit(store).path("data.txt").write_text("con")
    assert commit(store).path("data.txt").read_text() == "content"


def test_missing_file_makes_the_artefact_not_found(store):
    commit(store).path("data.txt").unlink()
    assert store.find("asset") is None


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
    assert store.verify(artefact) == ["asset: the bytes of data.txt are not those of its manifest"]


def test_files_that_no_longer_count_are_swept(store):
    first = commit(store, "old")
    (first.folder / ".tmp-1-data.txt").write_text("left by a process that was killed")
    second = commit(store, "new")
    assert not first.path("data.txt").exists()
    visible = {p.name for p in second.folder.iterdir()} - {".lock"}
    assert visible == {"manifest.json", second.path("data.txt").name}


def test_partitions_do_not_touch_each_other(store):
    commit(store, "whole")
    commit(store, "garden", "garden")
    commit(store, "sky", "sky")
    store.remove("asset", "sky")
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
    with pytest.raises(MissingArtefact, match=r"asset holds no file 'nothing.txt': materialise it again"):
        commit(store).path("nothing.txt")


HOLDER = """
import sys
from pathlib import Path
from resources.store import Store, atomic
store = Store(Path(sys.argv[1]))
with store.lock("asset", "garden"):
    if sys.argv[2] == "commit":
        draft = store.draft("asset", "garden")
        store.commit(draft, "asset", "garden", recipe="r", inputs={}, counts={}, info={}, seconds=0.0)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("stage", ["before", "commit"])
def test_second_writer_fails_naming_the_holder(store, stage):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.home), stage],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        expected = f"asset of corpus garden is being written by process {holder.pid}: wait for it or stop it"
        with pytest.raises(MogError, match=expected), store.lock("asset", "garden"):
            pass
        holder.stdin.close()
        assert holder.wait(10) == 0
    with store.lock("asset", "garden"):
        pass


def test_killed_holder_blocks_nobody(store):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.home), "before"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        holder.kill()
        holder.wait(10)
    with store.lock("asset", "garden"):
        pass


def test_atomic_leaves_nothing_behind_on_error(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert digest("ab", "c") != digest("a", "bc")
