"""Real `mog` processes that get Ctrl-C or SIGTERM, or wait for one that is killed: how they end, what they leave."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from shared import ROOT, complaints, until

from mog_assets import config
from mog_assets.build.tools import Tools

pytestmark = pytest.mark.full

# Far above the seconds that the command takes to end, and a child process of it after that, on a busy machine.
END_SECONDS, CHILD_SECONDS = 30, 30
# Far above what a small project needs on a busy machine.
REACH_SECONDS = 240
LINE = (
    r"mog: stopped by {}: ([\d,]+ (artefacts?|vectors?).* finished and kept|nothing was finished yet); "
    "`mog run` continues from there"
)


class Forker:
    """Runs `mog` in processes that are forked from one that has everything imported, see crash_child.py."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "harness" / "crash_child.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def say(self, value):
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def mog(self, folder, command="run", point=None, occurrence=None, number=None):
        order = {"arguments": [command, "--config", str(folder / "mog.yaml")], "fsize": None}
        return self.say({**order, "point": point, "occurrence": occurrence, "signal": number})

    def others(self):
        """Arguments of all processes that were started here and are there, but the one that forks, by id."""
        listed = subprocess.run(
            ["ps", "-ww", "-s", str(self.process.pid), "-o", "pid=,stat=,args="], capture_output=True, text=True
        ).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()]
        return {int(pid): args for pid, state, args in rows if int(pid) != self.process.pid and state[0] != "Z"}


@contextmanager
def forking():
    forker = Forker()
    try:
        yield forker
    finally:
        forker.process.stdin.close()
        forker.process.stdout.close()
        for pid in forker.others():
            os.kill(pid, signal.SIGKILL)
        forker.process.wait()


@pytest.fixture(scope="module")
def forker():
    with forking() as started:
        yield started


