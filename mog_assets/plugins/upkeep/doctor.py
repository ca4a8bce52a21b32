"""`mog doctor`: what is installed and reachable, and how to fix what is missing. Each check gives findings."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mog_assets import config, registry
from mog_assets.cli.documents import left_out
from mog_assets.cli.findings import OK, PROBLEM, WARNING, Finding, get, run_check
from mog_assets.config import AnsweringSettings, Settings
from mog_assets.plugins.upkeep import forecast
from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError, MogError
from mog_assets.serve import descriptors

_GIB = 2**30
# With this share of documents in another language, it is told what knows English alone.
_OTHERS = 0.01
# Each bucket being read keeps several files open, and so does what plugins open.
_FILES = 1024


def examine(path: str | None = None) -> Iterator[Finding]:
    """Yield all findings; `path` is the value of `--config`."""
    yield from run_check("packages", packages)
    settings, finding = configuration(path)
    yield finding
    yield from run_check("torch", torch_build, settings)
    yield from run_check("encoder", encoder, settings)
    if settings is not None:
        own = {"engine": engine, "documents": documents, "sources": sources, "languages": languages}
        for item, check in (*own.items(), *registry.FINDINGS.items()):
            yield from run_check(item, check, settings)
    yield from run_check("home", home, settings, config.file(path).parent)
    for name, store in registry.VECTOR_STORES.items():
        if all(map(_is_installed, store.packages)) if settings is None else store.used(settings):
            yield from run_check(name, store.findings)
    yield from run_check("model", model, settings)
    yield from run_check("dagster", dagster, settings)
    yield from run_check("open files", open_files)


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
            message = f"{requirement.name} {version}, expected {requirement.specifier}"
            wrong.append(Finding("packages", PROBLEM, message, f"pip install '{plain}'"))
    yield from wrong
    if not wrong:
        message = f"mog-assets {metadata.version(extras.DISTRIBUTION)} and {checked} packages that it names"
        yield Finding("packages", OK, f"{message}, Python {sys.version.split()[0]} ({sys.executable})")


def _is_installed(package: str) -> bool:
    """Return whether a package is there, in any version."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _plain(requirement: Any) -> str:
    """Return a requirement in pip's notation, without its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def torch_build(settings: Settings | None) -> Iterator[Finding]:
    """Check the build of torch and the device it finds."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    if torch.cuda.is_available():
        yield Finding("torch", OK, f"{torch.__version__} ({build}), device {torch.cuda.get_device_name(0)}")
        return
    message = f"{torch.__version__} ({build}), device CPU with {torch.get_num_threads()} threads"
    version = torch.__version__.split("+")[0]
    remedy = f"pip install torch=={version} --index-url https://download.pytorch.org/whl/cu130"
    if settings is not None and settings.encoder.device == "cuda":
        yield Finding("torch", PROBLEM, f"{message}, but encoder.device is cuda", f"set it to auto, or {remedy}")
    elif Path("/proc/driver/nvidia/version").exists() and not torch.version.cuda:
        yield Finding("torch", WARNING, f"{message}, but there is an NVIDIA GPU", remedy)
    else:
        yield Finding("torch", OK, message)


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
    yield Finding("encoder", OK, f"{one.model.description}: vectors of size {one.size}")


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
        message = f"{place} answers but lists no models ({status}): the key was not checked"
        yield Finding("model", WARNING, message, "OPENAI_BASE_URL usually ends in /v1")
    else:
        remedy = "start it, or correct OPENAI_BASE_URL"
        yield Finding("model", state, f"{place}: {body if status is None else f'status {status}'}", remedy)


def dagster(settings: Settings | None = None) -> Iterator[Finding]:
    """Check that Dagster's records can be opened, wherever they are, and the package of the executor."""
    executor = {"k8s_job": "dagster_k8s", "ray": "dagster_ray"}.get(os.environ.get("MOG_EXECUTOR", ""))
    if executor and find_spec(executor) is None:
        remedy = extras.command(executor)
        yield Finding("dagster", PROBLEM, f"MOG_EXECUTOR={os.environ['MOG_EXECUTOR']} needs {executor}", remedy)
    named, version = os.environ.get("DAGSTER_HOME"), metadata.version("dagster")
    folder = Path(named) if named else settings.home / "dagster" if settings is not None else None
    if named and not (os.path.isabs(named) and os.path.isdir(named) and os.access(named, os.W_OK)):
        message = f"DAGSTER_HOME={named} is not the absolute path of a writable folder"
        yield Finding("dagster", PROBLEM, message, "make the folder, or unset DAGSTER_HOME")
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
    message = "no limit" if soft == resource.RLIM_INFINITY else f"{soft:,} per process"
    if soft != resource.RLIM_INFINITY and soft < _FILES:
        remedy = f"ulimit -n {_FILES}" if hard == resource.RLIM_INFINITY or hard >= _FILES else "ask for a higher limit"
        yield Finding("open files", WARNING, f"{message}, expected at least {_FILES:,}", remedy)
    elif fit < descriptors.CONNECTIONS:
        message += f": `mog serve` answers {max(0, fit):,} requests at a time, not {descriptors.CONNECTIONS:,}"
        yield Finding("open files", WARNING, message, f"ask for a hard limit of {wanted:,}")
    else:
        raised = soft != resource.RLIM_INFINITY and soft < wanted
        yield Finding("open files", OK, f"{message}; `mog serve` raises it to {wanted:,}" if raised else message)


