"""Real processes killed at points of every kind of write, and what the next run makes of what they left.

Most points kill a process that builds without Dagster, since what survives is the store's, the cache's and Qdrant's;
three kill a whole `mog run`. Under `make test-all` every point kills a build.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from crashes import CORPORA, after, artefacts, before, change, forking, mog, points, temporary, write_project  # noqa: F401
from shared import copy_folder

import mog_assets
from mog_assets import config
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.cli.verification import verify
from mog_assets.registry import VECTOR_STORES
from mog_assets.resources.files import POINTS

pytestmark = pytest.mark.full
# Plugins add their points when they are imported.
list(VECTOR_STORES)

FOLLOW_SECONDS = 120


def test_the_change_reaches_every_point(after):
    assert set(after.reached) == set(POINTS)


# One of the cache, one of Qdrant, one of the store.
OF_WHOLE_RUNS = [point for point in ("vectors cached", "points upserted", "manifest moved") if point in POINTS]
# Others, at which nothing but a build is killed.
OF_BUILDS = ("collection moved", "points deleted", "file moved", "manifest removed")


@pytest.mark.parametrize("point", [pytest.param(p, marks=() if p in OF_BUILDS else pytest.mark.full) for p in POINTS])
def test_killed_at_a_point_leaves_old_or_new_and_the_next_build_equals_an_uninterrupted_one(
    mog, before, after, point, tmp_path
):
    assert_killed_and_repaired(mog, "build", before, after, point, tmp_path / "project")


@pytest.mark.full
@pytest.mark.parametrize("point", OF_WHOLE_RUNS)
def test_run_killed_at_a_point_leaves_old_or_new_and_the_next_run_equals_an_uninterrupted_one(
    mog, before, after, point, tmp_path
):
    assert_killed_and_repaired(mog, "run", before, after, point, tmp_path / "project")


def assert_killed_and_repaired(mog, command, before, after, point, folder):
    copy_folder(before.folder, folder)
    change(folder)
    if point != "vectors cached":
        # Nothing has to be encoded, which spares loading the model.
        for file in (after.folder / "home/cache").iterdir():
            shutil.copyfile(file, folder / "home/cache" / file.name)
    there = artefacts(folder)
    assert {key: before.artefacts[key] for key in there} == there
    # In the middle of the writes of its kind.
    killed = mog(folder, command, kill_at=(point, (after.reached[point] + 1) // 2))
    assert killed.code == -signal.SIGKILL, killed.said
    left = artefacts(folder)
    for key, version in left.items():
        assert version in {before.artefacts.get(key), after.artefacts.get(key)}, key
    # Nothing but what a removed corpus had is ever gone.
    assert {corpus for _, corpus in there.keys() - left.keys()} <= {"moor"}
    assert_repaired(mog, folder, after, command)
    assert temporary(folder) == []


def assert_repaired(mog, folder, expected, command="run"):
    """One run makes the project what it is without any fault."""
    done = mog(folder, command)
    assert done.code == 0, done.said
    assert verify(config.load(folder / "mog.yaml"))[1] == []
    assert artefacts(folder) == expected.artefacts
    assert points(folder) == expected.points


def test_what_starts_in_the_middle_of_a_run_answers_from_the_artefacts_before_it(mog, before, tmp_path):
    folder = copy_folder(before.folder, tmp_path / "project")
    old, new = CORPORA["pond"]["otter"], "The otter swims at dawn. It eats frogs."

    def edit(text):
        write_project(folder, {"pond": {**CORPORA["pond"], "otter": text}})
        shutil.copyfile(before.folder / "mog.yaml", folder / "mog.yaml")

    edit("The otter is ill. It eats nothing.")
    killed = mog(folder, "run", kill_at=("manifest moved", 2))
    assert killed.code == -signal.SIGKILL, killed.said
    # This run begins with what that one has left, which does not belong together.
    edit(new)
    assert mog(folder, "run", stop_at=("manifest moved", 2)).stopped > 0
    with mog_assets.open(folder / "mog.yaml", refresh=0.2) as project:
        assert not project.trouble
        assert project.document("pond", "otter").text == old
        assert project.search("Who eats fish and crayfish?").passages[0].document == "otter"
        # So do commands, which leave nothing open.
        for method in ("fused", "dense-1"):
            words = ["Who eats fish and crayfish?", "--config", str(folder / "mog.yaml"), "--method", method, "--json"]
            told = CliRunner().invoke(main, ["search", *words])
            assert told.exit_code == 0, told.stderr
            assert json.loads(told.stdout)[0]["text"] in old
        done = mog.resume()
        assert done.code == 0, done.said
        deadline = time.monotonic() + FOLLOW_SECONDS
        while project.document("pond", "otter").text != new or project.trouble:
            assert time.monotonic() < deadline, project.trouble
            time.sleep(0.05)


@pytest.fixture
def with_questions(tmp_path):
    """A project with training and test questions, not built yet."""
    corpora = {name: CORPORA[name] for name in ("pond", "hill")}
    rows = [
        {
            "id": f"{split}/{document}",
            "question": f"{'What about' if split == 'train' else 'Where is'} the {document}?",
            "kind": "plain",
            "split": split,
            "answer": text[:20],
            "evidence": [{"corpus": corpus, "doc": document, "start": start, "end": start + 15}],
        }
        for corpus, documents in corpora.items()
        for document, text in documents.items()
        for split, start in (("train", 0), ("train again", 0), ("test", 15))
    ]
    values = {
        "question_sets": {"q": {"path": "q.jsonl", "corpora": list(corpora), "train": ["train"], "test": ["test"]}},
        "router": {"epochs": 3, "hidden": [8]},
        "methods": ["fixed-1", "mog-paper", "mix"],
        "answering": {"methods": []},
    }
    for row in rows:
        row["split"] = row["split"].removesuffix(" again")
    folder = tmp_path / "project"
    write_project(folder, corpora, **values)
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


RANKINGS = ("candidates", "router", "mix", "method")


@pytest.mark.whole
@pytest.mark.full
def test_killed_in_training_and_evaluation_equals_an_uninterrupted_run(mog, with_questions, tmp_path):
    folder, clean = with_questions, copy_folder(with_questions, tmp_path / "clean")
    done = mog(clean, "run")
    assert done.code == 0, done.said
    trained = {"soft_labels", "router_paper", *RANKINGS}
    assert trained | {"runs", "scores"} <= {asset for asset, _ in artefacts(clean)}
    # The first kill comes among the artefacts of all corpora, each later one in what is then still missing.
    last = done.reached["manifest moved"]
    for kill_at in [("manifest moved", last - 4), ("file written", 1), ("file moved", 2), ("manifest written", 2)]:
        killed = mog(folder, "run", kill_at=kill_at)
        assert killed.code == -signal.SIGKILL, killed.said
        for key, version in artefacts(folder).items():
            assert version == artefacts(clean)[key], key
    assert_repaired(mog, folder, SimpleNamespace(artefacts=artefacts(clean), points=points(clean)))


@pytest.mark.whole
@pytest.mark.full
def test_killed_while_candidates_or_rankings_are_made_equals_an_uninterrupted_build(mog, with_questions, tmp_path):
    clean = with_questions
    done = mog(clean, "build")
    assert done.code == 0, done.said
    expected = SimpleNamespace(artefacts=artefacts(clean), points=points(clean))
    without = copy_folder(clean, tmp_path / "without")
    for asset in RANKINGS:
        shutil.rmtree(without / "home/store" / asset)
    made = mog(copy_folder(without, tmp_path / "made"), "build").reached
    # In the first file of candidates, and in those of models.
    for point, occurrence in [("file written", 1), ("file moved", made["file moved"] // 2), ("manifest moved", 3)]:
        folder = copy_folder(without, tmp_path / f"killed at {point}")
        killed = mog(folder, "build", kill_at=(point, occurrence))
        assert killed.code == -signal.SIGKILL, killed.said
        assert set(artefacts(folder).items()) < set(expected.artefacts.items())
        assert_repaired(mog, folder, expected, "build")


@pytest.mark.full
def test_killed_while_names_or_mentions_are_made_equals_an_uninterrupted_build(mog, before, tmp_path):
    def alias(folder):
        # Names of a document change, and no text: nothing else is written anew.
        path = folder / "pond.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows[0]["metadata"] = {"aliases": ["crayfish", "carrion"]}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    clean = copy_folder(before.folder, tmp_path / "clean")
    alias(clean)
    done = mog(clean, "build")
    assert done.code == 0, done.said
    expected = SimpleNamespace(artefacts=artefacts(clean), points=points(clean))
    changed = {asset for (asset, corpus), own in expected.artefacts.items() if before.artefacts[asset, corpus] != own}
    assert {"names", "mentions"} <= changed
    reached = done.reached["file moved"]
    for occurrence in sorted({2, reached // 2, reached - 1}):
        folder = copy_folder(before.folder, tmp_path / f"killed at {occurrence}")
        alias(folder)
        killed = mog(folder, "build", kill_at=("file moved", occurrence))
        assert killed.code == -signal.SIGKILL, killed.said
        assert_repaired(mog, folder, expected, "build")
        assert temporary(folder) == [] and list((folder / "home/cache").glob("added-*")) == []


@pytest.mark.whole
def test_lost_collections_are_noticed_and_made_again(mog, before, tmp_path):
    folder = copy_folder(before.folder, tmp_path / "project")
    shutil.rmtree(folder / "home/qdrant")
    verified = mog(folder, "verify")
    assert verified.code == 1
    assert "collection mog_hill has no points, expected" in verified.said
    assert_repaired(mog, folder, before, "build")


def point():
    from mog_assets.plugins.qdrant.collections import Points, Sparse

    return Points([str(uuid.uuid4())], np.ones((1, 384), np.float32), [Sparse([1], [1.0])], [{}])


@pytest.mark.whole
def test_missing_and_foreign_points_are_counted_and_mended(mog, before, tmp_path):
    from mog_assets.plugins.qdrant.store import collections_of

    folder = copy_folder(before.folder, tmp_path / "project")
    tools = Tools(config.load(folder / "mog.yaml"))
    with collections_of(tools).open("mog_pond", 384) as collection:
        collection.delete(sorted(next(collection.pages()))[:2])
    with collections_of(tools).open("mog_hill", 384) as collection:
        collection.upsert(point())
    verified = mog(folder, "verify")
    assert verified.code == 1
    assert "mog_pond has" in verified.said and "(2 missing, 0 too many): run `mog run`" in verified.said
    assert "mog_hill has" in verified.said and "(0 missing, 1 too many): run `mog run`" in verified.said
    assert "2 faults" in verified.said
    assert_repaired(mog, folder, before)


@pytest.mark.whole
def test_exchanged_points_and_those_of_unknown_corpora_are_mended_as_verify_says(mog, before, tmp_path):
    from mog_assets.plugins.qdrant.store import collections_of

    folder = copy_folder(before.folder, tmp_path / "project")
    tools = Tools(config.load(folder / "mog.yaml"))
    with collections_of(tools).open("mog_pond", 384) as collection:
        collection.delete(sorted(next(collection.pages()))[:1])
        collection.upsert(point())
    with collections_of(tools).open("mog_sea", 384) as collection:
        collection.upsert(point())
    verified = mog(folder, "verify")
    assert verified.code == 1
    assert "(1 missing, 1 too many): delete the collection (`qdrant/mog_pond` of the home folder)" in verified.said
    assert "collection mog_sea is of corpus sea, which is not in mog.yaml: delete" in verified.said
    for name in ("mog_pond", "mog_sea"):
        shutil.rmtree(folder / "home/qdrant" / name)
    assert_repaired(mog, folder, before, "build")


@pytest.mark.whole
@pytest.mark.parametrize(
    "pattern",
    [
        "segments/*/segment.json",
        pytest.param("segments/*/vector_storage-dense/tq_vectors/status.dat", marks=pytest.mark.full),
    ],
)
def test_damaged_collection_is_made_again(mog, before, tmp_path, pattern):
    folder = copy_folder(before.folder, tmp_path / "project")
    (file,) = (folder / "home/qdrant/mog_pond").glob(pattern)
    os.truncate(file, 3)
    done = mog(folder, "run")
    assert done.code == 0, done.said
    assert "Traceback" not in done.said
    assert_repaired(mog, folder, before, "build")


@pytest.mark.full
def test_second_run_on_one_home_waits_for_the_first(mog, before, after, tmp_path):
    folder = copy_folder(before.folder, tmp_path / "project")
    change(folder)
    assert mog(folder, "run", stop_at=("file written", 1)).stopped > 0
    with forking() as other, ThreadPoolExecutor() as pool:
        second = pool.submit(other, folder, "run")
        # Long enough for the second to come to the lock on most machines; what is asserted holds either way.
        time.sleep(2)
        assert not second.done()
        first = mog.resume()
        assert (first.code, second.result().code) == (0, 0), first.said + second.result().said
    assert_repaired(mog, folder, after)


@pytest.mark.full
def test_run_that_cannot_record_what_it_does_says_so_in_a_line(mog, before, after, tmp_path):
    folder = copy_folder(before.folder, tmp_path / "project")
    change(folder)
    limited = mog(folder, "run", fsize=1_000)
    assert limited.code == 1
    assert "Dagster's records under" in limited.said or "no room to write" in limited.said
    assert "free space" in limited.said or "free disk space" in limited.said
    assert "Traceback" not in limited.said
    assert_repaired(mog, folder, after)


@pytest.mark.full
def test_run_on_a_full_disk_says_what_it_wanted_and_the_next_is_whole(mog, before, tmp_path):
    folder = copy_folder(before.folder, tmp_path / "project")
    store = folder / "home/store"
    store.rename(tmp_path / "store")
    store.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", store], capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    try:
        subprocess.run(["cp", "-a", f"{tmp_path}/store/.", str(store)], check=True)
        pond = (folder / "pond.jsonl").read_text(encoding="utf-8")
        (folder / "pond.jsonl").write_text(pond.replace("at dusk", "at dawn"), encoding="utf-8")
        filler = store / "filler"
        with filler.open("wb", buffering=0) as stream, pytest.raises(OSError, match="No space left"):
            while True:
                stream.write(bytes(4096))
        # Room for some files, not for all.
        os.truncate(filler, filler.stat().st_size - 4 * 4096)
        full = mog(folder, "run")
        assert full.code == 1
        assert re.search(
            r"no room to write \S+: expected at least \d+ bytes, \d+ are free", " ".join(full.said.split())
        )
        assert "Traceback" not in full.said
        now = artefacts(folder)
        assert now.keys() == before.artefacts.keys()
        assert {corpus for (_, corpus), version in now.items() if version not in before.artefacts.values()} <= {"pond"}
        assert temporary(folder) == []
        filler.unlink()
        (folder / "pond.jsonl").write_text(pond, encoding="utf-8")
        assert_repaired(mog, folder, before)
    finally:
        subprocess.run(["umount", store], check=True)
