"""A crowded node: 10,000 partitions, 1,000 groups, 100,000 messages in flight.

Prints what it costs to be idle, how much memory it takes, and how much of the publish rate of an
empty node is left.
"""

import asyncio
import time
from collections.abc import Iterator

from bench.broker.publish import BATCH, ROUNDS, TOPIC, batch_request, load
from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.rounds import Round, prepare
from bench.wire import Wire, request

__all__ = ["measure_scale"]

_TOPICS = 100
_PARTITIONS = 100
_GROUPS = 1000
_IN_FLIGHT = 100


def measure_scale(folder: str, scale: float) -> Iterator[Figure]:
    share = min(1.0, scale)
    topics, groups = max(2, int(_TOPICS * share)), max(4, int(_GROUPS * share))
    with BrokerProcess(folder) as broker:
        empty = asyncio.run(_publish(broker, scale))
        began = time.perf_counter()
        in_flight = asyncio.run(_crowd(broker, topics, groups))
        crowding_s = round(time.perf_counter() - began, 1)
        usage = broker.usage
        idle_s = 10 * max(0.1, share)
        time.sleep(idle_s)
        idle = round(100 * usage.cpu_s / idle_s, 2)
        crowded = asyncio.run(_publish(broker, scale))
        crowd = {
            "partitions": topics * _PARTITIONS,
            "groups": groups,
            "in_flight": in_flight,
            "crowding_s": crowding_s,
        }
        yield Figure(
            figure="crowded_idle_cpu",
            value=idle,
            unit="% of a core",
            target=Target(below=3),
            details={**crowd},
        )
        yield Figure(
            figure="crowded_rss",
            value=broker.usage.rss_mib,
            unit="MiB",
            target=Target(below=600),
            details={**crowd},
        )
        yield Figure(
            figure="crowded_publish",
            value=round(crowded),
            unit="msg/s",
            raw=round(empty),
            ratio=round(crowded / empty, 3),
            target=Target(ratio_at_least=0.7),
            details={**crowd},
        )


async def _publish(broker: BrokerProcess, scale: float) -> float:
    wire = await Wire.open(broker.port)
    listed = await wire.ask("GET", "/topics")
    if TOPIC not in listed["topics"]:
        await prepare(broker, TOPIC)
    wire.close()
    count = max(8, int(300 * scale))
    rounds = []
    for _ in range(ROUNDS):
        seconds = await load(broker, batch_request(), 4, count)
        rounds.append(Round(count=count * BATCH, seconds=seconds, cpu_s=0))
    return sorted(each.rate for each in rounds)[ROUNDS // 2]


async def _crowd(broker: BrokerProcess, topics: int, groups: int) -> int:
    """Make the topics and groups, and let every group hold messages."""
    wire = await Wire.open(broker.port)
    for number in range(topics):
        await wire.ask("POST", "/topics", {"name": f"t{number}", "num_partitions": _PARTITIONS})
        messages = [{"value": "x" * 100}] * (2 * _IN_FLIGHT)
        await wire.ask("POST", f"/topics/t{number}/messages", {"messages": messages})
    in_flight = 0
    for number in range(groups):
        joined = await wire.ask(
            "POST",
            f"/groups/g{number}/join",
            {"client_id": "c", "topics": [f"t{number % topics}"], "session_timeout": "10m"},
        )
        target = f"/groups/g{number}/poll?member_id={joined['member_id']}"
        limits = f"&max_messages={_IN_FLIGHT}&visibility_timeout=1h&timeout=5s"
        answer = await wire.send(request("GET", target + limits))
        in_flight += answer.count(b'"receipt_handle"')
    wire.close()
    return in_flight
