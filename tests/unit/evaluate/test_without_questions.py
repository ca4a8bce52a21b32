"""A project without question sets: it is made, searched and asked; what needs questions says so in one line."""

import json
import subprocess
import sys

import pytest
from shared import called, one_line

from mog_assets.config import settings_model
from mog_assets.resources.store import Store
from mog_assets.search.methods import parse
from mog_assets.serve.available import nothing

# Most methods that need questions are of papers.
pytestmark = pytest.mark.whole

QUESTION = "What makes dough rise?"


@pytest.fixture(scope="module")
def plain(tmp_path_factory, make_project, write_documents):
    """A project of one small corpus and no question sets, run to the end by the command."""
    folder = tmp_path_factory.mktemp("plain")
    texts = [("a", "Bread dough rises. Yeast makes gas from sugar."), ("b", "A star is a ball of hot gas.")]
    source = write_documents(folder / "notes.jsonl", texts)
    project = make_project(folder, {"corpora": {"notes": {"path": str(source)}}, "levels": 2, "buckets": 1})
    project.result = called("run", "--config", project.config)
    return project


def test_a_run_ends_well_and_says_how_to_ask(plain):
    assert plain.result.exit_code == 0, plain.result.output
    last = plain.result.stdout.strip().splitlines()[-1]
    assert "no question set has a test split" in last
    assert "mog search" in last and "mog ask" in last


def test_a_process_of_its_own_says_nothing_but_the_method(plain):
    # What a library warns of is said once in a process, so this one may not have been the first.
    command = [sys.executable, "-m", "mog_assets.cli", "search", QUESTION, "--json", "--config", str(plain.config)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and json.loads(result.stdout)
    assert result.stderr == "ranked by fused\n"


@pytest.mark.parametrize("method", ["mog", "mix", "mog-paper", "hybrid:mog-paper", "mog-paper+topics"])
def test_a_method_that_needs_training_names_the_remedy(plain, method):
    result = called("search", QUESTION, "--method", method, "--config", plain.config)
    assert result.exit_code == 2
    said = one_line(result.stderr)
    assert f"method: '{method}' needs training" in said
    assert "question_sets.NAME.train" in said and "use 'fused'" in said


def test_a_way_of_answering_that_needs_a_router_names_the_remedy(plain):
    result = called("ask", QUESTION, "--method", "mog-paper -> one-step", "--config", plain.config)
    assert result.exit_code == 2
    assert "needs training" in one_line(result.stderr)


@pytest.mark.parametrize("command", [["export"], ["experiment"], ["experiment", "cost"], ["results"]])
def test_what_needs_questions_says_so_and_not_to_run_again(plain, command, monkeypatch):
    monkeypatch.setenv("MOG_CONFIG", str(plain.config))
    result = called(*command)
    assert result.exit_code == 2
    said = one_line(result.stderr)
    assert "no question set with a test split" in said and "question_sets.NAME.test" in said


def test_a_project_that_chose_no_method_yet_says_to_run(plain, make_project, tmp_path):
    values = {"corpora": {"notes": {"path": str(plain.folder / "notes.jsonl")}}, "levels": 2}
    project = make_project(tmp_path, values)
    result = called("run", "--select", "+bm25/level_1", "--config", project.config)
    assert result.exit_code == 0, result.output
    result = called("search", QUESTION, "--config", project.config)
    assert result.exit_code == 1
    assert "has not been materialised: run `mog run`" in one_line(result.stderr)


# Nothing found: what is true of each retriever


@pytest.mark.parametrize(
    ("method", "weights", "said"),
    [
        ("fixed-1", None, "has a word in common"),
        ("hop-1", None, "has a word in common"),
        ("dense-1", None, "no vectors to compare"),
        ("hybrid:fused-paper-1", None, "no vectors to compare"),
        ("fused", None, "no vectors to compare"),
        ("dense:mog-paper", {"level 1": 0.0, "level 2": 0.0}, "the router gives every level weight 0"),
        ("mogg-paper", {"hop 0": 0.0}, "the router gives every hop weight 0"),
        ("mog-paper", {"level 1": 0.5, "level 2": 0.0}, "has a word in common"),
    ],
)
def test_why_nothing_was_found_is_true_of_the_retriever(method, weights, said):
    settings = settings_model().model_validate({"corpora": {"c": {"path": "x"}}})
    assert said in nothing(parse(method, settings), weights, "otters", filtered=False)


def test_words_that_are_in_no_document_are_said_to_be(plain):
    result = called("search", "zzz", "--method", "fixed-1", "--config", plain.config)
    assert result.exit_code == 0 and "No passage has a word in common" in result.stdout
    # Vectors are compared whatever the words are.
    result = called("search", "zzz", "--config", plain.config)
    assert result.exit_code == 0 and "notes/" in result.stdout


# Splits


@pytest.fixture
def asked(plain, make_project, tmp_path):
    """Writes a project over the same corpus with questions of these splits, used as given."""

    def write(splits, **uses):
        rows = [{"id": f"q{i}", "question": "What rises?", "split": split} for i, split in enumerate(splits)]
        (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        sets = {"q": {"path": "q.jsonl", "corpora": ["notes"], **uses}}
        return make_project(
            tmp_path, {"corpora": {"notes": {"path": str(plain.folder / "notes.jsonl")}}, "question_sets": sets}
        )

    return write


def test_any_name_of_a_split_can_be_used_and_what_is_not_used_is_shown(asked):
    project = asked(["fold 1", "validation", "rest", "rest"], train=["fold 1"], test=["validation"])
    result = called("run", "--select", "+questions", "--config", project.config)
    assert result.exit_code == 0, result.output
    assert "question_sets.q: questions that are neither trained on nor scored: 2 of split rest" in result.stdout
    stored = Store(project.home).read("questions")
    manifest = stored.manifest
    assert manifest.counts["q: validation"] == 1
    assert "2 of split rest" in manifest.info["faults"]["every_split_is_used"]
    assert "| rest" in stored.shown()["splits"]
