"""The figures of metrics and traces."""

from bench.broker.command import bench_command
from bench.observability.metrics import measure_metrics

__all__ = ["bench"]

bench = bench_command(
    "GoQueue observability",
    {
        "metrics": measure_metrics,
    },
    "Measure what it costs to watch a node.",
)
