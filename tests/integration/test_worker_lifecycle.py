"""What stands around the handlers of a worker: middleware, hooks, its start and its end."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from goqueue import Retry, Worker
from goqueue.client import TopicNotFound
from goqueue.client.connection import Connection
from goqueue.client.message import Message
from goqueue.client.sync import SyncConnection
from tests.integration.sdk_scenes import Name, play, texts
from tests.integration.server_process import ServerProcess
from tests.integration.worker_scenes import (
    GROUP,
    JOBS,
    Job,
    assert_all_done,
    offer,
)

# Around handlers


def test_middleware_stands_around_every_call_and_may_swallow_failures(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, said = name(), list[str]()
        await offer(q, topic, 2, partitions=1)
        worker = Worker(GROUP, concurrency=1)

        @worker.middleware
        async def outer(message: Message, call_next: Callable[[], Awaitable[None]]) -> None:
            said.append(f"outer {message.offset}")
            try:
                await call_next()
            except ValueError:
                said.append("swallowed")

        @worker.middleware
        async def inner(_message: Message, call_next: Callable[[], Awaitable[None]]) -> None:
            said.append("inner")
            await call_next()
            said.append("inner again")

        @worker.handler(topic)
        def work(job: Job) -> None:
            said.append(f"job {job.id}")
            if job.id == 1:
                raise ValueError("one")

        await worker.serve(q, until_idle=True)
        first = ["outer 0", "inner", "job 0", "inner again"]
        assert said == [*first, "outer 1", "inner", "job 1", "swallowed"]
        await assert_all_done(q, topic)

    play(node, scene)


def test_hooks_run_before_the_first_and_after_the_last_message(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, said = name(), list[str]()
        worker = Worker(GROUP)

        @worker.on_startup
        async def create(given: Connection) -> None:
            assert given is q
            await offer(q, topic, 1)
            said.append("created")

        @worker.on_startup
        def warm_up() -> None:
            said.append("warm")

        @worker.handler(topic)
        async def work(_job: Job) -> None:
            said.append("job")

        @worker.on_shutdown
        async def close() -> None:
            said.append("closed")

        @worker.on_shutdown
        def flush() -> None:
            said.append("flushed")

        await worker.serve(q, until_idle=True)
        assert said == ["created", "warm", "job", "flushed", "closed"]

    play(node, scene)


def test_a_start_that_fails_leases_nothing_and_still_shuts_down(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, said = name(), list[str]()
        await offer(q, topic, 1)
        worker = Worker(name())

        @worker.on_startup
        def fail() -> None:
            raise OSError("no database")

        @worker.on_shutdown
        def close() -> None:
            said.append("closed")

        @worker.handler(topic)
        async def work(_job: Job) -> None:
            said.append("job")

        with pytest.raises(OSError, match="no database"):
            await worker.serve(q)
        assert said == ["closed"]
        assert worker.group not in {each.group_id for each in await q.groups.list()}

    play(node, scene)


def test_a_topic_that_does_not_exist_is_reported_at_the_start(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        worker = Worker(GROUP)

        @worker.handler(name())
        async def work(job: Job) -> None: ...

        with pytest.raises(TopicNotFound):
            await worker.serve(q)

    play(node, scene)


def test_handlers_publish_by_the_connection_of_their_worker(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        first, second, third = name(), name(), name()
        await offer(q, first, 5)
        await offer(q, second, 0)
        await offer(q, third, 0)
        worker = Worker(GROUP)

        @worker.handler(first)
        async def forward(job: Job, given: Connection) -> None:
            await given.publish(second, Job(job.id + 10))

        @worker.handler(second)
        def forward_from_a_thread(job: Job, given: SyncConnection) -> None:
            given.publish(third, f"{job.id + 10}")

        await worker.serve(q, until_idle=True)
        assert await texts(q, third) == ["20", "21", "22", "23", "24"]

    play(node, scene)


# The end


def test_what_was_not_begun_is_released_and_what_was_is_finished(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, partitions=1)
        worker = Worker(GROUP, concurrency=4)

        @worker.handler(topic)
        async def work(job: Job) -> None:
            if done.total() == 40:
                worker.stop()
            await asyncio.sleep(0.001)
            done[job.id] += 1

        await worker.serve(q)
        assert 40 <= done.total() <= 44
        left = Worker(GROUP)
        counts = Counter[int]()

        @left.handler(topic)
        async def finish(job: Job, message: Message) -> None:
            done[job.id] += 1
            counts[message.delivery_count] += 1

        await left.serve(q, until_idle=True)
        assert done == Counter(range(JOBS))
        assert list(counts) == [1]

    play(node, scene)


def test_what_a_hurried_stop_releases_does_not_come_back_to_a_poll_that_was_given_up(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic = name()
        await offer(q, topic, 1)
        for _ in range(10):
            began = asyncio.Event()
            worker = Worker(GROUP, shutdown_s=0)

            @worker.handler(topic)
            async def hang(_job: Job, began: asyncio.Event = began) -> None:
                began.set()
                await asyncio.Event().wait()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(worker.serve(q))
                await began.wait()
                # The next poll is given up without a grace when it has waited for a while.
                await asyncio.sleep(0.15)
                worker.stop()
        (message,) = await q.receive(topic, group=GROUP, wait=10)
        assert message.delivery_count == 1

    play(node, scene)


@pytest.mark.parametrize("end", ["limit", "second stop", "cancel"])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_handler_that_does_not_finish_in_time_is_interrupted_and_its_delivery_not_counted(
    node: ServerProcess, name: Name, kind: str, end: str
) -> None:
    may_end = threading.Event()

    async def scene(q: Connection) -> None:
        topic, began = name(), asyncio.Event()
        loop = asyncio.get_running_loop()
        await offer(q, topic, 1)
        worker = Worker(GROUP, shutdown_s=0.05 if end == "limit" else 60)

        async def hang(_job: Job) -> None:
            began.set()
            await asyncio.Event().wait()

        def hang_in_a_thread(_job: Job) -> None:
            loop.call_soon_threadsafe(began.set)
            may_end.wait()

        worker.handler(topic)(hang if kind == "async" else hang_in_a_thread)
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(worker.serve(q))
            await began.wait()
            if end == "cancel":
                serving.cancel()
            else:
                worker.stop()
            if end == "second stop":
                worker.stop()
            await asyncio.wait({serving})
        async with q.consume(topic, group=GROUP, mode="shared") as consumer:
            message = await anext(consumer)
            assert message.delivery_count == 1
            await message.ack()

    try:
        play(node, scene)
    finally:
        may_end.set()


class Deadline(BaseException):
    """As libraries have them that want no `except Exception` to catch theirs."""


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (SystemExit(3), "RuntimeError: the handler called sys.exit(3)"),
        (Deadline("5 s"), f"RuntimeError: the handler raised {__name__}.Deadline: 5 s"),
    ],
    ids=["exit", "deadline"],
)
def test_a_handler_that_calls_exit_has_failed_and_ends_nothing_else(
    node: ServerProcess, name: Name, kind: str, raised: BaseException, reason: str
) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, JOBS)
        worker = Worker(GROUP)

        def leave(job: Job) -> None:
            if job.id == 0:
                raise raised
            done[job.id] += 1

        async def leave_soon(job: Job) -> None:
            leave(job)

        worker.handler(topic, retry=Retry(attempts=1))(leave_soon if kind == "async" else leave)
        await worker.serve(q, until_idle=True)
        assert done == Counter(range(1, JOBS))
        (dead,) = await q.dead_letters.list(topic)
        assert dead.reason == reason

    play(node, scene)


def test_a_handler_that_is_not_to_be_ended_keeps_no_other_message(
    node: ServerProcess, name: Name
) -> None:
    async def scene(q: Connection) -> None:
        topic, may_end, began = name(), asyncio.Event(), asyncio.Event()
        await offer(q, topic, 1)
        worker = Worker(GROUP, shutdown_s=0.01)

        @worker.handler(topic)
        async def go_on(_job: Job) -> None:
            began.set()
            while not may_end.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await may_end.wait()

        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(worker.serve(q))
            await began.wait()
            worker.stop()
            # The worker leaves the group: others get the message although the handler goes on.
            async with q.consume(topic, group=GROUP, mode="shared") as consumer:
                await (await anext(consumer)).ack()
            assert not serving.done()
            may_end.set()
        await assert_all_done(q, topic)

    play(node, scene)


def test_a_worker_may_serve_again_after_it_was_stopped(node: ServerProcess, name: Name) -> None:
    async def scene(q: Connection) -> None:
        topic, done = name(), Counter[int]()
        await offer(q, topic, 3)
        worker = Worker(GROUP)

        @worker.handler(topic)
        async def work(job: Job) -> None:
            done[job.id] += 1

        await worker.serve(q, until_idle=True)
        await q.publish(topic, Job(3))
        await worker.serve(q, until_idle=True)
        assert done == Counter(range(4))

    play(node, scene)
