"""Two routes in the shapes of others, for clients that exist: Dify's external knowledge, OpenAI's vector stores.

References: docs.dify.ai, "External Knowledge API"; platform.openai.com, "Search vector store".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from mog_assets.plugins.frameworks.paths import DIFY_PATH, OPENAI_PATH
from mog_assets.plugins.frameworks.scores import shares
from mog_assets.registry import ROUTES
from mog_assets.resources.errors import NotFound
from mog_assets.serve.http import Serving
from mog_assets.serve.limits import NAME_CHARS
from mog_assets.serve.problems import Problem
from mog_assets.serve.results import Passage

ALL = "all"
Where = dict[str, Any]
# OpenAI's limits of an attribute.
_ATTRIBUTES, _KEY_CHARS, _VALUE_CHARS = 16, 64, 512
_BOUNDS = {">": "gt", "<": "lt", "≥": "gte", "≤": "lte", "before": "lt", "after": "gt"}
_TEXTS = {"contains": "contains", "start with": "starts", "end with": "ends"}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Setting(_Strict):
    """Dify's `retrieval_setting`."""

    top_k: int = Field(ge=1, description="Most records.")
    score_threshold: float = Field(0.0, ge=0, le=1, description="Leave out records with a lower score.")


class Condition(_Strict):
    """One of Dify's conditions."""

    name: str | list[str]
    comparison_operator: str
    value: StrictBool | str | float | list[str] | None = None


class Conditions(_Strict):
    """Dify's `metadata_condition`."""

    logical_operator: Literal["and", "or"] = "and"
    conditions: list[Condition] = Field([], max_length=_ATTRIBUTES)


class DifyBody(_Strict):
    """The body that Dify sends."""

    knowledge_id: str = Field(max_length=NAME_CHARS, description="A corpus, or `all`.")
    query: str = Field(description="The question.")
    retrieval_setting: Setting
    metadata_condition: Conditions | None = Field(None, description="Conditions on metadata, joined by `and`.")


class RankingOptions(_Strict):
    """OpenAI's `ranking_options`."""

    ranker: str = "auto"
    score_threshold: float = Field(0.0, ge=0, le=1)


class OpenAIBody(_Strict):
    """The body that OpenAI's clients send."""

    query: str | list[str] = Field(description="One question or several.")
    max_num_results: int = Field(10, ge=1, le=50, description="Most results.")
    filters: dict[str, Any] | None = Field(None, description="Conditions on metadata, joined by `and`.")
    ranking_options: RankingOptions = RankingOptions()
    rewrite_query: bool = Field(False, description="Must be false: questions are not rewritten.")


def add_dify(app: FastAPI, serving: Serving) -> None:
    """Add the route of Dify."""
    options = serving.options

    @app.post(DIFY_PATH, tags=["other shapes"], summary="Dify's external knowledge API")
    async def retrieval(request: Request, body: DifyBody) -> JSONResponse:
        setting, project = body.retrieval_setting, serving.project_for(request)
        request.state.question = options.check_question("query", body.query)
        options.check_amount("k", setting.top_k)
        corpora = corpora_of(project, "knowledge_id", body.knowledge_id)
        where = dify_where(body.metadata_condition)
        many = await serving.search.run(project.search, body.query, k=setting.top_k, corpora=corpora, where=where)
        records = [
            # Dify fails on metadata that is null.
            {"content": p.text, "score": score, "title": p.title or p.document, "metadata": {**p.metadata, **_place(p)}}
            for p, score in _scored(many.passages, setting.score_threshold)
        ]
        return JSONResponse({"records": records})


def add_openai(app: FastAPI, serving: Serving) -> None:
    """Add the route of OpenAI."""
    options = serving.options

    @app.post(OPENAI_PATH + "{id}/search", tags=["other shapes"], summary="OpenAI's search of a vector store")
    async def search(request: Request, id: str, body: OpenAIBody) -> JSONResponse:
        project = serving.project_for(request)
        queries = [body.query] if isinstance(body.query, str) else body.query
        if not 1 <= len(queries) <= _ATTRIBUTES:
            raise Problem(422, f"query: expected 1 to {_ATTRIBUTES} questions, got {len(queries)}")
        for query in queries:
            options.check_question("query", query)
        request.state.question = queries
        options.check_amount("k", body.max_num_results)
        if body.rewrite_query:
            raise Problem(400, "rewrite_query: expected false, got true: questions are searched as they are")
        keywords = {
            "k": body.max_num_results,
            "corpora": corpora_of(project, "vector_store_id", id),
            "where": openai_where(body.filters),
        }
        many = await serving.search.run(project.search_many, queries, **keywords)
        best: dict[Any, tuple[Passage, float]] = {}
        for result in many:
            for passage, score in _scored(result.passages, body.ranking_options.score_threshold):
                if passage.spans not in best or best[passage.spans][1] < score:
                    best[passage.spans] = passage, score
        rows = sorted(best.values(), key=lambda row: -row[1])[: body.max_num_results]
        data = [
            {
                "file_id": f"{passage.corpus}/{passage.document}",
                "filename": passage.source or passage.title or passage.document,
                "score": score,
                "attributes": _attributes(passage),
                "content": [{"type": "text", "text": passage.text}],
            }
            for passage, score in rows
        ]
        kind = "vector_store.search_results.page"
        page = {"object": kind, "search_query": queries, "data": data, "has_more": False, "next_page": None}
        return JSONResponse(page)


