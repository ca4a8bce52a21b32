"""The files in `deploy` start what this project has: commands, variables and paths exist, schemas are followed."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml
from shared import ROOT

import mog_assets
from mog_assets import config

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
# Read by other projects: their images, the client of OpenAI, Hugging Face.
FOREIGN = re.compile(r"^(POSTGRES_|QDRANT__|OPENAI_|HF_HOME$|PYTHONUNBUFFERED$|PATH$|PGDATA$)")


def loaded(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def services():
    return loaded(COMPOSE)[0]["services"]


def own():
    """Services of our image."""
    return {name: one for name, one in services().items() if one["image"].startswith("mog-assets:")}


def kubernetes():
    """Objects of `deploy/kubernetes/mog.yaml` by kind and name."""
    found = loaded(DEPLOY / "kubernetes/mog.yaml")
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def chart():
    return loaded(DEPLOY / "kubernetes/dagster.yaml")[0]


def code():
    (deployment,) = chart()["dagster-user-deployments"]["deployments"]
    return deployment


def container(kind, name):
    (found,) = kubernetes()[kind, name]["spec"]["template"]["spec"]["containers"]
    return found


def test_the_compose_file_follows_its_specification():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


COMMANDS = [
    *(pytest.param(one["command"], id=f"compose {name}") for name, one in own().items()),
    *(pytest.param(o["healthcheck"]["test"][1:], id=f"health of {name}") for name, o in own().items()),
    pytest.param(container("Deployment", "mog-serve")["args"], id="kubernetes serve"),
    # As the chart starts it.
    pytest.param(
        ["dagster", "code-server", "start", "-h", "0.0.0.0", "-p", str(code()["port"]), *code()["codeServerArgs"]],
        id="kubernetes code",
    ),
]


def command_of(program):
    """The click command of a program of this environment."""
    module, name = {
        "mog": ("mog_assets.cli", "main"),
        "dagster": ("dagster._cli", "cli"),
        "dagster-daemon": ("dagster._daemon.cli", "cli"),
        "dagster-webserver": ("dagster_webserver.cli", "dagster_webserver"),
    }[program]
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_exists_with_its_options(words):
    program, *arguments = words
    if program == "python":
        compile(arguments[1], "health check", "exec")
        return
    command = command_of(program)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        command = command.get_command(click.Context(command), name)
        assert command is not None, name
    # Parsed as the command itself does, and not called.
    context = command.make_context(program, list(arguments), resilient_parsing=True)
    parser = command.make_parser(context)
    _, rest, _ = parser.parse_args(list(arguments))
    assert rest == []


def read_by_the_project():
    """Every name of an environment variable in the code and in deploy/dagster.yaml."""
    code = [
        path.read_text(encoding="utf-8")
        for folder in ("mog_assets", "resources")
        for path in (ROOT / folder).rglob("*.py")
    ]
    named = {name for text in code for name in re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', text)}
    return named | set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "dagster.yaml").read_text(encoding="utf-8")))


def set_for(environment):
    return {one["name"] for one in environment} if isinstance(environment, list) else set(environment)


@pytest.mark.whole
def test_every_variable_is_read_by_somebody():
    named = set().union(*(set_for(one.get("environment", {})) for one in services().values()))
    named |= set_for(code()["env"]) | set_for(container("Deployment", "mog-serve")["env"])
    named |= set_for(container("StatefulSet", "mog-postgres")["env"])
    block = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").split("\nENV ")[-1].split("\n\n")[0]
    named |= set(re.findall(r"(\w+)=", block))
    unknown = {name for name in named if not FOREIGN.match(name)} - read_by_the_project()
    assert unknown == set()
    # MOG_EXECUTOR among them has a value that there is.
    from mog_assets.build.automation import _EXECUTORS

    values = [one["environment"]["MOG_EXECUTOR"] for one in own().values()]
    values += [one["value"] for one in code()["env"] if one["name"] == "MOG_EXECUTOR"]
    assert set(values) <= set(_EXECUTORS)


def test_what_dagster_reads_from_the_environment_is_set_for_every_container():
    wanted = set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "dagster.yaml").read_text(encoding="utf-8")))
    assert len(wanted) == 6
    for name, one in own().items():
        assert wanted <= set(one["environment"]), name
        assert "QDRANT_URL" in one["environment"], name


@pytest.mark.whole
def test_secrets_come_from_the_environment_and_stand_in_no_file():
    text = COMPOSE.read_text(encoding="utf-8")
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    offered = set(re.findall(r"^#? ?([A-Z_]+)=", (DEPLOY / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
    assert asked <= offered and offered - asked == {"OPENAI_BASE_URL", "OPENAI_API_KEY"}
    for name, one in services().items():
        for variable, value in one.get("environment", {}).items():
            if re.search(r"PASSWORD|KEY", variable):
                assert value is None or value.startswith("${"), (name, variable)
    for line in (DEPLOY / ".env.example").read_text(encoding="utf-8").splitlines():
        assert not re.match(r"#? ?\w*(PASSWORD|KEY)=.", line)
    ignored = subprocess.run(["git", "check-ignore", "-q", "deploy/.env"], cwd=ROOT)
    assert ignored.returncode == 0


def test_nobody_is_root_and_every_service_has_a_health_check():
    recipe = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    uid = re.search(r"useradd --uid (\d+)", recipe)[1]
    assert re.search(rf"^USER {uid}:{uid}$", recipe, re.MULTILINE) and int(uid) > 0
    assert all("healthcheck" in one for one in services().values())
    assert services()["qdrant"]["image"].endswith("-unprivileged")
    pods = [
        kubernetes()[key]["spec"]["template"]["spec"] for key in kubernetes() if key[0] in ("Deployment", "StatefulSet")
    ]
    contexts = [pod["securityContext"] for pod in pods]
    contexts += [chart()[part]["podSecurityContext"] for part in ("dagsterWebserver", "dagsterDaemon")]
    contexts += [code()["podSecurityContext"]]
    launched = chart()["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    contexts.append(launched["podSpecConfig"]["securityContext"])
    assert all(one["runAsNonRoot"] is True and one["runAsUser"] > 0 for one in contexts)
    ours = {one["runAsUser"] for one in contexts} - {999}
    assert ours == {int(uid)}


def copied_by_the_image():
    """Targets of COPY in the last stage, and folders that it makes."""
    last = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[-1].replace("\\\n", " ")
    targets = set()
    for line in re.findall(r"^COPY (.*)$", last, re.MULTILINE):
        *sources, target = [word for word in line.split() if not word.startswith("--")]
        for source in sources:
            if "--from" not in line:
                assert (ROOT / source).exists(), source
            targets.add(target + Path(source).name if target.endswith("/") else target)
    return targets | set(re.search(r"install -d [^/]*(/[^\n]*)", last)[1].split())


def test_every_path_is_in_the_image_or_mounted():
    there = copied_by_the_image()
    assert {"/opt/dagster/dagster_home/dagster.yaml", "/etc/mog/workspace.yaml", "/var/lib/mog"} <= there
    settings = config.load(DEPLOY / "mog.yaml")
    assert str(settings.home) == "/var/lib/mog"
    (path,) = [str(corpus.path) for corpus in settings.corpora.values()]
    for name, one in own().items():
        mounts = {re.sub(r"\$\{[^}]*\}", "X", text).split(":")[1] for text in one["volumes"]}
        assert mounts == {"/var/lib/mog", "/etc/mog/mog.yaml", "/srv/documents"}, name
        used = [word for word in one["command"] if word.startswith("/")] + [one["environment"]["MOG_LOGS"]]
        assert all(any(place == p or place.startswith(f"{p}/") for p in there | mounts) for place in used)
    assert path in there
    for mounted in (code()["volumeMounts"], container("Deployment", "mog-serve")["volumeMounts"]):
        assert {one["mountPath"] for one in mounted} == {"/var/lib/mog", "/etc/mog/mog.yaml", path}
    recipe = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert f"DAGSTER_HOME={chart()['global']['dagsterHome']} " in recipe and "MOG_CONFIG=/etc/mog/mog.yaml" in recipe
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        assert not line.startswith("!") or (ROOT / line[1:]).exists(), line


def test_services_find_each_other():
    (server,) = (one["grpc_server"] for one in loaded(DEPLOY / "workspace.yaml")[0]["load_from"])
    command = services()[server["host"]]["command"]
    assert command[command.index("--port") + 1] == str(server["port"])
    assert own()["code"]["environment"]["DAGSTER_POSTGRES_HOST"] in services()
    assert re.match(r"http://(\w+):6333$", own()["code"]["environment"]["QDRANT_URL"])[1] in services()
    password = chart()["global"]["postgresqlSecretName"]
    given = {one["name"]: one for one in container("StatefulSet", "mog-postgres")["env"]}
    assert given["POSTGRES_PASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": password, "key": "postgresql-password"}
    assert chart()["postgresql"]["postgresqlHost"] == kubernetes()["Service", "mog-postgres"]["metadata"]["name"]
    assert given["POSTGRES_USER"]["value"] == chart()["postgresql"]["postgresqlUsername"]
    claims = {name for kind, name in kubernetes() if kind == "PersistentVolumeClaim"}
    pods = [code(), kubernetes()["Deployment", "mog-serve"]["spec"]["template"]["spec"]]
    for pod in pods:
        used = {v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v}
        assert used == claims
        assert [v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v] == ["mog-config"]
    secrets = {
        code()["envSecrets"][0]["name"],
        loaded(DEPLOY / "kubernetes/qdrant.yaml")[0]["apiKey"]["valueFrom"]["secretKeyRef"]["name"],
    }
    assert secrets == {container("Deployment", "mog-serve")["envFrom"][0]["secretRef"]["name"]}


def test_versions_are_those_that_the_tests_pass_with():
    pinned = dict(
        re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    project = mog_assets.__version__
    assert {one["image"] for one in own().values()} == {f"mog-assets:{project}"}
    assert code()["image"]["tag"] == project == container("Deployment", "mog-serve")["image"].rpartition(":")[2]
    page = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
    assert re.search(r"dagster/dagster --version (\S+)", page)[1] == pinned["dagster"]
    # A client works with servers whose minor version is at most one away.
    minor = int(pinned["qdrant-client"].split(".")[1])
    server = re.search(r":v1\.(\d+)\.\d+-", services()["qdrant"]["image"])[1]
    installed = re.search(r"qdrant/qdrant --version 1\.(\d+)", page)[1]
    assert server == installed and abs(minor - int(server)) <= 1


def test_dagster_has_our_settings_in_every_deployment():
    ours = loaded(ROOT / "mog_assets/dagster.yaml")[0]
    deployed = loaded(DEPLOY / "dagster.yaml")[0]
    assert {key: deployed[key] for key in ours} == ours
    limits = chart()["concurrency"]
    assert limits["pools"] == {"defaultLimit": ours["concurrency"]["pools"]["default_limit"], "granularity": "run"}
    assert limits["runs"]["maxConcurrentRuns"] == ours["concurrency"]["runs"]["max_concurrent_runs"]
    monitoring = chart()["dagsterDaemon"]["runMonitoring"]
    assert monitoring["freeSlotsAfterRunEndSeconds"] == ours["run_monitoring"]["free_slots_after_run_end_seconds"]
    assert chart()["postgresql"]["postgresqlScheme"] == deployed["storage"]["postgres"]["postgres_db"]["scheme"]
