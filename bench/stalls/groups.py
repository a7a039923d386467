"""Rows about groups: polls that wait, positions, members, and what is settled."""

import asyncio
import time
from functools import partial

import msgspec

from bench.stalls.stage import Stage, Stall, encoded
from bench.wire import Wire, request
from goqueue.model import LogId, Message
from goqueue.records import build
from goqueue.runtime import LocalLog
from goqueue.transactions import KeyKept

__all__ = [
    "hidden_ack",
    "idle_polls",
    "keys",
    "many_partitions",
    "markers",
    "positions",
    "settled_above",
    "shared_join",
]

_TOPIC = "orders"
_MESSAGE = {"topic": _TOPIC, "value": "x"}
_PARTITIONS = 100
# Each is some 7 KiB of the journal, which keeps a snapshot every 4 MiB.
_COMMITS = 1500
_JOURNAL = LogId("__groups", 0)
_KEYS_A_RECORD = 1000
# A tenant may have a tenth of the keys of a node.
_TENANTS = 10
_PUBLISH = request("POST", f"/topics/{_TOPIC}/messages", encoded({"messages": [{"value": "x"}]}))


async def idle_polls(stage: Stage, size: int, partitions: int = _PARTITIONS) -> Stall:
    """Publish one message while groups wait at all partitions."""
    await stage.create(_TOPIC, partitions)
    waiting: list[tuple[Wire, asyncio.Task[bytes]]] = []
    for number in range(size):
        member = await stage.join(f"g{number}", [_TOPIC], start_position="latest")
        wire = await Wire.open(stage.broker.port)
        target = f"/groups/g{number}/poll?member_id={member}&timeout=60s&max_messages=1"
        waiting.append((wire, asyncio.create_task(wire.send(request("GET", target)))))
    await asyncio.sleep(1)
    # To the topic that they all wait at; each answers them all, so one is all there is.
    stall = await stage.repeat(_PUBLISH, 1, size)
    for wire, task in waiting:
        task.cancel()
        wire.close()
    return stall


async def many_partitions(stage: Stage, size: int) -> Stall:
    """One command each that reaches all partitions of a very large topic."""
    await stage.create(_TOPIC, size)
    member = await stage.join("billing", [_TOPIC])
    messages = [{"value": "x", "partition": each} for each in range(size)]
    places = {"member_id": member, "offsets": {_TOPIC: dict.fromkeys(map(str, range(size)), 1)}}
    reset = {"topic": _TOPIC, "strategy": "earliest"}

    async def work() -> None:
        await stage.ask("POST", f"/topics/{_TOPIC}/messages", {"messages": messages})
        await stage.ask("POST", "/groups/billing/offsets", places)
        await stage.ask("GET", "/groups/billing/offsets")
        await stage.ask("POST", "/groups/billing/offsets/reset", reset)
        await stage.ask("DELETE", f"/topics/{_TOPIC}")

    return await stage.during(work, 5 * size)


