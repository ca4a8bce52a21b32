"""The routes by which programs push documents into corpora that take them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from mog_assets.registry import ROUTES
from mog_assets.serve.http import Serving
from mog_assets.serve.limits import NAME_CHARS
from mog_assets.serve.problems import Problem

_DOCUMENTS = "/v1/documents/"
Id = Annotated[str, Path(max_length=NAME_CHARS)]


class Content(BaseModel):
    """The body of `PUT /v1/documents/{corpus}/{id}`: a document without its id."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = Field(description="Its text.")
    title: str = Field("", description="Its title.")
    metadata: dict[str, Any] = Field({}, description="JSON values, for `where` and permissions.")


class Pushed(Content):
    """A document."""

    id: str = Field(description="Its id: it replaces the document that has it.")


class Batch(BaseModel):
    """The body of `POST /v1/documents/{corpus}`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    put: list[Pushed] = Field([], description="Documents.")
    delete: list[str] = Field([], description="Ids of documents.")


def add_push(app: FastAPI, serving: Serving) -> None:
    """Add the routes."""
    # A document may be as long as a body.
    serving.long_texts.append(_DOCUMENTS)

    async def pushed(request: Request, corpus: str, put: list[Any], delete: list[str]) -> JSONResponse:
        if "push" not in serving.options.flags and serving.project.authorizer is None:
            raise Problem(403, "This server takes no documents: `mog serve --push` does")
        project = serving.project_for(request)
        changed = await serving.documents.run(project.push, corpus, put, delete)
        return JSONResponse({"corpus": corpus, "put": len(put), "deleted": len(delete), "changed": changed})

    @app.put(_DOCUMENTS + "{corpus}/{id:path}", tags=["documents"], summary="Push a document, for the next run")
    async def put(request: Request, corpus: str, id: Id, body: Content) -> JSONResponse:
        return await pushed(request, corpus, [{"id": id, **body.model_dump()}], [])

    @app.delete(_DOCUMENTS + "{corpus}/{id:path}", tags=["documents"], summary="Delete a document that was pushed")
    async def delete(request: Request, corpus: str, id: Id) -> JSONResponse:
        return await pushed(request, corpus, [], [id])

    @app.post(_DOCUMENTS + "{corpus}", tags=["documents"], summary="Push and delete documents: all or none")
    async def batch(request: Request, corpus: str, body: Batch) -> JSONResponse:
        return await pushed(request, corpus, [document.model_dump() for document in body.put], body.delete)


ROUTES.register("push", add_push)
