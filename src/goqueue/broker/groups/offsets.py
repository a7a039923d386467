"""Commands about where groups stand: committed, asked for, reset, and how far behind.

A commit moves forward only; a reset goes anywhere in the log and makes every open lease stale.

Up to 250 positions change in one turn, all or none. More are checked together and then changed in
portions, each of them whole: a crash, or a generation that ends in between, leaves the first.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from goqueue.broker.disk_reads import LagFetch, ResetSearch
from goqueue.broker.groups.polls import Polls
from goqueue.broker.journal import Journal
from goqueue.broker.journal_changes import (
    Change,
    DeliveryReleased,
    GivenBack,
    PositionAdded,
    PositionChange,
    PositionCut,
    PositionMoved,
    Settled,
)
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Steps
from goqueue.delivery import PositionStated
from goqueue.groups import Group
from goqueue.model import Code, LogId, Now, Offset, Refused, RequestId, Timestamp
from goqueue.model.requests import (
    Assignor,
    CommitOffsets,
    DescribeLag,
    DescribeOffsets,
    Lag,
    Mode,
    Offsets,
    PartitionLag,
    PositionReset,
    PositionsReset,
    ResetOffsets,
    Strategy,
)
from goqueue.records import walk
from goqueue.security import FieldChange, NameFilter
from goqueue.tracing import Kind

__all__ = [
    "Positions",
]

# So many positions are changed together.
_PORTION = 250
# The audit log says of so many where they are now.
_TOLD = 64

T = TypeVar("T")


class _Reset(msgspec.Struct):
    """A reset by time whose offsets are being looked for."""

    request: RequestId
    command: ResetOffsets
    offsets: dict[LogId, Offset | None]
    missing: int


class _Probe(msgspec.Struct):
    """A question for lag whose oldest messages are being looked at."""

    request: RequestId
    group: str
    lags: dict[LogId, PartitionLag]
    missing: int


class Positions:
    """Takes commands about positions."""

    def __init__(self, state: NodeState, polls: Polls, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas
        self._polls = polls
        self._resets: dict[RequestId, _Reset] = {}
        self._probes: dict[RequestId, _Probe] = {}

    # Applying: the only mutators of durable state

    def apply(self, change: PositionChange, at: Timestamp) -> None:
        """Become what a change says, whether or not its group is known yet, or still.

        Groups may be in another journal, which is replayed before or after this one; a start ends
        by dropping the positions of those that are gone. Numbers of groups are never used again.
        """
        topic = self._state.catalog.numbered(change.topic)
        if topic is None:
            return
        log = LogId(topic.name, change.partition)
        position = self._state.group_partitions.open(change.group, log).position
        match change:
            case Settled():
                position.settle(change.floor, change.unfold(), at)
                if change.metadata:
                    position.record_metadata(change.floor, change.metadata)
                if change.is_buried:
                    position.record_dead_letters(change.unfold())
            case PositionMoved():
                position.restore(change.position)
            case PositionAdded():
                position.add(change.position)
            case PositionCut():
                position.cut(change.end)
            case GivenBack():
                position.record_reason(change.offset, change.reason)
            case DeliveryReleased():
                position.release_delivery(change.attempt, position.unsettled(change.unfold()))
            case _:
                # A snapshot may know already that they were settled afterwards.
                delivered = position.unsettled(change.unfold())
                position.count_delivery(change.attempt, delivered)

    # Committing

    def commit(self, request: RequestId, command: CommitOffsets, now: Now) -> None:
        state = self._state
        state.journals.of_group(command.group).check_room()
        group = state.groups.get(command.group)
        self.check(group, command)
        if group is None:
            self.form(command.group, now)
        if len(command.offsets) <= _PORTION:
            committed = self._commit_portion(command, list(command.offsets.items()), now)
            self._answer_committed(request, command, committed, now)
        else:
            state.stepwise.begin(request, self._commit_in_portions(request, command, now), now)

    def _commit_in_portions(self, request: RequestId, command: CommitOffsets, now: Now) -> Steps:
        committed: dict[LogId, Offset] = {}
        for portion in _portions(command.offsets.items()):
            group = self._state.groups.find(command.group)
            self._check_committer(group, command)
            for log, offset in portion:
                self._check_commit(group, command, log, offset)
            committed.update(self._commit_portion(command, portion, now))
            yield len(portion)
        self._answer_committed(request, command, committed, now)

    def _commit_portion(
        self, command: CommitOffsets, portion: Sequence[tuple[LogId, Offset]], now: Now
    ) -> dict[LogId, Offset]:
        """Where the group stands in these partitions now."""
        state = self._state
        group = state.groups.find(command.group)
        at = state.steady(now).wall
        for log, offset in portion:
            change = Settled(
                group=group.number,
                topic=state.catalog.find(log.topic).number,
                partition=log.partition,
                floor=offset,
                metadata=(command.metadata or {}).get(log, ""),
            )
            self.apply(change, at)
            state.journals.of_partition(log).note([change])
            queue = state.group_partitions.queue(group.number, log)
            if queue is not None:
                state.traces.leased(Kind.ACK, group, log, queue.settle_below(offset), now)
        return {log: state.committed(group.number, state.partitions[log]) for log, _ in portion}

    def _answer_committed(
        self, request: RequestId, command: CommitOffsets, committed: dict[LogId, Offset], now: Now
    ) -> None:
        group = self._state.groups.find(command.group)
        if command.member_id is not None:
            group.hear(command.member_id, now)
        at = self._state.steady(now).wall
        reply = Offsets(
            group=group.name, offsets=committed, generation=group.generation, updated_at=at
        )
        self._state.journals.answer(request, reply, self._journals_of(group, committed))
        self._polls.wake_group(group, now)

    def _journals_of(self, group: Group, logs: Iterable[LogId]) -> list[Journal[Change]]:
        """What a reply about a group in these partitions waits for."""
        journals = self._state.journals
        return [journals.of_group(group.name), *map(journals.of_partition, logs)]

    def form(self, name: str, now: Now) -> Group:
        """A group that nobody joined yet: it only has a place."""
        self._quotas.check_new_group(name)
        steady = self._state.steady(now)
        stated = self._state.groups.form(name, Mode.PARTITIONED, Assignor.RANGE, steady)
        group = self._state.groups.apply(stated)
        assert group is not None
        self._state.journals.of_group(name).note([stated])
        return group

    def check(self, group: Group | None, command: CommitOffsets) -> None:
        """Refuse a commit that its group, its member or its offsets do not allow."""
        self._check_committer(group, command)
        for log, offset in command.offsets.items():
            self._check_commit(group, command, log, offset)

    def _check_committer(self, group: Group | None, command: CommitOffsets) -> None:
        if not command.offsets:
            raise Refused(
                Code.REQUEST_INVALID, field="offsets", reason="must name at least one offset"
            )
        if group is None:
            if command.member_id is not None:
                self._state.groups.find(command.group)
            return
        if command.member_id is not None:
            group.check_member(command.member_id)
        elif group.members:
            raise Refused(
                Code.MEMBER_NOT_FOUND, reason="the group has members, so `member_id` is required"
            )
        group.check_generation(command.generation)

    def _check_commit(
        self, group: Group | None, command: CommitOffsets, log: LogId, offset: Offset
    ) -> None:
        topic = self._state.catalog.find(log.topic)
        partition = self._state.partition(topic, log.partition)
        if group is not None and command.member_id is not None:
            group.check_owner(command.member_id, log, command.generation)
        _check_within(partition, offset)

    # Asking

    def describe(self, request: RequestId, command: DescribeOffsets, now: Now) -> None:
        group = self._state.groups.find(command.group)
        steps = self._describe(request, command, group, self._state.access.visible_topics())
        self._state.stepwise.begin(request, steps, now)

    def _describe(
        self, request: RequestId, command: DescribeOffsets, group: Group, sees: NameFilter
    ) -> Steps:
        state = self._state
        offsets: dict[LogId, Offset] = {}
        metadata: dict[LogId, str] = {}
        newest = 0
        for name in state.topics_of(group) if command.topic is None else (command.topic,):
            topic = state.catalog.get(name) if sees is None or sees(name) else None
            for number in range(0 if topic is None else topic.stated.partitions):
                log = LogId(name, number)
                position = state.group_partitions.position(group.number, log)
                partition = state.partitions.get(log)
                if position is not None and partition is not None and position.updated_at:
                    offsets[log] = state.committed(group.number, partition)
                    newest = max(newest, position.updated_at)
                    if position.metadata:
                        metadata[log] = position.metadata
                yield 1
        # It may be deleted by now.
        group = state.groups.find(command.group)
        reply = Offsets(
            group=group.name,
            offsets=offsets,
            generation=group.generation,
            updated_at=Timestamp(newest) if newest else None,
            metadata=metadata or None,
        )
        state.journals.answer(request, reply, self._journals_of(group, offsets))

    # Resetting

    def reset(self, request: RequestId, command: ResetOffsets, now: Now) -> None:
        state = self._state
        if not command.is_dry_run:
            state.journals.of_group(command.group).check_room()
        state.groups.find(command.group)
        topic = state.catalog.find(command.topic)
        if command.partition is None:
            partitions = [state.partitions[log] for log in topic.logs]
        else:
            partitions = [state.partition(topic, command.partition)]
        if command.strategy is Strategy.TIMESTAMP:
            self._seek(request, command, partitions)
            return
        offsets = {each.log_id: _goal(command, each) for each in partitions}
        self._move(request, command, offsets, now)

    def _seek(self, request: RequestId, command: ResetOffsets, partitions: list[Partition]) -> None:
        if command.timestamp is None:
            raise Refused(Code.REQUEST_INVALID, field="timestamp", reason="is missing")
        self._resets[request] = _Reset(request, command, {}, len(partitions))
        for partition in partitions:
            seeks = partition.log.seek(command.timestamp)
            self._state.find(seeks, ResetSearch(request, partition.log_id))

    def found(self, purpose: ResetSearch, offset: Offset | None, now: Now) -> None:
        reset = self._resets.get(purpose.request)
        if reset is None:
            return
        reset.offsets[purpose.log] = offset
        reset.missing -= 1
        if reset.missing:
            return
        del self._resets[purpose.request]
        try:
            self._state.groups.find(reset.command.group)
            topic = self._state.catalog.find(reset.command.topic)
            offsets = {
                log: self._state.partition(topic, log.partition).log.high_watermark
                if found is None
                else found
                for log, found in sorted(reset.offsets.items())
            }
        except Refused as refused:
            self._state.outbox.answer(purpose.request, refused)
        else:
            self._move(purpose.request, reset.command, offsets, now)

    def _move(
        self,
        request: RequestId,
        command: ResetOffsets,
        offsets: dict[LogId, Offset],
        now: Now,
    ) -> None:
        if len(offsets) <= _PORTION:
            reset = self._move_portion(command, list(offsets.items()), now)
            self._answer_reset(request, command, reset, now)
        else:
            steps = self._move_in_portions(request, command, offsets, now)
            self._state.stepwise.begin(request, steps, now)

    def _move_in_portions(
        self, request: RequestId, command: ResetOffsets, offsets: dict[LogId, Offset], now: Now
    ) -> Steps:
        reset: list[PositionReset] = []
        topic = self._state.catalog.find(command.topic).number
        for portion in _portions(offsets.items()):
            if self._state.catalog.numbered(topic) is None:
                raise Refused(Code.TOPIC_NOT_FOUND, topic=command.topic)
            reset.extend(self._move_portion(command, portion, now))
            yield len(portion)
        self._answer_reset(request, command, reset, now)

    def _move_portion(
        self, command: ResetOffsets, portion: Sequence[tuple[LogId, Offset]], now: Now
    ) -> list[PositionReset]:
        """What this much of a reset comes to."""
        group = self._state.groups.find(command.group)
        reset = []
        for log, offset in portion:
            end = self._state.partitions[log].log.watermarks.stable
            hidden = self._state.hidden_within(log, offset, end)
            lag = max(0, end - offset - hidden)
            reset.append(PositionReset(log=log, offset=offset, lag=lag))
            if not command.is_dry_run:
                self._put(group, log, offset, now)
        return reset

    def _answer_reset(
        self, request: RequestId, command: ResetOffsets, reset: list[PositionReset], now: Now
    ) -> None:
        group = self._state.groups.find(command.group)
        reply = PositionsReset(group=group.name, positions=tuple(reset))
        if command.is_dry_run:
            self._state.outbox.answer(request, reply)
            return
        changes = [
            FieldChange("topic", new=command.topic),
            FieldChange("strategy", new=command.strategy.value),
            *(FieldChange(str(each.log.partition), new=str(each.offset)) for each in reset[:_TOLD]),
        ]
        self._state.audit.record(request, self._state.journals.of_group(group.name), changes)
        logs = [each.log for each in reset]
        self._state.journals.answer(request, reply, self._journals_of(group, logs))
        self._polls.wake_group(group, now)

    def _put(self, group: Group, log: LogId, offset: Offset, now: Now) -> None:
        """Start a group again at `offset`; what it had leased there is stale."""
        at = self._state.steady(now).wall
        change = PositionMoved(
            group=group.number,
            topic=self._state.catalog.find(log.topic).number,
            partition=log.partition,
            position=PositionStated(floor=offset, updated_at=at),
        )
        self._polls.forget_queue(group.number, log)
        self.apply(change, at)
        self._state.journals.of_partition(log).note([change])

    def begin_at_end(self, group: Group, topics: tuple[str, ...], now: Now) -> None:
        """A group that starts with the latest: its place is where these logs end now."""
        for name in sorted(set(topics)):
            for log in self._state.catalog.find(name).logs:
                position = self._state.group_partitions.position(group.number, log)
                if position is None or not position.says_something:
                    self._put(group, log, self._state.partitions[log].log.watermarks.stable, now)

    def forget_logs(self, logs: Sequence[LogId]) -> None:
        """The logs of a topic are gone, and everybody's place in them."""
        places = self._state.group_partitions
        for number in places.groups:
            for place in places.of_group_on(number, logs):
                self._polls.forget_queue(number, place.log)
                places.remove(place)

    # Lag

    def lag(self, request: RequestId, command: DescribeLag, now: Now) -> None:
        group = self._state.groups.find(command.group)
        # The probe itself is the first that it waits for, until every partition was looked at.
        probe = self._probes[request] = _Probe(request, group.name, {}, 1)
        # Goes on although its caller may leave: reads that are under way name the probe.
        sees = self._state.access.visible_topics()
        self._state.stepwise.begin(None, self._probe_lag(probe, group, sees), now)

    def _probe_lag(self, probe: _Probe, group: Group, sees: NameFilter) -> Steps:
        state = self._state
        for name in state.topics_of(group):
            topic = state.catalog.get(name) if sees is None or sees(name) else None
            # Where it has no place yet, it is behind from where it would begin.
            for number in range(0 if topic is None else topic.stated.partitions):
                if state.groups.numbered(group.number) is None:
                    del self._probes[probe.request]
                    refusal = Refused(Code.GROUP_NOT_FOUND, group=group.name)
                    state.outbox.answer(probe.request, refusal)
                    return
                partition = state.partitions.get(LogId(name, number))
                if partition is not None:
                    lag = probe.lags[partition.log_id] = self._lag_of(group.number, partition)
                    self._look_at_oldest(probe, group.number, partition, lag)
                yield 1
        probe.missing -= 1
        if not probe.missing:
            self._answer(probe)

    def _lag_of(self, number: int, partition: Partition) -> PartitionLag:
        queue = self._state.group_partitions.queue(number, partition.log_id)
        return PartitionLag(
            log=partition.log_id,
            committed=self._state.committed(number, partition),
            end=partition.log.high_watermark,
            lag=self._state.lag(number, partition),
            in_flight=0 if queue is None else queue.in_flight,
            time_lag_ns=0,
        )

    def _look_at_oldest(
        self, probe: _Probe, number: int, partition: Partition, lag: PartitionLag
    ) -> None:
        if lag.lag <= 0:
            return
        queue = self._state.group_partitions.queue(number, partition.log_id)
        oldest = lag.committed if queue is None else max(queue.floor, lag.committed)
        oldest = self._state.skip_hidden(partition, oldest)
        try:
            wanted = partition.log.read(oldest, 1, below=partition.log.watermarks.stable)
        except Refused:
            return
        if wanted is not None:
            probe.missing += 1
            self._state.fetch(wanted, LagFetch(probe.request, partition.log_id))

    def records_fetched(self, purpose: LagFetch, data: memoryview | None, now: Now) -> None:
        probe = self._probes.get(purpose.request)
        if probe is None:
            return
        columns = walk(data) if data is not None and len(data) else None
        if columns is not None:
            age = max(0, now.wall - columns.timestamps[0])
            lag = probe.lags[purpose.log]
            probe.lags[purpose.log] = msgspec.structs.replace(lag, time_lag_ns=age)
        probe.missing -= 1
        if not probe.missing:
            self._answer(probe)

    def _answer(self, probe: _Probe) -> None:
        del self._probes[probe.request]
        reply = Lag(group=probe.group, partitions=tuple(probe.lags.values()))
        behind = map(self._state.journals.of_partition, probe.lags)
        journals = [self._state.journals.of_group(probe.group), *behind]
        self._state.journals.answer(probe.request, reply, journals)


def _portions(items: Iterable[T]) -> Iterator[list[T]]:
    """The items, so many at a time as are changed together."""
    rest = iter(items)
    while portion := list(islice(rest, _PORTION)):
        yield portion


def _goal(command: ResetOffsets, partition: Partition) -> Offset:
    log = partition.log
    match command.strategy:
        case Strategy.EARLIEST:
            return log.start
        case Strategy.LATEST:
            return log.watermarks.stable
        case _:
            if command.offset is None:
                raise Refused(Code.REQUEST_INVALID, field="offset", reason="is missing")
            _check_within(partition, command.offset)
            return max(command.offset, log.start)


def _check_within(partition: Partition, offset: Offset) -> None:
    log = partition.log
    if not 0 <= offset <= log.high_watermark:
        raise Refused(
            Code.OFFSET_OUT_OF_RANGE, offset=offset, earliest=log.start, end=log.high_watermark
        )
