"""Questions that every node of a cluster answers for itself, and what the answers say together.

A trace is in pieces: each node keeps what happened on it. A reply goes to whichever node its
requester waits at. The lanes of groups are known where those are coordinated, what was published
where partitions are led, what a tenant used where it was served. So all nodes that live are asked,
at once; one that does not answer is left out: what it keeps is for the life of its process, and
what its tenants used is told again when it is back.

Cost: one message to each other node and back. Bound: a search reads at most `SEARCHED_MAX` traces
of each node, and judges the status of those.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar, get_args

import msgspec

from goqueue.broker.cluster.edge import ClusterEdge, Handler
from goqueue.broker.cluster.forward_parts import AtBroker, Gather, Outcome, Part, Request
from goqueue.broker.cluster.level_gate import LevelGate
from goqueue.broker.replies import Replies
from goqueue.broker.state import NodeState
from goqueue.model import Code, Now, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    Command,
    DescribePriorities,
    DescribeTenantStatistics,
    DescribeUsage,
    FindTrace,
    PriorityStatistics,
    Reply,
    ReplySent,
    ResetUsage,
    SearchTraces,
    SendReply,
    TenantStatistics,
    TenantUsage,
    TraceDescription,
    TraceDetail,
    TraceEvent,
    TraceList,
    TraceStatus,
)

__all__ = ["SEARCHED_MAX", "NodeCommand", "NodeQuestions", "gather_of", "part_of"]

SEARCHED_MAX = 1_000

Handlers = dict[type, Handler]
R = TypeVar("R", bound=Reply)
NodeCommand = (
    DescribePriorities
    | DescribeTenantStatistics
    | DescribeUsage
    | FindTrace
    | ResetUsage
    | SearchTraces
    | SendReply
)


class NodeQuestions:
    """Asks all nodes that live."""

    def __init__(self, state: NodeState, edge: ClusterEdge, replies: Replies) -> None:
        self._state = state
        self._edge = edge
        self._replies = replies

    def around(self, edge: Mapping[type, Handler], here: Mapping[type, Handler]) -> Handlers:
        """The handlers of the edge, with those of questions to all nodes."""
        gate = LevelGate(self._edge.routes)
        handlers = dict(edge)
        for kind in get_args(NodeCommand):
            handlers[kind] = gate.around(kind, partial(self._handle, here[kind]))
        return handlers

    def _handle(self, here: Handler, request: RequestId, command: Command, now: Now) -> None:
        assert isinstance(command, NodeCommand)
        is_here = isinstance(command, SendReply) and self._replies.is_awaited(command.reply_to)
        nodes = self._edge.routes.live_brokers
        if is_here or nodes in ([], [self._edge.routes.me]):
            here(request, command, now)
            return
        gather = gather_of(command, self._replies.count_dropped)
        whole = Request(request, command, self._state.caller, gather, now.instant)
        asked = part_of(command)
        parts = [Part(whole, asked, AtBroker(node), is_repeatable=True) for node in nodes]
        self._edge.forwarder.begin(whole, parts, now)
        self._edge.disown(request)


def part_of(command: NodeCommand) -> NodeCommand:
    """What each node is asked."""
    if not isinstance(command, SearchTraces):
        return command
    # A message is published on one node and settled on another: only both together know how it is.
    return msgspec.structs.replace(command, status=None, limit=SEARCHED_MAX)


def gather_of(command: NodeCommand, count_dropped: Callable[[], None]) -> Gather:
    """What puts the answers together; a reply that nobody waits for is counted."""
    match command:
        case FindTrace():
            return TraceGather(command)
        case SearchTraces():
            return TraceListGather(command)
        case SendReply():
            return ReplyGather(count_dropped)
        case DescribePriorities():
            return SumGather(PriorityStatistics, _priorities)
        case DescribeTenantStatistics():
            return SumGather(TenantStatistics, _statistics)
        case DescribeUsage() | ResetUsage():
            return SumGather(TenantUsage, _usage)


class TraceGather:
    """One trace from what all nodes keep of it."""

    def __init__(self, command: FindTrace) -> None:
        self._command = command
        self._found: list[TraceDetail] = []

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, TraceDetail):
            self._found.append(outcome)
        if part.request.parts:
            return None
        if not self._found:
            trace = self._command.trace_id.hex()
            return Refused(Code.TRACE_NOT_FOUND, trace_id=trace)
        events = [event for each in self._found for event in each.events]
        whole = _joined([each.trace for each in self._found])
        return TraceDetail(trace=whole, events=tuple(sorted(events, key=_time_of)))


class TraceListGather:
    """The newest traces of all nodes that are as they were asked for."""

    def __init__(self, command: SearchTraces) -> None:
        self._command = command
        self._pieces: dict[str, list[TraceDescription]] = {}
        self._unread = 0

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, TraceList):
            for each in outcome.traces:
                self._pieces.setdefault(each.trace_id, []).append(each)
            self._unread += outcome.total - len(outcome.traces)
        elif isinstance(outcome, Refused) and outcome.code is Code.REQUEST_INVALID:
            return outcome
        if part.request.parts:
            return None
        status = self._command.status
        traces = [_joined(pieces) for pieces in self._pieces.values()]
        wanted = [each for each in traces if status is None or each.status is status]
        wanted.sort(key=_start_of, reverse=True)
        unread = self._unread if status is None else 0
        return TraceList(traces=tuple(wanted[: self._command.limit]), total=len(wanted) + unread)


class ReplyGather:
    """Whether a reply found its requester on any node."""

    def __init__(self, count_dropped: Callable[[], None]) -> None:
        self._count_dropped = count_dropped

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, ReplySent) and outcome.is_delivered:
            return outcome
        if isinstance(outcome, Refused) and outcome.code is not Code.LEADER_UNAVAILABLE:
            return outcome
        if part.request.parts:
            return None
        self._count_dropped()
        return ReplySent(is_delivered=False)


class SumGather(Generic[R]):
    """One answer of those of all nodes that gave one."""

    def __init__(self, kind: type[R], add_up: Callable[[Sequence[R]], R]) -> None:
        self._kind = kind
        self._add_up = add_up
        self._found: list[R] = []

    def add(self, part: Part, outcome: Outcome) -> Outcome | None:
        if isinstance(outcome, self._kind):
            self._found.append(outcome)
        if part.request.parts:
            return None
        if not self._found:
            assert isinstance(outcome, Refused), "whoever is asked last did not answer, either"
            return outcome
        return self._add_up(self._found)


def _priorities(found: Sequence[PriorityStatistics]) -> PriorityStatistics:
    """The lanes of the coordinator, with what was published on all nodes."""
    counts = zip(*(each.published for each in found), strict=True)
    most = max(found, key=lambda each: len(each.lanes))
    return msgspec.structs.replace(most, published=tuple(map(sum, counts)))


def _usage(found: Sequence[TenantUsage]) -> TenantUsage:
    """What was used on all nodes; topics are the same on each."""
    return msgspec.structs.replace(
        found[0],
        total_messages_published=sum(each.total_messages_published for each in found),
        total_bytes_published=sum(each.total_bytes_published for each in found),
        total_messages_consumed=sum(each.total_messages_consumed for each in found),
        total_bytes_consumed=sum(each.total_bytes_consumed for each in found),
        storage_bytes=sum(each.storage_bytes for each in found),
        connection_count=sum(each.connection_count for each in found),
        last_updated=max(each.last_updated for each in found),
    )


def _statistics(found: Sequence[TenantStatistics]) -> TenantStatistics:
    """Storage is in parts; connections are limited on each node, so the fullest counts."""
    return msgspec.structs.replace(
        found[0],
        storage_usage_percent=round(sum(each.storage_usage_percent for each in found), 2),
        connection_usage_percent=max(each.connection_usage_percent for each in found),
        quota_violations_total=sum(each.quota_violations_total for each in found),
    )


def _joined(pieces: Iterable[TraceDescription]) -> TraceDescription:
    """One trace of what several nodes say: written where it begins, over when any says so."""
    known = sorted(pieces, key=_start_of)
    first = next((each for each in known if each.offset >= 0), known[0])
    statuses = {each.status for each in known}
    status = next(each for each in _BY_WEIGHT if each in statuses)
    start = known[0].start
    ends = [each.start + each.duration_ns for each in known]
    end = max(ends)
    return msgspec.structs.replace(
        first,
        status=status,
        start=start,
        end=None if status is TraceStatus.PENDING else Timestamp(end),
        duration_ns=end - start,
        event_count=sum(each.event_count for each in known),
    )


# Which status of a piece is that of the whole.
_BY_WEIGHT = (TraceStatus.ERROR, TraceStatus.COMPLETED, TraceStatus.PENDING)


def _start_of(trace: TraceDescription) -> int:
    return trace.start


def _time_of(event: TraceEvent) -> int:
    return event.at
