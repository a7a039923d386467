"""What a member of a cluster does with each command that reaches it, on its own or passed on.

Topics are the controller's, groups the coordinator's, partitions their leaders'. What a cluster
does not serve yet is refused with the reason.
"""

import msgspec

from goqueue.broker.access_changes import ACCESS_COMMANDS, AccessChanges, AccessCommand
from goqueue.broker.cluster import ClusterMember
from goqueue.broker.cluster.cluster_commands import (
    CLUSTER_COMMANDS,
    COORDINATOR_COMMANDS,
    REFUSAL,
    SCHEMA_CHANGES,
)
from goqueue.broker.cluster.cluster_producers import is_transactional
from goqueue.broker.cluster.cluster_schemas import ClusterSchemas
from goqueue.broker.cluster.cluster_topics import ClusterTopics
from goqueue.broker.components import CommandFn, Components, HandlerTable
from goqueue.broker.coordinator.coordinators import Coordinators
from goqueue.broker.coordinator.remote_copies import CopyServer
from goqueue.broker.state import NodeState
from goqueue.model import Code, Now, Refused, RequestId
from goqueue.model.requests import (
    AlterTopic,
    AppendCopies,
    AppendMarker,
    Command,
    CreateTopic,
    DeleteTopic,
    DescribePriorities,
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
    schemas: ClusterSchemas


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
    changes = AccessChanges(state.security, components.quotas)

    def change_access(request: RequestId, command: AccessCommand, _: Now) -> None:
        if parts.member.controller is None:
            raise Refused(Code.NOT_CONTROLLER)
        parts.member.controller.change_access(request, command, changes.decide)

    for kind in ACCESS_COMMANDS:
        handle(kind, change_access)  # type: ignore[arg-type]  # each of these
    for changing in SCHEMA_CHANGES:
        handle.handlers[changing] = parts.schemas.where_decided(handlers[changing])
    handle(AppendCopies, parts.copies.append)
    handle(AppendMarker, parts.copies.append_marker)
    handle(EndCopies, parts.copies.end)
    for command in handlers:
        if command not in CLUSTER_COMMANDS:
            handle.handlers.setdefault(command, _refuse)
    for kind, is_repeatable in COORDINATOR_COMMANDS.items():
        handle.handlers[kind] = parts.coordinators.handler(is_repeatable=is_repeatable)
    _handle_producers(handle, parts)
    _handle_priorities(handle, components, parts)
    handlers.update(handle.handlers)


def _handle_producers(handle: HandlerTable, parts: MemberParts) -> None:
    """Transactional ids are the coordinator's, all other ids this broker's."""
    coordinated = {
        kind: parts.coordinators.handler(is_repeatable=True)
        for kind in (InitProducer, HeartbeatProducer)
    }

    def init(request: RequestId, command: InitProducer, now: Now) -> None:
        if command.transactional_id is None:
            parts.member.producers.init(request, command, now)
        else:
            coordinated[InitProducer](request, command, now)

    def heartbeat(request: RequestId, command: HeartbeatProducer, now: Now) -> None:
        if is_transactional(command.producer_id):
            coordinated[HeartbeatProducer](request, command, now)
        else:
            parts.member.producers.heartbeat(request, command, now)

    handle(InitProducer, init)
    handle(HeartbeatProducer, heartbeat)


def _handle_priorities(handle: HandlerTable, components: Components, parts: MemberParts) -> None:
    """How lanes fare says the coordinator; what was published, each node of its own."""
    coordinated = parts.coordinators.handler(is_repeatable=True)

    def describe(request: RequestId, command: DescribePriorities, now: Now) -> None:
        current = parts.coordinators.current
        if current is not None and current.is_serving:
            coordinated(request, command, now)
        else:
            components.priority_indexer.describe(request, now)

    handle(DescribePriorities, describe)


def _refuse(_request: RequestId, _command: Command, _now: Now) -> None:
    raise Refused(Code.REQUEST_INVALID, reason=REFUSAL)
