"""A hundred jobs of a second each, with every setting as it comes: each is done once, none dies.

The same with shorter times, which every run affords, is in `test_worker.py` and
`test_client_leases.py`.
"""

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import goqueue
from goqueue import Worker
from goqueue.client.connection import Connection
from tests.integration.sdk_scenes import Name
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import JOBS, Job, offer

pytestmark = pytest.mark.long

JOB_S = 1.0


async def _check_done(q: Connection, topic: str) -> None:
    """The group, which has the name of the topic, is at its end, and nothing is a dead letter."""
    assert [each.lag for each in (await q.groups.lag(topic)).partitions] == [0, 0]
    assert await q.dead_letters.list(topic) == ()


def _consume(url: str, topic: str) -> Counter[int]:
    """What one program does that iterates over its messages."""
    done = Counter[int]()

    async def program() -> None:
        async with goqueue.connect(url) as q:
            await offer(q, topic)
            async with q.consume(topic, group=topic) as consumer:
                async for message in consumer:
                    done[message.json(Job).id] += 1
                    await asyncio.sleep(JOB_S)
                    await message.ack()
                    if done.total() >= JOBS:
                        break
            await _check_done(q, topic)

    asyncio.run(program())
    return done


def _consume_in_threads(url: str, topic: str) -> Counter[int]:
    done = Counter[int]()

    async def begin() -> None:
        async with goqueue.connect(url) as q:
            await offer(q, topic)

    async def end() -> None:
        async with goqueue.connect(url) as q:
            await _check_done(q, topic)

    asyncio.run(begin())
    with goqueue.connect_sync(url) as q, q.consume(topic, group=topic) as consumer:
        for message in consumer:
            done[message.json(Job).id] += 1
            time.sleep(JOB_S)  # the work itself: it blocks its thread
            message.ack()
            if done.total() >= JOBS:
                break
    asyncio.run(end())
    return done


def _work(url: str, topic: str, *, is_async: bool) -> Counter[int]:
    """What one worker does."""
    done = Counter[int]()

    async def work(job: Job) -> None:
        done[job.id] += 1
        await asyncio.sleep(JOB_S)

    def work_in_a_thread(job: Job) -> None:
        done[job.id] += 1
        time.sleep(JOB_S)  # the work itself: it blocks its thread

    async def program() -> None:
        async with goqueue.connect(url) as q:
            await offer(q, topic)
            worker = Worker(topic)
            worker.handler(topic)(work if is_async else work_in_a_thread)
            await worker.serve(q, until_idle=True)
            await _check_done(q, topic)

    asyncio.run(program())
    return done


def test_a_hundred_jobs_of_a_second_are_each_handled_once_with_all_defaults(
    node: ServerProcess, name: Name
) -> None:
    # Side by side, as they only wait; each is a program of its own to the node.
    with ThreadPoolExecutor(4) as programs:
        running = [
            programs.submit(_consume, node.url, name()),
            programs.submit(_consume_in_threads, node.url, name()),
            programs.submit(_work, node.url, name(), is_async=True),
            programs.submit(_work, node.url, name(), is_async=False),
        ]
        for each in running:
            assert each.result() == Counter(range(JOBS))
