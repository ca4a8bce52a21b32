"""The HTTP server's application: its routes and what stands in front of them."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from mog_assets.config.budget import Budget, Written
from mog_assets.registry import ROUTES
from mog_assets.resources.errors import MogError
from mog_assets.search.quotes import phrases
from mog_assets.serve import files
from mog_assets.serve.connections import Connections
from mog_assets.serve.guards import Guard
from mog_assets.serve.limits import CHOICES, MOST_TURNS, NAME_CHARS, NAMES, ServerOptions
from mog_assets.serve.observed import Metrics, Observed
from mog_assets.serve.problems import Problem, problem_of
from mog_assets.serve.queues import BatchedSearches, Slots, Stream

Name = Annotated[str, Field(max_length=NAME_CHARS)]
Letter = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,8}$")]


class Searched(BaseModel):
    """Body of a request for passages or an answer."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str = Field(description="The question, in words.")
    corpora: list[Name] | None = Field(None, max_length=NAMES, description="Search these corpora only.")
    where: dict[str, Any] | None = Field(
        None,
        description='Search documents only for which all conditions hold: {"lang": "en", "year": {"gte": 2020}, '
        '"path": {"glob": "reports/*.pdf"}, "title": {"contains": "skin"}}.',
    )


class SearchBody(Searched):
    """The body of `POST /v1/search`."""

    budget: Written | None = Field(
        None,
        description="Most characters, or `1000 tokens`: most tokens of what reads the passages. That of the project if "
        "neither it nor k is given.",
    )
    k: int | None = Field(None, ge=1, description="Most passages.")
    method: Name = Field("auto", description="How passages are ranked: see `methods` of `GET /v1/corpora`.")
    explain: bool = Field(False, description="Say for each passage why it is there.")
    sentences: bool = Field(False, description="Add to each passage how similar its sentences are to the question.")


