"""Each thing that happens to a message is noted once, where it happens, with what applies to it."""

import pytest

from goqueue.model import MILLISECOND, SECOND, Code, LogId, Message, Offset, Refused, Timestamp
from goqueue.model.requests import (
    CommitOffsets,
    DeleteTopic,
    Done,
    Extend,
    Extended,
    Leave,
    Offsets,
    ProducerStamp,
    Publish,
    Published,
    Redrive,
    Redriven,
    TraceStatus,
    lease_of,
)
from goqueue.records import build
from tests.unit.broker.delayed.users import cancel, delay, store
from tests.unit.broker.driven_node import EPOCH_NS, DrivenNode
from tests.unit.broker.tales import (
    GIVEN,
    GIVEN_SPAN,
    GIVEN_TRACE,
    PUBLISHED,
    events,
    find,
    last,
    send,
    tale,
    trace_of,
    traces,
)
from tests.unit.broker.transactions.words import abort, add, begin, commit, init, write
from tests.unit.broker.users import (
    LETTERS,
    ORDERS,
    ack,
    create,
    join,
    nack,
    poll,
    publish,
    read,
    reject,
    shop,
)

OTHER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

# Publishing


def test_a_publication_is_noted_with_its_place_and_waits_to_be_read() -> None:
    node = shop()
    node.now_ns = 5
    publish(node, "a", "b")
    trace = trace_of(node, 1)
    assert [event.event_type for event in trace.events] == PUBLISHED
    assert {(event.topic, event.partition, event.offset) for event in trace.events} == {
        ("orders", 0, 1)
    }
    assert {event.at for event in trace.events} == {EPOCH_NS + 5}
    assert (trace.trace.status, trace.trace.end) == (TraceStatus.PENDING, None)
    assert len({event.span_id for event in trace.events}) == 1
    assert trace.events[0].parent_span_id is None


def test_messages_of_one_batch_have_traces_of_their_own() -> None:
    node = shop(partitions=3)
    publish(node, "a", "b", "c", targets=[0, 1, 1])
    found = {
        trace_of(node, offset, LogId("orders", number)).trace.trace_id
        for number, offset in ((0, 0), (1, 0), (1, 1))
    }
    assert len(found) == 3


def test_a_context_that_a_message_carries_is_followed() -> None:
    node = shop()
    send(node, ("traceparent", GIVEN))
    trace = trace_of(node)
    assert trace.trace.trace_id == GIVEN_TRACE
    assert {event.parent_span_id for event in trace.events} == {GIVEN_SPAN}


@pytest.mark.parametrize(
    "broken", [b"", b"nonsense", GIVEN[:-1], GIVEN.upper(), b"\xff\x00", b"x" * 55_000]
)
def test_a_context_that_breaks_the_rules_is_replaced_and_the_message_is_taken(
    broken: bytes,
) -> None:
    node = shop()
    published = send(node, ("traceparent", broken), ("tracestate", b"s" * 5_000))
    assert published.placed[0].refused is None
    assert trace_of(node).trace.trace_id != GIVEN_TRACE
    assert tale(node) == []


def test_the_context_of_a_request_is_that_of_messages_which_carry_none() -> None:
    node = shop()
    trace = (("traceparent", GIVEN), ("tracestate", b"a=1"))
    send(node, trace=trace)
    send(node, ("traceparent", OTHER), trace=trace)
    assert trace_of(node, 0).trace.trace_id == GIVEN_TRACE
    assert trace_of(node, 1).trace.trace_id == OTHER[3:35].decode()
    assert read(node)[0].headers == trace


def test_messages_of_one_trace_are_told_together() -> None:
    node = shop()
    send(node, ("traceparent", GIVEN))
    send(node, ("traceparent", GIVEN))
    trace = find(node, GIVEN_TRACE)
    assert trace is not None
    assert [event.offset for event in trace.events] == [0, 0, 0, 1, 1, 1]
    assert len({event.span_id for event in trace.events}) == 2


