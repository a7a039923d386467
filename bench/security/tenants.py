"""What tenants notice of each other and of their quotas."""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Iterator

import uvloop

from bench.figure import Detail, Figure, Target
from bench.security.keyed import KeyedNode, keyed, keyed_node
from bench.wire import Wire

__all__ = ["neighbour", "quota", "usage"]

_RATE = 1000
_BATCH = 100
_SENDERS = 8
_OWN_PER_S = 300


def neighbour(folder: str, scale: float) -> Iterator[Figure]:
    """One tenant sends ten times its quota; what becomes of the requests of another."""
    seconds = max(1.0, 15 * scale)
    with keyed_node(folder) as node:
        own, loud = uvloop.run(_prepare(node))
        _, p99_before = uvloop.run(_own(node, own, seconds))
        sent = multiprocessing.Value("q", 0)
        process = multiprocessing.Process(
            target=_overrun, args=(node.broker.port, loud, seconds + 1, sent)
        )
        process.start()
        time.sleep(0.5)
        rate, p99 = uvloop.run(_own(node, own, seconds))
        process.join()
    details: dict[str, Detail] = {
        "neighbour_messages_per_s": round(sent.value / (seconds + 1)),
        "neighbour_quota_per_s": _RATE,
    }
    yield Figure(
        figure="neighbour_own_p99",
        value=round(p99, 2),
        unit="ms",
        raw=round(p99_before, 2),
        ratio=round(p99_before / p99, 3),
        target=Target(ratio_at_least=0.5),
        details=details,
    )
    yield Figure(
        figure="neighbour_own_throughput",
        value=round(rate),
        unit="requests/s",
        raw=_OWN_PER_S,
        ratio=round(rate / _OWN_PER_S, 3),
        target=Target(ratio_at_least=0.9),
        details=details,
    )


async def _prepare(node: KeyedNode) -> tuple[str, str]:
    unlimited = {"max_messages_per_second": 0, "max_bytes_per_second": 0}
    own = await node.tenant("own", **unlimited)
    return own, await node.tenant("loud", max_messages_per_second=_RATE)


async def _own(node: KeyedNode, key: str, seconds: float) -> tuple[float, float]:
    """Requests that were answered in a second, and the 99th percentile of their time in ms.

    A request that is due is sent whether or not those before it were answered.
    """
    body = {"messages": [{"value": "x"}]}
    prepared = keyed("POST", "/topics/own.orders/messages", key, body)
    free: asyncio.Queue[Wire] = asyncio.Queue()
    wires = [await node.open() for _ in range(16)]
    for wire in wires:
        free.put_nowait(wire)
    loop = asyncio.get_running_loop()
    taken: list[float] = []
    began = loop.time()

    async def send(due: float) -> None:
        wire = await free.get()
        await wire.send(prepared)
        taken.append(loop.time() - due)
        free.put_nowait(wire)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * _OWN_PER_S)):
            due = began + number / _OWN_PER_S
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            tasks.create_task(send(due))
    ended = loop.time()
    for wire in wires:
        wire.close()
    return len(taken) / (ended - began), sorted(taken)[int(len(taken) * 0.99)] * 1000


def _overrun(
    port: int, key: str, seconds: float, sent: "multiprocessing.sharedctypes.Synchronized[int]"
) -> None:
    """Publish ten times the quota, whatever the answers are."""
    body = {"messages": [{"value": "x"}] * _BATCH}
    prepared = keyed("POST", "/topics/loud.orders/messages", key, body)

    async def run() -> None:
        until = time.perf_counter() + seconds
        pause_s = _SENDERS * _BATCH / (10 * _RATE)

        async def send() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            due = time.perf_counter()
            while due < until:
                writer.write(prepared)
                head = await reader.readuntil(b"\r\n\r\n")
                place = head.lower().index(b"content-length:") + 15
                await reader.readexactly(int(head[place:].split(b"\r\n", 1)[0]))
                sent.value += _BATCH
                due += pause_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.close()

        await asyncio.gather(*(send() for _ in range(_SENDERS)))

    uvloop.run(run())


def quota(folder: str, scale: float) -> Iterator[Figure]:
    """A publisher that never waits gets its rate, after the first burst."""
    seconds = max(2.0, 60 * scale)
    with keyed_node(folder) as node:

        async def run() -> float:
            key = await node.tenant("rated", max_messages_per_second=_RATE)
            body = {"messages": [{"value": "x"}] * 10}
            prepared = keyed("POST", "/topics/rated.orders/messages", key, body)
            wire = await node.open()
            accepted, began = 0, 0.0
            until = time.perf_counter() + seconds
            while (now := time.perf_counter()) < until:
                # Refused as soon as the burst is spent: from there on it is counted.
                try:
                    await wire.send(prepared)
                    accepted += 10
                except RuntimeError as refused:
                    if " 429 " not in str(refused):
                        raise
                    if not began:
                        accepted, began = 0, now
                    await asyncio.sleep(0.001)
            return accepted / (time.perf_counter() - began)

        rate = uvloop.run(run())
    yield Figure(
        figure="quota_accuracy",
        value=round(100 * abs(rate - _RATE) / _RATE, 2),
        unit="% off",
        target=Target(below=2.0),
        details={"quota_per_s": _RATE, "accepted_per_s": round(rate, 1), "seconds": seconds},
    )


def usage(folder: str, scale: float) -> Iterator[Figure]:
    """How far the totals of a tenant are behind after a node was killed under load."""
    seconds = max(2.0, 45 * scale)
    with keyed_node(folder) as node:

        async def publish() -> list[float]:
            """When each message was answered."""
            key = await node.tenant("counted", max_messages_per_second=0)
            prepared = keyed(
                "POST", "/topics/counted.orders/messages", key, {"messages": [{"value": "x"}]}
            )
            wire = await node.open()
            answered: list[float] = []
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                await wire.send(prepared)
                answered.append(time.perf_counter())
                await asyncio.sleep(0.005)
            wire.close()
            return answered

        answered = uvloop.run(publish())
        killed = time.perf_counter()
        node.broker.restart(signal.SIGKILL)
        total = int(
            uvloop.run(node.ask("GET", "/admin/tenants/counted/usage"))["total_messages_published"]
        )
    # The first message that is not in the total, and those that are only there.
    behind = killed - answered[total] if total < len(answered) else 0.0
    yield Figure(
        figure="usage_after_kill",
        value=round(behind, 2),
        unit="s behind",
        # A total is journaled after at most 30 seconds; then the journal is synced.
        target=Target(below=31, details_at_most={"ahead": 0}),
        details={
            "seconds": seconds,
            "published": len(answered),
            "total": total,
            "ahead": max(0, total - len(answered)),
        },
    )
