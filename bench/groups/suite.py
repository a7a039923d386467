"""Measure how long a rebalance takes, and what it does to partitions that do not move.

Cooperative and eager groups of the same size are measured in one run, on one node. A rebalance is
the join of one more member: it is over when the newcomer has its partitions and every member knows
the generation. Meanwhile members poll with the generation that they know, and one partition that
stays with its owner gets messages all the time.
"""

from bench.groups import rebalance
from bench.runner import Suite

__all__ = ["SUITE"]

SUITE = Suite(
    words=__doc__,
    measures={"small": rebalance.small, "large": rebalance.large},
    baseline="eager",
)
