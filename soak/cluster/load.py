"""Clients of a cluster whose nodes fail: they publish, work off a queue, write in transactions.

Each client works through the SDK and notes what it was told. It never guesses: an error means that
the outcome is unknown, unless the operation cannot have happened.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

import goqueue
from soak.cluster.evidence import QueueEvidence, TransactionEvidence
from soak.cluster.verdict import Acknowledged

__all__ = ["LEDGERS", "PARTITIONS", "TOPIC", "Load", "messages_of"]

TOPIC = "orders"
# What every transaction writes to.
LEDGERS = ("debits", "credits")
GROUP = "workers"
PARTITIONS = 6
PUBLISHERS = 4
WORKERS = 2
TRANSACTORS = 2
DRAIN_S_MAX = 120.0
_PAUSE_S = 0.005
_BATCH_MAX = 50
_ABORTED_SHARE = 0.2


class Load:
    """Clients of all kinds, and what they were told."""

    def __init__(self, connect: Callable[[], goqueue.Connection], chance: random.Random) -> None:
        self._connect = connect
        self._chance = chance
        self.acknowledged: list[Acknowledged] = []
        self.refused = 0
        # How long each publish took that was acknowledged.
        self.waits_s: list[float] = []
        self.queue = QueueEvidence()
        self.transactions = TransactionEvidence()
        # Publishers and transactors end, then workers when the queue is empty.
        self._is_over = False
        self._is_drained = False
        self._rounds = 0

    async def create_topics(self, q: goqueue.Connection, copies: int) -> None:
        for topic in (TOPIC, *LEDGERS):
            await q.topics.create(
                topic,
                partitions=PARTITIONS if topic == TOPIC else 2,
                replication_factor=copies,
                min_insync_replicas=min(2, copies),
                max_deliveries=0,
            )

    @contextlib.asynccontextmanager
    async def running(self, *, is_coordinated: bool = True) -> AsyncIterator[None]:
        """Clients work during the block, and come to an end behind it.

        Without `is_coordinated` they only publish, as with a cluster that serves nothing else.
        """
        self._is_over = self._is_drained = False
        self._rounds += 1
        clients = [self.publish(number) for number in range(PUBLISHERS)]
        working = []
        if is_coordinated:
            clients += [self.transact(number) for number in range(TRANSACTORS)]
            working = [asyncio.create_task(self.work()) for _ in range(WORKERS)]
        tasks = [asyncio.create_task(each) for each in clients]
        try:
            yield
        finally:
            self._is_over = True
            await asyncio.gather(*tasks)
        if working:
            async with self._connect() as q:
                await self._drain(q)
        self._is_drained = True
        await asyncio.gather(*working)

    async def publish(self, number: int) -> None:
        """Publish one message after the other, and remember what was acknowledged."""
        chance = random.Random(self._chance.random())
        async with self._connect() as q:
            count = 0
            while not self._is_over:
                count += 1
                value = f"{self._rounds}.{number}-{count}"
                began = time.monotonic()
                try:
                    sent = await q.publish(TOPIC, value, key=f"k{chance.randrange(100)}")
                except goqueue.GoQueueError:
                    # Whether it is stored is not known; it must not be stored twice.
                    self.refused += 1
                    continue
                self.waits_s.append(time.monotonic() - began)
                self.acknowledged.append(Acknowledged(value, sent.partition, sent.offset))
                await asyncio.sleep(_PAUSE_S)

    async def work(self) -> None:
        """Lease messages of the queue and acknowledge them, until it is empty for good."""
        async with self._connect() as q:
            while not self._is_drained:
                asked_at = time.monotonic()
                try:
                    messages = await q.receive(TOPIC, group=GROUP, max=_BATCH_MAX, wait=0.5)
                except goqueue.GoQueueError:
                    # Leases of an answer that was lost run out.
                    await asyncio.sleep(_PAUSE_S)
                    continue
                for message in messages:
                    self.queue.deliver((message.partition, message.offset), asked_at)
                await asyncio.gather(*map(self._ack, messages))

    async def _ack(self, message: goqueue.Message) -> None:
        try:
            await message.ack()
        except goqueue.GoQueueError:
            self.queue.refused += 1
        else:
            self.queue.acked[message.partition, message.offset] = time.monotonic()

    async def transact(self, number: int) -> None:
        """Write to every ledger in one transaction after the other; abort some of them."""
        chance = random.Random(self._chance.random())
        async with self._connect() as q:
            count = 0
            while not self._is_over:
                count += 1
                await self._transact_once(q, f"{self._rounds}.{number}-{count}", chance)
                await asyncio.sleep(_PAUSE_S)

    async def _transact_once(
        self, q: goqueue.Connection, value: str, chance: random.Random
    ) -> None:
        is_aborted = chance.random() < _ABORTED_SHARE
        outcome = self.transactions.aborted
        try:
            async with q.transaction(f"ledger-{value.partition('-')[0]}", timeout_s=10) as open_one:
                for topic in LEDGERS:
                    await open_one.publish(topic, value, key=value)
                if is_aborted:
                    await open_one.abort()
                else:
                    # From here on it may be committed.
                    outcome = self.transactions.unknown
            if not is_aborted:
                outcome = self.transactions.committed
        except goqueue.TransactionAborted:
            outcome = self.transactions.aborted
        except goqueue.GoQueueError:
            await asyncio.sleep(_PAUSE_S)
        outcome.add(value)

    async def _drain(self, q: goqueue.Connection) -> None:
        """Wait until the queue group has settled everything."""
        deadline = time.monotonic() + DRAIN_S_MAX
        while await self.lag(q):
            if time.monotonic() >= deadline:
                break
            await asyncio.sleep(0.1)

    async def lag(self, q: goqueue.Connection) -> int:
        """How many messages the queue group has not settled; 1 while nobody can say."""
        try:
            return (await q.groups.lag(GROUP)).total_lag
        except goqueue.GoQueueError:
            return 1

    async def visible(self, q: goqueue.Connection) -> dict[str, Counter[str]]:
        """What committed readers see of each ledger."""
        found: dict[str, Counter[str]] = {}
        for topic in LEDGERS:
            found[topic] = Counter([each.text async for each in messages_of(q, topic)])
        return found

    async def violations(self, q: goqueue.Connection, stored: set[tuple[int, int]]) -> list[str]:
        """What is wrong with queue and transactions, if the topic has messages at these places."""
        broken = self.transactions.violations(await self.visible(q))
        return self.queue.violations(stored, await self.lag(q)) + broken


async def messages_of(q: goqueue.Connection, topic: str) -> AsyncIterator[goqueue.Message]:
    """All messages of a topic below its high watermarks."""
    for partition in await q.topics.partitions(topic):
        offset = partition.earliest_offset
        while offset < partition.high_watermark:
            page = await q.page(
                topic, partition.partition, offset=offset, limit=1000, isolation="read_committed"
            )
            for each in page.messages:
                yield each.message
            if page.next_offset <= offset:
                break
            offset = page.next_offset
