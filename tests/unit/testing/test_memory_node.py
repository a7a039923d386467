"""The node for tests: real answers, and a time that only tests move."""

import asyncio
import datetime as dt
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor

import pytest

import goqueue
from goqueue.client.errors import Closed
from goqueue.sim import Process
from goqueue.testing import ManualClock, MemoryNode, NodeFailed, NotIdle

START = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)


async def handle(
    q: "goqueue.client.connection.Connection", seen: list[str], node: MemoryNode, *, group: str
) -> None:
    """A worker that fails each job once, and wants it again after five minutes."""
    async with q.consume("jobs", group=group) as consumer:
        async for message in consumer:
            after = node.clock.now() - START
            seen.append(f"{message.text} {message.delivery_count} after {after}")
            if message.delivery_count == 1:
                await message.nack(delay_s=300)
            else:
                await message.ack()


async def ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_delay_and_a_retry_come_at_their_time_and_not_before() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        async with MemoryNode(clock=ManualClock(START)) as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            await q.publish("jobs", "a", delay=600)
            worker = asyncio.create_task(handle(q, seen, node, group="g"))
            await node.clock.advance("9m59s")
            assert not seen
            await node.clock.advance(1)
            assert seen == ["a 1 after 0:10:00"]
            await node.clock.advance(dt.timedelta(seconds=299.999))
            assert len(seen) == 1
            await node.clock.advance("1ms")
            await ended(worker)
        return seen

    assert asyncio.run(run()) == ["a 1 after 0:10:00", "a 2 after 0:15:00"]


def test_a_message_in_hand_is_renewed_for_minutes_and_comes_again_when_it_is_dropped() -> None:
    async def run() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            await q.publish("jobs", "slow")
            async with q.consume("jobs", group="g") as consumer:
                message = await anext(consumer)
                # Far over the lease and the session: both are kept up as time passes.
                await node.clock.advance("10m")
                await message.ack()
            assert (await q.groups.lag("g")).total_lag == 0

            await q.publish("jobs", "lost")
            async with q.consume("jobs", group="g", max_handling_s=0) as consumer:
                message = await anext(consumer)
                await node.clock.advance("31s")
                with pytest.raises(goqueue.GoQueueError) as refused:
                    await message.ack()
                assert refused.value.code == "receipt_stale"
                again = await anext(consumer)
                assert (again.text, again.delivery_count) == ("lost", 2)
                await again.ack()

    asyncio.run(run())


def test_a_member_that_stops_is_gone_when_its_session_ends() -> None:
    async def run() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            tool = q.poll_consumer("jobs", group="g")
            await tool.poll(wait_s=0)
            assert len((await q.groups.describe("g")).members) == 1
            await node.clock.advance("29s")
            assert len((await q.groups.describe("g")).members) == 1
            await node.clock.advance("2s")
            assert not (await q.groups.describe("g")).members

    asyncio.run(run())


def test_threads_use_the_same_node_without_a_loop() -> None:
    seen: list[tuple[str, int]] = []
    with MemoryNode() as node, node.connect_sync() as q:
        q.topics.create("jobs", partitions=1)
        q.publish("jobs", "a", delay=60)
        with q.consume("jobs", group="g") as consumer, ThreadPoolExecutor(1) as pool:
            first = pool.submit(next, consumer)
            node.clock.advance_sync("59s")
            assert not first.done()
            node.clock.advance_sync("1s")
            message = first.result(timeout=10)
            seen.append((message.text, message.delivery_count))
            message.ack()
    assert seen == [("a", 1)]


def test_transactions_time_out_by_the_clock() -> None:
    async def run() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            transaction = q.transaction("billing-1", timeout_s=20)
            await transaction.__aenter__()
            await transaction.publish("jobs", "never seen")
            await node.clock.advance("21s")
            with pytest.raises(goqueue.GoQueueError) as aborted:
                await transaction.__aexit__(None, None, None)
            assert aborted.value.code in {"transaction_timeout", "transaction_aborted"}

    asyncio.run(run())


def test_a_stream_commits_at_its_interval_of_the_clock() -> None:
    async def run() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            await q.publish("jobs", "a")
            await q.publish("jobs", "b")
            async with q.subscribe("jobs", group="g", commit_interval_s=5) as consumer:
                await anext(consumer)
                await anext(consumer)
                assert (await q.groups.lag("g")).total_lag == 2
                await node.clock.advance("5s")
                assert (await q.groups.lag("g")).total_lag == 1

    asyncio.run(run())


