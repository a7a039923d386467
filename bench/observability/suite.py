"""The figures of metrics and traces."""

from bench.observability.memory import measure_memory
from bench.observability.metrics import measure_metrics
from bench.observability.tracing import measure_tracing
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure what it costs to watch a node.",
    measures={
        "metrics": measure_metrics,
        "tracing": measure_tracing,
        "memory": measure_memory,
    },
)
