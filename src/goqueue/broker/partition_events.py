"""What happens to partitions, and to whoever waits for them: disk events, commits, deletion.

Joins the logs with the components that follow them. In a cluster it also carries on what replicas
found out: what other brokers confirmed is committed, what was led is led no more.
"""

from goqueue.broker.cluster import ClusterMember
from goqueue.broker.components import Components
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.partitions import Partition, free
from goqueue.broker.publication_ends import PublicationEnds
from goqueue.broker.state import NodeState
from goqueue.model import (
    SECOND,
    Code,
    Compacted,
    Damaged,
    DiskEvent,
    Dropped,
    Failed,
    Filled,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    Repaired,
    RequestId,
)
from goqueue.model.requests import DeleteTopic

__all__ = ["PartitionEvents"]

# How long a publisher waits for the copies.
_REPLICATION_NS = 5 * SECOND


class PartitionEvents:
    """Tells the components of a node what happened to partitions."""

    def __init__(
        self,
        state: NodeState,
        components: Components,
        publication_ends: PublicationEnds,
        cluster: ClusterMember | None,
        coordinators: Coordinators | None,
    ) -> None:
        self._state = state
        self._components = components
        self._publication_ends = publication_ends
        self._cluster = cluster
        self._coordinators = coordinators
        self._replicas = None if cluster is None else cluster.replicas

    # Replicas

    def follow_replicas(self, now: Now) -> None:
        """Carry on what replicas found out in this turn."""
        cluster, coordinators = self._cluster, self._coordinators
        if cluster is None or coordinators is None:
            return
        replicas = cluster.replicas
        for topic, partitions in cluster.image_follower.take_removed():
            self._forget_topic(topic.name, [each.log_id for each in partitions], now)
            logs = [LogId(topic.name, number) for number in range(topic.partitions)]
            coordinators.topic_removed(topic.name, logs, now)
        for name in cluster.image_follower.take_opened():
            coordinators.topic_opened(name, now)
        for partition in replicas.take_demoted():
            self._demoted(partition, now)
        for partition in replicas.take_unobserved():
            self._forget_copy(partition)
        for partition in replicas.take_risen():
            if self._state.partitions.get(partition.log_id) is partition:
                self._committed(partition, now)
                # It may have begun to lead.
                self._components.delayed_messages.arm(partition.log_id, now)
                if partition.readers:
                    self._components.stream_reads.wake(partition, now)
                partition.release_records()
        for partition in replicas.take_followed():
            coordinators.committed(partition, now)

    def end_overdue(self, now: Now) -> None:
        """Let nobody wait longer for the copies than the contract says."""
        if self._replicas is None:
            return
        before = Instant(now.instant - _REPLICATION_NS)
        for partition in list(self._replicas.awaited()):
            for publication, published in partition.overdue(before, Code.REPLICATION_FAILED):
                self._publication_ends.end(publication, published, now)
        self._components.delayed_messages.end_overdue(before)

    def _demoted(self, partition: Partition, now: Now) -> None:
        """Another broker leads: whether what was appended is kept is not known here."""
        for publication, published in partition.taken_back(Offset(0), Code.REPLICATION_FAILED):
            self._publication_ends.end(publication, published, now)
        if partition.readers:
            gone = Refused(Code.LEADER_UNAVAILABLE, partition=partition.log_id.partition)
            self._components.stream_reads.refuse_all(partition, gone)
        self._components.producer_snapshots.taken_back(partition.log_id)
        if partition.leader is None:
            # If this broker leads on, in a later epoch, it has all that it appended.
            self._components.delayed_messages.demoted(partition, now)
        # It is made anew where the next leader serves groups.
        self._components.priority_indexer.forget_logs([partition.log_id])

    # The disk

    def dropped(self, event: Dropped) -> None:
        """A log begins later, for good."""
        self._components.record_deletion.dropped(event.log, event.start)
        if self._replicas is not None:
            self._replicas.dropped(event.log)

    def handle(self, partition: Partition, event: DiskEvent, now: Now) -> None:
        if isinstance(event, Failed):
            self._state.storage.record_failed(event.log, event.reason)
            self._components.record_deletion.failed(event.log)
        known, committed = partition.log.damaged, partition.log.high_watermark
        self._state.outbox.extend(partition.log.handle(event, now))
        if self._replicas is not None:
            self._replicas.handle_disk(partition, event, now)
        self._state.storage.record_damage(event.log, partition.log.damaged)
        if partition.log.high_watermark > committed:
            self._state.storage.record_written(event.log)
        self._state.arm_flush(partition)
        if isinstance(event, Damaged) and partition.log.damaged == known:
            # It is set aside when the writes on their way are done: until then to look again
            # would only find the same.
            return
        if isinstance(event, Filled):
            code = _lost(partition, Code.STORAGE_FULL)
            outcomes = list(partition.taken_back(event.offset, code))
            self._components.producer_snapshots.taken_back(event.log)
            self._components.delayed_messages.taken_back(partition, event.offset, code, now)
        elif isinstance(event, Failed):
            code = _lost(partition, Code.STORAGE_FAILED)
            outcomes = list(partition.taken_back(Offset(0), code))
            self._components.delayed_messages.taken_back(partition, Offset(0), code, now)
        else:
            self._committed(partition, now)
            outcomes = []
        for publication, published in outcomes:
            self._publication_ends.end(publication, published, now)
        if isinstance(event, Repaired):
            self._components.delayed_messages.repaired(partition, now)
        if isinstance(event, Compacted):
            self._components.polls.relearn(partition)
            if self._coordinators is not None:
                self._coordinators.compacted(event.log)
        if partition.readers:
            self._components.stream_reads.wake(partition, now)
        self._components.polls.wake(partition, now)
        partition.release_records()

    def _committed(self, partition: Partition, now: Now) -> None:
        """More of a log may be committed: tell whoever waits for that."""
        outcomes = list(partition.committed(now.instant))
        self._components.delayed_messages.committed(partition, now)
        for ending in partition.log.take_ended():
            self._state.hide_ending(partition.log_id, ending)
            self._state.traces.ended(ending.key, partition.log_id, now, is_commit=ending.is_commit)
            self._components.delayed_messages.ended(partition, ending, now)
        self._components.coordinator.log_durable(partition)
        self._components.producer_snapshots.durable(partition)
        for publication, published in outcomes:
            self._publication_ends.end(publication, published, now)
        if self._coordinators is not None:
            self._coordinators.committed(partition, now)

    # Topics

    def delete_topic(self, request: RequestId | None, command: DeleteTopic, now: Now) -> None:
        """Delete a topic, and all that anybody has of it."""
        logs = self._state.catalog.find_for_writing(command.name).logs
        self._components.topics.delete(request, command)
        self._forget_topic(command.name, logs, now)

    def _forget_copy(self, partition: Partition) -> None:
        """A copy is not kept here any more: observed, or moved. Its topic lives on elsewhere."""
        log = partition.log_id
        if self._state.partitions.get(log) is partition:
            self._state.partitions.remove_all([log])
            self._state.storage.forget_logs([log])
            self._components.delayed_messages.forget_logs([log])
            self._components.producer_snapshots.forget_logs([log])
            self._components.record_deletion.forget_logs([log], Code.REPLICATION_FAILED)

    def _forget_topic(self, name: str, logs: list[LogId], now: Now) -> None:
        gone = Refused(Code.TOPIC_NOT_FOUND, topic=name)
        self._components.polls.refuse_receives(name, gone)
        partitions = self._state.partitions.remove_all(logs)
        self._state.storage.forget_logs(logs)
        self._components.delayed_messages.forget_logs(logs)
        self._components.coordinator.forget_logs(logs)
        self._components.producer_snapshots.forget_logs(logs)
        self._components.priority_indexer.forget_logs(logs)
        self._components.record_deletion.forget_logs(logs)
        for partition in partitions:
            if partition.is_awaited:
                self._components.stream_reads.refuse_all(partition, gone)
                for publication, published in partition.taken_back(Offset(0), Code.TOPIC_NOT_FOUND):
                    self._publication_ends.end(publication, published, now)
        # To free thousands of logs takes longer than to forget them.
        self._state.stepwise.begin(None, free(partitions), now)
        self._state.counts.forget_topic(name)
        self._state.traces.forget(name, logs)
        self._components.positions.forget_logs(logs)
        self._components.transaction_offsets.check_again()
        self._components.membership.rebalance(name, now)


def _lost(partition: Partition, code: Code) -> Code:
    """Why a batch is not here: what others were sent may be committed all the same."""
    led = partition.leader
    return Code.REPLICATION_FAILED if led is not None and led.has_followers else code
