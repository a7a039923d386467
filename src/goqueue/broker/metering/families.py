"""Everything that a node counts and knows, as families of samples.

The names are those of the contract. Samples are made while they are read, and turns of the node may
come between: each family begins with a copy of what there is, and leaves out what has gone since.
"""

from collections.abc import Iterator

from goqueue.broker.metering.groups import group_families
from goqueue.broker.metering.logs import log_families
from goqueue.broker.metering.pairs import pair_families
from goqueue.broker.metering.topics import topic_families
from goqueue.broker.state import NodeState
from goqueue.metrics import Family

__all__ = ["families_of"]


def families_of(state: NodeState, *, by_partition: bool) -> Iterator[Family]:
    """The families of a node; with one sample per partition where the contract allows it."""
    yield from topic_families(state)
    yield from pair_families(state, by_partition=by_partition)
    yield from group_families(state)
    yield from log_families(state, by_partition=by_partition)
