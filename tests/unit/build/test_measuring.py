"""What a run measures: an edit updates the index, and measuring follows when it is time."""

import json
from dataclasses import replace
from types import SimpleNamespace

import dagster as dg
import pytest
from click.testing import CliRunner
from shared import copy_folder

from mog_assets import config
from mog_assets.build.measuring import changed_since, read_documents
from mog_assets.build.plan import graph, is_complete, is_settled
from mog_assets.build.sensors import Host, automation_sensor
from mog_assets.build.tools import Tools
from mog_assets.cli import main
from mog_assets.resources.errors import MogError
from mog_assets.resources.publishing import remove

# A share of .05 of these is more than one.
DOCUMENTS = {f"d{n}": f"The heron of pond {n} waits for a fish. Then it strikes, {n} times a day." for n in range(30)}
QUESTIONS = [
    {"id": f"q{n}", "question": f"Which bird waits at pond {n}?", "docs": [f"d{n}"], "split": "test"} for n in (3, 5)
]
MEASURED = {"questions", "runs", "scores"}


@pytest.fixture(scope="module")
def built(tmp_path_factory, make_project, materialise_project):
    """A folder with a project that was built."""
    folder = tmp_path_factory.mktemp("built")
    sets = {"q": {"path": "q.jsonl", "corpora": ["birds"], "train": [], "test": ["test"]}}
    values = {"corpora": {"birds": {"path": "birds.jsonl"}}, "question_sets": sets, "methods": ["fixed-1"], "levels": 1}
    made = make_project(folder, {**values, "answering": {"methods": []}})
    write(folder, DOCUMENTS, QUESTIONS)
    report = materialise_project(made.settings)
    assert report.failures == [] and {step["asset"] for step in report.steps} >= MEASURED
    return folder


def write(folder, documents, questions):
    """Have a project have these documents and questions."""
    lines = [json.dumps({"id": key, "text": text}) for key, text in documents.items() if text]
    for name, written in (("birds", lines), ("q", map(json.dumps, questions))):
        file, text = folder / f"{name}.jsonl", "\n".join(written)
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


@pytest.fixture
def project(built, tmp_path, materialise_project):
    """A project that was built, and what edits and builds it."""
    folder = copy_folder(built, tmp_path / "project")
    made = SimpleNamespace(config=folder / "mog.yaml", settings=config.load(folder / "mog.yaml"))

    def run(documents=None, questions=QUESTIONS, **options):
        """What is built when the project has these documents beside the others, and these questions."""
        write(folder, {**DOCUMENTS, **(documents or {})}, questions)
        report = materialise_project(config.load(made.config), **options)
        assert report.failures == []
        return {step["asset"] for step in report.steps}

    made.run = run
    return made


def lag(project):
    """How many changed documents ago the scores were measured."""
    tools = Tools(project.settings)
    return changed_since(tools.store.read("scores"), read_documents(tools, tools.store.find))


def mog(project, *words):
    done = CliRunner().invoke(main, [*words, "--config", str(project.config)])
    assert done.exit_code == 0, done.output
    return done.output


def test_few_changed_documents_are_indexed_and_not_measured(project):
    edit = {"d3": "The heron left."}
    assert project.run(edit).isdisjoint(MEASURED) and lag(project) == 1
    assert "These scores are of 1 changed document ago" in " ".join(mog(project, "scores").split())
    assert is_complete(project.settings) and not is_complete(project.settings, evaluate=True)
    assert project.run(edit) == set()
    assert project.run(edit, evaluate=True) >= {"runs", "scores"} and lag(project) == 0
    assert "changed document" not in mog(project, "scores")


def test_an_edit_that_is_taken_back_leaves_the_scores_those_of_now(project):
    project.run({"d3": "The heron left."})
    assert project.run().isdisjoint(MEASURED) and lag(project) == 0


def test_many_changed_documents_are_measured_in_the_same_run(project):
    assert project.run({"d3": "The heron left."}).isdisjoint(MEASURED)
    # An added one and a removed one: three of thirty.
    assert project.run({"d3": "The heron left.", "d4": "", "new": "The otter swims."}) >= {"runs"} and lag(project) == 0


@pytest.mark.parametrize("what", ["questions", "settings", "a selection"])
def test_few_changed_documents_are_measured_when_something_else_asks_for_it(project, what):
    edit = {"d3": "The heron left."}
    project.run(edit)
    if what == "questions":
        built = project.run(edit, [{**QUESTIONS[0], "question": "Who waits?"}, QUESTIONS[1]])
    elif what == "settings":
        text = project.config.read_text(encoding="utf-8")
        project.config.write_text(f"{text}\nk: 9\n", encoding="utf-8")
        built = project.run(edit)
    else:
        built = project.run(edit, select=["scores"])
    assert built >= {"runs", "scores"} and lag(project) == 0


def test_a_measurement_that_comes_to_the_same_says_of_which_documents_it_is(project):
    # No method finds it for these questions.
    project.run({"d29": "Nothing of birds."})
    project.run({"d29": "Nothing of birds."}, evaluate=True)
    before = Tools(project.settings).store.read("scores").manifest
    assert lag(project) == 0
    project.run({"d29": "Nothing of birds."}, evaluate=True)
    assert Tools(project.settings).store.read("scores").manifest == before


@pytest.fixture
def sweep(project):
    """A first look of the sensor, once the questions have changed: what it observes, and what it says."""
    text = "".join(f"{json.dumps(question)}\n" for question in QUESTIONS[:1])
    (project.config.parent / "q.jsonl").write_text(text, encoding="utf-8")

    def tick(instance, **changes):
        instance.add_dynamic_partitions("corpus", ["birds"])
        recipes = graph(project.settings)
        recipes |= {key: replace(recipes[key], **values) for key, values in changes.items()}
        host = Host(load=lambda: project.settings)
        sensor = automation_sensor(project.settings, dg.AssetSelection.all(), recipes, host)
        events, troubles = sensor.look(instance, anew=True)
        return {event.asset_key.to_user_string() for event in events}, troubles

    return tick


def test_documents_are_observed_while_it_cannot_be_told_whether_to_measure(sweep):
    def unreachable(tools):
        raise MogError("the model is not there")

    with dg.instance_for_test() as instance:
        assert sweep(instance) == ({"sources", "configured_corpora", "measuring"}, [])
        seen = ({"sources", "configured_corpora"}, ["the model is not there"])
        assert sweep(instance, runs={"settings": unreachable}) == seen


def test_what_measuring_does_not_read_puts_it_off_no_more(project):
    recipes, tools = graph(project.settings), Tools(project.settings)
    # Such as a collection whose server is down.
    assert is_settled(tools, {**recipes, "collection": replace(recipes["documents"], key="collection")})
    remove(tools.store, "documents", "birds")
    assert not is_settled(tools, recipes)


def test_only_runs_that_may_measure_put_measuring_off(sweep):
    with dg.instance_for_test() as instance:
        for name in ("theirs", "build"):
            instance.add_run(dg.DagsterRun(name, status=dg.DagsterRunStatus.STARTED))
        assert "measuring" in sweep(instance)[0]
        instance.add_run(dg.DagsterRun("evaluate", status=dg.DagsterRunStatus.STARTED))
        assert "measuring" not in sweep(instance)[0]
