"""A retriever for LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mog_assets.plugins.frameworks.retrievers import ProjectRetriever, facts, identity, missing
from mog_assets.serve.project import Project
from mog_assets.serve.results import Passage

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ModuleNotFoundError as error:
    raise missing(error) from error

# What a language model is told of a passage besides its text; the rest is for programs.
_METADATA = ("title", "page", "headings", "source")


class MogRetriever(BaseRetriever):
    """The best passages of a project as LlamaIndex nodes with scores.

    Args:
        config: Path of `mog.yaml`, or an open project; None for `MOG_CONFIG`, else `mog.yaml` in the working directory.
        budget, k, method, corpora, where: See `Project.search`.
        base: Arguments of `BaseRetriever`.

    Example:
        nodes = MogRetriever("mog.yaml", budget=2000).retrieve("How deep is garlic planted?")
    """

    def __init__(
        self,
        config: str | Path | Project | None = None,
        *,
        budget: int | str | None = None,
        k: int | None = None,
        method: str | None = None,
        corpora: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        **base: Any,
    ) -> None:
        super().__init__(**base)
        self._retriever = ProjectRetriever(config, budget=budget, k=k, method=method, corpora=corpora, where=where)

    @property
    def project(self) -> Project:
        """The project that is searched; close it when you are done."""
        return self._retriever.project

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = self._retriever.passages(query_bundle.query_str)
        return [NodeWithScore(node=_node(passage), score=passage.score) for passage in passages]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(passage: Passage) -> TextNode:
    meta = {name: value for name, value in facts(passage).items() if name != "score"}
    others = [name for name in meta if name not in _METADATA or not meta[name]]
    source = RelatedNodeInfo(node_id=f"{passage.corpus}/{passage.document}", metadata={"title": passage.title})
    return TextNode(
        id_=identity(passage),
        text=passage.text,
        metadata=meta,
        excluded_llm_metadata_keys=others,
        excluded_embed_metadata_keys=others,
        start_char_idx=passage.start,
        end_char_idx=passage.end,
        relationships={NodeRelationship.SOURCE: source},
    )
