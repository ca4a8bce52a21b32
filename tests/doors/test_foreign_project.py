"""The graph inside someone else's Dagster project, which Dagster's scaffolding made and which uses the same names."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import dagster as dg
import jsonschema
import pytest
import yaml
from dagster_shared.yaml_utils.sample_yaml import generate_sample_yaml
from shared import ROOT, VARIABLES

import mog_assets
from mog_assets import config
from mog_assets.build import plan
from mog_assets.build.component import Retrieval, RetrievalAttributes
from mog_assets.build.names import Names
from mog_assets.build.recipe import JOINED
from mog_assets.resources.errors import ConfigError
from mog_assets.resources.store import Store

pytestmark = pytest.mark.full

BIRDS = {"heron": "The grey heron waits for a fish. Then it strikes.", "owl": "The owl hunts mice at night."}
FISH = {"pike": "The pike lurks between reeds. It eats frogs."}
# Everything that the graph would be called without a prefix is theirs.
THEIRS = """
from pathlib import Path

import dagster as dg

import mog_assets

corpus = dg.DynamicPartitionsDefinition(name="corpus")
condition = dg.AutomationCondition.missing()


@dg.asset(partitions_def=corpus, group_name="corpus", automation_condition=condition)
def documents():
    return 1


@dg.asset(deps=[["mog", "chunks", "level_1"]], required_resource_keys={"tools"})
def index(context):
    return context.resources.tools


folder = Path(__file__).parent
defs = dg.Definitions.merge(
    dg.Definitions(
        assets=[documents, index],
        jobs=[dg.define_asset_job("build", dg.AssetSelection.assets(documents))],
        sensors=[dg.AutomationConditionSensorDefinition("automation", target=[documents, index])],
        resources={"tools": "their tools"},
        executor=dg.multiprocess_executor,
    ),
    mog_assets.definitions(folder / "mog.yaml", key_prefix="mog"),
    mog_assets.definitions(folder / "other.yaml", key_prefix="team/other", group_prefix="other"),
    # A component in YAML.
    dg.load_from_defs_folder(path_within_project=folder),
)
"""
COMPONENT = """\
type: mog_assets.Retrieval
attributes:
  key_prefix: yaml
  home: home
  levels: "{{ env.MOG_LEVELS }}"
  corpora:
    "2024": {path: ../../birds}
"""
# For `dg`, which also loads projects of the older scaffolding.
OF_DG = '\n[tool.dg]\ndirectory_type = "project"\n\n[tool.dg.project]\nroot_module = "theirs"\n'


def clean(*paths):
    """The environment of a process that finds these folders, and no variable of ours."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**environment, "PYTHONPATH": os.pathsep.join(map(str, paths)), "MOG_LEVELS": "2"}


