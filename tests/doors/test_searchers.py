"""Questions that are searched by the processes of a Ray cluster, while nodes of it end."""

import json
import os
import signal
import threading
import time

import pytest
import yaml
from ray_cluster import NODE, running_cluster
from served import Served
from shared import copy_folder, run_alone

from mog_assets import config
from mog_assets.resources.errors import ConfigError

QUESTIONS = [
    f"What is {what}?" for what in ("garlic", "a spectral class", "a plane iron", "compost", "a planet", "glue")
]
CLIENTS, SECONDS = 32, 20


@pytest.fixture(scope="module")
def project(sample_project, tmp_path_factory):
    folder = copy_folder(sample_project.folder, tmp_path_factory.mktemp("searchers") / "copy")
    values = yaml.safe_load((folder / "mog.yaml").read_text(encoding="utf-8"))
    values |= {"ranking": {"candidates": "indexed"}, "shard_chunks": 16}
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    assert not run_alone(config.load(folder / "mog.yaml")).failures
    return folder, values


def served(project, folder, **engine):
    path, values = project
    name = path / f"{folder.name}.yaml"
    name.write_text(yaml.safe_dump({**values, "engine": engine}), encoding="utf-8")
    return Served(name, folder)


def answers(server):
    return [said(server.call("/v1/retrieve", {"question": question, "explain": True})) for question in QUESTIONS]


def said(answer):
    status, _, body = answer
    return status, json.dumps({name: value for name, value in body.items() if name != "version"})


def places(answer):
    """Where the passages of an answer are: vectors of questions that are encoded together differ in the last bits."""
    status, text = answer
    return status, [(passage["doc"], passage["text"]) for passage in json.loads(text)["passages"]]


@pytest.mark.full
def test_two_nodes_answer_as_one_process_and_none_fails_when_one_of_them_is_killed(project, tmp_path):
    (tmp_path / "alone").mkdir()
    (tmp_path / "cluster").mkdir()
    alone = served(project, tmp_path / "alone", kind="inprocess")
    try:
        expected = answers(alone)
    finally:
        alone.end()
    assert {status for status, _ in expected} == {200} and len(set(expected)) == len(QUESTIONS)
    with running_cluster(1) as cluster:
        second = cluster.add_node(**NODE)
        server = served(project, tmp_path / "cluster", kind="ray", address=cluster.address, searchers=2)
        try:
            assert answers(server) == expected
            ended, counts, wrong = threading.Event(), [0] * CLIENTS, []

            def client(number):
                while not ended.is_set():
                    row = counts[number] % len(QUESTIONS)
                    answer = said(server.call("/v1/retrieve", {"question": QUESTIONS[row], "explain": True}))
                    counts[number] += 1
                    if answer[0] != 200 or places(answer) != places(expected[row]):
                        wrong.append(answer)

            threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
            for thread in threads:
                thread.start()
            time.sleep(SECONDS / 4)
            before = sum(counts)
            second.kill_raylet(check_alive=True)
            time.sleep(SECONDS)
            ended.set()
            for thread in threads:
                thread.join()
            assert wrong == []
            assert 0 < before < sum(counts) and min(counts) > 1
            assert "a process that searches died" in server.log.read_text()
            assert answers(server) == expected
        finally:
            assert server.end() == 0


@pytest.mark.full
def test_a_process_that_searches_is_replaced_when_it_is_killed(project, tmp_path):
    server = served(project, tmp_path, kind="ray", searchers=2, workers=2)
    try:
        expected, tried = answers(server), 0
        for _ in range(2):
            searching = processes_under(server.process.pid, "ray::Answering")
            assert len(searching) == 2
            os.kill(searching[0], signal.SIGKILL)
            assert answers(server) == expected
            deadline = time.monotonic() + 60
            while len(processes_under(server.process.pid, "ray::Answering")) < 2 and time.monotonic() < deadline:
                time.sleep(0.2)
            tried += 1
        assert tried == 2 and answers(server) == expected
    finally:
        assert server.end() == 0


def processes_under(root, name):
    """Ids of the processes with a name that were started by a process, or by those that it started."""
    import psutil

    children = psutil.Process(root).children(recursive=True)
    return [child.pid for child in children if any(name in part for part in child.cmdline())]


def test_searchers_need_the_engine_ray(project):
    path, values = project
    (path / "wrong.yaml").write_text(yaml.safe_dump({**values, "engine": {"searchers": 2}}), encoding="utf-8")
    with pytest.raises(ConfigError, match="searchers: expected 0 with kind `inprocess`, got 2: set kind to `ray`"):
        config.load(path / "wrong.yaml")
