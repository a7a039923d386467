"""The partitions of this node: each a log, who waits for its commits, who waits for its messages.

Invariant: publications wait in the order of their offsets, so one look at the front tells which
are committed, and those that a full disk took back are the ones at the end.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from goqueue.broker.catalog import Topic
from goqueue.broker.delayed.delay_log import Replay
from goqueue.broker.trace_recorder import PublishTrace
from goqueue.log import Log
from goqueue.model import (
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
    Violation,
)
from goqueue.model.requests import Placed, Publish, Published, Read, Watch
from goqueue.records import Buffer
from goqueue.transactions import Admission

__all__ = [
    "ClusterGate",
    "CommittedRecords",
    "FoldState",
    "ForMarker",
    "ForMove",
    "ForTick",
    "InTransaction",
    "KeptBatch",
    "LedPartition",
    "Partition",
    "Partitions",
    "Publication",
    "Unconfirmed",
    "WaitingRead",
    "check_copies",
    "free",
]


_NEVER = Instant(0)
# Records that a turn commits are at hand for those who wait for them, up to this size together.
_KEPT_BYTES_MAX = 64 * 1024


class CommittedRecords(msgspec.Struct, frozen=True):
    """Records that were just committed, as they are stored: all from `first` up to `next`."""

    first: Offset
    next: Offset
    data: memoryview


class ForMove(msgspec.Struct, frozen=True):
    """Copies of messages that the node moves itself."""

    batch: int


class ForTick(msgspec.Struct, frozen=True):
    """Messages of schedules."""

    batch: int


class ForMarker(msgspec.Struct, frozen=True):
    """The end of a transaction in one partition."""

    transaction: TransactionKey
    log: LogId


class InTransaction(msgspec.Struct, frozen=True):
    """Messages that a transaction must not be committed without."""

    transaction: TransactionKey


class Unconfirmed(msgspec.Struct, frozen=True):
    """Messages whose publisher was answered before they were stored; metrics count them then."""

    request: RequestId


class Publication:
    """One publish command on its way: answered when every partition has said yes or no.

    `request` is None when nobody waits; `purpose` says who else is to be told, and `trace` is
    recorded once the publication is answered.
    """

    __slots__ = (
        "_missing",
        "_placed",
        "_targets",
        "_timestamp",
        "purpose",
        "request",
        "trace",
        "violations",
    )

    def __init__(
        self,
        request: RequestId | None,
        targets: list[int],
        parts: int,
        timestamp: Timestamp,
        *,
        purpose: ForMove | ForTick | ForMarker | InTransaction | Unconfirmed | None = None,
        trace: PublishTrace | None = None,
    ) -> None:
        self.request = request
        self.purpose = purpose
        self.trace = trace
        # Records that do not conform to their schema, by their place.
        self.violations: dict[int, Violation] = {}
        self._targets = targets
        self._missing = parts
        self._placed: list[Placed] = []
        self._timestamp = timestamp

    def place(
        self,
        partition: int,
        first: Offset,
        count: int,
        refused: Code | None = None,
        *,
        is_duplicate: bool = False,
        size: int = 0,
    ) -> Published | None:
        """One partition has decided: the whole answer, if it was the last."""
        placed = Placed(
            partition=partition,
            first=first,
            count=count,
            refused=refused,
            is_duplicate=is_duplicate,
            size=size,
        )
        self._placed.append(placed)
        self._missing -= 1
        return None if self._missing else self.published()

    def published(self) -> Published:
        """What is known so far; everything, once every partition has decided."""
        return Published(
            targets=self._targets,
            placed=tuple(self._placed),
            timestamp=self._timestamp,
            is_unconfirmed=self._missing > 0,
            violations=self.violations,
        )


class _Pending(msgspec.Struct, frozen=True):
    first: Offset
    next: Offset
    publication: Publication
    is_repeat: bool = False
    size: int = 0
    # When it was appended, where that matters: see `overdue`.
    at: Instant = Instant(0)
    # What was appended, as long as it is small.
    records: Buffer | None = None


class KeptBatch(msgspec.Struct, frozen=True):
    """A batch that a follower keeps in memory until it is committed."""

    first: Offset
    next: Offset
    data: Buffer


class FoldState:
    """How far a follower has folded its log into what it knows: see `DerivedState`."""

    __slots__ = (
        "delays_from",
        "folded",
        "is_reading",
        "kept",
        "kept_bytes",
        "producers_from",
        "read_upto",
        "replay",
        "run",
    )

    def __init__(self, folded: Offset, read_upto: Offset, run: int) -> None:
        # Everything below was folded.
        self.folded = folded
        # What is known of producers and of delays already, from snapshots or an earlier role.
        self.producers_from = folded
        self.delays_from = folded
        # Takes in what is said of delays; None until something is.
        self.replay: Replay | None = None
        # What is below this is on the disk only; what says something behind it is kept.
        self.read_upto = read_upto
        self.kept: deque[KeptBatch] | None = None
        self.kept_bytes = 0
        # Whether a snapshot or a piece is being read, and for which run: an older one is dropped.
        self.is_reading = False
        self.run = run

    @property
    def delays_known(self) -> Offset:
        """Delays are known as far as this, and no further."""
        return max(self.folded, self.delays_from)


class LedPartition(Protocol):
    """A partition of a cluster that this broker leads: see `PartitionLeader`."""

    @property
    def live_members(self) -> int: ...

    @property
    def minimum(self) -> int: ...

    @property
    def has_followers(self) -> bool: ...

    @property
    def is_handing_over(self) -> bool: ...

    def begin_epoch(self, now: Now) -> None: ...

    def is_confirmed(self, now: Instant) -> bool: ...

    def appended(self, first: Offset, following: Offset, data: Buffer, now: Instant) -> None: ...


def check_copies(led: LedPartition, partition: int) -> None:
    """Refuse, before anything is appended, what too few live copies would confirm."""
    if led.live_members < led.minimum:
        raise Refused(
            Code.NOT_ENOUGH_REPLICAS,
            partition=partition,
            replicas=led.live_members,
            expected=led.minimum,
        )


class ClusterGate(Protocol):
    """What handlers of commands ask in a cluster: see `ClusterMember`."""

    def check_leads(self, topic: int, partition: int, log: LogId) -> LedPartition:
        """The partition, if this broker leads it and may serve it; refuses otherwise."""

    def admit(
        self, request: RequestId, command: Publish, topic: Topic, now: Now
    ) -> Admission | None:
        """A batch of a producer; None if it waits for its transaction, and is published later."""


class WaitingRead(msgspec.Struct, frozen=True):
    """A reader at the end of the log."""

    request: RequestId
    command: Read | Watch
    offset: Offset
    deadline: Instant


class Partition:
    """One log and those who wait for it."""

    __slots__ = (
        "_committed",
        "_held",
        "_pending",
        "fold",
        "has_caught_up",
        "lacks_producers",
        "leader",
        "led_from",
        "log",
        "log_id",
        "readers",
    )

    def __init__(self, log_id: LogId, log: Log) -> None:
        self.log_id = log_id
        self.log = log
        self.readers: dict[RequestId, WaitingRead] = {}
        # None until the first: an empty deque is 760 bytes, and most of many partitions are quiet.
        self._pending: deque[_Pending] | None = None
        # Those that need only this broker's copy of a replicated log; None until the first.
        self._held: deque[_Pending] | None = None
        # In a cluster: who sends what is appended to other brokers, if this one leads.
        self.leader: LedPartition | None = None
        # In a cluster: how far a follower knows its producers and delays.
        self.fold: FoldState | None = None
        # In a cluster: whether this copy had, once, all that was committed when it began to follow.
        # Before that it is too late for groups.
        self.has_caught_up = True
        # Where its log ended when this broker began to lead it: it knew its delays up to there.
        self.led_from = Offset(0)
        # Whether damage was passed over when producers were folded: they may be unknown.
        self.lacks_producers = False
        # What the high watermark has passed in this turn.
        self._committed: list[_Pending] = []

    @property
    def delays_known(self) -> Offset | None:
        """How far its delays are known; None if that is further than it is committed."""
        committed = self.log.high_watermark
        known = max(committed, self.led_from) if self.fold is None else self.fold.delays_known
        return known if known <= committed else None

    @property
    def is_held(self) -> bool:
        """Whether a publisher waits for this broker's own copy, or for proof that it leads."""
        return bool(self._held)

    @property
    def is_awaited(self) -> bool:
        """Whether a reader or a publisher waits for this log."""
        return bool(self.readers or self._pending or self._held)

    def expect(
        self,
        first: Offset,
        following: Offset,
        publication: Publication,
        records: Buffer = b"",
        *,
        at: Instant = _NEVER,
    ) -> None:
        """A batch was appended: tell the publication what becomes of it."""
        if self._pending is None:
            self._pending = deque()
        size = len(records)
        kept = records if 0 < size <= _KEPT_BYTES_MAX else None
        pending = _Pending(first, following, publication, size=size, at=at, records=kept)
        self._pending.append(pending)

    def expect_held(
        self, first: Offset, following: Offset, publication: Publication, size: int, at: Instant
    ) -> None:
        """The same, if it is enough that this broker's own copy has it, as long as it leads.

        A broker that was deposed and does not know it must not answer: what it has is cut when it
        follows. So an answer also needs that all others of the ISR, of whom any successor is one,
        followed this broker within the last second.
        """
        if self._held is None:
            self._held = deque()
        self._held.append(_Pending(first, following, publication, size=size, at=at))

    def expect_repeat(
        self, first: Offset, following: Offset, publication: Publication
    ) -> Published | None:
        """A batch was here already: answer at once if it is committed, else together with it."""
        if following <= self.log.high_watermark:
            number = self.log_id.partition
            return publication.place(number, first, following - first, is_duplicate=True)
        if self._pending is None:
            self._pending = deque()
        places = enumerate(self._pending)
        behind = next((place for place, each in places if each.next > following), None)
        pending = _Pending(first, following, publication, is_repeat=True)
        self._pending.insert(len(self._pending) if behind is None else behind, pending)
        return None

    def committed(self, now: Instant) -> Iterator[tuple[Publication, Published]]:
        """Publications that are whole now that the high watermark has moved."""
        self._committed.clear()
        held, led = self._held, self.leader
        if held and held[0].next <= self.log.confirmed:
            if led is None or led.is_confirmed(now):
                yield from self._end(held, self.log.confirmed)
        if self._pending:
            yield from self._end(self._pending, self.log.high_watermark)

    def _end(
        self, pending: deque[_Pending], upto: Offset
    ) -> Iterator[tuple[Publication, Published]]:
        while pending and pending[0].next <= upto:
            done = pending.popleft()
            if done.records is not None:
                self._committed.append(done)
            published = done.publication.place(
                self.log_id.partition,
                done.first,
                done.next - done.first,
                is_duplicate=done.is_repeat,
                size=done.size,
            )
            if published is not None:
                yield done.publication, published

    def committed_records(self) -> CommittedRecords | None:
        """The records of the last `committed`, if they are few and lie side by side."""
        batches = self._committed
        if not batches or sum(each.size for each in batches) > _KEPT_BYTES_MAX:
            return None
        if batches[-1].next - batches[0].first != sum(each.next - each.first for each in batches):
            return None
        data = batches[0].records if len(batches) == 1 else b"".join(_records_of(batches))
        assert data is not None
        return CommittedRecords(batches[0].first, batches[-1].next, memoryview(data))

    def release_records(self) -> None:
        """The turn that committed them ends."""
        self._committed.clear()

    def taken_back(self, offset: Offset, code: Code) -> Iterator[tuple[Publication, Published]]:
        """Publications that end now because nothing from `offset` on will be committed."""
        for pending in (self._pending, self._held):
            while pending and pending[-1].next > offset:
                yield from self._refuse(pending.pop(), code)

    def overdue(self, before: Instant, code: Code) -> Iterator[tuple[Publication, Published]]:
        """Publications that were appended before an instant and wait no longer."""
        for pending in (self._pending, self._held):
            while pending and pending[0].at <= before:
                yield from self._refuse(pending.popleft(), code)

    def _refuse(self, lost: _Pending, code: Code) -> Iterator[tuple[Publication, Published]]:
        published = lost.publication.place(
            self.log_id.partition, lost.first, lost.next - lost.first, code
        )
        if published is not None:
            yield lost.publication, published


