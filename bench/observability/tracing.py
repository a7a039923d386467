"""What it costs to note the journeys of messages: publishing with and without.

Nodes of every kind run at once and take turns of half a second, so that whatever else this machine
does happens to all of them alike. The figure is a ratio of the same run.
"""

import asyncio
import contextlib
import os
import statistics
from collections.abc import Iterator

import msgspec

from bench.broker.broker import BrokerProcess
from bench.broker.measuring import prepare
from bench.broker.publish import TOPIC, batch_request, load
from bench.log.figure import Figure, Target

__all__ = ["measure_tracing"]

_BATCH = 100
_CONNECTIONS = 4
_TURNS = 24
_REQUESTS = 400


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
    requests = max(8, int(_REQUESTS * min(1.0, scale * 2)))
    with contextlib.ExitStack() as stack:
        brokers = [stack.enter_context(_started(folder, kind)) for kind in (_OFF, *_KINDS)]
        rates, seconds = asyncio.run(_take_turns(brokers, turns, requests))
    off = statistics.median(rates[0])
    for number, kind in enumerate(_KINDS, start=1):
        # Turn against turn: what disturbs one mostly disturbs its neighbour, too.
        ratios = [on / without for on, without in zip(rates[number], rates[0], strict=True)]
        yield Figure(
            figure=kind.figure,
            value=round(statistics.median(ratios), 3),
            unit="of the rate without",
            target=kind.target,
            details={
                "msg_per_s": round(statistics.median(rates[number])),
                "msg_per_s_without": round(off),
                "broker_cpu_us_per_msg": round(seconds[number] * 1e6, 2),
                "broker_cpu_us_per_msg_without": round(seconds[0] * 1e6, 2),
                "cpu_ratio": round(seconds[0] / seconds[number], 3),
                "turns": turns,
            },
        )


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


async def _take_turns(
    brokers: list[BrokerProcess], turns: int, requests: int
) -> tuple[list[list[float]], list[float]]:
    """Messages a second of every turn of each node, and its processor seconds for a message."""
    prepared = batch_request(_BATCH)
    for broker in brokers:
        (await prepare(broker, TOPIC)).close()
        await load(broker, prepared, _CONNECTIONS, max(_CONNECTIONS, requests // 4))
    rates: list[list[float]] = [[] for _ in brokers]
    spent = [0.0 for _ in brokers]
    for turn in range(turns):
        order = range(len(brokers)) if turn % 2 else reversed(range(len(brokers)))
        for number in order:
            usage = brokers[number].usage
            took = await load(brokers[number], prepared, _CONNECTIONS, requests)
            rates[number].append(requests * _BATCH / took)
            spent[number] += usage.cpu_s
    messages = turns * requests * _BATCH
    return rates, [each / messages for each in spent]
