"""The SDK's transactions against a real node, over a road that breaks."""

import asyncio
import random
from collections import Counter

import pytest

import goqueue
from goqueue.client import (
    GoQueueError,
    ProducerFenced,
    ReceiptStale,
    TransactionAborted,
    TransactionNotFound,
    TransactionStateInvalid,
    TransactionTimedOut,
)
from goqueue.client.connection import Connection
from goqueue.client.stream_consumer import StreamConsumer
from goqueue.model import LogId
from tests.integration.cutting_proxy import Proxy
from tests.integration.sdk_scenes import Name, play, play_cut, texts
from tests.integration.server_process import ServerProcess


def stumble() -> None:
    raise LookupError("what goes wrong in the middle of the work")


def test_all_of_a_transaction_is_seen_or_nothing(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, other, worker = name(), name(), name()
        for each in (topic, other):
            await q.topics.create(each, partitions=3)
        async with q.transaction(worker) as tx:
            for number in range(10):
                await tx.publish(topic, f"{number}", key=f"{number}")
                await tx.publish(other, f"{number}")

        async def fail() -> None:
            async with q.transaction(worker) as tx:
                for number in range(10):
                    await (await tx.publish(topic, f"never {number}"))
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        expected = sorted(str(number) for number in range(10))
        assert await texts(q, topic) == expected
        assert await texts(q, other) == expected
        assert len(await texts(q, topic, "read_uncommitted")) == 20

    play(node, scene)


def test_an_open_transaction_is_shown_only_to_those_who_ask(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        async with q.transaction(name()) as tx:
            await (await tx.publish(topic, "open", headers={"a": "b"}))
            message = await anext(q.stream(topic, isolation="read_uncommitted"))
            assert message.text == "open"
            assert message.headers == {"a": b"b"}
            reading = asyncio.ensure_future(anext(q.stream(topic)))
            behind = await q.publish(topic, "behind")
            assert not reading.done()
        assert (await reading).text == "open"
        assert behind.offset == 1

    play(node, scene)


def test_a_transaction_over_a_breaking_road_is_committed_exactly_once(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        chance = random.Random(7)
        topic, worker = name(), name()
        await q.topics.create(topic, partitions=3)
        roads = ("/records?", "/transactions/", "/producers/")

        def is_unlucky(line: str) -> bool:
            return any(road in line for road in roads) and chance.random() < 0.25

        proxy.cuts_answer = is_unlucky
        for number in range(50):
            async with q.transaction(worker) as tx:
                for copy in range(5):
                    await tx.publish(topic, f"{number}.{copy}")
        assert proxy.cut > 20
        proxy.cuts_answer = lambda _: False
        expected = sorted(f"{number}.{copy}" for number in range(50) for copy in range(5))
        assert await texts(q, topic) == expected

    play_cut(node, scene)


def test_a_commit_whose_answer_is_cut_is_committed_once(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        cuts = iter([True, True, True])
        proxy.cuts_answer = lambda line: "/transactions/commit" in line and next(cuts, False)
        async with q.transaction(name()) as tx:
            await tx.publish(topic, "once")
        assert proxy.cut == 3
        assert await texts(q, topic) == ["once"]

    play_cut(node, scene)


def test_a_zombie_is_fenced_and_leaves_no_trace(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, worker = name(), name()
        await q.topics.create(topic, partitions=1)

        async def be_taken_over() -> None:
            async with q.transaction(worker) as tx:
                await (await tx.publish(topic, "of the zombie"))
                async with (
                    goqueue.connect(node.url) as other,
                    other.transaction(worker) as newer,
                ):
                    await newer.publish(topic, "of the successor")
                await tx.publish(topic, "too late")

        with pytest.raises(ProducerFenced, match="took over the transactional id"):
            await be_taken_over()
        with pytest.raises(ProducerFenced):
            await q.transaction(worker).__aenter__()
        assert await texts(q, topic) == ["of the successor"]

    play(node, scene)


def test_a_worker_that_starts_again_ends_what_its_last_life_left_open(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, worker, group = name(), name(), name()
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "source")
        async with goqueue.connect(node.url) as earlier:
            left = await earlier.transaction(worker).__aenter__()
            await (await left.publish(topic, "of the last life"))
            await left.send_offsets(group, {LogId(topic, 0): 1})
            await q.take_over(worker)
            async with q.subscribe(topic, group=group, commit_interval_s=None) as consumer:
                assert (await anext(consumer)).text == "source"
            with pytest.raises(ProducerFenced):
                await left.__aexit__(None, None, None)
        assert await texts(q, topic) == ["source"]

    play(node, scene)


def test_leased_messages_are_acknowledged_with_the_transaction(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        source, target, worker, group = name(), name(), name(), name()
        for each in (source, target):
            await q.topics.create(each, partitions=3)
        async with q.producer() as producer:
            for number in range(100):
                await producer.send(source, f"{number}")
        async with q.consume(source, group=group, mode="shared", visibility_s=1.0) as consumer:
            done = 0
            stumbles = [lambda: None] * 100 + [stumble]
            while done < 100:
                taken = await consumer.take(10)
                try:
                    async with q.transaction(worker) as tx:
                        for message in taken:
                            await tx.publish(target, message.text)
                            await tx.ack(message)
                        stumbles.pop()()
                    done += len(taken)
                except LookupError:
                    for message in taken:
                        await message.nack(delay_s=0)
        assert (await q.groups.lag(group)).total_lag == 0
        assert await texts(q, target) == sorted(str(number) for number in range(100))

    play(node, scene)


def test_a_queue_is_copied_exactly_once_over_a_breaking_road(
    node: ServerProcess, name: Name
) -> None:
    count = 1000

    async def scene(q: Connection, proxy: Proxy) -> None:
        chance = random.Random(11)
        source, target, worker, group = name(), name(), name(), name()
        for each in (source, target):
            await q.topics.create(each, partitions=3)
        async with q.producer() as producer:
            for number in range(count):
                await producer.send(source, f"{number}")
        roads = ("/records?", "/transactions/", "/producers/")
        proxy.cuts_answer = lambda line: (
            any(road in line for road in roads) and chance.random() < 0.2
        )
        copied = 0
        async with q.consume(source, group=group, mode="shared") as consumer:
            while copied < count:
                taken = await consumer.take(50)
                async with q.transaction(worker) as tx:
                    for message in taken:
                        await tx.publish(target, message.value)
                        await tx.ack(message)
                copied += len(taken)
        proxy.cuts_answer = lambda _: False
        assert (await q.groups.lag(group)).total_lag == 0
        assert await texts(q, target) == sorted(str(number) for number in range(count))

    play_cut(node, scene)


def test_a_lease_that_is_over_aborts_the_transaction(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        source, target = name(), name()
        for each in (source, target):
            await q.topics.create(each, partitions=1)
        await q.publish(source, "x")
        async with q.consume(source, group=name()) as consumer:
            message = await anext(consumer)
            await message.nack(delay_s=60)

            async def acknowledge() -> None:
                async with q.transaction(name()) as tx:
                    await tx.publish(target, "of a lease that is over")
                    await tx.ack(message)

            with pytest.raises(TransactionAborted) as aborted:
                await acknowledge()
        assert isinstance(aborted.value.__cause__, ReceiptStale)
        assert await texts(q, target) == []

    play(node, scene)


def test_a_stream_is_copied_exactly_once_over_a_breaking_road(
    node: ServerProcess, name: Name
) -> None:
    count = 2000

    async def scene(q: Connection, proxy: Proxy) -> None:
        chance = random.Random(3)
        source, target, group = name(), name(), name()
        for each in (source, target):
            await q.topics.create(each, partitions=3)
        async with q.producer() as producer:
            for number in range(count):
                await producer.send(source, f"{number}", key=f"{number % 10}")
        proxy.cuts_answer = lambda line: "POST" in line and chance.random() < 0.05

        async def copy(worker: str) -> None:
            async with q.subscribe(source, group=group, commit_interval_s=None) as consumer:
                while (await q.groups.lag(group)).total_lag:
                    await copy_some(worker, consumer)

        async def copy_some(worker: str, consumer: StreamConsumer) -> None:
            try:
                async with asyncio.timeout(1.0):
                    taken = await consumer.take(75)
            except TimeoutError:
                return
            try:
                async with q.transaction(worker, consumer=consumer) as tx:
                    for message in taken:
                        await tx.publish(target, message.value, key=message.key)
                    if chance.random() < 0.1:
                        stumble()
            except (LookupError, TransactionAborted):
                return

        await asyncio.gather(copy(name()), copy(name()))
        proxy.cuts_answer = lambda _: False
        assert await texts(q, target) == sorted(str(number) for number in range(count))

    play_cut(node, scene)


def test_offsets_of_a_member_that_is_none_are_refused(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, group = name(), name()
        await q.topics.create(topic, partitions=1)
        await q.publish(topic, "x")
        async with q.subscribe(topic, group=group, commit_interval_s=None):

            async def send() -> None:
                async with q.transaction(name()) as tx:
                    await tx.send_offsets(group, {LogId(topic, 0): 1}, member_id="nobody")

            with pytest.raises(GoQueueError, match="member_not_found"):
                await send()

    play(node, scene)


def test_prepared_transactions_are_committed_together_under_a_key(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, key = name(), name()
        await q.topics.create(topic, partitions=3)

        async def prepare(value: str) -> str:
            async with q.transaction(name()) as tx:
                for _ in range(3):
                    await tx.publish(topic, value)
                return await tx.prepare()

        first = [await prepare("first") for _ in range(3)]
        assert await q.commit_group(key, first)
        second = [await prepare("second")]
        assert not await q.commit_group(key, second)
        with pytest.raises(TransactionNotFound):
            await q.commit_group(name(), ["999999-1"])
        assert await texts(q, topic) == ["first"] * 9

    play(node, scene)


def test_a_group_whose_answers_are_cut_is_committed_once(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        topic, key = name(), name()
        await q.topics.create(topic, partitions=3)
        cut: Counter[str] = Counter()

        def is_first(line: str) -> bool:
            cut[line] += "/transactions/prepare" in line or "/commit-group" in line
            return cut[line] % 2 == 1

        proxy.cuts_answer = is_first
        prepared = []
        for number in range(3):
            async with q.transaction(name()) as tx:
                await tx.publish(topic, f"{number}")
                prepared.append(await tx.prepare())
        # Committed by the first attempt, so that the second finds the key used.
        assert not await q.commit_group(key, prepared)
        assert proxy.cut == 4
        assert await texts(q, topic) == ["0", "1", "2"]

    play_cut(node, scene)


def test_a_transaction_that_runs_past_its_time_says_so(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)

        async def dawdle() -> None:
            async with q.transaction(name(), timeout_s=1.0) as tx:
                await (await tx.publish(topic, "late"))
                # Ends when the broker has let go: what is behind it is shown then.
                await q.publish(topic, "behind")
                assert (await anext(q.stream(topic))).text == "behind"

        with pytest.raises(TransactionTimedOut):
            await dawdle()
        assert await texts(q, topic) == ["behind"]

    play(node, scene)


def test_what_an_operator_aborted_cannot_be_committed(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, worker = name(), name()
        await q.topics.create(topic, partitions=1)

        async def be_aborted() -> None:
            async with q.transaction(worker) as tx:
                await (await tx.publish(topic, "x"))
                await q.transactions.abort(tx.transaction_id)

        with pytest.raises((TransactionAborted, ProducerFenced)):
            await be_aborted()
        assert await texts(q, topic) == []

    play(node, scene)


def test_threads_have_transactions_too(node: ServerProcess, name: Name) -> None:
    topic, worker = name(), name()
    with goqueue.connect_sync(node.url) as q:
        q.topics.create(topic, partitions=1)
        with q.transaction(worker) as tx:
            receipt = tx.publish(topic, "x")
        assert receipt.wait().offset == 0

        def fail() -> None:
            with q.transaction(worker) as tx:
                tx.publish(topic, "never")
                raise LookupError

        with pytest.raises(LookupError):
            fail()
        with q.consume(topic, group=name()) as consumer:
            message = next(consumer)
            assert message.text == "x"
            with q.transaction(worker) as tx:
                tx.publish(topic, "y")
                tx.ack(message)
            assert next(consumer).text == "y"
        with q.transaction(worker) as tx, pytest.raises(TransactionStateInvalid):
            q.transaction(worker).__enter__()


def test_a_topic_that_was_made_anew_takes_transactions_of_the_same_worker(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, worker = name(), name()

        async def publish() -> None:
            async with q.transaction(worker) as tx:
                await tx.publish(topic, "x")

        await q.topics.create(topic, partitions=1)
        await publish()
        await q.topics.delete(topic)
        await q.topics.create(topic, partitions=1)
        with pytest.raises(TransactionAborted, match="sequence_out_of_order"):
            await publish()
        await publish()
        assert await texts(q, topic) == ["x"]

    play(node, scene)
