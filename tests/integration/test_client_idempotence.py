"""The SDK's producer against a real node, over a road that breaks: never twice, never reordered."""

import asyncio
import random
import signal
from collections import Counter

import pytest

import goqueue
from goqueue.client import GoQueueError
from goqueue.client.connection import Connection
from goqueue.client.producer import ProducerConfig
from goqueue.client.retries import Retries
from tests.integration.cutting_proxy import Proxy
from tests.integration.sdk_scenes import SECONDS_MAX, Name, messages, play, play_cut
from tests.integration.server_process import ServerProcess


@pytest.mark.parametrize("seed", [1, 2])
def test_every_message_sent_over_a_breaking_road_is_there_once_and_in_order(
    node: ServerProcess, name: Name, seed: int
) -> None:
    count = 5000

    async def scene(q: Connection, proxy: Proxy) -> None:
        chance = random.Random(seed)
        topic = name()
        await q.topics.create(topic, partitions=3)
        proxy.cuts_answer = lambda line: "/records?" in line and chance.random() < 0.2
        proxy.cuts_request = lambda line: "/records?" in line and chance.random() < 0.1
        async with q.producer(
            ProducerConfig(messages=20, messages_max=40, idempotent=True)
        ) as producer:
            receipts = [
                await producer.send(topic, f"{number}", key=f"k-{number % 50}")
                for number in range(count)
            ]
            places = [(await receipt) for receipt in receipts]
        assert proxy.cut > 20
        proxy.cuts_answer = proxy.cuts_request = lambda _: False

        seen: dict[bytes, list[int]] = {}
        found = {}
        async for message in messages(q, topic):
            seen.setdefault(message.key, []).append(int(message.text))
            found[message.partition, message.offset] = int(message.text)
        assert sum(map(len, seen.values())) == count
        assert all(numbers == sorted(set(numbers)) for numbers in seen.values())
        # A repeat is told where it went the first time.
        assert [found[place.partition, place.offset] for place in places] == list(range(count))

    play_cut(node, scene)


def test_single_publishes_over_a_breaking_road_are_there_once(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        answers = Counter[str]()

        def every_third(line: str) -> bool:
            answers[line[:10]] += 1
            return "/records?" in line and answers[line[:10]] % 3 == 0

        proxy.cuts_answer = every_third
        for number in range(200):
            await q.publish(topic, f"{number}", due=0 if number % 2 else None)
        proxy.cuts_answer = lambda _: False
        assert [int(message.text) async for message in messages(q, topic)] == list(range(200))

    play_cut(node, scene)


def test_a_delayed_message_whose_answer_was_lost_is_delivered_once(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        cuts = iter([True, True, False])
        proxy.cuts_answer = lambda line: "/records?" in line and next(cuts, False)
        first = await q.publish(topic, "later", due=0.2)
        assert proxy.cut == 2
        message = await anext(q.stream(topic))
        assert message.headers["gq.delayed-from"] == str(first.offset).encode()
        assert [each.text async for each in messages(q, topic)] == ["later"]

    play_cut(node, scene)


def test_a_delay_that_is_too_long_fails_alone(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        producer = q.producer(ProducerConfig(linger_s=60.0, idempotent=True))
        good = await producer.send(topic, "good", due=0.01)
        bad = await producer.send(topic, "bad", due=1e8)
        last = await producer.send(topic, "last")
        with pytest.raises(GoQueueError, match="delay_too_long"):
            await producer.flush()
        with pytest.raises(GoQueueError, match="delay_too_long"):
            await bad
        assert ((await good).offset, (await last).offset) == (0, 1)

    play(node, scene)


def test_a_topic_that_was_made_anew_takes_messages_of_the_same_producer(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        async with q.producer(ProducerConfig(linger_s=0.0, idempotent=True)) as producer:
            for _ in range(2):
                await q.topics.create(topic, partitions=1)
                for number in range(3):
                    assert (await (await producer.send(topic, b"x"))).offset == number
                await q.topics.delete(topic)

    play(node, scene)


def test_a_producer_goes_on_after_the_node_was_killed(mortal: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await q.topics.create(topic, partitions=3)
        async with q.producer(ProducerConfig(messages=10, messages_max=10)) as producer:
            restarting: asyncio.Future[None] | None = None
            for number in range(2000):
                await producer.send(topic, f"{number}", key=f"k-{number % 10}")
                if number == 500:
                    restarting = asyncio.ensure_future(asyncio.to_thread(mortal.restart))
            assert restarting is not None
            await restarting
        seen: dict[bytes, list[int]] = {}
        async for message in messages(q, topic):
            seen.setdefault(message.key, []).append(int(message.text))
        assert sum(map(len, seen.values())) == 2000
        assert all(numbers == sorted(set(numbers)) for numbers in seen.values())

    async def run() -> None:
        retries = Retries(attempts_max=1000, total_s=60.0)
        async with (
            asyncio.timeout(SECONDS_MAX),
            goqueue.connect(mortal.url, retries=retries) as q,
        ):
            await scene(q)

    asyncio.run(run())


# Longer than eight attempts with growing waits could ever take: 0.05 s up to 2 s, 5.15 s in all.
ABSENCE_S = 6.0


def test_publishing_and_consuming_survive_a_node_that_is_away_for_seconds(
    mortal: ServerProcess, name: Name, caplog: pytest.LogCaptureFixture
) -> None:
    async def stay_away() -> None:
        await asyncio.to_thread(mortal.kill)
        await asyncio.sleep(ABSENCE_S)
        await asyncio.to_thread(mortal.start)

    async def scene(q: Connection) -> None:
        topic = name()
        await q.topics.create(topic, partitions=1)
        consumer = q.consume(topic, group="g")
        await q.publish(topic, "before")
        await (await anext(consumer)).ack()
        absence = asyncio.ensure_future(stay_away())
        await asyncio.sleep(0.1)
        sent = [asyncio.ensure_future(q.publish(topic, f"{number}")) for number in range(20)]
        await asyncio.gather(*sent)
        await absence
        found = [await anext(consumer) for _ in range(20)]
        assert sorted(int(message.text) for message in found) == list(range(20))

    play(mortal, scene)
    warnings = [record.getMessage() for record in caplog.records]
    assert sum("cannot connect" in words for words in warnings) == 1, warnings


def test_a_batch_that_is_sent_again_while_the_first_is_still_on_its_way_is_taken_once(
    mortal: ServerProcess, name: Name
) -> None:
    async def run() -> None:
        retries = Retries(attempts_max=1000, total_s=60.0, first_wait_s=0.01, wait_s_max=0.1)
        async with (
            asyncio.timeout(SECONDS_MAX),
            goqueue.connect(mortal.url, retries=retries) as patient,
            goqueue.connect(mortal.url, retries=retries, timeout_s=0.2) as hasty,
        ):
            topic = name()
            await patient.topics.create(topic, partitions=1)
            async with hasty.producer(ProducerConfig(linger_s=0.0, messages_max=5)) as producer:
                await (await producer.send(topic, "0"))
                for number in range(1, 41):
                    await producer.send(topic, f"{number}")
                    if number % 10 == 0:
                        # Requests arrive and wait, until the client gives them up and sends more.
                        mortal.signal(signal.SIGSTOP)
                        await asyncio.sleep(0.7)
                        mortal.signal(signal.SIGCONT)
            found = [int(message.text) async for message in messages(patient, topic)]
            assert found == list(range(41))

    asyncio.run(run())
