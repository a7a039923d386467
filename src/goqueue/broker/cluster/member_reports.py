"""What the operator is told of the cluster: which nodes came and went, who decides, what is wrong.

Says each thing once, when it changes.
"""

import msgspec

from goqueue.broker.cluster.broker_state import BrokerStateJournal
from goqueue.broker.cluster.cluster_metadata import Election
from goqueue.broker.cluster.metadata_records import MetadataRecord
from goqueue.broker.state import NodeState
from goqueue.cluster import (
    BrokerFenced,
    BrokerRegistered,
    BrokerRemoved,
    ClusterCreated,
    ClusterRecovered,
    FeatureLevelRaised,
    MetadataImage,
    UncleanLeaderElected,
)
from goqueue.model import (
    LOCAL,
    ClusterDisturbed,
    ClusterFormed,
    ControllerElected,
    FeaturesEnabled,
    Instant,
    NodeFenced,
    NodeForgotten,
    NodeRegistered,
    Now,
    QuorumRecovered,
    Report,
    UncleanElection,
)
from goqueue.security import AuditSubject, FieldChange

__all__ = ["MemberReports"]


class MemberReports:
    """Reports what changed."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._controller = ""
        self._problem: str | None = None
        self._term = 0
        # How often this broker heard of another controller, and since when it knows this one.
        self.elections_total = 0
        self.controller_since: Instant | None = None

    def tell_changes(self, applied: list[MetadataRecord], image: MetadataImage) -> None:
        """Tell the operator which nodes came and went."""
        report = self._state.outbox.append
        for record in applied:
            for change in record.changes:
                match change:
                    case ClusterCreated():
                        report(Report(report=ClusterFormed(cluster_id=change.cluster_id)))
                    case BrokerRegistered():
                        known = NodeRegistered(node=change.broker, epoch=int(record.version))
                        report(Report(report=known))
                    case BrokerFenced():
                        report(Report(report=NodeFenced(node=change.broker)))
                    case BrokerRemoved():
                        report(Report(report=NodeForgotten(node=change.broker)))
                    case ClusterRecovered():
                        lost = ", ".join(each.broker for each in change.lost)
                        recovered = QuorumRecovered(
                            node=change.by, previous=change.previous, lost=lost
                        )
                        report(Report(report=recovered))
                    case FeatureLevelRaised():
                        raised = FeaturesEnabled(feature_level=change.level)
                        report(Report(report=raised))
                    case UncleanLeaderElected():
                        self._tell_unclean(change, image)

    def record_recovery(self, own: BrokerStateJournal, now: Now) -> None:
        """Record once in the audit log that an operator recovered the cluster."""
        previous = own.state.recovered_from
        if previous and self._state.has_served:
            changes = (FieldChange("cluster_id", previous, own.state.cluster_id),)
            subject = AuditSubject("cluster.recover", "cluster:*")
            self._state.audit.observe(LOCAL, subject, changes, now)
            own.save(msgspec.structs.replace(own.state, recovered_from=""), now)

    def _tell_unclean(self, change: UncleanLeaderElected, image: MetadataImage) -> None:
        topic = image.table.topics.get(change.topic)
        if topic is not None:
            elected = UncleanElection(
                topic=topic.name,
                partition=change.partition,
                node=change.leader,
                is_by_operator=change.is_by_operator,
            )
            self._state.outbox.append(Report(report=elected))

    def tell_state(self, election: Election, problem: str | None, now: Instant) -> None:
        """Tell the operator who decides, and what is wrong."""
        leader = election.leader
        if leader is None:
            self.controller_since = None
        elif self.controller_since is None or election.term != self._term:
            self.controller_since, self._term = now, election.term
        if leader is not None and leader.broker != self._controller:
            self._controller = leader.broker
            self.elections_total += 1
            elected = ControllerElected(controller=leader.broker, term=election.term)
            self._state.outbox.append(Report(report=elected))
        if problem != self._problem:
            self._problem = problem
            if problem is not None:
                self._state.outbox.append(Report(report=ClusterDisturbed(reason=problem)))
