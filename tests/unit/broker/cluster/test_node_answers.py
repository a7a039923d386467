"""What all nodes of a cluster know says one answer, also when some of them do not answer."""

import msgspec
import pytest

from goqueue.broker.cluster.forward_parts import AtBroker, Gather, Outcome, Part, Request
from goqueue.broker.cluster.node_answers import SEARCHED_MAX, gather_of, part_of
from goqueue.model import LOCAL, Code, Instant, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    Command,
    DescribePriorities,
    DescribeTenantStatistics,
    DescribeUsage,
    FindTrace,
    PriorityStatistics,
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

SILENT = Refused(Code.LEADER_UNAVAILABLE, reason="node b cannot be reached")
PENDING, COMPLETED, ERROR = TraceStatus.PENDING, TraceStatus.COMPLETED, TraceStatus.ERROR


def answer(command: Command, gather: Gather, *outcomes: Outcome) -> Outcome:
    """What a gather makes of the outcomes of as many nodes."""
    whole = Request(RequestId(1), command, LOCAL, gather, Instant(0))
    parts = [
        Part(whole, command, AtBroker(f"node-{number}"), is_repeatable=True)
        for number in range(len(outcomes))
    ]
    whole.parts.update(dict.fromkeys(parts))
    for part, outcome in zip(parts, outcomes, strict=True):
        del whole.parts[part]
        found = gather.add(part, outcome)
        if found is not None:
            return found
    raise AssertionError("no answer")


def trace(
    name: str, status: TraceStatus, start: int, duration: int = 1, offset: int = 5
) -> TraceDescription:
    return TraceDescription(
        trace_id=name,
        topic="orders",
        partition=0,
        offset=offset,
        status=status,
        start=Timestamp(start),
        end=None if status is PENDING else Timestamp(start + duration),
        duration_ns=duration,
        event_count=2,
    )


def event(at: int, name: str) -> TraceEvent:
    return TraceEvent(
        at=Timestamp(at),
        event_type=name,
        span_id="1",
        parent_span_id=None,
        topic="orders",
        partition=0,
        offset=5,
        group="",
        member="",
        attempt=0,
        due=None,
        dead_letter_topic="",
        detail="",
    )


def find(*outcomes: Outcome) -> Outcome:
    command = FindTrace(b"\x01")
    return answer(command, gather_of(command, lambda: None), *outcomes)


def search(command: SearchTraces, *outcomes: Outcome) -> TraceList:
    found = answer(command, gather_of(command, lambda: None), *outcomes)
    assert isinstance(found, TraceList)
    return found


def test_a_trace_has_the_events_of_all_nodes_by_time() -> None:
    leader = TraceDetail(trace=trace("t", PENDING, 10), events=(event(10, "publish.received"),))
    coordinator = TraceDetail(
        trace=trace("t", COMPLETED, 20, 7), events=(event(27, "consume.acked"), event(20, "x"))
    )
    found = find(coordinator, leader, SILENT)

    assert isinstance(found, TraceDetail)
    assert [each.at for each in found.events] == [10, 20, 27]
    whole = found.trace
    assert (whole.status, whole.start, whole.end, whole.duration_ns) == (COMPLETED, 10, 27, 17)
    assert whole.event_count == 4


def test_a_trace_that_no_node_knows_is_not_found() -> None:
    missing = Refused(Code.TRACE_NOT_FOUND, trace_id="01")
    found = find(missing, SILENT, missing)
    assert isinstance(found, Refused)
    assert found.code is Code.TRACE_NOT_FOUND


@pytest.mark.parametrize(
    ("pieces", "status"),
    [((PENDING, PENDING), PENDING), ((PENDING, COMPLETED), COMPLETED), ((COMPLETED, ERROR), ERROR)],
)
def test_a_message_has_come_as_far_as_any_node_says(
    pieces: tuple[TraceStatus, ...], status: TraceStatus
) -> None:
    lists = [TraceList(traces=(trace("t", each, 1),), total=1) for each in pieces]
    (found,) = search(SearchTraces(), *lists).traces
    assert found.status is status


