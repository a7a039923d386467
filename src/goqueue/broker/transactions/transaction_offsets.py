"""Offsets and acks as a part of a transaction, and where a group stands meanwhile.

Handles `AddOffsets`: offsets and receipts are checked when they are added, with the member and
generation of that moment; from then on the messages are held, so nothing that happens to the group
in between can hand them to anybody else. Handles `DescribeOffsets`: whoever asks for what is stable
waits while a transaction may still move it.
"""

from goqueue.broker.groups.acks import Acks
from goqueue.broker.groups.offsets import Positions
from goqueue.broker.state import NodeState
from goqueue.broker.transactions.progress import TransactionProgress
from goqueue.broker.turns import ForRequest, take_all
from goqueue.delivery import LeasePart
from goqueue.groups import Group
from goqueue.model import SECOND, Code, Instant, LogId, Now, Refused, RequestId, runs
from goqueue.model.requests import AddOffsets, CommitOffsets, DescribeOffsets, Done
from goqueue.security import Admitted
from goqueue.transactions import ProgressAdded, Transaction

__all__ = ["TransactionOffsets"]

_WAIT_NS = 30 * SECOND
_PROGRESS_MAX = 100_000


class TransactionOffsets:
    """Takes the progress of groups into transactions."""

    def __init__(
        self,
        state: NodeState,
        progress: TransactionProgress,
        positions: Positions,
        acks: Acks,
    ) -> None:
        self._state = state
        self._progress = progress
        self._positions = positions
        self._acks = acks
        # Requests that wait until no transaction may move their group.
        self._waiting: dict[RequestId, tuple[DescribeOffsets, Admitted | None]] = {}
        # Holds True once something is gone.
        self._gone: list[bool] = []
        state.follow_ups.append(self._gone)

    # Adding

    def add(self, request: RequestId, command: AddOffsets, now: Now) -> None:
        state = self._state
        state.journals.of_producers.check_room()
        producer = state.find_owner(command.owner, now)
        transaction = state.transactions.writable(producer)
        if not command.offsets and not command.receipts:
            raise Refused(Code.REQUEST_INVALID, field="offsets", reason="is missing")
        if transaction.progress_count >= _PROGRESS_MAX:
            raise Refused(Code.QUOTA_EXCEEDED, quota="progress", limit=_PROGRESS_MAX)
        group = state.groups.get(command.group)
        if command.receipts or not command.offsets:
            group = state.groups.find(command.group)
        if command.offsets:
            self._positions.check(group, _plain(command))
        leases: dict[LogId, list[LeasePart]] = {}
        if group is not None and command.receipts:
            receipts = dict.fromkeys(command.receipts)
            leases = self._acks.find_all(group, receipts, transaction.key, now)
        # Nothing is refused from here on.
        group = group or self._positions.form(command.group, now)
        changes = [
            *self._offsets(transaction, group, command),
            *self._hold(transaction, group, leases),
        ]
        self._progress.add(changes, now)
        if command.member_id is not None and group.has_member(command.member_id):
            group.hear(command.member_id, now)
        # Journals that this wrote to; the group may be new.
        touched = [state.journals.of_group(group.name)]
        for change in changes:
            topic = state.catalog.numbered(change.topic)
            assert topic is not None, "its offsets were checked"
            touched.append(state.journals.of_partition(LogId(topic.name, change.partition)))
            touched[-1].note([change])
        state.journals.answer(request, Done(), touched)

    def _offsets(
        self, transaction: Transaction, group: Group, command: AddOffsets
    ) -> list[ProgressAdded]:
        return [
            ProgressAdded(
                producer=transaction.producer,
                number=transaction.number,
                group=group.number,
                topic=self._state.catalog.find(log.topic).number,
                partition=log.partition,
                floor=offset,
            )
            for log, offset in command.offsets.items()
        ]

    def _hold(
        self, transaction: Transaction, group: Group, held: dict[LogId, list[LeasePart]]
    ) -> list[ProgressAdded]:
        changes = []
        for log, parts in held.items():
            queue = self._state.group_partitions.find(group.number, log).active_queue
            for part in parts:
                queue.hold(part)
            changes.append(
                ProgressAdded(
                    producer=transaction.producer,
                    number=transaction.number,
                    group=group.number,
                    topic=self._state.catalog.find(log.topic).number,
                    partition=log.partition,
                    offsets=runs(sorted(offset for part in parts for offset in part.offsets)),
                )
            )
        return changes

    # Asking where a group stands

    def describe(self, request: RequestId, command: DescribeOffsets, now: Now) -> None:
        """Answer with what is committed; if asked, not while a transaction may move it."""
        if command.is_stable and self._is_undecided(command):
            self._waiting[request] = (command, self._state.access.note_command())
            deadline = Instant(now.instant + _WAIT_NS)
            self._state.alarms.set(ForRequest(request), deadline)
        else:
            self._positions.describe(request, command, now)

    def check_again(self) -> None:
        """A group or a topic is gone: nothing of it is undecided any longer."""
        self._gone[:] = [True]

    def answer_decided(self, now: Now) -> None:
        """Answer requests whose group no transaction may move any more."""
        was_decided = self._progress.take_decided()
        if not take_all(self._gone) and not was_decided:
            return
        for request, (command, admitted) in list(self._waiting.items()):
            try:
                if not self._is_undecided(command):
                    with self._state.access.resuming(admitted, now):
                        self._positions.describe(request, command, now)
                    self._forget(request)
            except Refused as refused:
                # The group is gone.
                self._forget(request)
                self._state.outbox.answer(request, refused)

    def cancel(self, request: RequestId, *, is_gone: bool = False) -> bool:
        """Somebody waited long enough, or is gone. False if it is not ours."""
        if request not in self._waiting:
            return False
        self._forget(request)
        if not is_gone:
            refusal = Refused(Code.LOG_BUSY, reason="a transaction holds offsets of the group")
            self._state.outbox.answer(request, refusal)
        return True

    def _forget(self, request: RequestId) -> None:
        del self._waiting[request]
        self._state.alarms.set(ForRequest(request), None)

    def _is_undecided(self, command: DescribeOffsets) -> bool:
        group = self._state.groups.find(command.group).number
        if command.topic is None:
            return self._progress.is_undecided(group, None)
        topic = self._state.catalog.get(command.topic)
        return topic is not None and self._progress.is_undecided(group, topic.number)


def _plain(command: AddOffsets) -> CommitOffsets:
    """The same without a transaction: it is allowed just if this is."""
    return CommitOffsets(
        group=command.group,
        offsets=command.offsets,
        member_id=command.member_id,
        generation=command.generation,
    )
