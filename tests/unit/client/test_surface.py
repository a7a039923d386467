"""What a program says to the SDK, checked where it is said."""

import asyncio
import datetime as dt
import socket
from collections.abc import Awaitable, Callable, Iterator

import msgspec
import pytest

import goqueue
from goqueue.client.message import Message
from goqueue.records import encode_headers
from goqueue.testing import ManualClock, MemoryNode

START = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)
Scene = Callable[[goqueue.Connection], Awaitable[None]]


@pytest.fixture
def node() -> Iterator[MemoryNode]:
    with MemoryNode(clock=ManualClock(START)) as node:
        yield node


def play(node: MemoryNode, scene: Scene) -> None:
    async def run() -> None:
        async with node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            await scene(q)

    asyncio.run(run())


def message(value: bytes | None, *, key: bytes = b"", **headers: bytes) -> Message:
    return Message("orders", 1, 42, 0, 2, key, value, encode_headers(headers.items()))


# ---- topics --------------------------------------------------------------------------------


def test_a_program_that_creates_its_topics_can_start_twice(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        with pytest.raises(goqueue.TopicExists):
            await q.topics.create("jobs", partitions=1)
        found = await q.topics.create("jobs", partitions=1, exist_ok=True)
        assert (found.name, found.partitions) == ("jobs", 1)
        await q.topics.create("jobs", exist_ok=True)
        new = await q.topics.create("new", partitions=2, exist_ok=True)
        assert new.partitions == 2

    play(node, scene)


def test_a_topic_with_another_number_of_partitions_is_not_taken_for_the_wanted_one(
    node: MemoryNode,
) -> None:
    async def scene(q: goqueue.Connection) -> None:
        with pytest.raises(goqueue.TopicExists, match="1 partitions instead of 6") as refused:
            await q.topics.create("jobs", partitions=6, exist_ok=True)
        assert refused.value.details == {"partitions": 1}

    play(node, scene)


# ---- when a message is due -----------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"delay": 90},
        {"delay": "1m30s"},
        {"delay": dt.timedelta(seconds=90)},
        {"deliver_at": START + dt.timedelta(seconds=90)},
        {"deliver_at": "2030-01-31T12:01:30Z"},
        {"deliver_at": "2030-01-31T13:01:30+01:00"},
        {"due": 90},
    ],
    ids=str,
)
def test_a_due_time_has_one_name_and_several_notations(
    node: MemoryNode, given: dict[str, goqueue.Delay]
) -> None:
    async def scene(q: goqueue.Connection) -> None:
        publish: Callable[..., Awaitable[goqueue.Sent]] = q.publish
        await publish("jobs", "later", **given)
        (waiting,) = await q.delayed.list("jobs")
        async with q.producer() as producer:
            send: Callable[..., Awaitable[goqueue.Receipt]] = producer.send
            await send("jobs", "sent", **given)
        async with q.transaction("t") as tx:
            publish_in: Callable[..., Awaitable[goqueue.Receipt]] = tx.publish
            await publish_in("jobs", "published", **given)
        found = {each.deliver_at for each in await q.delayed.list("jobs")}
        assert found == {waiting.deliver_at}
        assert waiting.deliver_at == START + dt.timedelta(seconds=90)

    play(node, scene)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"delay": 1, "deliver_at": START}, "not both"),
        ({"delay": 1, "due": 1}, "not both"),
        ({"delay": "soon"}, "a delay must be a duration"),
        ({"delay": -1}, "at least 0 seconds, not -1"),
        ({"delay": float("nan")}, "at least 0 seconds, not nan"),
        ({"delay": b"1s"}, "a delay is a number"),
        ({"deliver_at": "tomorrow"}, "deliver_at is a datetime"),
        ({"deliver_at": "2030-01-31T12:00:00"}, "is a datetime with a time zone"),
        ({"deliver_at": dt.datetime(2030, 1, 1)}, "is a datetime with a time zone"),
        ({"deliver_at": 5}, "is a datetime with a time zone"),
    ],
    ids=str,
)
def test_a_due_time_that_is_none_is_refused_before_anything_is_sent(
    node: MemoryNode, given: dict[str, object], words: str
) -> None:
    async def scene(q: goqueue.Connection) -> None:
        publish: Callable[..., Awaitable[goqueue.Sent]] = q.publish
        with pytest.raises(goqueue.ArgumentInvalid, match=words):
            await publish("jobs", "later", **given)
        assert (await q.topics.describe("jobs")).total_messages == 0

    play(node, scene)


