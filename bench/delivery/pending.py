"""A million messages that wait in one topic: how fast they come in, and what they cost then.

Delayed and plain messages take turns, since on a noisy machine only neighbours compare.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator

from bench.broker.publish import BATCH, VALUE
from bench.broker_process import BrokerProcess
from bench.delivery.traffic import delayed_batch
from bench.figure import Figure, Rounds, Target
from bench.rounds import Round, prepare
from bench.wire import Wire, request
from goqueue.model import SECOND, Message
from goqueue.records import build

__all__ = ["PENDING", "measure_pending"]

PENDING = 1_000_000
_TOPIC = "delays"
_ROUNDS = 5
_CONNECTIONS = 4
_IDLE_S = 10.0
_SOONEST_NS = 3600 * SECOND
_LATEST_NS = 600_000 * SECOND

_Batches = Callable[[int], list[bytes]]


def measure_pending(folder: str, scale: float) -> Iterator[Figure]:
    # Half of them come as JSON, half as records.
    count = max(BATCH, int(PENDING * scale / 2 / _ROUNDS))
    with BrokerProcess(folder) as broker:
        asyncio.run(_warm_up(broker))
        before = broker.usage.rss_mib
        for name, plain, delayed in (
            ("delayed_publish_json", _plain_json, _delayed_json),
            ("delayed_publish_raw", _plain_raw, _delayed_raw),
        ):
            yield asyncio.run(_compare(broker, name, plain, delayed, count))
        yield from _cost(broker, 2 * _ROUNDS * (count // BATCH) * BATCH, before, scale)


async def _warm_up(broker: BrokerProcess) -> None:
    """What is taken once is not taken for each message: buffers, code that is loaded late."""
    wire = await prepare(broker, _TOPIC)
    for make in (_plain_json, _plain_raw, _delayed_json, _delayed_raw):
        for prepared in make(30 * BATCH if make in (_plain_json, _plain_raw) else BATCH):
            await wire.send(prepared)
    wire.close()


async def _compare(
    broker: BrokerProcess, name: str, plain: _Batches, delayed: _Batches, count: int
) -> Figure:
    rounds = Rounds()
    plain_cpu = delayed_cpu = 0.0
    for _ in range(_ROUNDS):
        raw = await _send(broker, plain(count), count)
        ours = await _send(broker, delayed(count), count)
        rounds.add(ours.seconds, raw.seconds)
        plain_cpu, delayed_cpu = plain_cpu + raw.cpu_s, delayed_cpu + ours.cpu_s
    total = _ROUNDS * count
    return Figure(
        figure=name,
        value=round(count / rounds.ours_s),
        unit="msg/s",
        raw=round(count / rounds.raw_s),
        ratio=rounds.ratio,
        target=Target(ratio_at_least=0.5),
        details={
            "ratios": rounds.ratios,
            "broker_cpu_s_per_million": round(delayed_cpu / total * 1e6, 2),
            "plain_cpu_s_per_million": round(plain_cpu / total * 1e6, 2),
            "cpu_ratio": round(plain_cpu / max(delayed_cpu, 0.01), 3),
        },
    )


async def _send(broker: BrokerProcess, batches: list[bytes], count: int) -> Round:
    wires = [await Wire.open(broker.port) for _ in range(_CONNECTIONS)]
    left = iter(batches)

    async def work(wire: Wire) -> None:
        for prepared in left:
            await wire.send(prepared)

    usage, began = broker.usage, time.perf_counter()
    await asyncio.gather(*(work(wire) for wire in wires))
    seconds = time.perf_counter() - began
    for wire in wires:
        wire.close()
    return Round(count=count, seconds=seconds, cpu_s=usage.cpu_s)


def _cost(broker: BrokerProcess, count: int, before_mib: float, scale: float) -> Iterator[Figure]:
    stats = asyncio.run(_ask(broker, "/delay/stats"))
    pending = stats["pending_count"]
    assert isinstance(pending, int)
    assert pending >= count, f"{pending} messages wait, and {count} were published"
    after_mib = broker.usage.rss_mib
    yield Figure(
        figure="pending_rss_per_message",
        value=round((after_mib - before_mib) * 1024 * 1024 / pending, 1),
        unit="bytes",
        target=Target(below=250),
        details={"pending": pending, "before_mib": before_mib, "after_mib": after_mib},
    )
    usage, seconds = broker.usage, max(0.5, _IDLE_S * min(1.0, scale))
    time.sleep(seconds)
    yield Figure(
        figure="pending_idle_cpu",
        value=round(100 * usage.cpu_s / seconds, 2),
        unit="% of a core",
        target=Target(below=5),
        details={"pending": pending, "seconds": seconds},
    )


async def _ask(broker: BrokerProcess, target: str) -> dict[str, object]:
    wire = await Wire.open(broker.port)
    answer: dict[str, object] = await wire.ask("GET", target)
    wire.close()
    return answer


# Bodies, made before the clock runs


def _plain_json(count: int) -> list[bytes]:
    body = json.dumps({"messages": [{"value": VALUE}] * BATCH}).encode()
    return [request("POST", f"/topics/{_TOPIC}/messages", body)] * (count // BATCH)


def _delayed_json(count: int) -> list[bytes]:
    chance = random.Random(count)
    seconds = range(_SOONEST_NS // SECOND, _LATEST_NS // SECOND)
    bodies = [
        {
            "messages": [
                {"value": VALUE, "delay": f"{chance.choice(seconds)}s"} for _ in range(BATCH)
            ]
        }
        for _ in range(count // BATCH)
    ]
    target = f"/topics/{_TOPIC}/messages"
    return [request("POST", target, json.dumps(body).encode()) for body in bodies]


def _plain_raw(count: int) -> list[bytes]:
    body = bytes(build([Message(value=VALUE.encode())] * BATCH))
    return [request("POST", f"/topics/{_TOPIC}/records", body)] * (count // BATCH)


def _delayed_raw(count: int) -> list[bytes]:
    chance, now = random.Random(count), time.time_ns()
    target = f"/topics/{_TOPIC}/records"
    return [
        request(
            "POST",
            target,
            delayed_batch([now + chance.randrange(_SOONEST_NS, _LATEST_NS) for _ in range(BATCH)]),
        )
        for _ in range(count // BATCH)
    ]