def write_project(folder, **values):
    folder.mkdir()
    corpora = {}
    for name, animals in {
        "pond": ("heron", "otter", "newt", "pike"),
        "hill": ("hare", "kite", "adder", "vole"),
    }.items():
        texts = [f"The {animal} lives at the {name}. It rests at noon. It feeds at night." for animal in animals]
        rows = [json.dumps({"id": animal, "text": text}) for animal, text in zip(animals, texts, strict=True)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        corpora[name] = {"path": f"{name}.jsonl"}
    settings = {"home": "home", "corpora": corpora, "levels": 2, "buckets": 4, "encoder": {"device": "cpu"}, **values}
    (folder / "mog.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return folder


def versions(folder):
    """Content of every artefact, but of those that say when they were made."""
    store = Tools(config.load(folder / "mog.yaml")).store
    found = [json.loads(path.read_text()) for path in store.folder("").rglob("manifest.json")]
    return {(m["asset"], m["partition"]): m["version"] for m in found if m["asset"] not in ("history", "report")}


@pytest.fixture(scope="module")
def whole(forker, tmp_path_factory):
    """A project that nothing interrupted."""
    folder = write_project(tmp_path_factory.mktemp("stopping") / "whole")
    done = forker.mog(folder)
    assert done["code"] == 0, done["said"]
    return folder


@pytest.mark.full
def test_stopped_in_a_write_it_says_so_in_one_line_and_the_next_run_equals_an_uninterrupted_one(
    forker, whole, tmp_path
):
    folder = write_project(tmp_path / "project")
    stopped = forker.mog(folder, point="vectors cached", occurrence=1, number=signal.SIGTERM)
    assert stopped["code"] == 143, stopped["said"]
    assert re.fullmatch(LINE.format("SIGTERM"), "\n".join(complaints(stopped["said"])))
    made = versions(folder)
    assert made.items() <= versions(whole).items() and len(made) < len(versions(whole))
    # The work goes on until the end; one more may have been finished while they were counted.
    assert len(made) - int(re.search(r"\d+", complaints(stopped["said"])[0])[0]) in (0, 1)
    again = forker.mog(folder)
    assert again["code"] == 0, again["said"]
    assert versions(folder) == versions(whole)


@pytest.mark.whole
@pytest.mark.full
@pytest.mark.parametrize("everyone", [True, False], ids=["Ctrl-C in a terminal", "SIGTERM"])
def test_the_process_that_fits_topics_ends_with_it(forker, tmp_path, everyone):
    folder = write_project(tmp_path / "project", topics={"min_topic_size": 2}, methods=["fixed-1+topics"])
    number = signal.SIGINT if everyone else signal.SIGTERM
    with ThreadPoolExecutor() as pool:
        running = pool.submit(forker.mog, folder)
        try:
            begun = lambda: any("topics.fitting" in args for args in forker.others().values())  # noqa: E731
            until(lambda: begun() or running.done(), REACH_SECONDS)
            assert not running.done()
            there = forker.others()
            # A terminal sends the signal to all of them.
            for pid, args in there.items():
                if everyone or "crash_child" in args:
                    os.kill(pid, number)
            ended = running.result(END_SECONDS)
        finally:
            for pid in forker.others() if not running.done() else ():
                os.kill(pid, signal.SIGKILL)
    assert ended["code"] == 128 + number
    deadline = time.monotonic() + CHILD_SECONDS
    while forker.others() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert forker.others() == {}
    assert re.fullmatch(LINE.format(number.name), "\n".join(complaints(ended["said"])))


STUBBORN = """
import sys, time
from pathlib import Path
from mog_assets.build import stopping
from mog_assets.build.stopping import on_stop, stoppable

if sys.argv[1] == "2":
    # Only the second signal can end it.
    stopping._TIDY_SECONDS = 600

def work():
    with on_stop(lambda: time.sleep(600)):
        print("working", flush=True)
        while True:
            try:
                time.sleep(600)
            except BaseException:
                pass

stoppable(work, Path("home"), "mog run")
"""


@pytest.mark.parametrize("signals", [1, 2])
def test_work_that_swallows_everything_is_stopped_and_a_second_signal_stops_it_at_once(signals, tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, str(signals)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        process.stdout.readline()
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        said = process.communicate(timeout=END_SECONDS)[1]
    assert process.returncode == 130
    assert said == "mog: stopped by SIGINT: nothing was finished yet; `mog run` continues from there\n"


WITH_A_CHILD = """
import multiprocessing, time
from pathlib import Path
from mog_assets.build.stopping import stoppable

def work():
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    print(child.pid, flush=True)
    child.join()

stoppable(work, Path("home"), "mog run")
"""


def test_a_child_that_does_not_look_after_its_parent_ends_with_it(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WITH_A_CHILD],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        # Whoever adopts it may take a while to see that it ended.
        state, deadline = Path(f"/proc/{child}/stat"), time.monotonic() + CHILD_SECONDS
        while (there := state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z") and (
            time.monotonic() < deadline
        ):
            time.sleep(0.02)
        if there:
            os.kill(child, signal.SIGKILL)
        assert not there


def lasting(forker):
    """List ids of commands, without probes of the system (`ldconfig`), which begin as copies of one and end at once."""
    before = forker.others()
    time.sleep(0.5)
    return [pid for pid, args in forker.others().items() if pid in before and "crash_child" in args]


def seconds_of(pid):
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.full
def test_waiting_for_another_run_it_sleeps_and_goes_on_when_that_is_killed(forker, whole, tmp_path):
    folder = write_project(tmp_path / "project")
    holder = forker.mog(folder, point="vectors cached", occurrence=1, number=signal.SIGSTOP)["stopped"]
    with forking() as other, ThreadPoolExecutor() as pool:
        waiting = pool.submit(other.mog, folder)
        try:
            (pid,) = until(lambda: lasting(other), REACH_SECONDS)
            before, deadline = -60.0, time.monotonic() + 60
            while (used := seconds_of(pid)) - before > 0.4:
                assert time.monotonic() < deadline and not waiting.done(), "it never slept"
                before = used
                time.sleep(2)
            os.kill(holder, signal.SIGKILL)
            killed = time.monotonic()
            assert waiting.result(90)["code"] == 0, waiting.result()["said"]
            assert time.monotonic() - killed < 60
        finally:
            os.kill(holder, signal.SIGKILL)
            assert forker.say(None)["code"] == -signal.SIGKILL
            for process in other.others() if not waiting.done() else ():
                os.kill(process, signal.SIGKILL)
    said = waiting.result()["said"]
    assert said.count(f"mog: the project is being written by process {holder} (since ") == 1 and ": waiting" in said
    assert versions(folder) == versions(whole)
    shutil.rmtree(folder)


def test_a_home_that_cannot_be_written_is_served_and_verified(tmp_path):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this system makes no mount namespace")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "garlic.txt").write_text("Plant garlic cloves deep.", encoding="utf-8")
    (tmp_path / "mog.yaml").write_text(json.dumps({"corpora": {"c": {"path": "docs"}}, "levels": 2, "home": "home"}))
    mog, environment = f"{sys.executable} -m mog_assets.cli", {**os.environ, "PYTHONPATH": str(ROOT)}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": REACH_SECONDS}
    assert subprocess.run(f"{mog} run --all".split(), **options).returncode == 0
    alone = "mount --bind home home && mount -o remount,bind,ro home || exit 77; "
    asks = "import sys, urllib.request as r; r.urlopen(r.Request(sys.stdin.readline().strip() + '/v1/search', "
    asks += """b'{"question": "garlic?"}', {'Content-Type': 'application/json'}))"""
    script = f'{alone} {mog} verify; mkfifo url; {mog} serve --port 0 >url & {sys.executable} -c "$ASKS" <url; echo $?'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script + "; kill -INT $!; wait"],
        **{**options, "env": {**environment, "ASKS": asks, "TMPDIR": str(tmp_path)}},
    )
    if done.returncode == 77:
        pytest.skip("this system mounts nothing to be read only")
    assert ", 0 faults\n0\n" in done.stdout and "Traceback" not in done.stderr, done.stderr
    assert not list(tmp_path.glob("mog-*"))


STOPPED = """
import sys, time
from pathlib import Path
from mog_assets.resources.chat import Completion
from mog_assets.resources.llm import ChatCache
from mog_assets.build.stopping import stoppable

def work():
    cache = ChatCache(Path(sys.argv[1]) / "cache")
    for number in range(int(sys.argv[2])):
        cache.keep(str(number), Completion("text", "m", 1, 1, "stop", 0.0, 0.0))
    print("ready", flush=True)
    time.sleep(60)

stoppable(work, Path(sys.argv[1]), "mog run")
"""


@pytest.mark.parametrize(("answers", "said"), [(206, "206 answers"), (1, "1 answer"), (0, "nothing")])
@pytest.mark.parametrize("folders", [1, 60_000])
def test_the_first_ctrl_c_prints_a_line_that_counts_answers_also_where_the_store_is_large(
    tmp_path, answers, said, folders
):
    for number in range(folders):
        (tmp_path / "store" / str(number // 1000) / str(number)).mkdir(parents=True)
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED, str(tmp_path), str(answers)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, line = child.communicate(timeout=END_SECONDS)
    assert child.returncode == 130 and line.startswith("mog: stopped by SIGINT: ") and line.count("\n") == 1
    # A store that cannot be looked through within a second is said to be kept.
    assert said in line or (not answers and "what was finished is kept" in line)


@pytest.mark.parametrize("kilobytes", [700, 850])
def test_a_disk_that_is_full_of_records_is_told_in_one_line(tmp_path, kilobytes):
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("this system makes no mount namespace")
    for folder in ("docs", "home"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "garlic.txt").write_text("Plant garlic cloves deep.", encoding="utf-8")
    (tmp_path / "mog.yaml").write_text(json.dumps({"corpora": {"c": {"path": "docs"}}, "levels": 2, "home": "home"}))
    small = f"mount -t tmpfs -o size={kilobytes}k none home || exit 77; "
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{small} {sys.executable} -m mog_assets.cli run"],
        **{"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}},
        **{"capture_output": True, "text": True, "timeout": REACH_SECONDS},
    )
    if done.returncode == 77:
        pytest.skip("this system mounts no small disk")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert not re.search(r"sqlalche\.me|OperationalError|Exception while", done.stderr), done.stderr
    assert re.search(r"^mog: .*(disk is full|I/O error|no room)", done.stderr, re.MULTILINE), done.stderr
