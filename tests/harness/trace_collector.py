"""A collector of OpenTelemetry on loopback: keeps the spans that are sent to it by OTLP over HTTP.

with TraceCollector() as collector:
...  # a process with collector.environment
spans = collector.spans
"""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def _value(value):
    return getattr(value, value.WhichOneof("value"))


class TraceCollector:
    """The server; ends with its context.

    Attributes:
        spans: What came: `name`, `trace`, `id`, `parent`, `attributes`, `start` and `end` in seconds, `service`.
    """

    def __init__(self):
        self.spans = []
        self._lock = threading.Lock()

    def _keep(self, body):
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            of = {a.key: _value(a.value) for a in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        SimpleNamespace(
                            name=span.name,
                            trace=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            attributes={a.key: _value(a.value) for a in span.attributes},
                            start=span.start_time_unix_nano / 1e9,
                            end=span.end_time_unix_nano / 1e9,
                            service=of["service.name"],
                            raw=str(span),
                        )
                    )

    def __enter__(self):
        collector = self

        class Handler(BaseHTTPRequestHandler):
            # A body that waits for the acknowledgement of its head takes 40 ms more.
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                with collector._lock:
                    collector._keep(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        return self

    def __exit__(self, *raised):
        self._server.shutdown()
        self._server.server_close()

    def path(self, span):
        """Names of the spans that one is within, the outermost that was sent first."""
        by_id = {one.id: one for one in self.spans}
        names = [span.name]
        while span.parent in by_id:
            span = by_id[span.parent]
            names.insert(0, span.name)
        return names
