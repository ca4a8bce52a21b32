"""A server on loopback that speaks the chat-completions protocol, and misbehaves where a test says so.

    with ChatServer(lambda messages: "yes") as server:
        server.script([status(429, Retry_After="0"), status(500), dropped()])

The next three calls get these replies, in the order in which they arrive; every other call gets the answer.
"""

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import openai._base_client
from loopback import Loopback

# Between two attempts no test waits as long as people would.
openai._base_client.INITIAL_RETRY_DELAY = openai._base_client.MAX_RETRY_DELAY = 0.005
Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Reply:
    """What goes over the wire: `wait` seconds before it; of the body, the first `sent` bytes, then the line is cut."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    sent: int | None = None


Behaviour = Callable[[Messages], Reply]


@dataclass
class Call:
    """A request as it arrived, names of headers in lower case.

    `delivered` says that a whole chat completion was written to a peer that was there.
    """

    body: dict
    headers: dict[str, str]
    delivered: bool = False

    @property
    def content(self) -> str:
        """Text of the last message."""
        return self.body["messages"][-1]["content"]


def tokens(text: str) -> int:
    """What this server counts as tokens: words."""
    return len(text.split())


def completion(messages: Messages, text: str | None, finish_reason: str = "stop", **message) -> Reply:
    """A chat completion as OpenAI's API sends it."""
    used = {
        "prompt_tokens": sum(tokens(m["content"]) for m in messages),
        "completion_tokens": tokens(text or ""),
    }
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None, **message},
        "finish_reason": finish_reason,
    }
    return _chat(choices=[choice], usage={**used, "total_tokens": sum(used.values())})


def _chat(**values) -> Reply:
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "loopback-1"}
    return Reply(json.dumps({**head, **values}).encode())


def sends(**values) -> Behaviour:
    """Answer in the form of a chat completion with these values, whatever they are."""
    return lambda messages: _chat(**values)


def says(text: str | None, finish_reason: str = "stop", **message) -> Behaviour:
    """Answer with a text that is not the server's usual one, such as words outside a vocabulary."""
    return lambda messages: completion(messages, text, finish_reason, **message)


def refusal(reason: str = "I cannot help with that.") -> Behaviour:
    """Refuse as OpenAI's models do: no content, and a reason in a field of its own."""
    return says(None, refusal=reason)


def malformed(body: bytes) -> Behaviour:
    """Answer with something else, called JSON."""
    return lambda messages: Reply(body)


def dropped(text: str = "half of this") -> Behaviour:
    """Cut the connection in the middle of the body."""

    def reply(messages: Messages) -> Reply:
        body = completion(messages, text).body
        return Reply(body, sent=len(body) // 2)

    return reply


def status(code: int, message: str = "it is broken", error_code: str | None = None, **headers: str) -> Behaviour:
    """Answer with an HTTP error; underscores in names of headers stand for hyphens."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": error_code}}).encode()
    return lambda messages: Reply(body, code, {name.replace("_", "-"): value for name, value in headers.items()})


def refused_parameter(name: str, said: str, error_code: str | None) -> Reply:
    """400 as OpenAI's API says that a model does not take a parameter, or not its value."""
    error = {"message": said, "type": "invalid_request_error", "param": name, "code": error_code}
    return Reply(json.dumps({"error": error}).encode(), 400)


def extra_input(name: str) -> Reply:
    """422 as servers made with FastAPI say that they do not know a parameter."""
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
    return Reply(json.dumps({"detail": detail}).encode(), 422)


# What a reasoning model of OpenAI answers where a parameter is sent that it does not take.
REASONING = {
    "max_tokens": refused_parameter(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "unsupported_parameter",
    ),
    "temperature": refused_parameter(
        "temperature",
        "Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is "
        "supported.",
        "unsupported_value",
    ),
}


# Keywords of a schema in OpenAI's subset for strict structured output, besides `type`.
_SUBSET = {"object": {"properties", "required", "additionalProperties"}, "array": {"items"}, "string": {"enum"}}


def faults(body: dict) -> list[str]:
    """What is wrong with a request for a chat completion: what OpenAI's API does not take, or nobody here sends."""
    found = [f"unknown {name}" for name in body.keys() - _SENT.keys()]
    found += [f"{name} is {body[name]!r}" for name, right in _SENT.items() if name in body and not right(body[name])]
    return found + [f"no {name}" for name in ("model", "messages") if name not in body]


def _chat_of_two(messages: object) -> bool:
    return (
        isinstance(messages, list)
        and [m.get("role") for m in messages] == ["system", "user"]
        and all(m.keys() == {"role", "content"} and isinstance(m["content"], str) and m["content"] for m in messages)
    )


def _strict_format(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"type", "json_schema"} or value["type"] != "json_schema":
        return False
    form = value["json_schema"]
    named = form.keys() == {"name", "strict", "schema"} and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", form["name"])
    return bool(named) and form["strict"] is True and form["schema"]["type"] == "object" and _strict(form["schema"])


def _strict(schema: dict) -> bool:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not set(kinds) <= {"object", "array", "string", "number", "integer", "boolean", "null"}:
        return False
    if schema.keys() - {"type"} - set().union(*(_SUBSET.get(kind, set()) for kind in kinds)):
        return False
    inner = list(schema.get("properties", {}).values()) + ([schema["items"]] if "items" in schema else [])
    closed = "object" not in kinds or (
        schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
    )
    return closed and all(map(_strict, inner))


_SENT: dict[str, Callable[[object], bool]] = {
    "model": lambda value: isinstance(value, str) and bool(value),
    "messages": _chat_of_two,
    "temperature": lambda value: isinstance(value, int | float),
    "max_tokens": lambda value: isinstance(value, int),
    "seed": lambda value: isinstance(value, int),
    "response_format": _strict_format,
    "stream": lambda value: value is True,
    "stream_options": lambda value: value == {"include_usage": True},
}


def in_pieces(reply: Reply, chars: int = 7) -> Reply:
    """A reply as events, as OpenAI's API streams it; cut where the reply is."""
    try:
        whole = json.loads(reply.body)
        (choice,) = whole["choices"]
    except (ValueError, KeyError):
        return reply
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": whole["model"]}
    # A text or a list of parts.
    text, rest = choice["message"]["content"] or "", choice["message"].get("refusal")
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[at : at + chars]} for at in range(0, len(text), chars)]
    deltas += [{"refusal": rest}] if rest else []
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    events.append({"choices": [], "usage": whole["usage"]})
    lines = [json.dumps({**head, **event}) for event in events]
    body = "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
    sent = None if reply.sent is None else len(body) // 2
    return Reply(body, headers={"Content-Type": "text/event-stream"}, wait=reply.wait, sent=sent)