def test_what_is_refused_is_told_with_its_code_and_has_no_place() -> None:
    node = shop(partitions=2, max_message_bytes=2_000)
    batch = build((Message(value=b"v"), Message(value=b"x" * 3_000), Message(value=b"w")))
    node.ask(Publish(topic="orders", batch=batch, targets=[0, -1, 7]), Published)
    failed = traces(node, status=TraceStatus.ERROR).traces
    assert [(each.topic, each.partition, each.offset) for each in failed] == [
        ("orders", -1, -1)
    ] * 2
    told = [find(node, each.trace_id) for each in failed]
    assert [[event.event_type for event in each.events] for each in told if each] == [
        ["publish.received", "publish.validation_failed"]
    ] * 2
    codes = {each.events[-1].detail for each in told if each}
    assert codes == {Code.MESSAGE_TOO_LARGE, Code.PARTITION_NOT_FOUND}
    assert tale(node) == []


def test_a_batch_that_is_refused_as_a_whole_is_told_too() -> None:
    node = shop(max_message_bytes=2_000)
    batch = build((Message(value=b"x" * 3_000, headers=(("traceparent", GIVEN),)),))
    with pytest.raises(Refused):
        node.ask(Publish(topic="orders", batch=batch, is_whole=True), Published)
    trace = find(node, GIVEN_TRACE)
    assert trace is not None
    assert trace.trace.status is TraceStatus.ERROR
    assert trace.events[-1].parent_span_id == GIVEN_SPAN


def test_a_repeated_batch_is_noted_once() -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    for _ in range(2):
        write(node, owner, "a", targets=[0], sequence=0)
    assert tale(node) == []


def test_what_a_transaction_publishes_and_acks_is_noted_when_it_takes_effect() -> None:
    node = shop()
    publish(node, "read")
    owner = init(node)
    begin(node, owner)
    (delivery,) = poll(node)
    write(node, owner, "written", targets=[0])
    add(node, owner, delivery)
    assert tale(node, 0) == ["consume.fetched"]
    assert tale(node, 1) == []
    commit(node, owner)
    assert tale(node, 0) == ["consume.fetched", "consume.acked"]
    assert trace_of(node, 0).trace.status is TraceStatus.COMPLETED
    assert [delivery.record.value for delivery in poll(node)] == [b"written"]
    assert tale(node, 1) == ["consume.fetched"]


def test_an_ack_of_a_transaction_that_is_aborted_never_happened() -> None:
    node = shop()
    publish(node, "read")
    owner = init(node)
    begin(node, owner)
    (delivery,) = poll(node)
    add(node, owner, delivery)
    abort(node, owner)
    assert tale(node) == ["consume.fetched"]


@pytest.mark.parametrize("given", [(), (("traceparent", GIVEN),)])
def test_the_trace_of_a_message_of_an_aborted_transaction_ends_as_aborted(
    given: tuple[tuple[str, bytes], ...],
) -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    stamp = ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch, sequence=None)
    batch = build([Message(value=b"a", headers=given)])
    node.ask(Publish(topic="orders", batch=batch, targets=[0], producer=stamp), Published)
    written = trace_of(node).trace
    assert written.status is TraceStatus.PENDING
    abort(node, owner)

    ended = trace_of(node).trace
    assert (ended.trace_id, ended.status) == (written.trace_id, TraceStatus.COMPLETED)
    assert last(node).event_type == "transaction.aborted"


def test_the_trace_of_a_message_of_a_committed_transaction_waits_to_be_read() -> None:
    node = shop()
    owner = init(node)
    begin(node, owner)
    write(node, owner, "a", targets=[0])
    commit(node, owner)

    assert trace_of(node).trace.status is TraceStatus.PENDING


# Deliveries


