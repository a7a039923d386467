"""The span store at capacity: whether memory grows with the messages that went by.

Publishes, delivers and acknowledges at full speed for as long as it takes; the store has been full
since the first moments. An hour of 10,000 messages a second is 36 million; what is measured is the
growth for each million, once everything is warm.
"""

import asyncio
import json
from collections.abc import Iterator

from bench.broker_process import BrokerProcess
from bench.figure import Figure, Target
from bench.wire import Wire, request

__all__ = ["measure_memory"]

_TOPIC = "journeys"
_BATCH = 500
_MILLIONS = 3.0
_WARM = 0.3
_ROUNDS = 10
# The logs are not what is looked at: they are kept short.
_KEPT = {"num_partitions": 1, "retention_bytes": 32 << 20, "segment_bytes": 4 << 20}
_SPANS = 10_000


def measure_memory(folder: str, scale: float) -> Iterator[Figure]:
    with BrokerProcess(folder) as broker:
        yield asyncio.run(_measure(broker, int(_MILLIONS * scale * 1_000_000)))


async def _measure(broker: BrokerProcess, count: int) -> Figure:
    wire = await Wire.open(broker.port)
    await wire.ask("GET", "/readyz")
    await wire.ask("POST", "/topics", {"name": _TOPIC, **_KEPT})
    joined = await wire.ask("POST", "/groups/g/join", {"client_id": "c", "topics": [_TOPIC]})
    batches = max(_ROUNDS, count // _BATCH)
    await _live(wire, joined["member_id"], max(_SPANS // _BATCH, int(batches * _WARM)))
    sizes = [broker.usage.rss_mib]
    for _ in range(_ROUNDS):
        await _live(wire, joined["member_id"], batches // _ROUNDS)
        sizes.append(broker.usage.rss_mib)
    kept = await wire.ask("GET", "/traces/stats")
    wire.close()
    messages = batches // _ROUNDS * _ROUNDS * _BATCH
    growth = _slope(sizes) * _ROUNDS / (messages / 1_000_000)
    return Figure(
        figure="span_store_growth",
        value=round(growth, 2),
        unit="MiB per million messages",
        target=Target(below=1.0) if messages >= 1_000_000 else None,
        details={
            "messages": messages,
            "spans": messages * 3,
            "spans_kept": kept["spans_in_buffer"],
            "rss_mib": tuple(sizes),
        },
    )


async def _live(wire: Wire, member: str, batches: int) -> None:
    """Publish, deliver and acknowledge so many batches."""
    body = json.dumps({"messages": [{"value": "x" * 100}] * _BATCH}).encode()
    publish = request("POST", f"/topics/{_TOPIC}/messages", body)
    poll = f"/groups/g/poll?member_id={member}&max_messages={_BATCH}&timeout=10s"
    for _ in range(batches):
        await wire.send(publish)
        left = _BATCH
        while left:
            messages = (await wire.ask("GET", poll))["messages"]
            handles = [each["receipt_handle"] for each in messages]
            await wire.ask("POST", "/messages/ack/batch", {"receipt_handles": handles})
            left -= len(handles)


def _slope(sizes: list[float]) -> float:
    """By how much each round adds, over all rounds: the slope of the line that fits best."""
    middle = (len(sizes) - 1) / 2
    mean = sum(sizes) / len(sizes)
    leaning = sum((at - middle) * (size - mean) for at, size in enumerate(sizes))
    return leaning / sum((at - middle) ** 2 for at in range(len(sizes)))
