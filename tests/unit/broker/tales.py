"""What happened to a message, in short words."""

from goqueue.model import Code, Header, LogId, Message, Refused
from goqueue.model.requests import (
    DescribeTracing,
    FindTrace,
    Publish,
    Published,
    SearchTraces,
    TraceDetail,
    TraceEvent,
    TraceList,
    TracingStatistics,
)
from goqueue.records import build
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ORDERS

PUBLISHED = ["publish.received", "publish.partitioned", "publish.persisted"]

GIVEN = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

GIVEN_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

GIVEN_SPAN = "00f067aa0ba902b7"


def find(node: DrivenNode, trace_id: str) -> TraceDetail | None:
    """What is kept of a trace; None: nothing is."""
    try:
        return node.ask(FindTrace(bytes.fromhex(trace_id)), TraceDetail)
    except Refused as refused:
        assert refused.code is Code.TRACE_NOT_FOUND
        return None


def trace_of(node: DrivenNode, offset: int = 0, log: LogId = ORDERS) -> TraceDetail:
    """The one trace with an event at this place."""
    wanted = SearchTraces(topic=log.topic, partition=log.partition, offset=offset)
    (found,) = node.ask(wanted, TraceList).traces
    trace = find(node, found.trace_id)
    assert trace is not None
    assert trace.trace == found
    return trace


def events(node: DrivenNode, offset: int = 0, log: LogId = ORDERS) -> list[TraceEvent]:
    return list(trace_of(node, offset, log).events)


def tale(node: DrivenNode, offset: int = 0, log: LogId = ORDERS) -> list[str]:
    """The names of what happened, after the publication."""
    names = [event.event_type for event in events(node, offset, log)]
    assert names[:3] == PUBLISHED
    return names[3:]


def last(node: DrivenNode, offset: int = 0, log: LogId = ORDERS) -> TraceEvent:
    return events(node, offset, log)[-1]


def traces(node: DrivenNode, **wanted: object) -> TraceList:
    return node.ask(SearchTraces(**wanted), TraceList)  # type: ignore[arg-type]  # by name


def counts(node: DrivenNode) -> TracingStatistics:
    return node.ask(DescribeTracing(), TracingStatistics)


def send(
    node: DrivenNode,
    *headers: Header,
    topic: str = "orders",
    trace: tuple[Header, ...] = (),
    key: bytes = b"",
) -> Published:
    """Publish one message with these headers."""
    batch = build((Message(value=b"v", key=key, headers=headers),))
    return node.ask(Publish(topic=topic, batch=batch, trace=trace), Published)