def test_a_delivery_names_group_member_and_attempt_and_its_ack_completes_it() -> None:
    node = shop()
    publish(node, "a")
    node.advance(SECOND)
    (delivery,) = poll(node)
    fetched = last(node)
    assert (fetched.event_type, fetched.group, fetched.member, fetched.attempt) == (
        "consume.fetched",
        "shop",
        "c1-c100",
        1,
    )
    assert fetched.parent_span_id == events(node)[0].span_id
    node.advance(SECOND)
    ack(node, delivery)
    acked = last(node)
    assert (acked.event_type, acked.group, acked.attempt) == ("consume.acked", "shop", 1)
    assert acked.parent_span_id == fetched.span_id
    trace = trace_of(node).trace
    assert (trace.status, trace.duration_ns) == (TraceStatus.COMPLETED, 2 * SECOND)
    assert trace.end == Timestamp(EPOCH_NS + 2 * SECOND)


def test_a_receipt_that_is_used_twice_acks_once() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node)
    ack(node, delivery)
    ack(node, delivery)
    assert tale(node) == ["consume.fetched", "consume.acked"]


def test_a_commit_of_offsets_acks_what_is_leased_below_it() -> None:
    node = shop()
    publish(node, "a", "b", "c")
    poll(node)
    command = CommitOffsets(
        group="shop", offsets={ORDERS: Offset(2)}, member_id="c1-c100", generation=1
    )
    node.ask(command, Offsets)
    assert [tale(node, offset) for offset in range(3)] == [
        ["consume.fetched", "consume.acked"],
        ["consume.fetched", "consume.acked"],
        ["consume.fetched"],
    ]


def test_a_nack_tells_its_reason_and_the_next_delivery_its_attempt() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node)
    nack(node, delivery, delay_ns=0, reason="not now")
    assert last(node).detail == "not now"
    poll(node)
    told = [(event.event_type, event.attempt) for event in events(node)[3:]]
    assert told == [("consume.fetched", 1), ("consume.nacked", 1), ("consume.fetched", 2)]
    assert trace_of(node).trace.status is TraceStatus.PENDING


def test_a_lease_that_is_extended_and_one_that_expires_are_told() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node, visibility_ns=SECOND)
    node.ask(Extend(leases=(lease_of(delivery.receipt),), timeout_ns=2 * SECOND), Extended)
    node.advance(3 * SECOND)
    assert tale(node) == ["consume.fetched", "visibility.extended", "visibility.expired"]
    assert {event.parent_span_id for event in events(node)[4:]} == {events(node)[3].span_id}


def test_a_rejected_message_is_told_with_its_dead_letter() -> None:
    node = shop()
    publish(node, "a")
    (delivery,) = poll(node)
    reject(node, delivery, "unreadable")
    assert tale(node) == ["consume.fetched", "consume.rejected", "dlq.routed"]
    routed = last(node)
    assert (routed.topic, routed.partition, routed.offset) == ("orders.dlq", 0, 0)
    assert (routed.dead_letter_topic, routed.detail) == ("orders.dlq", "unreadable")
    assert (routed.group, routed.attempt) == ("shop", 1)
    assert trace_of(node).trace.status is TraceStatus.ERROR
    assert trace_of(node, 0, LETTERS) == trace_of(node)


def test_a_message_that_fails_too_often_dies_and_a_redrive_begins_anew() -> None:
    node = shop(max_deliveries=1)
    publish(node, "a")
    (delivery,) = poll(node, visibility_ns=SECOND)
    node.advance(SECOND)
    assert tale(node) == ["consume.fetched", "visibility.expired", "dlq.routed"]
    assert last(node).detail == "max_deliveries"
    node.ask(Redrive(topic="orders"), Redriven)
    redriven = last(node)
    assert (redriven.event_type, redriven.topic, redriven.offset) == ("dlq.redriven", "orders", 1)
    assert redriven.detail == ""
    assert trace_of(node).trace.status is TraceStatus.PENDING
    (delivery,) = poll(node)
    ack(node, delivery)
    assert trace_of(node, 1).trace.status is TraceStatus.COMPLETED
    assert trace_of(node, 1) == trace_of(node, 0) == trace_of(node, 0, LETTERS)


