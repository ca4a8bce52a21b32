"""Spans of OpenTelemetry, where its variables ask for them."""

from mog_assets import registry

registry.TRACERS.add_modules(f"{__name__}.spans")
