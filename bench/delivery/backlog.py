"""Five million messages that nobody took yet: what they cost, and how soon a critical one is out.

The backlog has every priority but critical, so that a critical message that is published last is
the only one of its lane.
"""

import asyncio
import time
from collections.abc import Iterator

from bench.broker.publish import BATCH
from bench.broker_process import BrokerProcess
from bench.delivery.traffic import Consumers, join, lane_batch, publish
from bench.figure import Figure, Target
from bench.rounds import Round, prepare
from bench.wire import Wire, request

__all__ = ["measure_backlog"]

_TOPIC = "backlog"
_PARTITIONS = 3
_COUNT = 5_000_000
# So many of them are taken from the beginning: enough for the lanes to run far apart, so that what
# is done with is scattered over hundreds of thousands of places.
_DRAINED = 1_000_000
# And so many at the end.
_TAIL = 200_000
_SIZE = 16
_TENTHS = 10
_SHARES = (0, 15, 50, 20, 15)
_CRITICAL = (1, 0, 0, 0, 0)
# What is slower than this share of the beginning is no longer flat.
_FLAT = Target(ratio_at_least=0.7)


def measure_backlog(folder: str, scale: float) -> Iterator[Figure]:
    batches = max(_TENTHS, int(_COUNT * scale) // BATCH)
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_fill(broker, batches))
        yield asyncio.run(_urgent(broker, "first_critical_of_a_new_group", is_new=True))
        yield asyncio.run(_urgent(broker, "first_critical_of_a_running_group", is_new=False))
        yield from asyncio.run(_drain(broker, batches * BATCH))


async def _fill(broker: BrokerProcess, batches: int) -> Figure:
    (await prepare(broker, _TOPIC, _PARTITIONS)).close()
    # Different mixes, so that no lane has a rhythm.
    mixes = [lane_batch(BATCH, _SHARES, _SIZE, seed) for seed in range(7)]
    usage = broker.usage
    seconds = await publish(broker.port, _TOPIC, [mixes[index % 7] for index in range(batches)])
    count = batches * BATCH
    return Figure(
        figure="backlog_publish",
        value=round(count / seconds),
        unit="msg/s",
        details={
            "messages": count,
            "broker_cpu_s_per_million": round(usage.cpu_s / count * 1e6, 2),
            "rss_mib": usage.rss_mib,
        },
    )


async def _urgent(broker: BrokerProcess, name: str, *, is_new: bool) -> Figure:
    """From the first poll after a critical message was published to its delivery."""
    wire = await Wire.open(broker.port)
    await publish(broker.port, _TOPIC, [lane_batch(1, _CRITICAL)])
    # The first group comes to a backlog that nobody has looked at.
    member = await join(broker.port, "urgent", _TOPIC) if is_new else await _member(wire)
    query = f"member_id={member}&max_messages=10&timeout=1s"
    usage, began, polls = broker.usage, time.perf_counter(), 0
    receipts: list[bytes] = []
    is_there = False
    while not is_there:
        answer = await wire.send(request("GET", f"/groups/urgent/poll?{query}"))
        polls += 1
        is_there = b'"critical"' in answer
        receipts += [part[: part.index(b'"')] for part in answer.split(b'"receipt_handle":"')[1:]]
    seconds = time.perf_counter() - began
    cpu_s = usage.cpu_s
    for first in range(0, len(receipts), 500):
        handles = b'","'.join(receipts[first : first + 500])
        body = b'{"receipt_handles":["' + handles + b'"]}'
        await wire.send(request("POST", "/messages/ack/batch", body))
    wire.close()
    return Figure(
        figure=name,
        value=round(seconds * 1000, 1),
        unit="ms",
        details={"polls": polls, "before_it": len(receipts) - 1, "broker_cpu_s": round(cpu_s, 2)},
    )


async def _member(wire: Wire) -> str:
    described = await wire.ask("GET", "/groups/urgent")
    return str(described["members"][0]["member_id"])


async def _drain(broker: BrokerProcess, count: int) -> list[Figure]:
    """The first messages by one group, the last by another that begins there."""
    part, tail_part = count * _DRAINED // _COUNT, count * _TAIL // _COUNT
    parts, most_mib = await _settle(broker, "first", part)
    first, last = parts[0], parts[-1]
    cpu = tuple(round(each.cpu_s / each.count * 1e6, 2) for each in parts)
    await _commit(broker, "last", (count - tail_part) // _PARTITIONS)
    tail, tail_mib = await _settle(broker, "last", tail_part)
    rate = sum(each.count for each in tail) / sum(each.seconds for each in tail)
    start_rate = sum(each.count for each in parts) / sum(each.seconds for each in parts)
    return [
        Figure(
            figure="backlog_dequeue",
            value=round(last.rate),
            unit="msg/s",
            raw=round(first.rate),
            ratio=round(last.rate / first.rate, 3),
            target=_FLAT,
            details={
                "messages": part,
                "tenths": tuple(round(each.rate) for each in parts),
                "broker_cpu_s_per_million": cpu,
                "cpu_ratio": round(cpu[0] / max(cpu[-1], 0.01), 3),
            },
        ),
        Figure(
            figure="backlog_dequeue_at_its_end",
            value=round(rate),
            unit="msg/s",
            raw=round(start_rate),
            ratio=round(rate / start_rate, 3),
            target=_FLAT,
            details={
                "messages": tail_part,
                "broker_cpu_s_per_million": round(
                    sum(each.cpu_s for each in tail) / tail_part * 1e6, 2
                ),
            },
        ),
        Figure(
            figure="backlog_rss",
            value=max(most_mib, tail_mib),
            unit="MiB",
            target=Target(below=300),
            details={"messages": count},
        ),
    ]


async def _settle(broker: BrokerProcess, group: str, count: int) -> tuple[list[Round], float]:
    """Take so many messages in ten parts; how each went, and the most memory that was seen."""
    consumers = Consumers(broker, group, await join(broker.port, group, _TOPIC))
    parts: list[Round] = []
    most_mib = 0.0
    for _ in range(_TENTHS):
        usage = broker.usage
        asked = max(1, count // _TENTHS - max(0, consumers.excess))
        seconds = await consumers.settle(asked)
        done = asked + consumers.excess
        if not done:
            break
        parts.append(Round(count=done, seconds=seconds, cpu_s=usage.cpu_s))
        most_mib = max(most_mib, usage.rss_mib)
    return parts, most_mib


async def _commit(broker: BrokerProcess, group: str, offset: int) -> None:
    """Let a group begin there in every partition."""
    wire = await Wire.open(broker.port)
    offsets = {str(partition): offset for partition in range(_PARTITIONS)}
    await wire.ask("POST", f"/groups/{group}/offsets", {"offsets": {_TOPIC: offsets}})
    wire.close()
