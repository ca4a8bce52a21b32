"""Tools for agents by the Model Context Protocol: `search`, `fetch` and `ask`, and those that are registered.

Names and results of the first two are those that ChatGPT's connectors expect: platform.openai.com, "Building MCP
servers for ChatGPT".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import metadata
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from mog_assets.registry import MCP_TOOLS
from mog_assets.resources.errors import NotAllowed, NotFound
from mog_assets.serve.limits import ServerOptions
from mog_assets.serve.problems import problem_of
from mog_assets.serve.queues import Slots
from mog_assets.serve.results import Document, Likeliest, Passage, page_of

T = TypeVar("T")

_SPANS = re.compile(r"\d{1,12}-\d{1,12}(?:,\d{1,12}-\d{1,12})*")
Spans = list[tuple[int, int]]
_RESULTS = 10
_INSTRUCTIONS = """\
Searches a collection of documents. `search` finds passages, `fetch` gives the text of a passage or of a whole document
(its id without the part after #), `ask` writes an answer from passages."""

Question = Annotated[str, Field(description="The question, in words.")]
Corpus = Annotated[str | None, Field(description="The only corpus that is searched.")]
Most = Annotated[int, Field(ge=1, description="Most passages.")]
Id = Annotated[
    str,
    Field(description="`CORPUS/DOCUMENT#START-END`, as `search` gives it; `CORPUS/DOCUMENT` for the whole document."),
]
Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description="Documents to search, by metadata: for each name a value, a list of values, or operators (in, gt, "
        'gte, lt, lte, glob), such as {"path": {"glob": "reports/**"}, "year": {"gte": 2020}}, or '
        '{"title": {"contains": "skin"}}. An unknown name is answered with those that there are.'
    ),
]
Choices = Annotated[dict[str, str] | None, Field(description="Choices by letter, if one of them is to be chosen.")]


class Result(BaseModel):
    """A passage that was found."""

    id: str
    title: str
    url: str
    text: str


class Results(BaseModel):
    """Result of `search`."""

    results: list[Result]