async def positions(stage: Stage, size: int) -> Stall:
    """Commit until the journal keeps a snapshot of all positions."""
    groups = max(1, size // _PARTITIONS)
    rounds = -(-_COMMITS // groups)
    await _begin_committing(stage, rounds)
    await stage.send_all(_commits(groups, 1))

    async def work() -> None:
        for offset in range(2, 2 + rounds):
            await stage.send_all(_commits(groups, offset))
        await asyncio.sleep(2.5)

    return await stage.during(work, groups * _PARTITIONS)


async def _begin_committing(stage: Stage, rounds: int) -> None:
    await stage.create(_TOPIC, _PARTITIONS)
    for partition in range(_PARTITIONS):
        await stage.publish(_TOPIC, rounds + 1, partition=partition)


def _commits(groups: int, offset: int) -> list[bytes]:
    places = {str(partition): offset for partition in range(_PARTITIONS)}
    body = encoded({"offsets": {_TOPIC: places}})
    return [request("POST", f"/groups/g{each}/offsets", body) for each in range(groups)]


async def keys(stage: Stage, size: int) -> Stall:
    """Keep a snapshot of the groups' journal with many keys of group commits."""
    await _begin_committing(stage, _COMMITS)
    # Each takes three requests and a transaction: as many as a node keeps would take an hour.
    await stage.restart(partial(_keep_keys, size))

    async def work() -> None:
        for offset in range(1, _COMMITS):
            await stage.send_all(_commits(1, offset))
        await asyncio.sleep(2.5)

    return await stage.during(work, size)


def _keep_keys(size: int, data: str) -> None:
    """Append to the journal of a node that is stopped what it would have written for these."""
    at = time.time_ns()
    with LocalLog(data, _JOURNAL) as journal:
        for first in range(0, size, _KEYS_A_RECORD):
            kept = [
                KeyKept(key=f"key-{number}", at=at, tenant=f"tenant-{number % _TENANTS}")
                for number in range(first, min(size, first + _KEYS_A_RECORD))
            ]
            batch = build([Message(value=msgspec.json.encode(kept))])
            journal.wait_for_commit(journal.append(batch).next)


async def settled_above(stage: Stage, size: int) -> Stall:
    """A group comes back to a message that it left, with all behind it settled."""
    await stage.create(_TOPIC)
    await stage.publish(_TOPIC, size + 1)
    member = await stage.join("billing", [_TOPIC])
    settled = -1
    while settled < size:
        receipts = await stage.poll("billing", member)
        # The first message is never settled.
        kept = receipts[1:] if settled < 0 else receipts
        settled = max(settled, 0) + len(kept)
        body = encoded({"receipt_handles": kept})
        await stage.wires[0].send(request("POST", "/messages/ack/batch", body))

    async def work() -> None:
        await stage.ask("POST", "/groups/billing/leave", {"member_id": member})
        again = await stage.join("billing", [_TOPIC])
        receipts = await stage.poll("billing", again)
        assert len(receipts) == 1, f"{len(receipts)} messages came again"

    return await stage.during(work, size)


async def shared_join(stage: Stage, size: int) -> Stall:
    """The last of many members that share as many partitions joins."""
    await stage.create(_TOPIC, size)
    for _ in range(size - 10):
        await stage.join("billing", [_TOPIC], mode="shared")
    body = {"client_id": "c", "topics": [_TOPIC], "session_timeout": "10m", "mode": "shared"}
    join = request("POST", "/groups/billing/join", encoded(body))
    return await stage.repeat(join, 10, size)


async def hidden_ack(stage: Stage, size: int) -> Stall:
    """Ack a message before a marker while many behind it are handed out and not settled."""
    await stage.create(_TOPIC)
    named = {"transactional_id": "t"}
    identity = await stage.ask("POST", "/producers/init", named)
    owner = {**identity, **named}
    for _ in range(10):
        await stage.ask("POST", "/transactions/begin", owner)
        await stage.ask("POST", "/transactions/publish", {**identity, **_MESSAGE})
        await stage.ask("POST", "/transactions/commit", owner)
    await stage.publish(_TOPIC, size)
    receipts = await stage.lease("billing", _TOPIC, size)
    acks = [
        request("POST", "/messages/ack", encoded({"receipt_handle": each})) for each in receipts
    ]

    async def work() -> None:
        for ack in acks[:10]:
            await stage.wires[0].send(ack)

    return await stage.during(work, 10)


async def markers(stage: Stage, size: int) -> Stall:
    """Transactions commit on a node with many groups elsewhere."""
    await stage.create("elsewhere")
    await stage.create(_TOPIC)
    body = encoded({"offsets": {"elsewhere": {"0": 0}}})
    await stage.send_all(request("POST", f"/groups/g{each}/offsets", body) for each in range(size))
    named = {"transactional_id": "t"}
    identity = await stage.ask("POST", "/producers/init", named)
    owner = {**identity, **named}

    async def work() -> None:
        for _ in range(100):
            await stage.ask("POST", "/transactions/begin", owner)
            await stage.ask("POST", "/transactions/publish", {**identity, **_MESSAGE})
            await stage.ask("POST", "/transactions/commit", owner)

    return await stage.during(work, 100)
