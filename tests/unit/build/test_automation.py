"""What happens by itself: the real sensor and conditions on a real instance, run as Dagster's daemon runs them."""

import importlib.util
import json
import os
import shutil
from dataclasses import replace

import dagster as dg
import pytest
import yaml
from click.testing import CliRunner
from dagster_daemon import Daemon
from shared import QDRANT, copy_folder, quiet_instance

from mog_assets import cli, config
from mog_assets.build import asset, automation, plan, runner
from mog_assets.build.measuring import changed_since, read_documents
from mog_assets.build.recipe import JOINED
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.resources.files import interrupt_with

# Its project has topics, a sentence graph and collections.
pytestmark = [pytest.mark.full, pytest.mark.whole]

BIRDS = {"heron": "The grey heron waits for a fish. Then it strikes.", "owl": "The owl hunts mice at night."}
FISH = {"pike": "The pike lurks between reeds. It eats frogs.", "tench": "The tench feeds on the bottom of ponds."}


def write(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


OWN = {"documents", "chunks/level_1", "tokens", "bm25/level_1", "embeddings/level_1"}
OWN |= {"neighbours", "sentence_graph"}
# Once there is a topic model: points of Qdrant tell topics.
PARTITIONED = OWN | {"mentions", "topics/assigned", "qdrant"}
MEASURED = {"questions", "soft_labels", "runs", "scores", "history", "answers", "answer_scores"}
MEASURED |= {"known_items", "report"}
OVERALL = {"topics/model", "names", "statistics", "hop_statistics"} | MEASURED
# After any change of the documents of one corpus.
CHANGED = [("fish", PARTITIONED | OVERALL - MEASURED)]
NIGHTLY = OVERALL - {"topics/model", "statistics", "hop_statistics"}


def shape(runs):
    return [(run.partition, run.assets) for run in runs]


def configure(folder, **changes):
    """Write `mog.yaml` with these values beside the usual ones."""
    values = {
        "home": "home",
        "levels": 1,
        "buckets": 4,
        # They need what there is to automate: labels, the sentence graph and topics.
        "methods": ["fixed-1", "hop-0", "oracle-paper"],
        **QDRANT,
        "topics": {"refit_share": 1},
        "drift": {"training": 0.5},
        "answering": {"reader": "extractive", "methods": ["one-step", "fixed-1+topics -> one-step"]},
        "corpora": {"birds": {"path": "birds"}, "fish": {"path": "fish"}},
        "question_sets": {"q": {"path": "questions.jsonl", "corpora": ["birds"], "test": ["test"]}},
        **changes,
    }
    (folder / "mog.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two corpora and a question set, built by the daemon alone. Not to be changed."""
    folder = tmp_path_factory.mktemp("automation") / "project"
    write(folder / "birds", BIRDS)
    write(folder / "fish", FISH)
    evidence = {"corpus": "birds", "doc": "heron.txt", "start": 0, "end": 33}
    question = {"id": "q", "question": "Who waits for a fish?", "kind": "who", "split": "test", "evidence": [evidence]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    configure(folder)
    quiet_instance(folder / "home")
    daemon = Daemon(folder)
    daemon.runs = daemon.settle()
    copy_folder(folder, folder.with_name("saved"))
    return daemon


@pytest.fixture
def daemon(built):
    """A daemon that goes on from there, in the same folder: its path is among the settings."""
    shutil.rmtree(built.folder)
    copy_folder(built.folder.with_name("saved"), built.folder)
    return Daemon(built.folder, built.cursor)


def test_a_new_project_is_built_by_one_run_a_corpus_and_one_of_what_is_made_from_all(built):
    assert all(run.success for run in built.runs), [run.failures for run in built.runs]
    registry, birds, fish, overall, *others, last = shape(built.runs)
    # Without training questions the method that `auto` stands for is known as soon as the corpora are.
    assert registry == (None, {"corpus_registry", "method"})
    assert (birds, fish) == (("birds", OWN), ("fish", OWN))
    assert overall == (None, OVERALL - MEASURED)
    # Of the model that has just been fitted, and the names that have just been read.
    assert others == [(corpus, {"topics/assigned", "mentions", "qdrant"}) for corpus in ("birds", "fish")]
    assert last == (None, MEASURED)


def add(folder):
    write(folder, {"eel": "The eel swims to the Sargasso sea."})


def test_changes_of_a_corpus_between_ticks_give_one_run_that_also_builds_what_is_made_from_all(daemon):
    for number in range(50):
        write(daemon.folder / "fish", {"pike": f"The pike waits {number} hours. It eats frogs."})
    add(daemon.folder / "fish")
    (daemon.folder / "fish" / "tench.txt").unlink()
    runs = daemon.settle()
    assert shape(runs)[:1] == CHANGED
    assert all(run.success for run in runs), [run.failures for run in runs]
    # More than half of the documents have changed: it is time to measure. What was measured on the questions' only
    # corpus, birds, is as it was.
    assert shape(runs)[1:] == [(None, MEASURED)]
    assert not runs[1].done["scores"]


def test_a_run_that_finds_other_names_builds_what_follows_in_the_other_corpora(daemon):
    write(daemon.folder / "fish", {"heron": "# Tench\n\nThe heron waits."})
    (run,) = daemon.settle()
    store = daemon.tools().store
    names = store.read("names").manifest.version
    read = {c: store.read("mentions", c).manifest.inputs["names"] for c in store.partitions("mentions")}
    assert run.success and read == {"birds": names, "fish": names}


@pytest.mark.parametrize("error", [MogError, OSError])
def test_what_could_not_be_built_of_another_corpus_is_tried_in_a_run_of_its_own(daemon, monkeypatch, error):
    genuine = asset.built

    def failing(recipe, corpus, *arguments, **options):
        if (recipe.key, corpus) == ("mentions", "birds") and options["run"].tags.get(JOINED):
            raise error("no birds")
        return genuine(recipe, corpus, *arguments, **options)

    monkeypatch.setattr(asset, "built", failing)
    write(daemon.folder / "fish", {"heron": "# Tench\n\nThe heron waits."})
    runs = daemon.settle()
    assert shape(runs) == [*CHANGED, ("birds", {"mentions"})] and all(run.success for run in runs)


def scores_of(daemon):
    """How many changed documents ago the scores were measured."""
    tools = daemon.tools()
    return changed_since(tools.store.read("scores"), read_documents(tools, tools.store.find))


def test_few_changed_documents_are_measured_only_when_it_is_time(daemon):
    write(daemon.folder / "birds", {"heron": BIRDS["heron"] + " It nests in trees."})
    runs = daemon.settle()
    assert not any(run.assets & MEASURED for run in runs) and scores_of(daemon) == 1
    write(daemon.folder / "fish", {"pike": "The pike waits. It eats frogs."})
    assert not any(run.assets & MEASURED for run in daemon.settle()) and scores_of(daemon) == 2
    # More than half of four.
    add(daemon.folder / "fish")
    runs = daemon.settle()
    assert shape(runs)[-1] == (None, MEASURED) and scores_of(daemon) == 0
    write(daemon.folder / "fish", {"pike": "The pike waits, and waits. It eats frogs."})
    assert not any(run.assets & MEASURED for run in daemon.settle()) and scores_of(daemon) == 1
    file = daemon.folder / "questions.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace("Who waits", "Who then waits"), encoding="utf-8")
    (run,) = daemon.settle()
    assert run.assets == MEASURED and run.success and run.done["scores"] and scores_of(daemon) == 0


def test_what_measures_is_not_built_from_what_was_measured_earlier(daemon):
    write(daemon.folder / "birds", {"heron": BIRDS["heron"] + " It nests in trees."})
    daemon.settle()
    run = daemon.execute(None, {"scores"})
    assert not run.success and "scores is built from runs, which is of earlier documents" in str(run.failures)


def test_a_touched_file_gives_one_run_that_builds_nothing(daemon):
    os.utime(daemon.folder / "fish" / "pike.txt")
    (run,) = daemon.settle()
    assert (run.partition, run.assets, run.success) == (*CHANGED[0], True)
    assert {key: n for key, n in run.done.items() if n and key != "documents"} == {}


@pytest.mark.full
def test_a_failure_is_tried_once_more_and_then_waits_for_the_repair(daemon):
    before = daemon.tools().store.read("chunks/level_1", "fish").manifest
    for file in (daemon.folder / "fish").iterdir():
        file.write_text(" ", encoding="utf-8")
    failed = daemon.settle()
    assert shape(failed) == CHANGED * 2
    assert not any(run.success for run in failed)
    assert daemon.tools().store.read("chunks/level_1", "fish").manifest == before
    write(daemon.folder / "fish", {**FISH, "pike": "The pike is repaired."})
    repaired = daemon.settle()
    assert shape(repaired)[:1] == CHANGED
    assert all(run.success for run in repaired), [run.failures for run in repaired]


def held(daemon, corpus):
    """Artefacts and points of a corpus."""
    from mog_assets.plugins.qdrant.store import collections_of

    settings = config.load()
    tools = daemon.tools()
    points = collections_of(tools).count(f"mog_{corpus}")
    return [key for key in plan.graph(settings) if corpus in tools.store.partitions(key)], points


@pytest.mark.full
def test_a_removed_corpus_disappears_and_is_built_again_when_it_comes_back(daemon):
    assert held(daemon, "fish")[1] > 0
    kept = held(daemon, "birds")
    configure(daemon.folder, corpora={"birds": {"path": "birds"}})
    runs = daemon.settle()
    assert (None, {"corpus_registry", "method"}) in [(p, a - OVERALL) for p, a in shape(runs)]
    assert set().union(*(run.assets for run in runs)) == OVERALL | {"corpus_registry", "method", "mentions"}
    assert all(run.success for run in runs), [run.failures for run in runs]
    assert held(daemon, "fish") == ([], 0)
    assert held(daemon, "birds") == kept
    assert daemon.instance.get_dynamic_partitions("corpus") == ["birds"]
    configure(daemon.folder)
    runs = daemon.settle()
    assert shape(runs)[1:2] == CHANGED
    assert set().union(*(run.assets for run in runs)) == OVERALL | PARTITIONED | {"corpus_registry", "method"}
    assert all(run.success for run in runs), [run.failures for run in runs]
    assert held(daemon, "fish")[1] > 0


@pytest.mark.full
def test_a_change_during_a_run_is_built_by_a_second_run_after_it(daemon):
    write(daemon.folder / "fish", {"pike": "The pike waits. It eats frogs."})
    daemon.sweep()
    ((partition, assets),) = daemon.tick()
    during = []

    def change(point):
        if point == "manifest moved" and not during:
            during.append(point)
            add(daemon.folder / "fish")
            during.append(daemon.sweep().observed)
            during.append(daemon.tick())

    interrupt_with(change)
    try:
        assert daemon.execute(partition, assets).success
    finally:
        interrupt_with(None)
    assert during == ["manifest moved", [("sources", "fish")], []]
    assert shape(daemon.settle())[:1] == CHANGED
    assert daemon.tools().store.read("documents", "fish").manifest.counts["documents"] == 3


@pytest.mark.full
def test_another_code_version_rebuilds_that_asset_and_what_follows_in_every_corpus(daemon, monkeypatch):
    genuine = plan.graph

    def bumped(settings):
        recipes = genuine(settings)
        return {**recipes, "tokens": replace(recipes["tokens"], version="bumped")}

    monkeypatch.setattr(automation, "graph", bumped)
    daemon.reload()
    runs = daemon.settle()
    assert shape(runs)[:2] == [
        (corpus, {"tokens", "bm25/level_1", "neighbours", "qdrant"}) for corpus in ("birds", "fish")
    ]
    # The same content came of it: nothing that is made from all corpora follows.
    assert len(runs) == 2 and all(run.success and run.done["tokens"] for run in runs)


@pytest.mark.full
def test_a_changed_setting_rebuilds_what_depends_on_it_when_the_graph_is_loaded_again(daemon):
    configure(daemon.folder, bm25={"k1": 1.2})
    assert "reload the code location" in daemon.sweep().said
    daemon.reload()
    runs = daemon.settle()
    assert all(run.success for run in runs), [run.failures for run in runs]
    # Edges of the sentence graph are BM25's as well, and words in Qdrant.
    assert [r for r in shape(runs) if r[0]] == [(corpus, {"sentence_graph", "qdrant"}) for corpus in ("birds", "fish")]
    overall = set().union(*(run.assets for run in runs if run.partition is None))
    assert {"soft_labels", "runs", "scores"} <= overall <= OVERALL


# The sensor


def test_a_broken_configuration_is_reported_and_what_was_seen_is_kept(daemon):
    (daemon.folder / "mog.yaml").write_text("corpora: [", encoding="utf-8")
    assert "mog.yaml: expected YAML" in daemon.sweep().said
    configure(daemon.folder)
    swept = daemon.sweep()
    assert (swept.observed, swept.said) == ([], None)


def test_a_corpus_that_cannot_be_read_keeps_no_other_from_being_seen(daemon):
    (daemon.folder / "birds").rename(daemon.folder / "gone")
    add(daemon.folder / "fish")
    swept = daemon.sweep()
    assert swept.observed == [("sources", "fish")]
    assert f"{daemon.folder / 'birds'}: expected" in swept.said
    # It comes back as it was.
    (daemon.folder / "gone").rename(daemon.folder / "birds")
    swept = daemon.sweep()
    assert (swept.observed, swept.said) == ([], None)


def test_what_lies_outside_can_be_observed_by_hand(daemon):
    job = daemon.definitions.resolve_implicit_global_asset_job_def()
    seen = {}
    for name in ("sources", "configured_corpora", "measuring"):
        result = job.execute_in_process(instance=daemon.instance, asset_selection=[dg.AssetKey(name)])
        assert result.success
        seen[name] = sorted(str(event.partition) for event in result.get_asset_observation_events())
    assert seen == {"sources": ["birds", "fish"], "configured_corpora": ["None"], "measuring": ["None"]}


def test_the_job_of_a_corpus_succeeds_before_there_is_any_other(tmp_path):
    write(tmp_path / "birds", BIRDS)
    write(tmp_path / "fish", FISH)
    configure(tmp_path, methods=["fixed-1"], question_sets={})
    quiet_instance(tmp_path / "home")
    daemon = Daemon(tmp_path)
    daemon.instance.add_dynamic_partitions("corpus", ["fish"])
    job = daemon.definitions.resolve_job_def("build")
    assert job.execute_in_process(instance=daemon.instance, partition_key="fish").success
    store = daemon.tools().store
    assert store.find("embeddings/level_1", "fish") and not store.find("documents", "birds")


def test_sensor_and_schedule_run_by_themselves(built):
    repository = built.definitions.get_repository_def()
    assert {s.name: s.default_status for s in repository.sensor_defs} == {
        "automation": dg.DefaultSensorStatus.RUNNING,
    }
    (nightly,) = repository.schedule_defs
    assert (nightly.name, nightly.job_name, nightly.cron_schedule) == ("nightly", "evaluate", "0 3 * * *")
    assert (nightly.execution_timezone, nightly.default_status) == ("UTC", dg.DefaultScheduleStatus.RUNNING)


# The nightly run


def test_conditions_are_evaluated_once_something_has_happened(daemon):
    sensor, cursor = daemon.definitions.resolve_sensor_def("automation"), None

    def tick():
        nonlocal cursor
        with dg.build_sensor_context(
            instance=daemon.instance, cursor=cursor, definitions=daemon.definitions
        ) as context:
            outcome = sensor.evaluate_tick(context)
        cursor = outcome.cursor
        return sorted((request.partition_key or "", len(request.asset_selection)) for request in outcome.run_requests)

    def is_evaluated():
        before = cursor
        requested = tick()
        return requested, cursor != before

    # What was observed before the first evaluation is not lost.
    assert tick() == []
    assert tick() == [("", 2), ("birds", len(PARTITIONED)), ("fish", len(PARTITIONED))]
    assert is_evaluated() == ([], False)
    # A run has ended.
    daemon.execute("fish", ["documents"])
    assert is_evaluated()[1]
    assert is_evaluated() == ([], False)
    # There is a file.
    add(daemon.folder / "fish")
    assert is_evaluated() == ([("fish", len(CHANGED[0][1]))], True)
    # A corpus is new.
    write(daemon.folder / "pond", {"newt": "The newt sheds."})
    configure(daemon.folder, corpora={name: {"path": name} for name in ("birds", "fish", "pond")})
    assert is_evaluated()[1]
    assert is_evaluated() == ([], False)
    # The daemon has not noted what was asked for.
    cursor = None
    assert is_evaluated()[1]


def test_the_nightly_run_measures_again_and_trains_nothing(daemon):
    (nightly,) = daemon.definitions.get_repository_def().schedule_defs
    with dg.build_schedule_context(daemon.instance) as context:
        (request,) = nightly.evaluate_tick(context).run_requests
    run = daemon.execute(None, NIGHTLY | {"corpus_registry"}, request.tags)
    assert run.success, run.failures
    again = {"runs", "scores", "report", "history"}
    assert {key for key, n in run.done.items() if n} == again
    assert run.done.keys() == NIGHTLY | {"corpus_registry"}
    assert daemon.settle() == []


def test_nothing_runs_by_itself_where_automation_is_switched_off(daemon):
    configure(daemon.folder, automation={"enabled": False})
    repository = automation.build(config.load()).get_repository_def()
    instigators = [*repository.sensor_defs, *repository.schedule_defs]
    assert len(instigators) == 2 and {i.default_status.value for i in instigators} == {"STOPPED"}


def test_without_a_time_there_is_no_nightly_run(daemon):
    # Without questions there is nothing to measure.
    configure(daemon.folder, question_sets={})
    assert automation.build(config.load()).get_repository_def().schedule_defs == []
    configure(daemon.folder, automation={"nightly": None})
    assert automation.build(config.load()).get_repository_def().schedule_defs == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nightly": "0 3 * * mon-fry"}, "automation.nightly: expected a cron expression of five fields"),
        ({"nightly": "0 3 * * * *"}, "automation.nightly: expected a cron expression of five fields"),
        ({"nightly": "0 3 30 2 *"}, "automation.nightly: expected a cron expression of five fields"),
        ({"timezone": "Europe/Zurig"}, "automation.timezone: expected a time zone of the IANA database"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(tmp_path, values, message):
    configure(tmp_path, automation=values)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "mog.yaml")
    assert message in str(caught.value) and repr(next(iter(values.values()))) in str(caught.value)


@pytest.mark.parametrize("cron", ["*/15 1-5,7 1 jan-mar mon", "30 2 * * 7", "0 0 1 1 *", "@daily"])
def test_dagster_takes_every_schedule_that_the_configuration_takes(daemon, cron):
    configure(daemon.folder, automation={"nightly": cron, "timezone": "Europe/Zurich"})
    (nightly,) = automation.build(config.load()).get_repository_def().schedule_defs
    assert (nightly.cron_schedule, nightly.execution_timezone) == (cron, "Europe/Zurich")


# Executors, and the command line


def test_an_executor_that_is_unknown_or_not_installed_is_refused(daemon, monkeypatch):
    monkeypatch.setenv("MOG_EXECUTOR", "threads")
    with pytest.raises(ConfigError, match="MOG_EXECUTOR: expected one of inprocess, multiprocess, .* got 'threads'"):
        daemon.reload()
    if importlib.util.find_spec("dagster_k8s") is None:
        monkeypatch.setenv("MOG_EXECUTOR", "k8s_job")
        with pytest.raises(ConfigError, match=r"pip install 'mog-assets\[kubernetes\]'"):
            daemon.reload()
    monkeypatch.setenv("MOG_EXECUTOR", "multiprocess")
    daemon.reload()
    assert daemon.definitions.executor.name == dg.multiprocess_executor.name


def test_a_run_by_hand_removes_what_is_left_of_a_removed_corpus(daemon):
    configure(daemon.folder, corpora={"birds": {"path": "birds"}})
    verified = CliRunner().invoke(cli.main, ["verify"])
    assert verified.exit_code == 1 and "corpus fish is not in mog.yaml, but " in verified.output
    report = runner.run(config.load())
    assert report.failures == []
    (registry,) = (step for step in report.steps if step["asset"] == "corpus_registry")
    assert registry["recomputed"]["corpora removed"] == 1
    assert registry["recomputed"]["artefacts removed"] == len(PARTITIONED)
    assert held(daemon, "fish") == ([], 0)
    verified = CliRunner().invoke(cli.main, ["verify"])
    assert verified.exit_code == 0, verified.output
    assert runner.run(config.load()).steps == []
