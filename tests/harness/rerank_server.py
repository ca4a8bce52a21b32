"""A rerank endpoint on loopback in the form of Jina, Cohere, Voyage or TEI, which takes nothing that they do not.

The model likes texts that share words with the question, unless it is given another taste.
"""

import json
import threading

from loopback import Loopback

_PATHS = {"jina": "/v1/rerank", "cohere": "/v2/rerank", "voyage": "/v1/rerank", "tei": "/rerank"}
_SENT = {
    "jina": {"model": str, "query": str, "documents": list, "return_documents": bool},
    "cohere": {"model": str, "query": str, "documents": list},
    "voyage": {"model": str, "query": str, "documents": list, "truncation": bool},
    "tei": {"query": str, "texts": list, "truncate": bool, "raw_scores": bool},
}


def score(question, text):
    """Share of the question's words that the text has."""
    words = set(question.lower().strip("?").split())
    return round(len(words & set(text.lower().replace(".", " ").split())) / max(len(words), 1), 4)


class RerankServer(Loopback):
    """The server; ends with its context.

    Attributes:
        url: As the setting `url` takes it.
        script: Replies to the next requests: a status, or a function of the answer.
        bodies: Of all requests.
    """

    def __init__(self, form="jina", score=score):
        self.form, self.score, self.script, self.bodies = form, score, [], []
        self._lock = threading.Lock()

    def answer(self, body):
        texts = body["texts" if self.form == "tei" else "documents"]
        order = sorted(range(len(texts)), key=lambda i: -self.score(body["query"], texts[i]))
        name = "score" if self.form == "tei" else "relevance_score"
        rows = [{"index": i, name: self.score(body["query"], texts[i])} for i in order]
        return {
            "jina": {"model": "m", "results": rows, "usage": {"total_tokens": 10 * len(texts)}},
            "cohere": {"id": "1", "results": rows, "meta": {"billed_units": {"search_units": 1}}},
            "voyage": {"object": "list", "data": rows, "usage": {"total_tokens": 10 * len(texts)}},
            "tei": rows,
        }[self.form]

    def faults(self, body):
        """What the provider would refuse."""
        sent = _SENT[self.form]
        said = [name for name in {*sent, *body} if name not in sent or type(body.get(name)) is not sent[name]]
        texts = body.get("texts", body.get("documents"))
        return said if texts and all(isinstance(text, str) and text for text in texts) else [*said, "texts"]

    @property
    def url(self):
        return f"{self.base}/v1" if self.form in ("jina", "voyage") else self.base

    def answered(self, request, body):
        body = json.loads(body)
        with self._lock:
            self.bodies.append(body)
            step = self.script.pop(0) if self.script else None
        if request.path != _PATHS[self.form]:
            return 404, {}, {"error": "refused"}
        if isinstance(step, int):
            return step, {}, {"error": "refused"}
        if wrong := self.faults(body):
            return 422, {}, {"error": wrong}
        return 200, {}, step(self.answer(body)) if step else self.answer(body)
