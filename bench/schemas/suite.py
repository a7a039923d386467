"""Measure what schemas cost: a full registry, lookups, compatibility checks, validation.

Validation is compared with the same publishes to a topic without it, in turns on one node, by the
processor time of the node: others who use the machine do not count.
"""

from bench.runner import Suite
from bench.schemas import registry, validation

__all__ = ["SUITE"]

SUITE = Suite(
    words=__doc__,
    measures={
        "start": registry.start,
        "lookup": registry.lookup,
        "compatibility": registry.compatibility,
        "publish": validation.publish,
    },
    baseline="without",
)