def test_nodes_are_separate_and_may_share_a_clock() -> None:
    async def run() -> None:
        clock = ManualClock(START)
        async with (
            MemoryNode(clock=clock) as one,
            MemoryNode(clock=clock) as other,
            one.connect() as q,
            other.connect() as r,
        ):
            for each in (q, r):
                await each.topics.create("jobs", partitions=1)
            await q.publish("jobs", "from one", delay=10)
            await r.publish("jobs", "from other", delay=20)
            await clock.advance("10s")
            assert len(await r.delayed.list("jobs")) == 1
            assert not await q.delayed.list("jobs")
            await clock.advance_to(START + dt.timedelta(seconds=20))
            assert not await r.delayed.list("jobs")

    asyncio.run(run())


def test_a_restart_keeps_what_was_acknowledged() -> None:
    async def run() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)
            await q.publish("jobs", "kept")
            await q.publish("jobs", "later", delay=60)
            await node.restart()
            async with q.consume("jobs", group="g") as consumer:
                kept = await anext(consumer)
                await kept.ack()
                await node.clock.advance("1m")
                later = await anext(consumer)
                await later.ack()
            assert (kept.text, later.text) == ("kept", "later")

    asyncio.run(run())


def test_two_runs_of_one_program_are_the_same() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        async with MemoryNode(clock=ManualClock(START)) as node, node.connect() as q:
            await q.topics.create("jobs", partitions=3)
            for number in range(20):
                await q.publish("jobs", f"job {number}", key=str(number), delay=number * 7.5)
            workers = [
                asyncio.create_task(handle(q, seen, node, group=group)) for group in ("g", "h")
            ]
            await node.clock.advance("8m")
            for worker in workers:
                await ended(worker)
        return sorted(seen)

    first = asyncio.run(run())
    assert len(first) == 80
    assert asyncio.run(run()) == first


def test_the_loop_of_a_test_may_end_before_the_node() -> None:
    async def create(name: str) -> tuple[str, ...]:
        async with goqueue.connect(node.url) as q:
            await q.topics.create(name, partitions=1)
            return await q.topics.list()

    with MemoryNode() as node:
        asyncio.run(create("a"))
        assert asyncio.run(create("b")) == ("a", "b")
        node.clock.advance_sync("1h")


def test_a_stopped_node_refuses_at_once_and_leaves_no_thread() -> None:
    async def run() -> None:
        node = MemoryNode(name="gone")
        node.start()
        threads = [each for each in threading.enumerate() if "memory://gone" in each.name]
        assert len(threads) == 1
        async with node.connect() as q:
            await q.topics.list()
            await asyncio.to_thread(node.stop)
            with pytest.raises(Closed, match="memory://gone"):
                await q.topics.list()
        assert not threads[0].is_alive()
        with pytest.raises(Closed, match="no node named memory://gone"):
            goqueue.connect("memory://gone")

    asyncio.run(run())


def test_clients_that_are_left_over_are_named() -> None:
    async def run() -> None:
        async with MemoryNode() as node:
            q = await node.connect().__aenter__()
            await q.topics.create("jobs", partitions=1)
            left.append(asyncio.create_task(forever(q.consume("jobs", group="g"))))
            await node.clock.settle()

    async def forever(consumer: "goqueue.client.queue_consumer.QueueConsumer") -> None:
        await anext(consumer)

    left: list[asyncio.Task[None]] = []
    with pytest.warns(
        ResourceWarning, match=r"still waited for it \(1 CooperativeHeartbeat, 1 Poll\)"
    ):
        asyncio.run(run())


def test_a_program_that_never_rests_is_named_with_what_it_does() -> None:
    async def run() -> None:
        clock = ManualClock(idle_s_max=0.3)
        async with MemoryNode(clock=clock) as node, node.connect() as q:
            await q.topics.create("jobs", partitions=1)

            async def flood() -> None:
                while True:
                    await q.publish("jobs", "x")

            flooding = asyncio.create_task(flood())
            with pytest.raises(NotIdle, match=r"Last requests: .*Publish"):
                await clock.advance("1s")
            await ended(flooding)

    asyncio.run(run())


def test_a_loop_that_is_blocked_is_named_with_the_line_that_blocks_it() -> None:
    release = threading.Event()
    is_connected = threading.Event()

    async def block() -> None:
        async with node.connect() as q:
            await q.topics.list()
            is_connected.set()
            release.wait()  # the mistake that is to be found

    with MemoryNode(clock=ManualClock(idle_s_max=0.3)) as node, ThreadPoolExecutor(1) as pool:
        blocked = pool.submit(asyncio.run, block())
        is_connected.wait()
        try:
            with pytest.raises(NotIdle, match="blocked in wait"):
                node.clock.advance_sync("1s")
        finally:
            release.set()
        blocked.result(timeout=10)


def test_the_clock_is_awaited_where_a_loop_runs() -> None:
    async def run() -> None:
        with pytest.raises(RuntimeError, match=r"await clock\.advance"):
            ManualClock().advance_sync("1s")

    asyncio.run(run())


