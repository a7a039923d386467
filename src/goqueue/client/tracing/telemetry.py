"""OpenTelemetry, if the program has it: imported by nobody here who would be the first.

A span can only be current, and a tracer provider only be set, in a program that has imported
`opentelemetry.trace` itself. So whoever does not trace pays for one look into a table, and neither
the package nor the time to import it.
"""

import functools
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

__all__ = ["find_tracer"]

_API = "opentelemetry.trace"
_SCOPE = "goqueue.client"


def find_tracer() -> "Tracer | None":
    """What spans are made by; None in a program that does not use OpenTelemetry."""
    return _tracer() if _API in sys.modules else None


@functools.cache
def _tracer() -> "Tracer | None":
    try:
        from opentelemetry import trace
    except ImportError:
        # Something else of that name, or half of it.
        return None
    # Until a provider is set it makes spans that record nothing and have their parent's context.
    return trace.get_tracer(_SCOPE)
