"""Leases in the SDK against a node: healthy work is done once, however slow it is.

Times are scaled: where a lease of 30 s meets jobs of a second, one of 2 s meets jobs of 50 ms.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue.client.connection import Connection
from tests.integration.cutting_proxy import Proxy
from tests.integration.sdk_scenes import Name, play, play_cut
from tests.integration.server_process import ServerProcess

WORKER = Path(__file__).parent / "job_worker.py"
JOBS = 100
JOB_S = 0.05
GROUP = "workers"

Worker = subprocess.Popen[str]


async def offer(q: Connection, topic: str, count: int = JOBS, lease: str = "2s") -> None:
    """A topic with jobs."""
    await q.topics.create(topic, partitions=1, visibility_timeout=lease)
    async with q.producer() as producer:
        for number in range(count):
            await producer.send(topic, f"{number}")


async def finish(q: Connection, topic: str, count: int) -> Counter[int]:
    """Do what is left, at once; how many of it came as which delivery."""
    found = Counter[int]()
    async with q.consume(topic, group=GROUP) as consumer:
        while found.total() < count:
            message = await anext(consumer)
            found[message.delivery_count] += 1
            await message.ack()
    return found


async def assert_all_done(q: Connection, topic: str) -> None:
    lags = [each.lag for each in (await q.groups.lag(GROUP)).partitions if each.topic == topic]
    assert lags == [0]
    assert await q.dead_letters.list(topic) == ()


@contextlib.contextmanager
def worker(face: str, node: ServerProcess, topic: str, job_s: float) -> Iterator[Worker]:
    command = [sys.executable, str(WORKER), face, node.url, topic, GROUP, f"{job_s}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: Worker, word: str, count: int) -> list[list[str]]:
    """What the worker says, up to the line that begins with this word for so many times."""
    assert process.stdout is not None
    said: list[list[str]] = []
    while sum(line[0] == word for line in said) < count:
        line = process.stdout.readline().split()
        assert line, f"the worker ended after {said[-3:]}"
        said.append(line)
    return said


def test_slow_jobs_of_one_worker_are_each_done_once(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[str]()
        await offer(q, topic)
        async with q.consume(topic, group=GROUP) as consumer:
            while done.total() < JOBS:
                message = await anext(consumer)
                done[message.text] += 1
                await asyncio.sleep(JOB_S)
                await message.ack()
        assert len(done) == JOBS
        await assert_all_done(q, topic)

    play(node, scene)


def test_slow_jobs_of_a_thread_are_each_done_once(node: ServerProcess, name: Name) -> None:
    topic, done = name(), Counter[str]()
    play(node, lambda q: offer(q, topic))
    with goqueue.connect_sync(node.url) as q, q.consume(topic, group=GROUP) as consumer:
        for message in consumer:
            done[message.text] += 1
            time.sleep(JOB_S)  # the work itself: it blocks its thread
            message.ack()
            if done.total() == JOBS:
                break
    assert len(done) == JOBS
    play(node, lambda q: assert_all_done(q, topic))


@pytest.mark.parametrize("jobs_at_once", [1, 5])
def test_a_job_that_takes_longer_than_its_lease_is_done_once(
    node: ServerProcess, name: Name, jobs_at_once: int
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[str]()
        await offer(q, topic, jobs_at_once, lease="1s")

        async def work() -> None:
            message = await anext(consumer)
            done[message.text] += 1
            await asyncio.sleep(2.5)
            await message.ack()

        async with q.consume(topic, group=GROUP) as consumer:
            await asyncio.gather(*(work() for _ in range(jobs_at_once)))
        assert done == Counter(f"{number}" for number in range(jobs_at_once))
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_message_that_is_dropped_without_being_settled_comes_again(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 1, lease="300ms")
        async with q.consume(topic, group=GROUP) as consumer:
            assert (await anext(consumer)).delivery_count == 1
            again = await anext(consumer)
            assert again.delivery_count == 2
            await again.ack()

    play(node, scene)


def test_what_was_leased_ahead_and_not_begun_is_given_back_by_close_and_not_counted(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic)
        released = (await q.reliability()).releases_total
        async with q.consume(topic, group=GROUP) as consumer:
            for _ in range(40):
                await (await anext(consumer)).ack()
        assert (await q.reliability()).releases_total > released
        assert await finish(q, topic, JOBS - 40) == {1: JOBS - 40}

    play(node, scene)


def test_a_thread_leases_no_more_than_its_prefetch(node: ServerProcess, name: Name) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic))
    with goqueue.connect_sync(node.url) as q, q.consume(topic, group=GROUP, prefetch=5) as consumer:
        for number, message in enumerate(consumer):
            (lag,) = [each for each in q.groups.lag(GROUP).partitions if each.topic == topic]
            assert lag.in_flight <= 5 + 1
            message.ack()
            if number == 50:
                break


@pytest.mark.parametrize("face", ["async", "sync"])
def test_a_worker_that_is_told_to_stop_finishes_its_job_and_gives_back_the_others(
    node: ServerProcess, name: Name, face: str
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic))
    with worker(face, node, topic, 0.02) as process:
        said = read_until(process, "begin", 20)
        process.send_signal(signal.SIGTERM)
        said += [line.split() for line in process.stdout or ()]
        assert process.wait() == 0
    done = sum(line[0] == "done" for line in said)
    assert done == sum(line[0] == "begin" for line in said) < JOBS

    async def scene(q: Connection) -> None:
        assert await finish(q, topic, JOBS - done) == {1: JOBS - done}
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_worker_that_was_paused_begins_no_message_whose_lease_has_ended(
    node: ServerProcess, name: Name
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, lease="1s"))
    with worker("async", node, topic, JOB_S) as process:
        # Paused within a job: between two of them a message may be in hand and not yet begun.
        said = read_until(process, "begin", 30)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.0)  # the pause itself, longer than any lease
        process.send_signal(signal.SIGCONT)
        # At most the one that it had begun comes again.
        said += read_until(process, "done", JOBS - 29)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    begun = [line for line in said if line[0] == "begin"]
    assert {line[3] for line in begun} == {"live"}
    assert len(begun) <= JOBS + 1
    play(node, lambda q: assert_all_done(q, topic))


def test_answers_that_get_lost_make_no_job_be_done_twice(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection, proxy: Proxy) -> None:
        topic, done = name(), Counter[str]()
        await offer(q, topic)
        cuts = iter(range(10_000))
        proxy.cuts_answer = lambda line: "/leases/" in line and next(cuts) % 4 == 3
        async with q.consume(topic, group=GROUP) as consumer:
            while done.total() < JOBS:
                message = await anext(consumer)
                done[message.text] += 1
                await asyncio.sleep(JOB_S)
                await message.ack()
        assert proxy.cut > 10
        assert len(done) == JOBS
        await assert_all_done(q, topic)

    play_cut(node, scene)


def test_jobs_outlive_a_node_that_restarts_in_their_midst(
    mortal: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, done, refused = name(), Counter[str](), 0
        await offer(q, topic)
        async with q.consume(topic, group=GROUP) as consumer:
            while len(done) < JOBS:
                message = await anext(consumer)
                done[message.text] += 1
                if done.total() in {20, 60}:
                    await asyncio.to_thread(mortal.restart)
                await asyncio.sleep(0.01)
                try:
                    await message.ack()
                except goqueue.GoQueueError:
                    refused += 1
        # Leases do not outlive the node: what was in hand when it died is done again.
        assert done.total() - JOBS <= refused <= 2
        assert await q.dead_letters.list(topic) == ()

    play(mortal, scene)
