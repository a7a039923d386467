"""What TLS costs: publishing, reading and single messages, over it and in the clear, in turns."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import uvloop

import goqueue
from bench.figure import Figure, Rounds, Target
from bench.security.pair import Side, both
from bench.wire import Wire, request
from goqueue.model import Message
from goqueue.records import build, last_offset, walk

__all__ = [
    "Pairs",
    "Work",
    "compare",
    "create",
    "latency",
    "publish",
    "publish_all",
    "read",
    "read_all",
    "sdk",
]

_CONNECTIONS = 4
_ROUNDS = 5
_VALUE = b"x" * 100


def publish(folder: str, scale: float) -> Iterator[Figure]:
    for size, target in ((1000, 0.7), (100, 0.6)):
        batch = bytes(build([Message(value=_VALUE)] * size))
        count = max(size * _CONNECTIONS, int(400_000 * scale * (size / 1000) ** 0.5))

        async def fill(side: Side, topic: str, batch: bytes = batch, count: int = count) -> None:
            await publish_all(side, topic, batch, count)

        pairs = compare(both(folder), fill)
        yield _figure(f"publish_raw_{size}", "messages/s", count, pairs, target)


async def publish_all(side: Side, topic: str, batch: bytes, count: int) -> None:
    wires = [await side.open() for _ in range(_CONNECTIONS)]
    prepared = request("POST", f"/topics/{topic}/records", batch)
    size = len(walk(batch))
    left = [count // size]

    async def send(wire: Wire) -> None:
        while left[0] > 0:
            left[0] -= 1
            await wire.send(prepared)

    await asyncio.gather(*map(send, wires))
    for wire in wires:
        wire.close()


def read(folder: str, scale: float) -> Iterator[Figure]:
    count = max(10_000, int(1_000_000 * scale))
    batch = bytes(build([Message(value=_VALUE)] * 1000))

    async def prepare(side: Side, topic: str) -> None:
        await publish_all(side, topic, batch, count)

    pairs = compare(both(folder), read_all, prepare)
    yield _figure("read_raw", "messages/s", count, pairs, 0.5)


async def read_all(side: Side, topic: str) -> None:
    wire = await side.open()
    for partition in range(3):
        offset = 0
        while True:
            target = f"/topics/{topic}/partitions/{partition}/records?offset={offset}"
            records = await wire.send(request("GET", target))
            if not records:
                break
            walk(records)
            offset = last_offset(records) + 1
    wire.close()


def sdk(folder: str, scale: float) -> Iterator[Figure]:
    count = max(50, int(3000 * scale))

    async def send(side: Side, topic: str) -> None:
        async with goqueue.connect(side.url, ca_file=side.ca_file) as q:
            for _ in range(count):
                await q.publish(topic, _VALUE)

    yield _figure("sdk_one_by_one", "messages/s", count, compare(both(folder), send), 0.85)


Work = Callable[[Side, str], Awaitable[None]]


class Pairs(NamedTuple):
    """Rounds of both sides: how long they took, and how long the processor worked for the node."""

    waited: Rounds
    worked: Rounds


def compare(
    started: AbstractContextManager[tuple[Side, Side]],
    work: Work,
    prepare: Work | None = None,
    rounds: int = _ROUNDS,
) -> Pairs:
    """The second node beside the first, in turns; the first round warms both up."""
    pairs = Pairs(Rounds(), Rounds())

    async def run(sides: tuple[Side, Side]) -> None:
        for side in sides:
            await create(side, "kept")
            if prepare is not None:
                await prepare(side, "kept")
            await work(side, "kept")
        for number in range(rounds):
            taken: dict[str, float] = {}
            spent: dict[str, float] = {}
            for side in sides if number % 2 else reversed(sides):
                topic = "kept"
                if prepare is None:
                    topic = f"t{number}"
                    await create(side, topic)
                usage, began = side.broker.usage, time.perf_counter()
                before = usage.cpu_s
                await work(side, topic)
                taken[side.name] = time.perf_counter() - began
                spent[side.name] = usage.cpu_s - before
            raw, ours = (side.name for side in sides)
            pairs.waited.add(taken[ours], taken[raw])
            pairs.worked.add(spent[ours], spent[raw])

    with started as sides:
        uvloop.run(run(sides))
    return pairs


async def create(side: Side, topic: str) -> None:
    wire = await side.open()
    await wire.ask("POST", "/topics", {"name": topic, "num_partitions": 3})
    wire.close()


def _figure(name: str, unit: str, count: int, pairs: Pairs, target: float) -> Figure:
    rounds, worked = pairs
    return Figure(
        figure=name,
        value=round(count / rounds.ours_s),
        unit=unit,
        raw=round(count / rounds.raw_s),
        ratio=rounds.ratio,
        target=Target(ratio_at_least=target),
        details={
            "ratios": rounds.ratios,
            # Where others use the machine, this says more: what the node worked, of plain and TLS.
            "of_node_cpu": worked.ratio,
            "node_cpu_us": round(worked.ours_s / count * 1e6, 2),
        },
    )


def latency(folder: str, scale: float) -> Iterator[Figure]:
    """One message a request, a thousand requests a second, whether or not they are answered."""
    seconds = max(0.5, 5 * scale)
    p99s: dict[str, list[float]] = {"plain": [], "tls": []}
    cpus: dict[str, list[float]] = {"plain": [], "tls": []}

    async def run(sides: tuple[Side, Side]) -> None:
        for side in sides:
            await create(side, "kept")
            await _p99_ms(side, 0.5)
        for number in range(_ROUNDS):
            for side in sides if number % 2 else reversed(sides):
                usage = side.broker.usage
                p99s[side.name].append(await _p99_ms(side, seconds))
                cpus[side.name].append(usage.cpu_s / seconds * 1000)

    with both(folder) as sides:
        uvloop.run(run(sides))
    ratios = [tls / plain for tls, plain in zip(p99s["tls"], p99s["plain"], strict=True)]
    yield Figure(
        figure="p99_at_1000_per_s",
        value=round(statistics.median(p99s["tls"]), 2),
        unit="ms",
        raw=round(statistics.median(p99s["plain"]), 2),
        ratio=round(1 / statistics.median(ratios), 3),
        target=Target(ratio_at_least=round(1 / 1.2, 3)),
        details={
            "of_plain": tuple(round(each, 2) for each in ratios),
            # Of a request, without and with TLS.
            "node_cpu_us": round(statistics.median(cpus["plain"])),
            "node_cpu_us_tls": round(statistics.median(cpus["tls"])),
        },
    )


async def _p99_ms(side: Side, seconds: float) -> float:
    wires = [await side.open() for _ in range(32)]
    free: asyncio.Queue[Wire] = asyncio.Queue()
    for wire in wires:
        free.put_nowait(wire)
    prepared = request("POST", "/topics/kept/messages", b'{"messages":[{"value":"x"}]}')
    taken: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def send(due: float) -> None:
        wire = await free.get()
        await wire.send(prepared)
        taken.append(loop.time() - due)
        free.put_nowait(wire)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * 1000)):
            due = began + number / 1000
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            tasks.create_task(send(max(due, began)))
    for wire in wires:
        wire.close()
    return sorted(taken)[int(len(taken) * 0.99)] * 1000
