"""What the retrievers for LangChain, LlamaIndex and Haystack have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError
from mog_assets.serve import project as opening
from mog_assets.serve.project import Project
from mog_assets.serve.results import Passage


class ProjectRetriever:
    """A project, and how it is asked unless a question says otherwise.

    Args:
        config: Path of `mog.yaml`, or an open project; None for what `mog_assets.open` finds.
        options: Arguments of `Project.search`; None stands for its default.
    """

    def __init__(self, config: str | Path | Project | None, **options: Any) -> None:
        self._config, self._options = config, options
        self._project = config if isinstance(config, Project) else None
        self._alone = Lock()

    @property
    def project(self) -> Project:
        """The project, opened when it is first used."""
        with self._alone:
            if self._project is None:
                assert not isinstance(self._config, Project)
                self._project = opening.open(self._config)
            return self._project

    def passages(self, question: str, **changes: Any) -> list[Passage]:
        """Return the best passages; `changes` that are not None replace what was said at the start."""
        options = {**self._options, **{name: value for name, value in changes.items() if value is not None}}
        options = {name: value for name, value in options.items() if value is not None}
        return self.project.search(question, **options).passages

    def saved(self) -> dict[str, Any]:
        """Return the arguments that make the same retriever, as JSON values.

        Raises:
            ConfigError: it was made from an open project.
        """
        if isinstance(self._config, Project):
            raise ConfigError("config: expected the path of mog.yaml of a retriever that is saved, got an open project")
        corpora: Sequence[str] | None = self._options.get("corpora")
        where: Mapping[str, Any] | None = self._options.get("where")
        return {
            **self._options,
            "config": None if self._config is None else str(self._config),
            "corpora": None if corpora is None else list(corpora),
            "where": None if where is None else dict(where),
        }


def identity(passage: Passage) -> str:
    """Return a passage's id: where it stands, the same for every question, as in `garden/garlic#120-560`."""
    places: dict[str, list[str]] = {}
    for span in passage.spans:
        places.setdefault(f"{quote(span.corpus)}/{quote(span.document)}", []).append(f"{span.start}-{span.end}")
    return " ".join(f"{place}#{','.join(spans)}" for place, spans in places.items())


def facts(passage: Passage) -> dict[str, Any]:
    """Return all that is known of a passage but its text, as JSON values; the document's metadata under `metadata`."""
    return {name: value for name, value in passage.to_json().items() if name not in ("text", "explanation")}


def missing(error: ModuleNotFoundError) -> ImportError:
    """Return the error for a package that is not installed."""
    return ImportError(f"No package {error.name}: install it with `{extras.command(error.name or '')}`")
