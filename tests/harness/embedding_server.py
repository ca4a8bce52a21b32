"""An embeddings endpoint on loopback in the form of OpenAI, Cohere or Voyage, which takes nothing that they do not.

    with EmbeddingServer("cohere") as server:
        server.script += [(429, {"Retry-After": "0"}), (500, {})]

The next two requests get these replies; every other one gets vectors, or 400 with what is wrong with it.
"""

import hashlib
import json
import threading

import numpy as np
from loopback import Loopback

SIZE = 16
_TEXTS = {"openai": "input", "cohere": "texts", "voyage": "input"}
_MOST = {"openai": 2048, "cohere": 96, "voyage": 1000}
_PATHS = {"openai": "/v1/embeddings", "cohere": "/v2/embed", "voyage": "/v1/embeddings"}
_REQUIRED = {
    "openai": {"model": str, "input": list, "encoding_format": str},
    "cohere": {"model": str, "texts": list, "input_type": str, "embedding_types": list, "truncate": str},
    "voyage": {"model": str, "input": list, "input_type": str, "truncation": bool},
}
_OPTIONAL = {"openai": {"dimensions": int}, "cohere": {"output_dimension": int}, "voyage": {"output_dimension": int}}
_ROLES = {"cohere": ("search_document", "search_query"), "voyage": ("document", "query")}


def vector(text, size=SIZE):
    """What the model says of a text: its words, hashed. Not of length 1."""
    numbers = np.zeros(size)
    for word in text.lower().split() or ["."]:
        numbers += np.random.default_rng(int(hashlib.sha256(word.strip(".,?!").encode()).hexdigest()[:8], 16)).normal(
            size=size
        )
    return numbers


def faults(form, body):
    """What the provider would refuse."""
    required, allowed = _REQUIRED[form], {**_REQUIRED[form], **_OPTIONAL[form]}
    said = [f"no {name}" for name in required if name not in body]
    said += [f"unknown {name}" for name in body if name not in allowed]
    said += [f"{name} is {body[name]!r}" for name in allowed if name in body and type(body[name]) is not allowed[name]]
    texts = body.get(_TEXTS[form], [])
    if not texts or not all(isinstance(text, str) and text for text in texts) or len(texts) > _MOST[form]:
        said.append(f"{len(texts)} texts, or an empty one")
    if form in _ROLES and body.get("input_type") not in _ROLES[form]:
        said.append(f"input_type is {body.get('input_type')!r}")
    return said


class EmbeddingServer(Loopback):
    """The server; ends with its context.

    Attributes:
        url: As the setting `url` takes it.
        script: Replies to the next requests: a status with headers, or a function of the answer.
        bodies, keys: Of all requests, in the order of arrival.
        size: Of vectors.
        on_request: Called with the number of each request before it is answered.
        most: Texts of a request, or None; requests with more get `refusal`.
        bad: What happens to texts with a word: "null", "nan", "zero", or a status.
        longest: Characters of a text, or None; longer ones get 413.
    """

    def __init__(self, form="openai"):
        self.form, self.size = form, SIZE
        self.most, self.refusal = None, (422, "batch size > maximum allowed batch size")
        self.bad, self.longest = {}, None
        self.script, self.bodies, self.keys = [], [], []
        self.on_request = lambda number: None
        self._lock = threading.Lock()

    @property
    def texts(self):
        """All texts that were asked for."""
        return [text for body in self.bodies for text in body[_TEXTS[self.form]]]

    def _refused(self, texts):
        if self.most and len(texts) > self.most:
            return self.refusal[0], {}, self.refusal[1]
        if self.longest and any(len(text) > self.longest for text in texts):
            return 413, {}, f"inputs must have less than {self.longest} characters"
        codes = [how for word, how in self.bad.items() if type(how) is int and any(word in text for text in texts)]
        return (codes[0], {}, "failed to encode: unsupported value") if codes else None

    def answer(self, body):
        texts, size = body[_TEXTS[self.form]], body.get("dimensions") or body.get("output_dimension") or self.size
        rows, tokens = [vector(text, size).tolist() for text in texts], sum(len(text.split()) for text in texts)
        odd = {"null": None, "nan": [float("nan")] * size, "zero": [0.0] * size}
        rows = [
            next((odd[how] for word, how in self.bad.items() if word in text), row)
            for text, row in zip(texts, rows, strict=True)
        ]
        if self.form == "cohere":
            return {"id": "1", "embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": tokens}}}
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        return {"object": "list", "data": data[::-1], "model": body["model"], "usage": {"total_tokens": tokens}}

    @property
    def url(self):
        return self.base if self.form == "cohere" else f"{self.base}/v1"

    def answered(self, request, body):
        body = json.loads(body)
        with self._lock:
            self.bodies.append(body)
            self.keys.append(request.headers.get("Authorization"))
            number, step = len(self.bodies), self.script.pop(0) if self.script else None
        self.on_request(number)
        wrong = faults(self.form, body)
        step = step or self._refused(body[_TEXTS[self.form]])
        if request.path != _PATHS[self.form]:
            return 404, {}, {"error": "no such path"}
        if isinstance(step, tuple):
            status, headers, *said = step
            return status, headers, {"error": {"message": said[0] if said else "scripted"}}
        if wrong:
            return 400, {}, {"error": {"message": "; ".join(wrong)}}
        return 200, {}, step(self.answer(body)) if step else self.answer(body)
