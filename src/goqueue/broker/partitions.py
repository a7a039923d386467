"""The partitions of this node: each a log, who waits for its commits, who waits for its messages.

Invariant: publications wait in the order of their offsets, so one look at the front tells which
are committed, and those that a full disk took back are the ones at the end.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from goqueue.broker.trace_recorder import PublishTrace
from goqueue.log import Log
from goqueue.model import (
    Code,
    Instant,
    LogId,
    Offset,
    Refused,
    RequestId,
    Timestamp,
    TransactionKey,
)
from goqueue.model.requests import Placed, Published, Read, Watch

__all__ = [
    "ForMarker",
    "ForMove",
    "ForTick",
    "InTransaction",
    "Partition",
    "Partitions",
    "Publication",
    "WaitingRead",
]


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


class Publication:
    """One publish command on its way: answered when every partition has said yes or no.

    `request` is None when nobody waits; `purpose` says who else is to be told, and `trace` is
    recorded once the publication is answered.
    """

    __slots__ = ("_missing", "_placed", "_targets", "_timestamp", "purpose", "request", "trace")

    def __init__(
        self,
        request: RequestId | None,
        targets: list[int],
        parts: int,
        timestamp: Timestamp,
        *,
        purpose: ForMove | ForTick | ForMarker | InTransaction | None = None,
        trace: PublishTrace | None = None,
    ) -> None:
        self.request = request
        self.purpose = purpose
        self.trace = trace
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
        return Published(
            targets=self._targets, placed=tuple(self._placed), timestamp=self._timestamp
        )


class _Pending(msgspec.Struct, frozen=True):
    first: Offset
    next: Offset
    publication: Publication
    is_repeat: bool = False
    size: int = 0


class WaitingRead(msgspec.Struct, frozen=True):
    """A reader at the end of the log."""

    request: RequestId
    command: Read | Watch
    offset: Offset
    deadline: Instant


class Partition:
    """One log and those who wait for it."""

    __slots__ = ("_pending", "log", "log_id", "readers")

    def __init__(self, log_id: LogId, log: Log) -> None:
        self.log_id = log_id
        self.log = log
        self.readers: dict[RequestId, WaitingRead] = {}
        # None until the first: an empty deque is 760 bytes, and most of many partitions are quiet.
        self._pending: deque[_Pending] | None = None

    @property
    def is_awaited(self) -> bool:
        """Whether a reader or a publisher waits for this log."""
        return bool(self.readers or self._pending)

    def expect(
        self, first: Offset, following: Offset, publication: Publication, size: int = 0
    ) -> None:
        """A batch was appended: tell the publication what becomes of it."""
        if self._pending is None:
            self._pending = deque()
        self._pending.append(_Pending(first, following, publication, size=size))

    def expect_repeat(
        self, first: Offset, following: Offset, publication: Publication
    ) -> Published | None:
        """A batch was here already: answer at once if it is committed, else together with it."""
        if following <= self.log.high_watermark:
            number = self.log_id.partition
            return publication.place(number, first, following - first, is_duplicate=True)
        assert self._pending is not None, "what it repeats is on its way"
        places = enumerate(self._pending)
        behind = next((place for place, each in places if each.next > following), None)
        pending = _Pending(first, following, publication, is_repeat=True)
        self._pending.insert(len(self._pending) if behind is None else behind, pending)
        return None

    def committed(self) -> Iterator[tuple[Publication, Published]]:
        """Publications that are whole now that the high watermark has moved."""
        upto = self.log.high_watermark
        pending = self._pending
        while pending and pending[0].next <= upto:
            done = pending.popleft()
            published = done.publication.place(
                self.log_id.partition,
                done.first,
                done.next - done.first,
                is_duplicate=done.is_repeat,
                size=done.size,
            )
            if published is not None:
                yield done.publication, published

    def taken_back(self, offset: Offset, code: Code) -> Iterator[tuple[Publication, Published]]:
        """Publications that end now because nothing from `offset` on will be committed."""
        pending = self._pending
        while pending and pending[-1].next > offset:
            lost = pending.pop()
            published = lost.publication.place(
                self.log_id.partition, lost.first, lost.next - lost.first, code
            )
            if published is not None:
                yield lost.publication, published


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
