"""What is told about requests: metrics, one line of log each, and the headers that every answer carries."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mog_assets.serve.problems import log, problem_of

API_POLICY = "default-src 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REQUEST_ID = "X-Request-Id"
_HEADERS = {
    "Content-Security-Policy": API_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Artefacts(Collector):
    """Metrics of what is searched."""

    def __init__(self, project: Any) -> None:
        self._project = project

    def collect(self) -> list[Metric]:
        """Return the metrics now."""
        version = InfoMetricFamily("mog_artefacts", "Version of the artefacts that are searched")
        version.add_metric([], {"version": self._project.version})
        loaded = GaugeMetricFamily("mog_artefacts_loaded_timestamp_seconds", "When they were opened")
        loaded.add_metric([], self._project.loaded)
        age = GaugeMetricFamily("mog_artefacts_age_seconds", "Seconds since they were opened")
        age.add_metric([], max(0.0, time.time() - self._project.loaded))
        trouble = GaugeMetricFamily("mog_trouble", "1 if newer artefacts could not be taken over")
        trouble.add_metric([], float(bool(self._project.trouble)))
        return [version, loaded, age, trouble]


class Metrics:
    """The metrics of a server, in a registry of its own."""

    def __init__(self, project: Any = None) -> None:
        self.registry = metrics = CollectorRegistry()
        if project is not None:
            metrics.register(Artefacts(project))
        labels = ["method", "route", "status"]
        self.requests = Counter("mog_http_requests", "Requests by route and status", labels, registry=metrics)
        self.seconds = Histogram(
            "mog_http_request_seconds", "Latency by route", ["route"], buckets=_BUCKETS, registry=metrics
        )
        self.running = Gauge("mog_http_requests_in_flight", "Requests that are being answered", registry=metrics)
        self.rejected = Counter(
            "mog_http_rejected", "Requests that were turned away, by reason", ["reason"], registry=metrics
        )
        self.connections = Gauge("mog_http_connections", "Open connections", registry=metrics)
        help_text = "Connections that the server closed, by reason"
        self.dropped = Counter("mog_http_connections_dropped", help_text, ["reason"], registry=metrics)


class Observed:
    """The outermost middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics, draining: Callable[[], bool], questions: bool) -> None:
        self.app, self.metrics, self.draining, self.questions = app, metrics, draining, questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(scope)
        started, status, complete = time.monotonic(), 0, False
        method = scope["method"]
        if method == "HEAD":
            # As GET, without the body.
            scope["method"] = "GET"

        async def followed() -> Message:
            nonlocal complete
            message = await receive()
            complete = not message.get("more_body", False)
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = state["request_id"]
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                # Who has an answer may not go on sending what it does not depend on.
                if self.draining() or not complete:
                    headers["Connection"] = "close"
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        self.metrics.running.inc()
        try:
            await self.app(scope, followed, noted)
        except Exception as error:
            # Asked to end the connection where the answer has begun: half an answer must not look like a whole one.
            if status:
                log.warning("%s %s: the answer was cut off: %r", scope["method"], _route(scope), error)
                raise _Cut from None
            await problem_of(error).response(scope["path"])(scope, receive, noted)
        finally:
            self.metrics.running.dec()
            scope["method"] = method
            self._note(scope, state, status, time.monotonic() - started)

    def _note(self, scope: Scope, state: dict[str, Any], status: int, seconds: float) -> None:
        route, method = _route(scope), scope["method"] if scope["method"] in _METHODS else "other"
        self.metrics.requests.labels(method, route, str(status or "gone")).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if reason := state.get("reason"):
            self.metrics.rejected.labels(reason).inc()
        fields = {"method": method, "route": route, "status": status or "gone", "ms": round(1000 * seconds)}
        words = [method, route, str(status or "gone"), f"{fields['ms']} ms"]
        if reason:
            words.append(reason)
            fields["reason"] = reason
        if self.questions and (question := state.get("question")):
            words.append(repr(question))
            fields["question"] = question
        words.append(state["request_id"])
        log.info("%s", " ".join(words), extra={"fields": {**fields, "request_id": state["request_id"]}})


_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "DELETE", "PUT", "PATCH"})

# What a caller may call a request: it is sent back and logged.
_OWN_ID = re.compile(rb"[\w.:-]{1,64}")


def _request_id(scope: Scope) -> str:
    """Return the caller's name of a request, or a new one."""
    given = next((value for name, value in scope["headers"] if name == REQUEST_ID.lower().encode()), b"")
    return given.decode() if _OWN_ID.fullmatch(given) else uuid4().hex


def _route(scope: Scope) -> str:
    """Return the route's own path: what callers write is neither a label nor in the log."""
    return str(getattr(scope.get("route"), "path", "none"))


class _Cut(Exception):
    """The answer was begun and not finished."""
