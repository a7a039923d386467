"""Moving the clock by months: what happens is what happens in small steps, and costs little."""

import asyncio
import datetime as dt
import itertools

import hypothesis.strategies as st
from hypothesis import given, settings

from goqueue.testing import ManualClock, MemoryNode
from tests.examples import examples

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOUR = 3600
DAY = 24 * HOUR
# Every second there would be 31 million.
STEPS_MAX = 1000


async def observe(delays: list[int], steps: list[int]) -> tuple[object, ...]:
    """What is known of a node after some time, and when messages came."""
    async with (
        asyncio.timeout(60),
        MemoryNode(clock=ManualClock(START)) as node,
        node.connect() as q,
    ):
        await q.topics.create("kept", partitions=1, retention_hours=-1)
        await q.topics.create("short", partitions=1, retention_hours=1, segment_bytes=65536)
        await q.publish("short", b"x" * 60_000)
        await q.publish("short", b"x" * 60_000)
        for delay in delays:
            await q.publish("kept", str(delay), delay=delay)
        await q.schedules.create("daily", "kept", "tick", every="24h")
        for step in steps:
            await node.clock.advance(step)
        kept = await q.topics.describe("kept")
        short = await q.topics.describe("short")
        (reader,) = await q.pages("kept")
        came = [each.json for each in await reader.read(limit=1000)]
        return came, kept.total_messages, short.partition_offsets, node.clock.now()


@settings(max_examples=examples(10), deadline=None)
@given(
    delays=st.lists(st.integers(0, 40 * DAY), max_size=4),
    cuts=st.lists(st.integers(1, 45 * DAY - 1), max_size=5, unique=True),
)
def test_one_long_step_is_the_same_as_many_short_ones(delays: list[int], cuts: list[int]) -> None:
    total = 45 * DAY
    bounds = [0, *sorted(cuts), total]
    pieces = [end - begin for begin, end in itertools.pairwise(bounds)]

    whole = asyncio.run(observe(delays, [total]))

    assert asyncio.run(observe(delays, pieces)) == whole


def test_a_year_of_an_idle_node_is_a_few_hundred_steps() -> None:
    steps = 0

    class CountingClock(ManualClock):
        def _step(self, target_ns: int) -> bool:
            nonlocal steps
            steps += 1
            return super()._step(target_ns)

    async def play() -> None:
        async with MemoryNode(clock=CountingClock(START)) as node, node.connect() as q:
            await q.topics.create("jobs", retention_hours=-1)
            await q.publish("jobs", "a", delay="8000h")
            await node.clock.advance(dt.timedelta(days=365))
            assert (await q.topics.describe("jobs")).total_messages == 1

    asyncio.run(play())
    assert steps < STEPS_MAX
