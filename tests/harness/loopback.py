"""An HTTP server on loopback: what the servers of tests have in common."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """Clients that go away are what tests are about; anything else is a fault of this server, and is told."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Loopback:
    """Answers requests by `answered`; ends with its context.

    Attributes:
        base: Its address, without a slash at the end.
    """

    def __enter__(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            # A body that waits for the acknowledgement of its head takes 40 ms more.
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if answer := server.answered(self, body):
                    self.send(*answer)

            do_GET = do_HEAD = do_POST

            def send(self, status, headers, data, length=None):
                """Send an answer, or only the first bytes of its body."""
                data = data if isinstance(data, bytes) else json.dumps(data).encode()
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data[:length])

            def log_message(self, *arguments):
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *raised):
        self._server.shutdown()
        self._server.server_close()

    def answered(self, request, body):
        """Status, headers and data of the answer to a request, given its handler and body; None if it was sent."""
        raise NotImplementedError