def _records_of(batches: Iterable[_Pending]) -> Iterator[Buffer]:
    for each in batches:
        assert each.records is not None, "only those are kept"
        yield each.records


def free(partitions: list[Partition]) -> Iterator[int]:
    """Give up partitions that were removed, one in each step."""
    while partitions:
        partitions.pop()
        yield 1


class Partitions:
    """The partitions by name."""

    def __init__(self) -> None:
        self._partitions: dict[LogId, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, log: LogId) -> Partition:
        return self._partitions[log]

    def get(self, log: LogId) -> Partition | None:
        return self._partitions.get(log)

    def present(self, log: LogId) -> Partition | None:
        """A partition if it is here: nothing is done to have it here."""
        return self.get(log)

    def find(self, log: LogId, count: int) -> Partition:
        """A partition of a topic that exists; refuses a number that it has not."""
        if log.partition < 0:
            raise Refused(Code.PARTITION_INVALID, partition=log.partition)
        partition = self._partitions.get(log)
        if partition is None:
            raise Refused(Code.PARTITION_NOT_FOUND, partition=log.partition, partitions=count)
        return partition

    def add(self, partition: Partition) -> None:
        self._partitions[partition.log_id] = partition

    def remove_all(self, logs: Iterable[LogId]) -> list[Partition]:
        """Remove the partitions that there are of these logs, and return them."""
        return [self._partitions.pop(log) for log in logs if log in self._partitions]
