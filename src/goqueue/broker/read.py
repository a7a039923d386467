"""Stream reads: committed records from an offset or a time on, waiting for the next if asked to.

The node names slices; whoever carries out the effect reads the bytes. Nothing here depends on a
group, and a read changes nothing. A watch waits for several partitions at once and brings no bytes:
it says in which of them a read would find some.

Invariant: a request that waits is listed with each partition that it waits for, and with no other.
Cost: a watch costs by its partitions when it begins to wait and when it ends. A commit that many
wait for answers as many of them as its turn may; the others follow in later turns, in order.
"""

from collections import OrderedDict

from goqueue.broker.disk_reads import ReadSearch
from goqueue.broker.partitions import Partition, WaitingRead
from goqueue.broker.state import NodeState
from goqueue.broker.tenant_quotas import TenantQuotas
from goqueue.broker.turns import Errand, ForRequest
from goqueue.model import (
    Code,
    Instant,
    LogId,
    Now,
    Offset,
    Refused,
    RequestId,
    Serve,
    Slice,
    is_internal,
)
from goqueue.model.requests import Isolation, Read, Records, Watch, Watched

__all__ = ["WATCHED_MAX", "StreamReads"]

# How many partitions one request may wait for.
WATCHED_MAX = 100
_WATCHED_PER_UNIT = 10
_WAKE_UNITS = 8

# Stands for the first offset that is kept, wherever that is.
_EARLIEST = Offset(-1)


