"""One trace tells the whole story: through delay, retry, death and redrive, and over restarts."""

import pytest

from goqueue.model import SECOND, Header, LogId, Message, Record
from goqueue.model.requests import (
    Leased,
    Publish,
    Published,
    Read,
    Records,
    Redrive,
    Redriven,
    TraceStatus,
)
from goqueue.records import build, derive_contexts
from tests.unit.broker.delayed.users import delay, store
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.tales import (
    GIVEN,
    GIVEN_SPAN,
    GIVEN_TRACE,
    PUBLISHED,
    counts,
    events,
    find,
    send,
    tale,
    trace_of,
    traces,
)
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    ack,
    create,
    join,
    nack,
    poll,
    polling,
    publish,
    read,
    reject,
    shop,
)

LONG = 600 * SECOND

both = pytest.mark.parametrize(
    "headers", [(), (("traceparent", GIVEN), ("tracestate", b"a=1"))], ids=["made", "given"]
)


def parents(record: Record) -> list[bytes]:
    return [value for name, value in record.headers if name == "traceparent"]


def redrive(node: DrivenNode, to: str | None = None) -> None:
    assert node.ask(Redrive(topic="orders", to_topic=to), Redriven).moved == 1


@both
def test_delayed_delivered_failed_twice_dead_redriven_and_acked_is_one_trace(
    headers: tuple[Header, ...],
) -> None:
    node = store(max_deliveries=2)
    delay(node, ("a", SECOND), headers=headers)
    node.advance(2 * SECOND)
    for _ in range(2):
        (delivery,) = poll(node)
        nack(node, delivery, delay_ns=0, reason="no")
    redrive(node)
    (delivery,) = poll(node)
    ack(node, delivery)
    trace = trace_of(node)
    assert [event.event_type for event in trace.events] == [
        *PUBLISHED,
        "delay.scheduled",
        "delay.fired",
        "consume.fetched",
        "consume.nacked",
        "consume.fetched",
        "consume.nacked",
        "dlq.routed",
        "dlq.redriven",
        "consume.fetched",
        "consume.acked",
    ]
    assert trace.trace.status is TraceStatus.COMPLETED
    if headers:
        assert trace.trace.trace_id == GIVEN_TRACE
    assert len(traces(node, topic="orders").traces) == 2, "the other is that of the rebalance"
    for log, offset in ((ORDERS, 1), (LETTERS, 0), (ORDERS, 2)):
        assert trace_of(node, offset, log) == trace


@both
def test_the_spans_of_a_trace_are_a_tree(headers: tuple[Header, ...]) -> None:
    node = store(max_deliveries=1)
    delay(node, ("a", SECOND), headers=headers)
    node.advance(2 * SECOND)
    poll(node, visibility_ns=SECOND)
    node.advance(2 * SECOND)
    redrive(node)
    (delivery,) = poll(node)
    ack(node, delivery)
    above = {event.span_id: event.parent_span_id for event in events(node)}
    outside = {parent for parent in above.values() if parent not in above}
    assert outside == ({GIVEN_SPAN} if headers else {None})
    for parent in above.values():
        steps, place = 0, parent
        while place in above:
            place, steps = above[place], steps + 1
        assert steps <= 3
    # Ids of equal names are those of one span; all others differ.
    spans = [(event.span_id, event.event_type.split(".")[0]) for event in events(node)]
    assert len(set(spans)) == len({span for span, _ in spans}) + 1, "publish and delay.scheduled"


@both
def test_a_copy_carries_one_context_and_keeps_the_other_headers(
    headers: tuple[Header, ...],
) -> None:
    node = shop()
    send(node, ("a", b"b"), *headers)
    (delivery,) = poll(node)
    reject(node, delivery)
    redrive(node)
    (letter,) = read(node, LETTERS)
    (back,) = read(node, ORDERS, 1)
    for copy in (letter, back):
        assert len(parents(copy)) == 1
        assert dict(copy.headers)["a"] == b"b"
        assert dict(copy.headers).get("tracestate") == (b"a=1" if headers else None)
    assert parents(letter) == parents(back)


def test_a_broken_context_is_replaced_in_the_copy() -> None:
    node = shop()
    send(node, ("traceparent", b"nonsense"))
    (delivery,) = poll(node)
    reject(node, delivery)
    (letter,) = read(node, LETTERS)
    trace_id = trace_of(node).trace.trace_id
    assert trace_of(node, 0, LETTERS).trace.trace_id == trace_id
    assert parents(letter)[-1][3:35].decode() == trace_id


def test_a_redrive_to_another_topic_stays_in_the_trace() -> None:
    node = shop()
    create(node, "elsewhere")
    publish(node, "a")
    (delivery,) = poll(node)
    reject(node, delivery)
    redrive(node, to="elsewhere")
    assert trace_of(node, 0, LogId("elsewhere", 0)) == trace_of(node)


def test_a_message_that_dies_twice_has_one_trace() -> None:
    node = shop()
    publish(node, "a")
    for _ in range(2):
        (delivery,) = poll(node)
        reject(node, delivery)
        redrive(node)
    assert tale(node).count("dlq.routed") == tale(node).count("dlq.redriven") == 2


# Restarts


def trace_ids(node: DrivenNode, offset: int, log: LogId = ORDERS) -> str:
    """The trace that a reader of the message is told of, by the seed of its partition."""
    records = node.ask(Read(topic=log.topic, partition=log.partition), Records)
    assert records.seed is not None
    return derive_contexts(records.seed.high, records.seed.low, (offset,))[:16].hex()


