"""What it costs to note the journeys of messages: publishing with and without.

Nodes of every kind run at once and take short turns, in an order that is dealt anew each time.
Whatever else this machine does can only slow a turn down, so the best turns of each node are
compared: the figure is a ratio of the same run. On a machine that is busy with other things the
ratio of processor time for a message says more (`cpu_ratio`).
"""

import asyncio
import contextlib
import os
import random
import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.broker.broker import BrokerProcess
from bench.broker.measuring import prepare
from bench.broker.publish import TOPIC, batch_request, load
from bench.log.figure import Figure, Target

__all__ = ["measure_tracing"]

_BATCH = 100
_CONNECTIONS = 4
_TURNS = 40
_REQUESTS = 200
_BEST = 5


class _Kind(msgspec.Struct, frozen=True):
    """One kind of node: what it is told, and what of the rate without tracing is asked for."""

    figure: str
    variables: dict[str, str]
    target: Target | None = None


_OFF = _Kind("", {"GOQUEUE_TRACING_SAMPLING": "0"})
_KINDS = (
    _Kind("tracing_all", {"GOQUEUE_TRACING_SAMPLING": "1.0"}, Target(at_least=0.80)),
    _Kind("tracing_hundredth", {"GOQUEUE_TRACING_SAMPLING": "0.01"}, Target(at_least=0.97)),
    # Not asked for: what a journey costs that also goes to a file.
    _Kind("tracing_all_to_file", {"GOQUEUE_TRACING_EXPORTERS": "file"}),
    _Kind(
        "tracing_hundredth_to_file",
        {"GOQUEUE_TRACING_EXPORTERS": "file", "GOQUEUE_TRACING_SAMPLING": "0.01"},
    ),
)


def measure_tracing(folder: str, scale: float) -> Iterator[Figure]:
    turns = max(2, int(_TURNS * min(1.0, scale * 2)))
    requests = max(8, int(_REQUESTS * min(1.0, scale * 4)))
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(_started(folder, kind)) for kind in (_OFF, *_KINDS)]
        taken = asyncio.run(_take_turns(brokers, turns, requests))
    off, off_cpu = taken[0].best(), taken[0].cpu()
    for kind, turn in zip(_KINDS, taken[1:], strict=True):
        rate, cpu = turn.best(), turn.cpu()
        yield Figure(
            figure=kind.figure,
            value=round(rate / off, 3),
            unit="of the rate without",
            target=kind.target,
            details={
                "msg_per_s": round(rate),
                "msg_per_s_without": round(off),
                "broker_cpu_us_per_msg": round(cpu * 1e6, 2),
                "broker_cpu_us_per_msg_without": round(off_cpu * 1e6, 2),
                "cpu_ratio": round(off_cpu / cpu, 3),
                "median_ratio": round(turn.median() / taken[0].median(), 3),
                "turns": turns,
            },
        )


class _Turns:
    """The turns of one node: messages a second, and processor seconds for a message."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.seconds: list[float] = []

    def best(self) -> float:
        return statistics.mean(sorted(self.rates, reverse=True)[:_BEST])

    def cpu(self) -> float:
        return statistics.median(self.seconds)

    def median(self) -> float:
        return statistics.median(self.rates)


@contextlib.contextmanager
def _started(folder: str, kind: _Kind) -> Iterator[BrokerProcess]:
    """A node that is told what its kind is told, by the environment."""
    before = dict(os.environ)
    os.environ.update(kind.variables)
    try:
        with BrokerProcess(folder) as broker:
            os.environ.clear()
            os.environ.update(before)
            yield broker
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _take_turns(brokers: list[BrokerProcess], turns: int, requests: int) -> list[_Turns]:
    prepared = batch_request(_BATCH)
    for broker in brokers:
        (await prepare(broker, TOPIC)).close()
        await load(broker, prepared, _CONNECTIONS, max(_CONNECTIONS, requests // 2))
    taken = [_Turns() for _ in brokers]
    order = list(range(len(brokers)))
    for turn in range(turns):
        random.Random(turn).shuffle(order)
        for number in order:
            before = _cpu_s(brokers[number])
            took = await load(brokers[number], prepared, _CONNECTIONS, requests)
            taken[number].rates.append(requests * _BATCH / took)
            taken[number].seconds.append((_cpu_s(brokers[number]) - before) / requests / _BATCH)
    return taken


def _cpu_s(broker: BrokerProcess) -> float:
    """Seconds that all threads of a node were on a processor, finer than the clock tick."""
    threads = Path(f"/proc/{broker.usage.pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
