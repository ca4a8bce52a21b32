"""A retriever for LangChain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from mog_assets.plugins.frameworks.retrievers import ProjectRetriever, facts, identity, missing
from mog_assets.serve.project import Project

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import run_in_executor
except ModuleNotFoundError as error:
    raise missing(error) from error


class MogRetriever(BaseRetriever):
    """The best passages of a project as LangChain documents.

    `invoke`, `ainvoke`, `batch` and `abatch` take the same options as the constructor, for one call. The score and all
    else that is known of a passage is in `Document.metadata`; the metadata of its document is there under `metadata`.

    Attributes:
        config: Path of `mog.yaml`, or an open project; None for `MOG_CONFIG`, else `mog.yaml` in the working directory.
        budget, k, method, corpora, where: See `Project.search`.

    Example:
        documents = MogRetriever(config="mog.yaml", k=3).invoke("How deep is garlic planted?")
    """

    config: str | Path | Project | None = None
    budget: int | str | None = None
    k: int | None = None
    method: str | None = None
    corpora: Sequence[str] | None = None
    where: Mapping[str, Any] | None = None
    _retriever: ProjectRetriever = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Name the project; it is opened for the first question."""
        self._retriever = ProjectRetriever(self.config)

    @property
    def project(self) -> Project:
        """The project that is searched; close it when you are done."""
        return self._retriever.project

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        budget: int | str | None = None,
        k: int | None = None,
        method: str | None = None,
        corpora: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        given = {"budget": budget, "k": k, "method": method, "corpora": corpora, "where": where}
        options = {name: getattr(self, name) if value is None else value for name, value in given.items()}
        passages = self._retriever.passages(query, **options)
        return [Document(id=identity(p), page_content=p.text, metadata=facts(p)) for p in passages]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **changes: Any
    ) -> list[Document]:
        manager = run_manager.get_sync()
        return await run_in_executor(None, self._get_relevant_documents, query, run_manager=manager, **changes)
