"""What answers questions works without what Python lacks on Windows; what builds says that it does not."""

import json
import subprocess
import sys

import pytest
from served import Served, environment
from shared import ROOT

pytestmark = pytest.mark.full
PROGRAM = (sys.executable, str(ROOT / "tests" / "harness" / "windows.py"))
QUESTION = "How deep should garlic cloves be planted?"


def mog(project, *words):
    command = [*PROGRAM, *words, "--config", str(project.config)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        ("search", QUESTION, "--json"),
        ("ask", QUESTION),
        ("documents",),
        ("scores",),
        pytest.param(("doctor",), marks=pytest.mark.whole),
    ],
)
def test_commands_that_answer_work(sample_project, words):
    done = mog(sample_project, *words)
    assert done.returncode == 0 and done.stdout and "Traceback" not in done.stderr, done.stderr


def test_the_server_answers(sample_project, tmp_path):
    served = Served(sample_project.config, tmp_path, program=(*PROGRAM, "serve"))
    try:
        status, _, answer = served.call("/v1/search", {"question": QUESTION, "k": 1})
        assert status == 200 and answer["passages"]
    finally:
        assert served.end() == 0
    told = mog(sample_project, "search", QUESTION, "--k", "1", "--json").stdout
    assert json.loads(told)[0]["text"] == answer["passages"][0]["text"]


@pytest.mark.parametrize("command", ["run", "ui"])
def test_what_builds_says_where_it_runs(sample_project, command):
    done = mog(sample_project, command)
    assert done.returncode == 1
    assert done.stderr == (
        f"mog: `mog {command}`: expected Linux or macOS, got a system without process groups: run it in WSL or a "
        "container (docs/deploy.md); what it built answers questions here\n"
    )
