"""What `mog doctor` finds of the machine: packages, models, servers, limits."""

from __future__ import annotations

import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mog_assets.cli.findings import OK, PROBLEM, WARNING, Finding
from mog_assets.config import AnsweringSettings, Settings
from mog_assets.resources import extras
from mog_assets.serve import descriptors

_SECONDS = 4.0
# Each bucket being read keeps several files open, and so does what plugins open.
_FILES = 1024


def packages() -> Iterator[Finding]:
    """Compare installed packages with the required versions; of extras, those that are there."""
    from packaging.requirements import Requirement

    requirements = [Requirement(text) for text in metadata.requires(extras.DISTRIBUTION) or ()]
    wrong, checked = [], 0
    # `mog-assets[all]` and the like are names of what stands there anyway.
    for requirement in (one for one in requirements if one.name != extras.DISTRIBUTION):
        plain = _plain(requirement)
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wrong.append(Finding("packages", PROBLEM, f"{requirement.name} is missing", f"pip install '{plain}'"))
            continue
        checked += 1
        if not requirement.specifier.contains(version, prereleases=True):
            said = f"{requirement.name} {version}, expected {requirement.specifier}"
            wrong.append(Finding("packages", PROBLEM, said, f"pip install '{plain}'"))
    yield from wrong
    if not wrong:
        said = f"mog-assets {metadata.version(extras.DISTRIBUTION)} and {checked} packages that it names"
        yield Finding("packages", OK, f"{said}, Python {sys.version.split()[0]} ({sys.executable})")


def _plain(requirement: Any) -> str:
    """A requirement in pip's notation, without its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def torch_build(settings: Settings | None) -> Iterator[Finding]:
    """Check the build of torch and the device it finds."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    if torch.cuda.is_available():
        yield Finding("torch", OK, f"{torch.__version__} ({build}), device {torch.cuda.get_device_name(0)}")
        return
    said = f"{torch.__version__} ({build}), device CPU with {torch.get_num_threads()} threads"
    version = torch.__version__.split("+")[0]
    remedy = f"pip install torch=={version} --index-url https://download.pytorch.org/whl/cu130"
    if settings is not None and settings.encoder.device == "cuda":
        yield Finding("torch", PROBLEM, f"{said}, but encoder.device is cuda", f"set it to auto, or {remedy}")
    elif Path("/proc/driver/nvidia/version").exists() and not torch.version.cuda:
        yield Finding("torch", WARNING, f"{said}, but there is an NVIDIA GPU", remedy)
    else:
        yield Finding("torch", OK, said)


def encoder(settings: Settings | None) -> Iterator[Finding]:
    """Check that the sentence encoder loads, without downloading it."""
    from mog_assets.resources.encoder import Encoder
    from mog_assets.resources.encoder_settings import EncoderSettings
    from mog_assets.resources.registry import ENCODERS

    chosen = settings.encoder if settings is not None else EncoderSettings()
    local = chosen.served or chosen.model in ENCODERS
    if not local and not Path(chosen.model).expanduser().is_dir():
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(chosen.model, "config.json"), str):
            offline = bool(os.environ.get("HF_HUB_OFFLINE"))
            remedy = "unset HF_HUB_OFFLINE, or name a folder" if offline else "`mog run` downloads it (needs a network)"
            state = PROBLEM if offline else WARNING
            yield Finding("encoder", state, f"{chosen.model} is not a local folder and not downloaded yet", remedy)
            return
    one = Encoder(chosen)
    one.encode(["Does it load?"])
    yield Finding("encoder", OK, f"{one.model.said}: vectors of size {one.size}")


def engine(settings: Settings) -> Iterator[Finding]:
    """Connect to the machines of the engine, if it has others, and have each read and write the home folder."""
    from mog_assets.resources.engine import open_engine

    chosen = open_engine(settings.engine, settings.home)
    if chosen.elsewhere:
        yield Finding("engine", OK, chosen.describe())


