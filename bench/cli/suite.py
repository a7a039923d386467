"""The figures of the command line."""

from bench.cli.startup import measure_startup
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words="Measure how long a person waits for the command line.",
    measures={"startup": measure_startup},
    has_broker=False,
    baseline="a Python that does nothing",
)
