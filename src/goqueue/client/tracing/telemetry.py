"""OpenTelemetry, if the program has it: imported by nobody here who would be the first.

A span can only be current, and a tracer provider only be set, in a program that has imported
`opentelemetry.trace` itself. So whoever does not trace pays for one look into a table, and neither
the package nor the time to import it.
"""

import functools
import sys
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from opentelemetry.trace import SpanKind, Tracer

__all__ = ["Telemetry", "find_telemetry"]

_API = "opentelemetry.trace"
_SCOPE = "goqueue.client"


class Telemetry(msgspec.Struct, frozen=True, eq=False):
    """What spans are made by, and of which kinds."""

    tracer: "Tracer"
    producer: "SpanKind"
    consumer: "SpanKind"


def find_telemetry() -> Telemetry | None:
    """None in a program that does not use OpenTelemetry."""
    return _load() if _API in sys.modules else None


@functools.cache
def _load() -> Telemetry | None:
    try:
        from opentelemetry import trace
    except ImportError:
        # Something else of that name, or half of it.
        return None
    # Until a provider is set it makes spans that record nothing and have their parent's context.
    tracer = trace.get_tracer(_SCOPE)
    return Telemetry(tracer, trace.SpanKind.PRODUCER, trace.SpanKind.CONSUMER)
