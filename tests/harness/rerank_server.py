"""A rerank endpoint on loopback in the form of Jina, Cohere, Voyage or TEI, which takes nothing that they do not.

The model likes texts that share words with the question, unless it is given another taste.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


class RerankServer:
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

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            # A body that waits for the acknowledgement of its head takes 40 ms more.
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.bodies.append(body)
                    step = server.script.pop(0) if server.script else None
                status, data = 200, {"error": "refused"}
                if self.path != _PATHS[server.form]:
                    status = 404
                elif isinstance(step, int):
                    status = step
                elif wrong := server.faults(body):
                    status, data = 422, {"error": wrong}
                else:
                    data = step(server.answer(body)) if step else server.answer(body)
                raw = json.dumps(data).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        base = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{base}/v1" if self.form in ("jina", "voyage") else base
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
