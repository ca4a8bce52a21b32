"""A collector of OpenTelemetry on loopback: keeps the spans that are sent to it by OTLP over HTTP.

with TraceCollector() as collector:
...  # a process with collector.environment
spans = collector.spans
"""

import gzip
import threading
from types import SimpleNamespace

from loopback import Loopback
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def _value(value):
    return getattr(value, value.WhichOneof("value"))


class TraceCollector(Loopback):
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

    @property
    def environment(self):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.base, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    def answered(self, request, body):
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with self._lock:
            self._keep(body)
        return 200, {"Content-Type": "application/x-protobuf"}, b""

    def path(self, span):
        """Names of the spans that one is within, the outermost that was sent first."""
        by_id = {one.id: one for one in self.spans}
        names = [span.name]
        while span.parent in by_id:
            span = by_id[span.parent]
            names.insert(0, span.name)
        return names
