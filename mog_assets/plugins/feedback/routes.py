"""The routes of the log of use: `POST /v1/used`, and `DELETE` to take it back."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.responses import JSONResponse
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field

from mog_assets.plugins.feedback.settings import USE
from mog_assets.registry import ROUTES
from mog_assets.serve.http import Serving
from mog_assets.serve.limits import NAME_CHARS, PLACES
from mog_assets.serve.problems import Problem
from mog_assets.serve.results import Span


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class UsedPlace(_Strict):
    """Place of a passage."""

    corpus: str = Field(max_length=NAME_CHARS, description="The corpus.")
    document: str = Field(max_length=NAME_CHARS, description="The id of the document.")
    start: int = Field(ge=0, description="First character.")
    end: int = Field(ge=1, description="One after the last character.")


class UsedBody(_Strict):
    """The body of `POST /v1/used`."""

    question: str = Field(description="The question, as it was asked.")
    passage: UsedPlace = Field(description="Where the passage stands that answered it.")
    more: list[UsedPlace] = Field(
        [], max_length=PLACES, description="Where the rest of it stands: its further `spans`."
    )
    text: str | None = Field(
        None, description="The text of the passage as it was read: refused if the documents no longer say it. Not kept."
    )
    method: str = Field("", max_length=NAME_CHARS, description="The method that found the passage.")


class _Failures(Collector):
    """Questions that could not be kept, as a metric."""

    def __init__(self, project: Any) -> None:
        self._project = project

    def collect(self) -> list[Metric]:
        """Return the metric now."""
        failures = CounterMetricFamily("mog_use_log_failures", "Questions that could not be kept in the log of use")
        failures.add_metric([], self._project.unnoted)
        return [failures]


def add_used(app: FastAPI, serving: Serving) -> None:
    """Add the routes."""
    options = serving.options
    serving.facts["use"] = lambda: USE.of(serving.project.settings).log
    serving.metrics.registry.register(_Failures(serving.project))

    @app.post("/v1/used", tags=["use"], summary="Note that a passage answered a question, if use.log is set")
    async def used(request: Request, body: UsedBody) -> JSONResponse:
        request.state.question = options.check_question("question", body.question)
        places = [body.passage, *body.more]
        size = max(len(body.text or ""), sum(max(0, place.end - place.start) for place in places))
        if size > options.budget:
            raise Problem(422, f"passage: expected at most {options.budget:,} characters, got {size:,}", "too much")
        spans = [Span(place.corpus, place.document, place.start, place.end) for place in places]
        used = serving.project_for(request).used
        identity = await serving.documents.run(used, body.question, spans, method=body.method, text=body.text)
        return JSONResponse({"id": identity}, 201)

    @app.delete("/v1/used/{id}", tags=["use"], summary="Take back what `POST /v1/used` noted")
    async def withdraw(request: Request, id: Annotated[str, Path(max_length=NAME_CHARS)]) -> JSONResponse:
        await serving.documents.run(serving.project_for(request).withdraw, id)
        return JSONResponse({"deleted": id})


ROUTES.register("use", add_used)
