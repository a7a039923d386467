"""What it costs to note the journeys of messages: publishing with and without.

The nodes share a process and take short turns, in an order that is dealt anew each time, so that
whatever else this machine does happens to all of them alike. A figure is the median, over turns, of
the ratio to the turn without tracing. On a machine that is busy with other things the ratio of
processor time for a message (`cpu_ratio`) says more.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Iterator

import msgspec

from bench.broker.publish import TOPIC, batch_request
from bench.figure import Figure, Target
from bench.observability.neighbours import Neighbours
from bench.wire import Wire

__all__ = ["measure_tracing"]

_BATCH = 100
_CONNECTIONS = 4
_TURNS = 100
_REQUESTS = 100


class _Kind(msgspec.Struct, frozen=True):
    """A share of messages that is followed, and what of the rate without tracing is asked for."""

    figure: str
    sampling: str
    target: Target


_KINDS = (
    _Kind("tracing_all", "1", Target(at_least=0.80)),
    _Kind("tracing_hundredth", "0.01", Target(at_least=0.97)),
)


class _Turn(msgspec.Struct, frozen=True):
    """Seconds of a turn, and seconds of processor that the nodes spent on it."""

    seconds: float
    cpu_s: float


def measure_tracing(folder: str, scale: float) -> Iterator[Figure]:
    turns = max(2, int(_TURNS * min(1.0, scale * 2)))
    requests = _REQUESTS if scale > 0.1 else 8
    settings = [f"tracing.sampling={share}" for share in ("0", *(k.sampling for k in _KINDS))]
    with Neighbours(folder, settings) as nodes:
        taken = asyncio.run(_take_turns(nodes, turns, requests))
    off, messages = taken[0], requests * _BATCH
    for kind, turn in zip(_KINDS, taken[1:], strict=True):
        pairs = list(zip(off, turn, strict=True))
        rate = statistics.median(messages / each.seconds for each in turn)
        cpu = statistics.median(each.cpu_s for each in turn) / messages
        yield Figure(
            figure=kind.figure,
            value=round(statistics.median(a.seconds / b.seconds for a, b in pairs), 3),
            unit="of the rate without",
            target=kind.target,
            details={
                "msg_per_s": round(rate),
                "broker_cpu_us_per_msg": round(cpu * 1e6, 2),
                "cpu_ratio": round(statistics.median(a.cpu_s / b.cpu_s for a, b in pairs), 3),
                "turns": turns,
            },
        )


async def _take_turns(nodes: Neighbours, turns: int, requests: int) -> list[list[_Turn]]:
    prepared = batch_request(_BATCH)
    wires: list[list[Wire]] = []
    for port in nodes.ports:
        wires.append([await Wire.open(port) for _ in range(_CONNECTIONS)])
        await wires[-1][0].ask("POST", "/topics", {"name": TOPIC})
        await _publish(wires[-1], prepared, requests)
    taken: list[list[_Turn]] = [[] for _ in wires]
    order = list(range(len(wires)))
    for turn in range(turns):
        random.Random(turn).shuffle(order)
        for number in order:
            spent, began = nodes.cpu_s, time.perf_counter()
            await _publish(wires[number], prepared, requests)
            taken[number].append(_Turn(time.perf_counter() - began, nodes.cpu_s - spent))
    for wire in [each for connections in wires for each in connections]:
        wire.close()
    return taken


async def _publish(wires: list[Wire], prepared: bytes, count: int) -> None:
    left = count

    async def work(wire: Wire) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await wire.send(prepared)

    await asyncio.gather(*(work(wire) for wire in wires))