class Turn(BaseModel):
    """A question that was asked before, and what was answered."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: str
    answer: str = ""


class AskBody(Searched):
    """The body of `POST /v1/ask`."""

    method: Name | None = Field(None, description="The way of answering: see `ways` of `GET /v1/corpora`.")
    options: dict[Letter, str] | None = Field(
        None, max_length=CHOICES, description="Choices by letter; they count as part of the question."
    )
    earlier: list[Turn] = Field(
        default_factory=list,
        max_length=MOST_TURNS,
        description="The conversation so far, in order: a follow-up is made a question that stands alone.",
    )
    stream: bool = Field(False, description="Answer with server-sent events; so does `Accept: text/event-stream`.")


class Serving(Connections):
    """A project, the connections of its server, and its queues.

    Searches, answers and documents have a queue each: an answer may wait for a language model for a minute, and no
    search should; nor should anybody who reads a document wait for those who search.
    """

    def __init__(self, project: Any, options: ServerOptions) -> None:
        super().__init__(options, Metrics(project))
        self.project = project
        # More searches at a time than processors would take turns; those that wait go together instead.
        searches = min(options.concurrency, max(os.cpu_count() or 1, 2))
        self.search = Slots("search", searches, options.waiting, options.timeout)
        self.together = BatchedSearches(self.search)
        self.answers = Slots("answer", options.concurrency, options.waiting, options.ask_timeout)
        self.documents = Slots("document", options.concurrency, options.waiting, options.timeout)
        # What else `GET /v1/corpora` says, by key: routes add theirs.
        self.facts: dict[str, Callable[[], Any]] = {}
        # Beginnings of paths whose texts may be as long as a body: routes add theirs.
        self.long_texts: list[str] = []
        # Headers that pages of other sites may send: routes add theirs.
        self.headers = ["authorization", "content-type"]

    def project_for(self, request: Request) -> Any:
        """Return the project as who sent a request may see it."""
        if self.project.authorizer is None:
            return self.project
        # Set by the guard; without it nothing is shown.
        return self.project.as_principal(request.state.principal)

    def end(self) -> None:
        """Answer all requests that wait, and drop those that are not complete: the time to finish is over."""
        for work in self._queues:
            work.end()
        super().end()

    def close(self) -> None:
        """Drop what waits in the queues."""
        for work in self._queues:
            work.close()

    @property
    def _queues(self) -> tuple[Slots, ...]:
        return self.search, self.answers, self.documents


# What asks again and again whether the server is well.
_WATCHED = ("/healthz", "/readyz", "/metrics")


def app(project: Any, options: ServerOptions | None = None) -> FastAPI:
    """Return application for an open project. Its `state.serving.stopping` is to be set when the server is stopped."""
    options = options or ServerOptions()
    serving = Serving(project, options)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        serving.close()

    application = FastAPI(
        title="mog-assets",
        version=metadata.version("mog-assets"),
        description="Passages and answers from a project's documents.",
        # Spans, if `mog_assets.resources.tracing` collects any; metrics and logs are our own.
        telemetry={
            "auto_configure": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "exclude": lambda scope: scope["path"] in _WATCHED,
        },
        docs_url=None,
        redoc_url=None,
        servers=[{"url": options.public_url}] if options.public_url else None,
        lifespan=lifespan,
    )
    application.state.serving = serving
    _add_errors(application)
    _add_search(application, serving)
    _add_documents(application, serving)
    _add_operation(application, serving)
    for add in ROUTES.values():
        add(application, serving)
    files.add_page(application)
    # The last one is the outermost.
    application.add_middleware(
        Guard, options=options, authorizer=project.authorizer, long_texts=tuple(serving.long_texts)
    )
    if options.origins:
        methods = ["GET", "POST", "PUT", "DELETE"]
        application.add_middleware(
            CORSMiddleware, allow_origins=list(options.origins), allow_methods=methods, allow_headers=serving.headers
        )
    application.add_middleware(
        Observed, metrics=serving.metrics, draining=serving.stopping.is_set, questions=options.log_questions
    )
    return application


def _add_errors(application: FastAPI) -> None:
    async def failed(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        request.state.reason = problem.reason
        return problem.response(request.url.path)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # What was sent is not sent back.
        faults = [f"{'.'.join(map(str, fault['loc'][1:])) or 'body'}: {fault['msg']}" for fault in error.errors()]
        return Problem(422, "; ".join(faults)).response(request.url.path)

    async def other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = request.url.path
        detail = {404: f"There is nothing at {path}: see /openapi.json", 405: f"{path} does not take {request.method}"}
        problem = Problem(error.status_code, detail.get(error.status_code, str(error.detail)), "", error.headers)
        return problem.response(path)

    application.add_exception_handler(Problem, failed)
    application.add_exception_handler(MogError, failed)
    application.add_exception_handler(RequestValidationError, invalid)
    application.add_exception_handler(HTTPException, other)


# Sentences of an answer that are compared with the question.
_SENTENCES = 60


def _add_search(application: FastAPI, serving: Serving) -> None:
    options = serving.options

    def checked(request: Request, body: Searched, choices: dict[str, str] | None = None) -> dict[str, Any]:
        options.check_question("question", body.question, choices)
        request.state.question = body.question
        return {"corpora": body.corpora, "where": body.where}

    @application.post("/v1/search", tags=["search"], summary="The best passages for a question")
    async def search(request: Request, body: SearchBody) -> JSONResponse:
        arguments, project = checked(request, body), serving.project_for(request)
        options.check_amount("budget", None if body.budget is None else Budget.of(body.budget).amount)
        options.check_amount("k", body.k)
        arguments |= {"budget": body.budget, "k": body.k, "method": body.method, "explain": body.explain}

        def finished(results: Any) -> dict[str, Any]:
            content: dict[str, Any] = results.to_json()
            if body.sentences:
                # Each sentence costs as much as a question.
                left = _SENTENCES
                for passage, row in zip(results.passages, content["passages"], strict=True):
                    similar = project.sentences(body.question, passage, left)
                    left -= len(similar)
                    row["sentences"] = [{"start": s, "end": e, "similarity": float(v)} for s, e, v in similar]
            return content

        # Words in quotation marks decide which documents are asked; nobody waits for the sentences of others.
        grouped_by = [arguments, phrases(body.question), project.seen_as]
        key: Any = object() if body.sentences else json.dumps(grouped_by, sort_keys=True)
        searches = partial(project.search_many, **arguments)
        return JSONResponse(await serving.together.run(body.question, key, searches, finished))

    @application.post("/v1/ask", tags=["search"], summary="An answer with the passages that it is based on")
    async def ask(request: Request, body: AskBody) -> Response:
        arguments, project = checked(request, body, body.options), serving.project_for(request)
        earlier = options.conversation([(turn.question, turn.answer) for turn in body.earlier])
        arguments |= {"method": body.method, "options": body.options, "earlier": earlier}
        if body.stream or "text/event-stream" in request.headers.get("accept", ""):
            stream = Stream(
                serving.answers, lambda happened: project.ask(body.question, **arguments, on_event=happened)
            ).start()
            return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        answer = await serving.answers.run_watched(
            lambda happened: project.ask(body.question, **arguments, on_event=happened).to_json()
        )
        return JSONResponse(answer)


def _add_documents(application: FastAPI, serving: Serving) -> None:
    options = serving.options

    @application.get("/v1/corpora", tags=["documents"], summary="What is searched, and how it can be asked")
    async def corpora(request: Request) -> JSONResponse:
        project = serving.project_for(request)

        def work() -> dict[str, Any]:
            names = ("methods", "families", "ways", "version", "loaded", "trouble")
            state = {name: getattr(project, name) for name in names}
            most = {"question": options.question_chars, "budget": options.budget, "k": options.k}
            corpora = [corpus.to_json() for corpus in project.corpora]
            facts = {name: fact() for name, fact in serving.facts.items()}
            return {"corpora": corpora, **state, "budget": project.settings.budget, **facts, "limits": most}

        return JSONResponse(await serving.documents.run(work))

    @application.get("/v1/documents/{corpus}/{id:path}", tags=["documents"], summary="A document as it is searched")
    async def document(request: Request, corpus: str, id: str) -> JSONResponse:
        requested = await serving.documents.run(serving.project_for(request).document, corpus, id)
        return JSONResponse(requested.to_json())

    @application.get("/v1/source/{corpus}/{id:path}", tags=["documents"], summary="The file that a document comes from")
    async def source(request: Request, corpus: str, id: str) -> Response:
        return await serving.documents.run(files.source, serving.project_for(request), corpus, id)


def _add_operation(application: FastAPI, serving: Serving) -> None:
    project = serving.project

    @application.get("/healthz", tags=["operation"], summary="Whether the process answers")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @application.get("/readyz", tags=["operation"], summary="Whether requests should be sent here")
    async def readyz() -> JSONResponse:
        if serving.stopping.is_set():
            raise Problem(503, "The server is being stopped")
        return JSONResponse({"status": "ready", "version": project.version, "stale": bool(project.trouble)})

    @application.get("/metrics", tags=["operation"], summary="Metrics in the format of Prometheus")
    async def metrics() -> Response:
        return Response(generate_latest(serving.metrics.registry), media_type=CONTENT_TYPE_LATEST)
