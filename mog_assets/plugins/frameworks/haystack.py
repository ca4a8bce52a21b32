"""A retriever for Haystack."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mog_assets.plugins.frameworks.retrievers import ProjectRetriever, facts, identity, missing
from mog_assets.serve.project import Project
from mog_assets.serve.results import Passage

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError as error:
    raise missing(error) from error


@component
class MogRetriever:
    """The best passages of a project as Haystack documents.

    A pipeline with it can be saved if it was made from the path of a `mog.yaml`.

    Args:
        config: Path of `mog.yaml`, or an open project; None for `MOG_CONFIG`, else `mog.yaml` in the working directory.
        budget, k, method, corpora, where: See `Project.search`.

    Example:
        documents = MogRetriever("mog.yaml", k=3).run(query="How deep is garlic planted?")["documents"]
    """

    def __init__(
        self,
        config: str | Path | Project | None = None,
        budget: int | str | None = None,
        k: int | None = None,
        method: str | None = None,
        corpora: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> None:
        self._retriever = ProjectRetriever(config, budget=budget, k=k, method=method, corpora=corpora, where=where)

    @property
    def project(self) -> Project:
        """The project that is searched; close it when you are done."""
        return self._retriever.project

    def warm_up(self) -> None:
        """Open the project, so that the first question is not slow."""
        _ = self.project

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        budget: int | str | None = None,
        k: int | None = None,
        method: str | None = None,
        corpora: list[str] | None = None,
        where: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """Return the best passages for a question; options replace those of the constructor.

        Returns:
            `documents`: best first.
        """
        passages = self._retriever.passages(query, budget=budget, k=k, method=method, corpora=corpora, where=where)
        return {"documents": [_document(passage) for passage in passages]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        budget: int | str | None = None,
        k: int | None = None,
        method: str | None = None,
        corpora: list[str] | None = None,
        where: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """Do as `run`, while other components work."""
        return await asyncio.to_thread(self.run, query, budget, k, method, corpora, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the component as JSON values.

        Raises:
            ConfigError: it was made from an open project.
        """
        return default_to_dict(self, **self._retriever.saved())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MogRetriever:
        """Return the component that `to_dict` told of."""
        return default_from_dict(cls, data)


def _document(passage: Passage) -> Document:
    metadata = {name: value for name, value in facts(passage).items() if name != "score"}
    return Document(id=identity(passage), content=passage.text, meta=metadata, score=passage.score)