def test_a_status_is_judged_when_all_nodes_have_spoken() -> None:
    """The leader alone would call a message pending that was acked elsewhere."""
    asked = SearchTraces(status=PENDING, limit=5)
    part = part_of(asked)
    assert isinstance(part, SearchTraces)
    assert (part.status, part.limit) == (None, SEARCHED_MAX)

    leader = TraceList(traces=(trace("a", PENDING, 2), trace("b", PENDING, 1)), total=2)
    coordinator = TraceList(traces=(trace("a", COMPLETED, 3),), total=1)
    found = search(asked, leader, coordinator)
    assert [each.trace_id for each in found.traces] == ["b"]
    assert found.total == 1


def test_the_newest_traces_of_all_nodes_are_listed() -> None:
    older = TraceList(traces=(trace("a", PENDING, 1), trace("c", PENDING, 3)), total=7)
    newer = TraceList(traces=(trace("b", PENDING, 2),), total=1)
    found = search(SearchTraces(limit=2), older, newer, SILENT)
    assert [each.trace_id for each in found.traces] == ["c", "b"]
    assert found.total == 8


def test_a_reply_is_delivered_once_any_node_says_so_and_dropped_when_none_does() -> None:
    dropped: list[None] = []
    command = SendReply(reply_to="id", value=b"x")
    gather = gather_of(command, lambda: dropped.append(None))
    no, yes = ReplySent(is_delivered=False), ReplySent(is_delivered=True)
    assert answer(command, gather, no, yes, no) == yes
    assert not dropped
    assert answer(command, gather_of(command, lambda: dropped.append(None)), no, SILENT, no) == no
    assert len(dropped) == 1


def test_published_priorities_are_those_of_all_nodes() -> None:
    command = DescribePriorities()
    one = PriorityStatistics(
        published=(1, 0, 2, 0, 0), average_wait_ns=(0,) * 5, pending=(0,) * 5, lanes=()
    )
    found = answer(command, gather_of(command, lambda: None), one, SILENT, one)
    assert isinstance(found, PriorityStatistics)
    assert found.published == (2, 0, 4, 0, 0)


def test_what_a_tenant_used_is_the_sum_of_all_nodes_and_its_topics_are_those_of_one() -> None:
    one = TenantUsage(
        tenant_id="acme",
        total_messages_published=3,
        total_bytes_published=30,
        total_messages_consumed=2,
        total_bytes_consumed=20,
        storage_bytes=100,
        topic_count=4,
        partition_count=12,
        connection_count=1,
        last_updated=Timestamp(5),
    )
    later = msgspec.structs.replace(one, last_updated=Timestamp(9))
    for command in (DescribeUsage(tenant="acme"), ResetUsage(tenant="acme")):
        found = answer(command, gather_of(command, lambda: None), one, SILENT, later)
        assert found == TenantUsage(
            tenant_id="acme",
            total_messages_published=6,
            total_bytes_published=60,
            total_messages_consumed=4,
            total_bytes_consumed=40,
            storage_bytes=200,
            topic_count=4,
            partition_count=12,
            connection_count=2,
            last_updated=Timestamp(9),
        )


def test_of_the_statistics_of_a_tenant_storage_is_added_up_and_the_fullest_node_counts() -> None:
    one = TenantStatistics(
        tenant_id="acme",
        storage_usage_percent=20.5,
        topic_usage_percent=10.0,
        partition_usage_percent=5.0,
        connection_usage_percent=1.0,
        quota_violations_total=2,
    )
    other = msgspec.structs.replace(one, connection_usage_percent=7.0)
    command = DescribeTenantStatistics(tenant="acme")
    found = answer(command, gather_of(command, lambda: None), one, other)
    assert found == TenantStatistics(
        tenant_id="acme",
        storage_usage_percent=41.0,
        topic_usage_percent=10.0,
        partition_usage_percent=5.0,
        connection_usage_percent=7.0,
        quota_violations_total=4,
    )


def test_a_tenant_that_no_node_knows_is_refused_once() -> None:
    command = DescribeUsage(tenant="acme")
    refused = Refused(Code.TENANT_NOT_FOUND, tenant="acme")
    assert answer(command, gather_of(command, lambda: None), refused, refused) is refused
