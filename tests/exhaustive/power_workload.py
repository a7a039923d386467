"""Users of a node on its real shell, all at once, and what each of them was told, and when.

"When" is a place in the record of the disk: whatever was told before the power went must hold.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from goqueue.broker import JournalLimits, Node
from goqueue.model import LOCAL, SECOND, Cleanup, Flush, Message
from goqueue.model.requests import (
    Ack,
    Acked,
    BeginTransaction,
    Command,
    CreateTopic,
    EndTransaction,
    InitProducer,
    Join,
    Joined,
    Leased,
    Mode,
    Owner,
    ProducerGranted,
    ProducerStamp,
    Publish,
    Published,
    Reply,
    TopicConfig,
    TopicDescription,
    TransactionBegan,
    TransactionEnded,
    lease_of,
)
from goqueue.records import build
from goqueue.runtime import Disk, EventLog, OsFileSystem, Pump
from goqueue.runtime.log_events import Level
from tests.exhaustive.recording_files import Change, RecordingFiles, Renamed
from tests.unit.broker.users import deliveries, polling

SECRET = bytes(range(32))
# Small enough that snapshots are kept and journals are stated again in a short life.
LIMITS = JournalLimits(snapshot_bytes=8_000, restate_bytes=40_000)
SEGMENT_BYTES = 64 * 1024
NEVER = 1 << 60
_PATIENCE_S = 120
TOPICS = {
    "plain": TopicConfig(segment_bytes=SEGMENT_BYTES),
    "numbered": TopicConfig(segment_bytes=256 * 1024),
    "txn": TopicConfig(segment_bytes=SEGMENT_BYTES),
    "jobs": TopicConfig(segment_bytes=SEGMENT_BYTES, max_deliveries=0),
    "keyed": TopicConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy=Cleanup.COMPACT),
    "short": TopicConfig(segment_bytes=SEGMENT_BYTES, retention_bytes=2 * SEGMENT_BYTES),
    "flushed": TopicConfig(
        segment_bytes=SEGMENT_BYTES, flush_policy=Flush.INTERVAL, flush_interval_ms=200
    ),
}

R = TypeVar("R", bound=Reply)


class Sent(msgspec.Struct, kw_only=True):
    """A batch: when it was sent, when it was acknowledged, and where it went."""

    values: tuple[bytes, ...]
    keys: tuple[bytes, ...] = ()
    sequence: int | None = None
    sent: int
    acked: int = NEVER
    first: int = -1


class Deal(msgspec.Struct, kw_only=True):
    """A transaction: its batches, how it was to end, and when that was asked and answered."""

    batches: list[Sent]
    is_commit: bool
    ending: int = NEVER
    ended: int = NEVER


class Settled(msgspec.Struct, kw_only=True):
    """Acks of messages, by value."""

    values: tuple[bytes, ...]
    asked: int
    answered: int = NEVER


class Told(msgspec.Struct, kw_only=True):
    """All that users did and were told, and the record of the disk below it."""

    changes: tuple[Change, ...] = ()
    ready: int = 0
    sent: dict[str, list[Sent]] = {}
    deals: list[Deal] = []
    acks: list[Settled] = []
    producer: Owner | None = None
    dealer: Owner | None = None


class Shell:
    """A node with its pump and its disk thread, over a disk that keeps a record."""

    def __init__(self, root: Path, seed: int) -> None:
        self.files = RecordingFiles(OsFileSystem(str(root)))
        self.halts: list[str] = []
        self.pump = Pump(Node("node-1", SECRET, LIMITS), self.halts.append)
        self.disk = Disk(
            self.files,
            self.pump.take_from_disk,
            log=EventLog(lambda line: self.halts.append(line.decode()), level=Level.WARNING),
            crashed=self.pump.take_crash,
            reserve_bytes=1 << 16,
        )
        self.random = Random(seed)
        self.told = Told(sent={name: [] for name in TOPICS})

    @property
    def place(self) -> int:
        return len(self.files.record)

    async def ask(self, command: Command, expected: type[R]) -> R:
        reply = await self.pump.ask(command, LOCAL)
        assert isinstance(reply, expected), reply
        return reply

    async def live(self, rounds: int) -> Told:
        """Start, let everybody do their part, and end as if nothing had happened to the disk."""
        self.disk.start()
        self.pump.start(self.disk)
        await self.pump.wait_until_serving()
        for name, config in TOPICS.items():
            await self.ask(CreateTopic(name=name, partitions=1, config=config), TopicDescription)
        self.told.producer = await self._producer(None)
        self.told.dealer = await self._producer("dealer")
        await self.ask(
            Join(
                group="workers",
                client_id="c1",
                topics=("jobs",),
                token="c100",  # noqa: S106 - a member's name, no secret
                mode=Mode.SHARED,
            ),
            Joined,
        )
        self.told.ready = self.place
        clients: list[Callable[[int], object]] = [
            lambda n: self._publish("plain", n, sizes=(1, 12, 3_000)),
            lambda n: self._publish("jobs", n, sizes=(1, 6, 1_600)),
            lambda n: self._publish("short", n, sizes=(2, 4, 6_000)),
            lambda n: self._publish("flushed", n, sizes=(1, 6, 3_000)),
            self._publish_keys,
            self._publish_numbered,
            self._deal,
            self._work,
        ]
        await asyncio.gather(*(self._repeat(client, rounds) for client in clients))
        while not self._is_tidied():
            # Upkeep comes every second and looks at one log each time; a worker waits for jobs.
            await self._work(0)
        await asyncio.gather(*(self._repeat(client, 3) for client in clients))
        self.told.changes = self.files.record.changes
        await self.pump.stop()
        await asyncio.to_thread(self.disk.close)
        assert not self.halts, self.halts
        return self.told

    def _is_tidied(self) -> bool:
        """Whether retention and compaction have both removed something."""
        renames = [each for each in self.files.record.changes if isinstance(each, Renamed)]
        retired = any("/short/" in (each.old or "") for each in renames if each.new is None)
        return retired and any("/keyed/" in (each.old or "") for each in renames if each.new)

    async def _repeat(self, client: "Callable[[int], object]", rounds: int) -> None:
        for number in range(rounds):
            step = client(number)
            assert asyncio.iscoroutine(step)
            await step

    async def _producer(self, name: str | None) -> Owner:
        granted = await self.ask(InitProducer(transactional_id=name), ProducerGranted)
        return Owner(
            producer_id=granted.producer_id, epoch=granted.epoch, transactional_id=name or ""
        )

    def _values(self, word: str, count: int, size: int) -> tuple[bytes, ...]:
        number = len(self.told.sent[word]) + 1_000 * len(self.told.deals)
        fill = self.random.randbytes(size // 2).hex().encode()
        return tuple(b"%s-%d-%d-%s" % (word.encode(), number, i, fill) for i in range(count))

    async def _send(self, topic: str, sent: Sent, stamp: ProducerStamp | None = None) -> None:
        keys: Sequence[bytes] = sent.keys or [b""] * len(sent.values)
        batch = build(
            [Message(key=key, value=value) for key, value in zip(keys, sent.values, strict=True)]
        )
        command = Publish(topic=topic, batch=batch, targets=[0] * len(sent.values), producer=stamp)
        published = await self.ask(command, Published)
        [placed] = published.placed
        assert placed.refused is None, placed
        sent.first = placed.first
        sent.acked = self.place

    async def _publish(self, topic: str, _: int, *, sizes: tuple[int, int, int]) -> None:
        count = self.random.randrange(sizes[0], sizes[1] + 1)
        values = self._values(topic, count, self.random.randrange(10, sizes[2]))
        sent = Sent(values=values, sent=self.place)
        self.told.sent[topic].append(sent)
        await self._send(topic, sent)

    async def _publish_keys(self, _: int) -> None:
        values = self._values("keyed", 3, 3_000)
        keys = tuple(b"k%d" % self.random.randrange(12) for _ in values)
        sent = Sent(values=values, keys=keys, sent=self.place)
        self.told.sent["keyed"].append(sent)
        await self._send("keyed", sent)

    async def _publish_numbered(self, _: int) -> None:
        """Batches of several pages, one behind the other."""
        owner = self.told.producer
        assert owner is not None
        before = self.told.sent["numbered"]
        sequence = sum(len(each.values) for each in before)
        values = self._values("numbered", self.random.randrange(4, 30), 1_500)
        sent = Sent(values=values, sequence=sequence, sent=self.place)
        before.append(sent)
        await self._send("numbered", sent, _stamp(owner, sequence))

    async def _deal(self, number: int) -> None:
        """A transaction of two batches; every third one is aborted."""
        owner = self.told.dealer
        assert owner is not None
        deal = Deal(batches=[], is_commit=number % 3 != 1)
        await self.ask(BeginTransaction(owner=owner), TransactionBegan)
        self.told.deals.append(deal)
        for _ in range(2):
            sequence = sum(len(b.values) for each in self.told.deals for b in each.batches)
            values = self._values("txn", self.random.randrange(2, 20), 900)
            sent = Sent(values=values, sequence=sequence, sent=self.place)
            deal.batches.append(sent)
            await self._send("txn", sent, _stamp(owner, sequence))
        deal.ending = self.place
        ending = EndTransaction(owner=owner, is_commit=deal.is_commit)
        await self.ask(ending, TransactionEnded)
        deal.ended = self.place

    async def _work(self, _: int) -> None:
        """Take jobs and acknowledge most of them."""
        leased = deliveries(await self.ask(polling("workers", count=8, wait_ns=SECOND), Leased))
        chosen = [each for each in leased if self.random.random() < 0.8]
        if not chosen:
            return
        values = tuple(each.value or b"" for each in chosen)
        settled = Settled(values=values, asked=self.place)
        self.told.acks.append(settled)
        acked = await self.ask(
            Ack(leases=tuple(map(lease_of, tuple(each.receipt for each in chosen)))), Acked
        )
        assert all(each.code is None for each in acked.settlements)
        settled.answered = self.place


def _stamp(owner: Owner, sequence: int) -> ProducerStamp:
    return ProducerStamp(producer_id=owner.producer_id, epoch=owner.epoch, sequence=sequence)


def record_a_life(root: Path, seed: int, rounds: int) -> Told:
    async def run() -> Told:
        shell = Shell(root, seed)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await shell.live(rounds)
        except TimeoutError:
            raise AssertionError(f"the node does not answer: {shell.halts}") from None

    return asyncio.run(run())


def start_and_stop(root: Path) -> None:
    """A node starts on these files, serves, and stops."""

    async def run() -> None:
        halts: list[str] = []
        pump = Pump(Node("node-1", SECRET, LIMITS), halts.append)
        disk = Disk(OsFileSystem(str(root)), pump.take_from_disk, crashed=pump.take_crash)
        disk.start()
        pump.start(disk)
        async with asyncio.timeout(_PATIENCE_S):
            await pump.wait_until_serving()
            await pump.stop()
        await asyncio.to_thread(disk.close)
        assert not halts, halts

    asyncio.run(run())