def write(folder, documents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in documents.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def configure(path, **changes):
    values = {"home": path.stem, "levels": 1, "buckets": 2, "corpora": {"birds": {"path": "birds"}}, **changes}
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def scaffolded(tmp_path_factory):
    """A project as `dagster project scaffold` makes it, with two graphs of ours merged and one as a component."""
    folder = tmp_path_factory.mktemp("foreign")
    command = [sys.executable, "-m", "dagster", "project", "scaffold", "--name", "theirs", "--ignore-package-conflict"]
    made = subprocess.run(command, cwd=folder, env=clean(ROOT), capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stdout + made.stderr
    project = folder / "theirs"
    package = project / "theirs"
    assert "Definitions(" in (package / "definitions.py").read_text(encoding="utf-8")
    (package / "definitions.py").write_text(THEIRS, encoding="utf-8")
    with (project / "pyproject.toml").open("a", encoding="utf-8") as stream:
        stream.write(OF_DG)
    write(package / "birds", BIRDS)
    write(package / "fish", FISH)
    configure(package / "mog.yaml")
    configure(package / "other.yaml", corpora={"fish": {"path": "fish"}})
    (package / "defs" / "search").mkdir(parents=True)
    (package / "defs" / "__init__.py").touch()
    (package / "defs" / "search" / "defs.yaml").write_text(COMPONENT, encoding="utf-8")
    return project


@pytest.fixture
def theirs(scaffolded, tmp_path, monkeypatch):
    """A copy of the project, its definitions, and a real instance of its own."""
    project = tmp_path / "theirs"
    shutil.copytree(scaffolded, project)
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setenv("MOG_LEVELS", "2")
    for name in [name for name in sys.modules if name.split(".")[0] == "theirs"]:
        monkeypatch.delitem(sys.modules, name)
    module = importlib.import_module("theirs.definitions")
    home = tmp_path / "instance"
    home.mkdir()
    (home / "dagster.yaml").touch()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield SimpleNamespace(folder=project, package=project / "theirs", defs=module.defs, instance=instance)


def sweep(theirs, name="mog_automation"):
    """What a sensor sees that has changed: assets and their partitions."""
    events, _ = theirs.defs.resolve_sensor_def(name).look(theirs.instance)
    return [(event.asset_key.to_user_string(), event.partition) for event in events]


def targets(theirs, name):
    """Keys of the assets that an automation sensor looks at."""
    return theirs.defs.resolve_sensor_def(name).asset_selection.resolve(theirs.defs.resolve_asset_graph())


def materialised(theirs, *key):
    return theirs.instance.get_latest_materialization_event(dg.AssetKey(key)) is not None


def test_everything_of_ours_has_the_prefix_and_everything_of_theirs_its_name(theirs):
    repository = theirs.defs.get_repository_def()
    graph = theirs.defs.resolve_asset_graph()
    count = 0
    for prefix, names, groups in ((["mog"], "mog_", "mog_"), (["team", "other"], "team_other_", "other_")):
        recipes = plan.graph(config.load(theirs.package / f"{prefix[-1]}.yaml"))
        nodes = {node.key: node for node in graph.asset_nodes if node.key.has_prefix(prefix)}
        outside = {r.outside for r in recipes.values() if r.outside} | {"measuring"}
        assert {"/".join(key.path[len(prefix) :]) for key in nodes} == {*recipes, *outside}
        for key, recipe in recipes.items():
            node = nodes[dg.AssetKey([*prefix, *key.split("/")])]
            assert node.group_name == groups + recipe.group
            partitions = node.partitions_def.name if node.partitions_def else None
            assert partitions == (f"{names}corpus" if recipe.partitioned else None)
        assert repository.has_job(f"{names}build") and repository.has_job(f"{names}evaluate")
        assert f"{names}automation" in {sensor.name for sensor in repository.sensor_defs}
        assert f"{names}tools" in theirs.defs.resources
        count += len(nodes)
    yaml_nodes = [node for node in graph.asset_nodes if node.key.has_prefix(["yaml"])]
    assert {node.group_name.partition("_")[0] for node in yaml_nodes} == {"yaml"}
    others = [n.key.to_user_string() for n in graph.asset_nodes if n.key.path[0] not in ("mog", "team", "yaml")]
    assert sorted(others) == ["documents", "index"]
    assert theirs.defs.executor is dg.multiprocess_executor
    assert theirs.defs.resources["tools"] == "their tools"
    assert theirs.defs.resolve_job_def("build").asset_layer.selected_asset_keys == {dg.AssetKey("documents")}
    assert count + len(yaml_nodes) + 2 == len(list(graph.asset_nodes))


def test_our_assets_are_built_and_theirs_are_left_alone(theirs):
    theirs.instance.add_dynamic_partitions("corpus", ["birds", "their own"])
    swept = sweep(theirs)
    assert theirs.instance.get_dynamic_partitions("mog_corpus") == ["birds"]
    assert ("mog/sources", "birds") in swept and all(key.startswith("mog/") for key, _ in swept)
    # Partitions of other graphs, and theirs of the same name, stay.
    assert theirs.instance.get_dynamic_partitions("corpus") == ["birds", "their own"]
    assert theirs.instance.get_dynamic_partitions("team_other_corpus") == []

    keys = [dg.AssetKey(["mog", "documents"]), dg.AssetKey(["mog", "chunks", "level_1"])]
    run = theirs.defs.resolve_job_def("mog_build").execute_in_process(
        instance=theirs.instance, asset_selection=keys, partition_key="birds"
    )
    assert run.success
    assert {event.asset_key for event in run.get_asset_materialization_events()} == set(keys)
    store = Store(theirs.package / "mog")
    assert store.read("documents", "birds").manifest.counts["documents"] == len(BIRDS)
    assert store.find("chunks/level_1", "birds") is not None
    assert not materialised(theirs, "documents")
    assert not (theirs.package / "other" / "store").exists()

    theirs_built = theirs.defs.resolve_job_def("build").execute_in_process(
        instance=theirs.instance, partition_key="birds"
    )
    assert [event.asset_key.path for event in theirs_built.get_asset_materialization_events()] == [["documents"]]
    assert store.read("documents", "birds").manifest.counts["documents"] == len(BIRDS)


def test_lineage_leads_from_our_files_to_their_asset(theirs):
    graph = theirs.defs.resolve_asset_graph()
    above = dg.AssetSelection.assets("index").upstream().resolve(graph)
    names = {key.to_user_string() for key in above}
    assert {"index", "mog/chunks/level_1", "mog/documents"} <= names
    assert dg.AssetKey(["mog", "sources"]) in graph.get(dg.AssetKey(["mog", "documents"])).parent_keys
    assert "documents" not in names and not any(name.startswith(("team/", "yaml/")) for name in names)
    assert graph.get(dg.AssetKey("documents")).child_keys == set()


@pytest.mark.full
def test_each_automation_sensor_looks_at_its_own_assets_only(theirs):
    own = {prefix: targets(theirs, f"{prefix}_automation") for prefix in ("mog", "team_other", "yaml")}
    assert all(key.has_prefix(prefix.split("_")) for prefix, keys in own.items() for key in keys)
    assert dg.AssetKey(["mog", "documents"]) in own["mog"]
    assert targets(theirs, "automation") == {dg.AssetKey("documents"), dg.AssetKey("index")}


def test_a_run_of_all_that_follows_in_one_graph_keeps_no_other_graph_waiting(theirs):
    sensor, other = (theirs.defs.resolve_sensor_def(f"{prefix}_automation") for prefix in ("mog", "team_other"))
    theirs.instance.add_run(dg.DagsterRun("run", status=dg.DagsterRunStatus.STARTED, tags={JOINED: other.name}))
    said = {}
    for one in (sensor, other):
        cursor = None
        for _ in range(2):
            with dg.build_sensor_context(theirs.instance, cursor, definitions=theirs.defs) as context:
                outcome = one.evaluate_tick(context)
            cursor = outcome.cursor
        said[one.name] = outcome.skip_message or ""
    assert "waits for a run of all that follows" in said[other.name]
    assert "waits" not in said[sensor.name]


def test_the_named_file_is_read_again_whatever_the_environment_says(theirs, monkeypatch):
    configure(theirs.folder / "elsewhere.yaml", corpora={"elsewhere": {"path": "nowhere"}})
    monkeypatch.setenv(config.CONFIG_VARIABLE, str(theirs.folder / "elsewhere.yaml"))
    monkeypatch.chdir(theirs.folder.parent)
    both = {"birds": {"path": "birds"}, "fish": {"path": "fish"}}
    configure(theirs.package / "mog.yaml", corpora=both)
    assert {("mog/sources", "birds"), ("mog/sources", "fish")} <= set(sweep(theirs))
    assert sorted(theirs.instance.get_dynamic_partitions("mog_corpus")) == ["birds", "fish"]
    configure(theirs.package / "mog.yaml", corpora={"fish": both["fish"]})
    theirs.instance.add_dynamic_partitions("corpus", ["birds"])
    assert ("mog/sources", "birds") not in sweep(theirs)
    assert theirs.instance.get_dynamic_partitions("mog_corpus") == ["fish"]
    assert theirs.instance.get_dynamic_partitions("corpus") == ["birds"]
    seen = theirs.defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=theirs.instance, asset_selection=[dg.AssetKey(["mog", "sources"])]
    )
    assert [event.partition for event in seen.get_asset_observation_events()] == ["fish"]


@pytest.mark.full
def test_an_asset_of_theirs_that_writes_documents_comes_before_them(theirs, monkeypatch):
    theirs.instance.add_dynamic_partitions("mog_corpus", ["birds"])
    birds = {"path": "birds", "upstream": ["team/birds"]}
    configure(theirs.package / "mog.yaml", corpora={"birds": birds})
    days = dg.StaticPartitionsDefinition(["monday", "tuesday"])

    @dg.asset(key=["team", "birds"], partitions_def=days)
    def team_birds(context):
        write(theirs.package / "birds", {context.partition_key: f"On {context.partition_key} a crane was seen."})

    ours = mog_assets.definitions(theirs.package / "mog.yaml", key_prefix="mog")
    defs = dg.Definitions.merge(dg.Definitions(assets=[team_birds]), ours)
    documents = dg.AssetKey(["mog", "documents"])
    graph = defs.resolve_asset_graph()
    assert dg.AssetKey(["team", "birds"]) in graph.get(documents).parent_keys
    keys = (dg.AssetKey(["mog", *name.split("/")]) for name in plan.graph(config.load(theirs.package / "mog.yaml")))
    assert all(
        graph.get(key).parent_keys.isdisjoint([dg.AssetKey(["team", "birds"])]) for key in keys if key != documents
    )
    sensor, cursor = defs.resolve_sensor_def("mog_automation"), None

    def wanted():
        """Whether documents are wanted on the next tick."""
        nonlocal cursor
        sweep(SimpleNamespace(defs=defs, instance=theirs.instance))
        tick = dg.evaluate_automation_conditions(
            defs, theirs.instance, asset_selection=sensor.asset_selection, cursor=cursor
        )
        cursor = tick.cursor
        return tick.get_num_requested(documents) > 0

    def materialise(key, partition):
        job = defs.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=theirs.instance, asset_selection=[key], partition_key=partition).success

    assert not any(wanted() for _ in range(3)), "the asset was never materialised"
    assert materialise(dg.AssetKey(["team", "birds"]), "monday")
    assert not any(wanted() for _ in range(3)), "one of its partitions was never materialised"
    assert materialise(dg.AssetKey(["team", "birds"]), "tuesday")
    assert any(wanted() for _ in range(3))
    assert materialise(documents, "birds")
    assert Store(theirs.package / "mog").read("documents", "birds").manifest.counts["documents"] == len(BIRDS) + 2
    assert not any(wanted() for _ in range(3))
    # What `mog run` builds knows nothing of it.
    alone = mog_assets.build.automation.build(config.load(theirs.package / "mog.yaml")).resolve_asset_graph()
    assert dg.AssetKey(["team", "birds"]) not in alone.get(dg.AssetKey("documents")).parent_keys


