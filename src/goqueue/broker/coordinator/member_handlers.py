"""What a member of a cluster does with each command that reaches it, on its own or passed on.

Topics are the controller's, groups the coordinator's, partitions their leaders'. What a cluster
does not serve yet is refused with the reason.
"""

import msgspec

from goqueue.broker.cluster import ClusterMember
from goqueue.broker.cluster.cluster_commands import (
    CLUSTER_COMMANDS,
    COORDINATOR_COMMANDS,
    REFUSAL,
)
from goqueue.broker.cluster.cluster_topics import ClusterTopics
from goqueue.broker.components import CommandFn, Components, HandlerTable
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.coordinator.remote_copies import CopyServer
from goqueue.broker.state import NodeState
from goqueue.model import Code, Now, Refused, RequestId
from goqueue.model.requests import (
    AlterTopic,
    AppendCopies,
    Command,
    CreateTopic,
    DeleteTopic,
    EndCopies,
    HeartbeatProducer,
    InitProducer,
)

__all__ = ["MemberParts", "limit_to_members"]


class MemberParts(msgspec.Struct, frozen=True):
    """The parts of a node that only a member of a cluster has."""

    member: ClusterMember
    coordinators: Coordinators
    copies: CopyServer


def limit_to_members(
    handlers: dict[type, CommandFn[Command]],
    components: Components,
    state: NodeState,
    parts: MemberParts,
) -> None:
    """Let a member of a cluster answer what a cluster serves, and refuse the rest."""
    topics = ClusterTopics(state, components.quotas)
    handle = HandlerTable()

    def change(request: RequestId, command: CreateTopic | AlterTopic | DeleteTopic, _: Now) -> None:
        topics.change(parts.member.partition_controller, request, command)

    handle(CreateTopic, change)
    handle(AlterTopic, change)
    handle(DeleteTopic, change)
    handle(InitProducer, parts.member.producers.init)
    handle(HeartbeatProducer, parts.member.producers.heartbeat)
    handle(AppendCopies, parts.copies.append)
    handle(EndCopies, parts.copies.end)
    for command in handlers:
        if command not in CLUSTER_COMMANDS:
            handle.handlers.setdefault(command, _refuse)
    for kind, is_repeatable in COORDINATOR_COMMANDS.items():
        handle.handlers[kind] = parts.coordinators.handler(is_repeatable=is_repeatable)
    handlers.update(handle.handlers)


def _refuse(_request: RequestId, _command: Command, _now: Now) -> None:
    raise Refused(Code.REQUEST_INVALID, reason=REFUSAL)
