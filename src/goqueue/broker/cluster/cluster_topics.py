"""Commands that change topics in a cluster, on the broker that is the controller.

A change is checked by the controller, committed in the metadata log, and known to a broker when it
follows that record.
"""

from goqueue.broker.cluster.partition_controller import PartitionController, TopicCommand
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.cluster import TopicStated
from goqueue.model import RequestId
from goqueue.model.requests import (
    AlterTopic,
    CreateTopic,
    TopicConfig,
)

__all__ = ["ClusterTopics"]


class ClusterTopics:
    """Takes commands about topics as a member of a cluster."""

    def __init__(self, state: NodeState, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas

    def change(
        self, controller: PartitionController, request: RequestId, command: TopicCommand
    ) -> None:
        """Pass a change to the controller, which is this broker; refuses if it is not."""
        if isinstance(command, CreateTopic):
            chosen = command.config.dead_letter_topic or f"{command.name}.dlq"
            self._state.access.require_same_tenant(command.name, chosen)
        elif isinstance(command, AlterTopic):
            chosen = str(command.changes.values.get("dead_letter_topic") or "")
            if chosen:
                self._state.access.require_same_tenant(command.name, chosen)
        controller.request(request, command, self._confirm)

    def _confirm(self, stated: TopicStated, before: TopicConfig | None) -> None:
        """Refuse what the quotas of its tenant do not allow."""
        if before is None:
            self._quotas.check_topic(stated.name, stated.partitions, stated.config)
        else:
            self._quotas.check_config(stated.name, before, stated.config)
