"""Spans of OpenTelemetry, from the caller to the endpoint of a model; see `mog_assets.resources.tracing`.

Off unless the usual variables of OpenTelemetry ask for it (`OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_ENDPOINT`), or
the program that has this one in it has a tracer of its own. Until then nothing of OpenTelemetry is imported here, and a
span costs a look into a table.

References: W3C Trace Context; OpenTelemetry's environment variables, and its conventions for generative AI.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import Any, TypeVar

from mog_assets import registry
from mog_assets.resources import extras
from mog_assets.resources.errors import ConfigError

T = TypeVar("T")

PACKAGE = "opentelemetry.trace"
EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_SECONDS = 2
_NONE: AbstractContextManager[None] = nullcontext()


def _tracer() -> Any:
    """Return what makes spans; None if nobody collects them."""
    api = sys.modules.get(PACKAGE)
    if api is None:
        return None
    provider = api.get_tracer_provider()
    return None if isinstance(provider, api.ProxyTracerProvider) else provider.get_tracer("mog_assets")


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """See `resources.tracing.span`."""
    tracer = _tracer()
    return _NONE if tracer is None else _collected(tracer, name, _named(attributes))


@contextmanager
def _collected(tracer: Any, name: str, attributes: dict[str, Any]) -> Iterator[Any]:
    # Not the message of an error, which may quote what was asked.
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, attributes=attributes, **quiet) as one:
        try:
            yield one
        except Exception as error:
            one.set_attribute("error.type", type(error).__qualname__)
            one.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)
            raise


def note(**attributes: Any) -> None:
    """See `resources.tracing.note`."""
    if _tracer() is not None:
        sys.modules["opentelemetry.trace"].get_current_span().set_attributes(_named(attributes))


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.replace("__", ".") if "__" in name else f"mog.{name}": value
        for name, value in attributes.items()
        if value is not None
    }


def carried(function: Callable[..., T]) -> Callable[..., T]:
    """See `resources.tracing.carried`."""
    if _tracer() is None:
        return function
    context = copy_context()
    return lambda *arguments, **named: context.copy().run(function, *arguments, **named)


def headers() -> dict[str, str]:
    """See `resources.tracing.headers`."""
    carrier: dict[str, str] = {}
    if _tracer() is not None:
        from opentelemetry.propagate import inject

        inject(carrier)
    return carrier


def ids() -> dict[str, str]:
    """See `resources.tracing.ids`."""
    if _tracer() is None:
        return {}
    context = sys.modules["opentelemetry.trace"].get_current_span().get_span_context()
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"} if context.is_valid else {}


@contextmanager
def within(carrier: Mapping[str, str]) -> Iterator[None]:
    """See `resources.tracing.within`; where there is a span already, they belong to that."""
    given = {name.lower(): value for name, value in carrier.items() if name.lower() in ("traceparent", "tracestate")}
    if _tracer() is None or not given or ids():
        yield
        return
    from opentelemetry import context
    from opentelemetry.propagate import extract

    token = context.attach(extract(given))
    try:
        yield
    finally:
        context.detach(token)


def start() -> None:
    """Collect spans, if the environment asks for it: as text on standard error (`console`), or by OTLP over HTTP.

    Raises:
        ConfigError: another exporter or protocol is asked for.
        MogError: packages are not installed.
    """
    wanted = os.environ.get(EXPORTER, "") or ("otlp" if any(map(os.environ.get, _ENDPOINTS)) else "")
    off = os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    if wanted in ("", "none") or off or _tracer() is not None:
        return
    if wanted not in ("console", "otlp"):
        raise ConfigError(f"{EXPORTER}: expected otlp, console or none, got {wanted!r}")
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), "http/protobuf")
    if wanted == "otlp" and protocol != "http/protobuf":
        raise ConfigError(f"{_PROTOCOLS[1]}: expected http/protobuf, got {protocol!r}")
    with extras.needed(f"{EXPORTER}={wanted}"):
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        from mog_assets.plugins.tracing.text import Printed

        if wanted == "otlp":
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            # A collector that is away must not keep a command for long.
            patience = None if any(map(os.environ.get, _TIMEOUTS)) else _SECONDS
            processor: Any = BatchSpanProcessor(OTLPSpanExporter(timeout=patience))
        else:
            processor = Printed(sys.stderr)
    os.environ.setdefault("OTEL_SERVICE_NAME", extras.DISTRIBUTION)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)


def flush() -> None:
    """See `resources.tracing.flush`."""
    if _tracer() is not None:
        provider = sys.modules["opentelemetry.trace"].get_tracer_provider()
        if hasattr(provider, "force_flush"):
            provider.force_flush()


registry.TRACERS.register("opentelemetry", sys.modules[__name__])
