"""Leases: what a poll gets of each partition, how it is counted, and where its bytes are.

First deliveries do not wait for their count: after a crash such a message may be delivered as the
first again, and a count never falls. A redelivery is handed out only when its count is committed.

Messages of several lanes alternate in the log, and a read for each would be one for nearly each
message. So messages that are near each other are read together with what is between them, and the
receiver of the bytes picks out what was leased.

Invariant: every message is in a slice or lost, and a slice begins with a message that is wanted.
Cost per partition: one pass over what is leased, one journal entry, one question to the log.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, sub

import msgspec

from goqueue.broker.groups.read_ahead import ReadAhead
from goqueue.broker.journal_changes import Delivered, Settled
from goqueue.broker.outbox import ServeCounted
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.turns import ForQueue, take_all
from goqueue.delivery import (
    IN_FLIGHT_MAX,
    RECEIVED_MAX,
    DeliveryQueue,
    LeaseName,
    LeasePart,
    NewLease,
)
from goqueue.groups import Group, is_receiver, receiver_of
from goqueue.log import Log
from goqueue.model import (
    Code,
    FetchedSlice,
    Folded,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Serve,
    Slice,
    Timestamp,
)
from goqueue.model.requests import Leased, LeasedRun, PartitionLeases, Poll, Records, Reply
from goqueue.records import last_offset
from goqueue.tracing import Kind

__all__ = ["LeaseSlices", "PollLease", "PollLeases", "fill", "find_slices", "settle"]

# Messages with fewer offsets between them are read in one.
_GAP_MAX = 128
_SLICE_BYTES_MAX = 1024 * 1024
# If other records are at most a quarter of those that are leased, they are read along.
_BETWEEN_SHARE = 4

# How many queues are asked what a member holds for one unit of work.
_LOADS_PER_UNIT = 20

_offset_of = attrgetter("offset")
_size_of = attrgetter("size")


class LeaseSlices(msgspec.Struct, frozen=True):
    """What to read, and which messages cannot be read any more."""

    slices: tuple[Slice, ...]
    lost: list[int]


def find_slices(log: Log, offsets: Sequence[int], sizes: Sequence[int]) -> LeaseSlices:
    """Where messages stand of which the sorted offsets and the sizes are given."""
    ends = [len(offsets)]
    if not isinstance(offsets, range):
        steps = list(map(sub, offsets[1:], offsets))
        if steps and max(steps) > _GAP_MAX:
            ends = [place for place, step in enumerate(steps, 1) if step > _GAP_MAX] + ends
    slices: list[Slice] = []
    lost: list[int] = []
    place = 0
    for end in ends:
        while place < end:
            found = _find_slice(log, offsets[place:end], sum(sizes[place:end]))
            if found is None:
                lost.append(offsets[place])
                place += 1
            else:
                slices.append(found)
                # A read ends with its segment.
                place = bisect_left(offsets, found.below, place)
    return LeaseSlices(tuple(slices), lost)


def _find_slice(log: Log, offsets: Sequence[int], size: int) -> Slice | None:
    """A slice from the first of these messages on; None if that one cannot be read."""
    first, below = offsets[0], offsets[-1] + 1
    if below - first > len(offsets):
        # How large the records between are is not known: a quarter larger than the others.
        between = 5 * size * (below - first - len(offsets)) // (4 * len(offsets))
        size = min(size + between, max(size, _SLICE_BYTES_MAX))
    try:
        return log.read(Offset(first), size, below=Offset(below))
    except Refused:
        # The first of them is damaged; the others are asked for by themselves.
        return None


def fill(effect: Serve, read: Callable[[Slice], memoryview]) -> Reply:
    """The reply with the bytes that belong to it; raises what `read` does.

    Damage in one partition does not silence the others: a poll gets what can be read. The leases on
    the rest run out, and what is damaged is passed over the next time.
    """
    reply = effect.reply
    if isinstance(reply, Leased):
        partitions: list[PartitionLeases] = []
        damage: Refused | None = None
        for each, run in zip(reply.partitions, effect.runs, strict=True):
            try:
                data = _read_all(run, each, read)
            except Refused as refused:
                if refused.code is not Code.RECORDS_DAMAGED:
                    raise
                damage = refused
            else:
                partitions.append(msgspec.structs.replace(each, data=data))
        if damage is not None and not partitions:
            raise damage
        return msgspec.structs.replace(reply, partitions=tuple(partitions))
    assert isinstance(reply, Records)
    pieces = tuple(piece for each in effect.runs[0] for piece in _read_one(each, read))
    return msgspec.structs.replace(reply, data=pieces)


def _read_all(
    run: Sequence[Slice | FetchedSlice],
    leased: PartitionLeases,
    read: Callable[[Slice], memoryview],
) -> tuple[memoryview, ...]:
    """The records of these slices, at least those that are leased."""
    wanted = [each.wanted if isinstance(each, FetchedSlice) else each for each in run]
    if sum(each.below - each.offset for each in wanted) == len(leased):
        # Nothing is between them, so their size was known.
        return tuple(piece for each in run for piece in _read_one(each, read))
    offsets = leased.offsets
    return tuple(piece for each in run for piece in _read_span(each, offsets, read))


def _read_one(
    wanted: Slice | FetchedSlice, read: Callable[[Slice], memoryview]
) -> tuple[memoryview]:
    return (wanted.data if isinstance(wanted, FetchedSlice) else read(wanted),)


def _read_span(
    wanted: Slice | FetchedSlice,
    offsets: Sequence[int],
    read: Callable[[Slice], memoryview],
) -> list[memoryview]:
    """One slice, in as many reads as it takes if what is between was larger than expected."""
    if isinstance(wanted, FetchedSlice):
        # All of it was read ahead.
        return [wanted.data]
    pieces = [read(wanted)]
    reached = last_offset(pieces[0]) + 1
    if reached >= wanted.below:
        return pieces
    missing = sorted(offset for offset in offsets if wanted.offset < offset < wanted.below)
    place = bisect_left(missing, reached)
    while reached and place < len(missing):
        # A read brings one record at least. To ask for less and less keeps what is read for
        # nothing within bounds, however large that is.
        wanted = msgspec.structs.replace(
            wanted, offset=Offset(missing[place]), bytes_max=max(1, wanted.bytes_max // 2)
        )
        pieces.append(read(wanted))
        reached = last_offset(pieces[-1]) + 1
        place = max(place + 1, bisect_left(missing, reached))
    return pieces


class PollLease(msgspec.Struct, frozen=True):
    """What answers a poll, and whether it has to wait for the journal."""

    serve: Serve
    must_wait: bool


class _Room(msgspec.Struct, frozen=True):
    """What a poll may still be handed, and for how long."""

    member: str
    count: int
    size: int
    visibility_ns: int


class _Stored(msgspec.Struct, frozen=True):
    """Where the records of a share are, their size, and those that cannot be read any more."""

    slices: tuple[Slice | FetchedSlice, ...]
    size: int
    lost: frozenset[int] = frozenset()
    # The records alone, in the order of delivery.
    is_gathered: bool = False


class _Share(msgspec.Struct, frozen=True):
    """What a poll is handed of one partition."""

    leased: PartitionLeases
    slices: tuple[Slice | FetchedSlice, ...]
    size: int
    must_wait: bool


class PollLeases:
    """Hands out what is ready."""

    def __init__(self, state: NodeState, read_ahead: ReadAhead) -> None:
        self._state = state
        self._read_ahead = read_ahead
        self._turns: dict[int, int] = {}
        self._next_serial = 1
        self._exhausted: list[tuple[Group, LogId, LeasePart]] = []
        state.follow_ups.append(self._exhausted)

    def lease(
        self,
        group: Group,
        request: RequestId,
        command: Poll,
        ready: list[tuple[Partition, DeliveryQueue]],
        now: Now,
    ) -> PollLease | None:
        """PollLease to one poll what these queues have; None if that is nothing."""
        count_left, bytes_left = self._count_max(group, command), command.bytes_max
        shares: list[_Share] = []
        # Each poll begins with another partition, so that none is always the last.
        turn = self._turns[group.number] = self._turns.get(group.number, -1) + 1
        start = turn % len(ready)
        for partition, queue in ready[start:] + ready[:start]:
            if count_left <= 0 or (shares and bytes_left <= 0):
                break
            visibility_ns = command.visibility_ns or self._visibility_of(partition.log_id)
            holder = command.member_id
            if is_receiver(holder):
                # Of each topic, whatever else a request asks for, all receivers are one holder.
                holder = receiver_of(partition.log_id.topic)
            room = _Room(holder, count_left, bytes_left, visibility_ns)
            share = self._share(group, partition, queue, room, now)
            if share is not None:
                shares.append(share)
                count_left -= len(share.leased)
                bytes_left -= share.size
        if not shares:
            return None
        serve = Serve(
            request=request,
            reply=Leased(partitions=tuple(share.leased for share in shares)),
            runs=tuple(share.slices for share in shares),
        )
        return PollLease(serve, any(share.must_wait for share in shares))

    def _count_max(self, group: Group, command: Poll) -> int:
        """How many messages a poll may be handed: none if its member holds enough."""
        if command.in_flight_max is None:
            return command.messages_max
        queues = self._state.group_partitions.queues_of(group.number)
        self._state.budget.spend(len(queues) // _LOADS_PER_UNIT)
        held = sum(queue.load_of(command.member_id) for _, queue in queues)
        return min(command.messages_max, command.in_flight_max - held)

    def when_counted(self, serve: Serve) -> ServeCounted:
        """What hands out these messages once the journal has counted their deliveries."""
        assert isinstance(serve.reply, Leased)
        find = self._state.catalog.find
        numbers = tuple(find(each.log.topic).number for each in serve.reply.partitions)
        return ServeCounted(serve, numbers)

    def serve_counted(self, counted: ServeCounted) -> None:
        """Hand out messages whose deliveries are counted, but for those of topics deleted since."""
        reply, runs = counted.serve.reply, counted.serve.runs
        assert isinstance(reply, Leased)
        kept = [
            (each, run)
            for each, run, number in zip(reply.partitions, runs, counted.topics, strict=True)
            if self._state.catalog.numbered(number) is not None
        ]
        serve = Serve(
            request=counted.serve.request,
            reply=Leased(partitions=tuple(each for each, _ in kept)),
            runs=tuple(run for _, run in kept),
        )
        self._state.outbox.append(serve)

    def _share(
        self, group: Group, partition: Partition, queue: DeliveryQueue, room: _Room, now: Now
    ) -> _Share | None:
        begun = self._take(group, partition.log_id, queue, room, now)
        if not begun:
            return None
        stored = self._find_records(group, partition, begun)
        if stored.lost:
            begun = self._settle_lost(group, partition, queue, begun, stored.lost)
            if not begun:
                return None
        must_wait = self._count(group, partition, begun, now)
        parts = [LeasePart(each.lease, each.lease.in_flight) for each in begun]
        self._state.traces.leased(Kind.FETCH, group, partition.log_id, parts, now)
        alarm = ForQueue(group.number, partition.log_id)
        self._state.alarms.bring_forward(alarm, Instant(now.instant + room.visibility_ns))
        deadline = Timestamp(now.wall + room.visibility_ns)
        leased = self._partition_leases(group, partition, begun, stored, deadline)
        return _Share(leased, stored.slices, stored.size, must_wait)

    def _find_records(self, group: Group, partition: Partition, begun: list[NewLease]) -> _Stored:
        """The records of these leases: in memory where all are, else where to read them."""
        offsets = begun[0].lease.offsets
        if len(begun) > 1:
            offsets = sorted(chain.from_iterable(each.lease.offsets for each in begun))
        gathered = self._gather(group, partition, begun, offsets)
        if gathered is not None:
            return gathered
        messages = begun[0].lease.messages
        if len(begun) > 1:
            messages = sorted(
                [message for each in begun for message in each.lease.messages], key=_offset_of
            )
        sizes = list(map(_size_of, messages))
        size = sum(sizes)
        found = find_slices(partition.log, offsets, sizes)
        lost = frozenset(found.lost)
        if lost:
            size -= sum(message.size for message in messages if message.offset in lost)
        return _Stored(self._read_ahead.fetched(group.number, found.slices), size, lost)

    def _gather(
        self,
        group: Group,
        partition: Partition,
        begun: list[NewLease],
        offsets: Sequence[int],
    ) -> _Stored | None:
        """Scattered records, if all of them were read ahead and may be read still."""
        first, below = offsets[0], offsets[-1] + 1
        order, is_rising = begun[0].offsets, begun[0].offsets is begun[0].lease.offsets
        if len(begun) > 1:
            order, is_rising = [each for lease in begun for each in lease.offsets], False
        if is_rising and _BETWEEN_SHARE * (below - first - len(offsets)) <= len(offsets):
            return None
        size = sum(each.lease.size for each in begun)
        try:
            wanted = partition.log.read(Offset(first), size, below=Offset(below))
        except Refused:
            return None
        if wanted is None or wanted.below != below:
            # Damage, or the end of a segment.
            return None
        # Other brokers, also older ones, pick records out in the order of their offsets.
        is_gathered = self._state.coordinator_epoch is None
        records = order if is_gathered else offsets
        found = self._read_ahead.gathered(group.number, wanted, records, size)
        return None if found is None else _Stored((found,), size, is_gathered=is_gathered)

    def _take(
        self, group: Group, log: LogId, queue: DeliveryQueue, room: _Room, now: Now
    ) -> list[NewLease]:
        """What the queue hands out and may be delivered."""
        deadline = Instant(now.instant + room.visibility_ns)
        begun: list[NewLease] = []
        while not begun and queue.is_ready:
            found = queue.lease(
                room.member,
                room.count,
                room.size,
                deadline,
                self._next_serial,
                now=now.instant,
                in_flight_max=RECEIVED_MAX if is_receiver(room.member) else IN_FLIGHT_MAX,
            )
            if not found:
                break
            self._next_serial += len(found)
            begun = self._set_exhausted_aside(group, log, queue, found)
        return begun

    def _set_exhausted_aside(
        self, group: Group, log: LogId, queue: DeliveryQueue, begun: list[NewLease]
    ) -> list[NewLease]:
        """Those that may be delivered; the last delivery of the others ended with their holder.

        Their holder left, or the node stopped, or the limit was lowered since.
        """
        limit = self._state.catalog.deliveries_max(log.topic)
        if limit is None or all(each.lease.attempt <= limit for each in begun):
            return begun
        for lease, _ in begun:
            if lease.attempt > limit:
                part = LeasePart(lease, lease.in_flight)
                queue.reject(part)
                self._exhausted.append((group, log, part))
        return [each for each in begun if each.lease.attempt <= limit]

    def take_exhausted(self) -> list[tuple[Group, LogId, LeasePart]]:
        """Messages that must go to the dead letters instead of to anybody."""
        return take_all(self._exhausted)

    def forget_group(self, number: int) -> None:
        self._turns.pop(number, None)

    def _visibility_of(self, log: LogId) -> int:
        return self._state.catalog.find(log.topic).config.visibility_ns

    def _partition_leases(
        self,
        group: Group,
        partition: Partition,
        begun: list[NewLease],
        stored: _Stored,
        deadline: Timestamp,
    ) -> PartitionLeases:
        log, write = partition.log_id, self._state.lease_handles.write
        epoch = self._state.lease_epoch(log)
        assert epoch is not None, "leased from a partition that is here"
        number = group.number
        leases = tuple(
            LeasedRun(
                write(LeaseName(log, lease.attempt, number, epoch, lease.serial)),
                lease.attempt,
                offsets,
            )
            for lease, offsets in begun
        )
        return PartitionLeases(
            log=log,
            leases=leases,
            deadline=deadline,
            size=stored.size,
            seed=self._state.traces.seed(log),
            is_gathered=stored.is_gathered,
        )

    def _settle_lost(
        self,
        group: Group,
        partition: Partition,
        queue: DeliveryQueue,
        begun: list[NewLease],
        lost: frozenset[int],
    ) -> list[NewLease]:
        """Settle what was found damaged since it was read ahead; what is left of the leases."""
        ranges = [(offset, offset + 1) for offset in sorted(lost)]
        parts = [LeasePart(each.lease, each.lease.select(ranges)) for each in begun]
        offsets = queue.ack([part for part in parts if part.mask])
        settle(self._state, group, partition.log_id, offsets, at=0)
        return [
            NewLease(lease, [offset for offset in delivered if offset not in lost])
            for lease, delivered in begun
            if lease.in_flight
        ]

    def _count(self, group: Group, partition: Partition, begun: list[NewLease], now: Now) -> bool:
        """Journal the deliveries; True if they must not be handed out before.

        Nobody waits for the count of a first delivery, but in a cluster: only a commit shows that
        no other coordinator hands out the same, or has settled it already.
        """
        must_wait = self._state.coordinator_epoch is not None
        journal = self._state.journals.of_partition(partition.log_id)
        runs: dict[int, list[LeasePart]] = {}
        for lease, _ in begun:
            runs.setdefault(lease.attempt, []).append(LeasePart(lease, lease.in_flight))
        position = self._state.group_partitions.find(group.number, partition.log_id).position
        topic = self._state.catalog.find(partition.log_id.topic)
        for attempt, parts in runs.items():
            if len(parts) == 1:
                delivered_offsets, folded = parts[0].offsets, parts[0].folded
            else:
                delivered_offsets = sorted(chain.from_iterable(each.offsets for each in parts))
                folded = Folded.of(delivered_offsets)
            position.count_delivery(attempt, delivered_offsets)
            delivered = Delivered(
                group=group.number,
                topic=topic.number,
                partition=partition.log_id.partition,
                attempt=attempt,
                offsets=folded.ranges,
                steps=folded.steps,
            )
            if attempt > 1:
                must_wait = True
                self._state.tally.redeliveries += len(delivered_offsets)
            if must_wait:
                journal.note([delivered])
            else:
                journal.note_soon([delivered], now)
        self._state.arm_journal(journal)
        return must_wait


def settle(
    state: NodeState,
    group: Group,
    log: LogId,
    offsets: Sequence[int],
    *,
    at: int,
    folded: Folded | None = None,
) -> None:
    """Journal that messages, settled in the queue already, are done with; in order.

    `folded` are the same offsets, where they were folded before.
    """
    topic = state.catalog.find(log.topic)
    folded = folded or Folded.of(offsets)
    place = state.group_partitions.find(group.number, log)
    floor = place.active_queue.floor
    place.position.settle(floor, offsets, at)
    settled = Settled(
        group=group.number,
        topic=topic.number,
        partition=log.partition,
        floor=floor,
        offsets=folded.ranges,
        steps=folded.steps,
    )
    state.journals.of_partition(log).note([settled])
