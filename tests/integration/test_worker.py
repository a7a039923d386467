"""Workers against a node: what becomes of messages whose handlers return, fail, hang or are slow.

Times are scaled: where a lease of 30 s meets jobs of a second, one of 2 s meets jobs of 50 ms.
"""

import asyncio
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable

import pytest

import goqueue
from goqueue import Reject, Retry, RetryLater, Worker
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from tests.integration.sdk_scenes import Name, play
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import (
    GROUP,
    JOBS,
    Job,
    assert_all_done,
    letters,
    offer,
    reasons,
)

JOB_S = 0.05
AT_ONCE = Retry(first_wait_s=0, wait_s_max=0)


# A hundred jobs


@pytest.mark.parametrize("concurrency", [None, 1])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_hundred_slow_jobs_are_each_handled_once(
    node: ServerProcess, name: Name, kind: str, concurrency: int | None
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, visibility_timeout="2s")
        worker = Worker(GROUP)

        async def work(job: Job) -> None:
            done[job.id] += 1
            await asyncio.sleep(JOB_S)

        def work_in_a_thread(job: Job) -> None:
            done[job.id] += 1
            time.sleep(JOB_S)  # the work itself: it blocks its thread

        declare = worker.handler(topic, concurrency=concurrency)
        declare(work if kind == "async" else work_in_a_thread)
        await worker.serve(q, until_idle=True)
        assert done == Counter(range(JOBS))
        await assert_all_done(q, topic)

    play(node, scene)


def test_as_many_handlers_run_at_once_as_asked_for(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 7)
        worker = Worker(GROUP, concurrency=7)
        meeting = asyncio.Barrier(7)

        @worker.handler(topic)
        async def meet(_job: Job) -> None:
            await meeting.wait()

        await worker.serve(q, until_idle=True)
        await assert_all_done(q, topic)

    play(node, scene)


def test_as_many_threads_run_at_once_as_asked_for(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 5)
        worker = Worker(GROUP, concurrency=5)
        meeting = threading.Barrier(5)

        @worker.handler(topic)
        def meet(_job: Job) -> None:
            meeting.wait()

        await worker.serve(q, until_idle=True)
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_handler_that_takes_longer_than_its_lease_runs_once(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, 3, visibility_timeout="500ms")
        worker = Worker(GROUP)

        @worker.handler(topic)
        def work(job: Job) -> None:
            done[job.id] += 1
            time.sleep(1.5)  # the work itself, longer than three leases

        await worker.serve(q, until_idle=True)
        assert done == Counter(range(3))
        await assert_all_done(q, topic)

    play(node, scene)


# Failures


