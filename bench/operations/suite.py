"""Installing and running a node: the first message, set-up, memory and descriptors, the log."""

from bench.operations.access_log import measure_access_log
from bench.operations.install import measure_first_message, measure_setup
from bench.operations.sizing import measure_sizing
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure what it takes to install a node, and what it takes of a machine.",
    measures={
        "first_message": measure_first_message,
        "setup": measure_setup,
        "sizing": measure_sizing,
        "access_log": measure_access_log,
    },
)
