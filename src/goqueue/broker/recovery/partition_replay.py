"""What the records of a partition say beside being messages: delays, producers, transactions.

Read at a start, from where the older of its snapshots ends; what a snapshot says already is told
again and changes nothing. Only topics that have such records are looked through.
"""

import msgspec

from goqueue.broker.delayed.delay_log import Replay, decode_delays, delays_snapshot
from goqueue.broker.disk_reads import ReplayFetch
from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.producer_snapshots import (
    ProducerSnapshots,
    decode_producers,
    producers_snapshot,
)
from goqueue.delivery import Delays
from goqueue.model import Load, LogId, Now, Offset
from goqueue.records import last_offset

__all__ = [
    "PartitionReplay",
]

_REPLAY_BYTES = 1024 * 1024


class _Replay(msgspec.Struct):
    """One partition on its way: which snapshots are missing, and where each subject goes on."""

    log: LogId
    missing: dict[str, None]
    delays_from: Offset | None = None
    delays: Replay | None = None
    producers_from: Offset | None = None

    @property
    def start(self) -> Offset:
        starts = [each for each in (self.delays_from, self.producers_from) if each is not None]
        return min(starts)


class PartitionReplay:
    """Brings partitions to know what their logs say."""

    def __init__(self, state: NodeState, producer_snapshots: ProducerSnapshots) -> None:
        self._state = state
        self._producer_snapshots = producer_snapshots
        self._by_name: dict[str, _Replay] = {}
        self._by_log: dict[LogId, _Replay] = {}

    def begin(self, partition: Partition) -> bool:
        """Look for snapshots; False if the log has nothing but messages."""
        topic = self._state.catalog.get(partition.log_id.topic)
        assert topic is not None
        number = partition.log_id.partition
        names = []
        if topic.stated.has_delays:
            names.append(delays_snapshot(topic.number, number))
        if topic.stated.has_producers:
            names.append(producers_snapshot(topic.number, number))
        replay = _Replay(partition.log_id, dict.fromkeys(names))
        self._by_log[partition.log_id] = replay
        for name in names:
            self._by_name[name] = replay
            self._state.outbox.append(Load(name=name))
        return bool(names)

    def loaded(self, name: str, data: bytes | None, now: Now) -> LogId | None:
        """A snapshot came, or there is none; the log, if it is known by now."""
        replay = self._by_name.pop(name)
        partition = self._state.partitions[replay.log]
        topic = self._state.catalog.get(replay.log.topic)
        assert topic is not None
        del replay.missing[name]
        if name == delays_snapshot(topic.number, replay.log.partition):
            replay.delays_from = self._recall_delays(partition, topic.number, data, now)
            replay.delays = Replay(self._state.delays[replay.log])
        else:
            replay.producers_from = self._restore_producers(partition, topic.number, data)
        if replay.missing:
            return None
        return self._read_on(replay, replay.start)

    def _recall_delays(
        self, partition: Partition, topic: int, data: bytes | None, now: Now
    ) -> Offset:
        log = partition.log
        delays = self._state.delays[partition.log_id] = Delays(now.wall)
        stated = None if data is None else decode_delays(data)
        if stated is None or stated.topic != topic:
            return log.start
        if not log.start <= stated.upto <= log.high_watermark or not delays.restore(stated):
            return log.start
        delays.drop_below(log.start)
        return Offset(stated.upto)

    def _restore_producers(self, partition: Partition, topic: int, data: bytes | None) -> Offset:
        log = partition.log
        stated = None if data is None else decode_producers(data)
        if stated is None or stated.topic != topic:
            return log.start
        if not log.start <= stated.upto <= log.high_watermark or not log.restore_producers(stated):
            return log.start
        self._producer_snapshots.recalled(partition.log_id, Offset(stated.upto))
        return Offset(stated.upto)

    def _read_on(self, replay: _Replay, offset: Offset) -> LogId | None:
        """Read the next records; the log, if there are no more."""
        log = self._state.partitions[replay.log].log
        wanted = log.read(log.readable_from(offset), _REPLAY_BYTES)
        if wanted is None:
            del self._by_log[replay.log]
            return replay.log
        self._state.fetch(wanted, ReplayFetch(replay.log, wanted.below, wanted.offset))
        return None

    def replayed(self, purpose: ReplayFetch, data: memoryview | None) -> LogId | None:
        """Records are here; the log, if they were the last."""
        replay = self._by_log[purpose.log]
        following = purpose.upto
        if data is None and self._state.partitions[purpose.log].log.is_damaged_at(purpose.offset):
            # What lies behind the damage is read again.
            following = purpose.offset
        if data is not None and len(data):
            if replay.delays is not None:
                replay.delays.apply(data)
            if replay.producers_from is not None:
                partition = self._state.partitions[purpose.log]
                partition.log.replay_producers(data, replay.producers_from)
            following = Offset(last_offset(data) + 1)
        return self._read_on(replay, following)
