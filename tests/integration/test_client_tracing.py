"""Traces through the SDK and a real node: from the caller's span by a message to its handler."""

import datetime as dt
import itertools
import os
import subprocess
import sys
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

import goqueue
from goqueue.client import NotFound, TopicNotFound
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from goqueue.client.traces import Trace
from tests.integration.cutting_proxy import Proxy
from tests.integration.sdk_scenes import Name, play, play_cut
from tests.integration.server_process import ServerProcess
from tests.integration.telemetry import recording

# What is written with nanoseconds is read without them.
MICROSECOND = dt.timedelta(microseconds=1)
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def hexadecimal(span: ReadableSpan) -> tuple[str, str]:
    """Trace id and span id as they are written."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def facts(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def parents(found: Trace, event_type: str) -> list[str | None]:
    return [event.parent_span_id for event in found.events if event.event_type == event_type]


async def take_one(q: Connection, topic: str, group: str) -> Message:
    """One message, and whatever else was leased along is given back."""
    async with q.consume(topic, group=group) as consumer:
        message = await anext(consumer)
        await message.ack()
        return message


def test_a_trace_goes_from_the_caller_through_the_broker_into_the_handler_and_on(
    node: ServerProcess, name: Name
) -> None:
    first, second = name(), name()

    async def scene(q: Connection) -> None:
        await q.topics.create(first, partitions=1)
        await q.topics.create(second, partitions=1)
        with recorder.tracer.start_as_current_span("order"):
            sent = await q.publish(first, "hello")
        message = await take_one(q, first, "work")
        with message.span():
            await q.publish(second, "world")
        told = await take_one(q, second, "work")
        check(message, told, await q.traces.get(message.trace_id), sent.offset)

    def check(message: Message, told: Message, found: Trace, offset: int) -> None:
        order = recorder.only("order")
        send, process = recorder.only(f"send {first}"), recorder.only(f"process {first}")
        again = recorder.only(f"send {second}")
        trace_id, order_id = hexadecimal(order)
        assert {hexadecimal(each)[0] for each in recorder.spans} == {trace_id}
        assert parent_of(send) == order_id
        assert parent_of(process) == hexadecimal(send)[1]
        assert parent_of(again) == hexadecimal(process)[1]
        assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert message.trace_id == told.trace_id == trace_id
        assert {event.details.topic for event in found.events} == {first, second}
        assert parents(found, "publish.persisted") == [hexadecimal(send)[1], hexadecimal(again)[1]]
        assert facts(send) == {
            "messaging.system": "goqueue",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": first,
            "messaging.destination.partition.id": "0",
            "messaging.message.id": f"{first}/0/{offset}",
            "goqueue.message.offset": offset,
        }
        assert facts(process)["messaging.consumer.group.name"] == "work"

    with recording() as recorder:
        play(node, scene)


def test_every_message_of_a_batch_has_a_span_of_its_own(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=2)
        with recorder.tracer.start_as_current_span("all"):
            async with q.producer() as producer:
                receipts = [await producer.send(topic, f"m{count}") for count in range(50)]
            places = {((await each).partition, (await each).offset) for each in receipts}
        spans = recorder.named(f"send {topic}")
        told = {
            (int(str(told["messaging.destination.partition.id"])), told["goqueue.message.offset"])
            for told in map(facts, spans)
        }
        assert told == places
        carried: dict[tuple[int, object], str] = {}
        async with q.stream(topic) as stream:
            while len(carried) < len(places):
                message = await anext(stream)
                carried[message.partition, message.offset] = message.traceparent
        ids = {hexadecimal(span)[1] for span in spans}
        assert {parent[36:52] for parent in carried.values()} == ids
        assert len(ids) == 50

    with recording() as recorder:
        play(node, scene)


def test_a_transaction_carries_the_context_too(node: ServerProcess, name: Name) -> None:
    source, target = name(), name()

    async def scene(q: Connection) -> None:
        await q.topics.create(source, partitions=1)
        await q.topics.create(target, partitions=1)
        with recorder.tracer.start_as_current_span("order"):
            await q.publish(source, "hello")
        async with q.consume(source, group="copy") as consumer:
            message = await anext(consumer)
            async with q.transaction(name()) as tx:
                with message.span():
                    await tx.publish(target, "copied")
                await tx.ack(message)
        copied = await take_one(q, target, "read")
        assert copied.trace_id == message.trace_id == hexadecimal(recorder.only("order"))[0]
        send = recorder.only(f"send {target}")
        assert parent_of(send) == hexadecimal(recorder.only(f"process {source}"))[1]
        assert facts(send)["goqueue.message.offset"] == copied.offset
        kinds = [event.event_type for event in (await q.traces.get(copied.trace_id)).events]
        assert kinds.count("publish.persisted") == kinds.count("consume.acked") == 2

    with recording() as recorder:
        play(node, scene)


def test_the_face_without_await_does_the_same_from_any_thread(
    node: ServerProcess, name: Name
) -> None:
    first, second = name(), name()
    with recording() as recorder, goqueue.connect_sync(node.url) as q:
        q.topics.create(first, partitions=1)
        q.topics.create(second, partitions=1)

        def work() -> None:
            with recorder.tracer.start_as_current_span("order"):
                q.publish(first, "one")
                with q.producer() as producer:
                    producer.send(first, "two")
                with q.transaction(name()) as tx:
                    tx.publish(first, "three")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with q.consume(first, group="work") as consumer:
            for _, message in zip(range(3), consumer, strict=False):
                with message.span():
                    q.publish(second, message.text)
                message.ack()
        trace_id, order_id = hexadecimal(recorder.only("order"))
        sends = {hexadecimal(each)[1]: each for each in recorder.named(f"send {first}")}
        assert [parent_of(each) for each in sends.values()] == [order_id] * 3
        assert {parent_of(each) for each in recorder.named(f"process {first}")} == set(sends)
        assert {hexadecimal(each)[0] for each in recorder.spans} == {trace_id}
        with q.consume(second, group="work") as consumer:
            assert next(consumer).trace_id == trace_id
        assert q.traces.get(trace_id).status == "pending"
        assert trace_id in {each.trace_id for each in q.traces.search(topic=second).traces}


def test_what_is_delivered_again_and_what_dies_stays_part_of_the_trace(
    node: ServerProcess, name: Name
) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1, max_deliveries=2)
        with recorder.tracer.start_as_current_span("order"):
            await q.publish(topic, "hello")
        async with q.consume(topic, group="work") as consumer:
            for _ in range(2):
                message = await anext(consumer)
                with pytest.raises(ZeroDivisionError), message.span():
                    raise ZeroDivisionError
                await message.nack(delay_s=0)
            assert await q.dead_letters.redrive(topic) == 1
            message = await anext(consumer)
            with message.span():
                await message.ack()
        works = recorder.named(f"process {topic}")
        outcomes = [each.status.status_code for each in works]
        assert outcomes == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
        send_id = hexadecimal(recorder.only(f"send {topic}"))[1]
        assert {parent_of(each) for each in works} == {send_id}
        found = await q.traces.get(hexadecimal(recorder.only("order"))[0])
        assert found.status == "completed"

    with recording() as recorder:
        play(node, scene)


def test_a_batch_that_is_sent_again_has_one_span_per_message(
    node: ServerProcess, name: Name
) -> None:
    topic = name()

    async def scene(q: Connection, proxy: Proxy) -> None:
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "the road is known")
        cuts = itertools.count()
        proxy.cuts_answer = lambda target: "/records" in target and next(cuts) < 2
        sent = await q.publish(topic, "sent again")
        spans = recorder.named(f"send {topic}")
        assert [facts(each)["goqueue.message.offset"] for each in spans] == [0, sent.offset]
        assert {each.status.status_code for each in spans} == {StatusCode.UNSET}
        found = (await q.traces.get(hexadecimal(spans[-1])[0])).events
        assert [each.event_type for each in found].count("publish.persisted") == 1

    with recording() as recorder:
        play_cut(node, scene)


def test_a_message_that_goes_nowhere_ends_its_span_with_the_code(
    node: ServerProcess, name: Name
) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        async with q.producer() as producer:
            await (await producer.send(topic, "taken"))
            await q.topics.delete(topic)
            receipt = await producer.send(topic, "refused")
            with pytest.raises(TopicNotFound):
                await receipt
        taken, refused = recorder.named(f"send {topic}")
        assert taken.status.status_code is StatusCode.UNSET
        assert refused.status.status_code is StatusCode.ERROR
        assert facts(refused)["error.type"] == "topic_not_found"

    with recording() as recorder:
        play(node, scene)


def test_a_context_that_the_message_has_is_left_alone(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        given = {"traceparent": GIVEN, "tracestate": "vendor=1"}
        with recorder.tracer.start_as_current_span("other"):
            await q.publish(topic, "hello", headers=given)
        message = await take_one(q, topic, "work")
        assert message.traceparent == GIVEN
        with message.span() as span:
            assert span is not None
            assert span.get_span_context().trace_state.get("vendor") == "1"
        assert recorder.named(f"send {topic}") == []
        assert parent_of(recorder.only(f"process {topic}")) == GIVEN[36:52]

    with recording() as recorder:
        play(node, scene)


def test_a_message_without_room_for_a_context_goes_without_it(
    node: ServerProcess, name: Name
) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1, max_message_bytes=2048)
        await q.publish(topic, b"x" * 2040)
        message = await take_one(q, topic, "work")
        assert message.header("traceparent") is None
        assert message.trace_id
        assert len(recorder.named(f"send {topic}")) == 1

    with recording() as recorder:
        play(node, scene)


def test_whoever_decided_not_to_follow_a_trace_is_obeyed(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "hello")
        message = await take_one(q, topic, "work")
        assert not int(message.traceparent[-2:], 16) & 1
        with pytest.raises(NotFound):
            await q.traces.get(message.trace_id)

    with recording(ALWAYS_OFF):
        play(node, scene)


def test_a_message_that_nobody_traced_is_worked_on_in_the_trace_that_the_broker_made(
    node: ServerProcess, name: Name
) -> None:
    topic = name()

    async def publish(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "hello", due=0.01)

    async def scene(q: Connection) -> None:
        polled = await take_one(q, topic, "work")
        async with q.stream(topic) as stream:
            read = await anext(stream)
        found = await q.traces.get(polled.trace_id)
        assert (found.topic, found.status) == (topic, "completed")
        # Who gets records knows the span of the publication as well.
        assert polled.traceparent == f"00-{polled.trace_id}-{found.events[0].span_id}-01"
        assert read.traceparent == polled.traceparent
        context = polled.context()
        current = trace.get_current_span(context).get_span_context()
        assert (f"{current.trace_id:032x}", current.is_remote) == (polled.trace_id, True)
        with polled.span():
            pass
        assert hexadecimal(recorder.only(f"process {topic}"))[0] == polled.trace_id

    play(node, publish)
    with recording() as recorder:
        play(node, scene)


def test_traces_are_listed_searched_and_counted(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        first = await q.publish(topic, "a", key="k")
        await q.publish(topic, "b")
        message = await take_one(q, topic, "reading")
        assert len((await q.traces.list(limit=1)).traces) == 1
        found = await q.traces.search(topic=topic, partition=0, offset=first.offset)
        (summary,) = found.traces
        assert (summary.trace_id, summary.status) == (message.trace_id, "completed")
        assert summary.end_time is not None
        same = [
            await q.traces.search(key="k", topic=topic),
            await q.traces.search(status="completed", topic=topic, group="reading", offset=0),
            await q.traces.search(topic=topic, partition=0, end=summary.start_time + MICROSECOND),
        ]
        assert [[each.trace_id for each in page.traces] for page in same] == [
            [message.trace_id]
        ] * 3
        assert (await q.traces.search(topic=topic, consumer="nobody")).total == 0
        stats = await q.traces.stats()
        assert stats.traces_total == (await q.traces.list()).total
        with pytest.raises(NotFound) as refused:
            await q.traces.get("0" * 31 + "1")
        assert refused.value.code == "trace_not_found"

    play(node, scene)


@pytest.fixture
def program(node: ServerProcess, name: Name) -> str:
    return f"""
import sys
{{before}}
import goqueue
with goqueue.connect_sync({node.url!r}) as q:
    topic = {name()!r}
    q.topics.create(topic, partitions=1)
    q.publish(topic, "hello", headers={{{{"a": "b"}}}})
    with q.consume(topic, group="work") as consumer:
        message = next(consumer)
        assert message.headers == {{{{"a": b"b"}}}}, message.headers
        assert len(message.trace_id) == 32
        assert message.context() is None
        with message.span() as span:
            assert span is None
            message.ack()
    assert q.traces.get(message.trace_id).status == "completed"
{{after}}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sys.modules['opentelemetry'] = None", ""),
        ("", "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"),
    ],
    ids=["where it is not installed", "where nobody uses it"],
)
def test_the_client_works_without_opentelemetry_and_does_not_import_it(
    program: str, before: str, after: str
) -> None:
    source = program.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_added_where_nobody_traces(node: ServerProcess, name: Name) -> None:
    topic = name()

    async def scene(q: Connection) -> None:
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "hello")
        message = await take_one(q, topic, "work")
        assert message.headers == {}

    assert "opentelemetry.trace" in sys.modules
    play(node, scene)