def test_a_message_has_the_same_trace_after_a_restart() -> None:
    node = shop(partitions=2)
    publish(node, "a")
    trace_id = trace_of(node).trace.trace_id
    assert trace_ids(node, 0) == trace_id
    for without_snapshots in (False, True):
        node.restart(without_snapshots=without_snapshots)
        assert counts(node).spans == 0, "what was noted is gone"
        assert trace_ids(node, 0) == trace_id
    join(node, session_ns=LONG)
    (delivery,) = poll(node)
    assert trace_of(node).trace.trace_id == trace_id
    ack(node, delivery)
    assert trace_of(node).trace.status is TraceStatus.COMPLETED


@both
def test_a_trace_goes_on_after_restarts_at_every_step(headers: tuple[Header, ...]) -> None:
    node = store(max_deliveries=1)
    delay(node, ("a", SECOND), headers=headers)
    trace_id = trace_of(node).trace.trace_id
    node.restart()
    node.advance(2 * SECOND)
    assert trace_of(node, 1).trace.trace_id == trace_id
    node.restart()
    join(node, session_ns=LONG)
    (delivery,) = poll(node)
    nack(node, delivery, delay_ns=0)
    assert trace_of(node, 0, LETTERS).trace.trace_id == trace_id
    node.restart()
    redrive(node)
    assert trace_of(node, 2).trace.trace_id == trace_id
    node.restart()
    join(node, session_ns=LONG)
    (delivery,) = poll(node)
    ack(node, delivery)
    found = find(node, trace_id)
    assert found is not None
    assert [event.event_type for event in found.events] == ["consume.fetched", "consume.acked"]
    assert found.trace.status is TraceStatus.COMPLETED


def test_spans_of_the_same_thing_have_the_same_id_in_every_life() -> None:
    node = shop()
    publish(node, "a")
    above = events(node)[0].span_id
    node.restart()
    join(node)
    poll(node)
    assert events(node)[-1].parent_span_id == above


def test_what_is_refused_in_another_life_is_another_trace() -> None:
    node = shop(max_message_bytes=2_000)
    found: list[str] = []
    for _ in range(2):
        batch = build((Message(value=b"x" * 3_000), Message(value=b"x" * 3_000)))
        node.ask(Publish(topic="orders", batch=batch), Published)
        found += [each.trace_id for each in traces(node, status=TraceStatus.ERROR).traces]
        node.advance(SECOND)
        node.restart()
    assert len(set(found)) == len(found) == 4


def test_rebalances_of_two_nodes_are_not_one_trace() -> None:
    nodes = [DrivenNode(now_ns=number) for number in range(2)]
    for node in nodes:
        create(node)
        join(node)
    found = {each.trace_id for node in nodes for each in traces(node, group="shop").traces}
    assert len(found) == 2


# Sampling


def sampled(sampling: float) -> DrivenNode:
    node = DrivenNode(sampling=sampling)
    create(node)
    join(node, session_ns=LONG)
    return node


def test_with_sampling_off_nothing_is_noted_and_nothing_is_added() -> None:
    node = sampled(0.0)
    send(node, ("traceparent", GIVEN))
    publish(node, "a")
    delay(node, ("b", SECOND))
    node.advance(2 * SECOND)
    for delivery in poll(node):
        reject(node, delivery)
    redrive_all = node.ask(Redrive(topic="orders"), Redriven)
    assert redrive_all.moved == 3
    assert traces(node).total == counts(node).spans == 0
    assert counts(node).sampling == 0.0
    assert find(node, GIVEN_TRACE) is None
    assert [parents(letter) for letter in read(node, LETTERS)] == [[GIVEN], [], []]
    assert node.ask(polling(), Leased).partitions[0].seed is None


def test_a_share_is_followed_from_beginning_to_end_and_the_others_not_at_all() -> None:
    node = sampled(0.2)
    publish(node, *(f"m{number}" for number in range(300)))
    for delivery in poll(node, count=300):
        if delivery.record.offset % 2:
            reject(node, delivery)
        else:
            ack(node, delivery)
    node.ask(Redrive(topic="orders", messages_max=1000), Redriven)
    for delivery in poll(node, count=300):
        ack(node, delivery)
    found = [each for each in traces(node, limit=1000).traces if each.offset >= 0]
    assert 30 < len(found) < 90
    for each in found:
        trace = find(node, each.trace_id)
        assert trace is not None
        names = [event.event_type for event in trace.events]
        died = ["consume.rejected", "dlq.routed", "dlq.redriven", "consume.fetched"]
        middle = died if each.offset % 2 else []
        assert names == [*PUBLISHED, "consume.fetched", *middle, "consume.acked"]
        assert trace.trace.status is TraceStatus.COMPLETED


def test_a_context_that_was_decided_against_is_not_followed_anywhere() -> None:
    node = shop()
    send(node, ("traceparent", GIVEN[:-2] + b"00"))
    (delivery,) = poll(node)
    reject(node, delivery)
    redrive(node)
    (delivery,) = poll(node)
    ack(node, delivery)
    assert find(node, GIVEN_TRACE) is None
    assert traces(node, topic="orders", partition=0).total == 0


def test_a_share_decides_about_given_contexts_by_their_id_as_well() -> None:
    node = sampled(0.5)
    for low in (0, (1 << 64) - 1):
        send(node, ("traceparent", b"00-%016x%016x-%016x-01" % (1, low, 1)))
    assert find(node, f"{1:016x}{0:016x}") is not None
    assert find(node, f"{1:016x}{(1 << 64) - 1:016x}") is None
