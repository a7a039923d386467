"""The memory of a coordinator: its own groups, the broker's topics, keys and counts.

Partitions are those of which the broker keeps a copy. A copy that follows says less than its
leader, and nothing that is not committed: reading below its high watermark is always right. One
that never had all that was committed is not shown: where it ends says nothing. Whoever looks for a
copy that is not there has it made.
"""

from collections.abc import Callable, Iterable, Iterator

from goqueue.broker.cluster.cluster_producers import TRANSACTIONAL_FROM
from goqueue.broker.partitions import Partition, Partitions
from goqueue.broker.state import NodeState
from goqueue.model import Code, LogId, Refused
from goqueue.tracing import Tracer

__all__ = ["CopiedPartitions", "coordinator_state"]


class CopiedPartitions(Partitions):
    """The copies of a broker, each with its own waiting polls.

    A log that was opened anew is another partition.
    """

    def __init__(self, host: Partitions, require: Callable[[LogId], None]) -> None:
        """`require` has a copy of a partition made."""
        super().__init__()
        self._host = host
        self._require = require

    def __iter__(self) -> Iterator[Partition]:
        found = [self.present(each.log_id) for each in self._host]
        return iter([each for each in found if each is not None])

    def __len__(self) -> int:
        return len(self._host)

    def __getitem__(self, log: LogId) -> Partition:
        found = self.get(log)
        if found is None:
            raise _not_copied(log)
        return found

    def get(self, log: LogId) -> Partition | None:
        found = self.present(log)
        if found is None:
            self._require(log)
        return found

    def present(self, log: LogId) -> Partition | None:
        hosted = self._host.get(log)
        if hosted is None or not hosted.has_caught_up:
            super().remove_all([log])
            return None
        known = super().get(log)
        if known is None or known.log is not hosted.log:
            known = Partition(log, hosted.log)
            self.add(known)
        return known

    def find(self, log: LogId, count: int) -> Partition:
        if not 0 <= log.partition < count:
            return super().find(log, count)
        return self[log]

    def remove_all(self, logs: Iterable[LogId]) -> list[Partition]:
        return super().remove_all(list(logs))


def _not_copied(log: LogId) -> Refused:
    reason = "the node that coordinates groups does not have its messages yet"
    return Refused(Code.LEADER_UNAVAILABLE, topic=log.topic, partition=log.partition, reason=reason)


def coordinator_state(
    host: NodeState, epoch: int, require_copy: Callable[[LogId], None]
) -> NodeState:
    """An empty memory that shares with its broker what is not the coordinator's."""
    zones = host.schedules.zones
    state = NodeState(host.node_id, Tracer(0.0), host.budget, zones, tokens=host.tokens)
    state.catalog = host.catalog
    state.partitions = CopiedPartitions(host.partitions, require_copy)
    state.traces = host.traces
    state.security = host.security
    state.schemas = host.schemas
    state.access = host.access
    state.audit = host.audit
    state.tally = host.tally
    state.counts = host.counts
    state.storage = host.storage
    state.delays = host.delays
    state.coordinator_epoch = epoch
    state.transactions.producers.reserve(TRANSACTIONAL_FROM)
    state.journals.are_replicated = True
    state.not_ready = None
    return state
