"""Members as thin as can be, of both protocols, and the joins that are measured."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Iterator

import msgspec
import uvloop

from bench.broker_process import BrokerProcess
from bench.figure import Detail, Figure, Target
from bench.wire import Wire

__all__ = ["large", "small"]

_TOPIC = "orders"
_BEAT_S = 3.0
_PROBE_EVERY_S = 0.004
_QUIET_S = 1.0


class _Result(msgspec.Struct):
    """What the joins of one protocol came to."""

    seconds: list[float] = []
    refused: int = 0
    paused: set[int] = set()
    quiet_ms: float = 0.0
    worst_ms: float = 0.0


class _Member:
    """One member: a connection that polls, and one that sends heartbeats."""

    def __init__(self, group: "_Group", polling: Wire, beating: Wire) -> None:
        self._group = group
        self._polling = polling
        self._beating = beating
        self._tasks: list[asyncio.Task[None]] = []
        self.id = ""
        self.generation = 0
        self.assigned: frozenset[int] = frozenset()
        self.knows_at = 0.0

    @property
    def _path(self) -> str:
        return f"/groups/{self._group.name}"

    async def join(self) -> None:
        is_cooperative = self._group.is_cooperative
        fields = {"client_id": "bench", "topics": [_TOPIC], "session_timeout": "60s"}
        if not is_cooperative:
            fields["assignor"] = "sticky"
        path = f"{self._path}/join/cooperative" if is_cooperative else f"{self._path}/join"
        joined = await self._beating.ask("POST", path, fields)
        self.id = joined["member_id"]
        if not is_cooperative:
            self._adopt(joined["generation"], joined["assigned_partitions"])
        else:
            self.generation = joined["generation"]
        beat = self._beat_cooperatively if is_cooperative else self._beat_eagerly
        self._tasks = [asyncio.create_task(beat()), asyncio.create_task(self._poll())]

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # Whoever is gone hears no answer.
        self._polling.close()
        self._beating.close()
        wire = await Wire.open(self._group.port)
        await wire.ask("POST", f"{self._path}/leave", {"member_id": self.id})
        wire.close()

    async def _beat_cooperatively(self) -> None:
        wait = 0.0
        while True:
            fields = {"member_id": self.id, "generation": self.generation, "wait": wait}
            told = await self._beating.ask("POST", f"{self._path}/heartbeat/cooperative", fields)
            wait = 30.0
            names = [f"{each['topic']}-{each['partition']}" for each in told["partitions_assigned"]]
            self._adopt(told["generation"], names)
            gone = told["partitions_to_revoke"]
            if gone:
                fields = {
                    "member_id": self.id,
                    "generation": self.generation,
                    "revoked_partitions": gone,
                }
                with contextlib.suppress(RuntimeError):
                    await self._beating.ask("POST", f"{self._path}/revoke", fields)

    async def _beat_eagerly(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            await self._beat_once(self._beating)

    async def _beat_once(self, wire: Wire) -> None:
        fields = {"member_id": self.id, "generation": self.generation}
        told = await wire.ask("POST", f"{self._path}/heartbeat", fields)
        self._adopt(told["generation"], told["assigned_partitions"])

    def _adopt(self, generation: int, names: list[str]) -> None:
        if generation != self.generation or not self.assigned:
            self.generation = generation
            self.knows_at = time.perf_counter()
            self._group.has_changed.set()
        self.assigned = frozenset(int(name.rpartition("-")[2]) for name in names)

    async def _poll(self) -> None:
        """Poll with the generation that is known; a member that is refused asks for the new one."""
        while True:
            fields = {"member_id": self.id, "generation": self.generation, "timeout": "10s"}
            try:
                answer = await self._polling.ask("POST", f"{self._path}/poll", fields)
            except RuntimeError as refused:
                if "generation_stale" not in str(refused):
                    raise
                self._group.result.refused += 1
                self._group.result.paused |= self.assigned
                await self._beat_once(self._polling)
                continue
            messages = answer["messages"]
            now = time.perf_counter()
            for message in messages:
                self._group.delivered(now - float(message["value"]))
            if messages:
                receipts = [message["receipt_handle"] for message in messages]
                fields = {"receipt_handles": receipts}
                await self._polling.ask("POST", "/messages/ack/batch", fields)


class _Group:
    """A group under measurement."""

    def __init__(self, port: int, name: str, *, is_cooperative: bool) -> None:
        self.port = port
        self.name = name
        self.is_cooperative = is_cooperative
        self.result = _Result()
        self.members: list[_Member] = []
        self.has_changed = asyncio.Event()
        self._worst_s = 0.0

    async def add(self) -> _Member:
        wires = [await Wire.open(self.port), await Wire.open(self.port)]
        member = _Member(self, *wires)
        self.members.append(member)
        await member.join()
        return member

    async def settle(self) -> None:
        """Wait until every member knows the generation, and everything has an owner."""
        while not self._is_settled():
            self.has_changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.has_changed.wait()

    def _is_settled(self) -> bool:
        newest = max(member.generation for member in self.members)
        return all(each.generation == newest and each.assigned for each in self.members)

    def delivered(self, seconds: float) -> None:
        self._worst_s = max(self._worst_s, seconds)

    def take_worst_ms(self) -> float:
        worst, self._worst_s = self._worst_s, 0.0
        return worst * 1000


async def _measure(group: _Group, count: int, rounds: int) -> None:
    for _ in range(count):
        await group.add()
    await group.settle()
    # What the first member keeps in a sticky assignment is its first partition.
    stays = min(group.members[0].assigned)
    probing = asyncio.create_task(_probe(group.port, stays))
    group.take_worst_ms()
    await asyncio.sleep(_QUIET_S)
    group.result.quiet_ms = group.take_worst_ms()
    for _ in range(rounds):
        group.result.paused.clear()
        began = time.perf_counter()
        newcomer = await group.add()
        await group.settle()
        ended = max(member.knows_at for member in group.members)
        group.result.seconds.append(ended - began)
        await asyncio.sleep(0.1)
        group.result.worst_ms = max(group.result.worst_ms, group.take_worst_ms())
        group.members.remove(newcomer)
        await newcomer.leave()
        await group.settle()
        await asyncio.sleep(0.05)
        group.take_worst_ms()
    probing.cancel()
    await asyncio.gather(probing, return_exceptions=True)
    for member in list(group.members):
        await member.leave()


async def _probe(port: int, partition: int) -> None:
    """Publish the time into one partition, again and again."""
    wire = await Wire.open(port)
    try:
        while True:
            message = {"value": str(time.perf_counter()), "partition": partition}
            await wire.ask("POST", f"/topics/{_TOPIC}/messages", {"messages": [message]})
            await asyncio.sleep(_PROBE_EVERY_S)
    finally:
        wire.close()


def _rebalance(folder: str, members: int, partitions: int, rounds: int) -> tuple[_Result, _Result]:
    async def run() -> tuple[_Result, _Result]:
        wire = await Wire.open(broker.port)
        fields = {"name": _TOPIC, "num_partitions": partitions}
        await wire.ask("POST", "/topics", fields)
        results = []
        for name, is_cooperative in (("cooperative", True), ("eager", False)):
            group = _Group(broker.port, name, is_cooperative=is_cooperative)
            await _measure(group, members, rounds)
            results.append(group.result)
        return results[0], results[1]

    with BrokerProcess(folder) as broker:
        return uvloop.run(run())


def small(folder: str, scale: float) -> Iterator[Figure]:
    """One more of ten members over a hundred partitions."""
    members, partitions = (10, 100) if scale > 0.1 else (3, 12)
    size = _Size(members, partitions, max(3, int(30 * scale)), 0.3)
    yield from _figures(folder, "small", size)


def large(folder: str, scale: float) -> Iterator[Figure]:
    """One more of a hundred members over a thousand partitions."""
    members, partitions = (100, 1000) if scale > 0.1 else (6, 30)
    size = _Size(members, partitions, max(3, int(30 * scale)), 1.0)
    yield from _figures(folder, "large", size)


class _Size(msgspec.Struct, frozen=True):
    """How large the groups are, how often a member joins, and how long that may take."""

    members: int
    partitions: int
    rounds: int
    below_s: float


def _figures(folder: str, name: str, measured: _Size) -> Iterator[Figure]:
    members, partitions, rounds = measured.members, measured.partitions, measured.rounds
    cooperative, eager = _rebalance(folder, members, partitions, rounds)
    size: dict[str, Detail] = {"members": members, "partitions": partitions, "joins": rounds}
    p99, eager_p99 = _p99(cooperative.seconds), _p99(eager.seconds)
    yield Figure(
        figure=f"rebalance_{name}_p99",
        value=round(p99, 4),
        unit="s",
        raw=round(eager_p99, 4),
        ratio=round(eager_p99 / p99, 2),
        target=Target(below=measured.below_s),
        details={
            **size,
            "p50": round(statistics.median(cooperative.seconds), 4),
            "eager_p50": round(statistics.median(eager.seconds), 4),
        },
    )
    yield Figure(
        figure=f"rebalance_{name}_refused_polls",
        value=cooperative.refused,
        unit="polls",
        raw=eager.refused,
        target=Target(below=1),
        details={**size, "paused": len(cooperative.paused), "eager_paused": len(eager.paused)},
    )
    yield Figure(
        figure=f"rebalance_{name}_unmoved_worst",
        value=round(cooperative.worst_ms, 2),
        unit="ms",
        raw=round(eager.worst_ms, 2),
        details={
            "quiet": round(cooperative.quiet_ms, 2),
            "eager_quiet": round(eager.quiet_ms, 2),
        },
    )


def _p99(seconds: list[float]) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
