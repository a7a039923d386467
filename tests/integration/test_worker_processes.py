"""Workers in processes of their own: killed, stopped, paused, and over restarts of their node.

A worker that is stopped has done each of its jobs once. One that is killed does the jobs again that
it had in hand. A node that restarts makes nobody do anything twice, as long as the process lives
that has done it.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import goqueue
from goqueue import Retry, Worker
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from tests.integration.sdk_scenes import Name, play, texts
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import GROUP, JOBS, Job, assert_all_done, offer

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.integration.worker_app:worker"
COMMAND = [sys.executable, "-m", "goqueue.cli", "worker", APP, "--log-level", "warning"]

Process = subprocess.Popen[str]


@contextlib.contextmanager
def working(
    node: ServerProcess, topic: str, kind: str = "async", *flags: str, **settings: object
) -> Iterator[Process]:
    """A worker at work as long as the block."""
    told = {"topic": topic, "kind": kind, "job_s": 0.02, **settings}
    environment = {f"WORKER_{name.upper()}": str(value) for name, value in told.items()}
    with subprocess.Popen(
        [*COMMAND, *flags],
        cwd=ROOT,
        env={**os.environ, **environment, "GOQUEUE_SERVER": node.url},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: Process, word: str, count: int) -> list[list[str]]:
    """What the worker says, up to the line that begins with this word for so many times."""
    assert process.stdout is not None
    said: list[list[str]] = []
    while sum(line[0] == word for line in said) < count:
        line = process.stdout.readline().split()
        assert line, f"the worker ended after {said[-3:]}"
        said.append(line)
    return said


def rest_of(process: Process) -> list[list[str]]:
    return [line.split() for line in process.stdout or ()]


def numbers(said: list[list[str]], word: str) -> Counter[int]:
    return Counter(int(line[1]) for line in said if line[0] == word)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_workers_that_are_stopped_and_replaced_do_each_job_once(
    node: ServerProcess, name: Name, kind: str, number: signal.Signals
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic))
    said: list[list[str]] = []
    for _ in range(2):
        with working(node, topic, kind, concurrency=3) as process:
            said += read_until(process, "begin", 25)
            process.send_signal(number)
            said += rest_of(process)
            assert process.wait() == 0
    with working(node, topic, kind) as process:
        said += read_until(process, "done", JOBS - numbers(said, "done").total())
        process.terminate()
        said += rest_of(process)
    assert numbers(said, "begin") == numbers(said, "done") == Counter(range(JOBS))
    assert {line[2] for line in said if line[0] == "begin"} == {"1"}
    play(node, lambda q: assert_all_done(q, topic))


def test_a_killed_worker_leaves_only_its_jobs_in_hand_to_be_done_again(
    node: ServerProcess, name: Name
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, visibility_timeout="1s"))
    with working(node, topic, concurrency=4, job_s=0.05) as process:
        before = read_until(process, "begin", 30)
        process.kill()
        before += rest_of(process)
    with working(node, topic, job_s=0.05) as process:
        left = JOBS - len(numbers(before, "done"))
        after = read_until(process, "done", left)
        process.terminate()
        after += rest_of(process)
    done = numbers(before, "done") + numbers(after, "done")
    assert set(done) == set(range(JOBS))
    # The last acks of the killed worker were not durable: those jobs are done again, too.
    assert max(done.values()) <= 2
    assert sum(count - 1 for count in done.values()) <= 4 + 4
    play(node, lambda q: assert_all_done(q, topic))


def test_a_handler_that_hangs_is_given_up_when_its_worker_is_told_twice(
    node: ServerProcess, name: Name
) -> None:
    topic = name()
    play(node, lambda q: offer(q, topic, 1))
    for kind in ("async", "sync"):
        with working(node, topic, kind, job_s=1000) as process:
            assert read_until(process, "begin", 1)[0][2] == "1"
            process.terminate()
            process.terminate()
            # Signals that come together may become one.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.terminate()
            assert process.wait(60) == 0


def test_copies_are_exactly_once_although_workers_and_node_are_killed(
    mortal: ServerProcess, name: Name
) -> None:
    topic, target = name(), name()

    async def prepare(q: Connection) -> None:
        await offer(q, topic, visibility_timeout="1s", max_deliveries=0)
        await offer(q, target, 0)

    async def judge(q: Connection) -> None:
        assert await texts(q, target) == [f"{number:03}" for number in range(JOBS)]

    play(mortal, prepare)
    for _ in range(3):
        with working(mortal, topic, "transaction", target=target) as process:
            read_until(process, "begin", 12)
    with working(mortal, topic, "transaction", "--until-idle", target=target) as process:
        read_until(process, "begin", 5)
        mortal.restart()
        rest_of(process)
        assert process.wait() == 0
    play(mortal, judge)


# The node under a running worker


@pytest.mark.parametrize("concurrency", [1, 10])
def test_a_node_that_restarts_makes_no_handler_run_twice(
    mortal: ServerProcess, name: Name, concurrency: int
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, visibility_timeout="2s")
        worker = Worker(GROUP, concurrency=concurrency)

        @worker.handler(topic)
        async def work(job: Job) -> None:
            done[job.id] += 1
            if done.total() in {20, 60}:
                await asyncio.to_thread(mortal.restart)
            await asyncio.sleep(0.01)

        await worker.serve(q, until_idle=True)
        assert done == Counter(range(JOBS))
        await assert_all_done(q, topic)

    play(mortal, scene)


def test_a_handler_that_outlives_its_lease_while_the_node_is_away_runs_once(
    mortal: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, deliveries = name(), list[int]()
        await offer(q, topic, 1, visibility_timeout="300ms")
        worker = Worker(GROUP)

        @worker.handler(topic)
        async def work(message: Message) -> None:
            deliveries.append(message.delivery_count)
            await asyncio.to_thread(mortal.kill)
            await asyncio.sleep(0.5)  # the node is away for longer than the lease
            await asyncio.to_thread(mortal.start)
            # Delivered again: this very call is to settle that delivery, too.
            while True:
                lag = await q.groups.lag(GROUP)
                if any(each.in_flight for each in lag.partitions):
                    break
                await asyncio.sleep(0.01)

        await worker.serve(q, until_idle=True)
        assert deliveries == [1]
        await assert_all_done(q, topic)

    play(mortal, scene)


def test_a_failure_while_the_node_is_away_is_retried_when_it_is_back(
    mortal: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, deliveries = name(), list[int]()
        await offer(q, topic, 1, visibility_timeout="1s")
        worker = Worker(GROUP)

        @worker.handler(topic, retry=Retry(first_wait_s=0.01))
        async def work(message: Message) -> None:
            deliveries.append(message.delivery_count)
            if len(deliveries) == 1:
                await asyncio.to_thread(mortal.restart)
                raise ConnectionError("the node went away")

        await worker.serve(q, until_idle=True)
        assert len(deliveries) == 2
        await assert_all_done(q, topic)

    play(mortal, scene)


def test_a_worker_ends_in_time_although_the_node_is_away(mortal: ServerProcess, name: Name) -> None:
    topic = name()

    async def run() -> None:
        # Less than a request is tried for: neither the worker nor its connection waits for that.
        async with asyncio.timeout(20), goqueue.connect(mortal.url) as q:
            await offer(q, topic, 1)
            worker = Worker(GROUP, shutdown_s=1)

            @worker.handler(topic)
            async def work(_job: Job) -> None:
                await asyncio.to_thread(mortal.kill)
                worker.stop()

            await worker.serve(q)

    asyncio.run(run())
