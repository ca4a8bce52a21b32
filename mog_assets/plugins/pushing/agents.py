"""The tool `push` of the MCP server, where it is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from mog_assets.registry import MCP_TOOLS

Ids = Annotated[Sequence[str], Field(description="Ids of documents, without their corpus.")]


class Note(BaseModel):
    """A document that an agent puts into a corpus."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(description="Its id: it replaces the document that has it.")
    text: str = Field(description="Its text.")
    title: str = Field("", description="Its title.")
    metadata: dict[str, Any] = Field({}, description="JSON values, to filter by.")


Notes = Annotated[Sequence[Note], Field(description="Documents.")]


class Taken(BaseModel):
    """Result of `push`: how many documents are new, changed or gone."""

    changed: int


def add_push(mcp_server: MCPServer, agents: Any) -> None:
    """Add the tool, if callers may push; an authorizer says for each call who may."""

    async def push(corpus: str, ctx: Context, put: Notes = (), delete: Ids = ()) -> Taken:
        """Put documents into a corpus that takes them, and delete some: all or none. They are found after a run."""

        def work() -> Taken:
            rows = [note.model_dump() for note in put]
            return Taken(changed=agents.project_for(ctx).push(corpus, rows, list(delete)))

        taken: Taken = await agents.run_tool(agents.documents, work)
        return taken

    authorizer = agents.project.authorizer
    if "push" in agents.options.flags or authorizer is not None and authorizer.pushes:
        mcp_server.add_tool(push, annotations=ToolAnnotations(destructive_hint=True, idempotent_hint=True))


MCP_TOOLS.register("push", add_push)