class Fetched(BaseModel):
    """Result of `fetch`."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class Answered(BaseModel):
    """Result of `ask`: without an answer that is probably right, the sentence that most likely has it."""

    answer: str | None
    failure: str
    probability: float | None
    likeliest: Result | None
    method: str
    passages: list[Result]
    cited: list[str] = Field(description="Ids of the passages that the answer rests on, if it is known.")


class Agents:
    """The tools.

    Args:
        project: An open project.
        options: Limits.
        search: The queue of searches.
        answers: The queue of answers.
        documents: The queue of documents.

    Attributes:
        project: As its owner sees it.
        options: Limits.
        documents: The queue of documents.
    """

    def __init__(self, project: Any, options: ServerOptions, search: Slots, answers: Slots, documents: Slots) -> None:
        self.project, self.options = project, options
        self._search, self._answers, self.documents = search, answers, documents

    async def search(
        self, query: Question, ctx: Context, corpus: Corpus = None, k: Most = _RESULTS, where: Filter = None
    ) -> Results:
        """Find the passages that best answer a question, best first."""
        with_url = _urls(ctx, self.options)

        def work() -> Results:
            self.options.check_question("query", query)
            self.options.check_amount("k", k)
            corpora = None if corpus is None else [corpus]
            results = self.project_for(ctx).search(query, k=k, corpora=corpora, where=where)
            return Results(results=[_result(passage, with_url) for passage in results.passages])

        return await self.run_tool(self._search, work)

    async def fetch(self, id: Id, ctx: Context) -> Fetched:
        """Return the text of a passage, or of a whole document."""
        with_url = _urls(ctx, self.options)
        return await self.run_tool(self.documents, lambda: self._fetched(self.project_for(ctx), id, with_url))

    async def run_tool(self, work: Slots, function: Callable[[], T]) -> T:
        """Return the result of a tool; what goes wrong is told to the agent."""
        try:
            return await work.run(function)
        except Exception as error:
            raise ToolError(problem_of(error).detail) from None

    def project_for(self, ctx: Context) -> Any:
        """Return the project as whoever calls a tool may see it."""
        authorizer = self.project.authorizer
        # On standard input, it was said at the start who asks.
        if authorizer is None or self.project.seen_as:
            return self.project
        # The guard has checked the header of this request; the tool runs in another task.
        token = (ctx.headers or {}).get("authorization", "").partition(" ")[2].strip()
        principal = authorizer.bearer(token)
        if principal is None:
            raise NotAllowed("Authorization: expected a key or token in the request of a tool, got none that is valid")
        return self.project.as_principal(principal)

    def _fetched(self, project: Any, id: str, with_url: Callable[[str], str]) -> Fetched:
        document, spans = _document(project, id)
        length = len(document.text)
        meta: dict[str, Any] = {**document.metadata, "corpus": document.corpus, "document": document.id}
        meta["characters"] = length
        if document.source is not None:
            meta["source"] = document.source
        for start, end in spans:
            if not 0 <= start <= end <= length:
                raise NotFound(f"id: expected places from 0 to {length} in {document.corpus}/{document.id}, got {id!r}")
        spans, rest = _cut(spans or [(0, length)], self.options.budget)
        if rest:
            meta["next"] = f"{document.corpus}/{document.id}#{_written(rest)}"
        text = "\n".join(document.text[start:end] for start, end in spans)
        return Fetched(id=id, title=document.title or document.id, text=text, url=with_url(id), metadata=meta)

    async def ask(
        self,
        question: Question,
        ctx: Context,
        corpus: Corpus = None,
        options: Choices = None,
        where: Filter = None,
    ) -> Answered:
        """Answer a question from the documents, with the passages that the answer is based on."""
        with_url = _urls(ctx, self.options)

        def work() -> Answered:
            self.options.check_question("question", question)
            corpora = None if corpus is None else [corpus]
            reply = self.project_for(ctx).ask(question, options=options, corpora=corpora, where=where)
            passages = [_result(passage, with_url) for passage in reply.passages]
            best = reply.likeliest
            return Answered(
                answer=reply.answer,
                failure=reply.failure,
                probability=reply.probability,
                likeliest=None if best is None else _sentence(best, with_url),
                method=reply.method,
                passages=passages,
                cited=[passages[number - 1].id for number in reply.cited],
            )

        return await self.run_tool(self._answers, work)


def _document(project: Any, id: str) -> tuple[Document, Spans]:
    """Return the document of an id, and the places that it names."""
    corpus, _, doc = id.partition("/")
    before, mark, places = doc.rpartition("#")
    try:
        # `#` and digits may be part of a document's own id.
        return project.document(corpus, doc), []
    except NotFound:
        if not mark or not _SPANS.fullmatch(places):
            raise
    pairs = [span.split("-") for span in places.split(",")]
    return project.document(corpus, before), [(int(start), int(end)) for start, end in pairs]


def server(project: Any, options: ServerOptions, search: Slots, answers: Slots, documents: Slots) -> MCPServer:
    """Return the MCP server of an open project."""
    agents = Agents(project, options, search, answers, documents)
    mcp_server: MCPServer = MCPServer(
        "mog-assets",
        instructions=_INSTRUCTIONS,
        version=metadata.version("mog-assets"),
        log_level="WARNING",
        # Nothing here changes while it is served, so there is nothing to listen for, and no connection stays open.
        subscriptions=False,
    )
    for tool in (agents.search, agents.fetch, agents.ask):
        mcp_server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    for add in MCP_TOOLS.values():
        add(mcp_server, agents)
    return mcp_server


def _result(passage: Passage, with_url: Callable[[str], str]) -> Result:
    id = passage_id(passage)
    return Result(id=id, title=passage.title or passage.document, url=with_url(id), text=passage.text)


def _sentence(likeliest: Likeliest, with_url: Callable[[str], str]) -> Result:
    id = f"{likeliest.corpus}/{likeliest.document}#{likeliest.start}-{likeliest.end}"
    return Result(id=id, title=likeliest.document, url=with_url(id), text=likeliest.sentence)


def passage_id(passage: Passage) -> str:
    """Return `CORPUS/DOCUMENT#START-END`; of several places in the document, all."""
    spans = [span for span in passage.spans if (span.corpus, span.document) == (passage.corpus, passage.document)]
    return f"{passage.corpus}/{passage.document}#{_written([(span.start, span.end) for span in spans])}"


def _written(spans: Spans) -> str:
    return ",".join(f"{start}-{end}" for start, end in spans)


def _cut(spans: Spans, most: int) -> tuple[Spans, Spans]:
    """Return the first so many characters, and the rest."""
    first: Spans = []
    for row, (start, end) in enumerate(spans):
        if end - start > most:
            return [*first, (start, start + most)], [(start + most, end), *spans[row + 1 :]]
        first.append((start, end))
        most -= end - start
    return first, []


def _urls(ctx: Context, options: ServerOptions) -> Callable[[str], str]:
    """Return what gives an id its URL: the page of the document on this server, or a name where there is no server."""
    host = (ctx.headers or {}).get("host")
    base = options.public_url.rstrip("/") or (f"http://{host}" if host else "")

    def url(id: str) -> str:
        path, mark, places = id.rpartition("#") if _SPANS.fullmatch(id.rpartition("#")[2]) else (id, "", "")
        corpus, _, doc = path.partition("/")
        end = f"{mark}{places}"
        return page_of(base, corpus, doc, end) if base else f"mog://{quote(corpus)}/{quote(doc)}{end}"

    return url