class StreamReads:
    """Takes read commands and keeps those that wait."""

    def __init__(self, state: NodeState, quotas: TenantQuotas) -> None:
        self._state = state
        self._quotas = quotas
        self._waiting: dict[RequestId, tuple[Partition, ...]] = {}
        # Those for whom there may be news, in the order in which they are looked at.
        self._to_wake: OrderedDict[tuple[RequestId, Partition], None] = OrderedDict()

    def read(self, request: RequestId, command: Read, now: Now) -> None:
        partition = self._partition(command)
        self._quotas.check_read(command.topic, now)
        if command.timestamp is not None:
            self._state.find(partition.log.seek(command.timestamp), ReadSearch(request, command))
            return
        self._read_from(request, command, partition, command.offset, now)

    def watch(self, request: RequestId, command: Watch, now: Now) -> None:
        if not 0 < len(command.offsets) <= WATCHED_MAX:
            raise Refused(Code.REQUEST_INVALID, field="offsets", minimum=1, maximum=WATCHED_MAX)
        topic = self._state.catalog.find(command.topic)
        partitions = {
            number: self._state.partition(topic, number) for number in sorted(command.offsets)
        }
        self._state.budget.spend(len(partitions) // _WATCHED_PER_UNIT)
        news = tuple(
            number
            for number, partition in partitions.items()
            if command.offsets[number] < _limit(partition, command)
        )
        if news or command.wait_ns <= 0:
            self._state.outbox.answer(request, Watched(news))
            return
        waited = {partition: command.offsets[number] for number, partition in partitions.items()}
        self._wait(request, command, waited, now)

    def found(self, purpose: ReadSearch, offset: Offset | None, now: Now) -> None:
        """The offset of a time is known: none means that every record is older."""
        request, command = purpose.request, purpose.command
        try:
            partition = self._partition(command)
            start = partition.log.high_watermark if offset is None else offset
            self._read_from(request, command, partition, start, now)
        except Refused as refused:
            self._state.outbox.answer(request, refused)

    def wake(self, partition: Partition, now: Now) -> None:
        """Records were committed: answer those who waited for them."""
        if partition.readers:
            for request in partition.readers:
                self._to_wake[request, partition] = None
            self.wake_more(now)

    def wake_more(self, now: Now) -> None:
        """Answer one reader after the other, in as many turns as it takes."""
        while self._to_wake and not self._state.budget.is_spent:
            (request, partition), _ = self._to_wake.popitem(last=False)
            self._state.budget.spend(_WAKE_UNITS)
            waiting = partition.readers.get(request)
            if waiting is None or waiting.offset >= _limit(partition, waiting.command):
                continue
            command = waiting.command
            self._forget(request)
            if isinstance(command, Watch):
                self._state.outbox.answer(request, Watched((partition.log_id.partition,)))
                continue
            try:
                self._read_from(request, command, partition, waiting.offset, now)
            except Refused as refused:
                self._state.outbox.answer(request, refused)
        if self._to_wake:
            self._state.alarms.bring_forward(Errand.READS, now.instant)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """A waiting read ends: its time is over, or its caller is gone. False if it is not ours."""
        partitions = self._waiting.get(request)
        if partitions is None:
            return False
        waiting = self._forget(request)
        if is_gone:
            return True
        if isinstance(waiting.command, Watch):
            self._state.outbox.answer(request, Watched())
        else:
            self._answer(request, waiting.command, partitions[0], waiting.offset, None)
        return True

    def refuse_all(self, partition: Partition, refusal: Refused) -> None:
        """The partition is gone, and with it what its readers waited for."""
        for request in list(partition.readers):
            self._forget(request)
            self._state.outbox.answer(request, refusal)

    def end_all(self) -> None:
        """The node stops: nobody waits any longer."""
        for request in list(self._waiting):
            self.cancel(request)

    def _partition(self, command: Read) -> Partition:
        if is_internal(command.topic):
            log = LogId(command.topic, command.partition)
            if log in self._state.internal:
                return self._state.internal[log]
        topic = self._state.catalog.find(command.topic)
        return self._state.partition(topic, command.partition)

    def _read_from(
        self, request: RequestId, command: Read, partition: Partition, offset: Offset, now: Now
    ) -> None:
        log = partition.log
        if offset == _EARLIEST:
            offset = log.start
        if command.is_exact:
            if not log.start <= offset <= log.end:
                led = partition.leader
                if led is not None and not led.is_confirmed(now.instant):
                    # Another broker may lead, and have it.
                    raise Refused(Code.LEADER_UNAVAILABLE, partition=partition.log_id.partition)
                raise Refused(
                    Code.OFFSET_OUT_OF_RANGE, offset=offset, earliest=log.start, end=log.end
                )
        else:
            offset = max(offset, log.start)
        wanted = None
        if offset <= log.end:
            wanted = log.read(offset, command.bytes_max, below=_limit(partition, command))
        if wanted is None and command.wait_ns > 0:
            self._wait(request, command, {partition: offset}, now)
        else:
            self._answer(request, command, partition, offset, wanted)

    def _wait(
        self,
        request: RequestId,
        command: Read | Watch,
        waited: dict[Partition, Offset],
        now: Now,
    ) -> None:
        deadline = Instant(now.instant + command.wait_ns)
        for partition, offset in waited.items():
            partition.readers[request] = WaitingRead(request, command, offset, deadline)
        self._waiting[request] = tuple(waited)
        self._state.alarms.set(ForRequest(request), deadline)

    def _forget(self, request: RequestId) -> WaitingRead:
        """Wait no longer; what was waited for in the first partition."""
        self._state.alarms.set(ForRequest(request), None)
        first, *others = self._waiting.pop(request)
        for partition in others:
            del partition.readers[request]
        return first.readers.pop(request)

    def _answer(
        self,
        request: RequestId,
        command: Read,
        partition: Partition,
        offset: Offset,
        wanted: Slice | None,
    ) -> None:
        log = partition.log
        upto = offset if wanted is None else wanted.below
        aborted: tuple[tuple[int, int], ...] = ()
        if command.isolation is Isolation.READ_COMMITTED:
            aborted = log.producers.aborted.within(offset, upto)
        reply = Records(
            log=partition.log_id,
            offset=offset,
            high_watermark=log.high_watermark,
            stable=log.watermarks.stable,
            start=log.start,
            upto=upto,
            aborted=aborted,
            seed=self._state.traces.seed(partition.log_id),
        )
        if wanted is None:
            self._state.outbox.answer(request, reply)
        else:
            self._state.outbox.append(Serve(request=request, reply=reply, runs=((wanted,),)))


def _limit(partition: Partition, command: Read | Watch) -> Offset:
    """What is from here on, this reader is not shown."""
    if command.isolation is Isolation.READ_COMMITTED:
        return partition.log.watermarks.stable
    return partition.log.high_watermark
