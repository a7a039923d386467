"""Where a reader begins: at a committed offset, at an end of the log, or at a time."""

import datetime as dt

import msgspec

from goqueue.client.errors import NotFound
from goqueue.client.transport import Transport, get
from goqueue.model import LogId

__all__ = ["Start", "committed_offsets", "find_start", "partition_count"]

Start = str | int | dt.datetime

# How long the broker holds an answer for a decision.
_DECISION_S_MAX = 30.0


class _Ends(msgspec.Struct, frozen=True):
    earliest: int
    latest: int


class _Topic(msgspec.Struct, frozen=True):
    partitions: int
    partition_offsets: dict[str, _Ends]


class _Offsets(msgspec.Struct, frozen=True):
    offsets: dict[str, dict[str, int]]


class _Page(msgspec.Struct, frozen=True):
    next_offset: int
    messages: list[msgspec.Raw]


class _Placed(msgspec.Struct, frozen=True):
    offset: int


_TOPICS = msgspec.json.Decoder(_Topic)
_OFFSETS = msgspec.json.Decoder(_Offsets)
_PAGES = msgspec.json.Decoder(_Page)
_PLACED = msgspec.json.Decoder(_Placed)


async def partition_count(transport: Transport, topic: str) -> int:
    return (await transport.read(get("topics", topic), _TOPICS)).partitions


async def committed_offsets(transport: Transport, group: str) -> dict[LogId, int]:
    """The next offset of a group wherever it has one.

    The broker holds the answer while a transaction of the group is undecided.
    """
    stable = get("groups", group, "offsets", stable="true")
    request = msgspec.structs.replace(stable, wait_s=_DECISION_S_MAX)
    answer = await transport.read(request, _OFFSETS)
    return {
        LogId(topic, int(partition)): offset
        for topic, offsets in answer.offsets.items()
        for partition, offset in offsets.items()
    }


async def find_start(transport: Transport, log: LogId, start: Start) -> int:
    """The offset that `start` means in this partition: earliest, latest, an offset, or a time."""
    if isinstance(start, int):
        return start
    if isinstance(start, dt.datetime):
        return await _offset_at(transport, log, start)
    described = await transport.read(get("topics", log.topic), _TOPICS)
    ends = described.partition_offsets.get(str(log.partition))
    if ends is None:
        raise NotFound("partition_not_found", f"there is no partition {log}")
    if start not in {"earliest", "latest"}:
        raise ValueError(f"{start!r} is neither earliest, latest, an offset nor a time")
    return ends.earliest if start == "earliest" else ends.latest + 1


async def _offset_at(transport: Transport, log: LogId, time: dt.datetime) -> int:
    """The offset of the first message at or after a time; where none is, the end."""
    if time.tzinfo is None:
        raise ValueError("a time to read from needs a time zone")
    stamp = time.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    request = get(
        "topics", log.topic, "partitions", log.partition, "messages", timestamp=stamp, limit=1
    )
    page = await transport.read(request, _PAGES)
    return _PLACED.decode(page.messages[0]).offset if page.messages else page.next_offset
