"""What must hold of replicated partitions, whatever happens (C5 to C11).

Looks at every log that a broker keeps after each of its turns, and at every acknowledgement before
it leaves; knows who led in each epoch, and every state that the image ever gave to a partition.
"""

from collections.abc import Callable

import msgspec

from goqueue.broker import HostedLog
from goqueue.cluster import PartitionId, PartitionState
from goqueue.log import Log
from goqueue.model import LogId, LogsAcknowledged, Offset, ReplicaAppend, RequestIsrs, Send
from goqueue.records import scan
from goqueue.sim.cluster.brokers import BrokerMachine
from goqueue.sim.cluster.quorum_checks import QuorumChecks
from goqueue.sim.oracle import Violation
from goqueue.storage import log_directory, segment_name

__all__ = ["ReplicationChecks"]


class ReplicationChecks(QuorumChecks):
    """The history of partitions, and their judge."""

    def __init__(self) -> None:
        super().__init__()
        self._led: dict[tuple[PartitionId, int], str] = {}
        self._states: dict[tuple[PartitionId, int], PartitionState] = {}
        self._newest_isr: dict[PartitionId, PartitionState] = {}
        self._marks: dict[tuple[str, int, LogId], Offset] = {}
        # How far each partition is known to be committed, whoever leads.
        self._committed: dict[PartitionId, Offset] = {}
        self._running: dict[str, BrokerMachine] = {}
        # The logs that were looked at: one that was dropped and made again begins anew.
        self._logs: dict[tuple[str, int, LogId], Log] = {}
        self.leaders_total = 0
        # Whether copies vanish: only those leave an ISR at the minimum.
        self.loses_copies = False
        # Whether records are acknowledged before they are synced: then the furthest of those that
        # may have lost something leads if nobody is sure to have all.
        self.may_lose = False
        # Whose disk fails: that broker may end its process.
        self.failing: str | None = None
        # Whose records may be damaged, also such as it acknowledged; records behind damage count,
        # though a scan ends there.
        self.rotten: str | None = None
        # The epoch of the last unclean leader of each partition.
        self.unclean: dict[PartitionId, int] = {}
        # What each run of a broker acknowledged last, in which epoch.
        self._acked_ends: dict[tuple[str, int, PartitionId], tuple[int, Offset]] = {}
        # What is known of producers where a partition is committed so far, and who knew it first.
        self._producers: dict[tuple[PartitionId, Offset], tuple[str, dict[int, object]]] = {}
        # Which delayed messages wait, in the same way.
        self._delays: dict[tuple[PartitionId, Offset], tuple[str, list[tuple[int, int]]]] = {}
        # Whether producers may be forgotten with the records of theirs that are deleted.
        self.deletes = False
        # Told of each leader when it is first seen, and of ISRs that a leader asks a broker for.
        self.on_led: Callable[[BrokerMachine], None] | None = None
        self.on_wish: Callable[[BrokerMachine, RequestIsrs, str], None] | None = None

    def newest(self, where: PartitionId) -> PartitionState | None:
        """The newest state of a partition in which somebody led."""
        return self._newest_isr.get(where)

    def epochs_of(self, where: PartitionId) -> list[int]:
        """The epochs in which somebody led a partition."""
        return [epoch for led, epoch in self._led if led == where]

    # Messages

    def sending(self, machine: BrokerMachine, effect: Send) -> None:
        super().sending(machine, effect)
        message = effect.message
        if isinstance(message, LogsAcknowledged):
            for ack in message.logs:
                where = PartitionId(ack.topic, ack.partition)
                self._check_synced(machine, where, ack.durable)
                run = (machine.process.name, machine.process.incarnation, where)
                self._acked_ends[run] = (ack.epoch, ack.durable)
        elif isinstance(message, ReplicaAppend) and machine.process.name == self.rotten:
            data = b"".join(effect.data)
            if data and scan(data).end != len(data):
                raise Violation("no damage goes to another copy", f"{message.log}")
        elif isinstance(message, RequestIsrs) and self.on_wish is not None:
            self.on_wish(machine, message, effect.broker)

    def _check_synced(self, machine: BrokerMachine, where: PartitionId, durable: Offset) -> None:
        """C8: what is acknowledged is on the disk of this broker, whatever its power does."""
        member = machine.node.cluster
        hosted = None if member is None else member.replicas.hosted.get(where)
        if hosted is None or hosted.partition is None or machine.process.name == self.rotten:
            return
        log = hosted.partition.log
        if durable <= log.start:
            return
        base = max(each.base for each in log.segments if each.base < durable)
        path = f"{log_directory(hosted.log_id)}/{segment_name(base)}"
        found = scan(machine.disk.files.durable_content(path)).columns.offsets
        if not found or found[-1] + 1 < durable:
            held = found[-1] + 1 if found else base
            who = f"{machine.process.name} {hosted.log_id}"
            raise Violation("acknowledged is durable", f"{who}: {durable}, not {held}")

    def halting(self, machine: BrokerMachine, reason: str) -> None:
        if machine.process.name != self.failing:
            super().halting(machine, reason)

    # Turns

    def turned(self, machine: BrokerMachine) -> None:
        super().turned(machine)
        member = machine.node.cluster
        if member is None or member.metadata is None:
            return
        self._running[machine.process.name] = machine
        for hosted in member.replicas.hosted:
            if hosted.partition is not None:
                self._look_at(machine, hosted)
        for where, reason in member.replicas.refusals.items():
            raise Violation("no leader lacks what is committed", f"{where}: {reason}")

    def _look_at(self, machine: BrokerMachine, hosted: HostedLog) -> None:
        assert hosted.partition is not None
        log, leader = hosted.partition.log, hosted.leader
        process, member = machine.process, machine.node.cluster
        assert member is not None
        mark = (process.name, process.incarnation, hosted.log_id)
        if hosted.is_observed:
            self._check_observer(machine, hosted)
            return
        if self._logs.setdefault(mark, log) is not log:
            self._logs[mark] = log
            self._marks.pop(mark, None)
            self._acked_ends.pop((process.name, process.incarnation, hosted.where), None)
        is_lower = log.high_watermark < self._marks.get(mark, Offset(0))
        if is_lower and hosted.where not in self.unclean:
            raise Violation("the high watermark never falls", str(hosted.log_id))
        has_risen = log.high_watermark > self._marks.get(mark, Offset(0))
        self._marks[mark] = log.high_watermark
        if has_risen and log.end == log.high_watermark:
            self._compare_producers(machine, hosted)
            self._compare_delays(machine, hosted)
        if leader is None:
            self._check_kept(machine, hosted)
            delays = member.replicas.delays(hosted)
            if delays is not None and delays.leaving_count:
                raise Violation("only a leader fires", f"{process.name} {hosted.log_id}")
            return
        who = machine.process.name
        if (hosted.where, leader.epoch) not in self._led and self.on_led is not None:
            self.on_led(machine)
        known = self._led.setdefault((hosted.where, leader.epoch), who)
        if known != who:
            led = f"{known} and {who} lead {hosted.log_id} in epoch {leader.epoch}"
            raise Violation("one leader per epoch", led)
        known_isr = self._newest_isr.get(hosted.where)
        has_changed = known_isr is None or known_isr.version < leader.image.version
        self._check_isr(hosted.where, leader.image, leader.minimum)
        if leader.is_serving:
            known_committed = self._committed.get(hosted.where, Offset(0))
            self._committed[hosted.where] = max(known_committed, log.high_watermark)
        if has_risen or has_changed:
            self._check_members(machine, hosted)
        for name in leader.image.copies:
            self._check_believed(machine, hosted, name)

    def _check_observer(self, machine: BrokerMachine, hosted: HostedLog) -> None:
        """An observer holds nothing that is not committed, and is no replica."""
        assert hosted.partition is not None
        log, committed = hosted.partition.log, self._committed.get(hosted.where, Offset(0))
        who = f"{machine.process.name} {hosted.log_id}"
        if log.end > committed and not self.may_lose:
            raise Violation("an observer holds what is committed", f"{who}: {log.end}, {committed}")
        member = machine.node.cluster
        state = None if member is None else member.replicas.image.table.get(*hosted.where)
        if state is not None and machine.process.name in state.copies:
            raise Violation("an observer is no replica", who)

    def _compare_producers(self, machine: BrokerMachine, hosted: HostedLog) -> None:
        """C24: where all is committed, all copies know the same of producers.

        But for the time of a log, which begins where its copy was folded from.
        """
        assert hosted.partition is not None
        log, fold = hosted.partition.log, hosted.partition.fold
        is_behind = fold is not None and (fold.is_reading or fold.folded < log.high_watermark)
        if is_behind or self.may_lose or self.deletes or self.loses_copies:
            return
        if hosted.partition.lacks_producers and log.damaged:
            # What is damaged says nothing until it is repaired; then it must.
            return
        stated = log.producers.stated(hosted.where.topic, log.end)
        writers = [msgspec.structs.replace(each, at=0) for each in stated.writers]
        known: dict[int, object] = {each.producer: each for each in writers}
        name = machine.process.name
        other, expected = self._producers.setdefault(
            (hosted.where, log.high_watermark), (name, known)
        )
        if known != expected:
            differ = f"{hosted.log_id} at {log.end}: {other} {expected}, {name} {known}"
            raise Violation("producer state is equal", differ)

    def _compare_delays(self, machine: BrokerMachine, hosted: HostedLog) -> None:
        """C24: where all is committed, the same messages wait on all copies."""
        assert hosted.partition is not None
        log, fold, member = hosted.partition.log, hosted.partition.fold, machine.node.cluster
        is_behind = fold is not None and (fold.is_reading or fold.delays_known < log.high_watermark)
        if is_behind or self.may_lose or member is None:
            return
        delays = member.replicas.delays(hosted)
        waiting = [] if delays is None else delays.pending(len(delays))
        name = machine.process.name
        where = (hosted.where, log.high_watermark)
        other, expected = self._delays.setdefault(where, (name, waiting))
        if waiting != expected:
            differ = f"{hosted.log_id} at {log.end}: {other} {expected}, {name} {waiting}"
            raise Violation("delays are equal", differ)

    def _check_kept(self, machine: BrokerMachine, hosted: HostedLog) -> None:
        """What a follower acknowledged in an epoch it does not cut in that epoch."""
        assert hosted.partition is not None
        log, process = hosted.partition.log, machine.process
        run = (process.name, process.incarnation, hosted.where)
        epoch, acked = self._acked_ends.get(run, (0, Offset(0)))
        is_same = hosted.follower is not None and hosted.follower.epoch == epoch
        if is_same and log.end < acked:
            raise Violation("a follower keeps what it acknowledged", f"{run}: {log.end}, {acked}")

    def _check_believed(self, leading: BrokerMachine, hosted: HostedLog, name: str) -> None:
        """C11: what a leader counts of the run of a follower, that run has in this epoch."""
        assert hosted.leader is not None
        progress, machine = hosted.leader.progress(name), self._running.get(name)
        knowing = leading.node.cluster
        if progress is None or machine is None or machine.is_over or knowing is None:
            return
        if hosted.is_resigned:
            # It counts nothing any more.
            return
        member = machine.node.cluster
        copy = None if member is None else member.replicas.hosted.get(hosted.where)
        if copy is None or copy.partition is None or copy.follower is None:
            return
        is_same_run = knowing.replicas.live.get(name) == progress.broker_epoch
        # A copy that was dropped and made again is another one, as the leader will know.
        is_same_copy = copy.follower.added == progress.added
        is_same_epoch = copy.follower.epoch == hosted.leader.epoch and is_same_copy
        if not is_same_epoch or not is_same_run or self._is_new(leading, name):
            return
        log, held = copy.partition.log, progress.held
        if log.is_changing or held <= max(log.start, hosted.leader.log.start):
            return
        last = Offset(held - 1)
        is_there = log.end >= held and (
            log.epochs.epoch_at(last) == hosted.leader.log.epochs.epoch_at(last)
        )
        if not is_there:
            has = f"{name} has {hosted.log_id} up to {log.end}, not {held} of its leader"
            raise Violation("nobody is believed to hold what it lacks", has)

    def _check_members(self, leading: BrokerMachine, hosted: HostedLog) -> None:
        """C7: whoever is in the ISR, and not in doubt, and runs has all that is committed.

        Also what this leader does not yet know to be committed.
        """
        assert hosted.leader is not None
        state, newest = hosted.leader.image, self._newest_isr.get(hosted.where)
        if newest is None or newest.version > state.version or hosted.where in self.unclean:
            return
        upto = self._committed.get(hosted.where, Offset(0))
        for name in state.isr:
            if self.may_lose and (state.is_unsure(name) or self._is_new(leading, name)):
                continue
            machine = self._running.get(name)
            if machine is None or machine.is_over or machine.node.cluster is None:
                continue
            replicas = machine.node.cluster.replicas
            copy, known = replicas.hosted.find(hosted.log_id), replicas.image.table
            if copy is None or copy.partition is None or copy.where != hosted.where:
                continue
            own = known.get(*hosted.where)
            if own is None or name not in own.isr:
                # It lost its copy, and knows already that it is in sync no more.
                continue
            log = copy.partition.log
            if log.confirmed < upto and not log.is_changing:
                has = f"{name} has {hosted.log_id} up to {log.confirmed} of {log.end}, not {upto}"
                raise Violation("the ISR holds what is committed", has)

    def _is_new(self, leading: BrokerMachine, name: str) -> bool:
        """Whether a broker runs of which a leader knows only an earlier run."""
        machine = self._running.get(name)
        member, knowing = machine and machine.node.cluster, leading.node.cluster
        if machine is None or member is None or knowing is None:
            return True
        known = knowing.replicas.image.brokers.get(name)
        return known is None or known.registration.incarnation != machine.process.incarnation

    def _permit_loss(self, where: PartitionId, epoch: int) -> None:
        self.unclean[where] = max(epoch, self.unclean.get(where, 0))

    def _check_isr(self, where: PartitionId, state: PartitionState, minimum: int) -> None:
        """C9 and C12: one history, and no ISR is made smaller than the minimum."""
        known = self._states.setdefault((where, state.version), state)
        if known != state:
            raise Violation("one history", f"{where} at {state.version}")
        before = self._newest_isr.get(where)
        if before is not None and before.version < state.version:
            has_shrunk = len(state.isr) < len(before.isr)
            is_allowed = state.unclean_epoch or self.loses_copies
            if has_shrunk and len(state.isr) < minimum and not is_allowed:
                raise Violation("no ISR below the minimum", f"{where}: {state.isr}")
        if state.unclean_epoch:
            if not self.may_lose:
                raise Violation("an operator elects uncleanly", f"{where}: {state}")
            self._permit_loss(where, state.unclean_epoch)
        if self.may_lose and len(state.copies) == 1:
            # The only copy leads after a crash with what it has left; so does one that is the only
            # one since a move, after an unclean election before that.
            self._permit_loss(where, state.epoch)
        if before is None or before.version < state.version:
            self._newest_isr[where] = state
            self.leaders_total += before is None or before.epoch != state.epoch
