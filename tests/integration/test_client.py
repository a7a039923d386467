"""The Python SDK against a real node: publish, consume both ways, administer, outlive a restart."""

import asyncio
import datetime as dt
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue.client import (
    AlreadyDelivered,
    GoQueueError,
    NotFound,
    ReceiptStale,
    TopicExists,
    TopicNotFound,
)
from goqueue.client.connection import Connection
from goqueue.client.retries import Retries
from tests.integration.server_process import ServerProcess, serving

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "python.md"
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node")) as process:
        yield process


def play(server: ServerProcess, scene: Callable[[Connection], Awaitable[None]]) -> None:
    """Run a scene with a connection, within a bound of time."""

    async def bounded() -> None:
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(server.url) as q:
            await scene(q)

    asyncio.run(bounded())


@pytest.fixture
def topic(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    """A topic of three partitions for one test."""
    name = f"t.{request.node.name[:200]}".replace("[", ".").replace("]", "")

    async def scene(q: Connection) -> None:
        await q.topics.create(name, partitions=3)

    play(server, scene)
    return name


# ---- publishing and streams ----------------------------------------------------------------


def test_every_message_is_at_the_place_that_its_receipt_names(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        sent = {}
        async with q.producer() as producer:
            receipts = [
                await producer.send(topic, {"n": n}, key=f"k-{n % 7}" if n % 2 else None)
                for n in range(1000)
            ]
            for n, receipt in enumerate(receipts):
                place = await receipt
                sent[place.partition, place.offset] = n
        assert len(sent) == 1000

        read = {}
        async with q.stream(topic) as stream:
            async for message in stream:
                read[message.partition, message.offset] = message.json(dict[str, int])["n"]
                if len(read) == 1000:
                    break
        assert read == sent

    play(server, scene)


def test_messages_of_one_key_keep_their_order(server: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        async with q.producer() as producer:
            for n in range(3000):
                await producer.send(topic, f"{n}", key=f"k-{n % 5}")
        seen: dict[bytes, list[int]] = {}
        stream = q.stream(topic)
        for _ in range(3000):
            message = await anext(stream)
            seen.setdefault(message.key, []).append(int(message.text))
        assert all(numbers == sorted(numbers) for numbers in seen.values())
        assert sum(map(len, seen.values())) == 3000

    play(server, scene)


def test_bytes_headers_and_priorities_come_back_as_they_were_sent(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        headers: dict[str, str | bytes] = {"trace": "é", "raw": b"\x00\xff"}
        sent = await q.publish(topic, b"\x00\xff", key=b"\xfe", headers=headers, priority=1)
        message = await anext(q.stream(topic, partition=sent.partition, from_=sent.offset))
        assert (message.key, message.value, message.priority) == (b"\xfe", b"\x00\xff", 1)
        assert message.header("trace") == "é"
        assert message.headers["raw"] == b"\x00\xff"
        assert message.timestamp == sent.timestamp

    play(server, scene)


def test_a_stream_begins_at_an_end_at_an_offset_or_at_a_time(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        first = await q.publish(topic, "first", partition=0)
        second = await q.publish(topic, "second", partition=0)
        at_offset = q.stream(topic, partition=0, from_=second.offset)
        assert (await anext(at_offset)).text == "second"
        time = dt.datetime.fromtimestamp(first.timestamp / 1e9 - 60, dt.UTC)
        assert (await anext(q.stream(topic, partition=0, from_=time))).text == "first"
        async with q.stream(topic, partition=0, from_="latest") as latest:
            coming = asyncio.ensure_future(anext(latest))
            third = await q.publish(topic, "third", partition=0)
            # It may have begun before or after the third; either way it never sees the others.
            await q.publish(topic, "fourth", partition=0)
            assert (await coming).offset >= third.offset

    play(server, scene)


def test_delayed_messages_are_published_listed_cancelled_and_delivered_once(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        hour = dt.timedelta(hours=1)
        publishing = [
            q.publish(topic, "soon", partition=0, due=0.2, priority=0),
            q.publish(topic, "later", partition=0, due=hour),
            q.publish(topic, "at", partition=0, due=dt.datetime.now(dt.UTC) + 2 * hour),
            q.publish(topic, "past", partition=0, due=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
            q.publish(topic, "far", partition=0, due=dt.timedelta(days=400)),
        ]
        *possible, impossible = publishing
        assert [(await each).offset for each in possible] == [0, 1, 2, 3]
        with pytest.raises(GoQueueError, match="delay_too_long"):
            await impossible
        waiting = await q.delayed.list(topic)
        assert [each.offset for each in waiting] == [0, 1, 2]
        await q.delayed.cancel(topic, 0, 1)
        assert (await q.delayed.get(topic, 1, partition=0)).state == "cancelled"
        async with q.stream(topic, partition=0) as stream:
            past, soon = await anext(stream), await anext(stream)
        assert (past.text, soon.text, soon.priority) == ("past", "soon", 0)
        assert soon.headers["gq.delayed-from"] == b"0"
        with pytest.raises(AlreadyDelivered):
            await q.delayed.cancel(topic, 0, 0)
        assert (await q.delayed.stats()).by_topic[topic] == 1

    play(server, scene)


def test_threads_publish_for_later_too(server: ServerProcess, topic: str) -> None:
    with goqueue.connect_sync(server.url) as q:
        sent = q.publish(topic, "x", due=3600)
        assert [each.offset for each in q.delayed.list(topic)] == [sent.offset]
        q.delayed.cancel(topic, sent.partition, sent.offset)
        told = q.delayed.get(topic, sent.offset, partition=sent.partition)
        assert told.state == "cancelled"
        assert topic not in q.delayed.stats().by_topic


# ---- groups --------------------------------------------------------------------------------


def test_a_group_goes_on_where_its_last_consumer_committed(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        for n in range(20):
            await q.publish(topic, f"{n}", partition=n % 3)
        seen: list[str] = []
        async with q.subscribe(topic, group="by-hand", commit_interval_s=None) as consumer:
            while len(seen) < 12:
                seen.append((await anext(consumer)).text)
            await consumer.commit()
        async with q.subscribe(topic, group="by-hand") as consumer:
            while len(seen) < 20:
                seen.append((await anext(consumer)).text)
        assert sorted(seen, key=int) == [f"{n}" for n in range(20)]
        lag = await q.groups.lag("by-hand")
        assert lag.total_lag <= 1

    play(server, scene)


def test_two_consumers_share_the_partitions_and_one_takes_over(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        first = q.subscribe(topic, group="shared")
        async with first:
            assert len(first.assigned) == 3
            async with q.subscribe(topic, group="shared") as second:
                assert 1 <= len(second.assigned) <= 2
            described = await q.groups.describe("shared")
            assert len(described.members) == 1

    play(server, scene)


def test_nothing_is_missed_when_partitions_move_between_members(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        for n in range(300):
            await q.publish(topic, f"{n}", partition=n % 3)
        seen: set[str] = set()
        second = q.subscribe(topic, group="moving")
        async with q.subscribe(topic, group="moving") as first:
            for _ in range(150):
                seen.add((await anext(first)).text)
            async with second:
                assert 1 <= len(second.assigned) <= 2
                await first.close()
                while len(seen) < 300:
                    seen.add((await anext(second)).text)
                assert len(second.assigned) == 3
        assert seen == {f"{n}" for n in range(300)}

    play(server, scene)


def test_acknowledged_messages_do_not_come_again_and_others_do(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        for n in range(6):
            await q.publish(topic, f"{n}")
        async with q.consume(topic, group="acks") as consumer:
            messages = [await anext(consumer) for _ in range(6)]
            for message in messages[:4]:
                await message.ack()
        async with q.consume(topic, group="acks") as consumer:
            again = [await anext(consumer) for _ in range(2)]
            assert {message.text for message in again} == {m.text for m in messages[4:]}
            assert {message.delivery_count for message in again} == {2}
            await asyncio.gather(*(message.ack() for message in again))
        assert (await q.groups.lag("acks")).total_lag == 0

    play(server, scene)


def test_a_message_that_was_given_back_comes_again(server: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        await q.publish(topic, "x")
        consumer = q.consume(topic, group="nacks")
        message = await anext(consumer)
        await message.extend(60)
        await message.nack(delay_s=0, reason="not now")
        again = await anext(consumer)
        assert (again.text, again.delivery_count) == ("x", 2)
        with pytest.raises(ReceiptStale):
            await message.extend(60)
        await again.ack()
        await again.ack()

    play(server, scene)


def test_a_rejected_message_is_a_dead_letter_and_can_be_redriven(
    server: ServerProcess, topic: str
) -> None:
    async def scene(q: Connection) -> None:
        assert await q.dead_letters.list(topic) == ()
        await q.publish(topic, "bad", key="k")
        consumer = q.consume(topic, group="rejects")
        await (await anext(consumer)).reject("cannot be read")
        (letter,) = await q.dead_letters.list(topic)
        assert (letter.text, letter.key) == ("bad", b"k")
        assert letter.reason == "cannot be read"
        assert await q.dead_letters.redrive(topic) == 1
        again = await anext(consumer)
        assert again.text == "bad"
        await again.ack()

    play(server, scene)


# ---- administration ------------------------------------------------------------------------


def test_topics_are_made_described_altered_and_deleted(server: ServerProcess) -> None:
    async def scene(q: Connection) -> None:
        made = await q.topics.create("admin", partitions=2, retention_hours=24)
        assert (made.name, made.partitions, made.config.retention_hours) == ("admin", 2, 24)
        with pytest.raises(TopicExists):
            await q.topics.create("admin")
        assert "admin" in await q.topics.list()
        altered = await q.topics.alter("admin", visibility_timeout="1m")
        assert altered.config.visibility_timeout == "1m0s"
        assert [partition.partition for partition in await q.topics.partitions("admin")] == [0, 1]
        await q.publish("admin", "x", partition=1)
        described = await q.topics.describe("admin")
        assert described.total_messages == 1
        assert described.partition_offsets[1].latest == 0
        await q.topics.delete("admin")
        with pytest.raises(TopicNotFound):
            await q.topics.describe("admin")

    play(server, scene)


def test_groups_are_listed_described_reset_and_deleted(server: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        for n in range(3):
            await q.publish(topic, f"{n}", partition=0)
        async with q.subscribe(topic, group="admins", commit_interval_s=None) as consumer:
            for _ in range(3):
                await anext(consumer)
            await consumer.commit()
        assert "admins" in [group.group_id for group in await q.groups.list()]
        assert (await q.groups.offsets("admins")).offsets[topic][0] == 3
        dry = await q.groups.reset("admins", topic, 1, partition=0, dry_run=True)
        assert [(reset.partition, reset.offset, reset.lag) for reset in dry.new_offsets] == [
            (0, 1, 2)
        ]
        await q.groups.reset("admins", topic, "earliest")
        assert (await q.groups.offsets("admins")).offsets[topic][0] == 0
        await q.groups.delete("admins")
        with pytest.raises(NotFound):
            await q.groups.describe("admins")

    play(server, scene)


def test_the_node_tells_how_it_is(server: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        assert (await q.health()).status == "ok"
        assert (await q.version()).version == goqueue.__version__
        assert (await q.stats()).topic_stats[topic].partitions == 3

    play(server, scene)


# ---- without await -------------------------------------------------------------------------


def test_threads_share_a_connection(server: ServerProcess, topic: str) -> None:
    with goqueue.connect_sync(server.url) as q:

        def publish(number: int) -> None:
            for n in range(20):
                q.publish(topic, f"{number}-{n}", key=f"{number}")

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS_MAX)
        with q.producer() as producer:
            receipt = producer.send(topic, "last")
        assert receipt.wait().topic == topic

        seen = []
        with q.consume(topic, group="threads") as consumer:
            for message in consumer:
                seen.append(message.text)
                message.ack(wait=len(seen) % 2 == 0)
                if len(seen) == 81:
                    break
        assert len(set(seen)) == 81
        assert q.groups.lag("threads").total_lag == 0


def test_a_program_that_forgets_to_close_loses_nothing(server: ServerProcess, topic: str) -> None:
    script = (
        "import goqueue, sys\n"
        "q = goqueue.connect_sync(sys.argv[1])\n"
        "producer = q.producer()\n"
        "for n in range(10): producer.send(sys.argv[2], str(n))\n"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-c", script, server.url, topic],
        check=True,
        timeout=SECONDS_MAX,
    )
    with goqueue.connect_sync(server.url) as q:
        assert q.topics.describe(topic).total_messages == 10


# ---- the node goes away --------------------------------------------------------------------


def test_producers_and_consumers_outlive_a_killed_node(tmp_path: Path) -> None:
    async def scene(process: ServerProcess) -> None:
        async with asyncio.timeout(SECONDS_MAX), goqueue.connect(process.url) as q:
            await q.topics.create("orders", partitions=1)
            seen: list[str] = []
            stream = q.stream("orders")
            consumer = q.consume("orders", group="g")
            for n in range(3):
                await q.publish("orders", f"{n}")
                seen.append((await anext(stream)).text)
                leased = await anext(consumer)
                assert leased.text == f"{n}"
                await leased.ack()
                await asyncio.to_thread(process.kill)
                await asyncio.to_thread(process.start)
            await q.publish("orders", "last")
            assert (await anext(stream)).text == "last"
            assert (await anext(consumer)).text == "last"
            assert seen == ["0", "1", "2"]

    with serving(tmp_path / "node") as process:
        asyncio.run(scene(process))


def test_what_was_acknowledged_is_kept_in_order_when_the_node_is_killed(tmp_path: Path) -> None:
    async def scene(process: ServerProcess) -> None:
        patient = Retries(attempts_max=1000, total_s=SECONDS_MAX, wait_s_max=0.2)
        connection = goqueue.connect(process.url, retries=patient)
        async with asyncio.timeout(SECONDS_MAX), connection as q:
            await q.topics.create("orders", partitions=2)
            producer = q.producer()
            receipts = []
            for n in range(6000):
                receipts.append(await producer.send("orders", f"{n}", partition=n % 2))
                if n in {2000, 4000}:
                    await asyncio.to_thread(process.restart)
            places = [await receipt for receipt in receipts]

            ends = (await q.topics.describe("orders")).partition_offsets
            texts = {}
            for partition in (0, 1):
                stream = q.stream("orders", partition=partition)
                while (partition, ends[partition].latest) not in texts:
                    message = await anext(stream)
                    texts[partition, message.offset] = message.text
            found = [texts[place.partition, place.offset] for place in places]
            assert found == [f"{n}" for n in range(6000)]
            for partition in (0, 1):
                offsets = [place.offset for place in places if place.partition == partition]
                assert offsets == sorted(set(offsets))

    with serving(tmp_path / "node") as process:
        asyncio.run(scene(process))


# ---- deleting messages ----------------------------------------------------------------------


def test_messages_before_an_offset_or_all_are_deleted(server: ServerProcess, topic: str) -> None:
    async def scene(q: Connection) -> None:
        for number in range(5):
            await q.publish(topic, str(number), partition=1)
        (trimmed,) = await q.topics.trim(topic, {1: 3})
        assert (trimmed.partition, trimmed.earliest_offset, trimmed.deleted_offsets) == (1, 3, 3)
        page = await q.page(topic, 1, offset=0, limit=10)
        assert [item.message.offset for item in page.messages] == [3, 4]
        # It may be repeated.
        (again,) = await q.topics.trim(topic, {1: 3})
        assert again.deleted_offsets == 0
        with pytest.raises(GoQueueError) as refused:
            await q.topics.trim(topic, {1: 6})
        assert refused.value.code == "offset_out_of_range"
        assert [each.earliest_offset for each in await q.topics.purge(topic)] == [0, 5, 0]
        with pytest.raises(TopicNotFound) as unknown:
            await q.topics.purge("nowhere")
        assert unknown.value.details == {"topic": "nowhere"}
        assert "goqueue_storage_log_start_offset" in await q.metrics()

    play(server, scene)
    with goqueue.connect_sync(server.url) as q:
        assert len(q.topics.purge(topic)) == 3