def test_the_clock_takes_durations_and_never_goes_back() -> None:
    clock = ManualClock(START)
    clock.advance_sync("1h30m")
    clock.advance_sync(0.5)
    assert clock.now() == START + dt.timedelta(hours=1, minutes=30, seconds=0.5)
    with pytest.raises(ValueError, match="has passed"):
        clock.advance_to_sync(START)
    with pytest.raises(ValueError, match="cannot be moved"):
        clock.advance_sync(-1)
    with pytest.raises(ValueError, match="must be a duration"):
        clock.advance_sync("soon")
    with pytest.raises(ValueError, match="time zone"):
        ManualClock(dt.datetime(2030, 1, 1))


def test_sleeps_end_in_order_each_at_its_own_time() -> None:
    async def run() -> list[float]:
        clock = ManualClock()
        woken: list[float] = []

        async def sleeper(delay_s: float) -> None:
            await clock.sleep(delay_s)
            woken.append(clock.time())
            await clock.sleep(delay_s)
            woken.append(clock.time())

        async with asyncio.TaskGroup() as tasks:
            for delay_s in (7, 3, 5):
                tasks.create_task(sleeper(delay_s))
            await clock.advance(60)
        return woken

    assert asyncio.run(run()) == [3, 5, 6, 7, 10, 14]


def test_only_one_task_moves_the_clock() -> None:
    async def run() -> None:
        clock = ManualClock()
        moves: list[Coroutine[object, object, None]] = [clock.advance(1), clock.advance(1)]
        outcomes = await asyncio.gather(*moves, return_exceptions=True)
        assert [type(each) for each in outcomes] == [type(None), RuntimeError]

    asyncio.run(run())


def test_a_node_that_fails_says_so_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("planted")

    node = MemoryNode()
    node.start()
    with node.connect_sync(retries=goqueue.Retries(attempts_max=1)) as q:
        with monkeypatch.context() as planted:
            planted.setattr(Process, "settle", fail)
            with pytest.raises(goqueue.GoQueueError) as refused:
                q.topics.create("jobs")
        assert refused.value.code == "internal_error"
        with pytest.raises(goqueue.GoQueueError):
            q.topics.list()
    with pytest.raises(NodeFailed, match="planted"):
        node.stop()
    assert "planted" in caplog.text
    assert node.stop() == ""


def test_a_name_is_that_of_one_node_at_a_time() -> None:
    with MemoryNode(name="orders"):
        second = MemoryNode(name="orders")
        with pytest.raises(ValueError, match="already runs"):
            second.start()
    with MemoryNode(name="orders") as again:
        assert "running" in repr(again)
    with pytest.raises(ValueError, match="no name"):
        MemoryNode(name="Orders/1")


def test_schedules_know_the_time_zones_of_the_machine() -> None:
    with MemoryNode() as node, node.connect_sync() as q:
        q.topics.create("reports")
        made = q.schedules.create(
            "report", "reports", "x", cron="0 9 * * *", time_zone="Europe/Vienna"
        )

    assert made.next_tick_at is not None


@pytest.mark.parametrize(
    "timeout", [0, 61, -1, float("nan"), float("inf"), "61s", "soon", None, True]
)
def test_how_long_a_request_may_wait_is_checked_before_anything_is_published(
    timeout: object,
) -> None:
    async def play() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("prices")
            with pytest.raises(ValueError, match=r"timeout is from 1 ms to 60 s"):
                await q.request("prices", "apples", timeout=timeout)  # type: ignore[arg-type]  # a hasty caller
            assert (await q.topics.describe("prices")).total_messages == 0

    asyncio.run(play())


@pytest.mark.parametrize("timeout", [2, 2.0, "2s", "2000ms", dt.timedelta(seconds=2)])
def test_a_request_waits_for_a_duration_in_any_notation(
    timeout: float | str | dt.timedelta,
) -> None:
    async def play() -> None:
        async with MemoryNode() as node, node.connect() as q:
            await q.topics.create("prices")
            asking = asyncio.create_task(q.request("prices", "apples", timeout=timeout))
            await node.clock.settle()
            await node.clock.advance(1.9)
            assert not asking.done()
            await node.clock.advance(0.2)
            with pytest.raises(goqueue.NoReply):
                await asking

    asyncio.run(play())


@pytest.mark.parametrize(
    "options",
    [
        {"max": 0},
        {"wait": float("nan")},
        {"wait": -1},
        {"visibility_s": 0},
        {"visibility_s": 50_000},
    ],
)
def test_what_cannot_be_received_is_refused_before_it_is_asked_for(
    options: dict[str, float],
) -> None:
    async def play() -> None:
        async with MemoryNode() as node, node.connect() as q:
            with pytest.raises(ValueError, match=next(iter(options))):
                await q.receive("prices", group="g", **options)  # type: ignore[arg-type]  # a hasty caller

    asyncio.run(play())