def test_every_group_has_deliveries_of_its_own_and_all_must_be_done() -> None:
    node = shop()
    join(node, group="audit")
    publish(node, "a")
    (ours,) = poll(node)
    (theirs,) = poll(node, group="audit")
    ack(node, ours)
    assert trace_of(node).trace.status is TraceStatus.PENDING
    reject(node, theirs)
    assert trace_of(node).trace.status is TraceStatus.ERROR
    spans = [event.span_id for event in events(node) if event.event_type == "consume.fetched"]
    assert len(set(spans)) == 2


# Delays


def test_a_delay_is_told_when_scheduled_and_when_fired() -> None:
    node = store()
    delay(node, ("a", SECOND))
    assert tale(node) == ["delay.scheduled"]
    assert last(node).due == EPOCH_NS + SECOND
    node.advance(2 * SECOND)
    assert tale(node) == ["delay.scheduled", "delay.fired"]
    fired = last(node)
    assert (fired.offset, fired.parent_span_id) == (1, events(node)[0].span_id)
    (delivery,) = poll(node)
    ack(node, delivery)
    assert tale(node, 1)[2:] == ["consume.fetched", "consume.acked"]
    assert trace_of(node, 0) == trace_of(node, 1)
    assert trace_of(node).trace.status is TraceStatus.COMPLETED


def test_only_those_of_a_batch_that_wait_are_scheduled() -> None:
    node = store()
    delay(node, ("now", 0), ("later", SECOND))
    assert tale(node, 0) == []
    assert tale(node, 1) == ["delay.scheduled"]


def test_a_cancelled_message_is_told_and_done() -> None:
    node = store()
    delay(node, ("a", SECOND), headers=(("traceparent", GIVEN),))
    assert cancel(node, 0) is None
    assert tale(node) == ["delay.scheduled", "delay.cancelled"]
    trace = trace_of(node)
    assert (trace.trace.trace_id, trace.trace.status) == (GIVEN_TRACE, TraceStatus.COMPLETED)


def test_a_cancellation_that_comes_late_is_not_told() -> None:
    node = store()
    delay(node, ("a", 10 * MILLISECOND))
    node.advance(SECOND)
    assert cancel(node, 0) is Code.ALREADY_DELIVERED
    assert tale(node) == ["delay.scheduled", "delay.fired"]


# Groups


def test_every_rebalance_is_told_once() -> None:
    node = shop(partitions=2)
    join(node, client="c2")
    join(node, client="c2", member_id="c2-c200")
    node.ask(Leave(group="shop", member_id="c2-c200"), Done)
    found = traces(node, group="shop").traces
    assert len(found) == 3
    for each in found:
        trace = find(node, each.trace_id)
        assert trace is not None
        assert [event.event_type for event in trace.events] == [
            "rebalance.start",
            "rebalance.complete",
        ]
        assert {(event.topic, event.group) for event in trace.events} == {("orders", "shop")}
        assert each.status is TraceStatus.COMPLETED


# Topics


def test_a_topic_of_the_same_name_has_other_traces() -> None:
    node = shop()
    publish(node, "a")
    before = trace_of(node).trace.trace_id
    node.advance(SECOND)
    node.ask(DeleteTopic(name="orders"), Done)
    create(node)
    publish(node, "b")
    found = traces(node, topic="orders", partition=0, offset=0).traces
    assert [each.trace_id == before for each in found] == [False, True]


def test_reading_without_a_group_is_not_noted() -> None:
    node = DrivenNode()
    create(node)
    publish(node, "a")
    read(node)
    assert tale(node) == []