@pytest.mark.full
def test_a_run_of_their_executor_builds_our_assets(theirs):
    sweep(theirs)
    environment = {**clean(theirs.folder, ROOT), "DAGSTER_HOME": str(theirs.folder.parent / "instance")}
    command = [sys.executable, "-m", "dagster", "asset", "materialize", "-m", "theirs.definitions"]
    command += ["--select", 'key:"mog/documents" or key:"mog/chunks/level_1"', "--partition", "birds"]
    done = subprocess.run(
        command, cwd=theirs.folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "STEP_WORKER_START" in done.stderr
    assert Store(theirs.package / "mog").find("chunks/level_1", "birds") is not None


def test_the_project_on_the_page_loads(theirs):
    text = (ROOT / "docs" / "dagster.md").read_text(encoding="utf-8")
    code, behind = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert '"mog_tools"' in behind
    (theirs.package / "shown.py").write_text(code, encoding="utf-8")
    defs = importlib.import_module("theirs.shown").defs
    above = dg.AssetSelection.assets("announcement").upstream().resolve(defs.resolve_asset_graph())
    assert dg.AssetKey(["mog", "documents"]) in above


def test_their_sensor_over_everything_is_refused_until_it_leaves_our_assets_out(theirs):
    ours = mog_assets.definitions(theirs.package / "mog.yaml", key_prefix="mog")

    def merged(target):
        sensor = dg.AutomationConditionSensorDefinition("automation", target=target)
        return dg.Definitions.merge(dg.Definitions(sensors=[sensor]), ours).get_repository_def()

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="overlapping asset selections"):
        merged(dg.AssetSelection.all())
    assert merged(dg.AssetSelection.all() - dg.AssetSelection.key_prefixes("mog")).has_sensor_def("automation")