def test_a_failure_is_retried_and_then_a_dead_letter_with_its_last_line_as_reason(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, deliveries = name(), list[int]()
        await offer(q, topic, 1, max_deliveries=10)
        worker = Worker(GROUP)

        @worker.handler(topic, retry=Retry(attempts=4, first_wait_s=0.01))
        async def fail(job: Job, message: Message) -> None:
            deliveries.append(message.delivery_count)
            raise LookupError(f"no order {job.id}")

        await worker.serve(q, until_idle=True)
        assert deliveries == [1, 2, 3, 4]
        assert await letters(q, topic) == [("LookupError: no order 0", 4)]

    play(node, scene)


def test_the_topic_bounds_the_attempts_of_a_handler_and_its_worker_says_so(
    node: ServerProcess, name: Name, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(q: Connection) -> None:
        topic, deliveries = name(), list[int]()
        await offer(q, topic, 1, max_deliveries=2)
        worker = Worker(GROUP)

        @worker.handler(topic, retry=Retry(attempts=5, first_wait_s=0, wait_s_max=0))
        def fail(message: Message) -> None:
            deliveries.append(message.delivery_count)
            raise LookupError("never")

        await worker.serve(q, until_idle=True)
        assert deliveries == [1, 2]
        assert await reasons(q, topic) == ["LookupError: never"]

    play(node, scene)
    assert "5 attempts are not possible" in caplog.text


def test_what_is_not_to_be_retried_is_a_dead_letter_at_once(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, calls = name(), Counter[int]()
        await offer(q, topic, 4)
        worker = Worker(GROUP)

        @worker.handler(topic, retry=Retry(on=OSError, first_wait_s=0.01))
        async def fail(job: Job) -> None:
            calls[job.id] += 1
            if calls[job.id] == 1 and job.id == 0:
                raise ConnectionResetError("try again")
            if job.id == 1:
                raise ValueError("try nothing")
            if job.id == 2:
                raise Reject("no such customer")
            if job.id == 3 and calls[job.id] == 1:
                raise RetryLater("not ready", delay_s=0)

        await worker.serve(q, until_idle=True)
        assert calls == {0: 2, 1: 1, 2: 1, 3: 2}
        assert await reasons(q, topic) == ["ValueError: try nothing", "no such customer"]

    play(node, scene)


def test_a_payload_that_cannot_be_decoded_is_a_dead_letter_and_stops_nothing(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, 0, partitions=1)
        for value in (Job(1), b"\xff\xfe", "{", {"id": "one"}, None, b"", Job(2)):
            await q.publish(topic, value)
        worker = Worker(GROUP)

        @worker.handler(topic)
        async def work(job: Job) -> None:
            done[job.id] += 1

        await worker.serve(q, until_idle=True)
        assert done == {1: 1, 2: 1}
        found = await reasons(q, topic)
        assert len(found) == 5
        assert all(reason.startswith("the payload is invalid: ") for reason in found)
        assert {deliveries for _, deliveries in await letters(q, topic)} == {1}

    play(node, scene)


def test_dead_letters_that_fail_once_more_are_not_lost(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, calls = name(), Counter[str]()
        await offer(q, topic, 1)
        failing = Worker(GROUP)

        @failing.handler(topic)
        async def reject(_job: Job) -> None:
            raise Reject("first")

        await failing.serve(q, until_idle=True)
        mending = Worker(f"{GROUP}-mending")

        @mending.handler(f"{topic}.dlq", retry=AT_ONCE)
        async def mend(_message: Message) -> None:
            calls["mend"] += 1
            if calls["mend"] < 3:
                raise Reject("there are no dead letters of dead letters")

        await mending.serve(q, until_idle=True)
        assert calls["mend"] == 3

    play(node, scene)


def test_a_handler_that_settles_its_message_is_left_to_it(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, deliveries = name(), list[int]()
        await offer(q, topic, 1)
        worker = Worker(GROUP)

        @worker.handler(topic)
        async def settle(message: Message) -> None:
            deliveries.append(message.delivery_count)
            if message.delivery_count == 1:
                await message.nack(delay_s=0)
            else:
                await message.ack()

        await worker.serve(q, until_idle=True)
        assert deliveries == [1, 2]
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_handler_that_is_cancelled_by_what_it_awaits_has_failed(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, calls = name(), Counter[int]()
        await offer(q, topic, 1)
        worker = Worker(GROUP)

        @worker.handler(topic, retry=Retry(first_wait_s=0, wait_s_max=0, on=OSError))
        async def work(job: Job) -> None:
            calls[job.id] += 1
            if calls[job.id] == 1:
                gone = asyncio.get_running_loop().create_future()
                gone.cancel()
                await gone

        await worker.serve(q, until_idle=True)
        assert calls == {0: 2}
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_plain_function_that_returns_a_coroutine_has_done_nothing_and_failed(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 1)
        worker = Worker(GROUP)

        async def work(_job: Job) -> None: ...

        @worker.handler(topic, retry=Retry(attempts=1))
        def forget_to_await(job: Job) -> object:
            return work(job)

        await worker.serve(q, until_idle=True)
        (reason,) = await reasons(q, topic)
        assert reason.endswith("returned something to await: use async def")

    play(node, scene)


# Handlers that hang


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_handler_that_hangs_has_failed_and_others_go_on(
    node: ServerProcess, name: Name, kind: str
) -> None:
    may_end = threading.Event()

    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, 5)
        worker = Worker(GROUP, concurrency=2)

        async def hang(job: Job) -> None:
            done[job.id] += 1
            if job.id == 2:
                await asyncio.Event().wait()

        def hang_in_a_thread(job: Job) -> None:
            done[job.id] += 1
            if job.id == 2:
                may_end.wait()

        declare = worker.handler(topic, timeout_s=0.2, retry=Retry(attempts=2, first_wait_s=0.01))
        declare(hang if kind == "async" else hang_in_a_thread)
        await worker.serve(q, until_idle=True)
        assert done == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1}
        assert await reasons(q, topic) == ["TimeoutError: the handler took longer than 0.2 s"]

    try:
        play(node, scene)
    finally:
        may_end.set()


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_middleware_that_hangs_has_failed_also_around_a_thread_that_was_used_before(
    node: ServerProcess, name: Name, kind: str
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, 3, partitions=1)
        worker = Worker(GROUP, concurrency=1)

        @worker.middleware
        async def hang(message: Message, call_next: Callable[[], Awaitable[None]]) -> None:
            if message.offset == 1:
                await asyncio.Event().wait()
            await call_next()

        async def work(job: Job) -> None:
            done[job.id] += 1

        def work_in_a_thread(job: Job) -> None:
            done[job.id] += 1

        declare = worker.handler(topic, timeout_s=0.2, retry=Retry(attempts=1))
        declare(work if kind == "async" else work_in_a_thread)
        await worker.serve(q, until_idle=True)
        assert done == {0: 1, 2: 1}
        assert await reasons(q, topic) == ["TimeoutError: the handler took longer than 0.2 s"]

    play(node, scene)


def test_a_worker_whose_threads_are_all_stuck_ends_with_an_error(
    node: ServerProcess, name: Name
) -> None:
    may_end = threading.Event()

    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 10)
        worker = Worker(GROUP, concurrency=2, shutdown_s=1)

        @worker.handler(topic, timeout_s=0.1)
        def hang(_job: Job) -> None:
            may_end.wait()

        with pytest.raises(goqueue.GoQueueError) as stuck:
            await worker.serve(q)
        assert stuck.value.code == "handler_stuck"

    try:
        play(node, scene)
    finally:
        may_end.set()


# Order


def test_messages_of_a_key_are_handled_in_order_also_over_retries(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, finished, at_work = name(), defaultdict[bytes, list[int]](list), Counter[bytes]()
        failed: set[int] = set()
        await q.topics.create(topic, partitions=3)
        async with q.producer() as producer:
            for number in range(JOBS):
                await producer.send(topic, Job(number), key=f"customer-{number % 7}")
        worker = Worker(GROUP, ordered=True)

        @worker.handler(topic, retry=Retry(first_wait_s=0.02))
        async def work(job: Job, message: Message) -> None:
            at_work[message.key] += 1
            assert at_work[message.key] == 1
            await asyncio.sleep(0.001)
            at_work[message.key] -= 1
            if job.id % 10 == 3 and job.id not in failed:
                failed.add(job.id)
                raise ConnectionError("once")
            finished[message.key].append(job.id)

        await worker.serve(q, until_idle=True)
        assert len(failed) == 10
        assert sum(map(len, finished.values())) == JOBS
        assert all(numbers == sorted(numbers) for numbers in finished.values())
        await assert_all_done(q, topic)

    play(node, scene)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_log_of_a_failure_shows_the_handler_and_not_the_worker(
    node: ServerProcess, name: Name, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, count=1)
        worker = Worker(GROUP)

        async def fail(job: Job) -> None:
            raise LookupError(f"no rule for {job.id}")

        def fail_in_a_thread(job: Job) -> None:
            raise LookupError(f"no rule for {job.id}")

        declare = worker.handler(topic, retry=Retry(attempts=1))
        declare(fail if kind == "async" else fail_in_a_thread)
        await worker.serve(q, until_idle=True)

    play(node, scene)
    (told,) = [each for each in caplog.records if "to the dead letters" in each.getMessage()]
    assert told.exc_info is not None
    frames = traceback.extract_tb(told.exc_info[2])
    assert [each.name for each in frames] == ["fail" if kind == "async" else "fail_in_a_thread"]