def configuration(path: str | None) -> tuple[Settings | None, Finding]:
    """Return the settings, None if they cannot be read, and whether `mog run` accepts them."""
    source, settings = config.file(path), None
    if not (source.exists() or path or os.environ.get(config.CONFIG_VARIABLE)):
        return None, Finding("configuration", WARNING, f"no {source.name} here", "`mog init FOLDER` writes one")
    try:
        settings = config.load(path)
        from mog_assets.build.plan import graph

        # Names of methods are checked here, by `mog run` too.
        graph(settings)
    except ModuleNotFoundError as error:
        return settings, Finding("configuration", OK, f"{source}; {extras.missing_package(error, 'what it builds')}")
    except ConfigError as error:
        return settings, Finding("configuration", PROBLEM, str(error), "correct the file")
    return settings, Finding("configuration", OK, str(source))


def documents(settings: Settings) -> Iterator[Finding]:
    """Check that local corpora and question sets exist and can be read."""
    from mog_assets.questions.records import used_columns

    # Of what comes from elsewhere, a run makes copies.
    places = {f"corpora.{name}": corpus.path for name, corpus in settings.corpora.items() if corpus.source is None}
    sets = settings.question_sets
    places |= {
        f"question_sets.{name}": question_set.path
        for name, question_set in sets.items()
        if question_set.path is not None
    }
    missing = {key: place for key, place in places.items() if not os.access(place, os.R_OK)}
    for key, place in missing.items():
        yield Finding("documents", PROBLEM, f"{key}: {place} is missing or not readable", "correct its path")
    wrong = []
    for name, question_set in sets.items():
        if question_set.path is not None and f"question_sets.{name}" not in missing:
            try:
                used_columns(question_set.path, question_set.columns)
            except MogError as error:
                wrong.append(Finding("documents", PROBLEM, f"question_sets.{name}.path: {error}"))
    yield from wrong
    if not (missing or wrong):
        yield Finding("documents", OK, f"corpora: {len(settings.corpora)}; question sets: {len(sets)}")
    for message in left_out(settings):
        yield Finding("documents", WARNING, message)


def sources(settings: Settings) -> Iterator[Finding]:
    """Look at what is not a local file as a run does: at a bucket, a site, a repository, a query."""
    from mog_assets.documents.sources import listed

    for name, corpus in settings.corpora.items():
        if corpus.source is None:
            continue
        started = time.perf_counter()
        try:
            items = listed(name, corpus.source)
        except MogError as error:
            yield Finding("sources", PROBLEM, " ".join(str(error).split()))
            continue
        took, refused = time.perf_counter() - started, sum(bool(each.refusal) for each in items.values())
        message = f"corpora.{name}: {len(items) - refused:,} items to read from {corpus.source[:100]} ({took:.1f} s)"
        message += f", {refused:,} that cannot be" if refused else ""
        if len(items) > refused:
            yield Finding("sources", OK, message)
        else:
            yield Finding("sources", WARNING, message, "correct the address, or add documents")


def languages(settings: Settings) -> Iterator[Finding]:
    """Say which languages the documents have, as far as they have been read, and which parts do not know them."""
    from mog_assets.resources.encoder_settings import EMBEDDED, encoders_of_languages
    from mog_assets.resources.store import Store
    from mog_assets.text.languages import DEFAULT, name_of

    counts: Counter[str] = Counter()
    for corpus in settings.corpora:
        if (stored := Store(settings.home).find("documents", corpus)) is not None:
            counts.update(stored.manifest.info.get("languages", {}))
    if not counts:
        yield Finding("languages", OK, "no document has been read yet: `mog run` says which languages they have")
        return
    message = ", ".join(f"{name_of(code)} {count:,}" for code, count in counts.most_common(5))
    others = [c for c, count in counts.most_common() if c not in ("", DEFAULT) and count >= _OTHERS * counts.total()]
    # What knows English alone, and what becomes of other questions.
    english: dict[str, str] = {}
    encoder = settings.encoder
    if others and encoder.model == EMBEDDED and not encoder.served:
        english[f"encoder {EMBEDDED}"] = "searched for by their words"
    if others and settings.answering.reader == "neural":
        english["neural reader"] = "answered with passages"
    if not english:
        yield Finding("languages", OK, f"{message} documents")
        return
    message = f"{message} documents, but {' and '.join(english)} know English alone: "
    message += f"questions in {', '.join(map(name_of, others))} are {' and '.join(english.values())}"
    such = "".join(f", such as `encoder: {other.name}`" for other in encoders_of_languages()[:1])
    remedy = f"docs/languages.md has what else there is{such}"
    yield Finding("languages", WARNING, message, remedy)


def home(settings: Settings | None, base: Path) -> Iterator[Finding]:
    """Check that the home folder is writable and that the disk has room for the corpora."""
    folder = settings.home if settings is not None else base
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as stream:
            stream.write(b"mog")
    except OSError as error:
        message = f"{folder} is not writable ({error.strerror})"
        yield Finding("home", PROBLEM, message, "change its owner, or set another `home`")
        return
    free = shutil.disk_usage(existing).free
    texts = forecast.characters(settings, settings.corpora) if settings is not None else 0
    need = forecast.disk(texts)
    message = f"{folder}: {_gib(free)} free"
    if settings is not None:
        message += f"; {_gib(texts)} of text take about {_gib(need)}"
    if free >= need:
        yield Finding("home", OK, message)
    elif (folder / "store").exists():
        yield Finding(
            "home", WARNING, f"{message}, part of it already used", "free some space before you add documents"
        )
    else:
        yield Finding("home", PROBLEM, message, "free some space, or set another `home`")


def _gib(size: float) -> str:
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB / 10 else f"{size / 2**20:,.1f} MiB"