@pytest.mark.parametrize(
    ("prefixes", "message"),
    [
        ({"key_prefix": "my-team"}, "key_prefix: expected a name of letters, digits and '_', .* got 'my-team'"),
        ({"key_prefix": 5}, "key_prefix: expected .* got 5"),
        ({"key_prefix": "a", "group_prefix": "b/c"}, "group_prefix: expected letters, digits and '_', got 'b/c'"),
    ],
)
def test_a_prefix_that_dagster_would_refuse_is_refused(prefixes, message):
    with pytest.raises(ConfigError, match=message):
        Names.under(**prefixes)


def test_a_prefix_may_be_one_name_several_or_none():
    assert Names.under("a/b") == Names.under(["a", "b"]) == Names(("a", "b"), "a_b")
    assert Names.under("", "") == Names.under() == Names()
    assert Names.under("a", "").group("corpus") == "corpus"


def test_without_a_prefix_names_are_those_of_a_project_of_its_own(theirs):
    ours = mog_assets.definitions(theirs.package / "mog.yaml")
    assert ours.executor is None
    assert {"build", "evaluate"} <= {job.name for job in ours.jobs}
    assert dg.AssetKey("documents") in ours.resolve_all_asset_keys()


def test_importing_the_package_imports_neither_dagster_nor_a_stage():
    code = "import sys, mog_assets; print(*sorted(m for m in sys.modules if 'dagster' in m or 'mog' in m))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; assert 'open' in dir(mog_assets)"],
        env=clean(ROOT),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    # Finders of editable installations are named after what they find.
    assert [name for name in done.stdout.split() if not name.startswith("__editable__")] == ["mog_assets"]
    with pytest.raises(AttributeError, match="module 'mog_assets' has no attribute 'definition'"):
        mog_assets.definition  # noqa: B018


