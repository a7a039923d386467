"""The figures of delays, schedules and lanes."""

from bench.delivery.accuracy import measure_accuracy
from bench.delivery.backlog import measure_backlog
from bench.delivery.lanes import measure_lanes
from bench.delivery.memory import measure_memory
from bench.delivery.pending import measure_pending
from bench.delivery.restart import measure_restart, measure_schedule_restart
from bench.delivery.ticks import measure_ticks
from bench.delivery.wheel import measure_wheel
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure delays and lanes: the wheel in this process, the rest with a broker.",
    measures={
        "wheel": lambda _, scale: measure_wheel(scale),
        "memory": lambda _, scale: measure_memory(scale),
        "pending": measure_pending,
        "accuracy": measure_accuracy,
        "ticks": measure_ticks,
        "restart": measure_restart,
        "schedules": measure_schedule_restart,
        "lanes": measure_lanes,
        "backlog": measure_backlog,
    },
)