def test_a_nack_takes_its_delay_in_the_same_notations(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        await q.publish("jobs", "x")
        async with q.consume("jobs", group="g") as consumer:
            for delay in ("1m", dt.timedelta(minutes=1)):
                await (await anext(consumer)).nack(delay=delay)
                await node.clock.advance("59s")
                waiting = asyncio.ensure_future(anext(consumer))
                await node.clock.settle()
                assert not waiting.done()
                await node.clock.advance("1s")
                again = await waiting
                await again.nack(delay=0)
            await (await anext(consumer)).ack()

    async def altered(q: goqueue.Connection) -> None:
        await q.topics.alter("jobs", max_deliveries=0)
        await scene(q)

    play(node, altered)


# ---- choices -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda q: q.consume("jobs", group="g", mode="sharded"), "did you mean 'shared'"),
        (lambda q: q.consume("jobs", group="g", start="begin"), "use 'earliest' or 'latest'"),
        (lambda q: q.subscribe("jobs", group="g", isolation="dirty"), "isolation is 'dirty'"),
        (lambda q: q.subscribe("jobs", group="g", start=7), "start is 7"),
        (lambda q: q.poll_consumer("jobs", group="g", mode=""), "mode is ''"),
        (lambda q: q.stream("jobs", isolation="commited"), "'read_committed'"),
        (lambda q: q.stream("jobs", from_="earlist"), "did you mean 'earliest'"),
        (lambda q: q.stream("jobs", from_="2030-01-31"), "from_ is a datetime with a time zone"),
        (lambda q: q.stream("jobs", from_=dt.datetime(2030, 1, 1)), "from_ is a datetime"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_at_the_call(
    node: MemoryNode, call: Callable[[goqueue.Connection], object], words: str
) -> None:
    async def scene(q: goqueue.Connection) -> None:
        with pytest.raises(goqueue.ArgumentInvalid, match=words) as refused:
            call(q)
        assert isinstance(refused.value, ValueError)
        assert refused.value.code == "request_invalid"

    play(node, scene)


def test_a_stream_begins_at_a_time_that_is_given_as_text(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        await q.publish("jobs", "early")
        await node.clock.advance("1h")
        await q.publish("jobs", "late")
        async with q.stream("jobs", from_="2030-01-31T12:30:00Z") as messages:
            assert (await anext(messages)).text == "late"

    play(node, scene)


def test_type_checkers_know_the_choices(node: MemoryNode) -> None:
    """mypy reports an `ignore` that ignores nothing: each of these is an error to it, too."""

    async def scene(q: goqueue.Connection) -> None:
        with pytest.raises(goqueue.ArgumentInvalid):
            q.consume("jobs", group="g", mode="sharded")  # type: ignore[call-overload]  # no such mode
        with pytest.raises(goqueue.ArgumentInvalid):
            q.subscribe("jobs", group="g", start="first")  # type: ignore[arg-type]  # no such start
        with pytest.raises(goqueue.GoQueueError):
            await q.publish("jobs", "x", priority="urgent")  # type: ignore[arg-type]  # no such priority
        with pytest.raises(AttributeError):
            assert goqueue.Mesage  # type: ignore[attr-defined]  # misspelled name

    play(node, scene)


def test_priorities_have_names(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        await q.publish("jobs", "a", priority="low")
        await q.publish("jobs", "b", priority=goqueue.Priority.CRITICAL)
        async with q.consume("jobs", group="g") as consumer:
            first = await anext(consumer)
            assert (first.text, first.lane) == ("b", goqueue.Priority.CRITICAL)
            second = await anext(consumer)
            assert second.lane is goqueue.Priority.LOW
            await first.ack()
            await second.ack()

    play(node, scene)


# ---- messages ------------------------------------------------------------------------------


def test_a_value_that_cannot_be_read_is_one_kind_of_error() -> None:
    reads: tuple[Callable[[], object], ...] = (
        lambda: message(b"{").json(),
        lambda: message(b"\xff").json(),
        lambda: message(b'{"id":"x"}').json(dict[str, int]),
        lambda: message(b"\xff").text,
        lambda: message(b"", key=b"\xff").key_text,
        lambda: message(b"", a=b"\xff").header("a"),
    )
    for read in reads:
        with pytest.raises(goqueue.DecodeError, match="orders 1:42") as failed:
            read()
        assert isinstance(failed.value, goqueue.GoQueueError)
        assert isinstance(failed.value, ValueError)
        assert isinstance(failed.value.__cause__, msgspec.MsgspecError | UnicodeDecodeError)


def test_a_message_is_shown_in_one_short_line() -> None:
    shown = repr(message(b"x" * 100_000, key=b"customer-7", secret=b"s"))
    assert shown == "Message(orders 1:42, key=b'customer-7', 100000 bytes)"
    assert repr(message(None)) == "Message(orders 1:42, tombstone)"


def test_a_key_is_text_or_none() -> None:
    assert message(b"").key_text is None
    assert message(b"", key="Zoë".encode()).key_text == "Zoë"


# ---- dead letters --------------------------------------------------------------------------


def test_a_dead_letter_says_where_it_came_from_and_why(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        await q.publish("jobs", {"id": 1}, key="k")
        await q.publish("jobs", "twice")
        await node.clock.advance("1m")
        async with q.consume("jobs", group="billing") as consumer:
            await (await anext(consumer)).reject("card declined")
            await (await anext(consumer)).nack(delay=0, reason="first")
            await (await anext(consumer)).reject("second")
        letter, other = await q.dead_letters.list("jobs")
        assert letter.origin == ("jobs", 0, 0)
        assert str(letter.origin) == "jobs 0:0"
        assert (letter.group, letter.cause, letter.reason) == (
            "billing",
            "rejected",
            "card declined",
        )
        assert (letter.deliveries, other.deliveries) == (1, 2)
        assert letter.dead_at == START + dt.timedelta(minutes=1)
        assert letter.json(dict[str, int]) == {"id": 1}
        assert (letter.key, letter.is_redriven) == (b"k", False)
        assert letter.place == ("jobs.dlq", letter.partition, letter.offset)
        assert repr(letter).startswith("DeadLetter(jobs.dlq 0:0, of jobs 0:0, rejected: 'card")

        # A worker of the dead-letter topic reads the same from a message.
        async with q.consume("jobs.dlq", group="repair") as consumer:
            polled = await anext(consumer)
            assert goqueue.DeadLetter.read(polled).reason == "card declined"
            await polled.ack()

    play(node, scene)


def test_what_is_no_dead_letter_is_left_out_and_refused(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        await q.publish("jobs", "bad")
        async with q.consume("jobs", group="g") as consumer:
            await (await anext(consumer)).reject()
        await q.publish("jobs.dlq", "by hand")
        (letter,) = await q.dead_letters.list("jobs")
        assert letter.text == "bad"

    play(node, scene)
    with pytest.raises(goqueue.ArgumentInvalid, match="is not a dead letter"):
        goqueue.DeadLetter.read(message(b"x"))


# ---- timeouts ------------------------------------------------------------------------------


def test_a_call_ends_with_its_time_and_the_next_has_the_usual_time() -> None:
    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)
        held.append(writer)

    async def run() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, goqueue.connect(f"http://127.0.0.1:{port}") as q:
            with pytest.raises(goqueue.TimedOut, match=r"within 0\.0"), goqueue.timeout(0.05):
                await q.topics.list()
            with pytest.raises(TimeoutError), goqueue.timeout(0.05):
                await q.publish("jobs", "x")
            usual = asyncio.create_task(q.topics.list())
            _, pending = await asyncio.wait({usual}, timeout=0.2)
            assert pending
            usual.cancel()
            for each in held:
                each.close()

    held: list[asyncio.StreamWriter] = []
    asyncio.run(run())


def test_a_thread_gives_its_own_calls_a_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with goqueue.connect_sync(url) as q:
            with pytest.raises(goqueue.TimedOut), goqueue.timeout(0.05):
                q.topics.list()
            with pytest.raises(goqueue.TimedOut), goqueue.timeout(0.05):
                q.publish("jobs", "x")


def test_a_producer_that_was_opened_in_a_block_outlives_it(node: MemoryNode) -> None:
    async def scene(q: goqueue.Connection) -> None:
        with goqueue.timeout(0.2):
            await q.publish("jobs", "first")
        await asyncio.sleep(0.25)
        assert (await q.publish("jobs", "second")).offset == 1

    play(node, scene)


def test_the_earliest_of_nested_ends_counts() -> None:
    with pytest.raises(goqueue.ArgumentInvalid), goqueue.timeout(0):
        pass
    with goqueue.timeout(60), goqueue.timeout(3600):
        left = goqueue.client.call_timeout.remaining_s()
        assert left is not None
        assert left <= 60
    assert goqueue.client.call_timeout.remaining_s() is None