# The component


def loaded(theirs, text):
    """The graphs of a `defs.yaml`, loaded as Dagster loads the folder of a project."""
    (theirs.package / "defs" / "search" / "defs.yaml").write_text(text, encoding="utf-8")
    return dg.load_from_defs_folder(path_within_project=theirs.package)


def message(error):
    """The messages of an exception and of its causes."""
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(found)


def test_the_component_builds_the_graph_of_its_yaml(theirs):
    settings = theirs.defs.resources["yaml_tools"].settings
    folder = theirs.package / "defs" / "search"
    # A template gives a number; what is in quotes stays a text.
    assert (settings.levels, list(settings.corpora)) == (2, ["2024"])
    assert (settings.home, settings.corpora["2024"].path) == (folder / "home", theirs.package / "birds")
    assert ("yaml/sources", "2024") in sweep(theirs, "yaml_automation")
    assert theirs.instance.get_dynamic_partitions("yaml_corpus") == ["2024"]
    run = theirs.defs.resolve_job_def("yaml_build").execute_in_process(
        instance=theirs.instance, asset_selection=[dg.AssetKey(["yaml", "documents"])], partition_key="2024"
    )
    assert run.success
    assert Store(folder / "home").read("documents", "2024").manifest.counts["documents"] == len(BIRDS)