def model(settings: Settings | None) -> Iterator[Finding]:
    """Check that the language model's endpoint answers and accepts the key, with requests that cost nothing."""
    from mog_assets.resources.llm import LlmSettings, OpenAIModel

    wanted = settings is not None and settings.asks_a_model
    key = os.environ.get("OPENAI_API_KEY")
    if not wanted and not key and not os.environ.get("OPENAI_BASE_URL"):
        by = settings.answering.reader if settings is not None else AnsweringSettings().reader
        yield Finding("model", OK, f"not needed: the {by} reader answers questions")
        return
    state = PROBLEM if wanted else WARNING
    chosen = settings.llm if settings is not None else LlmSettings()
    place = OpenAIModel(chosen, 0, None).endpoint
    if not key:
        remedy = "set OPENAI_API_KEY; an endpoint without keys accepts any text"
        yield Finding("model", state, f"{place}: no OPENAI_API_KEY", remedy)
        return
    status, body = get(f"{place}/models", {"Authorization": f"Bearer {key}"})
    if status == 200:
        names = re.findall(r'"id":\s*"([^"]+)"', body)
        if names and chosen.model not in names:
            remedy = f"set llm.model to one of {', '.join(sorted(names)[:5])}"
            yield Finding("model", state, f"{place} accepts the key, but does not list {chosen.model}", remedy)
        else:
            yield Finding("model", OK, f"{chosen.model} at {place}: the key is accepted")
    elif status in (401, 403):
        yield Finding("model", state, f"{place} does not accept OPENAI_API_KEY ({status})", "set it to one of its keys")
    elif status in (404, 405):
        said = f"{place} answers but lists no models ({status}): the key was not checked"
        yield Finding("model", WARNING, said, "OPENAI_BASE_URL usually ends in /v1")
    else:
        remedy = "start it, or correct OPENAI_BASE_URL"
        yield Finding("model", state, f"{place}: {body if status is None else f'status {status}'}", remedy)


def get(url: str, headers: Mapping[str, str]) -> tuple[int | None, str]:
    """Status and body of the response of a URL, or None and the reason if it does not answer within a few seconds."""
    try:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - the user's own endpoint
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:  # noqa: S310
            return response.status, response.read(1_000_000).decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return None, f"no answer ({' '.join(str(reason).split())})"


def dagster(settings: Settings | None = None) -> Iterator[Finding]:
    """Check that Dagster's records can be opened, wherever they are, and the package of the executor."""
    executor = {"k8s_job": "dagster_k8s", "ray": "dagster_ray"}.get(os.environ.get("MOG_EXECUTOR", ""))
    if executor and find_spec(executor) is None:
        remedy = extras.command(executor)
        yield Finding("dagster", PROBLEM, f"MOG_EXECUTOR={os.environ['MOG_EXECUTOR']} needs {executor}", remedy)
    named, version = os.environ.get("DAGSTER_HOME"), metadata.version("dagster")
    folder = Path(named) if named else settings.home / "dagster" if settings is not None else None
    if named and not (os.path.isabs(named) and os.path.isdir(named) and os.access(named, os.W_OK)):
        said = f"DAGSTER_HOME={named} is not the absolute path of a writable folder"
        yield Finding("dagster", PROBLEM, said, "make the folder, or unset DAGSTER_HOME")
    elif folder is None or not (folder / "dagster.yaml").exists():
        yield Finding("dagster", OK, f"{version}, records in SQLite in {folder or 'the home folder'}")
    else:
        from sqlalchemy import make_url

        from mog_assets.build.records import opened_instance, readable_errors

        with readable_errors(folder), opened_instance(folder) as instance:
            instance.get_runs_count()
            server = getattr(instance.run_storage, "postgres_url", None)
        url = make_url(server) if server else None
        place = f"Postgres at {url.host}:{url.port or 5432}, database {url.database}" if url else f"SQLite in {folder}"
        yield Finding("dagster", OK, f"{version}, records in {place}")


def open_files() -> Iterator[Finding]:
    """Check how many files a process may open, and how many connections of `mog serve` that leaves room for."""
    if not descriptors.LIMITED:
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fit, wanted = descriptors.fitting(descriptors.CONNECTIONS), descriptors.needed(descriptors.CONNECTIONS)
    said = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,} per process"
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        remedy = f"ulimit -n {_FILES}" if hard == resource.RLIM_INFINITY or hard >= _FILES else "ask for a higher limit"
        yield Finding("open files", WARNING, f"{said}, expected at least {_FILES:,}", remedy)
    elif fit < descriptors.CONNECTIONS:
        said += f": `mog serve` answers {max(0, fit):,} requests at a time, not {descriptors.CONNECTIONS:,}"
        yield Finding("open files", WARNING, said, f"ask for a hard limit of {wanted:,}")
    else:
        raised = soft != resource.RLIM_INFINITY and soft < wanted
        yield Finding("open files", OK, f"{said}; `mog serve` raises it to {wanted:,}" if raised else said)