def corpora_of(project: Any, name: str, id: str) -> list[str] | None:
    """Return the corpora that an id stands for; None for all.

    Raises:
        NotFound: there is no such corpus.
    """
    names = project.names
    # A corpus may be called `all`.
    if id in names:
        return [id]
    if id == ALL:
        return None
    raise NotFound(f"{name}: expected {ALL!r} or one of {', '.join(names)}, got {id!r}")


def _scored(passages: Sequence[Passage], threshold: float) -> list[tuple[Passage, float]]:
    scores = shares([passage.score or 0.0 for passage in passages])
    return [(passage, score) for passage, score in zip(passages, scores, strict=True) if score >= threshold]


def _place(passage: Passage) -> dict[str, Any]:
    return {
        "corpus": passage.corpus,
        "document": passage.document,
        "start": passage.start,
        "end": passage.end,
        **({} if passage.page is None else {"page": passage.page}),
        **({} if passage.source is None else {"source": passage.source}),
    }


def _attributes(passage: Passage) -> dict[str, Any]:
    """Return what OpenAI allows as attributes: at most 16 short texts, numbers and booleans."""
    both = {**_place(passage), **{k: v for k, v in passage.metadata.items() if isinstance(v, str | int | float | bool)}}
    cut = {k[:_KEY_CHARS]: v[:_VALUE_CHARS] if isinstance(v, str) else v for k, v in both.items()}
    return dict(list(cut.items())[:_ATTRIBUTES])


def dify_where(conditions: Conditions | None) -> Where | None:
    """Return Dify's conditions as `where`.

    Raises:
        Problem: they have no counterpart (400).
    """
    if conditions is None or not conditions.conditions:
        return None
    if conditions.logical_operator == "or" and len(conditions.conditions) > 1:
        raise Problem(400, "metadata_condition.logical_operator: expected 'and', got 'or'")
    where: Where = {}
    for condition in conditions.conditions:
        names = [condition.name] if isinstance(condition.name, str) else condition.name
        if len(names) != 1:
            raise Problem(400, f"metadata_condition: expected one name in each condition, got {names}")
        _add(where, names[0], _dify_condition(condition))
    return where


def _dify_condition(condition: Condition) -> Any:
    operator, value = condition.comparison_operator, condition.value
    if operator in ("is", "=") and isinstance(value, bool | str | float):
        return _number(value) if operator == "=" else value
    if operator == "in" and isinstance(value, list):
        return value
    if operator in _BOUNDS and isinstance(value, str | float):
        return {_BOUNDS[operator]: _number(value)}
    if operator in _TEXTS and isinstance(value, str):
        return {_TEXTS[operator]: value}
    every = ", ".join(["is", "=", "in", *_BOUNDS, *_TEXTS])
    raise Problem(400, f"comparison_operator: expected one of {every} with a value, got {operator!r} with {value!r}")


def _number(value: Any) -> Any:
    """Return a number that Dify sends as text."""
    for kind in (int, float):
        try:
            return kind(value) if isinstance(value, str) else value
        except ValueError:
            continue
    return value


def openai_where(filters: dict[str, Any] | None) -> Where | None:
    """Return OpenAI's filters as `where`.

    Raises:
        Problem: they have no counterpart (400).
    """
    if not filters:
        return None
    where: Where = {}
    pending: list[Any] = [filters]
    while pending:
        one = pending.pop()
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "and" and isinstance(one.get("filters"), list):
            pending += one["filters"]
        elif kind in ("eq", "in") and isinstance(one.get("key"), str) and "value" in one:
            _add(where, one["key"], one["value"])
        elif kind in ("gt", "gte", "lt", "lte") and isinstance(one.get("key"), str) and "value" in one:
            _add(where, one["key"], {kind: one["value"]})
        else:
            raise Problem(
                400, f"filters: expected type and, eq, in, gt, gte, lt or lte with key and value, got {kind!r}"
            )
    return where


def _add(where: Where, name: str, condition: Any) -> None:
    """Add a condition; bounds of one field go together."""
    existing = where.get(name)
    if existing is None:
        where[name] = condition
    elif isinstance(existing, dict) and isinstance(condition, dict) and not existing.keys() & condition.keys():
        where[name] = {**existing, **condition}
    else:
        raise Problem(400, f"two conditions on {name!r} cannot be combined")


ROUTES.register("dify", add_dify)
ROUTES.register("vector stores", add_openai)
