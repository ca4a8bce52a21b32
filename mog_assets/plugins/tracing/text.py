"""A trace as lines of text, for people who have no collector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import TextIO

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from mog_assets.resources.printable import escaped

# Spans of a trace that are kept: of a run, each asset has one; of a question, each call.
_MOST = 10_000
_NS_PER_MS = 1e6


class Printed(SpanProcessor):
    """Prints a trace when its outermost span of this process ends: a line for each span, below the one it is within.

    Args:
        stream: Where it is printed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._lock = stream, Lock()
        self._ended: defaultdict[int, list[ReadableSpan]] = defaultdict(list)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Do nothing: nothing is printed yet."""

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span; print all if it is the outermost."""
        if span.context is None:
            return
        number = span.context.trace_id
        with self._lock:
            if span.parent is not None and not span.parent.is_remote:
                if len(self._ended[number]) < _MOST:
                    self._ended[number].append(span)
                return
            spans = self._ended.pop(number, [])
        self._stream.write("\n".join(lines(span, spans)) + "\n")
        self._stream.flush()


def lines(root: ReadableSpan, spans: Sequence[ReadableSpan]) -> list[str]:
    """Return the lines of a trace, the outermost span and those within: name, milliseconds, attributes."""
    within: defaultdict[int, list[ReadableSpan]] = defaultdict(list)
    for span in spans:
        within[span.parent.span_id if span.parent else 0].append(span)
    output = [f"trace {root.context.trace_id:032x}" if root.context else "trace"]

    def add(span: ReadableSpan, depth: int) -> None:
        took = ((span.end_time or 0) - (span.start_time or 0)) / _NS_PER_MS
        attributes = [
            f"{name.removeprefix('mog.')}={value!s}" for name, value in sorted((span.attributes or {}).items())
        ]
        failed = [] if span.status.is_ok else ["failed"]
        left = f"{'  ' * depth}{span.name}"
        output.append(escaped(f"  {left:38} {took:10,.1f} ms  {' '.join(attributes + failed)}".rstrip()))
        children = within[span.context.span_id] if span.context else []
        for child in sorted(children, key=lambda one: one.start_time or 0):
            add(child, depth + 1)

    add(root, 0)
    return output
