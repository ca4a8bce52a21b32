"""Files and folders of the store that were deleted, changed or exchanged: named in a line, and made again."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import damage
import pandas as pd
import pytest
from moor import copied, moor, versions  # noqa: F401 (fixtures)
from shared import copy_folder

from mog_assets import config
from mog_assets.build.materialising import materialise
from mog_assets.build.plan import graph
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.cli.verification import verify
from mog_assets.resources.errors import MogError
from mog_assets.resources.files import atomic
from mog_assets.resources.publishing import remove
from mog_assets.resources.store import Store, digest

pytestmark = pytest.mark.full

# What is done to which file of which artefact; files by logical name.
CASES = [
    (damage.folder_instead, "chunks/level_1", "bucket"),
    (damage.flip, "embeddings/level_1", "bucket"),
    (damage.broken_link_instead, "tokens", "terms"),
    (damage.edited, "embeddings/level_2", "manifest"),
    pytest.param(damage.outside, "neighbours", "manifest", marks=pytest.mark.full),
    (damage.delete, "runs", "shown"),
    (damage.flip, "names", "distinct"),
    pytest.param(damage.delete, "names", "names_moor", marks=pytest.mark.full),
    (damage.truncate, "mentions", "bucket"),
    pytest.param(damage.delete, "mentions", "searched", marks=pytest.mark.full),
]


@pytest.mark.parametrize(("harm", "asset", "what"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_damage_is_named_by_verify_and_mended_by_a_run(copied, moor, materialise_project, harm, asset, what):
    partition = "moor" if copied.store.find(asset) is None else None
    folder = copied.store.folder(asset, partition)
    places = {"manifest": folder / "manifest.json"}
    places["shown"] = next(folder.glob("shown-*.json"), None)
    path = places.get(what) or next(folder.glob(f"{what}*"))
    harm(path)
    _, faults = verify(copied.settings)
    label = f"{asset} of corpus {partition}" if partition else asset
    assert [fault for fault in faults if fault.startswith(f"{label}: ")] != []
    assert all("\n" not in fault and "run `mog run`" in fault for fault in faults)
    report = materialise_project(copied.settings)
    assert report.failures == []
    assert [step["asset"] for step in report.steps if step["damage"]] == [asset]
    assert verify(copied.settings)[1] == []
    assert versions(copied.settings) == moor.versions
    # What may be somebody's is where it was.
    left = [p.read_text() for p in copied.settings.home.rglob("somebody's.txt")]
    assert left == (["not ours"] if harm is damage.folder_instead else [])
    assert materialise_project(copied.settings).steps == []


def test_run_says_in_a_line_what_was_damaged(copied, capsys):
    path = copied.store.read("tokens", "moor").path("terms_0000.arrow")
    damage.truncate(path)
    size = path.stat().st_size
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(copied.folder / "mog.yaml")])
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 0
    (line,) = [line for line in told if line.startswith("mog: ")]
    assert line.startswith(f"mog: tokens of corpus moor was damaged (terms_0000.arrow has {size} bytes, expected ")
    assert line.endswith(") and has been rebuilt")


def test_byte_that_changed_under_its_old_time_is_found_by_verify_and_mended_by_the_next_run(
    copied, moor, materialise_project
):
    path = copied.store.read("chunks/level_1", "moor").path("counts.npy")
    before = path.stat()
    damage.flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert materialise_project(copied.settings).steps == []
    assert verify(copied.settings)[1] == [
        "chunks/level_1 of corpus moor: counts.npy has changed since it was written: run `mog run`"
    ]
    assert [s["asset"] for s in materialise_project(copied.settings).steps if s["damage"]] == ["chunks/level_1"]
    assert verify(copied.settings)[1] == [] and versions(copied.settings) == moor.versions


def test_build_that_fails_on_a_damaged_input_names_it_and_the_next_run_mends_it(copied, moor, materialise_project):
    # As a disk does it: the size and the time of the file stay.
    path = copied.store.read("tokens", "moor").path("terms_0000.arrow")
    before = path.stat()
    path.write_bytes(b"x" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    damage.delete(copied.store.folder("bm25/level_1", "moor"))
    report = materialise_project(copied.settings)
    assert report.failures[0] == (
        "bm25/level_1 of corpus moor could not be built: tokens of corpus moor: terms_0000.arrow has changed since "
        "it was written: run `mog run`"
    )
    assert materialise_project(copied.settings).failures == []
    assert verify(copied.settings)[1] == [] and versions(copied.settings) == moor.versions


# History: what cannot be made again


@pytest.fixture(scope="module")
def three(moor, tmp_path_factory):
    """That project with three evaluations in its history. Not to be changed."""
    folder = tmp_path_factory.mktemp("three") / "moor"
    copy_folder(moor.folder, folder)
    for _ in range(2):
        evaluate_again(config.load(folder / "mog.yaml"))
    return folder


@pytest.fixture
def nights(three, tmp_path):
    """Settings and store of a copy of it."""
    from mog_assets.plugins.report import history

    copy_folder(three, tmp_path / "moor")
    settings = config.load(tmp_path / "moor" / "mog.yaml")
    store = Store(settings.home)
    return SimpleNamespace(
        settings=settings,
        store=store,
        history=lambda: pd.read_parquet(store.read("history").path("history.parquet")),
        file=settings.home / history.FILE,
        lines=lambda: history.read(settings.home / history.FILE)[0],
    )


def bring_up_to_date(settings, *keys, force=False):
    """Materialise assets of all corpora; gives what came of the last one."""
    tools, recipes = Tools(settings), graph(settings)
    return [materialise(recipes[key], None, tools, recipes, force=force) for key in keys][-1]


def evaluate_again(settings):
    bring_up_to_date(settings, "scores", "history", force=True)


HARMS = [damage.delete, damage.flip, damage.truncate, damage.folder_instead]
OF_HISTORY = ["history.parquet", "accepted.parquet", "manifest.json", "the file"]


# Each place and each kind of damage once, the other pairs with the long tests.
@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "harm"),
    [
        pytest.param(name, harm, marks=() if i == j else pytest.mark.full)
        for i, name in enumerate(OF_HISTORY)
        for j, harm in enumerate(HARMS)
        if harm is not damage.folder_instead or name.endswith(".parquet")
    ],
)
def test_damage_to_the_file_or_the_artefact_of_history_loses_no_evaluation(nights, name, harm):
    before, stored = nights.history(), nights.store.read("history")
    places = {"manifest.json": stored.folder / "manifest.json", "the file": nights.file}
    harm(places.get(name) or stored.path(name))
    bring_up_to_date(nights.settings, "history", force=True)
    pd.testing.assert_frame_equal(nights.history(), before)
    assert verify(nights.settings)[1] == []
    evaluate_again(nights.settings)
    table = nights.lines()
    pd.testing.assert_frame_equal(table, nights.history())
    assert table["time"].nunique() == 4


@pytest.mark.whole
def test_a_line_that_a_killed_process_began_is_told_and_the_others_stay(nights):
    file, before = nights.file, nights.history()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:100])
    evaluate_again(nights.settings)
    assert nights.history()["time"].nunique() == 4
    pd.testing.assert_frame_equal(nights.history().head(len(before)), before)
    assert nights.store.read("history").manifest.info["lost"] == [f"lines of {file} that cannot be read: 1"]


@pytest.mark.whole
def test_history_survives_the_store_and_says_that_it_is_compared_with_nothing(nights):
    before = nights.history()
    shutil.rmtree(nights.store.read("history").folder)
    outcome = bring_up_to_date(nights.settings, "history")
    pd.testing.assert_frame_equal(nights.history(), before)
    assert outcome.faults["nothing_is_lost"].startswith("lost by damage: the last accepted scores")


# The store by itself


def commit(store, content="content", shown=None):
    with store.lock("asset", None):
        draft = store.draft("asset")
        path, there = draft.file("data.txt", digest(content))
        if not there:
            with atomic(path) as temporary:
                temporary.write_text(content)
        made = {"recipe": "r", "inputs": {}, "counts": {"n": 1}, "info": {"size": 2}, "seconds": 0.0}
        return store.commit(draft, "asset", None, **made, shown=shown)


@pytest.mark.parametrize("harm", damage.OF_MANIFESTS, ids=lambda harm: harm.__name__)
def test_manifest_that_was_damaged_is_written_again(tmp_path, harm):
    store = Store(tmp_path)
    harm(commit(store).folder / "manifest.json")
    assert store.sound("asset") is None
    # A link that leads nowhere, and nothing at all, are no manifest that was damaged.
    gone = harm in (damage.delete, damage.broken_link_instead)
    assert (store.damage("asset") is None) == gone
    assert commit(store).path("data.txt").read_text() == "content"
    assert store.damage("asset") is None and store.verify(store.read("asset")) == []


@pytest.mark.parametrize(
    ("place", "harm"),
    [
        ("", damage.file_instead),
        ("store", damage.file_instead),
        ("store/asset", damage.file_instead),
        ("store/asset/manifest.json", damage.folder_instead),
        ("store/asset/.lock", damage.folder_instead),
    ],
)
def test_what_stands_in_the_way_is_named_and_left_alone(tmp_path, place, harm):
    store = Store(tmp_path / "home")
    commit(store)
    path = store.home / place
    harm(path)
    with pytest.raises(MogError, match="home/store/asset.* cannot be written .*: .*remove what is in the way"):
        commit(store, "other")
    left = path if path.is_file() else path / "somebody's.txt"
    assert left.read_text() in ("a file", "not ours")
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert commit(store).path("data.txt").read_text() == "content"


def test_bytes_under_a_damaged_manifest_are_not_taken_for_whole(tmp_path):
    store = Store(tmp_path)
    artefact = commit(store)
    artefact.path("data.txt").write_text("CONTENT")
    damage.truncate(artefact.folder / "manifest.json")
    assert commit(store).path("data.txt").read_text() == "content"


RIGHTS = """
import sys
from pathlib import Path
sys.path[:0] = ["tests/harness", "tests/faults"]
from test_damage import commit
from mog_assets.resources.errors import MogError
from mog_assets.resources.store import Store

