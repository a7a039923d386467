"""Snapshots of what partitions know of their producers: they save a start the reading.

A statement is made of the log as far as it goes, and kept once all of that is durable: what a crash
could still take back must not be remembered.
"""

from collections.abc import Iterable

import msgspec

from goqueue.broker.partitions import Partition
from goqueue.broker.state import NodeState
from goqueue.log import ProducersStated
from goqueue.model import LogId, Offset, Save

__all__ = ["ProducerSnapshots", "decode_producers", "producers_snapshot"]

# A start reads about this much again, per partition, if the node was killed.
_CHANGES_MAX = 20_000
_RECORDS_MAX = 250_000
# Larger snapshots are copied here and encoded by the shell; a unit of a turn is so many copied.
_ENCODED_MAX = 200
_COPIED_PER_UNIT = 10_000
_WRITERS_PER_UNIT = 100
_DECODER = msgspec.json.Decoder(ProducersStated)


def producers_snapshot(topic: int, partition: int) -> str:
    """The name of the snapshot of a partition's producers: by number, since names may be long."""
    return f"authors-{topic}-{partition}"


def decode_producers(data: bytes) -> ProducersStated | None:
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError:
        return None


def _known_upto(partition: Partition) -> Offset:
    """How far the producers of a log are known: a follower knows them where it is committed."""
    return partition.log.end if partition.fold is None else partition.fold.folded


class ProducerSnapshots:
    """Keeps a snapshot of each partition that producers write to."""

    def __init__(self, state: NodeState) -> None:
        self._state = state
        # How far the last snapshot of each log reaches, and those that are not durable yet.
        self._upto: dict[LogId, Offset] = {}
        self._pending: dict[LogId, tuple[Offset, Save]] = {}

    def recalled(self, log: LogId, upto: Offset) -> None:
        """A start found a snapshot that reaches so far."""
        self._upto[log] = upto

    def save_if_due(self, partition: Partition) -> None:
        """Keep a snapshot if much has happened since the last, or if there is none."""
        log = partition.log
        if partition.fold is not None and partition.fold.is_reading:
            return
        topic = self._state.catalog.get(partition.log_id.topic)
        if topic is None or not topic.may_mark or log.failure is not None:
            return
        # What is stated grows with what was hidden, so it is stated less often then.
        known = len(log.producers.hidden)
        since = _known_upto(partition) - self._upto.get(partition.log_id, Offset(-1 << 62))
        has_changed = log.producers.changes >= max(_CHANGES_MAX, known // 2)
        if has_changed or since >= max(_RECORDS_MAX, 2 * known):
            self._save(partition, topic.number)

    def save_all(self) -> None:
        """The node stops: make the next start fast."""
        for partition in self._state.partitions:
            topic = self._state.catalog.get(partition.log_id.topic)
            is_known = partition.fold is None or not partition.fold.is_reading
            if topic is not None and topic.may_mark and is_known and partition.log.failure is None:
                self._save(partition, topic.number)

    def _save(self, partition: Partition, topic: int) -> None:
        upto = _known_upto(partition)
        log = partition.log_id
        if upto == 0 or partition.lacks_producers or self._upto.get(log) == upto:
            # Of an empty log there is nothing to say, and a node may have thousands of those.
            return
        self._upto[log] = upto
        producers = partition.log.producers
        ranges, writers = len(producers.hidden), len(producers)
        self._state.budget.spend(1 + ranges // _COPIED_PER_UNIT + writers // _WRITERS_PER_UNIT)
        has_delays = log in self._state.delays
        stated = msgspec.structs.replace(producers.stated(topic, upto), has_delays=has_delays)
        is_small = ranges + writers <= _ENCODED_MAX
        data = msgspec.json.encode(stated) if is_small else stated
        save = Save(name=producers_snapshot(topic, log.partition), data=data)
        self._pending[log] = (upto, save)
        self.durable(partition)

    def durable(self, partition: Partition) -> None:
        """More of a log is durable: keep what was stated of it."""
        pending = self._pending.get(partition.log_id)
        if pending is None:
            return
        log = partition.log
        if pending[0] <= min(log.watermarks.durable, log.high_watermark):
            del self._pending[partition.log_id]
            self._state.outbox.append(pending[1])

    def taken_back(self, log: LogId) -> None:
        """The end of a log is not what it was: what was stated of it is not true."""
        if self._pending.pop(log, None) is not None:
            del self._upto[log]

    def forget_logs(self, logs: Iterable[LogId]) -> None:
        """The logs are gone, and with them their producers."""
        for log in logs:
            self._pending.pop(log, None)
            self._upto.pop(log, None)