def test_one_file_may_hold_two_components(theirs):
    second = COMPONENT.replace("key_prefix: yaml", "key_prefix: [second, one]").replace("home: home", "home: second")
    graph = loaded(theirs, f"{COMPONENT}---\n{second}").resolve_asset_graph()
    both = {tuple(node.key.path[:-1]) for node in graph.asset_nodes if node.key.path[-1] == "documents"}
    assert both == {("yaml",), ("second", "one")}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("levels:", "levls:", "levls: expected a known key, got 'levls'; did you mean 'levels'?"),
        ('"{{ env.MOG_LEVELS }}"', '"5"', "levels: expected a valid integer, got '5'"),
        ("key_prefix: yaml", "key_prefix: my-yaml", "key_prefix: expected a name of letters, digits and '_'"),
        ('"2024": {path', "2024: {path", "corpora: expected keys that are texts, got 2024: write it in quotes"),
    ],
)
def test_a_mistake_in_the_yaml_is_reported_as_in_mog_yaml(theirs, old, new, expected):
    assert old in COMPONENT
    with pytest.raises(Exception) as caught:  # noqa: PT011  # Dagster wraps errors in several of its own.
        loaded(theirs, COMPONENT.replace(old, new))
    found = message(caught.value)
    assert f"configuration {theirs.package / 'defs' / 'search' / 'defs.yaml'}: {expected}" in found


def test_a_component_without_attributes_says_what_is_missing(theirs):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        loaded(theirs, "type: mog_assets.Retrieval\n")
    assert "defs.yaml: corpora: expected a value, got none" in message(caught.value)


@pytest.mark.whole
def test_the_schema_takes_what_the_documentation_shows_and_refuses_an_unknown_key():
    schema = jsonschema.Draft202012Validator(RetrievalAttributes.model_json_schema())
    corpora = {"corpora": {"handbook": {"path": "docs"}}}
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            raw = yaml.safe_load(block)
            if block.startswith("# access.yaml"):
                # A file of permissions, which they look at.
                continue
            assert list(schema.iter_errors({**corpora, **raw.get("attributes", raw)})) == [], page
    short = {"chunker": "sentences", "key_prefix": ["a"], "levels": "{{ env.LEVELS }}", "retriever": "{{ env.R }}"}
    assert list(schema.iter_errors({**corpora, **short})) == []
    # Dagster makes an example of every schema that it knows of when it loads a project.
    assert "key_prefix: mog" in generate_sample_yaml("x", RetrievalAttributes.model_json_schema())
    every = {name: part for name, part in schema.schema.items() if name != "examples"}
    assert "question_sets:" in generate_sample_yaml("x", every)
    for wrong in ({"levls": 3}, {"levels": "three"}, {"key_prefix": 5}, {"chunker": 5}):
        assert list(schema.iter_errors({**corpora, **wrong})), wrong


def test_the_component_is_registered_for_dagster_tools():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'registry_modules"]\nmog_assets = "mog_assets"\n' in text
    assert Retrieval.get_model_cls() is RetrievalAttributes


@pytest.mark.skipif(not (find_spec("create_dagster") and find_spec("dagster_dg_cli")), reason="`dg` is not installed")
@pytest.mark.full
def test_dg_lists_scaffolds_and_checks_the_component_in_a_project_of_create_dagster(tmp_path):
    # As it is installed from the index: the registry reads the metadata of distributions.
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT / "mog_assets", source / "mog_assets", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", source)
    build = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-t", installed, source]
    subprocess.run(build, check=True, capture_output=True, text=True)

    def call(module, *arguments, cwd=tmp_path):
        code = f"import sys; from {module} import main; sys.argv[0] = 'dg'; main()"
        environment = clean("src", installed)
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    code, said = call("create_dagster.cli", "project", "theirs", "--no-uv-sync")
    assert code == 0, said
    project = tmp_path / "theirs"
    code, said = call("dagster_dg_cli.cli", "list", "components", "--json", cwd=project)
    assert code == 0 and "mog_assets.Retrieval" in said, said
    code, said = call("dagster_dg_cli.cli", "scaffold", "defs", "mog_assets.Retrieval", "search", cwd=project)
    assert code == 0, said
    code, said = call("dagster_dg_cli.cli", "check", "defs", cwd=project)
    assert code == 0, said
    code, said = call("dagster_dg_cli.cli", "list", "defs", "--json", cwd=project)
    keys = re.findall(r'"asset_key": "([^"]+)"', said)
    assert "mog/documents" in keys and all(key.startswith("mog/") for key in keys), said
    file = project / "src" / "theirs" / "defs" / "search" / "defs.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "  levls: 3\n", encoding="utf-8")
    code, said = call("dagster_dg_cli.cli", "check", "yaml", cwd=project)
    assert code != 0 and "levls" in said