store = Store(Path(sys.argv[1]))
print(store.damage("asset"))
try:
    print(commit(store).path("data.txt").read_text())
except MogError as error:
    print(error)
"""


@pytest.mark.parametrize("what", ["data.txt", pytest.param("manifest.json", marks=pytest.mark.full), "folder"])
def test_file_that_may_not_be_read_is_written_again(tmp_path, what):
    artefact = commit(Store(tmp_path))
    path = {"data.txt": artefact.path("data.txt"), "folder": artefact.folder}.get(what, artefact.folder / what)
    path.chmod(0o500 if what == "folder" else 0)
    if what == "folder":
        artefact.path("data.txt").write_text("CONTENT")
    command = [sys.executable, "-c", RIGHTS, str(tmp_path)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may read everything, and giving that up needs setpriv")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    named, then = done.stdout.splitlines()
    if what == "folder":
        assert named == "data.txt has changed since it was written"
        assert "cannot be written (Permission denied): give this process the right to write there" in then
    else:
        assert named == f"{what} cannot be read (Permission denied)" and then == "content"


def test_manifest_that_another_process_replaced_is_read_again(tmp_path):
    store, other = Store(tmp_path), Store(tmp_path)
    commit(store, "one")
    assert store.find("asset").path("data.txt").read_text() == "one"
    commit(other, "two")
    assert store.find("asset").path("data.txt").read_text() == "two"
    remove(other, "asset")
    assert store.find("asset") is None
