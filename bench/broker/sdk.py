"""Rates of the Python SDK against a running node: `python bench/broker/sdk.py --server URL`.

Sends messages one at a time through a producer and awaits every receipt, then reads them back with
`async for` and automatic commits. One JSON line per figure goes to stdout: the rate, what it should
be, and the CPU seconds of this process; those of the node are its own.
"""

import asyncio
import sys
import time
from pathlib import Path

import click
import msgspec
import uvloop

ROOT = Path(__file__).resolve().parents[2]
# Python put this file's folder here, where `goqueue` is not.
sys.path[0] = str(ROOT / "src")

import goqueue  # noqa: E402 - found only by the line above
from goqueue.client.connection import Connection  # noqa: E402 - found only by the line above


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure."""

    messages: int
    value_bytes: int
    partitions: int
    flush_policy: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output."""

    figure: str
    value: float
    unit: str = "messages/s"
    at_least: int
    cpu_s: float
    plan: Plan


class Watch:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()

    def figure(self, name: str, at_least: int, plan: Plan) -> Figure:
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        return Figure(
            figure=name,
            value=round(plan.messages / wall_s),
            at_least=at_least,
            cpu_s=round(cpu_s, 3),
            plan=plan,
        )


async def send(q: Connection, topic: str, plan: Plan) -> Figure:
    """Every message by a `send` of its own, with a key; every receipt awaited."""
    value = bytes(plan.value_bytes)
    keys = [b"key-%d" % number for number in range(1000)]
    async with q.producer() as producer:
        watch = Watch()
        receipts = [
            await producer.send(topic, value, key=keys[number % 1000])
            for number in range(plan.messages)
        ]
        for receipt in receipts:
            await receipt
        return watch.figure("sdk_send", 80_000, plan)


async def consume(q: Connection, topic: str, plan: Plan) -> Figure:
    """Every message by a turn of the loop; joining the group is part of it."""
    watch = Watch()
    left = plan.messages
    async with q.consume(topic, group=topic, auto_commit=True) as consumer:
        async for _ in consumer:
            left -= 1
            if not left:
                break
    return watch.figure("sdk_consume", 150_000, plan)


async def measure(server: str | None, plan: Plan, rounds: int) -> None:
    async with goqueue.connect(server) as q:
        for _ in range(rounds):
            topic = f"bench-sdk-{time.time_ns()}"
            await q.topics.create(topic, partitions=plan.partitions, flush_policy=plan.flush_policy)
            try:
                for figure in (await send(q, topic, plan), await consume(q, topic, plan)):
                    print(msgspec.json.encode(figure).decode(), flush=True)
            finally:
                await q.topics.delete(topic)
                await q.groups.delete(topic)


@click.command()
@click.option("--server", default=None, help="URL of the node; else GOQUEUE_SERVER.")
@click.option("--messages", default=200_000, show_default=True)
@click.option("--value-bytes", default=100, show_default=True)
@click.option("--partitions", default=3, show_default=True)
@click.option("--flush-policy", default="commit", show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--loop", type=click.Choice(["uvloop", "asyncio"]), default="uvloop")
def bench(  # one parameter per option is how click works
    *,
    server: str | None,
    messages: int,
    value_bytes: int,
    partitions: int,
    flush_policy: str,
    rounds: int,
    loop: str,
) -> None:
    """Measure what a program gets through the SDK."""
    plan = Plan(
        messages=messages,
        value_bytes=value_bytes,
        partitions=partitions,
        flush_policy=flush_policy,
    )
    run = uvloop.run if loop == "uvloop" else asyncio.run
    run(measure(server, plan, rounds))


if __name__ == "__main__":
    bench()
