"""Conversations in the shape of OpenAI's chat completions, for chat programs that exist (Open WebUI and others).

The last message is answered from the documents, with what it is based on. A follow-up is made a question that stands
alone first. Reference: platform.openai.com, "Create chat completion".
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from mog_assets.plugins.frameworks.paths import CHAT_PATH, MODELS_PATH
from mog_assets.registry import ROUTES
from mog_assets.resources.errors import NotFound
from mog_assets.serve.http import Serving
from mog_assets.serve.limits import MOST_TURNS, NAME_CHARS, ServerOptions
from mog_assets.serve.problems import Problem
from mog_assets.serve.queues import Happened, Stream
from mog_assets.serve.results import page_of

# What a chat program calls a model: this one searches all corpora, `mog/CORPUS` one of them.
MODEL = "mog"


class Part(BaseModel):
    """A part of a message."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str = ""


class Message(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """Its text, without images and the like."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text").strip()
        return (self.content or "").strip()


class ChatBody(BaseModel):
    """The body that chat programs send. What would set how a model writes (`temperature` and others) has no effect."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(MODEL, max_length=NAME_CHARS + len(MODEL) + 1, description="`mog`, or `mog/CORPUS`.")
    messages: list[Message] = Field(min_length=1, max_length=2 * MOST_TURNS, description="The last one is answered.")
    stream: bool | None = Field(None, description="Answer with server-sent events.")
    n: int | None = Field(None, description="Must be 1: there is one answer.")
    tools: list[Any] | None = Field(None, description="Must be empty: no tools are called.")
    where: dict[str, Any] | None = Field(None, description="As in `POST /v1/ask`; no part of OpenAI's shape.")


def add_chat(app: FastAPI, serving: Serving) -> None:
    """Add the routes."""
    options = serving.options

    @app.get(MODELS_PATH, tags=["other shapes"], summary="What a chat program can choose: all corpora, or one")
    async def models(request: Request) -> JSONResponse:
        names = await serving.documents.run(lambda: serving.project_for(request).names)
        return JSONResponse(
            {"object": "list", "data": [_model(id) for id in (MODEL, *(f"{MODEL}/{n}" for n in names))]}
        )

    @app.get(MODELS_PATH + "/{id:path}", tags=["other shapes"], summary="One of these")
    async def model(request: Request, id: str) -> JSONResponse:
        await serving.documents.run(_corpora, serving.project_for(request), id)
        return JSONResponse(_model(id))

    @app.post(CHAT_PATH, tags=["other shapes"], summary="A conversation: the last message is answered")
    async def completions(request: Request, body: ChatBody) -> Response:
        project, (question, earlier) = serving.project_for(request), _conversation(body, options)
        request.state.question = question
        # Whoever asks for the first time waits for what they may see, and others do not.
        corpora = await serving.documents.run(_corpora, project, body.model)
        base = options.public_url.rstrip("/") or str(request.base_url).rstrip("/")
        shape = _Shape(body.model, base)

        def answered(happened: Happened) -> Any:
            return project.ask(question, corpora=corpora, where=body.where, earlier=earlier, on_event=happened)

        if body.stream:
            stream = Stream(serving.answers, answered, shape.event).start()
            return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        answer = await serving.answers.run_watched(lambda happened: answered(happened).to_json())
        return JSONResponse(shape.completion(answer))


def _model(id: str) -> dict[str, Any]:
    return {"id": id, "object": "model", "created": 0, "owned_by": "mog-assets"}


def _conversation(body: ChatBody, options: ServerOptions) -> tuple[str, list[tuple[str, str]]]:
    """Return the question, and the last questions before it with their answers.

    Raises:
        Problem: there is no question, or more is wanted than there is.
    """
    if body.n not in (None, 1):
        raise Problem(400, f"n: expected 1, got {body.n}: there is one answer")
    if body.tools:
        raise Problem(400, "tools: expected none: the answer comes from the documents, and no tools are called")
    last = body.messages[-1]
    if last.role != "user" or not last.text:
        raise Problem(400, "messages: expected a text of the role `user` as the last one: it is what is answered")
    options.check_question("messages", last.text)
    earlier: list[tuple[str, str]] = []
    for message in body.messages[:-1]:
        if message.role == "user":
            earlier.append((message.text, ""))
        elif message.role == "assistant" and earlier:
            earlier[-1] = earlier[-1][0], message.text
    return last.text, options.conversation(earlier)


def _corpora(project: Any, model: str) -> list[str] | None:
    """Return the corpora that a model stands for; None for all.

    Raises:
        NotFound: there is no such model.
    """
    if model == MODEL:
        return None
    prefix, _, corpus = model.partition("/")
    if prefix != MODEL or corpus not in project.names:
        raise NotFound(f"model: expected {MODEL}, or {MODEL}/ and the name of a corpus, got {model[:100]!r}")
    return [corpus]


class _Shape:
    """Answers in OpenAI's shape.

    Args:
        model: As it was asked for.
        base: URL of this server.
    """

    def __init__(self, model: str, base: str) -> None:
        self._base = base
        # What was sent of an answer, and what is held back of it: it may be the beginning of what has to be escaped.
        self._sent, self._unsent = "", ""
        self._common = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def completion(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer as a whole."""
        sources = self._sources(answer)
        message = {"role": "assistant", "content": "".join(_written(answer, sources)), "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        rest = {"sources": sources, "question": answer["question"]}
        return {**self._common, "object": "chat.completion", "choices": [choice], **rest}

    def event(self, name: str, data: Any) -> bytes:
        """Return an event of an answer as bytes: its text, while it is written, and the rest when it is there."""
        if name == "token":
            return self._piece(data["text"])
        if name == "error":
            kind = "invalid_request_error" if data["status"] < 500 else "server_error"
            error = {"message": data["detail"], "type": kind, "param": None, "code": data["title"].lower()}
            return _line({"error": error})
        if name != "done":
            return b""
        sources = self._sources(data)
        text = "".join(_written(data, sources))
        if not text.startswith(self._sent):
            # Nothing that was sent can be taken back.
            return self.event("error", Problem(500, "The answer is not the one that was begun: ask again").to_json())
        first = [] if self._sent else [{"role": "assistant", "content": ""}]
        lines = [_line(self._chunk(delta)) for delta in [*first, {"content": text[len(self._sent) :]}]]
        lines.append(_line({**self._chunk({}, "stop"), "sources": sources, "question": data["question"]}))
        return b"".join([*lines, b"data: [DONE]\n\n"])

    def _piece(self, text: str) -> bytes:
        first = b"" if self._sent else _line(self._chunk({"role": "assistant", "content": ""}))
        text = self._unsent + text
        # An exclamation mark is escaped if a bracket follows it.
        self._unsent = "!" if text.endswith("!") else ""
        shown = _shown(text.removesuffix(self._unsent))
        if not shown:
            return b""
        self._sent += shown
        return first + _line(self._chunk({"content": shown}))

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**self._common, "object": "chat.completion.chunk", "choices": [choice]}

    def _sources(self, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what an answer is based on, numbered from 1: text, and places in characters of the document."""
        sources = []
        for number, passage in enumerate(answer["passages"], 1):
            document = passage["corpus"], passage["document"]
            first = [span for span in passage["spans"] if (span["corpus"], span["document"]) == document]
            places = "#" + ",".join(f"{span['start']}-{span['end']}" for span in first)
            sources.append(
                {
                    "n": number,
                    "corpus": passage["corpus"],
                    "document": passage["document"],
                    "title": passage["title"] or passage["document"],
                    "spans": passage["spans"],
                    "text": passage["text"],
                    "url": page_of(self._base, passage["corpus"], passage["document"], places),
                }
            )
        return sources


def _written(answer: Mapping[str, Any], sources: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the parts of a text: the answer, and the list of what it is based on."""
    likeliest, cited = answer["likeliest"], answer["cited"]
    mark = "".join(f" [{number}]" for number in cited)
    if answer["answer"] is not None:
        text = f"{_shown(answer['answer'])}{mark}"
    elif likeliest is not None:
        text = f"The most relevant sentence:\n\n> {_shown(' '.join(likeliest['sentence'].split()))}{mark}"
    else:
        text = f"No answer: {answer['failure'] or 'nothing was found'}"
    # Where it is known which passage has the answer, it is that one alone.
    listed = [source for source in sources if source["n"] in cited] or sources
    links = "\n".join(f"{source['n']}. [{_plain(source['title'])}]({source['url']})" for source in listed)
    return [text, f"\n\n{links}"] if links else [text]


def _shown(text: str) -> str:
    """Return text of a document or a model, of which a chat program makes no image, to fetch from anywhere."""
    return re.sub(r"!(?=\[)|<", r"\\\g<0>", text)


def _plain(title: str) -> str:
    """Return a title that ends no link."""
    return _shown(" ".join(title.replace("[", "(").replace("]", ")").split()))


def _line(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


ROUTES.register("chat", add_chat)
