"""The figures of metrics and traces."""

from bench.broker.command import bench_command
from bench.observability.memory import measure_memory
from bench.observability.metrics import measure_metrics
from bench.observability.tracing import measure_tracing

__all__ = ["bench"]

bench = bench_command(
    "GoQueue observability",
    {
        "metrics": measure_metrics,
        "tracing": measure_tracing,
        "memory": measure_memory,
    },
    "Measure what it costs to watch a node.",
)