class ChatServer(Loopback):
    """The server; ends with its context.

    Args:
        answer: Text for a list of messages.
        seconds: That every usual answer takes.

    Attributes:
        url: Base URL, as OPENAI_BASE_URL takes it.
        calls: Every request for a completion, in the order of arrival.
        most_at_once: Most requests that were under way at the same time.
        on_call: Called with each call before it is answered.
        refuses: The reply to requests that have a parameter of this name.
        streams: Whether an answer that is asked for in pieces comes in pieces.
        strict: Whether requests with `faults` are answered with them, and 400.
    """

    def __init__(self, answer: Callable[[Messages], str] = lambda messages: "yes", seconds: float = 0.0) -> None:
        self.answer = answer
        self.seconds = seconds
        self.calls: list[Call] = []
        self.most_at_once = 0
        self.on_call: Callable[[Call], None] = lambda call: None
        self.refuses: dict[str, Reply] = {}
        self.strict, self.streams = False, True
        self._at_once = 0
        self._script: list[tuple[str, Behaviour]] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.base}/v1"

    def __exit__(self, *raised) -> None:
        self._closing.set()
        super().__exit__(*raised)

    def script(self, behaviours: Sequence[Behaviour], of: str = "") -> None:
        """Have the next calls get these, one each; with `of`, only calls whose messages contain that text."""
        with self._lock:
            self._script += [(of, behaviour) for behaviour in behaviours]

    def unscript(self) -> None:
        """Have all calls get the usual answer again."""
        with self._lock:
            self._script.clear()

    @property
    def asked(self) -> Counter[str]:
        """How often each last message arrived."""
        with self._lock:
            return Counter(call.content for call in self.calls)

    @property
    def delivered(self) -> Counter[str]:
        """How often each last message got a whole completion."""
        with self._lock:
            return Counter(call.content for call in self.calls if call.delivered)

    def _reply(self, messages: Messages) -> Reply:
        texts = "\n".join(message["content"] for message in messages)
        with self._lock:
            for i, (of, behaviour) in enumerate(self._script):
                if of in texts:
                    del self._script[i]
                    return behaviour(messages)
        return Reply(completion(messages, self.answer(messages)).body, wait=self.seconds)

    def answered(self, request, body):
        if request.command == "GET" and request.path == "/v1/models":
            return 200, {}, {"object": "list", "data": [{"id": "loopback-1", "object": "model"}]}
        if request.path != "/v1/chat/completions":
            return 404, {}, {"error": {"message": f"no {request.path}"}}
        body = json.loads(body)
        call = Call(body, {name.lower(): value for name, value in request.headers.items()})
        with self._lock:
            self.calls.append(call)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self.on_call(call)
            refused = [reply for name, reply in self.refuses.items() if name in body]
            if self.strict and (wrong := faults(body)):
                refused.insert(0, status(400, f"not a request: {'; '.join(wrong)}")([]))
            reply = refused[0] if refused else self._reply(body["messages"])
            if body.get("stream") and reply.status == 200 and self.streams:
                reply = in_pieces(reply)
            self._closing.wait(reply.wait)
        finally:
            # What the client sees next may make it ask again before this thread goes on.
            with self._lock:
                self._at_once -= 1
        # Said before it is done: the client may go on before this thread does.
        call.delivered = reply.status == 200 and reply.sent is None and not _gone(request.connection)
        try:
            request.send(reply.status, {"Content-Type": "application/json", **reply.headers}, reply.body, reply.sent)
        except OSError:
            call.delivered = False
            raise
        if reply.sent is not None:
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)


def _gone(connection: socket.socket) -> bool:
    # The kernel takes bytes for a peer that has ended; one that has sends an end of file.
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
