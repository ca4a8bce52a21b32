"""What `mog doctor` finds of a project: its settings, documents, sources, home."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mog_assets import config
from mog_assets.cli import forecast
from mog_assets.cli.documents import left_out
from mog_assets.cli.findings import OK, PROBLEM, WARNING, Finding
from mog_assets.config import Settings
from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError, MogError

_GIB = 2**30
# With this share of documents in another language, it is told what knows English alone.
_OTHERS = 0.01


def configuration(path: str | None) -> tuple[Settings | None, Finding]:
    """The settings, None if they cannot be read, and whether `mog run` accepts them."""
    source, settings = config.file(path), None
    if not (source.exists() or path or os.environ.get(config.CONFIG_VARIABLE)):
        return None, Finding("configuration", WARNING, f"no {source.name} here", "`mog init FOLDER` writes one")
    try:
        settings = config.load(path)
        from mog_assets.build.plan import graph

        # Names of methods are checked here, by `mog run` too.
        graph(settings)
    except ModuleNotFoundError as error:
        return settings, Finding("configuration", OK, f"{source}; {extras.said(error, 'what it builds')}")
    except ConfigError as error:
        return settings, Finding("configuration", PROBLEM, str(error), "correct the file")
    return settings, Finding("configuration", OK, str(source))


def documents(settings: Settings) -> Iterator[Finding]:
    """Check that local corpora and question sets exist and can be read."""
    from mog_assets.questions.formats import used_columns

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
    for said in left_out(settings):
        yield Finding("documents", WARNING, said)


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
        said = f"corpora.{name}: {len(items) - refused:,} items to read from {corpus.source[:100]} ({took:.1f} s)"
        said += f", {refused:,} that cannot be" if refused else ""
        if len(items) > refused:
            yield Finding("sources", OK, said)
        else:
            yield Finding("sources", WARNING, said, "correct the address, or add documents")


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
    said = ", ".join(f"{name_of(code)} {count:,}" for code, count in counts.most_common(5))
    others = [c for c, count in counts.most_common() if c not in ("", DEFAULT) and count >= _OTHERS * counts.total()]
    # What knows English alone, and what becomes of other questions.
    english: dict[str, str] = {}
    encoder = settings.encoder
    if others and encoder.model == EMBEDDED and not encoder.served:
        english[f"encoder {EMBEDDED}"] = "searched for by their words"
    if others and settings.answering.reader == "neural":
        english["neural reader"] = "answered with passages"
    if not english:
        yield Finding("languages", OK, f"{said} documents")
        return
    found = f"{said} documents, but {' and '.join(english)} know English alone: "
    found += f"questions in {', '.join(map(name_of, others))} are {' and '.join(english.values())}"
    such = "".join(f", such as `encoder: {other.name}`" for other in encoders_of_languages()[:1])
    remedy = f"docs/languages.md has what else there is{such}"
    yield Finding("languages", WARNING, found, remedy)


def home(settings: Settings | None, base: Path) -> Iterator[Finding]:
    """Check that the home folder is writable and that the disk has room for the corpora."""
    folder = settings.home if settings is not None else base
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as stream:
            stream.write(b"mog")
    except OSError as error:
        said = f"{folder} is not writable ({error.strerror})"
        yield Finding("home", PROBLEM, said, "change its owner, or set another `home`")
        return
    free = shutil.disk_usage(existing).free
    texts = forecast.characters(settings, settings.corpora) if settings is not None else 0
    need = forecast.disk(texts)
    said = f"{folder}: {_gib(free)} free"
    if settings is not None:
        said += f"; {_gib(texts)} of text take about {_gib(need)}"
    if free >= need:
        yield Finding("home", OK, said)
    elif (folder / "store").exists():
        yield Finding("home", WARNING, f"{said}, part of it already used", "free some space before you add documents")
    else:
        yield Finding("home", PROBLEM, said, "free some space, or set another `home`")


def _gib(size: float) -> str:
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB / 10 else f"{size / 2**20:,.1f} MiB"
